//! Forwarding loops: listeners that lead back to themselves, perhaps by way of others.
//!
//! Finds only what is certain from the file and this machine's addresses: targets and servers of UDP, and tunnels with one upstream for everybody. What
//! depends on name resolution or PROXY headers is rejected when it happens (`passport.rs` and `loop_guard.rs` of the crate `proxy`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::Build;
use crate::machine::Machine;
use crate::model::{
    Config, Endpoint, ListenerConfig, ServerAddress, ServerConfig, Service, TargetsConfig, UdpListenerConfig,
};
use crate::problem::{Span, shown};
use crate::yaml::Node;

/// A listener, where it is bound and where it leads for certain.
struct Station<'a> {
    name: &'a str,
    bind: Vec<SocketAddr>,
    targets: Vec<SocketAddr>,
    /// The same of Unix sockets.
    bind_paths: Vec<&'a Path>,
    target_paths: Vec<&'a PathBuf>,
    /// Whether it leads to itself was looked at before.
    is_checked: bool,
    at: Span,
}

impl<'a> Station<'a> {
    /// A listener that is bound nowhere and leads nowhere.
    fn at(name: &'a str, at: Span) -> Station<'a> {
        let (bind, targets, bind_paths, target_paths) = Default::default();
        Station { name, bind, targets, bind_paths, target_paths, is_checked: false, at }
    }

    fn lead_to(&mut self, servers: &'a [ServerConfig]) {
        for server in servers {
            match &server.address {
                ServerAddress::Ip(address) => self.targets.push(*address),
                ServerAddress::Name(name, port) => {
                    let addresses = Machine::addresses(name).iter();
                    self.targets.extend(addresses.map(|address| SocketAddr::new(*address, *port)));
                }
                ServerAddress::Unix(path) => self.target_paths.push(path),
                // Only a name server or a directory knows.
                ServerAddress::Service(_) | ServerAddress::Listed(_) => {}
            }
        }
    }

    fn leads_to(&self, other: &Station<'_>, machine: &Machine) -> bool {
        self.targets.iter().any(|target| other.bind.iter().any(|bind| is_reached(*bind, *target, machine)))
            || self.target_paths.iter().any(|target| other.bind_paths.contains(&target.as_path()))
    }
}

/// Whether what is sent to `target` comes in at a socket bound to `bind`.
pub(super) fn is_reached(bind: SocketAddr, target: SocketAddr, machine: &Machine) -> bool {
    let covers = || bind.ip().is_unspecified() && bind.is_ipv4() == target.is_ipv4() && machine.is_own(target.ip());
    bind.port() == target.port() && (bind.ip() == target.ip() || covers())
}

impl Build<'_> {
    /// Notes each loop once, at its first listener. UDP listeners whose fixed target they are themselves are noted elsewhere.
    pub(super) fn forwarding_loops(&mut self, root: &Node, config: &Config) {
        let items = |key: &str| root.get(key).map(Node::items).unwrap_or_default();
        let machine = self.machine;
        let streams = items("listeners").iter().zip(&config.listeners);
        let streams: Vec<_> = streams.map(|(node, one)| stream(node, one, config)).collect();
        let datagrams: Vec<_> = items("udp_listeners")
            .iter()
            .zip(&config.udp_listeners)
            .map(|(node, one)| datagram(node, one, config))
            .collect();
        for stations in [streams, datagrams] {
            let leads = leads(&stations, machine);
            for start in 0..stations.len() {
                let Some(way) = way_back(&stations, &leads, start) else { continue };
                let [first, rest @ ..] = &way[..] else { continue };
                if rest.is_empty() && first.is_checked {
                    continue;
                }
                let others: Vec<String> = rest.iter().chain([first]).map(|station| shown(station.name)).collect();
                let what = format!("{} leads to {}", shown(first.name), others.join(", which leads to "));
                self.problems.add(first.at, what, "let one of them lead to an application instead");
            }
        }
    }
}

fn stream<'a>(node: &Node, listener: &'a ListenerConfig, config: &'a Config) -> Station<'a> {
    let only = match &listener.service {
        Service::Tunnel(tunnel) => match &tunnel.rules[..] {
            [only] if only.names.is_empty() && only.alpn.is_empty() && only.clients.is_empty() => {
                config.upstreams.get(&only.upstream)
            }
            _ => None,
        },
        _ => None,
    };
    let servers = only.map(|upstream| &upstream.servers[..]).unwrap_or_default();
    let at = node.get("tunnel").map_or(node.span, |tunnel| tunnel.span);
    let mut station = Station::at(&listener.name, at);
    for endpoint in &listener.bind {
        match endpoint {
            Endpoint::Tcp(address) => station.bind.push(*address),
            Endpoint::Unix(socket) => station.bind_paths.push(socket),
        }
    }
    station.lead_to(servers);
    station
}

fn datagram<'a>(node: &Node, listener: &'a UdpListenerConfig, config: &'a Config) -> Station<'a> {
    let mut station = Station::at(&listener.name, node.get("upstream").map_or(node.span, |to| to.span));
    station.bind.clone_from(&listener.bind);
    match &listener.to {
        TargetsConfig::Fixed { v4, v6 } => {
            station.targets = [*v4, *v6].into_iter().flatten().collect();
            station.is_checked = true;
        }
        TargetsConfig::Group(name) => {
            station.lead_to(config.upstreams.get(name).map(|upstream| &upstream.servers[..]).unwrap_or_default());
        }
        TargetsConfig::Destination { .. } => {}
    }
    station
}

/// Where each station leads, in the order of the file. Only those are compared that share a port or a socket: a file may have thousands of listeners.
fn leads(stations: &[Station<'_>], machine: &Machine) -> Vec<Vec<usize>> {
    let (mut ports, mut sockets) = (BTreeMap::<u16, Vec<usize>>::new(), BTreeMap::<&Path, Vec<usize>>::new());
    for (at, station) in stations.iter().enumerate() {
        station.bind.iter().for_each(|bind| ports.entry(bind.port()).or_default().push(at));
        station.bind_paths.iter().for_each(|bind| sockets.entry(bind).or_default().push(at));
    }
    let leads = |station: &Station<'_>| {
        let by_port = station.targets.iter().filter_map(|target| ports.get(&target.port()));
        let by_socket = station.target_paths.iter().filter_map(|target| sockets.get(target.as_path()));
        let near: BTreeSet<usize> = by_port.chain(by_socket).flatten().copied().collect();
        let is_led_to = |other: &usize| stations.get(*other).is_some_and(|other| station.leads_to(other, machine));
        near.into_iter().filter(is_led_to).collect()
    };
    stations.iter().map(leads).collect()
}

/// The stations passed on a way from `start` back to it by way of later ones only, so that each loop is found at its first station.
fn way_back<'s, 'a>(stations: &'s [Station<'a>], leads: &[Vec<usize>], start: usize) -> Option<Vec<&'s Station<'a>>> {
    let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut pending = vec![start];
    while let Some(at) = pending.pop() {
        for next in leads.get(at)?.iter().copied().filter(|next| *next >= start) {
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
