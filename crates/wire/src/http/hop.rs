//! Fields that are meant for the next hop only (RFC 9110 §7.6.1), and fields that must not come in trailers (§6.5.1).
//!
//! Owns these two lists. Does not decide what replaces a field that is removed, nor whom to believe: the program removes what
//! clients say about identity first, and sets its own fields last, so that no Connection field can take them away.

use super::fields::{Fields, list_items};

/// Removed whether Connection names them or not. Proxy-Authenticate, Proxy-Authorization and Trailer stay, as RFC 9110
/// §7.6.1 no longer lists them; Trailer describes trailers that we forward.
const HOP_BY_HOP: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// Cannot be nominated. They say where a message goes, who sends it and how its content is read: without one of them the
/// upstream would see another message than the one that was judged. A sender must not nominate them (RFC 9110 §7.6.1), so
/// ignoring it harms nobody honest.
const NEVER_NOMINATED: [&str; 9] = [
    "authorization",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "host",
    "set-cookie",
];

/// Refused in trailers: framing, routing, request modifiers, authentication, cookies, content description, and what
/// proxies say about the client (RFC 9110 §6.5.1).
const NOT_IN_TRAILERS: [&str; 44] = [
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "early-data",
    "expect",
    "expires",
    "forwarded",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "true-client-ip",
    "upgrade",
    "vary",
    "via",
    "www-authenticate",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-real-ip",
];

/// Removes the fields that end at this hop: the list above, and what the Connection fields nominate (RFC 9110 §7.6.1).
///
/// A nomination of `Host`, `Authorization`, `Cookie`, `Set-Cookie`, `Cache-Control` or a `Content-*` field that describes
/// the content is ignored. `TE: trailers` goes too: whoever forwards trailers says so anew.
pub fn strip_hop_by_hop(fields: &mut Fields) {
    // Copied only where a Connection field names more than the usual options.
    let nominated: Vec<Vec<u8>> = fields
        .get_all("connection")
        .flat_map(list_items)
        .filter(|option| !option.eq_ignore_ascii_case(b"close") && !is_one_of(option, &HOP_BY_HOP))
        .filter(|option| !is_one_of(option, &NEVER_NOMINATED))
        .map(<[u8]>::to_vec)
        .collect();
    fields.retain(|name, _| {
        !is_one_of(name, &HOP_BY_HOP) && !nominated.iter().any(|option| option.eq_ignore_ascii_case(name))
    });
}

/// Whether a trailer field called `name` (in any case) is refused, in HTTP/1 as in HTTP/2 (RFC 9110 §6.5.1).
pub fn is_forbidden_in_trailers(name: &[u8]) -> bool {
    const FORWARDED: &[u8] = b"x-forwarded-";
    is_one_of(name, &NOT_IN_TRAILERS)
        || name.get(..FORWARDED.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORWARDED))
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(sent: &[(&str, &str)], kept: &[&str]) {
        let mut fields = Fields::new();
        for (name, value) in sent {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        strip_hop_by_hop(&mut fields);
        let names: Vec<&str> = fields.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(names, kept, "{sent:?}");
    }

    #[test]
    fn strips_what_ends_here() {
        check(&[("Host", "a"), ("Accept", "b")], &["Host", "Accept"]);
        check(&[("TE", "trailers"), ("Keep-Alive", "timeout=5"), ("Trailer", "x"), ("A", "")], &["Trailer", "A"]);
        check(&[("Proxy-Connection", "close"), ("upgrade", "h2c"), ("Transfer-Encoding", "chunked")], &[]);
        check(&[("A", "1"), ("Connection", "close, a"), ("B", "2"), ("CONNECTION", "B,"), ("C", "3")], &["C"]);
        check(&[("Proxy-Authorization", "x"), ("Connection", "close")], &["Proxy-Authorization"]);
    }

    #[test]
    fn what_a_message_means_cannot_be_nominated_away() {
        for name in NEVER_NOMINATED {
            check(&[("Connection", &name.to_ascii_uppercase()), (name, "x")], &[name]);
        }
    }

    #[test]
    fn trailers() {
        for name in ["Content-Length", "HOST", "X-Forwarded-For", "x-forwarded-anything", "set-cookie", "Trailer"] {
            assert!(is_forbidden_in_trailers(name.as_bytes()), "{name}");
        }
        for name in ["Grpc-Status", "X-Checksum", "x-forwarded", "ETag", "Server-Timing", "Content-MD5"] {
            assert!(!is_forbidden_in_trailers(name.as_bytes()), "{name}");
        }
        assert!(NOT_IN_TRAILERS.is_sorted());
    }
}
