//! Latencies, counted in buckets that grow with the value: exact below 64 ns, then within 1.6 %.
//!
//! One fixed array, no allocation per value, so that counting does not disturb what is counted.

use std::time::Duration;

/// Each power of two is divided into this many buckets, as a power of two.
const DIVISION_BITS: u32 = 6;
const DIVISIONS: usize = 1 << DIVISION_BITS;
const BUCKETS: usize = (64 - DIVISION_BITS as usize + 1) * DIVISIONS;

/// Counts of durations.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    sum_ns: f64,
    squares_ns: f64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0, sum_ns: 0.0, squares_ns: 0.0 }
    }
}

impl Histogram {
    /// Counts one duration.
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
        self.sum_ns += nanoseconds as f64;
        self.squares_ns += nanoseconds as f64 * nanoseconds as f64;
    }

    /// Mean and standard deviation; zeros when nothing was counted.
    pub(crate) fn mean_and_deviation(&self) -> (Duration, Duration) {
        let count = self.total.max(1) as f64;
        let mean = self.sum_ns / count;
        let variance = (self.squares_ns / count - mean * mean).max(0.0);
        (Duration::from_nanos(mean as u64), Duration::from_nanos(variance.sqrt() as u64))
    }

    /// How many were counted.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The duration that this share (0 to 1) of all stayed at or below; zero when nothing was counted.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper_bound(index));
            }
        }
        Duration::ZERO
    }
}

fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < DIVISIONS as u64 {
        return nanoseconds as usize;
    }
    let exponent = 63 - nanoseconds.leading_zeros();
    let within = (nanoseconds >> (exponent - DIVISION_BITS)) as usize & (DIVISIONS - 1);
    (exponent - DIVISION_BITS + 1) as usize * DIVISIONS + within
}

/// The largest value of a bucket.
fn upper_bound(index: usize) -> u64 {
    let (group, within) = (index / DIVISIONS, (index % DIVISIONS) as u64);
    if group == 0 {
        return within;
    }
    let shift = group as u32 - 1;
    let first = (DIVISIONS as u64 + within) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_the_buckets_leave_no_gap() {
        let mut values: Vec<u64> = (0..5_000).collect();
        values.extend((6..64).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1]));
        values.push(u64::MAX);
        for value in values {
            let index = bucket(value);
            assert!(value <= upper_bound(index), "{value} above its bucket {index}");
            assert!(index == 0 || value > upper_bound(index - 1), "{value} below its bucket {index}");
            assert!(upper_bound(index) as f64 <= value as f64 * 1.017 + 1.0, "{value} is told too coarsely");
        }
    }

    #[test]
    fn quantiles() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for microseconds in 1..=1000 {
            histogram.record(Duration::from_micros(microseconds));
        }
        for (share, expected) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let reported = histogram.quantile(share).as_nanos() as f64 / 1000.0;
            assert!(reported >= expected && reported <= expected * 1.017, "{share}: {reported}");
        }
        assert_eq!(histogram.total(), 1000);
        let (mean, deviation) = histogram.mean_and_deviation();
        assert_eq!((mean.as_nanos(), deviation.as_micros()), (500_500, 288));
    }
}
