//! The hasher of the route table's maps: a multiply and a rotation for every eight bytes.
//!
//! Hosts and segments are looked up for every request, and the standard hasher costs more than the rest of a lookup. Its defence against
//! chosen keys is not needed here: all keys in these maps come from the configuration, a client only chooses what is looked up, and the
//! length of a bucket's chain does not depend on that.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys come from the configuration.
pub(crate) type ConfiguredMap<K, V> = HashMap<K, V, BuildHasherDefault<ConfiguredHasher>>;

/// An odd constant with well-mixed bits (the golden ratio's fraction).
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredHasher {
    state: u64,
}

impl ConfiguredHasher {
    fn add(&mut self, word: u64) {
        self.state = (self.state.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for ConfiguredHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !tail.is_empty() {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(tail) {
                *to = *from;
            }
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }

    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits and its tag from the high ones; the product mixes upwards only.
        self.state ^ (self.state >> 32)
    }
}
