//! The rate of requests, or of bytes, by key, exact over all workers: the generic cell rate algorithm (ITU-T I.371, annex A) over a table of fixed size.
//!
//! For each key one time is kept, when its burst would be whole again. All that is needed fits into one word, so that a request costs one
//! compare-and-swap and no lock: 24 bits of the key's hash, and 40 bits of that time, which wrap after twelve days (in microseconds, for requests). A time that is further ahead than
//! the burst reaches is an old one, and stands for a key without requests; long before it could look new again, `forget_old` has removed it. A set of eight words is one cache line. In a full set the key that has
//! used least of its burst is forgotten, so whoever floods is not. Two keys with equal hashes share their rate: one pair in two millions within a set,
//! and nobody can choose it, since the hash has a secret.

use std::hash::{BuildHasher, DefaultHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::RateLimit;
use net::clock;

/// What rates of requests are counted in.
const MICROSECOND: Duration = Duration::from_micros(1);
/// Words of a set: those of a cache line.
const WAYS: usize = 8;
/// Bits of a time.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// How late a thread may be with the time that it has read: what others have booked since is ahead of that by as much more.
const LATE: Duration = Duration::from_secs(60);
/// Sets that are looked through with one look at the clock.
const SETS_PER_LOOK: usize = 1024;

/// Keys, and how much of their burst they have used.
#[derive(Debug)]
pub(super) struct RateTable {
    sets: Box<[Set]>,
    hasher: RandomState,
    started: Duration,
    /// What times are counted in.
    tick: Duration,
    /// The longest time that a key has been ahead under any configuration.
    reach: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

impl RateTable {
    /// Room for so many keys; twice as many places, since keys do not spread evenly over the sets. `tick`: what times are counted in.
    pub(super) fn new(max_keys: usize, tick: Duration) -> RateTable {
        let sets = (max_keys * 2).div_ceil(WAYS).next_power_of_two();
        RateTable {
            sets: (0..sets).map(|_| Set::default()).collect(),
            hasher: RandomState::new(),
            started: clock::precise(),
            tick,
            reach: AtomicU64::new(0),
        }
    }

    /// That of a rate of requests.
    pub(super) fn of_requests(max_keys: usize) -> RateTable {
        RateTable::new(max_keys, MICROSECOND)
    }

    /// What was counted under another limit counts under this one.
    pub(super) fn serve(&self, limit: &RateLimit) {
        self.reach(micros(limit.interval) * u64::from(limit.burst));
    }

    /// A key may be so many ticks ahead.
    pub(super) fn reach(&self, ticks: u64) {
        self.reach.fetch_max(ticks.min(TIME_MASK / 2), Ordering::Relaxed);
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
        self.take_at(hash, limit, self.now())
    }

    fn take_at(&self, hash: u64, limit: &RateLimit, now: u64) -> Result<(), Duration> {
        let interval = micros(limit.interval);
        let whole = interval * u64::from(limit.burst);
        let taken = self.change(hash, now, |used| if used + interval > whole { None } else { Some(used + interval) });
        taken.map(|_| ()).map_err(|used| Duration::from_micros(used + interval - whole))
    }

    /// Books so many ticks of a key, however many are booked; says how many were before, and whether all could be booked.
    pub(super) fn book(&self, hash: u64, ticks: u64, now: Duration) -> (u64, bool) {
        let most = self.reach.load(Ordering::Relaxed);
        let booked = self.change(hash, self.ticks_at(now), |used| Some(used.saturating_add(ticks).min(most)));
        let before = booked.unwrap_or_else(|used| used);
        (before, before.saturating_add(ticks) <= most)
    }

    /// Takes back so many ticks that were booked.
    pub(super) fn give_back(&self, hash: u64, ticks: u64, now: Duration) {
        let _ = self.change(hash, self.ticks_at(now), |used| (used > 0).then(|| used.saturating_sub(ticks)));
    }

    /// Books so many ticks of a key if no more than `whole` are booked then, or none were before.
    pub(super) fn try_book(&self, hash: u64, ticks: u64, whole: u64, now: Duration) -> bool {
        let most = self.reach.load(Ordering::Relaxed);
        let fits = |used: u64| used == 0 || used.saturating_add(ticks) <= whole;
        self.change(hash, self.ticks_at(now), |used| fits(used).then(|| used.saturating_add(ticks).min(most))).is_ok()
    }

    /// Forgets the keys that have their whole burst again.
    pub(super) fn forget_old(&self) {
        self.sets.chunks(SETS_PER_LOOK).for_each(|sets| self.forget_old_of(sets, self.now()));
    }

    fn forget_old_of(&self, sets: &[Set], now: u64) {
        let horizon = self.horizon();
        for slot in sets.iter().flat_map(|set| &set.0) {
            let word = slot.load(Ordering::Relaxed);
            if word != 0 && used(word, horizon, now) == 0 {
                let _ = slot.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// What is ahead by more than this is old.
    fn horizon(&self) -> u64 {
        self.reach.load(Ordering::Relaxed).saturating_add(self.ticks_of(LATE))
    }

    /// Ticks since it was made.
    fn now(&self) -> u64 {
        self.ticks_at(clock::precise())
    }

    fn ticks_at(&self, moment: Duration) -> u64 {
        self.ticks_of(moment.saturating_sub(self.started))
    }

    fn ticks_of(&self, time: Duration) -> u64 {
        u64::try_from(time.as_nanos() / self.tick.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    /// Changes how much a key has used; says how much it had.
    ///
    /// # Errors
    /// The same, where `change` says that nothing is changed.
    fn change(&self, hash: u64, now: u64, change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        let tag = hash >> TIME_BITS;
        // The number of sets is a power of two.
        let Some(set) = self.sets.get(hash as usize & (self.sets.len() - 1)) else { return Ok(0) };
        loop {
            let Place { slot, word, used } = set.find(tag, self.horizon(), now);
            let Some(after) = change(used) else { return Err(used) };
            let next = tag << TIME_BITS | (now + after) & TIME_MASK;
            if slot.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Ok(used);
            }
        }
    }
}

/// Where a key stands in its set.
struct Place<'s> {
    slot: &'s AtomicU64,
    /// What was there.
    word: u64,
    /// How much of its burst the key has used, ticks.
    used: u64,
}

impl Set {
    /// The place of a key: its own, or that of the key that has used least.
    fn find(&self, tag: u64, horizon: u64, now: u64) -> Place<'_> {
        let [first, ..] = &self.0;
        let mut least = Place { slot: first, word: 0, used: u64::MAX };
        for slot in &self.0 {
            let word = slot.load(Ordering::Relaxed);
            let used = used(word, horizon, now);
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

/// How much of its burst the key of a word has used.
fn used(word: u64, horizon: u64, now: u64) -> u64 {
    let ahead = word.wrapping_sub(now) & TIME_MASK;
    if ahead <= horizon && word != 0 { ahead } else { 0 }
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
        let (table, limit) = (RateTable::of_requests(1024), limit(micros, burst));
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

    /// A whole wrap later, the time at which the burst was used up comes again.
    #[test]
    fn what_was_forgotten_in_time_never_looks_like_something_ahead() {
        for forgets in [false, true] {
            let (table, limit) = table(1_000, 2);
            (0..2).for_each(|_| table.take_at(1, &limit, 5_000).unwrap());
            if forgets {
                table.forget_old_of(&table.sets, 5_500);
                assert!(table.take_at(1, &limit, 5_500).is_err(), "it is not old yet");
                table.forget_old_of(&table.sets, 1_000_000);
            }
            assert_eq!(table.take_at(1, &limit, TIME_MASK + 1 + 5_500).is_ok(), forgets);
        }
    }

    /// What `governor` lets pass: for many limits and patterns of arrival the same requests, and the same times to come again.
    #[test]
    fn what_passes_is_what_another_implementation_lets_pass() {
        use governor::clock::{Clock, FakeRelativeClock};
        use governor::{Quota, RateLimiter};
        let mut random = fastrand::Rng::with_seed(1);
        let mut passed = [0; 2];
        for _ in 0..200 {
            let (digits, more) = (random.u32(0..=6), random.u32(0..=3));
            let (micros, burst) = (random.u64(1..=10_u64.pow(digits)), random.u32(1..=10_u32.pow(more)));
            let (table, limit) = table(micros, burst);
            let clock = FakeRelativeClock::default();
            let quota = Quota::with_period(limit.interval).unwrap().allow_burst(burst.try_into().unwrap());
            let oracles = [0; 8].map(|_| RateLimiter::direct_with_clock(quota, clock.clone()));
            // The times of ours wrap on the way.
            let mut now = TIME_MASK - micros * u64::from(burst);
            for _ in 0..1_000 {
                let pause = match random.u8(..8) {
                    0..=3 => 0,
                    4 | 5 => random.u64(0..=micros),
                    6 => micros * random.u64(..3),
                    _ => random.u64(0..=micros * u64::from(burst) * 2) / 8,
                };
                now += pause;
                clock.advance(Duration::from_micros(pause));
                // Each has a set of its own. A word of zeros is a free one, so none has the tag zero.
                let key = random.usize(..8);
                let ours = table.take_at((key as u64 + 1) << TIME_BITS | key as u64, &limit, now);
                let theirs = oracles[key].check().map_err(|early| early.wait_time_from(clock.now()));
                assert_eq!(ours, theirs, "one each {micros} us, burst {burst}, at {now}");
                passed[usize::from(ours.is_ok())] += 1;
            }
        }
        assert!(passed.into_iter().all(|count| count > 10_000), "{passed:?}");
    }

    /// Of a hundred thousand keys each has its burst, within 5 %, and ten million more take no more memory.
    #[test]
    fn many_keys_are_counted_within_bounded_memory() {
        const KEYS: u64 = 100_000;
        let (table, limit) = (RateTable::of_requests(131_072), limit(1_000_000, 4));
        table.serve(&limit);
        let bytes = size_of_val(&*table.sets);
        assert_eq!(bytes, 2 << 20);
        let hash = |key: u64| {
            use std::hash::Hasher;
            let mut hasher = table.hasher();
            hasher.write_u64(key);
            hasher.finish()
        };
        let passed: usize =
            (0..8).map(|_| (0..KEYS).filter(|key| table.take_at(hash(*key), &limit, 0).is_ok()).count()).sum();
        let expected = 4 * KEYS as usize;
        assert!(passed.abs_diff(expected) * 20 <= expected, "{passed} of {expected}");
        for key in 0..10_000_000_u64 {
            let _ = table.take_at(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), &limit, 0);
        }
        assert_eq!(size_of_val(&*table.sets), bytes);
    }

    /// A thread may be held up behind its look at the clock; what others have counted since is not old for that.
    #[test]
    fn who_is_late_sees_what_others_have_used() {
        let (table, limit) = table(1_000, 3);
        (0..3).for_each(|_| table.take_at(1, &limit, 5_000).unwrap());
        table.forget_old_of(&table.sets, 4_000);
        assert_eq!(table.take_at(1, &limit, 4_000), Err(Duration::from_millis(2)));
        assert!(table.take_at(1, &limit, 5_000).is_err());
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
