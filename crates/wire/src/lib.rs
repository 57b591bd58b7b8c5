//! Bytes to values and back: HTTP/1 heads and chunks, request targets, ClientHello, keyless frames, PROXY
//! protocol.
//!
//! Owns every parser that reads a peer's bytes. Does no I/O, keeps no clock, spawns nothing, and never
//! panics on input. Ruled by RFC 9110, RFC 9112, RFC 3986, RFC 8446 §4.1.2 and
//! HAProxy's PROXY protocol, versions 1 and 2.
#![forbid(unsafe_code)]

pub mod client_hello;
pub mod hello_records;
pub mod http;
pub mod keyless;
pub mod proxy_protocol;
pub mod short_text;
pub mod simple_proxy;
