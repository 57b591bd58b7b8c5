//! What came of all requests: counts, latencies, and how they are printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

use super::Target;

/// Latencies that are kept, of each thread; enough for minutes at full speed.
const MAX_LATENCIES: usize = 16_000_000;

/// Upper bounds of the printed histogram, microseconds.
const BOUNDS_US: [u64; 16] =
    [50, 100, 200, 400, 600, 800, 1_000, 1_500, 2_000, 3_000, 4_500, 10_000, 50_000, 100_000, 500_000, u64::MAX];

/// Counts of one connection, or of all.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Requests sent, retries included.
    pub(super) sent: u64,
    /// Right answers in time.
    pub(super) good: u64,
    /// Right answers after the deadline: wasted work.
    pub(super) late: u64,
    /// Responses that do not verify.
    pub(super) wrong: u64,
    /// Verified answers.
    pub(super) verified: u64,
    /// Requests that were given up without a response.
    pub(super) given_up: u64,
    /// Error answers by name.
    pub(super) errors: BTreeMap<&'static str, u64>,
    /// Connections that failed, with the last reason.
    pub(super) failures: u64,
    last_failure: Option<String>,
    /// Right answers in time, by the second in which they came.
    pub(super) by_second: Vec<u64>,
    /// Nanoseconds, in steps of 16.
    latencies: Vec<u32>,
}

impl Tally {
    /// A right answer in time.
    pub(super) fn good(&mut self, latency: Duration, since_start: Duration) {
        self.good += 1;
        let second = since_start.as_secs() as usize;
        if self.by_second.len() <= second && second < 86_400 {
            self.by_second.resize(second + 1, 0);
        }
        if let Some(count) = self.by_second.get_mut(second) {
            *count += 1;
        }
        if self.latencies.len() < MAX_LATENCIES {
            self.latencies.push(u32::try_from(latency.as_nanos() / 16).unwrap_or(u32::MAX));
        }
    }

    /// A connection failed.
    pub(super) fn note_failure(&mut self, reason: String) {
        self.failures += 1;
        self.last_failure = Some(reason);
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.sent += other.sent;
        self.good += other.good;
        self.late += other.late;
        self.wrong += other.wrong;
        self.verified += other.verified;
        self.given_up += other.given_up;
        self.failures += other.failures;
        self.last_failure = other.last_failure.or(self.last_failure.take());
        for (name, count) in other.errors {
            *self.errors.entry(name).or_default() += count;
        }
        self.by_second.resize(self.by_second.len().max(other.by_second.len()), 0);
        self.by_second.iter_mut().zip(other.by_second).for_each(|(sum, count)| *sum += count);
        self.latencies.extend(other.latencies);
    }

    pub(super) fn report(mut self, targets: &[Target], duration: Duration) -> Report {
        self.latencies.sort_unstable();
        let names: Vec<String> =
            targets.iter().map(|target| format!("{} {}", target.public.kind(), target.operation.name())).collect();
        let mut names = names;
        names.dedup();
        Report { tally: self, names: names.join(", "), seconds: duration.as_secs_f64() }
    }
}

/// A finished measurement.
pub(super) struct Report {
    tally: Tally,
    names: String,
    seconds: f64,
}

impl Report {
    /// Whether there were answers, and none was wrong and no connection failed.
    pub(super) fn is_good(&self) -> bool {
        self.tally.good > 0 && self.tally.wrong == 0 && self.tally.failures == 0
    }

    fn quantile_us(&self, share: f64) -> f64 {
        let latencies = &self.tally.latencies;
        let index = (latencies.len() as f64 * share).ceil() as usize;
        latencies.get(index.clamp(1, latencies.len().max(1)) - 1).map_or(0.0, |step| f64::from(*step) * 16e-3)
    }

    /// Counts up to each bound, microseconds.
    fn histogram(&self) -> Vec<(u64, usize)> {
        let up_to = |bound: u64| {
            self.tally.latencies.partition_point(|step| u64::from(*step) * 16 < bound.saturating_mul(1000))
        };
        let mut before = 0;
        let count = |bound: u64| (bound, up_to(bound) - std::mem::replace(&mut before, up_to(bound)));
        BOUNDS_US.into_iter().map(count).collect()
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let tally = &self.tally;
        json!({
            "operation": self.names,
            "seconds": self.seconds,
            "sent": tally.sent,
            "good": tally.good,
            "good_per_second": tally.good as f64 / self.seconds,
            "late": tally.late,
            "given_up": tally.given_up,
            "wrong": tally.wrong,
            "verified": tally.verified,
            "errors": tally.errors,
            "failed_connections": tally.failures,
            "failure": tally.last_failure,
            "by_second": tally.by_second,
            "latency_us": {
                "p50": self.quantile_us(0.5), "p90": self.quantile_us(0.9), "p99": self.quantile_us(0.99),
                "p999": self.quantile_us(0.999), "max": self.quantile_us(1.0),
            },
            "histogram_us": self.histogram().into_iter().map(|(bound, count)| json!([bound.min(1 << 53), count])).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let tally = &self.tally;
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{}: {} in {:.1} s = {:.0} per second",
            self.names,
            tally.good,
            self.seconds,
            tally.good as f64 / self.seconds
        );
        let _ = writeln!(
            out,
            "latency us: p50 {:.0}  p90 {:.0}  p99 {:.0}  p99.9 {:.0}  max {:.0}",
            self.quantile_us(0.5),
            self.quantile_us(0.9),
            self.quantile_us(0.99),
            self.quantile_us(0.999),
            self.quantile_us(1.0)
        );
        for (bound, count) in self.histogram().into_iter().filter(|(_, count)| *count > 0) {
            let share = 100.0 * count as f64 / tally.latencies.len().max(1) as f64;
            let bound = if bound == u64::MAX { "more".to_owned() } else { format!("< {bound} us") };
            let _ = writeln!(
                out,
                "  {bound:>12}  {count:>9}  {share:5.1} %  {}",
                "#".repeat((share / 2.0).round() as usize)
            );
        }
        let _ = writeln!(
            out,
            "sent {}, late {}, given up {}, verified {}, wrong {}, failed connections {}",
            tally.sent, tally.late, tally.given_up, tally.verified, tally.wrong, tally.failures
        );
        for (name, count) in &tally.errors {
            let _ = writeln!(out, "error {name}: {count}");
        }
        if let Some(reason) = &tally.last_failure {
            let _ = writeln!(out, "a connection failed: {reason}");
        }
        out
    }
}
