//! Limits that differ by listener and by route.

use std::net::TcpListener;

use crate::harness::{Gate, Upstream, exchange, statuses};

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
  - {{ name: public, bind: \"127.0.0.1:0\", limits: {{ max_body: 8B, max_headers: 4, max_header_bytes: 1KiB, request_header_timeout: 300ms }} }}
  - {{ name: inner, bind: \"127.0.0.2:0\" }}
upstreams:
  app: {{ servers: [\"{}\"] }}
  silent: {{ servers: [\"{}\"], retries: {{ attempts: 1 }} }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
  - {{ path: /large, upstream: app, max_body: 1KiB }}
  - {{ path: /head, upstream: silent, response_header_timeout: 200ms }}
  - {{ path: /total, upstream: silent, total_timeout: 200ms }}
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
        ("public", get("A: 1\r\nB: 2\r\n"), 200),
        ("public", get("A: 1\r\nB: 2\r\nC: 3\r\n"), 431),
        ("inner", get("A: 1\r\nB: 2\r\nC: 3\r\n"), 200),
        ("public", get(&format!("A: {}\r\n", "x".repeat(1100))), 431),
        ("inner", get(&format!("A: {}\r\n", "x".repeat(1100))), 200),
        ("public", "GET / HTTP/1.1\r\nHost: x\r\n".to_owned(), 408),
        ("inner", "GET /head HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), 504),
        ("inner", "GET /total HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned(), 504),
    ] {
        let line = request.lines().next().unwrap().to_owned();
        assert_eq!(status(&gate, listener, &request), expected, "{listener} {line}");
    }
    gate.stop();
}
