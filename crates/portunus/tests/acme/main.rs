//! Certificates that are ordered, at a real certificate authority: Pebble, with its failure switches. The real program, from a folder without a
//! certificate to one that is served and renewed.
//!
//! Pebble is fetched by `./x test`; where it cannot be had, each test says so and ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests poll, and measure nothing")]

mod disk;
mod dns;
mod edge;
mod faults;
#[path = "../harness/mod.rs"]
mod harness;
mod hostile;
mod issuing;
mod key_servers;
mod knot;
mod lifecycle;
mod on_demand;
mod online;
mod pebble;
#[path = "../harness/secure.rs"]
mod secure;
mod standing;
