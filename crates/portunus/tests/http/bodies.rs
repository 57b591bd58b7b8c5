//! Bodies and trailers both ways, answers without a body, old clients.

use std::io::{Read, Write};

use crate::harness::frames::{DATA, END_STREAM, Frames, HEADERS, frame, get};
use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, Trial, gate, secure_gate, server};
use crate::harness::{Reply, Upstream, connect, exchange, read_response, read_to_end, statuses};

fn saying(said: &'static str) -> Upstream {
    Upstream::start(move |_| Reply::Keep(said.into()))
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(all, part).is_some()
}

#[test]
fn trailers_go_both_ways() {
    let upstream = saying(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Down\r\n\r\n2\r\nok\r\n0\r\nX-Down: 1\r\nX_Odd: 2\r\n\r\n",
    );
    let trial = Trial::before(upstream, Parts::default());
    let sent = "POST /t HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE, close\r\nTrailer: X-Up\r\n\r\n\
                5\r\nhello\r\n0\r\nX-Up: 1\r\n\r\n";
    let response = exchange(trial.gate.address("web"), sent.as_bytes());
    assert!(response.ends_with(b"2\r\nok\r\n0\r\nX-Down: 1\r\nX_Odd: 2\r\n\r\n"), "{}", response.escape_ascii());
    let raw = trial.upstream.raw();
    assert!(raw.ends_with(b"5\r\nhello\r\n0\r\nX-Up: 1\r\n\r\n"), "{}", raw.escape_ascii());
    assert_eq!(trial.gate.log(1)[0]["status"], 200);
}

#[test]
fn trailers_go_both_ways_over_http_2() {
    let upstream =
        saying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nGrpc-Status: 0\r\n\r\n");
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let post: Vec<_> = get("/t")
        .into_iter()
        .map(|field| if field.0 == ":method" { (":method", &b"POST"[..]) } else { field })
        .collect();
    client.headers(1, &post, false);
    client.send(&frame(DATA, 0, 1, b"hello"));
    client.headers(1, &[("x-up", b"1")], true);
    let (mut heads, mut body) = (0, Vec::new());
    loop {
        let frame = client.next().unwrap();
        match frame.kind {
            HEADERS => heads += 1,
            DATA => body.extend_from_slice(&frame.payload),
            _ => continue,
        }
        if frame.flags & END_STREAM != 0 {
            assert_eq!(frame.kind, HEADERS, "the trailers end the stream");
            break;
        }
    }
    assert_eq!((heads, &body[..]), (2, &b"ok"[..]));
    let raw = upstream.raw();
    assert!(raw.ends_with(b"5\r\nhello\r\n0\r\nx-up: 1\r\n\r\n"), "{}", raw.escape_ascii());
}

/// What a head may not say, trailers may not either: nothing that the gate writes or a route sets or removes, nothing that is in the head already.
const ROUTE: &str = ", request_headers: { set: { x-tenant: ours }, remove: [x-secret] }, \
                     response_headers: { set: { x-frame: deny }, remove: [x-internal] }";
const UP: [(&str, &str); 8] = [
    ("x-tenant", "theirs"),
    ("x-secret", "theirs"),
    ("x-request-id", "theirs"),
    ("cf-connecting-ip", "theirs"),
    ("x-azure-socketip", "theirs"),
    ("x-said", "theirs"),
    ("http2-settings", "theirs"),
    ("x-sum", "1"),
];
const DOWN: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: X-Hop\r\n\r\n2\r\nok\r\n0\r\nX-Frame: theirs\r\nX-Internal: theirs\r\n\
                    X-Request-Id: theirs\r\nX-Hop: theirs\r\nX-Sum: 2\r\n\r\n";

#[test]
fn trailers_say_nothing_that_the_head_may_not() {
    let trial = Trial::before(saying(DOWN), Parts { route: ROUTE, ..Parts::default() });
    let sent: String = UP.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let sent = format!(
        "POST /t HTTP/1.1\r\nHost: x\r\nX-Said: head\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\nConnection: close, X-Hop\r\n\r\n5\r\nhello\r\n0\r\n{sent}X-Hop: theirs\r\n\r\n"
    );
    let response = exchange(trial.gate.address("web"), sent.as_bytes());
    assert!(response.ends_with(b"2\r\nok\r\n0\r\nX-Sum: 2\r\n\r\n"), "{}", response.escape_ascii());
    let raw = trial.upstream.raw();
    assert!(raw.ends_with(b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"), "{}", raw.escape_ascii());
    assert!(contains(&raw, b"x-tenant: ours") && !contains(&raw, b"theirs"), "{}", raw.escape_ascii());
}

#[test]
fn trailers_over_http_2_say_nothing_that_the_head_may_not() {
    let upstream = saying(DOWN);
    let gate = secure_gate(upstream.address, Parts { route: ROUTE, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let mut post: Vec<_> = get("/t")
        .into_iter()
        .map(|field| if field.0 == ":method" { (":method", &b"POST"[..]) } else { field })
        .collect();
    post.push(("x-said", b"head"));
    client.headers(1, &post, false);
    client.send(&frame(DATA, 0, 1, b"hello"));
    let sent: Vec<_> = UP.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    client.headers(1, &sent, true);
    let mut last = Vec::new();
    loop {
        let frame = client.next().unwrap();
        if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
            assert_eq!(frame.kind, HEADERS, "the trailers end the stream");
            last.extend_from_slice(&frame.payload);
            break;
        }
    }
    // One field: its name and value are Huffman coded, so the others would show by their length.
    assert!(last.len() < 12, "{}", last.escape_ascii());
    let raw = upstream.raw();
    assert!(raw.ends_with(b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"), "{}", raw.escape_ascii());
    assert!(contains(&raw, b"x-tenant: ours") && !contains(&raw, b"theirs"), "{}", raw.escape_ascii());
}

#[test]
fn responses_without_a_body_have_none() {
    for (request, said, kept) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Some("Content-Length: 5\r\n")),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None),
        ("HEAD", "HTTP/1.1 200 OK\r\n\r\n", None),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", None),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\n", Some("Content-Length: 5\r\n")),
    ] {
        let upstream = saying(said);
        let gate = gate(upstream.address, Parts::default());
        let mut client = connect(gate.address("web"));
        for last in [false, true] {
            let connection = if last { "Connection: close\r\n" } else { "" };
            write!(client, "{request} /n HTTP/1.1\r\nHost: x\r\n{connection}\r\n").unwrap();
        }
        let response = String::from_utf8(read_to_end(&mut client)).unwrap();
        assert_eq!(statuses(response.as_bytes()).len(), 2, "{response}");
        let bodies: Vec<_> = response.split("\r\n\r\n").skip(1).collect();
        assert!(bodies[0].starts_with("HTTP/1.1 ") && bodies[1].is_empty(), "{response}");
        match kept {
            Some(kept) => assert_eq!(response.matches(kept).count(), 2, "{response}"),
            None => {
                assert!(!response.contains("Content-Length") && !response.contains("Transfer-Encoding"), "{response}")
            }
        }
        // Nothing is left on the upstream's connection, which serves both.
        assert!(upstream.seen().iter().all(|request| request.connection == 0), "{said}");
    }
}

#[test]
fn old_clients_get_what_they_understand() {
    let upstream = saying(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nX-Down: 1\r\n\r\n",
    );
    let gate = gate(upstream.address, Parts::default());
    for sent in ["GET /o HTTP/1.0\r\n\r\n", "GET /o HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"] {
        let response = String::from_utf8(exchange(gate.address("web"), sent.as_bytes())).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nhello world"), "{response}");
        assert!(!response.contains("Transfer-Encoding") && response.contains("Connection: close\r\n"), "{response}");
    }
    let seen = upstream.seen();
    assert_eq!(seen[0].line(), "GET /o HTTP/1.1");
    assert_eq!(seen[0].fields("host"), [upstream.address.to_string()]);
    assert_eq!(gate.log(2)[0]["version"], "HTTP/1.0");
}

#[test]
fn an_old_client_may_keep_its_connection_where_lengths_are_known() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    for _ in 0..2 {
        client.write_all(b"GET /o HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let (head, body) = read_response(&mut client);
        assert!(head.contains("Connection: keep-alive\r\n"), "{head}");
        assert_eq!(body, b"ok");
    }
    client.write_all(b"GET /o HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_to_end(&mut client).ends_with(b"\r\n\r\nok"));
}

#[test]
fn bodies_until_close_end_as_they_should() {
    let upstream = Upstream::start(|_| Reply::Close(b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec()));
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    // The client's connection goes on: the body is chunked for it.
    client
        .write_all(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let response = read_to_end(&mut client);
    assert_eq!(statuses(&response), [200, 200]);
    assert!(
        response.ends_with(b"0\r\n\r\n") && contains(&response, b"Transfer-Encoding: chunked\r\n"),
        "{}",
        response.escape_ascii()
    );
}

#[test]
fn an_early_response_reaches_a_client_that_is_still_sending() {
    let address = server(|_, mut stream| {
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer);
        stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n").unwrap();
    });
    let gate = gate(address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\nsome").unwrap();
    let (head, body) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    assert_eq!(body, b"no\n");
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(gate.log(1)[0]["status"], 413);
}

#[test]
fn an_response_streams_while_the_request_does() {
    let address = server(|_, mut stream| {
        let mut buffer = [0; 65536];
        let mut head = Vec::new();
        while !contains(&head, b"\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            head.extend_from_slice(&buffer[..count]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        let mut rest = head.split_off(memchr::memmem::find(&head, b"\r\n\r\n").unwrap() + 4);
        loop {
            // What comes is chunked already and is sent back as it came.
            stream.write_all(&rest).unwrap();
            if rest.ends_with(b"0\r\n\r\n") {
                break;
            }
            let count = stream.read(&mut buffer).unwrap();
            rest = buffer[..count].to_vec();
        }
    });
    let gate = gate(address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut response = Vec::new();
    for part in ["one", "two", "three"] {
        write!(client, "{:x}\r\n{part}\r\n", part.len()).unwrap();
        let mut byte = [0];
        while !response.ends_with(part.as_bytes()) {
            client.read_exact(&mut byte).unwrap();
            response.push(byte[0]);
        }
    }
    client.write_all(b"0\r\n\r\n").unwrap();
    let mut byte = [0];
    while !response.ends_with(b"\r\n0\r\n\r\n") {
        client.read_exact(&mut byte).unwrap();
        response.push(byte[0]);
    }
}

/// A record that was opened with too little room for it leaves plaintext in the TLS library while the socket has nothing more to say.
#[test]
fn a_body_is_whole_however_its_tls_records_fall() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    for records in 4..40 {
        let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
        client.socket().set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
        let body = vec![b'x'; records * 10_000];
        write!(
            client,
            "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        client.write_in_records(&body, 10_000);
        let mut response = Vec::new();
        client.read_to_end(&mut response).unwrap_or_else(|error| panic!("{records} records: {error}"));
        assert_eq!(statuses(&response), [200], "{records} records");
    }
    let seen = upstream.seen();
    assert!(seen.iter().zip(4..40).all(|(request, records)| request.body.len() == records * 10_000));
}

/// Sizes of the chunks of a body in the chunked coding.
fn chunks(mut coded: &[u8]) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let Some(at) = memchr::memmem::find(coded, b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&coded[..at]).unwrap(), 16).unwrap();
        sizes.push(size);
        if size == 0 {
            break;
        }
        coded = &coded[at + 2 + size + 2..];
    }
    sizes
}

fn body_of(message: &[u8]) -> &[u8] {
    &message[memchr::memmem::find(message, b"\r\n\r\n").unwrap() + 4..]
}

#[test]
fn small_pieces_at_hand_go_on_together_both_ways() {
    const PIECES: usize = 1000;
    let small = format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(PIECES));
    let said = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{small}").into_bytes();
    let upstream = Upstream::start(move |_| Reply::Keep(said.clone()));
    let gate = gate(upstream.address, Parts::default());
    let head = "POST /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let response = exchange(gate.address("web"), format!("{head}{small}").as_bytes());
    // What comes in a few reads goes out in a few writes: how many depends on how the kernel hands it out.
    for (what, message) in [("up", &upstream.raw()), ("down", &response)] {
        let sizes = chunks(body_of(message));
        assert_eq!(sizes.iter().sum::<usize>(), PIECES, "{what}: {sizes:?}");
        assert!(sizes.len() < PIECES / 20, "{what}: {} chunks", sizes.len());
    }
}

#[test]
fn small_frames_at_hand_go_on_together() {
    const PIECES: usize = 500;
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let mut fields = get("/small");
    fields[0].1 = b"POST";
    client.headers(1, &fields, false);
    let mut all = frame(DATA, 0, 1, b"x").repeat(PIECES - 1);
    all.extend(frame(DATA, END_STREAM, 1, b"x"));
    client.send(&all);
    assert_eq!(client.outcome(1), crate::harness::frames::Outcome::Response(200, b"ok".to_vec()));
    let raw = upstream.raw();
    let sizes = chunks(body_of(&raw));
    assert_eq!(sizes.iter().sum::<usize>(), PIECES);
    assert!(sizes.len() < PIECES / 20, "{} chunks", sizes.len());
}
