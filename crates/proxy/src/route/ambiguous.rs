//! Paths that an upstream may read as another path than we do.
//!
//! We match a path as it is written. Many servers make runs of slashes one, and drop what follows `;` in a segment (parameters, RFC 3986 §3.3), some
//! only after they have decoded `%3B` and `%2F`. Where the path so simplified belongs to a more specific route, or to another operation of a contract,
//! a request could get around what that demands. Such requests are rejected; nobody writes URLs so who means well.

use config::{PathPattern, Segment};
use memchr::memmem;
use wire::http::head::RequestHead;

/// The other paths that servers may read that of a request as: without decoding and with. Empty ones are none.
pub fn readings(head: &RequestHead) -> [Vec<u8>; 2] {
    if head.has_plain_path { [Vec::new(), Vec::new()] } else { of_path(head.path()) }
}

/// As [`readings`], of a path that nobody has looked at.
fn of_path(path: &[u8]) -> [Vec<u8>; 2] {
    let has_escapes = memmem::find(path, b"3B").is_some() || memmem::find(path, b"2F").is_some();
    let decoded = if has_escapes { simplified(&decoded(path)) } else { Vec::new() };
    [simplified(path), decoded].map(|reading| if reading == path { Vec::new() } else { reading })
}

/// With `%3B` and `%2F` decoded, however often they were encoded (`%252F`). Canonical paths have upper-case escapes.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        (rest, _) = match encoded_separator(rest) {
            Some((separator, after)) => (after, out.push(separator)),
            None => (after, out.push(*first)),
        };
    }
    out
}

/// The `;` or `/` that an escape at the start of `path` stands for, and what follows it.
fn encoded_separator(path: &[u8]) -> Option<(u8, &[u8])> {
    let mut digits = path.strip_prefix(b"%")?;
    while let Some(inner) = digits.strip_prefix(b"25") {
        digits = inner;
    }
    match digits {
        [b'3', b'B', after @ ..] => Some((b';', after)),
        [b'2', b'F', after @ ..] => Some((b'/', after)),
        _ => None,
    }
}

/// Without parameters and without empty segments but the last one.
fn simplified(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut ends_in_slash = true;
    for segment in path.split(|byte| *byte == b'/') {
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        ends_in_slash = name.is_empty();
        if !ends_in_slash {
            out.push(b'/');
            out.extend_from_slice(name);
        }
    }
    if ends_in_slash {
        out.push(b'/');
    }
    out
}

/// Whether the value of a parameter of the path, not empty as it is written, is so for a server that drops `;` parameters, with escapes decoded or as they
/// are. A path with such a value is another one there: `/;/public` is `/public`.
pub(crate) fn is_void(value: &[u8]) -> bool {
    let is_void = |value: &[u8]| {
        value.split(|byte| *byte == b'/').all(|segment| segment.first().is_none_or(|first| *first == b';'))
    };
    !value.is_empty() && (is_void(value) || is_void(&decoded(value)))
}

/// Whether a pattern is more specific than another at the first segment where they differ in that. Of two other expressions each may be.
pub(super) fn is_more_specific(one: &PathPattern, other: &PathPattern) -> bool {
    let rank = |segment: Option<&Segment>| match segment {
        Some(Segment::Static(_)) => usize::MAX,
        Some(Segment::Regex(_)) => usize::MAX - 1,
        Some(Segment::Param { prefix, .. }) => prefix.len() + 1,
        Some(Segment::CatchAll { .. }) | None => 0,
    };
    let longest = one.segments.len().max(other.segments.len());
    let ranks = (0..longest).map(|at| (rank(one.segments.get(at)), rank(other.segments.get(at))));
    // Two expressions: neither is known to be no more specific.
    let both_expressions = one.expression().is_some() && other.expression().is_some();
    ranks.into_iter().find(|(one, other)| one != other).map_or(both_expressions, |(one, other)| one > other)
}

#[cfg(test)]
mod tests {
    use wire::http::target::is_plain;

    use super::*;

    #[test]
    fn values_that_are_empty_elsewhere() {
        for void in [";", ";a", ";a=b;c", "%3B", "%3Ba", "%253B", "%2F", "%2F;a", ";a%2F", "%2F%3Bx", ";%2F;", ";%2Fa"]
        {
            assert!(is_void(void.as_bytes()), "{void}");
        }
        for value in ["", "a", "a;", "a%3B", "%2Fa", "%20", "-;"] {
            assert!(!is_void(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn paths_as_other_servers_read_them() {
        for (path, plain, with_escapes) in [
            ("/", "", ""),
            ("/a/b", "", ""),
            ("/a/", "", ""),
            ("/a%20b/c", "", ""),
            ("//", "/", ""),
            ("//a", "/a", ""),
            ("/a//b///c", "/a/b/c", ""),
            ("/a//", "/a/", ""),
            ("/a;b", "/a", ""),
            ("/a;b=c;d/e;f", "/a/e", ""),
            ("/;a/b", "/b", ""),
            ("/a/;b", "/a/", ""),
            ("/;/;/a;/", "/a/", ""),
            ("/a%3Bb", "", "/a"),
            ("/a%2Fb", "", "/a/b"),
            ("/a;%2Fb/c", "/a/c", "/a/b/c"),
            ("/a%2F%2Fb%3B%2Fc", "", "/a/b/c"),
            ("/a%252Fb%25253Bc", "", "/a/b"),
            ("/a%2525b%25", "", ""),
        ] {
            let found = of_path(path.as_bytes()).map(|reading| String::from_utf8(reading).unwrap_or_default());
            assert_eq!(found, [plain, with_escapes], "{path}");
            assert!(!is_plain(path.as_bytes()) || found.concat().is_empty(), "{path}");
        }
    }
}
