//! HTTP/3 as it is on the streams of a connection (RFC 9114), on the side of a server: frames, what each kind of stream may hold, requests taken apart.
//!
//! Owns the syntax, and the order in which frames may come. Reads streams piece by piece and holds no more of them than their bounds. Field sections are
//! `qpack`'s. Does no I/O and does not know what a request is for.

pub mod code;
pub mod control;
pub mod frame;
pub mod request;
pub mod section;
pub mod streams;
pub mod varint;

pub use code::Code;
