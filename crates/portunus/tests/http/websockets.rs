//! WebSockets over HTTP/2 (RFC 8441): an extended CONNECT of the client is an upgrade of HTTP/1.1 to the server, and what is no such thing goes nowhere.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Request;

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, Outcome, PING, PROTOCOL_ERROR, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, get,
};
use crate::harness::http2::http2_server;
use crate::harness::trial::{Parts, gate, secure_gate};
use crate::harness::websocket::{accept, echo, granting};
use crate::harness::{Gate, PATIENCE, Reply, Seen, Upstream, connect as connect_to};

type Fields = Vec<(&'static str, &'static [u8])>;

const CANCEL: u32 = 8;
/// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441 §3).
const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// An extended CONNECT as browsers send it.
fn connect(path: &'static str) -> Fields {
    vec![
        (":method", b"CONNECT"),
        (":protocol", b"websocket"),
        (":scheme", b"https"),
        (":authority", b"a.test"),
        (":path", path.as_bytes()),
        ("sec-websocket-version", b"13"),
        ("origin", b"https://a.test"),
    ]
}

/// With one field in place of its namesake, or without it.
fn with(name: &'static str, value: Option<&'static [u8]>) -> Fields {
    let all = connect("/ws").into_iter().filter(|(other, _)| *other != name);
    let (mut pseudo, mut fields): (Fields, Fields) = all.partition(|(name, _)| name.starts_with(':'));
    let place = if name.starts_with(':') { &mut pseudo } else { &mut fields };
    place.extend(value.map(|value| (name, value)));
    pseudo.extend(fields);
    pseudo
}

fn open(gate: &Gate) -> Frames {
    Frames::open(gate.address("web"), gate.dir.path())
}

/// The settings that the gate announces.
fn settings(client: &mut Frames) -> Vec<(u16, u32)> {
    loop {
        let frame = client.next().unwrap();
        if frame.kind == SETTINGS && frame.flags & 1 == 0 {
            let setting = |bytes: &[u8]| {
                (u16::from_be_bytes([bytes[0], bytes[1]]), u32::from_be_bytes(bytes[2..6].try_into().unwrap()))
            };
            return frame.payload.chunks(6).map(setting).collect();
        }
    }
}

/// Reads on to a frame of this kind on this stream.
fn until(client: &mut Frames, stream: u32, kind: u8) -> Frame {
    loop {
        let frame = client.next().expect("the connection ended");
        if frame.stream == stream {
            assert!(frame.kind == kind || frame.kind == WINDOW_UPDATE, "{frame:?}");
            if frame.kind == kind {
                return frame;
            }
        }
    }
}

/// Opens a WebSocket on a stream: its response is 200, and the stream goes on.
fn websocket(client: &mut Frames, stream: u32) -> Vec<u8> {
    client.headers(stream, &connect("/ws"), false);
    let head = until(client, stream, HEADERS);
    assert!(head.flags & END_STREAM == 0 && head.payload.contains(&0x88), "not 200: {head:?}");
    head.payload
}

/// Reads so many bytes of a stream.
fn bytes(client: &mut Frames, stream: u32, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(until(client, stream, DATA).payload);
    }
    all
}

/// The next log line.
fn line(gate: &Gate, number: usize) -> serde_json::Value {
    gate.log(number).remove(number - 1)
}

#[test]
fn a_websocket_opens_on_a_stream_and_its_upstream_sees_an_upgrade() {
    let upstream = granting(echo);
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = open(&gate);
    let announced = settings(&mut client);
    assert!(announced.contains(&(ENABLE_CONNECT_PROTOCOL, 1)), "{announced:?}");
    let mut fields = connect("/ws?room=1");
    fields.extend([
        ("sec-websocket-key", &b"dGhlIHNhbXBsZSBub25jZQ=="[..]),
        ("sec-websocket-protocol", b"chat"),
        ("sec-websocket-extensions", b"permessage-deflate"),
        ("cookie", b"a=b"),
    ]);
    client.headers(1, &fields, false);
    let head = until(&mut client, 1, HEADERS);
    assert!(head.flags & END_STREAM == 0 && head.payload.contains(&0x88), "{head:?}");
    client.send(&frame(DATA, 0, 1, b"one"));
    assert_eq!(bytes(&mut client, 1, 3), b"one");
    // Beside other requests of the connection.
    client.headers(3, &get("/page"), true);
    assert_eq!(client.outcome(3), Outcome::Response(200, b"ok".to_vec()));
    client.send(&frame(DATA, 0, 1, b"two"));
    assert_eq!(bytes(&mut client, 1, 3), b"two");
    // The client's end goes on as one; the server's comes back.
    client.send(&frame(DATA, END_STREAM, 1, b"end"));
    let mut rest = Vec::new();
    loop {
        let data = until(&mut client, 1, DATA);
        rest.extend(data.payload);
        if data.flags & END_STREAM != 0 {
            break;
        }
    }
    assert_eq!(rest, b"end");
    let seen = upstream.seen().remove(0);
    assert_eq!(seen.line(), "GET /ws?room=1 HTTP/1.1");
    for (name, value) in [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("host", "a.test"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("sec-websocket-extensions", "permessage-deflate"),
        ("origin", "https://a.test"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "https"),
    ] {
        assert_eq!(seen.fields(name), [value], "{}", seen.head);
    }
    let key = seen.fields("sec-websocket-key");
    assert!(key.len() == 1 && key[0].len() == 24 && key[0] != "dGhlIHNhbXBsZSBub25jZQ==", "{key:?}");
    let log = gate.log(2);
    let line =
        log.iter().find(|line| line["method"] == "GET" && line["status"] == 101).unwrap_or_else(|| panic!("{log:#?}"));
    assert_eq!(
        (&line["method"], &line["version"], line["status"].as_u64(), line["upstream"]["status"].as_u64()),
        (&"GET".into(), &"HTTP/2".into(), Some(101), Some(101)),
        "{line}"
    );
    assert_eq!((line["bytes_received"].as_u64(), line["bytes_sent"].as_u64()), (Some(9), Some(9)), "{line}");
}

#[test]
fn in_the_clear_it_is_the_same() {
    let upstream = granting(echo);
    let gate = gate(upstream.address, Parts::default());
    let mut client = Frames::open_plain(gate.address("web"));
    let mut fields = connect("/ws");
    fields[2] = (":scheme", b"http");
    client.headers(1, &fields, false);
    until(&mut client, 1, HEADERS);
    client.send(&frame(DATA, 0, 1, b"hello"));
    assert_eq!(bytes(&mut client, 1, 5), b"hello");
}

/// Asked by the crate that is behind the gate, too, in its other role.
#[test]
fn the_client_gets_no_proof_that_it_did_not_ask_for() {
    let upstream = granting(echo);
    let gate = gate(upstream.address, Parts::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let asked = async {
        let stream = tokio::net::TcpStream::connect(gate.address("web")).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        #[expect(clippy::disallowed_methods, reason = "a client of a test")]
        tokio::spawn(connection);
        // The settings of the other side say that it may be asked for.
        let mut sender = sender.ready().await.unwrap();
        while !sender.is_extended_connect_protocol_enabled() {
            tokio::task::yield_now().await;
        }
        let mut request = Request::builder().method("CONNECT").uri("http://a.test/ws").body(()).unwrap();
        request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
        let (response, mut stream) = sender.send_request(request, false).unwrap();
        let (head, mut body) = response.await.unwrap().into_parts();
        stream.send_data(Bytes::from_static(b"hello"), true).unwrap();
        let mut said = Vec::new();
        while let Some(piece) = body.data().await {
            said.extend_from_slice(&piece.unwrap());
        }
        (head, said)
    };
    let (head, said) = runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await.expect("an end") });
    assert_eq!((head.status.as_u16(), &said[..]), (200, &b"hello"[..]));
    assert_eq!(head.headers.get("sec-websocket-protocol").unwrap(), "chat");
    for name in ["sec-websocket-accept", "connection", "upgrade", "content-length"] {
        assert!(!head.headers.contains_key(name), "{:?}", head.headers);
    }
}

#[test]
fn it_is_announced_where_a_route_allows_it_and_nothing_says_otherwise() {
    let upstream = granting(echo);
    for (listener, route, expected) in [
        ("", "", true),
        (", websocket_over_http2: false", "", false),
        ("", ", upgrades: []", false),
        ("", ", upgrades: [chat]", false),
    ] {
        let yaml = crate::harness::trial::yaml(&[upstream.address], Parts { route, ..Parts::default() });
        let gate = Gate::start(&yaml.replace("bind: \"127.0.0.1:0\"", &format!("bind: \"127.0.0.1:0\"{listener}")));
        let mut client = Frames::open_plain(gate.address("web"));
        let announced = settings(&mut client);
        assert_eq!(announced.contains(&(ENABLE_CONNECT_PROTOCOL, 1)), expected, "{listener}{route}: {announced:?}");
        let mut fields = connect("/ws");
        fields[2] = (":scheme", b"http");
        client.headers(1, &fields, false);
        if expected {
            until(&mut client, 1, HEADERS);
        } else {
            // What was not announced is malformed (RFC 8441 §3); the connection goes on.
            assert_eq!(client.outcome(1), Outcome::Reset(PROTOCOL_ERROR), "{listener}{route}");
            client.headers(3, &[get("/")[0], (":scheme", b"http"), get("/")[2], get("/")[3]], true);
            assert_eq!(client.outcome(3), Outcome::Response(200, b"ok".to_vec()));
        }
    }
}

#[test]
fn what_is_no_proper_request_for_one_goes_nowhere() {
    let upstream = granting(echo);
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = open(&gate);
    let mut stream = 1;
    let mut check = |fields: &[(&str, &[u8])], expected: Result<u16, u32>| {
        client.headers(stream, fields, false);
        let got = match client.outcome(stream) {
            Outcome::Response(status, _) => Ok(status),
            Outcome::Reset(code) => Err(code),
            other => panic!("{fields:?}: {other:?}"),
        };
        assert_eq!(got, expected, "{fields:?}");
        stream += 2;
    };
    for other in [&b"connect-udp"[..], b"WebSocket", b"websocket ", b"websocket, x", b"", b"h2c"] {
        check(&with(":protocol", Some(other)), Ok(501));
    }
    // Without `:protocol` it is a CONNECT like any other, and that has no path and no scheme.
    check(&with(":protocol", None), Err(PROTOCOL_ERROR));
    check(&[(":method", b"CONNECT"), (":authority", b"a.test:443")], Ok(405));
    let twice = [&[(":protocol", &b"websocket"[..])], &connect("/ws")[..]].concat();
    for fields in [
        with(":method", Some(b"GET")),
        with(":method", Some(b"POST")),
        with(":scheme", None),
        with(":scheme", Some(b"wss")),
        with(":path", None),
        with(":path", Some(b"")),
        with(":path", Some(b"*")),
        with(":protocol", Some(b"web\xffsocket")),
        with("content-length", Some(b"0")),
        with("content-length", Some(b"5")),
        with("connection", Some(b"upgrade")),
        with("upgrade", Some(b"websocket")),
        with("transfer-encoding", Some(b"chunked")),
        with("host", Some(b"b.test")),
        twice,
    ] {
        check(&fields, Err(PROTOCOL_ERROR));
    }
    check(&with(":authority", None), Ok(400));
    check(&with("expect", Some(b"100-continue")), Ok(417));
    check(&with("content_length", Some(b"10")), Ok(400));
    check(&with(":path", Some(b"/ws/../x")), Ok(400));
    assert_eq!(upstream.seen().len(), 0, "{:?}", upstream.seen());
    // Who does it right is served on the same connection.
    websocket(&mut client, stream);
}

#[test]
fn what_is_no_websocket_never_looks_like_one() {
    let upstream = granting(echo);
    let routes = "  - { path: /none, upstream: app, upgrades: [] }\n  - { path: /http2, upstream: other }\n  - { path: /fixed, respond: { status: 200, body: hi } }\n  \
                  - { path: /gone, respond: { status: 410 } }\n  - { path: /there, redirect: { to: /ws } }\n";
    let other = http2_server(async |_, mut respond| {
        let _ = respond.send_response(http::Response::new(()), true);
    });
    let file = format!("  other: {{ servers: [\"{other}\"], protocol: http2 }}\n");
    let text = crate::harness::trial::yaml(&[upstream.address], Parts { routes, ..Parts::default() });
    let text = text.replace("routes:\n", &format!("{file}routes:\n"));
    let gate = Gate::start(&text);
    for (path, status) in [("/none", 501), ("/http2", 501), ("/fixed", 501), ("/gone", 410), ("/there", 308)] {
        let mut client = Frames::open_plain(gate.address("web"));
        let mut fields = connect(path);
        fields[2] = (":scheme", b"http");
        // A gRPC client reads its errors in a response 200.
        fields.push(("content-type", b"application/grpc"));
        client.headers(1, &fields, false);
        assert!(matches!(client.outcome(1), Outcome::Response(got, _) if got == status), "{path}");
    }
    assert_eq!(upstream.seen().len(), 0);
    let reasons: Vec<_> = gate.log(5).iter().map(|line| line["reason"].as_str().map(str::to_owned)).collect();
    assert_eq!(reasons.iter().flatten().filter(|reason| *reason == "websocket_not_offered").count(), 3, "{reasons:?}");
}

/// What a server responds instead of granting goes on, unless the client would take it for the beginning of a WebSocket.
#[test]
fn a_server_that_does_not_grant_opens_nothing() {
    let accepting = |fields: &'static str| {
        move |request: &Seen| {
            let right = accept(request);
            fields.replace("RIGHT", &right)
        }
    };
    const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    for (response, expected, reason) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(), 501, Some("websocket_not_offered")),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), 501, Some("websocket_not_offered")),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno".to_owned(), 403, None),
        ("HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n".to_owned(), 302, None),
        (format!("{SWITCH}\r\n"), 502, Some("unexpected_upgrade")),
        (format!("{SWITCH}Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"), 502, Some("unexpected_upgrade")),
        (format!("{SWITCH}Sec-WebSocket-Accept: RIGHT\r\nSec-WebSocket-Accept: RIGHT\r\n\r\n"), 502, Some("unexpected_upgrade")),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nSec-WebSocket-Accept: RIGHT\r\n\r\n".to_owned(),
            502,
            Some("unexpected_upgrade"),
        ),
    ] {
        let reply = accepting(Box::leak(response.clone().into_boxed_str()));
        let upstream = Upstream::start(move |request| Reply::Keep(reply(request).into_bytes()));
        let gate = secure_gate(upstream.address, Parts::default());
        let mut client = open(&gate);
        client.headers(1, &connect("/ws"), false);
        assert!(matches!(client.outcome(1), Outcome::Response(status, _) if status == expected), "{response}");
        let line = line(&gate, 1);
        assert_eq!((line["status"].as_u64(), line["reason"].as_str()), (Some(expected.into()), reason), "{response}");
        // No request of somebody else meets what such a connection has left.
        client.headers(3, &get("/next"), true);
        client.outcome(3);
    }
}

/// What one side sees when the other was cut (RFC 8441 §5): a reset, never an end.
#[test]
fn a_cut_is_shown_as_one() {
    let (ended, ends) = channel();
    let upstream = granting(move |mut stream: TcpStream| {
        let mut all = Vec::new();
        let read = stream.read_to_end(&mut all).map_err(|error| error.kind());
        ended.send((all, read.is_ok())).unwrap();
    });
    let gate = secure_gate(upstream.address, Parts::default());
    // Reset by the client.
    let mut client = open(&gate);
    websocket(&mut client, 1);
    client.send(&frame(DATA, 0, 1, b"half"));
    client.send(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), (b"half".to_vec(), false));
    assert_eq!(line(&gate, 1)["reason"], "tunnel_client_reset");
    // Fields at its end, which a tunnel has not (RFC 9113 §8.5).
    websocket(&mut client, 3);
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&[("x", b"y")])));
    assert!(matches!(client.outcome(3), Outcome::Reset(_)));
    assert!(!ends.recv_timeout(PATIENCE).unwrap().1);
    // The whole connection is gone.
    websocket(&mut client, 5);
    drop(client);
    assert!(!ends.recv_timeout(PATIENCE).unwrap().1);
    // An end is an end.
    let mut client = open(&gate);
    websocket(&mut client, 1);
    client.send(&frame(DATA, END_STREAM, 1, b"whole"));
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), (b"whole".to_vec(), true));
    // Reset by the server.
    let upstream = granting(|stream: TcpStream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = open(&gate);
    websocket(&mut client, 1);
    assert_eq!(client.outcome(1), Outcome::Reset(CANCEL));
    assert_eq!(line(&gate, 1)["reason"], "tunnel_upstream_reset");
}

#[test]
fn who_does_not_read_is_not_sent_more_and_stalls_nobody_else() {
    const ALL: usize = 8 << 20;
    let written = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&written);
    let upstream = granting(move |mut stream: TcpStream| {
        // The first byte says which direction is tried.
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        if first == *b"d" {
            for _ in 0..ALL / 65_536 {
                if stream.write_all(&[7; 65_536]).is_err() {
                    return;
                }
                *counted.lock().unwrap() += 65_536;
            }
        } else {
            // Reads nothing, and never ends.
            loop {
                std::thread::park();
            }
        }
    });
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = open(&gate);
    // Room for the other streams of the connection, not for this one.
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(64_u32 << 20).to_be_bytes()));
    websocket(&mut client, 1);
    client.send(&frame(DATA, 0, 1, b"d"));
    assert_eq!(bytes(&mut client, 1, 65_535).len(), 65_535);
    for stream in [3, 5, 7] {
        client.headers(stream, &get("/page"), true);
        assert_eq!(client.outcome(stream), Outcome::Response(200, b"ok".to_vec()));
    }
    // What the sockets between hold, and no more.
    assert!(*written.lock().unwrap() < ALL);
    client.send(&frame(WINDOW_UPDATE, 0, 1, &(64_u32 << 20).to_be_bytes()));
    assert_eq!(bytes(&mut client, 1, ALL - 65_535).len(), ALL - 65_535);
    assert_eq!(client.outcome(1), Outcome::Response(0, Vec::new()));
    // The other way, the gate gives no window for what the server does not take.
    websocket(&mut client, 9);
    client.send(&frame(DATA, 0, 9, b"u"));
    let (mut window, mut sent) = (256 * 1024 - 1, 1);
    // Until nothing more is given while the gate responds to fifty PINGs.
    let mut quiet = 0;
    while quiet < 50 {
        while window > 0 && sent < 64 << 20 {
            let count = window.min(16_384);
            client.send(&frame(DATA, 0, 9, &vec![7; count]));
            (window, sent) = (window - count, sent + count);
        }
        client.send(&frame(PING, 0, 0, b"going on"));
        quiet += 1;
        loop {
            let frame = client.next().expect("the connection ended");
            match frame.kind {
                PING => break,
                WINDOW_UPDATE if frame.stream == 9 => {
                    window += u32::from_be_bytes(frame.payload[..4].try_into().unwrap()) as usize;
                    quiet = 0;
                }
                _ => {}
            }
        }
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken off a client whose server takes none");
}

#[test]
fn a_listener_and_a_route_say_how_long_nothing_may_move() {
    let upstream = granting(echo);
    let gate = Gate::start(&format!(
        "workers: 1
listeners:
  - {{ name: short, bind: \"127.0.0.1:0\", limits: {{ tunnel_idle_timeout: 1s }} }}
  - {{ name: web, bind: \"127.0.0.2:0\" }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes:
  - {{ path: /ws, upstream: app }}
  - {{ path: /short, upstream: app, tunnel_idle_timeout: 1s }}
  - {{ path: /long, upstream: app, tunnel_idle_timeout: 1h }}
",
        upstream.address
    ));
    let open = |listener: &str, path: &str| {
        let mut stream = connect_to(gate.address(listener));
        let key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{key}\r\n\r\n")
            .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
        stream
    };
    let mut lasting = [open("short", "/long"), open("web", "/ws")];
    for (listener, path) in [("short", "/ws"), ("web", "/short")] {
        assert!(!matches!(open(listener, path).read(&mut [0]), Ok(1..)), "{listener} {path} goes on");
    }
    assert!(gate.log(2).iter().all(|line| line["reason"] == "tunnel_idle"));
    for stream in &mut lasting {
        stream.write_all(b"on").unwrap();
        let mut echo = [0; 2];
        stream.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"on");
    }
}

#[test]
fn it_ends_when_nothing_moves_and_outlives_a_reload_and_the_beginning_of_a_drain() {
    let upstream = granting(echo);
    let file = "limits: { tunnel_idle_timeout: 1s }";
    let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
    let mut client = open(&gate);
    websocket(&mut client, 1);
    let end = until(&mut client, 1, DATA);
    assert!(end.flags & END_STREAM != 0 && end.payload.is_empty(), "{end:?}");
    let line = line(&gate, 1);
    assert_eq!((line["reason"].as_str(), line["status"].as_u64()), (Some("tunnel_idle"), Some(101)), "{line}");

    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = open(&gate);
    websocket(&mut client, 1);
    gate.signal("HUP");
    gate.wait_for("\"reloaded\"");
    client.send(&frame(DATA, 0, 1, b"on"));
    assert_eq!(bytes(&mut client, 1, 2), b"on");
    gate.signal("TERM");
    loop {
        let frame = client.next().unwrap();
        if frame.kind == GOAWAY {
            break;
        }
    }
    client.send(&frame(DATA, 0, 1, b"still"));
    assert_eq!(bytes(&mut client, 1, 5), b"still");
    client.send(&frame(DATA, END_STREAM, 1, b""));
    until(&mut client, 1, DATA);
    drop(client);
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn it_counts_as_a_tunnel_until_it_closes() {
    let upstream = granting(echo);
    let parts = Parts { upstream: ", max_in_flight: 1, max_in_flight_per_client: 1000", ..Parts::default() };
    let gate = secure_gate(upstream.address, parts);
    let mut client = open(&gate);
    websocket(&mut client, 1);
    client.headers(3, &get("/page"), true);
    assert!(matches!(client.outcome(3), Outcome::Response(503, _)));
    client.send(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    gate.log(2);
    client.headers(5, &get("/page"), true);
    assert_eq!(client.outcome(5), Outcome::Response(200, b"ok".to_vec()));
}

/// Guards look at it as at an upgrade over HTTP/1.1.
#[test]
fn what_rejects_an_upgrade_rejects_it() {
    let upstream = granting(echo);
    let routes = "  - { path: /ws, hosts: [a.test], methods: [GET], when: { header: { origin: \"https://a.test\" } }, upstream: app, policies: slow }\n  \
                  - { path: /post, methods: [POST], hosts: [a.test], upstream: app }\n";
    let file = "policies:\n  slow: { rate_limit: { rate: 1/h, burst: 1 } }\n";
    let gate = secure_gate(upstream.address, Parts { routes, file, ..Parts::default() });
    let mut client = open(&gate);
    websocket(&mut client, 1);
    client.headers(3, &connect("/ws"), false);
    assert!(matches!(client.outcome(3), Outcome::Response(429, _)));
    client.headers(5, &connect("/post"), false);
    assert!(matches!(client.outcome(5), Outcome::Response(405, _)));
    assert_eq!(upstream.seen().len(), 1);
}
