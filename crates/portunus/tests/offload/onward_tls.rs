//! Tunnels that go on under TLS: the server is verified, ends pass both ways, and a PROXY header goes ahead of the handshake.

use std::io::Write;

use super::site::{Duplex, MOMENT, Peer, folder, listens, next, noise, read_all, tcp_upstream, write_in_pieces, yaml};
use crate::harness::secure::Secure;
use crate::harness::{Gate, connect};

/// As HAProxy and nginx take it (`accept-proxy` with `ssl`): in the clear, in front of the ClientHello. Health checks alike.
#[test]
fn the_header_goes_ahead_of_tls() {
    let dir = folder();
    let config = format!(
        "frontend f\n  mode http\n  bind unix@{0}/haproxy.sock ssl crt {0}/certs/0-Ecdsa.pem accept-proxy\n  http-request return status 200 \
         content-type text/plain lf-string \"%[src] %[src_port] %[fc_pp_authority]/%[ssl_fc_sni]\"\n",
        dir.path().display()
    );
    let _haproxy = Peer::haproxy(dir.path(), &config, || listens(&dir.path().join("haproxy.sock")));
    let mut listeners = String::new();
    let mut upstreams = String::new();
    let forms = ["v1", "v2", "v2_tlvs"];
    for (index, form) in forms.iter().enumerate() {
        let bind = format!("bind: \"127.0.1.{}:0\", tls: {{ keystore: main }}", index + 1);
        listeners.push_str(&format!("  - {{ name: {form}, {bind}, tunnel: {{ upstream: {form} }} }}\n"));
        upstreams.push_str(&format!(
            "  {form}: {{ servers: [\"unix:haproxy.sock\"], send_proxy: {form}, connect_timeout: 1m, tls: {{ ca: ca.pem, server_name: a.test }}, \
             health: {{ path: /, interval: 1h, timeout: 1h, fall: 1, rise: 1 }} }}\n"
        ));
    }
    let gate = Gate::start_in(dir, &yaml(&listeners, &upstreams, ""));
    for form in forms {
        let mut near = Secure::connect(gate.address(form), gate.dir.path(), "b.test", "any");
        let local = near.socket().local_addr().unwrap();
        near.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
        let response = String::from_utf8(read_all(&mut near)).unwrap();
        let authority = if form == "v2_tlvs" { "b.test" } else { "" };
        let wanted = format!("{} {} {authority}/a.test", local.ip(), local.port());
        assert!(response.ends_with(&wanted), "{form}: {response:?} instead of {wanted}");
    }
    std::thread::sleep(2 * MOMENT);
    assert!(!gate.diagnostics().iter().any(|line| line.contains("health changed")), "{:?}", gate.diagnostics());
}

/// Sends a stream to its end; the other side reads all of it.
fn carry_and_end(from: &mut dyn Duplex, to: &mut dyn Duplex, bytes: &[u8], seed: u64) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write_in_pieces(from, bytes, seed);
            from.end();
        });
        assert!(read_all(to) == *bytes, "round {seed}");
    });
}

#[test]
fn streams_go_on_under_tls_whole_and_half_closed() {
    let (far_address, connections) = tcp_upstream();
    let inner = "  - { name: inner, bind: \"127.0.0.1:0\", tls: { keystore: main }, tunnel: { upstream: app } }";
    let inner = Gate::start_in(folder(), &yaml(inner, &format!("  app: {{ servers: [\"{far_address}\"] }}"), ""));
    let address = inner.address("inner");
    let listeners = "  - { name: plain, bind: \"127.0.0.1:0\", tunnel: { upstream: good } }
  - { name: tls, bind: \"127.0.0.2:0\", tls: { keystore: main }, tunnel: { upstream: good } }
  - { name: misnamed, bind: \"127.0.0.3:0\", tunnel: { upstream: misnamed } }";
    let dir = folder();
    std::fs::copy(inner.dir.path().join("ca.pem"), dir.path().join("inner-ca.pem")).unwrap();
    let upstreams = format!(
        "  good: {{ servers: [\"{address}\"], connect_timeout: 1m, tls: {{ ca: inner-ca.pem, server_name: a.test }} }}
  misnamed: {{ servers: [\"{address}\"], connect_timeout: 1m, tls: {{ ca: inner-ca.pem, server_name: c.test }} }}"
    );
    let outer = Gate::start_in(dir, &yaml(listeners, &upstreams, ""));
    for (round, listener) in ["plain", "tls", "plain", "tls"].into_iter().enumerate() {
        let seed = round as u64;
        let (up, down) = (noise(seed, 1_000_003), noise(seed + 10, 700_001));
        let mut near: Box<dyn Duplex> = if listener == "tls" {
            Box::new(Secure::connect(outer.address(listener), outer.dir.path(), "b.test", "any"))
        } else {
            Box::new(connect(outer.address(listener)))
        };
        let mut far: Box<dyn Duplex> = Box::new(next(&connections));
        if round < 2 {
            carry_and_end(&mut *near, &mut *far, &up, seed);
            carry_and_end(&mut *far, &mut *near, &down, seed);
        } else {
            carry_and_end(&mut *far, &mut *near, &down, seed);
            carry_and_end(&mut *near, &mut *far, &up, seed);
        }
        let line = outer.log(round + 1).pop().unwrap();
        assert_eq!((&line["bytes_received"], &line["bytes_sent"]), (&up.len().into(), &down.len().into()), "{line}");
        assert!(line["reason"].is_null(), "{line}");
    }
    let mut near = connect(outer.address("misnamed"));
    let _ = near.write_all(b"secret");
    crate::harness::read_to_end(&mut near);
    let line = outer.log(5).pop().unwrap();
    assert_eq!((&line["reason"], &line["fault"]), (&"upstream_certificate".into(), &"upstream".into()), "{line}");
    assert!(connections.try_recv().is_err(), "nothing goes on to a server that is not who it should be");
}
