//! The end of a process: what is under way is finished, what is idle ends, and the exit status tells which it was.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use super::client::TlsClient;
use super::{get, keystore, metric, tls_listener, yaml, yaml_apart};
use crate::harness::{Gate, Reply, Upstream, certificates, connect, read_response, read_to_end, wait_until};

/// An upstream that responds when it is told to.
fn slow_upstream() -> (Upstream, Sender<()>) {
    let (release, wait) = channel();
    let wait = Arc::new(Mutex::new(wait));
    let upstream = Upstream::start(move |_| {
        let wait = Arc::clone(&wait);
        Reply::Take(Box::new(move |mut stream: TcpStream| {
            if wait.lock().unwrap().recv().is_ok() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow").unwrap();
            }
        }))
    });
    (upstream, release)
}

/// So much time that nothing is cut.
const LONG: &str = "limits: { drain_timeout: 10m }";

/// Tells the gate to end and waits until nobody new is let in.
fn begin(gate: &Gate) {
    gate.signal("TERM");
    gate.wait_for("draining");
    wait_until("the listener to close", || TcpStream::connect(gate.address("web")).is_err());
}

#[test]
fn what_is_under_way_is_finished_and_what_is_idle_ends() {
    let (upstream, release) = slow_upstream();
    let gate = Gate::start(&yaml_apart(&upstream, "", LONG));
    let mut idle = connect(gate.address("web"));
    write!(idle, "GET /nowhere%zz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut fresh = connect(gate.address("web"));
    let mut busy = connect(gate.address("web"));
    write!(busy, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the request upstream", || upstream.seen().len() == 1);
    begin(&gate);
    read_to_end(&mut idle);
    assert!(read_to_end(&mut fresh).is_empty(), "a connection that asked for nothing");
    release.send(()).unwrap();
    let (head, body) = read_response(&mut busy);
    assert!(head.starts_with("HTTP/1.1 200 ") && body == b"slow", "{head}");
    assert!(head.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{head}");
    assert!(read_to_end(&mut busy).is_empty());
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn an_idle_keep_alive_connection_ends() {
    let upstream = Upstream::ok();
    let listener = tls_listener("tls", "127.0.0.3", "");
    let names = certificates(&[("a.example", false)]);
    let more = format!("{}\n{LONG}", keystore("a.example"));
    let gate = Gate::start_in(names, &yaml_apart(&upstream, &listener, &more));
    let mut plain = connect(gate.address("web"));
    let mut sealed = TlsClient::connect(gate.address("tls"), "a.example", "http/1.1");
    for client in [&mut plain as &mut dyn ReadWrite, &mut sealed] {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        assert!(read_response(&mut &mut *client).0.starts_with("HTTP/1.1 200 "));
    }
    begin(&gate);
    assert!(read_to_end(&mut plain).is_empty());
    assert_eq!(sealed.read(&mut [0; 16]).unwrap(), 0, "ended with close_notify");
    assert_eq!(gate.stop(), Some(0));
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn what_does_not_end_within_the_grace_time_is_cut_and_reported() {
    let (upstream, release) = slow_upstream();
    let gate = Gate::start(&yaml(&upstream, "", "limits: { drain_timeout: 100ms, request_header_timeout: 1h }"));
    let mut busy = connect(gate.address("web"));
    write!(busy, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the request upstream", || upstream.seen().len() == 1);
    let mut half = connect(gate.address("web"));
    half.write_all(b"GET /half HTT").unwrap();
    wait_until("both connections", || metric(&gate, CONNECTIONS) == Some(2.0));
    gate.signal("TERM");
    assert!(read_to_end(&mut busy).is_empty(), "no response is made up");
    assert!(read_to_end(&mut half).is_empty());
    let (code, dir) = gate.stop_and_keep();
    assert_eq!(code, Some(1));
    drop(release);
    let mut lines = lines_of(&dir);
    lines.sort_by_key(|line| line["target"].as_str().map(str::to_owned));
    let reported: Vec<_> = lines.iter().map(|line| (line["target"].as_str(), line["fault"].as_str())).collect();
    assert_eq!(reported, [(Some(""), Some("proxy")), (Some("/"), Some("proxy"))], "one line each: {lines:#?}");
    assert!(lines.iter().all(|line| line["reason"] == "aborted"), "{lines:#?}");
}

const CONNECTIONS: &str = "portunus_connections_open{listener=\"web\"}";

fn lines_of(dir: &tempfile::TempDir) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(dir.path().join("access.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn connections_that_asked_for_nothing_leave_a_line_when_they_are_drained() {
    let upstream = Upstream::ok();
    let listener = tls_listener("tls", "127.0.0.3", "");
    let names = certificates(&[("a.example", false)]);
    // None of these ends before it is told to.
    let limits = "drain_timeout: 1h, handshake_timeout: 1h, request_header_timeout: 1h";
    let more = format!("{}\nlimits: {{ {limits} }}", keystore("a.example"));
    let gate = Gate::start_in(names, &yaml(&upstream, &listener, &more));
    let mut silent = connect(gate.address("web"));
    // Within its handshake to the end.
    let mut stalled = connect(gate.address("tls"));
    stalled.write_all(&[22, 3, 1]).unwrap();
    let open = |listener: &str| metric(&gate, &CONNECTIONS.replace("web", listener));
    wait_until("both connections", || open("web") == Some(1.0) && open("tls") == Some(1.0));
    gate.signal("TERM");
    assert!(read_to_end(&mut silent).is_empty());
    // What does not end by itself is ended by a second signal.
    gate.signal("TERM");
    assert!(read_to_end(&mut stalled).is_empty());
    let (code, dir) = gate.stop_and_keep();
    assert_eq!(code, Some(1), "the handshake was cut");
    let mut reported: Vec<_> = lines_of(&dir).iter().map(|line| line["reason"].to_string()).collect();
    reported.sort();
    assert_eq!(reported, ["\"aborted\"", "\"drained\""]);
}

#[test]
fn lines_that_cannot_be_written_at_the_end_are_counted() {
    let upstream = Upstream::ok();
    let log = "log: { access: { format: json, output: /dev/full }, level: info }";
    let gate = Gate::start(&yaml(&upstream, "", log));
    for _ in 0..3 {
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    }
    gate.signal("TERM");
    gate.wait_for("access-log lines were lost");
    let reported = gate.diagnostics().into_iter().find(|line| line.contains("access-log lines were lost")).unwrap();
    let reported: serde_json::Value = serde_json::from_str(&reported).unwrap();
    assert_eq!(reported["lines"], 3, "{reported}");
    assert_eq!(gate.stop(), Some(0));
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;

/// The next frame: type, flags, stream, payload; none at the end of the connection.
fn frame(client: &mut TlsClient) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    client.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    client.read_exact(&mut payload).unwrap();
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload))
}

/// Reads frames until the connection ends, answering as a well-behaved client does; gives the types of the frames and the streams that were answered
/// to their end.
fn to_the_end(client: &mut TlsClient) -> (Vec<u8>, Vec<u32>) {
    let (mut types, mut ended) = (Vec::new(), Vec::new());
    while let Some((kind, flags, stream, payload)) = frame(client) {
        types.push(kind);
        if kind == PING && flags & ACK == 0 {
            let mut response = vec![0, 0, 8, PING, ACK, 0, 0, 0, 0];
            response.extend_from_slice(&payload);
            let _ = client.write_all(&response);
        }
        if matches!(kind, 0 | HEADERS) && flags & END_STREAM != 0 {
            ended.push(stream);
        }
        if kind == GOAWAY {
            assert_eq!(payload[4..8], [0; 4], "NO_ERROR");
        }
    }
    (types, ended)
}

#[test]
fn http2_is_reported_to_go_away_after_what_it_began() {
    let (upstream, release) = slow_upstream();
    let listener = tls_listener("tls", "127.0.0.3", "");
    let names = certificates(&[("a.example", false)]);
    let more = format!("{}\n{LONG}", keystore("a.example"));
    let gate = Gate::start_in(names, &yaml_apart(&upstream, &listener, &more));
    let preface = || {
        let mut client = TlsClient::connect(gate.address("tls"), "a.example", "h2");
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        assert_eq!(frame(&mut client).unwrap().0, SETTINGS);
        client
    };
    let (mut idle, mut busy) = (preface(), preface());
    // GET, /, https from the static table; the authority as a literal (RFC 7541 §6).
    let block = b"\x82\x84\x87\x41\x09a.example";
    let mut request = vec![0, 0, block.len() as u8, HEADERS, 5, 0, 0, 0, 1];
    request.extend_from_slice(block);
    busy.write_all(&request).unwrap();
    wait_until("the request upstream", || upstream.seen().len() == 1);
    begin(&gate);
    let (types, ended) = to_the_end(&mut idle);
    assert!(types.contains(&GOAWAY) && ended.is_empty(), "{types:?}");
    while frame(&mut busy).expect("GOAWAY comes while the stream is open").0 != GOAWAY {}
    release.send(()).unwrap();
    let (_, ended) = to_the_end(&mut busy);
    assert_eq!(ended, [1], "the stream that was open was answered whole");
    assert_eq!(gate.stop(), Some(0));
}

/// The grace time is longer than the harness waits.
#[test]
fn a_client_of_http2_that_does_not_acknowledge_the_farewell_does_not_hold_up_the_end() {
    let (upstream, release) = slow_upstream();
    let listener = tls_listener("tls", "127.0.0.3", "");
    let names = certificates(&[("a.example", false)]);
    let more = format!("{}\n{LONG}", keystore("a.example"));
    let gate = Gate::start_in(names, &yaml_apart(&upstream, &listener, &more));
    let mut clients: Vec<_> = (0..2).map(|_| TlsClient::connect(gate.address("tls"), "a.example", "h2")).collect();
    for client in &mut clients {
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        assert_eq!(frame(client).unwrap().0, SETTINGS);
    }
    let block = b"\x82\x84\x87\x41\x09a.example";
    let mut request = vec![0, 0, block.len() as u8, HEADERS, 5, 0, 0, 0, 1];
    request.extend_from_slice(block);
    clients[1].write_all(&request).unwrap();
    wait_until("the request upstream", || upstream.seen().len() == 1);
    begin(&gate);
    release.send(()).unwrap();
    for client in &mut clients {
        // Whatever is asked of us, we say nothing.
        let mut types = Vec::new();
        while let Some((kind, ..)) = frame(client) {
            types.push(kind);
        }
        assert_eq!(types.iter().filter(|kind| **kind == GOAWAY).count(), 2, "{types:?}");
    }
    assert_eq!(gate.stop(), Some(0));
}
