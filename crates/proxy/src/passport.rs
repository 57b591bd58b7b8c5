//! Onward from the client's own address: who may be impersonated, and towards which target.
//!
//! Pure but for the addresses of this machine, which the kernel is asked for. Opens no connection: `net::transparent` and `upstream/connect.rs` do.
//! A client's address comes from a header or from the network, so it is a claim: what could only be a problem or an attack is rejected unless
//! the configuration allows it.

pub mod self_test;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use config::{AllowedDestination, SourceConfig, TargetsConfig, is_in_network};
use ipnet::IpNet;
use net::transparent::canonical;
use net::{OwnAddresses, Source};
use reason::Reason;
use wire::proxy_protocol::ProxyInfo;

/// Why a client is not let through under its own address, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// It claims to come from a loopback address.
    Loopback,
    /// It claims to come from no address, or one of network 0.
    Unspecified,
    /// It claims to come from a group.
    Multicast,
    /// It claims to come from a broadcast address, or from one that is reserved.
    Broadcast,
    /// It claims to come from an address that is valid on one link only.
    LinkLocal,
    /// It claims to come from this machine.
    Own,
    /// There is no target of its family.
    NoTarget,
    /// It named a destination that is not on the list, or none.
    Destination,
    /// The target is where it came in.
    Loop,
}

impl Rejected {
    /// The reason for logs and metrics.
    pub fn reason(self) -> Reason {
        match self {
            Rejected::Loopback => Reason::SourceIsLoopback,
            Rejected::Unspecified => Reason::SourceIsUnspecified,
            Rejected::Multicast => Reason::SourceIsMulticast,
            Rejected::Broadcast => Reason::SourceIsBroadcast,
            Rejected::LinkLocal => Reason::SourceIsLinkLocal,
            Rejected::Own => Reason::SourceIsOwnAddress,
            Rejected::NoTarget => Reason::NoTargetOfFamily,
            Rejected::Destination => Reason::DestinationNotAllowed,
            Rejected::Loop => Reason::ForwardingLoop,
        }
    }
}

/// The addresses of this machine as one worker knows them; asked for at first use.
#[derive(Debug, Default)]
pub struct Own {
    addresses: RefCell<Option<OwnAddresses>>,
}

impl Own {
    /// Whether an address is of this machine. What cannot be known is taken for one.
    pub fn contains(&self, address: IpAddr) -> bool {
        let mut addresses = self.addresses.borrow_mut();
        if addresses.is_none() {
            *addresses = OwnAddresses::open().ok();
        }
        addresses.as_mut().is_none_or(|addresses| addresses.contains(address))
    }
}

/// What was reported once already on one worker: problems of the configuration and rejected claims, by listener.
#[derive(Debug, Default)]
pub struct Reported {
    /// By reason, the listeners.
    reported: RefCell<HashMap<Reason, HashSet<Box<str>>>>,
}

impl Reported {
    /// Tells why a client or a balancer goes nowhere, unless this listener has told of that reason before. Bounded, since both
    /// are ours. A reason that was reported already costs two lookups and no memory.
    pub fn once(&self, listener: &str, reason: Reason, client: Option<SocketAddr>) {
        let mut reported = self.reported.borrow_mut();
        let listeners = reported.entry(reason).or_default();
        if listeners.contains(listener) {
            return;
        }
        listeners.insert(listener.into());
        let client = client.map_or_else(String::new, |client| client.to_string());
        tracing::warn!(
            listener,
            client,
            reason = reason.code(),
            "a client was rejected; logged once per reason, the metric counts every case"
        );
    }
}

/// Under which address the connection of this client goes onward; `proxy` is what its header said.
///
/// # Errors
/// Why the client's own may not be used.
pub fn source(
    config: &SourceConfig,
    client: Option<SocketAddr>,
    proxy: Option<&ProxyInfo>,
    own: &Own,
) -> Result<Source, Rejected> {
    // A header without addresses is the balancer's own connection.
    let is_client = proxy.is_none_or(|proxy| proxy.destination.is_some());
    let address = client.filter(|_| config.client && is_client);
    if let Some(client) = address {
        check_source(client.ip(), config, own)?;
    }
    Ok(Source { address, mark: config.mark })
}

/// Where a connection goes whose header decides that: `proxy`. `came_to`: our own address that it reached.
///
/// # Errors
/// Why it goes nowhere.
pub fn destination(
    allow: &[AllowedDestination],
    proxy: Option<&ProxyInfo>,
    source: Source,
    came_to: Option<SocketAddr>,
) -> Result<SocketAddr, Rejected> {
    let named = proxy.and_then(|proxy| proxy.destination);
    let family = source.address.map(|source| source.is_ipv4());
    allowed(allow, named, family).and_then(|target| not_where_it_came(target, came_to))
}

/// Whether the client's address may be used as a source.
///
/// # Errors
/// Why not.
pub fn check_source(client: IpAddr, config: &SourceConfig, own: &Own) -> Result<(), Rejected> {
    let client = client.to_canonical();
    if is_in(&config.allow, client) {
        return Ok(());
    }
    let rejected = match client {
        IpAddr::V4(address) if address.is_loopback() => Rejected::Loopback,
        IpAddr::V4(address) if address.octets()[0] == 0 => Rejected::Unspecified,
        IpAddr::V4(address) if address.is_multicast() => Rejected::Multicast,
        // 240.0.0.0/4 is reserved; its last address is the broadcast of every network.
        IpAddr::V4(address) if address.octets()[0] >= 240 => Rejected::Broadcast,
        IpAddr::V4(address) if address.is_link_local() => Rejected::LinkLocal,
        IpAddr::V6(address) if address.is_loopback() => Rejected::Loopback,
        IpAddr::V6(address) if address.is_unspecified() => Rejected::Unspecified,
        IpAddr::V6(address) if address.is_multicast() => Rejected::Multicast,
        IpAddr::V6(address) if address.is_unicast_link_local() => Rejected::LinkLocal,
        address if own.contains(address) => Rejected::Own,
        _ => return Ok(()),
    };
    Err(rejected)
}

/// Where a client goes. `same_family`: only a target of the client's family will do, since its own address goes along. `destination`: what it
/// asked for, as the header says. `came_to`: our own address that it, or its balancer, reached.
///
/// # Errors
/// Why it goes nowhere.
pub fn target(
    targets: &TargetsConfig,
    client: IpAddr,
    same_family: bool,
    destination: Option<SocketAddr>,
    came_to: Option<SocketAddr>,
) -> Result<SocketAddr, Rejected> {
    let target = match targets {
        TargetsConfig::Fixed { v4, v6 } => {
            let (of_family, other) = if client.to_canonical().is_ipv4() { (v4, v6) } else { (v6, v4) };
            of_family.or(other.filter(|_| !same_family)).ok_or(Rejected::NoTarget)?
        }
        // A server of that is chosen elsewhere.
        TargetsConfig::Group(_) => return Err(Rejected::NoTarget),
        TargetsConfig::Destination { allow } => {
            allowed(allow, destination, same_family.then(|| client.to_canonical().is_ipv4()))?
        }
    };
    not_where_it_came(target, came_to)
}

/// The destination that a header named, if it is on the list. `is_v4`: the family it must be of, if that matters.
fn allowed(
    allow: &[AllowedDestination],
    named: Option<SocketAddr>,
    is_v4: Option<bool>,
) -> Result<SocketAddr, Rejected> {
    let named = named.map(canonical).filter(|named| named.port() != 0).ok_or(Rejected::Destination)?;
    if !allow.iter().any(|one| is_in_network(&one.network, named.ip()) && one.ports.contains(&named.port())) {
        return Err(Rejected::Destination);
    }
    if is_v4.is_some_and(|is_v4| is_v4 != named.is_ipv4()) { Err(Rejected::NoTarget) } else { Ok(named) }
}

/// Who came in at the target's own address would come in there again.
///
/// # Errors
/// It has.
pub fn not_where_it_came(target: SocketAddr, came_to: Option<SocketAddr>) -> Result<SocketAddr, Rejected> {
    if came_to.map(canonical) == Some(target) { Err(Rejected::Loop) } else { Ok(target) }
}

fn is_in(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| is_in_network(network, address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use config::AllowedDestination;

    #[test]
    fn only_addresses_of_others_may_be_used() {
        let own = Own::default();
        let config = |allow: &str| SourceConfig {
            client: true,
            mark: 0,
            allow: allow.split_whitespace().map(|network| network.parse().unwrap()).collect(),
        };
        let check = |address: &str, allow: &str, expected: &str| {
            let result = check_source(address.parse().unwrap(), &config(allow), &own);
            assert_eq!(result.map_or_else(|rejected| rejected.reason().code(), |()| "ok"), expected, "{address}");
        };
        check("203.0.113.7", "", "ok");
        check("2001:db8::7", "", "ok");
        check("::ffff:203.0.113.7", "", "ok");
        check("127.0.0.1", "", "source_is_loopback");
        check("127.99.0.1", "", "source_is_loopback");
        check("::1", "", "source_is_loopback");
        check("::ffff:127.0.0.1", "", "source_is_loopback");
        check("0.0.0.0", "", "source_is_unspecified");
        check("0.1.2.3", "", "source_is_unspecified");
        check("::", "", "source_is_unspecified");
        check("224.0.0.1", "", "source_is_multicast");
        check("ff02::1", "", "source_is_multicast");
        check("255.255.255.255", "", "source_is_broadcast");
        check("240.0.0.1", "", "source_is_broadcast");
        check("169.254.169.254", "", "source_is_link_local");
        check("fe80::1", "", "source_is_link_local");
        check("127.0.0.1", "127.0.0.1/32", "ok");
        check("127.0.0.2", "127.0.0.1/32 fe80::/10", "source_is_loopback");
        check("fe80::1", "127.0.0.1/32 fe80::/10", "ok");
    }

    #[test]
    fn targets_are_of_the_clients_family_and_never_where_it_came_in() {
        let address = |text: &str| (text != "-").then(|| text.parse::<SocketAddr>().unwrap());
        let check = |v4: &str, v6: &str, client: &str, came_to: &str, expected: &str| {
            let targets = TargetsConfig::Fixed { v4: address(v4), v6: address(v6) };
            let got = target(&targets, client.parse().unwrap(), true, None, address(came_to));
            assert_eq!(
                got.map_or_else(|rejected| rejected.reason().code().to_owned(), |to| to.to_string()),
                expected,
                "{client}"
            );
        };
        check("127.0.0.1:80", "[::1]:80", "203.0.113.7", "-", "127.0.0.1:80");
        check("127.0.0.1:80", "[::1]:80", "2001:db8::7", "10.0.0.1:80", "[::1]:80");
        check("127.0.0.1:80", "-", "::ffff:203.0.113.7", "-", "127.0.0.1:80");
        check("127.0.0.1:80", "-", "2001:db8::7", "-", "no_target_of_family");
        check("-", "[::1]:80", "203.0.113.7", "-", "no_target_of_family");
        let only_v4 = TargetsConfig::Fixed { v4: address("127.0.0.1:80"), v6: None };
        let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7]);
        assert_eq!(target(&only_v4, v6, false, None, None).ok(), address("127.0.0.1:80"));
        check("10.0.0.5:80", "-", "203.0.113.7", "10.0.0.5:80", "forwarding_loop");
        check("10.0.0.5:80", "-", "203.0.113.7", "10.0.0.5:81", "10.0.0.5:80");
        check("10.0.0.5:80", "-", "203.0.113.7", "[::ffff:10.0.0.5]:80", "forwarding_loop");
    }

    #[test]
    fn destinations_stand_on_a_list() {
        let allow = vec![
            AllowedDestination { network: "10.0.0.0/8".parse().unwrap(), ports: 80..=90 },
            AllowedDestination { network: "2001:db8::/32".parse().unwrap(), ports: 1..=65_535 },
        ];
        let targets = TargetsConfig::Destination { allow };
        let check = |destination: Option<&str>, expected: bool| {
            let named = destination.map(|text| text.parse().unwrap());
            let got = target(&targets, IpAddr::from([203, 0, 113, 7]), false, named, None);
            assert_eq!(
                got,
                if expected { Ok(net::transparent::canonical(named.unwrap())) } else { Err(Rejected::Destination) }
            );
        };
        check(Some("10.1.2.3:80"), true);
        check(Some("[::ffff:10.1.2.3]:90"), true);
        check(Some("10.1.2.3:91"), false);
        check(Some("11.1.2.3:80"), false);
        check(Some("[2001:db8::1]:1"), true);
        check(Some("[2001:db8::1]:0"), false);
        check(None, false);
    }
}
