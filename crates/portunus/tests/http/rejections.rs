//! Answers in the upstream's place: each status where it belongs, with its reason in the log, and nothing told of what lies behind.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, gate, secure_gate, yaml};
use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_response, statuses, vacant};

const LIMITS: &str = "limits: { request_header_timeout: 2s, client_idle_timeout: 2s, max_request_line: 1KiB, max_headers: 10, max_body: 1KiB }";

/// An upstream that is silent about `/silent` and answers all else.
fn upstream() -> Upstream {
    Upstream::start(|request| match request.line() {
        "GET /silent HTTP/1.1" => Reply::Silence,
        "GET /dies HTTP/1.1" => Reply::Reset(Vec::new()),
        "GET /garbage HTTP/1.1" => Reply::Close(b"garbage\r\n\r\n".to_vec()),
        _ => Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    })
}

/// Sends a request and expects this status, reason and fault, as text and as a problem document.
fn check(gate: &Gate, lines: &mut usize, sent: &str, status: u16, reason: &str, fault: &str) {
    for accept in ["*/*", "application/json"] {
        let sent = sent.replacen("\r\n", &format!("\r\nAccept: {accept}\r\n"), 1);
        let response = String::from_utf8(exchange(gate.address("web"), sent.as_bytes())).unwrap();
        assert_eq!(statuses(response.as_bytes()), [status], "{}", &sent[..sent.len().min(100)]);
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        // A head that was not understood tells no wishes.
        if accept == "application/json" && head.contains("problem+json") {
            let problem: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(problem["status"], status);
        } else {
            assert!(body.starts_with(&status.to_string()) && body.len() < 60, "{body}");
        }
        for telling in ["127.0.0.1", "ortunus", "pstream", "route"] {
            assert!(!response.contains(telling), "{telling} in {response}");
        }
        *lines += 1;
        let line = gate.log(*lines).pop().unwrap();
        assert_eq!((line["status"].as_u64(), line["reason"].as_str()), (Some(status.into()), Some(reason)), "{line}");
        assert_eq!(line["fault"], fault, "{line}");
    }
}

#[test]
fn each_rejection_has_its_status_and_reason() {
    let upstream = upstream();
    let routes = "  - { name: hosted, hosts: [named.example], path: \"/only\", methods: [GET, POST], upstream: app }
  - { name: gone, path: \"/gone\", upstream: gone }
  - { name: small, path: \"/small\", upstream: app, max_body: 10B }
  - { name: forbidden, path: \"/forbidden\", respond: { status: 403 } }
  - { name: silent, path: \"/silent\", upstream: app, response_header_timeout: 2s }
";
    let text = yaml(
        &[upstream.address],
        Parts { upstream: ", ejection: { failures: 0 }", routes, file: LIMITS, ..Parts::default() },
    );
    let text = text.replace("upstreams:\n", &format!("upstreams:\n  gone: {{ servers: [\"{}\"] }}\n", vacant()));
    let gate = Gate::start(&text);
    let get = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let post =
        |path: &str, fields: &str| format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    let lines = &mut 0;
    check(&gate, lines, "GET / HTTP/1.1\r\n\r\n", 400, "missing_host", "client");
    check(&gate, lines, &get("/a%2fb", "x"), 400, "encoded_slash", "client");
    check(&gate, lines, &get("/other", "named.example"), 404, "no_route", "client");
    check(&gate, lines, &get("/only", "named.example").replace("GET", "PUT"), 405, "method_not_allowed", "client");
    check(&gate, lines, "GET /slow HTTP/1.1\r\nHost: x\r\n", 408, "request_header_timeout", "client");
    check(&gate, lines, &post("/slow", "Content-Length: 5\r\n"), 408, "request_body_timeout", "client");
    check(&gate, lines, &post("/small", "Content-Length: 11\r\n"), 413, "body_too_large", "client");
    check(
        &gate,
        lines,
        &(post("/small", "Transfer-Encoding: chunked\r\n") + "b\r\nhello world\r\n0\r\n\r\n"),
        413,
        "body_too_large",
        "client",
    );
    check(&gate, lines, &post("/", "Content-Length: 1025\r\n"), 413, "body_too_large", "client");
    check(&gate, lines, &get(&"/x".repeat(600), "x"), 414, "request_line_too_long", "client");
    check(&gate, lines, &post("/", "Expect: magic\r\nContent-Length: 1\r\n"), 417, "unknown_expectation", "client");
    check(&gate, lines, &post("/", &"A: b\r\n".repeat(20)), 431, "too_many_fields", "client");
    check(&gate, lines, &post("/", "Transfer-Encoding: gzip\r\n"), 501, "unknown_transfer_coding", "client");
    check(&gate, lines, &get("/gone", "x"), 502, "upstream_refused", "upstream");
    check(&gate, lines, &get("/dies", "x"), 502, "upstream_closed", "upstream");
    check(&gate, lines, &get("/garbage", "x"), 502, "bad_version", "upstream");
    check(&gate, lines, &get("/silent", "x"), 504, "response_header_timeout", "upstream");
    let forbidden = exchange(gate.address("web"), get("/forbidden", "x").as_bytes());
    assert_eq!(statuses(&forbidden), [403]);
}

#[test]
fn a_group_that_is_full_responses_503() {
    let upstream = upstream();
    let gate = gate(upstream.address, Parts { upstream: ", max_in_flight: 1", ..Parts::default() });
    let mut first = connect(gate.address("web"));
    first.write_all(b"GET /silent HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    crate::harness::wait_until("the first request", || upstream.seen().len() == 1);
    let response = exchange(gate.address("web"), b"GET /more HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&response), [503]);
    assert!(String::from_utf8_lossy(&response).contains("\r\nRetry-After: "));
    let line = gate.log(1).remove(0);
    assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some("upstream_overflow"), Some("proxy")));
    assert_eq!(upstream.seen().len(), 1);
}

/// A client at another address than ours.
fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
    stream
}

#[test]
fn one_client_cannot_take_all_of_a_group() {
    let upstream = upstream();
    let gate = gate(
        upstream.address,
        Parts { upstream: ", max_in_flight: 4, max_in_flight_per_client: 2", ..Parts::default() },
    );
    let hold = || {
        let mut client = connect_from([127, 0, 0, 5], gate.address("web"));
        client.write_all(b"GET /silent HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        client
    };
    let held = [hold(), hold()];
    crate::harness::wait_until("both requests", || upstream.seen().len() == 2);
    let ask = |from: [u8; 4]| {
        let mut client = connect_from(from, gate.address("web"));
        client.write_all(b"GET /more HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        String::from_utf8_lossy(&crate::harness::read_to_end(&mut client)).into_owned()
    };
    let rejected = ask([127, 0, 0, 5]);
    assert!(rejected.starts_with("HTTP/1.1 429 ") && rejected.contains("\r\nRetry-After: "), "{rejected}");
    assert!(ask([127, 0, 0, 6]).starts_with("HTTP/1.1 200 "), "another client");
    let log = gate.log(2);
    assert_eq!((log[0]["reason"].as_str(), log[0]["fault"].as_str()), (Some("too_many_in_flight"), Some("client")));
    assert_eq!(upstream.seen().len(), 3, "what was rejected did not go on");
    // What has ended is counted no more.
    for _ in 0..5 {
        assert!(ask([127, 0, 0, 6]).starts_with("HTTP/1.1 200 "));
    }
    drop(held);
}

#[test]
fn an_upstream_that_takes_no_body_is_504() {
    let address = crate::harness::trial::server(|_, stream| {
        // Reads nothing, ever: the stream stays open with this thread.
        loop {
            std::thread::park();
            assert!(stream.peer_addr().is_ok());
        }
    });
    let gate =
        gate(address, Parts { upstream: ", idle_timeout: 200ms, response_header_timeout: 200ms", ..Parts::default() });
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /stuck HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n").unwrap();
    let mut sender = client.try_clone().unwrap();
    let sending = std::thread::spawn(move || _ = sender.write_all(&vec![b'x'; 60_000_000]));
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 504 "));
    let _ = client.shutdown(std::net::Shutdown::Both);
    sending.join().unwrap();
    assert_eq!(gate.log(1)[0]["reason"], "response_header_timeout");
}

#[test]
fn a_host_under_another_tls_policy_is_421() {
    let upstream = Upstream::ok();
    let gate = secure_gate(upstream.address, Parts::default());
    let text = yaml(
        &[upstream.address],
        Parts { file: "keystores: { main: { folder: certs, default: a.test } }\n", ..Parts::default() },
    );
    let strict = "bind: \"127.0.0.1:0\", tls: { keystore: main, names: [{ host: b.test, min_version: \"1.3\" }] }";
    let text = text.replace("bind: \"127.0.0.1:0\"", strict);
    let ask = |gate: &Gate, host: &str| {
        let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
        write!(client, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        statuses(&crate::harness::read_to_end(&mut client))
    };
    // Names under one policy may share a connection.
    assert_eq!((ask(&gate, "a.test"), ask(&gate, "b.test")), (vec![200], vec![200]));
    drop(gate);
    let strict = Gate::start_in(crate::harness::certificates(&[("a.test", false), ("b.test", false)]), &text);
    for (host, status) in [("a.test", 200), ("b.test", 421), ("B.TEST.:443", 421)] {
        assert_eq!(ask(&strict, host), [status], "{host}");
    }
    assert_eq!(strict.log(3)[1]["reason"], "tls_policy_mismatch");
    assert_eq!(upstream.seen().len(), 3);
}

/// A POST without a body over HTTP/2 by curl, with this content type; gives head and body of the response.
fn post_http2(gate: &Gate, path: &str, content_type: &str) -> (String, String) {
    let address = gate.address("web");
    let ca = gate.dir.path().join("ca.pem");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--http2", "--include", "--request", "POST"])
        .args(["--header", &format!("Content-Type: {content_type}"), "--cacert", ca.to_str().unwrap()])
        .args(["--resolve", &format!("a.test:{}:{}", address.port(), address.ip())])
        .arg(format!("https://a.test:{}{path}", address.port()))
        .output()
        .expect("curl is installed (Debian package curl)");
    let text = String::from_utf8_lossy(&output.stdout);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path} {content_type} {output:?} {text}"));
    (head.to_owned(), body.to_owned())
}

#[test]
fn grpc_calls_are_rejected_with_a_grpc_status() {
    let upstream = upstream();
    let routes = "  - { name: gone, path: \"/gone\", upstream: gone }
  - { name: read, path: \"/read\", methods: [GET], upstream: app }
  - { name: tenant, path: \"/t\", hosts: b.test, upstream: app }
";
    let gone = format!("  gone: {{ servers: [\"{}\"] }}\n", vacant());
    let text = yaml(&[upstream.address], Parts { routes, ..Parts::default() });
    let text = text
        .replace("path: \"/{*rest}\"", "path: \"/served/{*rest}\"")
        .replace("upstreams:\n", &format!("upstreams:\n{gone}"));
    let text = text.replace("bind: \"127.0.0.1:0\"", "bind: \"127.0.0.1:0\", tls: { keystore: main }");
    let text = format!("{text}keystores: {{ main: {{ folder: certs, default: a.test }} }}\n");
    let gate = Gate::start_in(crate::harness::certificates(&[("a.test", false)]), &text);
    let rows = [
        ("/t", "application/grpc", 404, "12", "no_route"),
        ("/read", "application/grpc+proto", 405, "12", "method_not_allowed"),
        ("/served/a%2fb", "Application/gRPC;x=y", 400, "3", "encoded_slash"),
        ("/gone", "application/grpc+json", 502, "14", "upstream_refused"),
    ];
    for (at, (path, content_type, status, grpc_status, reason)) in rows.into_iter().enumerate() {
        let (head, body) = post_http2(&gate, path, content_type);
        let fields: Vec<&str> = head.lines().map(str::trim_end).collect();
        assert_eq!((fields[0], body.as_str()), ("HTTP/2 200", ""), "{head}");
        assert!(fields.contains(&&*format!("grpc-status: {grpc_status}")), "{head}");
        assert!(fields.contains(&"content-type: application/grpc"), "{head}");
        assert!(head.contains(&format!("\ngrpc-message: {status} ")), "{head}");
        let line = gate.log(at + 1).pop().unwrap();
        assert_eq!((line["status"].as_u64(), line["reason"].as_str()), (Some(status), Some(reason)), "{line}");
    }
    for other in ["application/grpc-web+proto", "application/json", "text/plain; application/grpc"] {
        let (head, body) = post_http2(&gate, "/t", other);
        assert!(head.starts_with("HTTP/2 404") && !head.contains("grpc-status") && body.contains("404"), "{head}");
    }
    // HTTP/1.1 carries no gRPC.
    let plain = "POST /t HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
    client.write_all(plain.as_bytes()).unwrap();
    assert_eq!(statuses(&crate::harness::read_to_end(&mut client)), [404]);
    assert!(upstream.seen().is_empty());
}
