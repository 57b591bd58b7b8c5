//! A canonical path with its escapes decoded, for expressions that are meant so. Escapes of what a path may hold as it is stay: an escaped reserved
//! character is not that character (RFC 3986 §2.2), and a path that is of another route once it is decoded is rejected as ambiguous.

use wire::http::percent::{self, is_unreserved};

/// Whether a path holds this octet as it is (RFC 3986 §3.3).
fn is_of_paths(octet: u8) -> bool {
    is_unreserved(octet) || b"!$&'()*+,;=:@/".contains(&octet)
}

/// The octet at the start of a path, and how long it is there.
fn first(path: &[u8]) -> Option<(u8, usize)> {
    let escaped = match path {
        [b'%', high, low, ..] => percent::decode(*high, *low),
        _ => None,
    };
    match escaped {
        Some(octet) if !is_of_paths(octet) => Some((octet, 3)),
        _ => path.first().map(|octet| (*octet, 1)),
    }
}

/// The path with its escapes decoded; none where that is the same.
pub(super) fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'%', path)?;
    let (mut out, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((octet, length)) = first(rest) {
        out.push(octet);
        rest = rest.get(length..).unwrap_or_default();
    }
    Some(out)
}

/// Where in the path an octet of the decoded path stands.
pub(super) fn place(path: &[u8], octet: usize) -> usize {
    let mut rest = path;
    for _ in 0..octet {
        let Some((_, length)) = first(rest) else { break };
        rest = rest.get(length..).unwrap_or_default();
    }
    path.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_cannot_hold_is_decoded() {
        for (path, expected) in [
            ("/a%20b", "/a b"),
            ("/%C3%A9%25", "/\u{e9}%"),
            ("/a%3Ab%2Fc%40", "/a%3Ab%2Fc%40"),
            ("/%2525%22", "/%25\""),
            ("/%253A", "/%3A"),
        ] {
            assert_eq!(decoded(path.as_bytes()).as_deref(), Some(expected.as_bytes()), "{path}");
        }
        assert_eq!(decoded(b"/a:b"), None);
        assert_eq!((place(b"/a%20b", 2), place(b"/a%20b", 3), place(b"/a%20b", 4), place(b"/a", 9)), (2, 5, 6, 2));
    }
}
