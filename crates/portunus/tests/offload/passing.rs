//! TLS that is passed by unopened, chosen by server name and ALPN, beside TLS that is opened on the same listener.

use std::io::{Read, Write};
use std::process::Command;

use crate::harness::{Gate, Upstream, connect, exchange, read_response, read_to_end};
use crate::secure::Secure;
use crate::site::{Duplex, folder, next, read_all, tcp_upstream, yaml};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

/// A gate that serves HTTPS itself, for others to pass TLS on to.
fn inner(upstream: &Upstream) -> Gate {
    let listeners = "  - { name: tls, bind: \"127.0.0.1:0\", tls: { keystore: main } }";
    let upstreams = format!("  app: {{ servers: [\"{}\"] }}", upstream.address);
    Gate::start_in(folder(), &yaml(listeners, &upstreams, "routes:\n  - { path: \"/{*rest}\", upstream: app }"))
}

#[test]
fn names_lead_to_their_upstreams_and_nothing_is_opened() {
    let upstream = Upstream::ok();
    let inner = inner(&upstream);
    let (other, connections) = tcp_upstream();
    let listeners = "  - name: front
    bind: \"127.0.0.1:0\"
    tunnel:
      rules:
        - { server_name: a.test, upstream: inner }
        - { server_name: \"*.b.test\", upstream: other }
        - { alpn: [imap], upstream: other }";
    let upstreams = format!(
        "  inner: {{ servers: [\"{}\"], protocol: tcp, health: {{ interval: 1s }} }}\n  other: {{ servers: [\"{other}\"] }}",
        inner.address("tls")
    );
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, ""));

    // The inner gate's own certificate is what the client sees and verifies; its CA is not the outer one's.
    let mut near = Secure::connect(gate.address("front"), inner.dir.path(), "a.test", "http/1.1");
    near.write_all(GET).unwrap();
    assert!(read_response(&mut near).0.starts_with("HTTP/1.1 200 "));
    assert_eq!(upstream.seen().len(), 1);
    near.end();
    assert_eq!(read_all(&mut near), b"");

    // Byte for byte, from the first on.
    for (name, protocol) in [("x.b.test", "h2"), ("any.invalid", "imap")] {
        let hello = client_hello(name, protocol);
        let mut near = connect(gate.address("front"));
        for piece in hello.chunks(50) {
            near.write_all(piece).unwrap();
        }
        near.write_all(b"whatever").unwrap();
        near.end();
        let mut far = next(&connections);
        assert_eq!(read_all(&mut far), [&hello[..], b"whatever"].concat(), "{name}");
        far.write_all(b"answer").unwrap();
        far.end();
        assert_eq!(read_all(&mut near), b"answer");
    }
    let lines = gate.log(3);
    assert!(lines.iter().all(|line| line["kind"] == "tunnel" && line["passthrough"] == true), "{lines:?}");
    // The lines of two workers come in any order.
    let named = |name: &str| lines.iter().find(|line| line["server_name"] == name);
    assert!(named("x.b.test").is_some() && named("a.test").is_some_and(|line| line["tls"].is_null()), "{lines:?}");

    // What no rule fits is rejected with an alert, and what is no TLS without one; nothing goes upstream.
    let alert = |code: u8| [21, 3, 1, 0, 2, 2, code];
    assert_eq!(exchange(gate.address("front"), &client_hello("c.test", "h2")), alert(112), "unrecognized_name");
    assert_eq!(exchange(gate.address("front"), b"\x16\x03\x01\0\x06\x01\0\0\x02\x03\x03"), alert(50), "decode_error");
    assert_eq!(exchange(gate.address("front"), GET), b"");
    let rejected = &gate.log(6)[3..];
    let reasons: Vec<_> = rejected.iter().map(|line| line["reason"].as_str().unwrap()).collect();
    assert_eq!(rejected[0]["detail"], "c.test");
    assert_eq!(reasons, ["no_tunnel_for_name", "client_hello_malformed", "not_tls"]);
    assert!(connections.try_recv().is_err());
}

/// A ClientHello as a real client sends it.
fn client_hello(name: &str, protocol: &str) -> Vec<u8> {
    let connector =
        tls::Connector::new(&[], false, None, &[protocol.as_bytes().to_vec()], tls::ProtocolVersion::Tls12).unwrap();
    let mut session = tls::Session::client(&connector, &tls::ServerName::Dns(name.to_owned())).unwrap();
    let mut output = Vec::new();
    session.handshake(&mut &[][..], &mut output).unwrap();
    output
}

#[test]
fn one_listener_opens_some_names_and_passes_others_by() {
    let upstream = Upstream::ok();
    let inner = inner(&upstream);
    let (plain, connections) = tcp_upstream();
    let listeners = "  - name: front
    bind: \"127.0.0.1:0\"
    tls: { keystore: main, alpn: [imap, http/1.1] }
    tunnel:
      upstream: plain
      rules:
        - { server_name: b.test, upstream: inner, passthrough: true }
        - { server_name: a.test, alpn: imap, upstream: mail }";
    let upstreams = format!(
        "  inner: {{ servers: [\"{}\"] }}\n  plain: {{ servers: [\"{plain}\"] }}\n  mail: {{ servers: [\"{plain}\"], send_proxy: v1 }}",
        inner.address("tls")
    );
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, ""));
    let mut near = Secure::connect(gate.address("front"), inner.dir.path(), "b.test", "http/1.1");
    near.write_all(GET).unwrap();
    assert!(read_response(&mut near).0.starts_with("HTTP/1.1 200 "));
    for (protocol, begins) in [("http/1.1", &b"hello"[..]), ("imap", b"PROXY")] {
        let mut near = Secure::connect(gate.address("front"), gate.dir.path(), "a.test", protocol);
        near.write_all(b"hello").unwrap();
        let mut first = [0; 5];
        next(&connections).read_exact(&mut first).unwrap();
        assert_eq!(first, begins, "{protocol}");
    }
}

#[test]
fn names_without_a_tunnel_and_strangers_are_rejected_after_the_handshake() {
    let (plain, connections) = tcp_upstream();
    let listeners = "  - { name: names, bind: \"127.0.0.1:0\", tls: { keystore: main }, tunnel: { rules: [ { server_name: a.test, upstream: plain } ] } }
  - { name: strict, bind: \"127.0.0.2:0\", tls: { keystore: main, strict_sni: true }, tunnel: { upstream: plain } }
  - { name: clients, bind: \"127.0.0.3:0\", tls: { keystore: main, client_certificate: { mode: required, ca: ca.pem } }, tunnel: { upstream: plain } }";
    let upstreams = format!("  plain: {{ servers: [\"{plain}\"] }}");
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, ""));
    let mut near = Secure::connect(gate.address("names"), gate.dir.path(), "b.test", "any");
    assert!(near.read(&mut [0; 1]).is_err());
    for (listener, name) in [("strict", "c.test"), ("clients", "a.test")] {
        let output = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", &gate.address(listener).to_string(), "-servername", name])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let alert = if listener == "strict" { "unrecognized name" } else { "certificate required" };
        assert!(words.contains(alert), "{words}");
    }
    assert_eq!(gate.log(3)[0]["reason"], "no_tunnel_for_name");
    assert!(connections.try_recv().is_err(), "nothing goes upstream");
    let mut near = connect(gate.address("names"));
    near.write_all(GET).unwrap();
    read_to_end(&mut near);
}
