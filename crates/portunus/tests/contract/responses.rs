//! Answers: declared status, fields, type and body, or a 502 of ours. Row 29 of the attack matrix.

use std::io::{Read, Write};
use std::sync::Mutex;

use super::site::{SHOP, Site};
use crate::harness::frames::{Frames, Outcome};
use crate::harness::websocket;
use crate::harness::{Reply, connect};

const GOOD: &str = r#"{"name":"a","price":{"amount":1,"currency":"EUR"}}"#;

/// A shop whose upstream answers this to everything.
fn answering(contract: &str, response: &str) -> Site {
    let response = Mutex::new(response.to_owned());
    Site::with(SHOP, contract, &[], move |_| Reply::Keep(response.lock().unwrap().clone().into_bytes()))
}

fn json(status: &str, fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn cases() -> Vec<(String, &'static str)> {
    vec![
        (json("200 OK", "", GOOD), ""),
        (json("200 OK", "", &GOOD.replace("EUR", "euro")), "pattern"),
        (json("200 OK", "", &GOOD.replace("\"a\"", "\"a\",\"cost\":2")), "unknown_field"),
        (json("200 OK", "", ""), "body_missing"),
        (json("500 Internal Server Error", "", "{}"), "status_undeclared"),
        (json("302 Found", "Location: https://elsewhere.test/\r\n", ""), "status_undeclared"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<b/>".to_owned(),
            "content_type_undeclared",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_owned(), "content_type_missing"),
        (json("404 Not Found", "", "{}"), "content_type_undeclared"),
    ]
}

#[test]
fn an_response_that_breaks_the_contract_becomes_a_502() {
    for (response, code) in cases() {
        let shop = answering("", &response);
        let got = shop.get("GET /v1/products/7", "");
        if code.is_empty() {
            assert_eq!((got.status, &got.body[..]), (200, GOOD.as_bytes()));
            continue;
        }
        assert_eq!((got.status, &got.json()["code"]), (502, &code.into()), "{response}");
        assert!(!String::from_utf8_lossy(&got.body).contains("euro"));
        let line = &shop.gate.log(1)[0];
        assert_eq!((&line["contract"]["decision"], &line["contract"]["side"]), (&"blocked".into(), &"response".into()));
        assert_eq!((&line["contract"]["reason"], &line["upstream"]["status"].is_u64()), (&code.into(), &true));
        // The connection it came on is not used again.
        shop.get("GET /v1/products/7", "");
        assert_eq!(shop.upstream.seen()[1].connection, 1);
    }
}

/// The original logs nothing here.
#[test]
fn log_says_of_responses_what_block_would_reject() {
    for (response, code) in cases() {
        let shop = answering(", response: log", &response);
        let got = shop.get("GET /v1/products/7", "");
        assert_eq!(got.status.to_string(), response[9..12], "{response}");
        let line = &shop.gate.log(1)[0]["contract"];
        let decision = if code.is_empty() { "passed" } else { "logged" };
        assert_eq!(line["decision"], decision, "{response}: {line}");
        if !code.is_empty() {
            assert_eq!((&line["reason"], &line["side"]), (&code.into(), &"response".into()), "{response}");
        }
    }
    let shop = answering(", response: off", &json("500 No", "", "{}"));
    assert_eq!(shop.get("GET /v1/products/7", "").status, 500);
    assert_eq!(shop.gate.log(1)[0]["contract"]["decision"], "passed");
}

#[test]
fn declared_fields_of_responses_are_validated() {
    for (fields, status) in
        [("X-Total: 0\r\n", 200), ("", 502), ("X-Total: many\r\n", 502), ("X-Total: 1\r\nX-Total: 2\r\n", 502)]
    {
        let shop = answering("", &json("200 OK", fields, "[]"));
        assert_eq!(shop.get("GET /v1/products", "").status, status, "{fields}");
    }
}

#[test]
fn responses_in_pieces_and_without_a_length_are_validated_whole() {
    let (first, second) = GOOD.split_at(20);
    let chunked = |last: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{last}\r\n0\r\n\r\n",
            first.len(),
            last.len()
        )
    };
    let shop = answering("", &chunked(second));
    let mut client = crate::harness::connect(shop.gate.address("web"));
    std::io::Write::write_all(&mut client, b"GET /v1/products/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let response = String::from_utf8(crate::harness::read_to_end(&mut client)).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("0\r\n\r\n"), "{response}");
    let shop = answering("", &chunked(&second.replace('}', "]")));
    assert_eq!(shop.get("GET /v1/products/7", "").status, 502);
    // Cut in the middle: nothing of it may look like a response.
    let cut = json("200 OK", "", GOOD).replace("Content-Length: 5", "Content-Length: 9");
    let shop = Site::with(SHOP, "", &[], move |_| Reply::Close(cut.clone().into_bytes()));
    assert_eq!(shop.get("GET /v1/products/7", "").status, 502);
}

#[test]
fn responses_are_bounded_like_requests() {
    let large = format!("[{}1]", "1,".repeat(3 << 20));
    let shop = answering("", &json("200 OK", "X-Total: 0\r\n", &large));
    let got = shop.get("GET /v1/products", "");
    assert_eq!(got.status, 502, "{}", got.head);
    let shop = answering(", response: log", &json("200 OK", "X-Total: 0\r\n", &large));
    let got = shop.get("GET /v1/products", "");
    assert_eq!((got.status, got.body.len()), (200, large.len()));
}

/// Path, status, reason.
type Asked = (&'static str, u16, &'static str);

/// What a document says of classes of statuses, or by `default`, does not speak of tunnels; where nothing is blocked, everything passes and is logged.
#[test]
fn an_upgrade_needs_the_very_101_unless_nothing_is_blocked() {
    const DOCUMENT: &str = r##"
openapi: 3.0.3
info: { title: t, version: "1" }
paths:
  /default: { get: { responses: { default: { description: d } } } }
  /class: { get: { responses: { "1XX": { description: d }, "200": { description: d } } } }
  /ok: { get: { responses: { "200": { description: d } } } }
  /ws: { get: { responses: { "101": { description: d }, "200": { description: d } } } }
"##;
    let asks = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let granting = |seen: &crate::harness::Seen| {
        let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        let ordinary = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        match seen.fields("upgrade").is_empty() {
            true => Reply::Close(ordinary.into()),
            false if seen.fields("sec-websocket-key").is_empty() => Reply::Close(switching.into()),
            false => Reply::Close(websocket::granted(seen, "").into()),
        }
    };
    let rows: [(&str, &[Asked]); 5] = [
        ("", &[("/default", 200, ""), ("/class", 200, ""), ("/ok", 200, ""), ("/ws", 101, "")]),
        (", response: log", &[("/default", 200, ""), ("/ws", 101, "")]),
        (", request: log", &[("/default", 200, ""), ("/ws", 101, "")]),
        (
            ", request: log, response: log",
            &[
                ("/default", 101, "upgrade_undeclared"),
                ("/ok", 101, "upgrade_undeclared"),
                ("/nothing", 101, "path_undeclared"),
                ("/ws", 101, ""),
            ],
        ),
        (", request: off, response: off", &[("/ok", 101, ""), ("/nothing", 101, "")]),
    ];
    for (contract, requests) in rows {
        let site = Site::with(DOCUMENT, contract, &[], granting);
        for (number, (path, status, reason)) in requests.iter().enumerate() {
            assert_eq!(site.get(&format!("GET {path}"), asks).status, *status, "{contract} {path}");
            let seen = site.upstream.seen().remove(number);
            assert_eq!(seen.fields("upgrade").len(), usize::from(*status == 101), "{contract} {path}: {}", seen.head);
            let contract = site.gate.log(number + 1)[number]["contract"].clone();
            let decision = contract["decision"].as_str().unwrap();
            assert_eq!(contract["reason"].as_str().unwrap_or_default(), *reason, "{path}: {contract}");
            assert_eq!(decision == "logged", !reason.is_empty(), "{path}: {contract}");
        }
        open_on_streams(&site, contract, requests);
    }
}

/// Over HTTP/2 (RFC 8441) there is no request that could go on without the wish: it opens a WebSocket, or goes nowhere.
fn open_on_streams(site: &Site, contract: &str, requests: &[Asked]) {
    let lines = site.gate.log(requests.len()).len();
    for (number, (path, status, reason)) in requests.iter().enumerate() {
        let before = site.upstream.seen().len();
        let mut client = Frames::open_plain(site.gate.address("web"));
        let opening = [
            (":method", &b"CONNECT"[..]),
            (":protocol", b"websocket"),
            (":scheme", b"http"),
            (":authority", b"a"),
            (":path", path.as_bytes()),
        ];
        client.headers(1, &opening, false);
        let opens = *status == 101;
        let expected = if opens { 200 } else { 501 };
        assert!(matches!(client.outcome(1), Outcome::Response(got, _) if got == expected), "{contract} {path}");
        assert_eq!(site.upstream.seen().len(), before + usize::from(opens), "{contract} {path}");
        drop(client);
        let line = site.gate.log(lines + number + 1)[lines + number].clone();
        assert!(!opens || line["contract"]["reason"].as_str().unwrap_or_default() == *reason, "{line}");
    }
}

#[test]
fn no_protocol_is_changed_that_the_document_does_not_declare() {
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let shop = answering(", response: off", switching);
    assert_eq!(shop.get("GET /v1/products", upgrade).status, 502);
    assert!(shop.upstream.seen()[0].fields("upgrade").is_empty());
}

const OPEN: &str = "openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /silent: { get: { responses: { '200': { description: ok } } } }
  /none: { get: {} }
  /number: { get: { responses: { '200': { description: ok, content: { application/json: { schema: { type: integer } } } } } } }
  /events: { get: { responses: { '200': { description: ok, content: { text/event-stream: { schema: { type: string } } } } } } }
";

/// What an author may not have meant to forbid passes under the defaults, is listed, and is said before traffic does.
#[test]
fn what_a_document_leaves_open_passes_and_check_says_so() {
    let site = Site::with(OPEN, ", response: block", &[], |seen| {
        let is_validator = seen.line().contains("/number") && !seen.fields("if-none-match").is_empty();
        Reply::Keep(if is_validator {
            b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n".to_vec()
        } else {
            json("200 OK", "", "{}").into_bytes()
        })
    });
    assert_eq!(site.get("GET /silent", "").body, b"{}");
    assert_eq!(site.get("GET /none", "").status, 200);
    assert_eq!(site.get("GET /number", "").json()["code"], "type");
    assert_eq!(site.get("GET /number", "If-None-Match: \"a\"\r\n").status, 304);
    let (is_good, said) = super::site::checked(OPEN, &[], ", response: block");
    assert!(is_good, "{said}");
    for expected in [
        "1 of 4 operations have a response without `content`: a body of it passes unvalidated",
        "1 of 4 operations have no `responses`: each response passes unvalidated",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    for quiet in [", response: log", ", undeclared: { response_body: block, status: off }"] {
        let (_, said) = super::site::checked(OPEN, &[], quiet);
        assert!(!said.contains("unvalidated"), "{quiet}: {said}");
    }
}

/// The stream does not end before its client has read what there is.
#[test]
fn events_pass_as_they_come() {
    for path in ["/events", "/silent"] {
        let (told, events) = std::sync::mpsc::channel::<()>();
        let events = Mutex::new(events);
        let site = Site::with(OPEN, ", response: block", &[], move |_| {
            let events = std::mem::replace(&mut *events.lock().unwrap(), std::sync::mpsc::channel().1);
            Reply::Take(Box::new(move |mut server| {
                server.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").unwrap();
                while events.recv().is_ok() {
                    server.write_all(b"data: more\n\n").unwrap();
                }
            }))
        });
        let mut client = connect(site.gate.address("web"));
        write!(client, "GET {path} HTTP/1.1\r\nHost: api.test\r\n\r\n").unwrap();
        let mut raw = Vec::new();
        for expected in ["data: 1", "data: more"] {
            while !String::from_utf8_lossy(&raw).contains(expected) {
                let mut piece = [0; 4096];
                let count = client.read(&mut piece).unwrap();
                assert!(count > 0, "{path}: ended before {expected}");
                raw.extend_from_slice(&piece[..count]);
            }
            told.send(()).unwrap();
        }
    }
}
