//! What is known of one certificate, and when it is to be ordered.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use tokio::task::AbortHandle;

use crate::key::Held;
use crate::schedule::{self, Validity, Window};
use crate::storage::Record;

/// What is known of one certificate.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) held: Option<Held>,
    pub(super) record: Record,
    pub(super) running: Option<Order>,
    /// Varies the pause after a failure.
    pub(super) point: f64,
    /// When the authority suggests to renew it.
    pub(super) window: Option<Window>,
    /// When it is asked again; none: it was not asked about this certificate.
    pub(super) ask_again: Option<SystemTime>,
    pub(super) is_asking: bool,
    /// When it was ordered last, and how often in a row that was soon after the time before, as authorities may suggest without an end, and clocks that are wrong, too.
    pub(super) hurried: (Option<SystemTime>, u32),
    /// Clients asked for it.
    pub(super) on_demand: bool,
    /// It may be ordered: it was agreed to since the last order.
    pub(super) is_agreed: bool,
    /// The client for which it is ordered (an IPv4 address or an IPv6 /64), where that is known.
    pub(super) client: Option<IpAddr>,
    /// Until when it was refused.
    pub(super) refused_until: Option<SystemTime>,
}

/// An order under way, which ends with its owner.
pub(super) struct Order(pub(super) AbortHandle);

impl Drop for Order {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Entry {
    /// A new certificate is there.
    pub(super) fn replace(&mut self, held: Held) {
        let now = SystemTime::now();
        let is_early = self.held.as_ref().is_some_and(|before| {
            let Validity { not_before, .. } = before.validity;
            let soon = before.validity.lifetime() / 10;
            // By when it was ordered, too: by a clock that is far ahead each certificate is old when it comes.
            let is_just_ordered =
                self.hurried.0.is_some_and(|at| now.duration_since(at).is_ok_and(|since| since < soon));
            is_just_ordered || not_before.checked_add(soon).is_some_and(|soon| now < soon)
        });
        self.hurried = (Some(now), if is_early { self.hurried.1.saturating_add(1) } else { 0 });
        (self.held, self.window, self.ask_again) = (Some(held), None, None);
    }

    /// When it is to be ordered.
    pub(super) fn due(&self, now: SystemTime, first_pause: Duration) -> SystemTime {
        let validity = self.held.as_ref().map(|held| held.validity);
        let due =
            validity.map_or(SystemTime::UNIX_EPOCH, |validity| schedule::renewal(&validity, self.window.as_ref()));
        let due = match self.hurried {
            (Some(at), times @ 1..) if at <= now => {
                due.max(at.checked_add(schedule::pause(times, first_pause, None, self.point)).unwrap_or(now))
            }
            _ => due,
        };
        match &self.record.failed {
            // A failure to come is one of a clock that was set back.
            Some((at, _)) if *at <= now => {
                let lifetime = validity.map(|validity| validity.lifetime());
                let pause = schedule::pause(self.record.failures, first_pause, lifetime, self.point);
                due.max(at.checked_add(pause).unwrap_or(now))
            }
            _ => due,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn entry(held: bool, failures: u32, failed: Option<SystemTime>) -> Entry {
        let start = SystemTime::UNIX_EPOCH + 1000 * DAY;
        let validity = Validity::new(start, start + 90 * DAY, &[0; 32]);
        let held = held.then(|| Held { validity, authority_key_id: Vec::new(), serial: Vec::new() });
        let record = Record { failures, failed: failed.map(|at| (at, String::new())), ..Record::default() };
        Entry { held, record, point: 0.5, ..Entry::default() }
    }

    #[test]
    fn failures_put_off_and_a_clock_that_was_set_back_does_not() {
        let now = SystemTime::UNIX_EPOCH + 1030 * DAY;
        let first = Duration::from_secs(120);
        let due = |entry: Entry| entry.due(now, first);
        assert_eq!(due(entry(false, 0, None)), SystemTime::UNIX_EPOCH, "at once");
        assert_eq!(due(entry(true, 0, None)), SystemTime::UNIX_EPOCH + 1060 * DAY);
        assert_eq!(due(entry(false, 1, Some(now))), now + first);
        assert_eq!(due(entry(false, 2, Some(now))), now + 2 * first);
        assert!(due(entry(false, 30, Some(now))) <= now + Duration::from_secs(4 * 3600));
        // Nothing to hurry for: the failure was with a certificate that is still good for a month.
        assert_eq!(due(entry(true, 1, Some(now))), SystemTime::UNIX_EPOCH + 1060 * DAY);
        assert_eq!(due(entry(false, 5, Some(now + 400 * DAY))), SystemTime::UNIX_EPOCH, "the clock was set back");
    }

    #[test]
    fn a_clock_that_is_far_ahead_orders_no_more_often() {
        let (now, first) = (SystemTime::now(), Duration::from_secs(120));
        let old = || {
            let validity = Validity::new(now - 70 * DAY, now + 20 * DAY, &[0; 32]);
            Held { validity, authority_key_id: Vec::new(), serial: Vec::new() }
        };
        let mut entry = Entry { held: Some(old()), point: 0.5, ..Entry::default() };
        assert!(entry.due(now, first) < now, "it is time by this clock");
        entry.replace(old());
        assert!(entry.due(now, first) < now, "it may have been an old one");
        for least in [1, 2, 4, 8] {
            entry.replace(old());
            let after = entry.due(SystemTime::now(), first).duration_since(now).unwrap();
            assert!(after >= least * first && after < least * first + Duration::from_secs(60), "{least} {after:?}");
        }
    }

    #[test]
    fn an_authority_that_always_says_now_is_not_obeyed_for_ever() {
        let now = SystemTime::now();
        let first = Duration::from_secs(120);
        let fresh = || {
            let validity = Validity::new(now, now + 90 * DAY, &[0; 32]);
            Held { validity, authority_key_id: Vec::new(), serial: Vec::new() }
        };
        let window = || Some(Window { start: now - DAY, end: now - DAY / 2, explanation: None });
        let mut entry = Entry { held: Some(fresh()), window: window(), point: 0.5, ..Entry::default() };
        assert!(entry.due(now, first) < now, "the first time, at once");
        for least in [1, 2, 4, 8] {
            entry.replace(fresh());
            assert_eq!((&entry.window, entry.ask_again), (&None, None), "it is asked about the new one");
            entry.window = window();
            let after = entry.due(SystemTime::now(), first).duration_since(now).unwrap();
            assert!(after >= least * first && after < least * first + Duration::from_secs(60), "{least} {after:?}");
        }
    }
}
