//! Fuzzes one reader of `keystore` against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/keystore/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::ech(data));
