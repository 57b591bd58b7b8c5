//! HTTP/2 on a client's connection (RFC 9113): one task per stream, all on the connection's core.
//!
//! Framing, flow control and HPACK are the `h2` crate's. Ours are the floods it does not bound (`flood`), streams whose client has
//! lost interest, and the translation between its messages and the ones that `exchange` works on.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use net::Deadline;
use net::engine::in_place;

use super::exchange::{self, Context, Cut, Exchange};
use super::h1;
use super::h2_frames::{Noticed, Sender};
use super::h2_io::H2Io;
use super::h2_message::{H2Answer, H2Body, is_malformed, read_request};
use super::ledger::OpenRequest;
use super::refusal::Refusal;
use super::scratch;
use crate::conn::Conn;
use crate::limits::Limits;
use crate::report::Fault;
use crate::transport::Transport;
use crate::worker::Worker;

/// Bytes a client may send on one stream ahead of us.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Bytes a client may send on one connection ahead of us.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Bytes of answers the library may hold for one stream.
const SEND_BUFFER: usize = 128 * 1024;

/// Streams that errors of the client reset before we call it an attack.
const ERROR_RESETS: usize = 100;

/// Streams the client opened and reset before we took them up, until we call it an attack.
const PENDING_RESETS: usize = 50;

/// Without streams, how long a client may take to acknowledge the farewell before it is closed under it.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves streams until the connection ends.
pub async fn serve(transport: Rc<Transport>, conn: Rc<Conn>, worker: Rc<Worker>) {
    let generation = worker.pin();
    let limits = generation.config.limits.clone();
    drop(generation);
    let mut deadline = Deadline::new();
    let (io, noticed) = H2Io::new(Rc::clone(&transport), Sender::Client);
    let handshake = builder(&limits).handshake::<_, Bytes>(io);
    let Ok(Ok(mut connection)) = deadline.within(limits.handshake_timeout, handshake).await else {
        h1::record_silence(&conn, &worker, "http2_preface_broken");
        Box::pin(h1::linger(&transport)).await;
        return;
    };
    let mut drain = pin!(worker.drain.notified());
    let mut leaving = None;
    let mut served = false;
    let running = Rc::new(Running::default());
    let end = loop {
        let is_idle = running.count.get() == 0;
        let limit = if leaving.is_some() && is_idle { FAREWELL } else { limits.keep_alive_timeout };
        let next = deadline.within(
            limit,
            poll_fn(|context| {
                if let Poll::Ready(turn) = poll_streams(&mut connection, &noticed, context) {
                    return Poll::Ready(turn);
                }
                if leaving.is_none() {
                    return drain.as_mut().poll(context).map(|()| Turn::Leave("drained"));
                }
                running.poll_idle(context, is_idle).map(|()| Turn::Idle)
            }),
        );
        match next.await {
            Ok(Turn::Accepted(Some(Ok(opened)))) => {
                served = true;
                spawn(*opened, &noticed, (&conn, &worker), &running, &limits);
            }
            Ok(Turn::Accepted(None)) => break leaving.unwrap_or("closed_without_request"),
            Ok(Turn::Accepted(Some(Err(_)))) => break "http2_broken",
            Ok(Turn::Leave(why)) => {
                leaving = Some(why);
                connection.graceful_shutdown();
            }
            Ok(Turn::Flooded) => {
                tracing::debug!(client = ?conn.client, "HTTP/2 flood");
                give_up(&mut connection, Reason::ENHANCE_YOUR_CALM, &mut deadline, &limits).await;
                break "http2_flood";
            }
            Ok(Turn::Idle) => {}
            // Quiet connections with streams on them are waiting for an upstream.
            Err(_) if running.count.get() > 0 => {}
            // A client that does not answer the farewell either is gone, or wants its place held for nothing.
            Err(_) => match leaving {
                Some(why) => {
                    give_up(&mut connection, Reason::NO_ERROR, &mut deadline, &limits).await;
                    break why;
                }
                None => {
                    leaving = Some("silent");
                    connection.graceful_shutdown();
                }
            },
        }
    };
    if !served || end == "http2_flood" {
        h1::record_silence(&conn, &worker, end);
    }
    drop(connection);
    // What the client has sent meanwhile would reset the connection and take the farewell with it.
    Box::pin(h1::linger(&transport)).await;
}

/// A stream just opened.
type Opened = (Request<RecvStream>, SendResponse<Bytes>);

enum Turn {
    Accepted(Option<Result<Box<Opened>, h2::Error>>),
    Leave(&'static str),
    Flooded,
    /// The last stream has ended.
    Idle,
}

/// Streams of one connection that are being worked on.
#[derive(Default)]
struct Running {
    count: Cell<u32>,
    /// Who is to learn that the last one has ended.
    watcher: Cell<Option<Waker>>,
}

impl Running {
    /// Ready when the last stream has ended; never if there was none to begin with.
    fn poll_idle(&self, context: &mut std::task::Context<'_>, was_idle: bool) -> Poll<()> {
        if was_idle {
            return Poll::Pending;
        }
        self.watcher.set(Some(context.waker().clone()));
        if self.count.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Counts a stream out when it ends, however it ends.
struct Slot(Rc<Running>);

impl Drop for Slot {
    fn drop(&mut self) {
        let rest = self.0.count.get() - 1;
        self.0.count.set(rest);
        if rest == 0
            && let Some(watcher) = self.0.watcher.take()
        {
            watcher.wake();
        }
    }
}

/// The next stream, unless the client has sent too much that brings nothing.
fn poll_streams(
    connection: &mut Connection<H2Io, Bytes>,
    noticed: &Noticed,
    context: &mut std::task::Context<'_>,
) -> Poll<Turn> {
    if noticed.is_flooded() {
        return Poll::Ready(Turn::Flooded);
    }
    if let Poll::Ready(accepted) = connection.poll_accept(context) {
        return Poll::Ready(Turn::Accepted(accepted.map(|opened| opened.map(Box::new))));
    }
    // Reading may have counted the frame that was too much.
    if noticed.is_flooded() { Poll::Ready(Turn::Flooded) } else { Poll::Pending }
}

fn builder(limits: &Limits) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(limits.h2_max_streams)
        .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_local_error_reset_streams(Some(ERROR_RESETS))
        .max_pending_accept_reset_streams(PENDING_RESETS);
    builder
}

/// Says why and lets it be written, within bounds.
async fn give_up(connection: &mut Connection<H2Io, Bytes>, reason: Reason, deadline: &mut Deadline, limits: &Limits) {
    connection.abrupt_shutdown(reason);
    let closed = poll_fn(|context| connection.poll_closed(context));
    let _ = deadline.within(limits.handshake_timeout, closed).await;
}

fn spawn(
    (request, mut respond): Opened,
    noticed: &Rc<Noticed>,
    (conn, worker): (&Rc<Conn>, &Rc<Worker>),
    running: &Rc<Running>,
    limits: &Limits,
) {
    // A stream that was reset frees its place in the library at once, but here only when its task has ended.
    if running.count.get() >= limits.h2_max_streams {
        respond.send_reset(Reason::REFUSED_STREAM);
        return;
    }
    running.count.set(running.count.get() + 1);
    let slot = Slot(Rc::clone(running));
    let (noticed, conn, worker) = (Rc::clone(noticed), Rc::clone(conn), Rc::clone(worker));
    tokio::task::spawn_local(in_place(|| async move {
        stream(request, respond, noticed, &conn, &worker).await;
        drop(slot);
    }));
}

/// Serves one stream.
async fn stream(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    noticed: Rc<Noticed>,
    conn: &Conn,
    worker: &Worker,
) {
    let mut parts = scratch::take();
    let generation = worker.pin();
    let mut open = OpenRequest::new(&mut parts, conn, worker);
    let (message, received) = request.into_parts();
    let limits = &generation.config.limits;
    let read = read_request(&message, received.is_end_stream(), limits, &mut open.parts.request);
    let mut body = H2Body::new(received, noticed, true);
    let mut answer = H2Answer::new(respond, &open.parts.request);
    let context = Context::new(worker, conn, &generation, &open.parts.request);
    let scratch::Parts { request, response, timers } = &mut *open.parts;
    let ledger = &mut open.ledger;
    let outcome = match read {
        // The library dropped the fragment, or the pseudo-field of trailers that came along with the head.
        _ if body.is_malformed() => {
            ledger.blame(Fault::Client, "malformed_message");
            Err(Reason::PROTOCOL_ERROR)
        }
        Ok(()) => {
            let (body, answer) = (&mut body, &mut answer);
            let exchange = exchange::run(Exchange { context, head: request, response, body, answer, ledger, timers });
            exchange.await.map(|_| ()).map_err(|Cut| Reason::INTERNAL_ERROR)
        }
        Err(error) if is_malformed(&error) => {
            ledger.blame(Fault::Client, error.code);
            Err(Reason::PROTOCOL_ERROR)
        }
        Err(error) => {
            let refused = exchange::refuse(&Refusal::from(error), request, &mut answer, ledger).await;
            refused.map_err(|Cut| Reason::INTERNAL_ERROR)
        }
    };
    match outcome {
        Err(_) if body.is_malformed() => answer.reset(Reason::PROTOCOL_ERROR),
        Err(reason) => answer.reset(reason),
        // The answer is whole and the rest of the request unwanted (RFC 9113 §8.1).
        Ok(()) if !body.is_finished() => answer.reset(Reason::NO_ERROR),
        Ok(()) => {}
    }
    open.end();
    scratch::give(parts);
}
