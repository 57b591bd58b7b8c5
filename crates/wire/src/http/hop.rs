//! Fields that are meant for the next hop only (RFC 9110 §7.6.1), and fields that must not come in trailers (§6.5.1).
//!
//! Owns these two lists. Does not decide what replaces a field that is removed, nor whom to believe: the program removes what
//! clients say about identity first, and sets its own fields last, so that no Connection field can take them away.

use super::fields::{Fields, list_items};

/// Cannot be nominated. They say where a message goes, who sends it and how its content is read: without one of them the
/// upstream would see another message than the one that was checked. A sender must not nominate them (RFC 9110 §7.6.1), so
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

/// Rejected in trailers: framing, routing, request modifiers, authentication, cookies, content description, and what
/// proxies say about the client (RFC 9110 §6.5.1).
const NOT_IN_TRAILERS: [&str; 51] = [
    "age",
    "authorization",
    "cache-control",
    "client-cert",
    "client-cert-chain",
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
    "x-client-ip",
    "x-cluster-client-ip",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Whether the Connection fields name anything beyond the usual options, so that each field has to be looked up there.
pub fn nominates_any(fields: &Fields) -> bool {
    let is_usual = |option: &[u8]| is_one_of(option, &["close", "keep-alive", "upgrade", "te"]);
    fields.get_all("connection").flat_map(list_items).any(|option| !is_usual(option))
}

/// Whether a Connection field nominates the field `name` (in any case) as ending here (RFC 9110 §7.6.1). Never true of `Host`,
/// `Authorization`, `Cookie`, `Set-Cookie`, `Cache-Control` and the `Content-*` fields that describe the content.
pub fn is_nominated(fields: &Fields, name: &[u8]) -> bool {
    let mut options = fields.get_all("connection").flat_map(list_items);
    options.any(|option| option.eq_ignore_ascii_case(name)) && !is_one_of(name, &NEVER_NOMINATED)
}

/// Whether a trailer field called `name` (in any case) is rejected, in HTTP/1 as in HTTP/2 (RFC 9110 §6.5.1).
pub fn is_forbidden_in_trailers(name: &[u8]) -> bool {
    const FAMILIES: [&[u8]; 2] = [b"x-forwarded-", b"x-client-cert-"];
    let begins = |family: &[u8]| name.get(..family.len()).is_some_and(|start| start.eq_ignore_ascii_case(family));
    is_one_of(name, &NOT_IN_TRAILERS) || FAMILIES.into_iter().any(begins)
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(connection: &[&str], nominated: &[&str], others: &[&str]) {
        let mut fields = Fields::new();
        connection.iter().for_each(|value| fields.push(b"Connection", value.as_bytes()));
        for name in nominated {
            assert!(is_nominated(&fields, name.as_bytes()) && nominates_any(&fields), "{connection:?} {name}");
        }
        for name in others {
            assert!(!is_nominated(&fields, name.as_bytes()), "{connection:?} {name}");
        }
    }

    #[test]
    fn what_connection_names_ends_here() {
        check(&[], &[], &["close", "a"]);
        check(&["close, a", "B,"], &["A", "b"], &["c"]);
        check(&["keep-alive, Upgrade"], &[], &["x-real-ip"]);
        assert!(!nominates_any(&Fields::new()));
    }

    #[test]
    fn what_a_message_means_cannot_be_nominated_away() {
        for name in NEVER_NOMINATED {
            check(&[&name.to_ascii_uppercase()], &[], &[name]);
        }
    }

    #[test]
    fn trailers() {
        for name in [
            "Content-Length",
            "HOST",
            "X-Forwarded-For",
            "x-forwarded-anything",
            "set-cookie",
            "Trailer",
            "X-Client-Cert-Subject",
            "Client-Cert",
        ] {
            assert!(is_forbidden_in_trailers(name.as_bytes()), "{name}");
        }
        for name in ["Grpc-Status", "X-Checksum", "x-forwarded", "ETag", "Server-Timing", "Content-MD5"] {
            assert!(!is_forbidden_in_trailers(name.as_bytes()), "{name}");
        }
        assert!(NOT_IN_TRAILERS.is_sorted());
    }
}
