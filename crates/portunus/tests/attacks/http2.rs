//! HTTP/2 heads and bodies that would become something else as HTTP/1 (rows 9, 11).

use super::paths::RAW;
use crate::harness::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS, Outcome, PROTOCOL_ERROR, block,
    frame, get, kept_block,
};
use crate::harness::trial::{Parts, secure_gate};
use crate::harness::{Gate, Upstream, wait_until};

type Field = (&'static str, &'static [u8]);

/// A good request on a connection of its own.
fn probe(gate: &Gate) {
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &get("/probe"), true);
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
}

/// Whole requests the upstream saw, but for probes.
fn whole(upstream: &Upstream) -> Vec<String> {
    let seen = upstream.seen().into_iter().filter(|seen| seen.whole && !seen.head.starts_with("GET /probe "));
    seen.map(|seen| seen.head).collect()
}

/// The fields of a GET with one pseudo-field replaced.
fn with(name: &'static str, value: &'static [u8]) -> Vec<Field> {
    get("/p").into_iter().map(|field| if field.0 == name { (name, value) } else { field }).collect()
}

/// A GET with this field in addition.
fn and(name: &'static str, value: &'static [u8]) -> Vec<Field> {
    [get("/p"), vec![(name, value)]].concat()
}

/// Expects a stream error or a refusal in every form that HPACK has, nothing upstream, and that the connection goes on for others (RFC 9113
/// §8.1.1).
fn check_rejected(gate: &Gate, upstream: &Upstream, fields: &[Field]) {
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    // As it is; kept in the table; and from the table once more.
    let again: Vec<u8> = (0..fields.len()).rev().map(|entry| 0xbe + entry as u8).collect();
    let (head, cut) = (block(fields), block(fields).len() / 2);
    for (stream, block) in [(1, head.clone()), (3, kept_block(fields)), (5, again)] {
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        check_outcome(&mut client, stream, fields);
    }
    client.send(&frame(HEADERS, END_STREAM, 7, &head[..cut]));
    client.send(&frame(CONTINUATION, END_HEADERS, 7, &head[cut..]));
    check_outcome(&mut client, 7, fields);
    client.headers(9, &get("/probe"), true);
    assert_eq!(client.outcome(9), Outcome::Response(200, b"ok".to_vec()), "beside {fields:?}");
    let seen = whole(upstream);
    assert!(seen.is_empty(), "{fields:?} became {seen:?}");
}

fn check_outcome(client: &mut Frames, stream: u32, fields: &[Field]) {
    let outcome = client.outcome(stream);
    let rejected = matches!(outcome, Outcome::Reset(PROTOCOL_ERROR) | Outcome::Response(400..=417, _));
    assert!(rejected, "{outcome:?} on stream {stream} for {fields:?}");
}

#[test]
fn a_head_that_could_split_as_http_1_is_rejected() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut cases: Vec<Vec<Field>> = Vec::new();
    for value in [
        &b"a\r\nX: y"[..],
        b"a\nb",
        b"a\rb",
        b"a\0b",
        b"\x1b[2J",
        b"\x7f",
        b"a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        cases.push(and("x-value", value));
        cases.push(and("cookie", value));
        cases.push(with(":path", value));
        cases.push(with(":method", value));
        cases.push(with(":authority", value));
    }
    for name in ["X-Upper", "x y", "x:y", "x\r\ny", "x\0", "", "x\u{e9}", "content_length", "transfer.encoding", ":"] {
        cases.push(and(name, b"v"));
    }
    for (name, value) in [
        ("connection", &b"close"[..]),
        ("connection", b"x-hop"),
        ("keep-alive", b"5"),
        ("proxy-connection", b"x"),
        ("upgrade", b"h2c"),
        ("transfer-encoding", b"chunked"),
        ("transfer-encoding", b""),
        ("te", b"gzip"),
        ("te", b"trailers, deflate"),
        (":path", b"/twice"),
        (":method", b"POST"),
        (":authority", b"b.test"),
        (":scheme", b"http"),
        (":status", b"200"),
        (":unknown", b"x"),
        ("host", b"evil.example"),
        ("host", b"a.test:81"),
        ("host", b"user@a.test"),
        ("expect", b"200-ok"),
        ("expect", b"100-continue, x"),
    ] {
        cases.push(and(name, value));
    }
    cases.push([get("/p"), vec![("host", b"a.test"), ("host", b"b.test")]].concat());
    cases.push([get("/p"), vec![("expect", b"100-continue"), ("expect", b"x")]].concat());
    for fields in &cases {
        check_rejected(&gate, &upstream, fields);
    }
    probe(&gate);
    assert!(memchr::memmem::find(&upstream.raw(), b"smuggled").is_none());
}

#[test]
fn a_pseudo_field_that_is_odd_or_out_of_place_is_rejected() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut cases: Vec<Vec<Field>> = Vec::new();
    for value in [
        &b"/a b"[..],
        b"/a\tb",
        b"a",
        b"",
        b"*",
        b"/\xff",
        b"/a\\b",
        b"/../x",
        b"/%2e%2e/x",
        b"/%00",
        b"http://evil/",
        b"?q",
        b"|",
        b"|/a",
    ] {
        cases.push(with(":path", value));
    }
    for value in [&b"G ET"[..], b"", b"GET /x HTTP/1.1\r\n", b"G(T", b"\xff"] {
        cases.push(with(":method", value));
    }
    for value in [&b"ftp"[..], b"", b"\xff", b"https:", b"ht\0tp"] {
        cases.push(with(":scheme", value));
    }
    for value in
        [&b"user@a.test"[..], b"a.test:0", b"a.test:99999", b"a b", b"", b"a.test/x", b"a.test,b.test", b"[::1"]
    {
        cases.push(with(":authority", value));
    }
    for missing in [":method", ":scheme", ":path", ":authority"] {
        cases.push(get("/p").into_iter().filter(|field| field.0 != missing).collect());
    }
    // Without an authority a field names the host, and all else is as strict.
    let hosted = |name, value| {
        let fields = with(name, value).into_iter().filter(|field| field.0 != ":authority");
        fields.chain([("host", &b"a.test"[..])]).collect::<Vec<_>>()
    };
    cases.extend([hosted(":scheme", b"ftp"), hosted(":path", b"a"), hosted(":path", b"/a b"), hosted(":method", b"")]);
    cases.push([hosted("", b""), vec![("host", b"a.test")]].concat());
    let mut late = get("/p");
    late.insert(2, ("x-early", b"1"));
    cases.push(late);
    for fields in &cases {
        check_rejected(&gate, &upstream, fields);
    }
    probe(&gate);
}

#[test]
fn a_head_that_is_no_message_ends_its_stream_unanswered() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let cases = [
        (with(":authority", b"user@a.test"), "bad_host"),
        (with(":authority", b"a.test:0"), "bad_port"),
        (and("host", b"evil.example"), "host_mismatch"),
        (with(":scheme", b"ftp"), "bad_scheme"),
        (and("x-padded", b" a"), "space_around_field_value"),
        (and("x-padded", b"a\t"), "space_around_field_value"),
        ([with(":method", b"POST"), vec![("content-length", b"5"), ("content-length", b"6")]].concat(), ""),
        ([with(":method", b"POST"), vec![("content-length", b"+5")]].concat(), ""),
    ];
    let mut lines = 0;
    for (fields, reason) in &cases {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        client.headers(1, fields, reason.is_empty());
        let outcome = client.outcome(1);
        assert_eq!(outcome, Outcome::Reset(PROTOCOL_ERROR), "{fields:?}");
        if !reason.is_empty() {
            lines += 1;
            let line = gate.log(lines).pop().unwrap();
            assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some(*reason), Some("client")), "{line}");
        }
        // The connection goes on.
        client.headers(3, &get("/probe"), true);
        assert_eq!(client.outcome(3), Outcome::Response(200, b"ok".to_vec()));
        lines += 1;
    }
    // What is a message and asks for what is never given is answered.
    for path in [&b"/../x"[..], b"/%2e%2e/x", b"/%00", b"/a\\b"] {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        client.headers(1, &with(":path", path), true);
        let outcome = client.outcome(1);
        assert!(
            matches!(outcome, Outcome::Response(400, _) | Outcome::Reset(PROTOCOL_ERROR)),
            "{outcome:?} for {path:?}"
        );
    }
    assert!(whole(&upstream).is_empty());
}

#[test]
fn a_length_that_is_not_the_datas_is_a_stream_error() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let post = |lengths: &[&'static [u8]]| {
        let mut fields = with(":method", b"POST");
        fields.extend(lengths.iter().map(|length| ("content-length", *length)));
        fields
    };
    for (lengths, data) in [
        (&[&b"5"[..]][..], Some(&b"hel"[..])),
        (&[b"5"], Some(b"hello!")),
        (&[b"5"], None),
        (&[b"5", b"5"], Some(b"hello")),
        (&[b"5", b"6"], Some(b"hello")),
        (&[b"+5"], Some(b"hello")),
        (&[b"5, 5"], Some(b"hello")),
        (&[b""], Some(b"hello")),
        (&[b"0x5"], Some(b"hello")),
        (&[b"18446744073709551621"], Some(b"hello")),
    ] {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        client.headers(1, &post(lengths), data.is_none());
        if let Some(data) = data {
            client.send(&frame(DATA, END_STREAM, 1, data));
        }
        let outcome = client.outcome(1);
        let rejected = matches!(outcome, Outcome::Reset(_) | Outcome::GoAway(_) | Outcome::Response(400, _));
        assert!(rejected, "{outcome:?} for {lengths:?} {data:?}");
        assert_eq!(whole(&upstream).len(), 0, "{lengths:?} {data:?}");
    }
    // Nothing goes upstream before the end, when the length is known to be the data's: of a body that says it is empty not even the head, of others
    // not their last byte.
    for (length, data, is_seen) in [(&b"0"[..], &b""[..], false), (b"5", b"hello", true)] {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        let late = |field: Field| if field.0 == ":path" { (field.0, &b"/late"[..]) } else { field };
        client.headers(1, &post(&[length]).into_iter().map(late).collect::<Vec<_>>(), false);
        client.send(&frame(DATA, 0, 1, data));
        if is_seen {
            wait_until("the head upstream", || memchr::memmem::find(&upstream.raw(), b"POST /late ").is_some());
        }
        client.headers(3, &get("/probe"), true);
        assert_eq!(client.outcome(3), Outcome::Response(200, b"ok".to_vec()));
        client.send(&frame(DATA, END_STREAM, 1, b"poison"));
        assert_eq!(client.outcome(1), Outcome::Reset(PROTOCOL_ERROR));
        client.headers(5, &get("/probe"), true);
        assert_eq!(client.outcome(5), Outcome::Response(200, b"ok".to_vec()));
        let raw = upstream.raw();
        assert!(is_seen || memchr::memmem::find(&raw, b"POST /late ").is_none(), "{}", raw.escape_ascii());
        assert!(memchr::memmem::find(&raw, b"poison").is_none());
        assert_eq!(whole(&upstream).len(), 0);
    }
    // What ends as it says is served. The upstream may note a body that was aborted later than what came after it.
    let last = || upstream.seen().into_iter().rfind(|seen| seen.whole && seen.head.starts_with("POST ")).unwrap();
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &post(&[b"0"]), false);
    client.send(&frame(DATA, END_STREAM, 1, b""));
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(last().fields("content-length"), ["0"]);
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &post(&[b"5"]), false);
    client.send(&frame(DATA, 0, 1, b"hello"));
    client.send(&frame(DATA, END_STREAM, 1, b""));
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(last().body, b"hello");
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &post(&[b"5"]), false);
    client.send(&frame(DATA, END_STREAM, 1, b"hello"));
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(last().fields("content-length"), ["5"]);
}

#[test]
fn a_good_request_keeps_its_meaning() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let fields: &[Field] =
        &[("host", b"A.test"), ("cookie", b"a=b"), ("x-kept", b"\xc3\xa9"), ("cookie", b"c=d"), ("te", b"trailers")];
    client.headers(1, &[get("/p?q=1").as_slice(), fields].concat(), true);
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    let seen = upstream.seen().remove(0);
    assert_eq!(seen.line(), "GET /p?q=1 HTTP/1.1");
    for (name, expected) in [
        ("host", "a.test"),
        ("cookie", "a=b; c=d"),
        ("x-kept", "\u{e9}"),
        ("te", "trailers"),
        ("x-forwarded-proto", "https"),
    ] {
        assert_eq!(seen.fields(name), [expected], "{}", seen.head);
    }
    // A body without a length is chunked; trailers go along, but none that mean something to the message.
    client.headers(3, &with(":method", b"POST"), false);
    client.send(&frame(DATA, 0, 3, b"hello"));
    client.headers(
        3,
        &[
            ("x-sum", b"1"),
            ("content-length", b"3"),
            ("x-forwarded-for", b"1.1.1.1"),
            ("client-cert", b"1.1.1.1"),
            ("x-client-cert-subject", b"1.1.1.1"),
            ("x_client_cert_subject", b"1.1.1.1"),
            ("x.real.ip", b"1.1.1.1"),
            ("content_length", b"1.1.1.1"),
            ("own_sum", b"2"),
        ],
        true,
    );
    let outcome = client.outcome(3);
    assert!(matches!(outcome, Outcome::Response(..) | Outcome::Reset(_)), "{outcome:?}");
    let raw = upstream.raw();
    assert!(memchr::memmem::find(&raw, b"1.1.1.1").is_none(), "{}", raw.escape_ascii());
    for sum in [&b"x-sum: 1"[..], b"own_sum: 2"] {
        assert!(memchr::memmem::find(&raw, sum).is_some(), "{}", raw.escape_ascii());
    }
}

#[test]
fn what_clients_send_raw_is_encoded_once_over_http_2_too() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let mut stream = 1;
    for (path, expected) in RAW {
        let fields = with(":path", path);
        let rest = block(&fields[..3]);
        // As it is; kept in the table; and from there.
        for path in [block(&fields[3..]), kept_block(&fields[3..]), vec![0xbe]] {
            client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &[&rest[..], &path].concat()));
            let outcome = client.outcome(stream);
            match expected {
                Some(forwarded) => {
                    assert_eq!(outcome, Outcome::Response(200, b"ok".to_vec()), "{forwarded}");
                    assert_eq!(upstream.seen().pop().unwrap().line(), format!("GET {forwarded} HTTP/1.1"));
                }
                None => {
                    assert!(matches!(outcome, Outcome::Response(400, _)), "{outcome:?} for {}", path.escape_ascii())
                }
            }
            stream += 2;
        }
    }
}

#[test]
fn connect_and_trace_are_405_over_http_2_too() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &[(":method", b"CONNECT"), (":authority", b"a.test:80")], false);
    let outcome = client.outcome(1);
    assert!(matches!(outcome, Outcome::Response(405, _)), "{outcome:?}");
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &with(":method", b"TRACE"), true);
    let outcome = client.outcome(1);
    assert!(matches!(outcome, Outcome::Response(405, _)), "{outcome:?}");
    for method in [&b"trace"[..], b"Connect", b"post"] {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        client.headers(1, &with(":method", method), true);
        let outcome = client.outcome(1);
        assert!(matches!(outcome, Outcome::Response(400, _)), "{outcome:?}");
    }
    assert_eq!(upstream.raw(), b"");
}

#[test]
fn two_authorizations_are_400_and_crumbs_of_cookies_one_field() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let crumbs = [("cookie", &b"a=1"[..]), ("cookie", b"b=2"), ("authorization", b"Basic YQ==")];
    let twice: Vec<Field> = get("/").into_iter().chain(crumbs).chain([("authorization", &b"Basic Yg=="[..])]).collect();
    client.headers(1, &twice, true);
    assert!(matches!(client.outcome(1), Outcome::Response(400, _)));
    assert_eq!(upstream.raw(), b"");
    let once: Vec<Field> = get("/").into_iter().chain(crumbs).collect();
    client.headers(3, &once, true);
    assert_eq!(client.outcome(3), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(upstream.seen()[0].fields("cookie"), ["a=1; b=2"]);
}

#[test]
fn header_blocks_have_a_bound_once_unpacked() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    // A large field is put into the table once and then named a thousand times: 4 kB become 4 MB.
    let mut bomb = block(&get("/bomb"));
    bomb.extend_from_slice(&[0x40, 1, b'b', 0x7f, 0xa1, 0x1e]);
    bomb.extend(std::iter::repeat_n(b'x', 127 + 0x21 + 0x1e * 128));
    bomb.extend(std::iter::repeat_n(0xbe, 1000));
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    let response = |limit| Outcome::Response(431, format!("431 Request Header Fields Too Large ({limit})\n").into());
    assert_eq!(client.outcome(1), response("limits.max_header_bytes"));
    // As many small fields as fit the bytes, and one cookie of many crumbs.
    for (name, value) in [("a", &b"b"[..]), ("cookie", b"crumb=1234567890123456789012345678901234567890")] {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        let fields: Vec<Field> = get("/bomb").into_iter().chain(std::iter::repeat_n((name, value), 3000)).collect();
        let whole = block(&fields);
        let mut parts = whole.chunks(10_000).peekable();
        client.send(&frame(HEADERS, END_STREAM, 1, parts.next().unwrap()));
        while let Some(part) = parts.next() {
            client.send(&frame(CONTINUATION, if parts.peek().is_none() { END_HEADERS } else { 0 }, 1, part));
        }
        assert_eq!(client.outcome(1), response("limits.max_headers"), "{name}");
    }
    assert!(memchr::memmem::find(&upstream.raw(), b"/bomb").is_none());
    probe(&gate);
}

#[test]
fn more_fields_than_allowed_are_431() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts { file: "limits: { max_headers: 20 }", ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(
        1,
        &get("/many").into_iter().chain(std::iter::repeat_n(("a", &b"b"[..]), 21)).collect::<Vec<_>>(),
        true,
    );
    let outcome = client.outcome(1);
    assert!(matches!(outcome, Outcome::Response(431, _)), "{outcome:?}");
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &with(":path", Box::leak([b"/", &[b'a'; 9000][..]].concat().into_boxed_slice())), true);
    let outcome = client.outcome(1);
    assert!(matches!(outcome, Outcome::Response(414, _)), "{outcome:?}");
    assert_eq!(upstream.raw(), b"");
}

#[test]
fn of_a_request_with_too_many_fields_the_table_of_names_is_kept() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    // A field for the table before the bound, and one behind it.
    let kept = |name: u8| [0x40, 6, b'x', b'-', b'k', b'e', b'p', name, 3, b'y', b'e', b's'];
    let crumbs: Vec<Field> = std::iter::repeat_n(("cookie", &b"a=1"[..]), 1200).collect();
    let many = [&block(&get("/many"))[..], &kept(b'1'), &block(&crumbs), &kept(b'2'), &block(&crumbs[..9])].concat();
    let good = [&block(&get("/good"))[..], &[0xbe, 0xbf]].concat();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &many));
    let outcome = client.outcome(1);
    assert!(matches!(outcome, Outcome::Response(431, _)), "{outcome:?}");
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &good));
    let outcome = client.outcome(3);
    assert!(matches!(outcome, Outcome::Response(200, _)), "{outcome:?}");
    let seen = upstream.seen();
    assert_eq!(seen.len(), 1, "{seen:#?}");
    let [request] = seen.as_slice() else { return };
    assert_eq!(request.line(), "GET /good HTTP/1.1");
    assert_eq!((request.fields("x-kep1"), request.fields("x-kep2")), (vec!["yes"], vec!["yes"]));
}

#[test]
fn a_header_block_without_end_is_a_flood() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    for part in [&b""[..], &block(&[("a", b"b")])] {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        client.send(&frame(HEADERS, END_STREAM, 1, &block(&get("/endless"))));
        client.send(&frame(CONTINUATION, 0, 1, part).repeat(3000));
        assert_eq!(client.farewell(), Some(ENHANCE_YOUR_CALM), "{part:?}");
        probe(&gate);
    }
    assert!(memchr::memmem::find(&upstream.raw(), b"/endless").is_none());
}
