//! TLS that is passed by unopened, chosen by server name and ALPN, beside TLS that is opened on the same listener.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::Receiver;

use super::site::{Duplex, folder, next, read_all, tcp_upstream, yaml};
use crate::harness::secure::Secure;
use crate::harness::{
    Gate, NO_SYSTEM_CAS, PATIENCE, Upstream, connect, connect_from, exchange, read_response, read_to_end, timed,
};

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
        let output = timed(PATIENCE, "openssl")
            .args(["s_client", "-quiet", "-connect", &gate.address(listener).to_string(), "-servername", name])
            .args(NO_SYSTEM_CAS)
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

/// Listeners whose tunnels lead clients of 127.0.1.0/24 to an office, one of them to a branch, and others to the rest; and where these are.
fn by_client() -> (Gate, [Receiver<TcpStream>; 3]) {
    let [(office, at_office), (branch, at_branch), (rest, at_rest)] = [(); 3].map(|()| tcp_upstream());
    let rules = "rules: [ { client: 127.0.1.0/24, upstream: office }, { client: [127.0.1.7, 192.0.2.0/24], upstream: branch } ]";
    let listeners = format!(
        "  - {{ name: plain, bind: \"127.0.0.1:0\", tunnel: {{ upstream: rest, {rules} }} }}
  - {{ name: closed, bind: \"127.0.0.2:0\", tunnel: {{ {rules} }} }}
  - {{ name: behind, bind: \"127.0.0.3:0\", proxy_protocol: {{ trust: 127.0.0.1, header_timeout: 1m }}, tunnel: {{ upstream: rest, {rules} }} }}
  - name: tls
    bind: \"127.0.0.4:0\"
    tls: {{ keystore: main }}
    tunnel: {{ upstream: rest, rules: [ {{ server_name: a.test, client: 127.0.1.0/24, upstream: office }}, {{ client: 127.0.1.0/24, upstream: branch }} ] }}
  - name: mixed
    bind: \"127.0.0.5:0\"
    tunnel: {{ rules: [ {{ server_name: a.test, upstream: office }}, {{ client: 127.0.1.0/24, upstream: branch }} ] }}"
    );
    let upstreams = format!(
        "  office: {{ servers: [\"{office}\"] }}\n  branch: {{ servers: [\"{branch}\"] }}\n  rest: {{ servers: [\"{rest}\"] }}"
    );
    (Gate::start_in(folder(), &yaml(&listeners, &upstreams, "")), [at_office, at_branch, at_rest])
}

/// The address that counts is that of the connection, or of the PROXY header.
#[test]
fn clients_lead_to_their_upstreams() {
    let (gate, [at_office, at_branch, at_rest]) = by_client();
    for (listener, source, connections) in [
        ("plain", "127.0.1.1", &at_office),
        ("plain", "127.0.1.7", &at_branch),
        ("plain", "127.0.0.9", &at_rest),
        ("closed", "127.0.1.1", &at_office),
    ] {
        // Bytes of any kind.
        let mut near = connect_from(source, gate.address(listener));
        near.write_all(b"EHLO").unwrap();
        near.end();
        assert_eq!(read_all(&mut next(connections)), b"EHLO", "{listener} {source}");
    }
    assert_eq!(read_to_end(&mut connect_from("127.0.0.9", gate.address("closed"))), b"");
    assert!(gate.log(5).iter().any(|line| line["reason"] == "no_tunnel_for_name"));

    // The address of the connection is that of the balancer.
    for (client, connections) in [("192.0.2.9", &at_branch), ("127.0.1.3", &at_office), ("198.51.100.1", &at_rest)] {
        let mut near = connect_from("127.0.0.1", gate.address("behind"));
        near.write_all(format!("PROXY TCP4 {client} 192.0.2.1 1025 25\r\nEHLO").as_bytes()).unwrap();
        near.end();
        assert_eq!(read_all(&mut next(connections)), b"EHLO", "{client}");
    }
    let mut forged = connect_from("127.0.1.7", gate.address("behind"));
    let _ = forged.write_all(b"PROXY TCP4 127.0.1.3 192.0.2.1 1025 25\r\nEHLO");
    assert_eq!(read_to_end(&mut forged), b"", "a header of whom nobody trusts");

    for (source, name, connections) in
        [("127.0.1.1", "a.test", &at_office), ("127.0.1.1", "b.test", &at_branch), ("127.0.0.9", "a.test", &at_rest)]
    {
        let stream = connect_from(source, gate.address("tls"));
        let mut near = Secure::over(stream, gate.dir.path(), name, "any");
        near.write_all(b"EHLO").unwrap();
        near.end();
        assert_eq!(read_all(&mut next(connections)), b"EHLO", "{source} {name}");
    }
    // Where names decide, too, what begins with no ClientHello is for who is not asked for one.
    for (source, hello, expected) in [
        ("127.0.1.1", client_hello("c.test", "h2"), Some(&at_branch)),
        ("127.0.1.1", client_hello("a.test", "h2"), Some(&at_office)),
        ("127.0.0.9", client_hello("c.test", "h2"), None),
        ("127.0.1.1", b"EHLO nobody.example\r\n".to_vec(), Some(&at_branch)),
        ("127.0.0.9", b"EHLO nobody.example\r\n".to_vec(), None),
    ] {
        let mut near = connect_from(source, gate.address("mixed"));
        let _ = near.write_all(&hello);
        match expected {
            Some(connections) => {
                near.end();
                assert_eq!(read_all(&mut next(connections)), hello, "{source}");
            }
            None => assert!(read_to_end(&mut near).len() <= 7, "{source}: an alert at most"),
        }
    }
    for connections in [at_office, at_branch, at_rest] {
        assert!(connections.try_recv().is_err(), "nothing else goes upstream");
    }
}
