//! One worker's end of reporting: its counters, its client table, and the buffer its log lines gather in.
//!
//! A `WorkerReport` belongs to one thread. It is the only writer of its counters; readers sum those of all workers. The worker calls
//! [`WorkerReport::flush`] a few times a second, so that lines and client totals are seen while little happens.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reason::{Reason, Side};

use super::clients::{ClientTable, Published};
use super::count::{Count, Durations, Family, OTHER, StatusCounts};
use super::exemplars::Exemplars;
use super::form::{RulesSwitch, SeenRules};
use super::key_cells::{KeyGroupCells, KeyServerCells};
use super::line::{self, Clock};
use super::once_per_second::OncePerSecond;
use super::queue::{Chunk, Queue};
use super::recent_errors::{self, NotedErrors, RecentError};
use super::record::{ConnRecord, FlowRecord, RequestRecord, TunnelRecord, code_of};
use super::redact::Redacted;
use super::rules::Rules;
use super::shadow::{self, ShadowKind, ShadowTable};
use super::span;
use super::trace::Trace;

/// Lines are handed to the writer when they reach this many bytes.
const HAND_OVER_BYTES: usize = 32 * 1024;

/// Lines that the writer does not take are kept up to this many bytes; then further ones are dropped and counted.
const KEEP_BYTES: usize = 128 * 1024;

/// What one listener counts.
#[derive(Debug, Default)]
pub(super) struct ListenerCells {
    pub(super) opened: Count,
    pub(super) closed: Count,
    pub(super) received: Count,
    pub(super) sent: Count,
    pub(super) datagrams_received: Count,
    pub(super) datagrams_sent: Count,
    pub(super) datagrams_lost: Count,
    pub(super) datagrams_passed: Count,
    pub(super) full_handshakes: Durations,
    pub(super) resumed_handshakes: Durations,
    pub(super) ech_handshakes: Count,
}

/// What the tunnels of one name to one server count.
#[derive(Debug, Default)]
pub(super) struct TunnelCells {
    pub(super) ended: Count,
    pub(super) retries: Count,
    pub(super) received: Count,
    pub(super) sent: Count,
    pub(super) connects: Durations,
    pub(super) lives: Durations,
}

/// What one server of an upstream group counts.
#[derive(Debug, Default)]
pub(super) struct UpstreamCells {
    pub(super) requests: Count,
    pub(super) failures: Count,
    pub(super) retries: Count,
    /// Requests that it got beside another server.
    pub(super) hedges: Count,
    /// Those of them whose response it was.
    pub(super) hedges_won: Count,
    /// Those that the budget had no room for; of the group.
    pub(super) hedges_over_budget: Count,
    /// Retries that it had no room for; of the group.
    pub(super) retries_over_budget: Count,
    pub(super) durations: Durations,
    /// The server's responses.
    pub(super) responses: StatusCounts,
    /// Time in the group's queue.
    pub(super) queued: Durations,
    /// Requests that there was no room for.
    pub(super) overflows: Count,
    /// UDP flows that began at the server or went on there.
    pub(super) flows: Count,
    /// Times that the network said of their datagrams that they cannot be delivered.
    pub(super) undelivered: Count,
}

/// What was compressed with one coding.
#[derive(Debug, Default)]
pub(super) struct CompressionCells {
    pub(super) responses: Count,
    /// Bytes of their bodies before and after.
    pub(super) before: Count,
    pub(super) after: Count,
}

/// The counters of one worker, as readers see them. The capacities bound what `/metrics` can grow to.
#[derive(Debug)]
pub(super) struct WorkerShared {
    /// By listener.
    pub(super) listeners: Family<1, ListenerCells>,
    /// By listener, route, method, code.
    pub(super) requests: Family<4, Count>,
    /// How long requests took, by listener, route.
    pub(super) routes: Family<2, Durations>,
    /// The same, traces of single requests.
    pub(super) exemplars: Exemplars,
    /// Requests by the pattern of their host, class of the status.
    pub(super) hosts: Family<2, Count>,
    /// By upstream, server.
    pub(super) upstreams: Family<2, UpstreamCells>,
    /// By listener, server name, upstream, server.
    pub(super) tunnels: Family<4, TunnelCells>,
    /// By listener, version, cipher, key type, resumed.
    pub(super) handshakes: Family<5, Count>,
    /// Connections that never became a request, by listener, phase, reason.
    pub(super) failures: Family<3, Count>,
    /// By side, reason.
    pub(super) faults: Family<2, Count>,
    /// Tries at key servers, by group, server, outcome.
    pub(super) key_operations: Family<3, Count>,
    /// By group, server.
    pub(super) key_servers: Family<2, KeyServerCells>,
    /// By group of key servers.
    pub(super) key_groups: Family<1, KeyGroupCells>,
    /// By contract, operation, decision, reason.
    pub(super) decisions: Family<4, Count>,
    /// By policy, decision, reason.
    pub(super) policies: Family<3, Count>,
    /// How long requests waited for somebody to say who sends them, by method, who was asked, outcome.
    pub(super) authentication: Family<3, Durations>,
    /// Requests of sticky upstreams, by upstream, what became of the session.
    pub(super) sessions: Family<2, Count>,
    /// Requests, connections and flows that a policy let pass, by policy.
    pub(super) policy_passes: Family<1, Count>,
    /// By content coding.
    pub(super) compression: Family<1, CompressionCells>,
    /// By set of error pages, status.
    pub(super) error_pages: Family<2, Count>,
    pub(super) shadows: shadow::Published,
    pub(super) errors: recent_errors::Published,
    pub(super) lines_dropped: Count,
    pub(super) spans_dropped: Count,
    pub(super) clients: Published,
    index: usize,
    in_use: AtomicBool,
}

impl WorkerShared {
    pub(super) fn new(index: usize) -> WorkerShared {
        WorkerShared {
            listeners: Family::new(256),
            requests: Family::new(4096),
            routes: Family::new(1024),
            exemplars: Exemplars::new(1024),
            hosts: Family::new(4096),
            upstreams: Family::new(1024),
            tunnels: Family::new(1024),
            handshakes: Family::new(512),
            failures: Family::new(1024),
            faults: Family::new(512),
            key_operations: Family::new(1024),
            key_servers: Family::new(256),
            key_groups: Family::new(64),
            decisions: Family::new(4096),
            policies: Family::new(1024),
            authentication: Family::new(256),
            sessions: Family::new(512),
            policy_passes: Family::new(1024),
            compression: Family::new(4),
            error_pages: Family::new(256),
            shadows: shadow::Published::default(),
            errors: recent_errors::Published::default(),
            lines_dropped: Count::default(),
            spans_dropped: Count::default(),
            clients: Published::default(),
            index,
            in_use: AtomicBool::new(false),
        }
    }

    /// Takes these counters for the worker `index`, if they are its own and no thread writes them.
    pub(super) fn adopt(&self, index: usize) -> bool {
        if self.index != index || self.in_use.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Connections that a worker had open when it died will never be reported closed.
        for slot in self.listeners.slots() {
            slot.cells.closed.set(slot.cells.opened.get());
        }
        // Its connections to key servers are gone, too.
        for slot in self.key_servers.slots() {
            slot.cells.connections.set(0);
            slot.cells.usable.set(0);
        }
        for slot in self.key_groups.slots() {
            slot.cells.in_flight.set(0);
        }
        true
    }

    /// How often a label set did not fit, by family.
    pub(super) fn overflows(&self) -> [(&'static str, u64); 19] {
        [
            ("listeners", self.listeners.overflow()),
            ("requests", self.requests.overflow()),
            ("routes", self.routes.overflow()),
            ("hosts", self.hosts.overflow()),
            ("upstreams", self.upstreams.overflow()),
            ("tunnels", self.tunnels.overflow()),
            ("handshakes", self.handshakes.overflow()),
            ("failures", self.failures.overflow()),
            ("faults", self.faults.overflow()),
            ("key_operations", self.key_operations.overflow()),
            ("key_servers", self.key_servers.overflow()),
            ("key_groups", self.key_groups.overflow()),
            ("decisions", self.decisions.overflow()),
            ("policies", self.policies.overflow()),
            ("authentication", self.authentication.overflow()),
            ("sessions", self.sessions.overflow()),
            ("policy_passes", self.policy_passes.overflow()),
            ("compression", self.compression.overflow()),
            ("error_pages", self.error_pages.overflow()),
        ]
    }
}

/// The access log as a worker sees it.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) queue: Arc<Queue>,
    pub(super) rules: Arc<RulesSwitch>,
    /// Shared by all workers.
    pub(super) complaint: Arc<OncePerSecond>,
}

/// Lines on their way to the queue.
#[derive(Debug)]
struct LineBuffer {
    log: Log,
    chunk: Chunk,
    /// Length of the whole lines in `chunk`. Beyond it may stand what a panic left of a line.
    whole: usize,
    clock: Clock,
    rules: SeenRules,
    /// Lines dropped when that was last told.
    reported: u64,
}

impl LineBuffer {
    fn append(&mut self, dropped: &Count, write: impl FnOnce(&mut Vec<u8>, &mut Clock, &Rules)) {
        if self.log.rules.look(&mut self.rules) {
            // What was written by other rules may be for another place.
            self.end(dropped);
        }
        if self.rules.get().is_none() {
            return;
        }
        self.chunk.bytes.truncate(self.whole);
        if self.whole >= KEEP_BYTES && !self.hand_over() {
            dropped.add(1);
            return;
        }
        let Some(rules) = self.rules.get() else { return };
        self.chunk.place = rules.place;
        write(&mut self.chunk.bytes, &mut self.clock, rules);
        // Some forms leave some lines out.
        if self.chunk.bytes.len() == self.whole {
            return;
        }
        self.whole = self.chunk.bytes.len();
        self.chunk.lines += 1;
        if self.whole >= HAND_OVER_BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) -> bool {
        let taken = self.log.queue.offer(&mut self.chunk);
        self.whole = self.chunk.bytes.len();
        taken
    }

    fn flush(&mut self, dropped: &Count) {
        self.chunk.bytes.truncate(self.whole);
        if self.chunk.lines > 0 {
            self.hand_over();
        }
        let dropped = dropped.get();
        if dropped > self.reported
            && let Some(suppressed) = self.log.complaint.allow()
        {
            let lines = dropped - self.reported;
            self.reported = dropped;
            tracing::error!(
                lines,
                suppressed,
                "log: access-log lines dropped; the log is not read or written fast enough"
            );
        }
    }

    /// The last flush of these rules: what the queue does not take now is lost.
    fn end(&mut self, dropped: &Count) {
        self.chunk.bytes.truncate(self.whole);
        if self.chunk.lines > 0 && !self.log.queue.hand_over(&mut self.chunk) {
            dropped.add(self.chunk.lines);
            self.chunk.bytes.clear();
            self.chunk.lines = 0;
        }
        self.whole = self.chunk.bytes.len();
    }
}

/// One worker's end of reporting. Not shared between threads; never blocks and takes no lock it could wait for.
#[derive(Debug)]
pub struct WorkerReport {
    shared: Arc<WorkerShared>,
    clients: RefCell<ClientTable>,
    shadows: RefCell<ShadowTable>,
    errors: RefCell<NotedErrors>,
    lines: RefCell<LineBuffer>,
    spans: RefCell<SpanBuffer>,
}

/// Spans on their way to the queue.
#[derive(Debug)]
struct SpanBuffer {
    queue: Arc<Queue>,
    chunk: Chunk,
}

impl SpanBuffer {
    fn append(&mut self, dropped: &Count, write: impl FnOnce(&mut Vec<u8>) -> u64) {
        let before = self.chunk.bytes.len();
        if before >= KEEP_BYTES && !self.queue.offer(&mut self.chunk) {
            dropped.add(1);
            return;
        }
        let spans = write(&mut self.chunk.bytes);
        self.chunk.lines += spans;
        if self.chunk.bytes.len() >= HAND_OVER_BYTES {
            self.queue.offer(&mut self.chunk);
        }
    }

    fn flush(&mut self) {
        if self.chunk.lines > 0 {
            self.queue.offer(&mut self.chunk);
        }
    }

    /// The last flush: what the queue does not take now is lost.
    fn end(&mut self, dropped: &Count) {
        if self.chunk.lines > 0 && !self.queue.hand_over(&mut self.chunk) {
            dropped.add(self.chunk.lines);
        }
    }
}

impl WorkerReport {
    /// Its counters.
    pub(super) fn shared(&self) -> &Arc<WorkerShared> {
        &self.shared
    }

    pub(super) fn new(shared: Arc<WorkerShared>, log: Log, spans: Arc<Queue>) -> WorkerReport {
        let reported = shared.lines_dropped.get();
        let lines = LineBuffer {
            log,
            chunk: Chunk::default(),
            whole: 0,
            clock: Clock::default(),
            rules: SeenRules::default(),
            reported,
        };
        WorkerReport {
            shared,
            clients: RefCell::new(ClientTable::new()),
            shadows: RefCell::default(),
            errors: RefCell::default(),
            lines: RefCell::new(lines),
            spans: RefCell::new(SpanBuffer { queue: spans, chunk: Chunk::default() }),
        }
    }

    /// A connection was accepted.
    pub fn connection_opened(&self, listener: &str) {
        self.shared.listeners.at([listener]).opened.add(1);
    }

    /// Bytes moved on a connection that goes on. A long-lived connection tells them now and then, so that they are seen before it ends;
    /// what was reported here is left out of `connection_closed`.
    pub fn bytes_moved(&self, listener: &str, client: Option<SocketAddr>, bytes_received: u64, bytes_sent: u64) {
        let cells = self.shared.listeners.at([listener]);
        cells.received.add(bytes_received);
        cells.sent.add(bytes_sent);
        if let Some(client) = client {
            self.clients.borrow_mut().bytes(client.ip(), bytes_received, bytes_sent);
        }
    }

    /// A connection ended, whatever became of it. `bytes_received`/`bytes_sent` count all its bytes as seen on the socket, less those told
    /// by `bytes_moved`.
    pub fn connection_closed(&self, listener: &str, client: Option<SocketAddr>, bytes_received: u64, bytes_sent: u64) {
        self.shared.listeners.at([listener]).closed.add(1);
        self.bytes_moved(listener, client, bytes_received, bytes_sent);
        if let Some(client) = client {
            self.clients.borrow_mut().connection(client.ip());
        }
    }

    /// A connection that never became a request ended: one log line.
    pub fn connection_failed(&self, record: &ConnRecord<'_>) {
        self.shared.failures.at([record.listener, record.phase, record.reason.code()]).add(1);
        self.fault(record.fault, Some(record.reason));
        self.note_error(record.fault, || RecentError::of_connection(record));
        self.line(|out, clock, rules| line::connection(out, clock, rules, record));
    }

    /// Datagrams came to a listener, with this many bytes in all.
    pub fn datagrams_received(&self, listener: &str, datagrams: usize, bytes: usize) {
        let cells = self.shared.listeners.at([listener]);
        cells.datagrams_received.add(datagrams as u64);
        cells.received.add(bytes as u64);
    }

    /// Datagrams left a listener, with this many bytes in all.
    pub fn datagrams_sent(&self, listener: &str, datagrams: usize, bytes: usize) {
        let cells = self.shared.listeners.at([listener]);
        cells.datagrams_sent.add(datagrams as u64);
        cells.sent.add(bytes as u64);
    }

    /// Datagrams were not taken by the kernel, on either side.
    pub fn datagrams_lost(&self, listener: &str, datagrams: usize) {
        if datagrams > 0 {
            self.shared.listeners.at([listener]).datagrams_lost.add(datagrams as u64);
        }
    }

    /// Workers passed datagrams of HTTP/3 to each other.
    pub fn datagrams_passed(&self, listener: &str, datagrams: u64) {
        self.shared.listeners.at([listener]).datagrams_passed.add(datagrams);
    }

    /// A datagram was not let in. No log line: whoever floods would write them.
    pub fn datagram_refused(&self, listener: &str, reason: Reason) {
        self.shared.failures.at([listener, "datagram", reason.code()]).add(1);
    }

    /// A UDP flow has begun at a server, or goes on there.
    pub fn flow_at(&self, upstream: &str, server: &str) {
        self.shared.upstreams.at([upstream, server]).flows.add(1);
    }

    /// The network says that datagrams of a flow cannot be delivered to a server.
    pub fn datagram_undelivered(&self, upstream: &str, server: &str) {
        self.shared.upstreams.at([upstream, server]).undelivered.add(1);
    }

    /// A UDP flow ended: one log line, its client's totals. It was opened by `connection_opened`; its bytes are the listener's already.
    pub fn flow_closed(&self, record: &FlowRecord<'_>) {
        self.shared.listeners.at([record.listener]).closed.add(1);
        {
            let mut clients = self.clients.borrow_mut();
            clients.bytes(record.client.ip(), record.bytes_received, record.bytes_sent);
            clients.connection(record.client.ip());
        }
        self.line(|out, clock, rules| line::flow(out, clock, rules, record));
    }

    /// A handshake ended well.
    pub fn handshake(&self, listener: &str, info: &tls::Info, duration: Duration) {
        let cells = self.shared.listeners.at([listener]);
        if info.resumed {
            cells.resumed_handshakes.observe(duration);
        } else {
            cells.full_handshakes.observe(duration);
        }
        if info.ech {
            cells.ech_handshakes.add(1);
        }
        let resumed = if info.resumed { "true" } else { "false" };
        let labels =
            [listener, line::version_name(info.version), info.cipher, line::key_type_name(info.key_type), resumed];
        self.shared.handshakes.at(labels).add(1);
    }

    /// A request ended: one log line, its metrics.
    pub fn request(&self, record: &RequestRecord<'_>) {
        let shared = &*self.shared;
        let mut digits = [0; 3];
        let code = code_name(record.status, &mut digits);
        let route = record.route.unwrap_or("");
        shared.routes.at([record.listener, route]).observe(record.duration);
        if let Some(host) = record.host_pattern {
            shared.hosts.at([host, class_name(record.status)]).add(1);
        }
        shared.requests.at([record.listener, route, method_name(record.method), code]).add(1);
        if let Some(upstream) = record.upstream {
            let cells = shared.upstreams.at([upstream, record.server.unwrap_or("")]);
            if let Some(status) = record.upstream_status {
                cells.responses.add(status);
            }
            cells.requests.add(1);
            cells.retries.add(u64::from(record.retries));
            cells.hedges_won.add(u64::from(record.hedge_won));
            cells.failures.add(u64::from(record.fault == Side::Upstream));
            if let Some(duration) = record.upstream_duration {
                cells.durations.observe(duration);
            }
            if let Some(queued) = record.queued {
                cells.queued.observe(queued);
            }
            if let Some(session) = record.session {
                shared.sessions.at([upstream, session]).add(1);
            }
            let is_overflow = matches!(record.reason, Some(Reason::UpstreamOverflow | Reason::UpstreamQueueTimeout));
            cells.overflows.add(u64::from(is_overflow));
        }
        self.fault(record.fault, record.reason);
        if let Some((encoding, bytes)) = record.compressed {
            let cells = shared.compression.at([encoding]);
            cells.responses.add(1);
            cells.before.add(bytes);
            cells.after.add(record.bytes_sent);
        }
        if let Some(pages) = record.error_pages {
            shared.error_pages.at([pages, code]).add(1);
        }
        if let Some(contract) = &record.contract {
            let labels = [contract.contract, contract.operation, contract.decision.as_str(), code_of(contract.reason)];
            shared.decisions.at(labels).add(1);
        }
        if let Some(client) = record.client {
            let mut clients = self.clients.borrow_mut();
            clients.request(client);
            // Bytes of a connection count for its peer when it closes, but a trusted proxy's for the clients it names.
            if record.is_forwarded() {
                clients.bytes(client, record.bytes_received, record.bytes_sent);
            }
        }
        let fault = RecentError::fault_of(record);
        self.note_error(fault, || self.redacting(|redacted| RecentError::of_request(record, fault, redacted)));
        self.line(|out, clock, rules| line::request(out, clock, rules, record));
        if let Some(trace) = record.trace.filter(|trace| trace.is_sampled()) {
            self.trace(record, trace);
        }
    }

    /// The spans of a request that ended.
    fn trace(&self, record: &RequestRecord<'_>, trace: &Trace) {
        let cells = self.shared.exemplars.at([record.listener, record.route.unwrap_or_default()]);
        cells.note(trace.trace_id, record.started, record.duration);
        self.redacting(|redacted| {
            let write = |out: &mut Vec<u8>| span::write(out, record, trace, redacted);
            self.spans.borrow_mut().append(&self.shared.spans_dropped, write);
        });
    }

    /// Writes with what is redacted: as the access log has it, or what is known to hold secrets where there is none.
    fn redacting<T>(&self, write: impl FnOnce(&Redacted) -> T) -> T {
        let lines = self.lines.borrow();
        write(lines.rules.get().map_or(Redacted::well_known(), |rules| &rules.redacted))
    }

    /// Notes what failed, for people who look at it.
    fn note_error(&self, fault: Side, make: impl FnOnce() -> RecentError) {
        if fault != Side::Nobody {
            self.errors.borrow_mut().note(fault, make);
        }
    }

    /// A server responded with a status for which another server has the request next.
    pub fn response_retried(&self, upstream: &str, server: &str, status: u16) {
        let cells = self.shared.upstreams.at([upstream, server]);
        cells.responses.add(status);
        cells.failures.add(1);
    }

    /// A server was asked beside another one; none where the budget had no room for that.
    pub fn hedged(&self, upstream: &str, server: Option<&str>) {
        let cells = self.shared.upstreams.at([upstream, server.unwrap_or("")]);
        if server.is_some() { cells.hedges.add(1) } else { cells.hedges_over_budget.add(1) }
    }

    /// A request was not tried again because the budget of its upstream had no room for that.
    pub fn retry_over_budget(&self, upstream: &str) {
        self.shared.upstreams.at([upstream, ""]).retries_over_budget.add(1);
    }

    /// Somebody was asked who sends a request, by this method: what came of it, and how long that took.
    pub fn authentication(&self, method: &'static str, asked: &str, outcome: &'static str, duration: Duration) {
        self.shared.authentication.at([method, asked, outcome]).observe(duration);
    }

    /// A policy would not let a request pass: it was `rejected`, or only `logged`.
    pub fn policy(&self, name: &str, decision: &'static str, reason: Reason) {
        self.shared.policies.at([name, decision, reason.code()]).add(1);
    }

    /// A policy was asked and let it pass.
    pub fn policy_passed(&self, name: &str) {
        self.shared.policy_passes.at([name]).add(1);
    }

    /// Something passed or was asked for that stands in no document.
    pub fn shadow(&self, contract: &Arc<str>, kind: ShadowKind, operation: &str, name: &str) {
        self.shadows.borrow_mut().add(contract, kind, operation, name);
    }

    /// Bytes that a tunnel carried since this was last said. Labels: listener, server name (one that is known), upstream, server.
    pub fn tunnel_moved(&self, labels: [&str; 4], from_client: u64, to_client: u64) {
        let cells = self.shared.tunnels.at(labels);
        cells.received.add(from_client);
        cells.sent.add(to_client);
    }

    /// A tunnel ended: one log line, its metrics; its bytes were reported by `tunnel_moved`.
    pub fn tunnel(&self, labels: [&str; 4], record: &TunnelRecord<'_>) {
        let cells = self.shared.tunnels.at(labels);
        cells.ended.add(1);
        cells.retries.add(u64::from(record.retries));
        cells.lives.observe(record.duration);
        if let Some(duration) = record.connect_duration {
            cells.connects.observe(duration);
        }
        self.fault(record.fault, record.reason);
        self.note_error(record.fault, || RecentError::of_tunnel(record));
        if let Some(client) = record.client {
            self.clients.borrow_mut().tunnel(client.ip(), record.duration);
        }
        self.line(|out, clock, rules| line::tunnel(out, clock, rules, record));
    }

    /// Hands gathered lines to the writer and shows the client table. For the worker's tick, every 200 ms or less; never waits.
    pub fn flush(&self) {
        self.clients.borrow_mut().publish(&self.shared.clients, Instant::now());
        self.shadows.borrow_mut().publish(&self.shared.shadows);
        self.errors.borrow_mut().publish(&self.shared.errors);
        self.lines.borrow_mut().flush(&self.shared.lines_dropped);
        self.spans.borrow_mut().flush();
    }

    fn fault(&self, side: Side, reason: Option<Reason>) {
        if side != Side::Nobody {
            self.shared.faults.at([side.word(), code_of(reason)]).add(1);
        }
    }

    fn line(&self, write: impl FnOnce(&mut Vec<u8>, &mut Clock, &Rules)) {
        self.lines.borrow_mut().append(&self.shared.lines_dropped, write);
    }
}

impl Drop for WorkerReport {
    fn drop(&mut self) {
        self.errors.get_mut().publish(&self.shared.errors);
        self.lines.get_mut().end(&self.shared.lines_dropped);
        self.spans.get_mut().end(&self.shared.spans_dropped);
        self.shared.in_use.store(false, Ordering::Release);
    }
}

/// The method as a label: clients may invent methods, labels may not grow with them.
fn method_name(method: &str) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"];
    KNOWN.into_iter().find(|known| *known == method).unwrap_or(OTHER)
}

/// The status as a label; `none` where nothing was answered.
fn code_name(status: u16, digits: &mut [u8; 3]) -> &str {
    match status {
        0 => "none",
        100..=599 => {
            *digits = [100, 10, 1].map(|place| b'0' + (status / place % 10) as u8);
            std::str::from_utf8(digits).unwrap_or(OTHER)
        }
        _ => OTHER,
    }
}

/// The class of a status as a label.
fn class_name(status: u16) -> &'static str {
    match status {
        0 => "none",
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500..600 => "5xx",
        _ => OTHER,
    }
}
