//! What an evaluation has found out: outcomes of schemas for values, so that schemas which lead to each other do not validate the same value again and again,
//! and so that an evaluation that paused goes on where it was. Bounded: what is forgotten is only found out again, under the same budget.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::evaluate::Stop;
use super::ir::{Id, Resource};
use super::tape::{HashWalk, Tape};

/// Outcomes that are kept at once.
const MAX_KNOWN: usize = 1 << 16;

/// Outcomes for which the table may always have room.
const FEW_KNOWN: usize = 256;

/// What the log of successful evaluations may hold for each cell of the value, and besides.
const ENTRIES_PER_CELL: usize = 16;
const FREE_ENTRIES: usize = 1 << 16;

/// A schema, a value, and the dynamic scope where that matters.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Key {
    pub id: Id,
    pub at: u32,
    pub scope: u32,
}

/// Hashes keys, which are numbers, with a secret, so that nobody can choose values whose keys meet.
#[derive(Clone, Debug)]
struct Secret(u64);

impl Default for Secret {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0u8))
    }
}

impl BuildHasher for Secret {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        let product = u128::from(self.0 ^ u64::from(number)) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// Places where an evaluation may pause.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Loop {
    Items,
    Contains,
    Unique,
    Members,
    Unevaluated,
}

/// Where a loop stands.
#[derive(Debug, Default)]
pub(super) struct Stand {
    /// The next cell; 0 at the beginning.
    pub cell: usize,
    pub index: usize,
    pub twins: Option<Box<Twins>>,
}

/// Where a loop stood when the evaluation paused, and what it had logged.
#[derive(Debug)]
struct Left {
    stand: Stand,
    log: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Known {
    /// With the part of the log that came of it.
    Holds(u32),
    Fails(Stop),
}

const NO_PART: u32 = u32::MAX;

/// A part of the log that was put aside, about one value.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: u32,
    start: u32,
    end: u32,
}

/// An entry of the log: what was done to a cell, or a part that was put aside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(super) enum Mark {
    /// Some schema has looked at the cell.
    Seen = 0,
    /// Some schema knows members of the object, or says something about the others.
    Closed = 1,
    Opened = 2,
    Part = 3,
}

/// What was found out so far. Cells have been looked at in the order of the log; a branch that fails takes its entries back.
#[derive(Debug, Default)]
pub(super) struct Memo {
    known: HashMap<Key, Known, Secret>,
    stands: HashMap<(Key, Loop), Left>,
    log: Vec<u32>,
    aside: Vec<u32>,
    parts: Vec<Part>,
    /// For each part, the last walk that came by; and the walks so far.
    walked: Vec<u32>,
    walks: u32,
    scopes: HashMap<(u32, Resource), u32>,
    is_full: bool,
}

impl Memo {
    /// Forgets everything.
    pub fn clear(&mut self) {
        // Clearing takes time by the size of the table, which a single large value may have made.
        if self.known.capacity() > FEW_KNOWN.max(8 * self.known.len()) {
            self.known = HashMap::default();
        }
        self.known.clear();
        self.stands.clear();
        self.log.clear();
        self.aside.clear();
        self.parts.clear();
        self.walked.clear();
        self.walks = 0;
        self.scopes.clear();
        self.is_full = false;
    }

    /// Begins again, knowing what is known.
    pub fn restart(&mut self) {
        self.log.clear();
    }

    pub fn shrink(&mut self, keep_bytes: usize) {
        self.clear();
        for list in [&mut self.log, &mut self.aside, &mut self.walked] {
            list.shrink_to(keep_bytes / 4);
        }
        self.parts.shrink_to(keep_bytes / size_of::<Part>());
        self.known.shrink_to(keep_bytes / 64);
        self.stands.shrink_to(0);
    }

    pub fn bytes_held(&self) -> usize {
        let twins = |stand: &Stand| stand.twins.as_ref().map_or(0, |twins| twins.bytes_held());
        let stands: usize = self.stands.values().map(|left| left.log.capacity() * 4 + twins(&left.stand)).sum();
        let lists = self.log.capacity() + self.aside.capacity() + self.walked.capacity() + 3 * self.parts.capacity();
        self.known.capacity() * size_of::<(Key, Known)>() + stands + 4 * lists
    }

    // --- the log ---

    pub fn log_len(&self) -> usize {
        self.log.len()
    }

    pub fn note(&mut self, mark: Mark, number: usize) {
        self.log.push((number as u32) << 2 | mark as u32);
    }

    pub fn take_back(&mut self, len: usize) {
        self.log.truncate(len);
    }

    /// Whether the log has become too long for a value of so many cells.
    pub fn is_too_long(&self, cells: usize) -> bool {
        self.log.len() + self.aside.len() > cells.saturating_mul(ENTRIES_PER_CELL).saturating_add(FREE_ENTRIES)
    }

    /// Visits the log from `began` on, each part once; parts about other values than `only` are left out. Says how many entries that were.
    pub fn walk(&mut self, began: usize, only: Option<usize>, visit: &mut dyn FnMut(Mark, usize)) -> usize {
        self.walks += 1;
        self.walked.resize(self.parts.len(), 0);
        let mut count = self.log.len() - began;
        let mut open: Vec<Part> = Vec::new();
        let Self { log, aside, parts, walked, walks, .. } = self;
        let mut read = |entries: &[u32], open: &mut Vec<Part>| {
            for &entry in entries {
                let number = (entry >> 2) as usize;
                let mark = match entry & 3 {
                    0 => Mark::Seen,
                    1 => Mark::Closed,
                    2 => Mark::Opened,
                    _ => {
                        let part = parts[number];
                        let is_wanted = only.is_none_or(|only| part.at as usize == only);
                        if is_wanted && std::mem::replace(&mut walked[number], *walks) != *walks {
                            open.push(part);
                        }
                        continue;
                    }
                };
                visit(mark, number);
            }
        };
        read(&log[began..], &mut open);
        while let Some(part) = open.pop() {
            count += (part.end - part.start) as usize;
            read(&aside[part.start as usize..part.end as usize], &mut open);
        }
        count
    }

    // --- outcomes ---

    /// What is known of a schema for a value. If it holds, what came of it is in the log again.
    pub fn recall(&mut self, key: &Key) -> Option<Result<(), Stop>> {
        if self.known.is_empty() {
            return None;
        }
        match self.known.get(key)? {
            Known::Fails(stop) => Some(Err(stop.clone())),
            Known::Holds(NO_PART) => Some(Ok(())),
            Known::Holds(part) => {
                let part = *part as usize;
                self.note(Mark::Part, part);
                Some(Ok(()))
            }
        }
    }

    /// Keeps an outcome; what the log holds from `began` on came of it.
    pub fn remember(&mut self, key: Key, began: usize, outcome: &Result<(), Stop>) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let known = match outcome {
            Err(stop) => Known::Fails(stop.clone()),
            Ok(()) if self.log.len() == began => Known::Holds(NO_PART),
            Ok(()) => {
                let start = self.aside.len() as u32;
                self.aside.extend_from_slice(&self.log[began..]);
                self.log.truncate(began);
                self.parts.push(Part { at: key.at, start, end: self.aside.len() as u32 });
                self.note(Mark::Part, self.parts.len() - 1);
                Known::Holds(self.parts.len() as u32 - 1)
            }
        };
        self.known.insert(key, known);
    }

    /// The number of a dynamic scope: one that was known, and a resource in it.
    pub fn scope(&mut self, outer: u32, resource: Resource) -> u32 {
        let next = self.scopes.len() as u32 + 1;
        *self.scopes.entry((outer, resource)).or_insert(next)
    }

    // --- loops ---

    /// Where a loop stood when the evaluation paused, or its beginning.
    pub fn enter(&mut self, key: Key, kind: Loop) -> Stand {
        if self.stands.is_empty() {
            return Stand::default();
        }
        let Some(mut left) = self.stands.remove(&(key, kind)) else { return Stand::default() };
        self.log.append(&mut left.log);
        left.stand
    }

    /// Keeps where a loop stands; what the log holds from `began` on is its own.
    pub fn leave(&mut self, key: Key, kind: Loop, began: usize, stand: Stand) {
        let log = self.log.split_off(began);
        self.stands.insert((key, kind), Left { stand, log });
    }
}

/// Elements that were seen, by hash, so that equal ones meet.
#[derive(Debug, Default)]
pub(super) struct Twins {
    /// Number of an element plus one; a power of two, at most half full.
    places: Vec<u32>,
    /// The other half of each element's hash, and its cell.
    hashes: Vec<u32>,
    cells: Vec<u32>,
    /// The element that is added now.
    adding: Adding,
}

impl Twins {
    fn bytes_held(&self) -> usize {
        4 * (self.places.capacity() + self.hashes.capacity() + self.cells.capacity())
    }

    /// Makes room for so many elements.
    pub fn expect(&mut self, count: usize) {
        if self.places.is_empty() {
            self.places.resize((count * 2).next_power_of_two(), 0);
            self.hashes.reserve_exact(count);
            self.cells.reserve_exact(count);
        }
    }

    /// Adds an element, some cells at a time: says whether an equal one was there once that is known. `work` counts what it takes.
    ///
    /// Two elements are equal if two hashes with secrets of their own are, the second of which is only taken then.
    pub fn add_some(&mut self, tape: &Tape, cell: usize, secrets: &[RandomState; 2], work: &mut usize) -> Option<bool> {
        loop {
            match &mut self.adding {
                Adding::Hash(walk) => {
                    let hash = walk.go_on(tape, cell, &secrets[0], work)?;
                    if self.look(cell, hash, hash as usize) {
                        return Some(false);
                    }
                }
                Adding::Known { place, walk, hash } => {
                    let known = self.places[*place].saturating_sub(1) as usize;
                    let second = walk.go_on(tape, self.cells[known] as usize, &secrets[1], work)?;
                    self.adding = Adding::Both { place: *place, walk: HashWalk::default(), hash: *hash, second };
                }
                Adding::Both { place, walk, hash, second } => {
                    let is_twin = walk.go_on(tape, cell, &secrets[1], work)? == *second;
                    let (hash, next) = (*hash, *place + 1);
                    if is_twin {
                        self.adding = Adding::default();
                        return Some(true);
                    }
                    if self.look(cell, hash, next) {
                        return Some(false);
                    }
                }
            }
        }
    }

    /// Looks from a place on for an element with this hash, which is compared next. If there is none, it is added.
    fn look(&mut self, cell: usize, hash: u64, from: usize) -> bool {
        let size = self.places.len();
        let (mut place, rest) = (from & (size - 1), (hash >> 32) as u32);
        while let Some(number) = self.places[place].checked_sub(1) {
            if self.hashes[number as usize] == rest {
                self.adding = Adding::Known { place, walk: HashWalk::default(), hash };
                return false;
            }
            place = (place + 1) & (size - 1);
        }
        self.hashes.push(rest);
        self.cells.push(cell as u32);
        self.places[place] = self.cells.len() as u32;
        self.adding = Adding::default();
        true
    }
}

/// How far an element has come.
#[derive(Debug)]
enum Adding {
    Hash(HashWalk),
    /// Its hash is that of the element at a place, whose second hash is taken.
    Known {
        place: usize,
        walk: HashWalk,
        hash: u64,
    },
    /// Its own second hash is taken.
    Both {
        place: usize,
        walk: HashWalk,
        hash: u64,
        second: u64,
    },
}

impl Default for Adding {
    fn default() -> Self {
        Self::Hash(HashWalk::default())
    }
}
