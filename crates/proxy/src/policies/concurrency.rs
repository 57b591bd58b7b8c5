//! How many requests are under way by key, exact over all workers, in a table of fixed size.
//!
//! Of a key that has any, one word is kept: 40 bits of the key's hash and a count of 24 bits. A word whose count is zero is free, so nothing is ever cleaned up. To enter
//! and to leave are one atomic step each. A set of eight words is one cache line. Its last word is for the keys that find no other one: they share it, and
//! are counted together until the last of them has left. So a flood of keys makes this limit stricter for those who meet in a full set, and never looser; who
//! meets whom nobody can choose, since the hash has a secret.

use std::hash::{BuildHasher, DefaultHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a set: those of a cache line.
const WORDS: usize = 8;
/// The word that keys share.
const SHARED: usize = WORDS - 1;
/// Bits of a count.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

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
        let word = self.sets.get(set)?.enter(hash >> COUNT_BITS, u64::from(most))?;
        Some(Permit { table: Arc::clone(self), set: u32::try_from(set).ok()?, word: u8::try_from(word).ok()? })
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WORDS]);

/// What a set says of a key.
struct Standing {
    /// The word to count in, and what it held.
    word: usize,
    before: u64,
    /// What it will hold.
    after: u64,
    /// What the key has under way; in the shared word, what all its keys have.
    count: u64,
}

impl Set {
    /// Counts one more of a key, and says in which word; none if it has `most` already.
    fn enter(&self, tag: u64, most: u64) -> Option<usize> {
        loop {
            let Standing { word, before, after, count } = self.find(tag);
            if count >= most {
                return None;
            }
            let place = self.0.get(word)?;
            if place.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                continue;
            }
            // Two workers may have taken the shared word and one of its own for a key: whoever sees that leaves, and looks again.
            let is_in_both = if word == SHARED {
                self.own().any(|(_, held)| held >> COUNT_BITS == tag && held & COUNT_MASK > 0)
            } else {
                count == 0 && self.shared() > 0
            };
            if is_in_both {
                place.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            if word == SHARED {
                return Some(word);
            }
            // Another worker may have given the key a second word, when one before this had just become free. All settle on the first one.
            let mut first = word;
            let mut total = 0;
            for (other, held) in self.own() {
                if held >> COUNT_BITS == tag && held & COUNT_MASK > 0 {
                    first = first.min(other);
                    total += held & COUNT_MASK;
                }
            }
            if first == word && total <= most {
                return Some(word);
            }
            place.fetch_sub(1, Ordering::SeqCst);
            if first == word {
                return None;
            }
        }
    }

    /// The words that are not shared.
    fn own(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().take(SHARED).map(|word| word.load(Ordering::SeqCst)).enumerate()
    }

    /// What the keys of the last word have under way together.
    fn shared(&self) -> u64 {
        self.0.get(SHARED).map_or(0, |word| word.load(Ordering::SeqCst))
    }

    fn find(&self, tag: u64) -> Standing {
        let (mut own, mut free, mut count) = (None, None, 0);
        for (word, held) in self.own() {
            match held & COUNT_MASK {
                0 => free = free.or(Some((word, held))),
                more if held >> COUNT_BITS == tag => {
                    count += more;
                    own = own.or(Some((word, held)));
                }
                _ => {}
            }
        }
        if let Some((word, before)) = own {
            return Standing { word, before, after: before + 1, count };
        }
        let shared = self.shared();
        match free {
            // Who shares a word goes on sharing it, or a key would be counted in two places.
            Some((word, before)) if shared == 0 => Standing { word, before, after: tag << COUNT_BITS | 1, count: 0 },
            _ => Standing { word: SHARED, before: shared, after: shared + 1, count: shared },
        }
    }
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
