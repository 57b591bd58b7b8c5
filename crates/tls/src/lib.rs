//! TLS over memory: bytes in, bytes out, on AWS-LC's libssl.
//!
//! Owns every call into AWS-LC: sessions, identities, tickets, certificate and key material. Opens no socket and reads no file. Everything
//! `unsafe` stands next to the reason why it is sound, and no pointer leaves the crate. Ruled by RFC 8446, RFC 5246, RFC 5077, RFC 7301.

pub mod session;
pub mod info;
pub mod error;
pub mod client_auth;
pub mod acceptor;
pub mod tickets;
mod link;
pub mod identity;
pub mod connector;
pub mod remote;
pub mod policy;
mod trust;
mod chain;
pub mod crypto;
mod scheme;
mod ffi;

pub use acceptor::{Acceptor, Choice, Chooser};
pub use client_auth::ClientAuth;
pub use connector::{Connector, ServerName};
pub use error::{Alert, Error};
pub use identity::{Identity, KeyType};
pub use info::{Info, PeerCertificate};
pub use policy::{Policy, ProtocolVersion};
pub use remote::{KeyRequest, KeyResponse};
pub use session::{Handshake, Read, Session};
pub use tickets::TicketKeys;

// The helpers in `tests/support` serve unit tests, too, and name this crate as a stranger would.
#[cfg(test)]
extern crate self as tls;
