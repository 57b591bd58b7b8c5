//! How long requests took, counted by buckets, as nodes tell each other.

use std::time::Duration;

use serde_json::Value;

/// The longest time of each bucket, microseconds; the last one has everything beyond, too. Nodes that count otherwise say nothing to each other.
const BOUNDS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000, 30_000_000,
];

/// Requests by how long they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times([u64; BOUNDS.len()]);

impl Times {
    /// Adds some that took at most so long.
    pub fn add(&mut self, time: Duration, count: u64) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|bound| *bound < micros).min(BOUNDS.len() - 1);
        if let Some(bucket) = self.0.get_mut(at) {
            *bucket = bucket.saturating_add(count);
        }
    }

    /// How many there are.
    pub fn all(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: &Times) -> Times {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count = count.saturating_add(more));
        self
    }

    /// What came since an earlier moment.
    #[must_use]
    pub fn since(mut self, before: &Times) -> Times {
        self.0.iter_mut().zip(before.0).for_each(|(count, then)| *count = count.saturating_sub(then));
        self
    }

    /// The time within which this share of a hundred was done, microseconds, as if those of a bucket had taken all times in it equally often.
    pub fn within(&self, percent: u64) -> u64 {
        let wanted = self.all().saturating_mul(percent) / 100;
        let (mut seen, mut from) = (0_u64, 0);
        for (count, bound) in self.0.iter().zip(BOUNDS) {
            if seen + count >= wanted && *count > 0 {
                return from + (bound - from) * (wanted - seen) / count;
            }
            (seen, from) = (seen + count, bound);
        }
        // There are none.
        0
    }

    pub(super) fn write(&self) -> Value {
        self.0.iter().copied().collect()
    }

    /// What another version writes otherwise says nothing.
    pub(super) fn read(value: &Value) -> Times {
        let counts = value.as_array().map(|list| list.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
        // Room is left for sums.
        let is_small = |counts: &Vec<u64>| counts.iter().all(|count| *count < u64::MAX >> 16);
        counts.flatten().filter(is_small).and_then(|counts| counts.try_into().ok()).map(Times).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn shares_are_found_within_their_bucket() {
        let millis = Duration::from_millis;
        let mut times = Times::default();
        assert_eq!((times.all(), times.within(90)), (0, 0));
        times.add(millis(10), 80);
        times.add(millis(20), 20);
        assert_eq!((times.within(50), times.within(80)), (8_125, 10_000));
        assert_eq!(times.within(90), 17_500, "half of those between 10 and 25 ms");
        times.add(Duration::from_secs(3_600), 900);
        assert_eq!(times.within(100), 30_000_000);
        assert_eq!(times.since(&times).all(), 0);
        assert_eq!(times.and(&times).all(), 2_000);
        assert_eq!(Times::read(&times.write()), times);
        for other in [serde_json::json!([1, 2]), serde_json::json!("x"), Value::from(vec![u64::MAX; 16])] {
            assert_eq!(Times::read(&other), Times::default(), "{other}");
        }
    }
}
