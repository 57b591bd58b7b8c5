//! Fuzzes one parser of `wire` against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/wire/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::enrolment(data));
