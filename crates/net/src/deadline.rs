//! One timer per connection, moved ahead without touching the timer wheel.
//!
//! Setting a deadline writes one field. The timer itself is armed only when a wait really blocks, stays armed at the earliest
//! deadline it was armed for, and is moved when it fires too early. A busy connection touches the wheel a few times a minute.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Sleep;

use crate::clock::coarse;

/// The deadline passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

/// Ready once the runtime has asked the kernel for news since a timer gave up. A process that was stopped and goes on finds its timers
/// expired and its sockets readable at the same time; what had come in time must not count as late, so there is a last look after this.
#[derive(Default)]
pub struct LastLook(Option<Pin<Box<dyn Future<Output = ()>>>>);

impl LastLook {
    /// Whether a timer has given up already.
    pub fn has_begun(&self) -> bool {
        self.0.is_some()
    }

    /// To be called once a timer has given up, and from then on.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.get_or_insert_with(|| Box::pin(tokio::task::yield_now())).as_mut().poll(context)
    }
}

impl fmt::Debug for LastLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LastLook({})", self.has_begun())
    }
}

pin_project! {
    /// A wait under a deadline. A struct and not an `async fn`, which would hold the future that it is given twice.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Within<'d, E, F> {
        deadline: &'d mut Deadline,
        expires: E,
        last_look: LastLook,
        #[pin]
        future: F,
    }
}

impl<E: FnMut() -> Option<Duration>, F: Future> Future for Within<'_, E, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !this.last_look.has_begun() {
            if let Poll::Ready(output) = this.future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let Some(at) = (this.expires)() else { return Poll::Pending };
            ready!(this.deadline.poll_elapsed(at, context));
        }
        ready!(this.last_look.poll(context));
        if let Poll::Ready(output) = this.future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        // The deadline may have moved meanwhile.
        *this.last_look = LastLook::default();
        let Some(at) = (this.expires)() else { return Poll::Pending };
        this.deadline.poll_elapsed(at, context).map(Err)
    }
}

/// A reusable timer of one task.
#[derive(Debug, Default)]
pub struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
    /// What the timer is armed for, on the coarse clock.
    armed: Duration,
}

impl Deadline {
    /// A timer that is not armed and holds no memory.
    pub const fn new() -> Deadline {
        Deadline { sleep: None, armed: Duration::ZERO }
    }

    /// Waits for `future`, at most `limit` after the wait first blocks: the clock is read only then.
    ///
    /// # Errors
    /// [`Elapsed`] if the limit passed first; the future is dropped then.
    pub fn within<F: Future>(
        &mut self,
        limit: Duration,
        future: F,
    ) -> Within<'_, impl FnMut() -> Option<Duration> + use<F>, F> {
        let mut at = None;
        self.bounded(move || Some(*at.get_or_insert_with(|| coarse() + limit)), future)
    }

    /// Waits for `future` until `at` on the coarse clock.
    ///
    /// # Errors
    /// [`Elapsed`] if the deadline passed first; the future is dropped then.
    pub fn until<F: Future>(
        &mut self,
        at: Duration,
        future: F,
    ) -> Within<'_, impl FnMut() -> Option<Duration> + use<F>, F> {
        self.bounded(move || Some(at), future)
    }

    /// Waits for `future` until the time on the coarse clock that `expires` gives whenever the wait blocks; while it gives none, without end.
    ///
    /// # Errors
    /// [`Elapsed`] if that time passed first; the future is dropped then.
    pub fn bounded<E: FnMut() -> Option<Duration>, F: Future>(&mut self, expires: E, future: F) -> Within<'_, E, F> {
        Within { deadline: self, expires, last_look: LastLook::default(), future }
    }

    /// Ready once `at` (on the coarse clock) has passed; else arranges to be woken then or earlier.
    pub fn poll_elapsed(&mut self, at: Duration, context: &mut Context<'_>) -> Poll<Elapsed> {
        if self.sleep.is_none() || self.armed > at {
            self.arm(at);
        }
        while self.sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(context).is_ready()) {
            // It may have been armed for an earlier wait.
            if coarse() >= at {
                return Poll::Ready(Elapsed);
            }
            self.arm(at);
        }
        Poll::Pending
    }

    /// Arms the timer for `at`. The coarse clock lags behind the precise one by up to a tick, so never for less than one.
    fn arm(&mut self, at: Duration) {
        const TICK: Duration = Duration::from_millis(10);
        let instant = tokio::time::Instant::now() + at.saturating_sub(coarse()).max(TICK);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(instant),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(instant))),
        }
        self.armed = at;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn never() {
        std::future::pending::<()>().await;
    }

    #[tokio::test]
    async fn a_deadline_may_move_both_ways() {
        let mut deadline = Deadline::new();
        for milliseconds in [30, 90, 10, 40] {
            let limit = Duration::from_millis(milliseconds);
            let before = coarse();
            assert_eq!(deadline.within(limit, never()).await, Err(Elapsed));
            assert!(coarse() - before >= limit, "never early");
        }
    }

    #[tokio::test]
    async fn a_wait_lasts_as_long_as_its_deadline_moves() {
        let (mut deadline, mut asked) = (Deadline::new(), 0);
        let (begun, step) = (coarse(), Duration::from_millis(20));
        // Moved on twice, then left where it is.
        let expires = || {
            asked += 1;
            Some(begun + step * asked.min(3))
        };
        assert_eq!(deadline.bounded(expires, never()).await, Err(Elapsed));
        assert!(coarse() - begun >= 3 * step, "never early");
        // Without an end, only what is waited for ends the wait.
        let mut later = 0;
        let third = poll_fn(|context| {
            later += 1;
            context.waker().wake_by_ref();
            if later == 3 { Poll::Ready(7) } else { Poll::Pending }
        });
        assert_eq!(deadline.bounded(|| None, third).await, Ok(7));
    }

    #[tokio::test]
    async fn what_is_ready_wins() {
        let mut deadline = Deadline::new();
        assert_eq!(deadline.within(Duration::ZERO, async { 7 }).await, Ok(7));
    }
}
