//! A gate for messages about faults that repeat.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Lets something through once a second at most, and counts the rest. For messages about faults that repeat; fit for a `static`.
#[derive(Debug, Default)]
pub struct OncePerSecond {
    /// Milliseconds on the process's monotonic clock; 0 before the first time.
    next_ms: AtomicU64,
    suppressed: AtomicU64,
}

impl OncePerSecond {
    /// One that lets the first through.
    pub const fn new() -> OncePerSecond {
        OncePerSecond { next_ms: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// How many were held back since the last one, if this one may pass.
    pub fn allow(&self) -> Option<u64> {
        static START: OnceLock<Instant> = OnceLock::new();
        let elapsed = START.get_or_init(Instant::now).elapsed();
        self.allow_at(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    fn allow_at(&self, now_ms: u64) -> Option<u64> {
        let next = self.next_ms.load(Relaxed);
        let due = now_ms >= next && self.next_ms.compare_exchange(next, now_ms + 1000, Relaxed, Relaxed).is_ok();
        if due {
            Some(self.suppressed.swap(0, Relaxed))
        } else {
            self.suppressed.fetch_add(1, Relaxed);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_per_second_counts_what_it_holds_back() {
        let gate = OncePerSecond::new();
        let passed: Vec<Option<u64>> = [0, 1, 999, 1000, 1001, 5000, 5999].map(|ms| gate.allow_at(ms)).into();
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1), None]);
    }
}
