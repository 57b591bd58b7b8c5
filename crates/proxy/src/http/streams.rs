//! What HTTP/2 and HTTP/3 have in common: the requests of a connection that are being worked on, when it is to leave, and how a request begins on a stream of
//! its own.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use config::limits::Limits;
use reason::Reason;
use tokio::sync::futures::Notified;
use wire::http::{BodyFraming, RequestHead};

use crate::connection::Conn;
use crate::message::rejection::Rejection;
use crate::message::scratch::Timers;
use crate::message::sides::MessageBody;
use crate::worker::Worker;

/// The limits of a connection, and whether a WebSocket may be opened on its streams.
pub fn terms(conn: &Conn, worker: &Worker) -> (Limits, bool) {
    let generation = worker.pin();
    let listener = &conn.listener;
    let allows_websocket = listener.options.websocket_over_http2 && generation.routes.allow_websockets(&listener.name);
    (generation.config.limits_at(&listener.name).clone(), allows_websocket)
}

/// Ready when the connection is to leave. While new ones are accepted, each gets its first request served: told to leave before it, its client
/// would only open the next one.
pub fn poll_leave<'w>(
    worker: &'w Worker,
    stage: Pin<&mut Notified<'w>>,
    served: bool,
    context: &mut Context<'_>,
) -> Poll<Reason> {
    worker.watch_shutdown(stage, context);
    let leaves = worker.is_draining() || (served && worker.is_leaving());
    if leaves { Poll::Ready(Reason::Drained) } else { Poll::Pending }
}

/// Requests of one connection that are being worked on.
pub struct Running {
    count: Cell<u32>,
    most: u32,
    /// Who is to learn that a place is free again, or that the last one has ended.
    watcher: Cell<Option<Waker>>,
}

impl Running {
    /// None yet, of at most so many.
    pub fn new(most: u32) -> Rc<Running> {
        Rc::new(Running { count: Cell::new(0), most, watcher: Cell::new(None) })
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count.get()
    }

    /// Counts one in, until its place is dropped.
    pub fn begin(self: &Rc<Running>) -> Slot {
        self.count.set(self.count.get() + 1);
        Slot(Rc::clone(self))
    }

    /// Whether all places are taken; whoever asks is woken when one is free.
    pub fn is_full(&self, context: &mut Context<'_>) -> bool {
        let is_full = self.count.get() >= self.most;
        if is_full {
            self.watcher.set(Some(context.waker().clone()));
        }
        is_full
    }

    /// Ready when the last one has ended; never if there was none to begin with.
    pub fn poll_idle(&self, context: &mut Context<'_>, was_idle: bool) -> Poll<()> {
        if was_idle {
            return Poll::Pending;
        }
        self.watcher.set(Some(context.waker().clone()));
        if self.count.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Counts a request out when it ends, however it ends.
pub struct Slot(Rc<Running>);

impl Drop for Slot {
    fn drop(&mut self) {
        let rest = self.0.count.get() - 1;
        self.0.count.set(rest);
        if (rest == 0 || rest + 1 == self.0.most)
            && let Some(watcher) = self.0.watcher.take()
        {
            watcher.wake();
        }
    }
}

/// Why a request is not served.
pub enum Rejected {
    /// Its client has reset the stream.
    Cancelled,
    /// It is malformed, and its stream ends.
    Stream(Reason),
    /// It gets this response.
    Request(Rejection),
}

/// Waits for the end of a request that says its body is empty: data that comes all the same makes it malformed (RFC 9113 §8.1.1), and an upstream
/// would have done by then what it asks for.
///
/// # Errors
/// It is not empty, or does not end.
pub async fn end_of_nothing(
    body: &mut impl MessageBody,
    head: &RequestHead,
    timers: &mut Timers,
    limits: &Limits,
) -> Result<(), Rejected> {
    if head.framing != BodyFraming::Length(0) || body.is_done() {
        return Ok(());
    }
    match timers.upload.within(limits.client_idle_timeout, body.next()).await {
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(_)) | Err(_)) => Err(Rejected::Stream(Reason::RequestTruncated)),
        Err(_) => Err(Rejected::Request(Rejection::of(Reason::RequestBodyTimeout))),
    }
}
