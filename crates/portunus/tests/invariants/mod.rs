//! What must hold for any bytes at all, one function per parser of the program. Each panics where it does not.
//!
//! Shared by the tests beside this folder and by the fuzz targets in `/fuzz`, which include it by path. Owns no inputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unreachable_pub)]

mod config;

pub use config::config;
