//! The start-up self-test: connects once from an address that is nobody's, and explains in words why that fails.
//!
//! For UDP targets too it is a TCP connection: the refusal of a port where nobody listens shows the way as well as a response does.
//! Changes nothing. The addresses are those of RFC 5737 and RFC 3849, which no host has.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use config::{Config, ServerAddress, ServerConfig, TargetsConfig};
use net::{Deadline, Source};

/// How long a target may take; it is near by.
const PATIENCE: Duration = Duration::from_millis(500);

/// What the test found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A connection came about.
    Works,
    /// The target rejected, and its rejection found back: the way is good, nobody listens.
    NobodyListens,
    /// This process may not use foreign addresses.
    NotPermitted,
    /// Nothing came back.
    NoAnswer,
    /// There is no way to the target.
    Unreachable,
}

impl Finding {
    /// Whether foreign addresses reach the target and its responses come back.
    pub fn is_good(self) -> bool {
        matches!(self, Finding::Works | Finding::NobodyListens)
    }

    /// In words, with the fix.
    pub fn explain(self, target: SocketAddr, has_route: bool) -> String {
        match self {
            Finding::Works => format!("{target} answers to foreign addresses"),
            Finding::NobodyListens => {
                format!("replies from {target} are routed back correctly, but nothing listens there yet")
            }
            Finding::NotPermitted => format!(
                "cannot connect to {target} from a client's address: this process lacks CAP_NET_ADMIN; run it as root, or give it \
                 the capability as packaging/portunus-passport.service does"
            ),
            Finding::NoAnswer if has_route => format!(
                "{target} does not answer to foreign addresses although the policy routing is there: a firewall drops its responses, or the \
                 application is on another machine or in a container and its responses go elsewhere (docs/client-address.md, \"Other hosts\")"
            ),
            Finding::NoAnswer => format!(
                "answers of {target} to clients do not come back here: the policy routing is missing; run `portunus routing setup`, and \
                 `portunus routing check` to see what is missing"
            ),
            Finding::Unreachable => {
                format!("there is no way to {target} from a foreign address: check the address and the interface")
            }
        }
    }
}

/// Tries one target.
pub async fn run(target: SocketAddr, mark: u32) -> Finding {
    let nobody: IpAddr = match target.ip().to_canonical() {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let source = Source { address: Some(SocketAddr::new(nobody, 0)), mark };
    match Deadline::new().within(PATIENCE, net::transparent::connect_tcp(target, source)).await {
        Ok(Ok(_)) => Finding::Works,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Finding::NobodyListens,
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => Finding::NotPermitted,
        Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => Finding::NoAnswer,
        Ok(Err(_)) => Finding::Unreachable,
        Err(_) => Finding::NoAnswer,
    }
}

/// Where a server is, where no name server has to be asked.
fn literal(server: &ServerConfig) -> Option<SocketAddr> {
    match server.address {
        ServerAddress::Ip(address) => Some(address),
        ServerAddress::Name(..) | ServerAddress::Service(_) | ServerAddress::Listed(_) | ServerAddress::Unix(_) => None,
    }
}

/// What is reached from clients' addresses, with the mark used towards it. Names and destinations from headers cannot be tried beforehand.
pub fn targets(config: &Config) -> BTreeSet<(SocketAddr, u32)> {
    let mut all = BTreeSet::new();
    for upstream in config.upstreams.values().filter(|upstream| upstream.source.client) {
        all.extend(upstream.servers.iter().filter_map(literal).map(|target| (target, upstream.source.mark)));
    }
    for listener in config.udp_listeners.iter().filter(|listener| listener.source.client) {
        match &listener.to {
            TargetsConfig::Fixed { v4, v6 } => {
                all.extend([v4, v6].into_iter().flatten().map(|target| (*target, listener.source.mark)));
            }
            TargetsConfig::Group(name) => {
                let servers = config.upstreams.get(name).map(|upstream| &upstream.servers[..]).unwrap_or_default();
                all.extend(servers.iter().filter_map(literal).map(|target| (target, listener.source.mark)));
            }
            TargetsConfig::Destination { .. } => {}
        }
    }
    all
}

/// Tries every target and tells what is wrong; silent where all is well.
pub async fn report(targets: BTreeSet<(SocketAddr, u32)>) {
    let has_route = net::routing::missing(&net::routing::Plan::default()).is_ok_and(|missing| missing.is_empty());
    for (to, mark) in targets {
        let finding = run(to, mark).await;
        let words = finding.explain(to, has_route);
        match finding {
            Finding::Works | Finding::NobodyListens => tracing::info!(%to, "self-test: {words}"),
            _ => tracing::error!(%to, "self-test: {words}"),
        }
    }
}
