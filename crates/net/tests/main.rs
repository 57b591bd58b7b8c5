//! Tests of sockets and of confinement, in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod confine;
mod datagrams;
mod descendants;
mod probes;
