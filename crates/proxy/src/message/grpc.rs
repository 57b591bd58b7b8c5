//! Rejections of gRPC calls: HTTP status 200 and a gRPC status in the response head ("Trailers-Only" of the protocol), since clients of gRPC
//! read no other status and no text. Only over HTTP/2 and HTTP/3; HTTP/1 carries no gRPC.
//!
//! gRPC has a table of what a client makes of an HTTP status (`doc/http-grpc-status-mapping.md`). It is for clients that know nothing else; what we
//! reject we know the reason of, so the code is the one whose definition fits (`doc/statuscodes.md`). The two differ where it decides what clients
//! do next: many retry UNAVAILABLE by themselves, which is wrong where a limit was reached, or where the call may have been executed.

use reason::Reason;
use wire::http::{RequestHead, Version};

/// Content type of the rejection, whatever message format the call used.
pub(crate) const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Whether a request is a gRPC call: `application/grpc`, alone or with a message format (`+proto`) or parameters. gRPC-Web is none: it
/// reads the HTTP status.
pub(crate) fn is_call(head: &RequestHead) -> bool {
    // A status 200 would open a WebSocket.
    if !matches!(head.version, Version::H2 | Version::H3) || head.upgrade.is_some() {
        return false;
    }
    let Some(value) = head.fields.get("content-type") else { return false };
    match value.split_at_checked(CONTENT_TYPE.len()) {
        Some((name, rest)) => {
            name.eq_ignore_ascii_case(CONTENT_TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
        }
        None => false,
    }
}

/// The gRPC status of a rejection.
pub(crate) fn status(http: u16, reason: Reason) -> &'static str {
    match (http, reason) {
        // Nothing was sent, so the call may go to another server.
        (_, Reason::UpstreamConnectTimeout) => "14",
        (400 | 411 | 415 | 417 | 422, _) => "3", // INVALID_ARGUMENT
        (300..=399 | 401, _) => "16", // UNAUTHENTICATED: an authentication service sends elsewhere to sign in
        (403, _) => "7",              // PERMISSION_DENIED
        (404 | 405 | 501, _) => "12", // UNIMPLEMENTED
        (408 | 504, _) => "4",        // DEADLINE_EXCEEDED
        (413 | 414 | 429 | 431, _) => "8", // RESOURCE_EXHAUSTED
        (500, _) => "13",             // INTERNAL
        // 421: this connection may not have the request; over one of its own the call may succeed, and it was not executed.
        (421 | 502 | 503, _) => "14", // UNAVAILABLE
        _ => "2",                     // UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http::Method;

    #[test]
    fn calls_are_known_by_their_content_type_beyond_http1() {
        for (version, content_type, expected) in [
            (Version::H2, "application/grpc", true),
            (Version::H2, "Application/GRPC+proto", true),
            (Version::H2, "application/grpc;x=y", true),
            (Version::H2, "application/grpc-web", false),
            (Version::H2, "application/grpcx", false),
            (Version::H2, "application/grp", false),
            (Version::H2, "text/plain", false),
            (Version::H3, "application/grpc", true),
            (Version::H3, "application/grpc-web", false),
            (Version::H11, "application/grpc", false),
        ] {
            let mut head = RequestHead { version, method: Method::Post, ..RequestHead::default() };
            head.fields.push(b"content-type", content_type.as_bytes());
            assert_eq!(is_call(&head), expected, "{version:?} {content_type}");
        }
        assert!(!is_call(&RequestHead { version: Version::H2, ..RequestHead::default() }));
    }

    #[test]
    fn a_status_says_what_clients_should_do_next() {
        for (reason, expected) in [
            (Reason::EncodedSlash, "3"),
            (Reason::UnknownExpectation, "3"),
            (Reason::CredentialsMissing, "16"),
            (Reason::AddressNotAllowed, "7"),
            (Reason::NoRoute, "12"),
            (Reason::MethodNotAllowed, "12"),
            (Reason::WebsocketNotOffered, "12"),
            (Reason::BodyTooLarge, "8"),
            (Reason::RequestHeadTooLarge, "8"),
            (Reason::RateLimited, "8"),
            (Reason::ConcurrencyLimited, "8"),
            (Reason::OverallConcurrencyLimited, "14"),
            (Reason::Maintenance, "14"),
            (Reason::RequestBodyTimeout, "4"),
            (Reason::ValidatorPanic, "13"),
            (Reason::UpstreamRefused, "14"),
            (Reason::UpstreamOverflow, "14"),
            // It has not been sent, so it can be sent again; what timed out later may have been executed.
            (Reason::UpstreamConnectTimeout, "14"),
            (Reason::ResponseHeaderTimeout, "4"),
            (Reason::UpstreamTotalTimeout, "4"),
            // It has not been executed, and may succeed over another connection.
            (Reason::TlsPolicyMismatch, "14"),
            (Reason::ListenerRemoved, "14"),
        ] {
            assert_eq!(status(reason.status(), reason), expected, "{reason:?}");
        }
        assert_eq!(status(302, Reason::AuthServiceDenied), "16", "a page to sign in at");
    }
}
