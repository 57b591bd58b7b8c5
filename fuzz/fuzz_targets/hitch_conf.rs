//! Fuzzes the import of hitch's configurations against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/portunus/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::imports::hitch(data));
