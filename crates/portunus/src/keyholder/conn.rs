//! The life of one connection: handshake, frames in, answers out, end.
//!
//! ```text
//!        ┌→ wait ─┬ bytes ──→ frames: answered, signed here, or queued ─┐
//!        │        ├ answers → one write                                 │
//!        └────────┴─────────────────────────────────────────────────────┘
//! ```
//!
//! While as many requests are outstanding as a connection may have, or its answers are not taken, nothing is read from it: a peer that asks
//! without listening waits for itself. A malformed frame ends the connection, as nothing behind it can be read.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use net::{Chunk, Deadline, Stream};
use tls::Session;
use tokio::sync::watch;
use wire::keyless::{Dialect, EXTENSION_ALPN, ErrorCode, Frame, FrameError, opcode};

use super::access::Peer;
use super::crypto_thread::Work;
use super::holdings::{Granted, Holdings, View};
use super::judge::{Verdict, judge};
use super::link::Link;
use super::queue::{Class, Job, Payload, Refused};
use super::serve::Shared;
use crate::config::KeyholderListener;
use crate::report::{KeyOperation, KeyOutcome};
use crate::transport::{Broken, NoKeys, Transport};

/// Time that one turn of a connection may spend on signing, before the rest of its requests goes to the queue.
const INLINE_BUDGET: Duration = Duration::from_micros(400);

/// How soon a connection that could not hand in a request tries again.
const STALL_PAUSE: Duration = Duration::from_millis(2);

/// The answer to a rate that is exceeded: try again after this.
const RATE_RETRY: Duration = Duration::from_millis(100);

/// Why the life of a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed between requests.
    Closed,
    /// Neither asked nor answered for too long.
    Idle,
    /// The server drains, and all is answered.
    Drained,
    /// The peer broke the rules, went silent within a message, or the connection broke: a stable code and details.
    Failed(&'static str, String),
}

/// Serves a connection to its end.
pub(super) async fn run(
    stream: Stream,
    listener: Arc<KeyholderListener>,
    shared: Arc<Shared>,
    drain: watch::Receiver<bool>,
) {
    let address = stream.peer();
    let opened = Instant::now();
    let limit = shared.limits.handshake_timeout;
    let mut deadline = Deadline::new();
    let shaken = deadline.within(limit, open(stream, &listener, &shared)).await;
    let end = match shaken {
        Err(_) => End::Failed("handshake_timeout", String::new()),
        Ok(Err((reason, detail))) => End::Failed(reason, detail),
        Ok(Ok((transport, peer))) => {
            let info = transport.tls_info();
            let extended = info.is_some_and(|info| info.alpn.as_deref() == Some(EXTENSION_ALPN));
            tracing::debug!(peer = peer.label, ?address, extended, "connected");
            Conn::new(transport, Arc::new(Link::new(peer, extended)), shared.clone()).serve(drain).await
        }
    };
    if let End::Failed(reason, detail) = &end {
        shared.reporter.connection_failed(reason);
        tracing::info!(
            ?address,
            listener = listener.name,
            reason,
            detail,
            seconds = opened.elapsed().as_secs(),
            "connection failed"
        );
    }
}

/// The handshake, if the listener has one, and who came by it.
async fn open(
    stream: Stream,
    listener: &KeyholderListener,
    shared: &Shared,
) -> Result<(Transport, Peer), (&'static str, String)> {
    let address = stream.peer();
    let Some(front) = shared.holdings.load().front(&listener.name) else {
        return Ok((Transport::plain(stream), Peer::unix()));
    };
    let session = Session::server(&shared.acceptor, front).map_err(|error| ("handshake_ours", error.to_string()))?;
    match Transport::handshake(stream, Chunk::empty(), session, &NoKeys).await {
        Ok(transport) => match transport.tls_info().and_then(|info| info.peer) {
            Some(certificate) => Ok((transport, Peer::of_certificate(&certificate, address))),
            // The library has refused before, as the rule demands a certificate.
            None => Err(("client_certificate", "none was sent".to_owned())),
        },
        Err((transport, broken)) => {
            // The alert must arrive before the end does.
            transport.stream().shutdown_write();
            Err(match broken {
                Broken::Socket(error) => ("handshake_abandoned", error.to_string()),
                Broken::Tls(error @ tls::Error::PeerCertificate(_)) => ("client_certificate", error.to_string()),
                broken => ("handshake_failed", broken.to_string()),
            })
        }
    }
}

struct Conn {
    transport: Transport,
    link: Arc<Link>,
    shared: Arc<Shared>,
    /// What the peer may use, and the generation that says so.
    view: Arc<View>,
    generation: Arc<Holdings>,
    dialect: Dialect,
    input: Input,
    /// Answers on their way out.
    output: Vec<u8>,
    /// The last request could not be handed in; it is tried again.
    stalled: bool,
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
    Answers(usize),
}

impl Conn {
    fn new(transport: Transport, link: Arc<Link>, shared: Arc<Shared>) -> Conn {
        let generation = shared.holdings.load_full();
        Conn {
            view: generation.view_for(&link.peer),
            generation,
            dialect: if link.extended { Dialect::Extended } else { Dialect::Plain },
            input: Input { chunk: Chunk::empty(), large: Vec::new() },
            output: Vec::new(),
            stalled: false,
            result: Vec::new(),
            transport,
            link,
            shared,
        }
    }

    async fn serve(mut self, mut drain: watch::Receiver<bool>) -> End {
        let end = self.turn_after_turn(&mut drain).await;
        self.link.close();
        if !matches!(end, End::Failed(..)) {
            self.transport.finish().await;
        }
        end
    }

    async fn turn_after_turn(&mut self, drain: &mut watch::Receiver<bool>) -> End {
        let mut deadline = Deadline::new();
        let mut more = false;
        loop {
            let draining = *drain.borrow_and_update();
            if draining && self.link.in_flight() == 0 {
                return End::Drained;
            }
            // Whole frames that were left over come before new bytes.
            if more && !draining && !self.is_full() && !self.stalled {
                more = match self.take_frames() {
                    Ok(more) => more,
                    Err(end) => return self.last_words(end).await,
                };
            }
            let may_read = !more && !draining && !self.is_full();
            let limit = self.patience();
            let event = tokio::select! {
                biased;
                event = deadline.within(limit, self.wait(may_read)) => event,
                _ = drain.changed() => continue,
            };
            match event {
                Ok(Ok(Event::Answers(count))) => {
                    if let Err(end) = self.send(count).await {
                        return end;
                    }
                }
                Ok(Ok(Event::Received(0))) => return self.ended(),
                Ok(Ok(Event::Received(_))) => {
                    if !self.input.large.is_empty() {
                        self.input.gather();
                    }
                    more = match self.take_frames() {
                        Ok(more) => more,
                        Err(end) => return self.last_words(end).await,
                    };
                }
                Ok(Err(broken)) => return End::Failed("broken", broken.to_string()),
                Err(_) if self.stalled => self.stalled = false,
                Err(_) if self.link.in_flight() > 0 => {}
                Err(_) if !self.input.bytes().is_empty() => return End::Failed("frame_timeout", String::new()),
                Err(_) => return End::Idle,
            }
        }
    }

    /// How long to wait for what comes next.
    fn patience(&self) -> Duration {
        if self.stalled {
            STALL_PAUSE
        } else if self.input.bytes().is_empty() || self.link.in_flight() > 0 {
            self.shared.limits.idle_timeout
        } else {
            self.shared.limits.frame_timeout
        }
    }

    fn is_full(&self) -> bool {
        self.link.in_flight() >= self.shared.limits.max_in_flight
    }

    /// Waits for answers, or for bytes if there is room for what they ask. Loses nothing if it is dropped.
    async fn wait(&mut self, may_read: bool) -> Result<Event, Broken> {
        poll_fn(|context| {
            let count = self.link.take_answers(&mut self.output, context);
            if count > 0 {
                return Poll::Ready(Ok(Event::Answers(count)));
            }
            if !may_read {
                return Poll::Pending;
            }
            self.transport.poll_recv_more(context, &mut self.input.chunk).map(|read| read.map(Event::Received))
        })
        .await
    }

    /// Sends all answers that there are, in one go.
    async fn send(&mut self, count: usize) -> Result<(), End> {
        let limit = self.shared.limits.write_timeout;
        let sent = tokio::time::timeout(limit, self.transport.send(&self.output)).await;
        self.output.clear();
        match sent {
            Ok(Ok(())) => {
                self.link.finish(count);
                Ok(())
            }
            Ok(Err(broken)) => Err(End::Failed("broken", broken.to_string())),
            Err(_) => Err(End::Failed("write_timeout", String::new())),
        }
    }

    /// The peer sends no more. What is outstanding is answered to nobody: keyless clients do not half-close.
    fn ended(&self) -> End {
        match self.input.bytes() {
            [] => End::Closed,
            _ => End::Failed("frame_cut", String::new()),
        }
    }

    /// Sends what was answered before the fault, then ends.
    async fn last_words(&mut self, end: End) -> End {
        let count = poll_fn(|context| Poll::Ready(self.link.take_answers(&mut self.output, context))).await;
        if count > 0 {
            let _ = self.send(count).await;
        }
        self.transport.finish().await;
        end
    }

    /// Takes in the frames that have arrived. True if whole ones may be left.
    fn take_frames(&mut self) -> Result<bool, End> {
        self.follow_reload();
        let received = Instant::now();
        let mut now = received;
        let mut used = 0;
        // The input is lent out while the frames that borrow from it are looked at.
        let input = std::mem::replace(&mut self.input, Input { chunk: Chunk::empty(), large: Vec::new() });
        let outcome = loop {
            if self.is_full() {
                break Ok(true);
            }
            match Frame::parse(input.bytes().get(used..).unwrap_or_default(), self.dialect) {
                Ok(Some((frame, length))) => {
                    if !self.take_frame(&frame, received, &mut now) {
                        self.stalled = true;
                        break Ok(true);
                    }
                    used += length;
                }
                Ok(None) => break Ok(false),
                Err(error) => break Err(self.refuse_frame(error)),
            }
        };
        self.input = input;
        self.input.advance(used);
        if matches!(outcome, Ok(false)) && self.input.chunk.is_full() {
            self.input.gather();
        }
        outcome
    }

    fn refuse_frame(&self, error: FrameError) -> End {
        if let FrameError::Version { id } = error {
            self.link.begin();
            self.link.refuse(id, ErrorCode::VERSION, None);
        }
        End::Failed("malformed_frame", format!("{error:?}"))
    }

    /// After a reload, what the peer may see is looked up again.
    fn follow_reload(&mut self) {
        let newest = self.shared.holdings.load();
        if !Arc::ptr_eq(&newest, &self.generation) {
            self.generation = Arc::clone(&newest);
            self.view = self.generation.view_for(&self.link.peer);
        }
    }

    /// Takes in one request. False if it must be handed in again later.
    fn take_frame(&mut self, frame: &Frame<'_>, received: Instant, now: &mut Instant) -> bool {
        if frame.opcode == opcode::CANCEL && self.link.extended {
            self.link.cancel(frame.id);
            return true;
        }
        let view = Arc::clone(&self.view);
        match judge(frame, &view, self.shared.mixed) {
            Ok(Verdict::Pong) => {
                self.link.begin();
                self.link.answer(&Frame { opcode: opcode::PONG, ..Frame::response(frame.id, frame.payload) });
                self.shared.reporter.ping();
                true
            }
            Err(code) => {
                self.link.begin();
                self.refuse(frame, code, None);
                true
            }
            Ok(Verdict::Work(operation, granted)) => {
                if view.rate.as_ref().is_some_and(|rate| !rate.allow()) {
                    return self.over_rate(frame);
                }
                let work = Work {
                    link: &self.link,
                    id: frame.id,
                    operation,
                    key: &granted.key,
                    payload: frame.payload,
                    received,
                    begun: *now,
                };
                if granted.key.class != Class::Rsa && now.saturating_duration_since(received) < INLINE_BUDGET {
                    self.link.begin();
                    *now = work.perform(&self.shared, &mut self.result);
                    return true;
                }
                let job = self.job(frame, &work, granted);
                self.submit(job, frame)
            }
        }
    }

    fn job(&self, frame: &Frame<'_>, work: &Work<'_>, granted: &Granted) -> Job {
        let longest = self.shared.limits.operation_timeout;
        let wanted = frame.deadline_us.map(|us| Duration::from_micros(us.into()));
        Job {
            link: Arc::clone(&self.link),
            id: frame.id,
            operation: work.operation,
            key: Arc::clone(&granted.key),
            payload: Payload::new(frame.payload),
            received: work.received,
            deadline: work.received + wanted.map_or(longest, |wanted| wanted.min(longest)),
            is_minor: frame.priority > 0,
        }
    }

    fn submit(&self, job: Job, frame: &Frame<'_>) -> bool {
        // Counted first: the answer may be there before this returns.
        self.link.begin();
        match self.shared.scheduler.submit(job) {
            Ok(()) => true,
            Err(Refused::Busy(wait)) => {
                self.refuse(frame, ErrorCode::BUSY, Some(wait));
                true
            }
            Err(Refused::Full) => {
                self.link.finish(1);
                false
            }
        }
    }

    /// The rule's rate is used up: a peer that understands BUSY is told, others are read later.
    fn over_rate(&self, frame: &Frame<'_>) -> bool {
        if !self.link.extended {
            return false;
        }
        self.link.begin();
        self.refuse(frame, ErrorCode::BUSY, Some(RATE_RETRY));
        true
    }

    /// Answers a request that was counted in with an error, and tells of it.
    fn refuse(&self, frame: &Frame<'_>, code: ErrorCode, retry: Option<Duration>) {
        let retry = retry.map(|retry| u32::try_from(retry.as_micros()).unwrap_or(u32::MAX));
        self.link.refuse(frame.id, code, retry);
        let operation = wire::keyless::Operation::from_opcode(frame.opcode);
        self.shared.reporter.operation(&KeyOperation {
            peer: &self.link.peer.label,
            address: self.link.peer.address,
            ski: frame.ski,
            operation: operation.map_or("unknown", wire::keyless::Operation::name),
            class: "none",
            outcome: KeyOutcome::Refused(code),
            queued: Duration::ZERO,
            service: Duration::ZERO,
        });
    }
}
