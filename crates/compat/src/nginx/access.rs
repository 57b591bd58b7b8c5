//! Who may come in, and how much: `allow` and `deny`, `auth_basic`, `auth_request`, `limit_req`, `limit_conn`, `limit_rate`, as policies. What decides
//! who may come in and cannot be carried lets nobody pass.

use std::path::Path;

use wire::http::field_kind::FieldKind;

use super::fields::asked_for;
use super::forward::Proxy;
use super::scope::{Scope, number, size};
use super::site::Making;
use super::syntax::Directive;
use super::values::Values;
use super::{guards, known};
use crate::addresses::{Rule, lists, network};
use crate::files::Unread;
use crate::migration::absolute;
use crate::native::{Map, Value, bytes};

/// The host of the request, natively.
const HOST_OF_REQUEST: &str = "{host}";

/// The names of the policies of a location, and comments.
#[derive(Debug, Default)]
pub(crate) struct Access {
    pub(crate) policies: Vec<String>,
    pub(crate) comments: Vec<String>,
}

impl Making<'_> {
    /// The policies at a place.
    pub(crate) fn access(&mut self, scope: &Scope<'_>, values: &Values) -> Access {
        let mut access = Access::default();
        self.kept_out(scope, &mut access);
        self.limits(scope, &mut access);
        self.connections(scope, &mut access);
        self.bandwidth(scope, &mut access);
        let has_lists = !scope.all(&["allow", "deny"]).is_empty();
        let is_any = scope.word("satisfy") == Some("any");
        let asks = ["auth_basic", "auth_request"];
        let asks = asks.iter().filter(|name| scope.word(name).is_some_and(|word| word != "off")).count();
        if is_any && usize::from(has_lists) + asks > 1 {
            if let Some(directive) = scope.one("satisfy") {
                let why = "that one of several rules is enough cannot be said; nobody passes";
                access.comments.push(self.report.left_out(&directive.place, &directive.shown(), why));
            }
            access.policies.push(self.draft.closed());
            return access;
        }
        self.addresses(scope, &mut access);
        self.password(scope, &mut access);
        self.service(scope, values, &mut access);
        access
    }

    /// The policies of the connections of a server of `stream`.
    pub(crate) fn stream_access(&mut self, scope: &Scope<'_>) -> Access {
        let mut access = Access::default();
        self.kept_out(scope, &mut access);
        self.connections(scope, &mut access);
        self.bandwidth(scope, &mut access);
        self.addresses(scope, &mut access);
        access
    }

    /// What keeps somebody out in a way that is not known here.
    fn kept_out(&mut self, scope: &Scope<'_>, access: &mut Access) {
        let found: Vec<&Directive> =
            scope.levels().flatten().filter(|directive| guards::is_unknown(directive)).collect();
        for directive in found {
            let is_off = scope.word(&directive.name) == Some("off");
            if !is_off {
                let why = "nothing here does this; nobody passes";
                access.comments.push(self.report.left_out(&directive.place, &directive.shown(), why));
                self.close(access);
            }
        }
    }

    fn close(&mut self, access: &mut Access) {
        let closed = self.draft.closed();
        if !access.policies.contains(&closed) {
            access.policies.push(closed);
        }
    }

    /// `allow` and `deny`, of which the first that fits counts.
    fn addresses(&mut self, scope: &Scope<'_>, access: &mut Access) {
        let directives = scope.all(&["allow", "deny"]);
        self.addresses_of(&directives, access);
    }

    /// Whether the rules about addresses let nobody pass.
    pub(crate) fn denies_all(&self, scope: &Scope<'_>) -> bool {
        let first = scope.all(&["allow", "deny"]).into_iter().next();
        first.is_some_and(|directive| directive.name == "deny" && directive.arg(0) == "all")
            && scope.word("satisfy") != Some("any")
    }

    fn has_unix_socket(&self) -> bool {
        let is_one = |directive: &Directive| directive.name == "listen" && directive.arg(0).starts_with("unix:");
        self.server.is_some_and(|server| server.inner().iter().any(is_one))
    }

    pub(crate) fn addresses_of(&mut self, directives: &[&Directive], access: &mut Access) {
        let mut rules = Vec::new();
        for directive in directives {
            let allows = directive.name == "allow";
            let rule = match directive.arg(0) {
                "all" => Some(Rule { allows, network: None }),
                // Clients on Unix sockets have no address, and are on no list.
                "unix:" if allows || !self.has_unix_socket() => continue,
                // No IPv4 client is in such a network there.
                text if network(text).is_some_and(|network| crate::addresses::is_mapped(&network)) => continue,
                text => network(text).map(|network| Rule { allows, network: Some(network) }),
            };
            match rule {
                Some(rule) => rules.push(rule),
                None => {
                    let why = "no address or network; nobody passes";
                    access.comments.push(self.report.left_out(&directive.place, &directive.shown(), why));
                    return self.close(access);
                }
            }
        }
        if rules.is_empty() {
            return;
        }
        // Where it is not known who the client is, a list would be asked about somebody else.
        if let (Some(why), Some(directive)) = (self.unknown_client.clone(), directives.first()) {
            access.comments.push(self.report.left_out(&directive.place, &directive.shown(), &why));
            return self.close(access);
        }
        let Ok(lists) = lists(&rules, true) else {
            let why = "too many networks; nobody passes";
            access
                .comments
                .extend(directives.first().map(|first| self.report.left_out(&first.place, &first.shown(), why)));
            return self.close(access);
        };
        if lists.is_open() {
            return;
        }
        let texts = |networks: &[ipnet::IpNet]| {
            Value::List(networks.iter().map(|network| Value::text(plain(network))).collect())
        };
        let mut policy = Map::default();
        match lists.allow.as_deref() {
            Some([]) => return access.policies.push(self.nobody(directives)),
            Some(allow) => policy.set("allow", texts(allow)),
            None => {}
        }
        if !lists.deny.is_empty() {
            policy.set("deny", texts(&lists.deny));
        }
        if let Some(first) = directives.first() {
            policy.comment(first.place.to_string());
        }
        access.policies.push(self.draft.policies.intern("access", policy));
    }

    /// `deny all`.
    fn nobody(&mut self, directives: &[&Directive]) -> String {
        let mut policy = Map::of([("allow", Value::List(vec![Value::text(crate::addresses::NOBODY)]))]);
        if let Some(first) = directives.first() {
            policy.comment(format!("{}: deny all", first.place));
        }
        self.draft.policies.intern("nobody", policy)
    }

    /// `auth_basic` and its file, if that has nothing but what is verified here.
    fn password(&mut self, scope: &Scope<'_>, access: &mut Access) {
        let Some(directive) = scope.one("auth_basic").filter(|directive| directive.arg(0) != "off") else { return };
        let realm = directive.arg(0);
        let Some(file) = scope.one("auth_basic_user_file") else { return self.close(access) };
        let path = self.root.join(file.arg(0));
        let why = match self.files.read(&path) {
            _ if realm.contains(['$', '"', '\\']) || !realm.is_ascii() => {
                Some("its realm cannot be carried".to_owned())
            }
            Ok(text) => {
                let weak = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).find(
                    |line| {
                        let hash = line.split_once(':').map_or("", |(_, hash)| hash);
                        !["$2y$", "$2a$", "$2b$"].iter().any(|start| hash.starts_with(start))
                    },
                );
                let user = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
                weak.map(|line| {
                    format!("the password of `{}` is no bcrypt hash; make one with `htpasswd -B`", user(line))
                })
            }
            Err(Unread::Absent(_)) => {
                self.report.expect(&self.files, [&path], &file.place);
                None
            }
            Err(why) => Some(format!("{}: {why}", path.display())),
        };
        let native = Map::of([("file", Value::text(absolute(&path))), ("realm", Value::text(realm))]);
        let policy = Map::of([("basic", native.into())]);
        match why {
            None => access.policies.push(self.draft.policies.intern("passwords", policy)),
            Some(why) => {
                let why = format!("{why}; nobody passes until there is a policy such as `{}`", policy.write().trim());
                access.comments.push(self.report.left_out(&file.place, &file.shown(), &why));
                self.close(access);
            }
        }
    }

    /// `auth_request`, whose location forwards to a service.
    fn service(&mut self, scope: &Scope<'_>, values: &Values, access: &mut Access) {
        let Some(directive) = scope.one("auth_request").filter(|directive| directive.arg(0) != "off") else { return };
        match self.asked(scope, directive, values) {
            Ok(policy) => {
                let (policy, comments) = policy;
                access.comments.extend(comments);
                access.policies.push(self.draft.policies.intern("signed-in", policy));
            }
            Err(why) => {
                let why = format!("{why}; nobody passes");
                access.comments.push(self.report.left_out(&directive.place, &directive.shown(), &why));
                self.close(access);
            }
        }
    }

    fn asked(
        &mut self,
        scope: &Scope<'_>,
        directive: &Directive,
        asking: &Values,
    ) -> Result<(Map, Vec<String>), String> {
        let path = directive.arg(0);
        if !path.starts_with('/') || path.contains(['$', '?', '%']) {
            return Err("the path that is asked for is not known".to_owned());
        }
        if let Some(rule) = self.server.and_then(|server| server.inner().iter().find(|one| one.name == "rewrite")) {
            return Err(format!("`{}` ({}) may change what is asked for", rule.shown(), rule.place));
        }
        let chain = self.location_of(path)?.ok_or("no location is there for it")?;
        let location = *chain.last().ok_or("no location is there for it")?;
        let inner = chain.iter().fold(self.server_scope.clone(), |scope, outer| scope.within(outer.inner()));
        let pass = location.inner().iter().rev().find(|one| matches!(one.name.as_str(), "proxy_pass" | "grpc_pass"));
        let pass = pass.filter(|pass| pass.name == "proxy_pass").ok_or("its location does not forward")?;
        if let Some(directive) = decides(&inner, location) {
            return Err(format!("`{}` ({}) decides what is asked", directive.name, directive.place));
        }
        let mut values = asking.clone();
        values.groups.clear();
        let (upstream, proxy) = self.proxied(pass, &inner, &mut values)?;
        let asked = match (proxy.uri.as_deref(), super::location::start_of(location)) {
            (None, _) if proxy.is_untouched => return Err("what the client asked for is what it is asked".to_owned()),
            (None, _) => path.to_owned(),
            (Some(uri), Some(start)) if !proxy.has_variables => {
                format!("{uri}{}", path.strip_prefix(start.as_str()).unwrap_or_default())
            }
            _ => return Err("the path that is asked for is not known".to_owned()),
        };
        let mut rule = Map::of([("upstream", Value::text(upstream)), ("path", Value::text(asked))]);
        let sent = self.sent_to_service(&inner, &proxy, &mut rule)?;
        rule.set("send", Value::texts(sent));
        let mut comments = Vec::new();
        let mut copied = Vec::new();
        for set in scope.all(&["auth_request_set"]) {
            let field = asked_for(scope, set.arg(0)).filter(|field| config::is_subject_field(field));
            let sent = scope.all(&["proxy_set_header"]).into_iter().any(|header| header.arg(1) == set.arg(0));
            match field {
                Some(field) if sent => copied.push(field),
                _ => comments.push(self.report.left_out(
                    &set.place,
                    &set.shown(),
                    "only fields of the service's response that `proxy_set_header` sends on, and that have no other meaning, are copied",
                )),
            }
        }
        if let Some(sign_in) = self.sign_in(scope, asking) {
            rule.set("sign_in", Value::text(sign_in.page));
        }
        // Where the client goes from here is said, or by nobody but the service.
        if !scope.all(&["error_page"]).iter().any(|page| page.args.iter().any(|arg| arg == "401" || arg == "403")) {
            rule.set("relay", Value::plain(false));
        }
        if !copied.is_empty() {
            rule.set("copy", Value::List(copied.into_iter().map(Value::text).collect()));
        }
        Ok((Map::of([("forward_auth", rule.into())]), comments))
    }

    /// The fields of the request that a service gets, and the Host: what nginx sends it, or nothing is said.
    fn sent_to_service(&self, scope: &Scope<'_>, proxy: &Proxy, rule: &mut Map) -> Result<Vec<String>, String> {
        let is_all = scope.word("proxy_pass_request_headers") != Some("off");
        let mut host = proxy.host.clone();
        let mut sent = Vec::new();
        for header in scope.all(&["proxy_set_header"]) {
            let (name, value) = (header.arg(0).to_ascii_lowercase(), header.arg(1));
            let of_client = format!("$http_{}", name.replace('-', "_"));
            let is_plain = FieldKind::of(name.as_bytes()) == FieldKind::Plain
                && value == of_client
                && !self.defined.contains(of_client.trim_start_matches('$'));
            match (name.as_str(), value) {
                ("host", "$proxy_host") => {}
                ("host", "$host" | "$http_host") => host = HOST_OF_REQUEST.to_owned(),
                ("host", fixed) if crate::addresses::is_authority(fixed) => host = fixed.to_owned(),
                ("x-original-method", "$request_method")
                | ("x-original-url", "$scheme://$http_host$request_uri" | "$scheme://$host$request_uri")
                | ("x-forwarded-method", "$request_method")
                | ("x-forwarded-proto", "$scheme")
                | ("x-forwarded-host", "$host" | "$http_host")
                | ("x-forwarded-uri" | "x-original-uri", "$request_uri")
                | ("x-forwarded-for" | "x-real-ip", "$remote_addr")
                | ("x-forwarded-for", "$proxy_add_x_forwarded_for")
                | ("content-length" | "connection", "") => {}
                _ if is_plain => sent.push(name),
                _ => return Err(format!("`{}` ({}) cannot be sent to it", header.shown(), header.place)),
            }
        }
        if host != HOST_OF_REQUEST && !crate::addresses::is_authority(&host) {
            return Err("its Host is none that can be sent".to_owned());
        }
        rule.set("host", Value::text(host));
        Ok(if is_all { vec!["*".to_owned()] } else { sent })
    }

    /// `limit_req`.
    fn limits(&mut self, scope: &Scope<'_>, access: &mut Access) {
        for directive in scope.all(&["limit_req"]) {
            match self.limit(directive) {
                Ok((name, policy)) => {
                    if !directive.args.iter().any(|arg| arg == "nodelay")
                        && directive.args.iter().any(|arg| arg.starts_with("burst="))
                    {
                        let how = "requests within the burst are not delayed; those beyond it are rejected with 429";
                        access.comments.push(self.report.differs(&directive.place, &directive.shown(), how));
                    }
                    let name = self.draft.policies.intern(&name, policy);
                    if !access.policies.contains(&name) {
                        access.policies.push(name);
                    }
                }
                Err(why) => self.unlimited(directive, &why, access),
            }
        }
    }

    /// `limit_conn`: a connection counts while a request of it is under way, each request of HTTP/2 for itself.
    fn connections(&mut self, scope: &Scope<'_>, access: &mut Access) {
        for directive in scope.all(&["limit_conn"]) {
            match self.connection_limit(directive) {
                Ok((name, policy)) => {
                    let name = self.draft.policies.intern(&name, policy);
                    if !access.policies.contains(&name) {
                        access.policies.push(name);
                    }
                }
                Err(why) => self.unlimited(directive, &why, access),
            }
        }
    }

    /// A limit that cannot be carried: nobody passes.
    fn unlimited(&mut self, directive: &Directive, why: &str, access: &mut Access) {
        let why = format!("{why}; nobody passes");
        access.comments.push(self.report.left_out(&directive.place, &directive.shown(), &why));
        self.close(access);
    }

    fn connection_limit(&self, directive: &Directive) -> Result<(String, Map), String> {
        let of_zone = self.zone("limit_conn_zone", directive.arg(0)).ok_or("its zone is not there")?;
        let most = number(directive.arg(1)).filter(|most| *most > 0).ok_or("its number is not understood")?;
        let mut limit = Map::of([("max_in_flight", Value::plain(most.min(1_000_000)))]);
        if let Some(key) = self.counted_by(of_zone.arg(0))? {
            limit.set("key", key);
        }
        Ok((directive.arg(0).to_owned(), Map::of([("concurrency_limit", limit.into())])))
    }

    /// `limit_rate` of responses; `proxy_download_rate` and `proxy_upload_rate` of tunnels.
    fn bandwidth(&mut self, scope: &Scope<'_>, access: &mut Access) {
        let mut limit = Map::default();
        let rates = [("limit_rate", "download"), ("proxy_download_rate", "download"), ("proxy_upload_rate", "upload")];
        for (name, key) in rates {
            let Some(directive) = scope.one(name) else { continue };
            match size(directive.arg(0)) {
                Some(0) => {}
                // Ours are at least a KiB.
                Some(rate) if rate >= 1 << 10 => {
                    limit.set(key, bytes(rate.min(10 << 30)));
                    if name == "limit_rate" {
                        let how = "all requests of a connection of HTTP/2 share this; there each has it for itself";
                        access.comments.push(self.report.differs(&directive.place, &directive.shown(), how));
                    }
                }
                _ => {
                    let why = "a rate is a fixed number of bytes, at least 1 KiB; nothing limits this place";
                    access.comments.push(self.report.left_out(&directive.place, &directive.shown(), why));
                }
            }
        }
        if limit.is_empty() {
            return;
        }
        if let Some(after) = scope.word("limit_rate_after").and_then(size).filter(|after| *after > 0) {
            limit.set("burst", bytes(after.min(1 << 40)));
        }
        let name = self.draft.policies.intern("bandwidth", Map::of([("bandwidth_limit", limit.into())]));
        access.policies.push(name);
    }

    /// The directive that makes a zone.
    fn zone(&self, kind: &str, name: &str) -> Option<&Directive> {
        let is_it = |other: &&Directive| {
            let own = argument(other, "zone").unwrap_or_default();
            other.name == kind && own.split(':').next() == Some(name)
        };
        self.http.iter().find(is_it)
    }

    fn limit(&self, directive: &Directive) -> Result<(String, Map), String> {
        let zone = argument(directive, "zone").ok_or("it names no zone")?;
        let of_zone = self.zone("limit_req_zone", &zone).ok_or("its zone is not there")?;
        let rate = argument(of_zone, "rate").ok_or("its zone has no rate")?;
        let (count, unit) = match (rate.strip_suffix("r/s"), rate.strip_suffix("r/m")) {
            (Some(count), _) => (count, "s"),
            (_, Some(count)) => (count, "m"),
            _ => return Err("its rate is not understood".to_owned()),
        };
        let count = number(count).filter(|count| (1..=100_000).contains(count)).ok_or("its rate is not understood")?;
        let burst =
            argument(directive, "burst").map_or(Some(0), |text| number(&text)).ok_or("its burst is no number")?;
        let seconds = if unit == "m" { 60 } else { 1 };
        if burst.saturating_add(1).saturating_mul(seconds) / count > 80_000 {
            return Err("its burst stands for a day or more".to_owned());
        }
        let mut limit = Map::of([
            ("rate", Value::text(format!("{count}/{unit}"))),
            // One request and those beyond the rate.
            ("burst", Value::plain((burst + 1).min(1_000_000))),
        ]);
        if let Some(key) = self.counted_by(of_zone.arg(0))? {
            limit.set("key", key);
        }
        Ok((zone, Map::of([("rate_limit", limit.into())])))
    }

    /// What is counted apart by the variable of a zone; none for the client.
    fn counted_by(&self, variable: &str) -> Result<Option<Value>, String> {
        if self.defined.contains(variable.trim_start_matches('$')) {
            return Err(format!("requests cannot be counted by `{variable}`, which the configuration defines"));
        }
        let named = |of: &str, name: String| Some(Value::Map(Map::of([(of, Value::text(name))])));
        Ok(match variable {
            "$binary_remote_addr" | "$remote_addr" => None,
            "$server_name" => Some("all".into()),
            other => match (other.strip_prefix("$http_"), other.strip_prefix("$cookie_")) {
                (Some(field), _) => named("header", field.replace('_', "-")),
                (_, Some(cookie)) => named("cookie", cookie.to_owned()),
                _ => return Err(format!("requests cannot be counted by `{other}`")),
            },
        })
    }
}

/// The value of an argument `name=value`.
fn argument(of: &Directive, name: &str) -> Option<String> {
    of.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// What makes a question to a service another one, or answers without it. Bodies are not sent anyhow.
fn decides<'d>(scope: &Scope<'d>, location: &'d Directive) -> Option<&'d Directive> {
    let is_rule = |directive: &&Directive| {
        matches!(
            directive.name.as_str(),
            "if" | "return" | "rewrite" | "set" | "try_files" | "limit_except" | "limit_req" | "limit_conn"
        ) || known::is_handler(&directive.name)
    };
    let is_script = |directive: &&Directive| known::is_script(&directive.name);
    let rule = location.inner().iter().find(is_rule).or_else(|| scope.one("proxy_method"));
    rule.or_else(|| scope.one("proxy_set_body")).or_else(|| scope.levels().flatten().find(is_script))
}

/// A network as people write it: an address without its prefix.
fn plain(network: &ipnet::IpNet) -> String {
    match network.prefix_len() == network.max_prefix_len() {
        true => network.addr().to_string(),
        false => network.to_string(),
    }
}

/// The folder that relative names of files start at.
pub(crate) fn root_of(path: &Path) -> std::path::PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // Pieces stand in folders beside the main file.
    let is_of_pieces = ["sites-enabled", "sites-available", "conf.d", "snippets", "http.d", "vhosts.d", "servers"];
    match is_of_pieces.contains(&name) {
        true => folder.parent().unwrap_or(folder).to_owned(),
        false => folder.to_owned(),
    }
}
