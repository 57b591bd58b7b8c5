//! HTTP/1.x on a client's connection (RFC 9112): rest, head, exchange, and over again.
//!
//! While a connection rests, its task holds no buffer and only a small future; the future of an exchange is boxed and freed at
//! its end.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use config::limits::Limits;
use net::clock::coarse;
use net::in_place;
use net::pace::Pace;
use net::{Chunk, Deadline, GoneWait};
use reason::Reason;
use tokio::sync::futures::Notified;
use transport::{Broken, Transport, buffer, recycle};
use wire::http::http1::{Parsed, parse_request, write_field, write_status_line};
use wire::http::{BodyFraming, Fields, HeadLimits, Method, RequestHead, ResponseHead, Version};

use crate::connection::{Conn, ended_before};
use crate::delivery::{Terms, cut, delivered};
use crate::exchange::{self, Exchange};
use crate::http::h2;
use crate::http::upgraded::{Ending, carry};
use crate::message::body::{BodyReader, BodyWriter};
use crate::message::context::{Aborted, Context};
use crate::message::date;
use crate::message::forwarding::{interim_fields, remove_nominated, write_framing};
use crate::message::ledger::{Ledger, OpenRequest};
use crate::message::rejection::{self, Rejection};
use crate::message::scratch::{self, Parts};
use crate::message::sides::ResponseSink;
use crate::policies::Throttles;
use crate::policies::cors::Decoration;
use crate::responses::ErrorPages;
use crate::worker::Worker;

/// After a last response, how long the client may take to read it before the connection is closed under it.
const LINGER: Duration = Duration::from_secs(2);

/// When draining begins, how long a connection without a request so far is waited for: its client may be about to send one.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Bytes read and dropped while lingering.
const LINGER_BYTES: usize = 1024 * 1024;

/// What follows a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Another message may come.
    Rest,
    /// Our side ends; the client may still read.
    Close,
    /// As `Close`, and nothing the client sent is unread: the connection may close at once.
    Done,
    /// As `Close`, of a client that was rejected: what it has not read soon is lost to it.
    TurnAway,
    /// What was sent is not whole: it arrives, and then a reset.
    Cut,
    /// The client's side is broken or must be.
    Abandon,
}

/// Serves requests until the connection ends. What came is given back if the client speaks HTTP/2 with prior knowledge (RFC 9113 §3.3), for which
/// there is ALPN under TLS.
///
/// `input`: bytes of the client that were received already.
pub async fn serve(transport: &Transport, mut input: Chunk, conn: &Conn, worker: &Worker) -> Option<Chunk> {
    let mut deadline = Deadline::new();
    let mut stage = pin!(worker.shutdown.notified());
    let mut served = 0;
    let next = loop {
        if input.is_empty() {
            // Nothing is held while at rest.
            input = Chunk::empty();
        }
        if input.is_empty() && !rest(transport, &mut input, &mut deadline, stage.as_mut(), conn, worker, served).await {
            break Next::Close;
        }
        if served == 0 && conn.tls.is_none() && h2::is_preface(&input) != Some(false) {
            match Box::pin(preface(transport, &mut input, &mut deadline, (conn, worker))).await {
                Some(true) => return Some(input),
                Some(false) => {}
                None => {
                    record_silence(conn, worker, Reason::Http2PrefaceInvalid);
                    break Next::Close;
                }
            }
        }
        match in_place(|| message(transport, &mut input, conn, worker, served)).await {
            Next::Rest => served += 1,
            end => break end,
        }
    };
    match next {
        Next::Abandon => transport.reset_on_close(),
        Next::Done if transport.has_said_all() && !transport.has_unread() => {}
        Next::TurnAway => Box::pin(linger(transport, None)).await,
        Next::Done | Next::Rest | Next::Close => Box::pin(linger(transport, Some(pace(transport, conn, worker)))).await,
        Next::Cut => {
            let pace = pace(transport, conn, worker);
            Box::pin(cut(transport, Terms { pace, until: None, most_dropped: LINGER_BYTES })).await;
        }
    }
    None
}

/// How slowly a client may take the rest of what was sent to it.
fn pace(transport: &Transport, conn: &Conn, worker: &Worker) -> Pace {
    transport.write_pace().unwrap_or_else(|| worker.pin().config.limits_at(&conn.listener.name).pace())
}

/// Whether the client speaks HTTP/2; none if it says too little to tell.
async fn preface(
    transport: &Transport,
    input: &mut Chunk,
    deadline: &mut Deadline,
    (conn, worker): (&Conn, &Worker),
) -> Option<bool> {
    let until = coarse() + worker.pin().config.limits_at(&conn.listener.name).request_header_timeout;
    loop {
        if let Some(is_http2) = h2::is_preface(input) {
            return Some(is_http2);
        }
        match deadline.until(until, transport.recv_more(input)).await {
            Ok(Ok(count)) if count > 0 => {}
            _ => return None,
        }
    }
}

/// Waits at rest for the first bytes of a message. False when the connection is to end: the client has finished, the time is over, or we are
/// draining and what it sent has been served. One that has sent nothing yet may have been accepted this very moment: it gets a moment for its request.
async fn rest<'w>(
    transport: &Transport,
    input: &mut Chunk,
    deadline: &mut Deadline,
    mut stage: Pin<&mut Notified<'w>>,
    conn: &Conn,
    worker: &'w Worker,
    served: u64,
) -> bool {
    let reason = loop {
        let drains = worker.is_draining();
        let limit = {
            let generation = worker.pin();
            let limits = generation.config.limits_at(&conn.listener.name);
            let usual = if served == 0 { limits.request_header_timeout } else { limits.keep_alive_timeout };
            if drains { usual.min(FIRST_REQUEST).min(limits.drain_timeout / 2) } else { usual }
        };
        let came = deadline
            .within(
                limit,
                poll_fn(|context| {
                    if let Poll::Ready(received) = transport.poll_recv_more(context, input) {
                        return Poll::Ready(Some(received));
                    }
                    worker.watch_shutdown(stage.as_mut(), context);
                    let ends = worker.is_draining() && (served > 0 || !drains);
                    if ends { Poll::Ready(None) } else { Poll::Pending }
                }),
            )
            .await;
        match &came {
            Ok(Some(Ok(count))) if *count > 0 => return true,
            _ if served > 0 => return false,
            Ok(None) => {}
            Ok(Some(Ok(_))) => break Reason::ClosedWithoutRequest,
            Ok(Some(Err(_))) => break Reason::ResetWithoutRequest,
            Err(_) if drains => break Reason::Drained,
            Err(_) => break Reason::IdleWithoutRequest,
        }
    };
    record_silence(conn, worker, reason);
    false
}

/// A connection that never became a request leaves its line in the log all the same.
pub(super) fn record_silence(conn: &Conn, worker: &Worker, reason: Reason) {
    ended_before(conn, &worker.report, "head", reason, rejection::exceeded_limit(reason).unwrap_or_default());
}

/// Reads one request and serves it.
async fn message(transport: &Transport, input: &mut Chunk, conn: &Conn, worker: &Worker, served: u64) -> Next {
    let mut parts = scratch::take();
    let generation = worker.pin();
    let limits = generation.config.limits_at(&conn.listener.name);
    let mut open = OpenRequest::new(&mut parts, conn, worker);
    let next = match read_head(transport, input, open.parts, limits).await {
        Ok(()) => {
            let last = served + 1 >= limits.max_requests_per_connection || worker.is_leaving();
            let context = Context::of_read(worker, conn, &generation, &mut open.parts.request);
            serve_message(context, transport, input, open.parts, &mut open.ledger, last).await
        }
        Err(Some(rejection)) => {
            open.ledger.rejected(&rejection);
            let request = &open.parts.request;
            let pages = generation.responses.error_pages(None, &conn.listener.name, request);
            reject_head(transport, &rejection, request, pages.map(Arc::as_ref), &mut open.ledger).await;
            Next::TurnAway
        }
        Err(None) => {
            open.ledger.blame(Reason::RequestHeaderTruncated);
            Next::Abandon
        }
    };
    open.end();
    scratch::give(parts);
    next
}

/// Reads a head to its end. `Err(None)` when the client is gone.
async fn read_head(
    transport: &Transport,
    input: &mut Chunk,
    parts: &mut Parts,
    limits: &Limits,
) -> Result<(), Option<Rejection>> {
    let head_limits = HeadLimits {
        head_bytes: limits.max_head_bytes.min(net::chunk::CHUNK_BYTES),
        request_line_bytes: limits.max_request_line_bytes,
        fields: limits.max_headers,
    };
    let mut until = None;
    loop {
        match parse_request(input, &head_limits, &mut parts.request) {
            Ok(Parsed::Complete { head_len }) => {
                input.advance(head_len);
                remove_nominated(&mut parts.request.fields);
                return Ok(());
            }
            Ok(Parsed::Partial) => {}
            Err(error) => return Err(Some(error.into())),
        }
        // Parsing starts anew with each line, not with each byte: a client that dribbles must not cost more than one that does not.
        loop {
            if input.is_full() {
                return Err(Some(Rejection::of(Reason::RequestHeadTooLarge)));
            }
            let before = input.len();
            let until = *until.get_or_insert_with(|| coarse() + limits.request_header_timeout);
            match parts.timers.upload.until(until, transport.recv_more(input)).await {
                Ok(Ok(0) | Err(_)) => return Err(None),
                Ok(Ok(_)) => {}
                Err(_) => return Err(Some(Rejection::of(Reason::RequestHeaderTimeout))),
            }
            let added = input.get(before..).unwrap_or_default();
            if memchr::memchr(b'\n', added).is_some() || input.len() > head_limits.request_line_bytes {
                break;
            }
        }
    }
}

async fn serve_message(
    context: Context<'_>,
    transport: &Transport,
    input: &mut Chunk,
    parts: &mut Parts,
    ledger: &mut Ledger,
    last: bool,
) -> Next {
    let Parts { request, response, timers } = parts;
    let limits = context.limits();
    if input.is_empty() {
        // While the upstream is waited for, others receive into the same warm memory.
        *input = Chunk::empty();
    }
    let mut body = BodyReader::new(transport, input, request.framing);
    transport.pace_writes(Some(limits.pace()));
    let mut sink = H1Answer::new(transport, context.worker, request, !last && request.keep_alive);
    sink.serves_half_closed = context.conn.listener.options.half_close == config::HalfClose::Serve;
    let outcome =
        exchange::run(Exchange { context, head: request, response, body: &mut body, sink: &mut sink, ledger, timers })
            .await;
    let keep = sink.keep;
    drop(sink);
    match outcome {
        Err(Aborted) if ledger.is_client_waiting() => Next::Cut,
        Err(Aborted) => Next::Abandon,
        Ok(Some(upgraded)) => {
            drop(body);
            let first = std::mem::replace(input, Chunk::empty());
            // Either side of a tunnel may rest for as long as the tunnel may.
            transport.pace_writes(None);
            match Box::pin(carry(context, (transport, transport), first, upgraded, ledger)).await {
                Ending::Orderly => Next::Close,
                Ending::Late => Next::TurnAway,
                Ending::Cut(idle) => {
                    transport.pace_writes(Some(Pace { idle, min_rate: 0 }));
                    Next::Cut
                }
            }
        }
        Ok(None) if !keep && body.is_done() && !body.has_input() => Next::Done,
        Ok(None) if !keep && ledger.reason().is_some() && !ledger.is_client_waiting() => Next::TurnAway,
        Ok(None) if !keep => Next::Close,
        Ok(None) if drain_body(&mut body, limits, &mut timers.upload).await => Next::Rest,
        Ok(None) => Next::Close,
    }
}

/// Reads and drops what is left of a body. False if that is too much or takes too long.
async fn drain_body(body: &mut BodyReader<'_>, limits: &Limits, deadline: &mut Deadline) -> bool {
    let mut dropped = 0;
    if body.remaining().is_some_and(|rest| rest > limits.max_drain_bytes) {
        return false;
    }
    // For all of it, or a few bytes now and then would hold the connection for days.
    let until = coarse() + limits.request_header_timeout;
    while !body.is_done() {
        match deadline.until(until, body.next()).await {
            Ok(Ok(Some(piece))) => dropped += piece.len() as u64,
            Ok(Ok(None)) => return true,
            Ok(Err(_)) | Err(_) => return false,
        }
        if dropped > limits.max_drain_bytes {
            return false;
        }
    }
    true
}

/// Answers a head that could not be parsed. Nothing behind it is read as a request.
async fn reject_head(
    transport: &Transport,
    rejection: &Rejection,
    head: &RequestHead,
    pages: Option<&ErrorPages>,
    ledger: &mut Ledger,
) {
    let (body, content_type) = rejection::body(rejection, head, pages, ledger.id());
    ledger.error_pages = pages.map(|pages| Arc::clone(&pages.name));
    let mut out = buffer();
    write_status_line(rejection.status, &mut out);
    if pages.is_some() {
        write_field(b"Vary", b"Accept", &mut out);
    }
    write_field(b"Date", &date::now(), &mut out);
    write_field(b"Content-Type", content_type.as_bytes(), &mut out);
    write_framing(BodyFraming::Length(body.len() as u64), &mut out);
    out.extend_from_slice(b"Connection: close\r\n\r\n");
    out.extend_from_slice(&body);
    if let Ok(Ok(())) = Deadline::new().within(LINGER, transport.send(&out)).await {
        ledger.sent.set(body.len() as u64);
    }
    recycle(out);
}

/// Ends our side and reads on: closing on unread bytes would reset the connection and take the response with it. A client that takes it at this `pace`
/// is waited for until it has all of it; without one, nobody is for longer than a moment.
pub(super) async fn linger(transport: &Transport, pace: Option<Pace>) {
    if let Some(pace) = pace {
        transport.pace_writes(Some(pace));
        transport.finish().await;
        delivered(transport, Terms { pace, until: None, most_dropped: LINGER_BYTES }).await;
    }
    let lingering = async {
        transport.finish().await;
        let mut dropped = 0;
        while let Ok(chunk) = transport.recv().await {
            dropped += chunk.len();
            if chunk.is_empty() || dropped > LINGER_BYTES {
                break;
            }
        }
    };
    let _ = Deadline::new().within(LINGER, lingering).await;
}

/// Writes a response in HTTP/1.x.
struct H1Answer<'c> {
    transport: &'c Transport,
    worker: &'c Worker,
    version: Version,
    is_head_request: bool,
    writer: BodyWriter<'c>,
    /// What is written and not yet sent.
    out: Vec<u8>,
    status: u16,
    begun: bool,
    /// Another message may follow on this connection.
    keep: bool,
    /// The client waits to be told to send its body, and was not.
    awaits_continue: bool,
    /// A client that has only ended its direction is served to the end.
    serves_half_closed: bool,
    /// The wait for the client's end.
    gone: Option<GoneWait<'c>>,
    /// Fields that the final response bears.
    decoration: Option<Box<Decoration>>,
    /// How fast the body may go.
    throttles: Throttles,
}

impl<'c> H1Answer<'c> {
    fn new(transport: &'c Transport, worker: &'c Worker, head: &RequestHead, keep: bool) -> H1Answer<'c> {
        H1Answer {
            transport,
            worker,
            version: head.version,
            is_head_request: head.method == Method::Head,
            writer: BodyWriter::new(transport, BodyFraming::None),
            out: buffer(),
            status: 0,
            begun: false,
            keep,
            awaits_continue: head.expects_continue,
            serves_half_closed: false,
            gone: None,
            decoration: None,
            throttles: Throttles::default(),
        }
    }

    /// How a body framed like this upstream is framed for this client. A client of HTTP/1.0 knows no chunks.
    fn framing(&self, framing: BodyFraming) -> BodyFraming {
        match framing {
            _ if self.is_head_request || matches!(self.status, 100..=199 | 204 | 304) => BodyFraming::None,
            BodyFraming::Chunked | BodyFraming::UntilClose if exchange::is_modern(self.version) => BodyFraming::Chunked,
            BodyFraming::Chunked => BodyFraming::UntilClose,
            // Nothing follows, and the client must be told so.
            BodyFraming::None => BodyFraming::Length(0),
            other => other,
        }
    }
}

impl ResponseSink for H1Answer<'_> {
    fn pace(&mut self, pace: Pace) {
        self.transport.pace_writes(Some(pace));
    }

    fn throttle(&mut self, throttles: &Throttles) {
        self.throttles = throttles.clone();
    }

    fn throttles(&self) -> Option<&Throttles> {
        Some(&self.throttles)
    }

    fn takes_interim(&self) -> bool {
        exchange::is_modern(self.version)
    }

    fn be_last(&mut self) {
        self.keep = false;
    }

    async fn interim(&mut self, head: &ResponseHead) -> Result<(), Broken> {
        let mut out = buffer();
        write_status_line(head.status, &mut out);
        interim_fields(head, |name, value| write_field(name, value, &mut out));
        out.extend_from_slice(b"\r\n");
        self.awaits_continue &= head.status != 100;
        let sent = self.transport.send(&out).await;
        recycle(out);
        sent
    }

    fn decorate(&mut self, decoration: Decoration) {
        self.decoration.get_or_insert_default().add(decoration);
    }

    fn begin(&mut self, status: u16) {
        self.status = status;
        self.out.clear();
        write_status_line(status, &mut self.out);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.decoration.as_ref().is_some_and(|decoration| decoration.replaces(name)) {
            return;
        }
        write_field(name, value, &mut self.out);
    }

    fn finish_head(&mut self, framing: BodyFraming, declared_length: Option<&[u8]>) {
        if let Some(decoration) = &self.decoration {
            decoration.fields().for_each(|(name, value)| write_field(name, value, &mut self.out));
        }
        let framing = self.framing(framing);
        // A client that was never told to continue may send its body or leave it (RFC 9110 §10.1.1): what comes next is anybody's guess.
        // The shutdown may have begun after the request came.
        if framing == BodyFraming::UntilClose || self.awaits_continue || self.worker.is_leaving() {
            self.keep = false;
        }
        match declared_length {
            Some(length) => write_field(b"Content-Length", length, &mut self.out),
            None => write_framing(framing, &mut self.out),
        }
        if self.status != 101 {
            if !self.keep {
                self.out.extend_from_slice(b"Connection: close\r\n");
            } else if !exchange::is_modern(self.version) {
                self.out.extend_from_slice(b"Connection: keep-alive\r\n");
            }
        }
        self.out.extend_from_slice(b"\r\n");
        self.writer = BodyWriter::new(self.transport, framing);
    }

    fn switch(&mut self, protocol: &[u8]) {
        self.field(b"Connection", b"upgrade");
        self.field(b"Upgrade", protocol);
        self.finish_head(BodyFraming::None, None);
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.begun = true;
        self.transport.send(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn piece_now(&mut self, piece: &[u8]) -> Result<(), Broken> {
        self.begun = true;
        if !self.keep && self.writer.is_last(piece.len()) {
            self.transport.will_end();
        }
        self.writer.write(&self.out, piece).await?;
        self.out.clear();
        Ok(())
    }

    async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Broken> {
        if !self.keep && (self.writer.is_at_end() || self.out.is_empty()) {
            self.transport.will_end();
        }
        self.flush().await?;
        self.writer.end(trailers).await
    }

    async fn last(&mut self, piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken> {
        if self.throttles.down().is_some() {
            self.piece(piece).await?;
            return self.end(trailers).await;
        }
        self.begun = true;
        if !self.keep {
            self.transport.will_end();
        }
        self.writer.finish(&self.out, piece, trailers).await?;
        self.out.clear();
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.begun
    }

    fn reached(&self) -> Option<SocketAddr> {
        self.transport.stream().local()
    }

    fn poll_gone(&mut self, context: &mut std::task::Context<'_>) -> Poll<Reason> {
        // A client that has only finished sending may still be reading; most have gone.
        let gone = self.transport.stream().poll_gone(context, !self.serves_half_closed, &mut self.gone);
        gone.map(|()| Reason::ClientDisconnected)
    }
}

impl Drop for H1Answer<'_> {
    fn drop(&mut self) {
        recycle(std::mem::take(&mut self.out));
    }
}
