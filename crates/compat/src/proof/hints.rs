//! What a configuration names and a request can have: hosts, paths, fields, cookies, arguments, methods, clients.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::migration::Place;

/// Where a value stands in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Header,
    Cookie,
    Argument,
}

/// Something that a request can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum About {
    Host(String),
    /// A path, decoded.
    Path(String),
    /// A target, as it is sent.
    Target(String),
    Value(Part, String, Vec<String>),
    Method(String),
    Client(Ipv4Addr),
    /// A name and password that are right.
    User(String, String),
}

/// One of them, and where it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) about: About,
    pub(super) place: Place,
    /// The path below which it counts, if it is known.
    pub(super) below: Option<String>,
}

/// What belongs together: the listeners and hosts of a server or frontend, and what it names.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) listeners: Vec<usize>,
    pub(super) hosts: Vec<(String, Option<Place>)>,
    pub(super) hints: Vec<Hint>,
}

impl Scope {
    pub(super) fn note(&mut self, about: About, place: &Place, below: Option<&str>) {
        let hint = Hint { about, place: place.clone(), below: below.map(str::to_owned) };
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
    }
}

/// Clients of a network that can connect on loopback: its ends and their neighbours. None if there are none.
pub(super) fn clients(text: &str) -> Option<Vec<Ipv4Addr>> {
    let net: IpNet = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()?;
    let IpNet::V4(net) = net else { return None };
    let (first, last) = (u32::from(net.network()), u32::from(net.broadcast()));
    let near = [first, last, first.wrapping_add(1), last.wrapping_add(1), first.wrapping_sub(1)].map(Ipv4Addr::from);
    // The ends of 127.0.0.0/8 are no addresses to connect from.
    let is_usable = |address: &Ipv4Addr| {
        address.is_loopback() && ![Ipv4Addr::new(127, 0, 0, 0), Ipv4Addr::new(127, 255, 255, 255)].contains(address)
    };
    let is_of_loopback =
        Ipv4Addr::from(first).is_loopback() || Ipv4Addr::from(last).is_loopback() || net.contains(&Ipv4Addr::LOCALHOST);
    is_of_loopback.then(|| near.into_iter().filter(is_usable).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_network_are_on_loopback() {
        for (text, expected) in [
            ("127.0.0.2", Some("127.0.0.2 127.0.0.2 127.0.0.3 127.0.0.3 127.0.0.1")),
            ("127.1.0.0/24", Some("127.1.0.0 127.1.0.255 127.1.0.1 127.1.1.0 127.0.255.255")),
            ("127.0.0.0/8", Some("127.0.0.1")),
            ("10.0.0.0/8", None),
            ("2001:db8::/32", None),
            ("x", None),
        ] {
            let found = clients(text).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
