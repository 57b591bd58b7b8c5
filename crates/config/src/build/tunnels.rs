//! `tunnel` of listeners: who gets which bytes.
//!
//! Looks up names of upstreams; connects to nothing.

use std::collections::{BTreeMap, HashSet};

use super::listeners::alpn;
use super::policies::{Carried, KnownPolicies};
use super::{Build, address, read};
use crate::model::{HostPattern, TunnelConfig, TunnelRule};
use crate::problem::{Span, shown};
use crate::yaml::{Node, Value};

/// A name, if it is for one, and a protocol, if it is for one.
type Key = (Option<HostPattern>, Option<String>);

/// What a tunnel may name.
#[derive(Clone, Copy)]
pub(super) struct KnownHere<'a> {
    pub(super) upstreams: &'a BTreeMap<&'a str, Span>,
    pub(super) policies: &'a KnownPolicies<'a>,
}

impl Build<'_> {
    /// `has_tls`: the listener opens TLS. If not, all that is chosen by name or protocol stays closed.
    pub(super) fn tunnel(&mut self, node: &Node, has_tls: bool, known: KnownHere<'_>) -> TunnelConfig {
        let mut taken: HashSet<Key> = HashSet::new();
        let mut rules = Vec::new();
        for item in node.get("rules").map(Node::items).unwrap_or_default() {
            rules.extend(self.tunnel_rule(item, has_tls, known, &mut taken));
        }
        if let Some(name) = node.get("upstream") {
            let passthrough = self.passthrough(node, has_tls, !rules.is_empty());
            let policies = self.connection_policies(node, known.policies, Carried::Tunnels);
            if let Some(upstream) = self.name_of(name, "upstream", known.upstreams) {
                rules.push(TunnelRule { names: Vec::new(), alpn: Vec::new(), upstream, passthrough, policies });
            }
        } else if node.get("rules").is_none_or(|rules| matches!(&rules.value, Value::List(items) if items.is_empty())) {
            let fix = "add `upstream: NAME`, or `rules` with a `server_name` and an `upstream` each";
            self.problems.add(node.span, "`tunnel` leads nowhere", fix);
        } else if let Some(entry) = node.entry("policies") {
            let what = "`policies` here are those of `upstream`, and there is none";
            self.problems.add(entry.key_span, what, "write them in the rules, or for all connections beside `tunnel`");
        }
        TunnelConfig {
            rules,
            idle_timeout: read::duration(node, "idle_timeout"),
            max_lifetime: read::duration(node, "max_lifetime"),
        }
    }

    fn tunnel_rule(
        &mut self,
        node: &Node,
        has_tls: bool,
        known: KnownHere<'_>,
        taken: &mut HashSet<Key>,
    ) -> Option<TunnelRule> {
        let names = self.parsed_list(node, "server_name", address::host_pattern);
        let protocols = self.parsed_list(node, "alpn", |text| alpn(text, true));
        if node.entry("server_name").is_none() && node.entry("alpn").is_none() {
            let what = "this rule is for everything";
            self.problems.add(node.span, what, "add `server_name` or `alpn`, or write its `upstream` beside `rules`");
        }
        let upstream = node.get("upstream").and_then(|name| self.name_of(name, "upstream", known.upstreams));
        let policies = self.connection_policies(node, known.policies, Carried::Tunnels);
        let passthrough = self.passthrough(node, has_tls, true);
        for key in keys(&names, &protocols) {
            let text = match &key {
                (Some(HostPattern::Exact(name)), _) => shown(name),
                (Some(HostPattern::Wildcard(parent)), _) => shown(&format!("*.{parent}")),
                (None, protocol) => shown(protocol.as_deref().unwrap_or_default()),
            };
            if !taken.insert(key) {
                let what = format!("there is already a rule for {text}");
                self.problems.add(node.span, what, "keep one rule for each name and protocol");
            }
        }
        Some(TunnelRule { names, alpn: protocols, upstream: upstream?, passthrough, policies })
    }

    /// Whether TLS stays closed: as said, else wherever it cannot be opened but must be looked at.
    fn passthrough(&mut self, node: &Node, has_tls: bool, is_chosen: bool) -> bool {
        let said = read::boolean(node, "passthrough");
        if let (Some(false), false, true, Some(entry)) = (said, has_tls, is_chosen, node.entry("passthrough")) {
            let what = "TLS cannot be opened here: the listener has no `tls`";
            self.problems.add(entry.key_span, what, "add `tls` to the listener, or leave TLS closed");
        }
        said.unwrap_or(!has_tls && is_chosen)
    }
}

fn keys(names: &[HostPattern], protocols: &[String]) -> Vec<Key> {
    let any_or = |protocols: &[String]| match protocols {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let names: Vec<Option<HostPattern>> =
        if names.is_empty() { vec![None] } else { names.iter().cloned().map(Some).collect() };
    names.iter().flat_map(|name| any_or(protocols).into_iter().map(|protocol| (name.clone(), protocol))).collect()
}
