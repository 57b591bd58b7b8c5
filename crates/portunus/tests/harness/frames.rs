//! A raw HTTP/2 client: writes any frame, right or wrong, and tells what came of a stream (RFC 9113, RFC 7541).
//!
//! Owns one connection. Understands of HPACK no more than it takes to read a status.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::Path;

use super::connect;
use super::secure::Secure;

/// A connection under TLS or in the clear.
pub trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

/// What a client says first (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types (RFC 9113 §6).
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// Flags.
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

/// Error codes (RFC 9113 §7).
pub const PROTOCOL_ERROR: u32 = 1;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame.
#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// What came of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A whole answer.
    Response(u16, Vec<u8>),
    /// The stream was reset.
    Reset(u32),
    /// The connection was given up.
    GoAway(u32),
    /// The connection ended without a word.
    Closed,
}

/// A client.
pub struct Frames {
    /// The connection.
    pub io: Box<dyn Duplex>,
    /// Statuses of interim responses.
    pub interim: Vec<u16>,
    /// The status that was spelt out last: what a reference to the table is taken for.
    spelt: u16,
}

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Fields as literals that nothing is indexed of and nothing compressed (RFC 7541 §6.2.2).
pub fn block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    literals(0, fields)
}

/// The same, each kept in the table (RFC 7541 §6.2.1).
pub fn kept_block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    literals(0x40, fields)
}

fn literals(first: u8, fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(first);
        for text in [name.as_bytes(), value] {
            integer(text.len(), &mut out);
            out.extend_from_slice(text);
        }
    }
    out
}

/// An integer with a prefix of seven bits (RFC 7541 §5.1).
fn integer(value: usize, out: &mut Vec<u8>) {
    if value < 127 {
        return out.push(value as u8);
    }
    out.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        out.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// The pseudo-fields of a GET to `a.test`.
pub fn get(path: &'static str) -> Vec<(&'static str, &'static [u8])> {
    vec![(":method", b"GET"), (":scheme", b"https"), (":authority", b"a.test"), (":path", path.as_bytes())]
}

impl Frames {
    /// Connects and says the preface.
    pub fn open(address: SocketAddr, dir: &Path) -> Frames {
        Frames::over(Secure::connect(address, dir, "a.test", "h2"))
    }

    /// The same in the clear, with prior knowledge.
    pub fn open_plain(address: SocketAddr) -> Frames {
        Frames::over(connect(address))
    }

    /// Says the preface on a connection.
    pub fn over(mut io: impl Duplex + 'static) -> Frames {
        io.write_all(PREFACE).unwrap();
        let mut frames = Frames::behind_preface(io);
        frames.send(&frame(SETTINGS, 0, 0, &[]));
        frames
    }

    /// Goes on with a connection on which the preface was said.
    pub fn behind_preface(io: impl Duplex + 'static) -> Frames {
        Frames { io: Box::new(io), interim: Vec::new(), spelt: 0 }
    }

    /// Sends bytes; a connection that is gone already shows when reading.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.io.write_all(bytes);
    }

    /// Sends a whole header block.
    pub fn headers(&mut self, stream: u32, fields: &[(&str, &[u8])], end: bool) {
        let flags = END_HEADERS | if end { END_STREAM } else { 0 };
        self.send(&frame(HEADERS, flags, stream, &block(fields)));
    }

    /// Reads so many bytes; none at the end. A silent connection that stays open fails the test.
    fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.io.read_exact(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the connection neither says anything nor ends")
            }
            read => read.ok(),
        }
    }

    /// The next frame; none when the connection has ended.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.fill(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.fill(&mut payload)?;
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads on, acknowledging settings, until this stream or the connection is over.
    pub fn outcome(&mut self, stream: u32) -> Outcome {
        let (mut status, mut body) = (0, Vec::new());
        while let Some(frame) = self.next() {
            let code = |at: usize| u32::from_be_bytes(frame.payload[at..at + 4].try_into().unwrap());
            match frame.kind {
                SETTINGS if frame.flags & 1 == 0 => self.send(&self::frame(SETTINGS, 1, 0, &[])),
                GOAWAY if code(4) != 0 => return Outcome::GoAway(code(4)),
                RST_STREAM if frame.stream == stream => return Outcome::Reset(code(0)),
                HEADERS if frame.stream == stream && status < 200 => {
                    status = read_status(&frame.payload).unwrap_or(self.spelt);
                    // Those of the static table are never kept.
                    if !matches!(status, 200 | 204 | 206 | 304 | 400 | 404 | 500) {
                        self.spelt = status;
                    }
                    if status < 200 {
                        self.interim.push(status);
                    }
                }
                DATA if frame.stream == stream => body.extend_from_slice(&frame.payload),
                _ => {}
            }
            if matches!(frame.kind, HEADERS | DATA) && frame.stream == stream && frame.flags & END_STREAM != 0 {
                return Outcome::Response(status, body);
            }
        }
        Outcome::Closed
    }

    /// Reads to the connection's end; gives the error code of its GOAWAY, if there was one.
    pub fn farewell(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.next() {
            if frame.kind == GOAWAY {
                code = Some(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()));
            }
        }
        code
    }
}

/// The status that a block begins with: an entry of the static table, or a literal (RFC 7541 Appendices A, B). None for one that was kept.
fn read_status(block: &[u8]) -> Option<u16> {
    // A change of the table's size may stand before it.
    let block = &block[block.iter().take_while(|octet| **octet & 0xe0 == 0x20).count()..];
    Some(match block[0] {
        indexed @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)],
        0x48 | 0x08 if block[1] & 0x80 == 0 => std::str::from_utf8(&block[2..5]).unwrap().parse().unwrap(),
        0x48 | 0x08 => {
            let octets = block[2..].iter().chain(&[0; 4]).take(4);
            let (mut bits, mut status) = (octets.fold(0_u32, |bits, octet| bits << 8 | u32::from(*octet)), 0);
            for _ in 0..3 {
                // `0` to `2` are five bits long, the other digits six.
                let (digit, length) = if bits >> 27 < 3 { (bits >> 27, 5) } else { ((bits >> 26) - 22, 6) };
                bits <<= length;
                status = status * 10 + digit as u16;
            }
            status
        }
        0xbe.. => return None,
        other => panic!("a status in a form not known here: {other:#x}"),
    })
}
