//! What the gate does with HTTP, black box: raw bytes at the real program, a recording upstream behind it, both sides checked.
//!
//! One binary with a module per theme, because each binary links the whole program. Attacks are in `attacks/`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../harness/frames.rs"]
mod frames;
#[path = "../harness/http2.rs"]
mod http2_server;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../harness/secure.rs"]
mod secure;
#[path = "../harness/signing.rs"]
mod signing;
#[path = "../harness/trial.rs"]
mod trial;
#[path = "../harness/websocket.rs"]
mod websocket;

mod access;
mod access_log;
mod alternative;
mod authority;
mod bandwidth;
mod blocked_websockets;
mod bodies;
mod claims;
mod compression;
mod concurrency;
mod connections;
mod fields;
mod goaway;
mod http2_ordinary;
mod interim;
mod prior_knowledge;
mod proxy_headers;
mod large_heads;
mod listeners;
mod log_fields;
mod made_bodies;
mod matching;
mod monitoring;
mod own_responses;
mod rejections;
mod streams;
mod tracing;
mod unread_bodies;
mod upstreams;
mod variables;
mod versions;
mod websockets;
