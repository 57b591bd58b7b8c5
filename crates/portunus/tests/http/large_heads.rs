//! Request heads that are too large, and the request for the server as a whole, in each version of HTTP.

use std::process::Command;

use crate::harness::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS, Outcome, PROTOCOL_ERROR, block,
    frame, kept_block,
};
use crate::harness::trial::{Parts, gate, secure_gate};
use crate::harness::{Gate, Upstream};

const TOO_LARGE: &str = "431 Request Header Fields Too Large (limits.max_header_bytes)\n";

fn get(path: &'static str) -> Vec<(&'static str, &'static [u8])> {
    vec![(":method", b"GET"), (":scheme", b"http"), (":authority", b"a.test"), (":path", path.as_bytes())]
}

fn post() -> Vec<(&'static str, &'static [u8])> {
    [&[(":method", &b"POST"[..])], &get("/upload")[1..]].concat()
}

/// What curl prints of a response with its head; `scheme` and its options name the version.
fn curl(gate: &Gate, scheme: &str, options: &[&str]) -> String {
    let address = gate.address("web");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--cacert"])
        .arg(gate.dir.path().join("ca.pem"))
        .args(["--resolve", &format!("a.test:{}:{}", address.port(), address.ip())])
        .args(options)
        .arg(format!("{scheme}://a.test:{}/", address.port()))
        .output()
        .expect("curl is installed (Debian package curl)");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    text.into_owned()
}

/// Sends a block in as many frames as it takes.
fn send_block(client: &mut Frames, stream: u32, block: &[u8]) {
    let mut parts = block.chunks(16_000).peekable();
    let (mut kind, mut flags) = (HEADERS, END_STREAM);
    while let Some(part) = parts.next() {
        let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
        client.send(&frame(kind, flags | last, stream, part));
        (kind, flags) = (CONTINUATION, 0);
    }
}

/// Expects that a good request gets through, whose fields are taken into the table of names and from there again.
fn check_goes_on(client: &mut Frames, upstream: &Upstream, stream: u32) {
    let good = [block(&get("/good")), kept_block(&[("x-kept", b"yes")]), vec![0xbe]].concat();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &good));
    assert_eq!(client.outcome(stream), Outcome::Response(200, b"ok".to_vec()));
    // What was reset before may be read there afterwards.
    let seen = upstream.seen().into_iter().rfind(|seen| seen.line().contains("/good")).unwrap();
    assert_eq!(seen.fields("x-kept"), ["yes", "yes"]);
}

#[test]
fn a_head_that_is_too_large_gets_431_with_the_name_of_the_limit() {
    let upstream = Upstream::ok();
    let plain = gate(upstream.address, Parts::default());
    let secure = secure_gate(upstream.address, Parts::default());
    std::fs::write(plain.dir.path().join("ca.pem"), "").unwrap();
    // With HTTP/2, curl sends no head of more than 64 KiB: it retries without a word to the server, and gives up.
    for (gate, scheme, version, bytes) in [
        (&plain, "http", "--http1.1", 120_000),
        (&plain, "http", "--http2-prior-knowledge", 60_000),
        (&secure, "https", "--http1.1", 120_000),
        (&secure, "https", "--http2", 60_000),
    ] {
        // One field, and as many as browsers send cookies.
        let one = format!("X: {}", "a".repeat(bytes));
        let many: Vec<String> = (0..38).map(|at| format!("X-{at}: {}", "{".repeat(bytes / 40))).collect();
        let many: Vec<&str> = many.iter().flat_map(|field| ["--header", field.as_str()]).collect();
        let mut lines = gate.log(0).len();
        for fields in [&["--header", one.as_str()][..], &many] {
            let response = curl(gate, scheme, &[&[version], fields].concat());
            let status = response.split(' ').nth(1);
            assert_eq!(status, Some("431"), "{version}: {response}");
            assert!(response.ends_with(&format!("\r\n\r\n{TOO_LARGE}")), "{version}: {response}");
            lines += 1;
            let line = gate.log(lines).pop().unwrap();
            let reason = line["reason"].as_str().unwrap();
            assert!(matches!(reason, "head_too_large" | "request_head_too_large"), "{line}");
            assert_eq!((line["status"].as_u64(), line["fault"].as_str()), (Some(431), Some("client")), "{line}");
        }
    }
    let response = curl(
        &secure,
        "https",
        &["--http2", "--header", "Accept: application/json", "--header", &format!("X: {}", "a".repeat(60_000))],
    );
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let problem: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (problem["status"].as_u64(), problem["detail"].as_str()),
        (Some(431), Some("The request exceeds limits.max_header_bytes."))
    );
    assert_eq!(upstream.raw(), b"");
}

#[test]
fn other_streams_go_on_beside_a_head_that_is_too_large() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    let mut client = Frames::open_plain(gate.address("web"));
    client.headers(1, &post(), false);
    client.send(&frame(DATA, 0, 1, b"hello "));
    let large = vec![b'v'; 40_000];
    let larger = vec![b'v'; 120_000];
    let pieces: Vec<_> = std::iter::repeat_n(("x-crumb", &large[..3000]), 40).collect();
    for (index, fields) in [
        block(&[("x", &large)]),
        kept_block(&[("x", &large)]),
        block(&[("x", &larger)]),
        kept_block(&[("x", &larger)]),
        [kept_block(&[("x-crumb", &large[..3000])]), vec![0xbe; 60]].concat(),
        block(&pieces),
        kept_block(&pieces),
        // Behind it, one that is not allowed: the request is rejected for its size all the same.
        [block(&[("x", &large)]), block(&[("x", b"a\0b")])].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 3 + 4 * index as u32;
        send_block(&mut client, stream, &[block(&get("/large")), fields].concat());
        assert_eq!(client.outcome(stream), Outcome::Response(431, TOO_LARGE.into()), "case {index}");
        check_goes_on(&mut client, &upstream, stream + 2);
    }
    client.send(&frame(DATA, END_STREAM, 1, b"world"));
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(upstream.seen().pop().unwrap().body, b"hello world");
}

#[test]
fn a_head_far_beyond_the_limit_ends_its_connection_with_a_line_in_the_log() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    let large = vec![b'v'; 300_000];
    let name = String::from_utf8(vec![b'N'; 4000]).unwrap();
    for (number, fields) in [
        block(&[("x", &large)]),
        kept_block(&vec![("x", &large[..4000]); 100]),
        // A name that is none, of which each octet that names it again stands for 4000.
        [kept_block(&[(&name, b"")]), [0x7e, 0].repeat(7000)].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = Frames::open_plain(gate.address("web"));
        check_goes_on(&mut client, &upstream, 1);
        send_block(&mut client, 3, &[block(&get("/large")), fields].concat());
        assert_eq!(client.farewell(), Some(ENHANCE_YOUR_CALM), "case {number}");
        let lines = gate.log(2 * number + 2);
        let line = lines.iter().filter(|line| line["reason"] == "head_too_large").nth(number);
        let line = line.unwrap_or_else(|| panic!("case {number}: {lines:?}"));
        assert_eq!(
            (line["fault"].as_str(), line["detail"].as_str()),
            (Some("client"), Some("limits.max_header_bytes"))
        );
    }
    let mut client = Frames::open_plain(gate.address("web"));
    check_goes_on(&mut client, &upstream, 1);
}

#[test]
fn trailers_that_are_too_large_end_their_stream() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    let mut client = Frames::open_plain(gate.address("web"));
    let large = vec![b'v'; 40_000];
    client.headers(1, &post(), false);
    client.send(&frame(DATA, 0, 1, b"hello"));
    send_block(&mut client, 1, &block(&[("x", &large)]));
    assert_eq!(client.outcome(1), Outcome::Reset(PROTOCOL_ERROR));
    check_goes_on(&mut client, &upstream, 3);
}

#[test]
fn the_asterisk_is_answered_for_the_server_in_each_version() {
    let upstream = Upstream::ok();
    let routes = "  - { name: read, path: \"/read\", methods: [GET, PURGE], upstream: app }\n";
    let plain = gate(upstream.address, Parts { routes, ..Parts::default() });
    let secure = secure_gate(upstream.address, Parts { routes, ..Parts::default() });
    std::fs::write(plain.dir.path().join("ca.pem"), "").unwrap();
    for (gate, scheme, version) in [
        (&plain, "http", "--http1.1"),
        (&plain, "http", "--http2-prior-knowledge"),
        (&secure, "https", "--http1.1"),
        (&secure, "https", "--http2"),
    ] {
        let options = curl(gate, scheme, &[version, "--request", "OPTIONS", "--request-target", "*"]);
        assert_eq!(options.split(' ').nth(1), Some("200"), "{version}: {options}");
        let head = options.to_ascii_lowercase();
        assert!(
            head.contains("\r\nallow: delete, get, head, options, patch, post, purge, put\r\n"),
            "{version}: {options}"
        );
    }
    // No request but OPTIONS may name it: in HTTP/2 it is malformed (RFC 9113 §8.3.1).
    let get_all = curl(&plain, "http", &["--http1.1", "--request-target", "*"]);
    assert_eq!(get_all.split(' ').nth(1), Some("400"), "{get_all}");
    let mut client = Frames::open_plain(plain.address("web"));
    client.headers(1, &get("*"), true);
    assert_eq!(client.outcome(1), Outcome::Reset(PROTOCOL_ERROR));
    check_goes_on(&mut client, &upstream, 3);
    assert_eq!(upstream.seen().len(), 1);
}
