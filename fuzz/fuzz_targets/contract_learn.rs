//! Fuzzes one reader of `contract` against its invariants, which `cargo test` shares. Owns nothing else.
#![no_main]

#[path = "../../crates/contract/tests/invariants/messages.rs"]
mod messages;

libfuzzer_sys::fuzz_target!(|data: &[u8]| messages::contract_learn(data));
