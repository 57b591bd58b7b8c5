//! How many requests are under way by key, exact over all workers, in a table of fixed size.
//!
//! Of a key that has any, one word is kept: 40 bits of the key's hash and a count of 23 bits. A word whose count is zero is free, so nothing is ever cleaned up. A set of
//! eight words is one cache line. Its last word is for the keys that find no other one: they share it, and
//! are counted together until the last of them has left. So a flood of keys makes this limit stricter for those who meet in a full set, and never looser; who
//! meets whom nobody can choose, since the hash has a secret.
//!
//! To enter a word that counts already, and to leave, are one atomic step each. A word that is free is claimed first, with a number of the thread, and counts once it is
//! certain that the key is counted nowhere else (`entry`): threads that meet count neither more than there may be nor fewer.

mod entry;

use std::hash::{BuildHasher, DefaultHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use entry::{Entry, Step};

/// Words of a set: those of a cache line.
const WORDS: usize = 8;
/// The word that keys share.
const SHARED: usize = WORDS - 1;
/// Bits of a count, and of a claim.
const COUNT_BITS: u32 = 24;
/// The word is claimed: the other bits of its count are the number of who claims it.
const CLAIM: u64 = 1 << (COUNT_BITS - 1);
const COUNT_MASK: u64 = CLAIM - 1;

/// Keys with what they have under way.
#[derive(Debug)]
pub(super) struct ConcurrencyTable {
    sets: Box<[Set]>,
    hasher: RandomState,
}

/// One request, tunnel or flow that counts under a limit; counts itself out when dropped.
#[derive(Debug)]
pub struct Permit {
    table: Arc<ConcurrencyTable>,
    set: u32,
    word: u8,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(word) = self.table.sets.get(self.set as usize).and_then(|set| set.0.get(usize::from(self.word))) {
            word.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The permits of one request, tunnel or flow. The first takes no memory of its own.
#[derive(Debug, Default)]
pub struct Permits {
    first: Option<Permit>,
    others: Vec<Permit>,
}

impl Permits {
    /// Holds one more.
    pub fn hold(&mut self, permit: Permit) {
        match self.first {
            None => self.first = Some(permit),
            Some(_) => self.others.push(permit),
        }
    }
}

impl ConcurrencyTable {
    /// Room for so many keys at once; twice as many words, since keys do not spread evenly over the sets.
    pub(super) fn new(max_keys: usize) -> ConcurrencyTable {
        let sets = (max_keys * 2).div_ceil(WORDS).next_power_of_two();
        ConcurrencyTable { sets: (0..sets).map(|_| Set::default()).collect(), hasher: RandomState::new() }
    }

    /// What keys are hashed by.
    pub(super) fn hasher(&self) -> DefaultHasher {
        self.hasher.build_hasher()
    }

    /// Counts one more of the key with this hash; none if it has `most` already.
    pub(super) fn enter(self: &Arc<Self>, hash: u64, most: u32) -> Option<Permit> {
        // The number of sets is a power of two.
        let set = hash as usize & (self.sets.len() - 1);
        let word = self.sets.get(set)?.enter(hash >> COUNT_BITS, u64::from(most), CLAIMANT.with(|own| *own))?;
        Some(Permit { table: Arc::clone(self), set: u32::try_from(set).ok()?, word: u8::try_from(word).ok()? })
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WORDS]);

impl Set {
    /// Counts one more of a key, and says in which word; none if it has `most` already. `claimant`: a number that no other thread has.
    fn enter(&self, tag: u64, most: u64, claimant: u64) -> Option<usize> {
        let mut entry = Entry::new(tag, most, claimant);
        loop {
            match entry.step(self) {
                Step::On => {}
                Step::In(word) => return Some(word),
                Step::Full => return None,
            }
        }
    }

    /// What a word holds.
    fn load(&self, word: usize) -> u64 {
        self.0.get(word).map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Changes a word if it holds `before`; whether it did.
    fn change(&self, word: usize, before: u64, after: u64) -> bool {
        let word = self.0.get(word);
        word.is_some_and(|word| word.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst).is_ok())
    }
}

thread_local! {
    /// The number of this thread, for its claims. Eight millions later it comes again.
    static CLAIMANT: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) & COUNT_MASK
    };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::HashMap;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// The hash of a key in the set of that number.
    fn hash(set: u64, key: u64) -> u64 {
        key << COUNT_BITS | set
    }

    fn is_empty(table: &ConcurrencyTable) -> bool {
        table.sets.iter().flat_map(|set| &set.0).all(|word| word.load(Ordering::SeqCst) & COUNT_MASK == 0)
    }

    /// Random numbers, the same each time.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn a_key_has_so_many_and_no_more_until_one_leaves() {
        let table = Arc::new(ConcurrencyTable::new(1024));
        let mut held: Vec<_> = (0..3).map(|_| table.enter(hash(0, 1), 3).unwrap()).collect();
        assert!(table.enter(hash(0, 1), 3).is_none());
        let other = table.enter(hash(0, 2), 1).unwrap();
        assert!(table.enter(hash(0, 2), 1).is_none());
        held.pop();
        held.push(table.enter(hash(0, 1), 3).unwrap());
        assert!(table.enter(hash(0, 1), 3).is_none());
        assert!(table.enter(hash(0, 1), 2).is_none(), "a lower limit counts what is there");
        drop((held, other));
        assert!(is_empty(&table));
    }

    /// Against a model that keeps each key in a map: seven keys to a set, so that each has a word.
    #[test]
    fn counts_are_those_of_a_map() {
        let table = Arc::new(ConcurrencyTable::new(1024));
        let (mut model, mut held, mut state) = (HashMap::<u64, u32>::new(), Vec::new(), 1);
        for _ in 0..50_000 {
            if random(&mut state).is_multiple_of(2) && !held.is_empty() {
                let (hash, permit): (u64, Permit) = held.swap_remove(random(&mut state) as usize % held.len());
                *model.get_mut(&hash).unwrap() -= 1;
                drop(permit);
                continue;
            }
            let hash = hash(random(&mut state) % 4, random(&mut state) % 7);
            let most = 1 + (random(&mut state) % 5) as u32;
            let count = model.entry(hash).or_default();
            let permit = table.enter(hash, most);
            assert_eq!(permit.is_some(), *count < most, "{hash} has {count} of {most}");
            if let Some(permit) = permit {
                *count += 1;
                held.push((hash, permit));
            }
        }
        drop(held);
        assert!(is_empty(&table));
    }

    /// Where nobody but those of one key meet, every round lets in exactly so many.
    #[test]
    fn threads_that_meet_leave_no_room_unused() {
        let (table, threads) = (Arc::new(ConcurrencyTable::new(1024)), 3);
        let (gate, entered, wrong) = (std::sync::Barrier::new(threads), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        gate.wait();
                        let permit = table.enter(hash(0, 1), 2);
                        entered.fetch_add(u32::from(permit.is_some()), Ordering::SeqCst);
                        // What was entered is held until all have tried.
                        let is_one = gate.wait().is_leader();
                        if is_one {
                            // Not asserted here: the others would wait for this thread for ever.
                            wrong.fetch_add(u32::from(entered.swap(0, Ordering::SeqCst) != 2), Ordering::SeqCst);
                        }
                        drop(permit);
                    }
                });
            }
        });
        assert_eq!(wrong.load(Ordering::SeqCst), 0, "rounds that did not let in two");
        assert!(is_empty(&table));
    }

    #[test]
    fn more_keys_than_there_are_words_share_one_and_none_gets_more_than_its_number() {
        let table = Arc::new(ConcurrencyTable::new(1024));
        let known: Vec<_> = (0..SHARED as u64).map(|key| table.enter(hash(0, key), 2).unwrap()).collect();
        // Two of a flood share the last word, and have it for themselves until both have left.
        let (first, second) = (table.enter(hash(0, 100), 2).unwrap(), table.enter(hash(0, 101), 2).unwrap());
        assert!((100..1_000).all(|key| table.enter(hash(0, key), 2).is_none()));
        let again: Vec<_> = (0..SHARED as u64).map(|key| table.enter(hash(0, key), 2).unwrap()).collect();
        assert!(table.enter(hash(1, 100), 2).is_some(), "another set knows nothing of that");
        drop((known, again, first));
        assert_eq!(table.enter(hash(0, 101), 2).unwrap().word as usize, SHARED, "it is counted there already");
        drop(second);
        assert_eq!(table.enter(hash(0, 101), 2).unwrap().word, 0);
        assert!(is_empty(&table));
    }

    /// However threads meet, no key ever has more than its number, and in the end nothing is left.
    #[test]
    fn threads_share_one_count() {
        let table = Arc::new(ConcurrencyTable::new(1024));
        // More keys than words, in one set.
        let under_way: [AtomicU32; 10] = Default::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (table, under_way) = (&table, &under_way);
                scope.spawn(move || {
                    let (mut state, mut held) = (thread, Vec::new());
                    for _ in 0..30_000 {
                        let key = random(&mut state) % 10;
                        if held.len() > 6 || random(&mut state).is_multiple_of(3) {
                            if !held.is_empty() {
                                let at = random(&mut state) as usize % held.len();
                                let (key, permit): (u64, Permit) = held.swap_remove(at);
                                under_way[key as usize].fetch_sub(1, Ordering::SeqCst);
                                drop(permit);
                            }
                        } else if let Some(permit) = table.enter(hash(0, key), 3) {
                            assert!(under_way[key as usize].fetch_add(1, Ordering::SeqCst) < 3, "key {key}");
                            held.push((key, permit));
                        }
                    }
                    held.into_iter().for_each(|(key, _)| _ = under_way[key as usize].fetch_sub(1, Ordering::SeqCst));
                });
            }
        });
        assert!(is_empty(&table));
    }
}
