//! Certificates that renew themselves: ordered from authorities by ACME (RFC 8555), and kept in the folder of their keystore.
//!
//! ```text
//!   configuration ─→ wanted ─┐                                        ┌→ FOLDER/certificates ─→ watched, loaded, served
//!   what is stored ─→ schedule ─┴→ service ─→ order ─→ authority ─→ CA ─┘
//!                                             └→ proof ─→ proxy::challenges ←─ handshakes and requests of the CA
//! ```
//!
//! In a fleet one node orders, and all have its folder and show its proofs (`peers`, `mirror`).
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
pub mod mirror;
mod storage;
mod dns;
mod elsewhere;
mod client;
mod foreign;
pub mod peers;
mod key;
mod wanted;
mod schedule;
mod on_demand;

pub use service::{make_folders, run};
