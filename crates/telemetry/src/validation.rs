//! The memory that bodies under validation take, as the metrics show it: in use, allowed, and how often it was not enough.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Which bound a body met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBound {
    /// `limits.max_validation_memory`
    Process,
    /// `limits.max_validation_memory_per_connection`
    Connection,
}

/// What all workers count together.
#[derive(Debug, Default)]
pub struct ValidationMemory {
    used: AtomicUsize,
    limit: AtomicUsize,
    rejected_by_process: AtomicU64,
    rejected_by_connection: AtomicU64,
}

impl ValidationMemory {
    /// A configuration allows so many bytes.
    pub fn allow(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Takes so many bytes unless more than `limit` would be in use then; says whether it did.
    pub fn take(&self, bytes: usize, limit: usize) -> bool {
        let is_there = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= limit;
        if !is_there {
            self.give_back(bytes);
        }
        is_there
    }

    /// Gives bytes back.
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// There was no memory for a body.
    pub fn rejected(&self, bound: MemoryBound) {
        let counter = match bound {
            MemoryBound::Process => &self.rejected_by_process,
            MemoryBound::Connection => &self.rejected_by_connection,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// By bound.
    pub(super) fn rejections(&self) -> [([&'static str; 1], u64); 2] {
        [
            (["process"], self.rejected_by_process.load(Ordering::Relaxed)),
            (["connection"], self.rejected_by_connection.load(Ordering::Relaxed)),
        ]
    }
}
