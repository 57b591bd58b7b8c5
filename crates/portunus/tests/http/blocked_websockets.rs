//! WebSockets whose server takes nothing: the end of their client is noticed, and other streams of its connection go on.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::harness::frames::{
    DATA, END_STREAM, Frames, HEADERS, Outcome, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};
use crate::harness::trial::{Parts, gate};
use crate::harness::websocket::granting;
use crate::harness::{Gate, Upstream, ask_on, connect, wait_until};

const CANCEL: u32 = 8;

/// What a stream may send at first, and a connection.
const STREAM_WINDOW: usize = 256 * 1024;
const CONNECTION_WINDOW: usize = 65_535;

/// PINGs in a row without more room after which there is none to come.
const QUIET: usize = 50;

/// A server that grants WebSockets and then reads nothing.
fn deaf() -> Upstream {
    granting(|stream: TcpStream| {
        let _open = stream;
        loop {
            std::thread::park();
        }
    })
}

/// A client over HTTP/2 that keeps to the windows it is given.
struct Client {
    frames: Frames,
    connection: usize,
    /// By stream.
    streams: std::collections::HashMap<u32, usize>,
}

impl Client {
    fn open(gate: &Gate) -> Client {
        let mut client = Client {
            frames: Frames::open_plain(gate.address("web")),
            connection: CONNECTION_WINDOW,
            streams: std::collections::HashMap::new(),
        };
        client.ping();
        client
    }

    /// Sends a PING and reads up to its response; says whether there is more room than before.
    fn ping(&mut self) -> bool {
        let mut has_more = false;
        self.frames.send(&frame(PING, 0, 0, b"going on"));
        loop {
            let frame = self.frames.next().expect("the connection ended");
            match frame.kind {
                PING => return has_more,
                SETTINGS if frame.flags & 1 == 0 => {
                    self.frames.send(&crate::harness::frames::frame(SETTINGS, 1, 0, &[]))
                }
                WINDOW_UPDATE => {
                    let more = u32::from_be_bytes(frame.payload[..4].try_into().unwrap()) as usize;
                    match frame.stream {
                        0 => self.connection += more,
                        stream => *self.streams.entry(stream).or_default() += more,
                    }
                    has_more = true;
                }
                RST_STREAM => panic!("a stream was reset: {frame:?}"),
                _ => {}
            }
        }
    }

    fn websocket(&mut self, stream: u32) {
        let fields: [(&str, &[u8]); 6] = [
            (":method", b"CONNECT"),
            (":protocol", b"websocket"),
            (":scheme", b"http"),
            (":authority", b"a.test"),
            (":path", b"/ws"),
            ("sec-websocket-version", b"13"),
        ];
        self.frames.headers(stream, &fields, false);
        self.streams.insert(stream, STREAM_WINDOW);
        loop {
            let frame = self.frames.next().expect("the connection ended");
            match frame.kind {
                HEADERS if frame.stream == stream => {
                    return assert!(frame.payload.contains(&0x88), "not 200: {frame:?}");
                }
                WINDOW_UPDATE if frame.stream == 0 => {
                    self.connection += u32::from_be_bytes(frame.payload[..4].try_into().unwrap()) as usize;
                }
                _ => {}
            }
        }
    }

    /// Sends what the windows take, as data of a stream; gives how much that was.
    fn send(&mut self, stream: u32, most: usize) -> usize {
        let mut sent = 0;
        let window = self.streams.get_mut(&stream).unwrap();
        while let count @ 1.. = (most - sent).min(*window).min(self.connection).min(16_384) {
            self.frames.send(&frame(DATA, 0, stream, &vec![7; count]));
            *window -= count;
            self.connection -= count;
            sent += count;
        }
        sent
    }

    /// Sends on a WebSocket until there is no more room.
    fn fill(&mut self, stream: u32) {
        let (mut sent, mut quiet) = (0, 0);
        while quiet < QUIET {
            sent += self.send(stream, usize::MAX);
            assert!(sent < 64 << 20, "{sent} bytes were taken off a client whose server takes none");
            quiet = if self.ping() { 0 } else { quiet + 1 };
        }
    }
}

/// Their windows are their own: as many of them as use up the window of a connection leave it to the others.
#[test]
fn those_whose_server_takes_nothing_leave_the_connection_to_others() {
    let upstream = deaf();
    let gate = gate(upstream.address, Parts::default());
    let mut client = Client::open(&gate);
    let sockets: Vec<u32> = (0..9).map(|number| 2 * number + 1).collect();
    for stream in &sockets {
        client.websocket(*stream);
        client.fill(*stream);
    }
    let body = 700 * 1024;
    let upload = |client: &mut Client, stream: u32| {
        let length = body.to_string();
        let fields: [(&str, &[u8]); 5] = [
            (":method", b"POST"),
            (":scheme", b"http"),
            (":authority", b"a.test"),
            (":path", b"/upload"),
            ("content-length", length.as_bytes()),
        ];
        client.frames.headers(stream, &fields, false);
        client.streams.insert(stream, STREAM_WINDOW);
        let (mut rest, mut quiet) = (body, 0);
        while rest > 0 {
            rest -= client.send(stream, rest);
            quiet = if rest == 0 || client.ping() { 0 } else { quiet + 1 };
            assert!(quiet < 10 * QUIET, "an upload beside them stops {rest} bytes before its end");
        }
        client.frames.send(&frame(DATA, END_STREAM, stream, &[]));
        assert_eq!(client.frames.outcome(stream), Outcome::Response(200, b"ok".to_vec()));
    };
    upload(&mut client, 101);
    // Once they are gone the connection has what it had before.
    for stream in &sockets {
        client.frames.send(&frame(RST_STREAM, 0, *stream, &CANCEL.to_be_bytes()));
    }
    gate.log(1 + sockets.len());
    upload(&mut client, 103);
    assert_eq!(upstream.seen().iter().filter(|seen| seen.line().contains("/upload")).count(), 2);
}

#[test]
fn the_reset_of_a_stream_is_noticed_while_its_server_takes_nothing() {
    let upstream = deaf();
    let limit = ", max_in_flight: 1, max_in_flight_per_client: 1000";
    let gate = gate(upstream.address, Parts { upstream: limit, ..Parts::default() });
    let mut client = Client::open(&gate);
    client.websocket(1);
    client.fill(1);
    client.frames.send(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    let line = gate.log(1).remove(0);
    assert_eq!((line["reason"].as_str(), line["status"].as_u64()), (Some("tunnel_client_reset"), Some(101)), "{line}");
    // It has given its place back.
    client.websocket(3);
    client.fill(3);
    drop(client);
    assert_eq!(gate.log(2)[1]["reason"], "tunnel_client_reset");
}

const ASK: &[u8] = b"GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Opens a WebSocket over HTTP/1.1 and writes until nothing more is taken.
fn filled<T: std::io::Read + std::io::Write>(stream: &mut T, gate: &Gate) {
    stream.write_all(ASK).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    let (mut written, mut before) = (0, None);
    while before != Some(written) {
        before = Some(written);
        // Its write timeout ends this.
        while let Ok(count) = stream.write(&[7; 65_536]) {
            written += count;
            assert!(written < 256 << 20, "{written} bytes were taken off a client whose server takes none");
        }
        // A gate that had no turn meanwhile takes some before it responds to somebody else.
        let (head, _) = ask_on(gate.address("web"), "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
}

/// There is the line of a client that has left, beside those of others.
fn expect_reset(gate: &Gate) {
    wait_until("its log line", || gate.log(1).iter().any(|line| line["reason"] == "tunnel_client_reset"));
}

#[test]
fn the_reset_of_a_connection_is_noticed_while_its_server_takes_nothing() {
    let upstream = deaf();
    let gate = gate(upstream.address, Parts::default());
    let mut client = connect(gate.address("web"));
    client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    filled(&mut client, &gate);
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    expect_reset(&gate);
}

/// Over TCP an end stays behind what its side has not sent yet; a Unix socket shows it at once.
#[test]
fn the_end_of_a_client_is_noticed_while_its_server_takes_nothing() {
    let upstream = deaf();
    let text = |half_close: &str| {
        let text = crate::harness::trial::yaml(&[upstream.address], Parts::default());
        text.replace("bind: \"127.0.0.1:0\"", &format!("bind: [\"127.0.0.1:0\", \"unix:web.sock\"]{half_close}"))
    };
    let open = |half_close: &str| {
        let gate = Gate::start(&text(half_close));
        let path = gate.dir.path().join("web.sock");
        wait_until("the socket", || UnixStream::connect(&path).is_ok());
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        filled(&mut client, &gate);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        (gate, client)
    };
    let (serving, mut waiting) = open(", half_close: serve");
    let (gate, mut client) = open("");
    // It takes ten seconds in which the server takes nothing.
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match client.read(&mut [0; 64]) {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    expect_reset(&gate);
    // Where such clients are served, the other one still is.
    waiting.set_nonblocking(true).unwrap();
    assert_eq!(waiting.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(serving);
}
