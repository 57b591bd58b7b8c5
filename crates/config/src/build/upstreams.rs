//! `upstreams`: groups of servers, and the settings of connections to them.
//!
//! Resolves and connects to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tls::NameCheck;

use super::address::Service;
use super::listeners::policy;
use super::{Build, Fault, address, headers, identifier, read};
use crate::model::{
    Action, Balance, Config, Ejection, HashKey, OwnZone, Retries, RouteConfig, SendProxy, ServerAddress, ServerConfig,
    StickyConfig, UpstreamConfig, UpstreamProtocol, UpstreamTls,
};
use crate::problem::shown;
use crate::table::setting;
use crate::yaml::{Node, Value};

impl Build<'_> {
    pub(super) fn upstreams(&mut self, root: &Node) -> BTreeMap<String, Arc<UpstreamConfig>> {
        let mut out = BTreeMap::new();
        for entry in root.get("upstreams").map(Node::entries).unwrap_or_default() {
            let name = self.take(entry.key_span, identifier(&entry.key));
            let mut upstream = self.upstream(&entry.key, &entry.value);
            upstream.own_zone = self.own_zone(root, &entry.value, &upstream);
            if let Some(name) = name {
                out.insert(name, Arc::new(upstream));
            }
        }
        out
    }

    fn upstream(&mut self, name: &str, node: &Node) -> UpstreamConfig {
        let upstream = UpstreamConfig {
            servers: self.servers(node, Service::Web),
            balance: self.balance(node),
            retry_budget_percent: node.get("retries").map_or(0, |retries| setting(retries, "budget")),
            retries: node.get("retries").map(Retries::read).unwrap_or_default(),
            ejection: node.get("ejection").map(Ejection::read).unwrap_or_default(),
            source: self.source(node),
            original_dst: self.destinations(node),
            sticky: node.get("sticky").and_then(|sticky| self.sticky(sticky, node)),
            health: read::mapping(node, "health").and_then(|health| self.health(health, node)),
            ..self.connection_settings(name, node)
        };
        if let (Some(entry), Balance::Hash { .. }) = (node.entry("slow_start"), &upstream.balance) {
            let what = "`slow_start` has no effect beside `balance: { hash: … }`, which decides on the server";
            self.problems.add(entry.key_span, what, "remove `slow_start`");
        }
        if upstream.protocol == UpstreamProtocol::Udp {
            return self.of_datagrams(node, upstream);
        }
        self.source_rules(node, &upstream);
        let is_unix = |server: &ServerConfig| matches!(server.address, ServerAddress::Unix(_));
        let needs_name = upstream.tls.as_ref().is_some_and(|tls| tls.verify && tls.name.is_none());
        if let Some(tls) = node.entry("tls").filter(|_| needs_name && upstream.servers.iter().any(is_unix)) {
            let what = "a server on a Unix socket has no name to verify its certificate by";
            self.problems.add(tls.key_span, what, "say which: `tls: { server_name: app.internal }`");
        }
        let is_service =
            |server: &ServerConfig| matches!(server.address, ServerAddress::Service(_) | ServerAddress::Listed(_));
        if let Some(tls) = node.entry("tls").filter(|_| needs_name && upstream.servers.iter().any(is_service)) {
            let what = "SRV records and directories say which servers there are, and nobody vouches for them";
            self.problems.add(
                tls.key_span,
                what,
                "say which name its certificate has: `tls: { server_name: app.internal }`",
            );
        }
        self.hedge_rules(node, &upstream);
        let is_negotiated = upstream.protocol == UpstreamProtocol::Auto;
        if let Some(entry) = node.entry("protocol").filter(|_| is_negotiated && upstream.tls.is_none()) {
            let what = "`protocol: auto` is agreed on by ALPN, which is a part of TLS";
            self.problems.add(entry.value.span, what, "add `tls`, or write `http1` or `http2`");
        }
        upstream
    }

    /// The zone whose servers an upstream prefers, if its servers have any.
    fn own_zone(&mut self, root: &Node, node: &Node, upstream: &UpstreamConfig) -> Option<OwnZone> {
        let own = read::text(root, "zone").filter(|zone| !zone.is_empty());
        let has_zones = upstream.servers.iter().any(|server| server.zone.is_some());
        if let (true, None, Some(servers)) = (has_zones, own, node.entry("servers")) {
            let what = "servers have a `zone`, and it is not known which one this process is in";
            self.problems.add(servers.key_span, what, "say so at the top of the file: `zone: eu-west-1a`");
        }
        let name = own.filter(|_| has_zones)?.to_owned();
        Some(OwnZone { name, threshold: setting(node, "zone_threshold") })
    }

    /// Whether requests can be hedged where that is asked for.
    fn hedge_rules(&mut self, node: &Node, upstream: &UpstreamConfig) {
        let Some(entry) = node.get("retries").and_then(|retries| retries.entry("hedge")) else { return };
        let why = match upstream {
            UpstreamConfig { protocol: UpstreamProtocol::Tcp, .. } => "tunnels are not",
            UpstreamConfig { retry_budget_percent: 0, .. } => "hedged requests count against `budget`, which is 0",
            UpstreamConfig { retries: Retries { attempts: Some(1), .. }, .. } => {
                "`attempts: 1` allows no second server"
            }
            _ => return,
        };
        let what = match upstream.protocol {
            UpstreamProtocol::Tcp => "only HTTP requests are hedged".to_owned(),
            _ => format!("`hedge` has no effect: {why}"),
        };
        self.problems.add(entry.key_span, what, "remove `hedge`, or change what stands against it");
    }

    fn sticky(&mut self, node: &Node, upstream: &Node) -> Option<StickyConfig> {
        if read::text(upstream, "protocol") == Some("tcp") {
            self.problems.add(
                node.span,
                "tunnels have no cookies",
                "remove `sticky`, or balance by `{ hash: client }`",
            );
        }
        let same_site = setting(node, "same_site");
        let cookie = self.parsed(node, "cookie", cookie_name);
        let key = node.get("key").and_then(|key| self.secret(key));
        Some(StickyConfig { cookie: cookie?, lifetime: setting(node, "lifetime"), same_site, key })
    }

    /// Whether what decides on the server exists where its upstream is used.
    pub(super) fn hash_rules(&mut self, root: &Node, config: &Config) {
        for entry in root.get("upstreams").map(Node::entries).unwrap_or_default() {
            let Some(upstream) = config.upstreams.get(&entry.key) else { continue };
            let (Balance::Hash { key, .. }, Some(at)) = (&upstream.balance, entry.value.get("balance")) else {
                continue;
            };
            let carried = match upstream.protocol {
                UpstreamProtocol::Tcp => Some("tunnels"),
                UpstreamProtocol::Udp => Some("datagrams"),
                UpstreamProtocol::Http1 | UpstreamProtocol::Http2 | UpstreamProtocol::Auto => None,
            };
            if let Some(carried) = carried.filter(|_| *key != HashKey::Client) {
                let what = format!("{carried} have no header, cookie or path to balance by");
                self.problems.add(at.span, what, "write `hash: client`");
            }
            let HashKey::Path(name) = key else { continue };
            let uses = |route: &&RouteConfig| match &route.action {
                Action::Forward(forward) => forward.groups().any(|group| group == entry.key),
                _ => false,
            };
            let lacks = |route: &&RouteConfig| !route.path.parameters().any(|parameter| parameter == name);
            if let Some(route) = config.routes.iter().filter(uses).find(lacks) {
                let what = format!("{} has no path parameter {} to balance by", route.place, shown(name));
                self.problems.add(
                    at.span,
                    what,
                    "name it in the `path` of that route, or give the route an upstream of its own",
                );
            }
        }
    }

    fn balance(&mut self, upstream: &Node) -> Balance {
        let Some(hash) = read::mapping(upstream, "balance") else {
            return match read::text(upstream, "balance") {
                Some("least_loaded") => Balance::LeastLoaded,
                Some("random_two") => Balance::RandomTwo,
                _ => Balance::RoundRobin,
            };
        };
        let key = match read::mapping(hash, "hash") {
            None => match read::text(hash, "hash") {
                Some("path") => Some(HashKey::WholePath),
                Some("target") => Some(HashKey::Target),
                _ => Some(HashKey::Client),
            },
            Some(key) => {
                let header = self.parsed(key, "header", headers::field_name).map(HashKey::Header);
                let cookie = self.parsed(key, "cookie", cookie_name).map(HashKey::Cookie);
                let path = read::text(key, "path").map(|name| HashKey::Path(name.to_owned()));
                header.or(cookie).or(path)
            }
        };
        let balance_factor: u32 = setting(hash, "balance_factor");
        if let Some(entry) = hash.entry("balance_factor").filter(|_| (1..=100).contains(&balance_factor)) {
            let what =
                format!("with a `balance_factor` of {balance_factor} the servers together take less than there is");
            self.problems.add(entry.value.span, what, "use more than 100, such as 150, or 0 for no bound");
        }
        Balance::Hash { key: key.unwrap_or(HashKey::Client), balance_factor }
    }

    pub(super) fn servers(&mut self, node: &Node, service: Service) -> Vec<ServerConfig> {
        let Some(list) = node.get("servers") else { return Vec::new() };
        if matches!(&list.value, Value::List(items) if items.is_empty()) {
            self.problems.add(
                list.span,
                "`servers` is empty",
                "name at least one server: `servers: [\"127.0.0.1:9000\"]`",
            );
        }
        let mut out: Vec<ServerConfig> = Vec::new();
        for item in list.one_or_many() {
            let at = ["srv", "source", "address"].into_iter().find_map(|key| item.get(key)).unwrap_or(item);
            let Some(text) = at.text() else { continue };
            self.service_of_a_source(item);
            let address = match (item.get("srv"), item.get("source")) {
                (Some(_), _) => self.take(at.span, address::service_name(text).map(ServerAddress::Service)),
                (None, Some(_)) => self.listed(item, at),
                (None, None) => self.server(at.span, text, service),
            };
            let Some(address) = address else { continue };
            if out.iter().any(|server| server.address == address) {
                self.problems.add(
                    at.span,
                    format!("{} is in `servers` twice", shown(text)),
                    "name each server once, with a `weight` if it should get more",
                );
                continue;
            }
            out.push(ServerConfig {
                weight: read::int(item, "weight").unwrap_or(1),
                priority: read::int(item, "priority").unwrap_or(0),
                is_backup: read::boolean(item, "backup") == Some(true),
                max_in_flight: read::int(item, "max_in_flight"),
                zone: read::text(item, "zone").filter(|zone| !zone.is_empty()).map(str::to_owned),
                ..ServerConfig::at(address)
            });
        }
        if !out.is_empty() && out.iter().all(|server| server.is_backup) {
            let what = "every server is a `backup`, so there is none to stand in for";
            self.problems.add(list.span, what, "remove `backup` from those that shall get the requests");
        }
        out
    }

    /// The settings that a group and a server made from a URL share; no servers.
    pub(super) fn connection_settings(&mut self, name: &str, node: &Node) -> UpstreamConfig {
        UpstreamConfig {
            protocol: match read::text(node, "protocol") {
                Some("http2") => UpstreamProtocol::Http2,
                Some("auto") => UpstreamProtocol::Auto,
                Some("tcp") => UpstreamProtocol::Tcp,
                Some("udp") => UpstreamProtocol::Udp,
                _ => UpstreamProtocol::Http1,
            },
            tls: self.upstream_tls(node),
            send_proxy: match read::text(node, "send_proxy") {
                Some("v1") => SendProxy::V1,
                Some("v2") => SendProxy::V2,
                Some("v2_tlvs") => SendProxy::V2Tlvs,
                _ => SendProxy::Off,
            },
            ..UpstreamConfig::read(name, node)
        }
    }

    pub(super) fn upstream_tls(&mut self, upstream: &Node) -> Option<UpstreamTls> {
        let node = upstream.get("tls")?;
        if let Some(on) = read::as_bool(node) {
            return on.then(UpstreamTls::default);
        }
        let tls = UpstreamTls {
            ca: self.file(node, "ca"),
            name: self.parsed(node, "server_name", address::host_name),
            client_certificate: self.file(node, "client_certificate"),
            client_key: self.file(node, "client_key"),
            verify: read::boolean(node, "insecure_skip_verify") != Some(true),
            names: match read::text(node, "verify_name") {
                Some("common_name") => NameCheck::CommonName,
                Some("none") => NameCheck::Authority,
                _ => NameCheck::AlternativeNames,
            },
            policy: read::text(node, "policy").and_then(policy).unwrap_or_default(),
        };
        let pair = [("client_certificate", "client_key"), ("client_key", "client_certificate")];
        for (here, missing) in pair {
            if let (Some(entry), None) = (node.entry(here), node.entry(missing)) {
                self.problems.add(
                    entry.key_span,
                    format!("`{here}` without `{missing}`"),
                    format!("add `{missing}`: both make a pair"),
                );
            }
        }
        if let Some(entry) = node.entry("verify_name").filter(|_| tls.names == NameCheck::Authority && tls.ca.is_none())
        {
            let what = "without `ca`, every server in the world with a certificate would do";
            self.problems.add(entry.key_span, what, "add `ca`: a file with the authority of these servers alone");
        }
        if let (Some(entry), false) = (node.entry("verify_name"), tls.verify) {
            let what = "`verify_name` has no effect beside `insecure_skip_verify: true`";
            self.problems.add(entry.key_span, what, "remove `insecure_skip_verify`");
        }
        if let (Some(ca), false) = (node.entry("ca"), tls.verify) {
            let what = "`ca` has no effect beside `insecure_skip_verify: true`";
            self.problems.add(
                ca.key_span,
                what,
                "remove `insecure_skip_verify`, so that servers are verified by this `ca`",
            );
        }
        Some(tls)
    }
}

/// Reads the name of a cookie (RFC 6265 §4.1.1: a token).
fn cookie_name(text: &str) -> Result<String, Fault> {
    if headers::is_token(text) {
        return Ok(text.to_owned());
    }
    Err(Fault::new(format!("{} is not the name of a cookie", shown(text)), "use letters, digits, `_`, `-` and `.`"))
}
