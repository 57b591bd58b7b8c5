//! A fleet as its operator sees it: the real program as command and as nodes, and a real etcd (the Debian package etcd-server).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../tests/etcd.rs"]
mod etcd;
mod certificates;
mod demo;
#[path = "../harness/mod.rs"]
mod harness;
mod orders;
#[path = "../acme/pebble.rs"]
#[allow(dead_code, reason = "not all of it is of use here")]
mod pebble;
mod rolling;
mod serving;
mod sessions;
#[path = "../harness/signing.rs"]
mod signing;
mod site;
