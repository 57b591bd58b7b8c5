//! HTTP/1.x heads: strict parsing and writing (RFC 9112 §2-7).
//!
//! Stricter than the RFC where leniency has been exploited: repeated Content-Length is refused even when the values agree, bare
//! LF and obs-fold are refused, `_` in a field name is refused, Transfer-Encoding is exactly `chunked`.

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
/// RFC 9112 §3.2 (Host), §6 (framing) and RFC 3986 (target, authority) has been checked and `head` is complete.
///
/// # Errors
/// The status and code to answer with. The connection must close afterwards.
pub fn parse_request(bytes: &[u8], limits: &HeadLimits, head: &mut RequestHead) -> Result<Parsed, HeadError> {
    let _ = (bytes, limits, head);
    todo!()
}

/// Parses a response head from the start of `bytes` into `head` (cleared first); `request_method` decides the framing
/// (RFC 9112 §6.3). Errors carry 502.
///
/// # Errors
/// The upstream broke the protocol: the connection must not be used again.
pub fn parse_response(
    bytes: &[u8],
    limits: &HeadLimits,
    request_method: &Method,
    head: &mut ResponseHead,
) -> Result<Parsed, HeadError> {
    let _ = (bytes, limits, request_method, head);
    todo!()
}
