//! The data path: from an accepted connection to an upstream and back.
//!
//! Modules stand from top to bottom; one imports only from those below it, and a test holds them to that.
#![forbid(unsafe_code)]

pub mod background;
pub mod server;
pub mod explain;
mod listener;
mod conn;
mod http;
mod websocket;
mod exchange;
mod guard;
pub mod own_request;
mod tunnel;
mod onward;
mod handshake;
mod pump;
mod message;
mod connection;
mod datagram;
mod udp_group;
mod worker;
mod loop_guard;
pub mod generation;
mod tunnel_routes;
pub mod issuance;
mod reach;
mod redirects;
mod twins;
mod ambiguous_routes;
mod samples;
mod doubtful;
pub mod contracts;
mod policies;
mod responses;
pub mod route;
pub mod auth;
pub mod client;
pub mod geoip;
mod certificates;
pub mod challenges;
mod delivery;
pub mod demands;
mod pairs;
mod ticket_file;
mod hello_keys;
pub mod keyless;
pub mod discovery;
pub mod upstream;
mod admission;
mod http2;
pub mod passport;
mod addressed;
mod host_map;
mod configured_map;
mod field_fate;
