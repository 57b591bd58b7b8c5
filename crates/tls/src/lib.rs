//! TLS over memory: bytes in, bytes out, on AWS-LC's libssl.
//!
//! Owns every call into AWS-LC: sessions, identities, tickets, certificate and key material. Opens no socket and reads no file. Everything
//! `unsafe` stands next to the reason why it is sound, and no pointer leaves the crate. Ruled by RFC 8446, RFC 5246, RFC 5077, RFC 7301, RFC 9001.
//!
//! ```
//! use tls::{Policy, ProtocolVersion};
//!
//! assert_eq!(Policy::Intermediate.min_version(), ProtocolVersion::Tls12);
//! assert!(Policy::Intermediate.contents().older_suites.iter().all(|suite| suite.starts_with("ECDHE-")));
//! ```

pub mod quic;
pub mod session;
pub mod info;
pub mod acceptor;
pub mod connector;
pub mod ech;
mod tickets;
mod key_method;
mod link;
mod flight;
pub mod packet;
mod ticket_keys;
mod chooser;
pub mod identity;
pub mod client_auth;
pub mod remote;
mod trust;
mod chain;
pub mod policy;
pub mod crypto;
mod scheme;
mod ffi;
pub mod error;

pub use acceptor::Acceptor;
pub use chooser::{Choice, Chooser};
pub use client_auth::ClientAuth;
pub use connector::{Connector, NameCheck};
pub use crypto::KeyType;
pub use ech::{EchKey, EchKeys};
pub use error::{Alert, Error};
pub use identity::Identity;
pub use info::{Info, PeerCertificate};
pub use link::ServerName;
pub use policy::{Policy, ProtocolVersion};
pub use quic::QuicSession;
pub use remote::{KeyRequest, KeyResponse};
pub use session::{Handshake, Read, Session};
pub use ticket_keys::{SharedMasters, TicketKeys, TicketMaster, TicketSecrets};

// The helpers in `tests/support` serve unit tests, too, and name this crate as a stranger would.
#[cfg(test)]
extern crate self as tls;
