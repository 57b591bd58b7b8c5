//! Hedged requests: a second server is asked beside one that does not respond, and what either of them sees of it. Servers that must be slow never respond
//! at all, or only once the test lets them.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::upstreams::gate;
use crate::harness::http2::http2_server;
use crate::harness::{Gate, Reply, Seen, Upstream, connect, exchange, read_response, statuses, wait_until};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &[u8] = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";

/// A gate whose first server is asked first, and the others, in turn, where that one is not enough.
fn hedged(servers: &[SocketAddr], retries: &str, more: &str) -> Gate {
    let server =
        |(place, address): (usize, &SocketAddr)| format!("{{ address: \"{address}\", priority: {} }}", place.min(1));
    let list: Vec<_> = servers.iter().enumerate().map(server).collect();
    gate(&format!(
        "servers: [{}], ejection: {{ failures: 1, duration: 1h }}, retries: {{ budget: 100, {retries} }}{more}",
        list.join(", ")
    ))
}

fn ask(gate: &Gate, method: &str, more: &str) -> u16 {
    let request = format!("{method} /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n");
    statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
}

fn metric(gate: &Gate, name: &str) -> u64 {
    let text = gate.metrics();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

/// A server that responds only while it is let to, and says how many of its connections were closed under it.
struct Slow {
    upstream: Upstream,
    closed: Arc<AtomicUsize>,
}

impl Slow {
    fn start() -> Slow {
        let closed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&closed);
        let upstream = Upstream::start(move |_| {
            let count = Arc::clone(&count);
            Reply::Take(Box::new(move |mut stream| {
                // Until the other side closes, which is what is looked for.
                if matches!(stream.read(&mut [0]), Ok(0) | Err(_)) {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }))
        });
        Slow { upstream, closed }
    }
}

#[test]
fn a_second_server_is_asked_beside_a_silent_one_and_the_loser_is_closed() {
    let (slow, fast) = (Slow::start(), Upstream::ok());
    let gate = hedged(&[slow.upstream.address, fast.address], "hedge: { after: 20ms }", "");
    for _ in 0..2 {
        assert_eq!(ask(&gate, "GET", ""), 200);
    }
    wait_until("the losers to be closed", || slow.closed.load(Ordering::SeqCst) == 2);
    assert_eq!((slow.upstream.seen().len(), fast.seen().len()), (2, 2));
    for line in &gate.log(2) {
        assert_eq!(line["upstream"]["hedges"], 1);
        assert_eq!(line["upstream"]["hedge_won"], true);
        assert_eq!(line["upstream"]["server"], fast.address.to_string());
        assert_eq!((line["upstream"]["retries"].as_u64(), line["status"].as_u64()), (Some(0), Some(200)));
    }
    let labels = format!("{{upstream=\"app\",server=\"{}\"}}", fast.address);
    assert_eq!(metric(&gate, &format!("portunus_upstream_hedges_total{labels}")), 2);
    assert_eq!(metric(&gate, &format!("portunus_upstream_hedges_won_total{labels}")), 2);
    let slow = format!("{{upstream=\"app\",server=\"{}\"}}", slow.upstream.address);
    assert!(gate.metrics().contains(&format!("portunus_upstream_server_ejected{slow} 0")), "losing is no failure");
    assert_eq!(metric(&gate, &format!("portunus_upstream_server_in_flight{slow}")), 0);
    assert_eq!(metric(&gate, &format!("portunus_upstream_failures_total{slow}")), 0);
}

/// A server on trial that swallows connections loses each race; were that nothing, its next trial would come with the next request.
#[test]
fn a_server_on_trial_that_loses_without_a_connection_is_ejected_again() {
    let socket = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // A socket whose queue is full: the kernel takes no further connection and says nothing.
    let full = socket();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let place = full.local_addr().unwrap().as_socket().unwrap();
    let _held: Vec<_> = (0..3)
        .map(|_| {
            let socket = socket();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&place.into());
            socket
        })
        .collect();
    let fast = Upstream::ok();
    let gate = gate(&format!(
        "servers: [\"{place}\", {{ address: \"{}\", backup: true }}], connect_timeout: 1s, \
         ejection: {{ failures: 1, duration: 300ms }}, retries: {{ budget: 100, hedge: {{ after: 20ms }} }}",
        fast.address
    ));
    // What is not hedged finds out that nobody responds there.
    assert_eq!(ask(&gate, "POST", "Content-Length: 0\r\n"), 200);
    let ejections = || gate.diagnostics().iter().filter(|line| line.contains("server ejected")).count();
    wait_until("the first ejection", || ejections() == 1);
    let ejected = format!("portunus_upstream_server_ejected{{upstream=\"app\",server=\"{place}\"}}");
    wait_until("the trial", || metric(&gate, &ejected) == 0);
    assert_eq!(ask(&gate, "GET", ""), 200);
    wait_until("the second ejection", || ejections() == 2);
}

#[test]
fn what_may_not_run_twice_is_never_hedged() {
    let (release, held) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let server = || {
        let (release, held) = (Arc::clone(&release), Arc::clone(&held));
        Upstream::start(move |request: &Seen| {
            if request.line().contains("/r") {
                held.fetch_add(1, Ordering::SeqCst);
                wait_until("the release", || release.load(Ordering::SeqCst));
            }
            Reply::Close(OK.to_vec())
        })
    };
    let servers = [server(), server()];
    let gate = hedged(&[servers[0].address, servers[1].address], "hedge: { after: 1ms, max: 10 }", "");
    let requests = [
        "POST /r HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        "PATCH /r HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
        "PUT /r HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
        "PUT /r HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        "GET /r HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    ];
    let clients: Vec<_> = requests
        .iter()
        .enumerate()
        .map(|(number, request)| {
            let mut client = connect(gate.address("web"));
            client.write_all(request.as_bytes()).unwrap();
            wait_until("the request", || held.load(Ordering::SeqCst) > number);
            client
        })
        .collect();
    // What could be hedged shows that its time has passed: both servers have it.
    let mut probe = connect(gate.address("web"));
    probe.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the hedge", || held.load(Ordering::SeqCst) == requests.len() + 2);
    release.store(true, Ordering::SeqCst);
    for mut client in clients {
        assert!(read_response(&mut client).0.starts_with("HTTP/1.1 "), "a response");
    }
    assert!(read_response(&mut probe).0.starts_with("HTTP/1.1 200"));
    let seen: Vec<_> = servers.iter().flat_map(Upstream::seen).map(|seen| seen.line().to_owned()).collect();
    for method in ["POST", "PATCH"] {
        assert_eq!(seen.iter().filter(|line| line.starts_with(method)).count(), 1, "{method}: {seen:?}");
    }
    assert_eq!(seen.iter().filter(|line| line.starts_with("PUT")).count(), 2, "each once: {seen:?}");
    assert_eq!(seen.iter().filter(|line| line.starts_with("GET")).count(), 3, "the WebSocket once: {seen:?}");
}

#[test]
fn idempotent_requests_without_a_body_are_hedged_whatever_their_method() {
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
        let (slow, fast) = (Slow::start(), Upstream::start(|_| Reply::Keep(b"HTTP/1.1 204 No\r\n\r\n".to_vec())));
        let gate = hedged(&[slow.upstream.address, fast.address], "hedge: { after: 1ms }", "");
        assert_eq!(ask(&gate, method, ""), 204, "{method}");
        wait_until("the loser to be closed", || slow.closed.load(Ordering::SeqCst) == 1);
        assert_eq!((slow.upstream.seen().len(), fast.seen().len()), (1, 1), "{method}");
    }
}

#[test]
fn a_server_that_responds_in_time_is_the_only_one_asked() {
    let servers = [Upstream::ok(), Upstream::ok()];
    let gate = hedged(&[servers[0].address, servers[1].address], "hedge: { after: 1h }", "");
    let mut client = connect(gate.address("web"));
    for _ in 0..10 {
        client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(read_response(&mut client).1, b"ok");
    }
    let seen = servers.each_ref().map(Upstream::seen);
    assert_eq!(seen.each_ref().map(Vec::len), [10, 0]);
    assert!(seen.iter().flatten().all(|request| request.connection == 0), "connections are kept and used again");
    assert!(gate.log(10).iter().all(|line| line["upstream"]["hedges"].is_null()));
    assert!(!gate.metrics().contains("portunus_upstream_hedges"));
}

#[test]
fn hedges_stay_within_budget_attempts_and_their_number() {
    for (most, attempts, expected) in [(2, "all", 3), (9, "all", 4), (9, "2", 2)] {
        let servers: [Slow; 4] = std::array::from_fn(|_| Slow::start());
        let addresses = servers.each_ref().map(|slow| slow.upstream.address);
        let gate = hedged(&addresses, &format!("hedge: {{ after: 1ms, max: {most} }}, attempts: {attempts}"), "");
        let mut client = connect(gate.address("web"));
        client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let seen = || servers.iter().map(|slow| slow.upstream.seen().len()).sum::<usize>();
        wait_until("all that may be asked", || seen() == expected);
        // A client that leaves ends all of it; nobody was asked beyond that.
        drop(client);
        wait_until("all to be closed", || {
            servers.iter().map(|slow| slow.closed.load(Ordering::SeqCst)).sum::<usize>() == expected
        });
        assert_eq!(seen(), expected);
        assert!(servers.iter().all(|slow| slow.upstream.seen().len() <= 1), "none twice");
    }
    // There are ten to begin with, and a percent of a request is not worth one.
    let servers = [Slow::start(), Slow::start()];
    let list = servers.each_ref().map(|slow| format!("\"{}\"", slow.upstream.address)).join(", ");
    let gate = gate(&format!("servers: [{list}], retries: {{ budget: 1, hedge: {{ after: 1ms }} }}"));
    let seen = || servers.iter().map(|slow| slow.upstream.seen().len()).sum::<usize>();
    let over_budget = || metric(&gate, "portunus_upstream_hedges_over_budget_total{upstream=\"app\"}");
    let mut clients = Vec::new();
    for number in 0..12 {
        let mut client = connect(gate.address("web"));
        client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        clients.push(client);
        wait_until("the hedge, or that there is none", || match number {
            0..10 => seen() == 2 * (number + 1),
            _ => over_budget() == number as u64 - 9,
        });
    }
    wait_until("the last two", || seen() == 22);
}

#[test]
fn a_status_that_is_retried_does_not_win_while_another_server_is_asked() {
    // The first never responds until the second has said 503; then it says 200.
    let said = Arc::new(AtomicBool::new(false));
    let (say, heard) = (Arc::clone(&said), said);
    let late = Upstream::start(move |_| {
        wait_until("the 503", || heard.load(Ordering::SeqCst));
        Reply::Keep(OK.to_vec())
    });
    let busy = Upstream::start(move |_| {
        let say = Arc::clone(&say);
        Reply::Take(Box::new(move |mut stream| {
            stream.write_all(BUSY).unwrap();
            // It has arrived, since the response is read to its end or given up.
            say.store(true, Ordering::SeqCst);
            let _ = stream.read(&mut [0]);
        }))
    });
    let gate = hedged(&[late.address, busy.address], "on: [connect, 503], hedge: { after: 1ms }", "");
    assert_eq!(ask(&gate, "GET", ""), 200);
    let line = &gate.log(1)[0];
    assert_eq!((line["upstream"]["hedges"].as_u64(), line["upstream"]["hedge_won"].as_bool()), (Some(1), Some(false)));
}

#[test]
fn where_all_say_what_is_retried_the_client_gets_one_of_these_responses() {
    let servers = [(); 2].map(|()| Upstream::start(|_| Reply::Keep(BUSY.to_vec())));
    let gate = hedged(&[servers[0].address, servers[1].address], "on: [connect, 503], hedge: { after: 1h }", "");
    let response = exchange(gate.address("web"), b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(response.starts_with(b"HTTP/1.1 503") && response.ends_with(b"busy"));
    assert_eq!(servers.each_ref().map(|server| server.seen().len()), [1, 1], "a retry, not a hedge");
    assert_eq!(gate.log(1)[0]["upstream"]["retries"], 1);
}

#[test]
fn a_server_that_fails_while_another_one_is_asked_counts_and_the_other_ones_response_is_the_clients() {
    // The first breaks once the second has been asked, and that one responds once that has counted.
    let (asked, counted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (was_asked, goes_on) = (Arc::clone(&asked), Arc::clone(&counted));
    let dying = Upstream::start(move |_| {
        wait_until("the hedge", || was_asked.load(Ordering::SeqCst));
        Reply::Reset(Vec::new())
    });
    let fast = Upstream::start(move |_| {
        asked.store(true, Ordering::SeqCst);
        wait_until("the other one to count", || goes_on.load(Ordering::SeqCst));
        Reply::Keep(OK.to_vec())
    });
    let gate = hedged(&[dying.address, fast.address], "hedge: { after: 1ms }", "");
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let ejected = format!("portunus_upstream_server_ejected{{upstream=\"app\",server=\"{}\"}}", dying.address);
    wait_until("the failure to count", || metric(&gate, &ejected) == 1);
    counted.store(true, Ordering::SeqCst);
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"));
    assert_eq!((dying.seen().len(), fast.seen().len()), (1, 1));
}

#[test]
fn sessions_stay_where_they_are() {
    let release = Arc::new(AtomicBool::new(true));
    let server = || {
        let release = Arc::clone(&release);
        Upstream::start(move |_| {
            wait_until("the release", || release.load(Ordering::SeqCst));
            Reply::Keep(OK.to_vec())
        })
    };
    let servers = [server(), server()];
    let addresses = servers.each_ref().map(|server| server.address);
    let gate = hedged(&addresses, "hedge: { after: 1ms }", ", sticky: { cookie: sid }");
    let mut client = connect(gate.address("web"));
    client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let head = read_response(&mut client).0;
    let cookie = head.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")?.split(';').next()).unwrap().to_owned();
    release.store(false, Ordering::SeqCst);
    let count = |path: &str| servers.iter().flat_map(Upstream::seen).filter(|seen| seen.line().contains(path)).count();
    write!(client, "GET /kept HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\n\r\n").unwrap();
    wait_until("the request", || count("/kept") == 1);
    // Of a client without a session both are asked: the time has passed.
    let mut other = connect(gate.address("web"));
    other.write_all(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the hedge", || count("/other") == 2);
    release.store(true, Ordering::SeqCst);
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"));
    assert!(read_response(&mut other).0.starts_with("HTTP/1.1 200"));
    assert_eq!(count("/kept"), 1);
}

#[test]
fn streams_of_losers_are_reset_and_their_connections_go_on() {
    let cancelled = Arc::new(Mutex::new(Vec::new()));
    let count = Arc::clone(&cancelled);
    let slow =
        http2_server(move |request: http::Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>| {
            let count = Arc::clone(&count);
            async move {
                if request.uri().path() == "/now" {
                    let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
                    let _ = stream.send_data(Bytes::from_static(b"slow"), true);
                    return;
                }
                let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
                count.lock().unwrap().push(reason.ok());
            }
        });
    let fast =
        http2_server(|_: http::Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>| async move {
            let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
            let _ = stream.send_data(Bytes::from_static(b"fast"), true);
        });
    let gate = hedged(&[slow, fast], "hedge: { after: 20ms }", ", protocol: http2");
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let response = exchange(gate.address("web"), request.as_bytes());
        String::from_utf8_lossy(&response).into_owned()
    };
    for _ in 0..3 {
        assert!(get("/r").contains("fast"));
    }
    wait_until("the resets", || cancelled.lock().unwrap().len() == 3);
    assert!(cancelled.lock().unwrap().iter().all(|reason| *reason == Some(h2::Reason::CANCEL)), "{cancelled:?}");
    // The same connection serves on, and its server is in use.
    wait_until("its response", || get("/now").contains("slow"));
}

#[test]
fn interim_responses_reach_the_client_of_a_hedged_request() {
    let fast = Upstream::start(|_| {
        Reply::Keep([b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".as_slice(), OK].concat())
    });
    let gate = hedged(&[fast.address], "hedge: { after: 1h }", "");
    let response = exchange(gate.address("web"), b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&response), [103, 200]);
}
