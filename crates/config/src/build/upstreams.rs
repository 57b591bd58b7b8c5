//! `upstreams`: groups of servers, and the settings of connections to them.
//!
//! Resolves and connects to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::address::Service;
use super::listeners::policy;
use super::template::Target;
use super::{Build, address, identifier, read};
use crate::model::{
    Balance, Ejection, HealthCheck, SendProxy, ServerAddress, ServerConfig, UpstreamConfig, UpstreamProtocol,
    UpstreamTls,
};
use crate::problem::shown;
use crate::table::setting;
use crate::yaml::{Node, Value};

impl Build<'_> {
    pub(super) fn upstreams(&mut self, root: &Node) -> BTreeMap<String, Arc<UpstreamConfig>> {
        let mut out = BTreeMap::new();
        for entry in root.get("upstreams").map(Node::entries).unwrap_or_default() {
            let name = self.take(entry.key_span, identifier(&entry.key));
            let upstream = self.upstream(&entry.key, &entry.value);
            if let Some(name) = name {
                out.insert(name, Arc::new(upstream));
            }
        }
        out
    }

    fn upstream(&mut self, name: &str, node: &Node) -> UpstreamConfig {
        let upstream = UpstreamConfig {
            servers: self.servers(node, Service::Web),
            balance: match read::text(node, "balance") {
                Some("least_loaded") => Balance::LeastLoaded,
                _ => Balance::RoundRobin,
            },
            retry_budget_percent: node.get("retries").map_or(0, |retries| setting(retries, "budget")),
            ejection: node.get("ejection").map(Ejection::read).unwrap_or_default(),
            source: self.source(node),
            original_dst: self.destinations(node),
            health: read::mapping(node, "health").and_then(|health| self.health(health, node)),
            ..self.connection_settings(name, node)
        };
        self.source_rules(node, &upstream);
        let is_unix = |server: &ServerConfig| matches!(server.address, ServerAddress::Unix(_));
        let needs_name = upstream.tls.as_ref().is_some_and(|tls| tls.verify && tls.name.is_none());
        if let Some(tls) = node.entry("tls").filter(|_| needs_name && upstream.servers.iter().any(is_unix)) {
            let what = "a server on a Unix socket has no name to verify its certificate by";
            self.problems.add(tls.key_span, what, "say which: `tls: { server_name: app.internal }`");
        }
        upstream
    }

    pub(super) fn servers(&mut self, node: &Node, service: Service) -> Vec<ServerConfig> {
        let base = self.base;
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
            let at = item.get("address").unwrap_or(item);
            let Some(text) = at.text() else { continue };
            let Some(address) = self.take(at.span, address::server(text, base, service)) else { continue };
            if out.iter().any(|server| server.address == address) {
                self.problems.add(
                    at.span,
                    format!("{} is in `servers` twice", shown(text)),
                    "name each server once, with a `weight` if it should get more",
                );
                continue;
            }
            out.push(ServerConfig { address, weight: read::int(item, "weight").unwrap_or(1) });
        }
        out
    }

    /// The settings that a group and a server made from a URL share; no servers.
    pub(super) fn connection_settings(&mut self, name: &str, node: &Node) -> UpstreamConfig {
        UpstreamConfig {
            protocol: match read::text(node, "protocol") {
                Some("http2") => UpstreamProtocol::Http2,
                Some("tcp") => UpstreamProtocol::Tcp,
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

    fn upstream_tls(&mut self, upstream: &Node) -> Option<UpstreamTls> {
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

    fn health(&mut self, node: &Node, upstream: &Node) -> Option<HealthCheck> {
        if node.entry("path").is_none() && read::text(upstream, "protocol") != Some("tcp") {
            let fix = "add `path: /health`, or `path: none` if a server that takes a connection is healthy";
            self.problems.add(node.span, "`health` lacks `path`", fix);
            return None;
        }
        let path = match read::text(node, "path") {
            Some("none") => None,
            _ => self.parsed(node, "path", |text| Target::cut_path(text)?.path_template(&[]).map(|_| text.to_owned())),
        };
        Some(HealthCheck::read(path, self.parsed(node, "host", address::authority), node))
    }
}
