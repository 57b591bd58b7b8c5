//! What is known of a connection for as long as it lives.

use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use config::ListenerConfig;
use reason::Reason;
use telemetry::{ConnRecord, WorkerReport, WouldReject};
use wire::proxy_protocol::{ProxyInfo, kind};
use wire::short_text::ShortText;

use crate::certificates::TlsRule;
use crate::policies::{ConnectionMeters, Denial};
use crate::upstream::{Binding, Places};

/// What stays true for as long as a connection lives.
#[derive(Debug)]
pub struct Conn {
    /// The listener it came in by, as configured when it was accepted.
    pub listener: Arc<ListenerConfig>,
    /// Who connected; none on Unix sockets.
    pub client: Option<SocketAddr>,
    /// What a believed PROXY header said.
    pub reported: Option<Box<ProxyInfo>>,
    /// Port of the socket it came in by; 0 on Unix sockets.
    pub bound_port: u16,
    /// Port that the client connected to, at a balancer perhaps; 0 on Unix sockets.
    pub local_port: u16,
    /// TLS, if it is under TLS.
    pub tls: Option<ConnTls>,
    /// Policies of its listener that only log, and would not have let it in; those of requests are noted with each.
    pub would_reject: Vec<WouldReject>,
    /// When it was accepted, on the wall clock and for measuring.
    pub accepted_at: (SystemTime, Instant),
    /// Bytes that bodies of its requests and responses take while contracts validate them.
    pub validation_memory: Cell<usize>,
    /// The bandwidth of its requests.
    pub meters: ConnectionMeters,
    /// Where who connected is counted among the clients of an upstream, once that was asked for.
    pub places: OnceCell<Places>,
    /// What it is to upstream connections that say who their client is, once there is one.
    pub onward: OnceCell<Box<Bound>>,
    /// Its addresses as fields of requests have them, once one has.
    pub texts: OnceCell<Texts>,
}

/// The addresses of a connection as text.
#[derive(Debug)]
pub struct Texts {
    /// The address of who connected; empty on Unix sockets.
    pub peer: ShortText,
    /// The port that the client connected to.
    pub port: ShortText,
    /// The port is said by a PROXY header or the configuration; else it is that of our socket.
    pub is_port_said: bool,
}

/// A connection that others are bound to.
#[derive(Debug)]
pub struct Bound {
    /// Under what they are kept.
    pub binding: Binding,
    /// What it is called towards upstreams.
    pub id: ConnectionId,
}

/// What a connection is called in the log and towards upstreams.
#[derive(Debug)]
pub struct ConnectionId(Box<[u8]>);

impl ConnectionId {
    /// The id that a believed PROXY header gave, else 128 random bits in hexadecimal. For telling connections apart, not for secrets.
    pub fn of(conn: &Conn) -> ConnectionId {
        let given = conn.reported.as_ref().and_then(|reported| reported.tlvs().get(kind::UNIQUE_ID).map(Box::from));
        ConnectionId(given.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)).into_bytes().into()))
    }

    /// As sent and logged.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Conn {
    /// A connection in the clear of `client`, who came to `port`.
    pub fn new(
        listener: Arc<ListenerConfig>,
        client: Option<SocketAddr>,
        port: u16,
        accepted_at: (SystemTime, Instant),
    ) -> Conn {
        Conn {
            listener,
            client,
            reported: None,
            bound_port: port,
            local_port: port,
            tls: None,
            would_reject: Vec::new(),
            accepted_at,
            validation_memory: Cell::new(0),
            meters: ConnectionMeters::default(),
            places: OnceCell::new(),
            onward: OnceCell::new(),
            texts: OnceCell::new(),
        }
    }

    /// What upstream connections are bound to.
    pub fn bound(&self) -> &Bound {
        self.onward.get_or_init(|| Box::new(Bound { binding: Binding::next(), id: ConnectionId::of(self) }))
    }

    /// Its addresses as text, written once. Of the port a PROXY header knows more than the listener.
    pub fn texts(&self) -> &Texts {
        self.texts.get_or_init(|| Texts {
            peer: ShortText::of_address(self.client.map(|client| client.ip())),
            port: ShortText::of_number(u64::from(self.port())),
            is_port_said: self.is_port_reported() || self.listener.options.public_port.is_some(),
        })
    }

    /// The port that the client connected to, as a PROXY header or the configuration says, else that of our socket; 0 on Unix sockets.
    pub fn port(&self) -> u16 {
        let configured = self.listener.options.public_port.filter(|_| !self.is_port_reported());
        configured.unwrap_or(self.local_port)
    }

    fn is_port_reported(&self) -> bool {
        self.reported.as_ref().is_some_and(|reported| reported.destination.is_some())
    }
}

/// What a connection's handshake agreed on, and under which rule.
#[derive(Debug)]
pub struct ConnTls {
    /// Versions, names, keys, the client's certificate.
    pub info: tls::Info,
    /// The rule the handshake was checked by.
    pub rule: Arc<TlsRule>,
}

/// Tells of a connection that ended before anything of it went upstream.
pub fn ended_before(conn: &Conn, report: &WorkerReport, phase: &'static str, reason: Reason, detail: &str) {
    report.connection_failed(&ConnRecord {
        duration: conn.accepted_at.1.elapsed(),
        ..record(conn, phase, reason, detail)
    });
}

/// Tells of a connection that a policy did not let in.
pub fn denied(conn: &Conn, report: &WorkerReport, denial: &Denial) {
    report.connection_failed(&ConnRecord {
        duration: conn.accepted_at.1.elapsed(),
        policy: Some(&denial.policy.name),
        ..record(conn, "accept", denial.reason, "")
    });
}

/// The record of a connection that ended without a request; the caller fills in how long what it was at took.
pub fn record<'a>(conn: &'a Conn, phase: &'static str, reason: Reason, detail: &'a str) -> ConnRecord<'a> {
    ConnRecord {
        started: conn.accepted_at.0,
        listener: &conn.listener.name,
        client: conn.client,
        reported: conn.reported.as_deref(),
        server_name: None,
        duration: Duration::ZERO,
        phase,
        fault: reason.side().of_request(),
        reason,
        policy: None,
        would_reject: &conn.would_reject,
        detail,
    }
}
