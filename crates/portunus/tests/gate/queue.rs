//! Limits of servers and groups, and the queue of requests that wait for room.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};

use super::upstreams::gate;
use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_response, statuses, wait_until};

/// Servers whose requests to `/hold` end when the test says so, one after the other.
#[derive(Clone, Default)]
struct Holding(Arc<(Mutex<usize>, Condvar)>);

impl Holding {
    fn server(&self) -> Upstream {
        let holding = self.clone();
        Upstream::start(move |seen| {
            if seen.line().contains("/hold") {
                let (ends, changed) = &*holding.0;
                let mut ends = changed.wait_while(ends.lock().unwrap(), |ends| *ends == 0).unwrap();
                *ends -= 1;
            }
            Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())
        })
    }

    /// Lets so many requests end.
    fn end(&self, requests: usize) {
        *self.0.0.lock().unwrap() += requests;
        self.0.1.notify_all();
    }
}

fn send(gate: &Gate, target: &str) -> TcpStream {
    let mut client = connect(gate.address("web"));
    write!(client, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    client
}

fn get(gate: &Gate) -> (u16, String) {
    let response = exchange(gate.address("web"), b"GET /now HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    (statuses(&response)[0], String::from_utf8_lossy(&response).into_owned())
}

fn metric(gate: &Gate, name: &str) -> Option<f64> {
    gate.metrics().lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn status(client: &mut TcpStream) -> String {
    read_response(client).0.lines().next().unwrap_or_default().to_owned()
}

const OK: &str = "HTTP/1.1 200 OK";

#[test]
fn a_server_gets_no_more_than_it_may_have_and_the_rest_is_rejected_without_a_queue() {
    let holding = Holding::default();
    let servers = [holding.server(), holding.server()];
    let gate = gate(&format!(
        "servers: [{{ address: \"{}\", max_in_flight: 1 }}, \"{}\"], max_in_flight_per_server: 2",
        servers[0].address, servers[1].address
    ));
    let mut held: Vec<_> = (0..3).map(|_| send(&gate, "/hold")).collect();
    wait_until("three requests at the servers", || servers.each_ref().map(|server| server.seen().len()) == [1, 2]);
    let (status_now, text) = get(&gate);
    assert_eq!(status_now, 503);
    assert!(text.to_lowercase().contains("\r\nretry-after:"), "{text}");
    assert_eq!(gate.log(1)[0]["reason"], "upstream_overflow");
    assert_eq!(metric(&gate, "portunus_upstream_overflows_total{upstream=\"app\"}"), Some(1.0));
    let labels = format!("upstream=\"app\",server=\"{}\"", servers[1].address);
    assert_eq!(metric(&gate, &format!("portunus_upstream_server_in_flight{{{labels}}}")), Some(2.0));
    holding.end(3);
    held.iter_mut().for_each(|client| assert_eq!(status(client), OK));
    assert_eq!(get(&gate).0, 200);
}

#[test]
fn requests_wait_for_a_server_first_come_first_served() {
    for limit in ["max_in_flight_per_server: 1", "max_in_flight: 1, max_in_flight_per_client: 1000"] {
        let holding = Holding::default();
        let server = holding.server();
        let gate = gate(&format!("servers: [\"{}\"], {limit}, queue: {{ size: 10, timeout: 1h }}", server.address));
        let mut first = send(&gate, "/hold");
        wait_until("a request at the server", || server.seen().len() == 1);
        let mut waiting: Vec<_> = (1..=3)
            .map(|number| {
                let client = send(&gate, &format!("/hold/{number}"));
                let name = "portunus_upstream_queue_length{upstream=\"app\"}";
                wait_until("one more in the queue", || metric(&gate, name) == Some(f64::from(number)));
                client
            })
            .collect();
        assert_eq!(server.seen().len(), 1, "{limit}");
        holding.end(1);
        assert_eq!(status(&mut first), OK);
        for (number, client) in (1..).zip(&mut waiting) {
            wait_until("the next one", || server.seen().len() == number + 1);
            assert!(server.seen()[number].line().contains(&format!("/hold/{number} ")), "{:?}", server.seen());
            holding.end(1);
            assert_eq!(status(client), OK, "{limit}");
        }
        let log = gate.log(4);
        let waited = |line: &&serde_json::Value| line["upstream"]["queue_seconds"].as_f64().is_some();
        assert_eq!(log.iter().filter(waited).count(), 3, "{log:#?}");
        assert_eq!(metric(&gate, "portunus_upstream_queue_duration_seconds_count{upstream=\"app\"}"), Some(3.0));
        assert_eq!(metric(&gate, "portunus_upstream_queue_length{upstream=\"app\"}"), Some(0.0));
    }
}

#[test]
fn the_queue_is_bounded_in_number_and_time() {
    let holding = Holding::default();
    let server = holding.server();
    let limits = "max_in_flight_per_server: 1, queue: { size: 1, timeout: 300ms }";
    let gate = gate(&format!("servers: [\"{}\"], {limits}", server.address));
    let mut first = send(&gate, "/hold");
    wait_until("a request at the server", || server.seen().len() == 1);
    // Of those who come together, one waits, and in vain; whoever comes while it does is rejected at once.
    let reasons = || {
        let log = gate.log(0);
        let count = |reason: &str| log.iter().filter(|line| line["reason"] == reason).count();
        (count("upstream_queue_timeout"), count("upstream_overflow"))
    };
    wait_until("both kinds of rejection", || {
        let clients: Vec<_> = (0..4).map(|_| send(&gate, "/more")).collect();
        for mut client in clients {
            assert!(status(&mut client).starts_with("HTTP/1.1 503"));
        }
        reasons().0 > 0 && reasons().1 > 0
    });
    assert_eq!(server.seen().len(), 1, "nothing of it reached the server");
    holding.end(1);
    assert_eq!(status(&mut first), OK);
    assert_eq!(get(&gate).0, 200);
}

#[test]
fn a_client_that_leaves_gives_up_its_place() {
    let holding = Holding::default();
    let server = holding.server();
    let limits = "max_in_flight_per_server: 1, queue: { size: 1, timeout: 1h }";
    let gate = gate(&format!("servers: [\"{}\"], {limits}", server.address));
    let mut first = send(&gate, "/hold");
    wait_until("a request at the server", || server.seen().len() == 1);
    let length = || metric(&gate, "portunus_upstream_queue_length{upstream=\"app\"}");
    let waiting = send(&gate, "/left");
    wait_until("it to wait", || length() == Some(1.0));
    drop(waiting);
    wait_until("its place to be free", || length() == Some(0.0));
    let mut next = send(&gate, "/next");
    wait_until("the next one to wait", || length() == Some(1.0));
    holding.end(1);
    assert_eq!((status(&mut first).as_str(), status(&mut next).as_str()), (OK, OK));
    assert!(!server.seen().iter().any(|seen| seen.line().contains("/left")));
}

#[test]
fn many_requests_of_several_workers_pass_through_a_short_queue_without_a_loss() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let gate = Gate::start(&format!(
        "workers: 3\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\" }}\nupstreams:\n  app:\n    servers: [\"{}\", \"{}\"]\n    \
         max_in_flight_per_server: 1\n    queue: {{ size: 100, timeout: 1h }}\nroutes:\n  - {{ upstream: app }}\n",
        servers[0].address, servers[1].address
    ));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = connect(gate.address("web"));
                for number in 0..25 {
                    write!(client, "GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                    assert!(read_response(&mut client).0.starts_with(OK));
                }
            });
        }
    });
    assert_eq!(servers.iter().map(|server| server.seen().len()).sum::<usize>(), 400);
}

#[test]
fn one_client_cannot_fill_the_queue() {
    let holding = Holding::default();
    let server = holding.server();
    let gate = Gate::start(&format!(
        "workers: 1\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\" }}\nupstreams:\n  app:\n    servers: [\"{}\"]\n    \
         max_in_flight_per_server: 1\n    queue: {{ size: 4, timeout: 1h }}\nroutes:\n  - {{ upstream: app }}\n\
         trusted_proxies: 127.0.0.1\nadmin: {{ bind: \"127.0.0.2:0\" }}\n",
        server.address
    ));
    let length = || metric(&gate, "portunus_upstream_queue_length{upstream=\"app\"}");
    let from = |client: u8| {
        let mut stream = connect(gate.address("web"));
        write!(stream, "GET /hold HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.{client}\r\n\r\n").unwrap();
        stream
    };
    let mut clients = vec![from(1)];
    wait_until("a request at the server", || server.seen().len() == 1);
    for (number, client) in [(1, 1), (2, 1), (3, 2)] {
        if number == 3 {
            assert!(status(&mut from(1)).starts_with("HTTP/1.1 429"), "a third one of the same client");
        }
        clients.push(from(client));
        wait_until("one more in the queue", || length() == Some(f64::from(number)));
    }
    holding.end(4);
    clients.iter_mut().for_each(|client| assert_eq!(status(client), OK));
}

/// A server that sends back what it gets over a WebSocket.
fn echoing() -> Upstream {
    Upstream::start(|request| {
        if request.fields("upgrade") != ["websocket"] {
            return Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
        }
        Reply::Take(Box::new(|mut stream| {
            let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            stream.write_all(switch).unwrap();
            let mut reading = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut reading, &mut stream);
        }))
    })
}

/// Opens a WebSocket. Once its first byte is back, it is a tunnel for certain.
fn websocket(gate: &Gate) -> TcpStream {
    let mut client = connect(gate.address("web"));
    write!(client, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    assert_eq!(status(&mut client), "HTTP/1.1 101 Switching Protocols");
    client.write_all(b"!").unwrap();
    client.read_exact(&mut [0]).unwrap();
    client
}

#[test]
fn an_open_websocket_counts_until_it_closes() {
    let rejected = [
        ("max_in_flight_per_server: 1", 503, "upstream_overflow"),
        ("max_in_flight: 1, max_in_flight_per_client: 1000", 503, "upstream_overflow"),
        ("max_in_flight_per_client: 1", 429, "too_many_in_flight"),
    ];
    for (limit, status_now, reason) in rejected {
        let server = echoing();
        let gate = gate(&format!("servers: [\"{}\"], {limit}", server.address));
        let at_server = format!("portunus_upstream_server_in_flight{{upstream=\"app\",server=\"{}\"}}", server.address);
        let in_flight = || [metric(&gate, "portunus_upstream_in_flight{upstream=\"app\"}"), metric(&gate, &at_server)];
        // Twice: what was counted out too often would let more in.
        for number in 1..=2 {
            let client = websocket(&gate);
            assert_eq!(in_flight(), [Some(1.0); 2], "{limit}");
            assert_eq!(get(&gate).0, status_now, "{limit}");
            assert_eq!(server.seen().len(), 2 * number - 1, "{limit}: what was rejected did not go on");
            drop(client);
            wait_until("the WebSocket to end", || in_flight() == [Some(0.0); 2]);
            assert_eq!(get(&gate).0, 200, "{limit}");
            wait_until("the request to end", || in_flight() == [Some(0.0); 2]);
        }
        assert!(gate.log(6).iter().any(|line| line["reason"] == reason), "{limit}");
    }
}

#[test]
fn a_request_that_waits_gets_the_place_of_a_websocket_that_closes() {
    for limit in ["max_in_flight_per_server: 1", "max_in_flight: 1, max_in_flight_per_client: 1000"] {
        let server = echoing();
        let gate = gate(&format!("servers: [\"{}\"], {limit}, queue: {{ size: 1, timeout: 1h }}", server.address));
        let client = websocket(&gate);
        let mut next = send(&gate, "/next");
        let length = || metric(&gate, "portunus_upstream_queue_length{upstream=\"app\"}");
        wait_until("the request to wait", || length() == Some(1.0));
        assert_eq!(server.seen().len(), 1, "{limit}");
        drop(client);
        assert_eq!(status(&mut next), OK, "{limit}");
    }
}
