//! Several servers: who is tried again, and what is never sent twice.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_answer, statuses};
use crate::trial::{Parts, refusing, server, yaml};

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
fn a_server_that_refuses_costs_nobody_a_request() {
    let second = Upstream::ok();
    let gate = two(refusing(), second.address);
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
    let answer = exchange(
        gate.address("web"),
        b"PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    );
    assert_eq!(statuses(&answer), [502]);
    assert_eq!(first.seen().len() + second.seen().len(), 1);
}

#[test]
fn an_answer_that_has_begun_is_never_begun_again() {
    let cut = || Upstream::start(|_| Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec()));
    let (first, second) = (cut(), cut());
    let gate = two(first.address, second.address);
    let answer = exchange(gate.address("web"), b"GET /cut HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(statuses(&answer).len() <= 1 && !answer.ends_with(b"hellohello"), "{}", answer.escape_ascii());
    assert_eq!(first.seen().len() + second.seen().len(), 1);
    assert_eq!(gate.log(1)[0]["fault"], "upstream");
}

#[test]
fn a_pooled_connection_that_died_is_replaced_once() {
    // The first connection is left open after its first answer and dies only when the next request is there: no gate can see that coming.
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (kept, deaths) = (Arc::clone(&asked), Arc::new(AtomicUsize::new(0)));
    let address = server(move |_, mut stream| {
        for number in 0.. {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    return;
                }
                head.push(byte[0]);
            }
            kept.lock().unwrap().push(String::from_utf8_lossy(&head).lines().next().unwrap().to_owned());
            if number > 0 {
                deaths.fetch_add(1, Ordering::Relaxed);
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    });
    let gate = Gate::start(&yaml(&[address], Parts { upstream: ", ejection: { failures: 0 }", ..Parts::default() }));
    let mut client = connect(gate.address("web"));
    let mut ask = |method: &str, path: &str| {
        write!(client, "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
        read_answer(&mut client).0
    };
    assert!(ask("GET", "/1").starts_with("HTTP/1.1 200 "));
    assert!(ask("GET", "/2").starts_with("HTTP/1.1 200 "));
    assert!(ask("POST", "/3").starts_with("HTTP/1.1 502 "), "a POST may have run");
    assert!(ask("GET", "/4").starts_with("HTTP/1.1 200 "));
    let asked = asked.lock().unwrap();
    assert_eq!(
        *asked,
        ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1", "GET /2 HTTP/1.1", "POST /3 HTTP/1.1", "GET /4 HTTP/1.1"]
    );
}
