//! Requests' sections, and what makes them malformed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::http::qpack::{begin_section, write_field};

/// A section of these fields. Names in capitals stay so only where the writer is not asked.
fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    begin_section(&mut bytes);
    fields.iter().for_each(|(name, value)| write_field(name.as_bytes(), value.as_bytes(), &mut bytes));
    bytes
}

fn check_head(fields: &[(&str, &str)], malformed: Option<Reason>) {
    let mut read = Section::default();
    read.read_head(&section(fields), usize::MAX, false).unwrap();
    assert_eq!(read.malformed(), malformed, "{fields:?}");
    assert!(!read.is_too_large());
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/b?c")];

/// A request with these behind it.
fn with<'f>(more: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    [&GET[..], more].concat()
}

#[test]
fn a_head_is_taken_apart() {
    let mut read = Section::default();
    let fields = with(&[("x", "1"), ("cookie", "a=b"), ("x", ""), ("te", "trailers")]);
    read.read_head(&section(&fields), usize::MAX, false).unwrap();
    assert_eq!(read.malformed(), None);
    assert_eq!(read.method(), Some(&b"GET"[..]));
    assert_eq!(read.scheme(), Some(&b"https"[..]));
    assert_eq!(read.authority(), Some(&b"a"[..]));
    assert_eq!(read.path(), Some(&b"/b?c"[..]));
    assert_eq!(read.protocol(), None);
    let expected: Vec<(&[u8], &[u8])> =
        fields[4..].iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    assert_eq!(read.fields().iter().collect::<Vec<_>>(), expected);
    // Nothing of it is left in the next.
    read.read_head(&section(&[]), usize::MAX, false).unwrap();
    assert_eq!((read.malformed(), read.method(), read.fields().len()), (Some(Reason::MalformedMessage), None, 0));
}

#[test]
fn pseudo_fields_come_first_once_and_complete() {
    const BAD: Option<Reason> = Some(Reason::MalformedMessage);
    check_head(&GET, None);
    check_head(&[GET[3], GET[2], GET[1], GET[0]], None);
    // The authority may stand in Host (RFC 9114 §4.3.1), which is looked at elsewhere.
    check_head(&[GET[0], GET[1], GET[3], ("host", "a")], None);
    for missing in [0, 1, 3] {
        let rest: Vec<_> = GET.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, field)| *field).collect();
        check_head(&rest, BAD);
    }
    check_head(&[GET[0], GET[1], GET[2], (":path", "")], BAD);
    check_head(&[GET[0], GET[1], GET[2], (":path", "/a#b")], BAD);
    for doubled in GET {
        check_head(&with(&[doubled]), BAD);
    }
    check_head(&[GET[0], GET[1], GET[2], ("x", "y"), GET[3]], BAD);
    for unknown in [":status", ":x", ":", ":method "] {
        check_head(&[GET[0], (unknown, "200"), GET[1], GET[2], GET[3]], Some(Reason::BadFieldName));
    }
}

#[test]
fn connect_has_an_authority_alone_or_all() {
    const BAD: Option<Reason> = Some(Reason::MalformedMessage);
    let (connect, websocket) = ((":method", "CONNECT"), (":protocol", "websocket"));
    check_head(&[connect, GET[2]], None);
    check_head(&[connect], BAD);
    check_head(&[connect, GET[2], GET[1]], BAD);
    check_head(&[connect, GET[2], GET[3]], BAD);
    check_head(&[connect, websocket, GET[1], GET[2], GET[3]], None);
    check_head(&[connect, websocket, GET[2]], BAD);
    check_head(&[connect, websocket, GET[1], GET[3]], BAD);
    check_head(&[GET[0], websocket, GET[1], GET[2], GET[3]], BAD);
}

#[test]
fn fields_are_well_formed_and_not_about_the_connection() {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        check_head(&with(&[(name, "x")]), Some(Reason::MalformedMessage));
    }
    check_head(&with(&[("te", "gzip")]), Some(Reason::MalformedMessage));
    check_head(&with(&[("te", "trailers, gzip")]), Some(Reason::MalformedMessage));
    for value in ["a\rb", "a\nb", "a\0b", "\x7f"] {
        check_head(&with(&[("x", value)]), Some(Reason::ControlInFieldValue));
    }
    for name in ["", "a b", "a:b", "caf\u{e9}", "a\0"] {
        check_head(&with(&[(name, "x")]), Some(Reason::BadFieldName));
    }
    // In capitals (RFC 9114 §4.2), which our writer does not write.
    let mut bytes = section(&GET);
    bytes.extend_from_slice(&[0x22, b'X', b'y', 0x01, b'z']);
    let mut read = Section::default();
    read.read_head(&bytes, usize::MAX, false).unwrap();
    assert_eq!(read.malformed(), Some(Reason::BadFieldName));
    // The first of them counts.
    check_head(&with(&[("upgrade", "x"), ("a b", "x")]), Some(Reason::MalformedMessage));
}

#[test]
fn trailers_have_no_pseudo_fields() {
    let mut read = Section::default();
    for (fields, malformed) in [
        (&[("x", "1")][..], None),
        (&[], None),
        (&[("x", "1"), (":path", "/")], Some(Reason::PseudoFieldInTrailers)),
        (&[(":status", "200")], Some(Reason::PseudoFieldInTrailers)),
        (&[("connection", "x")], Some(Reason::MalformedMessage)),
        (&[("x", "\n")], Some(Reason::ControlInFieldValue)),
    ] {
        read.read_trailers(&section(fields), usize::MAX).unwrap();
        assert_eq!(read.malformed(), malformed, "{fields:?}");
    }
}

#[test]
fn what_is_too_large_is_said_to_be_and_no_more() {
    let mut read = Section::default();
    let bytes = section(&with(&[("content-type", "application/grpc"), ("x", "y")]));
    let whole: usize = with(&[("content-type", "application/grpc"), ("x", "y")])
        .iter()
        .map(|(name, value)| name.len() + value.len() + 32)
        .sum();
    read.read_head(&bytes, whole, false).unwrap();
    assert_eq!((read.is_too_large(), read.malformed(), read.fields().len()), (false, None, 2));
    read.read_head(&bytes, whole - 1, false).unwrap();
    assert_eq!((read.is_too_large(), read.malformed(), read.fields().len()), (true, None, 1));
    read.read_head(&bytes, 0, false).unwrap();
    assert_eq!((read.is_too_large(), read.malformed(), read.method()), (true, None, None));
    for cut in 0..bytes.len() {
        read.read_head(&bytes[..cut], usize::MAX, true).unwrap();
        assert_eq!((read.is_too_large(), read.malformed()), (true, None), "{cut}");
    }
    assert_eq!(read.read_head(&[0, 0, 0x80], usize::MAX, false), Err(BrokenSection));
    assert_eq!(read.read_trailers(&[1, 0], usize::MAX), Err(BrokenSection));
}
