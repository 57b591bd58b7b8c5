//! Fuzzes the reader of proofs that nodes of a fleet share against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/portunus/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::proof::check(data));
