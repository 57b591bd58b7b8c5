//! Connections: upgrades, caps, half-closed clients, pipelines, reuse.

use std::io::{Read, Write};
use std::net::Shutdown;

use crate::harness::{Reply, Upstream, connect, exchange, read_answer, read_to_end, statuses, wait_until};
use crate::trial::{Parts, gate};

#[test]
fn a_client_that_has_finished_sending_is_still_answered() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let answer = read_to_end(&mut client);
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"\r\n\r\nok"), "{}", answer.escape_ascii());
    assert_eq!(upstream.seen()[0].body, b"hello");
    assert_eq!(gate.log(1)[0]["status"], 200);
}

#[test]
fn a_request_cut_by_its_client_is_never_whole_upstream() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    for head in [
        "POST /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello",
        "POST /cut HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let mut client = connect(gate.address("web"));
        client.write_all(head.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(statuses(&read_to_end(&mut client)), [0_u16; 0]);
    }
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /head-cut HTTP/1.1\r\nHo").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"");
    let reasons: Vec<_> = gate.log(3).iter().map(|line| line["reason"].clone()).collect();
    assert_eq!(reasons, ["request_cut", "request_cut", "request_head_cut"]);
    assert!(upstream.seen().iter().all(|seen| !seen.whole));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start(|request| {
        let line = request.line().to_owned();
        Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}", line.len()).into_bytes())
    });
    let gate = gate(upstream.address, Parts::default());
    let sent: String = (0..50).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    let mut client = connect(gate.address("web"));
    client.write_all(sent.as_bytes()).unwrap();
    for number in 0..50 {
        assert_eq!(read_answer(&mut client).1, format!("GET /{number} HTTP/1.1").as_bytes());
    }
    assert_eq!(upstream.seen().len(), 50);
}

#[test]
fn one_client_may_hold_so_many_connections_and_no_more() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts { file: "limits: { max_connections_per_client: 3 }", ..Parts::default() });
    let mut held: Vec<_> = (0..3).map(|_| connect(gate.address("web"))).collect();
    for client in &mut held {
        client.write_all(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(read_answer(client).1, b"ok");
    }
    assert_eq!(exchange(gate.address("web"), b"GET /over HTTP/1.1\r\nHost: x\r\n\r\n"), b"");
    let log = gate.log(4);
    assert_eq!(
        (log[3]["kind"].as_str(), log[3]["reason"].as_str()),
        (Some("connection"), Some("too_many_connections_from_client"))
    );
    drop(held.pop());
    // As soon as one has gone there is room again.
    wait_until("room", || {
        let answer = exchange(gate.address("web"), b"GET /again HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        statuses(&answer) == [200]
    });
    assert!(upstream.seen().iter().all(|seen| seen.line() != "GET /over HTTP/1.1"));
}

#[test]
fn connections_beyond_the_total_wait() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts { file: "limits: { max_connections: 2 }", ..Parts::default() });
    let mut held: Vec<_> = (0..2).map(|_| connect(gate.address("web"))).collect();
    for client in &mut held {
        client.write_all(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(read_answer(client).1, b"ok");
    }
    let mut waiting = connect(gate.address("web"));
    waiting.write_all(b"GET /waiting HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    gate.wait_for("connections are at their limit");
    assert_eq!(upstream.seen().len(), 2);
    drop(held);
    assert_eq!(read_answer(&mut waiting).1, b"ok");
}

#[test]
fn a_connection_ends_politely_after_its_last_request() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts { file: "limits: { max_requests_per_connection: 2 }", ..Parts::default() });
    let mut client = connect(gate.address("web"));
    client.write_all(&b"GET /n HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3)).unwrap();
    assert!(!read_answer(&mut client).0.contains("Connection: close"));
    assert!(read_answer(&mut client).0.contains("Connection: close\r\n"));
    assert_eq!(read_to_end(&mut client), b"");
    assert_eq!(upstream.seen().len(), 2);
}

#[test]
fn a_websocket_passes_where_the_route_allows_it() {
    let upstream = Upstream::start(|request| {
        if request.fields("upgrade") != ["websocket"] {
            return Reply::Keep(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n".to_vec());
        }
        Reply::Take(Box::new(|mut stream| {
            let said = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x=\r\n\r\n";
            stream.write_all(said.as_bytes()).unwrap();
            let mut frame = [0; 7];
            stream.read_exact(&mut frame).unwrap();
            stream.write_all(&frame).unwrap();
        }))
    });
    let routes = "  - { name: none, path: \"/none\", upstream: app, upgrades: [] }\n";
    let gate = gate(upstream.address, Parts { routes, ..Parts::default() });
    let request = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n\r\n"
        )
    };
    let mut client = connect(gate.address("web"));
    client.write_all(request("/ws").as_bytes()).unwrap();
    let (head, _) = read_answer(&mut client);
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("Sec-WebSocket-Accept: x=\r\n"), "{head}");
    client.write_all(b"\x81\x05hello").unwrap();
    assert_eq!(read_to_end(&mut client), b"\x81\x05hello");
    let mut client = connect(gate.address("web"));
    client.write_all(request("/none").as_bytes()).unwrap();
    assert!(read_answer(&mut client).0.starts_with("HTTP/1.1 426 "));
    // The connection is an ordinary one still.
    client.write_all(b"GET /after HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(statuses(&read_to_end(&mut client)), [426]);
}

#[test]
fn an_upstreams_connection_is_replaced_when_it_was_closed() {
    let upstream = Upstream::start(|request| {
        let said = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
        if request.line().starts_with("GET /close") { Reply::Close(said) } else { Reply::Keep(said) }
    });
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    for path in ["/keep", "/close", "/a", "/close", "/b"] {
        for method in ["GET", "POST"] {
            write!(client, "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
            let (head, _) = read_answer(&mut client);
            // A POST may meet a connection that ends at that moment, and is not sent twice then.
            assert!(
                head.starts_with("HTTP/1.1 200 ") || (method == "POST" && head.starts_with("HTTP/1.1 502 ")),
                "{method} {path} {head}"
            );
        }
    }
    let seen = upstream.seen();
    for path in ["/keep", "/close", "/a", "/b"] {
        let posts = seen.iter().filter(|request| request.line() == format!("POST {path} HTTP/1.1")).count();
        assert!(posts <= if path == "/close" { 2 } else { 1 }, "{path}: {posts}");
    }
}
