//! Shutting down beside load balancers and a successor: readiness, the delay, ports that are free at once, nothing lost that the kernel had taken.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::client::TlsClient;
use super::{ask, get, keystore, tls_listener, yaml, yaml_apart};
use crate::harness::{
    Gate, PATIENCE, Reply, Upstream, certificates, connect, connect_unix, read_response, read_to_end, vacant,
    wait_until,
};

/// An upstream that responds `/slow` when it is told to, and all else at once.
fn upstream() -> (Upstream, Sender<()>) {
    let (release, wait) = channel();
    let wait = Arc::new(Mutex::new(wait));
    let upstream = Upstream::start(move |request| {
        if !request.line().contains("/slow") {
            return Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
        }
        let wait = Arc::clone(&wait);
        Reply::Take(Box::new(move |mut stream: TcpStream| {
            if wait.lock().unwrap().recv().is_ok() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow").unwrap();
            }
        }))
    });
    (upstream, release)
}

fn ready(gate: &Gate) -> String {
    ask(gate.address("admin"), "GET /readyz", "Host: localhost\r\n")
}

fn slow_request(gate: &Gate, upstream: &Upstream, address: SocketAddr) -> TcpStream {
    let before = upstream.seen().len();
    let mut busy = connect(address);
    write!(busy, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the request upstream", || upstream.seen().len() == before + 1);
    assert!(gate.pid() > 0);
    busy
}

#[test]
fn during_the_delay_the_port_is_open_and_readiness_is_gone() {
    let (upstream, _release) = upstream();
    let listener = tls_listener("tls", "127.0.0.3", "");
    let more = format!("{}\nlimits: {{ drain_delay: 1h }}", keystore("a.example"));
    let gate = Gate::start_in(certificates(&[("a.example", false)]), &yaml(&upstream, &listener, &more));
    wait_until("readiness", || ready(&gate).starts_with("HTTP/1.1 200 "));
    let mut kept = connect(gate.address("web"));
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    kept.write_all(request).unwrap();
    assert!(!read_response(&mut kept).0.to_ascii_lowercase().contains("connection: close"));
    gate.signal("TERM");
    gate.wait_for("draining");
    wait_until("readiness to go", || ready(&gate).starts_with("HTTP/1.1 503 "));
    assert!(ready(&gate).ends_with("\r\n\r\ndraining\n"), "{}", ready(&gate));
    assert!(ask(gate.address("admin"), "GET /healthz", "Host: localhost\r\n").starts_with("HTTP/1.1 200 "));
    // An open connection and a new one are served, and told that this was the last time.
    let mut fresh = connect(gate.address("web"));
    let mut sealed = TlsClient::connect(gate.address("tls"), "a.example", "http/1.1");
    for client in [&mut kept as &mut dyn Stream, &mut fresh, &mut sealed] {
        client.write_all(request).unwrap();
        let (head, body) = read_response(&mut &mut *client);
        assert!(head.starts_with("HTTP/1.1 200 ") && body == b"ok", "{head}");
        assert!(head.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{head}");
        assert!(read_to_end(&mut &mut *client).is_empty());
    }
    let rejected = gate.operate("POST /reload", "Content-Length: 0\r\n");
    assert!(rejected.starts_with("HTTP/1.1 422 ") && rejected.contains("shutting down"), "{rejected}");
    // The second signal ends at once, and nothing was open.
    gate.signal("TERM");
    assert_eq!(gate.stop(), Some(0));
}

trait Stream: std::io::Read + Write {}
impl<T: std::io::Read + Write> Stream for T {}

#[test]
fn a_second_signal_ends_at_once() {
    let (upstream, _release) = upstream();
    let gate = Gate::start(&yaml(&upstream, "", "limits: { drain_timeout: 1h }"));
    let mut busy = slow_request(&gate, &upstream, gate.address("web"));
    gate.signal("INT");
    gate.wait_for("draining");
    gate.signal("TERM");
    let (code, _dir) = gate.stop_and_keep();
    assert_eq!(code, Some(1), "a connection was closed before its end");
    assert!(read_to_end(&mut busy).is_empty());
}

#[test]
fn another_process_takes_the_addresses_while_connections_drain() {
    let (upstream, release) = upstream();
    let address = vacant();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("edge.sock");
    let both = format!("[\"{address}\", \"unix:{}\"]", socket.display());
    let text = yaml(&upstream, "", "limits: { drain_timeout: 1h }").replace("\"127.0.0.1:0\"", &both);
    let text = text.replace("127.0.0.2:0", &vacant().to_string());
    let start = || Gate::start_by(tempfile::tempdir().unwrap(), &text, Command::new(crate::harness::PORTUNUS));
    let old = Gate::start_in(tempfile::tempdir().unwrap(), &text.replace("workers: 1", "workers: 2"));
    let mut busy = slow_request(&old, &upstream, address);
    old.signal("TERM");
    old.wait_for("draining");
    wait_until("the port to close", || TcpStream::connect(address).is_err());
    wait_until("the socket's file to go", || !socket.exists());
    let new = start();
    assert!(get(address).starts_with("HTTP/1.1 200 "));
    let mut stream = connect_unix(&socket);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 200 "));
    release.send(()).unwrap();
    assert_eq!(read_response(&mut busy).1, b"slow", "the old process finishes what it began");
    assert_eq!(old.stop(), Some(0));
    assert!(socket.exists(), "the successor's file stays");
    assert_eq!(new.stop(), Some(0));
}

/// More than a turn of the runtime accepts at once (128), for each of two workers.
#[test]
fn what_the_kernel_had_taken_is_served() {
    const CLIENTS: usize = 600;
    let (upstream, _release) = upstream();
    let text = yaml(&upstream, "", "limits: { drain_timeout: 10m }").replace("workers: 1", "workers: 2");
    // The upstream's queue is short: what it takes no connection for is tried again by the kernel.
    let gate = Gate::start(&text.replace("app: { ", "app: { connect_timeout: 10m, "));
    let address = gate.address("web");
    gate.signal("STOP");
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(address)).collect();
    for client in &mut clients {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    gate.signal("TERM");
    gate.signal("CONT");
    for (at, client) in clients.iter_mut().enumerate() {
        let response = String::from_utf8(read_to_end(client)).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nok"), "client {at}: {response:?}");
    }
    assert_eq!(gate.stop(), Some(0));
    assert_eq!(upstream.seen().len(), CLIENTS);
}

/// How long a draining gate waits for the first request of a connection, less what its clock may be off by.
const FIRST_REQUEST: Duration = Duration::from_millis(900);

/// Connections that come while the listener closes: each that was established and asks in time is answered.
#[test]
fn no_connection_is_lost_while_the_listener_closes() {
    let (upstream, _release) = upstream();
    let gate = Gate::start(&yaml_apart(&upstream, "", "").replace("workers: 1", "workers: 2"));
    let (address, begun) = (gate.address("web"), Instant::now());
    let served: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let (mut served, mut since) = (0, Instant::now());
                    while let Ok(mut stream) = TcpStream::connect(address) {
                        // The scope would wait for ever for who goes on after a failure below.
                        assert!(begun.elapsed() < 3 * PATIENCE, "the listener does not close");
                        drop(stream.set_read_timeout(Some(PATIENCE)));
                        let sent = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                        // Who was stopped before that may have been waited for long enough.
                        let is_late = since.elapsed() > FIRST_REQUEST;
                        let response = String::from_utf8(read_to_end(&mut stream)).unwrap();
                        let is_served = response.ends_with("\r\n\r\nok");
                        assert!(is_served || is_late, "after {served}: {sent:?}, {response:?}");
                        served += usize::from(is_served);
                        since = Instant::now();
                    }
                    served
                })
            })
            .collect();
        wait_until("some to be served", || upstream.seen().len() > 100);
        gate.signal("TERM");
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(gate.stop(), Some(0));
    assert_eq!(upstream.seen().len(), served);
}

#[test]
fn readiness_needs_an_upstream_that_is_up() {
    let upstream = Upstream::ok();
    let down = vacant();
    let text = yaml(&upstream, "", "");
    let gate = Gate::start(&text.replace(
        &format!("servers: [\"{}\"]", upstream.address),
        &format!("servers: [\"{down}\"], ejection: {{ failures: 1, duration: 1h }}"),
    ));
    // Nothing is known of its server yet.
    wait_until("readiness", || ready(&gate).starts_with("HTTP/1.1 200 "));
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 502 "));
    let response = ready(&gate);
    assert!(response.starts_with("HTTP/1.1 503 ") && response.ends_with("\r\n\r\nno healthy upstream\n"), "{response}");
    // One of two groups is enough.
    gate.rewrite(&text.replace(
        &format!("app: {{ servers: [\"{}\"]", upstream.address),
        &format!(
            "other: {{ servers: [\"{}\"] }}\n  app: {{ servers: [\"{down}\"], ejection: {{ failures: 1, duration: 1h }}",
            upstream.address
        ),
    ));
    let reloaded = gate.operate("POST /reload", "Content-Length: 0\r\n");
    assert!(reloaded.starts_with("HTTP/1.1 200 "), "{reloaded}");
    assert!(ready(&gate).starts_with("HTTP/1.1 200 "));
}
