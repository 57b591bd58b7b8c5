//! Tests of the codecs from outside of the crate, in one binary.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod invariants;
#[path = "../../../tests/replay.rs"]
mod replay;

mod corpus;
mod model;
