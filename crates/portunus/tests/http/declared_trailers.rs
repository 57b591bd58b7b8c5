//! Trailers behind a declared length: in HTTP/2 the end of the stream is the end of the message, and the length only says whether the content is whole
//! (RFC 9113 §8.1.1).

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};

use crate::harness::frames::{DATA, END_STREAM, Frames, HEADERS, Outcome, RST_STREAM, frame, get};
use crate::harness::http2::http2_server;
use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, secure_gate};
use crate::harness::{Gate, connect, read_response};

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))])
}

/// Responds to `/STATUS/LENGTH/CONTENT` with this status and declared length, so much content, and trailers; behind `/endless`, without an end; to `/up` with
/// what trailers of the request say.
async fn respond(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let parts: Vec<_> = path.split('/').skip(1).collect();
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.data().await {}
    let said = body.trailers().await.ok().flatten().and_then(|trailers| trailers.get("x-up").cloned());
    if parts[0] == "up" {
        let mut stream = respond.send_response(Response::new(()), false).unwrap();
        let said = said.map_or_else(Bytes::new, |said| Bytes::copy_from_slice(said.as_bytes()));
        stream.send_data(said, true).unwrap();
        return;
    }
    let mut response = Response::builder().status(parts[0]).header("content-type", "text/plain");
    if parts[1] != "none" {
        response = response.header("content-length", parts[1]);
    }
    let mut stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
    stream.send_data(vec![b'x'; parts[2].parse().unwrap()].into(), false).unwrap();
    if parts.get(3) == Some(&"endless") {
        std::future::pending::<()>().await;
    }
    stream.send_trailers(trailers()).unwrap();
}

fn gate(upstream: &str, route: &str, file: &str) -> Gate {
    let upstream = format!(", protocol: http2{upstream}");
    secure_gate(http2_server(respond), Parts { upstream: &upstream, route, file, ..Parts::default() })
}

/// What a stream brought: content, whether trailers ended it, or that it was reset.
fn outcome(frames: &mut Frames, stream: u32) -> Result<(Vec<u8>, bool), u32> {
    let (mut heads, mut body) = (0, Vec::new());
    loop {
        let frame = frames.next().expect("the connection ended");
        if frame.stream != stream {
            continue;
        }
        match frame.kind {
            HEADERS => heads += 1,
            DATA => body.extend_from_slice(&frame.payload),
            RST_STREAM => return Err(u32::from_be_bytes(frame.payload[..4].try_into().unwrap())),
            _ => continue,
        }
        if frame.flags & END_STREAM != 0 {
            return Ok((body, frame.kind == HEADERS && heads == 2));
        }
    }
}

fn ask(gate: &Gate, method: &'static str, path: &'static str) -> Result<(Vec<u8>, bool), u32> {
    let mut frames = Frames::open(gate.address("web"), gate.dir.path());
    let fields: Vec<_> = get(path)
        .into_iter()
        .map(|(name, value)| if name == ":method" { (name, method.as_bytes()) } else { (name, value) })
        .collect();
    frames.headers(1, &fields, true);
    outcome(&mut frames, 1)
}

#[test]
fn trailers_follow_whatever_length_was_declared() {
    let gate = gate("", "", "");
    for (method, path, length) in [
        ("GET", "/200/5/5", 5),
        ("GET", "/200/0/0", 0),
        ("GET", "/200/none/5", 5),
        ("GET", "/200/none/0", 0),
        ("POST", "/404/40000/40000", 40_000),
        ("HEAD", "/200/5/0", 0),
        ("HEAD", "/200/none/0", 0),
        ("GET", "/204/none/0", 0),
        ("GET", "/304/none/0", 0),
    ] {
        assert_eq!(ask(&gate, method, path), Ok((vec![b'x'; length], true)), "{method} {path}");
    }
}

#[test]
fn trailers_follow_where_responses_are_raced_or_compressed() {
    let hedged = gate(", retries: { hedge: { after: 1ms } }", "", "");
    assert_eq!(ask(&hedged, "GET", "/200/5/5"), Ok((b"xxxxx".to_vec(), true)));
    let compressed = gate("", ", compression: small", "compression: { small: {} }");
    let mut frames = Frames::open(compressed.address("web"), compressed.dir.path());
    let mut fields = get("/200/40000/40000");
    fields.push(("accept-encoding", b"gzip"));
    frames.headers(1, &fields, true);
    let (body, has_trailers) = outcome(&mut frames, 1).unwrap();
    assert!(body.len() < 4000 && has_trailers, "{} bytes", body.len());
}

#[test]
fn content_that_is_longer_or_shorter_than_declared_is_no_whole_response() {
    let gate = gate("", "", "");
    for path in ["/200/5/4", "/200/5/6", "/200/5/0", "/200/0/1", "/200/5/50000"] {
        let mut frames = Frames::open(gate.address("web"), gate.dir.path());
        frames.headers(1, &get(path), true);
        let outcome = frames.outcome(1);
        assert!(matches!(outcome, Outcome::Reset(_) | Outcome::Response(502, _)), "{path}: {outcome:?}");
        // A client of HTTP/1 does not get as much as was declared.
        let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
        client
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut all = Vec::new();
        let _ = client.read_to_end(&mut all);
        let text = String::from_utf8(all).unwrap();
        let is_whole =
            text.starts_with("HTTP/1.1 200") && text.contains("content-length: 5") && text.ends_with("xxxxx");
        assert!(!is_whole, "{path}: {text}");
    }
}

/// A server that sends all that it declared and never ends its stream.
#[test]
fn a_stream_that_does_not_end_behind_its_declared_length_is_given_up() {
    let gate = gate(", idle_timeout: 1s", "", "");
    let mut frames = Frames::open(gate.address("web"), gate.dir.path());
    frames.headers(1, &get("/200/5/5/endless"), true);
    assert!(matches!(frames.outcome(1), Outcome::Reset(_)));
    assert_eq!(gate.log(1)[0]["reason"], "response_body_timeout");
}

#[test]
fn a_client_of_http_1_gets_the_length_and_no_trailers() {
    let upstream = http2_server(respond);
    let gate = crate::harness::trial::gate(upstream, Parts { upstream: ", protocol: http2", ..Parts::default() });
    let mut stream = connect(gate.address("web"));
    for _ in 0..2 {
        stream.write_all(b"GET /200/5/5 HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        let (head, body) = read_response(&mut stream);
        assert!(head.to_ascii_lowercase().contains("content-length: 5"), "{head}");
        assert_eq!(body, b"xxxxx");
    }
}

#[test]
fn trailers_of_requests_follow_whatever_length_was_declared() {
    let gate = gate("", "", "");
    for (length, content) in [("5", &b"hello"[..]), ("0", b""), ("none", b"hello"), ("none", b"")] {
        let mut frames = Frames::open(gate.address("web"), gate.dir.path());
        let mut fields: Vec<_> = get("/up")
            .into_iter()
            .map(|field| if field.0 == ":method" { (":method", &b"POST"[..]) } else { field })
            .collect();
        if length != "none" {
            fields.push(("content-length", length.as_bytes()));
        }
        frames.headers(1, &fields, false);
        if !content.is_empty() {
            frames.send(&frame(DATA, 0, 1, content));
        }
        frames.headers(1, &[("x-up", b"seen")], true);
        assert_eq!(outcome(&mut frames, 1), Ok((b"seen".to_vec(), false)), "{length}, {content:?}");
    }
}
