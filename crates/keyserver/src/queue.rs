//! Work that waits for a crypto thread: the [`Backlog`] under a lock, and threads that sleep while it is empty.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::limits::KeyServerLimits;
use wire::keyless::Operation;

use super::backlog::{Backlog, Batch, Class, Costs, Full, Terms, Waits};
use super::keys::Key;
use super::link::Link;

/// One operation that waits.
#[derive(Debug)]
pub(super) struct Job {
    /// Where the response goes.
    pub(super) link: Arc<Link>,
    pub(super) id: u32,
    pub(super) operation: Operation,
    pub(super) key: Arc<Key>,
    pub(super) payload: Payload,
    pub(super) received: Instant,
    /// When the response is of no use any more.
    pub(super) deadline: Instant,
    /// Shed first.
    pub(super) is_minor: bool,
}

impl Waits for Job {
    fn terms(&self) -> Terms {
        Terms {
            class: self.key.class,
            received: self.received,
            deadline: self.deadline,
            extended: self.link.extended,
            is_minor: self.is_minor,
            connection: Arc::as_ptr(&self.link).addr(),
        }
    }

    fn is_wanted(&self) -> bool {
        !self.link.is_closed()
    }
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
            Some(start) => {
                start.copy_from_slice(bytes);
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

/// The queues.
#[derive(Debug)]
pub(super) struct Scheduler {
    state: Mutex<State>,
    wake: Condvar,
    costs: Costs,
}

#[derive(Debug)]
struct State {
    backlog: Backlog<Job>,
    idle_threads: usize,
    stopped: bool,
}

impl Scheduler {
    pub(super) fn new(limits: &KeyServerLimits) -> Scheduler {
        let backlog = Backlog::new(limits);
        Scheduler {
            state: Mutex::new(State { backlog, idle_threads: 0, stopped: false }),
            wake: Condvar::new(),
            costs: Costs::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The queues are full, and its connection has its share of them: submit it again later.
    pub(super) fn submit(&self, job: Job) -> Result<(), Full> {
        let now = Instant::now();
        let mut state = self.lock();
        let taken = state.backlog.submit(job, now);
        let wake = taken.is_ok() && state.idle_threads > 0;
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        taken
    }

    /// Records what an operation really cost.
    pub(super) fn learn(&self, class: Class, cost: Duration) {
        self.costs.learn(class, cost);
    }

    /// Waits for work and takes a batch of it; `rest` is called before the thread sleeps. False when the server ends.
    pub(super) fn next(&self, batch: &mut Batch<Job>, rest: impl Fn()) -> bool {
        let mut state = self.lock();
        let mut rested = false;
        loop {
            if state.stopped {
                return false;
            }
            if !state.backlog.is_empty() {
                state.backlog.take(batch, &self.costs, Instant::now());
                return true;
            }
            if !rested {
                drop(state);
                rest();
                rested = true;
                state = self.lock();
                continue;
            }
            state.idle_threads += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_threads -= 1;
        }
    }

    /// A connection has as much outstanding as it may, and more to read: takes out those of its oldest jobs that are to be dropped.
    pub(super) fn shed(&self, link: &Arc<Link>) -> Vec<Job> {
        self.lock().backlog.shed(Arc::as_ptr(link).addr(), Instant::now())
    }

    /// Jobs that wait, by class.
    pub(super) fn waiting(&self) -> [usize; 3] {
        self.lock().backlog.waiting()
    }

    /// Ends the threads. What waits is dropped with the queues.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
    }
}
