//! Log lines on their way from the threads that write them to the one thread that may wait for a disk or a reader.
//!
//! The lock is held for a push or a pop, never during output. Workers do not even wait for that: [`Queue::offer`] gives the lines back if the
//! lock is taken or the queue is full, and the worker tries again later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::lock::lock;
use super::target::Opened;

/// Bytes that may wait for the writer. At a usual 400 bytes a line this is some 10,000 lines.
pub(super) const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// Emptied buffers kept for reuse.
const SPARE_BUFFERS: usize = 64;

/// Whole lines.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
    /// The place that they are written for.
    pub(super) place: u32,
}

/// What the writer is to do next.
#[derive(Debug)]
pub(super) enum Work {
    Write(Chunk),
    Reopen,
    Stop,
}

/// Why a pause ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Elapsed,
    Reopen,
    Expired,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    stopped: Condvar,
    /// Lines that reached the target.
    written: AtomicU64,
    /// Lines rejected by `push`, and lines given up at the end.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    accepted: u64,
    /// The writer waits for work. Waking it is a system call, so nobody does it in vain.
    waiting: bool,
    reopen: bool,
    /// To be written to from the next reopening on, one after the other.
    next_targets: VecDeque<Opened>,
    stop: Option<Instant>,
    ended: bool,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            state: Mutex::default(),
            wake: Condvar::new(),
            stopped: Condvar::new(),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes a chunk and leaves an empty one, or leaves it alone and says no. Never waits.
    pub(super) fn offer(&self, chunk: &mut Chunk) -> bool {
        match self.state.try_lock() {
            Ok(state) => self.take(state, chunk),
            Err(TryLockError::Poisoned(poisoned)) => self.take(poisoned.into_inner(), chunk),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Like `offer`, but waits for the lock (microseconds): for the last lines of a thread that ends.
    pub(super) fn hand_over(&self, chunk: &mut Chunk) -> bool {
        self.take(self.lock(), chunk)
    }

    /// Like `hand_over`; what the queue has no room for is counted as lost.
    pub(super) fn hand_over_or_lose(&self, chunk: &mut Chunk) {
        if !self.hand_over(chunk) {
            self.lost.fetch_add(chunk.lines, Relaxed);
            chunk.bytes.clear();
            chunk.lines = 0;
        }
    }

    fn take(&self, mut state: MutexGuard<'_, State>, chunk: &mut Chunk) -> bool {
        if state.ended || state.bytes + chunk.bytes.len() > QUEUE_BYTES {
            return false;
        }
        let empty = Chunk { bytes: state.spare.pop().unwrap_or_default(), lines: 0, place: 0 };
        let chunk = std::mem::replace(chunk, empty);
        state.bytes += chunk.bytes.len();
        state.accepted += chunk.lines;
        state.chunks.push_back(chunk);
        self.wake(state);
        true
    }

    /// Adds one line, or counts it as lost. For threads that may wait a moment.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.ended || state.bytes + line.len() > QUEUE_BYTES {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        let mut bytes = state.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(line);
        state.bytes += line.len();
        state.accepted += 1;
        state.chunks.push_back(Chunk { bytes, lines: 1, place: 0 });
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        if waiting {
            self.wake.notify_one();
        }
    }

    /// The writer's next piece of work; waits for it.
    pub(super) fn next(&self) -> Work {
        let mut state = self.lock();
        loop {
            if std::mem::take(&mut state.reopen) {
                return Work::Reopen;
            }
            if let Some(chunk) = state.chunks.pop_front() {
                // Bytes leave the account when they are written, see `recycle`.
                return Work::Write(chunk);
            }
            if state.stop.is_some() {
                return Work::Stop;
            }
            state.waiting = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes back a chunk the writer is done with.
    pub(super) fn recycle(&self, mut chunk: Chunk) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(chunk.bytes.len());
        if state.spare.len() < SPARE_BUFFERS {
            chunk.bytes.clear();
            state.spare.push(chunk.bytes);
        }
    }

    /// Waits before another try at the target; ends early for a reopening and at the deadline of the end.
    pub(super) fn pause(&self, delay: Duration) -> Pause {
        let until = Instant::now() + delay;
        let mut state = self.lock();
        loop {
            if std::mem::take(&mut state.reopen) {
                return Pause::Reopen;
            }
            let now = Instant::now();
            if state.stop.is_some_and(|deadline| now >= deadline) {
                return Pause::Expired;
            }
            let until = state.stop.map_or(until, |deadline| until.min(deadline));
            if now >= until {
                return Pause::Elapsed;
            }
            state = self.wake.wait_timeout(state, until - now).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks the writer to open its file again.
    pub(super) fn reopen(&self) {
        self.lock().reopen = true;
        self.wake.notify_one();
    }

    /// Asks the writer to go on with another target, from the next line it begins.
    pub(super) fn retarget(&self, target: Opened) {
        let mut state = self.lock();
        state.next_targets.push_back(target);
        state.reopen = true;
        drop(state);
        self.wake.notify_one();
    }

    /// The target to go on with, if it is another one.
    pub(super) fn next_target(&self) -> Option<Opened> {
        self.lock().next_targets.pop_front()
    }

    /// Asks the writer to write what waits and end, and waits for it until `deadline` from now. Returns the lines that were not written.
    pub(super) fn stop(&self, deadline: Duration) -> u64 {
        let until = Instant::now() + deadline;
        let mut state = self.lock();
        state.stop = Some(until);
        self.wake.notify_one();
        while !state.ended {
            let now = Instant::now();
            if now >= until {
                // The writer hangs in the kernel. Nothing more is taken, so that the account is final.
                state.ended = true;
                break;
            }
            state = self.stopped.wait_timeout(state, until - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        let missing = state.accepted.saturating_sub(self.written.load(Relaxed));
        self.lost.fetch_add(missing, Relaxed);
        missing
    }

    /// The writer has ended.
    pub(super) fn ended(&self) {
        self.lock().ended = true;
        self.stopped.notify_all();
    }

    pub(super) fn count_written(&self, lines: u64) {
        self.written.fetch_add(lines, Relaxed);
    }

    /// Counts lines as lost that the writer has taken and cannot write.
    pub(super) fn give_up(&self, lines: u64) {
        let mut state = self.lock();
        state.accepted = state.accepted.saturating_sub(lines);
        self.lost.fetch_add(lines, Relaxed);
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}
