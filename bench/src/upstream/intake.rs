//! Requests out of the bytes of a connection, as they come (RFC 9112), each answered when its body is complete.

use std::mem::MaybeUninit;
use std::time::Duration;

use super::response::{How, Responses};
use super::websocket;

const MAX_FIELDS: usize = 128;
const MAX_HEAD_BYTES: usize = 128 * 1024;
const SMALL_BYTES: u64 = 100;
const SIGNED_UP: &[u8] = b"{\"status\":\"success\"}";

/// The reading side of one connection.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// Start of a head or chunk line that is not complete yet.
    partial: Vec<u8>,
    state: State,
    request: Request,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// Body bytes still to come.
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    /// After the opening of a WebSocket: whatever comes goes back.
    Messages,
}

/// What is kept of the request whose body is being read.
#[derive(Debug, Default)]
struct Request {
    route: Route,
    how: How,
    content_type: String,
    received: u64,
    echo: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Route {
    #[default]
    NotFound,
    Filler(u64),
    Sink,
    SignUp,
    Echo,
    Unavailable,
    /// The 101 that opens a WebSocket.
    WebSocket(Vec<u8>),
    /// The JSON to answer with.
    Headers(Vec<u8>),
}

impl Intake {
    /// Takes all of `bytes`; false when the connection is to end after what has been answered.
    pub(super) fn feed(&mut self, mut bytes: &[u8], responses: &mut Responses) -> bool {
        while !bytes.is_empty() {
            let rest = match self.state {
                State::Head => self.head(bytes, responses),
                State::Body(left) => Some(self.body(bytes, left)),
                State::ChunkData(left) => Some(self.body(bytes, left)),
                State::Messages => {
                    responses.raw(bytes);
                    Some(&[][..])
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => self.chunk_line(bytes),
            };
            let Some(rest) = rest else {
                responses.push(
                    "400 Bad Request",
                    "text/plain",
                    b"bad request\n",
                    How { close: true, ..How::default() },
                );
                return false;
            };
            bytes = rest;
            if self.state == State::Body(0) && !self.respond(responses) {
                return false;
            }
        }
        true
    }

    /// Reads a head, if it is complete, and leaves what follows it.
    fn head<'a>(&mut self, bytes: &'a [u8], responses: &mut Responses) -> Option<&'a [u8]> {
        if self.partial.is_empty() {
            let length = self.parse_head(bytes, responses)?;
            if length == 0 {
                self.partial.extend_from_slice(bytes);
            }
            return Some(if length == 0 { &[] } else { &bytes[length..] });
        }
        let before = self.partial.len();
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        let length = self.parse_head(&whole, responses)?;
        if length == 0 {
            self.partial = whole;
            return (before < MAX_HEAD_BYTES).then_some(&[]);
        }
        Some(&bytes[length - before..])
    }

    /// The length of the head and of a PROXY header (version 1) ahead of it, 0 if it is not complete, none if it is no head.
    fn parse_head(&mut self, bytes: &[u8], responses: &mut Responses) -> Option<usize> {
        let ahead = match (bytes.starts_with(b"PROXY "), bytes.iter().position(|byte| *byte == b'\n')) {
            (false, _) => 0,
            (true, Some(end)) => end + 1,
            (true, None) => return Some(0),
        };
        let bytes = &bytes[ahead..];
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut head = httparse::Request::new(&mut []);
        let length = match head.parse_with_uninit_headers(bytes, &mut fields).ok()? {
            httparse::Status::Complete(length) => length,
            httparse::Status::Partial => return Some(0),
        };
        let field = |name: &str| {
            head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
        };
        let close = match field("connection") {
            Some(value) => value.eq_ignore_ascii_case(b"close"),
            None => head.version == Some(0),
        };
        self.state = if field("transfer-encoding").is_some() {
            State::ChunkSize
        } else {
            let text = field("content-length").map_or(Some("0"), |value| std::str::from_utf8(value).ok())?;
            State::Body(text.parse().ok()?)
        };
        if field("expect").is_some() {
            responses.raw(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let route = route(&head, responses);
        let content_type = match route {
            Route::Echo => String::from_utf8_lossy(field("content-type").unwrap_or(b"text/plain")).into_owned(),
            _ => String::new(),
        };
        let how = How { close, without_body: head.method == Some("HEAD") };
        self.request = Request { route, how, content_type, ..Request::default() };
        Some(ahead + length)
    }

    /// Takes body bytes, of a chunk or of the whole.
    fn body<'a>(&mut self, bytes: &'a [u8], left: u64) -> &'a [u8] {
        let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.request.received += taken as u64;
        if self.request.route == Route::Echo {
            self.request.echo.extend_from_slice(&bytes[..taken]);
        }
        let left = left - taken as u64;
        self.state = match self.state {
            State::ChunkData(_) if left == 0 => State::ChunkEnd,
            State::ChunkData(_) => State::ChunkData(left),
            _ => State::Body(left),
        };
        &bytes[taken..]
    }

    /// Takes one line of chunked coding (RFC 9112 §7.1), once it is complete.
    fn chunk_line<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.partial.extend_from_slice(bytes);
            return (self.partial.len() < MAX_HEAD_BYTES).then_some(&[]);
        };
        self.partial.extend_from_slice(&bytes[..end]);
        let line = std::mem::take(&mut self.partial);
        let line = std::str::from_utf8(&line).ok()?.trim_end_matches('\r');
        self.state = match self.state {
            State::ChunkEnd if line.is_empty() => State::ChunkSize,
            State::Trailer if line.is_empty() => State::Body(0),
            State::Trailer => State::Trailer,
            State::ChunkSize => match u64::from_str_radix(line.split(';').next()?.trim(), 16).ok()? {
                0 => State::Trailer,
                size => State::ChunkData(size),
            },
            _ => return None,
        };
        Some(&bytes[end + 1..])
    }

    /// Answers the request that is now complete; false when the connection ends with it.
    fn respond(&mut self, responses: &mut Responses) -> bool {
        self.state = State::Head;
        let request = std::mem::take(&mut self.request);
        let how = request.how;
        match request.route {
            Route::Filler(length) => responses.push_filler(length, how),
            Route::Sink => responses.push("200 OK", "text/plain", request.received.to_string().as_bytes(), how),
            Route::SignUp => responses.push("200 OK", "application/json", SIGNED_UP, how),
            Route::Echo => responses.push("200 OK", &request.content_type, &request.echo, how),
            Route::Headers(json) => responses.push("200 OK", "application/json", &json, how),
            Route::WebSocket(opening) => {
                self.state = State::Messages;
                responses.raw(&opening);
            }
            Route::Unavailable => responses.push("503 Service Unavailable", "text/plain", b"not now\n", how),
            Route::NotFound => responses.push("404 Not Found", "text/plain", b"no such thing\n", how),
        }
        !how.close
    }
}

fn route(head: &httparse::Request<'_, '_>, responses: &mut Responses) -> Route {
    let target = head.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/" | "/small" => Route::Filler(SMALL_BYTES),
        "/sink" => Route::Sink,
        "/test/signup" => Route::SignUp,
        "/echo" => Route::Echo,
        "/headers" => Route::Headers(describe(head)),
        "/unavailable" => Route::Unavailable,
        "/websocket" => {
            let is_key = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("sec-websocket-key");
            let key = head.headers.iter().find(is_key);
            key.map_or(Route::NotFound, |field| Route::WebSocket(websocket::opening(field.value)))
        }
        "/slow" => {
            let wait = query.strip_prefix("ms=").and_then(|text| text.parse().ok()).unwrap_or(1000);
            responses.delay = Some(Duration::from_millis(wait));
            Route::Filler(SMALL_BYTES)
        }
        _ => match path.strip_prefix("/bytes/").and_then(|text| text.parse().ok()) {
            Some(length) => Route::Filler(length),
            None => Route::NotFound,
        },
    }
}

fn describe(head: &httparse::Request<'_, '_>) -> Vec<u8> {
    let fields: Vec<_> = head.headers.iter().map(|field| (field.name, String::from_utf8_lossy(field.value))).collect();
    let mut text =
        serde_json::json!({ "method": head.method, "target": head.path, "headers": fields }).to_string().into_bytes();
    text.push(b'\n');
    text
}
