//! What a validator is given of a message: borrowed parts of its head, and the words for its parts. Owns no bytes and reads none.

/// Characters of hostile text that a violation repeats.
const MAX_SHOWN_CHARS: usize = 120;

/// The header fields of a message, in the order they came.
pub trait FieldSource {
    /// Calls `visit` with name and value of each field. Names may be in any case.
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8]));
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FieldSource for Vec<(N, V)> {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for (name, value) in self {
            visit(name.as_ref(), value.as_ref());
        }
    }
}

/// What the framing of a message says about its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body: no framing fields, length 0, or a response that cannot have one.
    Empty,
    /// Exactly this many bytes, more than 0.
    Length(u64),
    /// Chunked, until the end of the stream or until close; may turn out to be empty.
    Unknown,
    /// There may be one, and nobody shows it: of a request only, whose head is then all that is validated.
    Unseen,
}

/// A request as its head tells it. Everything is what will be forwarded, byte for byte.
#[derive(Clone, Copy)]
pub struct RequestParts<'a> {
    /// The canonical path, percent-encoded, starting with `/`; the one that was given to [`crate::Contract::find`].
    pub path: &'a [u8],
    /// What follows `?` in the target, as sent; none if there is no `?`.
    pub query: Option<&'a [u8]>,
    /// Header fields.
    pub fields: &'a dyn FieldSource,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the client showed a certificate that the listener's rule accepted.
    pub has_client_certificate: bool,
}

/// A response as its head tells it.
#[derive(Clone, Copy)]
pub struct ResponseParts<'a> {
    /// The final status, 200 to 599.
    pub status: u16,
    /// Header fields.
    pub fields: &'a dyn FieldSource,
    /// How the body is framed; [`Framing::Empty`] for responses to HEAD and for 204 and 304.
    pub framing: Framing,
    /// It answers a HEAD request, so the absence of a body says nothing.
    pub responds_head: bool,
}

/// The part of a message a violation is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The operation, whatever the message.
    Operation,
    /// A value in the path.
    Path,
    /// A query parameter.
    Query,
    /// A header field.
    Header,
    /// A cookie.
    Cookie,
    /// The body.
    Body,
    /// The status of a response.
    Status,
    /// What a security scheme asks for.
    Security,
}

impl Part {
    /// The word for it in logs and problem documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Operation => "operation",
            Part::Path => "path",
            Part::Query => "query",
            Part::Header => "header",
            Part::Cookie => "cookie",
            Part::Body => "body",
            Part::Status => "status",
            Part::Security => "security",
        }
    }
}

/// Hostile text, fit for a log line: lossy UTF-8 without controls, at most 120 characters.
pub fn shown(bytes: &[u8]) -> String {
    let head = bytes.get(..bytes.len().min(MAX_SHOWN_CHARS * 4 + 4)).unwrap_or(bytes);
    clean(&String::from_utf8_lossy(head), MAX_SHOWN_CHARS)
}

/// Text without controls, shortened to this many characters.
pub(crate) fn clean(text: &str, max_chars: usize) -> String {
    let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut out: String = text.chars().take(max_chars).map(printable).collect();
    if text.chars().nth(max_chars).is_some() {
        out.push('…');
    }
    out
}
