//! What must hold for any bytes at all, one function per parser. Each panics where it does not.
//!
//! Shared by the tests beside this folder and by the fuzz targets in `/fuzz`, which include it by path. Owns no inputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unreachable_pub)]

mod chunked;
mod client_hello;
mod enrolment;
mod envoy;
mod hello_records;
mod hpack;
mod http1;
mod http3;
mod ja4;
mod keyless;
mod proxy_protocol;
mod quality;
mod resp;
mod simple_proxy;
mod target;
mod trace_context;
mod websocket;

pub use chunked::chunked;
pub use client_hello::client_hello;
pub use enrolment::enrolment;
pub use envoy::envoy;
pub use hello_records::hello_records;
pub use hpack::hpack;
pub use http1::{http1_request, http1_response};
pub use http3::{http3, qpack};
pub use ja4::ja4;
pub use keyless::keyless;
pub use proxy_protocol::proxy_protocol;
pub use quality::quality;
pub use resp::resp;
pub use simple_proxy::simple_proxy;
pub use target::target;
pub use trace_context::trace_context;
pub use websocket::check as websocket;

/// Takes any bytes, and panics where an invariant does not hold for them.
pub type Check = fn(&[u8]);

/// Every parser by the name of its fuzz target and corpus folder.
pub const ALL: [(&str, Check); 19] = [
    ("websocket", websocket),
    ("http1_request", http1_request),
    ("http1_response", http1_response),
    ("chunked", chunked),
    ("target", target),
    ("trace_context", trace_context),
    ("quality", quality),
    ("client_hello", client_hello),
    ("ja4", ja4),
    ("enrolment", enrolment),
    ("envoy", envoy),
    ("keyless", keyless),
    ("hello_records", hello_records),
    ("hpack", hpack),
    ("http3", http3),
    ("qpack", qpack),
    ("proxy_protocol", proxy_protocol),
    ("simple_proxy", simple_proxy),
    ("resp", resp),
];

/// The lengths at which to cut `len` bytes: all of them, or a spread where that would be slow.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    (0..len).step_by(if len <= 256 { 1 } else { len / 64 })
}
