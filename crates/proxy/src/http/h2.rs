//! HTTP/2 on a client's connection (RFC 9113): one task per stream, all on the connection's core.
//!
//! Framing, flow control and HPACK are the `h2` crate's. Ours are the floods it does not bound (`h2_floods`), how many requests a connection has
//! at once and in all, streams whose client has lost interest, and the translation between its messages and the ones that `exchange` works on.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use config::limits::Limits;
use h2::server::{Connection, SendResponse};
use h2::{Reason as ErrorCode, RecvStream};
use http::Request;
use net::clock::coarse;
use net::in_place;
use net::pace::Pace;
use net::{Chunk, Deadline};
use reason::Reason;
use transport::Transport;

use crate::connection::Conn;
use crate::exchange::upstream_h1::Upgraded;
use crate::exchange::{self, Exchange};
use crate::http::h1;
use crate::http::streams::{Rejected, Running, Slot, end_of_nothing, poll_leave, terms};
use crate::http::upgraded::carry_stream;
use crate::http2::blocks::list_bound;
use crate::http2::floods::Floods;
use crate::http2::frames::{Noticed, Sender};
use crate::http2::io::H2Io;
use crate::http2::outbox::Outbox;
use crate::http2::windows::{Size, Windows};
use crate::message::context::{Aborted, Context};
use crate::message::h2::{H2Answer, H2Body, Sending, read_request};
use crate::message::ledger::{Ledger, OpenRequest};
use crate::message::received::is_malformed;
use crate::message::scratch;
use crate::message::sides::{MessageBody, ResponseSink, TunnelSink};
use crate::worker::Worker;

/// What a client of HTTP/2 says first (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes a client may send on one stream ahead of us, at first.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Bytes a client may send on one connection ahead of us, at first and beside what open WebSockets take: a full window for each, which is all that one may
/// have waiting, so that those whose servers do not read leave the other streams what they had.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// What small DATA frames that wait to be read may take beyond the window, in the library's units: 256 for each. Enough for a full window of messages
/// of 16 bytes, which a gRPC client sends while its upstream is busy; beyond it the library ends the connection.
const SMALL_FRAMES: usize = 256 * (STREAM_WINDOW as usize / 16);

/// Bytes of responses the library may hold for one stream.
const SEND_BUFFER: usize = 128 * 1024;

/// How long the rest of a body is dropped that nobody reads.
const LINGER: Duration = Duration::from_secs(1);

/// Without streams, how long a client may take to acknowledge the farewell before it is closed under it.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whether the first bytes of a connection are the preface of HTTP/2; none if there are too few to tell.
pub fn is_preface(first: &[u8]) -> Option<bool> {
    let (begun, _) = PREFACE.split_at(first.len().min(PREFACE.len()));
    if first.starts_with(PREFACE) { Some(true) } else { Some(false).filter(|_| first != begun) }
}

/// Serves streams until the connection ends. `input`: bytes of the client that were received already.
pub async fn serve(transport: Rc<Transport>, input: Chunk, conn: Rc<Conn>, worker: Rc<Worker>) {
    let ((limits, announces_websocket), mut deadline, mut is_late) = (terms(&conn, &worker), Deadline::new(), false);
    let sending = Sending { outbox: Rc::default(), transport };
    let (io, noticed) = H2Io::new(Rc::clone(&sending.transport), input, Sender::Client, Floods::of_client(&limits));
    let opening = builder(&limits, announces_websocket).handshake::<_, Bytes>(io.with_outbox(&sending.outbox));
    let opening = deadline.within(limits.handshake_timeout, opening);
    let Ok(Ok(mut connection)) = opening.await.inspect_err(|_| is_late = true) else {
        h1::record_silence(&conn, &worker, why_unopened(&noticed, is_late));
        return close(&sending, None).await;
    };
    let mut windows = windows(&mut connection, &limits, &worker);
    let mut stage = pin!(worker.shutdown.notified());
    let (mut leaving, mut accepted) = (None, 0);
    let mut turns = Turns::default();
    let streams = Rc::new(Streams::new(&limits));
    let end = loop {
        let is_idle = streams.running.count() == 0;
        let limit = if leaving.is_some() && is_idle { FAREWELL } else { limits.keep_alive_timeout };
        let next = poll_fn(|context| {
            let parts = (&*noticed, &*sending.outbox);
            turns.poll(&noticed, || match poll_streams((&mut connection, &mut windows), parts, &streams, context) {
                Poll::Pending if leaving.is_none() => {
                    poll_leave(&worker, stage.as_mut(), accepted > 0, context).map(Turn::Leave)
                }
                Poll::Pending => streams.running.poll_idle(context, is_idle).map(|()| Turn::Idle),
                next => next,
            })
        });
        match deadline.within(limit, next).await {
            Ok(Turn::Accepted(Some(Ok(opened)))) => {
                accepted += 1;
                if leaving.is_none() && accepted >= limits.max_requests_per_connection {
                    // It has served requests, so no line gives this reason.
                    leaving = Some(Reason::Drained);
                    connection.graceful_shutdown();
                }
                let is_late = accepted > limits.max_requests_per_connection + u64::from(limits.h2_max_streams);
                spawn(*opened, is_late, (&noticed, &sending), (&conn, &worker), &streams);
            }
            Ok(Turn::Accepted(None)) => break leaving.unwrap_or(Reason::ClosedWithoutRequest),
            Ok(Turn::Accepted(Some(Err(_)))) => break Reason::Http2ProtocolError,
            Ok(Turn::Leave(why)) => {
                leaving = Some(why);
                connection.graceful_shutdown();
            }
            Ok(Turn::Flooded) => {
                give_up(&mut connection, ErrorCode::ENHANCE_YOUR_CALM, &mut deadline, &limits).await;
                break noticed.floods.why();
            }
            // Quiet connections with streams on them are waiting for an upstream, or for a client that takes the last responses: how slowly, the socket knows.
            Ok(Turn::Idle) => {}
            Err(_) if streams.running.count() > 0 || !sending.outbox.is_empty() => {}
            Err(_) => {
                // A client that does not answer the farewell either is gone, or wants its place held for nothing.
                if let Some(why) = leaving {
                    give_up(&mut connection, ErrorCode::NO_ERROR, &mut deadline, &limits).await;
                    break why;
                }
                leaving = Some(Reason::IdleWithoutRequest);
                connection.graceful_shutdown();
            }
        }
    };
    drop(connection);
    let is_flooded = noticed.floods.is_flooded();
    if accepted == 0 || is_flooded {
        h1::record_silence(&conn, &worker, end);
    }
    close(&sending, Some(limits.pace()).filter(|_| !is_flooded)).await;
}

/// Why there is no HTTP/2 on a connection. Browsers open spare ones and close them unused.
fn why_unopened(noticed: &Noticed, is_late: bool) -> Reason {
    let (_, heard) = noticed.traffic();
    match (heard, is_late) {
        (0, false) => Reason::ClosedWithoutRequest,
        (0, true) => Reason::IdleWithoutRequest,
        _ => Reason::Http2PrefaceInvalid,
    }
}

/// Closes the connection under the streams, once its client has what was sent, at this pace.
async fn close(sending: &Sending, pace: Option<Pace>) {
    if sending.outbox.has_timed_out() {
        // What the kernel still holds for the client would be held on.
        return sending.transport.reset_on_close();
    }
    // What the client has sent meanwhile would reset the connection and take the farewell with it.
    Box::pin(h1::linger(&sending.transport, pace)).await;
}

/// Tells one turn of a connection from the next: it ends where the connection has nothing more to do, or leaves it to later.
#[derive(Default)]
struct Turns {
    goes_on: bool,
}

impl Turns {
    fn poll(&mut self, noticed: &Noticed, poll: impl FnOnce() -> Poll<Turn>) -> Poll<Turn> {
        if !self.goes_on {
            noticed.floods.begin_turn();
        }
        let next = poll();
        self.goes_on = next.is_ready();
        next
    }
}

/// A stream just opened.
type Opened = (Request<RecvStream>, SendResponse<Bytes>);

enum Turn {
    Accepted(Option<Result<Box<Opened>, h2::Error>>),
    Leave(Reason),
    Flooded,
    /// The last stream has ended.
    Idle,
}

/// Streams of one connection. One that was reset frees its place in the library at once, but here only when its task has ended; until then the next one
/// waits to be accepted.
struct Streams {
    running: Rc<Running>,
    /// Streams that the library may keep while nobody asks it for them: those that are open, and those that were reset since.
    most_unasked: u32,
    /// Streams that have become tunnels.
    tunnels: Cell<u32>,
}

impl Streams {
    fn new(limits: &Limits) -> Streams {
        Streams {
            running: Running::new(limits.h2_max_streams),
            most_unasked: limits.h2_max_streams.saturating_add(limits.h2_failed_request_burst),
            tunnels: Cell::new(0),
        }
    }
}

/// Counts a stream among the tunnels until it ends.
struct OpenTunnel<'s>(&'s Streams);

impl<'s> OpenTunnel<'s> {
    fn of(streams: &'s Streams) -> OpenTunnel<'s> {
        streams.tunnels.set(streams.tunnels.get() + 1);
        OpenTunnel(streams)
    }
}

impl Drop for OpenTunnel<'_> {
    fn drop(&mut self) {
        self.0.tunnels.set(self.0.tunnels.get() - 1);
    }
}

/// The next stream once there is a place for it, unless the client has sent too much that brings nothing.
fn poll_streams(
    (connection, windows): (&mut Connection<H2Io, Bytes>, &mut Windows),
    (noticed, outbox): (&Noticed, &Outbox),
    streams: &Streams,
    context: &mut std::task::Context<'_>,
) -> Poll<Turn> {
    if noticed.floods.is_flooded() {
        return Poll::Ready(Turn::Flooded);
    }
    if streams.running.count() == 0 {
        windows.rest();
    }
    windows.poll(connection, &noticed.taken, streams.tunnels.get(), context);
    let accepted = if streams.running.is_full(context) {
        // Frames of the streams that have a place are moved all the same. The library keeps what is open or was cancelled, and rejects the rest.
        let closed = connection.poll_closed(context);
        noticed.floods.accepted_all_but(streams.most_unasked);
        closed.map(|closed| closed.err().map(Err))
    } else {
        let accepted = connection.poll_accept(context);
        match accepted {
            Poll::Ready(_) => noticed.floods.accepted(),
            Poll::Pending => noticed.floods.accepted_all(),
        }
        accepted
    };
    if let Poll::Ready(accepted) = accepted {
        return Poll::Ready(Turn::Accepted(accepted.map(|opened| opened.map(Box::new))));
    }
    if !outbox.is_blocked() {
        outbox.drained();
    }
    // What was just read may have been too much.
    if noticed.floods.is_flooded() { Poll::Ready(Turn::Flooded) } else { Poll::Pending }
}

fn builder(limits: &Limits, announces_websocket: bool) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    if announces_websocket {
        // RFC 8441 §3. Who asks for a WebSocket without that has its stream reset.
        builder.enable_connect_protocol();
    }
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(SMALL_FRAMES)
        .max_concurrent_streams(limits.h2_max_streams)
        .max_header_list_size(list_bound(limits.max_head_bytes))
        .max_send_buffer_size(SEND_BUFFER)
        // All that may be open at once may be reset at once, and more may come for them.
        .max_concurrent_reset_streams(limits.h2_max_streams as usize)
        // Errors are held against what goes well (`h2_floods`).
        .max_local_error_reset_streams(None)
        .max_pending_accept_reset_streams(limits.h2_failed_request_burst as usize);
    builder
}

/// The windows of a connection just opened.
fn windows(connection: &mut Connection<H2Io, Bytes>, limits: &Limits, worker: &Worker) -> Windows {
    let first = Size { stream: STREAM_WINDOW, connection: CONNECTION_WINDOW };
    let growth = worker.window_growth(limits, CONNECTION_WINDOW / STREAM_WINDOW);
    Windows::new(first, growth, connection.ping_pong())
}

/// Says why and lets it be written, within bounds.
async fn give_up(
    connection: &mut Connection<H2Io, Bytes>,
    reason: ErrorCode,
    deadline: &mut Deadline,
    limits: &Limits,
) {
    connection.abrupt_shutdown(reason);
    let closed = poll_fn(|context| connection.poll_closed(context));
    let _ = deadline.within(limits.handshake_timeout, closed).await;
}

fn spawn(
    (request, mut respond): Opened,
    is_late: bool,
    (noticed, sending): (&Rc<Noticed>, &Sending),
    (conn, worker): (&Rc<Conn>, &Rc<Worker>),
    streams: &Rc<Streams>,
) {
    // The client goes on although it was told to go, and may try again elsewhere (RFC 9113 §8.7).
    if is_late {
        respond.send_reset(ErrorCode::REFUSED_STREAM);
        noticed.forget(request.body().stream_id().as_u32());
        return;
    }
    let slot = (streams.running.begin(), Rc::clone(streams));
    let (noticed, sending) = (Rc::clone(noticed), sending.clone());
    let (conn, worker) = (Rc::clone(conn), Rc::clone(worker));
    tokio::task::spawn_local(in_place(|| stream(slot, (request, respond), (noticed, sending), conn, worker)));
}

/// Whether the client has reset the stream.
async fn is_gone(sink: &mut H2Answer) -> bool {
    poll_fn(|context| Poll::Ready(sink.poll_gone(context).is_ready())).await
}

/// Serves one stream, whose place is given back when all else of it is gone.
async fn stream(
    (_slot, streams): (Slot, Rc<Streams>),
    (request, respond): Opened,
    (noticed, sending): (Rc<Noticed>, Sending),
    conn: Rc<Conn>,
    worker: Rc<Worker>,
) {
    let (conn, worker) = (&*conn, &*worker);
    let opened_at = coarse();
    let mut parts = scratch::take();
    let generation = worker.pin();
    let mut open = OpenRequest::new(&mut parts, conn, worker);
    let (message, received) = request.into_parts();
    let limits = generation.config.limits_at(&conn.listener.name);
    let id = received.stream_id().as_u32();
    let noticed_of = (noticed.take_path(id), noticed.is_too_large(id));
    let read = read_request(&message, noticed_of, received.is_end_stream(), limits, &mut open.parts.request);
    // Of one that is too large there is more than its stream may keep.
    drop(message);
    let mut body = H2Body::of_request(received, Rc::clone(&noticed), &open.parts.request);
    let mut sink = H2Answer::new(respond, &open.parts.request, sending, limits.pace());
    let context = Context::of_read(worker, conn, &generation, &mut open.parts.request);
    let scratch::Parts { request, response, timers } = &mut *open.parts;
    let ledger = &mut open.ledger;
    let read = match (body.malformed(), read) {
        // Nothing is begun for a client that has already gone on.
        _ if is_gone(&mut sink).await => Err(Rejected::Cancelled),
        // Found beside the library, perhaps in trailers that came along with the head.
        (Some(code), _) => Err(Rejected::Stream(code)),
        (None, Err(error)) if is_malformed(&error) => Err(Rejected::Stream(error.reason)),
        (None, Err(error)) => Err(Rejected::Request(error.into())),
        (None, Ok(())) => end_of_nothing(&mut body, request, timers, limits).await,
    };
    let is_rejected = matches!(read, Err(Rejected::Request(_)));
    let outcome = match read {
        Ok(()) => {
            let (body, sink) = (&mut body, &mut sink);
            let exchange = Exchange { context, head: request, response, body, sink, ledger: &mut *ledger, timers };
            let upgraded = exchange::run(exchange).await;
            carried(upgraded, context, (body, sink), ledger, &streams).await
        }
        Err(Rejected::Stream(reason)) => {
            ledger.blame(reason);
            Err(ErrorCode::PROTOCOL_ERROR)
        }
        Err(Rejected::Cancelled) => {
            ledger.blame(Reason::ClientDisconnected);
            Err(ErrorCode::CANCEL)
        }
        Err(Rejected::Request(rejection)) => {
            let rejected = exchange::reject(&rejection, context, request, &mut sink, ledger).await;
            rejected.map_err(|Aborted| ErrorCode::INTERNAL_ERROR)
        }
    };
    match outcome {
        _ if is_rejected || outcome == Err(ErrorCode::PROTOCOL_ERROR) => noticed.floods.rejected(),
        Err(_) if !sink.has_begun() => noticed.floods.cancelled(coarse().saturating_sub(opened_at)),
        _ => noticed.floods.answered(),
    }
    let most = Some(limits.max_drain_bytes).filter(|_| !open.parts.request.is_extended_connect());
    let is_client_waiting = open.ledger.is_client_waiting();
    open.end();
    if outcome == Err(ErrorCode::INTERNAL_ERROR) && is_client_waiting {
        sink.delivered().await;
    }
    end(outcome, (&mut body, &mut sink), most, &mut parts.timers.upload).await;
    scratch::give(parts);
}

/// Ends a stream whose exchange has come to this. `most`: bytes of a body that nobody reads which are dropped first, if it is one.
async fn end(
    outcome: Result<(), ErrorCode>,
    (body, sink): (&mut H2Body, &mut H2Answer),
    most: Option<u64>,
    deadline: &mut Deadline,
) {
    match outcome {
        Err(_) if body.malformed().is_some() => sink.reset(ErrorCode::PROTOCOL_ERROR),
        Err(reason) => sink.reset(reason),
        Ok(()) => {
            // Old clients, such as curl 7.88, take a reset while they still send for a failure, although the response was whole.
            if let Some(most) = most {
                drop_rest(body, most, deadline).await;
            }
            if !body.is_finished() {
                // The rest of the request is unwanted (RFC 9113 §8.1).
                sink.reset(ErrorCode::NO_ERROR);
            }
        }
    }
}

/// Drops what is left of a body that nobody reads, if that is little and comes soon.
async fn drop_rest(body: &mut H2Body, most: u64, deadline: &mut Deadline) {
    let until = coarse() + LINGER;
    let mut dropped = 0;
    while !body.is_finished() && body.ends_within(most) && dropped <= most {
        match deadline.until(until, body.next()).await {
            Ok(Ok(Some(piece))) => dropped += piece.len() as u64,
            _ => break,
        }
    }
}

/// What becomes of a stream with its exchange: where that has opened a tunnel, it is carried to its end.
async fn carried(
    upgraded: Result<Option<Box<Upgraded>>, Aborted>,
    context: Context<'_>,
    stream: (&mut H2Body, &mut H2Answer),
    ledger: &mut Ledger,
    streams: &Streams,
) -> Result<(), ErrorCode> {
    match upgraded {
        Ok(None) => Ok(()),
        Ok(Some(upgraded)) => {
            let _open = OpenTunnel::of(streams);
            Box::pin(carry_stream(context, stream, upgraded, ledger)).await.map_err(|_| ErrorCode::CANCEL)
        }
        Err(Aborted) => Err(ErrorCode::INTERNAL_ERROR),
    }
}
