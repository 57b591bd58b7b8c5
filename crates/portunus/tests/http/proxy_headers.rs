//! PROXY headers to servers that speak HTTP: each connection says who its client is, and serves nobody else.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use wire::proxy_protocol::{Found, Header, MAX_HEADER_BYTES, Origin, Transport, Version, kind, read};

use crate::harness::frames::{DATA, END_STREAM, Frames, Outcome, get};
use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, gate, secure_gate, server, yaml};
use crate::harness::websocket;
use crate::harness::{Gate, Reply, Seen, Upstream, connect, exchange, read_response, statuses, vacant, wait_until};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// One request on a connection that stays open.
fn ask(client: &mut TcpStream, target: &str) {
    write!(client, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_response(client).0.starts_with("HTTP/1.1 200 "));
}

/// The line of version 1 for a client.
fn line(client: SocketAddr, gate: &Gate) -> String {
    let to = gate.address("web");
    format!("PROXY TCP4 {} {} {} {}", client.ip(), to.ip(), client.port(), to.port())
}

/// What stood first on each connection, in the order of requests; empty where a request followed another.
fn headers(upstream: &Upstream) -> Vec<String> {
    let first = |seen: &Seen| seen.line().starts_with("PROXY ").then(|| seen.line().to_owned());
    upstream.seen().iter().map(|seen| first(seen).unwrap_or_default()).collect()
}

fn connections(upstream: &Upstream) -> Vec<usize> {
    upstream.seen().iter().map(|seen| seen.connection).collect()
}

/// A server that tells when connections to it have ended.
fn watched() -> (SocketAddr, Arc<Mutex<Vec<usize>>>) {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&ended);
    let address = server(move |number, mut stream| {
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            all.extend_from_slice(&piece[..count]);
            if all.ends_with(b"\r\n\r\n") {
                stream.write_all(OK.as_bytes()).unwrap();
                all.clear();
            }
        }
        kept.lock().unwrap().push(number);
    });
    (address, ended)
}

#[test]
fn each_client_has_connections_of_its_own() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts { upstream: ", send_proxy: v1", ..Parts::default() });
    let mut clients = [connect(gate.address("web")), connect(gate.address("web"))];
    for index in [0, 1, 0, 1] {
        ask(&mut clients[index], "/a");
    }
    let first = clients.each_ref().map(|client| line(client.local_addr().unwrap(), &gate));
    assert_eq!(headers(&upstream), [&first[0], &first[1], "", ""]);
    assert_eq!(connections(&upstream), [0, 1, 0, 1]);
    assert!(upstream.seen().iter().all(|seen| seen.head.contains("GET /a HTTP/1.1\r\n")));
}

#[test]
fn a_connection_ends_with_that_of_its_client() {
    let (address, ended) = watched();
    let gate = gate(address, Parts { upstream: ", send_proxy: v2, pool_idle_timeout: 1h", ..Parts::default() });
    let mut clients: Vec<_> = (0..3).map(|_| connect(gate.address("web"))).collect();
    clients.iter_mut().for_each(|client| ask(client, "/"));
    assert_eq!(*ended.lock().unwrap(), [0; 0]);
    drop(clients.remove(1));
    wait_until("the second one's to end", || *ended.lock().unwrap() == [1]);
    clients.iter_mut().for_each(|client| ask(client, "/"));
    // Also where it is the gate that closes.
    let sent = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(statuses(&exchange(gate.address("web"), sent)), [200]);
    wait_until("the fourth one's to end", || *ended.lock().unwrap() == [1, 3]);
}

/// Requests at once on one connection of HTTP/2 go on several, all of which name it.
#[test]
fn streams_of_a_connection_are_one_client() {
    let arrived = Arc::new((Mutex::new(0), std::sync::Condvar::new()));
    let upstream = Upstream::start(move |_| {
        // None is answered before all three are here.
        let (count, changed) = &*arrived;
        *count.lock().unwrap() += 1;
        changed.notify_all();
        drop(changed.wait_while(count.lock().unwrap(), |count| *count < 3).unwrap());
        Reply::Keep(OK.into())
    });
    let gate = secure_gate(upstream.address, Parts { upstream: ", send_proxy: v1", ..Parts::default() });
    let secure = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "h2");
    let client = secure.socket().local_addr().unwrap();
    let mut frames = Frames::over(secure);
    for stream in [1, 3, 5] {
        frames.headers(stream, &get("/a"), true);
    }
    let mut ended = std::collections::BTreeSet::new();
    while ended.len() < 3 {
        let frame = frames.next().expect("the connection ended");
        ended.extend((frame.kind == DATA && frame.flags & END_STREAM != 0).then_some(frame.stream));
    }
    assert_eq!(headers(&upstream), [line(client, &gate), line(client, &gate), line(client, &gate)]);
    frames.headers(7, &get("/b"), true);
    assert_eq!(frames.outcome(7), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(headers(&upstream)[3], "");
}

/// Reads a header, and what is behind it up to the end of a request's head.
fn first(stream: &mut TcpStream, check: impl Fn(&Header<'_>)) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    while !bytes.ends_with(b"\r\n\r\n") || bytes.len() < 20 {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{}", bytes.escape_ascii());
        bytes.extend_from_slice(&piece[..count]);
    }
    let Found::Whole(header) = read(&bytes, MAX_HEADER_BYTES).unwrap() else { panic!("{}", bytes.escape_ascii()) };
    check(&header);
    assert!(bytes[header.len..].starts_with(b"GET / HTTP/1.1\r\n"), "{}", bytes.escape_ascii());
}

#[test]
fn version_2_says_what_is_known_of_the_connection() {
    for tlvs in [false, true] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let address = server(move |_, mut stream| {
            first(&mut stream, |header| {
                let id = header.tlvs.get(kind::UNIQUE_ID).map(<[u8]>::to_vec);
                let alpn = header.tlvs.get(kind::ALPN).map(<[u8]>::to_vec);
                let name = header.tlvs.get(kind::AUTHORITY).map(<[u8]>::to_vec);
                let Origin::Inet { transport: Transport::Stream, source, destination } = header.origin else {
                    panic!("{header:?}")
                };
                assert_eq!(header.version, Version::V2);
                kept.lock().unwrap().push((source, destination, id, alpn, name));
            });
            let _ = stream.write_all(OK.replace("200 OK", "200 OK\r\nConnection: close").as_bytes());
        });
        let upstream = if tlvs { ", send_proxy: v2_tlvs" } else { ", send_proxy: v2" };
        let gate = secure_gate(address, Parts { upstream, ..Parts::default() });
        let mut secure = Secure::connect(gate.address("web"), gate.dir.path(), "b.test", "http/1.1");
        let client = secure.socket().local_addr().unwrap();
        for _ in 0..2 {
            secure.write_all(b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n").unwrap();
            assert!(read_response(&mut secure).0.starts_with("HTTP/1.1 200 "));
        }
        let seen = seen.lock().unwrap();
        // The connection, not the request, has the id.
        assert!(seen.len() == 2 && seen[0] == seen[1], "{seen:?}");
        let (source, destination, id, alpn, name) = seen[0].clone();
        assert_eq!((source, destination), (client, gate.address("web")));
        assert_eq!(id.is_some_and(|id| id.len() == 32), tlvs);
        let expected = tlvs.then(|| (b"http/1.1".to_vec(), b"b.test".to_vec()));
        assert_eq!(alpn.zip(name), expected);
    }
}

/// A proxy that is trusted names its clients in requests: each of them is another client. Who is not trusted names nobody.
#[test]
fn clients_of_a_trusted_proxy_are_told_apart_and_forged_ones_are_not_named() {
    let upstream = Upstream::ok();
    let parts = Parts { upstream: ", send_proxy: v1", file: "trusted_proxies: 127.0.0.2", ..Parts::default() };
    let gate = gate(upstream.address, parts);
    let from = |source: [u8; 4]| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        socket.connect(&gate.address("web").into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
        stream
    };
    let ask = |client: &mut TcpStream, named: &str| {
        write!(client, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {named}\r\n\r\n").unwrap();
        assert!(read_response(client).0.starts_with("HTTP/1.1 200 "));
    };
    let to = gate.address("web");
    let mut proxy = from([127, 0, 0, 2]);
    for named in ["203.0.113.7", "203.0.113.8", "203.0.113.7", "2001:db8::7"] {
        ask(&mut proxy, named);
    }
    let (ip, port) = (to.ip(), to.port());
    assert_eq!(
        headers(&upstream),
        [
            format!("PROXY TCP4 203.0.113.7 {ip} 0 {port}"),
            format!("PROXY TCP4 203.0.113.8 {ip} 0 {port}"),
            String::new(),
            format!("PROXY TCP6 2001:db8::7 ::ffff:{ip} 0 {port}"),
        ]
    );
    assert_eq!(connections(&upstream), [0, 1, 0, 2]);
    let mut forger = from([127, 0, 0, 3]);
    ask(&mut forger, "203.0.113.7");
    assert_eq!(headers(&upstream)[4], line(forger.local_addr().unwrap(), &gate));
    assert_eq!(upstream.seen()[4].connection, 3);
    // A header in the client's own bytes is no request.
    let sent = b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(statuses(&exchange(to, sent)), [400]);
    assert_eq!(upstream.seen().len(), 5);
}

/// Where a trusted proxy says something that is no address, nobody knows the client, and the proxy is not named in its place.
#[test]
fn a_client_that_is_not_known_for_certain_is_not_named() {
    let upstream = Upstream::ok();
    let parts = Parts { upstream: ", send_proxy: v1", file: "trusted_proxies: 127.0.0.1", ..Parts::default() };
    let gate = gate(upstream.address, parts);
    let sent = b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: somebody\r\nConnection: close\r\n\r\n";
    assert_eq!(statuses(&exchange(gate.address("web"), sent)), [200]);
    assert_eq!(headers(&upstream), ["PROXY UNKNOWN"]);
}

/// What is kept for one client takes no room from others.
#[test]
fn connections_of_a_client_leave_room_for_those_of_all() {
    let (plain, own) = (Upstream::ok(), Upstream::ok());
    let gate = Gate::start(&format!(
        "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nupstreams:
  own: {{ servers: \"{}\", send_proxy: v1, pool_max_idle: 1 }}
  plain: {{ servers: \"{}\", pool_max_idle: 1 }}
routes:
  - {{ path: /own, upstream: own }}
  - {{ path: /plain, upstream: plain }}
",
        own.address, plain.address
    ));
    let mut first = connect(gate.address("web"));
    ask(&mut first, "/own");
    let mut second = connect(gate.address("web"));
    ask(&mut second, "/plain");
    ask(&mut second, "/plain");
    assert_eq!(connections(&plain), [0, 0]);
    gate.stop();
}

#[test]
fn a_header_that_came_is_passed_on() {
    let upstream = Upstream::ok();
    let text = yaml(&[upstream.address], Parts { upstream: ", send_proxy: v1", ..Parts::default() });
    let text = text.replace("bind: \"127.0.0.1:0\"", "bind: \"127.0.0.1:0\", proxy_protocol: { trust: 127.0.0.0/8 }");
    let gate = Gate::start(&text);
    let named = "PROXY TCP4 203.0.113.7 198.51.100.1 4711 443";
    // The second one says that it is the balancer's own connection.
    for (header, is_named) in [(named, true), ("PROXY UNKNOWN", false)] {
        let mut client = connect(gate.address("web"));
        client.write_all(format!("{header}\r\n").as_bytes()).unwrap();
        ask(&mut client, "/");
        let own = line(client.local_addr().unwrap(), &gate);
        assert_eq!(upstream.seen().pop().unwrap().line(), if is_named { named } else { &own });
    }
}

/// Each connection has the header, also that to the next server, that in place of one which was closed, and those of checks and of our own requests.
#[test]
fn every_connection_has_a_header() {
    let upstream = Upstream::start(|seen| match seen.head.contains("GET /close ") {
        true => Reply::Close(OK.into()),
        false => Reply::Keep(OK.into()),
    });
    let down = vacant();
    let upstreams = ", send_proxy: v1, health: { path: /up, interval: 1s, timeout: 1s, fall: 100 }";
    let file = "policies:\n  asked: { forward_auth: { upstream: app, path: /auth, timeout: 60s } }";
    let text = yaml(
        &[down, upstream.address],
        Parts { upstream: upstreams, route: ", policies: asked", file, ..Parts::default() },
    );
    let gate = Gate::start(&text);
    let mut client = connect(gate.address("web"));
    let is_check = |seen: &Seen| seen.head.contains("GET /up ");
    for target in ["/a", "/close", "/b"] {
        ask(&mut client, target);
    }
    wait_until("a check", || upstream.seen().iter().any(is_check));
    let own = line(client.local_addr().unwrap(), &gate);
    let mut known = std::collections::BTreeMap::new();
    for seen in upstream.seen() {
        let is_ours = is_check(&seen) || seen.head.contains("/auth ");
        let header = if is_ours { "PROXY UNKNOWN" } else { &own };
        match known.insert(seen.connection, is_ours) {
            None => assert_eq!(seen.line(), header, "{}", seen.head),
            Some(was) => assert!(was == is_ours && seen.line().starts_with("GET "), "{}", seen.head),
        }
    }
    assert!(known.values().filter(|is_ours| !**is_ours).count() >= 2, "{known:?}");
}

#[test]
fn a_websocket_has_a_connection_that_says_whose_it_is() {
    let upstream = websocket::granting(websocket::echo);
    let gate = gate(upstream.address, Parts { upstream: ", send_proxy: v1", ..Parts::default() });
    let mut client = connect(gate.address("web"));
    ask(&mut client, "/");
    let opening = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    client.write_all(opening.as_bytes()).unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 101 "));
    client.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    client.read_exact(&mut back).unwrap();
    assert_eq!((&back, connections(&upstream)), (b"hello", vec![0, 0]));
    assert_eq!(headers(&upstream), [line(client.local_addr().unwrap(), &gate), String::new()]);
}
