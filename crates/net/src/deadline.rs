//! One timer per connection, moved ahead without touching the timer wheel.
//!
//! Setting a deadline writes one field. The timer itself is armed only when a wait really blocks, stays armed at the earliest
//! deadline it was armed for, and is moved when it fires too early. A busy connection touches the wheel a few times a minute.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

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

/// Looks once more at what a timer has given up on, after the runtime has asked the kernel for news. A process that was stopped and goes on
/// finds its timers expired and its sockets readable at the same time; what had come in time must not count as late.
pub async fn last_look<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    tokio::task::yield_now().await;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
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

    /// Waits for `future`, at most `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] if the limit passed first; the future is dropped then.
    pub async fn within<F: Future>(&mut self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let mut at = None;
        let waited = poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            // The clock is read only once the wait blocks.
            let at = *at.get_or_insert_with(|| coarse() + limit);
            self.poll_elapsed(at, context).map(Err)
        })
        .await;
        match waited {
            Err(Elapsed) => last_look(future).await.ok_or(Elapsed),
            done => done,
        }
    }

    /// Waits for `future` until `at` on the coarse clock.
    ///
    /// # Errors
    /// [`Elapsed`] if the deadline passed first; the future is dropped then.
    pub async fn until<F: Future>(&mut self, at: Duration, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let waited = poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll_elapsed(at, context).map(Err),
        })
        .await;
        match waited {
            Err(Elapsed) => last_look(future).await.ok_or(Elapsed),
            done => done,
        }
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
    async fn what_is_ready_wins() {
        let mut deadline = Deadline::new();
        assert_eq!(deadline.within(Duration::ZERO, async { 7 }).await, Ok(7));
    }
}
