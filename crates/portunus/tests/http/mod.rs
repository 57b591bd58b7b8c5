//! What the gate does with HTTP, black box: raw bytes at the real program, a recording upstream behind it, both sides checked.
//!
//! One binary with a module per theme, because each binary links the whole program. Attacks are in `attacks/`.

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
mod conditions;
mod connections;
mod declared_trailers;
mod fields;
mod goaway;
mod http2_ordinary;
mod idle_connections;
mod in_order;
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
mod sign_on;
mod streams;
mod subpath;
mod tracing;
mod unread_bodies;
mod unusual_names;
mod upstreams;
mod variables;
mod versions;
mod websockets;
mod windows;
