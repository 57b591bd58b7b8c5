//! Request and response heads, the limits they are read under, and why one is refused.

use super::fields::Fields;

/// An HTTP version as it was spoken on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.0.
    H10,
    /// HTTP/1.1.
    #[default]
    H11,
    /// HTTP/2.
    H2,
}

/// A request method (RFC 9110 §9, RFC 5789). Case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token, at most 32 bytes.
    Other(Box<str>),
}

impl Method {
    /// The method whose token these bytes are; none if they are no token or longer than 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Method> {
        let _ = bytes;
        todo!()
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        todo!()
    }

    /// Whether a request with this method may be sent again after a failure (RFC 9110 §9.2.2).
    pub fn is_idempotent(&self) -> bool {
        todo!()
    }
}

/// How a message's body is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyFraming {
    /// There is none.
    #[default]
    None,
    /// Exactly this many bytes.
    Length(u64),
    /// The chunked coding; trailers may follow.
    Chunked,
    /// Until the peer closes (responses only).
    UntilClose,
}

/// A request head after strict parsing. Reused from request to request: `clear` keeps its memory.
#[derive(Debug, Clone, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The version the client spoke.
    pub version: Version,
    /// Origin-form target: canonical path, then `?query` as sent. `*` for `OPTIONS *`; empty for CONNECT.
    pub target: Vec<u8>,
    /// Length of the path within `target` (the query, if any, starts with `?` there).
    pub path_len: usize,
    /// Whether the path holds an encoded slash (`%2F`), which only a route that opts in may accept.
    pub has_encoded_slash: bool,
    /// Host and optional port: from the absolute form or `:authority` if there was one, else from Host. Lower case, and
    /// checked against RFC 3986 §3.2.2; userinfo is refused. Empty only for HTTP/1.0 without Host.
    pub authority: Vec<u8>,
    /// All fields as sent, Host among them.
    pub fields: Fields,
    /// How the body is delimited.
    pub framing: BodyFraming,
    /// The client sent `Expect: 100-continue` (RFC 9110 §10.1.1).
    pub expects_continue: bool,
    /// The connection may carry another request after this one (RFC 9112 §9.3).
    pub keep_alive: bool,
    /// `Connection: upgrade` and an Upgrade field are both there: the first protocol token offered, lower case.
    pub upgrade: Option<Box<str>>,
}

impl RequestHead {
    /// Back to the default, keeping buffers.
    pub fn clear(&mut self) {
        self.method = Method::Get;
        self.version = Version::H11;
        self.target.clear();
        self.path_len = 0;
        self.has_encoded_slash = false;
        self.authority.clear();
        self.fields.clear();
        self.framing = BodyFraming::None;
        self.expects_continue = false;
        self.keep_alive = false;
        self.upgrade = None;
    }

    /// The canonical path.
    pub fn path(&self) -> &[u8] {
        self.target.get(..self.path_len).unwrap_or_default()
    }

    /// The query with its `?`, or nothing.
    pub fn query(&self) -> &[u8] {
        self.target.get(self.path_len..).unwrap_or_default()
    }

    /// The authority without its port; an IPv6 literal keeps its brackets.
    pub fn host(&self) -> &[u8] {
        todo!()
    }
}

/// A response head after strict parsing.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// 100 to 599.
    pub status: u16,
    /// The version the upstream spoke.
    pub version: Version,
    /// All fields as sent.
    pub fields: Fields,
    /// How the body is delimited, given the method of the request.
    pub framing: BodyFraming,
    /// The connection may be used again.
    pub keep_alive: bool,
    /// For 101: the protocol of the Upgrade field, lower case.
    pub upgrade: Option<Box<str>>,
}

impl ResponseHead {
    /// Back to the default, keeping buffers.
    pub fn clear(&mut self) {
        self.status = 0;
        self.version = Version::H11;
        self.fields.clear();
        self.framing = BodyFraming::None;
        self.keep_alive = false;
        self.upgrade = None;
    }
}

/// Bounds under which a head is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// The whole head, bytes.
    pub head_bytes: usize,
    /// Request line, bytes.
    pub request_line_bytes: usize,
    /// Number of fields; at most 256.
    pub fields: usize,
}

/// Why a head was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadError {
    /// The status that a request with this mistake deserves: 400, 413, 414, 417, 431, 501 or 505.
    pub status: u16,
    /// A stable short code for logs, in lower-case words joined by `_`: `duplicate_content_length`.
    pub code: &'static str,
}
