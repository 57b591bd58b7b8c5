//! How slow a peer may be while it is waited for: the longest pause, and the least rate.
//!
//! The rate is a bucket of time: a wait empties it, bytes fill it at the
//! least rate allowed, and it holds no more than the longest pause. So the rate holds over every window of that length, what was sent quickly
//! earlier buys no slow rest, and time in which the peer is not waited for costs it nothing.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::Deadline;
use crate::clock::coarse;
use crate::deadline::LastLook;

/// How slow a peer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Longest wait without a byte.
    pub idle: Duration,
    /// Least rate, bytes per second of waiting; 0 for any.
    pub min_rate: u64,
}

/// The time a peer has left.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    pace: Pace,
    left: Duration,
}

impl Allowance {
    /// That of a peer which has not been waited for yet.
    pub fn new(pace: Pace) -> Allowance {
        Allowance { pace, left: pace.idle }
    }

    /// How long the next wait may last.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// A wait of this length is over: `bytes` came, or were accepted.
    pub fn moved(&mut self, waited: Duration, bytes: u64) {
        let Pace { idle, min_rate } = self.pace;
        if min_rate == 0 {
            return;
        }
        self.left = self.left.saturating_sub(waited);
        if self.left < idle {
            let earned = u128::from(bytes) * 1_000_000_000 / u128::from(min_rate);
            let earned = u64::try_from(earned).map_or(idle, Duration::from_nanos);
            self.left = idle.min(self.left.saturating_add(earned));
        }
    }
}

/// A peer that has to take what is sent to it, watched over many writes. Only those that block cost anything.
#[derive(Debug)]
pub struct Watch {
    allowance: Allowance,
    /// Since when it is waited for.
    since: Option<Duration>,
    deadline: Deadline,
    last_look: LastLook,
}

impl Watch {
    /// Over a peer that has not been waited for yet.
    pub fn new(pace: Pace) -> Watch {
        Watch {
            allowance: Allowance::new(pace),
            since: None,
            deadline: Deadline::new(),
            last_look: LastLook::default(),
        }
    }

    /// The peer takes nothing now: ready once it has done so for too long. To be called only after another try has blocked.
    pub fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(coarse);
        if !self.last_look.has_begun() {
            ready!(self.deadline.poll_elapsed(since + self.allowance.left(), context));
        }
        self.last_look.poll(context)
    }

    /// The peer has taken so many bytes.
    pub fn moved(&mut self, bytes: usize) {
        let waited = self.since.take().map_or(Duration::ZERO, |since| coarse().saturating_sub(since));
        self.allowance.moved(waited, bytes as u64);
        self.last_look = LastLook::default();
    }

    /// It is not this peer that was waited for.
    pub fn excuse(&mut self) {
        self.since = None;
        self.last_look = LastLook::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Whether a peer that sends so many bytes after each pause lasts for so many of them.
    fn lasts(pace: Pace, pause: Duration, bytes: u64, count: u32) -> bool {
        let mut allowance = Allowance::new(pace);
        (0..count).all(|_| {
            let in_time = pause <= allowance.left();
            allowance.moved(pause, bytes);
            in_time
        })
    }

    #[test]
    fn the_rate_holds_over_every_window() {
        let pace = Pace { idle: 60 * SECOND, min_rate: 256 };
        assert!(lasts(pace, SECOND, 256, 10_000), "exactly the least rate");
        assert!(lasts(pace, 60 * SECOND, 60 * 256, 1_000), "the same in bursts");
        assert!(!lasts(pace, SECOND, 255, 20_000));
        assert!(!lasts(pace, SECOND, 1, 70));
        assert!(!lasts(pace, 61 * SECOND, u64::MAX, 1), "a pause is a pause, whatever follows");
        let any = Pace { min_rate: 0, ..pace };
        assert!(lasts(any, 60 * SECOND, 1, 10_000) && !lasts(any, 61 * SECOND, 1, 1));
    }

    #[test]
    fn what_came_quickly_buys_no_slow_rest() {
        let mut allowance = Allowance::new(Pace { idle: 60 * SECOND, min_rate: 256 });
        allowance.moved(SECOND, 1 << 40);
        assert_eq!(allowance.left(), 60 * SECOND);
        allowance.moved(59 * SECOND, 1);
        assert!(allowance.left() < 2 * SECOND);
    }
}
