//! BUSY answers that are held back, so that rejecting never costs more than a small part of the work.
//!
//! The first is sent at once: its peer goes elsewhere. A peer that asks on before it was told to has its next rejections held back and gets them all
//! together when the time is over; what it asks in between costs it one of its places in flight. The time grows with the number of rejections that
//! are held back in the whole server, so that however many requests are outstanding, at most a few rejections go out for each job that is done.
//! Where even that would take too long, connections with refusals outstanding are not read any further.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::backlog::{Busy, nanoseconds};

/// Rejections for each job that is done, at most. An open loop of four times what can be done needs three, and its retries as many again.
const REJECTIONS_PER_JOB: u64 = 16;

/// Between two rejections at least, however short jobs are: a rejection costs a few microseconds at either end.
const LEAST_PACE: Duration = Duration::from_micros(40);

/// What all connections share.
#[derive(Debug)]
pub(super) struct Rejections {
    /// Responses that are held back.
    held: AtomicUsize,
    /// Between two rejections, nanoseconds.
    pace: AtomicU64,
    target_wait: Duration,
}

impl Rejections {
    pub(super) fn new(target_wait: Duration) -> Rejections {
        Rejections { held: AtomicUsize::new(0), pace: AtomicU64::new(nanoseconds(LEAST_PACE)), target_wait }
    }

    /// How long answers are held back now; none if nothing more should be read.
    fn time(&self) -> Option<Duration> {
        let held = self.held.load(Ordering::Relaxed) as u64;
        let time = Duration::from_nanos(self.pace.load(Ordering::Relaxed).saturating_mul(held));
        (time <= 2 * self.target_wait).then(|| time.max(self.target_wait / 4))
    }
}

/// The refusals of one connection.
#[derive(Debug)]
pub(super) struct Held {
    shared: Arc<Rejections>,
    /// Who is to be rejected when the time is over, and when to come again.
    ids: Vec<(u32, Duration)>,
    /// Until then no rejection is sent.
    until: Option<Instant>,
}

impl Held {
    pub(super) fn new(shared: &Arc<Rejections>) -> Held {
        Held { shared: Arc::clone(shared), ids: Vec::new(), until: None }
    }

    /// A request is rejected now: true if it is to be answered at once. Otherwise it will be among those [`Held::due`] gives.
    pub(super) fn reject(&mut self, id: u32, busy: Busy, now: Instant) -> bool {
        let pace = (busy.pace / REJECTIONS_PER_JOB as u32).max(LEAST_PACE);
        self.shared.pace.store(nanoseconds(pace), Ordering::Relaxed);
        let is_quiet = self.until.is_none_or(|until| until <= now);
        if is_quiet && self.ids.is_empty() {
            self.begin(now);
            return true;
        }
        self.ids.push((id, busy.wait));
        self.shared.held.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn begin(&mut self, now: Instant) {
        self.until = Some(now + self.shared.time().unwrap_or(2 * self.shared.target_wait));
    }

    /// When to look again; none if nothing is held back.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.until.filter(|_| !self.ids.is_empty())
    }

    /// Those to be answered now, with the time after which to come again. All, if there is no point in waiting.
    pub(super) fn due(&mut self, now: Instant, at_once: bool) -> Vec<(u32, Duration)> {
        let is_due = at_once || self.next_look().is_some_and(|until| until <= now);
        if self.ids.is_empty() || !is_due {
            return Vec::new();
        }
        // Counted before it is counted out: who comes back at once finds the server as busy as it was.
        self.begin(now);
        self.shared.held.fetch_sub(self.ids.len(), Ordering::Relaxed);
        std::mem::take(&mut self.ids)
    }

    /// Whether nothing more should be read from this connection before its refusals are out.
    pub(super) fn is_too_much(&self) -> bool {
        !self.ids.is_empty() && self.shared.time().is_none()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.held.fetch_sub(self.ids.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(100);

    fn busy(pace: Duration) -> Busy {
        Busy { wait: TARGET, pace }
    }

    #[test]
    fn the_first_rejection_goes_out_at_once_and_the_next_ones_together() {
        let shared = Arc::new(Rejections::new(TARGET));
        let (mut held, now) = (Held::new(&shared), Instant::now());
        let pace = Duration::from_micros(300);
        assert!(held.reject(1, busy(pace), now));
        assert_eq!(held.next_look(), None);
        assert!((2..40).all(|id| !held.reject(id, busy(pace), now)));
        let until = held.next_look().unwrap();
        assert!(until >= now + TARGET / 4);
        assert!(held.due(until - Duration::from_nanos(1), false).is_empty());
        assert_eq!(held.due(until, false).len(), 38);
        assert!(held.due(until + TARGET, false).is_empty());
        // Who comes back at once waits again; who waited is reported at once.
        assert!(!held.reject(40, busy(pace), until));
        assert_eq!(held.due(until, true).len(), 1, "a drain waits for nothing");
        assert!(held.reject(41, busy(pace), until + 3 * TARGET));
    }

    /// However many requests are outstanding and however fast they are replaced, a job done pays for a few rejections at most.
    #[test]
    fn rejections_cannot_be_had_at_line_rate() {
        for (connections, in_flight, pace_us) in
            [(1, 1_024, 135), (32, 8, 135), (32, 1_000, 135), (500, 900, 1_500), (8, 1_024, 15)]
        {
            let shared = Arc::new(Rejections::new(TARGET));
            let pace = Duration::from_micros(pace_us);
            let mut all: Vec<_> = (0..connections).map(|_| (Held::new(&shared), 0)).collect();
            let (start, mut now, mut sent) = (Instant::now(), Instant::now(), 0);
            while now < start + Duration::from_secs(3) {
                for (held, outstanding) in &mut all {
                    *outstanding -= held.due(now, false).len();
                    while *outstanding < in_flight && !held.is_too_much() {
                        let at_once = held.reject(0, busy(pace), now);
                        *outstanding += usize::from(!at_once);
                        sent += 1;
                    }
                }
                now += Duration::from_millis(1);
            }
            let jobs = Duration::from_secs(3).as_nanos() / pace.as_nanos();
            let most = jobs * u128::from(REJECTIONS_PER_JOB) * 11 / 10 + 2 * connections as u128;
            assert!(
                sent as u128 <= most.max(connections as u128 * 3 * 1_024),
                "{connections} x {in_flight}: {sent} for {jobs}"
            );
        }
    }
}
