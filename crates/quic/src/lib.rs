//! QUIC for one worker (RFC 9000, 9001, 9002): a [`Hub`] reads a UDP socket and yields [`Connection`]s whose handshake is done.
//!
//! Owns connections, streams, timers and connection ids; the protocol itself is quinn-proto's, TLS and packet protection are those of `tls`. Knows no
//! HTTP/3 and logs nothing. Single-threaded: nothing here is `Send`, and whoever drives the hub and whoever uses its connections share one thread.
//!
//! ```text
//! UdpListener → Hub::next(admit) ─→ Event::Accepted(Connection, K) ─→ BiStream { RecvStream, SendStream } …
//!                 drives them all └→ Event::Failed(Failure, K)
//! ```
#![forbid(unsafe_code)]

pub mod client;
pub mod hub;
mod timers;
mod outbox;
pub mod connection;
pub mod stream;
mod shared;
pub mod settings;
mod session;
mod keys;
pub mod padding;
mod ids;
mod links;
pub mod lanes;
pub mod lost;

pub use connection::{Connection, Stats};
pub use hub::{Attempt, Decision, Event, Failure, FailureCause, Hub};
pub use lanes::Lanes;
pub use lost::Lost;
pub use settings::{Secrets, Settings};
pub use stream::{BiStream, ReadError, RecvStream, SendStream, WriteError};

#[cfg(test)]
mod tests;
