//! One timer per connection, moved ahead without touching the timer wheel.
//!
//! Setting a deadline writes one field. The timer itself is armed only when a wait really blocks, stays armed at the earliest
//! deadline it was armed for, and is moved when it fires too early. A busy connection touches the wheel a few times a minute.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// The deadline passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

/// A reusable timer of one task.
#[derive(Debug, Default)]
pub struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// A timer that is not armed and holds no memory.
    pub const fn new() -> Deadline {
        Deadline { sleep: None }
    }

    /// Waits for `future`, at most `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] if the limit passed first; the future is dropped then.
    pub async fn within<F: Future>(&mut self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let mut at = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            // The clock is read only once the wait blocks.
            let at = *at.get_or_insert_with(|| Instant::now() + limit);
            self.poll_elapsed(at, context).map(Err)
        })
        .await
    }

    /// Waits for `future` until `at`.
    ///
    /// # Errors
    /// [`Elapsed`] if the deadline passed first; the future is dropped then.
    pub async fn until<F: Future>(&mut self, at: Instant, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll_elapsed(at, context).map(Err),
        })
        .await
    }

    /// Ready once `at` has passed; else arranges to be woken then or earlier.
    pub fn poll_elapsed(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<Elapsed> {
        let at = tokio::time::Instant::from_std(at);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        while sleep.as_mut().poll(context).is_ready() {
            // It may have been armed for an earlier wait.
            if sleep.deadline() >= at || tokio::time::Instant::now() >= at {
                return Poll::Ready(Elapsed);
            }
            sleep.as_mut().reset(at);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn never() {
        std::future::pending::<()>().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_may_move_both_ways() {
        let mut deadline = Deadline::new();
        let start = tokio::time::Instant::now();
        for seconds in [5, 60, 1, 30] {
            let before = tokio::time::Instant::now();
            let at = before.into_std() + Duration::from_secs(seconds);
            assert_eq!(deadline.until(at, never()).await, Err(Elapsed));
            assert!(before.elapsed() >= Duration::from_secs(seconds));
            assert!(before.elapsed() < Duration::from_secs(seconds + 1));
        }
        assert!(start.elapsed() >= Duration::from_secs(96));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_ready_wins() {
        let mut deadline = Deadline::new();
        assert_eq!(deadline.within(Duration::ZERO, async { 7 }).await, Ok(7));
    }
}
