//! Pure: server name and ALPN to the group that gets the connection.
//!
//! The most specific rule wins, whatever the order in the file: exact name before wildcard before any name, and among those a rule that names the
//! protocol before one that does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::{TunnelConfig, TunnelRule};

use crate::host_map::HostMap;
use crate::policies::{List, Policies};
use crate::upstream::Group;

/// Where a connection goes.
#[derive(Debug)]
pub struct TunnelRoute {
    /// Who gets it.
    pub group: Arc<Group>,
    /// TLS is passed by unopened.
    pub passthrough: bool,
    /// The rule's names, for metrics; empty where it has none.
    pub name: Box<str>,
    /// Policies that its connections must pass.
    pub policies: List,
    /// Protocols it is for; empty for any.
    alpn: Vec<Box<[u8]>>,
}

impl TunnelRoute {
    fn fits(&self, protocols: &[&[u8]]) -> bool {
        self.alpn.is_empty() || self.alpn.iter().any(|mine| protocols.contains(&&**mine))
    }
}

/// The rules of one listener, by name. In each list those with ALPN come first.
#[derive(Debug, Default)]
pub struct TunnelRoutes {
    named: HostMap<Vec<Arc<TunnelRoute>>>,
    any: Vec<Arc<TunnelRoute>>,
    has_passthrough: bool,
}

impl TunnelRoutes {
    /// Compiles the rules of a listener.
    ///
    /// # Errors
    /// A group that is not there.
    pub fn new(
        config: &TunnelConfig,
        groups: &BTreeMap<String, Arc<Group>>,
        policies: &Policies,
    ) -> Result<TunnelRoutes, String> {
        let mut routes = TunnelRoutes::default();
        for rule in &config.rules {
            let group =
                groups.get(&rule.upstream).ok_or_else(|| format!("there is no upstream {:?}", rule.upstream))?;
            routes.add(rule, group, &policies.named(&rule.policies));
        }
        let lists = routes.named.iter_mut().map(|(_, list)| list).chain([&mut routes.any]);
        lists.for_each(|list| list.sort_by_key(|route| route.alpn.is_empty()));
        Ok(routes)
    }

    fn add(&mut self, rule: &TunnelRule, group: &Arc<Group>, policies: &List) {
        let route = |name: &str| {
            Arc::new(TunnelRoute {
                group: Arc::clone(group),
                passthrough: rule.passthrough,
                name: name.into(),
                policies: Arc::clone(policies),
                alpn: rule.alpn.iter().map(|protocol| protocol.as_bytes().into()).collect(),
            })
        };
        self.has_passthrough |= rule.passthrough;
        if rule.names.is_empty() {
            self.any.push(route(""));
        }
        for pattern in &rule.names {
            self.named.entry(pattern, Vec::new).push(route(&pattern.to_string()));
        }
    }

    /// Whether the ClientHello must be read before TLS is opened, or instead.
    pub fn has_passthrough(&self) -> bool {
        self.has_passthrough
    }

    /// Whether nothing of the connection matters: there is one route for all, and it is not TLS that is passed by.
    pub fn only(&self) -> Option<&Arc<TunnelRoute>> {
        match &self.any[..] {
            [only] if self.named.is_empty() && only.alpn.is_empty() && !only.passthrough => Some(only),
            _ => None,
        }
    }

    /// The route for a name (lower case) and protocols: those offered of a connection not yet opened, else the one agreed on. `opened`: TLS is open
    /// already, so that passing by is no choice any more.
    pub fn find(&self, name: Option<&str>, protocols: &[&[u8]], opened: bool) -> Option<&Arc<TunnelRoute>> {
        let fits = |route: &&Arc<TunnelRoute>| route.fits(protocols) && !(opened && route.passthrough);
        let named = name.into_iter().flat_map(|name| self.named.matches(name.as_bytes()));
        named.chain([&self.any]).find_map(|list| list.iter().find(fits))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use config::{HostPattern, UpstreamConfig};

    fn routes(rules: &[(&[&str], &[&str], &str)]) -> TunnelRoutes {
        let pattern = |name: &&str| HostPattern::of_text(name);
        let rules = rules.iter().map(|(names, alpn, upstream)| TunnelRule {
            names: names.iter().map(pattern).collect(),
            alpn: alpn.iter().map(|protocol| (*protocol).to_owned()).collect(),
            upstream: (*upstream).to_owned(),
            passthrough: upstream.starts_with("unopened"),
            policies: Vec::new(),
        });
        let config = TunnelConfig { rules: rules.collect(), idle_timeout: None, max_lifetime: None };
        let group =
            |name: &String| (name.clone(), Arc::new(Group::new(&Arc::new(UpstreamConfig::new(name.clone()))).unwrap()));
        let groups = config.rules.iter().map(|rule| group(&rule.upstream)).collect();
        TunnelRoutes::new(&config, &groups, &Policies::default()).unwrap()
    }

    #[test]
    fn the_most_specific_rule_wins() {
        let routes = routes(&[
            (&[], &[], "rest"),
            (&["*.example"], &[], "wild"),
            (&["a.example"], &[], "a"),
            (&["a.example"], &["imap", "pop3"], "mail"),
            (&["*.deep.example"], &[], "deep"),
            (&[], &["mqtt"], "queue"),
            (&["u.example"], &[], "unopened"),
        ]);
        let check = |name: Option<&str>, protocols: &[&[u8]], opened, expected: &str| {
            let found = routes.find(name, protocols, opened).unwrap();
            assert_eq!(found.group.config.name, expected, "{name:?} {protocols:?}");
        };
        check(None, &[], false, "rest");
        check(None, &[b"mqtt"], false, "queue");
        check(Some("other.test"), &[], false, "rest");
        check(Some("a.example"), &[], false, "a");
        check(Some("a.example"), &[b"h2"], false, "a");
        check(Some("a.example"), &[b"h2", b"pop3"], false, "mail");
        check(Some("b.example"), &[b"mqtt"], false, "wild");
        check(Some("c.b.example"), &[], false, "wild");
        check(Some("x.deep.example"), &[], false, "deep");
        check(Some("deep.example"), &[], false, "wild");
        check(Some("u.example"), &[], false, "unopened");
        check(Some("u.example"), &[], true, "wild");
        assert!(routes.has_passthrough() && routes.only().is_none());
    }

    #[test]
    fn nothing_fits_where_there_is_no_rule_for_the_rest() {
        let routes = routes(&[(&["a.example"], &["imap"], "mail")]);
        assert!(routes.find(Some("a.example"), &[b"h2"], false).is_none());
        assert!(routes.find(None, &[b"imap"], false).is_none());
        assert!(routes.only().is_none() && !routes.has_passthrough());
    }
}
