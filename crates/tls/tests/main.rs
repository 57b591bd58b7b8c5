//! Tests of TLS from outside of the crate, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

mod client_auth;
mod crypto;
mod fingerprints;
mod handshakes;
mod interop;
mod quic;
mod rejections;
mod remote_keys;
mod tickets;
mod verify;
mod wycheproof;
