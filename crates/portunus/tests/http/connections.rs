//! Connections: upgrades, caps, half-closed clients, pipelines, reuse.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, gate, secure_gate, server, yaml};
use crate::harness::{
    Gate, PATIENCE, Reply, Upstream, connect, exchange, read_response, read_to_end, statuses, wait_until,
};

/// A gate that serves clients which have ended their direction.
fn half_close_served(server: SocketAddr) -> Gate {
    let text = yaml(&[server], Parts::default());
    Gate::start(&text.replace("bind: \"127.0.0.1:0\"", "bind: \"127.0.0.1:0\", half_close: serve"))
}

#[test]
fn a_client_that_has_finished_sending_is_still_answered() {
    let upstream = Upstream::ok();
    let gate = half_close_served(upstream.address);
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let response = read_to_end(&mut client);
    assert!(
        response.starts_with(b"HTTP/1.1 200 OK\r\n") && response.ends_with(b"\r\n\r\nok"),
        "{}",
        response.escape_ascii()
    );
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
    let lines = gate.log(3);
    // Its end may come while the upstream is still being connected to, when nobody reads the body.
    let is_cut =
        |line: &serde_json::Value| line["reason"] == "request_truncated" || line["reason"] == "client_disconnected";
    assert!(lines[..2].iter().all(is_cut) && lines[2]["reason"] == "request_header_truncated", "{lines:#?}");
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
        assert_eq!(read_response(&mut client).1, format!("GET /{number} HTTP/1.1").as_bytes());
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
        assert_eq!(read_response(client).1, b"ok");
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
        let response = exchange(gate.address("web"), b"GET /again HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        statuses(&response) == [200]
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
        assert_eq!(read_response(client).1, b"ok");
    }
    let mut waiting = connect(gate.address("web"));
    waiting.write_all(b"GET /waiting HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    gate.wait_for("max_connections reached");
    assert_eq!(upstream.seen().len(), 2);
    drop(held);
    assert_eq!(read_response(&mut waiting).1, b"ok");
}

#[test]
fn a_connection_ends_politely_after_its_last_request() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts { file: "limits: { max_requests_per_connection: 2 }", ..Parts::default() });
    let mut client = connect(gate.address("web"));
    client.write_all(&b"GET /n HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3)).unwrap();
    assert!(!read_response(&mut client).0.contains("Connection: close"));
    assert!(read_response(&mut client).0.contains("Connection: close\r\n"));
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
    let (head, _) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("Sec-WebSocket-Accept: x=\r\n"), "{head}");
    client.write_all(b"\x81\x05hello").unwrap();
    assert_eq!(read_to_end(&mut client), b"\x81\x05hello");
    let mut client = connect(gate.address("web"));
    client.write_all(request("/none").as_bytes()).unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 426 "));
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
            let (head, _) = read_response(&mut client);
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

/// What an upstream that never ends a response tells: that it was asked, and that its connection has ended.
#[derive(Debug, PartialEq, Eq)]
enum Reported {
    Asked,
    Ended,
}

/// An upstream that says `first` to whatever is below `/wait` and nothing more; `ok` to everything else.
fn waiting(first: &'static [u8]) -> (Upstream, Receiver<Reported>) {
    let (report, reported) = channel();
    let report = Mutex::new(report);
    let upstream = Upstream::start(move |request| {
        if !request.line().starts_with("GET /wait") {
            return Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
        }
        let report = report.lock().unwrap().clone();
        Reply::Take(Box::new(move |mut stream| {
            let _ = stream.write_all(first);
            report.send(Reported::Asked).unwrap();
            // An end or a reset.
            assert!(!matches!(stream.read(&mut [0]), Ok(count) if count > 0));
            let _ = report.send(Reported::Ended);
        }))
    });
    (upstream, reported)
}

fn reset(client: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO)).unwrap();
}

const EVENTS: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n";

/// The one place of the group is free again, and the log says why.
fn expect_freed(gate: &Gate, reported: &Receiver<Reported>) {
    assert_eq!(reported.recv_timeout(PATIENCE), Ok(Reported::Ended), "the upstream's request must end");
    wait_until("the log", || {
        gate.log(1).iter().any(|line| line["reason"] == "client_disconnected" && line["fault"] == "client")
    });
}

#[test]
fn a_client_that_is_gone_ends_its_request() {
    for (first, ends) in [(&b""[..], "reset"), (b"", "close"), (EVENTS, "reset"), (EVENTS, "close")] {
        let (upstream, reported) = waiting(first);
        let gate = gate(upstream.address, Parts { upstream: ", max_in_flight: 1", ..Parts::default() });
        let mut client = connect(gate.address("web"));
        client.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(reported.recv_timeout(PATIENCE), Ok(Reported::Asked));
        if !first.is_empty() {
            let mut seen = [0; 5];
            while &seen != b"event" {
                seen.rotate_left(1);
                client.read_exact(&mut seen[4..]).unwrap();
            }
        }
        if ends == "reset" {
            reset(&client);
        }
        drop(client);
        expect_freed(&gate, &reported);
        let response = exchange(gate.address("web"), b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_eq!(statuses(&response), [200], "{ends}");
    }
}

#[test]
fn a_client_that_is_gone_ends_its_request_under_tls() {
    for ends in ["reset", "close"] {
        let (upstream, reported) = waiting(b"");
        let gate = secure_gate(upstream.address, Parts::default());
        let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
        client.write_all(b"GET /wait HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        assert_eq!(reported.recv_timeout(PATIENCE), Ok(Reported::Asked));
        if ends == "reset" {
            reset(client.socket());
        } else {
            client.finish();
        }
        drop(client);
        expect_freed(&gate, &reported);
    }
}

#[test]
fn a_client_that_resets_has_gone_wherever_half_closed_ones_are_served() {
    let (upstream, reported) = waiting(b"");
    let gate = half_close_served(upstream.address);
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(reported.recv_timeout(PATIENCE), Ok(Reported::Asked));
    client.shutdown(Shutdown::Write).unwrap();
    // Served all the same: another request comes and goes meanwhile.
    let response = exchange(gate.address("web"), b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&response), [200]);
    assert!(reported.try_recv().is_err(), "it has only ended its direction");
    reset(&client);
    drop(client);
    expect_freed(&gate, &reported);
}

#[test]
fn waiting_for_the_end_of_a_client_loses_nothing_it_sent() {
    let (report, reported) = channel();
    let (go_on, wait) = channel::<()>();
    let (report, wait) = (Mutex::new(report), Mutex::new(wait));
    let upstream = Upstream::start(move |request| {
        report.lock().unwrap().send(request.line().to_owned()).unwrap();
        wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    for path in ["/1", "/2", "/3"] {
        write!(client, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        // The next ones come while this one waits.
        if path == "/1" {
            assert_eq!(reported.recv_timeout(PATIENCE).unwrap(), "GET /1 HTTP/1.1");
        }
    }
    for path in ["/1", "/2", "/3"] {
        if path != "/1" {
            assert_eq!(reported.recv_timeout(PATIENCE).unwrap(), format!("GET {path} HTTP/1.1"));
        }
        go_on.send(()).unwrap();
        assert_eq!(read_response(&mut client).1, b"ok");
    }
    // And bytes that wait unread do not hide that it has gone.
    write!(client, "GET /4 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(reported.recv_timeout(PATIENCE).unwrap(), "GET /4 HTTP/1.1");
    write!(client, "GET /5 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    reset(&client);
    drop(client);
    wait_until("the log", || {
        gate.log(4).iter().any(|line| line["target"] == "/4" && line["reason"] == "client_disconnected")
    });
}

/// An upstream under TLS that reads the first bytes of each handshake and says nothing: a connect that never ends. Tells when it was asked and when the
/// connection has ended.
fn never_connected() -> (SocketAddr, Receiver<Reported>) {
    let (report, reported) = channel();
    let report = Mutex::new(report);
    let address = server(move |_, mut stream| {
        let report = report.lock().unwrap().clone();
        assert!(matches!(stream.read(&mut [0; 65536]), Ok(count) if count > 0));
        let _ = report.send(Reported::Asked);
        while matches!(stream.read(&mut [0; 65536]), Ok(count) if count > 0) {}
        let _ = report.send(Reported::Ended);
    });
    (address, reported)
}

/// The response is not begun, nor even the connection to the upstream: the client is noticed to be gone all the same.
#[test]
fn a_client_that_is_gone_ends_the_connect_to_its_upstream() {
    for protocol in ["http1", "http2"] {
        for ends in ["reset", "close"] {
            let (address, reported) = never_connected();
            let upstream = format!(
                ", tls: {{ insecure_skip_verify: true }}, protocol: {protocol}, connect_timeout: 1h, max_in_flight: 1"
            );
            let gate = gate(address, Parts { upstream: &upstream, ..Parts::default() });
            let mut client = connect(gate.address("web"));
            client.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert_eq!(reported.recv_timeout(PATIENCE), Ok(Reported::Asked));
            if ends == "reset" {
                reset(&client);
            }
            drop(client);
            expect_freed(&gate, &reported);
        }
    }
}

/// Clients that give up before `connect_timeout` must not keep a server in use that nobody can connect to.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test may block its thread")]
fn a_server_that_clients_gave_up_connecting_to_is_ejected() {
    let (address, reported) = never_connected();
    let upstream = ", tls: { insecure_skip_verify: true }, connect_timeout: 1h, ejection: { failures: 1 }";
    let gate = gate(address, Parts { upstream, ..Parts::default() });
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(reported.recv_timeout(PATIENCE), Ok(Reported::Asked));
    std::thread::sleep(Duration::from_millis(1200));
    drop(client);
    expect_freed(&gate, &reported);
    gate.wait_for("server ejected");
}

/// However much lies unread before it, a reset is noticed.
#[test]
fn a_reset_is_noticed_behind_pipelined_requests() {
    let (upstream, reported) = waiting(b"");
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(reported.recv_timeout(PATIENCE), Ok(Reported::Asked));
    // As much as the sockets on both sides hold: nothing more can arrive.
    client.set_nonblocking(true).unwrap();
    let requests = b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    while client.write(&requests).is_ok() {}
    reset(&client);
    drop(client);
    expect_freed(&gate, &reported);
}
