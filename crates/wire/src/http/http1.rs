//! HTTP/1.x heads: strict parsing and writing (RFC 9112 §2-7).
//!
//! Stricter than the RFC where leniency has been exploited: repeated Content-Length is rejected even when the values agree, bare
//! LF and obs-fold are rejected, `_` in a field name is rejected, Transfer-Encoding is exactly `chunked`.
//!
//! Owns the way from bytes to heads and back. Does not read bodies: `chunked` does, and the program counts lengths.

mod framing;
mod request;
mod response;
mod scan;
mod write;

pub use write::{reason_phrase, write_field, write_fields, write_request_line, write_status_line};

use super::head::{HeadError, HeadLimits, Method, RequestHead, ResponseHead};

/// How far parsing got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed; nothing was consumed.
    Partial,
    /// The head is the first `head_len` bytes.
    Complete {
        /// Bytes up to and including the empty line.
        head_len: usize,
    },
}

/// Parses a request head from the start of `bytes` into `head` (cleared first).
///
/// One empty line before the request line is skipped and counts into `head_len` (RFC 9112 §2.2). On success every rule of
/// RFC 9112 §3.2 (Host), §6 (framing) and RFC 3986 (target, authority) has been checked and `head` is complete. Otherwise
/// its content is of no use.
///
/// A prefix of a head gives [`Parsed::Partial`] or the error that the whole would give; limits are reported as soon as they are
/// passed.
///
/// # Errors
/// The status and code to answer with. The connection must close afterwards.
pub fn parse_request(bytes: &[u8], limits: &HeadLimits, head: &mut RequestHead) -> Result<Parsed, HeadError> {
    request::parse(bytes, limits, head)
}

/// Parses a response head from the start of `bytes` into `head` (cleared first); `request_method` decides the framing
/// (RFC 9112 §6.3). Errors carry 502.
///
/// `_` in field names is accepted here, as it is harmless towards a client. A 2xx answer to CONNECT, like 1xx, 204, 304 and
/// answers to HEAD, has no body.
///
/// # Errors
/// The upstream broke the protocol: the connection must not be used again.
pub fn parse_response(
    bytes: &[u8],
    limits: &HeadLimits,
    request_method: &Method,
    head: &mut ResponseHead,
) -> Result<Parsed, HeadError> {
    response::parse(bytes, limits, request_method, head)
}
