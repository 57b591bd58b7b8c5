//! Configurations of other programs, imported: the original and ours, side by side, on the same requests. What the client gets and what the upstream sees.
//!
//! Needs `nginx`, `haproxy`, `hitch`, `stunnel4` and `openssl`, Debian packages of these names, which `./x` installs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests poll, and measure nothing")]

mod beside;
mod distribution;
#[path = "../harness/mod.rs"]
mod harness;
mod haproxy;
mod ingress;
mod nginx;
mod nginx_compression;
mod nginx_guarded;
mod nginx_left_out;
mod nginx_rates;
mod nginx_stream;
mod packages;
mod terminators;
#[path = "../harness/secure.rs"]
mod secure;
