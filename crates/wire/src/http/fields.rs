//! Header fields: an ordered multimap over one byte buffer, reused from message to message.

/// Ordered header or trailer fields. Names keep the case they came in and compare without it.
///
/// All names and values live in one buffer, so a message costs no allocation once the buffer is warm.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    index: Vec<Field>,
}

/// Where one field lies in the buffer.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: u32,
    name_len: u16,
    value: u32,
    value_len: u32,
}

impl Fields {
    /// No fields, no memory.
    pub const fn new() -> Fields {
        Fields { bytes: Vec::new(), index: Vec::new() }
    }

    /// Forgets all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.index.clear();
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Appends a field. The caller has checked name and value; a name over 65,535 bytes is a bug of the caller's.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let _ = (name, value);
        todo!()
    }

    /// The first value of `name` (given in lower case).
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// All values of `name` (given in lower case), in order.
    pub fn get_all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let _ = name;
        std::iter::empty()
    }

    /// Whether `name` (given in lower case) occurs.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Removes every field called `name` (given in lower case); says how many went.
    pub fn remove(&mut self, name: &str) -> usize {
        let _ = name;
        todo!()
    }

    /// Keeps the fields for which `keep(name, value)` holds, in order.
    pub fn retain(&mut self, keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let _ = keep;
        todo!()
    }

    /// Replaces every field called `name` (in any case) by one with this value, at the end.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        let _ = (name, value);
        todo!()
    }

    /// Name and value of each field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        std::iter::empty()
    }
}
