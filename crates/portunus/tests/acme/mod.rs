//! Certificates that are ordered, at a real certificate authority: Pebble, with its failure switches. The real program, from a folder without a
//! certificate to one that is served and renewed.
//!
//! Tests that need Pebble are ignored by `./x test`; `./x verify ignored` fetches it with Go and runs them.

mod disk;
mod dns;
mod edge;
mod faults;
mod hostile;
mod issuing;
mod key_servers;
mod knot;
mod lifecycle;
mod on_demand;
mod online;
pub mod pebble;
mod standing;
