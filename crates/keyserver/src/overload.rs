//! Whether foreign peers ask for more than can be done: those that do not understand BUSY, so that only errors and silence can slow them down.
//!
//! A peer that waits for a response before it asks again has a bounded number of requests outstanding, however long they wait: these are served in
//! order, and dropping one would only bring the next. A peer that does not wait asks for what nobody waits for any more: of that the oldest is dropped.
//! So while jobs wait longer than the target, their number is compared with what it was. If it grows, what is late is dropped for a target's time; then
//! nothing is for as long, in which peers replace what was dropped, and from then on the number is compared again.
//!
//! Pure bookkeeping for one class: no clock of its own, and no queue.

use std::time::{Duration, Instant};

/// So many times the target a connection that replaces each dropped job at once keeps its jobs.
const REST_TARGETS: u32 = 300;

/// How the number of waiting jobs changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trend {
    /// None waits longer than the target.
    Short,
    /// Nothing is dropped; peers may still replace what was.
    Settling { until: Instant },
    /// Hardly more than this: the peers wait for their responses.
    Steady { waiting: usize },
    /// The peers do not wait for their responses.
    Shedding { until: Instant },
}

/// The state of one class.
#[derive(Debug)]
pub(super) struct Overload {
    target: Duration,
    trend: Trend,
    /// When a job that had waited longer than the target was seen last.
    late: Option<Instant>,
    /// Until then, what a connection may not have outstanding is left in its socket.
    rests_until: Option<Instant>,
}

impl Overload {
    pub(super) fn new(target: Duration) -> Overload {
        Overload { target, trend: Trend::Short, late: None, rests_until: None }
    }

    /// A job that has waited for `age` is next of its connection, and `waiting` wait altogether.
    pub(super) fn look(&mut self, age: Duration, waiting: usize, now: Instant) {
        if age > self.target {
            self.late = Some(now);
        }
        let is_short = self.late.is_none_or(|late| now.saturating_duration_since(late) > self.target);
        self.trend = match self.trend {
            Trend::Shedding { until } | Trend::Settling { until } if now < until => return,
            Trend::Shedding { .. } => self.settling(now),
            _ if is_short => Trend::Short,
            Trend::Short => self.settling(now),
            Trend::Settling { .. } => Trend::Steady { waiting },
            Trend::Steady { waiting: before } if waiting > before + before / 8 + 2 => self.shedding(now),
            Trend::Steady { .. } => return,
        };
    }

    fn settling(&self, now: Instant) -> Trend {
        Trend::Settling { until: now + self.target }
    }

    fn shedding(&self, now: Instant) -> Trend {
        Trend::Shedding { until: now + self.target }
    }

    /// There is more to read than may be queued, which hides whether the number grows.
    pub(super) fn has_more(&mut self, now: Instant) {
        if matches!(self.trend, Trend::Steady { .. }) && self.rests_until.is_none_or(|until| now >= until) {
            self.trend = self.shedding(now);
        }
    }

    /// As many as were dropped came back at once: the peer waits for its responses, with more outstanding than it may have.
    pub(super) fn rest(&mut self, now: Instant) {
        self.rests_until = Some(now + REST_TARGETS * self.target);
        self.trend = self.settling(now);
    }

    /// Whether jobs are to be dropped.
    pub(super) fn is_shedding(&self) -> bool {
        matches!(self.trend, Trend::Shedding { .. })
    }

    /// Whether that holds for a job that has waited for `age`. Less than the target, so that what is left while nothing is dropped stays within it.
    pub(super) fn is_late(&self, age: Duration) -> bool {
        self.is_shedding() && age > self.target / 2
    }
}
