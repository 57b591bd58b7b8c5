//! `discovery`: directories of servers, and what upstreams ask them for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Build, Fault, address, identifier, read};
use crate::model::{
    Directory, DiscoveryConfig, ListedService, Secret, ServerAddress, ServerConfig, UpstreamConfig, UpstreamProtocol,
};
use crate::problem::shown;
use crate::yaml::{Entry, Node};

/// Longest beginning of keys in etcd, bytes.
const MAX_PREFIX_BYTES: usize = 128;

impl Build<'_> {
    /// The directories.
    pub(super) fn discovery(&mut self, root: &Node) -> BTreeMap<String, Arc<DiscoveryConfig>> {
        let entries = root.get("discovery").map(Node::entries).unwrap_or_default();
        for entry in entries {
            self.directories.insert(entry.key.clone(), (entry.key_span, entry.value.get("consul").is_some()));
        }
        entries.iter().filter_map(|entry| self.directory(entry)).collect()
    }

    fn directory(&mut self, entry: &Entry) -> Option<(String, Arc<DiscoveryConfig>)> {
        let name = self.take(entry.key_span, identifier(&entry.key))?;
        let kinds = ["consul", "docker", "etcd"];
        let (kind, node) = kinds.into_iter().find_map(|kind| Some((kind, read::mapping(&entry.value, kind)?)))?;
        let upstream = UpstreamConfig {
            tls: self.upstream_tls(node),
            servers: self.addresses_of_directory(node),
            protocol: UpstreamProtocol::Http1,
            ..UpstreamConfig::new(format!("discovery-{name}"))
        };
        let token: Option<Secret> = read::mapping(node, "token").and_then(|node| self.secret(node));
        let networks = self.parsed_list(&entry.value, "networks", address::network);
        let by = match kind {
            "consul" => Directory::Consul { datacenter: self.parsed(node, "datacenter", identifier) },
            "docker" => Directory::Docker { network: self.parsed(node, "network", identifier) },
            _ => Directory::Etcd { prefix: self.parsed(node, "prefix", prefix)? },
        };
        Some((name.clone(), Arc::new(DiscoveryConfig { name, upstream: Arc::new(upstream), by, token, networks })))
    }

    fn addresses_of_directory(&mut self, node: &Node) -> Vec<ServerConfig> {
        let items = node.get("addresses").or_else(|| node.get("address")).map(Node::one_or_many).unwrap_or_default();
        let mut servers = Vec::new();
        for item in items {
            let Some(text) = item.text() else { continue };
            servers.extend(self.server(item.span, text, address::Service::Web).map(ServerConfig::at));
        }
        servers
    }

    /// A server that stands for those that a directory says there are.
    pub(super) fn listed(&mut self, item: &Node, source: &Node) -> Option<ServerAddress> {
        let known = self.directories.clone();
        let spans = known.iter().map(|(name, (span, _))| (name.as_str(), *span)).collect();
        let name = self.name_of(source, "directory", &spans)?;
        let has_tags = known.get(&name).is_some_and(|(_, has_tags)| *has_tags);
        if let Some(entry) = item.entry("tag").filter(|_| !has_tags) {
            let what = format!("`tag` has no effect: {} has no tags", shown(&name));
            self.problems.add(entry.key_span, what, "remove it, or register a service of another name");
        }
        let Some(service) = item.get("service").filter(|service| service.text().is_some()) else {
            self.problems.add(source.span, "`source` without `service`", "add `service`: what is it called there?");
            return None;
        };
        let service = self.take(service.span, identifier(service.text()?))?;
        let tag = self.parsed(item, "tag", identifier);
        Some(ServerAddress::Listed(ListedService { source: name, service, tag }))
    }

    /// Notes keys that only mean something beside `source`.
    pub(super) fn service_of_a_source(&mut self, item: &Node) {
        for key in ["service", "tag"] {
            if let Some(entry) = item.entry(key).filter(|_| item.get("source").is_none()) {
                let what = format!("`{key}` without `source`");
                self.problems.add(entry.key_span, what, "add `source: NAME`, an entry of `discovery`, or remove it");
            }
        }
    }
}

/// What keys in etcd begin with, without a slash at its end.
fn prefix(text: &str) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    if text.len() <= MAX_PREFIX_BYTES && text.starts_with('/') && !text.ends_with('/') && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    let fix = "write a path such as `/services`, without a slash at its end";
    Err(Fault::new(format!("{} cannot be what keys begin with", shown(text)), fix))
}
