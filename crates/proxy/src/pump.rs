//! Opaque bytes both ways between two transports, with half-close, an idle limit and a longest life.
//!
//! Each direction waits for its receiver before it takes more from its sender, so what is under way is bounded by one chunk or one pipe. A
//! direction at rest holds neither. Between two plain sockets bytes that come in bulk are moved inside the kernel; few bytes are copied, which is
//! cheaper then.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;

use net::clock::coarse;
use net::splice::Pipe;
use net::{Chunk, Deadline};
use transport::Transport;

/// Less than this in a pipe is no bulk any more.
const BULK_BYTES: usize = 16 * 1024;

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides had finished.
    Finished,
    /// Nothing moved for too long.
    Idle,
    /// Its longest life is over.
    Expired,
    /// The client's TLS ended without close_notify: it may have been cut by somebody else (RFC 8446 §6.1).
    ClientCut,
    /// The client's connection broke.
    ClientBroke,
    /// The upstream's TLS ended without close_notify.
    UpstreamCut,
    /// The upstream's connection broke.
    UpstreamBroke,
}

/// One end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// Who connected to us.
    Client,
    /// Whom we connected to.
    Upstream,
}

/// How long a tunnel may last.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Without a byte either way.
    pub idle: Duration,
    /// At all, on the coarse clock; none for no bound.
    pub until: Option<Duration>,
}

/// Bytes a tunnel carried, and who finished first.
#[derive(Debug, Default)]
pub struct Carried {
    /// From the client.
    pub from_client: Cell<u64>,
    /// To the client.
    pub to_client: Cell<u64>,
    /// Whose end came first.
    pub ended_first: Cell<Option<Party>>,
}

/// Carries bytes until both sides have finished; both are to be closed then. `client_first` and `upstream_first` were received already and go ahead.
pub async fn run(client: (&Transport, Chunk), upstream: (&Transport, Chunk), bounds: Bounds, carried: &Carried) -> End {
    let (client, client_first) = client;
    let (upstream, upstream_first) = upstream;
    let moved = Cell::new(coarse());
    let first = &carried.ended_first;
    let up = Direction { from: client, to: upstream, count: &carried.from_client, moved: &moved, ended_first: first };
    let down = Direction { from: upstream, to: client, count: &carried.to_client, moved: &moved, ended_first: first };
    let (mut up, mut down) = (pin!(up.copy(client_first)), pin!(down.copy(upstream_first)));
    let (mut up_done, mut down_done) = (false, false);
    let mut deadline = Deadline::new();
    poll_fn(|context| {
        if !up_done && let Poll::Ready(result) = up.as_mut().poll(context) {
            match result {
                Ok(()) => up_done = true,
                Err(Failure::Sender) => return Poll::Ready(End::ClientBroke),
                Err(Failure::Truncated) => return Poll::Ready(End::ClientCut),
                Err(Failure::Receiver) => return Poll::Ready(End::UpstreamBroke),
            }
            first.set(first.get().or(Some(Party::Client)));
        }
        if !down_done && let Poll::Ready(result) = down.as_mut().poll(context) {
            match result {
                Ok(()) => down_done = true,
                Err(Failure::Sender) => return Poll::Ready(End::UpstreamBroke),
                Err(Failure::Truncated) => return Poll::Ready(End::UpstreamCut),
                Err(Failure::Receiver) => return Poll::Ready(End::ClientBroke),
            }
            first.set(first.get().or(Some(Party::Upstream)));
        }
        if up_done && down_done {
            return Poll::Ready(End::Finished);
        }
        // What moved since the timer was armed moves the deadline: ask again until it lies ahead.
        loop {
            let idle_at = moved.get() + bounds.idle;
            let at = bounds.until.map_or(idle_at, |until| until.min(idle_at));
            ready!(deadline.poll_elapsed(at, context));
            if bounds.until.is_some_and(|until| coarse() >= until) {
                return Poll::Ready(End::Expired);
            }
            if moved.get() + bounds.idle <= at {
                return Poll::Ready(End::Idle);
            }
        }
    })
    .await
}

/// Why a direction broke.
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// Its sender's connection broke.
    Sender,
    /// Its sender's end cannot be distinguished from a cut.
    Truncated,
    /// Its receiver's connection broke.
    Receiver,
}

/// One direction of a tunnel.
#[derive(Clone, Copy)]
struct Direction<'a> {
    from: &'a Transport,
    to: &'a Transport,
    count: &'a Cell<u64>,
    moved: &'a Cell<Duration>,
    ended_first: &'a Cell<Option<Party>>,
}

impl Direction<'_> {
    /// Until the sender finishes; then the receiver's side is finished too.
    async fn copy(self, first: Chunk) -> Result<(), Failure> {
        let can_splice = self.from.is_plain() && self.to.is_plain();
        let mut chunk = first;
        loop {
            let is_bulk = can_splice && chunk.is_full();
            if !chunk.is_empty() {
                self.to.send(&chunk).await.map_err(|_| Failure::Receiver)?;
                self.note(chunk.len());
            }
            // The buffer goes back to the pool before we wait.
            drop(chunk);
            if is_bulk && self.splice().await? {
                break;
            }
            chunk = self.from.recv().await.map_err(|_| Failure::Sender)?;
            if chunk.is_empty() {
                break;
            }
            self.moved.set(coarse());
        }
        if !self.from.ended_orderly() {
            return Err(Failure::Truncated);
        }
        // The second of both directions is followed by the close, which is an end as well.
        if self.ended_first.get().is_some() {
            self.to.finish_before_close().await;
        } else {
            self.to.finish().await;
        }
        Ok(())
    }

    /// Moves bytes inside the kernel for as long as they come in bulk. True at the sender's end.
    async fn splice(self) -> Result<bool, Failure> {
        loop {
            // While nothing comes, the pipe is with others.
            let filled = poll_fn(|context| {
                let Ok(mut pipe) = Pipe::take() else { return Poll::Ready(Ok(None)) };
                let count = ready!(self.from.poll_fill(context, &mut pipe)).map_err(|_| Failure::Sender)?;
                Poll::Ready(Ok(Some((pipe, count))))
            })
            .await?;
            // Without pipes, copying goes on.
            let Some((mut pipe, count)) = filled else { return Ok(false) };
            if count == 0 {
                return Ok(true);
            }
            while pipe.held() > 0 {
                let drained = poll_fn(|context| self.to.poll_drain(context, &mut pipe)).await;
                self.note(drained.map_err(|_| Failure::Receiver)?);
            }
            if count < BULK_BYTES {
                return Ok(false);
            }
        }
    }

    fn note(self, bytes: usize) {
        self.count.set(self.count.get() + bytes as u64);
        self.moved.set(coarse());
    }
}
