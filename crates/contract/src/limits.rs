//! What one value may grow to before it is rejected. Sizes of messages belong to whoever reads them.

/// Bounds for one JSON value. All are checked as bytes arrive, so that what lies beyond a bound is never stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deep arrays and objects may nest; each level costs a frame.
    pub depth: u32,
    /// How many values one body may hold, containers included; bounds work per body.
    pub values: u32,
    /// How many members one object may have; bounds the set that finds duplicates.
    pub keys_per_object: u32,
    /// The longest member name, in bytes as written.
    pub key_bytes: u32,
    /// The longest string, in bytes as written; a larger `maxLength` raises it.
    pub string_bytes: u32,
    /// The longest number, in characters.
    pub number_chars: u32,
    /// The largest exponent of a number, either sign.
    pub exponent: u32,
    /// Steps that a value may take in the part of a schema that cannot be validated in passing, and in patterns whose automaton is built meanwhile, whatever
    /// its size: room for schemas with hundreds of branches.
    pub steps_free: u64,
    /// Further steps for each byte of the value, so that work is linear in what was sent.
    pub steps_per_byte: u64,
    /// The most steps of one value, however long; one to two seconds of one processor.
    pub steps: u64,
}

impl Limits {
    /// The steps that a value of so many bytes may take.
    pub(crate) fn steps_of(&self, bytes: u64) -> u64 {
        self.steps_free.saturating_add(self.steps_per_byte.saturating_mul(bytes)).min(self.steps)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 64,
            values: 1_000_000,
            keys_per_object: 10_000,
            key_bytes: 1024,
            string_bytes: 1 << 20,
            number_chars: 64,
            exponent: 400,
            steps_free: 50_000,
            steps_per_byte: 128,
            steps: 50_000_000,
        }
    }
}
