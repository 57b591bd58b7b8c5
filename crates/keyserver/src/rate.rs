//! A bound on operations per second, shared by the connections of one access rule. Lock-free.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A leaky bucket that holds one second's worth.
#[derive(Debug)]
pub(super) struct Rate {
    started: Instant,
    /// Between two operations, nanoseconds.
    interval: u64,
    /// When, in nanoseconds since the start, the bucket will be empty.
    empty_at: AtomicU64,
}

impl Rate {
    pub(super) fn new(per_second: u32) -> Rate {
        let interval = 1_000_000_000 / u64::from(per_second.max(1));
        Rate { started: Instant::now(), interval: interval.max(1), empty_at: AtomicU64::new(0) }
    }

    /// Counts one operation if the rate allows it.
    pub(super) fn allow(&self) -> bool {
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let count = |empty_at: u64| {
            let next = empty_at.max(now).saturating_add(self.interval);
            (next <= now.saturating_add(1_000_000_000)).then_some(next)
        };
        self.empty_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_worth_passes_at_once_and_then_nothing() {
        let rate = Rate::new(5);
        let passed = (0..20).filter(|_| rate.allow()).count() as u128;
        // What comes free meanwhile passes, too.
        let most = 5 + rate.started.elapsed().as_millis() / 200 + 1;
        assert!((5..=most).contains(&passed), "{passed} of {most}");
    }
}
