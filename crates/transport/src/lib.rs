//! A connection's bytes, in the clear or under TLS, behind the same calls.
//!
//! Receiving and sending may go on at the same time from one task: everything is `&self`, and no borrow of the TLS session
//! outlives a call into it. An idle transport holds no buffer. Owns no policy: deadlines and limits are the caller's, but for one: how slowly a peer may take
//! what is sent ([`Transport::pace_writes`]) holds for every write here, so that none can do without.
#![forbid(unsafe_code)]

pub mod blocking;
mod key_failure;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use net::pace::{Pace, Watch};
use net::splice::Pipe;
use net::{Chunk, Pool, Stream, pool};
use tls::{Handshake, KeyRequest, KeyResponse, Read, Session};

pub use key_failure::KeyFailure;

/// Plaintext is encrypted in pieces of this size, so that a slow reader costs bounded memory. Four full records.
const SEAL_BYTES: usize = 64 * 1024;

/// Plaintext of a full TLS record (RFC 8446 §5.1).
const RECORD_BYTES: usize = 16 * 1024;

/// Buffers for heads and for ciphertext kept per thread.
const POOLED_BUFFERS: usize = 1024;

/// Buffers beyond two full records are kept while the pool holds fewer than this: they would add up.
const POOLED_LARGE: usize = 64;

thread_local! {
    static BUFFERS: RefCell<Pool<Vec<u8>>> = const { RefCell::new(Pool::new(POOLED_BUFFERS)) };
}

/// An empty buffer from this thread's pool; give it back with [`recycle`].
pub fn buffer() -> Vec<u8> {
    pool::take(&BUFFERS).unwrap_or_default()
}

/// Gives a buffer back to this thread's pool. One that grew beyond all measure is freed instead.
pub fn recycle(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > 2 * SEAL_BYTES {
        return;
    }
    buffer.clear();
    let _ = BUFFERS.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if buffer.capacity() <= 2 * RECORD_BYTES || pool.len() < POOLED_LARGE {
            pool.give(buffer);
        }
    });
}

/// Frees buffers of this thread that nobody needed lately; to be called about once a second.
pub fn trim_buffers() {
    pool::trim(&BUFFERS);
}

/// A stream with or without TLS.
#[derive(Debug)]
pub struct Transport {
    stream: Stream,
    sealed: Option<Box<Sealed>>,
    received: Cell<u64>,
    sent: Cell<u64>,
    /// How slowly the peer may take what is sent; none for any way.
    pace: Cell<Option<Pace>>,
    /// Watches a peer that did not take something at once.
    watch: RefCell<Option<Box<Watch>>>,
}

/// The TLS side of a transport.
#[derive(Debug)]
struct Sealed {
    session: RefCell<Session>,
    /// Ciphertext that was received and not yet taken by the session.
    input: RefCell<Chunk>,
    /// Ciphertext in sending order, and how much of it is sent. Whoever sends flushes all of it, so that an alert or key update made
    /// while receiving cannot overtake or split a record.
    output: RefCell<Vec<u8>>,
    flushed: Cell<usize>,
    /// The peer sent close_notify: its end is not a cut.
    closed: Cell<bool>,
    /// The next bytes sent are the last.
    ends_next: Cell<bool>,
    /// Our close_notify is sealed.
    ended: Cell<bool>,
}

/// A broken transport: the socket's fault or TLS's.
#[derive(Debug)]
pub enum Broken {
    /// The socket failed.
    Socket(io::Error),
    /// TLS failed.
    Tls(tls::Error),
    /// The private key, which is elsewhere, could not be used.
    Key(KeyFailure),
    /// The certificate that it waited for did not come.
    Certificate(NoCertificate),
}

/// Why a handshake that waited for a certificate got none, in words for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCertificate(pub &'static str);

/// Where a handshake has its private key used, if it is elsewhere, and its certificate made, if there is none yet.
pub trait Keys {
    /// Waits for the certificate of a name, for which the handshake is suspended. Dropping the future ends the wait, and nothing else.
    ///
    /// # Errors
    /// Why there is none; the handshake ends with an alert (unrecognized_name).
    fn certificate(&self, server_name: &str) -> impl Future<Output = Result<(), NoCertificate>> {
        let _ = server_name;
        std::future::ready(Err(NoCertificate("nobody makes certificates")))
    }

    /// Does what is asked. Dropping the future cancels it.
    ///
    /// # Errors
    /// Why it cannot be done; the handshake ends with an alert.
    fn perform(&self, request: &KeyRequest, server_name: &str)
    -> impl Future<Output = Result<KeyResponse, KeyFailure>>;
}

/// For handshakes whose key, if they have one, is here.
#[derive(Debug, Clone, Copy)]
pub struct NoKeys;

impl Keys for NoKeys {
    async fn perform(&self, _request: &KeyRequest, _server_name: &str) -> Result<KeyResponse, KeyFailure> {
        Err(KeyFailure::Unavailable)
    }
}

impl Broken {
    /// Whether the peer took too long to accept bytes.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Broken::Socket(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Socket(error)
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Socket(error) => error.fmt(f),
            Broken::Tls(error) => error.fmt(f),
            Broken::Key(failure) => failure.fmt(f),
            Broken::Certificate(why) => f.write_str(why.0),
        }
    }
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> io::Error {
        match broken {
            Broken::Socket(error) => error,
            Broken::Tls(error) => io::Error::new(io::ErrorKind::InvalidData, error),
            Broken::Key(failure) => io::Error::other(failure),
            Broken::Certificate(why) => io::Error::other(why.0),
        }
    }
}

impl Transport {
    /// In the clear.
    pub fn plain(stream: Stream) -> Transport {
        Transport {
            stream,
            sealed: None,
            received: Cell::new(0),
            sent: Cell::new(0),
            pace: Cell::new(None),
            watch: RefCell::new(None),
        }
    }

    /// Bounds how slowly the peer may take what is sent from now on. A write that takes too long fails with `TimedOut`.
    pub fn pace_writes(&self, pace: Option<Pace>) {
        if self.pace.replace(pace) != pace {
            *self.watch.borrow_mut() = None;
        }
    }

    /// How slowly the peer may take what is sent, if that is bounded.
    pub fn write_pace(&self) -> Option<Pace> {
        self.pace.get()
    }

    /// As [`Transport::pace_writes`], where it must not become stricter for others who write.
    pub fn loosen_writes(&self, pace: Pace) {
        let looser = self
            .pace
            .get()
            .map(|old| Pace { idle: old.idle.max(pace.idle), min_rate: old.min_rate.min(pace.min_rate) });
        self.pace_writes(looser);
    }

    /// Passes on how a write went, `sent` bytes of it by now. One that blocks is watched.
    fn paced<T>(&self, context: &mut Context<'_>, sent: u64, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let mut watch = self.watch.borrow_mut();
        if sent > 0
            && let Some(watch) = &mut *watch
        {
            watch.moved(usize::try_from(sent).unwrap_or(usize::MAX));
        }
        let (Poll::Pending, Some(pace)) = (&polled, self.pace.get()) else { return polled };
        ready!(watch.get_or_insert_with(|| Box::new(Watch::new(pace))).poll_too_slow(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// In the clear, after `received` bytes were taken from the socket already.
    pub fn resumed(stream: Stream, received: usize) -> Transport {
        let transport = Transport::plain(stream);
        transport.received.set(received as u64);
        transport
    }

    /// Performs the handshake of `session` over `stream`, its private key, if it is elsewhere, used by `keys`. `first`: ciphertext that was received
    /// already.
    ///
    /// # Errors
    /// The transport is given back with the error, so that its bytes can be counted; an alert that was due has been sent.
    pub async fn handshake(
        stream: Stream,
        first: Chunk,
        session: Session,
        keys: &impl Keys,
    ) -> Result<Transport, (Transport, Broken)> {
        let sealed = Sealed {
            session: RefCell::new(session),
            input: RefCell::new(first),
            output: RefCell::new(Vec::new()),
            flushed: Cell::new(0),
            closed: Cell::new(false),
            ends_next: Cell::new(false),
            ended: Cell::new(false),
        };
        let mut transport = Transport::plain(stream);
        transport.sealed = Some(Box::new(sealed));
        match transport.drive_handshake(keys).await {
            Ok(()) => Ok(transport),
            Err(broken) => Err((transport, broken)),
        }
    }

    async fn drive_handshake(&self, keys: &impl Keys) -> Result<(), Broken> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        loop {
            let step = sealed.with_input(|session, input, output| session.handshake(input, output));
            // One write for the whole flight; also the alert of a failed handshake.
            let sent_before = self.sent.get();
            let flushed = poll_fn(|context| self.poll_flush(context)).await;
            match step.map_err(Broken::Tls)? {
                Handshake::Done => {
                    // The peer's Finished came alone and nothing answers it: a client that sends its request in a second small write would wait for
                    // the delayed acknowledgment.
                    if self.sent.get() == sent_before && !sealed.holds_input() {
                        self.stream.acknowledge();
                    }
                    return Ok(flushed?);
                }
                Handshake::WantInput => flushed?,
                Handshake::WantKey => {
                    flushed?;
                    self.use_key(sealed, keys).await?;
                    continue;
                }
                Handshake::WantCertificate => {
                    flushed?;
                    self.await_certificate(sealed, keys).await?;
                    continue;
                }
            }
            if self.receive_sealed(sealed).await? == 0 {
                return Err(Broken::Socket(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Has the private key used, for as long as the client waits for it. If that fails, an alert tells the client.
    async fn use_key(&self, sealed: &Sealed, keys: &impl Keys) -> Result<(), Broken> {
        let (request, name) = {
            let mut session = sealed.session.borrow_mut();
            (session.key_request(), session.server_name())
        };
        // Asked for again although nothing was answered: a problem of ours, which must not become a loop.
        let Some(request) = request else { return Err(Broken::Tls(tls::Error::Ours("no key request".into()))) };
        match self.while_there(sealed, keys.perform(&request, name.as_deref().unwrap_or_default())).await? {
            Ok(response) => {
                sealed.session.borrow_mut().respond(response);
                Ok(())
            }
            Err(failure) => {
                self.end_handshake(sealed, tls::Alert::INTERNAL_ERROR).await;
                Err(Broken::Key(failure))
            }
        }
    }

    /// Waits for the certificate of the client's name, for as long as the client waits for it. If it does not come, an alert tells the client.
    async fn await_certificate(&self, sealed: &Sealed, keys: &impl Keys) -> Result<(), Broken> {
        let name = sealed.session.borrow_mut().awaited_name();
        // As for keys: it must not become a loop.
        let Some(name) = name else { return Err(Broken::Tls(tls::Error::Ours("no name to wait for".into()))) };
        match self.while_there(sealed, keys.certificate(&name)).await? {
            Ok(()) => Ok(()),
            Err(why) => {
                self.end_handshake(sealed, tls::Alert::UNRECOGNIZED_NAME).await;
                Err(Broken::Certificate(why))
            }
        }
    }

    /// Waits for something on behalf of the client, as long as it is there.
    async fn while_there<T>(&self, sealed: &Sealed, wait: impl Future<Output = T>) -> Result<T, Broken> {
        let mut wait = pin!(wait);
        poll_fn(|context| match wait.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll_gone(context, sealed).map(Err),
        })
        .await
    }

    async fn end_handshake(&self, sealed: &Sealed, alert: tls::Alert) {
        sealed.session.borrow_mut().fail(alert, &mut sealed.taken_output());
        let _ = self.flush().await;
    }

    /// Ready once the client is gone. What it sends meanwhile is kept, as far as there is room for it.
    fn poll_gone(&self, context: &mut Context<'_>, sealed: &Sealed) -> Poll<Broken> {
        loop {
            if sealed.input.borrow().is_full() {
                return Poll::Pending;
            }
            match ready!(self.poll_receive_sealed(context, sealed)) {
                Ok(0) => return Poll::Ready(Broken::Socket(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Broken::Socket(error)),
            }
        }
    }

    /// What TLS agreed on; none in the clear.
    pub fn tls_info(&self) -> Option<tls::Info> {
        self.sealed.as_ref().map(|sealed| sealed.session.borrow().info())
    }

    /// Whether bytes go over the socket as they are.
    pub fn is_plain(&self) -> bool {
        self.sealed.is_none()
    }

    /// Takes what a plain socket has into an empty pipe; 0 at the peer's end.
    pub fn poll_fill(&self, context: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let count = ready!(pipe.poll_fill(context, &self.stream))?;
        self.received.set(self.received.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    /// Gives a plain socket what it takes of a pipe.
    pub fn poll_drain(&self, context: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        let count = ready!(pipe.poll_drain(context, &self.stream))?;
        self.sent.set(self.sent.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    /// The socket.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether an end that was received is beyond doubt the peer's own: under TLS only close_notify is (RFC 8446 §6.1).
    pub fn ended_orderly(&self) -> bool {
        self.sealed.as_ref().is_none_or(|sealed| sealed.closed.get())
    }

    /// Bytes received from and sent to the socket so far.
    pub fn traffic(&self) -> (u64, u64) {
        (self.received.get(), self.sent.get())
    }

    /// A count that changes whenever the peer (over TCP) or its program (on Unix sockets) receives something of what was sent.
    pub fn taken(&self) -> u64 {
        // On Unix sockets the kernel counts its own bookkeeping among what waits.
        self.sent.get().wrapping_sub(self.stream.unsent_bytes())
    }

    /// Whether an idle connection has bytes, an end or an error waiting.
    pub fn has_news(&self) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| sealed.holds_input()) || self.stream.has_news()
    }

    /// Whether closing now would throw bytes away, and so reset the connection.
    pub fn has_unread(&self) -> bool {
        self.stream.has_unread()
    }

    /// Waits for bytes; an empty chunk is the peer's end.
    ///
    /// # Errors
    /// The connection broke. A TLS stream that ends without close_notify gives an end too: HTTP framing tells a cut message from a
    /// whole one, and bodies that end with the connection are marked by the caller.
    pub async fn recv(&self) -> Result<Chunk, Broken> {
        let mut chunk = Chunk::empty();
        self.recv_more(&mut chunk).await?;
        Ok(chunk)
    }

    /// Appends to `chunk` what comes next; returns how many bytes, 0 at the peer's end. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// As [`Transport::recv`].
    pub async fn recv_more(&self, chunk: &mut Chunk) -> Result<usize, Broken> {
        poll_fn(|context| self.poll_recv_more(context, chunk)).await
    }

    /// Polling form of [`Transport::recv_more`].
    pub fn poll_recv_more(&self, context: &mut Context<'_>, chunk: &mut Chunk) -> Poll<Result<usize, Broken>> {
        let Some(sealed) = &self.sealed else {
            let count = ready!(self.stream.poll_recv_into(context, chunk))?;
            self.received.set(self.received.get() + count as u64);
            return Poll::Ready(Ok(count));
        };
        loop {
            if sealed.closed.get() {
                return Poll::Ready(Ok(0));
            }
            if sealed.holds_input() {
                chunk.compact();
                let step = sealed.with_input(|session, input, output| session.read(input, chunk.spare_mut(), output));
                // Responses to post-handshake messages, alerts: sent as far as the socket takes them now, the rest with the next bytes.
                let _ = self.poll_flush_once(context)?;
                match step.map_err(Broken::Tls)? {
                    Read::Plain(count) => {
                        chunk.filled(count);
                        // close_notify may have come with the last bytes, and then nothing else may ever come.
                        sealed.closed.set(sealed.session.borrow().peer_has_closed());
                        return Poll::Ready(Ok(count));
                    }
                    Read::Closed => {
                        sealed.closed.set(true);
                        return Poll::Ready(Ok(0));
                    }
                    Read::WantInput if chunk.is_empty() => *chunk = Chunk::empty(),
                    Read::WantInput => {}
                }
            }
            if ready!(self.poll_receive_sealed(context, sealed))? == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }

    async fn receive_sealed(&self, sealed: &Sealed) -> io::Result<usize> {
        poll_fn(|context| self.poll_receive_sealed(context, sealed)).await
    }

    fn poll_receive_sealed(&self, context: &mut Context<'_>, sealed: &Sealed) -> Poll<io::Result<usize>> {
        let count = ready!(self.stream.poll_recv_into(context, &mut sealed.input.borrow_mut()))?;
        self.received.set(self.received.get() + count as u64);
        Poll::Ready(Ok(count))
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send<'t>(&'t self, bytes: &'t [u8]) -> Send<'t> {
        self.send_slices([bytes, &[], &[]])
    }

    /// Sends three slices in order (any may be empty), in as few writes and records as they need.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send_slices<'t>(&'t self, slices: [&'t [u8]; 3]) -> Send<'t> {
        Send { transport: self, slices }
    }

    /// Polling form of [`Transport::send_slices`]: takes off the slices what was sent or sealed.
    fn poll_send_slices(&self, context: &mut Context<'_>, slices: &mut [&[u8]; 3]) -> Poll<Result<(), Broken>> {
        let before = bytes_in(slices);
        let Some(sealed) = &self.sealed else {
            let polled = self.stream.poll_send_slices(context, slices);
            let sent = (before - bytes_in(slices)) as u64;
            self.sent.set(self.sent.get() + sent);
            return self.paced(context, sent, polled).map_err(Broken::Socket);
        };
        if (1..=RECORD_BYTES).contains(&before) {
            sealed.seal_joined(std::mem::take(slices)).map_err(Broken::Tls)?;
        }
        loop {
            if sealed.output.borrow().len() >= SEAL_BYTES {
                ready!(self.poll_flush(context))?;
            }
            let Some(slice) = slices.iter_mut().find(|slice| !slice.is_empty()) else { break };
            let (piece, rest) = slice.split_at(slice.len().min(SEAL_BYTES));
            sealed.seal(piece).map_err(Broken::Tls)?;
            *slice = rest;
        }
        if sealed.ends_next.get() {
            Transport::seal_end(sealed);
        }
        Poll::Ready(ready!(self.poll_flush(context)).map_err(Broken::Socket))
    }

    /// Sends what is sealed and not yet sent.
    pub async fn flush(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    /// Polling form of [`Transport::flush`].
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let before = self.sent.get();
        let polled = self.poll_flush_once(context);
        self.paced(context, self.sent.get() - before, polled)
    }

    /// Flushes as far as the socket goes along; whether that is too slow is not asked.
    fn poll_flush_once(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sealed) = &self.sealed else { return Poll::Ready(Ok(())) };
        let mut output = sealed.output.borrow_mut();
        loop {
            let flushed = sealed.flushed.get();
            let rest = output.get(flushed..).unwrap_or_default();
            if rest.is_empty() {
                sealed.flushed.set(0);
                recycle(std::mem::take(&mut output));
                return Poll::Ready(Ok(()));
            }
            let count = ready!(self.stream.poll_send(context, rest))?;
            self.sent.set(self.sent.get() + count as u64);
            sealed.flushed.set(flushed + count);
        }
    }

    /// Polling form of sending, for codecs that bring their own buffers: takes at most one sealing piece.
    pub fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Broken>> {
        let Some(sealed) = &self.sealed else {
            let polled = self.stream.poll_send(context, bytes);
            let sent = if let Poll::Ready(Ok(count)) = &polled { *count as u64 } else { 0 };
            self.sent.set(self.sent.get() + sent);
            return self.paced(context, sent, polled).map_err(Broken::Socket);
        };
        ready!(self.poll_flush(context))?;
        let piece = bytes.get(..bytes.len().min(SEAL_BYTES)).unwrap_or_default();
        sealed.seal(piece).map_err(Broken::Tls)?;
        // The piece is ours now; if the socket is full, the next call flushes first.
        let _ = self.poll_flush(context)?;
        Poll::Ready(Ok(piece.len()))
    }

    /// Says that what is sent next is the last: close_notify goes out in the same write.
    pub fn will_end(&self) {
        if let Some(sealed) = &self.sealed {
            sealed.ends_next.set(true);
        }
    }

    /// Whether nothing is left to say before the socket is closed.
    pub fn has_said_all(&self) -> bool {
        self.sealed.as_ref().is_none_or(|sealed| sealed.ended.get() && sealed.output.borrow().is_empty())
    }

    /// Seals close_notify, once.
    fn seal_end(sealed: &Sealed) {
        if !sealed.ended.replace(true) {
            sealed.session.borrow_mut().close(&mut sealed.taken_output());
        }
    }

    /// Ends our direction: close_notify under TLS (unless it went out with the last bytes), then the socket's write side.
    pub async fn finish(&self) {
        self.finish_before_close().await;
        self.stream.shutdown_write();
    }

    /// As [`Transport::finish`], but leaves the socket's write side to the close that follows at once.
    pub async fn finish_before_close(&self) {
        if let Some(sealed) = &self.sealed {
            Transport::seal_end(sealed);
            let _ = self.flush().await;
        }
    }

    /// Ends the connection with a fatal alert, if it is under TLS.
    pub async fn reject(&self, alert: tls::Alert) {
        if let Some(sealed) = &self.sealed {
            sealed.session.borrow_mut().fail(alert, &mut sealed.taken_output());
            let _ = self.flush().await;
        }
        self.stream.shutdown_write();
    }

    /// Makes the close that follows a reset (and sends no close_notify), so that a cut message cannot be mistaken for a whole one.
    pub fn reset_on_close(&self) {
        self.stream.reset_on_close();
    }
}

fn bytes_in(slices: &[&[u8]; 3]) -> usize {
    slices.iter().map(|slice| slice.len()).sum()
}

/// Bytes on their way out. A struct and not an `async fn`: it is part of every message's future, several times over.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Send<'t> {
    transport: &'t Transport,
    slices: [&'t [u8]; 3],
}

impl Future for Send<'_> {
    type Output = Result<(), Broken>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let transport = self.transport;
        transport.poll_send_slices(context, &mut self.slices)
    }
}

impl Sealed {
    /// Whether something can be read without the socket: ciphertext that was not opened yet, or the rest of a record that was opened
    /// with too little room. The socket may have nothing more to say, so this must not wait for it.
    fn holds_input(&self) -> bool {
        !self.input.borrow().is_empty() || self.session.borrow().has_plaintext()
    }

    /// Calls into the session with the input held, and drops the input's memory once it is used up.
    fn with_input<T>(&self, call: impl FnOnce(&mut Session, &mut &[u8], &mut Vec<u8>) -> T) -> T {
        let mut input = self.input.borrow_mut();
        let held = input.len();
        let mut rest: &[u8] = &input;
        let result = call(&mut self.session.borrow_mut(), &mut rest, &mut self.taken_output());
        let used = held - rest.len();
        input.advance(used);
        if input.is_empty() {
            *input = Chunk::empty();
        }
        result
    }

    fn seal(&self, plain: &[u8]) -> Result<(), tls::Error> {
        self.session.borrow_mut().write(plain, &mut self.taken_output())
    }

    /// Small messages become one record, at the price of one copy.
    fn seal_joined(&self, slices: [&[u8]; 3]) -> Result<(), tls::Error> {
        if let [only, [], []] = slices {
            return self.seal(only);
        }
        let mut joined = buffer();
        slices.iter().for_each(|slice| joined.extend_from_slice(slice));
        let result = self.seal(&joined);
        recycle(joined);
        result
    }

    /// The output, with memory from the pool if it had none.
    fn taken_output(&self) -> std::cell::RefMut<'_, Vec<u8>> {
        let mut output = self.output.borrow_mut();
        if output.capacity() == 0 {
            *output = buffer();
        }
        output
    }
}
