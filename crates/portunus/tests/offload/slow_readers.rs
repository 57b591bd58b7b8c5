//! Sides that end while the other one reads slowly: all that was sent arrives, however long that takes, and what was cut never looks whole.
//!
//! Who is slow reads no more than it must until the gate has seen the end, and then nothing until a timer of the gate's own has run out which is longer than
//! any fixed patience was.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Receiver;

use socket2::{Domain, SockRef, Socket, Type};

use super::site::{connections_of, folder, next, noise, tls_upstream, yaml};
use crate::harness::frames::{DATA, Frames, RST_STREAM};
use crate::harness::secure::Secure;
use crate::harness::websocket::accept;
use crate::harness::{Gate, PATIENCE, Seen, connect, wait_until};

/// More than a slow side has room for, less than the gate's socket towards it.
const LENGTH: usize = 600_000;

/// What is read at once.
const STEP: usize = 4096;

/// How often it is looked for the end before something is read.
const LOOKS_FOR_A_STEP: usize = 40;

/// A listener whose log says when three seconds are over, by the gate's own clock.
const CLOCK: &str =
    "  - { name: clock, bind: \"127.0.0.9:0\", redirect_to_https: true, limits: { request_header_timeout: 3s } }";

/// Whether the log says this of a listener.
fn says(gate: &Gate, listener: &str, reason: &str) -> bool {
    gate.log(0).iter().any(|line| line["listener"] == listener && line["reason"] == reason)
}

/// Lets three seconds pass.
fn pause(gate: &Gate) {
    let is_over = || gate.log(0).iter().filter(|line| line["listener"] == "clock").count();
    let before = is_over();
    let _silent = connect(gate.address("clock"));
    wait_until("the clock", || is_over() > before);
}

/// A side with little room for what it does not read.
fn connect_small(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(STEP).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// An upstream whose connections have little room.
fn small_upstream() -> (SocketAddr, Receiver<TcpStream>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    SockRef::from(&listener).set_recv_buffer_size(STEP).unwrap();
    connections_of(listener)
}

/// Ends without close_notify, and stays until the other side has gone: a reset would be another thing.
fn end_without_saying_so(mut secure: Secure) {
    secure.socket().shutdown(Shutdown::Write).unwrap();
    while matches!(secure.read(&mut [0; STEP]), Ok(1..)) {}
}

/// Reads next to nothing until the gate has seen the end of the other side, then pauses, then reads to the end. Gives all of it, and whether
/// the end was an orderly one.
fn read_slowly(gate: &Gate, reader: &mut impl Read, has_ended: impl Fn() -> bool) -> (Vec<u8>, bool) {
    let (mut all, mut buffer, mut looks) = (Vec::new(), [0; STEP], 0);
    wait_until("the gate to see the end", || {
        looks += 1;
        // Where the kernel has less room than usual, it has to be read on for that.
        if looks % LOOKS_FOR_A_STEP == 0 {
            let count = reader.read(&mut buffer).unwrap();
            all.extend_from_slice(&buffer[..count]);
        }
        has_ended()
    });
    assert!(all.len() < LENGTH - LENGTH / 6, "too much was read before the end: {}", all.len());
    pause(gate);
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return (all, true),
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof), "{error}");
                return (all, false);
            }
        }
    }
}

#[test]
fn what_a_client_sent_before_it_left_without_close_notify_reaches_a_slow_upstream() {
    let (address, connections) = small_upstream();
    let listeners = format!(
        "  - {{ name: up, bind: \"127.0.0.1:0\", tls: {{ keystore: main }}, tunnel: {{ upstream: app }} }}\n{CLOCK}"
    );
    let gate = Gate::start_in(folder(), &yaml(&listeners, &format!("  app: {{ servers: [\"{address}\"] }}"), ""));
    let sent = noise(1, LENGTH);
    for closes in [false, true] {
        let mut near = Secure::connect(gate.address("up"), gate.dir.path(), "a.test", "any");
        let mut far = next(&connections);
        let ends = || gate.log(0).iter().filter(|line| line["reason"] == "close_notify_missing").count();
        let before = ends();
        let (got, orderly) = std::thread::scope(|scope| {
            scope.spawn(|| {
                near.write_all(&sent).unwrap();
                if closes {
                    drop(near);
                } else {
                    end_without_saying_so(near);
                }
            });
            read_slowly(&gate, &mut far, || ends() > before)
        });
        assert!(got == sent, "{} bytes of {LENGTH}", got.len());
        assert!(!orderly, "what was cut looks whole");
    }
}

#[test]
fn what_an_upstream_sent_before_it_left_without_close_notify_reaches_a_slow_client() {
    let dir = folder();
    let sent = noise(2, LENGTH);
    let bytes = sent.clone();
    let address = tls_upstream(dir.path(), move |mut secure| {
        secure.write_all(&bytes).unwrap();
        end_without_saying_so(secure);
    });
    let listeners = format!("  - {{ name: down, bind: \"127.0.0.1:0\", tunnel: {{ upstream: app }} }}\n{CLOCK}");
    let upstreams = format!(
        "  app: {{ servers: [\"{address}\"], connect_timeout: 1m, tls: {{ ca: ca.pem, server_name: a.test }} }}"
    );
    let gate = Gate::start_in(dir, &yaml(&listeners, &upstreams, ""));
    let mut near = connect_small(gate.address("down"));
    let (got, orderly) = read_slowly(&gate, &mut near, || says(&gate, "down", "close_notify_missing"));
    assert!(got == sent, "{} bytes of {LENGTH}", got.len());
    assert!(!orderly, "what was cut looks whole");
}

/// The upstream has sent all and resets while the client still sends: the client gets what came before.
#[test]
fn what_an_upstream_sent_before_it_broke_reaches_a_slow_client() {
    let (address, connections) = small_upstream();
    let listeners = format!("  - {{ name: down, bind: \"127.0.0.1:0\", tunnel: {{ upstream: app }} }}\n{CLOCK}");
    let gate = Gate::start_in(folder(), &yaml(&listeners, &format!("  app: {{ servers: [\"{address}\"] }}"), ""));
    let mut near = connect_small(gate.address("down"));
    let mut far = next(&connections);
    let sent = noise(3, LENGTH);
    near.write_all(b"never read").unwrap();
    let (got, orderly) = std::thread::scope(|scope| {
        scope.spawn(|| {
            far.write_all(&sent).unwrap();
            far.set_nonblocking(true).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            let _inside = runtime.enter();
            let far = net::Stream::new(far.into()).unwrap();
            wait_until("all of it to arrive", || !far.has_unsent());
            // With bytes unread, closing is a reset.
            drop(far);
        });
        read_slowly(&gate, &mut near, || says(&gate, "down", "tunnel_upstream_reset"))
    });
    assert!(got == sent, "{} bytes of {LENGTH}", got.len());
    assert!(!orderly, "what was cut looks whole");
}

/// The rows of a gate with HTTP before an upstream that responds and ends without close_notify.
fn http_gate(respond: impl Fn(Secure) + Send + 'static) -> Gate {
    let dir = folder();
    let address = tls_upstream(dir.path(), respond);
    let listeners = format!("  - {{ name: web, bind: \"127.0.0.1:0\" }}\n{CLOCK}");
    let upstreams = format!(
        "  app: {{ servers: [\"{address}\"], connect_timeout: 1m, tls: {{ ca: ca.pem, server_name: a.test }} }}"
    );
    let routes = "routes:\n  - { name: all, path: \"/{*rest}\", upstream: app, upgrades: [websocket] }";
    Gate::start_in(dir, &yaml(&listeners, &upstreams, routes))
}

/// Reads a head, and nothing behind it.
fn read_head(secure: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(secure.read(&mut byte).unwrap(), 1);
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn a_response_that_ends_without_close_notify_reaches_a_slow_client_of_http_1() {
    let sent = noise(4, LENGTH);
    let bytes = sent.clone();
    let gate = http_gate(move |mut secure| {
        read_head(&mut secure);
        secure.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        secure.write_all(&bytes).unwrap();
        end_without_saying_so(secure);
    });
    let mut near = connect_small(gate.address("web"));
    // A client of HTTP/1.0 gets bytes until the connection ends.
    near.write_all(b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n").unwrap();
    let (got, orderly) = read_slowly(&gate, &mut near, || says(&gate, "web", "response_truncated"));
    let head = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(got[head..] == sent, "{} bytes of {LENGTH}", got.len() - head);
    assert!(!orderly, "what was cut looks whole");
}

#[test]
fn a_response_that_ends_without_close_notify_reaches_a_client_of_http_2() {
    let sent = noise(5, 60_000);
    let bytes = sent.clone();
    let gate = http_gate(move |mut secure| {
        read_head(&mut secure);
        let mut whole = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        whole.extend_from_slice(&bytes);
        secure.write_all(&whole).unwrap();
        end_without_saying_so(secure);
    });
    let mut frames = Frames::open_plain(gate.address("web"));
    frames.headers(1, &[(":method", b"GET"), (":scheme", b"http"), (":authority", b"a.test"), (":path", b"/")], true);
    let mut got = Vec::new();
    loop {
        let frame = frames.next().expect("the connection ended");
        match frame.kind {
            DATA => got.extend_from_slice(&frame.payload),
            RST_STREAM => break,
            _ => {}
        }
    }
    assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
}

#[test]
fn what_an_upgraded_upstream_sent_before_it_left_without_close_notify_reaches_a_slow_client() {
    let sent = noise(6, LENGTH);
    let bytes = sent.clone();
    let gate = http_gate(move |mut secure| {
        let head = read_head(&mut secure);
        let key = accept(&Seen { head, body: Vec::new(), whole: true, connection: 0 });
        let granted = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {key}\r\n\r\n"
        );
        secure.write_all(granted.as_bytes()).unwrap();
        secure.write_all(&bytes).unwrap();
        end_without_saying_so(secure);
    });
    let mut near = connect_small(gate.address("web"));
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    near.write_all(request.as_bytes()).unwrap();
    let head = read_head(&mut near);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let (got, orderly) = read_slowly(&gate, &mut near, || says(&gate, "web", "tunnel_upstream_reset"));
    assert!(got == sent, "{} bytes of {LENGTH}", got.len());
    assert!(!orderly, "what was cut looks whole");
}

/// A receiver that takes nothing is waited for as long as a tunnel may be idle, and no longer.
#[test]
fn what_nobody_takes_is_given_up_at_the_idle_timeout_and_at_the_end_of_a_lifetime() {
    let (address, connections) = small_upstream();
    let listeners = "  - { name: idle, bind: \"127.0.0.1:0\", tls: { keystore: main }, tunnel: { upstream: app, idle_timeout: 5s } }
  - { name: life, bind: \"127.0.0.2:0\", tls: { keystore: main }, tunnel: { upstream: app, max_lifetime: 8s } }";
    let upstreams = format!("  app: {{ servers: [\"{address}\"] }}");
    let gate = Gate::start_in(folder(), &yaml(listeners, &upstreams, "admin: { bind: \"127.0.0.5:0\" }"));
    for (index, listener) in ["idle", "life"].into_iter().enumerate() {
        let mut near = Secure::connect(gate.address(listener), gate.dir.path(), "a.test", "any");
        let far = next(&connections);
        near.write_all(&noise(7, LENGTH)).unwrap();
        near.socket().shutdown(Shutdown::Write).unwrap();
        assert_eq!(gate.log(index + 1)[index]["reason"], "close_notify_missing");
        wait_until("the connection to be given up", || {
            gate.metrics().contains(&format!("portunus_connections_open{{listener=\"{listener}\"}} 0"))
        });
        drop(far);
    }
}
