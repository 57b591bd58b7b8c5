//! Flow-control windows of HTTP/2 that grow with what is taken within a round trip. The peer of the gate decides here how long a trip is: it acknowledges a PING
//! once enough was taken.

use std::io::Read as _;
use std::net::TcpStream;

use crate::harness::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, Outcome, PING, PREFACE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, get,
};
use crate::harness::trial::{Parts, secure_gate, server, yaml};
use crate::harness::{Gate, Reply, Upstream, exchange, wait_until};

const ACK: u8 = 1;
const INITIAL_WINDOW_SIZE: u16 = 4;
const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;
const ONE_IS_LEFT: &str = "portunus_connections_open{listener=\"web\"} 1\n";

/// What keeps to its windows while it sends on one stream.
struct Sender {
    frames: Frames,
    stream: u32,
    /// Windows of the stream and of the connection.
    room: (i64, i64),
    /// Those of streams that were announced, the first one included.
    announced: Vec<u32>,
    /// A PING that waits, and what was taken of the stream since.
    held: Option<(Vec<u8>, i64)>,
}

impl Sender {
    fn new(frames: Frames, stream: u32) -> Sender {
        Sender { frames, stream, room: (65_535, 65_535), announced: vec![65_535], held: None }
    }

    /// Reads one frame, and does what it asks for.
    fn read(&mut self) {
        let frame = self.frames.next().expect("the connection ended");
        assert!(!matches!(frame.kind, GOAWAY | RST_STREAM), "{frame:?}");
        let now = i64::from(*self.announced.last().unwrap());
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => {
                self.settings(&frame.payload);
                self.frames.send(&self::frame(SETTINGS, ACK, 0, &[]));
            }
            PING if frame.flags & ACK == 0 => self.held = Some((frame.payload, 0)),
            WINDOW_UPDATE => {
                let more = i64::from(u32::from_be_bytes(frame.payload.try_into().unwrap()));
                let is_ours = frame.stream == self.stream;
                *(if is_ours { &mut self.room.0 } else { &mut self.room.1 }) += more;
                self.held.iter_mut().filter(|_| is_ours).for_each(|(_, taken)| *taken += more);
            }
            _ => {}
        }
        // What is told in one update may have been taken before the PING, up to half a window.
        if self.held.as_ref().is_some_and(|(_, taken)| *taken >= 2 * now) {
            let (payload, _) = self.held.take().unwrap();
            self.frames.send(&self::frame(PING, ACK, 0, &payload));
        }
    }

    fn settings(&mut self, payload: &[u8]) {
        for setting in payload.chunks(6) {
            if u16::from_be_bytes([setting[0], setting[1]]) == INITIAL_WINDOW_SIZE {
                let size = u32::from_be_bytes(setting[2..].try_into().unwrap());
                self.room.0 += i64::from(size) - i64::from(*self.announced.last().unwrap());
                self.announced.push(size);
            }
        }
    }

    /// Sends at most so many bytes as its windows allow, or reads a frame where they allow none. Gives how many it sent.
    fn step(&mut self, most: i64) -> i64 {
        let count = most.min(self.room.0).min(self.room.1).min(16_384);
        if count <= 0 {
            self.read();
            return 0;
        }
        self.frames.send(&frame(DATA, 0, self.stream, &vec![b'x'; count as usize]));
        self.room = (self.room.0 - count, self.room.1 - count);
        count
    }

    /// Sends so many bytes and the end of the stream. Gives the windows of streams that were announced, but for that which each connection begins with.
    fn push(&mut self, bytes: u32) -> &[u32] {
        let mut rest = i64::from(bytes);
        while rest > 0 {
            rest -= self.step(rest);
        }
        self.frames.send(&frame(DATA, END_STREAM, self.stream, &[]));
        &self.announced[2..]
    }
}

/// A client with a request whose body is to follow.
fn upload(gate: &Gate) -> Sender {
    let mut frames = Frames::open(gate.address("web"), gate.dir.path());
    let fields =
        get("/up").into_iter().map(|field| if field.0 == ":method" { (":method", &b"POST"[..]) } else { field });
    frames.headers(1, &fields.collect::<Vec<_>>(), false);
    Sender::new(frames, 1)
}

fn taking() -> Upstream {
    Upstream::start(|_| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()))
}

#[test]
fn a_client_that_is_far_away_may_send_as_far_ahead_as_is_taken() {
    let upstream = taking();
    let gate = secure_gate(upstream.address, Parts::default());
    let mut client = upload(&gate);
    assert_eq!(client.push(32 * MIB), [512 * KIB, MIB, 2 * MIB, 4 * MIB]);
    // Four streams' worth for the connection, as at the beginning: what one leaves unread takes nothing from others.
    while client.room.1 <= i64::from(8 * MIB) {
        client.read();
    }
    wait_until("the upload", || upstream.seen().last().is_some_and(|seen| seen.body.len() == 32 * MIB as usize));
}

#[test]
fn windows_grow_within_the_bounds_of_the_configuration() {
    let upstream = taking();
    for (limits, expected) in [
        ("max_receive_window: 1MiB", &[][..]),
        ("max_receive_window: 3MiB", &[512 * KIB, 768 * KIB]),
        ("max_receive_window_memory: 0", &[]),
        ("max_receive_window_memory: 3MiB", &[512 * KIB, MIB]),
    ] {
        let gate =
            secure_gate(upstream.address, Parts { file: &format!("limits: {{ {limits} }}\n"), ..Parts::default() });
        let mut client = upload(&gate);
        assert_eq!(client.push(8 * MIB), expected, "{limits}");
        assert_eq!(client.frames.outcome(1), Outcome::Response(200, b"ok".to_vec()), "{limits}");
    }
}

#[test]
fn what_a_connection_has_grown_is_there_for_others_when_it_ends() {
    let upstream = taking();
    let file = "limits: { max_receive_window_memory: 3MiB }\n";
    let gate = secure_gate(upstream.address, Parts { file, ..Parts::default() });
    let mut first = upload(&gate);
    // Still sending, so that nothing is given back.
    while first.announced.len() < 4 {
        first.step(16_384);
    }
    let mut second = upload(&gate);
    assert!(second.push(8 * MIB).is_empty());
    // A PING that the gate has yet to read would let it grow once the first is gone.
    assert_eq!(second.frames.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    drop(first);
    wait_until("the end of the first", || gate.operate("GET /metrics", "").contains(ONE_IS_LEFT));
    assert_eq!(upload(&gate).push(8 * MIB), [512 * KIB, MIB]);
}

/// An HTTP/2 upstream by hand: one connection, whose first request gets a response of so many bytes. Tells what windows were announced, and reads on to the
/// end: a connection that is closed before all was read of it is reset, and what it still has to give is lost.
fn far_upstream(stream: TcpStream, bytes: u32, announced: &std::sync::mpsc::Sender<Vec<u32>>) {
    let (mut stream, mut preface) = (stream, [0; PREFACE.len()]);
    stream.read_exact(&mut preface).unwrap();
    let mut frames = Frames::behind_preface(stream);
    frames.send(&frame(SETTINGS, 0, 0, &[]));
    let mut sender = Sender::new(frames, 1);
    loop {
        let frame = sender.frames.next().unwrap();
        match frame.kind {
            SETTINGS if frame.flags & ACK == 0 => {
                sender.settings(&frame.payload);
                sender.frames.send(&self::frame(SETTINGS, ACK, 0, &[]));
            }
            WINDOW_UPDATE => sender.room.1 += i64::from(u32::from_be_bytes(frame.payload.try_into().unwrap())),
            HEADERS => break,
            _ => {}
        }
    }
    // `:status: 200` of the static table (RFC 7541 Appendix A).
    sender.frames.send(&frame(HEADERS, END_HEADERS, 1, &[0x88]));
    announced.send(sender.push(bytes).to_vec()).unwrap();
    while sender.frames.next().is_some() {}
}

#[test]
fn an_upstream_that_is_far_away_may_send_as_far_ahead_as_its_client_takes() {
    let (announced, seen) = std::sync::mpsc::channel();
    let upstream = server(move |_, stream| far_upstream(stream, 16 * MIB, &announced));
    let gate = Gate::start(&yaml(&[upstream], Parts { upstream: ", protocol: http2", ..Parts::default() }));
    let request = b"GET /down HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    assert!(exchange(gate.address("web"), request).len() > 16 * MIB as usize);
    assert_eq!(seen.recv().unwrap(), [128 * KIB, 256 * KIB, 512 * KIB, MIB]);
}
