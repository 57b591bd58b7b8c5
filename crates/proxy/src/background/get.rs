//! A request of our own: one over HTTP/1.1 on a connection of its own, and its response within bounds. For health checks and what is fetched
//! from a URL; off the data path.

use net::Chunk;
use transport::Transport;
use wire::http::http1::{Parsed, parse_response};
use wire::http::{HeadLimits, Method, ResponseHead};

use crate::message::body::BodyReader;
use crate::upstream::{Group, Target, Wish, connect};

/// What is read of a response's head.
const LIMITS: HeadLimits = HeadLimits { head_bytes: 16 * 1024, request_line_bytes: 8 * 1024, fields: 100 };

/// A response whose head is here.
pub struct Got<'t> {
    transport: &'t Transport,
    input: Chunk,
    head: ResponseHead,
}

/// Asks for `target` of `host`, with `fields` (whole lines, CRLF included), and reads the head of the response.
///
/// # Errors
/// What went wrong, for the log.
pub async fn get<'t>(transport: &'t Transport, host: &str, target: &str, fields: &str) -> Result<Got<'t>, String> {
    ask(transport, &Method::Get, host, target, fields).await
}

/// As [`get`], with another method; a body is not sent.
///
/// # Errors
/// As [`get`].
pub async fn ask<'t>(
    transport: &'t Transport,
    method: &Method,
    host: &str,
    target: &str,
    fields: &str,
) -> Result<Got<'t>, String> {
    let method_name = method.as_str();
    let request = format!("{method_name} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
    let broke = |_| "the connection broke".to_owned();
    transport.send(request.as_bytes()).await.map_err(broke)?;
    let (mut input, mut head) = (Chunk::empty(), ResponseHead::default());
    loop {
        if transport.recv_more(&mut input).await.map_err(broke)? == 0 {
            return Err("the connection closed before a response".to_owned());
        }
        match parse_response(&input, &LIMITS, method, &mut head).map_err(|error| error.reason.code().to_owned())? {
            Parsed::Complete { head_len } => {
                input.advance(head_len);
                return Ok(Got { transport, input, head });
            }
            Parsed::Partial if input.is_full() => return Err("the head of the response is too long".to_owned()),
            Parsed::Partial => {}
        }
    }
}

impl Got<'_> {
    /// Its status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The beginning of its body, and no more than about so many bytes.
    ///
    /// # Errors
    /// As [`get`].
    pub async fn start_of_body(mut self, bytes: usize) -> Result<Vec<u8>, String> {
        let mut reader = BodyReader::for_response(self.transport, &mut self.input, self.head.framing);
        let mut body = Vec::new();
        while let Some(piece) = reader.next().await.map_err(|_| "the response is truncated".to_owned())? {
            body.extend_from_slice(piece);
            if body.len() >= bytes {
                break;
            }
        }
        Ok(body)
    }

    /// Its body, `max_bytes` at most.
    ///
    /// # Errors
    /// As [`get`].
    pub async fn body(mut self, max_bytes: usize) -> Result<Vec<u8>, String> {
        let mut reader = BodyReader::for_response(self.transport, &mut self.input, self.head.framing);
        let mut body = Vec::new();
        while let Some(piece) = reader.next().await.map_err(|_| "the response is truncated".to_owned())? {
            if body.len() + piece.len() > max_bytes {
                return Err(format!("the response is larger than {max_bytes} bytes"));
            }
            body.extend_from_slice(piece);
        }
        Ok(body)
    }
}

/// Asks a server of the group for `target`, as [`get`] does, and gives the body of a response of 200.
///
/// # Errors
/// As [`get`]; no server, no connection, another status, or a body of more than `max_bytes`.
pub async fn fetch(group: &Group, host: &str, target: &str, fields: &str, max_bytes: usize) -> Result<Vec<u8>, String> {
    group.resolved(group.config.connect_timeout).await;
    let Ok(taken) = group.take(Wish::default()) else { return Err("no server".to_owned()) };
    let transport =
        connect(Target::own(group, &taken.server)).await.map_err(|error| error.reason().code().to_owned())?;
    let got = get(&transport, host, target, fields).await?;
    match got.status() {
        200 => got.body(max_bytes).await,
        status => Err(format!("the response was {status}")),
    }
}
