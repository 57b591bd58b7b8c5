//! Certificates that are ordered, at a real certificate authority: Pebble, with its failure switches. The real program, from a folder without a
//! certificate to one that is served and renewed.
//!
//! Pebble is fetched by `./x test`; where it cannot be had, each test says so and ends.

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
