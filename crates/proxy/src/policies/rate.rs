//! The rate of requests, or of bytes, by key, exact over all workers: the generic cell rate algorithm (ITU-T I.371, annex A) over a table of fixed size.
//!
//! For each key one time is kept, when its burst would be whole again. All that is needed fits into one word, so that a request costs one
//! compare-and-swap and no lock: 24 bits of the key's hash, and 40 bits of that time, which wrap after twelve days (in microseconds, for requests). A time that is further ahead than
//! the burst reaches is an old one, and stands for a key without requests; long before it could look new again, `forget_old` has removed it. A set of eight words is one cache line. In a full set the key that has
//! used least of its burst is forgotten, so whoever floods is not. Two keys with equal hashes share their rate: one pair in two millions within a set,
//! and nobody can choose it, since the hash has a secret. What nodes share beside that is a matter of `shared.rs`.

use std::hash::DefaultHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::{RateLimit, RateScope};
use net::clock;

use super::counts::{Seed, UsedKey};
use super::shared::{Ledger, RateStore, SharedKey, Sharing};

/// What rates of requests are counted in.
const MICROSECOND: Duration = Duration::from_micros(1);
/// Words of a set: those of a cache line.
const WAYS: usize = 8;
/// Bits of a time.
const TIME_BITS: u32 = 40;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// How late a thread may be with the time that it has read: what others have booked since is ahead of that by as much more.
const LATE: Duration = Duration::from_secs(60);
/// Longest time that a node goes on without news of the others before it takes its part of the limit alone, microseconds.
const BLIND_MICROS: u64 = 20_000_000;
/// Sets that are looked through with one look at the clock.
const SETS_PER_LOOK: usize = 1024;

/// Keys, and how much of their burst they have used.
#[derive(Debug)]
pub(super) struct RateTable {
    sets: Box<[Set]>,
    seed: Seed,
    started: Duration,
    /// What times are counted in.
    tick: Duration,
    /// The longest time that a key has been ahead under any configuration.
    reach: AtomicU64,
    /// What other nodes have still to learn, where they share the rate.
    ledger: Option<Ledger>,
}

/// A rate of requests that is active.
#[derive(Debug)]
pub(super) struct ActiveRate {
    /// As configured.
    pub(super) limit: RateLimit,
    /// Nodes that share it; 1 where none do.
    pub(super) nodes: u32,
    /// What was counted.
    pub(super) table: Arc<RateTable>,
}

impl ActiveRate {
    /// That of a limit; it goes on from what was counted before if that is counted in the same way. `store`: where nodes share it.
    pub(super) fn of(limit: &RateLimit, store: Option<&RateStore>, before: Option<&ActiveRate>) -> ActiveRate {
        let store = store.filter(|_| limit.scope == RateScope::Fleet);
        let is_same = |before: &&ActiveRate| {
            let same = before.limit.key == limit.key && before.limit.max_keys == limit.max_keys;
            same && before.table.ledger().map(|_| before.table.seed()) == store.map(|store| &store.seed)
        };
        let new = || match store {
            Some(store) => Arc::new(RateTable::shared(limit.max_keys, &store.seed, &store.sharing)),
            None => Arc::new(RateTable::of_requests(limit.max_keys)),
        };
        let nodes = store.map_or(1, |store| store.config.nodes);
        let table = before.filter(is_same).map_or_else(new, |before| Arc::clone(&before.table));
        table.serve(limit, nodes);
        ActiveRate { limit: limit.clone(), nodes, table }
    }

    /// Counts a request whose key has this hash.
    ///
    /// # Errors
    /// It comes too early, by so much.
    pub(super) fn take(&self, hash: u64) -> Result<(), Duration> {
        self.table.take(hash, &self.limit, self.nodes)
    }
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
            seed: Seed::own(),
            started: clock::precise(),
            tick,
            reach: AtomicU64::new(0),
            ledger: None,
        }
    }

    /// That of a rate of requests that nodes share, whose keys all of them hash by this seed.
    pub(super) fn shared(max_keys: usize, seed: &Seed, sharing: &Arc<Sharing>) -> RateTable {
        let table = RateTable { seed: seed.clone(), ..RateTable::of_requests(max_keys) };
        RateTable { ledger: Some(Ledger::new(table.sets.len(), WAYS, sharing)), ..table }
    }

    /// That of a rate of requests.
    pub(super) fn of_requests(max_keys: usize) -> RateTable {
        RateTable::new(max_keys, MICROSECOND)
    }

    /// What was counted under another limit counts under this one. Where nodes share it, each may let a burst pass before it learns of the others', and
    /// what was too much is taken from what comes after.
    pub(super) fn serve(&self, limit: &RateLimit, nodes: u32) {
        self.reach(most_ahead(limit, nodes));
    }

    /// A key may be so many ticks ahead.
    pub(super) fn reach(&self, ticks: u64) {
        self.reach.fetch_max(ticks.min(TIME_MASK / 2), Ordering::Relaxed);
    }

    /// The beginning of the hash of a key.
    pub(super) fn hasher(&self) -> DefaultHasher {
        self.seed.hasher()
    }

    /// Counts a request whose key has this hash. `nodes`: among so many it is shared.
    ///
    /// # Errors
    /// It comes too early, by so much.
    pub(super) fn take(&self, hash: u64, limit: &RateLimit, nodes: u32) -> Result<(), Duration> {
        self.take_at(hash, (limit, nodes), self.now())
    }

    fn take_at(&self, hash: u64, (limit, nodes): (&RateLimit, u32), now: u64) -> Result<(), Duration> {
        let interval = micros(limit.interval);
        // A node that hears nothing of the others has its part: each request counts for theirs, too.
        let cost = match &self.ledger {
            Some(ledger) => interval.saturating_mul(ledger.weight(nodes)).min(TIME_MASK / 4),
            None => interval,
        };
        let whole = (interval * u64::from(limit.burst)).max(cost);
        let taken = self.change(hash, now, |used| if used + cost > whole { None } else { Some(used + cost) });
        let taken = taken.map_err(|used| Duration::from_micros(used + cost - whole))?;
        if let Some(ledger) = &self.ledger {
            ledger.note(taken.slot, hash >> TIME_BITS);
        }
        Ok(())
    }

    /// What other nodes have still to learn, where they share the rate.
    pub(super) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// What keys are hashed by.
    pub(super) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// How much of its burst a key has used, microseconds.
    pub(super) fn used(&self, key: SharedKey) -> u64 {
        let Some(set) = self.sets.get(key.set as usize) else { return 0 };
        set.find(key.tag, self.horizon(), self.now()).used
    }

    /// Learns how much of its burst a key has used on all nodes together, microseconds; what it has used here since counts beside that. Nobody is given anything back.
    pub(super) fn learn(&self, key: SharedKey, used_by_all: u64, limit: &RateLimit) {
        let unreported = self.ledger.as_ref().map_or(0, |ledger| ledger.unreported(key));
        let used_by_all = used_by_all.saturating_add(unreported.saturating_mul(micros(limit.interval)));
        let most = self.reach.load(Ordering::Relaxed);
        let hash = key.tag << TIME_BITS | u64::from(key.set);
        let _ = self.change(hash, self.now(), |used| (used_by_all > used).then_some(used_by_all.min(most)));
    }

    /// Books so many ticks of a key, however many are booked; says how many were before, and whether all could be booked.
    pub(super) fn book(&self, hash: u64, ticks: u64, now: Duration) -> (u64, bool) {
        let most = self.reach.load(Ordering::Relaxed);
        let booked = self.change(hash, self.ticks_at(now), |used| Some(used.saturating_add(ticks).min(most)));
        let before = booked.map_or_else(|used| used, |changed| changed.before);
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

    /// The keys that have used some of their burst at this moment.
    pub(super) fn used_at(&self, moment: Duration) -> impl Iterator<Item = UsedKey> {
        let (now, horizon) = (self.ticks_at(moment), self.horizon());
        let words = self.sets.iter().zip(0_u64..).flat_map(|(set, index)| set.0.iter().map(move |slot| (slot, index)));
        words.filter_map(move |(slot, index)| {
            let word = slot.load(Ordering::Relaxed);
            let ticks = used(word, horizon, now);
            (ticks > 0).then_some(UsedKey { hash: word & !TIME_MASK | index, ticks })
        })
    }

    /// Goes on from what another table of this size had counted at a moment. Nobody is further ahead than is possible here.
    ///
    /// # Errors
    /// A key is in no set of such a table, or was further ahead than any can be. The keys before it count.
    pub(super) fn go_on_with(&self, keys: &[UsedKey], moment: Duration) -> Result<(), String> {
        let now = clock::precise();
        let (since, now) = (self.ticks_of(now.saturating_sub(moment)), self.ticks_at(now));
        let most = self.reach.load(Ordering::Relaxed);
        for key in keys {
            let set = usize::try_from(key.hash & TIME_MASK).unwrap_or(usize::MAX);
            if set >= self.sets.len() || key.ticks > TIME_MASK {
                return Err("the counts of a rate do not fit into its table".to_owned());
            }
            let left = key.ticks.saturating_sub(since).min(most);
            // What was taken in before is never lessened.
            let _ = self.change(key.hash, now, |used| (left > used).then_some(left));
        }
        Ok(())
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

    /// Changes how much a key has used; says how much it had, and where it stands.
    ///
    /// # Errors
    /// How much it has, where `change` says that nothing is changed.
    fn change(&self, hash: u64, now: u64, change: impl Fn(u64) -> Option<u64>) -> Result<Changed, u64> {
        let tag = hash >> TIME_BITS;
        // The number of sets is a power of two.
        let index = hash as usize & (self.sets.len() - 1);
        let Some(set) = self.sets.get(index) else { return Ok(Changed { before: 0, slot: 0 }) };
        loop {
            let Place { slot, way, word, used } = set.find(tag, self.horizon(), now);
            let Some(after) = change(used) else { return Err(used) };
            let next = tag << TIME_BITS | (now + after) & TIME_MASK;
            if slot.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Ok(Changed { before: used, slot: index * WAYS + way });
            }
        }
    }
}

/// A key whose word was changed.
struct Changed {
    /// How much of its burst it had used, ticks.
    before: u64,
    /// The number of its word among those of all sets.
    slot: usize,
}

/// Where a key stands in its set.
struct Place<'s> {
    slot: &'s AtomicU64,
    /// Its number in the set.
    way: usize,
    /// What was there.
    word: u64,
    /// How much of its burst the key has used, ticks.
    used: u64,
}

impl Set {
    /// The place of a key: its own, or that of the key that has used least.
    fn find(&self, tag: u64, horizon: u64, now: u64) -> Place<'_> {
        let [first, ..] = &self.0;
        let mut least = Place { slot: first, way: 0, word: 0, used: u64::MAX };
        for (way, slot) in self.0.iter().enumerate() {
            let word = slot.load(Ordering::Relaxed);
            let used = used(word, horizon, now);
            if word >> TIME_BITS == tag {
                return Place { slot, way, word, used };
            }
            if used < least.used {
                least = Place { slot, way, word, used };
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

/// The longest time that a key may be ahead, microseconds.
pub(super) fn most_ahead(limit: &RateLimit, nodes: u32) -> u64 {
    let whole = micros(limit.interval) * u64::from(limit.burst);
    let by_all = whole.saturating_add(BLIND_MICROS).saturating_mul(u64::from(nodes));
    if nodes == 1 { whole } else { by_all.min(TIME_MASK / 2) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use config::LimitKey;

    use super::*;

    fn limit(micros: u64, burst: u32) -> RateLimit {
        RateLimit {
            interval: Duration::from_micros(micros),
            burst,
            key: vec![LimitKey::Client],
            max_keys: 1024,
            scope: RateScope::Node,
        }
    }

    fn table(micros: u64, burst: u32) -> (RateTable, RateLimit) {
        let (table, limit) = (RateTable::of_requests(1024), limit(micros, burst));
        table.serve(&limit, 1);
        (table, limit)
    }

    /// Who has used more than a lower limit allows waits until it has not.
    #[test]
    fn a_lower_limit_gives_nobody_a_new_burst() {
        let (table, before) = table(1_000, 20);
        (0..20).for_each(|_| table.take_at(1, (&before, 1), 0).unwrap());
        let after = limit(1_000, 5);
        table.serve(&after, 1);
        assert_eq!(table.take_at(1, (&after, 1), 0), Err(Duration::from_millis(16)));
        assert!(table.take_at(1, (&after, 1), 15_000).is_err());
        assert!(table.take_at(1, (&after, 1), 16_000).is_ok());
    }

    #[test]
    fn a_burst_passes_at_once_and_then_one_request_per_interval() {
        let (table, limit) = table(1_000, 3);
        let take = |now| table.take_at(7, (&limit, 1), now).map_err(|early| early.as_micros());
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
            assert_eq!(table.take_at(key << TIME_BITS | key, (&limit, 1), now).is_ok(), expected, "key {key} at {now}");
        }
    }

    /// Twelve days later an old time looks like one ahead; it must not hold anybody back.
    #[test]
    fn what_is_left_from_before_the_clock_wrapped_counts_for_nothing() {
        let (table, limit) = table(1_000, 2);
        table.take_at(1, (&limit, 1), 5_000).unwrap();
        table.take_at(1, (&limit, 1), 5_000).unwrap();
        assert!(table.take_at(1, (&limit, 1), 5_000).is_err());
        for now in [TIME_MASK / 2, TIME_MASK, TIME_MASK + 1_000] {
            assert!(table.take_at(1, (&limit, 1), now).is_ok(), "at {now}");
        }
    }

    /// A whole wrap later, the time at which the burst was used up comes again.
    #[test]
    fn what_was_forgotten_in_time_never_looks_like_something_ahead() {
        for forgets in [false, true] {
            let (table, limit) = table(1_000, 2);
            (0..2).for_each(|_| table.take_at(1, (&limit, 1), 5_000).unwrap());
            if forgets {
                table.forget_old_of(&table.sets, 5_500);
                assert!(table.take_at(1, (&limit, 1), 5_500).is_err(), "it is not old yet");
                table.forget_old_of(&table.sets, 1_000_000);
            }
            assert_eq!(table.take_at(1, (&limit, 1), TIME_MASK + 1 + 5_500).is_ok(), forgets);
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
                let ours = table.take_at((key as u64 + 1) << TIME_BITS | key as u64, (&limit, 1), now);
                let theirs = oracles[key].check().map_err(|early| early.wait_time_from(clock.now()));
                assert_eq!(ours, theirs, "one each {micros} us, burst {burst}, at {now}");
                passed[usize::from(ours.is_ok())] += 1;
            }
        }
        assert!(passed.into_iter().all(|count| count > 10_000), "{passed:?}");
    }

    /// As another process does with its own table, which began to count at another time.
    #[test]
    fn a_table_goes_on_from_what_another_has_counted() {
        let (before, limit) = table(20_000_000, 3);
        let hashes: Vec<u64> = (1..=100_u64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        (0..2).for_each(|_| hashes.iter().for_each(|hash| before.take(*hash, &limit, 1).unwrap()));
        let at = clock::precise();
        let used: Vec<UsedKey> = before.used_at(at).collect();
        assert_eq!(used.len(), 100);
        let after = RateTable { started: at, ..RateTable::of_requests(1024) };
        after.serve(&limit, 1);
        after.go_on_with(&used, at).unwrap();
        // Given twice, it counts once.
        after.go_on_with(&used, at).unwrap();
        for hash in &hashes {
            assert!(after.take(*hash, &limit, 1).is_ok(), "the last of three");
            assert!(after.take(*hash, &limit, 1).is_err());
        }
        assert!(after.take(7, &limit, 1).is_ok(), "another key");
        // What has passed since then has passed, and a time to come is now.
        let later = RateTable::of_requests(1024);
        later.serve(&limit, 1);
        later.go_on_with(&used, at.saturating_sub(Duration::from_secs(60))).unwrap();
        assert_eq!(later.used_at(clock::precise()).count(), 0);
        later.go_on_with(&used, at + Duration::from_secs(3_600)).unwrap();
        assert_eq!(later.used_at(clock::precise()).count(), 100);
    }

    #[test]
    fn counts_that_fit_into_no_table_are_rejected_and_nobody_is_ahead_for_ever() {
        let (table, limit) = table(1_000, 3);
        let key = |hash, ticks| [UsedKey { hash, ticks }];
        let sets = table.sets.len() as u64;
        let now = clock::precise();
        for wrong in [key(sets, 1), key(TIME_MASK, 1), key(0, TIME_MASK + 1), key(0, u64::MAX)] {
            assert!(table.go_on_with(&wrong, now).unwrap_err().contains("do not fit"));
        }
        assert_eq!(table.used_at(clock::precise()).count(), 0);
        table.go_on_with(&key(1 << TIME_BITS | (sets - 1), TIME_MASK), now).unwrap();
        let wait = table.take_at(1 << TIME_BITS | (sets - 1), (&limit, 1), table.now()).unwrap_err();
        assert!(wait <= limit.interval, "{wait:?}");
    }

    /// Of a hundred thousand keys each has its burst, within 5 %, and ten million more take no more memory.
    #[test]
    fn many_keys_are_counted_within_bounded_memory() {
        const KEYS: u64 = 100_000;
        let (table, limit) = (RateTable::of_requests(131_072), limit(1_000_000, 4));
        table.serve(&limit, 1);
        let bytes = size_of_val(&*table.sets);
        assert_eq!(bytes, 2 << 20);
        let hash = |key: u64| {
            use std::hash::Hasher;
            let mut hasher = table.hasher();
            hasher.write_u64(key);
            hasher.finish()
        };
        let passed: usize =
            (0..8).map(|_| (0..KEYS).filter(|key| table.take_at(hash(*key), (&limit, 1), 0).is_ok()).count()).sum();
        let expected = 4 * KEYS as usize;
        assert!(passed.abs_diff(expected) * 20 <= expected, "{passed} of {expected}");
        for key in 0..1_000_000_u64 {
            let _ = table.take_at(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), (&limit, 1), 0);
        }
        assert_eq!(size_of_val(&*table.sets), bytes);
    }

    /// A thread may be held up behind its look at the clock; what others have counted since is not old for that.
    #[test]
    fn who_is_late_sees_what_others_have_used() {
        let (table, limit) = table(1_000, 3);
        (0..3).for_each(|_| table.take_at(1, (&limit, 1), 5_000).unwrap());
        table.forget_old_of(&table.sets, 4_000);
        assert_eq!(table.take_at(1, (&limit, 1), 4_000), Err(Duration::from_millis(2)));
        assert!(table.take_at(1, (&limit, 1), 5_000).is_err());
    }

    #[test]
    fn a_flood_of_keys_does_not_let_the_flooder_be_forgotten() {
        let (table, limit) = table(1_000_000, 10);
        let flooder = 3 << TIME_BITS;
        (0..10).for_each(|_| table.take_at(flooder, (&limit, 1), 0).unwrap());
        for other in 100..10_000_u64 {
            table.take_at(other << TIME_BITS, (&limit, 1), 0).unwrap();
        }
        assert!(table.take_at(flooder, (&limit, 1), 0).is_err());
    }

    /// However many threads ask, what passes is what the limit says.
    #[test]
    fn threads_share_one_rate() {
        let (table, limit) = table(1_000_000, 5_000);
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..5_000).filter(|_| table.take_at(9, (&limit, 1), 0).is_ok()).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 5_000);
    }
}
