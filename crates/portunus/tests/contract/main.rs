//! API contracts in the running program, judged on both sides: what the client got, and what a recording upstream saw.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;

mod bodies;
mod front_door;
mod lists;
mod reload;
mod requests;
mod responses;
mod samples;
mod shadows;
mod site;
mod tokens;
