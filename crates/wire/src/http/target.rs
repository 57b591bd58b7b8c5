//! Request targets and authorities (RFC 9112 §3.2, RFC 3986): one canonical form, decided and forwarded alike.
//!
//! Owns what a path, a query and an authority may look like. Does not know routes, and does not normalise away what is
//! ambiguous: that is refused, because the upstream may read it in the other way.

use std::io::Write;
use std::net::Ipv6Addr;

use reason::Reason;

use super::head::{HeadError, RequestHead};
use super::octets::{self, HOST, PATH, QUERY, TARGET, UNRESERVED};
use super::percent;

/// The longest host, bytes (RFC 1035 §2.3.4 allows 255 on the wire, 253 as text with its final dot left out).
const MAX_HOST_BYTES: usize = 253;

/// Reads a target in origin form (RFC 9112 §3.2.1) into a head: its canonical path, and its canonical query if it has one.
///
/// # Errors
/// As of [`canonical_path`] and [`canonical_query`].
pub fn read_origin_form(target: &[u8], head: &mut RequestHead) -> Result<(), HeadError> {
    let (path, query) = target.split_at(memchr::memchr(b'?', target).unwrap_or(target.len()));
    head.has_encoded_slash = canonical_path(path, &mut head.target)?;
    head.has_plain_path = is_plain(&head.target);
    head.path_len = head.target.len();
    append_query(query, head)
}

/// Whether a path holds no `;`, no escape and no two slashes in a row.
pub fn is_plain(path: &[u8]) -> bool {
    // Without an early end, so that many bytes are looked at together.
    let is_odd = path.iter().fold(false, |is_odd, byte| is_odd | (*byte == b';') | (*byte == b'%'));
    let pairs = path.iter().zip(path.iter().skip(1));
    !pairs.fold(is_odd, |is_odd, (one, next)| is_odd | ((*one == b'/') & (*next == b'/')))
}

/// Appends a query with its `?`, if there is one.
pub(super) fn append_query(query: &[u8], head: &mut RequestHead) -> Result<(), HeadError> {
    let Some(query) = query.strip_prefix(b"?") else { return Ok(()) };
    head.target.push(b'?');
    canonical_query(query, &mut head.target)
}

/// Appends the canonical form of an absolute path to `out`; says whether it holds an encoded slash.
///
/// Percent-encoded unreserved characters are decoded, other escapes get upper-case digits. What clients send raw although RFC 3986 has it
/// encoded (`"<>[]^{|}`, backquote, UTF-8 beyond ASCII; see the path percent-encode set of the WHATWG URL Standard for what browsers leave raw)
/// is encoded. Rejected: anything not starting with `/`, space, controls, `#` and `?`, malformed escapes, `%00` and other encoded controls,
/// dot segments in any form (`.`, `..`, `%2e`, `..;x`), and what is not UTF-8, raw or escaped.
///
/// Backslash is rejected in any form rather than encoded: browsers write `/` for it before they send, so none sends it, and servers that
/// take it for a separator would read another path than the one that was matched.
///
/// Empty segments (`//`) stay as they are. An encoded slash counts as a slash where dot segments are looked for. An escape
/// that is itself escaped (`%252e`) is rejected where a second decoding would give an unreserved character, a backslash or a
/// control, and counts as an encoded slash where it would give a slash. The result is a fixed point: it is its own canonical form.
///
/// # Errors
/// 400 with a code; what was appended to `out` is then of no use.
pub fn canonical_path(path: &[u8], out: &mut Vec<u8>) -> Result<bool, HeadError> {
    if path.first() != Some(&b'/') {
        return Err(HeadError::of(Reason::PathNotAbsolute));
    }
    let start = out.len();
    let plain = octets::span(path, PATH);
    let (plain, escaped) = path.split_at(plain);
    out.extend_from_slice(plain);
    let has_encoded_slash = if escaped.is_empty() {
        false
    } else {
        canonical_escapes(escaped, out)?;
        check_escapes(out.get(start..).unwrap_or_default())?
    };
    check_dot_segments(out.get(start..).unwrap_or_default())?;
    Ok(has_encoded_slash)
}

/// Appends `path`, decoding escapes of unreserved characters and writing the others in upper case.
fn canonical_escapes(mut path: &[u8], out: &mut Vec<u8>) -> Result<(), HeadError> {
    while let Some((&octet, rest)) = path.split_first() {
        if octet != b'%' {
            match octet {
                _ if octets::is(octet, PATH) => out.push(octet),
                0x80.. => {
                    path = multibyte(path, out)?;
                    continue;
                }
                b'\\' => return Err(HeadError::of(Reason::BackslashInPath)),
                b'#' | b'?' => return Err(HeadError::of(Reason::BadPathByte)),
                _ if octets::is(octet, TARGET) => percent::push(octet, out),
                _ => return Err(HeadError::of(Reason::BadPathByte)),
            }
            path = rest;
            continue;
        }
        let octet = escape(path)?;
        match octet {
            _ if octets::is(octet, UNRESERVED) => out.push(octet),
            0..=0x1f | 0x7f => return Err(HeadError::of(Reason::EncodedControlInPath)),
            b'\\' => return Err(HeadError::of(Reason::BackslashInPath)),
            0x80.. => {
                path = multibyte(path, out)?;
                continue;
            }
            _ => percent::push(octet, out),
        }
        path = path.get(3..).unwrap_or_default();
    }
    Ok(())
}

/// Appends the escapes of the character beyond ASCII at the start of `path`, whose octets are raw or escaped; gives what follows it.
fn multibyte<'a>(mut path: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], HeadError> {
    const BAD: HeadError = HeadError::of(Reason::PathNotUtf8);
    let mut character = [0u8; 4];
    let len = match octet_beyond_ascii(path)?.0 {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Err(BAD),
    };
    let Some(character) = character.get_mut(..len) else { return Err(BAD) };
    for octet in character.iter_mut() {
        (*octet, path) = octet_beyond_ascii(path)?;
        percent::push(*octet, out);
    }
    // Finds what the first octet does not tell: overlong forms, surrogates, and values past U+10FFFF.
    std::str::from_utf8(character).map(|_| path).map_err(|_| BAD)
}

/// The first octet of `path`, raw or escaped, where one beyond ASCII must stand; and what follows it.
fn octet_beyond_ascii(path: &[u8]) -> Result<(u8, &[u8]), HeadError> {
    match path {
        [octet @ 0x80..=0xff, rest @ ..] => Ok((*octet, rest)),
        [b'%', ..] => Ok((escape(path)?, path.get(3..).unwrap_or_default())),
        _ => Err(HeadError::of(Reason::PathNotUtf8)),
    }
}

/// The octet that the escape at the start of `path` stands for.
fn escape(path: &[u8]) -> Result<u8, HeadError> {
    match path {
        [b'%', high, low, ..] => percent::decode(*high, *low),
        _ => None,
    }
    .ok_or(HeadError::of(Reason::BadPercentEncoding))
}

/// Looks for slashes among the escapes of a canonical path, and for escapes that were escaped once more.
fn check_escapes(path: &[u8]) -> Result<bool, HeadError> {
    let mut has_encoded_slash = false;
    for at in memchr::memchr_iter(b'%', path) {
        let rest = path.get(at..).unwrap_or_default();
        match innermost_escape(rest) {
            Some(b'/') => has_encoded_slash = true,
            Some(inner) if rest.starts_with(b"%25") && is_never_escaped_twice(inner) => {
                return Err(HeadError::of(Reason::DoubleEncoding));
            }
            _ => {}
        }
    }
    Ok(has_encoded_slash)
}

/// What the escape at the start of `path` stands for once it is decoded as often as it can be: `%25252F` is a slash.
fn innermost_escape(path: &[u8]) -> Option<u8> {
    let mut digits = path.strip_prefix(b"%")?;
    while let Some(inner) = digits.strip_prefix(b"25") {
        digits = inner;
    }
    match digits {
        [high, low, ..] => percent::decode(*high, *low),
        _ => None,
    }
}

/// Whether nobody with honest intent escapes `octet` twice: what an encoder leaves as it is, and what is rejected anyway.
/// Encoders that run twice over a URL do it with reserved characters and text beyond ASCII only.
fn is_never_escaped_twice(octet: u8) -> bool {
    octets::is(octet, UNRESERVED) || octet == b'\\' || octet.is_ascii_control()
}

/// Rejects segments that are `.` or `..` once their parameters are cut, in a canonical path.
fn check_dot_segments(path: &[u8]) -> Result<(), HeadError> {
    for at in memchr::memchr_iter(b'.', path) {
        let (before, dots) = path.split_at(at);
        if !before.ends_with(b"/") && !ends_with_encoded_slash(before) {
            continue;
        }
        let after = dots.strip_prefix(b"..").or_else(|| dots.strip_prefix(b".")).unwrap_or_default();
        // Where `?` and `#` are decoded, some servers end the path there.
        let ends = matches!(after, [] | [b'/' | b';', ..])
            || matches!(innermost_escape(after), Some(b'/' | b';' | b'?' | b'#'));
        if ends {
            return Err(HeadError::of(Reason::DotSegment));
        }
    }
    Ok(())
}

/// Whether `before` ends in `%2F`, however often its percent sign is escaped.
fn ends_with_encoded_slash(before: &[u8]) -> bool {
    let Some((mut before, b"2F" | b"2f")) = before.split_last_chunk::<2>() else { return false };
    while let Some(outer) = before.strip_suffix(b"25") {
        before = outer;
    }
    before.ends_with(b"%")
}

/// Appends the canonical form of a query (without `?`) to `out`: what RFC 3986 §3.4 allows stays as it is, escapes included, and other octets
/// are percent-encoded, whatever their charset. Rejected: space, controls and `#`.
///
/// `%` may stand before anything: what a parameter means is decided by who reads it. The result is a fixed point.
///
/// # Errors
/// 400 with a code; what was appended to `out` is then of no use.
pub fn canonical_query(mut query: &[u8], out: &mut Vec<u8>) -> Result<(), HeadError> {
    loop {
        let (plain, rest) = query.split_at(octets::span(query, QUERY));
        out.extend_from_slice(plain);
        match rest.split_first() {
            None => return Ok(()),
            Some((&octet, rest)) if octet != b'#' && octets::is(octet, TARGET) => {
                percent::push(octet, out);
                query = rest;
            }
            Some(_) => return Err(HeadError::of(Reason::BadQueryByte)),
        }
    }
}

/// Appends `host[:port]` to `out` in lower case: a registered name of letter, digit, hyphen, dot and underscore, an IPv4 address or a bracketed IPv6
/// address; port 1 to 65535. Userinfo, empty hosts and anything else are rejected.
///
/// One final dot of a name is left out, as SNI leaves it out (RFC 6066 §3); empty labels and names over 253 bytes are
/// rejected. An IPv6 address is written as RFC 5952 says. A port keeps no leading zeros because it may have none, and the
/// default port of a scheme stays.
///
/// # Errors
/// 400 with a code; what was appended to `out` is then of no use.
pub fn canonical_authority(authority: &[u8], out: &mut Vec<u8>) -> Result<(), HeadError> {
    let port = match authority {
        [b'[', rest @ ..] => {
            let Some(end) = memchr::memchr(b']', rest) else { return Err(HeadError::of(Reason::BadHost)) };
            let (address, after) = rest.split_at(end);
            let address = std::str::from_utf8(address).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
            let Some(address) = address else { return Err(HeadError::of(Reason::BadHost)) };
            // Writing to a vector cannot fail.
            let _ = write!(out, "[{address}]");
            after.get(1..).unwrap_or_default()
        }
        _ => {
            let (host, port) = authority.split_at(memchr::memchr(b':', authority).unwrap_or(authority.len()));
            push_registered_name(host, out)?;
            port
        }
    };
    let digits = match port {
        // An empty port is the default one, and its colon is left out (RFC 3986 §6.2.3).
        [] | [b':'] => return Ok(()),
        [b':', digits @ ..] => digits,
        _ => return Err(HeadError::of(Reason::BadHost)),
    };
    let number = digits.iter().fold(0u32, |number, &digit| {
        if digit.is_ascii_digit() {
            number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        } else {
            u32::MAX
        }
    });
    if digits.len() > 5 || digits.first() == Some(&b'0') || !(1..=65535).contains(&number) {
        return Err(HeadError::of(Reason::BadPort));
    }
    out.extend_from_slice(port);
    Ok(())
}

fn push_registered_name(name: &[u8], out: &mut Vec<u8>) -> Result<(), HeadError> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    // Two dots that follow each other, and one at an end, have an empty label beside them.
    let (mut allowed, mut before) = (true, b'.');
    for &octet in name {
        allowed &= octets::is(octet, HOST) & !(octet == b'.' && before == b'.');
        before = octet;
    }
    if !allowed || before == b'.' || name.len() > MAX_HOST_BYTES {
        return Err(HeadError::of(Reason::BadHost));
    }
    let start = out.len();
    out.extend_from_slice(name);
    out.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// `Ok` is the canonical path, with a `*` in front if it holds an encoded slash; `Err` is the code.
    fn check(path: &str, expected: Result<&str, &str>) {
        let mut out = b"kept".to_vec();
        match canonical_path(path.as_bytes(), &mut out) {
            Ok(slash) => {
                let text = std::str::from_utf8(out.strip_prefix(b"kept").unwrap()).unwrap();
                let marked = if slash { format!("*{text}") } else { text.to_owned() };
                assert_eq!(Ok(&marked[..]), expected, "{path}");
                let mut again = Vec::new();
                assert_eq!(canonical_path(text.as_bytes(), &mut again), Ok(slash), "{path}");
                assert_eq!(again, text.as_bytes(), "{path}");
            }
            Err(error) => {
                assert_eq!(error.status, 400, "{path}");
                assert_eq!(Err(error.reason.code()), expected, "{path}");
            }
        }
    }

    #[test]
    fn paths_kept_or_made_canonical() {
        check("/", Ok("/"));
        check("/a/b/", Ok("/a/b/"));
        check("//a//", Ok("//a//"));
        check("/a-._~!$&'()*+,;=:@b", Ok("/a-._~!$&'()*+,;=:@b"));
        check("/%61%7e%2D", Ok("/a~-"));
        check("/%e2%82%ac", Ok("/%E2%82%AC"));
        check("/%F0%9f%98%80/%c3%A9x", Ok("/%F0%9F%98%80/%C3%A9x"));
        check("/%20%3f%23%3b%25", Ok("/%20%3F%23%3B%25"));
        check("/a%2fb", Ok("*/a%2Fb"));
        check("/a%252fb", Ok("*/a%252fb"));
        check("/a%25252fb", Ok("*/a%25252fb"));
        check("/100%25", Ok("/100%25"));
        check("/%2520%253a%25C3%25A9%25zz%25", Ok("/%2520%253a%25C3%25A9%25zz%25"));
        check("/a;x=1/b;y", Ok("/a;x=1/b;y"));
        // What clients send raw is encoded once.
        check("/a|b[0]^`", Ok("/a%7Cb%5B0%5D%5E%60"));
        check("/{x}\"<>", Ok("/%7Bx%7D%22%3C%3E"));
        check("/\u{e9}/\u{20ac}\u{1f600}", Ok("/%C3%A9/%E2%82%AC%F0%9F%98%80"));
        check("/%e2\u{20ac}", Err("path_not_utf8"));
        check("/|%7c%7C", Ok("/%7C%7C%7C"));
        check("/.well-known/...", Ok("/.well-known/..."));
        check("/a./b../c.;x", Ok("/a./b../c.;x"));
        check("/..a/.b/;..", Ok("/..a/.b/;.."));
    }

    #[test]
    fn paths_rejected() {
        check("", Err("path_not_absolute"));
        check("a", Err("path_not_absolute"));
        check("*", Err("path_not_absolute"));
        for path in ["/a b", "/a#b", "/a?b", "/a\tb", "/a\0", "/\x7f", "/|#"] {
            check(path, Err("bad_path_byte"));
        }
        for path in ["/\\", "/a/..\\b", "/%5c", "/%5C"] {
            check(path, Err("backslash_in_path"));
        }
        for path in ["/%", "/%4", "/%4g", "/%g4", "/%%", "/%u002e", "/%+1", "/% 1", "/%c3%", "/%c3%zz"] {
            check(path, Err("bad_percent_encoding"));
        }
        for path in ["/%00", "/a%0d%0a", "/%1f", "/%7f"] {
            check(path, Err("encoded_control_in_path"));
        }
        for path in ["/%80", "/%c0%ae", "/%c1%9c", "/%e0%80%ae", "/%ed%a0%80", "/%f4%90%80%80", "/%f5%80%80%80", "/%ff"]
        {
            check(path, Err("path_not_utf8"));
        }
        for path in ["/%c3", "/%c3a", "/%c3/%a9", "/%c3%41", "/%e2%82", "/%e2%82x"] {
            check(path, Err("path_not_utf8"));
        }
    }

    #[test]
    fn dot_segments_rejected_in_any_form() {
        for path in [
            "/.",
            "/..",
            "/./a",
            "/../a",
            "/a/.",
            "/a/..",
            "/a/../b",
            "/%2e",
            "/%2E%2e/",
            "/.%2e",
            "/%2e.",
            "/..;",
            "/..;x=1/a",
            "/.;/a",
            "/%2e%2e;a",
            "/..%3bx",
            "/..%253bx",
            "/..%3f",
            "/.%23a",
            "/..%253Fa",
            "/..%2fa",
            "/a%2f..",
            "/a%2F%2e%2e%2fb",
            "/a%252f../b",
            "/a/..%252fb",
            "//../",
        ] {
            check(path, Err("dot_segment"));
        }
        for path in ["/%252e", "/%252E%252e/", "/%25252e", "/%25%32%65", "/%2561dmin", "/a%2500", "/%255c", "/a%250a"] {
            check(path, Err("double_encoding"));
        }
    }

    #[test]
    fn octets_beyond_ascii_are_utf8_raw_or_escaped() {
        let canonical = |path: &[u8]| {
            let mut out = Vec::new();
            canonical_path(path, &mut out).map(|_| out).map_err(|error| error.reason.code())
        };
        assert_eq!(canonical(b"/\xc3\xa9"), Ok(b"/%C3%A9".to_vec()));
        assert_eq!(canonical(b"/%c3\xa9"), Ok(b"/%C3%A9".to_vec()));
        assert_eq!(canonical(b"/\xe2%82\xac"), Ok(b"/%E2%82%AC".to_vec()));
        for path in
            [&b"/\xe9"[..], b"/\xc3", b"/\xc3a", b"/\xc3/", b"/\xc0\xaf", b"/\xc0%af", b"/\xed\xa0\x80", b"/\xff"]
        {
            assert_eq!(canonical(path), Err("path_not_utf8"), "{}", path.escape_ascii());
        }
    }

    #[test]
    fn queries() {
        let canonical = |query: &[u8]| {
            let mut out = Vec::new();
            canonical_query(query, &mut out).map(|()| out).map_err(|error| error.reason.code())
        };
        for (query, expected) in [
            (&b""[..], &b""[..]),
            (b"a=/?:@!$'()*+,;&b=%20", b"a=/?:@!$'()*+,;&b=%20"),
            (b"100%&%zz%e9%c0%af", b"100%&%zz%e9%c0%af"),
            (b"c=[1]{2}|^\"<>`\\", b"c=%5B1%5D%7B2%7D%7C%5E%22%3C%3E%60%5C"),
            (b"\xc3\xa9\xe9", b"%C3%A9%E9"),
        ] {
            assert_eq!(canonical(query), Ok(expected.to_vec()), "{}", query.escape_ascii());
            assert_eq!(canonical(expected), Ok(expected.to_vec()), "{}", query.escape_ascii());
        }
        for query in [&b"a b"[..], b"a#b", b"a\tb", b"a\0", b"|\x7f", b"|#"] {
            assert_eq!(canonical(query), Err("bad_query_byte"), "{}", query.escape_ascii());
        }
    }

    fn check_authority(authority: &str, expected: Result<&str, &str>) {
        let mut out = b"kept".to_vec();
        match canonical_authority(authority.as_bytes(), &mut out) {
            Ok(()) => {
                let text = std::str::from_utf8(out.strip_prefix(b"kept").unwrap()).unwrap();
                assert_eq!(Ok(text), expected, "{authority}");
                let mut again = Vec::new();
                assert_eq!(canonical_authority(text.as_bytes(), &mut again), Ok(()));
                assert_eq!(again, text.as_bytes());
            }
            Err(error) => {
                assert_eq!(error.status, 400);
                assert_eq!(Err(error.reason.code()), expected, "{authority}");
            }
        }
    }

    #[test]
    fn authorities() {
        check_authority("Example.COM", Ok("example.com"));
        check_authority("example.com.", Ok("example.com"));
        check_authority("example.com.:8443", Ok("example.com:8443"));
        check_authority("Example.com:", Ok("example.com"));
        check_authority("example.com.:", Ok("example.com"));
        check_authority("[2001:DB8::1]:", Ok("[2001:db8::1]"));
        check_authority("a_b-c.9:1", Ok("a_b-c.9:1"));
        check_authority("127.0.0.1:65535", Ok("127.0.0.1:65535"));
        check_authority("[::1]", Ok("[::1]"));
        check_authority("[2001:DB8:0:0:0:0:0:1]:443", Ok("[2001:db8::1]:443"));
        check_authority("[::ffff:1.2.3.4]", Ok("[::ffff:1.2.3.4]"));
        check_authority(&"a".repeat(253), Ok(&"a".repeat(253)));
        for bad in ["", ".", "..", "a..b", ".a", "a..", ":80", "user@host", "user:pw@host", "a b", "a/b", "a,b", "a%41"]
        {
            let code = if bad == "user:pw@host" { "bad_port" } else { "bad_host" };
            check_authority(bad, Err(code));
        }
        for bad in [
            "[",
            "[]",
            "[::1",
            "::1",
            "[::1]x",
            "[::1]80",
            "[1.2.3.4]",
            "[fe80::1%25eth0]",
            "[::1]]",
            "[v1.x]",
            "\u{e9}",
        ] {
            check_authority(bad, Err("bad_host"));
        }
        check_authority(&"a".repeat(254), Err("bad_host"));
        for bad in ["a:0", "a:080", "a:65536", "a:99999999999", "a:+1", "a:1 ", "a:8x", "a:1:2", "[::1]:0"] {
            check_authority(bad, Err("bad_port"));
        }
    }
}
