//! HTTP/2 clients that make the gate work for nothing (row 12): each flood ends its connection, and others are served.

use std::io::Write;

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, GOAWAY, HEADERS, Outcome, PING, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, frame, get,
};
use crate::harness::trial::{Parts, secure_gate};
use crate::harness::{Gate, Reply, Upstream, wait_until};

/// Longer than any flood may go on.
const MANY: usize = 3000;

/// Nothing comes back by itself, or a machine that is slow would not let a client send more than it may.
const STRICT: Parts<'_> = Parts {
    upstream: "",
    route: "",
    routes: "",
    file: "limits: { h2_control_frame_rate: 0, h2_failed_request_rate: 0, h2_rejected_request_rate: 0 }",
};

/// An upstream that is silent about `/hang` and answers all else.
fn hanging() -> Upstream {
    Upstream::start(|request| match request.line() {
        "GET /hang HTTP/1.1" | "POST /hang HTTP/1.1" => Reply::Silence,
        _ => Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    })
}

fn probe(client: &mut Frames, stream: u32) {
    client.headers(stream, &get("/probe"), true);
    assert_eq!(client.outcome(stream), Outcome::Response(200, b"ok".to_vec()));
}

/// Sends the frames and expects the connection to be given up, while another client is served before and after on one connection.
fn check_flood(gate: &Gate, what: &str, frames: &[u8], codes: &[u32]) {
    let mut other = Frames::open(gate.address("web"), gate.dir.path());
    probe(&mut other, 1);
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.send(frames);
    let code = client.farewell();
    assert!(code.is_some_and(|code| codes.contains(&code)), "{what}: {code:?}");
    let mut second = Frames::open(gate.address("web"), gate.dir.path());
    probe(&mut second, 1);
}

/// What an attack is called, and the bytes it sends on a stream.
type Kind<'k> = (&'k str, &'k dyn Fn(u32) -> Vec<u8>);

#[test]
fn floods_of_frames_that_bring_nothing_end_their_connection() {
    let upstream = hanging();
    let gate = secure_gate(upstream.address, STRICT);
    let open = frame(HEADERS, END_HEADERS, 1, &block(&[&get("/hang")[..]].concat()));
    for (what, first, flood) in [
        ("PING", &[][..], frame(PING, 0, 0, &[0; 8])),
        ("SETTINGS", &[], frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])),
        ("empty SETTINGS", &[], frame(SETTINGS, 0, 0, &[])),
        ("PRIORITY", &[], frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 1])),
        ("WINDOW_UPDATE", &[], frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("WINDOW_UPDATE of a stream", &open, frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        ("empty DATA", &open, frame(DATA, 0, 1, &[])),
        ("unknown frames", &[], frame(0xbe, 0, 0, &[0; 4])),
    ] {
        check_flood(&gate, what, &[first, &flood.repeat(MANY)].concat(), &[ENHANCE_YOUR_CALM]);
    }
}

#[test]
fn as_many_frames_that_bring_nothing_are_allowed_as_configured() {
    let upstream = hanging();
    let file = "limits: { h2_control_frame_burst: 50, h2_control_frame_rate: 0 }";
    let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    // The first was the client's SETTINGS.
    client.send(&frame(PING, 0, 0, &[0; 8]).repeat(49));
    let mut pongs = 0;
    while pongs < 49 {
        let frame = client.next().unwrap();
        assert_ne!(frame.kind, GOAWAY);
        pongs += usize::from(frame.kind == PING && frame.flags & 1 != 0);
    }
    client.send(&frame(PING, 0, 0, &[0; 8]));
    assert_eq!(client.farewell(), Some(ENHANCE_YOUR_CALM));
}

/// A GET and RST_STREAM for it at once.
fn thrown_away(number: u32) -> Vec<u8> {
    let stream = 2 * number + 1;
    let head = frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&get("/hang")));
    [head, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
}

#[test]
fn as_many_requests_may_come_to_nothing_as_are_answered_and_configured() {
    let upstream = hanging();
    let file = "limits: { h2_failed_request_burst: 10, h2_failed_request_rate: 0 }";
    let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let mut stream = 1;
    for _ in 0..50 {
        client.send(&thrown_away(stream / 2));
        probe(&mut client, stream + 2);
        stream += 4;
    }
    (0..10).for_each(|number| client.send(&thrown_away(stream / 2 + number)));
    // An error of its own counts as well; this one is still allowed, since the last probe pays for it.
    probe(&mut client, stream + 20);
    client.headers(stream + 22, &[get("/hang"), vec![("connection", &b"x"[..])]].concat(), true);
    assert_eq!(client.outcome(stream + 22), Outcome::Reset(1));
    client.send(&thrown_away(stream / 2 + 12));
    assert_eq!(client.farewell(), Some(ENHANCE_YOUR_CALM));
}

#[test]
fn requests_that_are_rejected_or_too_many_end_their_connection() {
    let crumb = ("cookie", &b"crumb=1"[..]);
    let many = block(&[get("/many"), vec![crumb; 150]].concat());
    // Each names a field of 4 kB from the table nine times, which is more than a head may have.
    let large = [block(&get("/large")), vec![0xbe; 9]].concat();
    let first =
        [&block(&get("/large"))[..], &[0x40, 1, b'b', 0x7f, 0xa1, 0x1e], &[b'x'; 127 + 0x21 + 0x1e * 128]].concat();
    let hang = block(&get("/hang"));
    let head = |stream: u32, block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, stream, block);
    let kinds: [Kind<'_>; 3] = [
        ("too many fields", &|stream| head(stream, &many)),
        ("too large", &|stream| head(stream, if stream == 1 { &first } else { &large })),
        ("over the limit", &|stream| head(stream, &hang)),
    ];
    // However long that takes, nothing comes back, whatever comes back of what clients cancel.
    let file = "limits: { h2_failed_request_rate: 1000000, h2_rejected_request_rate: 0 }";
    for (what, kind) in kinds {
        let upstream = hanging();
        let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
        let flood: Vec<u8> = (0..1500).flat_map(|number| kind(2 * number + 1)).collect();
        check_flood(&gate, what, &flood, &[ENHANCE_YOUR_CALM]);
        let reached = |path| upstream.seen().iter().filter(|seen| seen.head.contains(path)).count();
        assert!(reached(" /hang ") <= 128 && reached(" /many ") == 0 && reached(" /large ") <= 1, "{what}");
    }
}

#[test]
fn requests_thrown_away_at_once_end_their_connection() {
    let upstream = hanging();
    let gate = secure_gate(upstream.address, STRICT);
    let flood: Vec<u8> = (0..1000).flat_map(thrown_away).collect();
    check_flood(&gate, "rapid reset", &flood, &[ENHANCE_YOUR_CALM]);
    let reached = upstream.seen().iter().filter(|seen| seen.head.starts_with("GET /hang")).count();
    // Only those whose RST_STREAM came apart from them.
    assert!(reached <= 100, "{reached} requests reached the upstream");
}

#[test]
fn streams_that_the_client_makes_us_reset_end_their_connection() {
    let stream_error = [1, 5, 6, ENHANCE_YOUR_CALM];
    let head = |stream: u32, end: u8| frame(HEADERS, END_HEADERS | end, stream, &block(&get("/hang")));
    let post = |stream: u32| {
        let fields: Vec<_> = get("/hang")
            .into_iter()
            .map(|field| if field.0 == ":method" { (":method", &b"POST"[..]) } else { field })
            .collect();
        frame(HEADERS, END_HEADERS, stream, &block(&[&fields[..], &[("content-length", b"1")]].concat()))
    };
    let kinds: [Kind<'_>; 8] = [
        ("WINDOW_UPDATE of nothing", &|stream| {
            [head(stream, END_STREAM), frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat()
        }),
        ("WINDOW_UPDATE beyond the bound", &|stream| {
            [head(stream, END_STREAM), frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])].concat()
        }),
        ("PRIORITY on itself", &|stream| {
            [head(stream, END_STREAM), frame(PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[1]].concat())].concat()
        }),
        ("PRIORITY of a wrong length", &|stream| {
            [head(stream, END_STREAM), frame(PRIORITY, 0, stream, &[0; 4])].concat()
        }),
        ("DATA after the end", &|stream| [head(stream, END_STREAM), frame(DATA, 0, stream, b"x")].concat()),
        ("HEADERS after the end", &|stream| [head(stream, END_STREAM), head(stream, END_STREAM)].concat()),
        ("DATA beyond its length", &|stream| [post(stream), frame(DATA, 0, stream, b"xx")].concat()),
        ("a malformed head", &|stream| {
            frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                stream,
                &block(&[&get("/hang")[..], &[("X-Upper", b"1")]].concat()),
            )
        }),
    ];
    for (what, kind) in kinds {
        let upstream = hanging();
        let gate = secure_gate(upstream.address, STRICT);
        let flood: Vec<u8> = (0..1000).flat_map(|number| kind(2 * number + 1)).collect();
        check_flood(&gate, what, &flood, &stream_error);
        let reached = upstream.seen().iter().filter(|seen| seen.head.contains(" /hang ")).count();
        assert!(reached <= 300, "{what}: {reached} requests reached the upstream");
    }
}

#[test]
fn no_more_requests_run_upstream_than_streams_are_allowed() {
    let upstream = hanging();
    let gate = secure_gate(upstream.address, Parts { file: "limits: { h2_max_streams: 8 }", ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    for number in 0..20 {
        client.headers(2 * number + 1, &get("/hang"), true);
    }
    // The ninth is rejected in a way that lets the client try again (RFC 9113 §8.7).
    assert_eq!(client.outcome(17), Outcome::Reset(7));
    wait_until("the first eight", || upstream.seen().len() >= 8);
    let mut other = Frames::open(gate.address("web"), gate.dir.path());
    probe(&mut other, 1);
    assert_eq!(upstream.seen().iter().filter(|seen| seen.head.starts_with("GET /hang")).count(), 8);
}

#[test]
fn what_is_no_http2_ends_with_a_line_in_the_log() {
    let upstream = hanging();
    let gate = secure_gate(upstream.address, STRICT);
    // As browsers do with connections that they do not need: that is nothing wrong.
    drop(crate::harness::secure::Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "h2"));
    gate.log(1);
    let mut client = crate::harness::secure::Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "h2");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    crate::harness::read_to_end(&mut client);
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.send(&frame(PING, 0, 0, &[0; 8]).repeat(MANY));
    assert_eq!(client.farewell(), Some(ENHANCE_YOUR_CALM));
    let reasons: Vec<_> = gate.log(3).iter().map(|line| line["reason"].clone()).collect();
    assert_eq!(reasons, ["closed_without_request", "http2_preface_invalid", "http2_flood"]);
    assert_eq!(upstream.raw(), b"");
}
