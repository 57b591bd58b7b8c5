//! API contracts in the running program, validated on both sides: what the client got, and what a recording upstream saw.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;

// Parts of the harness that only some tests need stand beside it, not in it.
#[path = "../harness/frames.rs"]
mod frames;
#[path = "../harness/secure.rs"]
mod secure;
#[path = "../harness/signing.rs"]
mod signing;
#[path = "../harness/websocket.rs"]
mod websocket;

mod api_mode;
mod bodies;
mod codings;
mod cost;
mod fail_closed;
mod fetched;
mod forwarded;
mod front_door;
mod graphql;
mod graphql_websocket;
mod introspection;
mod lists;
mod other_bodies;
mod reload;
mod requests;
mod responses;
mod samples;
mod shadows;
mod site;
mod switches;
mod tokens;
mod underscored;
mod unsupported;
mod validate;
