//! What waits for a crypto thread, as pure bookkeeping: who is served next, and what is dropped. No lock, no clock of its own.
//!
//! The classes share the threads' time equally while all have work; within a class connections take turns, one job each. So ECDSA does not wait for RSA, and nobody
//! for a connection that asks for too much: that one waits for itself.
//!
//! What waits too long is dropped at the head of its connection's queue, as CoDel does (RFC 8289, RFC 8290 §4.2), by the time that the job really waited: nothing is estimated. A peer that
//! understands BUSY is told so after the target; for the others see `overload.rs`. That rejections cost less than the work, however many requests are outstanding,
//! is ensured by a credit that jobs done bring. While it is used up, the newest job of a late queue is served: somebody still waits for it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use config::limits::KeyServerLimits;
use tls::crypto::{Curve, KeyKind};

use super::overload::Overload;

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

/// What a job waits under.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) class: Class,
    pub(super) received: Instant,
    /// When the response is of no use any more.
    pub(super) deadline: Instant,
    /// Its peer understands BUSY.
    pub(super) extended: bool,
    /// Shed first.
    pub(super) is_minor: bool,
    /// Distinguishes connections.
    pub(super) connection: usize,
}

impl Terms {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.received)
    }

    /// Whether its peer understands BUSY, and is to be told.
    fn is_busy(&self, target: Duration, now: Instant) -> bool {
        self.extended && self.age(now) > if self.is_minor { target / 2 } else { target }
    }
}

/// A thing that waits.
pub(super) trait Waits {
    fn terms(&self) -> Terms;

    /// Whether the peer is still connected.
    fn is_wanted(&self) -> bool;
}

/// The queues are full, and the connection has its share of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// What a crypto thread got.
#[derive(Debug)]
pub(super) struct Batch<J> {
    /// To be executed.
    pub(super) jobs: Vec<J>,
    /// To be dropped.
    pub(super) dropped: Vec<J>,
}

impl<J> Default for Batch<J> {
    fn default() -> Batch<J> {
        Batch { jobs: Vec::new(), dropped: Vec::new() }
    }
}

impl<J> Batch<J> {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.dropped.is_empty()
    }
}

/// What the work on one job of each class costs a thread, as moving averages.
#[derive(Debug)]
pub(super) struct Costs([AtomicU64; 3]);

impl Costs {
    pub(super) fn new() -> Costs {
        Costs(Class::ALL.map(|class| AtomicU64::new(class.first_estimate())))
    }

    pub(super) fn of(&self, class: Class) -> Duration {
        Duration::from_nanos(self.0[class as usize].load(Ordering::Relaxed))
    }

    /// Records what a job really cost.
    pub(super) fn learn(&self, class: Class, cost: Duration) {
        let old = nanoseconds(self.of(class));
        // A thread that was interrupted says little about the work.
        let cost = nanoseconds(cost).min(old * 4);
        // A lost update between two threads does not matter.
        self.0[class as usize].store((old - old / 16 + cost / 16).max(1_000), Ordering::Relaxed);
    }
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Jobs dropped at once, so that the lock is not held for long.
const MAX_DROPPED: usize = 64;

/// Drops for each job that is done, at most. An open loop of four times what can be done needs three, and its retries as many again.
const DROPS_PER_JOB: usize = 16;

/// Drops that may be saved up for a spike.
const MAX_CREDIT: usize = 8_192;

/// All that waits.
#[derive(Debug)]
pub(super) struct Backlog<J> {
    classes: [Queues<J>; 3],
    max_queued: usize,
}

/// What waits of one class.
#[derive(Debug)]
struct Queues<J> {
    target: Duration,
    /// By connection, each in the order in which it came. One that was emptied by dropping is removed when its turn comes.
    flows: HashMap<usize, VecDeque<J>>,
    /// The connections in the order of their turns.
    turns: VecDeque<usize>,
    /// Jobs in all queues: of peers that do not understand BUSY, of those that do.
    waiting: [usize; 2],
    /// Jobs that may be dropped now, of the same.
    credit: [usize; 2],
    overload: Overload,
    /// Virtual time: nanoseconds of work handed out.
    passed: u64,
}

impl<J: Waits> Backlog<J> {
    pub(super) fn new(limits: &KeyServerLimits) -> Backlog<J> {
        let queues = |_| Queues {
            target: limits.target_wait,
            flows: HashMap::new(),
            turns: VecDeque::new(),
            waiting: [0; 2],
            credit: [MAX_CREDIT; 2],
            overload: Overload::new(limits.target_wait),
            passed: 0,
        };
        Backlog { classes: Class::ALL.map(queues), max_queued: limits.max_queued }
    }

    /// Queues a job. Where the queues are full, a connection may still have its share of them.
    ///
    /// # Errors
    /// It has more than that: submit it again later.
    pub(super) fn submit(&mut self, job: J, now: Instant) -> Result<(), Full> {
        let terms = job.terms();
        let behind = self.furthest_behind().map(|other| self.classes[other as usize].passed);
        let class = &mut self.classes[terms.class as usize];
        if class.len() >= self.max_queued {
            let share = (self.max_queued / class.flows.len().max(1)).max(1);
            if class.flows.get(&terms.connection).is_some_and(|flow| flow.len() >= share) {
                class.overload.has_more(now);
                return Err(Full);
            }
        }
        if class.len() == 0 {
            // A class that had nothing to do has not saved up time.
            class.passed = behind.map_or(class.passed, |behind| behind.max(class.passed));
        }
        let flow = class.flows.entry(terms.connection).or_insert_with(|| {
            class.turns.push_back(terms.connection);
            VecDeque::new()
        });
        flow.push_back(job);
        class.waiting[usize::from(terms.extended)] += 1;
        Ok(())
    }

    /// A foreign connection has as much outstanding as it may, and more to read: drops its oldest jobs, if it does not wait for responses.
    pub(super) fn shed(&mut self, connection: usize, now: Instant) -> Vec<J> {
        let mut dropped = Vec::new();
        for class in &mut self.classes {
            class.shed_of(connection, &mut dropped, now);
        }
        dropped
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting() == [0; 3]
    }

    /// Jobs that wait, by class.
    pub(super) fn waiting(&self) -> [usize; 3] {
        [0, 1, 2].map(|class: usize| self.classes[class].len())
    }

    fn furthest_behind(&self) -> Option<Class> {
        let waiting = Class::ALL.into_iter().filter(|class| self.classes[*class as usize].len() > 0);
        waiting.min_by_key(|class| self.classes[*class as usize].passed)
    }

    /// Takes a batch out. Leaves it empty only if nothing waits.
    pub(super) fn take(&mut self, batch: &mut Batch<J>, costs: &Costs, now: Instant) {
        while let Some(class) = self.furthest_behind().filter(|_| batch.is_empty()) {
            self.classes[class as usize].take(class.batch(), batch, costs.of(class), now);
        }
    }
}

impl<J: Waits> Queues<J> {
    fn len(&self) -> usize {
        self.waiting[0] + self.waiting[1]
    }

    fn take(&mut self, most: usize, batch: &mut Batch<J>, cost: Duration, now: Instant) {
        while batch.jobs.len() < most
            && batch.dropped.len() < MAX_DROPPED
            && let Some(connection) = self.turns.pop_front()
        {
            let Some(mut flow) = self.flows.remove(&connection) else { continue };
            if let Some(terms) = flow.front().map(Waits::terms) {
                let before = flow.len();
                self.take_of(&mut flow, &terms, batch, cost, now);
                self.waiting[usize::from(terms.extended)] -= before - flow.len();
            }
            if !flow.is_empty() {
                self.flows.insert(connection, flow);
                self.turns.push_back(connection);
            }
        }
        self.passed += nanoseconds(cost).saturating_mul(batch.jobs.len() as u64);
        self.shed(&mut batch.dropped, now);
    }

    /// Takes one job of a connection, after what is late. `oldest`: what its first one waits under.
    fn take_of(&mut self, flow: &mut VecDeque<J>, oldest: &Terms, batch: &mut Batch<J>, cost: Duration, now: Instant) {
        let kind = usize::from(oldest.extended);
        if !oldest.extended {
            self.overload.look(oldest.age(now), self.waiting[kind], now);
        }
        let is_over = |job: &J| now + cost > job.terms().deadline || !job.is_wanted();
        let target = self.target;
        let is_late = |job: &J| is_over(job) || job.terms().is_busy(target, now);
        while batch.dropped.len() < MAX_DROPPED && self.credit[kind] > 0 && flow.front().is_some_and(is_late) {
            self.credit[kind] -= 1;
            batch.dropped.extend(flow.pop_front());
        }
        let next = if flow.front().is_some_and(is_late) { flow.pop_back() } else { flow.pop_front() };
        match next {
            Some(job) if is_over(&job) => batch.dropped.push(job),
            Some(job) => {
                batch.jobs.push(job);
                self.credit[kind] = (self.credit[kind] + DROPS_PER_JOB).min(MAX_CREDIT);
            }
            None => {}
        }
    }

    /// Drops foreign jobs that are late, if their peers do not wait for responses.
    fn shed(&mut self, dropped: &mut Vec<J>, now: Instant) {
        if !self.overload.is_shedding() {
            return;
        }
        let (before, most) = (dropped.len(), MAX_DROPPED.min(dropped.len() + self.credit[0]));
        for connection in self.turns.iter().take(MAX_DROPPED) {
            let Some(flow) = self.flows.get_mut(connection) else { continue };
            let is_late = |job: &J| !job.terms().extended && self.overload.is_late(job.terms().age(now));
            while dropped.len() < most && flow.front().is_some_and(is_late) {
                dropped.extend(flow.pop_front());
            }
        }
        self.count_dropped(dropped.len().saturating_sub(before));
    }

    fn shed_of(&mut self, connection: usize, dropped: &mut Vec<J>, now: Instant) {
        let Some(flow) = self.flows.get_mut(&connection) else { return };
        let Some(oldest) = flow.front().map(Waits::terms) else { return };
        self.overload.look(oldest.age(now), self.waiting[0], now);
        self.overload.has_more(now);
        if !self.overload.is_shedding() {
            return;
        }
        let count = flow.len().min(MAX_DROPPED).min(self.credit[0]);
        dropped.extend(flow.drain(..count));
        self.count_dropped(count);
        if self.credit[0] == 0 {
            self.overload.rest(now);
        }
    }

    /// So many foreign jobs were dropped.
    fn count_dropped(&mut self, count: usize) {
        self.waiting[0] -= count;
        self.credit[0] -= count;
    }
}

#[cfg(test)]
mod tests;
