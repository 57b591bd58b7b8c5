//! Clients that are slow on purpose, with short limits so that nothing waits long (row 13). Asserts what happens, never when.

#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::harness::frames::{Frames, HEADERS, SETTINGS, WINDOW_UPDATE, frame, get};
use crate::harness::trial::{Parts, gate, secure_gate};
use crate::harness::{
    Gate, Reply, Upstream, certificates, connect, exchange, read_response, read_to_end, statuses, wait_until,
};

/// Still long enough for what comes right behind a connect.
const SHORT: &str =
    "limits: { request_header_timeout: 3s, keep_alive_timeout: 3s, client_idle_timeout: 3s, min_body_rate: 1MB }";

/// Handshakes that are to succeed have their time at another listener: a slow machine needs some for one.
const STALLED: &str = "workers: 1
listeners:
  - { name: stalled, bind: \"127.0.0.1:0\", tls: { keystore: main }, limits: { handshake_timeout: 3s } }
  - { name: web, bind: \"127.0.0.1:0\", tls: { keystore: main } }
keystores: { main: { folder: certs, default: a.test } }
routes: [{ respond: { status: 200 } }]
";

fn short(upstream: &Upstream) -> Gate {
    gate(upstream.address, Parts { file: SHORT, ..Parts::default() })
}

fn probe(gate: &Gate) {
    let response = exchange(gate.address("web"), b"GET /probe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&response), [200]);
}

/// Sends a byte whenever none came back for a moment, until the other side has had enough; gives all it said.
fn dribble(mut client: TcpStream, bytes: &[u8]) -> Vec<u8> {
    client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut response = Vec::new();
    let mut buffer = [0; 4096];
    for byte in bytes.iter().cycle() {
        match client.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => response.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                let _ = client.write_all(&[*byte]);
            }
            Err(_) => break,
        }
    }
    response
}

#[test]
fn a_slow_head_is_408() {
    let upstream = Upstream::ok();
    let gate = short(&upstream);
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /slow HTTP/1.1\r\nHo").unwrap();
    assert_eq!(statuses(&read_to_end(&mut client)), [408]);
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n").unwrap();
    let response = dribble(client, b"A: b\r\n");
    assert_eq!(statuses(&response), [408], "{}", response.escape_ascii());
    let log = gate.log(2);
    assert!(log.iter().all(|line| line["reason"] == "request_header_timeout" && line["status"] == 408), "{log:?}");
    assert_eq!(upstream.raw(), b"");
    probe(&gate);
}

#[test]
fn a_slow_body_is_408_and_never_whole_upstream() {
    let upstream = Upstream::ok();
    let gate = short(&upstream);
    for (head, rest) in [
        ("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nhello", None),
        ("POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", None),
        ("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", Some(&b"x"[..])),
        ("POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", Some(b"1\r\nx\r\n")),
    ] {
        let mut client = connect(gate.address("web"));
        client.write_all(head.as_bytes()).unwrap();
        let response = match rest {
            None => read_to_end(&mut client),
            Some(rest) => dribble(client, rest),
        };
        assert_eq!(statuses(&response), [408], "{head}");
    }
    let log = gate.log(4);
    assert!(log.iter().all(|line| line["reason"] == "request_body_timeout" && line["fault"] == "client"), "{log:?}");
    probe(&gate);
    assert_eq!(upstream.seen().into_iter().filter(|seen| seen.whole).count(), 1);
}

#[test]
fn what_was_sent_quickly_buys_no_slow_rest() {
    let upstream = Upstream::ok();
    let file = "limits: { client_idle_timeout: 10s, min_body_rate: 100KB }";
    let gate = gate(upstream.address, Parts { file, ..Parts::default() });
    let mut client = connect(gate.address("web"));
    // At the least rate this would be enough for four hundred seconds.
    client.write_all(b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n").unwrap();
    client.write_all(&vec![b'x'; 40_000_000]).unwrap();
    let started = std::time::Instant::now();
    client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut byte = [0];
    while client.read(&mut byte).is_err() {
        assert!(started.elapsed() < crate::harness::PATIENCE, "a byte now and then keeps the request");
        let _ = client.write_all(b"x");
    }
    assert_eq!(gate.log(1)[0]["reason"], "request_body_timeout");
    assert!(upstream.seen().iter().all(|seen| !seen.whole));
}

#[test]
fn a_client_that_does_not_read_is_let_go() {
    let upstream = Upstream::start(|request| {
        let length = if request.head.starts_with("GET /big") { 64 << 20 } else { 2 };
        Reply::Close(
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes(), vec![b'x'; length]].concat(),
        )
    });
    let gate = short(&upstream);
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    probe(&gate);
    let log = gate.log(2);
    let line = log.iter().find(|line| line["target"] == "/big").unwrap();
    assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some("client_write_timeout"), Some("client")));
    // It cannot take what it has for the whole.
    assert!(read_to_end(&mut client).len() < 64 << 20);
}

#[test]
fn silent_connections_end_and_give_their_descriptors_back() {
    let upstream = Upstream::ok();
    // Connections to the upstream are not kept: only the clients' are to be counted.
    let gate = gate(upstream.address, Parts { upstream: ", pool_max_idle: 0", file: SHORT, ..Parts::default() });
    probe(&gate);
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", gate.pid())).unwrap().count();
    let before = descriptors();
    let mut silent: Vec<_> = (0..50).map(|_| connect(gate.address("web"))).collect();
    // One that has been served rests no longer than others.
    let mut served = connect(gate.address("web"));
    served.write_all(b"GET /once HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut served).1, b"ok");
    probe(&gate);
    for client in &mut silent {
        assert_eq!(read_to_end(client), b"");
    }
    assert_eq!(read_to_end(&mut served), b"");
    drop((silent, served));
    wait_until("descriptors to return", || descriptors() <= before);
    let log = gate.log(53);
    assert_eq!(log.iter().filter(|line| line["reason"] == "idle_without_request").count(), 50);
}

#[test]
fn a_stalled_handshake_ends() {
    let gate = Gate::start_in(certificates(&[("a.test", false)]), STALLED);
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc];
    for sent in [&b""[..], &hello] {
        let mut client = connect(gate.address("stalled"));
        client.write_all(sent).unwrap();
        read_to_end(&mut client);
    }
    let log = gate.log(2);
    assert!(
        log.iter().all(|line| line["reason"] == "tls_handshake_timeout" && line["kind"] == "connection"),
        "{log:?}"
    );
    Frames::open(gate.address("web"), gate.dir.path());
}

#[test]
fn a_silent_http2_connection_ends() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts { file: SHORT, ..Parts::default() });
    // It says the preface and never anything again, not even an acknowledgement.
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    assert_eq!(client.farewell(), Some(0));
    // Half a header block is no more of a request.
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.send(&frame(HEADERS, 0, 1, &crate::harness::frames::block(&get("/half"))));
    assert!(client.farewell().is_some());
    assert_eq!(upstream.raw(), b"");
}

#[test]
fn a_window_that_never_opens_ends_its_stream() {
    let upstream = Upstream::start(|_| {
        Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{}", "x".repeat(5000)).into_bytes())
    });
    let gate = secure_gate(upstream.address, Parts { file: SHORT, ..Parts::default() });
    for window in [0_u32, 1] {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        client.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
        client.headers(1, &get("/window"), true);
        // Credit for another stream than the one that waits.
        client.send(&frame(WINDOW_UPDATE, 0, 0, &1000_u32.to_be_bytes()));
        let outcome = client.outcome(1);
        assert!(!matches!(outcome, crate::harness::frames::Outcome::Response(..)), "{outcome:?}");
    }
    let log = gate.log(2);
    assert!(log.iter().all(|line| line["reason"] == "client_write_timeout" && line["fault"] == "client"), "{log:?}");
}

/// One that accepts nothing has a second, and may otherwise be as slow as it likes: patience must not grow with what is to be sent.
const PATIENT: &str = "limits: { client_idle_timeout: 1s, min_body_rate: 1 }";

const OWN: &str = "workers: 1
listeners:
  - { name: web, bind: \"127.0.0.1:0\" }
  - { name: secure, bind: \"127.0.0.1:0\", tls: { keystore: main } }
keystores: { main: { folder: certs, default: a.test } }
routes:
  - { name: fixed, path: \"/fixed/{n}\", respond: { status: 200, body: \"BODY\" } }
  - { name: moved, path: \"/moved\", redirect: { to: \"https://x.test/LONG\" } }
LIMITS
";

fn big() -> Upstream {
    Upstream::start(|_| {
        let length = 64 << 20;
        Reply::Close(
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes(), vec![b'x'; length]].concat(),
        )
    })
}

/// Whether there is a line of a client that was too slow.
fn was_slow(gate: &Gate, target: &str) -> bool {
    let log = std::fs::read_to_string(gate.dir.path().join("access.log")).unwrap_or_default();
    let mut lines = log.lines().filter(|line| line.contains("client_write_timeout") && line.contains(target));
    lines.any(|line| line.contains(r#""fault":"client""#))
}

fn expect_slow(gate: &Gate, target: &str) {
    wait_until(&format!("a client that was too slow for {target}"), || was_slow(gate, target));
}

#[test]
fn a_client_that_accepts_nothing_has_its_idle_timeout_and_no_more() {
    let upstream = big();
    let plain = gate(upstream.address, Parts { file: PATIENT, ..Parts::default() });
    let mut client = connect(plain.address("web"));
    client.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    expect_slow(&plain, "/big");
    assert!(read_to_end(&mut client).len() < 64 << 20);
    let secure = secure_gate(upstream.address, Parts { file: PATIENT, ..Parts::default() });
    // Over HTTP/2 with windows wide open, so that it is the socket that takes no more.
    let mut client = Frames::open(secure.address("web"), secure.dir.path());
    let most = 0x7fff_ffff_u32.to_be_bytes();
    client.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &most].concat()));
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65535).to_be_bytes()));
    client.headers(1, &get("/big"), true);
    expect_slow(&secure, "/big");
    // And with no window for the stream.
    let mut client = Frames::open(secure.address("web"), secure.dir.path());
    client.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    client.headers(1, &get("/none"), true);
    assert!(matches!(client.outcome(1), crate::harness::frames::Outcome::Reset(_)));
    expect_slow(&secure, "/none");
}

#[test]
fn responses_of_our_own_wait_no_longer_than_others() {
    let text = OWN.replace("BODY", &"x".repeat(60_000)).replace("LIMITS", PATIENT).replace("LONG", &"y".repeat(6000));
    let gate = Gate::start_in(certificates(&[("a.test", false)]), &text);
    // A pipeline that nobody reads.
    for target in ["/fixed/1", "/moved"] {
        let mut client = connect(gate.address("web"));
        client.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        let many = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").repeat(1000);
        let mut at = 0;
        wait_until(&format!("a slow client of {target}"), || {
            at = (at + client.write(&many.as_bytes()[at..]).unwrap_or(0)) % many.len();
            was_slow(&gate, target)
        });
    }
    // No window for the body of one stream, while others are served.
    let mut client = Frames::open(gate.address("secure"), gate.dir.path());
    client.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for (stream, target) in [(1, "/fixed/2"), (5, "/none/2")] {
        client.headers(stream, &get(target), true);
        client.headers(stream + 2, &get("/moved"), true);
    }
    let mut reset = Vec::new();
    while reset.len() < 2 {
        let frame = client.next().expect("the connection stays");
        if frame.kind == crate::harness::frames::RST_STREAM {
            reset.push(frame.stream);
        }
    }
    reset.sort_unstable();
    assert_eq!(reset, [1, 5]);
    expect_slow(&gate, "/fixed/2");
}

#[test]
fn windows_of_one_byte_do_not_hold_a_stream() {
    let upstream = Upstream::start(|_| {
        Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n{}", "x".repeat(50_000)).into_bytes())
    });
    let gate = secure_gate(upstream.address, Parts { file: SHORT, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.send(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
    client.headers(1, &get("/window"), true);
    let mut opened = 0;
    while let Some(frame) = client.next() {
        match frame.kind {
            crate::harness::frames::DATA => {
                opened += 1;
                std::thread::sleep(Duration::from_millis(10));
                client.send(&crate::harness::frames::frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()));
            }
            crate::harness::frames::RST_STREAM => break,
            _ => {}
        }
    }
    assert!((1..10_000).contains(&opened), "{opened} windows");
    expect_slow(&gate, "/window");
}
