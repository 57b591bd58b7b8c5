//! Policies of what carries no requests: of a tunnel and a UDP listener. What asks for more than an address cannot be asked there.

use super::super::Build;
use super::limits::LIMITS;
use super::{AUTHENTICATION, KnownPolicies};
use crate::problem::shown;
use crate::yaml::Node;

/// What policies are named for.
#[derive(Debug, Clone, Copy)]
pub(in crate::build) enum Carried {
    /// The connections of a tunnel.
    Tunnels,
    /// The flows of a UDP listener.
    Flows,
}

impl Carried {
    fn words(self) -> &'static str {
        match self {
            Carried::Tunnels => "a tunnel",
            Carried::Flows => "a UDP listener",
        }
    }
}

impl Build<'_> {
    /// The policies that a tunnel or UDP listener names.
    pub(in crate::build) fn connection_policies(
        &mut self,
        node: &Node,
        known: &KnownPolicies<'_>,
        carried: Carried,
    ) -> Vec<String> {
        let mut out = Vec::new();
        for item in node.get("policies").map(Node::one_or_many).unwrap_or_default() {
            let Some(name) = self.name_of(item, "policy", &known.names) else { continue };
            if let Some(policy) = known.entries.iter().find(|entry| entry.key == name) {
                self.asks_for_an_address(item, &policy.value, carried);
            }
            self.one_more_policy(item, name, &mut out);
        }
        out
    }

    /// Whether a policy can be asked about a connection: both places are in the problem if not.
    fn asks_for_an_address(&mut self, item: &Node, policy: &Node, carried: Carried) {
        let name = shown(item.text().unwrap_or_default());
        let of_requests = AUTHENTICATION.iter().chain(&["cors", "when"]).filter_map(|key| policy.entry(key));
        for entry in of_requests {
            let place = self.sources.seen_from(item.span, entry.key_span);
            let what = format!("{name} has `{}` {place}, and {} carries no requests", entry.key, carried.words());
            self.problems.add(item.span, what, "name a policy without it, or write one for this");
        }
        let limits = LIMITS.iter().filter_map(|limit| policy.get(limit)?.get("key"));
        for part in limits.flat_map(Node::one_or_many) {
            let (word, span) = match part.entries() {
                [entry, ..] => (entry.key.as_str(), entry.key_span),
                [] if part.text() == Some("route") => ("route", part.span),
                [] => continue,
            };
            let place = self.sources.seen_from(item.span, span);
            let what = format!("{name} counts by `{word}` {place}, and {} has none", carried.words());
            self.problems.add(item.span, what, "count by `client` or `all` there, or write a policy for this");
        }
    }
}
