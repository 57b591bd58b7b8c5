//! One peer that takes all places and stays silent (rows 1010 to 1013): of the admin listener. Key servers: `key_server::places`; QUIC: `quic::tests`.

#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::edge::yaml;
use crate::harness::{Gate, Upstream, connect, exchange, read_response, statuses};

/// More than there are places of any kind.
const MANY: usize = 80;

/// A gate whose admin listener asks for a token, and that listener.
fn gate(upstream: &Upstream) -> (Gate, SocketAddr) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "0123456789abcdef0123").unwrap();
    let admin = "admin: { bind: \"127.0.0.2:0\", token: { file: token } }";
    let text = yaml(upstream, "", "").replace("admin: { bind: \"127.0.0.2:0\" }", admin);
    assert!(text.contains(admin), "{text}");
    let gate = Gate::start_in(dir, &text);
    let admin = gate.address("admin");
    (gate, admin)
}

fn silent(address: SocketAddr, first: &[u8]) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = connect(address);
        // One that had to give way already hears of it later.
        let _ = stream.write_all(first);
        stream
    };
    (0..MANY).map(open).collect()
}

const AUTHENTICATED: &str = "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef0123\r\n";

fn is_ready(admin: SocketAddr) {
    let ready = exchange(admin, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&ready), [200], "{}", String::from_utf8_lossy(&ready));
    let config =
        exchange(admin, format!("GET /config HTTP/1.1\r\n{AUTHENTICATED}Connection: close\r\n\r\n").as_bytes());
    assert_eq!(statuses(&config), [200]);
}

#[test]
fn silent_connections_to_the_admin_listener_keep_neither_checks_nor_operators_out() {
    let upstream = Upstream::ok();
    let (_gate, admin) = gate(&upstream);
    let mut operator = connect(admin);
    let mut ask = |path: &str| {
        write!(operator, "GET {path} HTTP/1.1\r\n{AUTHENTICATED}\r\n").unwrap();
        read_response(&mut operator).0
    };
    assert!(ask("/config").contains(" 200 "));
    let kinds: [&[u8]; 4] = [
        b"",
        b"GET /readyz HTTP/1.1\r\nHost: local",
        b"GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    let mut open = Vec::new();
    for first in kinds {
        open.push(silent(admin, first));
        is_ready(admin);
        assert!(ask("/config").contains(" 200 "), "whoever has shown who it is stays");
    }
    // The oldest have given way.
    let mut rest = Vec::new();
    let _ = open[0][0].read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn more_operators_than_there_are_places_for_are_served_and_checks_beside_them() {
    let upstream = Upstream::ok();
    let (_gate, admin) = gate(&upstream);
    let open = (0..MANY).map(|_| {
        let mut operator = connect(admin);
        write!(operator, "GET /metrics HTTP/1.1\r\n{AUTHENTICATED}\r\n").unwrap();
        assert!(read_response(&mut operator).0.contains(" 200 "));
        operator
    });
    let _open: Vec<_> = open.collect();
    is_ready(admin);
}
