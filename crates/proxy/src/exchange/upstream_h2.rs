//! One try of a request at one server over HTTP/2 (RFC 9113): with prior knowledge in the clear, or by ALPN under TLS.
//!
//! Connections belong to a worker and carry many requests at once; a stream that is dropped is reset.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason as ErrorCode, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use net::Deadline;
use reason::Reason;
use transport::{Broken, Transport, buffer, recycle};
use wire::http::{BodyFraming, Fields, Method, ResponseHead, Version};

use crate::exchange::Exchange;
use crate::exchange::hedge::Aside;
use crate::exchange::relay::{self, Flow, Upload, UploadError};
use crate::exchange::replay::Replay;
use crate::exchange::respond::relay_response;
use crate::exchange::retry::{Failed, Fate, OnConnection};
use crate::exchange::upstream_h1::{Attempt, Interim, connected, fresh_connection, head_arrived, stopped_failure};
use crate::message::context::Failure;
use crate::message::forwarding;
use crate::message::h2::{H2Body, broken, fields_to_trailers, send_data};
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::message::sides::{BodySink, MessageBody, ResponseSink, while_wanted};
use crate::route::{self, Noted};
use crate::upstream::h2::{STREAMS_PER_WINDOW, open, windows};
use crate::upstream::{Awaited, Opening, SharedConnection, StreamSlot, Traffic, speaks_http2};

/// Connections of one server that may turn out to be over, one behind the other, before that counts as a failure of the server.
const CONNECTIONS_OVER: u32 = 2;

/// Tries a request at one server. Where it was not looked at because its connection ends (RFC 9113 §6.8), it goes to another connection, which is no
/// retry; where the stream was refused (§8.7), it goes once more to the same server, which is one.
///
/// # Errors
/// See [`Failed`].
pub async fn attempt<B: MessageBody, A: ResponseSink>(
    attempt: &Attempt<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failed> {
    let (mut over, mut turned_away) = (0, false);
    loop {
        let request = request(attempt, exchange.ledger.noted()).map_err(Failed::finally)?;
        // The last try is not spent on a connection that may be about to end.
        let fresh = attempt.fresh || over == CONNECTIONS_OVER;
        let tried = match connection(&Attempt { fresh, ..*attempt }, exchange.sink, exchange.ledger).await {
            Ok((shared, was_used)) => {
                let _stream = shared.enter();
                stream((&shared, was_used), request, attempt, exchange).await
            }
            Err(failed) => Err(failed),
        };
        let Err(failed) = tried else { return Ok(()) };
        let is_again = failed.is_open(exchange.sink)
            && match failed.fate {
                Fate::ConnectionOver => over < CONNECTIONS_OVER,
                Fate::TurnedAway => !turned_away && attempt.group.may_retry(&attempt.context.worker.report),
                Fate::Unknown | Fate::Unsent | Fate::NoConnection | Fate::Stale | Fate::Status(_) => false,
            };
        if !is_again {
            return Err(failed.check(attempt.admitted.head(), exchange.sink));
        }
        over += u32::from(failed.fate == Fate::ConnectionOver);
        turned_away |= failed.fate == Fate::TurnedAway;
        exchange.ledger.retries += u32::from(failed.fate == Fate::TurnedAway);
    }
}

/// A connection with room for one more stream: one at hand, which was used before, one that another request is opening, or a new one.
async fn connection(
    attempt: &Attempt<'_>,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(Rc<SharedConnection>, bool), OnConnection> {
    let pools = &attempt.context.worker.pools;
    if let Some(shared) = pools.share(attempt.pool).filter(|_| !attempt.fresh) {
        return Ok((shared, true));
    }
    if let Some(awaited) = pools.await_shared(attempt.pool).filter(|_| !attempt.fresh) {
        while_wanted(Box::pin(opened_by_another(attempt, awaited)), sink).await.map_err(|why| {
            ledger.blame(why);
            OnConnection::clients(Failure::Aborted)
        })?;
        if let Some(shared) = pools.share(attempt.pool) {
            return Ok((shared, true));
        }
    }
    let opening = pools.open_shared(attempt.pool);
    let transport = fresh_connection(attempt, true, sink, ledger).await?;
    Ok((begun(attempt, opening, transport).await?, false))
}

/// As [`connection`], for one of several servers that are asked beside each other.
async fn connection_aside(
    attempt: &Attempt<'_>,
    reached: Option<SocketAddr>,
) -> Result<(Rc<SharedConnection>, bool), OnConnection> {
    let pools = &attempt.context.worker.pools;
    if let Some(shared) = pools.share(attempt.pool).filter(|_| !attempt.fresh) {
        return Ok((shared, true));
    }
    if let Some(awaited) = pools.await_shared(attempt.pool).filter(|_| !attempt.fresh) {
        opened_by_another(attempt, awaited).await;
        if let Some(shared) = pools.share(attempt.pool) {
            return Ok((shared, true));
        }
    }
    let opening = pools.open_shared(attempt.pool);
    let transport = connected(attempt, true, reached).await?;
    Ok((begun(attempt, opening, transport).await?, false))
}

/// Waits for a connection that another request opens. That one may have no luck, or a server that says nothing; then each opens one itself.
pub(super) async fn opened_by_another(attempt: &Attempt<'_>, awaited: Rc<Awaited>) {
    let _ = Deadline::new().within(attempt.group.config.connect_timeout, awaited.over()).await;
}

/// Begins HTTP/2 on a connection just opened, for everybody.
pub(super) async fn begun(
    attempt: &Attempt<'_>,
    opening: Opening,
    transport: Transport,
) -> Result<Rc<SharedConnection>, OnConnection> {
    let pools = &attempt.context.worker.pools;
    if attempt.group.negotiator().is_some() && !speaks_http2(&transport) {
        // It did, when a connection was opened to it before.
        attempt.server.note_version(true);
        let failed = OnConnection::servers(Rejection::of(Reason::UpstreamHttp2Handshake));
        return Err(OnConnection { fate: Fate::Unsent, ..failed });
    }
    let transport = Rc::new(transport);
    let opened = open(Rc::clone(&transport)).await;
    let (sender, mut connection, noticed) =
        opened.map_err(|_| OnConnection::servers(Rejection::of(Reason::UpstreamHttp2Handshake)))?;
    let limits = &attempt.context.generation.config.limits;
    let mut windows = windows(&mut connection, attempt.context.worker.window_growth(limits, STREAMS_PER_WINDOW));
    let heard = Rc::clone(&noticed);
    let shared = Rc::new(SharedConnection::new(sender, noticed, transport, attempt.group.config.pool_idle_timeout));
    // Whoever holds a handle keeps the connection open, so that this task must not.
    let watched = Rc::downgrade(&shared);
    tokio::task::spawn_local(async move {
        let (mut connection, mut opening) = (pin!(connection), Some(opening));
        // The library's end of the connection; it is over when all its streams are and nobody can open another.
        poll_fn(|context| {
            windows.poll(&mut *connection, &heard.taken, 0, context);
            let ended = connection.as_mut().poll(context);
            // The server has said how many streams it takes (RFC 9113 §3.4).
            if heard.traffic().1 > 0 {
                opening = None;
            }
            ended.map(|_| ())
        })
        .await;
        watched.upgrade().iter().for_each(|shared| shared.close());
    });
    pools.add_shared(attempt.server, &shared);
    Ok(shared)
}

/// A response that has begun on a stream.
pub(super) struct Begun {
    body: H2Body,
    _stream: StreamSlot,
}

/// Sends a request without a body to one of several servers that are asked beside each other, and waits for the head of its response. Goes to another
/// connection as [`attempt`] does.
pub(super) async fn ask(
    attempt: &Attempt<'_>,
    request: &Request<()>,
    aside: &Aside,
    response: &mut ResponseHead,
) -> Result<Begun, OnConnection> {
    let (mut over, mut turned_away) = (0, false);
    loop {
        let fresh = attempt.fresh || over == CONNECTIONS_OVER;
        let asked = match connection_aside(&Attempt { fresh, ..*attempt }, aside.reached).await {
            Ok(connection) => ask_on(connection, request.clone(), attempt, aside, response).await,
            Err(failed) => Err(failed),
        };
        let Err(failed) = asked else { return asked };
        match failed.fate {
            Fate::ConnectionOver if over < CONNECTIONS_OVER => over += 1,
            Fate::TurnedAway if !turned_away && attempt.group.may_retry(&attempt.context.worker.report) => {
                turned_away = true;
                aside.note_retry();
            }
            _ => return Err(failed),
        }
    }
}

async fn ask_on(
    (shared, was_used): (Rc<SharedConnection>, bool),
    request: Request<()>,
    attempt: &Attempt<'_>,
    aside: &Aside,
    response: &mut ResponseHead,
) -> Result<Begun, OnConnection> {
    let slot = shared.enter();
    let (mut answered, _) = begin(&shared, request, true).await?;
    let sent = Sent { shared: &shared, was_used, stream: answered.stream_id().as_u32(), before: shared.traffic() };
    let (method, mut interim) = (&attempt.admitted.head().method, Interim::default());
    let reading = async {
        loop {
            let (parts, stream) = next_head(&mut answered, sent, attempt.replay).await?.into_parts();
            read_response(&parts, stream.as_ref().is_none_or(RecvStream::is_end_stream), method, response);
            match stream {
                Some(stream) => return Ok(stream),
                None if response.status == 101 => {
                    return Err(OnConnection::servers(Rejection::of(Reason::UnexpectedUpgrade)));
                }
                None if interim.is_for_client(attempt, response)? => aside.pass(response),
                None => {}
            }
        }
    };
    let read = Deadline::new().within(attempt.patience(), reading).await;
    let stream = read.unwrap_or_else(|_| Err(OnConnection::servers(Rejection::of(Reason::ResponseHeaderTimeout))))?;
    let body = H2Body::new(stream, shared.noticed(), response.framing, false);
    if body.malformed().is_some() {
        return Err(OnConnection::servers(Rejection::of(Reason::ResponseMalformed)));
    }
    Ok(Begun { body, _stream: slot })
}

/// Relays a response that has begun, its head in the exchange.
pub(super) async fn relay_begun<B: MessageBody, A: ResponseSink>(
    attempt: &Attempt<'_>,
    mut begun: Begun,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), OnConnection> {
    let Exchange { response, sink, ledger, timers, .. } = exchange;
    let (sent, flow) = (pin!(std::future::ready(Ok(()))), Flow::default());
    let mut upload = Upload::new(sent);
    let deadline = &mut timers.download;
    relay_response(attempt, response, &mut begun.body, *sink, ledger, deadline, &mut upload, &flow).await
}

/// The request as the upstream shall see it.
pub(super) fn request(attempt: &Attempt<'_>, noted: Noted<'_>) -> Result<Request<()>, Rejection> {
    let bad = || Rejection::of(Reason::BadRequestForHttp2);
    let head = attempt.admitted.head();
    let mut target = buffer();
    let params = attempt.admitted.params();
    let values = || attempt.context.values(head, params, noted);
    route::build_target(attempt.forward, head, values, &mut target).map_err(|_| Rejection::of(Reason::BadParameter))?;
    let authority = forwarding::host(&attempt.forward.host, head, attempt.server.authority.as_bytes());
    let scheme = if attempt.group.connector().is_some() { "https" } else { "http" };
    let uri =
        http::Uri::builder().scheme(scheme).authority(authority.as_ref()).path_and_query(target.as_slice()).build();
    recycle(target);
    let mut request = Request::new(());
    *request.uri_mut() = uri.map_err(|_| bad())?;
    *request.method_mut() = http::Method::from_bytes(head.method.as_str().as_bytes()).map_err(|_| bad())?;
    *request.version_mut() = http::Version::HTTP_2;
    let config = &attempt.admitted.route().config;
    let forwarding = &attempt.context.generation.config.forwarding;
    let facts = attempt.facts();
    let headers = request.headers_mut();
    forwarding::request_fields(head, &facts, forwarding, noted, (config, params), |name, value| {
        put(headers, name, value);
    });
    if let BodyFraming::Length(length) = head.framing {
        request.headers_mut().insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(request)
}

/// Adds a field; both parts were checked when they were parsed, and what HTTP/2 cannot carry is left out.
fn put(headers: &mut HeaderMap, name: &[u8], value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        headers.append(name, value);
    }
}

/// The sending side of a stream as a place for a body.
struct H2Sink<'r> {
    stream: SendStream<Bytes>,
    replay: &'r Replay,
    /// Bytes so far.
    at: usize,
}

impl H2Sink<'_> {
    async fn send(&mut self, piece: &[u8], is_last: bool) -> Result<(), Broken> {
        let piece = Bytes::copy_from_slice(piece);
        self.replay.keep(self.at, &piece);
        self.at += piece.len();
        send_data(&mut self.stream, piece, is_last).await
    }
}

impl BodySink for H2Sink<'_> {
    async fn write(&mut self, _: &[u8], piece: &[u8]) -> Result<(), Broken> {
        if piece.is_empty() { Ok(()) } else { self.send(piece, false).await }
    }

    async fn finish(&mut self, _: &[u8], piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken> {
        if !piece.is_empty() {
            let is_last = trailers.is_none();
            self.send(piece, is_last).await?;
            if is_last {
                return Ok(());
            }
        }
        match trailers {
            Some(trailers) => {
                self.replay.keep_trailers(trailers);
                self.stream.send_trailers(fields_to_trailers(trailers))
            }
            None => self.stream.send_data(Bytes::new(), true),
        }
        .map_err(broken)
    }
}

async fn stream<B: MessageBody, A: ResponseSink>(
    (shared, was_used): (&SharedConnection, bool),
    request: Request<()>,
    attempt: &Attempt<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), OnConnection> {
    let Exchange { response, body, sink, ledger, timers, .. } = exchange;
    let started = Instant::now();
    let mut body = attempt.replay.whole(*body);
    let is_bodiless = body.is_done() && !body.has_trailers();
    let (mut answered, upload_stream) = begin(shared, request, is_bodiless).await?;
    let sent = Sent { shared, was_used, stream: answered.stream_id().as_u32(), before: shared.traffic() };
    let flow = Flow::default();
    let sending = async {
        if is_bodiless {
            return Ok::<(), UploadError>(());
        }
        let sink = H2Sink { stream: upload_stream, replay: attempt.replay, at: 0 };
        relay::upload(&[], &mut body, sink, attempt.upload_terms(), &flow, &mut timers.upload).await
    };
    let sending = pin!(sending);
    let mut upload = Upload::new(sending);
    let method = &attempt.admitted.head().method;
    let mut interim = Interim::default();
    let stream = loop {
        let patience = Some((&mut timers.head, attempt.patience()));
        let next = next_head(&mut answered, sent, attempt.replay);
        let read = upload.beside(next, patience, |context| sink.poll_gone(context)).await;
        ledger.received.set(flow.received.get());
        let (parts, stream) = read.map_err(|stopped| stopped_failure(stopped, ledger))??.into_parts();
        read_response(&parts, stream.as_ref().is_none_or(RecvStream::is_end_stream), method, response);
        match stream {
            Some(stream) => break stream,
            // HTTP/2 knows no upgrades (RFC 9113 §8.6).
            None if response.status == 101 => {
                return Err(OnConnection::servers(Rejection::of(Reason::UnexpectedUpgrade)));
            }
            None => interim.pass(attempt, response, *sink, ledger).await?,
        }
    };
    attempt.check_status(response.status)?;
    head_arrived(response, ledger, started.elapsed());
    attempt.replay.give_up();
    let mut incoming = H2Body::new(stream, shared.noticed(), response.framing, false);
    if incoming.malformed().is_some() {
        return Err(OnConnection::servers(Rejection::of(Reason::ResponseMalformed)));
    }
    let deadline = &mut timers.download;
    relay_response(attempt, response, &mut incoming, *sink, ledger, deadline, &mut upload, &flow).await
}

/// The next head of a response: an interim one, which comes without a body, or the final one.
async fn next_head(
    answered: &mut ResponseFuture,
    sent: Sent<'_>,
    replay: &Replay,
) -> Result<Response<Option<RecvStream>>, OnConnection> {
    let head = poll_fn(|context| match answered.poll_informational(context) {
        Poll::Ready(Some(interim)) => Poll::Ready(interim.map(|head| head.map(|()| None))),
        Poll::Ready(None) => Pin::new(&mut *answered).poll(context).map_ok(|head| head.map(Some)),
        Poll::Pending => Poll::Pending,
    });
    head.await.map_err(|error| match sent.fate(&error) {
        // The deadline of a gRPC call may pass there first: a server that gives up one call is well.
        Fate::Unknown if error.is_remote() && error.reason() == Some(ErrorCode::CANCEL) => {
            OnConnection::clients(Rejection::of(Reason::UpstreamCancelled))
        }
        // It would be unsent, but its body is not here any more.
        Fate::Unsent | Fate::ConnectionOver | Fate::TurnedAway if !replay.is_whole() => failure(Fate::Unknown),
        fate => failure(fate),
    })
}

/// Opens a stream. Where that cannot be done nothing was sent, and the connection is of no more use: it has ended, or its stream ids are used up.
async fn begin(
    shared: &SharedConnection,
    request: Request<()>,
    is_bodiless: bool,
) -> Result<(ResponseFuture, SendStream<Bytes>), OnConnection> {
    let over = |_| {
        shared.close();
        failure(Fate::ConnectionOver)
    };
    let mut sender = shared.sender().ready().await.map_err(over)?;
    sender.send_request(request, is_bodiless).map_err(over)
}

/// A request that was handed to a connection.
#[derive(Clone, Copy)]
struct Sent<'a> {
    shared: &'a SharedConnection,
    /// The connection had carried others before.
    was_used: bool,
    stream: u32,
    before: Traffic,
}

impl Sent<'_> {
    /// What is known of it when its stream has failed.
    fn fate(&self, error: &h2::Error) -> Fate {
        let noticed = self.shared.noticed();
        if noticed.is_ignored(self.stream) {
            return Fate::ConnectionOver;
        }
        if error.is_remote() && error.reason() == Some(ErrorCode::REFUSED_STREAM) {
            return Fate::TurnedAway;
        }
        let now = self.shared.traffic();
        let sent = now.sent - self.before.sent;
        // Nothing went out, or the connection ended before any of it was received.
        if now.written == self.before.written
            || (error.is_io() && sent <= self.shared.transport().stream().unsent_bytes())
        {
            return Fate::ConnectionOver;
        }
        if error.is_io() && self.was_used && now.heard == self.before.heard { Fate::Stale } else { Fate::Unknown }
    }
}

fn failure(fate: Fate) -> OnConnection {
    OnConnection { fate, ..OnConnection::servers(Rejection::of(Reason::UpstreamHttp2Error)) }
}

fn read_response(parts: &http::response::Parts, is_end: bool, method: &Method, head: &mut ResponseHead) {
    head.clear();
    head.status = parts.status.as_u16();
    head.version = Version::H2;
    for (name, value) in &parts.headers {
        head.fields.push(name.as_str().as_bytes(), value.as_bytes());
    }
    let length = parts.headers.get(http::header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    head.framing = match length {
        _ if is_end || *method == Method::Head => BodyFraming::None,
        Some(length) => BodyFraming::Length(length),
        None => BodyFraming::Chunked,
    };
    head.keep_alive = true;
}
