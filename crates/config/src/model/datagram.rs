//! UDP listeners, and what passing on a client's own address takes.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;

use super::{Place, Trust, places};

/// One UDP listener: addresses that share all settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpListenerConfig {
    /// Unique among UDP listeners; used by logs and metrics.
    pub name: String,
    /// Where it binds. At least one.
    pub bind: Vec<SocketAddr>,
    /// Where the client's address comes from.
    pub header: DatagramHeader,
    /// Peers whose headers are believed; datagrams of all others are dropped. Without a header nobody is asked.
    pub trust: Trust,
    /// A datagram without a header is taken for its sender's own.
    pub header_optional: bool,
    /// Answers begin with the header of the Simple Proxy Protocol.
    pub reply_header: bool,
    /// Where datagrams go.
    pub to: TargetsConfig,
    /// Under which address.
    pub source: SourceConfig,
    /// A flow in which nothing moves for this long ends.
    pub idle_timeout: Duration,
    /// Flows at once, per worker.
    pub max_flows: usize,
    /// Flows of one client address at once, per worker.
    pub max_flows_per_client: usize,
    /// Policies that its flows must pass.
    pub policies: Vec<String>,
}

impl UdpListenerConfig {
    /// Its sockets.
    pub fn places(&self) -> impl Iterator<Item = Place<SocketAddr>> + '_ {
        places(&self.name, &self.bind)
    }
}

/// How a datagram says who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DatagramHeader {
    /// Its own source address.
    #[default]
    Off,
    /// A PROXY header, version 2, on every datagram.
    Each,
    /// A PROXY header, version 2, on the first datagram of a flow.
    First,
    /// One of the two, found out for each flow.
    Auto,
    /// The header of the Simple Proxy Protocol on every datagram.
    Simple,
}

/// Where clients go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetsConfig {
    /// To one address for each family; at least one of the two is there.
    Fixed {
        /// For IPv4.
        v4: Option<SocketAddr>,
        /// For IPv6.
        v6: Option<SocketAddr>,
    },
    /// To the servers of this upstream.
    Group(String),
    /// Where the header says that the client wanted to go, if that is on this list.
    Destination {
        /// The list; never empty.
        allow: Vec<AllowedDestination>,
    },
}

/// A destination that a header may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedDestination {
    /// Addresses.
    pub network: IpNet,
    /// Ports.
    pub ports: RangeInclusive<u16>,
}

/// Under which address something is sent onward.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceConfig {
    /// The client's own; else ours.
    pub client: bool,
    /// SO_MARK; 0 for none.
    pub mark: u32,
    /// Clients here may be passed on although their addresses are of a kind that is rejected: loopback, our own, and so on.
    pub allow: Vec<IpNet>,
}
