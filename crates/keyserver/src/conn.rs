//! The life of one connection: handshake, frames in, answers out, end.
//!
//! ```text
//!        ┌→ wait ─┬ bytes ──→ frames: answered, signed here, or queued ─┐
//!        │        ├ answers → one write                                 │
//!        └────────┴─────────────────────────────────────────────────────┘
//! ```
//!
//! While as many requests are outstanding as a connection may have, or its responses are not taken, nothing is read from it: a peer that asks
//! without listening waits for itself. Of one that does not speak the extension and asks for more than that at its own pace, the oldest
//! requests are dropped and it is read on (`overload.rs`). What had arrived when a drain begins is still read and answered. A malformed frame ends the connection, as nothing behind it can be read.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use config::KeyServerListener;
use net::{Chunk, Deadline, Stream};
use reason::Reason;
use telemetry::{KeyOperation, KeyOutcome, KeyReport};
use tls::Session;
use tokio::sync::watch;
use transport::{Broken, NoKeys, Transport};
use wire::enrolment::ENROLMENT_ALPN;
use wire::keyless::{
    Dialect, EXTENSION_ALPN, ErrorCode, Frame, FrameError, KeyFamily, MAKE_KEY_NAME, Operation, opcode,
};

use super::access::Peer;
use super::backlog::{Class, Full};
use super::crypto_thread::{Work, drop_job, microseconds};
use super::enrolment::{self, Caller};
use super::holdings::{Granted, Holdings, View};
use super::link::Link;
use super::maker;
use super::policy::{Decision, check};
use super::queue::{Job, Payload};
use super::shared::{End, Place, Shared};

/// Time that one turn of a connection may spend on signing, before the rest of its requests goes to the queue.
const INLINE_BUDGET: Duration = Duration::from_micros(400);

/// Requests that one turn takes in, before its responses go out: a thousand pings fit where one padded request does.
const TURN_REQUESTS: usize = 64;

/// How long a connection that always has something to do keeps the others of its thread waiting.
const SLICE: Duration = Duration::from_micros(500);

/// How soon a connection whose request could not be queued tries again, at first; doubled with each time that it still cannot. Also between two turns
/// of a peer that asks for more than its rate, so that rejecting costs little.
const STALL_PAUSE: Duration = Duration::from_millis(2);

/// How often that pause is doubled.
const MOST_DOUBLINGS: u32 = 5;

/// The answer to a rate that is exceeded: try again after this.
const RATE_RETRY: Duration = Duration::from_millis(100);

/// Reads that what was received before a drain may take: as much as a connection may have outstanding.
const LAST_READS: usize = 64;

/// Serves a connection to its end. It has its place from the moment that this is called.
pub(super) fn run(
    stream: Stream,
    listener: Arc<KeyServerListener>,
    shared: Arc<Shared>,
    report: Rc<KeyReport>,
    drain: watch::Receiver<bool>,
) -> impl Future<Output = ()> {
    let place = Place::take(&shared, stream.peer());
    live(stream, listener, (shared, place), report, drain)
}

async fn live(
    stream: Stream,
    listener: Arc<KeyServerListener>,
    (shared, place): (Arc<Shared>, Place),
    report: Rc<KeyReport>,
    drain: watch::Receiver<bool>,
) {
    let address = stream.peer();
    let opened = Instant::now();
    let limit = shared.limits.handshake_timeout;
    let mut deadline = Deadline::new();
    let shaken = tokio::select! {
        biased;
        why = place.gives_way() => Ok(Err(why)),
        shaken = deadline.within(limit, open(stream, &listener, &shared)) => shaken,
    };
    let end = match shaken {
        Err(_) => End::Failed(Reason::TlsHandshakeTimeout, String::new()),
        Ok(Err((reason, detail))) => End::Failed(reason, detail),
        Ok(Ok(Opened::Keys(..))) if !place.is_known() => {
            End::Failed(Reason::TooManyConnections, "no place is free".to_owned())
        }
        Ok(Ok(Opened::Keys(transport, peer))) => {
            let info = transport.tls_info();
            let extended = info.is_some_and(|info| info.alpn.as_deref() == Some(EXTENSION_ALPN));
            tracing::debug!(peer = peer.label, ?address, extended, "connected");
            Conn::new(transport, Arc::new(Link::new(peer, extended)), shared.clone(), report).serve(drain, &place).await
        }
        Ok(Ok(Opened::Enrolment(transport, caller))) => {
            // Whoever renews is known by its certificate; if there is no place for that, it stays among the strangers.
            let _ = caller.certificate.is_some() && place.is_known();
            let served = enrolment::serve(transport, caller, &shared, &report);
            tokio::select! {
                served = deadline.within(limit, served) => {
                    served.unwrap_or(End::Failed(Reason::FrameTimeout, String::new()))
                }
                (reason, detail) = place.gives_way() => End::Failed(reason, detail),
            }
        }
    };
    if let End::Failed(reason, detail) = &end {
        shared.reporter.connection_failed(*reason);
        tracing::info!(
            ?address,
            listener = listener.name,
            reason = reason.code(),
            detail,
            seconds = opened.elapsed().as_secs(),
            "connection failed"
        );
    }
}

/// A connection whose handshake is done, and what it is for.
enum Opened {
    /// Operations with keys, for this peer.
    Keys(Transport, Peer),
    /// A client certificate.
    Enrolment(Transport, Caller),
}

impl Opened {
    /// What was agreed on by ALPN decides: whoever asks for a certificate need not have one.
    fn of(transport: Transport, address: Option<SocketAddr>, shared: &Shared) -> Result<Opened, (Reason, String)> {
        let info = transport.tls_info();
        let (alpn, certificate) = info.map(|info| (info.alpn, info.peer)).unwrap_or_default();
        if alpn.as_deref() == Some(ENROLMENT_ALPN) {
            return Ok(Opened::Enrolment(transport, Caller { certificate, address }));
        }
        let invalid = |why: &str| (Reason::ClientCertificateInvalid, why.to_owned());
        // The library has rejected before, as the rule demands a certificate.
        let certificate = certificate.ok_or_else(|| invalid("none was sent"))?;
        let holdings = shared.holdings.load();
        let peer = holdings.peer(&certificate, address);
        if holdings.is_rejected(&peer) {
            return Err(invalid("the enrolment it comes from was revoked"));
        }
        Ok(Opened::Keys(transport, peer))
    }
}

/// The handshake, if the listener has one, and who came by it.
async fn open(stream: Stream, listener: &KeyServerListener, shared: &Shared) -> Result<Opened, (Reason, String)> {
    let address = stream.peer();
    let Some(front) = shared.holdings.load().front(&listener.name) else {
        return Ok(Opened::Keys(Transport::plain(stream), Peer::unix()));
    };
    let session =
        Session::server(&shared.acceptor, front).map_err(|error| (Reason::TlsInternalError, error.to_string()))?;
    match Transport::handshake(stream, Chunk::empty(), session, &NoKeys).await {
        Ok(transport) => Opened::of(transport, address, shared),
        Err((transport, broken)) => {
            // The alert must arrive before the end does.
            transport.stream().shutdown_write();
            Err(match broken {
                Broken::Socket(error) => (Reason::TlsHandshakeAbandoned, error.to_string()),
                Broken::Tls(error @ tls::Error::PeerCertificate(_)) => {
                    (Reason::ClientCertificateInvalid, error.to_string())
                }
                broken => (Reason::TlsHandshakeFailed, broken.to_string()),
            })
        }
    }
}

struct Conn {
    transport: Transport,
    link: Arc<Link>,
    shared: Arc<Shared>,
    /// This thread's.
    report: Rc<KeyReport>,
    /// What the peer may use, and the generation that says so.
    view: Arc<View>,
    generation: Arc<Holdings>,
    dialect: Dialect,
    input: Input,
    /// Answers on their way out.
    output: Vec<u8>,
    /// No request is taken in until then.
    stalled_until: Option<Instant>,
    /// How often in a row the next request could not be queued.
    stalls: u32,
    /// Whole frames may be left in the input.
    more: bool,
    /// When it is the others' turn, if it does not come to wait before.
    slice_ends: Option<Instant>,
    /// Since when what arrives may lie unread.
    unread_since: Option<Instant>,
    /// Reads left of what had arrived when the drain began; none before that.
    last_reads: Option<usize>,
    /// When the frame began of which only a part has arrived.
    partial_since: Option<Instant>,
    /// Memory for signatures made here.
    result: Vec<u8>,
}

/// Bytes that were received and not yet used. A frame that fits no chunk is gathered in memory of its own.
struct Input {
    chunk: Chunk,
    large: Vec<u8>,
}

impl Input {
    fn bytes(&self) -> &[u8] {
        if self.large.is_empty() { &self.chunk } else { &self.large }
    }

    fn advance(&mut self, count: usize) {
        if self.large.is_empty() {
            self.chunk.advance(count);
            if self.chunk.is_empty() {
                self.chunk = Chunk::empty();
            }
        } else {
            self.large.drain(..count);
        }
    }

    /// Moves the chunk's bytes to those that are gathered.
    fn gather(&mut self) {
        self.large.extend_from_slice(&self.chunk);
        self.chunk = Chunk::empty();
    }
}

/// What a wait ended with.
enum Event {
    Received(usize),
    Responses(usize),
    /// Nothing more had arrived when the drain began.
    NoMore,
    /// There is more to take in.
    More,
}

/// What may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Nothing,
    /// What is there already.
    Rest,
    /// What is there or comes.
    All,
}

impl Conn {
    fn new(transport: Transport, link: Arc<Link>, shared: Arc<Shared>, report: Rc<KeyReport>) -> Conn {
        let generation = shared.holdings.load_full();
        Conn {
            view: generation.view_for(&link.peer),
            generation,
            dialect: if link.extended { Dialect::Extended } else { Dialect::Plain },
            input: Input { chunk: Chunk::empty(), large: Vec::new() },
            output: Vec::new(),
            stalled_until: None,
            stalls: 0,
            more: false,
            slice_ends: None,
            unread_since: None,
            last_reads: None,
            partial_since: None,
            result: Vec::new(),
            transport,
            link,
            shared,
            report,
        }
    }

    async fn serve(mut self, mut drain: watch::Receiver<bool>, place: &Place) -> End {
        let end = tokio::select! {
            biased;
            end = self.run_loop(&mut drain) => end,
            (reason, detail) = place.gives_way() => End::Failed(reason, detail),
        };
        self.link.close();
        if !matches!(end, End::Failed(..)) {
            self.transport.finish().await;
        }
        end
    }

    async fn run_loop(&mut self, drain: &mut watch::Receiver<bool>) -> End {
        let mut deadline = Deadline::new();
        loop {
            self.yield_thread().await;
            let draining = *drain.borrow_and_update();
            if draining && self.last_reads.is_none() {
                self.last_reads = Some(LAST_READS);
            }
            // Whole frames that were left over come before new bytes.
            if self.more
                && self.may_take()
                && let Err(end) = self.take_frames()
            {
                return self.flush_and_close(end).await;
            }
            if draining && self.link.in_flight() == 0 && !self.more && self.last_reads == Some(0) {
                return End::Drained;
            }
            let (reading, limit) = (self.reading(), self.patience());
            if reading == Reading::Nothing {
                self.unread_since.get_or_insert_with(Instant::now);
                self.shed_oldest();
            }
            let event = tokio::select! {
                biased;
                event = deadline.within(limit, self.wait(reading)) => event,
                _ = drain.changed() => continue,
            };
            match event {
                Ok(Ok(Event::Responses(count))) => {
                    if let Err(end) = self.send(count).await {
                        return end;
                    }
                }
                Ok(Ok(Event::Received(0))) => return self.ended(),
                Ok(Ok(Event::Received(_))) => {
                    self.last_reads = self.last_reads.map(|left| left.saturating_sub(1));
                    if !self.input.large.is_empty() {
                        self.input.gather();
                    }
                    if let Err(end) = self.take_frames() {
                        return self.flush_and_close(end).await;
                    }
                }
                Ok(Ok(Event::NoMore)) => self.last_reads = Some(0),
                Ok(Ok(Event::More)) => {}
                Ok(Err(broken)) => return End::Failed(Reason::ClientDisconnected, broken.to_string()),
                Err(_) if self.stalled_until.take().is_some() => {}
                Err(_) if self.link.in_flight() > 0 => {}
                Err(_) if self.partial_since.is_some() => return End::Failed(Reason::FrameTimeout, String::new()),
                Err(_) => return End::Idle,
            }
        }
    }

    /// Lets the thread's other connections have their turn, if this one has not waited for anything for a while: no peer gets more of the thread than
    /// another by what it sends.
    async fn yield_thread(&mut self) {
        let now = Instant::now();
        if now >= *self.slice_ends.get_or_insert(now + SLICE) {
            self.slice_ends = None;
            tokio::task::yield_now().await;
        }
    }

    /// Whether a further request may be taken.
    fn may_take(&self) -> bool {
        self.stalled_until.is_none_or(|until| Instant::now() >= until) && !self.is_full()
    }

    fn reading(&self) -> Reading {
        match self.last_reads {
            _ if self.more || self.is_full() => Reading::Nothing,
            None => Reading::All,
            Some(0) => Reading::Nothing,
            Some(_) => Reading::Rest,
        }
    }

    /// Whether nothing is read, and the peer cannot be told to stay away.
    fn is_stuck(&self) -> bool {
        let is_draining = self.last_reads.is_some();
        !self.link.extended && !is_draining && self.link.in_flight() >= self.shared.limits.max_in_flight
    }

    /// Drops the oldest requests for those that are not read yet, if the peer does not wait for responses.
    fn shed_oldest(&self) {
        // One that has just as much outstanding as it may waits for its responses.
        if self.is_stuck() && (!self.input.bytes().is_empty() || self.transport.has_unread()) {
            self.shared.scheduler.shed(&self.link).iter().for_each(|job| drop_job(&self.report, job));
        }
    }

    /// How long to wait for what comes next. A frame has its time from its first byte to its last, however many come in between; while something is
    /// outstanding it may be that we are what is slow.
    fn patience(&self) -> Duration {
        if let Some(until) = self.stalled_until {
            return until.saturating_duration_since(Instant::now());
        }
        match self.partial_since {
            _ if self.is_stuck() => self.shared.limits.target_wait / 4,
            Some(since) if self.link.in_flight() == 0 => {
                self.shared.limits.frame_timeout.saturating_sub(since.elapsed())
            }
            _ => self.shared.limits.idle_timeout,
        }
    }

    fn is_full(&self) -> bool {
        self.link.in_flight() >= self.shared.limits.max_in_flight
    }

    /// Waits for responses, or for bytes if what they ask may be taken. Loses nothing if it is dropped.
    async fn wait(&mut self, reading: Reading) -> Result<Event, Broken> {
        poll_fn(|context| {
            let count = self.link.take_responses(&mut self.output, context);
            if count > 0 {
                return Poll::Ready(Ok(Event::Responses(count)));
            }
            if self.more && self.may_take() {
                return Poll::Ready(Ok(Event::More));
            }
            if reading == Reading::Nothing {
                self.slice_ends = None;
                return Poll::Pending;
            }
            let read = self.transport.poll_recv_more(context, &mut self.input.chunk);
            if read.is_pending() {
                self.unread_since = None;
                self.slice_ends = None;
            }
            match read {
                // What the kernel holds may not have been reported yet.
                Poll::Pending if reading == Reading::Rest && !self.transport.has_unread() => {
                    Poll::Ready(Ok(Event::NoMore))
                }
                read => read.map(|read| read.map(Event::Received)),
            }
        })
        .await
    }

    /// Sends all responses that there are, in one go.
    async fn send(&mut self, count: usize) -> Result<(), End> {
        let limit = self.shared.limits.write_timeout;
        let sent = tokio::time::timeout(limit, self.transport.send(&self.output)).await;
        self.output.clear();
        match sent {
            Ok(Ok(())) => {
                self.link.finish(count);
                Ok(())
            }
            Ok(Err(broken)) => Err(End::Failed(Reason::ClientDisconnected, broken.to_string())),
            Err(_) => Err(End::Failed(Reason::ClientWriteTimeout, String::new())),
        }
    }

    /// The peer sends no more. What is outstanding is answered to nobody: keyless clients do not half-close.
    fn ended(&self) -> End {
        match self.input.bytes() {
            [] => End::Closed,
            _ => End::Failed(Reason::FrameTruncated, String::new()),
        }
    }

    /// Sends what was answered before the fault, then ends.
    async fn flush_and_close(&mut self, end: End) -> End {
        let count = poll_fn(|context| Poll::Ready(self.link.take_responses(&mut self.output, context))).await;
        if count > 0 {
            let _ = self.send(count).await;
        }
        self.transport.finish().await;
        end
    }

    /// Takes in the frames that have arrived, as far as they may be taken now.
    fn take_frames(&mut self) -> Result<(), End> {
        self.stalled_until = None;
        self.follow_reload()?;
        let mut now = Instant::now();
        // A deadline counts from when a request was sent, and it may have waited for this connection to be read again; not for long, or a peer
        // that never pauses would find all its requests too old.
        let unread = self.unread_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let sent = now - unread.min(2 * self.shared.limits.target_wait);
        let until = now + INLINE_BUDGET;
        let (mut used, mut left) = (0, TURN_REQUESTS);
        // The input is lent out while the frames that borrow from it are looked at.
        let input = std::mem::replace(&mut self.input, Input { chunk: Chunk::empty(), large: Vec::new() });
        let outcome = loop {
            if self.is_full() || left == 0 {
                break Ok(true);
            }
            left -= 1;
            match Frame::parse(input.bytes().get(used..).unwrap_or_default(), self.dialect) {
                Ok(Some((frame, length))) => {
                    if !self.take_frame(&frame, sent, until, &mut now) {
                        self.stall();
                        break Ok(true);
                    }
                    self.stalls = 0;
                    used += length;
                }
                Ok(None) => break Ok(false),
                Err(error) => break Err(self.reject_frame(error)),
            }
        };
        self.report.flush();
        self.input = input;
        self.input.advance(used);
        let is_partial = matches!(outcome, Ok(false)) && !self.input.bytes().is_empty();
        self.partial_since = is_partial.then(|| self.partial_since.filter(|_| used == 0).unwrap_or(sent));
        if matches!(outcome, Ok(false)) && self.input.chunk.is_full() {
            self.input.gather();
        }
        self.more = outcome? || self.stalled_until.is_some();
        Ok(())
    }

    fn stall(&mut self) {
        let pause = STALL_PAUSE * (1 << self.stalls.min(MOST_DOUBLINGS));
        self.stalled_until = Some(Instant::now() + pause);
        self.stalls += 1;
    }

    fn reject_frame(&self, error: FrameError) -> End {
        if let FrameError::Version { id } = error {
            self.link.begin();
            self.link.reject(id, ErrorCode::VERSION, None);
        }
        End::Failed(Reason::FrameMalformed, format!("{error:?}"))
    }

    /// After a reload, what the peer may see is looked up again.
    ///
    /// # Errors
    /// The connection ends: the certificate of the peer is not valid any more.
    fn follow_reload(&mut self) -> Result<(), End> {
        let newest = self.shared.holdings.load();
        if !Arc::ptr_eq(&newest, &self.generation) {
            self.generation = Arc::clone(&newest);
            self.view = self.generation.view_for(&self.link.peer);
        }
        let invalid = |why: &str| Err(End::Failed(Reason::ClientCertificateInvalid, why.to_owned()));
        match &self.link.peer.enrolment {
            Some(enrolment) if SystemTime::now() >= enrolment.ends => invalid("it has ended while it was connected"),
            Some(_) if self.generation.is_rejected(&self.link.peer) => {
                invalid("the enrolment it comes from was revoked while it was connected")
            }
            _ => Ok(()),
        }
    }

    /// Takes in one request. False if it must be taken in again later.
    fn take_frame(&mut self, frame: &Frame<'_>, sent: Instant, until: Instant, now: &mut Instant) -> bool {
        if frame.opcode == opcode::CANCEL && self.link.extended {
            self.link.cancel(frame.id);
            return true;
        }
        let view = Arc::clone(&self.view);
        if frame.opcode == opcode::MAKE_KEY && self.link.extended {
            return self.make_key(frame, &view);
        }
        match check(frame, &view, self.shared.mixed) {
            Ok(Decision::Pong) => {
                self.link.begin();
                self.link.respond(&Frame { opcode: opcode::PONG, ..Frame::response(frame.id, frame.payload) });
                self.report.ping();
                true
            }
            Err(code) => {
                self.link.begin();
                self.reject(frame, code);
                true
            }
            Ok(Decision::Work(operation, granted)) => {
                if view.rate.as_ref().is_some_and(|rate| !rate.allow()) {
                    return self.over_rate(frame);
                }
                let work = Work {
                    link: &self.link,
                    id: frame.id,
                    operation,
                    key: &granted.key,
                    payload: frame.payload,
                    received: *now,
                    begun: *now,
                };
                if granted.key.class != Class::Rsa && *now < until {
                    self.link.begin();
                    *now = work.perform(&self.report, &mut self.result);
                    return true;
                }
                let job = self.job(frame, &work, granted, sent);
                self.submit(job)
            }
        }
    }

    /// Has a key made, if this peer may have one: elsewhere, since it takes long. To others it is an operation that is not offered.
    fn make_key(&mut self, frame: &Frame<'_>, view: &View) -> bool {
        if view.rate.as_ref().is_some_and(|rate| !rate.allow()) {
            return self.over_rate(frame);
        }
        self.link.begin();
        let begun = match (&view.nursery, KeyFamily::from_code(frame.payload)) {
            (None, _) => Err(ErrorCode::BAD_OPCODE),
            (Some(_), None) => Err(ErrorCode::FORMAT),
            (Some(nursery), Some(family)) => {
                let order = maker::Order {
                    link: Arc::clone(&self.link),
                    id: frame.id,
                    family,
                    nursery: Arc::clone(nursery),
                    received: Instant::now(),
                };
                maker::start(order, &self.shared)
            }
        };
        match begun {
            Ok(()) => {}
            Err(ErrorCode::BUSY) => {
                self.link.reject(frame.id, ErrorCode::BUSY, Some(microseconds(maker::RETRY)));
                self.report_rejection(frame, ErrorCode::BUSY);
            }
            Err(code) => self.reject(frame, code),
        }
        true
    }

    fn job(&self, frame: &Frame<'_>, work: &Work<'_>, granted: &Granted, sent: Instant) -> Job {
        let longest = self.shared.limits.operation_timeout;
        let wanted = frame.deadline_us.map(|us| Duration::from_micros(us.into()));
        Job {
            link: Arc::clone(&self.link),
            id: frame.id,
            operation: work.operation,
            key: Arc::clone(&granted.key),
            payload: Payload::new(frame.payload),
            received: work.received,
            deadline: sent + wanted.map_or(longest, |wanted| wanted.min(longest)),
            is_minor: frame.priority > 0,
        }
    }

    fn submit(&self, job: Job) -> bool {
        // Counted first: the response may be there before this returns.
        self.link.begin();
        let taken = self.shared.scheduler.submit(job);
        if taken == Err(Full) {
            self.link.finish(1);
        }
        taken.is_ok()
    }

    /// The rule's rate is used up: a peer that understands BUSY is told, others are read later.
    fn over_rate(&mut self, frame: &Frame<'_>) -> bool {
        if !self.link.extended {
            return false;
        }
        self.link.begin();
        self.link.reject(frame.id, ErrorCode::BUSY, Some(microseconds(RATE_RETRY)));
        self.report_rejection(frame, ErrorCode::BUSY);
        self.stall();
        true
    }

    /// Answers a request that was counted in with an error, and tells of it.
    fn reject(&self, frame: &Frame<'_>, code: ErrorCode) {
        self.link.reject(frame.id, code, None);
        self.report_rejection(frame, code);
    }

    fn report_rejection(&self, frame: &Frame<'_>, code: ErrorCode) {
        let operation = match frame.opcode {
            opcode::MAKE_KEY => Ok(MAKE_KEY_NAME),
            number => Operation::from_opcode(number).map(Operation::name),
        };
        self.report.operation(&KeyOperation {
            peer: &self.link.peer.label,
            address: self.link.peer.address,
            ski: frame.ski,
            operation: operation.unwrap_or("unknown"),
            class: "none",
            outcome: KeyOutcome::Rejected(code),
            queued: Duration::ZERO,
            service: Duration::ZERO,
        });
    }
}

#[cfg(test)]
mod tests;
