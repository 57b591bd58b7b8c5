//! Request and response heads, the limits they are read under, and why one is rejected (RFC 9110 §6, §9).
//!
//! Owns the values that every HTTP version is turned into. Does not read or write bytes: `http1` does.

use reason::Reason;

use super::fields::{Fields, is_token};

/// The longest method token, bytes. The longest registered one (`UPDATEREDIRECTREF`) has 17.
pub(super) const MAX_METHOD_BYTES: usize = 32;

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
    /// HTTP/3.
    H3,
}

impl Version {
    /// As a protocol is named: `HTTP/1.1`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::H10 => "HTTP/1.0",
            Version::H11 => "HTTP/1.1",
            Version::H2 => "HTTP/2",
            Version::H3 => "HTTP/3",
        }
    }
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
    /// The method whose token these bytes are; none if they are no token or longer than 32 bytes, or a registered method in another case: methods are
    /// case-sensitive (RFC 9110 §9.1), but frameworks that are not would execute what no rule for that method has seen.
    pub fn from_bytes(bytes: &[u8]) -> Option<Method> {
        Some(match bytes {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            _ if bytes.len() <= MAX_METHOD_BYTES && is_token(bytes) && !is_in_other_case(bytes) => {
                Method::Other(std::str::from_utf8(bytes).ok()?.into())
            }
            _ => return None,
        })
    }

    /// The token.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other(token) => token,
        }
    }

    /// Whether a request with this method may be sent again after a failure (RFC 9110 §9.2.2).
    pub fn is_idempotent(&self) -> bool {
        match self {
            Method::Get | Method::Head | Method::Put | Method::Delete | Method::Options | Method::Trace => true,
            Method::Post | Method::Connect | Method::Patch | Method::Other(_) => false,
        }
    }
}

/// Methods of the registry of RFC 9110 §16.1.1 beside those that [`Method`] names, and `PURGE`, which caches have.
const REGISTERED: &[&str] = &[
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
];

/// Whether a token is a registered method but for the case of its letters.
fn is_in_other_case(token: &[u8]) -> bool {
    token.iter().any(u8::is_ascii_lowercase)
        && REGISTERED.iter().any(|method| token.eq_ignore_ascii_case(method.as_bytes()))
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The version the client spoke.
    pub version: Version,
    /// Origin-form target: canonical path, then `?` and the canonical query. `*` for `OPTIONS *`; empty for CONNECT.
    pub target: Vec<u8>,
    /// Length of the path within `target` (the query, if any, starts with `?` there).
    pub path_len: usize,
    /// Whether the path holds an encoded slash (`%2F`), which only a route that opts in may accept.
    pub has_encoded_slash: bool,
    /// The path is known to hold no `;`, no escape and no two slashes in a row: no server takes it for another path. Not set where nobody has looked.
    pub has_plain_path: bool,
    /// The target was in absolute form and its scheme https.
    pub says_https: bool,
    /// Host and optional port: from the absolute form or `:authority` if there was one, else from Host. Lower case, and
    /// checked against RFC 3986 §3.2.2; userinfo is rejected. Empty only for HTTP/1.0 without Host.
    pub authority: Vec<u8>,
    /// All fields as sent, Host among them; but where Host was not spelled like `authority`, it is rewritten to it, so that
    /// what is decided on is what goes on (RFC 9112 §3.2.2).
    pub fields: Fields,
    /// The name of some field holds something else than letters, digits and hyphens. Who turns names into variables, as CGI does, takes it for a hyphen,
    /// so such a field goes on only where nobody can take it for another one.
    pub has_unusual_name: bool,
    /// A field was removed for its unusual name, which another proxy that holds the request would not do.
    pub has_lost_name: bool,
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
    /// Whether it came as an extended CONNECT (RFC 8441, RFC 9220), which is an upgrade on a stream: there is no other one over HTTP/2 and HTTP/3.
    pub fn is_extended_connect(&self) -> bool {
        matches!(self.version, Version::H2 | Version::H3) && self.upgrade.is_some()
    }

    /// Takes the method of a request over; one in another case as well, so that what is said of the rejected request names it.
    ///
    /// # Errors
    /// 400 with a code.
    pub fn read_method(&mut self, token: &[u8]) -> Result<(), HeadError> {
        if let Some(method) = Method::from_bytes(token) {
            self.method = method;
            return Ok(());
        }
        if !is_in_other_case(token) {
            return Err(HeadError::of(Reason::BadMethod));
        }
        self.method = Method::Other(String::from_utf8_lossy(token).into());
        Err(HeadError::of(Reason::MethodInOtherCase))
    }

    /// Back to the default, keeping buffers.
    pub fn clear(&mut self) {
        self.method = Method::Get;
        self.version = Version::H11;
        self.target.clear();
        self.path_len = 0;
        self.has_encoded_slash = false;
        self.has_plain_path = false;
        self.has_unusual_name = false;
        self.has_lost_name = false;
        self.says_https = false;
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

    /// The values of a field (name in lower case), in order. That of `host` is the authority, which in HTTP/2 and HTTP/3 no field has to say (RFC 9113
    /// §8.3.1).
    pub fn values<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let authority = (name == "host" && !self.authority.is_empty()).then_some(self.authority.as_slice());
        let fields = authority.is_none().then(|| self.fields.get_all(name));
        authority.into_iter().chain(fields.into_iter().flatten())
    }

    /// The authority without its port; an IPv6 literal keeps its brackets.
    pub fn host(&self) -> &[u8] {
        let end = match self.authority.first() {
            Some(b'[') => memchr::memchr(b']', &self.authority).map(|bracket| bracket + 1),
            _ => memchr::memchr(b':', &self.authority),
        };
        end.and_then(|end| self.authority.get(..end)).unwrap_or(&self.authority)
    }
}

/// A response head after strict parsing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// The whole head with its line ends and the empty line, bytes; at most 16 MiB.
    pub head_bytes: usize,
    /// Request line (or status line) without its line end, bytes.
    pub request_line_bytes: usize,
    /// Number of fields; at most 256.
    pub fields: usize,
}

/// Why a head was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadError {
    /// The status that a request with this problem deserves: 400, 413, 414, 417, 431, 501 or 505. For a problem of the
    /// upstream's: 502.
    pub status: u16,
    /// What is wrong.
    pub reason: Reason,
}

impl HeadError {
    /// A rejection for this reason, with the status that its table gives.
    pub const fn of(reason: Reason) -> HeadError {
        HeadError { status: reason.status(), reason }
    }
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ({})", self.reason.code(), self.status)
    }
}

impl std::error::Error for HeadError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check_method(token: &str, expected: Option<Method>, idempotent: bool) {
        let method = Method::from_bytes(token.as_bytes());
        assert_eq!(method, expected, "{token}");
        if let Some(method) = method {
            assert_eq!(method.as_str(), token);
            assert_eq!(method.is_idempotent(), idempotent, "{token}");
        }
    }

    #[test]
    fn methods() {
        check_method("GET", Some(Method::Get), true);
        check_method("HEAD", Some(Method::Head), true);
        check_method("POST", Some(Method::Post), false);
        check_method("PUT", Some(Method::Put), true);
        check_method("DELETE", Some(Method::Delete), true);
        check_method("CONNECT", Some(Method::Connect), false);
        check_method("OPTIONS", Some(Method::Options), true);
        check_method("TRACE", Some(Method::Trace), true);
        check_method("PATCH", Some(Method::Patch), false);
        for other_case in
            ["get", "Post", "pATCH", "trace", "connecT", "propfind", "Purge", "m-search", "version-Control"]
        {
            let is_unknown = other_case == "m-search";
            check_method(other_case, is_unknown.then(|| Method::Other(other_case.into())), false);
        }
        check_method("PROPFIND", Some(Method::Other("PROPFIND".into())), false);
        check_method("M-SEARCH", Some(Method::Other("M-SEARCH".into())), false);
        check_method(&"A".repeat(32), Some(Method::Other("A".repeat(32).into())), false);
        check_method(&"A".repeat(33), None, false);
        check_method("", None, false);
        check_method("GE T", None, false);
        check_method("GET\n", None, false);
        check_method("G\u{c9}T", None, false);
    }

    #[test]
    fn the_host_is_a_value_of_a_head() {
        let mut head = RequestHead { authority: b"a.test:8443".to_vec(), ..RequestHead::default() };
        assert_eq!(head.values("host").collect::<Vec<_>>(), [b"a.test:8443"]);
        head.fields.push(b"x", b"1");
        head.fields.push(b"X", b"2");
        assert_eq!(head.values("x").collect::<Vec<_>>(), [b"1", b"2"]);
        let head = RequestHead::default();
        assert_eq!(head.values("host").count(), 0);
    }

    #[test]
    fn host_is_the_authority_without_its_port() {
        for (authority, host) in [
            ("", ""),
            ("a.example", "a.example"),
            ("a.example:8080", "a.example"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[::1]:443", "[::1]"),
        ] {
            let head = RequestHead { authority: authority.into(), ..RequestHead::default() };
            assert_eq!(head.host(), host.as_bytes(), "{authority}");
        }
    }

    #[test]
    fn clear_restores_the_default() {
        let mut fields = Fields::new();
        fields.push(b"A", b"b");
        let mut head = RequestHead {
            method: Method::Put,
            version: Version::H10,
            target: b"/a?b".to_vec(),
            path_len: 2,
            has_encoded_slash: true,
            has_plain_path: true,
            has_unusual_name: true,
            has_lost_name: true,
            says_https: true,
            authority: b"a".to_vec(),
            fields: fields.clone(),
            framing: BodyFraming::Chunked,
            expects_continue: true,
            keep_alive: true,
            upgrade: Some("x".into()),
        };
        assert_eq!((head.path(), head.query()), (&b"/a"[..], &b"?b"[..]));
        head.clear();
        assert_eq!(head, RequestHead::default());
        let mut head = ResponseHead {
            status: 200,
            version: Version::H10,
            fields,
            framing: BodyFraming::UntilClose,
            keep_alive: true,
            upgrade: Some("x".into()),
        };
        head.clear();
        assert_eq!(head, ResponseHead::default());
    }
}
