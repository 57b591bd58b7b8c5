//! What is known of one tunnel while it lives, and the telling of it: bytes now and then, one record at the end.
//!
//! A tunnel that is cut short by the end of the process or by a panic tells of that when it is dropped.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use config::{PolicyConfig, SendProxy};
use net::clock::coarse;
use net::{Chunk, Source};
use reason::{Reason, Side};
use telemetry::{TunnelRecord, WouldReject};
use transport::Transport;

use crate::certificates::TlsFront;
use crate::connection::{Conn, ConnectionId};
use crate::loop_guard::Hop;
use crate::onward::header::{self, Speaker};
use crate::pump::Carried;
use crate::tunnel::open::Opened;
use crate::tunnel_routes::TunnelRoute;
use crate::upstream::{ConnectError, Server};
use crate::worker::Worker;

/// How often what a long-lived tunnel moved is reported, so that metrics move while it lives.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Everything known of one tunnel.
#[derive(Debug)]
pub(super) struct TunnelState<'a> {
    pub(super) conn: &'a Conn,
    worker: &'a Worker,
    /// The client's side.
    pub(super) client: Transport,
    /// Where it goes.
    pub(super) route: Arc<TunnelRoute>,
    /// SNI of a connection that is passed by unopened.
    passed_name: Option<Box<str>>,
    /// The name for metrics: one that a certificate or a rule knows, so that clients cannot invent labels.
    known_name: Box<str>,
    /// What it is called in the log and towards upstreams.
    pub(super) id: ConnectionId,
    ready_after: Duration,
    /// From the first try to the connection, failed tries included.
    pub(super) connect_duration: Option<Duration>,
    /// The server tried last.
    pub(super) server: Option<Arc<Server>>,
    /// Where it went instead, if its header decided that. Told in the log only: clients must not invent labels.
    pub(super) destination: Option<SocketAddr>,
    /// Further tries on other servers.
    pub(super) retries: u32,
    /// Whether the client's own port was kept; none before it went onward under its address.
    port_kept: Option<bool>,
    /// The policy that did not let it pass.
    pub(super) policy: Option<Arc<PolicyConfig>>,
    /// Policies that only log, and would not have let it pass.
    pub(super) would_reject: Vec<WouldReject>,
    /// For how long its bytes had to wait.
    pub(super) throttled: Option<Duration>,
    /// Its place among the tunnels that may lead to us.
    hop: Option<Hop>,
    /// What was carried so far.
    pub(super) carried: Carried,
    /// Bytes told already: carried, and on the client's socket.
    reported: Cell<[(u64, u64); 2]>,
    reported_at: Cell<Duration>,
    ended: Cell<bool>,
}

impl<'a> TunnelState<'a> {
    /// A tunnel that has just begun, and the bytes that go ahead.
    pub(super) fn new(
        conn: &'a Conn,
        worker: &'a Worker,
        opened: Opened,
        front: Option<&TlsFront>,
    ) -> (TunnelState<'a>, Chunk) {
        let Opened { client, first, route, server_name } = opened;
        let opened_name = conn.tls.as_ref().and_then(|tls| tls.info.server_name.as_deref());
        let known = opened_name.and_then(|name| front?.known_name(name));
        let state = TunnelState {
            conn,
            worker,
            client,
            known_name: known.unwrap_or_else(|| route.name.clone()),
            route,
            passed_name: server_name,
            id: ConnectionId::of(conn),
            ready_after: conn.accepted_at.1.elapsed(),
            connect_duration: None,
            server: None,
            destination: None,
            retries: 0,
            port_kept: None,
            policy: None,
            would_reject: conn.would_reject.clone(),
            throttled: None,
            hop: None,
            carried: Carried::default(),
            reported: Cell::default(),
            reported_at: Cell::new(coarse()),
            ended: Cell::new(false),
        };
        (state, first)
    }

    /// Notes that it is connected, to `port`, under that source.
    ///
    /// # Errors
    /// It is part of a forwarding loop.
    pub(super) fn connected(
        &mut self,
        upstream: &Transport,
        port: Option<u16>,
        source: Source,
        took: Duration,
    ) -> Result<(), ConnectError> {
        self.connect_duration = Some(took);
        self.port_kept = source.address.map(|_| upstream.stream().port_kept());
        let hop = self.worker.shared.hops.follow(self.client.stream(), upstream.stream(), port);
        self.hop = hop.map_err(ConnectError::Client)?;
        Ok(())
    }

    /// The PROXY header that goes ahead; empty where none is to be sent.
    pub(super) fn header(&self) -> Vec<u8> {
        let send_proxy = self.route.group.config.send_proxy;
        if send_proxy == SendProxy::Off {
            return Vec::new();
        }
        let reached = self.client.stream().local();
        let speaker = Speaker {
            conn: self.conn,
            client: self.conn.client,
            reached,
            server_name: self.server_name(),
            id: &self.id,
        };
        header::render(send_proxy, &speaker)
    }

    /// SNI, opened or not.
    pub(super) fn server_name(&self) -> Option<&str> {
        let opened = || self.conn.tls.as_ref()?.info.server_name.as_deref();
        self.passed_name.as_deref().or_else(opened)
    }

    /// Tells what was moved, once a second at most.
    pub(super) fn report_moved_if_due(&self) {
        if coarse().saturating_sub(self.reported_at.get()) >= REPORT_EVERY {
            self.report_moved();
        }
    }

    fn report_moved(&self) {
        self.reported_at.set(coarse());
        let carried = (self.carried.from_client.get(), self.carried.to_client.get());
        let traffic = self.client.traffic();
        let [carried_before, traffic_before] = self.reported.replace([carried, traffic]);
        let report = &self.worker.report;
        report.tunnel_moved(self.labels(), carried.0 - carried_before.0, carried.1 - carried_before.1);
        let socket = (traffic.0 - traffic_before.0, traffic.1 - traffic_before.1);
        report.bytes_moved(&self.conn.listener.name, self.conn.client, socket.0, socket.1);
    }

    /// Bytes on the client's socket that were not told yet.
    pub(super) fn unreported_traffic(&self) -> (u64, u64) {
        let ([_, reported], now) = (self.reported.get(), self.client.traffic());
        (now.0 - reported.0, now.1 - reported.1)
    }

    fn labels(&self) -> [&str; 4] {
        let server = self.server.as_ref().map_or("", |server| &*server.name);
        [&self.conn.listener.name, &self.known_name, &self.route.group.config.name, server]
    }

    /// Leaves the one record of this tunnel.
    pub(super) fn report_end(&self, ended_by: &'static str, reason: impl Into<Option<Reason>>) {
        if self.ended.replace(true) {
            return;
        }
        self.report_moved();
        let reason = reason.into();
        let fault = match reason.map_or(Side::Nobody, Reason::side) {
            Side::Sender if ended_by == "upstream" => Side::Upstream,
            side => side.of_request(),
        };
        let conn = self.conn;
        let destination = self.destination.map(|address| address.to_string());
        let record = TunnelRecord {
            started: conn.accepted_at.0,
            listener: &conn.listener.name,
            client: conn.client,
            reported: conn.reported.as_deref(),
            tls: conn.tls.as_ref().map(|tls| &tls.info),
            server_name: self.passed_name.as_deref(),
            passthrough: self.route.passthrough,
            connection_id: self.id.as_bytes(),
            upstream: &self.route.group.config.name,
            server: self.server.as_ref().map(|server| &*server.name).or(destination.as_deref()),
            retries: self.retries,
            connect_duration: self.connect_duration,
            port_kept: self.port_kept,
            bytes_received: self.carried.from_client.get(),
            bytes_sent: self.carried.to_client.get(),
            throttled: self.throttled,
            ready_after: self.ready_after,
            duration: conn.accepted_at.1.elapsed(),
            ended_by,
            fault,
            reason,
            policy: self.policy.as_ref().map(|policy| policy.name.as_str()),
            would_reject: &self.would_reject,
        };
        self.worker.report.tunnel(self.labels(), &record);
    }
}

impl Drop for TunnelState<'_> {
    fn drop(&mut self) {
        let reason = if std::thread::panicking() { Reason::Panicked } else { Reason::Aborted };
        self.report_end("portunus", reason);
    }
}
