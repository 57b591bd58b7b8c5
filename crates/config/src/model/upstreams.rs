//! Upstreams as configured: groups of servers, how one is chosen, and what connections to them are held to.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::{AllowedDestination, Secret, SourceConfig};
use crate::expression::Expression;
use crate::shape::surface::{HealthMethod, QueueConfig, SameSite, WhenAllDown};

/// A group of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Name.
    pub name: String,
    /// Its servers.
    pub servers: Vec<ServerConfig>,
    /// HTTP spoken to them.
    pub protocol: UpstreamProtocol,
    /// TLS to them.
    pub tls: Option<UpstreamTls>,
    /// The PROXY header that goes ahead of a tunnel's bytes.
    pub send_proxy: SendProxy,
    /// How one is chosen.
    pub balance: Balance,
    /// Over which time a server that is back gets its share again; zero: at once.
    pub slow_start: Duration,
    /// Under which address connections go there.
    pub source: SourceConfig,
    /// Instead of to servers, connections go where their header says the client wanted to go, if that is one of these.
    pub original_dst: Vec<AllowedDestination>,
    /// Connecting, TCP and TLS together.
    pub connect_timeout: Duration,
    /// From the request's last byte to the response's head.
    pub response_header_timeout: Duration,
    /// Between two bytes of a body.
    pub idle_timeout: Duration,
    /// The whole exchange; none for no bound (tunnels and streams outlive it).
    pub total_timeout: Option<Duration>,
    /// Idle connections kept per process.
    pub pool_max_idle: usize,
    /// How long an idle connection is kept.
    pub pool_idle_timeout: Duration,
    /// Silence on a connection after which the server is asked whether it is there; zero for never.
    pub keepalive: Duration,
    /// Requests in flight per process beyond which 503 is answered.
    pub max_in_flight: usize,
    /// Requests in flight of one client (IPv6: of one /64) beyond which 429 is responded.
    pub max_in_flight_per_client: usize,
    /// Retries: the share of requests that may be retried, percent; 0 switches retries off.
    pub retry_budget_percent: u32,
    /// What is retried, how often and when.
    pub retries: Retries,
    /// Passive ejection.
    pub ejection: Ejection,
    /// Active checks.
    pub health: Option<HealthCheck>,
    /// What becomes of requests when no server is up.
    pub when_all_down: WhenAllDown,
    /// Requests and tunnels in flight to one server, unless it has a number of its own.
    pub max_in_flight_per_server: Option<usize>,
    /// Requests that wait for room.
    pub queue: Option<QueueConfig>,
    /// Sticky sessions.
    pub sticky: Option<StickyConfig>,
    /// Servers of this process's own zone come first, where it has one.
    pub own_zone: Option<OwnZone>,
}

/// The zone whose servers are preferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnZone {
    /// Its name.
    pub name: String,
    /// How many percent of its servers, by weight, must be usable for requests to stay there.
    pub threshold: u32,
}

/// Sticky sessions by a cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickyConfig {
    /// Name of the cookie.
    pub cookie: String,
    /// Max-Age; none: until the browser is closed.
    pub lifetime: Option<Duration>,
    /// SameSite.
    pub same_site: SameSite,
    /// What cookies are sealed under; none: a key of this process.
    pub key: Option<Secret>,
}

/// One server of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where it is.
    pub address: ServerAddress,
    /// Share of the load, 1 to 1000.
    pub weight: u32,
    /// Servers of a higher number get requests only while none of a lower one is up.
    pub priority: u32,
    /// It gets requests only while none of the others is up, whatever their priority.
    pub is_backup: bool,
    /// Requests and tunnels in flight to it; none: as its group says.
    pub max_in_flight: Option<usize>,
    /// Where it is: a data centre, an availability zone, a rack.
    pub zone: Option<String>,
}

impl ServerConfig {
    /// A server at an address, with every setting at its default.
    pub fn at(address: ServerAddress) -> ServerConfig {
        ServerConfig { address, weight: 1, priority: 0, is_backup: false, max_in_flight: None, zone: None }
    }
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// A literal address.
    Ip(SocketAddr),
    /// A name resolved again by TTL.
    Name(String, u16),
    /// A name whose SRV records say which hosts, ports, weights and priorities there are (RFC 2782).
    Service(String),
    /// A service of which a directory says which servers it has.
    Listed(ListedService),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A service in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedService {
    /// Its entry of `discovery`.
    pub source: String,
    /// The service.
    pub service: String,
    /// The tag that instances must have.
    pub tag: Option<String>,
}

impl std::fmt::Display for ListedService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.source, self.service)?;
        self.tag.iter().try_for_each(|tag| write!(f, ":{tag}"))
    }
}

/// A directory that says which servers there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveryConfig {
    /// Its name.
    pub name: String,
    /// The way to it.
    pub upstream: Arc<UpstreamConfig>,
    /// How it is asked.
    pub by: Directory,
    /// Who asks.
    pub token: Option<Secret>,
    /// Networks that addresses must be in; empty for all that other machines may have.
    pub networks: Vec<IpNet>,
}

/// How a directory is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directory {
    /// By Consul's API.
    Consul {
        /// The data centre; none: the agent's own.
        datacenter: Option<String>,
    },
    /// By Docker's API.
    Docker {
        /// The network whose addresses are used; none: the only one.
        network: Option<String>,
    },
    /// By etcd's JSON gateway.
    Etcd {
        /// What keys begin with.
        prefix: String,
    },
}

impl ServerAddress {
    /// The TCP port; none of a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            ServerAddress::Ip(address) => Some(address.port()),
            ServerAddress::Name(_, port) => Some(*port),
            ServerAddress::Service(_) | ServerAddress::Listed(_) | ServerAddress::Unix(_) => None,
        }
    }
}

/// HTTP version spoken to upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge in the clear, or by ALPN where TLS is on.
    Http2,
    /// What each server agrees to by ALPN.
    Auto,
    /// No HTTP: bytes of tunnels.
    Tcp,
    /// No connections: datagrams of UDP listeners.
    Udp,
}

/// The PROXY header sent to a server before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendProxy {
    /// None.
    #[default]
    Off,
    /// Version 1.
    V1,
    /// Version 2, addresses alone.
    V2,
    /// Version 2 with all that is known as TLVs.
    V2Tlvs,
}

/// TLS towards upstreams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file of trusted roots; none = the system's (`/etc/ssl/certs/ca-certificates.crt`).
    pub ca: Option<PathBuf>,
    /// Name to send and check instead of the server's own.
    pub name: Option<String>,
    /// PEM chain of our client certificate.
    pub client_certificate: Option<PathBuf>,
    /// PEM key of our client certificate.
    pub client_key: Option<PathBuf>,
    /// False only by explicit opt-out.
    pub verify: bool,
    /// By what of their certificates servers are known.
    pub names: tls::NameCheck,
    /// Versions, suites, and how strong the servers' certificate chains must be.
    pub policy: tls::Policy,
}

/// How a server is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Balance {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The least loaded one, by weight.
    LeastLoaded,
    /// The less loaded of two random ones.
    RandomTwo,
    /// By something of the request, the same server for the same value.
    Hash {
        /// What is hashed.
        key: HashKey,
        /// No server has more than so many percent of its share of the requests under way; 0: no bound.
        balance_factor: u32,
    },
}

/// What of a request decides which server it goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The client's address.
    Client,
    /// The path of the request.
    WholePath,
    /// The path of the request, and its query.
    Target,
    /// The value of a header field; its name in lower case.
    Header(String),
    /// The value of a cookie.
    Cookie(String),
    /// The value of a path parameter.
    Path(String),
}

/// When a server that fails is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// Failures in a row; 0 switches ejection off.
    pub failures: u32,
    /// For how long, at first; doubles up to ten times this.
    pub duration: Duration,
    /// Statuses of responses that count as failures.
    pub statuses: FailureStatuses,
    /// Time to the head of a response beyond which it counts as a failure.
    pub latency: Option<Duration>,
    /// Of the servers of a group, so many percent at most are ejected for their statuses and latency.
    pub max_percent: u32,
}

/// Statuses from 500 to 599 that count as failures of a server: bit 0 stands for 500.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailureStatuses(u128);

impl FailureStatuses {
    /// These; others than 500 to 599 are left out.
    pub fn new(statuses: impl IntoIterator<Item = u16>) -> FailureStatuses {
        let bits = statuses.into_iter().filter(|status| (500..600).contains(status)).map(|status| 1 << (status - 500));
        FailureStatuses(bits.fold(0, |all, bit: u128| all | bit))
    }

    /// Whether a status counts as a failure.
    pub fn contains(self, status: u16) -> bool {
        (500..600).contains(&status) && self.0 >> (status - 500) & 1 == 1
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Them, in order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (500..600).filter(move |status| self.contains(*status))
    }
}

/// What is retried on another server, how often and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// The server did not get the request.
    pub on_connect: bool,
    /// The connection broke.
    pub on_reset: bool,
    /// The head of the response took too long.
    pub on_timeout: bool,
    /// The response has one of these statuses.
    pub statuses: FailureStatuses,
    /// Servers tried for one request; none: each once.
    pub attempts: Option<u32>,
    /// From the choice of a server to the head of its response, where another one may follow.
    pub per_try_timeout: Option<Duration>,
    /// Before the first retry, at most; twice that before the next, and so on.
    pub backoff: Duration,
    /// Other servers are asked beside a slow one.
    pub hedge: Option<Hedge>,
}

/// When another server is asked beside one that has not responded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hedge {
    /// How long the head of a response is waited for.
    pub after: Duration,
    /// Servers asked beside the first one.
    pub max: u32,
}

/// Active health checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is asked.
    pub probe: Probe,
    /// The port, where it is not the server's own.
    pub port: Option<u16>,
    /// Between two checks.
    pub interval: Duration,
    /// Longest time added to that, at random.
    pub jitter: Duration,
    /// For one check.
    pub timeout: Duration,
    /// Checks in a row that must fail before the server is left out.
    pub fall: u32,
    /// Checks in a row that must succeed before it is back.
    pub rise: u32,
}

/// What a check asks of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// To take a connection.
    Connect,
    /// To respond to a datagram.
    Datagram {
        /// What is sent.
        send: Vec<u8>,
        /// What the response contains; none for anything.
        expect: Option<Expected>,
    },
    /// To say the right things on a connection.
    Exchange(Vec<CheckStep>),
    /// To respond to a request.
    Http(HttpProbe),
    /// To call a service healthy (`grpc.health.v1`); the empty name is the server as a whole.
    Grpc {
        /// Name of the service.
        service: String,
        /// Host sent; none: the server's.
        host: Option<String>,
    },
}

/// A step of a check on a connection: something is sent, and an answer waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckStep {
    /// What is sent; empty for nothing.
    pub send: Vec<u8>,
    /// What then comes contains; none: it is not waited for.
    pub expect: Option<Expected>,
}

/// What a healthy server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// These bytes, somewhere.
    Bytes(Vec<u8>),
    /// Something that this matches, which matches all before and behind it, too.
    Matching(Expression),
}

/// The request of a check, and the response of a healthy server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProbe {
    /// Path and query.
    pub path: String,
    /// Host sent; none: the server's.
    pub host: Option<String>,
    /// Method.
    pub method: HealthMethod,
    /// Further fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Statuses of a healthy server, from and to.
    pub statuses: Vec<(u16, u16)>,
    /// Text that its body contains.
    pub body: Option<String>,
}
