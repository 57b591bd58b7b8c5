//! Tests of the fleet against a real etcd, and of its parsers, in one binary.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../tests/etcd.rs"]
mod etcd;
mod invariants;
#[path = "../../../tests/replay.rs"]
mod replay;

mod client;
mod fleet_corpus;
mod scale;
