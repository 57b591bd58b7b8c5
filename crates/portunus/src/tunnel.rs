//! Opaque bytes both ways between two transports, with half-close and an idle limit.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use net::clock::coarse;
use net::{Chunk, Deadline};

use crate::transport::{Broken, Transport};

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides had finished.
    Finished,
    /// Nothing moved for too long.
    Idle,
    /// The client's connection broke.
    ClientBroke,
    /// The upstream's connection broke.
    UpstreamBroke,
}

/// Bytes a tunnel carried.
#[derive(Debug, Default)]
pub struct Carried {
    /// From the client.
    pub from_client: Cell<u64>,
    /// To the client.
    pub to_client: Cell<u64>,
}

enum Side {
    Reading,
    Writing,
}

/// Carries bytes until both sides have finished. `client_first` and `upstream_first` were received already and go ahead.
pub async fn run(client: (&Transport, Chunk), upstream: (&Transport, Chunk), idle: Duration, carried: &Carried) -> End {
    let (client, client_first) = client;
    let (upstream, upstream_first) = upstream;
    let moved = Cell::new(coarse());
    let up = copy(client, upstream, client_first, &carried.from_client, &moved);
    let down = copy(upstream, client, upstream_first, &carried.to_client, &moved);
    let (mut up, mut down) = (pin!(up), pin!(down));
    let (mut up_done, mut down_done) = (false, false);
    let mut deadline = Deadline::new();
    poll_fn(|context| {
        if !up_done && let Poll::Ready(result) = up.as_mut().poll(context) {
            match result {
                Ok(()) => up_done = true,
                Err((Side::Reading, _)) => return Poll::Ready(End::ClientBroke),
                Err((Side::Writing, _)) => return Poll::Ready(End::UpstreamBroke),
            }
        }
        if !down_done && let Poll::Ready(result) = down.as_mut().poll(context) {
            match result {
                Ok(()) => down_done = true,
                Err((Side::Reading, _)) => return Poll::Ready(End::UpstreamBroke),
                Err((Side::Writing, _)) => return Poll::Ready(End::ClientBroke),
            }
        }
        if up_done && down_done {
            return Poll::Ready(End::Finished);
        }
        // What moved since the timer was armed moves the deadline: ask again until it lies ahead.
        loop {
            let at = moved.get() + idle;
            match deadline.poll_elapsed(at, context) {
                Poll::Ready(_) if moved.get() + idle > at => {}
                Poll::Ready(_) => return Poll::Ready(End::Idle),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// One direction, until the sender finishes; then the receiver's side is finished too.
async fn copy(
    from: &Transport,
    to: &Transport,
    first: Chunk,
    count: &Cell<u64>,
    moved: &Cell<Duration>,
) -> Result<(), (Side, Broken)> {
    let mut chunk = first;
    loop {
        if !chunk.is_empty() {
            to.send(&chunk).await.map_err(|broken| (Side::Writing, broken))?;
            count.set(count.get() + chunk.len() as u64);
            moved.set(coarse());
        }
        // The buffer goes back to the pool before we wait.
        drop(chunk);
        chunk = from.recv().await.map_err(|broken| (Side::Reading, broken))?;
        if chunk.is_empty() {
            to.finish().await;
            return Ok(());
        }
        moved.set(coarse());
    }
}
