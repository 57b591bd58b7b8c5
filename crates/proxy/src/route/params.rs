//! Parameters of a match: ranges of the canonical path, kept without allocation. What they may contain is decided by `tree.rs`, how they
//! are written elsewhere by `template.rs`.

/// Most parameters one pattern may have. A pattern with more is rejected when the table is compiled.
pub const MAX_PARAMS: usize = 16;

/// The parameters of a match in path order, as ranges of the canonical path.
///
/// The value of a catch-all begins after the slash before it, so `/files/{*rest}` on `/files/a/b` gives `a/b`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Params {
    ranges: [(u32, u32); MAX_PARAMS],
    len: u8,
}

impl Params {
    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of parameter `index`, a piece of the path that was matched; none if the pattern has no such parameter.
    pub fn value<'p>(&self, path: &'p [u8], index: usize) -> Option<&'p [u8]> {
        if index >= self.len() {
            return None;
        }
        let (start, end) = *self.ranges.get(index)?;
        path.get(start as usize..end as usize)
    }

    /// Appends a range. One too many is dropped: the compiler of the table has rejected such patterns.
    pub(super) fn push(&mut self, start: usize, end: usize) {
        if let Some(range) = self.ranges.get_mut(usize::from(self.len)) {
            *range = (offset(start), offset(end));
            self.len += 1;
        }
    }

    /// Takes the last range away (the search goes back).
    pub(super) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        // Cleared so that two equal matches compare equal however the search came to them.
        if let Some(range) = self.ranges.get_mut(usize::from(self.len)) {
            *range = (0, 0);
        }
    }
}

/// A position in the path. Request lines are bounded far below 4 GiB (`limits.rs`).
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
