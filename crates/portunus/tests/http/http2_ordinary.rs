//! What ordinary HTTP/2 clients do and a flood of it would look like: PING and WINDOW_UPDATE with what they receive, cancelled requests, and errors of
//! one user on a connection that many share. Floods are in attacks/http2_floods.rs.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, Outcome, PING, PROTOCOL_ERROR, RST_STREAM, WINDOW_UPDATE,
    block, frame, get,
};
use crate::harness::http2::http2_server;
use crate::harness::trial::{Parts, secure_gate};
use crate::harness::{Gate, Reply, Upstream, wait_until};

/// Sends back what it receives, piece by piece, as a gRPC service with a stream both ways does.
async fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    let mut body = request.into_body();
    while let Some(Ok(piece)) = body.data().await {
        let _ = body.flow_control().release_capacity(piece.len());
        stream.send_data(piece, false).unwrap();
    }
    let _ = stream.send_trailers(HeaderMap::new());
}

fn h2_gate(upstream: SocketAddr) -> Gate {
    secure_gate(upstream, Parts { upstream: ", protocol: http2", ..Parts::default() })
}

fn post(path: &'static str) -> Vec<(&'static str, &'static [u8])> {
    get(path).into_iter().map(|field| if field.0 == ":method" { (":method", &b"POST"[..]) } else { field }).collect()
}

/// An upstream that is silent about `/hang` and answers all else.
fn hanging() -> Upstream {
    Upstream::start(|request| match request.line() {
        "GET /hang HTTP/1.1" => Reply::Silence,
        _ => Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    })
}

fn ok() -> Outcome {
    Outcome::Response(200, b"ok".to_vec())
}

/// Requests of this path that the upstream saw.
fn seen(upstream: &Upstream, path: &str) -> usize {
    upstream.seen().iter().filter(|seen| seen.head.starts_with(&format!("GET {path} "))).count()
}

/// Reads up to a DATA frame of any stream; fails where the connection or the stream ends.
fn next_data(client: &mut Frames) -> (u32, Vec<u8>) {
    loop {
        let frame = client.next().expect("the connection ended");
        assert!(!matches!(frame.kind, GOAWAY | RST_STREAM), "{frame:?}");
        if frame.kind == DATA && !frame.payload.is_empty() {
            return (frame.stream, frame.payload);
        }
    }
}

#[test]
fn a_client_that_measures_its_bandwidth_is_no_flood() {
    const ROUNDS: u32 = 2_000;
    let gate = h2_gate(http2_server(echo));
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let streams = [1, 3, 5, 7, 9];
    for round in 0..ROUNDS {
        let stream = streams[round as usize % streams.len()];
        // One after the other, so that all are on one connection upstream: it serves no second one.
        if (round as usize) < streams.len() {
            client.headers(stream, &post("/echo"), false);
        }
        let message = [&[0, 0, 0, 0, 4][..], &round.to_be_bytes()].concat();
        client.send(&frame(DATA, 0, stream, &message));
        assert_eq!(next_data(&mut client), (stream, message), "round {round}");
        // What grpc-go and gRPC C-core send with each message they receive.
        let more = 9_u32.to_be_bytes();
        let updates = [frame(WINDOW_UPDATE, 0, 0, &more), frame(WINDOW_UPDATE, 0, stream, &more)].concat();
        client.send(&[updates, frame(PING, 0, 0, b"bdp-ping")].concat());
    }
    for stream in streams {
        client.send(&frame(DATA, END_STREAM, stream, &[]));
        // The head was read before.
        assert_eq!(client.outcome(stream), Outcome::Response(0, Vec::new()));
    }
}

/// Gives up calls of `/late`, as a gRPC server does whose deadline for them has passed, and answers all else.
async fn gives_up(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    if request.uri().path() == "/late" {
        return respond.send_reset(h2::Reason::CANCEL);
    }
    let _ = respond.send_response(Response::new(()), true);
}

#[test]
fn a_server_that_gives_up_calls_is_not_ejected() {
    let gate = h2_gate(http2_server(gives_up));
    let call = |path| {
        let mut client = Frames::open(gate.address("web"), gate.dir.path());
        client.headers(1, &post(path), true);
        client.outcome(1)
    };
    for _ in 0..20 {
        assert!(matches!(call("/late"), Outcome::Response(502, _)));
    }
    assert_eq!(call("/good"), Outcome::Response(200, Vec::new()));
    assert_eq!(gate.log(21)[0]["reason"], "upstream_cancelled");
    assert!(!gate.diagnostics().concat().contains("server ejected"));
}

#[test]
fn a_map_that_cancels_a_hundred_tiles_gets_the_next_hundred() {
    let upstream = hanging();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    let mut number = 0;
    let mut tiles = |path| -> (Vec<u32>, Vec<u8>) {
        let streams: Vec<u32> = (number..number + 100).map(|number| 2 * number + 1).collect();
        number += 100;
        let heads = streams.iter().map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, *stream, &block(&get(path))));
        let heads = heads.collect::<Vec<_>>().concat();
        (streams, heads)
    };
    let cancel = |streams: &[u32]| {
        streams.iter().flat_map(|stream| frame(RST_STREAM, 0, *stream, &8_u32.to_be_bytes())).collect::<Vec<u8>>()
    };
    let (first, heads) = tiles("/hang");
    client.send(&heads);
    wait_until("the first tiles", || seen(&upstream, "/hang") == 100);
    // Scrolled on, and on once more before anything could happen; all in one flight.
    let (second, second_heads) = tiles("/hang");
    let (wanted, wanted_heads) = tiles("/tile");
    client.send(&[cancel(&first), second_heads, cancel(&second), wanted_heads].concat());
    // Responses come in any order.
    let mut missing = wanted;
    while !missing.is_empty() {
        let frame = client.next().expect("the connection ended");
        assert!(frame.kind != GOAWAY && frame.kind != RST_STREAM, "{frame:?}");
        if frame.kind == DATA && frame.flags & END_STREAM != 0 {
            assert_eq!(frame.payload, b"ok");
            missing.retain(|stream| *stream != frame.stream);
        }
    }
    assert_eq!(seen(&upstream, "/tile"), 100);
}

#[test]
fn deadlines_that_pass_leave_a_long_stream_beside_them_alone() {
    let upstream = hanging();
    // The long one has no byte for as long as all the others take.
    let file = "limits: { client_idle_timeout: 10m }";
    let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &post("/long"), false);
    for number in 1..=300 {
        let stream = 2 * number + 1;
        client.headers(stream, &get("/hang"), true);
        wait_until("the call", || memchr::memmem::find_iter(&upstream.raw(), b"GET /hang ").count() == number as usize);
        client.send(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    client.send(&frame(DATA, END_STREAM, 1, b"the end"));
    assert_eq!(client.outcome(1), ok());
    assert_eq!(upstream.seen().iter().find(|seen| seen.head.starts_with("POST /long ")).unwrap().body, b"the end");
}

#[test]
fn errors_of_one_user_leave_the_others_on_a_shared_connection_alone() {
    let upstream = hanging();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    for number in 0..300 {
        let stream = 4 * number + 1;
        client.headers(stream, &[get("/bad"), vec![("connection", &b"close"[..])]].concat(), true);
        assert_eq!(client.outcome(stream), Outcome::Reset(PROTOCOL_ERROR));
        client.headers(stream + 2, &get("/good"), true);
        assert_eq!(client.outcome(stream + 2), ok());
    }
    assert_eq!((seen(&upstream, "/bad"), seen(&upstream, "/good")), (0, 300));
}

#[test]
fn a_connection_ends_politely_after_its_last_request_over_http_2_too() {
    let upstream = hanging();
    let file = "limits: { max_requests_per_connection: 3, h2_max_streams: 4 }";
    let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    for stream in [1, 3] {
        client.headers(stream, &get("/good"), true);
        assert_eq!(client.outcome(stream), ok());
    }
    // One more is on its way when the farewell is said: it is served, too.
    let heads = [5, 7].map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&get("/good"))));
    client.send(&heads.concat());
    let (mut answered, mut farewells) = (Vec::new(), Vec::new());
    while let Some(frame) = client.next() {
        match frame.kind {
            GOAWAY => farewells.push((frame.payload[..4].to_vec(), frame.payload[4..8].to_vec())),
            PING if frame.flags & 1 == 0 => client.send(&self::frame(PING, 1, 0, &frame.payload)),
            DATA if frame.flags & END_STREAM != 0 => answered.push(frame.stream),
            RST_STREAM => panic!("{frame:?}"),
            _ => {}
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, [5, 7]);
    let no_error = vec![0; 4];
    assert_eq!(farewells, [(vec![0x7f, 255, 255, 255], no_error.clone()), (vec![0, 0, 0, 7], no_error)]);
    assert_eq!(seen(&upstream, "/good"), 4);
}

#[test]
fn a_client_that_goes_on_after_its_last_request_is_rejected() {
    let upstream = hanging();
    let file = "limits: { max_requests_per_connection: 3, h2_max_streams: 4 }";
    let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    // It neither heeds the farewell nor answers the PING with it, and keeps the connection busy.
    client.headers(1, &post("/long"), false);
    for number in 1..7 {
        client.headers(2 * number + 1, &get("/good"), true);
        assert_eq!(client.outcome(2 * number + 1), ok(), "request {number}");
    }
    client.headers(15, &get("/good"), true);
    assert_eq!(client.outcome(15), Outcome::Reset(7));
    assert_eq!(seen(&upstream, "/good"), 6);
}

/// A service that is busy: it does not read what comes for `/busy`, and responds to all else at once.
async fn busy(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    if request.uri().path() == "/busy" {
        let _request = request;
        return std::future::pending().await;
    }
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    stream.send_data(Bytes::from_static(b"ok"), true).unwrap();
}

#[test]
fn small_messages_for_a_busy_server_are_no_flood() {
    let gate = h2_gate(http2_server(busy));
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &post("/busy"), false);
    // What the server's window takes, and as many frames as were too many for the library's own bound.
    let message = frame(DATA, 0, 1, &[0, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0]);
    for _ in 0..100 {
        client.send(&message.repeat(70));
    }
    client.headers(3, &get("/other"), true);
    assert_eq!(client.outcome(3), ok());
}

/// Sends without end for `/big`.
async fn big(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let is_big = request.uri().path() == "/big";
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    if is_big {
        stream.send_data(Bytes::from(vec![0; 8 << 20]), false).unwrap();
        return std::future::pending().await;
    }
    stream.send_data(Bytes::from_static(b"ok"), true).unwrap();
}

#[test]
fn a_client_that_does_not_read_stalls_nobody_elses_responses() {
    let gate = h2_gate(http2_server(big));
    let mut idle = Frames::open(gate.address("web"), gate.dir.path());
    for stream in (1..120).step_by(2) {
        idle.headers(stream, &get("/big"), true);
        assert_eq!(response_head(&mut idle, stream), stream, "the response has begun");
    }
    let mut other = Frames::open(gate.address("web"), gate.dir.path());
    other.headers(1, &get("/small"), true);
    assert_eq!(other.outcome(1), ok());
}

/// Reads up to the head of this stream's response.
fn response_head(client: &mut Frames, stream: u32) -> u32 {
    loop {
        let frame = client.next().expect("the connection ended");
        assert!(!matches!(frame.kind, GOAWAY | RST_STREAM), "{frame:?}");
        if frame.kind == HEADERS && frame.stream == stream {
            return frame.stream;
        }
    }
}
