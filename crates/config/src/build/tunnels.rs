//! `tunnel` of listeners: who gets which bytes.
//!
//! Looks up names of upstreams; connects to nothing.

use std::collections::{BTreeMap, HashSet};

use ipnet::IpNet;

use super::listeners::alpn;
use super::policies::{Carried, KnownPolicies};
use super::{Build, address, read};
use crate::model::{HostPattern, NotTls, TunnelConfig, TunnelRule};
use crate::problem::{Span, shown};
use crate::yaml::{Node, Value};

/// A name, a protocol and a network of clients, each if it is for one.
type Key = (Option<HostPattern>, Option<String>, Option<IpNet>);

/// What a tunnel may name.
#[derive(Clone, Copy)]
pub(super) struct KnownHere<'a> {
    pub(super) upstreams: &'a BTreeMap<&'a str, Span>,
    pub(super) policies: &'a KnownPolicies<'a>,
}

impl Build<'_> {
    /// `has_tls`: the listener opens TLS. If not, TLS stays closed wherever a ClientHello must be read to choose.
    pub(super) fn tunnel(&mut self, node: &Node, has_tls: bool, known: KnownHere<'_>) -> TunnelConfig {
        let mut taken: HashSet<Key> = HashSet::new();
        let mut rules = Vec::new();
        let items = node.get("rules").map(Node::items).unwrap_or_default();
        let tls = Tls { is_opened: has_tls, is_read: items.iter().any(reads_hello) };
        for item in items {
            rules.extend(self.tunnel_rule(item, tls, known, &mut taken));
        }
        if let Some(name) = node.get("upstream") {
            let passthrough = self.passthrough(node, tls);
            let policies = self.connection_policies(node, known.policies, Carried::Tunnels);
            if let Some(upstream) = self.name_of(name, "upstream", known.upstreams) {
                let (names, alpn, clients) = Default::default();
                rules.push(TunnelRule { names, alpn, clients, upstream, passthrough, policies });
            }
        } else if node.get("rules").is_none_or(|rules| matches!(&rules.value, Value::List(items) if items.is_empty())) {
            let fix =
                "add `upstream: NAME`, or `rules` with a `server_name`, `alpn` or `client` and an `upstream` each";
            self.problems.add(node.span, "`tunnel` leads nowhere", fix);
        } else if let Some(entry) = node.entry("policies") {
            let what = "`policies` here are those of `upstream`, and there is none";
            self.problems.add(entry.key_span, what, "write them in the rules, or for all connections beside `tunnel`");
        }
        let is_read = rules.iter().any(|rule| rule.passthrough);
        if let Some(entry) = node.entry("not_tls").filter(|_| !is_read) {
            let what = "`not_tls` has no effect: TLS does not pass through unopened here";
            self.problems.add(entry.key_span, what, "remove `not_tls`, or add a rule with a `server_name` or `alpn`");
        }
        // A ClientHello that comes later is read by the server alone, whose names must not lead round what a rule asks.
        let is_guarded = |rule: &TunnelRule| {
            let names_something = !rule.names.is_empty() || !rule.alpn.is_empty();
            names_something && (!rule.policies.is_empty() || !rule.passthrough)
        };
        let not_tls = match read::text(node, "not_tls") {
            Some("reject") => NotTls::Reject,
            Some(_) => NotTls::ForwardSilent,
            None if rules.iter().any(is_guarded) => NotTls::Reject,
            None => NotTls::Forward,
        };
        TunnelConfig {
            rules,
            not_tls,
            idle_timeout: read::duration(node, "idle_timeout"),
            max_lifetime: read::duration(node, "max_lifetime"),
        }
    }

    fn tunnel_rule(
        &mut self,
        node: &Node,
        tls: Tls,
        known: KnownHere<'_>,
        taken: &mut HashSet<Key>,
    ) -> Option<TunnelRule> {
        let names = self.parsed_list(node, "server_name", address::host_pattern);
        let protocols = self.parsed_list(node, "alpn", |text| alpn(text, true));
        let clients = self.parsed_list(node, "client", address::network);
        if ["server_name", "alpn", "client"].iter().all(|key| node.entry(key).is_none()) {
            let what = "this rule is for everything";
            let fix = "add `server_name`, `alpn` or `client`, or write its `upstream` beside `rules`";
            self.problems.add(node.span, what, fix);
        }
        let upstream = node.get("upstream").and_then(|name| self.name_of(name, "upstream", known.upstreams));
        let policies = self.connection_policies(node, known.policies, Carried::Tunnels);
        let passthrough = self.passthrough(node, tls);
        let conditions = [("server_name", names.len()), ("alpn", protocols.len()), ("client", clients.len())];
        for (key, list) in conditions.iter().filter_map(|(key, _)| Some((key, node.get(key)?))) {
            if matches!(&list.value, Value::List(items) if items.is_empty()) {
                let what = format!("`{key}` is empty, so the rule is for nobody");
                self.problems.add(list.span, what, "name something, or remove the rule");
            }
        }
        // One that could not be read is none for everything.
        if conditions.iter().all(|(key, read)| node.entry(key).is_none() || *read > 0) {
            self.one_for_each(keys(&names, &protocols, &clients), node.span, taken);
        }
        Some(TunnelRule { names, alpn: protocols, clients, upstream: upstream?, passthrough, policies })
    }

    fn one_for_each(&mut self, keys: Vec<Key>, span: Span, taken: &mut HashSet<Key>) {
        for key in keys {
            let text = shown_key(&key);
            if !taken.insert(key) {
                let what = format!("there is already a rule for {text}");
                self.problems.add(span, what, "keep one rule for each name, protocol and client");
            }
        }
    }

    /// Whether TLS stays closed: as said, else wherever it cannot be opened but must be looked at.
    fn passthrough(&mut self, node: &Node, tls: Tls) -> bool {
        let said = read::boolean(node, "passthrough");
        if let (Some(false), Tls { is_opened: false, is_read: true }, Some(entry)) =
            (said, tls, node.entry("passthrough"))
        {
            let what = "TLS cannot be opened here: the listener has no `tls`";
            self.problems.add(entry.key_span, what, "add `tls` to the listener, or leave TLS closed");
        }
        said.unwrap_or(!tls.is_opened && tls.is_read)
    }
}

/// What becomes of TLS on a listener.
#[derive(Clone, Copy)]
struct Tls {
    /// The listener opens it.
    is_opened: bool,
    /// A rule asks for the ClientHello, which must then be there.
    is_read: bool,
}

/// Whether a rule can be told only by the ClientHello.
fn reads_hello(rule: &Node) -> bool {
    let names = ["server_name", "alpn"].iter().any(|key| rule.entry(key).is_some());
    names || read::boolean(rule, "passthrough") == Some(true)
}

fn keys(names: &[HostPattern], protocols: &[String], clients: &[IpNet]) -> Vec<Key> {
    let (names, protocols, clients) = (any_or(names), any_or(protocols), any_or(clients));
    let mut out = Vec::new();
    for name in &names {
        for protocol in &protocols {
            out.extend(clients.iter().map(|client| (name.clone(), protocol.clone(), *client)));
        }
    }
    out
}

/// Each of these, or none for any.
fn any_or<T: Clone>(list: &[T]) -> Vec<Option<T>> {
    match list {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    }
}

/// A key in an error: the first part that it has.
fn shown_key(key: &Key) -> String {
    match key {
        (Some(name), ..) => shown(&name.to_string()),
        (None, Some(protocol), _) => shown(protocol),
        (None, None, client) => shown(&client.map(|network| network.to_string()).unwrap_or_default()),
    }
}
