//! Rejections of gRPC calls: HTTP status 200 and a gRPC status in the response head ("Trailers-Only" of the protocol), since clients of gRPC
//! read no other status and no text. Only over HTTP/2; HTTP/1 carries no gRPC.
//!
//! The codes are those of gRPC's own table for responses of intermediaries (`doc/http-grpc-status-mapping.md` of the protocol).

use wire::http::{RequestHead, Version};

/// Content type of the rejection, whatever message format the call used.
pub(crate) const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Whether a request is a gRPC call: `application/grpc`, alone or with a message format (`+proto`) or parameters. gRPC-Web is none: it
/// reads the HTTP status.
pub(crate) fn is_call(head: &RequestHead) -> bool {
    // A status 200 would open a WebSocket.
    if head.version != Version::H2 || head.upgrade.is_some() {
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

/// The gRPC status for an HTTP status.
pub(crate) fn status(http: u16) -> &'static str {
    match http {
        400 => "13",                   // INTERNAL
        401 => "16",                   // UNAUTHENTICATED
        403 => "7",                    // PERMISSION_DENIED
        404 => "12",                   // UNIMPLEMENTED
        429 | 502 | 503 | 504 => "14", // UNAVAILABLE
        _ => "2",                      // UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http::Method;

    #[test]
    fn calls_are_known_by_their_content_type_on_http2() {
        for (version, content_type, expected) in [
            (Version::H2, "application/grpc", true),
            (Version::H2, "Application/GRPC+proto", true),
            (Version::H2, "application/grpc;x=y", true),
            (Version::H2, "application/grpc-web", false),
            (Version::H2, "application/grpcx", false),
            (Version::H2, "application/grp", false),
            (Version::H2, "text/plain", false),
            (Version::H11, "application/grpc", false),
        ] {
            let mut head = RequestHead { version, method: Method::Post, ..RequestHead::default() };
            head.fields.push(b"content-type", content_type.as_bytes());
            assert_eq!(is_call(&head), expected, "{version:?} {content_type}");
        }
        assert!(!is_call(&RequestHead { version: Version::H2, ..RequestHead::default() }));
    }

    #[test]
    fn statuses_follow_the_table_of_the_protocol() {
        let rows =
            [(400, "13"), (401, "16"), (403, "7"), (404, "12"), (429, "14"), (502, "14"), (503, "14"), (504, "14")];
        for (http, grpc) in rows.into_iter().chain([(405, "2"), (408, "2"), (413, "2"), (421, "2"), (500, "2")]) {
            assert_eq!(status(http), grpc, "{http}");
        }
    }
}
