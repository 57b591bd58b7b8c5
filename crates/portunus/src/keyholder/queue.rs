//! Work that waits for a crypto thread: a bounded queue per class, shared out by weight, and what is given up when there is too much of it.
//!
//! Each class has a virtual time that grows with the work it was given, divided by its weight; the class that is furthest behind is served. While
//! the oldest job of a class has waited longer than the target, the newest is taken first: its peer is still there. What has expired, was
//! cancelled or lost its peer is dropped when its turn comes, without a signature.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tls::crypto::{Curve, KeyKind};
use wire::keyless::Operation;

use super::keys::Key;
use super::link::Link;
use crate::limits::KeyholderLimits;

/// Kinds of work that must not wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// ECDSA: tens of microseconds.
    Ecdsa,
    /// RSA: hundreds of microseconds and more.
    Rsa,
    /// Ed25519.
    Other,
}

impl Class {
    pub(super) const ALL: [Class; 3] = [Class::Ecdsa, Class::Rsa, Class::Other];

    pub(super) fn of(kind: KeyKind) -> Class {
        match kind {
            KeyKind::Ec(Curve::P256 | Curve::P384 | Curve::P521) => Class::Ecdsa,
            KeyKind::Rsa { .. } => Class::Rsa,
            KeyKind::Ed25519 | KeyKind::Other => Class::Other,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Ecdsa => "ecdsa",
            Class::Rsa => "rsa",
            Class::Other => "other",
        }
    }

    /// Share of the crypto threads' time while all classes have work.
    fn weight(self) -> u64 {
        match self {
            Class::Ecdsa => 8,
            Class::Rsa => 4,
            Class::Other => 4,
        }
    }

    /// Jobs handed out at once: some hundred microseconds' worth at most.
    fn batch(self) -> usize {
        match self {
            Class::Ecdsa | Class::Other => 8,
            Class::Rsa => 1,
        }
    }

    /// What an operation is taken to cost before any was measured, nanoseconds.
    fn first_estimate(self) -> u64 {
        match self {
            Class::Ecdsa | Class::Other => 30_000,
            Class::Rsa => 500_000,
        }
    }
}

/// One operation that waits.
#[derive(Debug)]
pub(super) struct Job {
    /// Where the answer goes.
    pub(super) link: Arc<Link>,
    pub(super) id: u32,
    pub(super) operation: Operation,
    pub(super) key: Arc<Key>,
    pub(super) payload: Payload,
    pub(super) received: Instant,
    /// When the answer is of no use any more.
    pub(super) deadline: Instant,
    /// Gives way first.
    pub(super) is_minor: bool,
}

/// The input of an operation; digests need no memory of their own.
#[derive(Debug)]
pub(super) enum Payload {
    Short(u8, [u8; 64]),
    Long(Box<[u8]>),
}

impl Payload {
    pub(super) fn new(bytes: &[u8]) -> Payload {
        let mut short = [0; 64];
        match short.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Payload::Short(bytes.len() as u8, short)
            }
            None => Payload::Long(bytes.into()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Payload::Short(length, bytes) => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Payload::Long(bytes) => bytes,
        }
    }
}

/// Why a job was not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// Its peer understands BUSY, and would wait too long: try again after this.
    Busy(Duration),
    /// The queue is full: hand it in again later.
    Full,
}

/// What a crypto thread got.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// To be done.
    pub(super) jobs: Vec<Job>,
    /// To be given up.
    pub(super) expired: Vec<Job>,
}

/// The queues.
#[derive(Debug)]
pub(super) struct Scheduler {
    state: Mutex<State>,
    wake: Condvar,
    /// What an operation of each class costs, nanoseconds, as a moving average.
    estimates: [AtomicU64; 3],
    threads: u64,
    limits: KeyholderLimits,
}

#[derive(Debug, Default)]
struct State {
    queues: [VecDeque<Job>; 3],
    /// Virtual time of each class, nanoseconds over weight.
    passed: [u64; 3],
    idle_threads: usize,
    stopped: bool,
}

impl Scheduler {
    pub(super) fn new(threads: usize, limits: KeyholderLimits) -> Scheduler {
        Scheduler {
            state: Mutex::default(),
            wake: Condvar::new(),
            estimates: Class::ALL.map(|class| AtomicU64::new(class.first_estimate())),
            threads: threads.max(1) as u64,
            limits,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job in.
    ///
    /// # Errors
    /// Why it cannot be taken now.
    pub(super) fn submit(&self, job: Job) -> Result<(), Refused> {
        let class = job.key.class;
        let mut state = self.lock();
        let waiting = state.queues[class as usize].len();
        let wait = self.expected_wait(class, waiting);
        if job.link.extended {
            let target = if job.is_minor { self.limits.target_wait / 2 } else { self.limits.target_wait };
            let left = job.deadline.saturating_duration_since(job.received);
            if wait > target.min(left) {
                return Err(Refused::Busy(wait));
            }
        }
        if waiting >= self.limits.max_queued {
            return Err(Refused::Full);
        }
        if waiting == 0 {
            // A class that had nothing to do has not saved up time.
            let behind = self.furthest_behind(&state).map(|other| state.passed[other as usize]);
            let passed = &mut state.passed[class as usize];
            *passed = behind.map_or(*passed, |behind| behind.max(*passed));
        }
        state.queues[class as usize].push_back(job);
        let wake = state.idle_threads > 0;
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// How long a job would wait behind so many others.
    fn expected_wait(&self, class: Class, waiting: usize) -> Duration {
        Duration::from_nanos(self.estimate(class).saturating_mul(waiting as u64) / self.threads)
    }

    fn estimate(&self, class: Class) -> u64 {
        self.estimates[class as usize].load(Ordering::Relaxed)
    }

    /// Tells what an operation really cost.
    pub(super) fn learn(&self, class: Class, cost: Duration) {
        let cost = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        let old = self.estimate(class);
        // A lost update between two threads does not matter.
        self.estimates[class as usize].store(old - old / 16 + cost / 16, Ordering::Relaxed);
    }

    fn furthest_behind(&self, state: &State) -> Option<Class> {
        let waiting = Class::ALL.into_iter().filter(|class| !state.queues[*class as usize].is_empty());
        waiting.min_by_key(|class| state.passed[*class as usize])
    }

    /// Waits for work and takes a batch of it. False when the server ends.
    pub(super) fn next(&self, batch: &mut Batch) -> bool {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return false;
            }
            if let Some(class) = self.furthest_behind(&state) {
                self.take(&mut state, class, batch);
                if !batch.jobs.is_empty() || !batch.expired.is_empty() {
                    return true;
                }
                continue;
            }
            state.idle_threads += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_threads -= 1;
        }
    }

    fn take(&self, state: &mut State, class: Class, batch: &mut Batch) {
        /// Jobs given up at once, so that the lock is not held for long.
        const MAX_EXPIRED: usize = 64;
        let now = Instant::now();
        let cost = Duration::from_nanos(self.estimate(class));
        let queue = &mut state.queues[class as usize];
        let is_overloaded = queue
            .front()
            .is_some_and(|oldest| now.saturating_duration_since(oldest.received) > self.limits.target_wait);
        // The oldest expire first; without this they would stay at the far end of the queue.
        while batch.expired.len() < MAX_EXPIRED && queue.front().is_some_and(|oldest| is_over(oldest, now, cost)) {
            batch.expired.extend(queue.pop_front());
        }
        while batch.jobs.len() < class.batch() && batch.expired.len() < MAX_EXPIRED {
            let next = if is_overloaded { queue.pop_back() } else { queue.pop_front() };
            let Some(job) = next else { break };
            if is_over(&job, now, cost) { batch.expired.push(job) } else { batch.jobs.push(job) }
        }
        let worked = self.estimate(class).saturating_mul(batch.jobs.len() as u64);
        state.passed[class as usize] += worked / class.weight();
    }

    /// Jobs that wait, by class.
    pub(super) fn waiting(&self) -> [usize; 3] {
        let state = self.lock();
        [state.queues[0].len(), state.queues[1].len(), state.queues[2].len()]
    }

    /// Ends the threads. What waits is dropped with the queues.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }
}

/// Whether nobody would have use of the answer, were the job begun now.
fn is_over(job: &Job, now: Instant, cost: Duration) -> bool {
    now + cost > job.deadline || job.link.is_closed()
}
