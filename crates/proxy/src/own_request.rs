//! A request of our own: one over HTTP/1.1 on a connection of its own, and its response within bounds. For health checks, what is fetched
//! from a URL, tokens that are looked up, and authentication services; those of the last are kept connected.

use net::Chunk;
use transport::Transport;
use wire::http::http1::{Parsed, parse_response};
use wire::http::{BodyFraming, HeadLimits, Method, ResponseHead};

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

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: &'a Method,
    /// The Host to send.
    pub host: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Further fields: whole lines, CRLF included.
    pub fields: &'a str,
    /// The body, where the method has one.
    pub body: Option<&'a str>,
}

/// Sends a request, and reads the head of the response.
///
/// # Errors
/// What went wrong, for the log.
pub async fn send<'t>(transport: &'t Transport, asked: Asked<'_>) -> Result<Got<'t>, String> {
    let Asked { method, host, target, fields, body } = asked;
    let length = body.map(|body| format!("Content-Length: {}\r\n", body.len())).unwrap_or_default();
    let (name, body) = (method.as_str(), body.unwrap_or_default());
    let request =
        format!("{name} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}{length}Connection: close\r\n\r\n{body}");
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
    /// As [`send`].
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

    /// Hands out its body piece by piece, as it comes, until `each` says that this is enough, or the body ends.
    ///
    /// # Errors
    /// As [`send`]; and those of `each`.
    pub async fn each_piece(mut self, mut each: impl AsyncFnMut(&[u8]) -> Result<bool, String>) -> Result<(), String> {
        let mut reader = BodyReader::for_response(self.transport, &mut self.input, self.head.framing);
        while let Some(piece) = reader.next().await.map_err(|_| "the response is truncated".to_owned())? {
            if !each(piece).await? {
                break;
            }
        }
        Ok(())
    }

    /// Its body, `max_bytes` at most.
    ///
    /// # Errors
    /// As [`send`].
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

/// Asks a server of the group for `target`, with `fields` (whole lines, CRLF included), and gives the body of a response of 200.
///
/// # Errors
/// As [`send`]; no server, no connection, another status, or a body of more than `max_bytes`.
pub async fn fetch(group: &Group, host: &str, target: &str, fields: &str, max_bytes: usize) -> Result<Vec<u8>, String> {
    ask(group, Asked { method: &Method::Get, host, target, fields, body: None }, max_bytes).await
}

/// Asks a server of the group, and gives the body of a response of 200.
///
/// # Errors
/// As [`fetch`].
pub async fn ask(group: &Group, asked: Asked<'_>, max_bytes: usize) -> Result<Vec<u8>, String> {
    group.resolved(group.config.connect_timeout).await;
    let Ok(taken) = group.take(Wish::default()) else { return Err("no server".to_owned()) };
    let transport =
        connect(Target::own(group, &taken.server)).await.map_err(|error| error.reason().code().to_owned())?;
    let got = send(&transport, asked).await?;
    match got.status() {
        200 => got.body(max_bytes).await,
        status => Err(format!("the response was {status}")),
    }
}

/// A whole response.
#[derive(Debug)]
pub struct Answered {
    /// Its head.
    pub head: ResponseHead,
    /// Its body.
    pub body: Vec<u8>,
}

/// Why there is none.
#[derive(Debug)]
pub enum Failed {
    /// The connection ended before a byte of it.
    Silent,
    /// What came is no whole response within bounds; in words for the log.
    Invalid(String),
}

/// Sends a request as it is written, and reads the whole response; with it, whether the connection is free for another one.
///
/// # Errors
/// The connection ended, or the response is malformed or larger than `max_bytes`.
pub async fn exchange(
    transport: &Transport,
    request: &[u8],
    method: &Method,
    max_bytes: usize,
) -> Result<(Answered, bool), Failed> {
    transport.send(request).await.map_err(|_| Failed::Silent)?;
    let (head, input) = read_head(transport, method, &LIMITS).await?;
    whole(transport, input, head, max_bytes).await
}

/// Reads the head of the final response; with it, what came behind it.
///
/// # Errors
/// The connection ended, or the head is malformed, beyond `limits`, or changes the protocol.
pub async fn read_head(
    transport: &Transport,
    method: &Method,
    limits: &HeadLimits,
) -> Result<(ResponseHead, Chunk), Failed> {
    let (mut input, mut head) = (Chunk::empty(), ResponseHead::default());
    loop {
        match transport.recv_more(&mut input).await {
            Ok(0) | Err(_) if input.is_empty() => return Err(Failed::Silent),
            Ok(0) | Err(_) => return Err(Failed::Invalid("the response is truncated".to_owned())),
            Ok(_) => {}
        }
        // Interim responses (1xx) say nothing yet.
        loop {
            match parse_response(&input, limits, method, &mut head) {
                Err(error) => return Err(Failed::Invalid(error.reason.code().to_owned())),
                Ok(Parsed::Complete { head_len }) => {
                    input.advance(head_len);
                    match head.status {
                        101 => return Err(Failed::Invalid("it changes the protocol".to_owned())),
                        100..200 => head.clear(),
                        _ => return Ok((head, input)),
                    }
                }
                Ok(Parsed::Partial) if input.is_full() => {
                    return Err(Failed::Invalid("the head of the response is too long".to_owned()));
                }
                Ok(Parsed::Partial) => break,
            }
        }
    }
}

async fn whole(
    transport: &Transport,
    mut input: Chunk,
    head: ResponseHead,
    max_bytes: usize,
) -> Result<(Answered, bool), Failed> {
    let mut body = Vec::new();
    let mut reader = BodyReader::for_response(transport, &mut input, head.framing);
    while let Some(piece) = reader.next().await.map_err(|_| Failed::Invalid("the response is truncated".to_owned()))? {
        if body.len() + piece.len() > max_bytes {
            return Err(Failed::Invalid(format!("the response is larger than {max_bytes} bytes")));
        }
        body.extend_from_slice(piece);
    }
    drop(reader);
    // Bytes nobody asked for would become the response to the next request (RFC 9112 §6.3).
    let is_free = head.keep_alive && head.framing != BodyFraming::UntilClose && input.is_empty();
    Ok((Answered { head, body }, is_free))
}
