//! Several servers: who is tried again, and what is never sent twice.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::trial::{Parts, server, yaml};
use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_response, statuses, vacant, wait_until};

fn two(first: SocketAddr, second: SocketAddr) -> Gate {
    Gate::start(&yaml(
        &[first, second],
        Parts { upstream: ", ejection: { failures: 0 }, retries: { budget: 100 }", ..Parts::default() },
    ))
}

fn ask(gate: &Gate, method: &str, number: usize) -> Vec<u16> {
    let sent = format!("{method} /{number} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    statuses(&exchange(gate.address("web"), sent.as_bytes()))
}

#[test]
fn a_server_that_rejects_costs_nobody_a_request() {
    let second = Upstream::ok();
    let gate = two(vacant(), second.address);
    // Nothing of a request was sent, so that even a POST may go to the next server.
    for (number, method) in ["GET", "POST", "GET", "PUT", "POST", "DELETE"].into_iter().enumerate() {
        assert_eq!(ask(&gate, method, number), [200], "{method}");
    }
    assert_eq!(second.seen().len(), 6);
    let retries: u64 = gate.log(6).iter().map(|line| line["upstream"]["retries"].as_u64().unwrap()).sum();
    assert!(retries >= 3, "{retries}");
}

#[test]
fn only_idempotent_requests_are_sent_to_a_second_server() {
    // The first takes the request and dies, as a server that is killed does.
    let first = Upstream::start(|_| Reply::Reset(Vec::new()));
    let second = Upstream::ok();
    let gate = two(first.address, second.address);
    for (number, method) in
        ["GET", "GET", "POST", "POST", "HEAD", "HEAD", "PATCH", "PATCH", "DELETE", "DELETE"].into_iter().enumerate()
    {
        let expected: &[u16] = if matches!(method, "POST" | "PATCH") { &[200, 502] } else { &[200] };
        let got = ask(&gate, method, number);
        assert!(got.len() == 1 && expected.contains(&got[0]), "{method}: {got:?}");
    }
    let seen: Vec<_> = first.seen().into_iter().chain(second.seen()).map(|request| request.line().to_owned()).collect();
    for line in seen.iter().filter(|line| line.starts_with("P")) {
        assert_eq!(seen.iter().filter(|other| *other == line).count(), 1, "{line} was sent twice");
    }
    assert!(first.seen().iter().any(|request| request.line().starts_with("P")), "no POST met the dying server");
    assert!(first.seen().iter().any(|request| request.line().starts_with("GET")), "no GET met the dying server");
}

#[test]
fn a_request_with_a_body_under_way_is_not_sent_twice() {
    let first = Upstream::start(|_| Reply::Reset(Vec::new()));
    let second = Upstream::start(|_| Reply::Reset(Vec::new()));
    let gate = two(first.address, second.address);
    let response = exchange(
        gate.address("web"),
        b"PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    );
    assert_eq!(statuses(&response), [502]);
    assert_eq!(first.seen().len() + second.seen().len(), 1);
}

#[test]
fn an_response_that_has_begun_is_never_begun_again() {
    let cut = || Upstream::start(|_| Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec()));
    let (first, second) = (cut(), cut());
    let gate = two(first.address, second.address);
    let response = exchange(gate.address("web"), b"GET /cut HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(statuses(&response).len() <= 1 && !response.ends_with(b"hellohello"), "{}", response.escape_ascii());
    assert_eq!(first.seen().len() + second.seen().len(), 1);
    assert_eq!(gate.log(1)[0]["fault"], "upstream");
}

/// A server that keeps its connections, but for those on which `/kill` is asked: it ends them as `end` does. Gives the request lines it read, and what
/// came of each connection.
fn mortal(end: fn(&TcpStream)) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let address = server(move |_, mut stream| {
        loop {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    return;
                }
                head.push(byte[0]);
            }
            let line = String::from_utf8_lossy(&head).lines().next().unwrap().to_owned();
            let is_last = line.contains("/kill");
            kept.lock().unwrap().push(line);
            if is_last {
                return end(&stream);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    (address, asked)
}

/// An orderly end, as of a process that dies when it has read the request.
fn finish(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}

/// A reset, as of a process that dies with bytes unread.
fn reset(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// One client's connection, kept.
fn asker(gate: &Gate) -> impl FnMut(&str, &str) -> String {
    let mut client = connect(gate.address("web"));
    move |method, path| {
        write!(client, "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
        read_response(&mut client).0[9..12].to_owned()
    }
}

#[test]
fn a_request_that_kills_its_server_is_executed_by_each_server_once_at_most() {
    for (end, name) in [(finish as fn(&TcpStream), "finish"), (reset, "reset")] {
        for method in ["GET", "DELETE", "PUT", "POST"] {
            let servers = [mortal(end), mortal(end)];
            let gate = two(servers[0].0, servers[1].0);
            let mut ask = asker(&gate);
            // Both have a connection at hand.
            for _ in 0..2 {
                assert_eq!(ask("GET", "/"), "200");
            }
            assert_eq!(ask(method, "/kill"), "502", "{method} {name}");
            let kills: Vec<usize> = servers
                .iter()
                .map(|(_, asked)| asked.lock().unwrap().iter().filter(|line| line.contains("/kill")).count())
                .collect();
            let wanted = if method == "POST" { 1 } else { 2 };
            assert!(kills.iter().all(|count| *count <= 1), "{method} {name}: {kills:?}");
            assert_eq!(kills.iter().sum::<usize>(), wanted, "{method} {name}: {kills:?}");
        }
    }
}

#[test]
fn alone_a_server_gets_a_request_again_only_where_its_connection_was_used_before() {
    for (end, method, kills) in [
        // Servers that close a connection at rest, with the request unread, look the same.
        (reset as fn(&TcpStream), "GET", 2),
        (finish, "GET", 2),
        (reset, "POST", 1),
        (finish, "POST", 1),
    ] {
        let (address, asked) = mortal(end);
        let gate =
            Gate::start(&yaml(&[address], Parts { upstream: ", ejection: { failures: 0 }", ..Parts::default() }));
        let mut ask = asker(&gate);
        assert_eq!(ask("GET", "/"), "200");
        assert_eq!(ask(method, "/kill"), "502");
        assert_eq!(ask("GET", "/"), "200");
        let count = asked.lock().unwrap().iter().filter(|line| line.contains("/kill")).count();
        assert_eq!(count, kills, "{method}: {:?}", asked.lock().unwrap());
    }
}

#[test]
fn what_a_server_cannot_have_read_goes_to_a_fresh_connection_whatever_its_method() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // So little room that no head of the second kind fits.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 2048).unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let accepted = Arc::new(AtomicUsize::new(0));
    let held = Arc::new(Mutex::new(Vec::new()));
    let (kept, count) = (Arc::clone(&taken), Arc::clone(&accepted));
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            count.fetch_add(1, Ordering::SeqCst);
            let (mut stream, kept, held) = (stream.unwrap(), Arc::clone(&kept), Arc::clone(&held));
            std::thread::spawn(move || {
                for request in 0.. {
                    if request == 1 && number % 2 == 0 {
                        // Something has arrived, and it is not read: the connection ends, as it does after its time at rest.
                        stream.peek(&mut [0]).unwrap();
                        stream.shutdown(Shutdown::Write).unwrap();
                        return held.lock().unwrap().push(stream);
                    }
                    let (mut head, mut byte) = (Vec::new(), [0]);
                    while !head.ends_with(b"\r\n\r\n") {
                        if stream.read(&mut byte).unwrap_or(0) == 0 {
                            return;
                        }
                        head.push(byte[0]);
                    }
                    let mut body = vec![0; if head.starts_with(b"POST") { 3 } else { 0 }];
                    stream.read_exact(&mut body).unwrap();
                    let line = String::from_utf8_lossy(&head).lines().next().unwrap().to_owned();
                    kept.lock().unwrap().push((number, line));
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                }
            });
        }
    });
    let gate = Gate::start(&yaml(&[address], Parts::default()));
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200 "));
    let cookie = "c".repeat(24_000);
    // The body waits for the head: what is taken of a body is not kept.
    write!(client, "POST /2 HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nContent-Length: 3\r\n\r\n").unwrap();
    wait_until("the other connection", || accepted.load(Ordering::SeqCst) > 1);
    client.write_all(b"abc").unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200 "));
    assert_eq!(*taken.lock().unwrap(), [(0, "GET /1 HTTP/1.1".to_owned()), (1, "POST /2 HTTP/1.1".to_owned())]);
}
