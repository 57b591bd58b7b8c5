//! Who ended a tunnel, and whose fault that was: the side that ended first, however the other one closed behind it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use serde_json::Value;

use super::site::{folder, next, read_exactly, tcp_upstream, tls_upstream, yaml};
use crate::harness::secure::Secure;
use crate::harness::websocket::accept;
use crate::harness::{Gate, Seen, connect};

/// Ends without close_notify once the other side has ended, as Redis does and many other servers.
fn follow(mut secure: Secure) {
    secure.write_all(b"hello").unwrap();
    let mut rest = Vec::new();
    let _ = secure.read_to_end(&mut rest);
    secure.socket().shutdown(Shutdown::Write).unwrap();
}

/// The same with a reset, as with PostgreSQL: something is left unread.
fn follow_with_reset(mut secure: Secure) {
    secure.write_all(b"hello").unwrap();
    let mut rest = Vec::new();
    let _ = secure.read_to_end(&mut rest);
    rustix::net::sockopt::set_socket_linger(secure.socket(), Some(Duration::ZERO)).unwrap();
}

/// Ends by itself without close_notify.
fn leave(mut secure: Secure) {
    secure.write_all(b"hello").unwrap();
    secure.socket().shutdown(Shutdown::Write).unwrap();
    let _ = secure.read(&mut [0]);
}

fn gate(dir: tempfile::TempDir, address: SocketAddr, tls: &str) -> Gate {
    let listeners = "  - { name: plain, bind: \"127.0.0.1:0\", tunnel: { upstream: app } }
  - { name: tls, bind: \"127.0.0.2:0\", tls: { keystore: main }, tunnel: { upstream: app } }";
    Gate::start_in(dir, &yaml(listeners, &format!("  app: {{ servers: [\"{address}\"]{tls} }}"), ""))
}

const TLS: &str = ", connect_timeout: 1m, tls: { ca: ca.pem, server_name: a.test }";

#[track_caller]
fn check(line: &Value, ended_by: &str, fault: Option<&str>, reason: Option<&str>) {
    let text = |name: &str| line[name].as_str();
    assert_eq!((text("ended_by"), text("fault"), text("reason")), (Some(ended_by), fault, reason), "{line}");
}

#[test]
fn a_server_that_closes_behind_its_client_is_not_blamed_for_how_it_does() {
    for serve in [follow, follow_with_reset] {
        let dir = folder();
        let address = tls_upstream(dir.path(), serve);
        let gate = gate(dir, address, TLS);
        let mut near = connect(gate.address("plain"));
        assert_eq!(read_exactly(&mut near, 5), b"hello");
        near.shutdown(Shutdown::Write).unwrap();
        check(&gate.log(1)[0], "client", None, None);
        let mut near = Secure::connect(gate.address("tls"), gate.dir.path(), "a.test", "any");
        assert_eq!(read_exactly(&mut near, 5), b"hello");
        near.finish();
        check(&gate.log(2)[1], "client", None, None);
    }
}

#[test]
fn a_server_that_leaves_first_without_close_notify_is_blamed() {
    let dir = folder();
    let address = tls_upstream(dir.path(), leave);
    let gate = gate(dir, address, TLS);
    let mut near = connect(gate.address("plain"));
    let mut got = Vec::new();
    let _ = near.read_to_end(&mut got);
    assert_eq!(got, b"hello");
    check(&gate.log(1)[0], "upstream", Some("upstream"), Some("close_notify_missing"));
}

#[test]
fn a_client_that_closes_behind_its_server_is_not_blamed_and_one_that_leaves_first_is() {
    let (address, connections) = tcp_upstream();
    let gate = gate(folder(), address, "");
    let mut near = Secure::connect(gate.address("tls"), gate.dir.path(), "a.test", "any");
    let far = next(&connections);
    far.shutdown(Shutdown::Write).unwrap();
    assert_eq!(near.read(&mut [0]).unwrap(), 0);
    near.socket().shutdown(Shutdown::Write).unwrap();
    check(&gate.log(1)[0], "upstream", None, None);
    let near = Secure::connect(gate.address("tls"), gate.dir.path(), "a.test", "any");
    let _far = next(&connections);
    near.socket().shutdown(Shutdown::Write).unwrap();
    check(&gate.log(2)[1], "client", Some("client"), Some("close_notify_missing"));
}

/// A WebSocket whose client ends first.
#[test]
fn a_websocket_server_that_closes_behind_its_client_is_not_blamed() {
    let dir = folder();
    let address = tls_upstream(dir.path(), |mut secure| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend_from_slice(&read_exactly(&mut secure, 1));
        }
        let seen = Seen { head: String::from_utf8(head).unwrap(), body: Vec::new(), whole: true, connection: 0 };
        let granted = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            accept(&seen)
        );
        secure.write_all(granted.as_bytes()).unwrap();
        follow(secure);
    });
    let listeners = "  - { name: web, bind: \"127.0.0.1:0\" }";
    let routes = "routes:\n  - { name: all, path: \"/{*rest}\", upstream: app, upgrades: [websocket] }";
    let gate = Gate::start_in(dir, &yaml(listeners, &format!("  app: {{ servers: [\"{address}\"]{TLS} }}"), routes));
    let mut near = connect(gate.address("web"));
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    near.write_all(request.as_bytes()).unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"hello") {
        got.extend_from_slice(&read_exactly(&mut near, 1));
    }
    near.shutdown(Shutdown::Write).unwrap();
    let line = &gate.log(1)[0];
    assert!(line["status"] == 101 && line["reason"].is_null() && line["fault"].is_null(), "{line}");
}
