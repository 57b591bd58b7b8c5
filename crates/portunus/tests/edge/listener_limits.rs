//! Limits that differ by listener and by route.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::harness::{Gate, Upstream, connect, exchange, read_response, statuses, wait_until};

fn status(gate: &Gate, listener: &str, request: &str) -> u16 {
    statuses(&exchange(gate.address(listener), request.as_bytes()))[0]
}

#[test]
fn a_listener_and_a_route_have_limits_of_their_own() {
    let upstream = Upstream::ok();
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gate = Gate::start(&format!(
        "workers: 1
limits: {{ max_body: 64B, max_headers: 10 }}
listeners:
  - {{ name: public, bind: \"127.0.0.1:0\", limits: {{ max_body: 8B, max_headers: 4, max_header_bytes: 1KiB }} }}
  - {{ name: hasty, bind: \"127.0.0.3:0\", limits: {{ request_header_timeout: 1s }} }}
  - {{ name: inner, bind: \"127.0.0.2:0\" }}
upstreams:
  app: {{ servers: [\"{}\"] }}
  silent: {{ servers: [\"{}\"], retries: {{ attempts: 1 }} }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
  - {{ path: /large, upstream: app, max_body: 1KiB }}
  - {{ path: /head, upstream: silent, response_header_timeout: 200ms }}
  - {{ path: /total, upstream: silent, total_timeout: 200ms }}
  - {{ path: /fixed, respond: {{ status: 200, body: fixed }}, max_body: 16B }}
  - {{ path: /moved, redirect: {{ to: /large, status: 307 }} }}
",
        upstream.address,
        silent.local_addr().unwrap()
    ));
    let post = |target: &str, bytes: usize| {
        let body = "x".repeat(bytes);
        format!("POST {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {bytes}\r\n\r\n{body}")
    };
    let get = |fields: &str| format!("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    for (listener, request, expected) in [
        ("public", post("/a", 8), 200),
        ("public", post("/a", 9), 413),
        ("inner", post("/a", 64), 200),
        ("inner", post("/a", 65), 413),
        // The route's own goes before both.
        ("public", post("/large", 1024), 200),
        ("inner", post("/large", 1025), 413),
        // What is read and dropped is bounded, too.
        ("public", post("/fixed", 16), 200),
        ("inner", post("/fixed", 17), 413),
        ("public", post("/moved", 8), 307),
        ("public", post("/moved", 9), 413),
        ("public", get("A: 1\r\nB: 2\r\n"), 200),
        ("public", get("A: 1\r\nB: 2\r\nC: 3\r\n"), 431),
        ("inner", get("A: 1\r\nB: 2\r\nC: 3\r\n"), 200),
        ("public", get(&format!("A: {}\r\n", "x".repeat(1100))), 431),
        ("inner", get(&format!("A: {}\r\n", "x".repeat(1100))), 200),
        ("inner", "GET /head HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), 504),
        ("inner", "GET /total HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), 504),
    ] {
        let line = request.lines().next().unwrap().to_owned();
        assert_eq!(status(&gate, listener, &request), expected, "{listener} {line}");
    }
    // Whoever has said nothing by then, as a test that was stopped, gets no response at all.
    wait_until("a head that does not end to be rejected", || {
        let found = statuses(&exchange(gate.address("hasty"), b"GET / HTTP/1.1\r\nHost: x\r\n"));
        assert!(found.is_empty() || found == [408], "{found:?}");
        !found.is_empty()
    });
    gate.stop();
}

/// The file's are so long that the test would end by them only when it has failed.
#[test]
fn a_listener_has_its_own_time_for_handshakes_and_between_requests() {
    let upstream = Upstream::ok();
    let dir = tempfile::tempdir().unwrap();
    let site = dir.path().join("site");
    std::fs::create_dir(&site).unwrap();
    let authority = keystore::dev_ca::DevCa::new("Test CA").unwrap();
    let pair = authority.issue(&["a.example"], tls::KeyType::Ecdsa, keystore::dev_ca::Purpose::Server).unwrap();
    std::fs::write(site.join("site.pem"), &pair.certificate_pem).unwrap();
    std::fs::write(site.join("site.key"), pair.key_pem.as_bytes()).unwrap();
    let yaml = format!(
        "workers: 1
limits: {{ handshake_timeout: 1h, keep_alive_timeout: 1h, request_header_timeout: 1h }}
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", limits: {{ keep_alive_timeout: 200ms }} }}
  - {{ name: secure, bind: \"127.0.0.2:0\", tls: {{ keystore: site }}, limits: {{ handshake_timeout: 200ms }} }}
keystores: {{ site: {{ folder: site }} }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes: [{{ path: \"/{{*rest}}\", upstream: app }}]
log: {{ access: {{ output: access.log }} }}
admin: {{ bind: \"127.0.0.3:0\" }}
",
        upstream.address
    );
    let gate = Gate::start_in(dir, &yaml);
    let mut kept = connect(gate.address("web"));
    kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(read_response(&mut kept).0.starts_with("HTTP/1.1 200 "));
    assert_eq!(kept.read(&mut [0; 1]).unwrap(), 0, "closed after the time between requests");
    let mut silent = connect(gate.address("secure"));
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0, "closed after the time of a handshake");
    let line = gate.log(2).pop().unwrap();
    assert_eq!(line["reason"], "tls_handshake_timeout", "{line}");
    gate.stop();
}
