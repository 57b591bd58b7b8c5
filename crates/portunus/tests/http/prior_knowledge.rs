//! HTTP/2 in the clear from clients that know beforehand that it is spoken (RFC 9113 §3.3): gRPC behind a balancer that ends TLS.

use std::io::Write;

use crate::harness::frames::{DATA, END_STREAM, Frames, Outcome, PREFACE, PROTOCOL_ERROR, SETTINGS, frame};
use crate::harness::trial::{Parts, gate, yaml};
use crate::harness::{Gate, Upstream, connect, exchange, read_response, read_to_end, statuses};

fn get(path: &'static str) -> [(&'static str, &'static [u8]); 4] {
    [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a.test"), (":path", path.as_bytes())]
}

fn ok() -> Outcome {
    Outcome::Response(200, b"ok".to_vec())
}

#[test]
fn a_plain_listener_speaks_http_2_to_who_begins_with_it() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    let mut client = Frames::open_plain(gate.address("web"));
    client.headers(1, &get("/a"), true);
    assert_eq!(client.outcome(1), ok());
    let post = get("/b").map(|(name, value)| (name, if name == ":method" { &b"POST"[..] } else { value }));
    client.headers(3, &post, false);
    client.send(&frame(DATA, END_STREAM, 3, b"hello"));
    assert_eq!(client.outcome(3), ok());
    let seen = upstream.seen();
    assert_eq!((seen[0].line(), seen[1].line()), ("GET /a HTTP/1.1", "POST /b HTTP/1.1"));
    assert_eq!(seen[1].body, b"hello");
    assert_eq!((seen[0].fields("host"), seen[0].fields("x-forwarded-proto")), (vec!["a.test"], vec!["http"]));
    assert!(gate.log(2).iter().all(|line| line["version"] == "HTTP/2" && line["status"] == 200));
    // HTTP/1 beside it, also with methods that begin alike.
    for method in ["GET", "POST", "PUT", "PRI", "P", "PR"] {
        let sent = format!("{method} /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_eq!(statuses(&exchange(gate.address("web"), sent.as_bytes())), [200], "{method}");
    }
}

#[test]
fn a_preface_may_come_in_pieces() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts { file: "limits: { request_header_timeout: 1m }", ..Parts::default() });
    for cut in 1..PREFACE.len() {
        let mut stream = connect(gate.address("web"));
        stream.set_nodelay(true).unwrap();
        stream.write_all(&PREFACE[..cut]).unwrap();
        // What is sent behind it on another connection has come before the rest does.
        assert_eq!(
            statuses(&exchange(gate.address("web"), b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")),
            [200]
        );
        stream.write_all(&PREFACE[cut..]).unwrap();
        let mut client = Frames::behind_preface(stream);
        client.send(&frame(SETTINGS, 0, 0, &[]));
        client.headers(1, &get("/"), true);
        assert_eq!(client.outcome(1), ok(), "cut at {cut}");
    }
}

#[test]
fn what_only_begins_like_a_preface_is_no_request() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts { file: "limits: { request_header_timeout: 2s }", ..Parts::default() });
    // Another line follows the first: HTTP/1.
    for (sent, expected) in [
        (&b"PRI * HTTP/2.0\r\nHost: x\r\n\r\n"[..], &[505][..]),
        (b"PRI * HTTP/1.1\r\nHost: x\r\n\r\n", &[400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rx", &[505]),
    ] {
        assert_eq!(statuses(&exchange(gate.address("web"), sent)), expected, "{}", sent.escape_ascii());
    }
    // Not at the beginning of the connection.
    let mut stream = connect(gate.address("web"));
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_response(&mut stream).0.starts_with("HTTP/1.1 200 "));
    stream.write_all(PREFACE).unwrap();
    assert_eq!(statuses(&read_to_end(&mut stream)), [505]);
    gate.log(5);
    // Cut or stalled in the middle: nothing is said, and the connection ends.
    for (number, cut) in [3, 14, 23].into_iter().enumerate() {
        let mut stream = connect(gate.address("web"));
        stream.write_all(&PREFACE[..cut]).unwrap();
        if number == 0 {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        assert_eq!(read_to_end(&mut stream), b"");
        let line = gate.log(6 + number).pop().unwrap();
        assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some("http2_preface_invalid"), Some("client")));
    }
    let whole: Vec<_> = upstream.seen().into_iter().map(|seen| seen.head).collect();
    assert_eq!(whole.len(), 1, "{whole:?}");
}

#[test]
fn a_proxy_header_may_stand_before_a_preface() {
    let upstream = Upstream::ok();
    let text = yaml(&[upstream.address], Parts::default());
    let text = text.replace("bind: \"127.0.0.1:0\"", "bind: \"127.0.0.1:0\", proxy_protocol: { trust: [127.0.0.0/8] }");
    let gate = Gate::start(&text);
    for together in [true, false] {
        let mut stream = connect(gate.address("web"));
        let header = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\n";
        if together {
            stream.write_all(&[&header[..], PREFACE].concat()).unwrap();
        } else {
            stream.write_all(header).unwrap();
            stream.write_all(PREFACE).unwrap();
        }
        let mut client = Frames::behind_preface(stream);
        client.send(&frame(SETTINGS, 0, 0, &[]));
        client.headers(1, &get("/"), true);
        assert_eq!(client.outcome(1), ok());
        assert_eq!(upstream.seen().pop().unwrap().fields("x-forwarded-for"), ["192.0.2.7"]);
    }
}

#[test]
fn an_upgrade_to_http_2_is_ignored_and_strictness_is_the_same() {
    let upstream = Upstream::ok();
    let gate = gate(upstream.address, Parts::default());
    let sent = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    let response = exchange(gate.address("web"), sent);
    assert_eq!(statuses(&response), [200]);
    let seen = upstream.seen().remove(0);
    assert!(seen.fields("upgrade").is_empty() && seen.fields("http2-settings").is_empty(), "{}", seen.head);
    let mut client = Frames::open_plain(gate.address("web"));
    client.headers(1, &[get("/x").as_slice(), &[("x", b"a\r\nb")]].concat(), true);
    assert_eq!(client.outcome(1), Outcome::Reset(PROTOCOL_ERROR));
    client.headers(3, &get("/y"), true);
    assert_eq!(client.outcome(3), ok());
    assert_eq!(upstream.seen().len(), 2);
}

/// A resource of https is asked for over TLS, or by a peer that may say so, as with HTTP/1 (RFC 9110 §7.4).
#[test]
fn https_is_not_asked_for_in_the_clear() {
    let secure = get("/a").map(|(name, value)| (name, if name == ":scheme" { &b"https"[..] } else { value }));
    let upstream = Upstream::ok();
    let gate_alone = gate(upstream.address, Parts::default());
    let mut client = Frames::open_plain(gate_alone.address("web"));
    client.headers(1, &secure, true);
    assert!(matches!(client.outcome(1), Outcome::Response(421, _)));
    client.headers(3, &get("/b"), true);
    assert_eq!(client.outcome(3), ok());
    assert_eq!(gate_alone.log(2)[0]["reason"], "https_without_tls");
    assert_eq!(upstream.seen().len(), 1);
    let behind = gate(upstream.address, Parts { file: "trusted_proxies: 127.0.0.0/8", ..Parts::default() });
    let mut client = Frames::open_plain(behind.address("web"));
    client.headers(1, &secure, true);
    assert_eq!(client.outcome(1), ok());
}
