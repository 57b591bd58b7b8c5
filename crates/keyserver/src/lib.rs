//! The key server: holds private keys, signs for edges that prove who they are, and stays useful when asked too much.
//!
//! ```text
//!   worker thread                                              crypto thread
//!   accept → mutual TLS → frames ─check→ ┬ answered at once
//!                                        ├ ECDSA, Ed25519: signed here, a little per turn
//!                                        └ RSA, and what is left ─→ queues by class ─→ signed
//!   one TLS write per turn ←──────────── outbox of the connection ←──────────────────────┘
//! ```
//!
//! A role of the same program that shares codecs, keys and reporting with the gate, and nothing of its data path. Reading order: `server.rs` (start,
//! reload, drain), `conn.rs` (the life of one connection), `policy.rs` (what a request may), `backlog.rs`, `queue.rs` and `crypto_thread.rs` (who signs
//! when), `maker.rs` (keys that clients have made), `enrolment.rs` (client certificates for nodes: `issuer.rs` decides, `register.rs` is what is on disk), `overload.rs` (what is dropped of peers that do not understand BUSY), `link.rs` (answers on their way back), `holdings.rs`, `keys.rs` and `access.rs` (what a reload replaces).
//!
//! Absent on purpose: any way for a key to leave, a decryption that tells good padding from bad, a payload in a log.
#![forbid(unsafe_code)]

pub mod server;
mod conn;
mod enrolment;
mod maker;
mod crypto_thread;
mod shared;
mod policy;
mod queue;
mod link;
pub mod holdings;
pub mod issuer;
pub mod access;
pub mod register;
mod rate;
pub mod keys;
mod backlog;
mod overload;
pub mod confine;
