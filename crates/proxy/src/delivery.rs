//! What was sent to a peer and has not reached it: whether it goes on taking it, and how long that is waited for.
//!
//! The kernel takes megabytes at once for a peer that reads slowly. What it has taken is not there yet, and a reset drops it: so whoever ends a
//! connection waits here, for as long as the peer takes something now and then. No fixed time stands between data and its reader, but for clients that were
//! rejected.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use net::Deadline;
use net::clock::coarse;
use net::pace::{Allowance, Pace};
use tokio::sync::oneshot;
use transport::Transport;

/// How long a client that was rejected may take to receive why.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at what a peer has taken, at first and at last.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(160);

/// How often a tunnel in which nothing moves is looked at before it counts as idle.
const LOOKS: u32 = 4;

/// How slow the receiver of something may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// While it is waited for.
    pub(crate) pace: Pace,
    /// When nobody waits any more, on the coarse clock; none for no such time.
    pub(crate) until: Option<Duration>,
    /// How much is read from it and dropped meanwhile, bytes: it may take nothing while nobody reads what it says.
    pub(crate) most_dropped: usize,
}

impl Terms {
    /// Something must go on within this time, over and over.
    pub(crate) fn of_idle(idle: Duration, until: Option<Duration>) -> Terms {
        Terms { pace: Pace { idle, min_rate: 0 }, until, most_dropped: usize::MAX }
    }
}

impl Terms {
    /// The same where something must go on sooner.
    pub(crate) fn at_most(self, idle: Duration) -> Terms {
        Terms { pace: Pace { idle: idle.min(self.pace.idle), ..self.pace }, ..self }
    }
}

/// Waits until the peer has what was sent (over TCP), or its program has (on Unix sockets); until it has broken off; or until it is too slow.
pub(crate) async fn delivered(transport: &Transport, terms: Terms) {
    let stream = transport.stream();
    let mut allowance = Allowance::new(terms.pace);
    let (mut unsent, mut since, mut pause) = (stream.unsent_bytes(), coarse(), SHORTEST_LOOK);
    if unsent == 0 {
        return;
    }
    let mut broken = pin!(broken_off(transport, terms.most_dropped));
    let mut deadline = Deadline::new();
    loop {
        if deadline.within(pause, broken.as_mut()).await.is_ok() {
            return;
        }
        let (now, rest) = (coarse(), stream.unsent_bytes());
        if rest < unsent {
            allowance.moved(now.saturating_sub(since), unsent - rest);
            (unsent, since, pause) = (rest, now, SHORTEST_LOOK);
        } else {
            pause = LONGEST_LOOK.min(pause * 2);
        }
        let is_late = now >= since + allowance.left() || terms.until.is_some_and(|until| now >= until);
        if rest == 0 || is_late {
            return;
        }
    }
}

/// Reads from a peer and drops what comes, as far as that may be. Ready once its connection is broken.
async fn broken_off(transport: &Transport, most: usize) {
    let mut dropped = 0;
    while dropped < most {
        match transport.recv().await {
            Ok(chunk) if !chunk.is_empty() => dropped += chunk.len(),
            _ => break,
        }
    }
    let mut wait = None;
    poll_fn(|context| transport.stream().poll_gone(context, false, &mut wait)).await;
}

/// Lets arrive what was sent and then resets, so that what was cut cannot look whole and nothing that came before is lost.
pub(crate) async fn cut(transport: &Transport, terms: Terms) {
    delivered(transport, terms).await;
    transport.reset_on_close();
}

/// The same for a client that was rejected: it is not waited for any longer than others must be able to bear.
pub(crate) async fn turn_away(transport: &Transport) {
    cut(transport, Terms::of_idle(PATIENCE, Some(coarse() + PATIENCE))).await;
}

/// What tells how much a receiver has taken.
pub trait Taken {
    /// A count that changes whenever it takes something.
    fn count(&self) -> u64;

    /// Whether something is on its way, as far as that is known.
    fn waits(&self) -> bool;
}

impl Taken for &Transport {
    fn count(&self) -> u64 {
        Transport::taken(self)
    }

    fn waits(&self) -> bool {
        self.stream().has_unsent()
    }
}

impl<A: Taken, B: Taken> Taken for (A, B) {
    fn count(&self) -> u64 {
        self.0.count().wrapping_add(self.1.count())
    }

    fn waits(&self) -> bool {
        self.0.waits() || self.1.waits()
    }
}

/// Whether what a tunnel has handed to its sockets goes on although nothing new is handed over.
#[derive(Debug)]
pub(crate) struct Progress<T> {
    taken: T,
    count: u64,
    /// Something was on its way at the last look.
    waits: bool,
    looked_at: Duration,
}

impl<T: Taken> Progress<T> {
    /// That of a tunnel that begins.
    pub(crate) fn new(taken: T) -> Progress<T> {
        let (count, waits) = (taken.count(), taken.waits());
        Progress { taken, count, waits, looked_at: coarse() }
    }

    /// When it is to be looked at again, on the coarse clock, if nothing may rest for longer than `idle`.
    pub(crate) fn look_at(&self, idle: Duration) -> Duration {
        self.looked_at + idle / LOOKS
    }

    /// Looks, if it is time: whether something that was on its way at the last look has gone on since.
    pub(crate) fn look(&mut self, idle: Duration) -> bool {
        let now = coarse();
        if now < self.look_at(idle) {
            return false;
        }
        let (count, waits) = (self.taken.count(), self.taken.waits());
        let has_moved = self.waits && count != self.count;
        (self.count, self.waits, self.looked_at) = (count, waits, now);
        has_moved
    }
}

/// A stream of HTTP/2 or HTTP/3 as a receiver: what its client's window has taken, and of HTTP/2 the socket under all streams.
#[derive(Debug)]
pub struct StreamTaken {
    /// Bytes that the window has taken.
    pub given: Rc<Cell<u64>>,
    /// The socket, where the stream's own progress is not all.
    pub socket: Option<Rc<Transport>>,
}

impl Taken for StreamTaken {
    fn count(&self) -> u64 {
        self.given.get().wrapping_add(self.socket.as_ref().map_or(0, |socket| socket.taken()))
    }

    fn waits(&self) -> bool {
        true
    }
}

/// Waits for something for as long as a receiver goes on taking what was sent: something within `stall`, over and over. None if it does not.
pub(crate) async fn while_taken<F: Future>(future: F, taken: &impl Taken, stall: Duration) -> Option<F::Output> {
    let (mut future, mut deadline) = (pin!(future), Deadline::new());
    loop {
        let before = taken.count();
        match deadline.within(stall, future.as_mut()).await {
            Ok(output) => return Some(output),
            Err(_) if taken.count() == before => return None,
            Err(_) => {}
        }
    }
}

/// No bytes of a message, whose end in memory says that all that was handed over before them has gone on.
struct Marker<const N: usize> {
    bytes: [u8; N],
    _dropped: oneshot::Sender<()>,
}

impl<const N: usize> AsRef<[u8]> for Marker<N> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes for a library that keeps what it was handed until that has gone on, and what is ready when it lets go of them.
pub(crate) fn marker<const N: usize>(bytes: [u8; N]) -> (Bytes, oneshot::Receiver<()>) {
    let (sender, dropped) = oneshot::channel();
    (Bytes::from_owner(Marker { bytes, _dropped: sender }), dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that has taken so much, and has something on its way.
    struct Receiver {
        count: Cell<u64>,
        waits: Cell<bool>,
    }

    impl Taken for &Receiver {
        fn count(&self) -> u64 {
            self.count.get()
        }

        fn waits(&self) -> bool {
            self.waits.get()
        }
    }

    #[test]
    fn what_was_on_its_way_and_goes_on_is_progress_and_nothing_else_is() {
        let receiver = Receiver { count: Cell::new(5), waits: Cell::new(false) };
        let mut progress = Progress::new(&receiver);
        let mut looks = |count: u64, waits: bool| {
            receiver.count.set(count);
            receiver.waits.set(waits);
            progress.look(Duration::ZERO)
        };
        assert!(!looks(9, false), "sent and taken between two looks: that moved when it was sent");
        assert!(!looks(9, true), "on its way");
        assert!(looks(12, true), "less of it");
        assert!(!looks(12, true), "nothing taken");
        assert!(looks(14, false), "the rest");
        assert!(!looks(14, false));
        assert!(!progress.look(Duration::from_secs(3600)), "it is not time to look");
    }

    #[tokio::test]
    async fn a_wait_lasts_while_something_is_taken() {
        let receiver = Receiver { count: Cell::new(0), waits: Cell::new(true) };
        let stall = Duration::from_millis(20);
        assert!(while_taken(std::future::pending::<()>(), &&receiver, stall).await.is_none());
        let mut rounds = 0;
        let taking = poll_fn(|_| {
            // Polled when a wait begins and when it ends.
            rounds += 1;
            receiver.count.set(receiver.count.get() + 1);
            if rounds < 20 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        });
        assert!(while_taken(taking, &&receiver, stall).await.is_some());
    }

    #[tokio::test]
    async fn a_marker_is_let_go_with_the_last_of_its_bytes() {
        let (mut bytes, mut dropped) = marker([1, 2]);
        let first = bytes.split_to(1);
        drop(bytes);
        assert!(dropped.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        drop(first);
        assert!(dropped.await.is_err());
        let (empty, dropped) = marker([]);
        drop(empty);
        assert!(dropped.await.is_err());
    }
}
