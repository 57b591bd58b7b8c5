//! Rates that nodes share: what each key has used here that the others have still to learn, and what is known of the store by which they learn it.
//!
//! A request adds to one more word of the table, and marks its set as changed where it is not marked; it takes no lock and asks nobody. Somebody else
//! (`background/rate_store.rs`) takes what was added, a few times a second, and looks at nothing but the sets that are marked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use config::RateStoreConfig;
use tls::crypto::digest::sha256;

use super::counts::Seed;
use super::rate::{ActiveRate, most_ahead};
use crate::upstream::Group;

/// Bits of a count; those above are the key's.
const COUNT_BITS: u32 = 40;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The store of a configuration, ready to be talked to.
#[derive(Debug)]
pub struct RateStore {
    /// As configured.
    pub config: Arc<RateStoreConfig>,
    /// The way to it.
    pub group: Arc<Group>,
    /// The password of its user, if it has one.
    pub password: Option<keystore::Password>,
    /// How it stands. It passes from generation to generation.
    pub sharing: Arc<Sharing>,
    /// What keys are hashed by.
    pub(super) seed: Seed,
}

impl RateStore {
    /// Reads the secrets, and makes the way to the store.
    ///
    /// # Errors
    /// A secret cannot be read or is too short, or a file of the TLS settings is missing or unusable.
    pub(super) fn load(config: &Arc<RateStoreConfig>, previous: Option<&RateStore>) -> Result<RateStore, String> {
        let explain = |what: &str, problem: String| format!("rate_store: {what}: {problem}");
        let secret = config.secret.read().map_err(|problem| explain("secret", problem))?;
        if secret.as_str().len() < MIN_SECRET_BYTES {
            return Err(explain("secret", format!("it has fewer than {MIN_SECRET_BYTES} bytes, and could be guessed")));
        }
        let password = config.password.as_ref().map(|password| password.read()).transpose();
        let password = password.map_err(|problem| explain("password", problem))?;
        let kept = previous.map(|previous| &previous.group).filter(|group| group.is_current(&config.upstream));
        let group = match kept {
            Some(group) => Arc::clone(group),
            None => Arc::new(Group::new(&config.upstream).map_err(|problem| explain("tls", problem))?),
        };
        let named = [b"portunus rates shared by nodes, 1:", secret.as_str().as_bytes()].concat();
        Ok(RateStore {
            config: Arc::clone(config),
            group,
            password,
            sharing: previous.map(|previous| Arc::clone(&previous.sharing)).unwrap_or_default(),
            seed: Seed::of(&sha256(&named)),
        })
    }
}

impl RateStore {
    /// What is amiss, in words.
    pub fn concern(&self) -> Option<String> {
        let nodes = self.config.nodes;
        (!self.sharing.is_in_touch()).then(|| format!("rates: the store is away, each node has 1/{nodes} of a limit"))
    }
}

/// Fewest bytes of the secret under which keys are hashed.
const MIN_SECRET_BYTES: usize = 16;

/// How the store stands.
#[derive(Debug, Default)]
pub struct Sharing {
    is_in_touch: AtomicBool,
}

impl Sharing {
    /// Whether nodes learn of each other. If not, each has its part of a limit.
    pub fn is_in_touch(&self) -> bool {
        self.is_in_touch.load(Ordering::Relaxed)
    }

    /// Notes that they do or do not; true if that is new.
    pub fn set_in_touch(&self, is_in_touch: bool) -> bool {
        self.is_in_touch.swap(is_in_touch, Ordering::Relaxed) != is_in_touch
    }
}

/// A key as all nodes know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedKey {
    /// The number of its set.
    pub(super) set: u32,
    /// What is kept of its hash beside that.
    pub(super) tag: u64,
}

impl SharedKey {
    /// Its name in the store.
    pub fn name(self) -> String {
        format!("{:06x}{:05x}", self.tag, self.set)
    }
}

/// What a key has used that other nodes have still to learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Which key.
    pub key: SharedKey,
    /// Requests.
    pub count: u64,
}

/// Beside each word of a table, what its key has used since the other nodes have learned of it.
#[derive(Debug)]
pub(super) struct Ledger {
    spent: Box<[AtomicU64]>,
    /// A bit for each set in which something was added.
    changed: Box<[AtomicU64]>,
    /// Words of a set.
    ways: usize,
    sharing: Arc<Sharing>,
}

impl Ledger {
    pub(super) fn new(sets: usize, ways: usize, sharing: &Arc<Sharing>) -> Ledger {
        Ledger {
            spent: (0..sets * ways).map(|_| AtomicU64::new(0)).collect(),
            changed: (0..sets.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            ways,
            sharing: Arc::clone(sharing),
        }
    }

    /// As how many each request counts among so many nodes.
    pub(super) fn weight(&self, nodes: u32) -> u64 {
        if self.sharing.is_in_touch() { 1 } else { u64::from(nodes) }
    }

    /// Adds a request of the key in this slot. What a key that stood there before had used stays unknown to others: it was forgotten here, too.
    pub(super) fn note(&self, slot: usize, tag: u64) {
        self.add(slot, tag, 1);
    }

    fn add(&self, slot: usize, tag: u64, count: u64) {
        let Some(place) = self.spent.get(slot) else { return };
        let mut word = place.load(Ordering::Relaxed);
        loop {
            let before = if word >> COUNT_BITS == tag { word & COUNT_MASK } else { 0 };
            let next = tag << COUNT_BITS | before.saturating_add(count).min(COUNT_MASK);
            match place.compare_exchange_weak(word, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => word = other,
            }
        }
        self.mark(slot / self.ways);
    }

    /// In one order with [`Ledger::take`]: either that sees what was added, or the mark is seen the next time.
    fn mark(&self, set: usize) {
        let (Some(bits), bit) = (self.changed.get(set / 64), 1 << (set % 64)) else { return };
        if bits.load(Ordering::SeqCst) & bit == 0 {
            bits.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Requests of a key that other nodes have still to learn of.
    pub(super) fn unreported(&self, key: SharedKey) -> u64 {
        let start = key.set as usize * self.ways;
        let words = self.spent.get(start..start + self.ways).unwrap_or_default();
        let words = words.iter().map(|word| word.load(Ordering::Relaxed));
        words.filter(|word| word >> COUNT_BITS == key.tag).map(|word| word & COUNT_MASK).sum()
    }

    /// Takes what was added, of `most` keys: those that have used most. How many more wait for the next time.
    fn take(&self, most: usize) -> (Vec<Spent>, usize) {
        let (mut found, mut left): (Vec<(u64, usize)>, usize) = (Vec::new(), 0);
        for (bits, index) in self.changed.iter().zip(0..) {
            let mut marked = if bits.load(Ordering::SeqCst) == 0 { 0 } else { bits.swap(0, Ordering::SeqCst) };
            while marked != 0 {
                let set = index * 64 + marked.trailing_zeros() as usize;
                marked &= marked - 1;
                let slots = set * self.ways..(set + 1) * self.ways;
                let counts =
                    slots.filter_map(|slot| Some((self.spent.get(slot)?.load(Ordering::SeqCst) & COUNT_MASK, slot)));
                found.extend(counts.filter(|(count, _)| *count > 0));
            }
            if found.len() > most.saturating_mul(2) {
                left += self.keep_hottest(&mut found, most);
            }
        }
        left += self.keep_hottest(&mut found, most);
        (found.into_iter().filter_map(|(_, slot)| self.take_slot(slot)).collect(), left)
    }

    /// Leaves the others for the next time; says how many.
    fn keep_hottest(&self, found: &mut Vec<(u64, usize)>, most: usize) -> usize {
        if found.len() <= most {
            return 0;
        }
        if most > 0 {
            found.select_nth_unstable_by_key(most - 1, |(count, _)| std::cmp::Reverse(*count));
        }
        let others = found.split_off(most);
        others.iter().for_each(|(_, slot)| self.mark(slot / self.ways));
        others.len()
    }

    fn take_slot(&self, slot: usize) -> Option<Spent> {
        let word = self.spent.get(slot)?.swap(0, Ordering::SeqCst);
        let set = u32::try_from(slot / self.ways).ok()?;
        let spent = Spent { key: SharedKey { set, tag: word >> COUNT_BITS }, count: word & COUNT_MASK };
        (spent.count > 0).then_some(spent)
    }

    /// Puts back what was taken, since nobody has learned of it.
    fn put_back(&self, spent: Spent) {
        let start = spent.key.set as usize * self.ways;
        let words = self.spent.get(start..start + self.ways).unwrap_or_default();
        let own = |word: &AtomicU64| word.load(Ordering::Relaxed) >> COUNT_BITS == spent.key.tag;
        let is_free = |word: &AtomicU64| word.load(Ordering::Relaxed) == 0;
        // Where others have come since, the key has been forgotten, or is about to be.
        if let Some(way) = words.iter().position(own).or_else(|| words.iter().position(is_free)) {
            self.add(start + way, spent.key.tag, spent.count);
        }
    }
}

/// A rate that nodes share, for whoever tells them of each other.
#[derive(Debug, Clone)]
pub struct SharedRate {
    /// What it is known by on all nodes: a digest of all that must be the same.
    pub name: String,
    rate: Arc<ActiveRate>,
}

impl SharedRate {
    pub(super) fn new(name: [u8; 32], rate: &Arc<ActiveRate>) -> SharedRate {
        let [a, b, c, d, e, f, g, h, ..] = name;
        SharedRate { name: format!("{:016x}", u64::from_be_bytes([a, b, c, d, e, f, g, h])), rate: Arc::clone(rate) }
    }

    /// One request is so many microseconds.
    pub fn interval(&self) -> u64 {
        u64::try_from(self.rate.limit.interval.as_micros()).unwrap_or(u64::MAX)
    }

    /// A key may be ahead by so many microseconds.
    pub fn most_ahead(&self) -> u64 {
        most_ahead(&self.rate.limit, self.rate.nodes)
    }

    /// Takes what keys have used since others have learned of it, `most` of them: those that have used most. How many more wait for the next time.
    pub fn take(&self, most: usize) -> (Vec<Spent>, usize) {
        self.rate.table.ledger().map(|ledger| ledger.take(most)).unwrap_or_default()
    }

    /// Puts back what was taken, since nobody has learned of it.
    pub fn put_back(&self, spent: Spent) {
        self.rate.table.ledger().into_iter().for_each(|ledger| ledger.put_back(spent));
    }

    /// How far a key is ahead here, microseconds.
    pub fn used(&self, key: SharedKey) -> u64 {
        self.rate.table.used(key)
    }

    /// Learns how far a key is ahead on all nodes together, microseconds. Nobody is given anything back.
    pub fn learn(&self, key: SharedKey, used_by_all: u64) {
        self.rate.table.learn(key, used_by_all, &self.rate.limit);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use config::{LimitKey, RateLimit, RateScope};

    use super::*;
    use crate::policies::rate::RateTable;

    const WAYS: usize = 8;

    fn ledger(sets: usize) -> Ledger {
        Ledger::new(sets, WAYS, &Arc::default())
    }

    fn spent(set: u32, tag: u64, count: u64) -> Spent {
        Spent { key: SharedKey { set, tag }, count }
    }

    #[test]
    fn what_was_added_is_taken_once_and_those_that_used_most_come_first() {
        let ledger = ledger(200);
        for set in 0..200_u32 {
            (0..=set).for_each(|_| ledger.note(set as usize * WAYS + 3, u64::from(set) + 1));
        }
        let (mut taken, left) = ledger.take(50);
        taken.sort_unstable_by_key(|spent| spent.key.set);
        let expected: Vec<Spent> = (150..200).map(|set| spent(set, u64::from(set) + 1, u64::from(set) + 1)).collect();
        assert_eq!((taken, left), (expected, 150));
        let (rest, left) = ledger.take(1_000);
        assert_eq!((rest.len(), left), (150, 0), "the others were not lost");
        assert_eq!(rest.iter().map(|spent| spent.count).sum::<u64>(), (1..=150).sum::<u64>());
        assert_eq!(ledger.take(1_000), (Vec::new(), 0));
        assert_eq!(ledger.take(0), (Vec::new(), 0));
    }

    #[test]
    fn what_nobody_learned_of_is_put_back_beside_what_came_since() {
        let ledger = ledger(64);
        (0..3).for_each(|_| ledger.note(5 * WAYS, 7));
        let (taken, _) = ledger.take(10);
        assert_eq!(ledger.unreported(SharedKey { set: 5, tag: 7 }), 0);
        ledger.note(5 * WAYS, 7);
        taken.into_iter().for_each(|spent| ledger.put_back(spent));
        assert_eq!(ledger.unreported(SharedKey { set: 5, tag: 7 }), 4);
        assert_eq!(ledger.take(10).0, [spent(5, 7, 4)]);
        // Another key has its place now, and the others are free.
        ledger.note(5 * WAYS, 8);
        ledger.put_back(spent(5, 7, 4));
        let mut both = ledger.take(10).0;
        both.sort_unstable_by_key(|spent| spent.key.tag);
        assert_eq!(both, [spent(5, 7, 4), spent(5, 8, 1)]);
        // A place that is not there is none.
        ledger.put_back(spent(64, 7, 4));
        assert_eq!(ledger.take(10), (Vec::new(), 0));
    }

    /// Whatever is taken while threads add, nothing is lost and nothing comes twice.
    #[test]
    fn nothing_is_lost_between_threads() {
        let ledger = ledger(128);
        let (mut total, each) = (0, 100_000_u64);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3_usize)
                .map(|thread| {
                    scope.spawn({
                        let ledger = &ledger;
                        move || (0..each).for_each(|step| ledger.note((step as usize * 7 + thread) % 1024, 1))
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                total += ledger.take(40).0.iter().map(|spent| spent.count).sum::<u64>();
            }
        });
        total += ledger.take(10_000).0.iter().map(|spent| spent.count).sum::<u64>();
        assert_eq!(total, 3 * each);
    }

    fn table(sharing: &Arc<Sharing>, burst: u32, nodes: u32) -> (RateTable, RateLimit) {
        let interval = Duration::from_secs(3_600);
        let limit = RateLimit { interval, burst, key: vec![LimitKey::Client], max_keys: 1024, scope: RateScope::Fleet };
        let table = RateTable::shared(1024, &Seed::of(&[7; 32]), sharing);
        table.serve(&limit, nodes);
        (table, limit)
    }

    #[test]
    fn a_node_alone_has_its_part_and_with_the_others_all_that_they_leave() {
        let sharing = Arc::<Sharing>::default();
        let (table, limit) = table(&sharing, 9, 3);
        let passed = |key: u64| (0..20).filter(|_| table.take(key << 40, &limit, 3).is_ok()).count();
        assert_eq!(passed(1), 3, "a third");
        assert!(sharing.set_in_touch(true) && !sharing.set_in_touch(true));
        assert_eq!(passed(1), 0);
        assert_eq!(passed(2), 9);
        // Others have used six.
        let hour = 3_600_000_000;
        table.learn(SharedKey { set: 0, tag: 3 }, 6 * hour, &limit);
        assert_eq!(passed(3), 3);
        // What was used here and not reported counts beside what all have used.
        table.learn(SharedKey { set: 0, tag: 3 }, 7 * hour, &limit);
        let ahead = table.used(SharedKey { set: 0, tag: 3 });
        assert!((9 * hour..=10 * hour).contains(&ahead), "{ahead}");
        // Nobody is given anything back, and nobody is ahead for ever.
        table.learn(SharedKey { set: 0, tag: 2 }, 0, &limit);
        assert_eq!(passed(2), 0);
        table.learn(SharedKey { set: 0, tag: 4 }, u64::MAX, &limit);
        let ahead = table.used(SharedKey { set: 0, tag: 4 });
        assert!(ahead <= most_ahead(&limit, 3), "{ahead}");
        table.learn(SharedKey { set: u32::MAX, tag: 4 }, 5, &limit);
    }

    /// Where the part of a node is less than one request, one passes all the same, and pays for it.
    #[test]
    fn a_part_is_one_request_at_least() {
        let (table, limit) = table(&Arc::default(), 1, 1_000);
        assert!(table.take(1 << 40, &limit, 1_000).is_ok());
        let wait = table.take(1 << 40, &limit, 1_000).unwrap_err();
        assert!(wait > Duration::from_secs(24 * 3_600), "{wait:?}");
    }
}
