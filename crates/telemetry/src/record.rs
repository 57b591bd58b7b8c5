//! What is known of a request or a connection when it ends. Plain data: who fills it in decides nothing about its form.
//!
//! Absent on purpose: header fields, but for those that the configuration adds. Authorization and Cookie can not reach a log line: no record has a place for
//! them, and no configuration may add them.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use reason::{Reason, Side};
use wire::keyless::ErrorCode;
use wire::proxy_protocol::ProxyInfo;

use super::trace::Trace;

/// The code of a reason; empty if there is none.
pub(super) fn code_of(reason: Option<Reason>) -> &'static str {
    reason.map_or("", Reason::code)
}

/// What a contract said of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decision {
    /// It was not checked: modes are off.
    #[default]
    Off,
    /// Nothing is wrong with it.
    Passed,
    /// Something is wrong, and it passed because the mode is `log`.
    Logged,
    /// It was rejected.
    Blocked,
}

impl Decision {
    /// The word for it in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Off => "off",
            Decision::Passed => "passed",
            Decision::Logged => "logged",
            Decision::Blocked => "blocked",
        }
    }
}

/// What a contract said of a request and its response.
#[derive(Debug, Clone, Copy)]
pub struct ContractRecord<'a> {
    /// Name of the contract.
    pub contract: &'a str,
    /// Method and path template; empty where the document knows none.
    pub operation: &'a str,
    /// The worse of both decisions.
    pub decision: Decision,
    /// `request` or `response`: what the reason is about; empty without one.
    pub side: &'static str,
    /// The first violation, if there is one.
    pub reason: Option<Reason>,
    /// Where it is: part, name, and a pointer into the value. Hostile bytes possible.
    pub place: &'a str,
    /// Violations found, on both sides.
    pub violations: u32,
}

/// A policy in mode `log`, and what it would have rejected somebody for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WouldReject {
    /// Its name.
    pub policy: Box<str>,
    /// Why.
    pub reason: Reason,
}

/// One HTTP request, finished.
#[derive(Debug, Clone)]
pub struct RequestRecord<'a> {
    /// When its first byte was read (wall clock).
    pub started: SystemTime,
    /// Listener name.
    pub listener: &'a str,
    /// Who sent it: the connection's peer, or whom the trusted proxies name; none on Unix sockets.
    pub client: Option<IpAddr>,
    /// The connection's peer; none on Unix sockets.
    pub peer: Option<SocketAddr>,
    /// What a believed PROXY header said.
    pub reported: Option<&'a ProxyInfo>,
    /// What TLS agreed on, if there was TLS.
    pub tls: Option<&'a tls::Info>,
    /// Method, as text.
    pub method: &'a str,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2`.
    pub version: &'static str,
    /// Authority of the request, hostile bytes possible.
    pub host: &'a [u8],
    /// The host of its route that it matched, as configured (`*.example.com`); none where the route is for any host.
    pub host_pattern: Option<&'a str>,
    /// Path and query, hostile bytes possible.
    pub target: &'a [u8],
    /// User-Agent, hostile bytes possible.
    pub user_agent: &'a [u8],
    /// The request id sent upstream.
    pub request_id: &'a [u8],
    /// Name of the route, if one matched.
    pub route: Option<&'a str>,
    /// Name of the upstream group, if one was chosen.
    pub upstream: Option<&'a str>,
    /// Address of the server that answered or failed last.
    pub server: Option<&'a str>,
    /// Status sent to the client; 0 if none was.
    pub status: u16,
    /// Status the upstream gave, if it gave one.
    pub upstream_status: Option<u16>,
    /// Body bytes from the client.
    pub bytes_received: u64,
    /// Body bytes to the client.
    pub bytes_sent: u64,
    /// First byte of the request to last byte of the response.
    pub duration: Duration,
    /// Request sent to upstream's head received.
    pub upstream_duration: Option<Duration>,
    /// Time in the queue of the upstream, if it waited there.
    pub queued: Option<Duration>,
    /// Time that its bytes had to wait because a policy limits their bandwidth, if they had to.
    pub throttled: Option<Duration>,
    /// Who it was verified to come from, if a policy demands to know; hostile bytes possible.
    pub user: Option<&'a str>,
    /// What became of the client's sticky session.
    pub session: Option<&'static str>,
    /// Whether the client's own port was kept; none unless it went onward under its address.
    pub port_kept: Option<bool>,
    /// Further tries on other servers.
    pub retries: u32,
    /// Servers asked beside one that had not responded yet.
    pub hedges: u32,
    /// Whether the response is of one of those.
    pub hedge_won: bool,
    /// The upstream that it is copied to, if it is.
    pub mirror: Option<&'a str>,
    /// The error pages that the response is of.
    pub error_pages: Option<&'a str>,
    /// The coding that the response was given here, and the bytes of its body before that.
    pub compressed: Option<(&'static str, u64)>,
    /// Whose fault, if unhappy.
    pub fault: Side,
    /// What went wrong, if anything did.
    pub reason: Option<Reason>,
    /// The policy that did not let it pass.
    pub policy: Option<&'a str>,
    /// Policies that only log, and would not have let it pass.
    pub would_reject: &'a [WouldReject],
    /// What its contract said, if it is under one.
    pub contract: Option<ContractRecord<'a>>,
    /// The trace that it belongs to, if there are traces.
    pub trace: Option<&'a Trace>,
    /// What the configuration adds.
    pub added: Option<&'a dyn AddedFields>,
}

/// Fields that the configuration adds to a record. Made only for a log that is written.
pub trait AddedFields: std::fmt::Debug {
    /// Gives the name and the value (hostile bytes possible) of each to `put`.
    fn each(&self, put: &mut dyn FnMut(&str, &[u8]));
}

impl RequestRecord<'_> {
    /// Whether trusted proxies named the client, so that it is not the connection's peer.
    pub fn is_forwarded(&self) -> bool {
        self.client != self.peer.map(|peer| peer.ip().to_canonical())
    }
}

/// One UDP flow, ended.
#[derive(Debug, Clone)]
pub struct FlowRecord<'a> {
    /// When its first datagram came (wall clock).
    pub started: SystemTime,
    /// Listener name.
    pub listener: &'a str,
    /// True client.
    pub client: SocketAddr,
    /// The socket's peer: whoever answers went to.
    pub balancer: SocketAddr,
    /// Where datagrams went; last, if it went on at another server.
    pub target: SocketAddr,
    /// The upstream that the target is a server of, if there is one.
    pub upstream: Option<&'a str>,
    /// Times that it went on at another server.
    pub moves: u32,
    /// Whether the client's own port could be used.
    pub port_kept: bool,
    /// First datagram to end.
    pub duration: Duration,
    /// Datagrams from the client.
    pub datagrams_received: u64,
    /// Datagrams to the client.
    pub datagrams_sent: u64,
    /// Payload bytes from the client.
    pub bytes_received: u64,
    /// Payload bytes to the client.
    pub bytes_sent: u64,
    /// Datagrams from the client that the kernel did not take.
    pub datagrams_lost: u64,
    /// Times the network said that the target could not be reached.
    pub unreachable: u64,
    /// Why it ended.
    pub reason: Reason,
    /// Policies that only log, and would not have let it pass.
    pub would_reject: &'a [WouldReject],
}

/// One tunnel, ended.
#[derive(Debug, Clone)]
pub struct TunnelRecord<'a> {
    /// When it was accepted.
    pub started: SystemTime,
    /// Listener name.
    pub listener: &'a str,
    /// True client; none on Unix sockets.
    pub client: Option<SocketAddr>,
    /// What a believed PROXY header said.
    pub reported: Option<&'a ProxyInfo>,
    /// What TLS agreed on, if it was opened.
    pub tls: Option<&'a tls::Info>,
    /// SNI of TLS that was not opened.
    pub server_name: Option<&'a str>,
    /// Whether TLS was passed by unopened.
    pub passthrough: bool,
    /// What the connection is called towards upstreams.
    pub connection_id: &'a [u8],
    /// Name of the upstream group.
    pub upstream: &'a str,
    /// Address of the server that was reached, or failed last.
    pub server: Option<&'a str>,
    /// Further tries on other servers.
    pub retries: u32,
    /// From the first try to the connection; none if there was none.
    pub connect_duration: Option<Duration>,
    /// Whether the client's own port could be used; none where it did not go onward under its own address.
    pub port_kept: Option<bool>,
    /// Bytes carried from the client.
    pub bytes_received: u64,
    /// Bytes carried to the client.
    pub bytes_sent: u64,
    /// Time that its bytes had to wait because a policy limits their bandwidth, if they had to.
    pub throttled: Option<Duration>,
    /// Accept to the moment its way was known, handshake included.
    pub ready_after: Duration,
    /// Accept to end.
    pub duration: Duration,
    /// `client`, `upstream` or `portunus`: whose end came first.
    pub ended_by: &'static str,
    /// Whose fault, if unhappy.
    pub fault: Side,
    /// Why it ended; none if both sides just finished.
    pub reason: Option<Reason>,
    /// The policy that did not let it pass.
    pub policy: Option<&'a str>,
    /// Policies that only log, and would not have let it pass.
    pub would_reject: &'a [WouldReject],
}

/// One connection that ended without ever becoming a request: rejected, failed handshake, silent.
#[derive(Debug, Clone)]
pub struct ConnRecord<'a> {
    /// When it was accepted.
    pub started: SystemTime,
    /// Listener name.
    pub listener: &'a str,
    /// True client; none on Unix sockets.
    pub client: Option<SocketAddr>,
    /// What a believed PROXY header said.
    pub reported: Option<&'a ProxyInfo>,
    /// SNI as sent, if it was seen.
    pub server_name: Option<&'a str>,
    /// Accept to end.
    pub duration: Duration,
    /// `accept`, `tls_handshake`, `head`, ...
    pub phase: &'static str,
    /// Whose fault.
    pub fault: Side,
    /// Why it ended.
    pub reason: Reason,
    /// The policy that did not let it pass.
    pub policy: Option<&'a str>,
    /// Policies that only log, and would not have let it pass.
    pub would_reject: &'a [WouldReject],
    /// Detail for people, e.g. the library's reason; hostile bytes possible.
    pub detail: &'a str,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOutcome {
    /// Signed or decrypted.
    Done,
    /// Answered with an error.
    Rejected(ErrorCode),
    /// Its deadline passed before it was begun.
    Expired,
    /// Its peer cancelled it before it was begun.
    Cancelled,
    /// Its peer left before it was begun.
    PeerLeft,
}

impl KeyOutcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            KeyOutcome::Done => "done",
            KeyOutcome::Rejected(_) => "rejected",
            KeyOutcome::Expired => "expired",
            KeyOutcome::Cancelled => "cancelled",
            KeyOutcome::PeerLeft => "peer_left",
        }
    }

    /// The word for an error; empty for none.
    pub(super) fn error(self) -> &'static str {
        match self {
            KeyOutcome::Done => "",
            KeyOutcome::Rejected(code) => code.name(),
            other => other.name(),
        }
    }
}

/// One operation that came to its end.
#[derive(Debug)]
pub struct KeyOperation<'a> {
    /// Who asked.
    pub peer: &'a str,
    /// From where; none on Unix sockets.
    pub address: Option<SocketAddr>,
    /// For which key, held or not.
    pub ski: Option<&'a [u8; 20]>,
    /// What was asked for.
    pub operation: &'static str,
    /// The class of its key; `none` where it came to no key.
    pub class: &'static str,
    /// What became of it.
    pub outcome: KeyOutcome,
    /// From its arrival until it was begun or given up.
    pub queued: Duration,
    /// How long the work took.
    pub service: Duration,
}
