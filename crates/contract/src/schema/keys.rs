//! Names of members: a table of those a schema knows, and a set that finds those that occur twice. Neither allocates once it is warm, and neither
//! can be slowed down by chosen names: one is built before they are known, the other hashes with a secret and bounds its searches.

use std::hash::{BuildHasher, RandomState};

use crate::reason::Reason;

/// The known names of one kind of object, numbered in the order of the schema.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    names: Vec<Box<str>>,
    /// Number of a name plus one, by hash; a power of two, at most half full.
    places: Box<[u16]>,
    seed: u64,
    /// Both ends do not tell the names apart: every byte counts.
    by_all: bool,
}

/// So many names may share a place with another one, or a quarter of all, before every byte counts.
const FEW_SHARED: usize = 8;

/// How many seeds are tried for a table without collisions.
const SEEDS: u64 = 64;

impl KeyTable {
    pub fn new(names: Vec<Box<str>>) -> Self {
        let size = (names.len() * 4).next_power_of_two().max(4);
        let collisions = |seed: &u64, by_all: bool| {
            let mut taken = vec![false; size];
            names
                .iter()
                .filter(|name| std::mem::replace(&mut taken[place(name.as_bytes(), *seed, size, by_all)], true))
                .count()
        };
        let best = |by_all| (1..SEEDS).min_by_key(|seed| collisions(seed, by_all)).unwrap_or(1);
        let seed = best(false);
        let by_all = collisions(&seed, false) > FEW_SHARED.max(names.len() / 4);
        let seed = if by_all { best(true) } else { seed };
        let mut places = vec![0u16; size].into_boxed_slice();
        for (number, name) in (1u16..).zip(&names) {
            let mut at = place(name.as_bytes(), seed, size, by_all);
            while places[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            places[at] = number;
        }
        Self { names, places, seed, by_all }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", |name| name)
    }

    /// The number of a known name.
    #[inline(always)]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let size = self.places.len();
        if size == 0 {
            return None;
        }
        let mut at = place(name, self.seed, size, self.by_all);
        loop {
            let number = usize::from(self.places[at]).checked_sub(1)?;
            if self.names[number].as_bytes() == name {
                return Some(number);
            }
            at = (at + 1) & (size - 1);
        }
    }
}

/// By length and both ends of the name: enough to tell most names of a schema apart.
#[inline(always)]
fn place(name: &[u8], seed: u64, size: usize, by_all: bool) -> usize {
    let (head, tail) = if by_all { (all(name), 0) } else { ends(name) };
    let mixed = (head ^ tail.rotate_left(29) ^ (name.len() as u64).rotate_left(56))
        .wrapping_mul(seed << 1 | 0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize & (size - 1)
}

#[cold]
fn all(name: &[u8]) -> u64 {
    name.chunks(8).fold(0, |hash: u64, part| {
        let word = part.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
        (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
    })
}

/// The first and the last up to eight bytes; they overlap in names of less than sixteen.
#[inline]
fn ends(name: &[u8]) -> (u64, u64) {
    let four = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
    match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
            (Some(head), Some(tail)) => (four(head), four(tail)),
            _ => (name.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)), 0),
        },
    }
}

/// The names seen so far in every open object that no table knows, to find duplicates. Objects end in reverse order of their beginning, so what is
/// removed is always what came last, and the table needs no marks for removed entries.
#[derive(Debug)]
pub(super) struct SeenKeys {
    entries: Vec<Entry>,
    text: Vec<u8>,
    /// Number of an entry plus one.
    places: Vec<u32>,
    secret: RandomState,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    object: u32,
    start: u32,
    end: u32,
    place: u32,
}

/// The longest search; with a secret hash and a table at most half full, no chain comes near it.
const MAX_PROBES: usize = 1000;

/// The smallest table.
const MIN_PLACES: usize = 64;

impl SeenKeys {
    pub fn new() -> Self {
        Self { entries: Vec::new(), text: Vec::new(), places: vec![0; MIN_PLACES], secret: RandomState::new() }
    }

    pub fn clear(&mut self) {
        self.remove_from(0);
    }

    /// Forgets everything, and memory beyond this.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.clear();
        if self.places.len() * 4 > keep_bytes.max(MIN_PLACES * 4) {
            self.places = vec![0; MIN_PLACES];
        }
        self.entries.shrink_to(keep_bytes / size_of::<Entry>());
        self.text.shrink_to(keep_bytes);
    }

    /// How much memory it holds.
    pub fn bytes_held(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.text.capacity() + 4 * self.places.capacity()
    }

    /// How many names are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a name of an object and says its number.
    pub fn insert(&mut self, object: u32, name: &[u8]) -> Result<usize, Reason> {
        if (self.entries.len() + 1) * 2 > self.places.len() {
            self.grow();
        }
        let hash = self.secret.hash_one((object, name));
        let mut at = self.first_place(hash);
        for _ in 0..MAX_PROBES {
            let Some(number) = self.places[at].checked_sub(1) else {
                return Ok(
                    self.push(Entry { hash, object, start: self.text.len() as u32, end: 0, place: at as u32 }, name)
                );
            };
            let entry = &self.entries[number as usize];
            if entry.hash == hash && entry.object == object && self.name(number as usize) == name {
                return Err(Reason::DuplicateKey);
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        Err(Reason::Keys)
    }

    fn push(&mut self, mut entry: Entry, name: &[u8]) -> usize {
        self.text.extend_from_slice(name);
        entry.end = self.text.len() as u32;
        self.places[entry.place as usize] = self.entries.len() as u32 + 1;
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// A name by its number.
    pub fn name(&self, number: usize) -> &[u8] {
        let range = self.entries.get(number).map_or(0..0, |entry| entry.start as usize..entry.end as usize);
        &self.text[range]
    }

    /// Forgets the names from that number on.
    #[inline]
    pub fn remove_from(&mut self, count: usize) {
        while self.entries.len() > count
            && let Some(entry) = self.entries.pop()
        {
            self.places[entry.place as usize] = 0;
            self.text.truncate(entry.start as usize);
        }
    }

    fn first_place(&self, hash: u64) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn grow(&mut self) {
        let size = self.places.len() * 2;
        self.places.clear();
        self.places.resize(size, 0);
        // In the order they came, so that removal in reverse stays exact.
        for (number, entry) in (1u32..).zip(&mut self.entries) {
            let mut at = entry.hash as usize & (size - 1);
            while self.places[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            self.places[at] = number;
            entry.place = at as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_finds_its_names_and_no_others() {
        let names: Vec<Box<str>> = (0..500).map(|n| format!("some_prefix_{n}_suffix").into()).collect();
        for count in [0, 1, 2, 3, 64, 65, 500] {
            let table = KeyTable::new(names[..count].to_vec());
            for (number, name) in names.iter().enumerate() {
                assert_eq!(table.find(name.as_bytes()), (number < count).then_some(number));
            }
            assert_eq!(table.find(b""), None);
        }
        let alike: Vec<Box<str>> = (0..9_000).map(|n| format!("some_prefix_{n:05}_and_suffix").into()).collect();
        let table = KeyTable::new(alike.clone());
        let probes = |name: &str| {
            let at = place(name.as_bytes(), table.seed, table.places.len(), table.by_all);
            table.places.iter().cycle().skip(at).take_while(|&&number| number != 0).count()
        };
        assert!(alike.iter().all(|name| probes(name) < 64 && table.find(name.as_bytes()).is_some()));
        let short = KeyTable::new(vec!["".into(), "a".into(), "ab".into(), "abcd".into(), "abcdefgh".into()]);
        assert_eq!(
            ["", "a", "ab", "abcd", "abcdefgh", "b"].map(|name| short.find(name.as_bytes())).map(|n| n.unwrap_or(9)),
            [0, 1, 2, 3, 4, 9]
        );
    }

    #[test]
    fn duplicates_are_found_per_object_and_forgotten_with_it() {
        let mut seen = SeenKeys::new();
        for object in 0..3 {
            let outer = seen.len();
            for number in 0..1000 {
                seen.insert(object, format!("k{number}").as_bytes()).unwrap();
            }
            let inner = seen.len();
            seen.insert(object + 100, b"k5").unwrap();
            assert_eq!(seen.insert(object + 100, b"k5"), Err(Reason::DuplicateKey));
            seen.remove_from(inner);
            assert_eq!(seen.insert(object, b"k999"), Err(Reason::DuplicateKey));
            seen.insert(object + 100, b"k5").unwrap();
            seen.remove_from(outer);
        }
        assert!(seen.places.iter().all(|&place| place == 0));
    }
}
