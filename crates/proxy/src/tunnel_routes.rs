//! Pure: server name, ALPN and client to the group that gets the connection.
//!
//! The most specific rule wins, whatever the order in the file: exact name before wildcard before any name, and among those a rule that names the
//! protocol before one that does not, then the one for the smallest network of clients.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use config::{TunnelConfig, TunnelRule, is_in_network};
use ipnet::IpNet;

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
    /// Clients it is for; none for any.
    clients: Option<IpNet>,
}

/// What is known of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The server name, in lower case.
    pub name: Option<&'a str>,
    /// Protocols: those offered of a connection not yet opened, else the one agreed on.
    pub protocols: &'a [&'a [u8]],
    /// None on Unix sockets.
    pub client: Option<IpAddr>,
    /// TLS is open already, so that passing by is no choice any more.
    pub is_opened: bool,
}

impl TunnelRoute {
    fn fits(&self, known: Known<'_>) -> bool {
        (self.alpn.is_empty() || self.alpn.iter().any(|mine| known.protocols.contains(&&**mine)))
            && self.clients.is_none_or(|network| known.client.is_some_and(|client| is_in_network(&network, client)))
            && !(known.is_opened && self.passthrough)
    }

    /// Whom its rule is for, in words; empty where that is everybody.
    pub fn whom(&self) -> String {
        let clients = self.clients.map(|network| format!("clients in {network}"));
        let parts = [Some(self.name.to_string()).filter(|name| !name.is_empty()), clients];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }

    /// Those that go first come first.
    fn order(&self) -> (bool, Reverse<Option<u8>>) {
        (self.alpn.is_empty(), Reverse(self.clients.map(|network| network.prefix_len())))
    }
}

/// The rules of one listener, by name. In each list those with ALPN come first, then those for fewer clients.
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
        lists.for_each(|list| list.sort_by_key(|route| route.order()));
        Ok(routes)
    }

    fn add(&mut self, rule: &TunnelRule, group: &Arc<Group>, policies: &List) {
        let any = [None];
        let networks: Vec<Option<IpNet>> = rule.clients.iter().copied().map(Some).collect();
        let networks = if networks.is_empty() { &any[..] } else { &networks };
        let route = |name: &str, clients: Option<IpNet>| {
            Arc::new(TunnelRoute {
                group: Arc::clone(group),
                passthrough: rule.passthrough,
                name: name.into(),
                policies: Arc::clone(policies),
                alpn: rule.alpn.iter().map(|protocol| protocol.as_bytes().into()).collect(),
                clients,
            })
        };
        self.has_passthrough |= rule.passthrough;
        if rule.names.is_empty() {
            self.any.extend(networks.iter().map(|clients| route("", *clients)));
        }
        for pattern in &rule.names {
            let name = pattern.to_string();
            self.named.entry(pattern, Vec::new).extend(networks.iter().map(|clients| route(&name, *clients)));
        }
    }

    /// Whether the ClientHello must be read before TLS is opened, or instead.
    pub fn has_passthrough(&self) -> bool {
        self.has_passthrough
    }

    /// The route of a connection.
    pub fn find(&self, known: Known<'_>) -> Option<&Arc<TunnelRoute>> {
        let named = known.name.into_iter().flat_map(|name| self.named.matches(name.as_bytes()));
        named.chain([&self.any]).find_map(|list| list.iter().find(|route| route.fits(known)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use config::{HostPattern, UpstreamConfig};

    /// A client in 192.0.2.0/24 that no rule but the last one names.
    const SOMEBODY: &str = "192.0.2.7";

    fn known<'a>(name: Option<&'a str>, protocols: &'a [&'a [u8]], client: &str, is_opened: bool) -> Known<'a> {
        Known { name, protocols, client: client.parse().ok(), is_opened }
    }

    fn routes(rules: &[(&[&str], &[&str], &str)]) -> TunnelRoutes {
        let rules: Vec<_> = rules.iter().map(|(names, alpn, upstream)| (*names, *alpn, &[][..], *upstream)).collect();
        routes_of(&rules)
    }

    /// Names, protocols, clients and upstream of each rule.
    type Given<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a str);

    fn routes_of(rules: &[Given<'_>]) -> TunnelRoutes {
        let pattern = |name: &&str| HostPattern::of_text(name);
        let rules = rules.iter().map(|(names, alpn, clients, upstream)| TunnelRule {
            names: names.iter().map(pattern).collect(),
            alpn: alpn.iter().map(|protocol| (*protocol).to_owned()).collect(),
            clients: clients.iter().map(|network| network.parse().unwrap()).collect(),
            upstream: (*upstream).to_owned(),
            passthrough: upstream.starts_with("unopened"),
            policies: Vec::new(),
        });
        let config = TunnelConfig {
            rules: rules.collect(),
            not_tls: config::NotTls::Forward,
            idle_timeout: None,
            max_lifetime: None,
        };
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
            let found = routes.find(known(name, protocols, SOMEBODY, opened)).unwrap();
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
        assert!(routes.has_passthrough());
    }

    #[test]
    fn nothing_fits_where_there_is_no_rule_for_the_rest() {
        let routes = routes(&[(&["a.example"], &["imap"], "mail")]);
        assert!(routes.find(known(Some("a.example"), &[b"h2"], SOMEBODY, false)).is_none());
        assert!(routes.find(known(None, &[b"imap"], SOMEBODY, false)).is_none());
        assert!(!routes.has_passthrough());
    }

    #[test]
    fn of_rules_for_a_name_and_protocol_that_of_fewer_clients_goes_first() {
        let routes = routes_of(&[
            (&[], &[], &[], "rest"),
            (&[], &[], &["10.0.0.0/8", "2001:db8::/32"], "office"),
            (&[], &[], &["10.1.0.0/16"], "branch"),
            (&[], &["mqtt"], &[], "queue"),
            (&["a.example"], &[], &[], "a"),
            (&["a.example"], &[], &["10.1.2.3/32"], "own"),
        ]);
        let check = |name: Option<&str>, protocols: &[&[u8]], client: &str, expected: &str| {
            let found = routes.find(known(name, protocols, client, false)).unwrap();
            assert_eq!(found.group.config.name, expected, "{name:?} {protocols:?} {client}");
        };
        check(None, &[], "10.2.0.1", "office");
        let own = routes.find(known(Some("a.example"), &[], "10.1.2.3", false)).unwrap();
        assert_eq!(own.whom(), "a.example and clients in 10.1.2.3/32");
        check(None, &[], "2001:db8::1", "office");
        check(None, &[], "10.1.0.1", "branch");
        check(None, &[], SOMEBODY, "rest");
        // On a Unix socket there is no client's address, and no rule about one fits.
        check(None, &[], "", "rest");
        check(None, &[b"mqtt"], "10.1.0.1", "queue");
        check(Some("a.example"), &[], "10.1.0.1", "a");
        check(Some("a.example"), &[], "10.1.2.3", "own");
        let closed = routes_of(&[(&[], &[], &["10.0.0.0/8"], "office")]);
        assert!(closed.find(known(None, &[], SOMEBODY, false)).is_none());
    }
}
