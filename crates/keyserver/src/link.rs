//! A connection as seen from the threads that sign for it: where answers go, what was cancelled, whether anybody still waits.
//!
//! Answers become bytes where they are made, and the connection's task takes all that are there at once, so that many responses cost one write.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use wire::keyless::{ErrorCode, Frame, write_error};

use super::access::Peer;

/// The shared side of one connection.
#[derive(Debug)]
pub(super) struct Link {
    /// Who is at the other end.
    pub(super) peer: Peer,
    /// Whether the peer speaks our extension.
    pub(super) extended: bool,
    outbox: Mutex<Outbox>,
    /// Requests taken and not yet answered on the wire.
    in_flight: AtomicUsize,
    closed: AtomicBool,
    has_cancelled: AtomicBool,
    cancelled: Mutex<HashSet<u32>>,
}

#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    responses: usize,
    waker: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub(super) fn new(peer: Peer, extended: bool) -> Link {
        Link {
            peer,
            extended,
            outbox: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            has_cancelled: AtomicBool::new(false),
            cancelled: Mutex::default(),
        }
    }

    /// Counts a request in.
    pub(super) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts requests out whose responses have been written, or that have none.
    pub(super) fn finish(&self, count: usize) {
        if self.in_flight.fetch_sub(count, Ordering::Relaxed) == count {
            // Nothing is outstanding, so no request can be meant by what was cancelled.
            self.forget_cancelled();
        }
    }

    /// Requests taken and not yet answered on the wire.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Puts a frame into the outbox.
    pub(super) fn respond(&self, frame: &Frame<'_>) {
        self.put(|bytes| {
            if frame.write_to(bytes).is_err() {
                // Only an echo could be that long, and what was received is not.
                write_error(bytes, frame.id, ErrorCode::INTERNAL, None);
            }
        });
    }

    /// Puts an error response into the outbox.
    pub(super) fn reject(&self, id: u32, code: ErrorCode, retry_after_us: Option<u32>) {
        self.put(|bytes| write_error(bytes, id, code, retry_after_us));
    }

    /// A request that is not answered: it was cancelled.
    pub(super) fn drop_request(&self) {
        self.finish(1);
        // The connection may wait for nothing else.
        let waker = lock(&self.outbox).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut outbox = lock(&self.outbox);
        write(&mut outbox.bytes);
        outbox.responses += 1;
        let waker = outbox.waker.take();
        drop(outbox);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes all responses, into `bytes`, and says how many; with none, the task is woken at the next.
    pub(super) fn take_responses(&self, bytes: &mut Vec<u8>, context: &mut Context<'_>) -> usize {
        let mut outbox = lock(&self.outbox);
        if outbox.responses == 0 {
            outbox.waker = Some(context.waker().clone());
            return 0;
        }
        std::mem::swap(&mut outbox.bytes, bytes);
        std::mem::take(&mut outbox.responses)
    }

    /// The operation with this id is not wanted any more.
    pub(super) fn cancel(&self, id: u32) {
        let mut cancelled = lock(&self.cancelled);
        // What is outstanding bounds what can be cancelled.
        if cancelled.len() < self.in_flight() {
            cancelled.insert(id);
            self.has_cancelled.store(true, Ordering::Release);
        }
    }

    /// Whether the operation was cancelled; forgets that it was.
    pub(super) fn take_cancelled(&self, id: u32) -> bool {
        self.has_cancelled.load(Ordering::Acquire) && lock(&self.cancelled).remove(&id)
    }

    fn forget_cancelled(&self) {
        if self.has_cancelled.swap(false, Ordering::AcqRel) {
            lock(&self.cancelled).clear();
        }
    }

    /// Nobody waits for responses any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether anybody still waits.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
