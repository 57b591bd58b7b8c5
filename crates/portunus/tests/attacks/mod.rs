//! The attack matrix (docs/attack-matrix.md), black box: raw bytes at the real program, a recording upstream behind it, both sides checked.
//!
//! One binary with a module per theme, because each binary links the whole program.

mod framing;
mod heads;
mod http2;
mod http2_dropped;
mod http2_floods;
mod identity;
mod log_injection;
mod memory;
mod paths;
mod places;
mod responses;
mod slow;
mod upgrades;
