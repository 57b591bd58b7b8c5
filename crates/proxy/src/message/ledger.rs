//! What becomes of one request, noted as it happens and reported at its end.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use config::{LogField, PolicyConfig, RouteConfig};
use reason::{Reason, Side};
use telemetry::{AddedFields, Ended, RequestRecord, Trace, WouldReject};
use wire::http::RequestHead;

use crate::auth::Subject;
use crate::connection::Conn;
use crate::geoip::Located;
use crate::message::contract_note::ContractNote;
use crate::message::dry_run::DryRun;
use crate::message::host_label::{MAX_LABEL_BYTES, host_label};
use crate::message::rejection::Rejection;
use crate::message::scratch::Parts;
use crate::policies::{Permits, Throttles};
use crate::route::{Arrival, Noted, Params, Sought, Values};
use crate::upstream::{Group, Server};
use crate::worker::Worker;

/// Notes on one request.
#[derive(Debug)]
pub struct Ledger {
    started: SystemTime,
    started_at: Instant,
    /// The id sent upstream.
    pub request_id: [u8; 32],
    /// The client that trusted proxies name; else it is the connection's.
    pub client: Option<IpAddr>,
    /// Who that is, is not certain.
    pub is_doubtful: bool,
    /// An id that a trusted peer gave.
    pub given_id: Option<Box<[u8]>>,
    /// The route taken.
    pub route: Option<Arc<RouteConfig>>,
    /// The group chosen.
    pub group: Option<Arc<Group>>,
    /// The server tried last.
    pub server: Option<Arc<Server>>,
    /// Status sent; 0 if none.
    pub status: u16,
    /// Status the upstream gave.
    pub upstream_status: Option<u16>,
    /// Body bytes from the client.
    pub received: Cell<u64>,
    /// Body bytes to the client.
    pub sent: Cell<u64>,
    /// Until the upstream's head.
    pub upstream_duration: Option<Duration>,
    /// Time in the group's queue.
    pub queued: Option<Duration>,
    /// Who the request was verified to come from.
    pub subject: Subject,
    /// What became of the client's sticky session.
    pub session: Option<&'static str>,
    /// Whether the client's own port was kept; none unless it went onward under its address.
    pub port_kept: Option<bool>,
    /// Further tries.
    pub retries: u32,
    /// Servers asked beside one that had not responded yet.
    pub hedges: u32,
    /// The response is of one of those.
    pub hedge_won: bool,
    /// The upstream that it is copied to.
    pub mirror: Option<Arc<Group>>,
    /// The error pages that the response is of.
    pub error_pages: Option<Arc<str>>,
    /// The coding that the response was given here, and the bytes of its body before that.
    pub compressed: Option<(&'static str, u64)>,
    /// The policy that did not let it pass.
    pub policy: Option<Arc<PolicyConfig>>,
    /// Policies that only log, and would not have let it pass.
    pub would_reject: Vec<WouldReject>,
    /// The limits that it counts under for as long as it lasts, its tunnel included.
    pub permits: Permits,
    /// How fast its bytes may go.
    pub throttles: Throttles,
    /// What its contract said.
    pub contract: Option<ContractNote>,
    /// What the configuration adds to its record, if it adds anything.
    added: Option<Box<Added>>,
    /// The trace that it belongs to, if there are traces.
    pub trace: Option<Box<Trace>>,
    /// What is noted of a request that goes nowhere.
    pub dry_run: Option<Box<DryRun>>,
    fault: Side,
    reason: Option<Reason>,
}

impl Ledger {
    /// Opens the notes when a request's head is complete.
    fn open() -> Ledger {
        Ledger {
            started: SystemTime::now(),
            started_at: Instant::now(),
            request_id: random_id(),
            client: None,
            is_doubtful: false,
            given_id: None,
            route: None,
            group: None,
            server: None,
            status: 0,
            upstream_status: None,
            received: Cell::new(0),
            sent: Cell::new(0),
            upstream_duration: None,
            queued: None,
            subject: Subject::default(),
            session: None,
            port_kept: None,
            retries: 0,
            hedges: 0,
            hedge_won: false,
            mirror: None,
            error_pages: None,
            compressed: None,
            policy: None,
            would_reject: Vec::new(),
            permits: Permits::default(),
            throttles: Throttles::default(),
            contract: None,
            added: None,
            trace: None,
            dry_run: None,
            fault: Side::Nobody,
            reason: None,
        }
    }

    /// Notes why it ends badly. The first word stands.
    pub fn blame(&mut self, reason: Reason) {
        self.blame_on(reason.side().of_request(), reason);
    }

    /// As [`blame`](Ledger::blame), where the table leaves open whose fault it is.
    pub fn blame_on(&mut self, side: Side, reason: Reason) {
        if self.reason.is_none() {
            self.fault = side;
            self.reason = Some(reason);
        }
    }

    /// Notes that we answer in the upstream's place.
    pub fn rejected(&mut self, rejection: &Rejection) {
        self.status = rejection.status;
        self.blame_on(rejection.fault, rejection.reason);
    }

    /// Why it ends badly, if it does.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Whether it ended badly for a reason that is not the client's: the client is there, and shall have what was sent.
    pub fn is_client_waiting(&self) -> bool {
        matches!(self.fault, Side::Upstream | Side::Proxy | Side::KeyServer)
    }

    /// The id active.
    pub fn id(&self) -> &[u8] {
        self.given_id.as_deref().unwrap_or(&self.request_id)
    }

    /// Has fields added to its record. `is_secure`: its client speaks TLS, to us or to a trusted proxy.
    pub fn add_fields(&mut self, fields: &Arc<[LogField]>, is_secure: bool) {
        if !fields.is_empty() {
            self.added = Some(Box::new(Added { fields: Arc::clone(fields), params: Params::default(), is_secure }));
        }
    }

    /// Notes the route that is taken, and with it which fields are added.
    pub fn takes(&mut self, route: &Arc<RouteConfig>, params: &Params, is_secure: impl FnOnce() -> bool) {
        if !route.log_fields.is_empty() {
            let fields = Arc::clone(&route.log_fields);
            let is_secure = self.added.as_ref().map_or_else(is_secure, |added| added.is_secure);
            self.added = Some(Box::new(Added { fields, params: *params, is_secure }));
        }
        self.route = Some(Arc::clone(route));
    }

    /// Notes that it is about to be sent to a server. Whether its trace records that.
    pub fn begin_try(&mut self, server: &Server) -> bool {
        self.trace.as_mut().is_some_and(|trace| trace.begin_try(&server.name))
    }

    /// Notes that its try at a server ended, and that it goes on.
    pub fn end_try(&mut self, server: &Server, ended: Ended) {
        if let Some(trace) = &mut self.trace {
            trace.end_try(&server.name, ended);
        }
    }

    /// What is noted beside the head.
    pub fn noted(&self) -> Noted<'_> {
        Noted { request_id: self.id(), subject: &self.subject, trace: self.trace.as_deref() }
    }

    /// Closes the notes: one record.
    fn close(&self, head: &RequestHead, conn: &Conn, worker: &Worker) {
        let client = self.client.or(conn.client.map(|client| client.ip().to_canonical()));
        let tls = conn.tls.as_ref().map(|tls| &tls.info);
        let generation = self.added.is_some().then(|| worker.pin());
        let added = self.added.as_deref().zip(generation.as_ref()).map(|(added, generation)| {
            let address = client.filter(|_| !self.is_doubtful);
            let located = Located { geoip: &generation.geoip, address };
            // No condition is asked of it.
            let arrival = Arrival::default();
            let sought = Sought { head, client, tls, subject: Some(&self.subject), located, arrival };
            let Added { fields, params, is_secure } = added;
            AddedValues { fields, values: Values { sought, params, request_id: self.id(), is_secure: *is_secure } }
        });
        self.throttles.report(&worker.report);
        let mut room = [0; MAX_LABEL_BYTES];
        let host_pattern = self.route.as_ref().and_then(|route| host_label(&route.hosts, &head.authority, &mut room));
        worker.report.request(&RequestRecord {
            started: self.started,
            listener: &conn.listener.name,
            client,
            peer: conn.client,
            reported: conn.reported.as_deref(),
            tls,
            method: head.method.as_str(),
            version: head.version.as_str(),
            host: &head.authority,
            host_pattern,
            target: &head.target,
            user_agent: head.fields.get("user-agent").unwrap_or_default(),
            request_id: self.id(),
            route: self.route.as_ref().map(|route| route.name.as_str()),
            upstream: self.group.as_ref().map(|group| group.config.name.as_str()),
            server: self.server.as_ref().map(|server| &*server.name),
            status: self.status,
            upstream_status: self.upstream_status,
            bytes_received: self.received.get(),
            bytes_sent: self.sent.get(),
            duration: self.started_at.elapsed(),
            upstream_duration: self.upstream_duration,
            queued: self.queued,
            throttled: self.throttles.waited(),
            user: self.subject.user(),
            session: self.session,
            port_kept: self.port_kept,
            retries: self.retries,
            hedges: self.hedges,
            hedge_won: self.hedge_won,
            mirror: self.mirror.as_ref().map(|group| group.config.name.as_str()),
            error_pages: self.error_pages.as_deref(),
            compressed: self.compressed,
            fault: self.fault,
            reason: self.reason,
            policy: self.policy.as_ref().map(|policy| policy.name.as_str()),
            would_reject: &self.would_reject,
            contract: self.contract.as_ref().map(ContractNote::record),
            added: added.as_ref().map(|added| added as &dyn AddedFields),
            trace: self.trace.as_deref(),
        });
    }
}

/// What the configuration adds to a record.
#[derive(Debug)]
struct Added {
    fields: Arc<[LogField]>,
    /// The parameters of the path on its route.
    params: Params,
    /// The client speaks TLS, to us or to a trusted proxy.
    is_secure: bool,
}

/// The same with the request that it is made of.
#[derive(Debug)]
struct AddedValues<'a> {
    fields: &'a [LogField],
    values: Values<'a>,
}

impl AddedFields for AddedValues<'_> {
    fn each(&self, put: &mut dyn FnMut(&str, &[u8])) {
        let mut value = transport::buffer();
        for field in self.fields {
            value.clear();
            // A log takes any bytes; what has no value leaves nothing.
            let _ = self.values.render(&field.value, &mut value);
            put(&field.name, &value);
        }
        transport::recycle(value);
    }
}

/// A request under way, with all that its record needs. However it ends, it leaves exactly one record: also when its task is
/// dropped because the grace time of a drain is over, or unwinds.
pub struct OpenRequest<'a> {
    /// Heads and timers.
    pub parts: &'a mut Parts,
    /// Notes.
    pub ledger: Ledger,
    conn: &'a Conn,
    worker: &'a Worker,
    ended: bool,
}

impl<'a> OpenRequest<'a> {
    /// Opens the notes on a request that is read into `parts`.
    pub fn new(parts: &'a mut Parts, conn: &'a Conn, worker: &'a Worker) -> OpenRequest<'a> {
        OpenRequest { parts, ledger: Ledger::open(), conn, worker, ended: false }
    }

    /// The request came to its end, good or bad: one record.
    pub fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let reason = if std::thread::panicking() { Reason::Panicked } else { Reason::Aborted };
            self.ledger.blame(reason);
        }
        self.ledger.close(&self.parts.request, self.conn, self.worker);
    }
}

/// 128 random bits in hexadecimal. For telling requests apart, not for secrets.
fn random_id() -> [u8; 32] {
    let mut id = [0; 32];
    for digits in id.as_chunks_mut::<8>().0 {
        *digits = hexadecimal(fastrand::u32(..));
    }
    id
}

/// 32 bits as digits, the lowest first: four bits are put into each byte, and all eight become digits at once.
fn hexadecimal(bits: u32) -> [u8; 8] {
    const ONES: u64 = u64::MAX / 255;
    let bits = u64::from(bits);
    let bits = (bits | (bits << 16)) & 0x0000_ffff_0000_ffff;
    let bits = (bits | (bits << 8)) & 0x00ff_00ff_00ff_00ff;
    let bits = (bits | (bits << 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = ((bits + ONES * 6) >> 4) & ONES;
    (bits + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_become_digits() {
        for bits in [0, 1, 0x0123_4567, 0x89ab_cdef, 0xffff_ffff, 0x9a9a_0f0f, 0xdead_beef] {
            let expected: String = format!("{bits:08x}").chars().rev().collect();
            assert_eq!(hexadecimal(bits), expected.as_bytes(), "{bits:08x}");
        }
    }
}
