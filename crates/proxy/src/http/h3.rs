//! HTTP/3 on a client's connection (RFC 9114): one task per request, all on the connection's core.
//!
//! QUIC is the crate `quic`'s, frames and field sections are `wire`'s. Owned here: the streams that a connection stands on, how many requests it has in all,
//! how it leaves, and what becomes of one request stream. Nothing is pushed, and priorities are not looked at.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use config::limits::Limits;
use net::clock::coarse;
use net::{Deadline, in_place};
use quic::{BiStream, RecvStream, SendStream};
use reason::Reason;
use wire::http::http3::Code;
use wire::http::http3::control::{write_beginning, write_goaway};
use wire::http::http3::streams::{ClientStream, Critical, Said};
use wire::http::{RequestHead, Version};

use crate::connection::Conn;
use crate::exchange::{self, Exchange};
use crate::http::h1;
use crate::http::streams::{Rejected, Running, Slot, end_of_nothing, poll_leave, terms};
use crate::http::upgraded::carry_stream;
use crate::http2::floods::Floods;
use crate::message::context::{Aborted, Context};
use crate::message::h3::{H3Body, NoHead, Shared, Terms};
use crate::message::h3_answer::H3Answer;
use crate::message::ledger::OpenRequest;
use crate::message::received::is_malformed;
use crate::message::rejection::Rejection;
use crate::message::scratch::{self, Timers};
use crate::message::sides::{ResponseSink, TunnelSink};
use crate::worker::Worker;

/// Between saying that we are about to leave and saying which requests are the last; and how long a client without requests may then take to close.
const FAREWELL: Duration = Duration::from_secs(1);

/// While a request is under way and all is quiet: one may be lost, and a client may ask for an idle timeout of half of ours.
const PINGS_PER_IDLE_TIMEOUT: u32 = 4;

/// The last stream that there can be for a request (RFC 9114 §5.2): all that come are still served.
const LAST_STREAM: u64 = (1 << 62) - 4;

/// From one stream of a client for a request to the next (RFC 9000 §2.1).
const NEXT_STREAM: u64 = 4;

/// Streams that are ours: the control stream. Without a table of QPACK there is nothing to say on its streams.
const OWN_STREAMS: usize = 1;

/// The most that is taken at once from a stream that a client opened for itself.
const MOST_AT_ONCE: usize = 4 * 1024;

/// Serves requests until the connection ends.
pub async fn serve(quic: quic::Connection, conn: Rc<Conn>, worker: Rc<Worker>) {
    let (limits, takes_websocket) = terms(&conn, &worker);
    let shared = Rc::new(Shared::new(quic, Floods::of_client(&limits)));
    let end = match Streams::open(&shared, &limits, takes_websocket) {
        Some(streams) => {
            Connection { shared, streams, limits, takes_websocket, conn: Rc::clone(&conn) }.run(&worker).await
        }
        // Three streams must be ours to open (RFC 9114 §6.2).
        None => {
            shared.end(Code::STREAM_CREATION_ERROR);
            Some(Reason::Http3ProtocolError)
        }
    };
    if let Some(reason) = end {
        h1::record_silence(&conn, &worker, reason);
    }
}

/// What happens to a connection.
enum Turn {
    Opened(BiStream),
    /// It is no more.
    Lost,
    Leave(Reason),
    /// The last request has ended.
    Idle,
}

/// How far a connection has come in leaving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// It has said that it is about to.
    Announced,
    /// It has said which requests are the last.
    Bounded,
}

/// One step of leaving, which a client that goes on asking cannot put off. Times are on the coarse clock.
struct Step {
    leaving: Leaving,
    /// The last request that is served has ended.
    is_over: bool,
    began_at: Duration,
    /// When it was last found that it has to go on.
    looked_at: Duration,
}

impl Step {
    fn begin(leaving: Leaving, is_over: bool) -> Step {
        let now = coarse();
        Step { leaving, is_over, began_at: now, looked_at: now }
    }

    /// Until when the connection stays as it is, if nothing happens. Begins the next step where that is due.
    fn until(&mut self, leaving: Leaving, is_idle: bool, keep_alive_timeout: Duration) -> Duration {
        let is_over = is_idle && leaving == Leaving::Bounded;
        if (self.leaving, self.is_over) != (leaving, is_over) {
            *self = Step::begin(leaving, is_over);
        }
        let is_farewell = is_over || leaving == Leaving::Announced;
        if is_farewell { self.looked_at + FAREWELL } else { coarse() + keep_alive_timeout }
    }

    /// Has it last once more as long, if all of it is no longer than that.
    fn goes_on(&mut self, most: Duration) -> bool {
        self.looked_at = coarse();
        self.looked_at < self.began_at + most
    }
}

struct Connection {
    shared: Rc<Shared>,
    streams: Streams,
    limits: Limits,
    takes_websocket: bool,
    conn: Rc<Conn>,
}

impl Connection {
    /// Gives the reason for the log if there was no request, or the client went too far.
    async fn run(mut self, worker: &Rc<Worker>) -> Option<Reason> {
        // QUIC bounds how many streams there are.
        let running = Running::new(u32::MAX);
        let mut deadline = Deadline::new();
        let mut stage = pin!(worker.shutdown.notified());
        let (mut leaving, mut accepted, mut next_stream) = (Leaving::No, 0, 0);
        let mut why = Reason::ClosedWithoutRequest;
        let mut step = Step::begin(leaving, false);
        loop {
            let is_idle = running.count() == 0;
            let until = step.until(leaving, is_idle, self.limits.keep_alive_timeout);
            let until = if is_idle || leaving == Leaving::Announced { until } else { until.min(self.next_ping()) };
            let is_served = accepted > 0;
            let next = poll_fn(|context| {
                if let Poll::Ready(turn) = self.poll(context) {
                    return Poll::Ready(turn);
                }
                match leaving {
                    Leaving::No if self.shared.quic.is_asked_to_leave() => Poll::Ready(Turn::Leave(Reason::Drained)),
                    Leaving::No => poll_leave(worker, stage.as_mut(), is_served, context).map(Turn::Leave),
                    _ => running.poll_idle(context, is_idle).map(|()| Turn::Idle),
                }
            });
            match deadline.until(until, next).await {
                Ok(Turn::Opened(stream)) => {
                    let id = stream.recv.id();
                    if leaving == Leaving::Bounded {
                        refuse(stream);
                        continue;
                    }
                    accepted += 1;
                    next_stream = next_stream.max(id + NEXT_STREAM);
                    if leaving == Leaving::No && accepted >= self.limits.max_requests_per_connection {
                        leaving = Leaving::Announced;
                        self.streams.goaway(LAST_STREAM);
                    }
                    self.spawn(stream, worker, &running);
                }
                Ok(Turn::Lost) => break,
                Ok(Turn::Leave(reason)) => {
                    (leaving, why) = (Leaving::Announced, reason);
                    self.streams.goaway(LAST_STREAM);
                }
                Ok(Turn::Idle) => {}
                Err(_) if leaving == Leaving::Announced => {
                    leaving = Leaving::Bounded;
                    self.streams.goaway(next_stream);
                }
                // QUIC would end it for being idle, while a response or a tunnel is only quiet.
                Err(_) if running.count() > 0 => self.shared.quic.ping(),
                Err(_) if leaving == Leaving::No => {
                    (leaving, why) = (Leaving::Announced, Reason::IdleWithoutRequest);
                    self.streams.goaway(LAST_STREAM);
                }
                // What it has not acknowledged would be lost to it. One that never does is not waited for.
                Err(_) if self.is_sending() && step.goes_on(self.limits.keep_alive_timeout) => {}
                Err(_) => self.shared.end(Code::NO_ERROR),
            }
        }
        match self.shared.ended() {
            Some(Code::EXCESSIVE_LOAD) => Some(Reason::Http3Flood),
            Some(Code::NO_ERROR) | None if accepted == 0 => Some(why),
            Some(Code::NO_ERROR) | None => None,
            Some(_) => Some(Reason::Http3ProtocolError).filter(|_| accepted == 0),
        }
    }

    /// When a client whose requests are quiet is asked whether it is there, on the coarse clock.
    fn next_ping(&self) -> Duration {
        coarse() + self.shared.quic.idle_timeout() / PINGS_PER_IDLE_TIMEOUT
    }

    /// Whether the client has not acknowledged all of a response.
    fn is_sending(&self) -> bool {
        self.shared.quic.sending() > OWN_STREAMS
    }

    /// Moves the streams that the connection stands on, and gives what is next.
    fn poll(&mut self, context: &mut TaskContext<'_>) -> Poll<Turn> {
        let Connection { shared, streams, .. } = self;
        if shared.quic.lost().is_some() {
            return Poll::Ready(Turn::Lost);
        }
        if let Err(code) = streams.poll(shared, context) {
            shared.end(code);
        }
        match shared.quic.poll_accept_bi(context) {
            Poll::Ready(Ok(stream)) => Poll::Ready(Turn::Opened(stream)),
            Poll::Ready(Err(_)) => Poll::Ready(Turn::Lost),
            Poll::Pending => Poll::Pending,
        }
    }

    fn spawn(&self, stream: BiStream, worker: &Rc<Worker>, running: &Rc<Running>) {
        let slot = running.begin();
        let (shared, takes_websocket) = (Rc::clone(&self.shared), self.takes_websocket);
        let (conn, worker) = (Rc::clone(&self.conn), Rc::clone(worker));
        tokio::task::spawn_local(in_place(|| request(slot, stream, (shared, takes_websocket), conn, worker)));
    }
}

/// The client may send the request again elsewhere (RFC 9114 §4.1.1).
fn refuse(mut stream: BiStream) {
    stream.recv.stop(Code::REQUEST_REJECTED.0);
    stream.send.reset(Code::REQUEST_REJECTED.0);
}

/// The streams that the connection stands on: our control stream, and those that the client opened for itself.
struct Streams {
    control: SendStream,
    /// What waits to be said there.
    unsaid: Bytes,
    critical: Critical,
    /// QUIC bounds how many there are.
    clients: Vec<(ClientStream, RecvStream)>,
}

impl Streams {
    /// Begins the control stream. None if the client does not let us have one.
    fn open(shared: &Shared, limits: &Limits, takes_websocket: bool) -> Option<Streams> {
        let control = shared.quic.open_uni()?;
        let mut unsaid = Vec::new();
        write_beginning(limits.max_head_bytes as u64, takes_websocket, fastrand::u8(..), &mut unsaid);
        Some(Streams { control, unsaid: unsaid.into(), critical: Critical::default(), clients: Vec::new() })
    }

    /// Says that no request on this stream or a later one is served.
    fn goaway(&mut self, stream: u64) {
        let mut unsaid = self.unsaid.to_vec();
        write_goaway(stream, &mut unsaid);
        self.unsaid = unsaid.into();
    }

    /// Says what is to be said, and reads what the client says.
    fn poll(&mut self, shared: &Shared, context: &mut TaskContext<'_>) -> Result<(), Code> {
        while !self.unsaid.is_empty() {
            match self.control.poll_write_bytes(&mut self.unsaid, context) {
                Poll::Ready(Ok(_)) => {}
                // Nobody may stop it (RFC 9114 §6.2.1).
                Poll::Ready(Err(_)) => return Err(Code::CLOSED_CRITICAL_STREAM),
                Poll::Pending => break,
            }
        }
        if self.control.poll_stopped(context).is_ready() {
            return Err(Code::CLOSED_CRITICAL_STREAM);
        }
        while let Poll::Ready(Ok(stream)) = shared.quic.poll_accept_uni(context) {
            // Also of one that says nothing.
            shared.carried_nothing();
            self.clients.push((ClientStream::default(), stream));
        }
        let mut index = 0;
        while let Some((reader, stream)) = self.clients.get_mut(index) {
            if read(reader, stream, &mut self.critical, shared, context)? {
                index += 1;
            } else {
                self.clients.swap_remove(index);
            }
        }
        Ok(())
    }
}

/// Reads what a client says on a stream of its own. False when there is nothing more to come.
fn read(
    reader: &mut ClientStream,
    stream: &mut RecvStream,
    critical: &mut Critical,
    shared: &Shared,
    context: &mut TaskContext<'_>,
) -> Result<bool, Code> {
    loop {
        match stream.poll_read(MOST_AT_ONCE, context) {
            Poll::Pending => return Ok(true),
            Poll::Ready(Ok(Some(bytes))) => {
                // However little is said.
                shared.carried_nothing();
                let mut rest = &bytes[..];
                while let Some(said) = reader.next(&mut rest, critical)? {
                    if said == Said::Unknown {
                        stream.stop(Code::STREAM_CREATION_ERROR.0);
                        return Ok(false);
                    }
                    shared.carried_nothing();
                }
            }
            Poll::Ready(Ok(None) | Err(_)) if shared.quic.lost().is_some() => return Ok(false),
            Poll::Ready(Ok(None) | Err(_)) => return reader.finish().map(|()| false),
        }
        if shared.ended().is_some() {
            return Ok(false);
        }
    }
}

/// Why a request is not served, and the code that its stream ends with if it gets no response.
type NotServed = (Rejected, Code);

/// Serves one request, whose place is given back when all else of it is gone.
async fn request(
    _slot: Slot,
    BiStream { recv, send }: BiStream,
    (shared, takes_websocket): (Rc<Shared>, bool),
    conn: Rc<Conn>,
    worker: Rc<Worker>,
) {
    let (conn, worker) = (&*conn, &*worker);
    let opened_at = coarse();
    let mut parts = scratch::take();
    let generation = worker.pin();
    // Also of one whose head never comes.
    parts.request.version = Version::H3;
    let mut open = OpenRequest::new(&mut parts, conn, worker);
    let limits = generation.config.limits_at(&conn.listener.name);
    let mut body = H3Body::new(recv, Rc::clone(&shared), limits);
    let mut sink = H3Answer::new(send, Rc::clone(&shared), limits.pace());
    let terms = Terms { limits, takes_websocket };
    let read = read_head((&mut body, &mut sink), terms, open.parts).await;
    let context = Context::of_read(worker, conn, &generation, &mut open.parts.request);
    let scratch::Parts { request, response, timers } = &mut *open.parts;
    let ledger = &mut open.ledger;
    let read = match read {
        Ok(()) => begin(&mut body, &mut sink, request, timers, limits).await,
        not_served => not_served,
    };
    let is_rejected = matches!(read, Err((Rejected::Request(_) | Rejected::Stream(_), _)));
    let outcome = match read {
        Ok(()) => {
            let (body, sink) = (&mut body, &mut sink);
            let exchange = Exchange { context, head: request, response, body, sink, ledger: &mut *ledger, timers };
            match exchange::run(exchange).await {
                Ok(None) => Ok(()),
                Ok(Some(upgraded)) => Box::pin(carry_stream(context, (body, sink), upgraded, ledger))
                    .await
                    .map_err(|_| Code::REQUEST_CANCELLED),
                Err(Aborted) => Err(Code::INTERNAL_ERROR),
            }
        }
        Err((Rejected::Stream(reason), code)) => {
            ledger.blame(reason);
            Err(code)
        }
        Err((Rejected::Cancelled, code)) => {
            ledger.blame(Reason::ClientDisconnected);
            Err(code)
        }
        Err((Rejected::Request(rejection), _)) => {
            let rejected = exchange::reject(&rejection, context, request, &mut sink, ledger).await;
            rejected.map_err(|Aborted| Code::INTERNAL_ERROR)
        }
    };
    match outcome {
        _ if is_rejected || body.malformed().is_some() => shared.floods.rejected(),
        Err(_) if !sink.has_begun() => shared.floods.cancelled(coarse().saturating_sub(opened_at)),
        _ => shared.floods.answered(),
    }
    shared.check_floods();
    let is_client_waiting = open.ledger.is_client_waiting();
    open.end();
    if outcome == Err(Code::INTERNAL_ERROR) && is_client_waiting {
        sink.delivered().await;
    }
    end(outcome, &mut body, &mut sink);
    scratch::give(parts);
}

/// Ends a stream after this outcome.
fn end(outcome: Result<(), Code>, body: &mut H3Body, sink: &mut H3Answer) {
    match outcome {
        Err(code) => {
            let code = if body.malformed().is_some() { Code::MESSAGE_ERROR } else { code };
            sink.reset(code);
            body.stop(code);
        }
        // The answer is whole and the rest of the request unwanted (RFC 9114 §4.1).
        Ok(()) if !body.is_finished() => body.stop(Code::NO_ERROR),
        Ok(()) => {}
    }
}

/// Reads the head of a request, within the time that it may take.
async fn read_head(
    (body, sink): (&mut H3Body, &mut H3Answer),
    terms: Terms<'_>,
    scratch::Parts { request, timers, .. }: &mut scratch::Parts,
) -> Result<(), NotServed> {
    let head = poll_fn(|context| match body.poll_head(terms, request, context) {
        Poll::Pending => sink.poll_gone(context).map(|_| Err(NoHead::Cancelled)),
        read => read,
    });
    let read = timers.upload.within(terms.limits.request_header_timeout, head).await;
    sink.responds_to(request);
    match read {
        Ok(Ok(())) => Ok(()),
        Ok(Err(NoHead::Cancelled)) => Err((Rejected::Cancelled, Code::REQUEST_CANCELLED)),
        Ok(Err(NoHead::Malformed(reason, code))) => Err((Rejected::Stream(reason), code)),
        Ok(Err(NoHead::Rejected(error))) if is_malformed(&error) => {
            Err((Rejected::Stream(error.reason), Code::MESSAGE_ERROR))
        }
        Ok(Err(NoHead::Rejected(error))) => Err((Rejected::Request(error.into()), Code::MESSAGE_ERROR)),
        Err(_) => Err((Rejected::Request(Rejection::of(Reason::RequestHeaderTimeout)), Code::MESSAGE_ERROR)),
    }
}

/// Whether a request whose head is read is to be served: nothing is begun for a client that has already gone on.
async fn begin(
    body: &mut H3Body,
    sink: &mut H3Answer,
    head: &RequestHead,
    timers: &mut Timers,
    limits: &Limits,
) -> Result<(), NotServed> {
    let is_gone = poll_fn(|context| Poll::Ready(sink.poll_gone(context).is_ready())).await;
    if is_gone {
        return Err((Rejected::Cancelled, Code::REQUEST_CANCELLED));
    }
    end_of_nothing(body, head, timers, limits).await.map_err(|rejected| (rejected, Code::MESSAGE_ERROR))
}
