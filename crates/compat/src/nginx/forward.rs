//! `proxy_pass` and `grpc_pass`: upstreams, what goes to them, and under which host.

use super::known;
use super::scope::{Scope, milliseconds, number};
use super::site::Making;
use super::syntax::Directive;
use super::values::Values;
use crate::addresses::is_host;
use crate::draft::Draft;
use crate::migration::{absolute, name_of};
use crate::native::{Map, Value, duration};

/// Most servers of an upstream.
const MAX_SERVERS: usize = 1_000;

/// Where a location forwards to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) tls: bool,
    pub(crate) grpc: bool,
    /// Host and port, or the path of a Unix socket.
    server: String,
    /// What nginx calls it: `$proxy_host`.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands behind the server, from the slash on.
    pub(crate) uri: Option<String>,
    /// Whether the target goes on as the client sent it, whatever was rewritten: `$request_uri` behind the server.
    pub(crate) is_untouched: bool,
    /// Whether variables stand in the URI, which is then all that is forwarded.
    pub(crate) has_variables: bool,
}

/// The target as the client sent it.
const UNTOUCHED: &str = "${request_uri}";

/// The path of the request and its query.
const AS_IT_IS: [&str; 3] =
    ["${uri}${is_args}${args}", "${uri}${is_args}${query_string}", "${document_uri}${is_args}${args}"];

/// What stands behind the scheme of a URL, whether that is of TLS, and whether of gRPC.
fn schemed(text: &str) -> Result<(&str, bool, bool), String> {
    let schemes =
        [("http://", false, false), ("https://", true, false), ("grpc://", false, true), ("grpcs://", true, true)];
    let found = schemes.iter().find_map(|(start, tls, grpc)| Some((text.strip_prefix(start)?, *tls, *grpc)));
    found.ok_or_else(|| match text.contains("${") {
        true => "the server is chosen by a variable".to_owned(),
        false => "its URL has no scheme that is known".to_owned(),
    })
}

impl Proxy {
    /// Reads the argument of `proxy_pass`.
    ///
    /// # Errors
    /// Why nothing can be forwarded there.
    fn of(text: &str, values: &Values) -> Result<Proxy, String> {
        let is_made = text.contains('$');
        let text = values.expanded(text)?;
        let (rest, tls, grpc) = schemed(&text)?;
        let default = if tls { 443 } else { 80 };
        // The path as it is by then, and the query: what goes on without a URI.
        let rest =
            AS_IT_IS.iter().find_map(|end| rest.strip_suffix(end)).filter(|rest| !rest.contains("${")).unwrap_or(rest);
        let is_untouched = rest.ends_with(UNTOUCHED);
        // Where a variable is in it nginx sends the URI as it stands, without what follows in the path and without the query.
        if is_made && !rest.contains("${") && rest.trim_start_matches("unix:/").contains(['/', '?']) {
            return Err("a URI behind a server that is made of variables".to_owned());
        }
        let rest = rest.strip_suffix(UNTOUCHED).unwrap_or(rest);
        if is_untouched && rest.trim_start_matches("unix:/").contains(['/', '?']) {
            return Err("what the client asked for stands behind another path".to_owned());
        }
        if let Some(socket) = rest.strip_prefix("unix:") {
            let (path, uri) = match socket.split_once(':') {
                Some((path, uri)) => (path, Some(uri.to_owned())),
                None => (socket, None),
            };
            if path.contains('$') || !path.starts_with('/') {
                return Err("its socket is no path".to_owned());
            }
            let has_variables = uri.as_ref().is_some_and(|uri| uri.contains("${"));
            return Ok(Proxy {
                tls,
                grpc,
                server: format!("unix:{path}"),
                host: "localhost".to_owned(),
                port: 0,
                uri,
                is_untouched,
                has_variables,
            });
        }
        // A variable that begins with a slash may stand right behind the server.
        let of_path = || rest.strip_suffix("${uri}").map(str::len);
        let at = rest.find(['/', '?']).or_else(of_path).unwrap_or(rest.len());
        let (authority, uri) = rest.split_at_checked(at).unwrap_or((rest, ""));
        if authority.contains('$') {
            return Err("the server is chosen by a variable".to_owned());
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse::<u16>().ok().filter(|port| *port > 0).ok_or("its port is no number")?)
            }
            _ => (authority, default),
        };
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if !is_host(host) && literal.is_none_or(|literal| literal.parse::<std::net::Ipv6Addr>().is_err()) {
            return Err("its server is no host".to_owned());
        }
        Ok(Proxy {
            tls,
            grpc,
            server: format!("{host}:{port}"),
            host: if port == default { host.to_owned() } else { format!("{host}:{port}") },
            port,
            uri: (!uri.is_empty()).then(|| uri.to_owned()),
            is_untouched,
            has_variables: uri.contains("${"),
        })
    }

    /// The name without a port, which is that of a group if there is one.
    fn group(&self) -> &str {
        if self.server.starts_with("unix:") { "" } else { self.host.as_str() }
    }
}

/// Whether servers are connected to from the client's own address.
pub(super) fn is_transparent(scope: &Scope<'_>) -> bool {
    scope.one("proxy_bind").is_some_and(known::is_transparent)
}

/// Has the client's own address used, by an upstream or a listener on UDP.
pub(super) fn transparent(native: &mut Map) {
    native.set("transparent", Value::plain(true));
    native.comment("this needs CAP_NET_ADMIN and `portunus routing setup`: docs/client-address.md");
}

impl<'d> Making<'d> {
    /// The upstream that a directive forwards to, made if there is none like it.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn proxied(
        &mut self,
        pass: &'d Directive,
        scope: &Scope<'d>,
        values: &mut Values,
    ) -> Result<(String, Proxy), String> {
        // `grpc_pass` may go without a scheme.
        let argument = match pass.name == "grpc_pass" && !pass.arg(0).contains("://") {
            true => format!("grpc://{}", pass.arg(0)),
            false => pass.arg(0).to_owned(),
        };
        let proxy = Proxy::of(&argument, values)?;
        values.proxy = Some((proxy.host.clone(), proxy.port));
        let block =
            self.http.iter().find(|directive| directive.name == "upstream" && directive.arg(0) == proxy.group());
        let mut upstream = match block {
            Some(block) => self.group(block)?,
            None => Map::of([("servers", Value::List(vec![Value::text(proxy.server.clone())]))]),
        };
        let prefix = if pass.name == "grpc_pass" { "grpc" } else { "proxy" };
        if proxy.grpc || pass.name == "grpc_pass" {
            upstream.set("protocol", "http2");
        }
        self.connection(prefix, scope, &proxy, block.is_some(), &mut upstream)?;
        if prefix == "proxy" && is_transparent(scope) {
            transparent(&mut upstream);
            if let Some(why) = Draft::rejects_upstream(&upstream) {
                return Err(why);
            }
        }
        let wanted = match block {
            Some(block) => block.arg(0).to_owned(),
            None if proxy.server.starts_with("unix:") => {
                let file = proxy.server.rsplit('/').next().unwrap_or_default();
                file.trim_end_matches(".sock").trim_end_matches(".socket").to_owned()
            }
            None => proxy.server.replace([':', '[', ']'], "-"),
        };
        Ok((self.draft.upstreams.intern(&name_of(&wanted), upstream), proxy))
    }

    /// The upstream that a server of `stream` forwards to, made if there is none like it.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn streamed(&mut self, to: &str, scope: &Scope<'d>, protocol: &str) -> Result<String, String> {
        if to.contains('$') {
            return Err("the server is chosen by a variable".to_owned());
        }
        let block = self.http.iter().find(|directive| directive.name == "upstream" && directive.arg(0) == to);
        let mut upstream = match block {
            Some(block) => self.group(block)?,
            None => {
                let is_socket = to.strip_prefix("unix:").is_some_and(|path| path.starts_with('/'));
                let server = if is_socket { Some(to.to_owned()) } else { with_port(to).filter(|server| server == to) };
                let server = server.ok_or_else(|| format!("`{to}` is no server with a port"))?;
                Map::of([("servers", Value::List(vec![Value::text(server)]))])
            }
        };
        upstream.set("protocol", protocol);
        // Nothing is known of statuses where bytes are forwarded.
        upstream.update_if("ejection", |ejection| ejection.remove("statuses"));
        let time = scope.word("proxy_connect_timeout").and_then(milliseconds).filter(|time| *time > 0);
        if protocol == "tcp" {
            upstream.set("connect_timeout", duration(time.unwrap_or(60_000)));
        }
        if scope.is_on("proxy_protocol") {
            match protocol {
                "tcp" => upstream.set("send_proxy", "v1"),
                _ => return Err("datagrams go on without a PROXY header".to_owned()),
            }
        }
        if scope.is_on("proxy_ssl") {
            let host = to.rsplit_once(':').map_or(to, |(host, _)| host).to_owned();
            let proxy = Proxy {
                tls: true,
                grpc: false,
                server: String::new(),
                host,
                port: 0,
                uri: None,
                is_untouched: false,
                has_variables: false,
            };
            self.tls_to_servers("proxy", scope, &proxy, &mut upstream)?;
        }
        if protocol == "tcp" && is_transparent(scope) {
            transparent(&mut upstream);
        }
        if let Some(why) = Draft::rejects_upstream(&upstream) {
            return Err(format!("its servers cannot be carried: {why}"));
        }
        Ok(self.draft.upstreams.intern(&name_of(&to.replace([':', '[', ']', '/'], "-")), upstream))
    }

    /// An `upstream` block.
    fn group(&self, block: &Directive) -> Result<Map, String> {
        let mut upstream = Map::default();
        upstream.comment(format!("{}: upstream {}", block.place, block.arg(0)));
        let mut servers = Vec::new();
        let mut fails: Vec<(u64, u64)> = Vec::new();
        for server in block.inner().iter().filter(|directive| directive.name == "server").take(MAX_SERVERS) {
            if server.args.iter().any(|arg| arg == "down") {
                upstream.comment(format!("{}: {}: it is marked as down, and not there", server.place, server.shown()));
                continue;
            }
            let (native, failing) = self.server(server, &mut upstream)?;
            servers.push(native);
            fails.push(failing);
        }
        if servers.is_empty() {
            return Err("its upstream has no server".to_owned());
        }
        let count = servers.len();
        upstream.set("servers", Value::List(servers));
        self.balance(block, &mut upstream);
        if count > 1 {
            // A server alone is never left out.
            let (failures, time) = fails.first().copied().unwrap_or((1, 10_000));
            let mut ejection = Map::of([("failures", Value::plain(failures.min(1_000)))]);
            if time != 10_000 && time > 0 {
                ejection.set("duration", duration(time));
            }
            ejection.set("statuses", Value::List(Vec::new()));
            upstream.set("ejection", ejection);
            if fails.iter().any(|other| *other != (failures, time)) {
                upstream.comment(self.report.left_out(
                    &block.place,
                    "max_fails, fail_timeout",
                    "servers of one upstream have the same; those of the first are taken",
                ));
            }
        }
        Ok(upstream)
    }

    /// A server of a group, and after how many failures it is left out for how long.
    fn server(&self, server: &Directive, upstream: &mut Map) -> Result<(Value, (u64, u64)), String> {
        let address = match server.arg(0) {
            unix if unix.starts_with("unix:") => unix.to_owned(),
            text => with_port(text).ok_or_else(|| format!("`{text}` is no server"))?,
        };
        let mut native = Map::of([("address", Value::text(address.clone()))]);
        let mut fails = (1, 10_000);
        for arg in server.args.get(1..).unwrap_or_default() {
            let (name, value) = arg.split_once('=').unwrap_or((arg.as_str(), ""));
            let fault = || format!("`{arg}` of a server is not understood");
            match name {
                "weight" => native.set(
                    "weight",
                    Value::plain(number(value).filter(|weight| (1..=1000).contains(weight)).ok_or_else(fault)?),
                ),
                "max_conns" => match number(value).ok_or_else(fault)? {
                    0 => {}
                    most => native.set("max_in_flight", Value::plain(most.min(1_000_000))),
                },
                "max_fails" => fails.0 = number(value).ok_or_else(fault)?,
                "fail_timeout" => fails.1 = milliseconds(value).ok_or_else(fault)?,
                "backup" => native.set("backup", Value::plain(true)),
                "slow_start" => {
                    let time = milliseconds(value).ok_or_else(fault)?;
                    upstream.set("slow_start", duration(time));
                }
                // Names are resolved again by themselves.
                "resolve" => {}
                "service" => {
                    let name = address.rsplit_once(':').map_or(address.as_str(), |(name, _)| name).to_owned();
                    let service = if value.contains('.') { value.to_owned() } else { format!("_{value}._tcp") };
                    let mut srv = Map::of([("srv", Value::text(format!("{service}.{name}")))]);
                    native
                        .entries()
                        .filter(|(key, _)| *key != "address")
                        .for_each(|(key, value)| srv.set(key, value.clone()));
                    native = srv;
                }
                _ => upstream.comment(self.report.left_out(&server.place, arg, "nothing here does this")),
            }
        }
        let is_plain = native.entries().count() == 1 && native.get("address").is_some();
        Ok((if is_plain { Value::text(address) } else { native.into() }, fails))
    }

    /// How servers are chosen.
    fn balance(&self, block: &Directive, upstream: &mut Map) {
        let hash = |of: Value| Value::Map(Map::of([("hash", of)]));
        for directive in block.inner() {
            let named = |of: &str, name: &str| Value::Map(Map::of([(of, Value::text(name))]));
            match directive.name.as_str() {
                "least_conn" => upstream.set("balance", "least_loaded"),
                "ip_hash" => upstream.set("balance", hash("client".into())),
                "random" => upstream.set("balance", "random_two"),
                "hash" => match directive.arg(0) {
                    "$remote_addr" | "$binary_remote_addr" => upstream.set("balance", hash("client".into())),
                    "$request_uri" => upstream.set("balance", hash("target".into())),
                    "$uri" => upstream.set("balance", hash("path".into())),
                    other if self.defined.contains(other.trim_start_matches('$')) => {
                        let why = "a hash of what the configuration defines; servers take turns";
                        upstream.comment(self.report.left_out(&directive.place, &directive.shown(), why));
                    }
                    other => match (other.strip_prefix("$http_"), other.strip_prefix("$cookie_")) {
                        (Some(field), _) => upstream.set("balance", hash(named("header", &field.replace('_', "-")))),
                        (_, Some(cookie)) => upstream.set("balance", hash(named("cookie", cookie))),
                        _ => {
                            let why = "a hash of this; servers take turns";
                            upstream.comment(self.report.left_out(&directive.place, &directive.shown(), why));
                        }
                    },
                },
                "sticky" if directive.arg(0) == "cookie" => {
                    let mut sticky = Map::of([("cookie", Value::text(directive.arg(1)))]);
                    let expires = directive.args.iter().find_map(|arg| arg.strip_prefix("expires="));
                    if let Some(time) = expires.and_then(milliseconds) {
                        sticky.set("lifetime", duration(time));
                    }
                    upstream.set("sticky", sticky);
                }
                "keepalive_timeout" => {
                    if let Some(time) = milliseconds(directive.arg(0)).filter(|time| *time > 0) {
                        upstream.set("pool_idle_timeout", duration(time));
                    }
                }
                "server" | "keepalive" | "keepalive_requests" | "keepalive_time" | "zone" | "resolver" | "state"
                | "resolver_timeout" => {}
                _ => upstream.comment(self.report.left_out(
                    &directive.place,
                    &directive.shown(),
                    "nothing here does this",
                )),
            }
        }
    }

    /// Timeouts, retries and TLS to the servers.
    fn connection(
        &self,
        prefix: &str,
        scope: &Scope<'_>,
        proxy: &Proxy,
        is_group: bool,
        upstream: &mut Map,
    ) -> Result<(), String> {
        let time = |name: &str| {
            let directive = scope.one(&format!("{prefix}_{name}"))?;
            milliseconds(directive.arg(0)).filter(|time| *time > 0).map(duration)
        };
        if let Some(connect) = time("connect_timeout") {
            upstream.set("connect_timeout", connect);
        }
        if let Some(directive) = scope.one(&format!("{prefix}_next_upstream")).filter(|_| is_group) {
            self.retries(directive, scope, prefix, upstream);
        }
        if proxy.tls {
            self.tls_to_servers(prefix, scope, proxy, upstream)?;
        }
        Ok(())
    }

    fn retries(&self, directive: &Directive, scope: &Scope<'_>, prefix: &str, upstream: &mut Map) {
        let mut on: Vec<Value> = Vec::new();
        let mut add = |word: Value| {
            if !on.contains(&word) {
                on.push(word)
            }
        };
        for arg in &directive.args {
            match arg.as_str() {
                "error" => ["connect", "reset"].into_iter().for_each(|word| add(word.into())),
                "timeout" => add("timeout".into()),
                "invalid_header" => add("reset".into()),
                "off" => {}
                "http_500" | "http_502" | "http_503" | "http_504" => {
                    add(Value::plain(arg.strip_prefix("http_").unwrap_or_default()));
                }
                other => {
                    let why = "retried are lost connections, timeouts and statuses from 500 on, of requests that may be repeated";
                    upstream.comment(self.report.left_out(
                        &directive.place,
                        &format!("{} … {other}", directive.name),
                        why,
                    ));
                }
            }
        }
        let mut retries = Map::of([("on", Value::List(on))]);
        let tries = scope.word(&format!("{prefix}_next_upstream_tries")).and_then(number);
        if let Some(tries) = tries.filter(|tries| (1..=100).contains(tries)) {
            retries.set("attempts", Value::plain(tries));
        }
        upstream.set("retries", retries);
    }

    fn tls_to_servers(&self, prefix: &str, scope: &Scope<'_>, proxy: &Proxy, upstream: &mut Map) -> Result<(), String> {
        let named = |name: &str| scope.one(&format!("{prefix}_ssl_{name}"));
        let mut tls = Map::default();
        let is_verified = named("verify").is_some_and(|directive| !directive.arg(0).eq_ignore_ascii_case("off"));
        if is_verified {
            let ca = named("trusted_certificate").ok_or("servers are to be verified, and no authority is named")?;
            tls.set("ca", absolute(&self.root.join(ca.arg(0))));
        } else {
            // As it was. Whoever made it so will want to know.
            tls.set("insecure_skip_verify", Value::plain(true));
            upstream.comment(format!(
                "nginx does not verify the certificates of these servers either ({prefix}_ssl_verify); better name their authority in `ca`"
            ));
        }
        let name = named("name").map(|directive| directive.arg(0).to_owned());
        let host = proxy.host.rsplit_once(':').map_or(proxy.host.as_str(), |(host, _)| host);
        match name {
            Some(name) if is_host(&name) => tls.set("server_name", name),
            Some(name) if is_verified && name != "$proxy_host" => {
                return Err(format!("the name `{name}` to verify is not known"));
            }
            _ if is_host(host) && host.parse::<std::net::IpAddr>().is_err() => tls.set("server_name", host),
            _ => {}
        }
        if let (Some(certificate), Some(key)) = (named("certificate"), named("certificate_key")) {
            tls.set("client_certificate", absolute(&self.root.join(certificate.arg(0))));
            tls.set("client_key", absolute(&self.root.join(key.arg(0))));
        }
        if let Some(protocols) = named("protocols") {
            let has = |version: &str| protocols.args.iter().any(|arg| arg == version);
            match (has("TLSv1.3"), has("TLSv1.2"), has("TLSv1") || has("TLSv1.1")) {
                (true, false, false) => tls.set("policy", "modern"),
                (_, _, true) => {
                    let why = "TLS 1.0 and 1.1 are left out; `policy: legacy` has them";
                    upstream.comment(self.report.left_out(&protocols.place, &protocols.shown(), why));
                }
                _ => {}
            }
        }
        upstream.set("tls", tls);
        Ok(())
    }
}

/// A server with its port.
pub(crate) fn with_port(text: &str) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok().filter(|port| *port > 0)?),
        _ => (text, 80),
    };
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_known = is_host(host) || literal.is_some_and(|literal| literal.parse::<std::net::Ipv6Addr>().is_ok());
    is_known.then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn where_it_goes() {
        let values = Values { set: [("b".to_owned(), "app.internal".to_owned())].into(), ..Values::default() };
        for (text, expected) in [
            ("http://app", Some("app:80 app 80 -")),
            ("http://127.0.0.1:8080", Some("127.0.0.1:8080 127.0.0.1:8080 8080 -")),
            ("https://app/x/", Some("app:443 app 443 /x/")),
            ("http://app:80/", Some("app:80 app 80 /")),
            ("http://[::1]:81/a", Some("[::1]:81 [::1]:81 81 /a")),
            ("http://unix:/run/a.sock", Some("unix:/run/a.sock localhost 0 -")),
            ("http://unix:/run/a.sock:/x/", Some("unix:/run/a.sock localhost 0 /x/")),
            ("http://$b:81/$1", Some("app.internal:81 app.internal:81 81 /${1}")),
            ("http://$unknown", None),
            ("app", None),
            ("http://", None),
            ("http://a b", None),
            ("http://app:x", None),
        ] {
            let found = Proxy::of(text, &values).map(|proxy| {
                format!("{} {} {} {}", proxy.server, proxy.host, proxy.port, proxy.uri.as_deref().unwrap_or("-"))
            });
            assert_eq!(found.ok().as_deref(), expected, "{text}");
        }
    }
}
