//! The attack matrix (docs/attack-matrix.md), black box: raw bytes at the real program, a recording upstream behind it, both sides checked.
//!
//! One binary with a module per theme, because each binary links the whole program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;
// Parts of the harness that only some tests need stand beside it, not in it.
#[path = "../harness/frames.rs"]
mod frames;
#[path = "../harness/secure.rs"]
mod secure;
#[path = "../harness/trial.rs"]
mod trial;

mod framing;
mod heads;
mod http2;
mod http2_dropped;
mod http2_floods;
mod identity;
mod log_injection;
mod memory;
mod paths;
mod responses;
mod slow;
mod upgrades;
