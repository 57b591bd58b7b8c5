//! Fuzzes how padding is taken out of Initial packets against its invariant, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/quic/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::quic_padding(data));
