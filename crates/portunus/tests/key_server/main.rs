//! The key server end to end: the real program against an independent client in Python, against itself, and under reload and drain.
//!
//! Checks what peers see, what is logged, and what the kernel says of the process. Measures nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

mod enrolment;
mod front_door;
#[path = "../harness/mod.rs"]
mod harness;
mod interop;
#[path = "../keyless/key_server.rs"]
mod key_server;
mod life;
mod server;
mod wycheproof;
