//! Bytes to values and back: HTTP/1 heads and chunks, frames and field sections of HTTP/3, request targets, ClientHello and JA4, keyless frames, enrolment, PROXY
//! protocol, Envoy's messages to authorization services and external processors, frames of WebSockets, commands and replies of Valkey and Redis.
//!
//! Owns every parser that reads a peer's bytes. Does no I/O, keeps no clock, spawns nothing, and never
//! panics on input. Ruled by RFC 9110, RFC 9112, RFC 9114, RFC 9204, RFC 3986, RFC 8446 §4.1.2 and
//! HAProxy's PROXY protocol, versions 1 and 2.
//!
//! ```
//! use wire::proxy_protocol::{Found, read};
//!
//! assert!(matches!(read(b"PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\nhello", 512), Ok(Found::Whole(_))));
//! assert!(matches!(read(b"PROXY TCP4 192.0.2.1", 512), Ok(Found::Partial)));
//! assert!(matches!(read(b"GET / HTTP/1.1\r\n", 512), Ok(Found::Absent)));
//! assert!(read(b"PROXY TCP4 192.0.2.256 198.51.100.2 4711 443\r\n", 512).is_err());
//! ```
#![forbid(unsafe_code)]

pub mod ja4;
pub mod client_hello;
pub mod ech;
pub mod enrolment;
pub mod envoy;
pub mod hello_records;
pub mod hexadecimal;
pub mod http;
pub mod keyless;
pub mod protobuf;
pub mod proxy_protocol;
pub mod resp;
pub mod short_text;
pub mod simple_proxy;
pub mod trace_context;
pub mod websocket;
