//! Responses that need no upstream: redirects to https, redirects and fixed answers of routes.

use crate::harness::{Gate, exchange, statuses};

const FILE: &str = "workers: 1
listeners:
  - { name: plain, bind: \"127.0.0.1:0\", redirect_to_https: true }
  - { name: other, bind: \"127.0.0.2:0\", redirect_to_https: { port: 8443 } }
  - { name: web, bind: \"127.0.0.3:0\" }
routes:
  - { name: fixed, path: \"/fixed\", respond: { status: 418, body: \"short and stout\", content_type: \"text/x-tea\" }, response_headers: { add: { X-Added: \"1\" } } }
  - { name: empty, path: \"/empty\", respond: { status: 204 } }
  - { name: moved, path: \"/old/{*rest}\", redirect: { to: \"https://new.example/{rest}\", status: 301 } }
  - { name: asked, path: \"/asked/{id}\", redirect: { to: \"/item?id={id}\", status: 303 } }
";

/// The answer to a request without a body.
fn respond(gate: &Gate, listener: &str, line: &str, host: &str) -> String {
    let sent = format!("{line} HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    String::from_utf8(exchange(gate.address(listener), sent.as_bytes())).unwrap()
}

#[test]
fn a_plain_listener_sends_everyone_to_https() {
    let gate = Gate::start(FILE);
    for (listener, line, host, location) in [
        ("plain", "GET /a/b?c=d", "Host: x.example\r\n", "https://x.example/a/b?c=d"),
        ("plain", "POST /a", "Host: X.Example:80\r\n", "https://x.example/a"),
        ("plain", "GET http://y.example:80/z", "Host: x.example\r\n", "https://y.example/z"),
        ("plain", "HEAD /", "Host: [::1]:80\r\n", "https://[::1]/"),
        ("other", "GET /a", "Host: x.example\r\n", "https://x.example:8443/a"),
    ] {
        let response = respond(&gate, listener, line, host);
        assert_eq!(statuses(response.as_bytes()), [308], "{line}: {response}");
        assert!(response.contains(&format!("\r\nLocation: {location}\r\n")), "{line}: {response}");
    }
    for (line, host) in [("OPTIONS *", "Host: x\r\n"), ("GET //evil.example/%0d%0aX:y", "Host: x\r\n"), ("GET /", "")] {
        let response = respond(&gate, "plain", line, host);
        assert_eq!(statuses(response.as_bytes()), [400], "{line}: {response}");
    }
    assert_eq!(gate.log(8).iter().filter(|line| line["status"] == 308).count(), 5);
}

#[test]
fn routes_respond_by_themselves() {
    let gate = Gate::start(FILE);
    for (line, status, parts) in [
        (
            "GET /fixed",
            418,
            &["Content-Type: text/x-tea\r\n", "Content-Length: 15\r\n", "x-added: 1\r\n", "\r\n\r\nshort and stout"][..],
        ),
        ("HEAD /fixed", 418, &["Content-Length: 15\r\n"]),
        ("GET /empty", 204, &[]),
        ("GET /old/a/b?c=d", 301, &["Location: https://new.example/a/b?c=d\r\n", "Content-Length: 0\r\n"]),
        ("GET /asked/1%262?x=y", 303, &["Location: /item?id=1%262\r\n"]),
        ("GET /none", 404, &["\r\n\r\n404 Not Found\n"]),
    ] {
        let response = respond(&gate, "web", line, "Host: x\r\n");
        assert_eq!(statuses(response.as_bytes()), [status], "{line}: {response}");
        for part in parts {
            assert!(response.contains(part), "{line}: {part:?} in {response}");
        }
        if line.starts_with("HEAD") || status == 204 {
            assert!(response.ends_with("\r\n\r\n"), "{response}");
        }
    }
    let response = respond(&gate, "web", "GET /empty", "Host: x\r\n");
    assert!(!response.contains("Content-Length"), "a 204 has no length (RFC 9110 §8.6): {response}");
}
