//! A WebSocket to a GraphQL endpoint under a contract: which messages the server behind it got, and what the client got in their place.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::graphql::SCHEMA;
use super::site::folder;
use crate::harness::frames::{DATA, END_STREAM, Frames, HEADERS, Outcome, frame as h2_frame};
use crate::harness::websocket;
use crate::harness::{Gate, Reply, Upstream, connect, read_to_end, wait_until};

/// What the server got behind its 101.
type Got = Arc<Mutex<Vec<u8>>>;

struct Socket {
    gate: Gate,
    upstream: Upstream,
    got: Got,
}

/// A gate before a server that grants WebSockets with these fields, and says a message in two frames with a pause for the client between them.
fn socket(graphql: &str, contract: &str, granted: &'static str) -> Socket {
    let got = Got::default();
    let kept = Arc::clone(&got);
    let upstream = Upstream::start(move |request| {
        let (kept, head) = (Arc::clone(&kept), websocket::granted(request, granted));
        Reply::Take(Box::new(move |mut stream: TcpStream| {
            stream.write_all(head.as_bytes()).unwrap();
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                kept.lock().unwrap().extend_from_slice(&buffer[..count]);
                // Pings ask for the first half of a message, and for the second.
                let said: &[u8] = match &buffer[..count] {
                    read if read.ends_with(&ping(b'a')) => b"\x01\x03one",
                    read if read.ends_with(&ping(b'b')) => b"\x80\x03two",
                    _ => continue,
                };
                stream.write_all(said).unwrap();
            }
        }))
    });
    let text = format!(
        "workers: 1\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\", contract: api }}\n\
         upstreams:\n  app: {{ servers: [\"{}\"] }}\n\
         contracts:\n  api: {{ graphql: {{ schema: schema.graphql, websocket: true{graphql} }}{contract} }}\n\
         routes:\n  - {{ path: \"/{{*rest}}\", upstream: app, upgrades: [websocket] }}\n",
        upstream.address
    );
    let gate = Gate::start_in(folder("", &[("schema.graphql", SCHEMA)]), &text);
    Socket { gate, upstream, got }
}

const MASK: [u8; 4] = *b"1234";

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        length @ 0..=125 => out.push(0x80 | u8::try_from(length).unwrap()),
        length => {
            out.push(0x80 | 126);
            out.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

fn text(message: &Value) -> Vec<u8> {
    frame(0x81, message.to_string().as_bytes())
}

fn ping(byte: u8) -> Vec<u8> {
    frame(0x89, &[byte])
}

fn subscribe(id: &str, query: &str) -> Value {
    json!({ "id": id, "type": "subscribe", "payload": { "query": query } })
}

/// The payload of the next frame of the server, which is short, with its first byte.
fn next(client: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    client.read_exact(&mut head).unwrap();
    let mut length = usize::from(head[1]);
    if length == 126 {
        let mut more = [0; 2];
        client.read_exact(&mut more).unwrap();
        length = usize::from(u16::from_be_bytes(more));
    }
    let mut payload = vec![0; length];
    client.read_exact(&mut payload).unwrap();
    (head[0], payload)
}

impl Socket {
    /// Opens a WebSocket; gives the response's head.
    fn open(&self, fields: &str) -> (TcpStream, String) {
        let mut client = connect(self.gate.address("web"));
        let head = "GET /graphql HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        write!(client, "{head}{fields}\r\n").unwrap();
        let (mut all, mut byte) = (Vec::new(), [0]);
        while !all.ends_with(b"\r\n\r\n") {
            assert_eq!(client.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&all));
            all.push(byte[0]);
        }
        (client, String::from_utf8(all).unwrap())
    }

    /// Waits until the server got exactly this.
    fn got(&self, expected: &[u8]) {
        wait_until("the server to get its messages", || self.got.lock().unwrap().len() >= expected.len());
        assert_eq!(*self.got.lock().unwrap(), expected);
    }
}

const TRANSPORT: &str = "Sec-WebSocket-Protocol: graphql-transport-ws\r\n";
const LEGACY: &str = "Sec-WebSocket-Protocol: graphql-ws\r\n";

#[test]
fn messages_are_validated_before_they_go_on() {
    let socket = socket("", "", TRANSPORT);
    let (mut client, head) =
        socket.open(&format!("{TRANSPORT}Sec-WebSocket-Extensions: permessage-deflate\r\nOrigin: http://api.test\r\n"));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // Compressed messages could not be read.
    assert!(socket.upstream.seen()[0].fields("sec-websocket-extensions").is_empty());
    let init = text(&json!({ "type": "connection_init", "payload": {} }));
    let good = subscribe("1", "subscription { born { name } }").to_string();
    let (first, rest) = good.as_bytes().split_at(20);
    // A message in pieces, with a control frame within, goes on when its end is here.
    let pieces = [frame(0x01, first), frame(0x80, rest)];
    client.write_all(&init).unwrap();
    client.write_all(&pieces[0]).unwrap();
    client.write_all(&ping(b'x')).unwrap();
    let before = [init.clone(), ping(b'x')].concat();
    socket.got(&before);
    client.write_all(&pieces[1]).unwrap();
    let before = [before, pieces.concat()].concat();
    socket.got(&before);
    // The server is within a message of its own: the response of ours comes behind it.
    client.write_all(&ping(b'a')).unwrap();
    assert_eq!(next(&mut client), (0x01, b"one".to_vec()));
    client.write_all(&text(&subscribe("2", "{ nothing }"))).unwrap();
    client.write_all(&text(&subscribe("3", "{ __schema { types { name } } }"))).unwrap();
    client.write_all(&ping(b'b')).unwrap();
    assert_eq!(next(&mut client), (0x80, b"two".to_vec()));
    for (id, code) in [("2", "graphql_invalid"), ("3", "graphql_introspection")] {
        let (first, payload) = next(&mut client);
        let error = json!({ "id": id, "type": "error", "payload": [{ "message": "Bad Request", "extensions": { "code": code } }] });
        assert_eq!((first, serde_json::from_slice::<Value>(&payload).unwrap()), (0x81, error));
    }
    let complete = text(&json!({ "id": "1", "type": "complete" }));
    client.write_all(&complete).unwrap();
    socket.got(&[before, ping(b'a'), ping(b'b'), complete].concat());
    drop(client);
    let line = socket.gate.log(1).remove(0);
    assert_eq!(
        (&line["contract"]["decision"], &line["contract"]["reason"], &line["contract"]["violations"]),
        (&json!("blocked"), &json!("graphql_invalid"), &json!(2)),
        "{line}"
    );
}

#[test]
fn what_is_no_message_ends_the_connection() {
    let many = "x".repeat(2_000);
    for (sent, status, reason) in [
        (text(&json!({ "type": "subscribe", "payload": { "query": "{ version }" } })), 4400, "websocket_message"),
        (text(&json!({ "type": "publish" })), 4400, "websocket_message"),
        (text(&json!([])), 4400, "websocket_message"),
        (frame(0x81, br#"{"type":"ping","type":"pong"}"#), 4400, "websocket_message"),
        (frame(0x81, b"\xff"), 4400, "websocket_message"),
        (frame(0x82, b"{}"), 1003, "websocket_message"),
        (frame(0xc1, b"{}"), 1002, "websocket_frame"),
        (frame(0x80, b"{}"), 1002, "websocket_frame"),
        (b"\x81\x02{}".to_vec(), 1002, "websocket_frame"),
        (frame(0x81, many.as_bytes()), 1009, "websocket_frame"),
    ] {
        let socket = socket(", limits: { max_request: 1KiB }", "", TRANSPORT);
        let (mut client, _) = socket.open(TRANSPORT);
        client.write_all(&sent).unwrap();
        let (first, payload) = next(&mut client);
        assert_eq!((first, payload), (0x88, u16::to_be_bytes(status).to_vec()), "{}", sent.escape_ascii());
        assert_eq!(read_to_end(&mut client), b"");
        let line = socket.gate.log(1).remove(0);
        assert_eq!((&line["contract"]["reason"], &line["fault"]), (&json!(reason), &json!("client")), "{line}");
        let got = socket.got.lock().unwrap().clone();
        assert!(got.is_empty() || got == b"\x88\x82\0\0\0\0\x03\xea", "{}", got.escape_ascii());
    }
}

#[test]
fn the_older_protocol_is_read_too() {
    let socket = socket("", "", LEGACY);
    let (mut client, _) = socket.open(LEGACY);
    let start =
        |query: &str| text(&json!({ "id": "1", "type": "start", "payload": { "query": query, "variables": {} } }));
    client.write_all(&start("{ version }")).unwrap();
    client.write_all(&start("{ nothing }")).unwrap();
    let (_, error) = next(&mut client);
    assert_eq!(serde_json::from_slice::<Value>(&error).unwrap()["type"], "error");
    let (_, complete) = next(&mut client);
    assert_eq!(serde_json::from_slice::<Value>(&complete).unwrap(), json!({ "type": "complete", "id": "1" }));
    socket.got(&start("{ version }"));
}

#[test]
fn only_websockets_that_can_be_read_are_opened_and_only_by_pages_of_the_site() {
    let plain = socket("", "", TRANSPORT);
    for (fields, status, code) in [
        (String::new(), 400, "websocket_protocol"),
        ("Sec-WebSocket-Protocol: graphql-transport-ws, mqtt\r\n".to_owned(), 400, "websocket_protocol"),
        (format!("{TRANSPORT}Origin: https://evil.test\r\n"), 403, "websocket_origin"),
        (format!("{TRANSPORT}Origin: null\r\n"), 403, "websocket_origin"),
        (format!("{TRANSPORT}Origin: http://api.test\r\nOrigin: http://api.test\r\n"), 403, "websocket_origin"),
    ] {
        let (mut client, head) = plain.open(&fields);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {head}");
        let (mut body, mut piece) = (Vec::new(), [0; 512]);
        while !body.ends_with(b"\n") {
            let count = client.read(&mut piece).unwrap();
            body.extend_from_slice(&piece[..count]);
        }
        assert!(String::from_utf8_lossy(&body).contains(code), "{}", String::from_utf8_lossy(&body));
    }
    assert_eq!(plain.upstream.seen().len(), 0);
    let named = socket(", websocket_origins: [\"https://app.test\"]", "", TRANSPORT);
    let (_client, head) = named.open(&format!("{TRANSPORT}Origin: https://app.test\r\n"));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // A server that chooses another protocol, or compresses all the same.
    for granted in [
        "",
        "Sec-WebSocket-Protocol: mqtt\r\n",
        "Sec-WebSocket-Protocol: graphql-ws\r\nSec-WebSocket-Extensions: permessage-deflate\r\n",
    ] {
        let (_client, head) = socket("", "", granted).open(TRANSPORT);
        assert!(head.starts_with("HTTP/1.1 502 "), "{granted}: {head}");
    }
}

#[test]
fn under_log_every_message_passes_and_is_noted() {
    let socket = socket("", ", request: log", TRANSPORT);
    let (mut client, head) = socket.open(&format!("{TRANSPORT}Origin: https://evil.test\r\n"));
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let sent =
        [text(&subscribe("1", "{ nothing }")), frame(0x82, b"x"), frame(0xc1, b"y"), b"anything".to_vec()].concat();
    client.write_all(&sent).unwrap();
    socket.got(&sent);
    drop(client);
    let line = socket.gate.log(1).remove(0);
    assert_eq!(
        (&line["contract"]["decision"], &line["contract"]["violations"]),
        (&json!("logged"), &json!(4)),
        "{line}"
    );
}

/// A client that sends and does not read is not read either, beyond a bound, and goes on once it reads.
#[test]
fn responses_wait_for_a_client_that_does_not_read() {
    const MESSAGES: usize = 20_000;
    let socket = socket("", "", TRANSPORT);
    let (mut client, _) = socket.open(TRANSPORT);
    let mut sender = client.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let id = "i".repeat(100);
        let message = text(&subscribe(&id, "{ nothing }"));
        (0..MESSAGES).for_each(|_| sender.write_all(&message).unwrap());
    });
    for _ in 0..MESSAGES {
        let (first, payload) = next(&mut client);
        assert!(first == 0x81 && payload.starts_with(b"{"), "{}", String::from_utf8_lossy(&payload));
    }
    sending.join().unwrap();
}

/// On a stream of HTTP/2 (RFC 8441) the same messages pass, and the same pages may open one.
#[test]
fn messages_on_a_stream_are_validated_alike() {
    let socket = socket("", "", TRANSPORT);
    let mut client = Frames::open_plain(socket.gate.address("web"));
    let opening = |origin: &'static [u8]| {
        [
            (":method", &b"CONNECT"[..]),
            (":protocol", b"websocket"),
            (":scheme", b"http"),
            (":authority", b"api.test"),
            (":path", b"/graphql"),
            ("sec-websocket-version", b"13"),
            ("sec-websocket-protocol", b"graphql-transport-ws"),
            ("sec-websocket-extensions", b"permessage-deflate"),
            ("origin", origin),
        ]
    };
    client.headers(1, &opening(b"https://evil.test"), false);
    assert!(matches!(client.outcome(1), Outcome::Response(403, _)));
    assert_eq!(socket.upstream.seen().len(), 0);
    client.headers(3, &opening(b"http://api.test"), false);
    let data = |client: &mut Frames| loop {
        let frame = client.next().unwrap();
        assert!(frame.stream != 3 || frame.kind != HEADERS || frame.flags & END_STREAM == 0, "{frame:?}");
        if frame.stream == 3 && frame.kind == DATA {
            return frame;
        }
    };
    let good = [text(&json!({ "type": "connection_init" })), text(&subscribe("1", "{ version }"))].concat();
    // However the stream's frames cut those of the WebSocket.
    good.chunks(7).for_each(|piece| client.send(&h2_frame(DATA, 0, 3, piece)));
    socket.got(&good);
    assert!(socket.upstream.seen()[0].fields("sec-websocket-extensions").is_empty());
    client.send(&h2_frame(DATA, 0, 3, &text(&subscribe("2", "{ nothing }"))));
    let error = data(&mut client).payload;
    assert!(error[0] == 0x81 && String::from_utf8_lossy(&error).contains("graphql_invalid"), "{error:?}");
    client.send(&h2_frame(DATA, 0, 3, &text(&json!([]))));
    assert_eq!(data(&mut client).payload, [&b"\x88\x02"[..], &4400_u16.to_be_bytes()].concat());
    assert!(data(&mut client).flags & END_STREAM != 0);
    let line = socket.gate.log(2).remove(1);
    assert_eq!(
        (&line["contract"]["decision"], &line["contract"]["violations"], &line["version"]),
        (&json!("blocked"), &json!(2), &json!("HTTP/2")),
        "{line}"
    );
}
