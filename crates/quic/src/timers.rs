//! When connections have something to do by themselves: one ordered set for all, and one timer of the runtime.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::time::Sleep;

/// The times of all connections of a hub, by their places.
#[derive(Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Instant, usize)>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timers({})", self.set.len())
    }
}

impl Timers {
    /// Moves the time of one place.
    pub(crate) fn set(&mut self, place: usize, from: Option<Instant>, to: Option<Instant>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            self.set.remove(&(from, place));
        }
        if let Some(to) = to {
            self.set.insert((to, place));
        }
    }

    /// The next place whose time has come by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<usize> {
        let first = self.set.first().filter(|(at, _)| *at <= now)?.to_owned();
        self.set.remove(&first);
        Some(first.1)
    }

    /// Ready when the first time has come.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some((at, _)) = self.set.first() else { return Poll::Pending };
        let at = tokio::time::Instant::from_std(*at);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        // One that wakes too early is moved then: most times only move away.
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        loop {
            std::task::ready!(sleep.as_mut().poll(context));
            if sleep.deadline() >= at {
                // For the next time, which is later.
                sleep.as_mut().reset(at);
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn places_come_in_the_order_of_their_times() {
        let (mut timers, now) = (Timers::default(), Instant::now());
        let at = |seconds| Some(now + Duration::from_secs(seconds));
        timers.set(7, None, at(3));
        timers.set(8, None, at(1));
        timers.set(9, None, at(2));
        timers.set(9, at(2), at(9));
        assert_eq!(timers.pop(now), None);
        let late = now + Duration::from_secs(5);
        assert_eq!([timers.pop(late), timers.pop(late), timers.pop(late)], [Some(8), Some(7), None]);
        timers.set(9, at(9), None);
        assert_eq!(timers.pop(late + Duration::from_secs(60)), None);
    }
}
