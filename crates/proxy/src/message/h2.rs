//! HTTP/2 messages to ours and back (RFC 9113 §8).

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use config::limits::Limits;
use h2::ext::Protocol;
use h2::server::SendResponse;
use h2::{Reason as ErrorCode, RecvStream, SendStream};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use net::Chunk;
use net::pace::{Pace, Watch};
use reason::Reason;
use transport::{Broken, Transport};
use wire::http::hpack::PATH_FILLER;
use wire::http::{BodyFraming, Fields, HeadError, RequestHead, ResponseHead, Version};

use crate::delivery::{StreamTaken, marker};
use crate::http2::frames::Noticed;
use crate::http2::outbox::Outbox;
use crate::http2::windows::OfStream;
use crate::message::body::BodyError;
use crate::message::forwarding::interim_fields;
use crate::message::on_stream::OnStream;
use crate::message::received::{Received, cut_trailers};
use crate::message::sides::{MessageBody, ResponseSink, TunnelBody, TunnelSink};
use crate::policies::Throttles;
use crate::policies::cors::Decoration;

/// Translates a request's head. `noticed`: the path and query as they came, where the library could not take them, and whether the head was cut
/// because it is too large.
///
/// # Errors
/// As [`Received::read`].
pub fn read_request(
    message: &http::request::Parts,
    noticed: (Option<Vec<u8>>, bool),
    is_bodiless: bool,
    limits: &Limits,
    head: &mut RequestHead,
) -> Result<(), HeadError> {
    let uri = &message.uri;
    let received = Received {
        version: Version::H2,
        method: message.method.as_str().as_bytes(),
        // Without `:authority` the library drops it; another one than is served was found before (`h2_blocks`).
        scheme: uri.scheme().map(|scheme| scheme.as_str().as_bytes()),
        authority: uri.authority().map(|authority| authority.as_str().as_bytes()),
        path: match &noticed.0 {
            Some(path) => path,
            // One that was replaced and is not remembered is malformed.
            None => Some(uri.path_and_query().map_or("", PathAndQuery::as_str).as_bytes())
                .filter(|path| path.get(1) != Some(&PATH_FILLER))
                .unwrap_or(b"/ "),
        },
        protocol: message.extensions.get::<Protocol>().map(|protocol| protocol.as_str().as_bytes()),
        fields: (|| each(&message.headers), message.headers.len()),
        is_too_large: noticed.1,
        is_bodiless,
    };
    received.read(limits, head)
}

/// Name and value of each field.
fn each(fields: &HeaderMap) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}

/// Trailer fields for the library; those it cannot take are left out.
pub fn fields_to_trailers(fields: &Fields) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    for (name, value) in fields.iter() {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            trailers.append(name, value);
        }
    }
    trailers
}

/// The body of one stream.
pub struct H2Body {
    stream: RecvStream,
    /// Of the connection's frames.
    noticed: Rc<Noticed>,
    /// Lent to the caller; its room in the window is given back with the next call.
    lent: Bytes,
    /// What was given back, as far as it counts for the windows of the connection.
    taken: OfStream,
    /// What is left of the declared length.
    rest: Option<u64>,
    /// What came last of the declared length, while the end of the stream has not: more may come, and then no message was whole.
    held: Bytes,
    /// Received ahead, to know whether there is input.
    done: bool,
    /// What the client sends belongs to the tunnel that its request may open, and stays where it is until then.
    awaits_tunnel: bool,
    trailers: Option<Fields>,
    /// A client's, whose names may not hold `_`, as in heads.
    is_request: bool,
}

impl H2Body {
    /// The body of a stream just opened, of a request or of a response, framed like this.
    pub fn new(stream: RecvStream, noticed: Rc<Noticed>, framing: BodyFraming, is_request: bool) -> H2Body {
        let done = stream.is_end_stream();
        let rest = if let BodyFraming::Length(length) = framing { Some(length) } else { None };
        let (lent, held) = (Bytes::new(), Bytes::new());
        let taken = OfStream::default();
        H2Body { stream, noticed, lent, taken, rest, held, done, awaits_tunnel: false, trailers: None, is_request }
    }

    /// The body of a request. What follows an extended CONNECT is none: it is for the tunnel that may begin.
    pub fn of_request(stream: RecvStream, noticed: Rc<Noticed>, head: &RequestHead) -> H2Body {
        let mut body = H2Body::new(stream, noticed, head.framing, true);
        body.awaits_tunnel = head.is_extended_connect() && !body.done;
        body.done |= body.awaits_tunnel;
        body
    }

    /// Why the message is malformed, if it is: what the library does not see, or dropped.
    pub fn malformed(&self) -> Option<Reason> {
        let stream = self.stream.stream_id().as_u32();
        if self.is_request { self.noticed.malformed_trailers(stream) } else { self.noticed.malformed(stream) }
    }

    /// Whether the client has sent all of it and we have taken it.
    pub fn is_finished(&self) -> bool {
        (self.done && !self.awaits_tunnel) || self.stream.is_end_stream()
    }
}

impl TunnelBody for H2Body {
    fn begin_tunnel(&mut self) {
        self.done &= !std::mem::take(&mut self.awaits_tunnel);
    }
}

impl Drop for H2Body {
    fn drop(&mut self) {
        self.noticed.forget(self.stream.stream_id().as_u32());
    }
}

impl MessageBody for H2Body {
    fn is_done(&self) -> bool {
        self.done && self.held.is_empty()
    }

    fn ends_within(&mut self, most: u64) -> bool {
        !self.awaits_tunnel && self.rest.is_none_or(|rest| rest <= most)
    }

    fn has_input(&self) -> bool {
        false
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        let used = std::mem::take(&mut self.lent).len();
        if used > 0 {
            self.noticed.taken.count(&mut self.taken, used);
            let _ = self.stream.flow_control().release_capacity(used);
        }
        while !self.done {
            match self.stream.data().await {
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(piece)) => {
                    self.rest = self.rest.map(|rest| rest.saturating_sub(piece.len() as u64));
                    if self.rest == Some(0) && !self.stream.is_end_stream() {
                        self.held = piece;
                        continue;
                    }
                    self.lent = piece;
                    return Ok(Some(&self.lent));
                }
                Some(Err(_)) => return Err(BodyError::Truncated),
                None => {
                    // What breaks off before its trailers is not whole.
                    let trailers = self.stream.trailers().await.map_err(|_| BodyError::Truncated)?;
                    let malformed = self.noticed.malformed_trailers(self.stream.stream_id().as_u32());
                    if let (Some(_), Some(code)) = (&trailers, malformed) {
                        return Err(BodyError::Void(code));
                    }
                    self.done = true;
                    self.trailers = trailers.map(|trailers| cut_trailers(each(&trailers)));
                }
            }
        }
        self.lent = std::mem::take(&mut self.held);
        Ok(Some(&*self.lent).filter(|piece| !piece.is_empty()))
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take().filter(|trailers| !trailers.is_empty())
    }

    fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    fn last(&self) -> &[u8] {
        &self.lent
    }

    fn was_last(&self) -> bool {
        // Behind a declared length, too, trailers may follow.
        self.held.is_empty() && self.trailers.is_none() && (self.done || self.stream.is_end_stream())
    }

    fn take_last(&mut self, _least_bytes: usize) -> Option<Chunk> {
        None
    }
}

/// What all responses of a connection send by.
#[derive(Debug, Clone)]
pub struct Sending {
    /// What waits to be sent.
    pub outbox: Rc<Outbox>,
    /// The connection under all streams.
    pub transport: Rc<Transport>,
}

/// Where a response stands.
enum Stage {
    /// The head is not out.
    Head(SendResponse<Bytes>),
    /// Body bytes may go out.
    Body(SendStream<Bytes>),
    /// All is said.
    Ended,
}

/// Writes a response on one stream.
pub struct H2Answer {
    stage: Stage,
    sending: Sending,
    on_stream: OnStream,
    response: Response<()>,
}

impl H2Answer {
    /// The answer of a stream just opened.
    pub fn new(respond: SendResponse<Bytes>, head: &RequestHead, sending: Sending, pace: Pace) -> H2Answer {
        let mut on_stream = OnStream::new(pace);
        on_stream.responds_to(head);
        H2Answer { stage: Stage::Head(respond), sending, on_stream, response: Response::new(()) }
    }

    /// Ends the stream early.
    pub fn reset(&mut self, reason: ErrorCode) {
        match &mut self.stage {
            Stage::Head(respond) => respond.send_reset(reason),
            Stage::Body(stream) => stream.send_reset(reason),
            Stage::Ended => {}
        }
    }

    /// Sends one piece as the client's window and the connection's queue allow; with `is_last`, its end ends the stream.
    async fn send_body(&mut self, mut piece: &[u8], is_last: bool) -> Result<(), Broken> {
        let H2Answer { stage: Stage::Body(stream), sending, on_stream, .. } = self else { return Ok(()) };
        let ended = |error| sending.ended(error);
        while !piece.is_empty() {
            stream.reserve_capacity(piece.len());
            let window = poll_fn(|context| poll_window(stream, &mut on_stream.watch, &sending.outbox, context))
                .await
                .map_err(ended)?;
            let (now, later) = piece.split_at(window.min(piece.len()));
            // Copied only now, so that a stream without a window has nothing in hand but what was received for it.
            sending.outbox.hand_over(now.len()).await.map_err(|_| ended(io::ErrorKind::BrokenPipe.into()))?;
            let sent = stream.send_data(Bytes::copy_from_slice(now), is_last && later.is_empty());
            sent.map_err(|error| ended(io::Error::new(io::ErrorKind::BrokenPipe, error)))?;
            on_stream.took(now.len());
            piece = later;
        }
        Ok(())
    }

    fn send_head(&mut self, end: bool) -> Result<(), Broken> {
        let Stage::Head(respond) = &mut self.stage else { return Ok(()) };
        let response = std::mem::replace(&mut self.response, Response::new(()));
        let stream = respond.send_response(response, end).map_err(broken)?;
        self.stage = if end { Stage::Ended } else { Stage::Body(stream) };
        Ok(())
    }
}

/// Both were checked when they were parsed; what HTTP/2 cannot carry is left out.
fn put(response: &mut Response<()>, name: &[u8], value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        response.headers_mut().append(name, value);
    }
}

/// Bytes that the client lets this stream send now. A wait that is due to other streams of the connection, whose socket is full, is not this one's fault:
/// the socket has a watch of its own.
fn poll_window(
    stream: &mut SendStream<Bytes>,
    watch: &mut Watch,
    outbox: &Outbox,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    loop {
        let window = stream.capacity();
        if window > 0 {
            return Poll::Ready(Ok(window));
        }
        match stream.poll_capacity(context) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(error))) => {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, error)));
            }
            Poll::Ready(None) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Poll::Pending => break,
        }
    }
    loop {
        ready!(watch.poll_too_slow(context));
        if !outbox.is_blocked() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        watch.excuse();
    }
}

impl Sending {
    /// Why nothing can be sent any more: because of this error, or because the whole connection took nothing for too long.
    fn ended(&self, error: io::Error) -> Broken {
        Broken::Socket(if self.outbox.has_timed_out() { io::ErrorKind::TimedOut.into() } else { error })
    }
}

/// Sends one piece as the peer's window allows; with `is_last`, its end ends the stream.
pub async fn send_data(stream: &mut SendStream<Bytes>, mut piece: Bytes, is_last: bool) -> Result<(), Broken> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let capacity = match poll_fn(|context| stream.poll_capacity(context)).await {
            Some(Ok(capacity)) => capacity.min(piece.len()),
            Some(Err(error)) => return Err(broken(error)),
            None => return Err(Broken::Socket(std::io::ErrorKind::BrokenPipe.into())),
        };
        let part = piece.split_to(capacity);
        stream.send_data(part, is_last && piece.is_empty()).map_err(broken)?;
    }
    Ok(())
}

/// A failure of the library as one of the connection.
pub fn broken(error: h2::Error) -> Broken {
    Broken::Socket(std::io::Error::new(std::io::ErrorKind::BrokenPipe, error))
}

impl TunnelSink for H2Answer {
    /// What its connection as a whole has to take is bounded as before.
    fn begin_tunnel(&mut self, idle: Duration) {
        self.on_stream.begin_tunnel(idle);
    }

    fn taken(&self) -> StreamTaken {
        StreamTaken { given: self.on_stream.given(), socket: Some(Rc::clone(&self.sending.transport)) }
    }

    /// Onto the socket, behind which the reset goes.
    async fn delivered(&mut self) {
        let Stage::Body(stream) = &mut self.stage else { return };
        // The library lets go of it once all that came before it is written.
        let (empty, mut written) = marker([]);
        if stream.send_data(empty, false).is_err() {
            return;
        }
        poll_fn(|context| match Pin::new(&mut written).poll(context) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => self.poll_gone(context).map(drop),
        })
        .await;
    }
}

impl ResponseSink for H2Answer {
    fn pace(&mut self, pace: Pace) {
        if self.on_stream.set_pace(pace) {
            self.sending.transport.loosen_writes(pace);
        }
    }

    fn throttle(&mut self, throttles: &Throttles) {
        self.on_stream.throttles = throttles.clone();
    }

    fn throttles(&self) -> Option<&Throttles> {
        Some(&self.on_stream.throttles)
    }

    fn takes_interim(&self) -> bool {
        true
    }

    fn be_last(&mut self) {}

    async fn interim(&mut self, head: &ResponseHead) -> Result<(), Broken> {
        let Stage::Head(respond) = &mut self.stage else { return Ok(()) };
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::CONTINUE);
        interim_fields(head, |name, value| put(&mut response, name, value));
        respond.send_informational(response).map_err(broken)
    }

    fn decorate(&mut self, decoration: Decoration) {
        self.on_stream.decorate(decoration);
    }

    fn begin(&mut self, status: u16) {
        self.response = Response::new(());
        let status = StatusCode::from_u16(self.on_stream.status(status));
        *self.response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if !self.on_stream.drops(name) {
            put(&mut self.response, name, value);
        }
    }

    fn finish_head(&mut self, framing: BodyFraming, declared_length: Option<&[u8]>) {
        let H2Answer { on_stream, response, .. } = self;
        let status = response.status().as_u16();
        on_stream.finish_head(status, framing, declared_length, |name, value| put(response, name, value));
    }

    fn switch(&mut self, _protocol: &[u8]) {
        self.finish_head(BodyFraming::Chunked, None);
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        // Whether trailers follow is known at the end, also where there is no content.
        self.send_head(false)
    }

    fn has_capacity(&mut self, bytes: usize) -> bool {
        if self.on_stream.throttles.down().is_some() {
            // While it waits it keeps none of the connection's window from other streams.
            return false;
        }
        if let Stage::Body(stream) = &mut self.stage {
            stream.reserve_capacity(bytes);
            return self.sending.outbox.has_capacity(bytes) && stream.capacity() >= bytes;
        }
        self.sending.outbox.has_capacity(bytes)
    }

    async fn piece_now(&mut self, piece: &[u8]) -> Result<(), Broken> {
        self.send_head(false)?;
        if !self.on_stream.takes_content() {
            return Ok(());
        }
        let is_last = self.on_stream.sends(piece.len());
        self.send_body(piece, is_last).await?;
        if is_last {
            self.stage = Stage::Ended;
        }
        Ok(())
    }

    async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Broken> {
        self.send_head(trailers.is_none())?;
        let Stage::Body(stream) = &mut self.stage else { return Ok(()) };
        let ended = match trailers {
            Some(trailers) => stream.send_trailers(fields_to_trailers(trailers)),
            None => stream.send_data(Bytes::new(), true),
        };
        ended.map_err(broken)?;
        self.stage = Stage::Ended;
        Ok(())
    }

    async fn last(&mut self, piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken> {
        if trailers.is_none() && !piece.is_empty() {
            // The end goes with the last bytes.
            self.on_stream.ends_with(piece.len());
        }
        if !piece.is_empty() {
            self.piece(piece).await?;
        }
        self.end(trailers).await
    }

    fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Head(_))
    }

    fn reached(&self) -> Option<SocketAddr> {
        self.sending.transport.stream().local()
    }

    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<Reason> {
        let gone = match &mut self.stage {
            Stage::Head(respond) => respond.poll_reset(context),
            Stage::Body(stream) => stream.poll_reset(context),
            Stage::Ended => return Poll::Pending,
        };
        gone.map(|gone| match gone {
            Ok(_) => Reason::ClientDisconnected,
            Err(_) if self.sending.outbox.has_timed_out() => Reason::ClientWriteTimeout,
            Err(_) => Reason::ClientDisconnected,
        })
    }
}
