//! What waits for a crypto thread, as pure bookkeeping: who is taken next, who is rejected, who is given up. No lock, no clock of its own.
//!
//! Each class has a virtual time that grows with the work it was given, divided by its weight; the class that is furthest behind is served. Within a
//! class, peers that understand BUSY and those that do not have a lane each and take turns, so that neither can push the other out.
//!
//! How long a lane stands for is measured, not computed: the time between two jobs leaving it. That holds whatever slows the threads down.
//!
//! Where a lane grows although its oldest job has waited longer than the target, the newest job is taken first: its peer is still there. A lane
//! that is long and takes in just what is done of it is served in order: its peers wait for responses before they ask again, and the oldest must not
//! starve. If it takes in more, or less, nobody waits for the oldest, and what has waited for ten times the target is given up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use config::limits::KeyServerLimits;
use tls::crypto::{Curve, KeyKind};

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

/// What a job is waiting under.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) class: Class,
    pub(super) received: Instant,
    /// When the response is of no use any more.
    pub(super) deadline: Instant,
    /// Its peer understands BUSY.
    pub(super) extended: bool,
    /// Gives way first.
    pub(super) is_minor: bool,
    /// Distinguishes connections.
    pub(super) connection: usize,
}

/// A thing that waits.
pub(super) trait Waits {
    fn terms(&self) -> Terms;

    /// Whether anybody is still there to be answered.
    fn is_wanted(&self) -> bool;
}

/// Why a job was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Its peer understands BUSY, and would wait too long.
    Busy(Busy),
    /// The queue is full: hand it in again later.
    Full,
}

/// How busy a class is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy {
    /// What waits now stands for so long.
    pub(super) wait: Duration,
    /// Between two jobs that leave it.
    pub(super) pace: Duration,
}

/// What a crypto thread got.
#[derive(Debug)]
pub(super) struct Batch<J> {
    /// To be done.
    pub(super) jobs: Vec<J>,
    /// To be given up.
    pub(super) expired: Vec<J>,
}

impl<J> Default for Batch<J> {
    fn default() -> Batch<J> {
        Batch { jobs: Vec::new(), expired: Vec::new() }
    }
}

impl<J> Batch<J> {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.expired.is_empty()
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

    /// Tells what a job really cost.
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

/// All that waits.
#[derive(Debug)]
pub(super) struct Backlog<J> {
    classes: [Lanes<J>; 3],
    limits: KeyServerLimits,
}

/// What waits of one class.
#[derive(Debug)]
struct Lanes<J> {
    /// Peers that do not understand BUSY; those that do.
    lanes: [Lane<J>; 2],
    /// Which of them is served next if both have something.
    turn: usize,
    /// Virtual time, nanoseconds over weight.
    passed: u64,
    pace: Pace,
}

impl<J: Waits> Backlog<J> {
    pub(super) fn new(threads: usize, limits: KeyServerLimits) -> Backlog<J> {
        let lanes = |class: Class| Lanes {
            lanes: [Lane::default(), Lane::default()],
            turn: 0,
            passed: 0,
            pace: Pace::new(class.first_estimate() / threads.max(1) as u64),
        };
        Backlog { classes: Class::ALL.map(lanes), limits }
    }

    /// Takes a job in; gives the one that had to make room for it, if any did.
    ///
    /// # Errors
    /// Why it cannot be taken now.
    pub(super) fn submit(&mut self, job: J, now: Instant) -> Result<Option<J>, Rejected> {
        let terms = job.terms();
        let target = self.limits.target_wait;
        let behind = self.furthest_behind().map(|other| self.classes[other as usize].passed);
        let class = &mut self.classes[terms.class as usize];
        let wait = class.expected_wait(terms.extended);
        if terms.extended {
            let most = if terms.is_minor { target / 2 } else { target };
            let left = terms.deadline.saturating_duration_since(now);
            if wait > most.min(left) {
                let pace = Duration::from_nanos(class.pace.per_job);
                return Err(Rejected::Busy(Busy { wait, pace }));
            }
        }
        if class.is_empty() {
            // A class that had nothing to do has not saved up time.
            class.passed = behind.map_or(class.passed, |behind| behind.max(class.passed));
        }
        let lane = &mut class.lanes[usize::from(terms.extended)];
        let mut displaced = None;
        if lane.jobs.len() >= self.limits.max_queued {
            // More comes in than can be done, and does not wait for responses: what is oldest is not waited for any more.
            if !lane.newest_first || !lane.jobs.front().is_some_and(|oldest| Lane::is_stale(oldest, now, target)) {
                return Err(Rejected::Full);
            }
            displaced = lane.jobs.pop_front();
        }
        lane.flow.gave_up |= displaced.is_some();
        lane.flow.arrived += 1;
        lane.jobs.push_back(job);
        lane.look(now, target, terms.extended);
        class.pace.begin(now);
        Ok(displaced)
    }

    /// Takes out the oldest, `most` at most, of those that `is_meant`: their peer knows no BUSY, asks for more than can be done and does not wait for
    /// answers, so that the newest are served first.
    pub(super) fn shed(&mut self, most: usize, is_meant: impl Fn(&J) -> bool) -> Vec<J> {
        let mut shed = Vec::new();
        for lane in self.classes.iter_mut().filter_map(|class| class.lanes.first_mut()) {
            let before = shed.len();
            let mut others = Vec::new();
            while shed.len() < most
                && let Some(job) = lane.jobs.pop_front()
            {
                if is_meant(&job) { shed.push(job) } else { others.push(job) }
            }
            others.into_iter().rev().for_each(|job| lane.jobs.push_front(job));
            if shed.len() > before {
                lane.flow.gave_up = true;
                lane.newest_first = true;
            }
        }
        shed
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.classes.iter().all(Lanes::is_empty)
    }

    /// Jobs that wait, by class.
    pub(super) fn waiting(&self) -> [usize; 3] {
        [0, 1, 2].map(|class: usize| self.classes[class].len())
    }

    fn furthest_behind(&self) -> Option<Class> {
        let waiting = Class::ALL.into_iter().filter(|class| !self.classes[*class as usize].is_empty());
        waiting.min_by_key(|class| self.classes[*class as usize].passed)
    }

    /// Takes a batch out. Leaves it empty only if nothing waits.
    pub(super) fn take(&mut self, batch: &mut Batch<J>, costs: &Costs, now: Instant) {
        while let Some(class) = self.furthest_behind().filter(|_| batch.is_empty()) {
            let cost = costs.of(class);
            self.classes[class as usize].take(class, batch, cost, now, self.limits.target_wait);
        }
    }
}

impl<J: Waits> Lanes<J> {
    fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.jobs.len()).sum()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long a job would wait behind all that are in its lane.
    fn expected_wait(&self, extended: bool) -> Duration {
        let own = self.lanes[usize::from(extended)].jobs.len() as u64;
        let shares = if self.lanes[usize::from(!extended)].jobs.is_empty() { 1 } else { 2 };
        Duration::from_nanos(self.pace.per_job.saturating_mul(own * shares))
    }

    fn take(&mut self, class: Class, batch: &mut Batch<J>, cost: Duration, now: Instant, target: Duration) {
        /// Jobs given up at once, so that the lock is not held for long.
        const MAX_EXPIRED: usize = 64;
        if !self.lanes[1 - self.turn].jobs.is_empty() {
            self.turn = 1 - self.turn;
        }
        let lane = &mut self.lanes[self.turn];
        lane.look(now, target, self.turn == 1);
        let is_purging = lane.is_purging;
        let is_over = |job: &J| {
            now + cost > job.terms().deadline || !job.is_wanted() || is_purging && Lane::is_stale(job, now, target)
        };
        // The oldest expire first; without this they would stay at the far end of the queue.
        while batch.expired.len() < MAX_EXPIRED && lane.jobs.front().is_some_and(is_over) {
            batch.expired.extend(lane.jobs.pop_front());
        }
        while batch.jobs.len() < class.batch() && batch.expired.len() < MAX_EXPIRED {
            let next = if lane.newest_first { lane.take_newest() } else { lane.jobs.pop_front() };
            let Some(job) = next else { break };
            if is_over(&job) { batch.expired.push(job) } else { batch.jobs.push(job) }
        }
        lane.flow.gave_up |= !batch.expired.is_empty();
        lane.flow.done += batch.jobs.len();
        self.passed += nanoseconds(cost).saturating_mul(batch.jobs.len() as u64) / class.weight();
        let is_empty = self.lanes.iter().all(|lane| lane.jobs.is_empty());
        self.pace.count(batch.jobs.len() as u64, is_empty, cost, now);
    }
}

/// How fast jobs leave a class while there are some.
#[derive(Debug)]
struct Pace {
    /// Nanoseconds, a moving average.
    per_job: u64,
    /// Since when there is work without a gap, or since the last look.
    since: Option<Instant>,
    begun: u64,
}

impl Pace {
    /// Time after which a look says enough.
    const WINDOW: Duration = Duration::from_millis(20);

    /// Jobs without which a look says nothing.
    const ENOUGH: u64 = 8;

    fn new(per_job: u64) -> Pace {
        Pace { per_job: per_job.max(1), since: None, begun: 0 }
    }

    fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// So many jobs left, and perhaps no other is left; `cost`: what one takes of one thread.
    fn count(&mut self, jobs: u64, is_empty: bool, cost: Duration, now: Instant) {
        self.begun += jobs;
        let Some(since) = self.since else { return };
        let elapsed = now.saturating_duration_since(since);
        if elapsed >= Pace::WINDOW && self.begun > 0 || is_empty && self.begun >= Pace::ENOUGH {
            let measured = nanoseconds(elapsed) / self.begun;
            self.per_job = (self.per_job - self.per_job / 4 + measured / 4).max(1);
            self.since = Some(now);
            self.begun = 0;
        } else if is_empty {
            // Hardly anything waits: what was learned when the machine was slower is forgotten by and by.
            let slower = self.per_job.saturating_sub(nanoseconds(cost));
            self.per_job -= slower / 8;
        }
        if is_empty {
            self.since = None;
            self.begun = 0;
        }
    }
}

/// Jobs in the order in which they came.
#[derive(Debug)]
struct Lane<J> {
    jobs: VecDeque<J>,
    /// More comes in than is done, for longer than the target.
    newest_first: bool,
    /// Whose job was the newest that was taken last.
    served: usize,
    /// When it was last looked at how long the lane is, and what that was: after each target's time.
    seen: Option<(Instant, usize)>,
    /// Looks in a row at which it had grown.
    grown: u32,
    flow: Flow,
    /// How often in a row it took in more or less than was done.
    uneven: u32,
    /// What has waited for too long is given up, until the flow is checked again.
    is_purging: bool,
}

/// What came into a lane and what was done of it.
#[derive(Debug, Default)]
struct Flow {
    since: Option<Instant>,
    arrived: usize,
    done: usize,
    /// Jobs were given up.
    gave_up: bool,
}

/// What a flow says of those who ask.
#[derive(Debug, PartialEq, Eq)]
enum Trend {
    /// More than can be done, or they give up: they do not wait for responses.
    Grows,
    /// As many as are answered: they wait for their responses.
    Even,
    /// Fewer than are done.
    Drains,
}

impl Flow {
    /// Checked after so many times the target.
    const TARGETS: u32 = 10;

    fn begin(now: Instant) -> Flow {
        Flow { since: Some(now), ..Flow::default() }
    }

    /// What can be said, if it is time. Measured by what flows, not by what waits: what a spike left must not hide that it drains.
    fn trend(&mut self, now: Instant, target: Duration, is_reported: bool) -> Option<Trend> {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < Flow::TARGETS * target {
            return None;
        }
        let slack = self.done / 32 + 4;
        Some(if self.arrived > self.done + slack || (self.gave_up && !is_reported) {
            Trend::Grows
        } else if self.arrived + slack < self.done {
            Trend::Drains
        } else {
            Trend::Even
        })
    }
}

impl<J> Default for Lane<J> {
    fn default() -> Lane<J> {
        let flow = Flow::default();
        let jobs = VecDeque::new();
        Lane { jobs, newest_first: false, served: 0, seen: None, grown: 0, flow, uneven: 0, is_purging: false }
    }
}

impl<J: Waits> Lane<J> {
    /// How long the oldest has waited.
    fn age(&self, now: Instant) -> Duration {
        self.jobs.front().map_or(Duration::ZERO, |oldest| now.saturating_duration_since(oldest.terms().received))
    }

    /// Whether a job has waited for so long that, where peers do not wait for responses, its own has given up.
    fn is_stale(job: &J, now: Instant, target: Duration) -> bool {
        now.saturating_duration_since(job.terms().received) > Flow::TARGETS * target
    }

    /// Takes the newest job, every other time that of another connection: one that asks for more than can be done is not all that is served.
    fn take_newest(&mut self) -> Option<J> {
        /// How far another connection's job is looked for.
        const NEWEST: usize = 64;
        let is_another = |job: &J| job.terms().connection != self.served;
        let behind = self.jobs.iter().rev().take(NEWEST).position(is_another).unwrap_or(0);
        let job = self.jobs.remove(self.jobs.len().checked_sub(behind + 1)?)?;
        self.served = job.terms().connection;
        Some(job)
    }

    /// Finds out whether the newest are to be served first. Where peers are told to stay away, the length is bounded, and only threads that have
    /// become slower can make the oldest wait twice the target; that some are given up says nothing there.
    fn look(&mut self, now: Instant, target: Duration, is_reported: bool) {
        let (length, age) = (self.jobs.len(), self.age(now));
        let seen = self.seen.get_or_insert((now, length));
        let mut has_grown = false;
        if now.saturating_duration_since(seen.0) >= target {
            self.grown = if length > seen.1 + seen.1 / 8 + 2 { self.grown + 1 } else { 0 };
            has_grown = self.grown >= 2;
            *seen = (now, length);
        }
        if let Some(trend) = self.flow.trend(now, target, is_reported) {
            self.flow = Flow::begin(now);
            has_grown |= trend == Trend::Grows;
            // While jobs are given up as fast as they come, flows say nothing: every other time it is seen what happens without.
            if !std::mem::take(&mut self.is_purging) {
                self.uneven = if has_grown || trend != Trend::Even { self.uneven + 1 } else { 0 };
                self.newest_first &= self.uneven > 0;
                // Peers that wait for responses look like a growing load when they begin to ask, but not twice.
                self.is_purging = self.newest_first && self.uneven >= 2 && !is_reported;
            }
        }
        if age <= target * if is_reported { 2 } else { 1 } {
            self.newest_first = false;
            self.is_purging = false;
            self.uneven = 0;
            self.flow = Flow::begin(now);
        } else if has_grown {
            self.newest_first = true;
        }
    }
}

#[cfg(test)]
mod tests;
