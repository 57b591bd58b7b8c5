//! What one foreign connection asks beyond its places in flight: whether it waits for its responses, or its oldest requests are to give way.
//!
//! A connection that has as much outstanding as it may is not read. If it asks at its own pace all the same, what it asks lies in its socket, and
//! every request is read when nobody waits for it any more. So where there has been more to read for too long, the oldest that wait are given up and it is
//! read on. A peer with more outstanding than it has places may wait for responses too; that shows only in the trial: it replaces what gave way at
//! once. Then it is left alone, and served in order.
//!
//! Pure bookkeeping, for one connection: no clock of its own, and no queue.

use std::time::{Duration, Instant};

use config::limits::KeyServerLimits;

/// Requests that give way at once.
const MOST_AT_ONCE: usize = 256;

/// Requests that give way for each that is answered, at most: who asks for more than that cannot be helped.
const PER_RESPONSE: usize = 16;

/// If as many gave way for each response in a whole trial, the peer replaces them at once.
const TOO_MANY_PER_RESPONSE: usize = 12;

/// So many times the target there must have been more to read.
const PATIENT_TARGETS: u32 = 2;

/// So many times the target a trial takes.
const TRIAL_TARGETS: u32 = 10;

/// So many times the target a peer is left alone after a trial that did not help.
const REST_TARGETS: u32 = 300;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Surplus {
    max_in_flight: usize,
    target_wait: Duration,
    /// Since when there has been more to read without a pause, or since the trial began.
    since: Option<Instant>,
    /// The oldest give way.
    is_trial: bool,
    /// Until then the peer is left alone.
    rests_until: Option<Instant>,
    /// Answers sent since then, also those to what gave way.
    sent: usize,
    gave_way: usize,
}

impl Surplus {
    pub(super) fn new(limits: &KeyServerLimits) -> Surplus {
        Surplus {
            max_in_flight: limits.max_in_flight,
            target_wait: limits.target_wait,
            since: None,
            is_trial: false,
            rests_until: None,
            sent: 0,
            gave_way: 0,
        }
    }

    fn begin(&mut self, is_trial: bool, now: Option<Instant>) {
        self.since = now;
        self.is_trial = is_trial;
        self.sent = 0;
        self.gave_way = 0;
    }

    /// There is more to read than may be outstanding: how many of the oldest are to give way now.
    pub(super) fn more(&mut self, now: Instant) -> usize {
        if self.rests_until.is_some_and(|until| now < until) {
            return 0;
        }
        let since = *self.since.get_or_insert(now);
        let elapsed = now.saturating_duration_since(since);
        let done = self.sent.saturating_sub(self.gave_way);
        if !self.is_trial {
            if elapsed < PATIENT_TARGETS * self.target_wait {
                return 0;
            }
            // Where places are free again within half of the target, nobody waits for long.
            let is_slow = done < 2 * PATIENT_TARGETS as usize * self.max_in_flight;
            self.begin(is_slow, Some(now));
        } else if elapsed >= TRIAL_TARGETS * self.target_wait {
            let helps = self.gave_way < done * TOO_MANY_PER_RESPONSE + self.max_in_flight;
            self.rests_until = (!helps).then(|| now + REST_TARGETS * self.target_wait);
            self.begin(helps, Some(now));
        }
        match self.is_trial {
            true => (self.max_in_flight + PER_RESPONSE * done).saturating_sub(self.gave_way).min(MOST_AT_ONCE),
            false => 0,
        }
    }

    /// So many gave way.
    pub(super) fn gave_way(&mut self, count: usize) {
        self.gave_way += count;
    }

    /// So many answers went out.
    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    /// All that was asked is read, and so many are outstanding.
    pub(super) fn none_left(&mut self, in_flight: usize) {
        if !self.is_trial || in_flight <= self.max_in_flight / 2 {
            self.begin(false, None);
        }
    }

    /// When to look again, if there is still more.
    pub(super) fn next_look(&self) -> Duration {
        self.target_wait / 4
    }
}
