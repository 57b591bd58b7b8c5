//! The coarse monotonic clock: a few nanoseconds to read, some milliseconds precise. For deadlines and ages, not for measuring.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since boot, to the nanosecond.
pub fn precise() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Time since boot, stepping by the kernel's tick (1 to 10 ms).
pub fn coarse() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
