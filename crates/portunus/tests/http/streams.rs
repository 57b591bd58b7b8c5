//! Streams that go on for long: both ways at once, quiet, slow, and how one ends in which nothing moves any more.
//!
//! Pauses are longer than the limit they are meant to outlive, and limits long enough for what must come before them.

#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;

use crate::harness::frames::{DATA, END_STREAM, Frames, HEADERS, Outcome, frame, get};
use crate::harness::http2::http2_server;
use crate::harness::trial::{Parts, gate, secure_gate, server};
use crate::harness::{Upstream, connect, exchange, read_to_end, statuses};

/// A client that is waited for has so long, and must send so fast.
const STRICT: &str = "limits: { client_idle_timeout: 5s, min_body_rate: 1MB }";

/// Longer than the idle timeout above.
const PAUSE: Duration = Duration::from_secs(8);

/// A server that begins its response at once and sends back what it gets, as it gets it. What it gets must be chunked.
fn echo() -> SocketAddr {
    server(|_, mut stream| {
        let mut buffer = [0; 65536];
        let mut head = Vec::new();
        while memchr::memmem::find(&head, b"\r\n\r\n").is_none() {
            let count = stream.read(&mut buffer).unwrap();
            head.extend_from_slice(&buffer[..count]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        let mut rest = head.split_off(memchr::memmem::find(&head, b"\r\n\r\n").unwrap() + 4);
        while !rest.ends_with(b"0\r\n\r\n") {
            let _ = stream.write_all(&rest);
            match stream.read(&mut buffer) {
                Ok(count) if count > 0 => rest = buffer[..count].to_vec(),
                _ => return,
            }
        }
        let _ = stream.write_all(&rest);
    })
}

/// The same over HTTP/2, in the clear.
fn echo_http2() -> SocketAddr {
    http2_server(|request, mut respond| async move {
        let mut body = request.into_body();
        let Ok(mut sender) = respond.send_response(http::Response::new(()), false) else { return };
        while let Some(Ok(data)) = body.data().await {
            let _ = body.flow_control().release_capacity(data.len());
            let _ = sender.send_data(data, false);
        }
        let _ = sender.send_data(Bytes::new(), true);
    })
}

/// A server over HTTP/2 that responds `200` with how many bytes it got, once it got all of them.
fn counting_http2() -> SocketAddr {
    http2_server(|request, mut respond| async move {
        let mut body = request.into_body();
        let mut count = 0;
        while let Some(data) = body.data().await {
            let Ok(data) = data else { return };
            let _ = body.flow_control().release_capacity(data.len());
            count += data.len();
        }
        let Ok(mut sender) = respond.send_response(http::Response::new(()), false) else { return };
        let _ = sender.send_data(count.to_string().into(), true);
    })
}

fn read_until(client: &mut TcpStream, seen: &mut Vec<u8>, end: &[u8]) {
    let mut byte = [0];
    while !seen.ends_with(end) {
        client.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
}

fn post(path: &'static str, content_type: &'static [u8]) -> Vec<(&'static str, &'static [u8])> {
    let mut fields = get(path);
    fields[0].1 = b"POST";
    fields.push(("content-type", content_type));
    fields
}

#[test]
fn a_stream_both_ways_outlives_quiet_times_of_its_client() {
    let gate = gate(echo(), Parts { file: STRICT, ..Parts::default() });
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /both HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut seen = Vec::new();
    for part in ["one", "two"] {
        write!(client, "{:x}\r\n{part}\r\n", part.len()).unwrap();
        read_until(&mut client, &mut seen, part.as_bytes());
        sleep(PAUSE);
    }
    client.write_all(b"0\r\n\r\n").unwrap();
    read_until(&mut client, &mut seen, b"\r\n0\r\n\r\n");
    let line = &gate.log(1)[0];
    assert_eq!((line["status"].as_u64(), line["reason"].as_str()), (Some(200), None), "{line}");
}

#[test]
fn a_stream_both_ways_outlives_quiet_times_of_its_client_over_http_2() {
    let parts = Parts { file: STRICT, upstream: ", protocol: http2", ..Parts::default() };
    let gate = secure_gate(echo_http2(), parts);
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &post("/both", b"application/octet-stream"), false);
    for part in ["one", "two"] {
        client.send(&frame(DATA, 0, 1, part.as_bytes()));
        loop {
            let frame = client.next().unwrap();
            assert!(matches!(frame.kind, DATA | HEADERS) || frame.stream == 0, "{frame:?}");
            if frame.kind == DATA {
                assert_eq!(frame.payload, part.as_bytes());
                break;
            }
        }
        sleep(PAUSE);
    }
    client.send(&frame(DATA, END_STREAM, 1, b"end"));
    while let Some(frame) = client.next() {
        if frame.kind == DATA && frame.flags & END_STREAM != 0 {
            break;
        }
    }
    let line = &gate.log(1)[0];
    assert_eq!((line["status"].as_u64(), line["reason"].as_str()), (Some(200), None), "{line}");
}

#[test]
fn a_route_may_give_its_clients_more_time() {
    let upstream = Upstream::ok();
    let route = ", client_idle_timeout: 1m, min_body_rate: 0";
    let routes = "  - { name: strict, path: \"/strict\", upstream: app }\n";
    let gate = gate(upstream.address, Parts { route, routes, file: STRICT, ..Parts::default() });
    let head = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
    };
    let mut client = connect(gate.address("web"));
    client.write_all(head("/slow").as_bytes()).unwrap();
    for _ in 0..2 {
        client.write_all(b"2\r\nhi\r\n").unwrap();
        sleep(PAUSE);
    }
    client.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(statuses(&read_to_end(&mut client)), [200]);
    assert_eq!(upstream.seen()[0].body, b"hihi");
    assert_eq!(statuses(&exchange(gate.address("web"), head("/strict").as_bytes())), [408]);
}

#[test]
fn a_client_stream_of_grpc_has_no_least_rate_but_a_longest_pause() {
    // The rate alone would end a stream of small messages after ten seconds.
    let file = "limits: { client_idle_timeout: 10s, min_body_rate: 1MB }";
    let upstream = Upstream::ok();
    let http1 = format!("\n  one: {{ servers: [\"{}\"] }}", upstream.address);
    let upstream_parts = format!(", protocol: http2 }}{}", http1.trim_end_matches(" }"));
    let routes = "  - { name: one, path: \"/one\", upstream: one }\n  - { name: own, path: \"/own\", upstream: app, min_body_rate: 1MB }\n";
    let parts = Parts { file, routes, upstream: &upstream_parts, ..Parts::default() };
    let gate = secure_gate(counting_http2(), parts);
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &post("/count", b"application/grpc+proto"), false);
    // What is no gRPC for its server, or has a rate of its own, is held to it.
    client.headers(3, &post("/one", b"application/grpc"), false);
    client.headers(5, &post("/own", b"application/grpc"), false);
    client.headers(7, &post("/count", b"application/json"), false);
    for _ in 0..45 {
        for stream in [1, 3, 5, 7] {
            client.send(&frame(DATA, 0, stream, b"hello"));
        }
        sleep(Duration::from_millis(300));
    }
    client.send(&frame(DATA, END_STREAM, 1, b"hello"));
    assert_eq!(client.outcome(1), Outcome::Response(200, b"230".to_vec()));
    let log = gate.log(4);
    let slow = |path: &str| {
        log.iter().filter(|line| line["target"] == path && line["reason"] == "request_body_timeout").count()
    };
    assert_eq!((slow("/one"), slow("/own"), slow("/count")), (1, 1, 1), "{log:#?}");
}

#[test]
fn a_stream_in_which_nothing_moves_ends_and_nobody_blames_its_server() {
    let parts = Parts {
        route: ", stream_idle_timeout: 2s",
        upstream: ", ejection: { failures: 1, duration: 1h }",
        ..Parts::default()
    };
    let gate = gate(echo(), parts);
    for _ in 0..2 {
        let mut client = connect(gate.address("web"));
        client.write_all(b"POST /quiet HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").unwrap();
        let response = read_to_end(&mut client);
        assert_eq!(statuses(&response), [200], "a server that was ejected would not be asked");
        assert!(!response.ends_with(b"0\r\n\r\n"), "it must not look whole: {}", response.escape_ascii());
    }
    for line in gate.log(2) {
        assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some("stream_idle_timeout"), Some("client")));
    }
}
