//! Certificates that renew themselves: ordered from authorities by ACME (RFC 8555), and kept in the folder of their keystore.
//!
//! ```text
//!   configuration ─→ wanted ─┐                                        ┌→ FOLDER/certificates ─→ watched, loaded, served
//!   what is stored ─→ schedule ─┴→ service ─→ order ─→ authority ─→ CA ─┘
//!                                             └→ proof ─→ proxy::challenges ←─ handshakes and requests of the CA
//! ```
//!
//! One task of the main thread, off the data path. Serves nothing, and knows nothing of listeners: what it has to say to the outside it gives to
//! `proxy::challenges`, and what it has ordered it writes to a file.
#![forbid(unsafe_code)]

pub mod service;
mod order;
mod proof;
pub mod preflight;
mod authority;
mod internal;
mod storage;
mod dns;
mod client;
mod key;
mod wanted;
mod schedule;

pub use service::{make_folders, run};
