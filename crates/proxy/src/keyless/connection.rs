//! One connection to a key server: many operations under way at once, matched by their ids, answers in any order.
//!
//! The task that runs [`Connection::serve`] is the only one that touches the socket. Whoever asks appends a frame and wakes it, so that what
//! several handshakes ask in one turn goes out in one write. Knows nothing of other connections and decides nothing about retries.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use net::clock::coarse;
use net::{Chunk, Deadline};
use transport::KeyFailure;
use transport::{Broken, Transport};
use wire::keyless::{Dialect, EXTENSION_ALPN, Frame, FrameError, opcode};

/// A ping that is not answered for so long ends the connection.
const PONG_TIMEOUT: Duration = Duration::from_secs(3);

/// Ids are not used again; near their end the connection is given up for a fresh one.
const LAST_ID: u32 = u32::MAX - 1_000_000;

/// Buffers that grew beyond this in a burst are given back.
const KEPT_BYTES: usize = 64 * 1024;

/// A connection. Its operations and its task share it.
#[derive(Debug)]
pub struct Connection {
    transport: Transport,
    dialect: Dialect,
    /// What is waited for, by id.
    pending: RefCell<HashMap<u32, Slot>>,
    next_id: Cell<u32>,
    /// Frames that are not yet on their way.
    output: RefCell<Vec<u8>>,
    /// Of the task that serves it.
    task: RefCell<Option<Waker>>,
    /// The ping that is not answered yet.
    ping: Cell<Option<(u32, Instant)>>,
    /// No new operations: another connection takes its place.
    leaving: Cell<bool>,
}

/// An operation under way.
#[derive(Debug)]
enum Slot {
    Waiting(Option<Waker>),
    Answered(Result<Vec<u8>, KeyFailure>),
}

/// Why a connection ended.
#[derive(Debug)]
pub enum Ended {
    /// The server closed it.
    Closed,
    /// The socket or TLS broke.
    Broken(Broken),
    /// The server sent what is no frame, or a response that nobody can have asked for.
    Protocol(&'static str),
    /// A ping was not answered.
    Silent,
    /// We gave it up.
    Left,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Closed => f.write_str("the server closed it"),
            Ended::Broken(broken) => broken.fmt(f),
            Ended::Protocol(what) => write!(f, "the server broke the protocol: {what}"),
            Ended::Silent => f.write_str("a ping was not answered"),
            Ended::Left => f.write_str("it is not needed any more"),
        }
    }
}

/// What the peer of a connection wants to hear of it.
pub trait Watch {
    /// A ping was answered after this long.
    fn pong(&self, after: Duration);
}

impl Connection {
    /// Over a transport that is connected. The extension is spoken if the server chose it.
    pub fn new(transport: Transport) -> Connection {
        let alpn = transport.tls_info().and_then(|info| info.alpn);
        let is_extended = alpn.as_deref() == Some(EXTENSION_ALPN);
        Connection {
            transport,
            dialect: if is_extended { Dialect::Extended } else { Dialect::Plain },
            pending: RefCell::default(),
            next_id: Cell::new(0),
            output: RefCell::default(),
            task: RefCell::default(),
            ping: Cell::new(None),
            leaving: Cell::new(false),
        }
    }

    /// Operations under way.
    pub fn load(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Whether it takes operations.
    pub fn is_open(&self) -> bool {
        !self.leaving.get()
    }

    /// Whether the server speaks our extension.
    pub fn is_extended(&self) -> bool {
        self.dialect == Dialect::Extended
    }

    /// Sends a frame (its id and, where the server does not know it, its deadline are set here) and gives what waits for its response.
    ///
    /// # Errors
    /// The frame is too long.
    pub fn ask(self: &Rc<Self>, frame: Frame<'_>) -> Result<Asked, KeyFailure> {
        let id = self.take_id();
        let deadline_us = frame.deadline_us.filter(|_| self.is_extended());
        let frame = Frame { id, deadline_us, ..frame };
        frame.write_to(&mut self.output.borrow_mut()).map_err(|_| KeyFailure::Unaskable)?;
        self.pending.borrow_mut().insert(id, Slot::Waiting(None));
        self.wake();
        Ok(Asked { connection: Rc::clone(self), id })
    }

    /// Sends a ping, unless one is under way.
    pub fn probe(&self) {
        if self.ping.get().is_some() {
            return;
        }
        let id = self.take_id();
        let frame = Frame { id, opcode: opcode::PING, ..Frame::default() };
        if frame.write_to(&mut self.output.borrow_mut()).is_ok() {
            self.ping.set(Some((id, Instant::now())));
            self.wake();
        }
    }

    /// Takes no further operations; ends when none is under way.
    pub fn leave(&self) {
        self.leaving.set(true);
        self.wake();
    }

    fn take_id(&self) -> u32 {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        if id >= LAST_ID {
            self.leaving.set(true);
        }
        id
    }

    fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }

    /// Moves bytes both ways until the connection ends; then whatever is under way is lost.
    pub async fn serve(&self, ping_interval: Duration, watch: &impl Watch) -> Ended {
        let mut work = Work { sending: Vec::new(), sent: 0, input: Chunk::empty() };
        let mut timer = Deadline::new();
        let mut ping_at = coarse() + jittered(ping_interval);
        let ended = poll_fn(|context| {
            *self.task.borrow_mut() = Some(context.waker().clone());
            if let Poll::Ready(ended) = self.poll_bytes(context, &mut work, watch) {
                return Poll::Ready(ended);
            }
            if !self.is_open() && self.load() == 0 && self.ping.get().is_none() && work.sending.is_empty() {
                return Poll::Ready(Ended::Left);
            }
            self.poll_ping(context, &mut timer, &mut ping_at, ping_interval)
        })
        .await;
        self.leaving.set(true);
        self.task.borrow_mut().take();
        self.lose_all();
        ended
    }

    fn poll_ping(
        &self,
        context: &mut Context<'_>,
        timer: &mut Deadline,
        ping_at: &mut Duration,
        ping_interval: Duration,
    ) -> Poll<Ended> {
        loop {
            let wait_until = match self.ping.get() {
                Some((_, sent)) => coarse() + PONG_TIMEOUT.saturating_sub(sent.elapsed()),
                None => *ping_at,
            };
            let elapsed = timer.poll_elapsed(wait_until, context);
            if elapsed.is_pending() {
                return Poll::Pending;
            }
            match self.ping.get() {
                Some((_, sent)) if sent.elapsed() >= PONG_TIMEOUT => return Poll::Ready(Ended::Silent),
                Some(_) => {}
                None => {
                    *ping_at = coarse() + jittered(ping_interval);
                    self.probe();
                    // What was written is sent when the wake that came with it is served.
                }
            }
        }
    }

    fn poll_bytes(&self, context: &mut Context<'_>, work: &mut Work, watch: &impl Watch) -> Poll<Ended> {
        loop {
            if let Poll::Ready(Err(broken)) = self.poll_send(context, work) {
                return Poll::Ready(Ended::Broken(broken));
            }
            match ready!(self.transport.poll_recv_more(context, &mut work.input)) {
                Ok(0) => return Poll::Ready(Ended::Closed),
                Ok(_) => {
                    if let Err(what) = self.take_responses(&mut work.input, watch) {
                        return Poll::Ready(Ended::Protocol(what));
                    }
                }
                Err(broken) => return Poll::Ready(Ended::Broken(broken)),
            }
        }
    }

    /// Sends everything there is; ready when nothing is left.
    fn poll_send(&self, context: &mut Context<'_>, work: &mut Work) -> Poll<Result<(), Broken>> {
        loop {
            let rest = work.sending.get(work.sent..).unwrap_or_default();
            if !rest.is_empty() {
                work.sent += ready!(self.transport.poll_send(context, rest))?;
                continue;
            }
            work.sending.clear();
            work.sending.shrink_to(KEPT_BYTES);
            work.sent = 0;
            ready!(self.transport.poll_flush(context)).map_err(Broken::Socket)?;
            let mut output = self.output.borrow_mut();
            if output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            std::mem::swap(&mut *output, &mut work.sending);
        }
    }

    /// Hands on every whole response in `input`.
    fn take_responses(&self, input: &mut Chunk, watch: &impl Watch) -> Result<(), &'static str> {
        loop {
            let parsed = Frame::parse(input, self.dialect).map_err(explain)?;
            let Some((frame, length)) = parsed else { break };
            self.take_response(&frame, watch)?;
            input.advance(length);
        }
        if input.is_full() {
            return Err("a response longer than any we ask for");
        }
        if input.is_empty() {
            *input = Chunk::empty();
        }
        Ok(())
    }

    fn take_response(&self, frame: &Frame<'_>, watch: &impl Watch) -> Result<(), &'static str> {
        if frame.id >= self.next_id.get() {
            return Err("a response to what nobody asked");
        }
        let pinged = self.ping.get().filter(|(id, _)| *id == frame.id);
        let result = match frame.opcode {
            opcode::PONG => {
                if let Some((_, sent)) = pinged {
                    self.ping.set(None);
                    watch.pong(sent.elapsed());
                }
                return Ok(());
            }
            opcode::ERROR if pinged.is_some() => return Err("a ping was rejected"),
            opcode::RESPONSE => Ok(frame.payload.to_vec()),
            opcode::ERROR => {
                let meaning = |code| KeyFailure::of_code(code, frame.retry_after_us);
                Err(frame.error().map_or(KeyFailure::Lost, meaning))
            }
            _ => return Err("a response that is a request"),
        };
        // One that nobody waits for any more comes late, which is no fault.
        if let Some(slot) = self.pending.borrow_mut().get_mut(&frame.id) {
            slot.respond(result);
        }
        Ok(())
    }

    fn lose_all(&self) {
        for slot in self.pending.borrow_mut().values_mut() {
            if matches!(slot, Slot::Waiting(_)) {
                slot.respond(Err(KeyFailure::Lost));
            }
        }
    }

    /// Forgets an operation that is not wanted any more, and tells the server if it understands.
    fn abandon(&self, id: u32) {
        let slot = self.pending.borrow_mut().remove(&id);
        if matches!(slot, Some(Slot::Waiting(_))) && self.is_extended() && self.task.borrow().is_some() {
            let frame = Frame { id, opcode: opcode::CANCEL, ..Frame::default() };
            // A dozen bytes always fit.
            let _ = frame.write_to(&mut self.output.borrow_mut());
            self.wake();
        } else if !self.is_open() {
            self.wake();
        }
    }
}

/// The buffers of the serving task.
struct Work {
    sending: Vec<u8>,
    sent: usize,
    input: Chunk,
}

impl Slot {
    fn respond(&mut self, result: Result<Vec<u8>, KeyFailure>) {
        if let Slot::Waiting(waker) = std::mem::replace(self, Slot::Answered(result)) {
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// An operation that was asked for. Dropping it cancels it.
#[derive(Debug)]
pub struct Asked {
    connection: Rc<Connection>,
    id: u32,
}

impl Future for Asked {
    type Output = Result<Vec<u8>, KeyFailure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut pending = self.connection.pending.borrow_mut();
        match pending.get_mut(&self.id) {
            Some(Slot::Waiting(waker)) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(Slot::Answered(result)) => Poll::Ready(std::mem::replace(result, Err(KeyFailure::Lost))),
            None => Poll::Ready(Err(KeyFailure::Lost)),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.connection.abandon(self.id);
    }
}

fn explain(error: FrameError) -> &'static str {
    match error {
        FrameError::Version { .. } => "another version",
        FrameError::Overrun => "an item runs past its frame",
        FrameError::Duplicate { .. } => "an item twice",
        FrameError::Length { .. } => "an item of a wrong length",
    }
}

/// The period, give or take a fifth, so that pings of many edges do not march in step.
fn jittered(period: Duration) -> Duration {
    period.mul_f32(0.8 + 0.4 * fastrand::f32())
}

#[cfg(test)]
mod tests;
