//! Servers that grant WebSockets over HTTP/1.1, with the proof that RFC 6455 asks for or without.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use tls::crypto::digest::sha1;

use super::{Reply, Seen, Upstream};

/// The value of Sec-WebSocket-Accept for the key of a request (RFC 6455 §4.2.2).
pub fn accept(request: &Seen) -> String {
    let key = request.fields("sec-websocket-key");
    assert_eq!(key.len(), 1, "{}", request.head);
    base64(&sha1(format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key[0]).as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().chain(&[0; 2]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * place) & 63];
            out.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// The response that grants the upgrade, with these fields more.
pub fn granted(request: &Seen, fields: &str) -> String {
    let accept = accept(request);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n{fields}\r\n"
    )
}

/// A server that grants every WebSocket and hands its connection to `serve`. Other requests get `ok`.
pub fn granting(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> Upstream {
    Upstream::start(move |request| {
        if request.fields("upgrade") != ["websocket"] {
            return Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec());
        }
        let (head, serve) = (granted(request, "Sec-WebSocket-Protocol: chat\r\n"), serve.clone());
        Reply::Take(Box::new(move |mut stream| {
            stream.write_all(head.as_bytes()).unwrap();
            serve(stream);
        }))
    })
}

/// Sends back what comes until the other side has finished, and finishes.
pub fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
