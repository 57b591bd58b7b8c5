//! The coarse clocks: a few nanoseconds to read, some milliseconds precise. For deadlines and ages, not for measuring.

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

/// Seconds since 1970 by the wall clock, some milliseconds late at most. A clock before 1970 counts as its start.
pub fn wall_seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}
