//! Answers of our own: which status, whose fault, which words. Tells nothing about what lies behind the gate.

use std::io::Write;

use wire::http::http1::reason_phrase;
use wire::http::{HeadError, RequestHead};

use crate::report::Fault;

/// A request that is answered by us, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Status of the answer.
    pub status: u16,
    /// Whose fault it is.
    pub fault: Fault,
    /// Stable code for logs and metrics.
    pub code: &'static str,
    /// Value of Allow, for 405.
    pub allow: Option<String>,
}

impl Refusal {
    /// The client's fault.
    pub const fn client(status: u16, code: &'static str) -> Refusal {
        Refusal { status, fault: Fault::Client, code, allow: None }
    }

    /// The upstream's fault.
    pub const fn upstream(status: u16, code: &'static str) -> Refusal {
        Refusal { status, fault: Fault::Upstream, code, allow: None }
    }

    /// Our fault.
    pub const fn ours(status: u16, code: &'static str) -> Refusal {
        Refusal { status, fault: Fault::Ours, code, allow: None }
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Refusal {
        Refusal::client(error.status, error.code)
    }
}

/// Whether the client reads JSON rather than text: it says so, or it sent JSON itself.
fn wants_json(head: &RequestHead) -> bool {
    let mentions = |name: &str| head.fields.get_all(name).any(|value| memchr::memmem::find(value, b"json").is_some());
    mentions("accept") || mentions("content-type")
}

/// Body and content type of a refusal: a problem document (RFC 9457) for API clients, a line of text for others.
pub fn body(status: u16, head: &RequestHead) -> (Vec<u8>, &'static str) {
    let mut body = Vec::with_capacity(96);
    let title = reason_phrase(status);
    if wants_json(head) {
        let _ = writeln!(body, "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status}}}");
        (body, "application/problem+json")
    } else {
        let _ = writeln!(body, "{status} {title}");
        (body, "text/plain; charset=utf-8")
    }
}
