//! What became of copies of requests that a group got: counts that all workers share.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorOutcome {
    /// It had a response, whatever that said.
    Sent,
    /// It had none.
    Failed,
    /// It was not sent: its body was too long or broke off, or there were too many copies.
    Dropped,
}

/// Counts of copies.
#[derive(Debug, Default)]
pub struct Mirrored {
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

impl Mirrored {
    /// Counts a copy.
    pub fn note(&self, outcome: MirrorOutcome) {
        let count = match outcome {
            MirrorOutcome::Sent => &self.sent,
            MirrorOutcome::Failed => &self.failed,
            MirrorOutcome::Dropped => &self.dropped,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Each outcome with its count.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [("sent", load(&self.sent)), ("failed", load(&self.failed)), ("dropped", load(&self.dropped))]
    }
}
