//! Session-ticket keys: one rotating master, from which every context derives its own (RFC 5077, RFC 8446 §4.6.1).

/// The rotating master secret, shared by all workers and kept across reloads. Random at start. The current generation seals and opens, the
/// previous one only opens.
#[derive(Debug)]
pub struct TicketKeys {}

impl TicketKeys {
    /// A fresh random master that rotates every `period` (at most 24 h).
    pub fn new(period: std::time::Duration) -> TicketKeys {
        let _ = period;
        todo!()
    }

    /// Rotates now; the previous generation stays for opening only.
    pub fn rotate(&self) {
        todo!()
    }
}
