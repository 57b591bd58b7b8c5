//! HTTP/1 heads: cutting changes nothing, what is accepted is canonical, and `httparse` reads it alike.

use wire::http::field_kind::folded;
use wire::http::fields::{is_field_value, is_token};
use wire::http::http1::{Parsed, parse_request, parse_response, write_fields, write_request_line, write_status_line};
use wire::http::target::{canonical_authority, canonical_path, canonical_query, is_plain};
use wire::http::{Fields, HeadError, HeadLimits, Method, RequestHead, ResponseHead, Version};

const LIMITS: [HeadLimits; 2] = [
    HeadLimits { head_bytes: 16_384, request_line_bytes: 8192, fields: 100 },
    HeadLimits { head_bytes: 96, request_line_bytes: 24, fields: 3 },
];

type Decision<H> = Result<(Parsed, H), HeadError>;

/// Checks that a prefix of `data` is undecided, or has the decision of the whole.
fn check_cuts<H: PartialEq + std::fmt::Debug>(data: &[u8], whole: &Decision<H>, parse: impl Fn(&[u8]) -> Decision<H>) {
    let mut decided = false;
    for len in super::cuts(data.len()) {
        match parse(&data[..len]) {
            Ok((Parsed::Partial, _)) => {
                assert!(!decided, "undecided again at {len}: {}", data.escape_ascii());
                if let Ok((Parsed::Complete { head_len }, _)) = whole {
                    assert!(len < *head_len, "partial at {len}, complete at {head_len}");
                }
            }
            cut => {
                decided = true;
                assert_eq!(&cut, whole, "cut at {len}: {}", data.escape_ascii());
            }
        }
    }
}

/// Any bytes as a request head.
pub fn http1_request(data: &[u8]) {
    for limits in &LIMITS {
        let parse = |bytes: &[u8]| {
            let mut head = dirty_request();
            parse_request(bytes, limits, &mut head).map(|parsed| (parsed, head))
        };
        let whole = parse(data);
        check_cuts(data, &whole, parse);
        match whole {
            Ok((Parsed::Complete { head_len }, head)) => {
                check_request(data, head_len, &head, limits);
            }
            Ok((Parsed::Partial, _)) => assert!(data.len() < limits.head_bytes),
            Err(error) => {
                assert!(matches!(error.status, 400 | 414 | 417 | 431 | 501 | 505), "{error}");
                assert!(is_code(error.reason.code()), "{error}");
            }
        }
    }
}

fn check_request(data: &[u8], head_len: usize, head: &RequestHead, limits: &HeadLimits) {
    assert!(data[..head_len].ends_with(b"\r\n\r\n") && head_len <= limits.head_bytes);
    assert!(head.fields.len() <= limits.fields);
    assert!(head.fields.iter().all(|(name, value)| is_token(name) && is_field_value(value)));
    assert_eq!(head.has_unusual_name, head.fields.iter().any(|(name, _)| folded(name).is_some()));
    check_request_target(head);
    check_against_httparse(&data[..head_len], head);
    // What is written from a head reads back as the same head.
    let mut written = Vec::new();
    let target = if head.method == Method::Connect { &head.authority } else { &head.target };
    write_request_line(&head.method, target, &mut written);
    if head.version == Version::H10 {
        let line_end = written.len() - 3;
        written[line_end] = b'0';
    }
    write_fields(&head.fields, &mut written);
    written.extend_from_slice(b"\r\n");
    let mut again = RequestHead::default();
    let parsed = parse_request(&written, &LIMITS[0], &mut again);
    assert_eq!(parsed, Ok(Parsed::Complete { head_len: written.len() }), "{}", written.escape_ascii());
    assert_eq!(&again, head, "{}", written.escape_ascii());
}

fn check_request_target(head: &RequestHead) {
    let mut out = Vec::new();
    match (head.path(), &head.method) {
        (b"", Method::Connect) | (b"*", Method::Options) => assert_eq!(head.query(), b""),
        (path, _) => {
            assert_eq!(canonical_path(path, &mut out), Ok(head.has_encoded_slash));
            assert_eq!(out, path);
            assert_eq!(head.has_plain_path, is_plain(path));
        }
    }
    if let Some(query) = head.query().strip_prefix(b"?") {
        out.clear();
        assert_eq!(canonical_query(query, &mut out), Ok(()));
        assert_eq!(out, query);
    } else {
        assert_eq!(head.query(), b"");
    }
    if head.authority.is_empty() {
        assert!(head.version == Version::H10 && !head.fields.contains("host"));
    } else {
        out.clear();
        assert_eq!(canonical_authority(&head.authority, &mut out), Ok(()));
        assert_eq!(out, head.authority);
        assert_eq!(head.fields.get_all("host").collect::<Vec<_>>(), [&head.authority[..]]);
        assert!(head.authority.starts_with(head.host()));
    }
}

/// A parser that is more lenient than ours must accept what ours accepts, and find the same in it.
fn check_against_httparse(bytes: &[u8], head: &RequestHead) {
    // It takes text only, and a query may be in any charset.
    let line = bytes.split(|octet| *octet == b'\n').find(|line| line.len() > 1).unwrap_or_default();
    if std::str::from_utf8(line).is_err() {
        return;
    }
    let mut storage = [httparse::EMPTY_HEADER; 256];
    let mut request = httparse::Request::new(&mut storage);
    assert_eq!(request.parse(bytes), Ok(httparse::Status::Complete(bytes.len())), "{}", bytes.escape_ascii());
    assert_eq!(request.method, Some(head.method.as_str()));
    assert_eq!(request.version, Some(u8::from(head.version == Version::H11)));
    compare_fields(request.headers, &head.fields);
}

/// Compares all fields but Host, which may have been rewritten.
fn compare_fields(theirs: &[httparse::Header<'_>], ours: &Fields) {
    let theirs = theirs.iter().map(|header| (header.name.as_bytes(), header.value));
    let not_host = |(name, _): &(&[u8], &[u8])| !name.eq_ignore_ascii_case(b"host");
    assert!(theirs.filter(not_host).eq(ours.iter().filter(not_host)), "{ours:?}");
}

/// Any bytes as a response head, to requests of several methods.
pub fn http1_response(data: &[u8]) {
    for (limits, method) in [(0, Method::Get), (0, Method::Head), (0, Method::Connect), (1, Method::Get)]
        .map(|(at, method)| (&LIMITS[at], method))
    {
        let parse = |bytes: &[u8]| {
            let mut head = dirty_response();
            parse_response(bytes, limits, &method, &mut head).map(|parsed| (parsed, head))
        };
        let whole = parse(data);
        check_cuts(data, &whole, parse);
        match whole {
            Ok((Parsed::Complete { head_len }, head)) => {
                check_response(&data[..head_len], &head, &method);
            }
            Ok((Parsed::Partial, _)) => assert!(data.len() < limits.head_bytes),
            Err(error) => assert!(error.status == 502 && is_code(error.reason.code()), "{error}"),
        }
    }
}

fn check_response(bytes: &[u8], head: &ResponseHead, method: &Method) {
    assert!(bytes.ends_with(b"\r\n\r\n"));
    assert!((100..=599).contains(&head.status));
    assert!(head.fields.iter().all(|(name, value)| is_token(name) && is_field_value(value)));

    let mut storage = [httparse::EMPTY_HEADER; 256];
    let mut response = httparse::Response::new(&mut storage);
    assert_eq!(response.parse(bytes), Ok(httparse::Status::Complete(bytes.len())), "{}", bytes.escape_ascii());
    assert_eq!(response.code, Some(head.status));
    compare_fields(response.headers, &head.fields);

    let mut written = Vec::new();
    write_status_line(head.status, &mut written);
    if head.version == Version::H10 {
        written[7] = b'0';
    }
    write_fields(&head.fields, &mut written);
    written.extend_from_slice(b"\r\n");
    let mut again = ResponseHead::default();
    let parsed = parse_response(&written, &LIMITS[0], method, &mut again);
    assert_eq!(parsed, Ok(Parsed::Complete { head_len: written.len() }));
    assert_eq!(&again, head);
}

/// A head that holds what must not be seen after parsing into it.
fn dirty_request() -> RequestHead {
    let mut head = RequestHead { keep_alive: true, upgrade: Some("left-over".into()), ..RequestHead::default() };
    head.fields.push(b"Left-Over", b"1");
    head.target.push(b'!');
    head.authority.push(b'!');
    head
}

fn dirty_response() -> ResponseHead {
    let mut head = ResponseHead { keep_alive: true, upgrade: Some("left-over".into()), ..ResponseHead::default() };
    head.fields.push(b"Left-Over", b"1");
    head
}

fn is_code(code: &str) -> bool {
    !code.is_empty() && code.bytes().all(|octet| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'_')
}
