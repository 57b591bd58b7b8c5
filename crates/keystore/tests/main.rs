//! Tests of keystores from outside of the crate, in one binary.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod material;
mod invariants;

mod corpus;
mod edit;
mod java;
mod keyless;
mod pem_folder;
