//! HTTP messages as values (RFC 9110), and their forms of HTTP/1 (RFC 9112) and HTTP/3 (RFC 9114).
//!
//! Owns the modules below and nothing of its own. Does no I/O and knows no route, policy or contract.

mod octets;

pub mod chunked;
pub mod field_kind;
pub mod fields;
pub mod head;
pub mod hop;
pub mod hpack;
pub mod http1;
pub mod http3;
pub mod percent;
pub mod qpack;
pub mod quality;
pub mod readings;
pub mod target;

pub use chunked::{ChunkEvent, ChunkedDecoder};
pub use fields::Fields;
pub use head::{BodyFraming, HeadError, HeadLimits, Method, RequestHead, ResponseHead, Version};
