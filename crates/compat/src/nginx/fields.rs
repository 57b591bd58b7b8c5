//! Header fields both ways: `proxy_set_header`, `add_header`, `proxy_hide_header`, and the Host that goes upstream.

use std::collections::{BTreeMap, BTreeSet};

use super::defined;
use super::forward::Proxy;
use super::scope::Scope;
use super::site::Making;
use super::syntax::Directive;
use super::values::{Values, is_variable};
use crate::addresses::is_authority;
use crate::header_fields::{FRAMING, field_fits, is_identity};
use crate::native::{Map, Value};

/// Statuses that `add_header` without `always` is for.
const ORDINARY: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// Fields about the client, and the values that say the same as ours do.
const STANDARD: [(&str, &[&str]); 6] = [
    ("x-forwarded-for", &["$proxy_add_x_forwarded_for", "$remote_addr"]),
    ("x-forwarded-proto", &["$scheme"]),
    ("x-forwarded-host", &["$http_host"]),
    ("x-forwarded-port", &["$server_port"]),
    ("x-real-ip", &["$remote_addr"]),
    ("x-request-id", &["$request_id"]),
];

/// Whether this value of a field says the same as ours does.
fn is_ours(field: &str, value: &str) -> bool {
    STANDARD.iter().any(|(name, values)| *name == field && values.contains(&value))
}

/// Which fields about the client are sent everywhere alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Forwarding {
    pub(crate) x_forwarded: bool,
    pub(crate) x_forwarded_host: bool,
    pub(crate) x_forwarded_port: bool,
    pub(crate) x_real_ip: bool,
    pub(crate) request_id: bool,
}

impl Forwarding {
    /// What these forwarding places have in common, those left out that say nothing of the client. None if there are no places.
    pub(crate) fn of(places: &[Vec<&Directive>]) -> Option<Forwarding> {
        if places.is_empty() {
            return None;
        }
        let is_of = |directive: &&Directive, start: &str| directive.arg(0).to_ascii_lowercase().starts_with(start);
        let places_with = |start: &str| -> Vec<&Vec<&Directive>> {
            places.iter().filter(|place| place.iter().any(|directive| is_of(directive, start))).collect()
        };
        let sets = |place: &[&Directive], field: &str| {
            let directive = place.iter().rev().find(|directive| directive.arg(0).eq_ignore_ascii_case(field));
            directive.map(|directive| is_ours(field, directive.arg(1)))
        };
        let all = |field: &str, start: &str| {
            let places = places_with(start);
            !places.is_empty() && places.iter().all(|place| sets(place, field) == Some(true))
        };
        Some(Forwarding {
            x_forwarded: all("x-forwarded-for", "x-forwarded-") && all("x-forwarded-proto", "x-forwarded-"),
            x_forwarded_host: all("x-forwarded-host", "x-forwarded-"),
            x_forwarded_port: all("x-forwarded-port", "x-forwarded-"),
            x_real_ip: all("x-real-ip", "x-real-ip"),
            request_id: all("x-request-id", "x-request-id"),
        })
    }

    /// The native setting.
    pub(crate) fn native(self) -> Map {
        let mut map = Map::default();
        for (key, is_on) in [
            ("x_forwarded", self.x_forwarded),
            ("x_forwarded_host", self.x_forwarded_host || !self.x_forwarded),
            ("x_forwarded_port", self.x_forwarded_port || !self.x_forwarded),
            ("x_real_ip", self.x_real_ip),
            ("request_id", self.request_id),
        ] {
            if !is_on {
                map.set(key, Value::plain(false));
            }
        }
        map.set("via", Value::plain(false));
        map
    }

    /// Whether we write a field by ourselves.
    fn writes(self, field: &str) -> bool {
        match field {
            "x-real-ip" => self.x_real_ip,
            "x-request-id" => self.request_id,
            "x-forwarded-for" | "x-forwarded-proto" => self.x_forwarded,
            "x-forwarded-host" => self.x_forwarded && self.x_forwarded_host,
            "x-forwarded-port" => self.x_forwarded && self.x_forwarded_port,
            _ => false,
        }
    }
}

/// The field of the response of `auth_request` that a variable stands for.
pub(crate) fn asked_for(scope: &Scope<'_>, variable: &str) -> Option<String> {
    let is_asked = scope.one("auth_request").is_some_and(|directive| directive.arg(0) != "off");
    let set = scope.all(&["auth_request_set"]).into_iter().rev().find(|set| set.arg(0) == variable && is_asked)?;
    Some(set.arg(1).strip_prefix("$upstream_http_")?.replace('_', "-"))
}

impl Making<'_> {
    /// What goes upstream: Host, fields, and whether a connection may become a WebSocket.
    pub(crate) fn request_fields(
        &self,
        prefix: &str,
        scope: &Scope<'_>,
        proxy: &Proxy,
        values: &Values,
        route: &mut Map,
    ) -> Result<(), String> {
        let name = format!("{prefix}_set_header");
        let mut host = None;
        let mut upgrades = false;
        let mut set: BTreeMap<String, String> = BTreeMap::new();
        let mut remove: BTreeSet<String> = BTreeSet::new();
        let mut ours: BTreeSet<String> = BTreeSet::new();
        for directive in scope.all(&[name.as_str()]) {
            let (field, value) = (directive.arg(0).to_ascii_lowercase(), self.usual(directive.arg(1)));
            if value != directive.arg(1) && field != "host" {
                let how = "what a request says of itself is believed of `trusted_proxies` alone";
                route.comment(self.report.differs(&directive.place, &directive.shown(), how));
            }
            let copied = asked_for(scope, value);
            match field.as_str() {
                "host" => host = Some(directive),
                "upgrade" => upgrades |= !value.is_empty(),
                field if FRAMING.contains(&field) => {
                    if field == "proxy-connection" && !value.is_empty() {
                        let how = "fields of the connection to the server are written by Portunus alone";
                        route.comment(self.report.differs(&directive.place, &directive.shown(), how));
                    }
                }
                field if self.forwarding.writes(field) && is_ours(field, value) => _ = ours.insert(field.to_owned()),
                _ if value.is_empty() => _ = remove.insert(field),
                // The policy does not copy it, which the finding for `auth_request_set` says.
                _ if copied.as_ref().is_some_and(|header| !config::is_subject_field(header)) => {
                    _ = remove.insert(field)
                }
                _ if copied.is_some() => {
                    // Under its own name the policy copies it.
                    if let Some(header) = copied.filter(|header| *header != field && field_fits(&field, "").is_ok()) {
                        set.insert(field, format!("{{header.{header}}}"));
                    }
                }
                // What the client sends goes on by itself.
                field
                    if is_variable(value, &format!("http_{}", field.replace('-', "_")))
                        && values.shadowed(value).is_none()
                        && !is_identity(field) => {}
                _ => match self.field(&field, value, values) {
                    Ok(value) => _ = set.insert(field, value),
                    Err(why) => {
                        route.comment(self.report.left_out(&directive.place, &directive.shown(), &why));
                        // What the client says under this name is not what was meant.
                        if field_fits(&field, "").is_ok() {
                            remove.insert(field);
                        }
                    }
                },
            }
        }
        // What is sent elsewhere, and not here.
        let others = STANDARD.map(|(field, _)| field.to_owned()).into_iter();
        remove.extend(others.filter(|field| self.forwarding.writes(field) && !ours.contains(field)));
        remove.retain(|field| !set.contains_key(field));
        self.host(host, proxy, values, route)?;
        if !upgrades && prefix == "proxy" {
            route.set("upgrades", Value::List(Vec::new()));
        }
        edited(remove, set, route);
        Ok(())
    }

    /// A variable that stands for another one alone, as that.
    fn usual<'v>(&self, value: &'v str) -> &'v str {
        defined::stands_for(self.http, value).unwrap_or(value)
    }

    /// Whether a listener is for QUIC.
    fn serves_http3(&self) -> bool {
        let is_quic = |listen: &Directive| listen.name == "listen" && listen.args.iter().any(|arg| arg == "quic");
        self.server.is_some_and(|server| server.inner().iter().any(is_quic))
    }

    /// The value of a field that goes upstream.
    fn field(&self, field: &str, value: &str, values: &Values) -> Result<String, String> {
        // The client's own claims do not go on: what we know of it does.
        let value = match value {
            "$proxy_add_x_forwarded_for" => "$remote_addr",
            other => other,
        };
        field_fits(field, value)?;
        values.field(value)
    }

    /// The Host that the server gets.
    fn host(
        &self,
        directive: Option<&Directive>,
        proxy: &Proxy,
        values: &Values,
        route: &mut Map,
    ) -> Result<(), String> {
        let fixed = |text: &str, route: &mut Map| match is_authority(text) {
            true => route.set("host", Map::of([("set", Value::text(text))])),
            false => route.set("host", "upstream"),
        };
        let Some(directive) = directive else {
            fixed(&proxy.host, route);
            return Ok(());
        };
        let value = self.usual(directive.arg(1));
        if let Some(name) = values.shadowed(value) {
            return Err(format!("the host is `${name}`, which the configuration defines ({})", directive.place));
        }
        match value {
            "$http_host" => {}
            "$host" => route.set("host", "name"),
            "$host:$server_port" if values.port.is_some() => {
                let port = values.port.unwrap_or_default();
                route.set("host", Map::of([("set", Value::text(format!("{{host}}:{port}")))]));
            }
            "$proxy_host" => fixed(&proxy.host, route),
            text => match values.constant(text).filter(|text| is_authority(text)) {
                Some(text) => fixed(&text, route),
                None => {
                    let what = "the host is that of the client, a fixed one, or the server's, and not";
                    return Err(format!("{what} `{text}` ({})", directive.place));
                }
            },
        }
        Ok(())
    }

    /// What is changed in responses: of upstreams (`status` is none), or of our own with a status.
    pub(crate) fn response_fields(&self, scope: &Scope<'_>, status: Option<u16>, values: &Values, route: &mut Map) {
        let mut add: Vec<(String, String)> = Vec::new();
        let mut remove: Vec<String> = Vec::new();
        for directive in scope.all(&["add_header"]) {
            let (field, value) = (directive.arg(0), directive.arg(1));
            let always = directive.arg(2) == "always";
            if value.is_empty() || status.is_some_and(|status| !always && !ORDINARY.contains(&status)) {
                continue;
            }
            // Whoever serves HTTP/3 says where; a client that is told of it elsewhere would try in vain.
            if field.eq_ignore_ascii_case("alt-svc") && value.contains("h3") {
                if !self.serves_http3() {
                    let why = "HTTP/3 is not served";
                    route.comment(self.report.left_out(&directive.place, &directive.shown(), why));
                }
                continue;
            }
            match self.response_field(directive, always || status.is_some(), values) {
                Ok(value) if field.eq_ignore_ascii_case("strict-transport-security") => match is_hsts(&value) {
                    true => route.set("hsts", value),
                    false => add.push((field.to_owned(), value)),
                },
                Ok(value) if field.eq_ignore_ascii_case("content-type") && status.is_some() => {
                    route.update("respond", |respond| respond.set("content_type", value));
                }
                Ok(value) => match add.iter().any(|(other, _)| other.eq_ignore_ascii_case(field)) {
                    true => {
                        let why = "a field is added once";
                        route.comment(self.report.left_out(&directive.place, &directive.shown(), why));
                    }
                    false => add.push((field.to_owned(), value)),
                },
                Err(why) => route.comment(self.report.left_out(&directive.place, &directive.shown(), &why)),
            }
        }
        if status.is_none() {
            let passed: Vec<String> = scope
                .all(&["proxy_pass_header", "grpc_pass_header"])
                .iter()
                .map(|one| one.arg(0).to_ascii_lowercase())
                .collect();
            let hidden = scope.all(&["proxy_hide_header", "grpc_hide_header"]);
            let hidden = hidden.iter().map(|directive| directive.arg(0).to_ascii_lowercase());
            // nginx puts its own name there.
            for field in ["server".to_owned()].into_iter().chain(hidden) {
                if !passed.contains(&field) && !remove.contains(&field) && field_fits(&field, "").is_ok() {
                    remove.push(field);
                }
            }
        }
        let mut edits = Map::default();
        if !remove.is_empty() {
            edits.set("remove", Value::texts(remove));
        }
        if !add.is_empty() {
            let mut fields = Map::default();
            add.into_iter().for_each(|(field, value)| fields.set(&field, value));
            edits.set("add", fields);
        }
        if status.is_none() {
            self.upstream_urls(scope, values, &mut edits, route);
        }
        if !edits.is_empty() {
            route.set("response_headers", edits);
        }
    }

    fn response_field(&self, directive: &Directive, always: bool, values: &Values) -> Result<String, String> {
        let field = directive.arg(0).to_ascii_lowercase();
        let is_cached = ["cache-control", "expires", "pragma", "etag", "last-modified", "age", "set-cookie"];
        if !always && is_cached.contains(&field.as_str()) {
            return Err(
                "without `always` it is for good responses only, which cannot be said; errors would be cached, too"
                    .to_owned(),
            );
        }
        field_fits(&field, directive.arg(1))?;
        values.field(directive.arg(1))
    }
}

/// Fields of requests that a route removes and sets.
fn edited(remove: BTreeSet<String>, set: BTreeMap<String, String>, route: &mut Map) {
    let mut edits = Map::default();
    if !remove.is_empty() {
        edits.set("remove", Value::texts(remove));
    }
    if !set.is_empty() {
        let mut fields = Map::default();
        set.into_iter().for_each(|(field, value)| fields.set(&field, value));
        edits.set("set", fields);
    }
    if !edits.is_empty() {
        route.set("request_headers", edits);
    }
}

/// Whether a text is a value of Strict-Transport-Security that the reader of configurations takes.
fn is_hsts(value: &str) -> bool {
    let mut ages = 0;
    let is_known = value.split(';').map(str::trim).all(|part| match part.split_once('=') {
        Some((name, age)) => {
            ages += 1;
            name.eq_ignore_ascii_case("max-age")
                && (1..=10).contains(&age.len())
                && age.bytes().all(|byte| byte.is_ascii_digit())
        }
        None => part.eq_ignore_ascii_case("includeSubDomains") || part.eq_ignore_ascii_case("preload"),
    });
    is_known && ages == 1
}
