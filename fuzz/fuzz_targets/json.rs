//! Fuzzes a part of `contract` against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/contract/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::json(data));
