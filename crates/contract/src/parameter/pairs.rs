//! Names and values of one part of a message, copied into one buffer that is reused from message to message. Knows no styles.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// A range of the buffer, 32 bit to keep lists small; a message's head never comes near.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    start: u32,
    end: u32,
}

impl Stretch {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    name: Stretch,
    value: Stretch,
    is_used: bool,
}

/// Names with their values, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    list: Vec<Pair>,
}

impl Pairs {
    /// Forgets all pairs and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    /// How much memory they take.
    pub(crate) fn bytes_held(&self) -> usize {
        self.bytes.capacity() + self.list.capacity() * size_of::<Pair>()
    }

    /// Appends a pair.
    pub(crate) fn add(&mut self, name: &[u8], value: &[u8]) {
        let name = self.push(name);
        let value = self.push(value);
        self.list.push(Pair { name, value, is_used: false });
    }

    /// Appends a pair whose name is in lower case from then on.
    pub(crate) fn add_lower(&mut self, name: &[u8], value: &[u8]) {
        self.add(name, value);
        if let Some(name) = self.list.last().map(|pair| pair.name.range()).and_then(|range| self.bytes.get_mut(range)) {
            name.make_ascii_lowercase();
        }
    }

    /// Appends a pair whose name is decoded on the way by `decode`, which says whether that went well.
    pub(crate) fn add_decoded(&mut self, value: &[u8], decode: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let start = self.bytes.len();
        let is_good = decode(&mut self.bytes);
        let name = Stretch { start: start as u32, end: self.bytes.len() as u32 };
        let value = self.push(value);
        self.list.push(Pair { name, value, is_used: false });
        is_good
    }

    fn push(&mut self, bytes: &[u8]) -> Stretch {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Stretch { start: start as u32, end: self.bytes.len() as u32 }
    }

    /// How many pairs there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The pair at a place.
    pub(crate) fn get(&self, at: usize) -> (&[u8], &[u8]) {
        let slice = |stretch: Stretch| self.bytes.get(stretch.range()).unwrap_or_default();
        self.list.get(at).map_or_else(Default::default, |pair| (slice(pair.name), slice(pair.value)))
    }

    /// All pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.list.len()).map(|at| self.get(at))
    }

    /// The values of a name.
    pub(crate) fn values<'p>(&'p self, name: &'p [u8]) -> impl Iterator<Item = &'p [u8]> + 'p {
        self.iter().filter(move |(have, _)| *have == name).map(|(_, value)| value)
    }

    /// How often a name is there.
    pub(crate) fn count(&self, name: &[u8]) -> usize {
        self.values(name).count()
    }

    /// The places of all pairs with the number of the group that `key` puts each in: group by group, in the order in which they begin.
    pub(crate) fn groups<K: Eq + Hash>(&self, mut key: impl FnMut(usize) -> K) -> Vec<(usize, usize)> {
        let mut numbers = HashMap::new();
        let group = |at| {
            let next = numbers.len();
            (*numbers.entry(key(at)).or_insert(next), at)
        };
        let mut places: Vec<(usize, usize)> = (0..self.list.len()).map(group).collect();
        places.sort_unstable();
        places
    }

    /// Takes over the pairs at some places of others, in place of its own.
    pub(crate) fn select(&mut self, from: &Pairs, group: &[(usize, usize)]) {
        self.clear();
        for (_, at) in group {
            let (name, value) = from.get(*at);
            self.add(name, value);
        }
    }

    /// Notes that the pair at this place is declared.
    pub(crate) fn mark(&mut self, at: usize) {
        self.list.get_mut(at).into_iter().for_each(|pair| pair.is_used = true);
    }

    /// Whether somebody has marked the pair at this place.
    pub(crate) fn is_used(&self, at: usize) -> bool {
        self.list.get(at).is_none_or(|pair| pair.is_used)
    }
}
