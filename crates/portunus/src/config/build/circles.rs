//! Listeners that lead to each other: what comes in at one would go round until a bound stops it.
//!
//! Sees only what is certain from the file: fixed targets of UDP, and tunnels with one way for everybody. What depends on names, headers or
//! addresses of the machine is refused when it happens (`passport.rs`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use super::Build;
use crate::config::model::{
    Config, Endpoint, ListenerConfig, ServerAddress, Service, TargetsConfig, UdpListenerConfig,
};
use crate::config::problem::{Span, shown};
use crate::config::yaml::Node;

/// A listener, where it is bound and where it leads for certain.
struct Station<'a> {
    name: &'a str,
    bind: Vec<SocketAddr>,
    targets: Vec<SocketAddr>,
    at: Span,
}

impl Station<'_> {
    fn leads_to(&self, other: &Station<'_>) -> bool {
        self.targets.iter().any(|target| other.bind.iter().any(|bind| is_reached(*bind, *target)))
    }
}

/// Whether what is sent to `target` comes in at a socket bound to `bind`.
pub(super) fn is_reached(bind: SocketAddr, target: SocketAddr) -> bool {
    let covers = bind.ip().is_unspecified() && bind.is_ipv4() == target.is_ipv4() && target.ip().is_loopback();
    bind.port() == target.port() && (bind.ip() == target.ip() || covers)
}

impl Build<'_> {
    /// Notes each circle of listeners once, at its first one. UDP listeners that lead to themselves are noted elsewhere.
    pub(super) fn circles(&mut self, root: &Node, config: &Config) {
        let items = |key: &str| root.get(key).map(Node::items).unwrap_or_default();
        let streams: Vec<_> =
            items("listeners").iter().zip(&config.listeners).map(|(node, one)| stream(node, one, config)).collect();
        let datagrams: Vec<_> =
            items("udp_listeners").iter().zip(&config.udp_listeners).map(|(node, one)| datagram(node, one)).collect();
        for (stations, least) in [(streams, 1), (datagrams, 2)] {
            for start in 0..stations.len() {
                let Some(way) = way_back(&stations, start).filter(|way| way.len() >= least) else { continue };
                let [first, rest @ ..] = &way[..] else { continue };
                let others: Vec<String> = rest.iter().chain([first]).map(|station| shown(station.name)).collect();
                let what = format!("{} leads to {}", shown(first.name), others.join(", which leads to "));
                self.problems.add(first.at, what, "let one of them lead to an application instead");
            }
        }
    }
}

fn stream<'a>(node: &Node, listener: &'a ListenerConfig, config: &Config) -> Station<'a> {
    let tcp = |endpoint: &Endpoint| match endpoint {
        Endpoint::Tcp(address) => Some(*address),
        Endpoint::Unix(_) => None,
    };
    let only = match &listener.service {
        Service::Tunnel(tunnel) => match &tunnel.rules[..] {
            [only] if only.names.is_empty() && only.alpn.is_empty() => config.upstreams.get(&only.upstream),
            _ => None,
        },
        _ => None,
    };
    let servers = only.map(|upstream| &upstream.servers[..]).unwrap_or_default();
    let targets = servers.iter().filter_map(|server| match server.address {
        ServerAddress::Ip(address) => Some(address),
        ServerAddress::Name(..) | ServerAddress::Unix(_) => None,
    });
    Station {
        name: &listener.name,
        bind: listener.bind.iter().filter_map(tcp).collect(),
        targets: targets.collect(),
        at: node.get("tunnel").map_or(node.span, |tunnel| tunnel.span),
    }
}

fn datagram<'a>(node: &Node, listener: &'a UdpListenerConfig) -> Station<'a> {
    let targets = match &listener.to {
        TargetsConfig::Fixed { v4, v6 } => [*v4, *v6].into_iter().flatten().collect(),
        TargetsConfig::Destination { .. } => Vec::new(),
    };
    let at = node.get("to").map_or(node.span, |to| to.span);
    Station { name: &listener.name, bind: listener.bind.clone(), targets, at }
}

/// The stations passed on a way from `start` back to it by way of later ones only, so that each circle is found at its first station.
fn way_back<'s, 'a>(stations: &'s [Station<'a>], start: usize) -> Option<Vec<&'s Station<'a>>> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut pending = vec![start];
    while let Some(at) = pending.pop() {
        let here = stations.get(at)?;
        for (next, _) in stations.iter().enumerate().skip(start).filter(|(_, station)| here.leads_to(station)) {
            if next == start {
                let way = std::iter::successors(Some(at), |at| came_from.get(at).copied());
                let mut way: Vec<_> = way.filter_map(|at| stations.get(at)).collect();
                way.reverse();
                return Some(way);
            }
            if let Entry::Vacant(place) = came_from.entry(next) {
                place.insert(at);
                pending.push(next);
            }
        }
    }
    None
}
