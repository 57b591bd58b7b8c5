//! Responses of our own: which status, whose fault, which words. Tells nothing about what lies behind the gate.

mod graphql;

use std::io::Write;

use config::Detail;
use reason::{Reason, Side};
use wire::http::http1::reason_phrase;
use wire::http::{HeadError, RequestHead};

use crate::responses::{Chosen, ErrorPages};

/// A request that is answered by us, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Status of the response.
    pub status: u16,
    /// Whose fault it is.
    pub fault: Side,
    /// Why.
    pub reason: Reason,
    /// What else the client is told, if anything. Every step of an exchange may give a rejection, so one has to be small.
    details: Option<Box<Details>>,
}

/// What a client is told beside the status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Value of Allow, for 405.
    pub allow: Option<String>,
    /// What a contract has to say about it.
    pub reported: Option<Reported>,
    /// A rate was exceeded.
    pub limited: Option<Limited>,
    /// The credentials that are asked for (RFC 9110 §11.6.1).
    pub challenge: Option<Box<str>>,
    /// What an authentication service responds in our place.
    pub relayed: Option<Relayed>,
    /// Seconds after which the client may come again, where that is not the usual one.
    pub retry_after: Option<u64>,
}

/// A response that goes to the client as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relayed {
    /// Its fields, but for those of the connection and the body.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Content-Type; may be empty.
    pub content_type: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// The rate that a request exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The policy that says so.
    pub policy: String,
    /// Requests that may come at once.
    pub quota: u32,
    /// The time in which that many pass in the long run, seconds.
    pub window: u64,
    /// Seconds until the next request passes.
    pub retry_after: u64,
}

/// What a rejection tells of the contract that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// How much of it.
    pub detail: Detail,
    /// Part of the message: `query`, `body`, ...
    pub part: &'static str,
    /// Name of the parameter or field; may be empty.
    pub name: String,
    /// JSON pointer into the value; may be empty.
    pub pointer: String,
    /// What is wrong.
    pub what: String,
    /// A field of the response that says it all in one line.
    pub header: Option<(String, String)>,
    /// The credentials are what is wrong: the challenge (RFC 9110 §11.6.1).
    pub challenge: Option<&'static str>,
    /// The client reads errors of GraphQL.
    pub is_graphql: bool,
}

impl Rejection {
    /// The fields that its status asks for: the challenge of 401 (RFC 9110 §11.6.1), Allow of 405 (§15.5.6), Retry-After where it is worth while to come
    /// again (§10.2.3), with the RateLimit fields (draft-ietf-httpapi-ratelimit-headers) where a rate was exceeded, and the one that a contract was given to report in.
    pub fn fields(&self, mut put: impl FnMut(&[u8], &[u8])) {
        let retry_after = self.details.as_ref().and_then(|details| details.fields(self.status, &mut put));
        if let Some(seconds) = retry_after.or(matches!(self.status, 429 | 503).then_some(1)) {
            put(b"Retry-After", seconds.to_string().as_bytes());
        }
    }

    /// What the table says of this reason.
    pub const fn of(reason: Reason) -> Rejection {
        Rejection::with_status(reason, reason.status())
    }

    /// With another status than the table's, where the configuration or the message decides on it.
    pub const fn with_status(reason: Reason, status: u16) -> Rejection {
        Rejection { status, fault: reason.side().of_request(), reason, details: None }
    }

    /// The upstream sent this head: its fault, and a 502.
    pub fn of_response(error: HeadError) -> Rejection {
        Rejection { fault: Side::Upstream, ..Rejection::with_status(error.reason, 502) }
    }

    /// The same with more that the client is told.
    pub fn telling(mut self, tell: impl FnOnce(&mut Details)) -> Rejection {
        tell(self.details.get_or_insert_default());
        self
    }

    /// What a contract has to say about it.
    pub fn reported(&self) -> Option<&Reported> {
        self.details.as_ref()?.reported.as_ref()
    }

    /// The same, to be changed.
    pub fn reported_mut(&mut self) -> Option<&mut Reported> {
        self.details.as_mut()?.reported.as_mut()
    }

    /// What an authentication service responds in our place.
    pub fn relayed(&self) -> Option<&Relayed> {
        self.details.as_ref()?.relayed.as_ref()
    }
}

impl Details {
    /// Its fields but for Retry-After, whose value it gives, if it is not the usual one.
    fn fields(&self, status: u16, put: &mut impl FnMut(&[u8], &[u8])) -> Option<u64> {
        if let Some(reported) = &self.reported {
            if let Some((name, value)) = &reported.header {
                put(name.as_bytes(), value.as_bytes());
            }
            if let Some(challenge) = reported.challenge.filter(|_| status == 401) {
                put(b"WWW-Authenticate", challenge.as_bytes());
            }
        }
        if let Some(relayed) = &self.relayed {
            relayed.fields.iter().for_each(|(name, value)| put(name, value));
        }
        if let Some(challenge) = &self.challenge {
            put(b"WWW-Authenticate", challenge.as_bytes());
        }
        if let Some(allow) = &self.allow {
            put(b"Allow", allow.as_bytes());
        }
        let Some(Limited { policy, quota, window, retry_after }) = &self.limited else { return self.retry_after };
        put(b"RateLimit-Policy", format!("\"{policy}\";q={quota};w={window}").as_bytes());
        put(b"RateLimit", format!("\"{policy}\";r=0;t={retry_after}").as_bytes());
        Some(*retry_after)
    }
}

impl From<HeadError> for Rejection {
    fn from(error: HeadError) -> Rejection {
        Rejection::with_status(error.reason, error.status)
    }
}

/// Whether the client reads JSON rather than text: it says so, or it sent JSON itself.
fn wants_json(head: &RequestHead) -> bool {
    mentions_json(head, "accept") || sends_json(head)
}

fn sends_json(head: &RequestHead) -> bool {
    mentions_json(head, "content-type")
}

fn mentions_json(head: &RequestHead, name: &str) -> bool {
    head.fields.get_all(name).any(|value| memchr::memmem::find(value, b"json").is_some())
}

/// The setting that a message exceeds whose head was rejected for its size.
pub fn exceeded_limit(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::HeadTooLarge | Reason::RequestHeadTooLarge => Some("limits.max_header_bytes"),
        Reason::TooManyFields => Some("limits.max_headers"),
        Reason::RequestLineTooLong => Some("limits.max_request_line"),
        _ => None,
    }
}

/// Body and content type of a rejection: a page, if there is one that the client reads; else a problem document (RFC 9457) for API clients, a line of
/// text for others.
pub fn body(
    rejection: &Rejection,
    head: &RequestHead,
    pages: Option<&ErrorPages>,
    request_id: &[u8],
) -> (Vec<u8>, &'static str) {
    let Some(reported) = rejection.reported() else {
        return own_page((rejection.status, exceeded_limit(rejection.reason)), head, pages, request_id);
    };
    if reported.is_graphql {
        return graphql::body(rejection, reported, head);
    }
    if let Some(Chosen::Page(page, content_type)) =
        pages.map(|pages| pages.choose(rejection.status, head, true, request_id))
    {
        return (page, content_type);
    }
    let tells = reported.detail != Detail::Empty;
    let body = if tells { problem(rejection, reported, reason_phrase(rejection.status)) } else { Vec::new() };
    (body, "application/problem+json")
}

/// As [`body`], for an error of which there is nothing more to say.
pub fn page(status: u16, head: &RequestHead, pages: Option<&ErrorPages>, request_id: &[u8]) -> (Vec<u8>, &'static str) {
    own_page((status, None), head, pages, request_id)
}

fn own_page(
    (status, limit): (u16, Option<&str>),
    head: &RequestHead,
    pages: Option<&ErrorPages>,
    request_id: &[u8],
) -> (Vec<u8>, &'static str) {
    let is_json = match pages.map(|pages| pages.choose(status, head, sends_json(head), request_id)) {
        None => wants_json(head),
        Some(Chosen::Problem) => true,
        Some(Chosen::Line) => false,
        Some(Chosen::Page(page, content_type)) => return (page, content_type),
    };
    let title = reason_phrase(status);
    let mut body = Vec::with_capacity(96);
    if is_json {
        let _ = write!(body, "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status}");
        if let Some(limit) = limit {
            let _ = write!(body, ",\"detail\":\"The request exceeds {limit}.\"");
        }
        body.extend_from_slice(b"}\n");
        (body, "application/problem+json")
    } else {
        let _ = write!(body, "{status} {title}");
        if let Some(limit) = limit {
            let _ = write!(body, " ({limit})");
        }
        body.push(b'\n');
        (body, "text/plain; charset=utf-8")
    }
}

/// A problem document that tells as much of a broken contract as it may.
fn problem(rejection: &Rejection, reported: &Reported, title: &str) -> Vec<u8> {
    let mut problem = serde_json::Map::new();
    problem.insert("type".into(), "about:blank".into());
    problem.insert("title".into(), title.into());
    problem.insert("status".into(), rejection.status.into());
    if matches!(reported.detail, Detail::Code | Detail::Pointer) {
        problem.insert("code".into(), rejection.reason.code().into());
    }
    if reported.detail == Detail::Pointer {
        for (name, value) in [("detail", &reported.what), ("name", &reported.name), ("pointer", &reported.pointer)] {
            if !value.is_empty() {
                problem.insert(name.into(), value.as_str().into());
            }
        }
        if !reported.part.is_empty() {
            problem.insert("in".into(), reported.part.into());
        }
    }
    let mut body = serde_json::Value::Object(problem).to_string().into_bytes();
    body.push(b'\n');
    body
}
