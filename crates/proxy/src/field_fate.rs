//! What becomes of a request's fields on the way to the upstream, by their names alone.

use config::Forwarding;
use wire::http::field_kind::FieldKind;

/// What becomes of a field that a client sends, whatever its route does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It goes on as it is.
    Forwarded,
    /// It ends here, or what goes on under its name is written by us.
    Rewritten,
    /// It ends here and nothing goes on under its name.
    Dropped,
}

/// What becomes of a field of this name (in lower case) in a request under a contract.
pub fn fate(name: &str, forwarding: &Forwarding) -> Fate {
    let is_written = match name {
        // Of what is about the connection these are forwarded in a form of our own.
        "te" | "upgrade" | "connection" | "transfer-encoding" => true,
        "via" => forwarding.via,
        "x-request-id" => forwarding.request_id,
        "traceparent" | "tracestate" => forwarding.traces,
        _ => rewrites(forwarding, name.as_bytes()),
    };
    match FieldKind::of(name.as_bytes()) {
        FieldKind::Plain if is_written => Fate::Rewritten,
        FieldKind::Plain => Fate::Forwarded,
        FieldKind::Ours | FieldKind::Expect | FieldKind::ClientCertificate => Fate::Rewritten,
        // From a trusted proxy it may go on.
        FieldKind::Forwarding if forwarding.trusts_field(name.as_bytes()) => Fate::Rewritten,
        FieldKind::Hop | FieldKind::Forwarding | FieldKind::RequestId if is_written => Fate::Rewritten,
        FieldKind::Hop | FieldKind::Forwarding | FieldKind::RequestId | FieldKind::MethodOverride => Fate::Dropped,
    }
}

/// Whether we write this forwarding field ourselves, so that a trusted copy must not stay beside it.
pub fn rewrites(forwarding: &Forwarding, name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    if is("forwarded") {
        forwarding.forwarded
    } else if is("x-real-ip") {
        forwarding.x_real_ip
    } else {
        let is_written = is("x-forwarded-for")
            || is("x-forwarded-proto")
            || is("x-forwarded-host") && forwarding.x_forwarded_host
            || is("x-forwarded-port") && forwarding.x_forwarded_port;
        forwarding.x_forwarded && is_written
    }
}
