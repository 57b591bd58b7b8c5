//! What is known of a connection for as long as it lives.

use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use config::ListenerConfig;
use reason::Reason;
use telemetry::{ConnRecord, WorkerReport};
use wire::proxy_protocol::ProxyInfo;

use crate::certificates::TlsRule;
use crate::policies::Denial;
use crate::upstream::Places;

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
    /// When it was accepted, on the wall clock and for measuring.
    pub accepted_at: (SystemTime, Instant),
    /// Bytes that bodies of its requests and responses take while contracts validate them.
    pub validation_memory: Cell<usize>,
    /// Where who connected is counted among the clients of an upstream, once that was asked for.
    pub places: OnceCell<Places>,
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
        detail,
    }
}
