//! Fuzzes the check of GraphQL requests against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/graphql/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::request(data));
