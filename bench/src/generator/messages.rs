//! Messages that come back: over a WebSocket of HTTP/1.1 (RFC 6455) or of HTTP/2 (RFC 8441), or as datagrams. Each client sends its next when the last is back.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::Load;
use crate::http2::{frame, literal, literal_named};

/// What messages go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Over {
    /// A WebSocket on a connection of its own.
    Websocket,
    /// A WebSocket on an HTTP/2 connection of its own (prior knowledge).
    WebsocketH2,
    /// UDP.
    Datagrams,
}

const MESSAGE_BYTES: usize = 64;
/// A datagram that has not come back by then is lost, which fails the client.
const DATAGRAM_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest head of a response that is taken.
const MAX_HEAD_BYTES: usize = 16 * 1024;

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const WINDOW_UPDATE: u8 = 0x8;
const END_HEADERS: u8 = 0x4;
const ACK: u8 = 0x1;
const STREAM: u32 = 1;
/// The largest that flow control knows (RFC 9113 §6.9.1): no window is ever given back.
const WINDOW: u32 = 0x7fff_ffff;

/// One client, until something fails.
pub(super) async fn client(load: &Load, over: Over) -> io::Result<()> {
    let address = load.options.address;
    match over {
        Over::Websocket => {
            let mut stream = open_http1(load, address).await?;
            let (message, mut back) = (message(), [0; MESSAGE_BYTES + 6]);
            while load.has_left() {
                let started = begin(load);
                stream.write_all(&message).await?;
                stream.read_exact(&mut back).await?;
                load.answered(started, 0);
            }
        }
        Over::WebsocketH2 => {
            let mut http2 = Http2::open(load, address).await?;
            let message = frame(DATA, 0, STREAM, &message());
            while load.has_left() {
                let started = begin(load);
                http2.stream.write_all(&message).await?;
                http2.receive(MESSAGE_BYTES + 6).await?;
                load.answered(started, 0);
            }
        }
        Over::Datagrams => {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            socket.connect(address).await?;
            let (message, mut back) = ([b'm'; MESSAGE_BYTES], [0; MESSAGE_BYTES]);
            while load.has_left() {
                let started = begin(load);
                socket.send(&message).await?;
                tokio::time::timeout(DATAGRAM_TIMEOUT, socket.recv(&mut back)).await??;
                load.answered(started, 0);
            }
        }
    }
    Ok(())
}

fn begin(load: &Load) -> Instant {
    load.take_one();
    Instant::now()
}

/// A masked binary frame (RFC 6455 §5.2), the mask all zeros.
fn message() -> Vec<u8> {
    [&[0x82, 0x80 | MESSAGE_BYTES as u8, 0, 0, 0, 0][..], &[b'm'; MESSAGE_BYTES]].concat()
}

async fn open_http1(load: &Load, address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (path, host) = (&load.options.path, &load.options.host);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(stream.read_u8().await?);
    }
    if !head.starts_with(b"HTTP/1.1 101 ") {
        return Err(io::Error::other(format!("no WebSocket: {}", String::from_utf8_lossy(&head))));
    }
    Ok(stream)
}

/// An HTTP/2 connection with one stream.
#[derive(Debug)]
struct Http2 {
    stream: TcpStream,
    /// What was read and not taken yet.
    read: Vec<u8>,
}

impl Http2 {
    /// Opens the connection and, on its first stream, the WebSocket.
    async fn open(load: &Load, address: SocketAddr) -> io::Result<Http2> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut http2 = Http2 { stream, read: Vec::new() };
        // SETTINGS_INITIAL_WINDOW_SIZE, and the rest of the connection's window.
        let settings = [&4_u16.to_be_bytes()[..], &WINDOW.to_be_bytes()].concat();
        let window = (WINDOW - 65_535).to_be_bytes();
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let opening = [&preface[..], &frame(SETTINGS, 0, 0, &settings), &frame(WINDOW_UPDATE, 0, 0, &window)].concat();
        http2.stream.write_all(&opening).await?;
        // Extended CONNECT must have been allowed first (RFC 8441 §3).
        while http2.next().await?.0 != SETTINGS {}
        http2.stream.write_all(&frame(HEADERS, END_HEADERS, STREAM, &head(load))).await?;
        // The status is entry 8 of the static table: 200 (RFC 7541 appendix A).
        match http2.next_of(HEADERS).await?.first() {
            Some(0x88) => Ok(http2),
            _ => Err(io::Error::other("no WebSocket over HTTP/2")),
        }
    }

    /// Waits for so many bytes of DATA.
    async fn receive(&mut self, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            bytes = bytes.saturating_sub(self.next_of(DATA).await?.len());
        }
        Ok(())
    }

    /// The payload of the next frame of that kind; others before it are passed over.
    async fn next_of(&mut self, wanted: u8) -> io::Result<Vec<u8>> {
        loop {
            let (kind, payload) = self.next().await?;
            match kind {
                _ if kind == wanted => return Ok(payload),
                SETTINGS | WINDOW_UPDATE | PING => {}
                _ => return Err(io::Error::other(format!("frame of type {kind}"))),
            }
        }
    }

    /// The next frame: type and payload. SETTINGS and PINGs are acknowledged.
    async fn next(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let [high, middle, low, kind, flags, _, _, _, _, behind @ ..] = &self.read[..] {
                let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
                if let Some(payload) = behind.get(..length) {
                    let (kind, is_ack, payload) = (*kind, flags & ACK != 0, payload.to_vec());
                    self.read.drain(..9 + length);
                    match kind {
                        SETTINGS if !is_ack => self.stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?,
                        PING if !is_ack => self.stream.write_all(&frame(PING, ACK, 0, &payload)).await?,
                        _ => {}
                    }
                    return Ok((kind, payload));
                }
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The request that opens a WebSocket (RFC 8441 §4), all of it literals of which nothing is kept.
fn head(load: &Load) -> Vec<u8> {
    let mut block = Vec::new();
    let (path, host) = (load.options.path.as_bytes(), load.options.host.as_bytes());
    literal(2, b"CONNECT", &mut block);
    literal(6, b"http", &mut block);
    literal(4, path, &mut block);
    literal(1, host, &mut block);
    literal_named(b":protocol", b"websocket", &mut block);
    literal_named(b"sec-websocket-version", b"13", &mut block);
    block
}
