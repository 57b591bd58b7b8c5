//! The lease of a node: what it wrote under it is gone soon after the node is.

use std::time::{Duration, Instant};

use crate::store::{Failure, Store};

/// How long what a node wrote stays when it is gone.
const SECONDS: u64 = 10;

/// A lease that is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// When it was asked for or kept last: it is there for its time from then on at least.
    pub(crate) kept: Instant,
}

impl Lease {
    /// Takes a new one.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) fn grant(store: &mut Store) -> Result<Lease, Failure> {
        let kept = Instant::now();
        Ok(Lease { id: store.grant(SECONDS)?, kept })
    }

    /// Keeps it, if that was not done within this time; none if it is there no more.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) fn keep(self, every: Duration, store: &mut Store) -> Result<Option<Lease>, Failure> {
        if self.kept.elapsed() < every {
            return Ok(Some(self));
        }
        let kept = Instant::now();
        Ok(store.keep_alive(self.id)?.then_some(Lease { kept, ..self }))
    }
}
