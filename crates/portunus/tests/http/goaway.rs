//! HTTP/2 upstreams that end connections in use: GOAWAY, refused streams, few streams at once (RFC 9113 §5.1.2, §6.8, §8.7).
//!
//! The upstream is raw frames, so that each side says exactly what is under test. It knows streams and payloads, not fields.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, Outcome, RST_STREAM, SETTINGS, block, frame,
};
use crate::harness::trial::{Parts, server, yaml};
use crate::harness::{Gate, PATIENCE, connect, exchange, read_response, read_to_end, statuses, wait_until};

/// `:status: 200` of the static table (RFC 7541 Appendix A).
const STATUS_200: &[u8] = &[0x88];

const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;

/// A request as it arrived: connection, stream, body.
type Request = (usize, u32, Vec<u8>);

/// The upstream's end of one connection.
struct Peer {
    number: usize,
    stream: TcpStream,
    /// Whole requests, of all connections.
    seen: Arc<Mutex<Vec<Request>>>,
    /// Header blocks that arrived, of all connections.
    begun: Arc<Mutex<Vec<(usize, u32)>>>,
}

impl Peer {
    /// The next frame but acknowledgements and updates; none at the connection's end.
    fn next(&mut self) -> Option<Frame> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.stream.read_exact(&mut payload).ok()?;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            match kind {
                SETTINGS if flags & 1 == 0 => self.send(&frame(SETTINGS, 1, 0, &[])),
                HEADERS => {
                    self.begun.lock().unwrap().push((self.number, stream));
                    return Some(Frame { kind, flags, stream, payload });
                }
                DATA | RST_STREAM => return Some(Frame { kind, flags, stream, payload }),
                _ => {}
            }
        }
    }

    /// The next whole request; requests do not overlap.
    fn request(&mut self) -> Option<u32> {
        let (mut stream, mut body) = (0, Vec::new());
        loop {
            let frame = self.next()?;
            match frame.kind {
                HEADERS => stream = frame.stream,
                DATA if frame.stream == stream => body.extend_from_slice(&frame.payload),
                _ => continue,
            }
            if frame.flags & END_STREAM != 0 {
                self.seen.lock().unwrap().push((self.number, stream, body));
                return Some(stream);
            }
        }
    }

    /// The next header block, whether or not its request is whole.
    fn begun(&mut self) -> Option<u32> {
        loop {
            let frame = self.next()?;
            if frame.kind == HEADERS {
                return Some(frame.stream);
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn respond(&mut self, stream: u32) {
        self.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, STATUS_200));
    }

    fn go_away(&mut self, last: u32) {
        self.send(&frame(GOAWAY, 0, 0, &[last.to_be_bytes(), NO_ERROR.to_be_bytes()].concat()));
    }

    fn reset(&mut self, stream: u32, code: u32) {
        self.send(&frame(RST_STREAM, 0, stream, &code.to_be_bytes()));
    }

    /// Responds to everything that comes.
    fn respond_to_all(&mut self) {
        while let Some(stream) = self.request() {
            self.respond(stream);
        }
    }

    /// Reads on without a word until the gate ends the connection.
    fn ignore(&mut self) {
        while self.next().is_some() {}
    }
}

/// An upstream whose connections are served by `serve`, after the prefaces of both sides.
struct Http2 {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    begun: Arc<Mutex<Vec<(usize, u32)>>>,
}

impl Http2 {
    fn start(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Http2 {
        Http2::with_settings(&[], serve)
    }

    fn with_settings(settings: &[u8], serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Http2 {
        let (seen, begun, settings) =
            (Arc::<Mutex<Vec<Request>>>::default(), Arc::<Mutex<Vec<(usize, u32)>>>::default(), settings.to_vec());
        let (kept_seen, kept_begun) = (Arc::clone(&seen), Arc::clone(&begun));
        let address = server(move |number, mut stream| {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut preface = [0; 24];
            if stream.read_exact(&mut preface).is_err() {
                return;
            }
            stream.write_all(&frame(SETTINGS, 0, 0, &settings)).unwrap();
            let (seen, begun) = (Arc::clone(&kept_seen), Arc::clone(&kept_begun));
            serve(&mut Peer { number, stream, seen, begun });
        });
        Http2 { address, seen, begun }
    }

    fn bodies(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Streams begun on a connection.
    fn streams(&self, connection: usize) -> Vec<u32> {
        let begun = self.begun.lock().unwrap();
        begun.iter().filter(|(number, _)| *number == connection).map(|(_, stream)| *stream).collect()
    }
}

fn gate_before(servers: &[SocketAddr], more: &str) -> Gate {
    let upstream = format!(", protocol: http2{more}");
    Gate::start(&yaml(servers, Parts { upstream: &upstream, ..Parts::default() }))
}

fn gate(server: &Http2) -> Gate {
    gate_before(&[server.address], "")
}

fn ask(gate: &Gate, method: &str, body: &str) -> Vec<u16> {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!("{method} / HTTP/1.1\r\nHost: x\r\n{length}Connection: close\r\n\r\n{body}");
    statuses(&exchange(gate.address("web"), request.as_bytes()))
}

#[test]
fn a_connection_that_goes_away_takes_no_new_request_beside_a_long_one() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let server = Http2::start(move |peer| {
        if peer.number > 0 {
            return peer.respond_to_all();
        }
        let long = peer.request().unwrap();
        peer.send(&frame(HEADERS, END_HEADERS, long, STATUS_200));
        peer.send(&frame(DATA, 0, long, b"begin "));
        let second = peer.request().unwrap();
        // As a server does that is told to stop or has served its number of requests: what it has is done, nothing more is taken.
        peer.go_away(second);
        peer.respond(second);
        released.lock().unwrap().recv().unwrap();
        peer.send(&frame(DATA, END_STREAM, long, b"end"));
        peer.ignore();
    });
    let gate = gate(&server);
    let mut long = connect(gate.address("web"));
    long.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    wait_until("the long request", || server.streams(0).len() == 1);
    for (method, body) in [("GET", ""), ("GET", ""), ("POST", "abc"), ("DELETE", ""), ("POST", "def"), ("GET", "")] {
        assert_eq!(ask(&gate, method, body), [200], "{method}");
    }
    release.send(()).unwrap();
    let text = String::from_utf8_lossy(&read_to_end(&mut long)).into_owned();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("begin ") && text.contains("end"), "{text}");
    // Each exactly once: the long one, the second, and five on the other connection.
    assert_eq!(server.bodies().len(), 7);
    assert_eq!(server.streams(1).len(), 5);
    assert!(gate.log(7).iter().all(|line| line["fault"].is_null()), "{:#?}", gate.log(7));
}

#[test]
fn a_small_last_piece_of_a_body_ends_its_stream() {
    let frames = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&frames);
    let server = Http2::start(move |peer| {
        while let Some(frame) = peer.next() {
            let is_last = frame.flags & END_STREAM != 0;
            if frame.kind == DATA {
                kept.lock().unwrap().push((frame.payload.len(), is_last));
            }
            if is_last {
                peer.respond(frame.stream);
            }
        }
    });
    let gate = gate(&server);
    let chunked =
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(ask(&gate, "POST", "abc"), [200]);
    assert_eq!(statuses(&exchange(gate.address("web"), chunked.as_bytes())), [200]);
    assert_eq!(*frames.lock().unwrap(), [(3, true), (3, true)]);
}

#[test]
fn responses_to_requests_long_cancelled_leave_the_others_on_the_connection_alone() {
    let resets = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&resets);
    let server = Http2::start(move |peer| {
        let long = peer.request().unwrap();
        let mut cancelled = VecDeque::new();
        while let Some(frame) = peer.next() {
            match frame.kind {
                RST_STREAM => {
                    cancelled.push_back(frame.stream);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                // What has a body is the last one, and gets a response.
                DATA => [frame.stream, long].into_iter().for_each(|stream| peer.respond(stream)),
                _ => {}
            }
            // As a server does that is slower than its clients' patience: it has responded before it reads of the reset.
            if cancelled.len() > 200 {
                cancelled.drain(..).for_each(|stream| peer.respond(stream));
            }
        }
    });
    // The long request waits for as long as all the others take.
    let gate = gate_before(&[server.address], ", response_header_timeout: 10m");
    let get = |target: &str| {
        let mut client = connect(gate.address("web"));
        write!(client, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        client
    };
    let mut long = get("/long");
    wait_until("the long request", || server.streams(0).len() == 1);
    for batch in 1..=24 {
        let clients: Vec<_> = (0..60).map(|_| get("/")).collect();
        wait_until("the requests", || server.streams(0).len() == 1 + 60 * batch || !server.streams(1).is_empty());
        drop(clients);
        wait_until("the resets", || resets.load(Ordering::Relaxed) >= 60 * batch || !server.streams(1).is_empty());
    }
    assert_eq!(ask(&gate, "POST", "abc"), [200]);
    assert!(read_response(&mut long).0.starts_with("HTTP/1.1 200 "));
    assert_eq!((server.streams(0).len(), server.streams(1).len()), (1 + 60 * 24 + 1, 0));
}

#[test]
fn a_stream_above_the_last_one_of_a_goaway_goes_to_another_connection_whatever_its_method() {
    let server = Http2::start(|peer| {
        if peer.number.is_multiple_of(2) {
            // It has the request, but says that it has not looked at it.
            peer.request().unwrap();
            peer.go_away(0);
            return peer.ignore();
        }
        // One response, and then the next connection is needed.
        let stream = peer.request().unwrap();
        peer.go_away(stream);
        peer.respond(stream);
        peer.ignore();
    });
    let gate = gate(&server);
    for (method, body) in [("GET", ""), ("POST", "abc"), ("PATCH", "defg"), ("POST", "")] {
        assert_eq!(ask(&gate, method, body), [200], "{method}");
    }
    // What the second connection got is whole.
    let accepted: Vec<_> = server.bodies().into_iter().filter(|(connection, ..)| connection % 2 == 1).collect();
    let bodies: Vec<_> = accepted.iter().map(|(_, _, body)| String::from_utf8_lossy(body).into_owned()).collect();
    assert_eq!(bodies, ["", "abc", "defg", ""]);
}

#[test]
fn a_body_under_way_is_sent_again_from_its_start_while_little_of_it_is_gone() {
    let server = Http2::start(|peer| {
        if peer.number > 0 {
            return peer.respond_to_all();
        }
        peer.begun().unwrap();
        let piece = peer.next().unwrap();
        assert_eq!(piece.payload, b"abc");
        peer.go_away(0);
        peer.ignore();
    });
    let gate = gate(&server);
    let mut client = connect(gate.address("web"));
    client.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc").unwrap();
    wait_until("the other connection", || server.streams(1).len() == 1);
    client.write_all(b"def").unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200 "));
    assert_eq!(server.bodies(), [(1, 1, b"abcdef".to_vec())]);
}

#[test]
fn a_body_of_which_more_is_gone_than_is_kept_is_not_sent_again() {
    let server = Http2::start(|peer| {
        if peer.number > 0 {
            return peer.respond_to_all();
        }
        let mut length = 0;
        while length < 40_000 {
            length += peer.next().unwrap().payload.len();
        }
        peer.go_away(0);
        peer.ignore();
    });
    let gate = gate(&server);
    assert_eq!(ask(&gate, "POST", &"x".repeat(60_000)), [502]);
    assert!(server.streams(1).is_empty());
    assert_eq!(gate.log(1)[0]["fault"], "upstream");
}

#[test]
fn a_server_that_takes_no_request_at_all_is_tried_three_times_and_then_the_next() {
    let start = || {
        Http2::start(|peer| {
            peer.request().unwrap();
            peer.go_away(0);
            peer.ignore();
        })
    };
    let (never, neither) = (start(), start());
    let alone = gate(&never);
    assert_eq!(ask(&alone, "POST", "abc"), [502]);
    assert_eq!(never.bodies().len(), 3, "{:?}", never.bodies());
    drop(alone);
    let good = Http2::start(Peer::respond_to_all);
    let gate = gate_before(&[neither.address, good.address], ", ejection: { failures: 0 }");
    for _ in 0..2 {
        assert_eq!(ask(&gate, "POST", "abc"), [200]);
    }
    let (rejected, served) = (neither.bodies().len(), good.bodies().len());
    assert!(rejected > 0 && rejected % 3 == 0 && served == 2, "{rejected} {served}");
}

#[test]
fn a_stream_that_was_rejected_is_tried_once_more() {
    let reject = |times: usize| {
        Http2::start(move |peer| {
            let mut rejected = 0;
            while let Some(stream) = peer.request() {
                let all = peer.seen.lock().unwrap().len();
                if all <= times {
                    peer.reset(stream, REFUSED_STREAM)
                } else {
                    peer.respond(stream)
                }
                rejected += 1;
                assert!(rejected < 10);
            }
        })
    };
    let once = reject(1);
    let gate_once = gate(&once);
    assert_eq!(ask(&gate_once, "POST", "abc"), [200]);
    let bodies: Vec<_> = once.bodies().into_iter().map(|(_, _, body)| body).collect();
    assert_eq!(bodies, [b"abc", b"abc"]);
    let always = reject(usize::MAX);
    let gate_always = gate(&always);
    assert_eq!(ask(&gate_always, "POST", "abc"), [502]);
    assert_eq!(always.bodies().len(), 2);
}

#[test]
fn a_connection_that_ends_at_rest_costs_nobody_a_request() {
    let server = Http2::start(|peer| {
        let stream = peer.request().unwrap();
        peer.respond(stream);
        // With and without a word.
        if peer.number.is_multiple_of(2) {
            peer.go_away(stream);
        }
        let _ = peer.stream.shutdown(Shutdown::Both);
    });
    let gate = gate(&server);
    for number in 0..20 {
        assert_eq!(ask(&gate, "GET", ""), [200], "{number}");
    }
    assert_eq!(server.bodies().len(), 20, "each exactly once");
}

#[test]
fn no_more_streams_are_opened_than_the_server_takes_at_once() {
    // SETTINGS_MAX_CONCURRENT_STREAMS = 1 (RFC 9113 §6.5.2).
    let server = Http2::with_settings(&[0, 3, 0, 0, 0, 1], |peer| {
        if peer.number > 0 {
            return peer.respond_to_all();
        }
        let held = peer.request().unwrap();
        peer.send(&frame(HEADERS, END_HEADERS, held, STATUS_200));
        peer.ignore();
    });
    let gate = gate(&server);
    let mut held = connect(gate.address("web"));
    held.write_all(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut first = [0; 12];
    held.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    for _ in 0..3 {
        assert_eq!(ask(&gate, "POST", "abc"), [200]);
    }
    assert_eq!((server.streams(0).len(), server.streams(1).len()), (1, 3));
}

#[test]
fn requests_that_wait_for_a_connection_share_it() {
    // Another connection is needed at the beginning, and after each GOAWAY, by ten requests at once.
    let server = Http2::start(|peer| {
        let mut stream = 0;
        for _ in 0..10 {
            if stream > 0 {
                peer.respond(stream);
            }
            stream = peer.request().unwrap();
        }
        peer.go_away(stream);
        peer.respond(stream);
        peer.ignore();
    });
    let gate = gate(&server);
    let mut client = Frames::open_plain(gate.address("web"));
    for round in 0..3_u32 {
        let streams: Vec<u32> = (0..10).map(|number| 2 * (10 * round + number) + 1).collect();
        let head = block(&[(":method", b"GET"), (":scheme", b"http"), (":authority", b"x"), (":path", b"/")]);
        let all: Vec<u8> = streams.iter().flat_map(|id| frame(HEADERS, END_HEADERS | END_STREAM, *id, &head)).collect();
        client.send(&all);
        for stream in streams {
            assert!(matches!(client.outcome(stream), Outcome::Response(200, _)), "stream {stream}");
        }
    }
    let connections = server.bodies().iter().map(|(connection, ..)| *connection).max();
    assert_eq!((server.bodies().len(), connections), (30, Some(2)));
}

#[test]
fn a_connection_that_nobody_uses_is_closed_after_its_time() {
    let (closed, end) = std::sync::mpsc::channel();
    let closed = Mutex::new(closed);
    let server = Http2::start(move |peer| {
        let stream = peer.request().unwrap();
        peer.respond(stream);
        peer.ignore();
        closed.lock().unwrap().send(()).unwrap();
    });
    let gate = gate_before(&[server.address], ", pool_idle_timeout: 1s");
    assert_eq!(ask(&gate, "GET", ""), [200]);
    end.recv_timeout(PATIENCE / 2).expect("the connection is still open");
}
