//! Annotations of ingress-nginx: what is carried, what is left out, and what closes the paths of an Ingress because it keeps somebody out.

use super::Making;
use super::manifests::{Annotation, Ingress};
use crate::addresses::{is_authority, is_host, network};
use crate::migration::Place;
use crate::native::{Map, Value, bytes};
use crate::nginx::values::Values;

/// What an Ingress says besides its paths.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) is_by_expression: bool,
    pub(super) rewrite: Option<String>,
    pub(super) redirects_to_tls: bool,
    pub(super) forces_tls: bool,
    pub(super) is_canary: bool,
    pub(super) app_root: Option<String>,
    pub(super) redirect: Option<(String, u16)>,
    pub(super) aliases: Vec<String>,
    /// Keys of routes, and of upstreams.
    pub(super) keys: Map,
    pub(super) upstream: Map,
    pub(super) policies: Vec<String>,
    pub(super) comments: Vec<String>,
    /// Why nobody gets there.
    pub(super) closed: Option<(Place, String, String)>,
}

/// What all annotations begin with.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// Why an annotation is left out whose value says nothing.
const NOT_UNDERSTOOD: &str = "its value is not understood";

/// Annotations that keep somebody out, or may.
const GUARDS: &[&str] = &[
    "auth-",
    "enable-modsecurity",
    "modsecurity-",
    "enable-owasp",
    "satisfy",
    "enable-global-auth",
    "whitelist-source-range",
    "allowlist-source-range",
    "denylist-source-range",
    "global-rate-limit-deny",
    "ssl-passthrough",
    "secure-verify",
];
/// Words of snippets that decide about requests.
const DECIDING: &[&str] = &[
    "deny",
    "allow",
    "auth_",
    "return",
    "if ",
    "if(",
    "rewrite",
    "internal",
    "limit_except",
    "lua",
    "valid_referers",
    "secure_link",
];
/// What has no meaning here.
const HARMLESS: &[&str] = &[
    "proxy-buffering",
    "proxy-buffer-size",
    "proxy-buffers-number",
    "proxy-max-temp-file-size",
    "proxy-request-buffering",
    "proxy-send-timeout",
    "proxy-http-version",
    "client-body-buffer-size",
    "enable-access-log",
    "enable-rewrite-log",
    "use-regex",
    "session-cookie-name",
    "session-cookie-max-age",
    "session-cookie-expires",
    "session-cookie-path",
    "session-cookie-hash",
    "session-cookie-change-on-failure",
    "session-cookie-samesite",
    "session-cookie-secure",
    "affinity-mode",
    "service-upstream",
    "connection-proxy-header",
    "proxy-next-upstream-timeout",
    "limit-burst-multiplier",
    "permanent-redirect-code",
    "temporal-redirect-code",
    "auth-realm",
    "auth-method",
    "auth-response-headers",
    "auth-cache-duration",
    "auth-cache-key",
    "auth-keepalive",
    "preserve-trailing-slash",
    "ssl-prefer-server-ciphers",
];

impl Making<'_> {
    /// Reads the annotations of an Ingress.
    pub(super) fn wanted(&mut self, ingress: &Ingress) -> Wanted {
        let mut wanted = Wanted { redirects_to_tls: true, ..Wanted::default() };
        let value = |name: &str| {
            let found = ingress.annotations.iter().rev().find(|one| one.name.strip_prefix(PREFIX) == Some(name));
            found.map(|one| one.value.as_str())
        };
        wanted.is_by_expression =
            value("use-regex") == Some("true") || value("rewrite-target").is_some_and(|target| target.contains('$'));
        for annotation in &ingress.annotations {
            let Some(name) = annotation.name.strip_prefix(PREFIX) else { continue };
            if self.of_targets(name, annotation, &mut wanted)
                || self.of_routes(name, annotation, &mut wanted)
                || self.of_servers(name, annotation, ingress, &mut wanted)
            {
                continue;
            }
            if self.of_access(name, annotation, ingress, &mut wanted) || HARMLESS.contains(&name) {
                continue;
            }
            self.unknown(name, annotation, &mut wanted);
        }
        wanted
    }

    fn unknown(&mut self, name: &str, annotation: &Annotation, wanted: &mut Wanted) {
        let is_snippet = name.ends_with("-snippet");
        let decides = is_snippet && DECIDING.iter().any(|word| annotation.value.contains(word));
        if decides || GUARDS.iter().any(|guard| name.starts_with(guard)) {
            let why =
                if is_snippet { "it may decide about requests" } else { "it keeps somebody out, and is not carried" };
            wanted.closed = Some((annotation.place.clone(), shown(annotation), why.to_owned()));
            return;
        }
        let why = match name {
            name if name.starts_with("canary") => {
                "a canary has no route of its own; `split` of a route sends a share elsewhere"
            }
            "enable-cors" | "cors-allow-origin" | "cors-allow-methods" => "origins are allowed by a policy (`cors`)",
            _ if is_snippet => "there are no directives of nginx here",
            _ => "it is not known here",
        };
        self.left_out(annotation, why, wanted);
    }

    /// Says in a comment, and in the report, why an annotation is not carried.
    fn left_out(&self, annotation: &Annotation, why: &str, wanted: &mut Wanted) {
        wanted.comments.push(self.report.left_out(&annotation.place, &shown(annotation), why));
    }

    /// Annotations about where requests go. Whether it is one.
    fn of_targets(&mut self, name: &str, annotation: &Annotation, wanted: &mut Wanted) -> bool {
        let value = annotation.value.trim();
        let fits = match name {
            "rewrite-target" => {
                wanted.rewrite = Some(value.to_owned());
                true
            }
            "ssl-redirect" => {
                wanted.redirects_to_tls = value != "false";
                true
            }
            "force-ssl-redirect" => {
                wanted.forces_tls = value == "true";
                true
            }
            "canary" => {
                wanted.is_canary = value == "true";
                if wanted.is_canary {
                    let why = "a canary has no route of its own; `split` of a route sends a share elsewhere";
                    let comment = self.report.left_out(&annotation.place, &shown(annotation), why);
                    self.draft.comment(comment);
                }
                true
            }
            "app-root" => {
                wanted.app_root = Some(value.to_owned()).filter(|root| is_target(root));
                wanted.app_root.is_some()
            }
            "permanent-redirect" | "temporal-redirect" => {
                let status = if name == "permanent-redirect" { 301 } else { 302 };
                wanted.redirect = Some((value.to_owned(), status)).filter(|(to, _)| is_target(to));
                wanted.redirect.is_some()
            }
            _ => return false,
        };
        if !fits {
            self.left_out(annotation, NOT_UNDERSTOOD, wanted);
        }
        true
    }

    /// Annotations about what is sent. Whether it is one.
    fn of_routes(&mut self, name: &str, annotation: &Annotation, wanted: &mut Wanted) -> bool {
        let value = annotation.value.trim();
        let fits = match name {
            "server-alias" => {
                wanted.aliases.extend(
                    value
                        .split(',')
                        .map(|alias| alias.trim().to_ascii_lowercase())
                        .filter(|alias| is_host(alias.trim_start_matches("*."))),
                );
                true
            }
            "proxy-body-size" => match size(value) {
                Some(size) => {
                    wanted.keys.set("max_body", bytes(size));
                    true
                }
                None => false,
            },
            "proxy-read-timeout" => match seconds(value) {
                Some(time) => {
                    wanted.keys.set("response_header_timeout", time.as_str());
                    wanted.keys.set("stream_idle_timeout", time);
                    true
                }
                None => false,
            },
            "upstream-vhost" if is_authority(value) => {
                wanted.keys.set("host", Map::of([("set", Value::text(value))]));
                true
            }
            "x-forwarded-prefix"
                if value.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && !b"{}".contains(&byte))
                    && !value.is_empty() =>
            {
                wanted.keys.set(
                    "request_headers",
                    Map::of([("set", Map::of([("x-forwarded-prefix", Value::text(value))]).into())]),
                );
                true
            }
            _ => return false,
        };
        if !fits {
            self.left_out(annotation, NOT_UNDERSTOOD, wanted);
        }
        true
    }

    /// Annotations about the servers. Whether it is one.
    fn of_servers(&mut self, name: &str, annotation: &Annotation, ingress: &Ingress, wanted: &mut Wanted) -> bool {
        let value = annotation.value.trim();
        match (name, value) {
            ("backend-protocol", "HTTP" | "AUTO_HTTP") => {}
            ("backend-protocol", "HTTPS" | "GRPC" | "GRPCS") => {
                if value != "HTTPS" {
                    wanted.upstream.set("protocol", "http2");
                }
                if value != "GRPC" {
                    wanted.upstream.set("tls", Map::of([("insecure_skip_verify", Value::plain(true))]));
                    wanted.upstream.comment("ingress-nginx does not verify the certificates of these servers either; better name their authority in `ca`");
                }
            }
            ("backend-protocol", _) => {
                wanted.closed =
                    Some((annotation.place.clone(), shown(annotation), "the protocol is not spoken".to_owned()));
            }
            ("proxy-connect-timeout", _) if seconds(value).is_some() => {
                wanted.upstream.set("connect_timeout", seconds(value).unwrap_or_default());
            }
            ("affinity", "cookie") => {
                let named = ingress.annotations.iter().find(|one| one.name == format!("{PREFIX}session-cookie-name"));
                let cookie = named.map_or("INGRESSCOOKIE", |one| one.value.as_str());
                wanted.upstream.set("sticky", Map::of([("cookie", Value::text(cookie))]));
            }
            ("load-balance", "round_robin") => {}
            ("load-balance", "ewma") => wanted.upstream.set("balance", "least_loaded"),
            ("upstream-hash-by", "$remote_addr" | "$binary_remote_addr") => {
                wanted.upstream.set("balance", Map::of([("hash", Value::text("client"))]));
            }
            _ => return false,
        }
        true
    }

    /// Annotations about who may come in. Whether it is one that is carried.
    fn of_access(&mut self, name: &str, annotation: &Annotation, ingress: &Ingress, wanted: &mut Wanted) -> bool {
        let value = annotation.value.trim();
        let own = |name: &str| {
            let found = ingress.annotations.iter().find(|one| one.name.strip_prefix(PREFIX) == Some(name));
            found.and_then(|one| one.value.trim().parse::<u64>().ok())
        };
        let policy = match name {
            "whitelist-source-range" | "allowlist-source-range" | "denylist-source-range" => {
                let networks: Option<Vec<Value>> = value
                    .split(',')
                    .map(|text| network(text.trim()).map(|network| Value::text(network.to_string())))
                    .collect();
                let key = if name == "denylist-source-range" { "deny" } else { "allow" };
                networks.map(|networks| ("access", Map::of([(key, Value::List(networks))])))
            }
            "limit-rps" | "limit-rpm" => {
                value.parse::<u64>().ok().filter(|rate| (1..=100_000).contains(rate)).map(|rate| {
                    let unit = if name == "limit-rps" { "s" } else { "m" };
                    let burst = rate.saturating_mul(own("limit-burst-multiplier").unwrap_or(5)).clamp(1, 1_000_000);
                    let limit =
                        Map::of([("rate", Value::text(format!("{rate}/{unit}"))), ("burst", Value::plain(burst))]);
                    ("rate", Map::of([("rate_limit", limit.into())]))
                })
            }
            "limit-connections" => {
                value.parse::<u64>().ok().filter(|most| (1..=1_000_000).contains(most)).map(|most| {
                    (
                        "connections",
                        Map::of([("concurrency_limit", Map::of([("max_in_flight", Value::plain(most))]).into())]),
                    )
                })
            }
            "auth-url" => match self.service(annotation, ingress) {
                Some(policy) => Some(("signed-in", policy)),
                None => return false,
            },
            // Where to send those who are not signed in is a part of `auth-url`; without it they get 401.
            "auth-signin" | "auth-signin-redirect-param" => {
                if sign_in(ingress).is_none() {
                    let why = "who is not signed in gets 401, and is not sent elsewhere";
                    self.left_out(annotation, why, wanted);
                }
                return true;
            }
            _ => return false,
        };
        match policy {
            Some((name, mut policy)) => {
                policy.comment(format!("{}: {}", annotation.place, shown(annotation)));
                let name = self.draft.policies.intern(name, policy);
                wanted.policies.push(name);
            }
            None if name.starts_with("limit-") => {
                self.left_out(annotation, "its value is not understood; nothing limits this place", wanted);
            }
            None => wanted.closed = Some((annotation.place.clone(), shown(annotation), NOT_UNDERSTOOD.to_owned())),
        }
        true
    }

    /// `auth-url`, if it names a server by its address.
    fn service(&mut self, annotation: &Annotation, ingress: &Ingress) -> Option<Map> {
        let rest = annotation.value.trim().strip_prefix("http://")?;
        let at = rest.find('/').unwrap_or(rest.len());
        let (server, path) = rest.split_at_checked(at)?;
        if server.contains('$') || path.contains(['$', '{']) || !is_authority(server) {
            return None;
        }
        let (host, port) = server.rsplit_once(':').unwrap_or((server, "80"));
        let servers = Value::List(vec![Value::text(format!("{host}:{port}"))]);
        let upstream = self.draft.upstreams.intern(&format!("auth-{host}"), Map::of([("servers", servers)]));
        let path = if path.is_empty() { "/" } else { path };
        let mut rule =
            Map::of([("upstream", Value::text(upstream)), ("path", Value::text(path)), ("host", Value::text(server))]);
        if let Some(page) = sign_in(ingress) {
            rule.set("sign_in", Value::text(page));
        }
        let copied = own(ingress, "auth-response-headers").unwrap_or_default();
        let copied: Vec<&str> = copied.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if !copied.is_empty() {
            rule.set("copy", Value::texts(copied));
        }
        Some(Map::of([("forward_auth", rule.into())]))
    }
}

/// The value of an annotation by its name without the prefix.
fn own<'i>(ingress: &'i Ingress, name: &str) -> Option<&'i str> {
    let is_it = |one: &&Annotation| one.name.strip_prefix(PREFIX) == Some(name);
    ingress.annotations.iter().find(is_it).map(|one| one.value.trim())
}

/// Where those go who have not signed in: `auth-signin`, which gets the whole URL to come back to in a parameter unless it has one.
fn sign_in(ingress: &Ingress) -> Option<String> {
    let page = own(ingress, "auth-signin")?;
    let parameter = own(ingress, "auth-signin-redirect-param").unwrap_or("rd");
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_name(parameter) || page.contains(['{', '}', '#']) {
        return None;
    }
    let back = format!("{parameter}=$scheme://$http_host$request_uri");
    let page = match page.split_once('?') {
        None => format!("{page}?{back}"),
        Some((_, query)) if query.split('&').any(|pair| pair.split('=').next() == Some(parameter)) => page.to_owned(),
        Some(_) => format!("{page}&{back}"),
    };
    let page = [
        ("$escaped_request_uri", "$request_uri"),
        ("$best_http_host", "$http_host"),
        ("$pass_access_scheme", "$scheme"),
    ]
    .into_iter()
    .fold(page, |page, (theirs, plain)| page.replace(theirs, plain));
    Values { tls: true, ..Values::default() }.page(&page).ok()
}

fn shown(annotation: &Annotation) -> String {
    let name = annotation.name.strip_prefix(PREFIX).unwrap_or(&annotation.name);
    format!("{name}: {}", annotation.value)
}

fn is_target(text: &str) -> bool {
    (text.starts_with('/') || text.starts_with("https://") || text.starts_with("http://"))
        && !text.contains(['$', '{', '}'])
}

/// Seconds as they are written natively.
fn seconds(text: &str) -> Option<String> {
    let text = text.strip_suffix('s').unwrap_or(text);
    text.parse::<u64>().ok().filter(|time| (1..=86_400).contains(time)).map(|time| format!("{time}s"))
}

/// A size by nginx; none at all is the largest.
fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text.get(..digits)?.parse().ok()?;
    let factor = match text.get(digits..)?.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    let size = number.checked_mul(factor)?;
    Some(if size == 0 { 1 << 40 } else { size.min(1 << 40) })
}
