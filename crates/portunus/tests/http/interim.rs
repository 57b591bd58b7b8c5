//! Interim answers and 100-continue.

use std::io::{Read, Write};
use std::net::SocketAddr;

use crate::harness::frames::{Frames, Outcome, get};
use crate::harness::http2::http2_server;
use crate::harness::trial::{Parts, gate, secure_gate, server};
use crate::harness::{Reply, Upstream, connect, exchange, read_response, statuses};

fn early() -> Upstream {
    Upstream::start(|_| {
        let said = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
                    HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        Reply::Keep(said.into())
    })
}

#[test]
fn interim_responses_are_forwarded_in_order() {
    let upstream = early();
    let gate = gate(upstream.address, Parts::default());
    let response = exchange(gate.address("web"), b"GET /h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    // A 100 that nobody waits for ends here.
    assert_eq!(statuses(&response), [103, 102, 200]);
    assert!(memchr::memmem::find(&response, b"103 Early Hints\r\nLink: </style.css>; rel=preload\r\n").is_some());
    // HTTP/1.0 knows no interim responses.
    let response = exchange(gate.address("web"), b"GET /h HTTP/1.0\r\nHost: x\r\n\r\n");
    assert_eq!(statuses(&response), [200]);
    assert_eq!(gate.log(2).iter().map(|line| line["status"].as_u64().unwrap()).collect::<Vec<_>>(), [200, 200]);
}

#[test]
fn interim_responses_are_forwarded_over_http_2() {
    let upstream = early();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &get("/h"), true);
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(client.interim, [103, 102]);
}

/// An HTTP/2 server in the clear that hints at once, says 100 where it is asked to, and then sends the body back.
fn early_http2() -> SocketAddr {
    http2_server(hint)
}

async fn hint(request: http::Request<h2::RecvStream>, mut respond: h2::server::SendResponse<bytes::Bytes>) {
    let head = |status: u16| http::Response::builder().status(status);
    let (parts, mut body) = request.into_parts();
    let hints: u32 = parts.headers.get("x-hints").map_or(1, |hints| hints.to_str().unwrap().parse().unwrap());
    for _ in 0..hints {
        let hint = head(103).header("link", "</style.css>; rel=preload").body(()).unwrap();
        respond.send_informational(hint).unwrap();
    }
    if parts.headers.get("expect").is_some_and(|expect| expect == "100-continue") {
        respond.send_informational(head(100).body(()).unwrap()).unwrap();
    }
    let mut received = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        received.extend_from_slice(&piece);
    }
    if let Ok(mut stream) = respond.send_response(head(200).body(()).unwrap(), false) {
        let _ = stream.send_data(received.into(), true);
    }
}

#[test]
fn interim_responses_of_http_2_upstreams_are_forwarded_too() {
    let upstream = Parts { upstream: ", protocol: http2", ..Parts::default() };
    let gate = gate(early_http2(), upstream);
    let mut client = connect(gate.address("web"));
    client.write_all(b"PUT /e HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n").unwrap();
    let (head, _) = read_response(&mut client);
    assert_eq!(head, "HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n");
    assert_eq!(read_response(&mut client).0, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hello").unwrap();
    let response = exchange(gate.address("web"), b"GET /h HTTP/1.0\r\nHost: x\r\n\r\n");
    assert_eq!(statuses(&response), [200], "HTTP/1.0 knows none");
    let flood = b"GET /h HTTP/1.1\r\nHost: x\r\nX-Hints: 40\r\nConnection: close\r\n\r\n";
    assert_eq!(
        statuses(&exchange(gate.address("web"), flood)).last(),
        Some(&502),
        "nor may there be any number of them"
    );
    let secure = secure_gate(early_http2(), upstream);
    let mut client = Frames::open(secure.address("web"), secure.dir.path());
    client.headers(1, &get("/h"), true);
    assert_eq!(client.outcome(1), Outcome::Response(200, Vec::new()));
    assert_eq!(client.interim, [103]);
}

#[test]
fn a_client_that_waits_for_100_gets_the_upstreams() {
    let address = server(|_, mut stream| {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(String::from_utf8(head).unwrap().to_lowercase().contains("\r\nexpect: 100-continue\r\n"));
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
        let _ = stream.read(&mut byte);
    });
    let gate = gate(address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"PUT /e HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n").unwrap();
    let (head, _) = read_response(&mut client);
    assert_eq!(head, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hello").unwrap();
    let (head, body) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("Connection: close"), "{head}");
    assert_eq!(body, b"hello");
    assert_eq!(gate.log(1)[0]["bytes_received"], 5);
}
