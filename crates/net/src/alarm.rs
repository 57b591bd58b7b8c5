//! A timer that goes by the nanosecond. The runtime's own goes by whole milliseconds: the pauses of all connections would end together, what they
//! ask would come in bursts, and a rate would be kept a millisecond late.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One timer of the kernel.
#[derive(Debug)]
pub struct Alarm {
    timer: AsyncFd<OwnedFd>,
    set_to: Option<Instant>,
}

impl Alarm {
    /// A timer that is not set, tied to the runtime of the calling thread.
    ///
    /// # Errors
    /// No descriptors or no memory.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: an `OwnedFd` gives the same open descriptor until it is dropped, and the `AsyncFd` owns it.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?;
        Ok(Self { timer, set_to: None })
    }

    /// Ready at `at`; now and then before, if it was set to another time last.
    pub fn poll(&mut self, context: &mut Context<'_>, at: Instant) -> Poll<io::Result<()>> {
        if self.set_to != Some(at) {
            let left = at.saturating_duration_since(Instant::now());
            // Zero would mean never.
            let nanoseconds = left.subsec_nanos().max(u32::from(left.as_secs() == 0));
            let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
            let once = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
            };
            timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
            self.set_to = Some(at);
        }
        ready!(self.timer.poll_read_ready(context))?.clear_ready();
        self.set_to = None;
        Poll::Ready(Ok(()))
    }

    /// Waits until `at`, not less.
    ///
    /// # Errors
    /// The runtime ends.
    pub async fn until(&mut self, at: Instant) -> io::Result<()> {
        while Instant::now() < at {
            std::future::poll_fn(|context| self.poll(context, at)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_alarm_never_ends_before_its_time_and_is_set_again() {
        let mut alarm = Alarm::new().unwrap();
        for micros in [300, 0, 150, 40] {
            let at = Instant::now() + Duration::from_micros(micros);
            alarm.until(at).await.unwrap();
            assert!(Instant::now() >= at);
        }
    }

    #[tokio::test]
    async fn one_that_is_set_to_another_time_wakes_at_that_one() {
        let mut alarm = Alarm::new().unwrap();
        let late = Instant::now() + Duration::from_secs(3600);
        let is_pending = std::future::poll_fn(|context| Poll::Ready(alarm.poll(context, late).is_pending())).await;
        assert!(is_pending);
        let soon = Instant::now() + Duration::from_micros(100);
        alarm.until(soon).await.unwrap();
    }
}
