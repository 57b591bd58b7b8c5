//! What the library gives out under QUIC: handshake bytes per level, and secrets, kept until the connection takes them.
//!
//! Decides nothing; what fills it stands in `quic`. Ruled by RFC 9001 §4.1.

use std::cell::RefCell;

use crate::packet::Secret;

/// Levels of encryption, in the library's order: Initial, 0-RTT, Handshake, 1-RTT.
pub(crate) const LEVELS: usize = 4;

/// What one session has given out.
#[derive(Default)]
pub(crate) struct Flight {
    /// Bytes to be sent, per level.
    pub(crate) outgoing: [RefCell<Vec<u8>>; LEVELS],
    /// Secrets to open packets with, per level.
    pub(crate) read: [RefCell<Option<Secret>>; LEVELS],
    /// Secrets to seal packets with, per level.
    pub(crate) write: [RefCell<Option<Secret>>; LEVELS],
}
