//! What all streams of one HTTP/2 connection have handed over to be sent and the socket has not taken.
//!
//! Bounded for the connection as a whole: a client with many streams gets no more memory by not reading. Bytes come in when a stream hands them over and
//! leave when the frames that carry them are written. What the library drops with a stream that was reset is made up for whenever all has been written.

use std::cell::Cell;

use tokio::sync::Semaphore;

/// Bytes of bodies that one connection may have waiting for its socket.
const MOST_QUEUED: usize = 256 * 1024;

/// What waits to be sent on one connection.
#[derive(Debug)]
pub struct Outbox {
    capacity: Semaphore,
    queued: Cell<usize>,
    /// The socket takes nothing now.
    blocked: Cell<bool>,
    /// The socket took nothing for too long.
    timed_out: Cell<bool>,
}

/// The connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            capacity: Semaphore::new(MOST_QUEUED),
            queued: Cell::new(0),
            blocked: Cell::new(false),
            timed_out: Cell::new(false),
        }
    }
}

impl Outbox {
    /// Waits until so many bytes may be handed over, and counts them as handed over. Those who wait are served in turn.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn hand_over(&self, bytes: usize) -> Result<(), Closed> {
        let wanted = u32::try_from(bytes.min(MOST_QUEUED)).unwrap_or(u32::MAX);
        match self.capacity.try_acquire_many(wanted) {
            Ok(capacity) => capacity.forget(),
            Err(_) => self.capacity.acquire_many(wanted).await.map_err(|_| Closed)?.forget(),
        }
        self.queued.set(self.queued.get() + wanted as usize);
        Ok(())
    }

    /// Whether so many bytes may be handed over now.
    pub fn has_capacity(&self, bytes: usize) -> bool {
        self.capacity.available_permits() >= bytes
    }

    /// Whether all that was handed over has been written, or dropped.
    pub fn is_empty(&self) -> bool {
        self.queued.get() == 0
    }

    /// The connection has ended: nobody waits for capacity any more.
    pub fn close(&self) {
        self.capacity.close();
    }

    /// So many bytes of bodies have been written.
    pub fn wrote(&self, bytes: usize) {
        self.release(bytes);
    }

    /// Everything that could be written has been.
    pub fn drained(&self) {
        self.release(usize::MAX);
    }

    fn release(&self, bytes: usize) {
        let released = bytes.min(self.queued.get());
        if released > 0 {
            self.queued.set(self.queued.get() - released);
            self.capacity.add_permits(released);
        }
    }

    /// Notes whether the socket takes something now.
    pub fn set_blocked(&self, blocked: bool) {
        self.blocked.set(blocked);
    }

    /// Whether the socket takes nothing now.
    pub fn is_blocked(&self) -> bool {
        self.blocked.get()
    }

    /// Notes that the socket took nothing for too long: the connection ends.
    pub fn time_out(&self) {
        self.timed_out.set(true);
    }

    /// Whether the connection ended since its socket took nothing.
    pub fn has_timed_out(&self) -> bool {
        self.timed_out.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_or_dropped_makes_room() {
        let outbox = Outbox::default();
        outbox.hand_over(MOST_QUEUED).await.unwrap();
        assert_eq!(outbox.capacity.available_permits(), 0);
        outbox.wrote(1000);
        assert_eq!(outbox.capacity.available_permits(), 1000);
        outbox.drained();
        outbox.drained();
        outbox.wrote(1000);
        assert_eq!(outbox.capacity.available_permits(), MOST_QUEUED);
        outbox.close();
        assert_eq!(outbox.hand_over(1).await, Err(Closed));
    }
}
