//! Memory that bodies take while a contract validates them, counted for the process and for each connection, so that many slow or large bodies
//! cannot fill the machine. Beyond a limit the body is rejected before it grows.
//!
//! Counted in steps, so that the one counter that all workers share is touched once per step, and not at all by a body that arrives whole.

use std::cell::Cell;

use reason::Reason;
use telemetry::{MemoryBound, ValidationMemory};

use crate::message::context::Context;
use crate::message::rejection::Rejection;

/// What is counted at once; a body of less that arrives whole is not counted.
const STEP_BYTES: usize = 32 * 1024;

/// There is no more memory for this body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

impl NoMemory {
    /// What the client gets.
    pub fn rejection() -> Rejection {
        Rejection::of(Reason::ValidationMemory)
    }
}

/// One body's share; given back when dropped.
#[derive(Debug)]
pub struct Lease<'c> {
    process: &'c ValidationMemory,
    connection: &'c Cell<usize>,
    process_limit: usize,
    connection_limit: usize,
    held: usize,
}

impl<'c> Lease<'c> {
    /// That of a body which takes nothing yet.
    pub fn new(context: Context<'c>) -> Lease<'c> {
        let limits = &context.generation.config.limits;
        Lease {
            process: &context.worker.shared.validation_memory,
            connection: &context.conn.validation_memory,
            process_limit: limits.max_validation_memory_bytes,
            connection_limit: limits.max_validation_memory_per_connection_bytes,
            held: 0,
        }
    }

    /// Whether something of it is counted.
    pub fn is_counted(&self) -> bool {
        self.held > 0
    }

    /// Counts that the body takes so many bytes now.
    ///
    /// # Errors
    /// That would be more than the process or the connection may take; what was counted before stays.
    pub fn hold(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let wanted = bytes.div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES);
        if wanted <= self.held {
            self.release(self.held - wanted);
            return Ok(());
        }
        let more = wanted - self.held;
        let connection = self.connection.get().saturating_add(more);
        if connection > self.connection_limit {
            self.process.rejected(MemoryBound::Connection);
            return Err(NoMemory);
        }
        if !self.process.take(more, self.process_limit) {
            self.process.rejected(MemoryBound::Process);
            return Err(NoMemory);
        }
        self.connection.set(connection);
        self.held = wanted;
        Ok(())
    }

    fn release(&mut self, bytes: usize) {
        if bytes > 0 {
            self.process.give_back(bytes);
            self.connection.set(self.connection.get().saturating_sub(bytes));
            self.held -= bytes;
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.release(self.held);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_is_counted_is_given_back_and_bounded_twice() {
        let process = ValidationMemory::default();
        let connections = [Cell::new(0), Cell::new(0)];
        let lease = |number: usize| Lease {
            process: &process,
            connection: &connections[number],
            process_limit: 10 * STEP_BYTES,
            connection_limit: 6 * STEP_BYTES,
            held: 0,
        };
        let (mut first, mut second, mut third) = (lease(0), lease(0), lease(1));
        assert_eq!(first.hold(1), Ok(()));
        assert_eq!(process.used(), STEP_BYTES);
        assert_eq!(first.hold(4 * STEP_BYTES), Ok(()));
        assert_eq!(second.hold(2 * STEP_BYTES + 1), Err(NoMemory), "more than the connection's share");
        assert_eq!(second.hold(2 * STEP_BYTES), Ok(()));
        assert_eq!(third.hold(5 * STEP_BYTES), Err(NoMemory), "more than the process may take");
        assert_eq!(third.hold(4 * STEP_BYTES), Ok(()));
        assert_eq!(first.hold(STEP_BYTES), Ok(()), "less is given back");
        assert_eq!(third.hold(6 * STEP_BYTES), Ok(()));
        drop((first, second, third));
        assert_eq!((process.used(), connections[0].get(), connections[1].get()), (0, 0, 0));
    }
}
