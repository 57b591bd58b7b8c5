//! The gate's main job, end to end: a request goes in over HTTP or TLS, is routed, and its response comes back.

mod balancing;
mod checks;
mod discovery;
mod ejection;
mod health;
mod hedging;
mod policies;
mod queue;
mod retries;
mod servers;
mod sessions;
mod shared_rates;
mod split;
mod upstreams;

use std::io::Write;

use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_response, statuses};

fn gate(upstream: &Upstream) -> Gate {
    Gate::start(&format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
upstreams:
  app: {{ servers: [\"{}\"] }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        upstream.address
    ))
}

#[test]
fn a_request_reaches_the_upstream_once_and_is_logged() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream);
    let response =
        exchange(gate.address("web"), b"GET /a?b=c HTTP/1.1\r\nHost: x.example\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&response), [200]);
    assert!(response.ends_with(b"\r\n\r\nok"));
    let seen = upstream.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].line(), "GET /a?b=c HTTP/1.1");
    assert_eq!(seen[0].fields("host"), ["x.example"]);
    assert_eq!(seen[0].fields("x-forwarded-for"), ["127.0.0.1"]);
    let log = gate.log(1);
    assert_eq!(log[0]["status"], 200);
    assert_eq!(log[0]["target"], "/a?b=c");
    assert!(gate.metrics().contains("portunus_requests_total"));
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn a_connection_carries_many_requests_and_so_does_the_upstreams() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream);
    let mut client = connect(gate.address("web"));
    for number in 0..20 {
        write!(client, "GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let (head, body) = read_response(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(body, b"ok");
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), 20);
    assert!(seen.iter().all(|request| request.connection == 0));
}

#[test]
fn a_body_arrives_whole_however_it_is_framed() {
    let upstream = Upstream::start(|request| {
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len());
        Reply::Keep([response.as_bytes(), &request.body].concat())
    });
    let gate = gate(&upstream);
    let body: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    let mut client = connect(gate.address("web"));
    write!(client, "POST /l HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    client.write_all(&body).unwrap();
    assert_eq!(read_response(&mut client).1, body);
    write!(client, "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    for piece in body.chunks(7777) {
        write!(client, "{:x}\r\n", piece.len()).unwrap();
        client.write_all(piece).unwrap();
        client.write_all(b"\r\n").unwrap();
    }
    client.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut client).1, body);
    let seen = upstream.seen();
    assert_eq!(seen[1].fields("transfer-encoding"), ["chunked"]);
}
