//! Fuzzes one part of the program against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/fleet/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::fleet(data));
