//! Connections at rest to servers that close them: how long they are kept, and what is sent over them. No request is executed twice.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::harness::trial::{Parts, gate, server};
use crate::harness::{Gate, PATIENCE, Reply, Upstream, connect, exchange, read_response, read_to_end, statuses};

/// A server whose responses have these fields, before a gate that keeps connections for an hour.
fn before(fields: &'static str) -> (Upstream, Gate) {
    let upstream = Upstream::start(move |seen| match seen.line() {
        "POST /lost HTTP/1.1" => Reply::Close(Vec::new()),
        _ => Reply::Keep(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n").into()),
    });
    let (keep, file) = (", pool_idle_timeout: 1h", "limits: { keep_alive_timeout: 2s }");
    let gate = gate(upstream.address, Parts { upstream: keep, file, ..Parts::default() });
    (upstream, gate)
}

fn ask(gate: &Gate, request: &str) -> Vec<u16> {
    let request = format!("{request} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    statuses(&exchange(gate.address("web"), request.as_bytes()))
}

/// Has a connection to the server rest for as long as the gate keeps one of a client, by its own clock: two seconds.
fn rest(gate: &Gate) {
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /rest HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"));
    assert_eq!(read_to_end(&mut client), b"");
}

fn connections(upstream: &Upstream) -> Vec<usize> {
    upstream.seen().iter().map(|seen| seen.connection).collect()
}

/// A POST is sent once: not over a connection that its server may just be closing. One that says how long it keeps it does not.
#[test]
fn what_is_sent_once_takes_no_connection_that_has_rested() {
    for (fields, expected) in [
        ("", [0, 1]),
        ("Keep-Alive: 5\r\n", [0, 1]),
        ("Keep-Alive: timeout=3600\r\n", [0, 0]),
        ("Connection: keep-alive\r\nKeep-Alive: timeout=3600, max=100\r\n", [0, 0]),
    ] {
        let (upstream, gate) = before(fields);
        rest(&gate);
        assert_eq!(ask(&gate, "POST /"), [200]);
        assert_eq!(connections(&upstream), expected, "{fields}");
    }
}

#[test]
fn a_server_that_takes_no_further_request_gets_none_on_that_connection() {
    for fields in ["Keep-Alive: timeout=0\r\n", "Keep-Alive: timeout=9, max=0\r\n"] {
        let (upstream, gate) = before(fields);
        for request in ["GET /", "POST /", "GET /"] {
            assert_eq!(ask(&gate, request), [200]);
        }
        assert_eq!(connections(&upstream), [0, 1, 2], "{fields}");
    }
}

/// The server would close its connection after two seconds, the configuration after an hour.
#[test]
fn a_connection_is_closed_before_its_server_does() {
    let (closed, end) = channel();
    let closed = Mutex::new(closed);
    let address = server(move |_, mut stream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=2\r\nContent-Length: 0\r\n\r\n").unwrap();
        closed.lock().unwrap().send(stream.read(&mut [0]).unwrap()).unwrap();
    });
    let gate = gate(address, Parts { upstream: ", pool_idle_timeout: 1h", ..Parts::default() });
    assert_eq!(ask(&gate, "GET /"), [200]);
    assert_eq!(end.recv_timeout(PATIENCE / 2), Ok(0), "the connection is still open");
}

#[test]
fn a_request_that_was_lost_with_its_connection_is_not_sent_again() {
    for fields in ["", "Keep-Alive: timeout=3600\r\n"] {
        let (upstream, gate) = before(fields);
        assert_eq!(ask(&gate, "GET /"), [200]);
        assert_eq!(ask(&gate, "POST /lost"), [502]);
        assert_eq!(ask(&gate, "POST /"), [200]);
        let lost = upstream.seen().iter().filter(|seen| seen.line() == "POST /lost HTTP/1.1").count();
        assert_eq!(lost, 1, "{fields}");
    }
}
