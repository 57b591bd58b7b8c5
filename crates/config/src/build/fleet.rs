//! The file of a node of a fleet: where etcd is, and under which key what is in it was sealed.
//!
//! Reads no key and asks nobody.

use super::{Build, Fault, Referenced, identifier, read};
use crate::fleet::{EtcdEndpoint, FleetConfig};
use crate::machine::Machine;
use crate::model::Output;
use crate::problem::{Collector, shown};
use crate::sources::Sources;
use crate::yaml::Node;

/// Longest beginning of keys, bytes.
const MAX_PREFIX_BYTES: usize = 128;

/// Builds the file of a node. None only if a problem was noted, now or before.
pub(crate) fn build_fleet(
    root: &Node,
    sources: &Sources,
    machine: &Machine,
    problems: &mut Collector,
) -> (Option<FleetConfig>, Vec<Referenced>) {
    let mut build = Build::new(sources, machine, problems);
    let config = read::mapping(root, "fleet").and_then(|node| build.fleet(node));
    let referenced = build.referenced;
    (config.filter(|_| problems.is_empty()), referenced)
}

impl Build<'_> {
    fn fleet(&mut self, node: &Node) -> Option<FleetConfig> {
        let etcd = self.parsed_list(node, "etcd", endpoint);
        if let Some(list) = node.get("etcd").filter(|list| list.one_or_many().is_empty()) {
            self.problems.add(list.span, "`etcd` is empty", "name a member: `https://etcd-1.example:2379`");
        }
        let (mut ca, mut identity) = (None, None);
        if let Some(tls) = read::mapping(node, "tls") {
            if !etcd.is_empty() && etcd.iter().all(|endpoint| !endpoint.is_tls) {
                let what = "`tls` is set, and no endpoint speaks it";
                self.problems.add(tls.span, what, "write the endpoints as `https://HOST:PORT`, or remove `tls`");
            }
            ca = self.file(tls, "ca");
            identity = match (self.file(tls, "certificate"), self.file(tls, "private_key")) {
                (Some(certificate), Some(key)) => Some((certificate, key)),
                (None, None) => None,
                _ => {
                    let what = "of `certificate` and `private_key` one is missing";
                    self.problems.add(tls.span, what, "name both, or neither");
                    None
                }
            };
        }
        let seal_key = read::mapping(node, "seal").and_then(|seal| self.file(seal, "key_file"));
        let cache =
            node.get("cache").and_then(|cache| self.written(cache, "configurations of the fleet", Output::Folder));
        Some(FleetConfig {
            etcd,
            prefix: self.parsed(node, "prefix", prefix)?,
            node: self.parsed(node, "node", identifier),
            ca,
            identity,
            seal_key: seal_key?,
            cache: cache?,
        })
    }
}

fn endpoint(text: &str) -> Result<EtcdEndpoint, Fault> {
    EtcdEndpoint::of(text).map_err(|what| {
        let fix = "write `https://HOST:PORT`; `http://` is for an etcd on this machine alone";
        Fault::new(format!("{} {what}", shown(text)), fix)
    })
}

/// The beginning of keys: `/a/b`.
fn prefix(text: &str) -> Result<String, Fault> {
    let fits = |part: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        !part.is_empty() && part.bytes().all(is_plain)
    };
    match text.strip_prefix('/') {
        Some(rest) if text.len() <= MAX_PREFIX_BYTES && rest.split('/').all(fits) => Ok(text.to_owned()),
        _ => Err(Fault::new(
            format!("{} cannot be what keys begin with", shown(text)),
            "write words of letters, digits, `.`, `_` and `-`, each with a `/` before it: `/portunus/edge`",
        )),
    }
}
