//! Request heads: from scanned lines to a checked [`RequestHead`] (RFC 9112 §3, §6, §9).
//!
//! Owns what target, Host, framing, Expect and Connection must look like in a request. Does not scan lines: `scan` does.

use reason::Reason;

use super::super::fields::Fields;
use super::super::head::{BodyFraming, HeadError, HeadLimits, MAX_METHOD_BYTES, Method, RequestHead, Version};
use super::super::octets::{self, TARGET, TOKEN};
use super::super::target::{append_query, canonical_authority, read_origin_form};
use super::Parsed;
use super::framing::{ConnectionOptions, content_length, request_coding, upgrade_offer};
use super::scan::{self, Notes, Scanned, Seen, TooLong};

const TOO_LONG: TooLong =
    TooLong { line: HeadError::of(Reason::RequestLineTooLong), head: HeadError::of(Reason::HeadTooLarge) };

/// A request line whose target is not yet looked at.
#[derive(Debug, Clone, Copy)]
struct RequestLine<'a> {
    method: &'a [u8],
    target: &'a [u8],
    version: Version,
}

/// Where the authority of a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthorityFrom {
    Target,
    HostField,
}

/// See [`super::parse_request`].
pub(super) fn parse(bytes: &[u8], limits: &HeadLimits, head: &mut RequestHead) -> Result<Parsed, HeadError> {
    head.clear();
    let start = match bytes.first() {
        Some(b'\r') => match scan::line_end(bytes, 0)? {
            Some(after) => after,
            None => return Ok(Parsed::Partial),
        },
        _ => 0,
    };
    let scanned = scan::head(bytes, start, limits, TOO_LONG, &mut head.fields, request_line)?;
    let Some((line, notes, head_len)) = scanned else { return Ok(Parsed::Partial) };
    interpret(line, &notes, head)?;
    // Percent-encoding may have made it longer than it came.
    if head.target.len() > limits.request_line_bytes {
        return Err(TOO_LONG.line);
    }
    Ok(Parsed::Complete { head_len })
}

fn request_line(window: &[u8], start: usize) -> Scanned<(RequestLine<'_>, usize)> {
    let Some(method) = method_token(window.get(start..).unwrap_or_default())? else { return Ok(None) };
    let target_start = start + method.len() + 1;
    let rest = window.get(target_start..).unwrap_or_default();
    let (target, after) = rest.split_at(octets::span(rest, TARGET));
    match after.first() {
        None => return Ok(None),
        Some(b' ') if !target.is_empty() => {}
        Some(b' ') => return Err(HeadError::of(Reason::EmptyTarget)),
        // `GET /` and a line end is HTTP/0.9.
        Some(b'\r') => return Err(HeadError::of(Reason::MissingVersion)),
        Some(b'\n') => return Err(HeadError::of(Reason::BareLf)),
        Some(_) => return Err(HeadError::of(Reason::BadTargetByte)),
    }
    let version_start = target_start + target.len() + 1;
    let Some(version) = scan::version(window, version_start)? else { return Ok(None) };
    let Some(next) = scan::line_end(window, version_start + 8)? else { return Ok(None) };
    Ok(Some((RequestLine { method, target, version }, next)))
}

fn method_token(rest: &[u8]) -> Scanned<&[u8]> {
    let (method, after) = rest.split_at(octets::span(rest, TOKEN));
    if method.len() > MAX_METHOD_BYTES {
        return Err(HeadError::of(Reason::MethodTooLong));
    }
    match after.first() {
        None => Ok(None),
        Some(b' ') if !method.is_empty() => Ok(Some(method)),
        Some(b'\n') => Err(HeadError::of(Reason::BareLf)),
        Some(_) => Err(HeadError::of(Reason::BadMethod)),
    }
}

/// Checks what the lines mean and completes `head`, whose fields are there already.
fn interpret(line: RequestLine<'_>, notes: &Notes, head: &mut RequestHead) -> Result<(), HeadError> {
    head.version = line.version;
    head.has_unusual_name = notes.has_unusual_name;
    // Of two, one server takes the first and another one the last (RFC 9110 §11.6.2, §5.3).
    if notes.authorization.count > 1 {
        return Err(HeadError::of(Reason::DuplicateAuthorization));
    }
    head.read_method(line.method)?;
    let authority_from = read_target(line.target, head)?;
    head.framing = request_framing(notes, line.version, &head.fields)?;
    head.expects_continue = expects_continue(notes.expect, head)?;
    let options =
        if notes.connection.count > 0 { ConnectionOptions::read(&head.fields)? } else { ConnectionOptions::default() };
    head.keep_alive = options.keep_alive(line.version);
    // An Upgrade field in HTTP/1.0 is ignored (RFC 9110 §7.8).
    if options.upgrade && notes.upgrade.count > 0 && line.version == Version::H11 {
        head.upgrade = upgrade_offer(&head.fields)?;
    }
    // Last, because these may move fields, and the notes tell them by position.
    read_host(notes.host, authority_from, head)?;
    if notes.cookie.count > 1 {
        join_cookies(&mut head.fields);
    }
    Ok(())
}

/// Makes one field of several Cookie fields (RFC 6265 §5.4 has one only; RFC 9113 §8.2.3 says how they are joined), so that everybody reads the same
/// cookies of them.
fn join_cookies(fields: &mut Fields) {
    let joined = fields.get_all("cookie").collect::<Vec<_>>().join(&b"; "[..]);
    fields.set("cookie", &joined);
}

/// Reads the four forms of a target (RFC 9112 §3.2).
fn read_target(target: &[u8], head: &mut RequestHead) -> Result<AuthorityFrom, HeadError> {
    if head.method == Method::Connect {
        canonical_authority(target, &mut head.authority)?;
        if head.host().len() == head.authority.len() {
            return Err(HeadError::of(Reason::ConnectWithoutPort));
        }
        return Ok(AuthorityFrom::Target);
    }
    if target.first() == Some(&b'/') {
        read_origin_form(target, head)?;
        return Ok(AuthorityFrom::HostField);
    }
    if target == b"*" {
        if head.method != Method::Options {
            return Err(HeadError::of(Reason::AsteriskTarget));
        }
        write_asterisk(head);
        return Ok(AuthorityFrom::HostField);
    }
    let secure = strip_scheme(target, b"https://");
    head.says_https = secure.is_some();
    let after_scheme = secure.or_else(|| strip_scheme(target, b"http://")).ok_or(HeadError::of(Reason::BadTarget))?;
    let path_start = after_scheme.iter().position(|octet| matches!(octet, b'/' | b'?')).unwrap_or(after_scheme.len());
    let (authority, origin) = after_scheme.split_at(path_start);
    canonical_authority(authority, &mut head.authority)?;
    match origin.first() {
        // A server asked about itself (RFC 9112 §3.2.4).
        None if head.method == Method::Options => write_asterisk(head),
        Some(b'/') => read_origin_form(origin, head)?,
        _ => {
            head.target.push(b'/');
            (head.path_len, head.has_plain_path) = (1, true);
            append_query(origin, head)?;
        }
    }
    Ok(AuthorityFrom::Target)
}

fn strip_scheme<'a>(target: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn write_asterisk(head: &mut RequestHead) {
    head.target.push(b'*');
    head.path_len = 1;
}

/// Exactly one Host field, and a valid one, also where the target names the authority (RFC 9112 §3.2).
fn read_host(host: Seen, authority_from: AuthorityFrom, head: &mut RequestHead) -> Result<(), HeadError> {
    let sent = match host.count {
        0 if head.version == Version::H10 => None,
        0 => return Err(HeadError::of(Reason::MissingHost)),
        1 => Some(head.fields.value_at(usize::from(host.first))),
        _ => return Err(HeadError::of(Reason::DuplicateHost)),
    };
    let named_by_target = head.authority.len();
    if let Some(sent) = sent {
        canonical_authority(sent, &mut head.authority)?;
    }
    if authority_from == AuthorityFrom::Target {
        head.authority.truncate(named_by_target);
    }
    if !head.authority.is_empty() && sent != Some(&head.authority[..]) {
        head.fields.set("Host", &head.authority);
    }
    Ok(())
}

/// How the body is delimited: stricter than RFC 9112 §6.3, which lets some contradictions pass.
fn request_framing(notes: &Notes, version: Version, fields: &Fields) -> Result<BodyFraming, HeadError> {
    let coding = notes.transfer_encoding;
    if coding.count == 0 {
        let length = content_length(notes.content_length, fields)?;
        return Ok(length.map_or(BodyFraming::None, BodyFraming::Length));
    }
    if notes.content_length.count > 0 {
        return Err(HeadError::of(Reason::LengthAndTransferEncoding));
    }
    if version == Version::H10 {
        return Err(HeadError::of(Reason::TransferEncodingInHttp10));
    }
    if coding.count > 1 {
        return Err(HeadError::of(Reason::DuplicateTransferEncoding));
    }
    request_coding(fields.value_at(usize::from(coding.first)))?;
    Ok(BodyFraming::Chunked)
}

/// RFC 9110 §10.1.1; and a request without content has nothing to continue with.
fn expects_continue(expect: Seen, head: &RequestHead) -> Result<bool, HeadError> {
    match expect.count {
        0 => return Ok(false),
        1 => {}
        _ => return Err(HeadError::of(Reason::DuplicateExpect)),
    }
    if !head.fields.value_at(usize::from(expect.first)).eq_ignore_ascii_case(b"100-continue") {
        return Err(HeadError::of(Reason::UnknownExpectation));
    }
    match (head.version, head.framing) {
        // HTTP/1.0 has no interim responses: the expectation is ignored.
        (Version::H10, _) => Ok(false),
        (_, BodyFraming::None | BodyFraming::Length(0)) => Err(HeadError::of(Reason::ExpectationWithoutBody)),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 4096, request_line_bytes: 1024, fields: 16 };

    fn parsed(text: &str) -> RequestHead {
        let mut head = RequestHead::default();
        let with_more = format!("{text}GET / HTTP/1.1");
        assert_eq!(
            parse(with_more.as_bytes(), &LIMITS, &mut head),
            Ok(Parsed::Complete { head_len: text.len() }),
            "{text:?}"
        );
        head
    }

    fn decision(text: &[u8]) -> Result<(), (u16, &'static str)> {
        match parse(text, &LIMITS, &mut RequestHead::default()) {
            Ok(Parsed::Complete { head_len }) => assert_eq!(head_len, text.len(), "{}", text.escape_ascii()),
            Ok(Parsed::Partial) => panic!("partial: {}", text.escape_ascii()),
            Err(error) => return Err((error.status, error.reason.code())),
        }
        Ok(())
    }

    /// The decision on a whole head.
    fn check(text: &str, expected: Result<(), (u16, &'static str)>) {
        assert_eq!(decision(text.as_bytes()), expected, "{text:?}");
    }

    /// The decision on `GET / HTTP/1.1` with a Host and these fields.
    fn check_fields(fields: &str, expected: Result<(), (u16, &'static str)>) {
        check(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"), expected);
    }

    #[test]
    fn a_typical_request() {
        let head = parsed(
            "GET /a/%7eb?q=1 HTTP/1.1\r\nHost: A.example:8080\r\nUser-Agent:  x y\t\r\nAccept:*/*\r\nEmpty:\r\n\r\n",
        );
        assert_eq!((&head.method, head.version), (&Method::Get, Version::H11));
        assert_eq!((head.path(), head.query()), (&b"/a/~b"[..], &b"?q=1"[..]));
        assert_eq!((&head.authority[..], head.host()), (&b"a.example:8080"[..], &b"a.example"[..]));
        assert_eq!(head.framing, BodyFraming::None);
        assert!(head.keep_alive && !head.expects_continue && !head.has_encoded_slash && head.upgrade.is_none());
        let fields: Vec<_> = head.fields.iter().collect();
        let expected: [(&[u8], &[u8]); 4] =
            [(b"User-Agent", b"x y"), (b"Accept", b"*/*"), (b"Empty", b""), (b"Host", b"a.example:8080")];
        assert_eq!(fields, expected);
    }

    #[test]
    fn host_stays_in_place_where_it_is_canonical() {
        let head = parsed("GET / HTTP/1.1\r\nhOST: a\r\nB: c\r\n\r\n");
        assert_eq!(head.fields.iter().next(), Some((&b"hOST"[..], &b"a"[..])));
    }

    #[test]
    fn first_lines() {
        let line = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
        for good in ["GET / HTTP/1.1", "GET / HTTP/1.0", "\r\nGET / HTTP/1.1", "foo / HTTP/1.1", "TRACE / HTTP/1.1"] {
            check(&line(good), Ok(()));
        }
        for (bad, status, code) in [
            ("GET / HTTP/1.2", 505, "unsupported_version"),
            ("GET / HTTP/2.0", 505, "unsupported_version"),
            ("PRI * HTTP/2.0", 505, "unsupported_version"),
            ("GET / HTTP/0.9", 505, "unsupported_version"),
            ("GET / http/1.1", 400, "bad_version"),
            ("GET / HTTP/1.11", 400, "bad_line_end"),
            ("GET / HTTP/1.1 ", 400, "bad_line_end"),
            ("GET /", 400, "missing_version"),
            ("GET / ", 400, "bad_version"),
            ("GET  / HTTP/1.1", 400, "empty_target"),
            ("GET /  HTTP/1.1", 400, "bad_version"),
            ("GET / a HTTP/1.1", 400, "bad_version"),
            ("GET\t/\tHTTP/1.1", 400, "bad_method"),
            (" GET / HTTP/1.1", 400, "bad_method"),
            ("GET", 400, "bad_method"),
            ("G(T / HTTP/1.1", 400, "bad_method"),
            ("\r\n\r\nGET / HTTP/1.1", 400, "bad_method"),
            ("\nGET / HTTP/1.1", 400, "bare_lf"),
            ("\rGET / HTTP/1.1", 400, "bare_cr"),
            ("GET / HTTP/1.1\n", 400, "bare_lf"),
            ("GET / HTTP/1.1\rx", 400, "bare_cr"),
            ("GET /\u{7f} HTTP/1.1", 400, "bad_target_byte"),
            ("GET /\0 HTTP/1.1", 400, "bad_target_byte"),
            ("GET /\nHTTP/1.1", 400, "bare_lf"),
            ("\u{16}\u{3}\u{1} /", 400, "bad_method"),
        ] {
            check(&line(bad), Err((status, code)));
        }
        check(&line(&format!("{} / HTTP/1.1", "M".repeat(32))), Ok(()));
        check(&line(&format!("{} / HTTP/1.1", "M".repeat(33))), Err((400, "method_too_long")));
    }

    /// The target, its path length, the authority and the Host field that result from a method, a target and `Host: h`.
    fn check_target(method: &str, target: &str, expected: Result<(&str, usize, &str), (u16, &'static str)>) {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let Ok((expected_target, path_len, authority)) = expected else {
            return check(&text, expected.map(|_| ()));
        };
        let head = parsed(&text);
        assert_eq!(head.target, expected_target.as_bytes(), "{target}");
        assert_eq!(head.path_len, path_len, "{target}");
        assert_eq!(head.authority, authority.as_bytes(), "{target}");
        assert_eq!(head.fields.get_all("host").collect::<Vec<_>>(), [authority.as_bytes()], "{target}");
    }

    #[test]
    fn target_forms() {
        check_target("GET", "/", Ok(("/", 1, "h")));
        check_target("GET", "//a?", Ok(("//a?", 3, "h")));
        check_target("GET", "/?a?b/..", Ok(("/?a?b/..", 1, "h")));
        check_target("GET", "http://X.example/a?b", Ok(("/a?b", 2, "x.example")));
        check_target("GET", "HTTPS://x:8443", Ok(("/", 1, "x:8443")));
        check_target("GET", "http://x?q", Ok(("/?q", 1, "x")));
        check_target("OPTIONS", "http://x", Ok(("*", 1, "x")));
        check_target("OPTIONS", "http://x/", Ok(("/", 1, "x")));
        check_target("OPTIONS", "*", Ok(("*", 1, "h")));
        check_target("CONNECT", "X:443", Ok(("", 0, "x:443")));
        check_target("CONNECT", "[::1]:443", Ok(("", 0, "[::1]:443")));
        check_target("GET", "*", Err((400, "asterisk_target")));
        check_target("GET", "x:443", Err((400, "bad_target")));
        check_target("GET", "a/b", Err((400, "bad_target")));
        check_target("GET", "ftp://x/", Err((400, "bad_target")));
        check_target("GET", "http:/x/", Err((400, "bad_target")));
        check_target("GET", "http:///a", Err((400, "bad_host")));
        check_target("GET", "http://u:p@x/", Err((400, "bad_port")));
        check_target("GET", "http://u@x/", Err((400, "bad_host")));
        check_target("GET", "http://x:0/", Err((400, "bad_port")));
        check_target("GET", "http://x/../", Err((400, "dot_segment")));
        check_target("GET", "/a#b", Err((400, "bad_path_byte")));
        check_target("GET", "/a?b#c", Err((400, "bad_query_byte")));
        check_target("GET", "/a\\b", Err((400, "backslash_in_path")));
        check_target("CONNECT", "x", Err((400, "connect_without_port")));
        check_target("CONNECT", "/", Err((400, "bad_host")));
        check_target("CONNECT", "http://x:1/", Err((400, "bad_port")));
        assert!(parsed("GET /a%2fb HTTP/1.1\r\nHost: h\r\n\r\n").has_encoded_slash);
    }

    #[test]
    fn hosts() {
        check("GET / HTTP/1.1\r\n\r\n", Err((400, "missing_host")));
        check("GET http://a/ HTTP/1.1\r\n\r\n", Err((400, "missing_host")));
        check("GET / HTTP/1.1\r\nHost: a\r\nHOST: a\r\n\r\n", Err((400, "duplicate_host")));
        check("GET / HTTP/1.0\r\nHost: a\r\nHOST: a\r\n\r\n", Err((400, "duplicate_host")));
        check("GET http://a/ HTTP/1.1\r\nHost: b@c\r\n\r\n", Err((400, "bad_host")));
        check("GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", Err((400, "bad_host")));
        for bad in ["", "a b", "u@a", "a/", "a,b", "a\tb", "\u{e9}", "[::1", "a?b"] {
            check(&format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n"), Err((400, "bad_host")));
        }
        for bad in ["a::", "a:x", "a:0", "a:70000"] {
            check(&format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n"), Err((400, "bad_port")));
        }
        let head = parsed("GET / HTTP/1.0\r\n\r\n");
        assert!(head.authority.is_empty() && head.fields.is_empty());
        let head = parsed("GET http://a/ HTTP/1.0\r\n\r\n");
        assert_eq!(head.fields.get("host"), Some(&b"a"[..]));
    }

    #[test]
    fn field_syntax() {
        check_fields("A: \u{e9}\t\u{80} \r\nB:\t\r\nC::\r\n", Ok(()));
        check_fields("A : b\r\n", Err((400, "space_before_colon")));
        check_fields("A\t: b\r\n", Err((400, "space_before_colon")));
        check_fields(" A: b\r\n", Err((400, "folded_field")));
        check_fields("A: b\r\n\tc\r\n", Err((400, "folded_field")));
        check_fields(": b\r\n", Err((400, "empty_field_name")));
        check_fields("A_B: c\r\n", Ok(()));
        assert!(parsed("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n_: c\r\nX_: d\r\n\r\n").has_unusual_name);
        assert!(!parsed("GET / HTTP/1.1\r\nHost: a\r\nX: _\r\n\r\n").has_unusual_name);
        check_fields("A\r\n", Err((400, "field_without_colon")));
        check_fields("A(: b\r\n", Err((400, "bad_field_name")));
        check_fields("\u{e9}: b\r\n", Err((400, "bad_field_name")));
        check_fields("A\0: b\r\n", Err((400, "bad_field_name")));
        check_fields("A\n: b\r\n", Err((400, "bare_lf")));
        check_fields("A: b\nC: d\r\n", Err((400, "bare_lf")));
        check_fields("A:\n", Err((400, "bare_lf")));
        check_fields("A: b\rC: d\r\n", Err((400, "bare_cr")));
        check_fields("A: b\r\r\n", Err((400, "bare_cr")));
        for control in ["\0", "\u{1}", "\u{b}", "\u{1b}", "\u{7f}"] {
            check_fields(&format!("A: long enough for a word {control} b\r\n"), Err((400, "control_in_field_value")));
        }
        check("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Err((400, "folded_field")));
        check("GET / HTTP/1.1\r\nHost: a\r\n\nGET", Err((400, "bare_lf")));
    }

    fn check_framing(fields: &str, expected: Result<BodyFraming, (u16, &'static str)>) {
        match expected {
            Ok(framing) => {
                for method in ["GET", "HEAD", "POST", "OPTIONS", "x"] {
                    let head = parsed(&format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
                    assert_eq!(head.framing, framing, "{method} {fields:?}");
                }
            }
            Err(error) => check_fields(fields, Err(error)),
        }
    }

    #[test]
    fn framing() {
        check_framing("", Ok(BodyFraming::None));
        check_framing("Content-Length: 0\r\n", Ok(BodyFraming::Length(0)));
        check_framing("content-length:  042 \r\n", Ok(BodyFraming::Length(42)));
        check_framing("Content-Length: 999999999999999999\r\n", Ok(BodyFraming::Length(999_999_999_999_999_999)));
        check_framing("Transfer-Encoding: chunked\r\n", Ok(BodyFraming::Chunked));
        check_framing("transfer-encoding:CHUNKED\r\n", Ok(BodyFraming::Chunked));
        for bad in
            ["", "+5", "-0", "0x5", "5_0", "5 0", "5,5", "5, 5", "5.0", "\"5\"", "a", "\u{665}", "9999999999999999999"]
        {
            check_framing(&format!("Content-Length: {bad}\r\n"), Err((400, "bad_content_length")));
        }
        check_framing("Content-Length: 5\r\nContent-Length: 5\r\n", Err((400, "duplicate_content_length")));
        check_framing("Content-Length: 5\r\ncontent-length: 6\r\n", Err((400, "duplicate_content_length")));
        for both in
            ["Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: x\r\nContent-Length: x\r\n"]
        {
            check_framing(both, Err((400, "length_and_transfer_encoding")));
        }
        let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
        check_framing(twice, Err((400, "duplicate_transfer_encoding")));
        for bad in [
            "",
            "chunked, chunked",
            "chunked,",
            ",chunked",
            "chunked, gzip",
            "identity",
            "identity, chunked",
            "chunked, identity",
            "\"chunked\"",
            "chunked;a=b",
            "chunked;",
            "chun ked",
            "gzip,\tchunked",
            "\u{e9}",
            "chunked\u{a0}",
            "[chunked]",
        ] {
            check_framing(&format!("Transfer-Encoding: {bad}\r\n"), Err((400, "bad_transfer_encoding")));
        }
        for unknown in ["gzip", "gzip, chunked", "xchunked", "chunkedx", "'chunked'", "chunk", "br"] {
            check_framing(&format!("Transfer-Encoding: {unknown}\r\n"), Err((501, "unknown_transfer_coding")));
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(old, Err((400, "transfer_encoding_in_http_1_0")));
        assert_eq!(parsed("POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\n").framing, BodyFraming::Length(3));
    }

    #[test]
    fn expectations() {
        let expects = |fields: &str| parsed(&format!("PUT / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).expects_continue;
        assert!(expects("Expect: 100-continue\r\nContent-Length: 1\r\n"));
        assert!(expects("Transfer-Encoding: chunked\r\nexpect: 100-Continue\r\n"));
        assert!(!parsed("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n").expects_continue);
        assert!(!parsed("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expects_continue);
        let body = "Content-Length: 1\r\n";
        for bad in ["", "100-continues", "100-continue, 100-continue", "100-continue;q=1", "200-ok", "\"100-continue\""]
        {
            check_fields(&format!("{body}Expect: {bad}\r\n"), Err((417, "unknown_expectation")));
        }
        let twice = "Expect: 100-continue\r\nExpect: 100-continue\r\n";
        check_fields(&format!("{body}{twice}"), Err((400, "duplicate_expect")));
        check_fields("Expect: 100-continue\r\n", Err((417, "expectation_without_body")));
        check_fields("Expect: 100-continue\r\nContent-Length: 0\r\n", Err((417, "expectation_without_body")));
    }

    #[test]
    fn connection_options() {
        let keeps =
            |version: &str, fields: &str| parsed(&format!("GET / {version}\r\nHost: a\r\n{fields}\r\n")).keep_alive;
        assert!(keeps("HTTP/1.1", ""));
        assert!(keeps("HTTP/1.1", "Connection: keep-alive\r\n"));
        assert!(!keeps("HTTP/1.1", "Connection: Close\r\n"));
        assert!(!keeps("HTTP/1.1", "Connection: keep-alive,,\r\nX: y\r\nconnection: x,close\r\n"));
        assert!(!keeps("HTTP/1.0", ""));
        assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
        assert!(!keeps("HTTP/1.0", "Connection: keep-alive, close\r\n"));
        assert!(keeps("HTTP/1.1", "Connection: closed\r\n"));
        for bad in ["close;", "a b", "\"close\"", "close\u{e9}", "x=y"] {
            check_fields(&format!("Connection: {bad}\r\n"), Err((400, "bad_connection_option")));
        }
    }

    #[test]
    fn upgrades() {
        let offered =
            |version: &str, fields: &str| parsed(&format!("GET / {version}\r\nHost: a\r\n{fields}\r\n")).upgrade;
        let both = "Connection: Upgrade\r\nUpgrade: WebSocket\r\n";
        assert_eq!(offered("HTTP/1.1", both).as_deref(), Some("websocket"));
        assert_eq!(offered("HTTP/1.0", both), None);
        assert_eq!(offered("HTTP/1.1", "Upgrade: websocket\r\n"), None);
        assert_eq!(offered("HTTP/1.1", "Connection: upgrade\r\n"), None);
        let several = "Upgrade: , h2c , websocket\r\nConnection: HTTP2-Settings, upgrade\r\n";
        assert_eq!(offered("HTTP/1.1", several).as_deref(), Some("h2c"));
        assert_eq!(offered("HTTP/1.1", "Connection: upgrade\r\nUpgrade: TLS/1.0\r\n").as_deref(), Some("tls/1.0"));
        for bad in ["", ",", "a b", "a/", "/a", "a/b/c", "\u{e9}"] {
            check_fields(&format!("Connection: upgrade\r\nUpgrade: {bad}\r\n"), Err((400, "bad_upgrade")));
        }
    }

    fn check_limits(bytes: &str, expected: Result<bool, (u16, &'static str)>) {
        let limits = HeadLimits { head_bytes: 64, request_line_bytes: 20, fields: 3 };
        let complete = parse(bytes.as_bytes(), &limits, &mut RequestHead::default());
        let complete =
            complete.map(|parsed| parsed != Parsed::Partial).map_err(|error| (error.status, error.reason.code()));
        assert_eq!(complete, expected, "{bytes:?}");
    }

    #[test]
    fn limits() {
        let long_target = "/34567";
        check_limits(&format!("GET {long_target} HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(true));
        check_limits(&format!("GET {long_target}8 HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(true));
        check_limits(&format!("GET {long_target}89 HTTP/1.1\r\nHost: a\r\n\r\n"), Err((414, "request_line_too_long")));
        check_limits(&format!("\r\nGET {long_target}8 HTTP/1.1\r"), Ok(false));
        check_limits(&format!("GET {}", "/".repeat(16)), Ok(false));
        check_limits(&format!("GET {}", "/".repeat(17)), Err((414, "request_line_too_long")));
        check_limits("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\nD: e\r\n\r\n", Ok(true));
        check_limits("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\nD: e\r\nF", Err((431, "too_many_fields")));
        let start = "GET / HTTP/1.1\r\nHost: a\r\nB: ";
        let padding = |len: usize| "x".repeat(len - start.len());
        check_limits(&format!("{start}{}\r\n\r\n", padding(60)), Ok(true));
        check_limits(&format!("{start}{}\r\n\r\n", padding(61)), Err((431, "head_too_large")));
        check_limits(&format!("{start}{}", padding(63)), Ok(false));
        check_limits(&format!("{start}{}", padding(64)), Err((431, "head_too_large")));
    }
}
