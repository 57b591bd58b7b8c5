//! Upstreams that are broken, compromised or hostile (row 29).

use std::io::Write;

use crate::harness::trial::{Parts, gate};
use crate::harness::{Reply, Upstream, connect, exchange, read_response, read_to_end, statuses};

const GET: &[u8] = b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// The answer to one GET before an upstream that says this and keeps the connection open, and the log line; a second request shows that
/// the connection is not used again.
fn response_to(said: impl Into<Vec<u8>>, file: &str) -> (Vec<u8>, serde_json::Value) {
    let said = said.into();
    let upstream = Upstream::start(move |_| Reply::Keep(said.clone()));
    let parts = Parts { upstream: ", ejection: { failures: 0 }", file, ..Parts::default() };
    let gate = gate(upstream.address, parts);
    let response = exchange(gate.address("web"), GET);
    let line = gate.log(1).remove(0);
    exchange(gate.address("web"), GET);
    let seen = upstream.seen();
    assert_eq!((seen.len(), seen[0].connection, seen[1].connection), (2, 0, 1), "a doubtful connection was used again");
    (response, line)
}

/// Expects 502 for what the upstream says.
fn check_bad(said: impl Into<Vec<u8>>, reason: &str) {
    let said = said.into();
    let shown = said[..said.len().min(100)].escape_ascii().to_string();
    let (response, line) = response_to(said, "limits: { max_response_header_bytes: 8KiB }");
    let (last, before) = statuses(&response).split_last().map(|(last, before)| (*last, before.to_vec())).unwrap();
    assert!(last == 502 && before.iter().all(|status| *status < 200), "{shown}: {}", response.escape_ascii());
    assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some(reason), Some("upstream")), "{shown}");
}

#[test]
fn a_broken_response_head_is_a_bad_gateway() {
    let ok = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nhello");
    for (fields, reason) in [
        ("Content-Length: 5\r\nContent-Length: 5", "duplicate_content_length"),
        ("Content-Length: 5\r\nContent-Length: 6", "duplicate_content_length"),
        ("Content-Length: 5, 5", "bad_content_length"),
        ("Content-Length: +5", "bad_content_length"),
        ("Content-Length: -1", "bad_content_length"),
        ("Content-Length: 99999999999999999999", "bad_content_length"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", "length_and_transfer_encoding"),
        ("Transfer-Encoding: gzip, chunked", "bad_transfer_encoding"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "bad_transfer_encoding"),
        ("Transfer-Encoding: identity", "bad_transfer_encoding"),
        ("A: b\nSet-Cookie: c=d", "bare_lf"),
        ("A: b\rC: d", "bare_cr"),
        ("A: b\r\n c", "folded_field"),
        ("A : b", "space_before_colon"),
        ("A: b\0", "control_in_field_value"),
        ("A", "field_without_colon"),
    ] {
        check_bad(ok(fields), reason);
    }
    check_bad(ok(&format!("A: {}", "b".repeat(9000))), "head_too_large");
    check_bad(ok(&format!("{}A: b", "A: b\r\n".repeat(150))), "too_many_fields");
    check_bad(format!("HTTP/1.1 200 {}\r\n\r\n", "x".repeat(20_000)), "status_line_too_long");
    check_bad("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "transfer_encoding_in_http_1_0");
    check_bad("HTTP/2.0 200 OK\r\n\r\n", "unsupported_version");
    check_bad("HTTP/1.1 099 Odd\r\n\r\n", "bad_status");
    check_bad("HTTP/1.1 600 Odd\r\n\r\n", "bad_status");
    check_bad("SSH-2.0-OpenSSH_9.2\r\n\r\n", "bad_version");
    check_bad("\0\0\0", "bad_version");
}

#[test]
fn bytes_behind_an_response_reach_nobody() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    for first in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 44\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 44\r\n\r\n",
    ] {
        let (response, line) = response_to(format!("{first}{poison}"), "");
        assert_eq!(statuses(&response).len(), 1, "{first}");
        assert!(memchr::memmem::find(&response, b"poison").is_none(), "{first}");
        assert!(line["status"].as_u64().unwrap() < 400, "{first}");
    }
}

#[test]
fn a_body_of_head_is_no_response() {
    let upstream = Upstream::start(|_| {
        Reply::Keep(
            b"HTTP/1.1 200 OK\r\nContent-Length: 44\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison".to_vec(),
        )
    });
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    for _ in 0..3 {
        client.write_all(b"HEAD /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            std::io::Read::read_exact(&mut client, &mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(memchr::memmem::find(&head, b"Content-Length: 44\r\n").is_some());
    }
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"");
    let seen = upstream.seen();
    assert!(seen.iter().enumerate().all(|(number, request)| request.connection == number), "{seen:?}");
}

#[test]
fn interim_responses_have_a_bound_and_carry_nothing_of_the_connection() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\n\
                 Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    // Contradictions are rejected in interim heads as in any other.
    check_bad(format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "length_and_transfer_encoding");
    check_bad("HTTP/1.1 102 Processing\r\n\r\n".repeat(9), "too_many_interim_responses");
    check_bad("HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000), "too_many_interim_responses");
    for framing in ["Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n"] {
        let said = format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\n{framing}\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        );
        let upstream = Upstream::start(move |_| Reply::Keep(said.clone().into_bytes()));
        let gate = gate(upstream.address, Parts::default());
        let mut client = connect(gate.address("web"));
        client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut interim = Vec::new();
        let mut byte = [0];
        while !interim.ends_with(b"\r\n\r\n") {
            std::io::Read::read_exact(&mut client, &mut byte).unwrap();
            interim.push(byte[0]);
        }
        let interim = String::from_utf8(interim).unwrap();
        assert!(interim.starts_with("HTTP/1.1 103 ") && interim.contains("Link: </a>\r\n"), "{interim}");
        for name in ["connection", "x-secret", "keep-alive", "content-length", "transfer-encoding"] {
            assert!(!interim.to_ascii_lowercase().contains(name), "{interim}");
        }
        assert_eq!(read_response(&mut client).1, b"ok");
    }
}

#[test]
fn what_the_upstream_says_of_its_connection_ends_here() {
    let said = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\n\
                Upgrade: h2c\r\nX-Kept: 1\r\nSet-Cookie: a=b; Secure\r\nSet-Cookie: c=d, e\r\n\r\nok";
    let upstream = Upstream::start(move |_| Reply::Close(said.into()));
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let head = read_response(&mut client).0;
    for name in ["Connection:", "X-Hop:", "Keep-Alive:", "Proxy-Connection:", "Upgrade:"] {
        assert!(!head.contains(name), "{head}");
    }
    for line in ["X-Kept: 1\r\n", "Set-Cookie: a=b; Secure\r\n", "Set-Cookie: c=d, e\r\n"] {
        assert!(head.contains(line), "{head}");
    }
}

/// RFC 9110 §6.6.1: whoever hands a response on without a date writes one; one that is there stays.
#[test]
fn every_response_has_one_date() {
    for (said, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
            Some("Sun, 06 Nov 1994"),
        ),
        ("nonsense", None),
    ] {
        let upstream = Upstream::start(move |_| Reply::Close(said.into()));
        let routes = "  - { name: own, path: /own, respond: { status: 204 } }\n  - { name: dated, path: /dated, respond: { status: 204 }, \
                      response_headers: { set: { Date: ours } } }\n";
        let gate = gate(upstream.address, Parts { routes, ..Parts::default() });
        let date = |target: &str| {
            let sent = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let response = String::from_utf8(exchange(gate.address("web"), sent.as_bytes())).unwrap();
            let is_date = |line: &&str| line.to_ascii_lowercase().starts_with("date: ");
            let dates: Vec<_> = response.lines().filter(is_date).map(|line| line[6..].to_owned()).collect();
            assert_eq!(dates.len(), 1, "{target}: {response}");
            dates[0].clone()
        };
        assert!(date("/r").starts_with(expected.unwrap_or("")) && date("/r").ends_with(" GMT"), "{said}");
        assert!(date("/own").ends_with(" GMT") && date("/a\\b").ends_with(" GMT"));
        assert_eq!(date("/dated"), "ours");
    }
}

#[test]
fn a_cut_body_never_looks_whole() {
    for (number, (said, ends_like_whole)) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", &b"never"[..]),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0;a b\r\n\r\n", b"0\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0;a\"b\"\r\n\r\n", b"0\r\n\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        for reset in [false, true] {
            let upstream =
                Upstream::start(move |_| if reset { Reply::Reset(said.into()) } else { Reply::Close(said.into()) });
            let gate = gate(upstream.address, Parts::default());
            let mut client = connect(gate.address("web"));
            client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let response = read_to_end(&mut client);
            // A reset may overtake the head; then the client has a plain 502 or nothing, and that is no whole response either.
            let whole = response.ends_with(ends_like_whole) && response.starts_with(b"HTTP/1.1 200");
            assert!(!whole, "{number}: {}", response.escape_ascii());
            let line = gate.log(1).remove(0);
            assert_eq!(line["fault"], "upstream", "{number}: {line}");
            let reasons = ["response_truncated", "upstream_reset", "response_malformed", "upstream_closed"];
            assert!(reasons.contains(&line["reason"].as_str().unwrap()), "{line}");
        }
    }
}

#[test]
fn a_body_until_close_that_is_reset_is_cut_for_every_client() {
    let upstream = Upstream::start(|_| Reply::Reset(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()));
    let gate = gate(upstream.address, Parts::default());
    let response = exchange(gate.address("web"), GET);
    assert!(!response.ends_with(b"0\r\n\r\n"), "{}", response.escape_ascii());
    let line = gate.log(1).remove(0);
    assert_eq!(line["fault"], "upstream", "{line}");
}
