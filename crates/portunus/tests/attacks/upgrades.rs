//! Upgrades and tunnels: only after the upstream's 101 to a protocol the route allows (row 8).

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use crate::harness::trial::{Parts, SMUGGLED, Trial, gate};
use crate::harness::{Gate, Reply, Upstream, connect, exchange, read_to_end, statuses};

const WEBSOCKET: &str =
    "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";

/// An upstream that grants any upgrade it is asked for, to the protocol `granted`, and echoes what comes then.
fn granting(granted: &'static str) -> Upstream {
    Upstream::start(move |request| {
        if request.fields("upgrade").is_empty() {
            return Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
        }
        Reply::Take(Box::new(move |mut stream| {
            let head =
                format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {granted}\r\n\r\nhello ");
            stream.write_all(head.as_bytes()).unwrap();
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let _ = stream.write_all(&buffer[..count]);
            }
        }))
    })
}

/// Reads until what was read ends in this.
fn read_until(stream: &mut impl Read, end: &str) -> String {
    let (mut all, mut byte) = (Vec::new(), [0]);
    while !all.ends_with(end.as_bytes()) {
        assert!(stream.read(&mut byte).unwrap() == 1, "ended after {}", all.escape_ascii());
        all.push(byte[0]);
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn a_tunnel_opens_after_the_upstreams_101() {
    let upstream = granting("websocket");
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    write!(client, "{WEBSOCKET}HTTP2-Settings: AAA\r\n\r\n").unwrap();
    let head = read_until(&mut client, "\r\n\r\nhello ");
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n"), "{head}");
    client.write_all(b"GET /not-a-request HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_until(&mut client, "\r\n\r\n"), "GET /not-a-request HTTP/1.1\r\n\r\n");
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut client), b"");
    let seen = upstream.seen();
    assert_eq!(
        (seen.len(), seen[0].fields("upgrade"), seen[0].fields("connection")),
        (1, vec!["websocket"], vec!["upgrade"])
    );
    assert_eq!(seen[0].fields("http2-settings").len(), 0);
    let line = gate.log(1).remove(0);
    assert_eq!(
        (line["status"].as_u64(), line["bytes_received"].as_u64(), line["bytes_sent"].as_u64()),
        (Some(101), Some(31), Some(37))
    );
}

#[test]
fn a_rejected_upgrade_leaves_an_ordinary_connection() {
    // Bytes that a client sends ahead, hoping for a blind tunnel, are requests like any other: routed, checked, logged.
    let routes = "  - { name: private, path: \"/private\", respond: { status: 403 } }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    let sent = format!("{WEBSOCKET}\r\nGET /private HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let response = exchange(trial.gate.address("web"), sent.as_bytes());
    assert_eq!(statuses(&response), [200, 403]);
    let seen = trial.upstream.seen();
    assert_eq!((seen.len(), seen[0].line()), (1, "GET /ws HTTP/1.1"));
    assert!(memchr::memmem::find(&trial.upstream.raw(), b"/private").is_none());
    assert_eq!(trial.gate.log(2)[1]["status"], 403);
    trial.account(2);
    trial.finish();
}

#[test]
fn what_is_no_proper_upgrade_is_not_forwarded_as_one() {
    let upstream = granting("websocket");
    let mut trial = Trial::before(upstream, Parts::default());
    let head = |line: &str, fields: &str| format!("{line}\r\nHost: x\r\n{fields}\r\n");
    for (number, sent) in [
        // With a body: what is body and what is tunnel would be anybody's guess.
        head("POST /u HTTP/1.1", "Connection: upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 5\r\n") + "hello",
        head("POST /u HTTP/1.1", "Connection: upgrade, close\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n")
            + "0\r\n\r\n",
        // To what the route does not allow.
        head(
            "GET /u HTTP/1.1",
            "Connection: upgrade, http2-settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        ),
        head("GET /u HTTP/1.1", "Connection: upgrade, close\r\nUpgrade: TLS/1.0\r\n"),
        head("GET /u HTTP/1.1", "Connection: upgrade, close\r\nUpgrade: h2c, websocket\r\n"),
        // Without being nominated, and from HTTP/1.0.
        head("GET /u HTTP/1.1", "Connection: close\r\nUpgrade: websocket\r\n"),
        head("GET /u HTTP/1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let response = exchange(trial.gate.address("web"), &[sent.as_bytes(), SMUGGLED].concat());
        assert_eq!(statuses(&response), [200], "{sent}");
        let seen = trial.upstream.seen();
        assert_eq!(seen.len(), number + 1, "{sent}");
        for field in ["upgrade", "http2-settings"] {
            assert_eq!(seen[number].fields(field).len(), 0, "{sent}: {}", seen[number].head);
        }
    }
    trial.account(7);
    trial.reject(head("GET /u HTTP/1.1", "Connection: upgrade\r\nUpgrade: a b\r\n"), 400, "bad_upgrade");
    trial.finish();
}

#[test]
fn a_101_nobody_asked_for_is_a_bad_gateway() {
    let unasked =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    for (request, response) in [
        ("GET /p HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), &unasked[..]),
        (
            format!("{WEBSOCKET}\r\n"),
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        ),
        (format!("{WEBSOCKET}\r\n"), b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
    ] {
        let response = response.to_vec();
        let upstream = Upstream::start(move |_| Reply::Keep(response.clone()));
        let gate = gate(upstream.address, Parts::default());
        let sent = request.clone() + "GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let response = exchange(gate.address("web"), sent.as_bytes());
        assert_eq!(statuses(&response), [502, 502], "{request}");
        assert_eq!(gate.log(1)[0]["reason"], "unexpected_upgrade");
        // No connection that said such a thing is used again.
        let seen = upstream.seen();
        assert!(seen.iter().enumerate().all(|(number, request)| request.connection == number), "{seen:?}");
    }
}

#[test]
fn bytes_sent_ahead_wait_for_the_tunnel() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&held);
    let upstream = Upstream::start(move |_| {
        let kept = Arc::clone(&kept);
        Reply::Take(Box::new(move |mut stream| {
            // Nothing may come before the 101.
            stream.set_nonblocking(true).unwrap();
            kept.lock().unwrap().push(stream.read(&mut [0; 64]).ok());
            stream.set_nonblocking(false).unwrap();
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                .unwrap();
            let mut tunnelled = [0; 5];
            stream.read_exact(&mut tunnelled).unwrap();
            stream.write_all(&tunnelled).unwrap();
        }))
    });
    let gate: Gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    write!(client, "{WEBSOCKET}\r\nahead").unwrap();
    let all = String::from_utf8(read_to_end(&mut client)).unwrap();
    assert!(all.starts_with("HTTP/1.1 101 ") && all.ends_with("\r\n\r\nahead"), "{all}");
    assert_eq!(*held.lock().unwrap(), [None]);
    assert_eq!(upstream.seen().len(), 1);
}
