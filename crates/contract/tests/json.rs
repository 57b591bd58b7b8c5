//! What is JSON and what is not, through a schema that allows everything: RFC 8259 and the stricter choices, at every place a text can be cut.

use crate::support;

use contract::limits::Limits;
use contract::reason::Reason;
use contract::schema::{Dialect, Direction, Options, Program, Run, SchemaId};

fn anything(limits: Limits) -> (Program, SchemaId) {
    let node = support::node::parse("true").unwrap();
    support::compile(&node, Dialect::OpenApi31, Direction::Request, Options { limits, ..Options::default() }).unwrap()
}

/// The decision, which must be the same wherever the text is cut once, and byte by byte.
fn decision(text: &[u8], limits: &Limits) -> Result<(), Reason> {
    let (program, id) = anything(limits.clone());
    let mut run = Run::default();
    let whole = support::validate(&program, id, &mut run, text, usize::MAX).map_err(|violation| violation.reason);
    let cuts = if text.len() < 10_000 { text.len() } else { 2 };
    for cut in 1..cuts {
        let mut check = program.check(id, &mut run);
        let found = check.feed(&text[..cut]).and_then(|()| check.feed(&text[cut..])).and_then(|()| check.finish());
        assert_eq!(
            found.map_err(|violation| violation.reason),
            whole,
            "cut at {cut}: {}",
            String::from_utf8_lossy(text)
        );
    }
    for piece in [1, 2, 3, 17] {
        let found = support::validate(&program, id, &mut run, text, piece).map_err(|violation| violation.reason);
        assert_eq!(found, whole, "pieces of {piece}: {}", String::from_utf8_lossy(text));
    }
    whole
}

#[test]
fn json_is_accepted() {
    let rows = [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1.5e+10",
        "-12.5E-3",
        "\"\"",
        "[]",
        "{}",
        " \t\r\n[ 1 , 2 ]\n",
        "[[],{}]",
        r#"{"a":1,"b":{"a":[true,null,"x"]},"":"","\u0061b":2}"#,
        r#""\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00\u0000""#,
        "\"é😀\u{7f}\u{2028}\"",
        "123456789012345678901234567890",
        r#"{"a":{"x":1},"b":{"x":1}}"#,
        r#"["a long string that takes more than one step of sixteen bytes, and then some more","\\\\","\\"]"#,
    ];
    for text in rows {
        assert_eq!(decision(text.as_bytes(), &Limits::default()), Ok(()), "{text}");
    }
}

#[test]
fn what_is_not_json_is_rejected() {
    let rows: &[(&[u8], Reason)] = &[
        (b"", Reason::Truncated),
        (b" ", Reason::Truncated),
        (b"nul", Reason::Truncated),
        (b"\"a", Reason::Truncated),
        (b"[1,2", Reason::Truncated),
        (b"{\"a\":", Reason::Truncated),
        (b"\"\\", Reason::Truncated),
        (b"1 2", Reason::TrailingData),
        (b"{}x", Reason::TrailingData),
        (b"null,", Reason::TrailingData),
        (b"nulx", Reason::Syntax),
        (b"True", Reason::Syntax),
        (b"NaN", Reason::Syntax),
        (b"[1,]", Reason::Syntax),
        (b"[,1]", Reason::Syntax),
        (b"{\"a\" 1}", Reason::Syntax),
        (b"{\"a\":1,}", Reason::Syntax),
        (b"{a:1}", Reason::Syntax),
        (b"{1:1}", Reason::Syntax),
        (b"[1}", Reason::Syntax),
        (b"{\"a\":1]", Reason::Syntax),
        (b"]", Reason::Syntax),
        (b"01", Reason::Syntax),
        (b"-", Reason::Syntax),
        (b"1.", Reason::Syntax),
        (b".5", Reason::Syntax),
        (b"+1", Reason::Syntax),
        (b"1e", Reason::Syntax),
        (b"[1e+]", Reason::Syntax),
        (b"[1.0.1]", Reason::Syntax),
        (b"[-a]", Reason::Syntax),
        (b"0x10", Reason::TrailingData),
        (b"'a'", Reason::Syntax),
        (b"/**/1", Reason::Syntax),
        (b"\"\x01\"", Reason::Syntax),
        (b"\"a\nb\"", Reason::Syntax),
        (b"\"\\x41\"", Reason::Syntax),
        (b"\"\\u12g4\"", Reason::Syntax),
        (b"\"\\ud800\"", Reason::LoneSurrogate),
        (b"\"\\udc00\\ud800\"", Reason::LoneSurrogate),
        (b"\"\\ud800x\"", Reason::LoneSurrogate),
        (b"\"\\ud800\\u0041\"", Reason::LoneSurrogate),
        (b"\"\xff\"", Reason::Utf8),
        (b"\"\xc0\x80\"", Reason::Utf8),
        (b"\"\xed\xa0\x80\"", Reason::Utf8),
        (b"\"\xe2\x82\"", Reason::Utf8),
        (b"\"\xe2\\n\x82\xac\"", Reason::Utf8),
        (b"\xef\xbb\xbf{}", Reason::ByteOrderMark),
        (b"{\xef}", Reason::Syntax),
        (b"\x80", Reason::Syntax),
        (b"{\"a\":1,\"a\":2}", Reason::DuplicateKey),
        (b"{\"a\":1,\"\\u0061\":2}", Reason::DuplicateKey),
        (b"{\"a\":{\"b\":1,\"c\":{},\"b\":2}}", Reason::DuplicateKey),
    ];
    for (text, reason) in rows {
        assert_eq!(decision(text, &Limits::default()), Err(*reason), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn every_limit_holds() {
    let limits = Limits { values: 5, keys_per_object: 3, key_bytes: 4, string_bytes: 8, ..Limits::default() };
    let rows = [
        ("[1,2,3,4]".to_owned(), Ok(())),
        ("[1,2,3,4,5]".to_owned(), Err(Reason::Values)),
        (r#"{"a":1,"b":1,"c":1}"#.to_owned(), Ok(())),
        (r#"{"a":1,"b":1,"c":1,"d":1}"#.to_owned(), Err(Reason::Keys)),
        (r#"{"abcd":1}"#.to_owned(), Ok(())),
        (r#"{"abcde":1}"#.to_owned(), Err(Reason::KeyLength)),
        (r#""12345678""#.to_owned(), Ok(())),
        (r#""123456789""#.to_owned(), Err(Reason::StringLength)),
        ("é".repeat(5), Err(Reason::Syntax)),
        ("1".repeat(64), Ok(())),
        ("1".repeat(65), Err(Reason::NumberLength)),
        ("1e400".to_owned(), Ok(())),
        ("1e-401".to_owned(), Err(Reason::Exponent)),
        ("1e99999999999999999999".to_owned(), Err(Reason::Exponent)),
    ];
    for (text, expected) in rows {
        assert_eq!(decision(text.as_bytes(), &limits), expected, "{text}");
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(decision(nested(64).as_bytes(), &Limits::default()), Ok(()));
    assert_eq!(decision(nested(65).as_bytes(), &Limits::default()), Err(Reason::Depth));
    assert_eq!(decision("[{\"a\":".repeat(50_000).as_bytes(), &Limits::default()), Err(Reason::Depth));
    let deep = Limits { depth: 200_000, ..Limits::default() };
    assert_eq!(decision(nested(100_000).as_bytes(), &deep), Ok(()));
    let node = support::node::parse(r#"{"uniqueItems":true}"#).unwrap();
    let options = Options { limits: deep, ..Options::default() };
    let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, options).unwrap();
    let found = support::validate(&program, id, &mut Run::default(), nested(100_000).as_bytes(), usize::MAX);
    assert_eq!(
        found.map_err(|violation| violation.reason),
        Err(Reason::Depth),
        "recorded values have a depth of their own"
    );
    let long = Limits { number_chars: 2_000_000, ..Limits::default() };
    assert_eq!(decision("7".repeat(1_000_000).as_bytes(), &long), Ok(()));
}
