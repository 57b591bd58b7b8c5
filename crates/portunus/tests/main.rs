//! The tests of the running program and of the repository's own rules, in one binary: each test binary links the whole program, and in one of them
//! the waiting of all tests overlaps. A module per theme; CONTRIBUTING.md, "Tests", says where a new test goes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests block their thread and poll, and measure nothing")]

#[path = "../../../tests/etcd.rs"]
mod etcd;
mod harness;
mod invariants;
#[path = "../../../tests/replay.rs"]
mod replay;

// The program, from outside.
mod acme;
mod admin_descriptors;
mod attacks;
mod check;
mod command_line;
mod contract;
mod contract_command;
mod edge;
mod explain;
mod fleet;
mod gate;
mod http;
mod key_server;
mod keyless;
mod keystore_command;
mod migration;
mod offload;
mod passport;
mod report;
mod sillyproxy_routes;
mod units;

// What it reads, and the corpora of the fuzz targets.
mod config;
mod config_corpus;
mod fuzz_corpus;

// The repository: documentation, house rules, and tables that name what the code has.
mod bounds;
mod budget;
mod docs;
mod history;
mod layers;
mod observability;
mod reasons;
mod tidy;
