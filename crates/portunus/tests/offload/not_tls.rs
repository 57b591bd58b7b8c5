//! What does not begin with TLS at a listener that chooses by server name.

use std::io::{Read, Write};
use std::net::SocketAddr;

use super::site::{Duplex, folder, next, read_all, read_exactly, tcp_upstream, yaml};
use crate::harness::{Gate, connect};

/// What clients begin with that do not begin with TLS.
const BEGINNINGS: [(&str, &[u8]); 6] = [
    ("PostgreSQL's request for TLS", b"\0\0\0\x08\x04\xd2\x16\x2f"),
    ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ("HTTP", b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    ("MQTT", b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd"),
    ("one byte", b"x"),
    ("what begins like TLS", b"\x16\x02\0more"),
];

/// A gate with two listeners like this: `front`, and `hasty`, where clients that say nothing are not waited for.
fn gate(tunnel: &str, listener: &str, named: SocketAddr, other: SocketAddr) -> Gate {
    let listeners = [("front", "1m"), ("hasty", "1s")].map(|(name, timeout)| {
        format!(
            "  - {{ name: {name}, bind: \"127.0.0.1:0\"{listener}, limits: {{ handshake_timeout: {timeout} }}, tunnel: {{ {tunnel} }} }}\n"
        )
    });
    let upstreams = format!(
        "  named: {{ servers: [\"{named}\"], protocol: tcp }}\n  other: {{ servers: [\"{other}\"], protocol: tcp }}"
    );
    Gate::start_in(folder(), &yaml(&listeners.concat(), &upstreams, "policies: { nobody: { deny: 127.0.0.0/8 } }"))
}

#[test]
fn what_does_not_begin_with_tls_goes_to_the_default() {
    let ((named, _named_connections), (other, connections)) = (tcp_upstream(), tcp_upstream());
    for tunnel in [
        "upstream: other, rules: [ { server_name: a.test, upstream: named } ]",
        "upstream: other, rules: [ { alpn: h2, upstream: named } ], not_tls: forward",
        "rules: [ { server_name: a.test, upstream: named }, { client: 127.0.0.0/8, upstream: other } ]",
    ] {
        let gate = gate(tunnel, "", named, other);
        for (what, bytes) in BEGINNINGS {
            let mut near = connect(gate.address("front"));
            near.write_all(bytes).unwrap();
            let mut far = next(&connections);
            assert_eq!(read_exactly(&mut far, bytes.len()), bytes, "{what}");
            far.write_all(b"response").unwrap();
            far.end();
            near.end();
            assert_eq!(read_all(&mut near), b"response", "{what}");
        }
        for line in gate.log(BEGINNINGS.len()) {
            assert_eq!((&line["kind"], &line["reason"]), (&"tunnel".into(), &serde_json::Value::Null), "{line}");
        }
    }
}

#[test]
fn who_waits_for_the_server_to_speak_gets_there() {
    let ((named, _named_connections), (other, connections)) = (tcp_upstream(), tcp_upstream());
    let tunnel = "upstream: other, rules: [ { server_name: a.test, upstream: named } ], not_tls: forward";
    let gate = gate(tunnel, "", named, other);
    let mut near = connect(gate.address("hasty"));
    let mut far = next(&connections);
    far.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    assert_eq!(read_exactly(&mut near, 24), b"220 mail.example ESMTP\r\n");
    near.write_all(b"QUIT\r\n").unwrap();
    assert_eq!(read_exactly(&mut far, 6), b"QUIT\r\n");
}

#[test]
fn what_is_not_tls_is_closed_where_it_has_no_place() {
    let ((named, named_connections), (other, connections)) = (tcp_upstream(), tcp_upstream());
    let (tls, plain) = (", tls: { keystore: main }", "");
    for (tunnel, listener) in [
        ("upstream: other, rules: [ { server_name: a.test, upstream: named } ], not_tls: reject", plain),
        ("rules: [ { server_name: a.test, upstream: named } ]", plain),
        ("rules: [ { server_name: a.test, upstream: named }, { client: 192.0.2.0/24, upstream: other } ]", plain),
        ("upstream: other, rules: [ { server_name: a.test, upstream: named, passthrough: true } ]", tls),
        // A ClientHello behind it could name what a rule guards.
        ("upstream: other, rules: [ { server_name: a.test, upstream: other, policies: [nobody] } ]", plain),
        (
            "rules: [ { server_name: a.test, upstream: named }, { client: 127.0.0.0/8, upstream: other, passthrough: true } ]",
            tls,
        ),
    ] {
        let gate = gate(tunnel, listener, named, other);
        for (what, bytes) in BEGINNINGS {
            let mut near = connect(gate.address("front"));
            near.write_all(bytes).unwrap();
            // A reset is an end, too.
            let mut got = Vec::new();
            let _ = near.read_to_end(&mut got);
            assert_eq!(got, b"", "{tunnel}: {what}");
        }
        let silent = connect(gate.address("hasty"));
        assert_eq!(read_all(&mut { silent }), b"");
        let reasons: Vec<_> = gate.log(BEGINNINGS.len() + 1).iter().map(|line| line["reason"].clone()).collect();
        let (last, others) = reasons.split_last().unwrap();
        assert!(others.iter().all(|reason| reason == "not_tls"), "{tunnel}: {reasons:?}");
        assert_eq!(last, "tls_handshake_timeout", "{tunnel}");
        assert!(named_connections.try_recv().is_err() && connections.try_recv().is_err(), "{tunnel}");
    }
}
