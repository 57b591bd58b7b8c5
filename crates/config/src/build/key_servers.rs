//! `key_servers`: groups of servers that hold the keys of keystores, and how they are spoken to.
//!
//! Resolves and connects to nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Build, address, identifier};
use crate::model::{
    ENROLLED_IDENTITY, ENROLLED_SERVER_CA, Ejection, KeyServersConfig, Output, ServerAddress, UpstreamConfig,
    UpstreamTls,
};
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
        let default = KeyServersConfig::read(name, node);
        let enrolment = self.enrolled_folder(node);
        let upstream = UpstreamConfig {
            servers: self.servers(node, address::Service::Keys),
            tls: self.key_group_tls(node, enrolment.as_deref()),
            ejection: node.get("ejection").map(Ejection::read).unwrap_or_default(),
            ..UpstreamConfig::clone(&default.upstream)
        };
        let is_tcp = |address: &ServerAddress| !matches!(address, ServerAddress::Unix(_));
        if upstream.tls.is_none() && upstream.servers.iter().any(|server| is_tcp(&server.address)) {
            let at = node.entries().first().map_or(node.span, |entry| entry.key_span);
            self.problems.add(
                at,
                "a key server on TCP is spoken to over mutual TLS, and a part of it is missing",
                "add `ca`, `client_certificate` and `client_key` (`portunus key-server init` makes them), or `enrolment`",
            );
        }
        KeyServersConfig { upstream: Arc::new(upstream), enrolment, ..default }
    }

    /// The folder of `enrolment`, which stands for all files of TLS. Whether a node has enrolled is seen when the files are read.
    fn enrolled_folder(&mut self, node: &Node) -> Option<PathBuf> {
        let at = node.get("enrolment")?;
        for key in ["ca", "client_certificate", "client_key"] {
            if let Some(other) = node.get(key) {
                let what = format!("`{key}` beside `enrolment`, which brings its own");
                self.problems.add(other.span, what, "remove one of the two");
            }
        }
        self.written(at, "client certificates that are renewed", Output::Folder)
    }

    /// The TLS of servers on TCP; none unless all of it is there.
    fn key_group_tls(&mut self, node: &Node, enrolled: Option<&Path>) -> Option<UpstreamTls> {
        let of_enrolment = |name: &str| enrolled.map(|folder| folder.join(name));
        let tls = UpstreamTls {
            ca: self.file(node, "ca").or_else(|| of_enrolment(ENROLLED_SERVER_CA)),
            name: self.parsed(node, "server_name", address::host_name),
            client_certificate: self.file(node, "client_certificate").or_else(|| of_enrolment(ENROLLED_IDENTITY)),
            client_key: self.file(node, "client_key").or_else(|| of_enrolment(ENROLLED_IDENTITY)),
            names: tls::NameCheck::default(),
            verify: true,
            policy: tls::Policy::Intermediate,
        };
        (tls.ca.is_some() && tls.client_certificate.is_some() && tls.client_key.is_some()).then_some(tls)
    }
}
