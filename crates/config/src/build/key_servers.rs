//! `key_servers`: groups of servers that hold the keys of keystores, and how they are spoken to.
//!
//! Resolves and connects to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::upstreams::ejection;
use super::{Build, address, identifier, read};
use crate::model::{KeyServersConfig, ServerAddress, UpstreamConfig, UpstreamTls};
use crate::yaml::Node;

impl Build<'_> {
    pub(super) fn key_servers(&mut self, root: &Node) -> BTreeMap<String, Arc<KeyServersConfig>> {
        let mut out = BTreeMap::new();
        for entry in root.get("key_servers").map(Node::entries).unwrap_or_default() {
            let name = self.take(entry.key_span, identifier(&entry.key));
            let group = self.key_server_group(&entry.key, &entry.value);
            if let Some(name) = name {
                out.insert(name, Arc::new(group));
            }
        }
        out
    }

    fn key_server_group(&mut self, name: &str, node: &Node) -> KeyServersConfig {
        let default = KeyServersConfig::new(name);
        let upstream = UpstreamConfig {
            servers: self.servers(node, address::Service::Keys),
            tls: self.key_group_tls(node),
            connect_timeout: read::duration(node, "connect_timeout").unwrap_or(default.upstream.connect_timeout),
            ejection: ejection(node),
            retry_budget_percent: read::int(node, "retry_budget").unwrap_or(default.upstream.retry_budget_percent),
            max_in_flight: read::int(node, "max_in_flight").unwrap_or(default.upstream.max_in_flight),
            ..UpstreamConfig::clone(&default.upstream)
        };
        let is_tcp = |address: &ServerAddress| !matches!(address, ServerAddress::Unix(_));
        if upstream.tls.is_none() && upstream.servers.iter().any(|server| is_tcp(&server.address)) {
            let at = node.entries().first().map_or(node.span, |entry| entry.key_span);
            self.problems.add(
                at,
                "a key server on TCP is spoken to over mutual TLS, and a part of it is missing",
                "add `ca`, `client_certificate` and `client_key` (`portunus key-server init` makes them)",
            );
        }
        KeyServersConfig {
            upstream: Arc::new(upstream),
            timeout: read::duration(node, "timeout").unwrap_or(default.timeout),
            total_timeout: read::duration(node, "total_timeout").unwrap_or(default.total_timeout),
            connections: read::int(node, "connections").unwrap_or(default.connections),
            ping_every: read::duration(node, "ping_every").unwrap_or(default.ping_every),
        }
    }

    /// The TLS of servers on TCP; none unless all of it is there.
    fn key_group_tls(&mut self, node: &Node) -> Option<UpstreamTls> {
        let tls = UpstreamTls {
            ca: self.file(node, "ca"),
            name: self.parsed(node, "name", address::host_name),
            client_certificate: self.file(node, "client_certificate"),
            client_key: self.file(node, "client_key"),
            verify: true,
            policy: tls::Policy::Intermediate,
        };
        (tls.ca.is_some() && tls.client_certificate.is_some() && tls.client_key.is_some()).then_some(tls)
    }
}
