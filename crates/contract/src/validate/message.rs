//! What a validator is given of a message: borrowed parts of its head. Owns no bytes and reads none.

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
