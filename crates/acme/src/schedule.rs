//! When a certificate is ordered again: by what its authority suggests (RFC 9773), by its lifetime, and after failures. Pure: the time is given.

use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A certificate that lives for less is renewed at half of its lifetime, any other at two thirds of it.
const SHORT_LIVED: Duration = DAY.saturating_mul(10);

/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(4 * 3600);

/// When a certificate is valid, and a number below one that it alone has: it says where in a span of time it is renewed, so that many are not at once,
/// and that neither a restart nor another machine comes to another time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Validity {
    /// Start.
    pub not_before: SystemTime,
    /// End.
    pub not_after: SystemTime,
    /// Below one, and never below zero.
    pub point: f64,
}

impl Validity {
    /// Of a certificate with this fingerprint.
    pub fn new(not_before: SystemTime, not_after: SystemTime, fingerprint: &[u8; 32]) -> Validity {
        let [a, b, c, d, ..] = *fingerprint;
        let point = f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0);
        Validity { not_before, not_after, point }
    }

    /// How long it is valid in all.
    pub fn lifetime(&self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }
}

/// When an authority suggests to renew a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// From here on.
    pub start: SystemTime,
    /// Until here.
    pub end: SystemTime,
    /// Where it says why.
    pub explanation: Option<String>,
}

/// When to order a certificate again. A window that ends before it begins, or that comes too late for another try, does not count as it is.
pub fn renewal(validity: &Validity, window: Option<&Window>) -> SystemTime {
    let lifetime = validity.lifetime();
    let length = window.and_then(|window| window.end.duration_since(window.start).ok());
    if let (Some(window), Some(length)) = (window, length) {
        // There must be time for some tries, whatever the window is.
        let margin = if lifetime < SHORT_LIVED { lifetime / 3 } else { lifetime / 10 };
        let latest = validity.not_after.checked_sub(margin).unwrap_or(validity.not_after);
        let suggested = window.start.checked_add(length.mul_f64(validity.point));
        return suggested.unwrap_or(latest).min(latest);
    }
    let part = if lifetime < SHORT_LIVED { lifetime / 2 } else { lifetime / 3 * 2 };
    // Up to a thirtieth of the lifetime earlier: one day of thirty.
    let after = part.saturating_sub((lifetime / 30).mul_f64(validity.point));
    validity.not_before.checked_add(after).unwrap_or(validity.not_after)
}

/// How long to wait after so many failures in a row (one at least), the first time for `first`, of a certificate of this lifetime. `point` is a number
/// from zero to one that varies it.
pub fn pause(failures: u32, first: Duration, lifetime: Option<Duration>, point: f64) -> Duration {
    // What lives for an hour cannot wait for four.
    let longest = lifetime.map_or(LONGEST_PAUSE, |lifetime| LONGEST_PAUSE.min(lifetime / 20)).max(first);
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(20));
    doubled.min(longest).mul_f64(0.75 + point.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(days: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY.mul_f64(1000.0 + days)
    }

    fn days(time: SystemTime) -> f64 {
        (time.duration_since(at(0.0)).unwrap().as_secs_f64() / DAY.as_secs_f64() * 100.0).round() / 100.0
    }

    #[test]
    fn the_lifetime_says_when_unless_the_authority_does() {
        let window = |start: f64, end: f64| Some(Window { start: at(start), end: at(end), explanation: None });
        for (lifetime, point, window, expected) in [
            (90.0, 0.0, None, 60.0),
            (90.0, 0.999_999, None, 57.0),
            (47.0, 0.0, None, 31.33),
            (6.0, 0.0, None, 3.0),
            (6.0, 0.5, None, 2.9),
            (90.0, 0.0, window(50.0, 52.0), 50.0),
            (90.0, 0.5, window(50.0, 52.0), 51.0),
            // It was revoked, and is to be replaced at once.
            (90.0, 0.5, window(1.0, 1.0), 1.0),
            // What would come too late does not.
            (90.0, 0.5, window(89.0, 90.0), 81.0),
            (90.0, 0.5, window(3000.0, 4000.0), 81.0),
            (6.0, 0.5, window(3.0, 4.0), 3.5),
            (6.0, 0.9, window(0.0, 6.0), 4.0),
            // What makes no sense does not count.
            (90.0, 0.0, window(52.0, 50.0), 60.0),
        ] {
            let validity = Validity { not_before: at(0.0), not_after: at(lifetime), point };
            assert_eq!(days(renewal(&validity, window.as_ref())), expected, "{lifetime} {point} {window:?}");
        }
    }

    #[test]
    fn a_certificate_has_a_point_of_its_own() {
        let point = |first: u8| {
            let mut fingerprint = [0; 32];
            fingerprint[0] = first;
            Validity::new(at(0.0), at(90.0), &fingerprint).point
        };
        assert_eq!((point(0), point(128)), (0.0, 0.5));
        assert!(Validity::new(at(0.0), at(90.0), &[255; 32]).point < 1.0);
        // A certificate that ends before it begins is renewed, and nothing is computed of it that could panic.
        assert!(renewal(&Validity::new(at(9.0), at(0.0), &[7; 32]), None) <= at(9.0));
    }

    #[test]
    fn pauses_double_and_end() {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        for (failures, lifetime, point, expected) in [
            (1, None, 0.5, minutes(2)),
            (2, None, 0.5, minutes(4)),
            (5, None, 0.5, minutes(32)),
            (8, None, 0.5, minutes(240)),
            (u32::MAX, None, 0.5, minutes(240)),
            (1, None, 0.0, Duration::from_secs(90)),
            (1, None, 1.0, Duration::from_secs(150)),
            (8, Some(minutes(20 * 60)), 0.5, minutes(60)),
            // Never shorter than the first one.
            (8, Some(minutes(1)), 0.5, minutes(2)),
        ] {
            assert_eq!(pause(failures, minutes(2), lifetime, point), expected, "{failures} {lifetime:?} {point}");
        }
    }
}
