//! Tests of contracts from outside of the crate, in one binary.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod invariants;
#[path = "invariants/messages.rs"]
mod messages;
mod support;
#[path = "../../../tests/replay.rs"]
mod replay;

mod api;
mod contradictions;
mod corpus;
mod cost;
mod dialects;
mod differential;
mod json;
mod learn;
mod lint;
mod members;
mod message_corpus;
mod suite;
