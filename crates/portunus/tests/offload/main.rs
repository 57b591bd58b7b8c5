//! Connections as bytes: PROXY headers in and out, tunnels opened and unopened, their ends, their log lines. The real program, between real peers.
//!
//! Needs `dnsmasq-base`, `haproxy`, `libnginx-mod-stream`, `nginx` and `openssl`, Debian packages of these names, which `./x` installs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests poll, and measure nothing")]

mod clients;
mod datagrams;
#[path = "../harness/mod.rs"]
mod harness;
mod onward_tls;
mod passing;
mod policies;
mod proxy_in;
mod proxy_out;
#[path = "../harness/secure.rs"]
mod secure;
mod site;
mod tunnels;
