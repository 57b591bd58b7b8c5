//! Receive buffers from a pool per thread. A chunk goes back to its pool when it is dropped.

use std::cell::RefCell;
use std::ops::Deref;

use crate::pool::{self, Pool};

/// Bytes a chunk can hold. Two full TLS records fit, and one `recv` rarely leaves anything behind.
pub const CHUNK_BYTES: usize = 32 * 1024;

/// Chunks kept per thread for reuse, 8 MiB at most; beyond that, and when nobody needs them, memory goes back to the allocator.
const POOLED_CHUNKS: usize = 256;

thread_local! {
    static POOL: RefCell<Pool<Box<[u8]>>> = const { RefCell::new(Pool::new(POOLED_CHUNKS)) };
}

/// Frees chunks of this thread that nobody needed lately; to be called about once a second.
pub fn trim() {
    pool::trim(&POOL);
}

/// Bytes that were received and not yet used. Dereferences to what is left of them.
pub struct Chunk {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Chunk {
    /// An empty chunk without memory.
    pub fn empty() -> Chunk {
        Chunk { buffer: Box::default(), start: 0, end: 0 }
    }

    /// An empty chunk with [`CHUNK_BYTES`] of room, from this thread's pool.
    pub fn take() -> Chunk {
        let buffer = pool::take(&POOL).unwrap_or_else(|| vec![0; CHUNK_BYTES].into_boxed_slice());
        Chunk { buffer, start: 0, end: 0 }
    }

    /// Drops the first `count` bytes (all, if there are fewer).
    pub fn advance(&mut self, count: usize) {
        self.start = self.end.min(self.start.saturating_add(count));
    }

    /// The spare capacity behind the bytes; report what was written there with [`Chunk::filled`].
    pub fn spare_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Counts `count` bytes of the spare capacity as received.
    pub fn filled(&mut self, count: usize) {
        self.end = self.buffer.len().min(self.end.saturating_add(count));
    }

    /// Moves the bytes to the front, so that all spare capacity is behind them. Takes memory if there was none.
    pub fn compact(&mut self) {
        if self.buffer.is_empty() {
            *self = Chunk::take();
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Whether the bytes fill the whole buffer, so that no more can come.
    pub fn is_full(&self) -> bool {
        !self.buffer.is_empty() && self.end - self.start == self.buffer.len()
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({} bytes)", self.len())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        pool::give(&POOL, std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_and_go_in_order() {
        let mut chunk = Chunk::take();
        chunk.spare_mut()[..5].copy_from_slice(b"abcde");
        chunk.filled(5);
        chunk.advance(2);
        assert_eq!(&*chunk, b"cde");
        chunk.compact();
        assert_eq!(&*chunk, b"cde");
        assert_eq!(chunk.spare_mut().len(), CHUNK_BYTES - 3);
        chunk.advance(10);
        assert!(chunk.is_empty());
    }

    #[test]
    fn an_empty_chunk_holds_no_memory_until_it_needs_room() {
        let mut chunk = Chunk::empty();
        assert!(chunk.spare_mut().is_empty() && !chunk.is_full());
        chunk.compact();
        assert_eq!(chunk.spare_mut().len(), CHUNK_BYTES);
    }

    #[test]
    fn dropped_chunks_are_reused() {
        let first = Chunk::take();
        let address = first.buffer.as_ptr();
        drop(first);
        assert_eq!(Chunk::take().buffer.as_ptr(), address);
    }
}
