//! The rate of requests by key, exact over all workers: the generic cell rate algorithm (ITU-T I.371, annex A) over a table of fixed size.
//!
//! For each key one time is kept, when its burst would be whole again. All that is needed fits into one word, so that a request costs one
//! compare-and-swap and no lock: 24 bits of the key's hash, and 40 bits of that time in microseconds, which wrap after twelve days. A time that is further ahead than
//! the burst reaches is an old one, and stands for a key without requests; nothing needs to be cleaned up. A set of eight words is one cache line. In a full set the key that has
//! used least of its burst is forgotten, so whoever floods is not. Two keys with equal hashes share their rate: one pair in two millions within a set,
//! and nobody can choose it, since the hash has a secret.

use std::hash::{BuildHasher, DefaultHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::RateLimit;
use net::clock;

/// Words of a set: those of a cache line.
const WAYS: usize = 8;
/// Bits of a time.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Keys, and how much of their burst they have used.
#[derive(Debug)]
pub(super) struct RateTable {
    sets: Box<[Set]>,
    hasher: RandomState,
    started: Duration,
    /// The longest time that a burst has stood for under any configuration: what is ahead by more is old.
    reach: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

impl RateTable {
    /// Room for so many keys; twice as many places, since keys do not spread evenly over the sets.
    pub(super) fn new(max_keys: usize) -> RateTable {
        let sets = (max_keys * 2).div_ceil(WAYS).next_power_of_two();
        RateTable {
            sets: (0..sets).map(|_| Set::default()).collect(),
            hasher: RandomState::new(),
            started: clock::precise(),
            reach: AtomicU64::new(0),
        }
    }

    /// What was counted under another limit counts under this one.
    pub(super) fn serve(&self, limit: &RateLimit) {
        self.reach.fetch_max(micros(limit.interval) * u64::from(limit.burst), Ordering::Relaxed);
    }

    /// What keys are hashed by.
    pub(super) fn hasher(&self) -> DefaultHasher {
        self.hasher.build_hasher()
    }

    /// Counts a request whose key has this hash.
    ///
    /// # Errors
    /// It comes too early, by so much.
    pub(super) fn take(&self, hash: u64, limit: &RateLimit) -> Result<(), Duration> {
        let now = clock::precise().saturating_sub(self.started);
        self.take_at(hash, limit, micros(now))
    }

    fn take_at(&self, hash: u64, limit: &RateLimit, now: u64) -> Result<(), Duration> {
        let interval = micros(limit.interval);
        let whole = interval * u64::from(limit.burst);
        let tag = hash >> TIME_BITS;
        // The number of sets is a power of two.
        let Some(set) = self.sets.get(hash as usize & (self.sets.len() - 1)) else { return Ok(()) };
        loop {
            let Place { slot, word, used } = set.find(tag, self.reach.load(Ordering::Relaxed), now);
            if used + interval > whole {
                return Err(Duration::from_micros(used + interval - whole));
            }
            let next = tag << TIME_BITS | (now + used + interval) & TIME_MASK;
            if slot.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Ok(());
            }
        }
    }
}

/// Where a key stands in its set.
struct Place<'s> {
    slot: &'s AtomicU64,
    /// What was there.
    word: u64,
    /// How much of its burst the key has used, microseconds.
    used: u64,
}

impl Set {
    /// The place of a key: its own, or that of the key that has used least.
    fn find(&self, tag: u64, reach: u64, now: u64) -> Place<'_> {
        let [first, ..] = &self.0;
        let mut least = Place { slot: first, word: 0, used: u64::MAX };
        for slot in &self.0 {
            let word = slot.load(Ordering::Relaxed);
            let ahead = word.wrapping_sub(now) & TIME_MASK;
            let used = if ahead <= reach { ahead } else { 0 };
            if word >> TIME_BITS == tag {
                return Place { slot, word, used };
            }
            if used < least.used {
                least = Place { slot, word, used };
            }
        }
        Place { used: 0, ..least }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use config::LimitKey;

    use super::*;

    fn limit(micros: u64, burst: u32) -> RateLimit {
        RateLimit { interval: Duration::from_micros(micros), burst, key: vec![LimitKey::Client], max_keys: 1024 }
    }

    fn table(micros: u64, burst: u32) -> (RateTable, RateLimit) {
        let (table, limit) = (RateTable::new(1024), limit(micros, burst));
        table.serve(&limit);
        (table, limit)
    }

    /// Who has used more than a lower limit allows waits until it has not.
    #[test]
    fn a_lower_limit_gives_nobody_a_new_burst() {
        let (table, before) = table(1_000, 20);
        (0..20).for_each(|_| table.take_at(1, &before, 0).unwrap());
        let after = limit(1_000, 5);
        table.serve(&after);
        assert_eq!(table.take_at(1, &after, 0), Err(Duration::from_millis(16)));
        assert!(table.take_at(1, &after, 15_000).is_err());
        assert!(table.take_at(1, &after, 16_000).is_ok());
    }

    #[test]
    fn a_burst_passes_at_once_and_then_one_request_per_interval() {
        let (table, limit) = table(1_000, 3);
        let take = |now| table.take_at(7, &limit, now).map_err(|early| early.as_micros());
        for (now, expected) in [
            (0, Ok(())),
            (0, Ok(())),
            (0, Ok(())),
            (0, Err(1_000)),
            (400, Err(600)),
            (1_000, Ok(())),
            (1_000, Err(1_000)),
            (9_000, Ok(())),
            (9_000, Ok(())),
            (9_000, Ok(())),
            (9_000, Err(1_000)),
        ] {
            assert_eq!(take(now), expected, "at {now}");
        }
    }

    /// Against a model that keeps each key in a map and knows no wrapping.
    #[test]
    fn keys_are_apart_and_time_may_wrap() {
        let (table, limit) = table(1_000, 5);
        let mut model = std::collections::HashMap::new();
        let mut state = 1_u64;
        let mut now = TIME_MASK - 200_000;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += state >> 60;
            // Of sixteen keys each has a set of its own.
            let key = (state >> 40) & 15;
            let full: &mut u64 = model.entry(key).or_insert(0);
            let used = full.saturating_sub(now);
            let expected = used + 1_000 <= 5_000;
            if expected {
                *full = now + used + 1_000;
            }
            assert_eq!(table.take_at(key << TIME_BITS | key, &limit, now).is_ok(), expected, "key {key} at {now}");
        }
    }

    /// Twelve days later an old time looks like one ahead; it must not hold anybody back.
    #[test]
    fn what_is_left_from_before_the_clock_wrapped_counts_for_nothing() {
        let (table, limit) = table(1_000, 2);
        table.take_at(1, &limit, 5_000).unwrap();
        table.take_at(1, &limit, 5_000).unwrap();
        assert!(table.take_at(1, &limit, 5_000).is_err());
        for now in [TIME_MASK / 2, TIME_MASK, TIME_MASK + 1_000] {
            assert!(table.take_at(1, &limit, now).is_ok(), "at {now}");
        }
    }

    #[test]
    fn a_flood_of_keys_does_not_let_the_flooder_be_forgotten() {
        let (table, limit) = table(1_000_000, 10);
        let flooder = 3 << TIME_BITS;
        (0..10).for_each(|_| table.take_at(flooder, &limit, 0).unwrap());
        for other in 100..10_000_u64 {
            table.take_at(other << TIME_BITS, &limit, 0).unwrap();
        }
        assert!(table.take_at(flooder, &limit, 0).is_err());
    }

    /// However many threads ask, what passes is what the limit says.
    #[test]
    fn threads_share_one_rate() {
        let (table, limit) = table(1_000_000, 5_000);
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..5_000).filter(|_| table.take_at(9, &limit, 0).is_ok()).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 5_000);
    }
}
