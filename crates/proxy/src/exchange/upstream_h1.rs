//! One try of a request at one server over HTTP/1.1: send it, read the response's head, relay the rest.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Forward, UpstreamProtocol};
use net::{Chunk, Deadline};
use reason::{Reason, Side};
use transport::{Broken, Transport, buffer, recycle};
use wire::http::http1::{Parsed, parse_response, write_field};
use wire::http::{BodyFraming, HeadLimits, Method, RequestHead, ResponseHead, Version};

use crate::exchange::Exchange;
use crate::exchange::compress::Compressing;
use crate::exchange::hedge::Aside;
use crate::exchange::relay::{self, DownloadError, Flow, Stopped, Upload, UploadError, UploadTerms};
use crate::exchange::replay::Replay;
use crate::exchange::respond::relay_response;
use crate::exchange::retry::{Ahead, Failed, Fate, OnConnection, may_repeat};
use crate::guard::{Admitted, Messages};
use crate::message::body::{BodyError, BodyReader, BodyWriter};
use crate::message::context::{Context, Failure, client_failed};
use crate::message::forwarding::{self, Facts};
use crate::message::ledger::Ledger;
use crate::message::opening;
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink, while_wanted};
use crate::onward::Onward;
use crate::route::{self, Noted};
use crate::upstream::{Care, ConnectError, Group, PoolId, Rest, Server, Session, Target, TunnelPlace, connect};

/// What is tried, and where.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Where the request comes from.
    pub context: Context<'a>,
    /// The request, admitted.
    pub admitted: &'a Admitted<'a>,
    /// How it is forwarded.
    pub forward: &'a Forward,
    /// The group.
    pub group: &'a Group,
    /// The server.
    pub server: &'a Arc<Server>,
    /// Where its connections are kept.
    pub pool: PoolId,
    /// No connection at hand will do.
    pub fresh: bool,
    /// What ends it, so that another server has its turn.
    pub ahead: Option<Ahead>,
    /// The client's sticky session.
    pub session: Session,
    /// What its connections say of the client; none where they are everybody's.
    pub onward: Option<&'a Onward>,
    /// What was sent of the body before.
    pub replay: &'a Replay,
}

impl Attempt<'_> {
    /// What the upstream learns about the client.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            checked: self.admitted.is_under_contract(),
            continued: self.admitted.has_continued(),
            validates_messages: self.admitted.validates_messages(),
            ..self.context.facts()
        }
    }

    /// A connection at hand, which serves nobody else where it was made for this client.
    fn pooled(&self) -> Option<Transport> {
        let (pools, care) = (&self.context.worker.pools, care_of(self.admitted.head()));
        match self.onward {
            None => pools.take(self.pool, care),
            Some(onward) => pools.take_bound(onward.key(self.pool), care),
        }
    }

    /// Keeps a connection that is free again after this response.
    fn keep(&self, transport: Transport, response: &ResponseHead) {
        let (pools, config) = (&self.context.worker.pools, &self.group.config);
        let rest = Rest::after(config.pool_idle_timeout, response.fields.get_all("keep-alive"));
        let (Some(rest), most) = (rest, config.pool_max_idle) else { return };
        match self.onward {
            None => pools.put(self.server, transport, rest, most),
            Some(onward) => pools.put_bound(onward.key(self.pool), self.server, transport, rest, most),
        }
    }

    /// What the request's body is held to.
    pub(crate) fn upload_terms(&self) -> UploadTerms {
        let route = &self.admitted.route().config;
        let limits = self.context.limits();
        let mut pace = route.pace(limits);
        if self.is_grpc() && route.options.min_body_rate.is_none() {
            // Messages that come as they happen: how often is nobody's business but theirs.
            pace.min_rate = 0;
        }
        UploadTerms { pace, max_body_bytes: route.max_body(limits), stall: self.group.config.idle_timeout }
    }

    /// A call of gRPC, to a server that may understand it: what a client says of its body alone loosens nothing.
    fn is_grpc(&self) -> bool {
        let head = self.admitted.head();
        let takes_http2 = match self.group.config.protocol {
            UpstreamProtocol::Http2 => true,
            // As was agreed on for the connection that it goes over.
            UpstreamProtocol::Auto => !self.server.speaks_http1(),
            UpstreamProtocol::Http1 | UpstreamProtocol::Tcp | UpstreamProtocol::Udp => false,
        };
        let may_be_call = matches!(head.version, Version::H2 | Version::H3) && takes_http2;
        may_be_call && head.fields.get("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"))
    }

    /// How long the head of the response may take.
    pub(crate) fn patience(&self) -> Duration {
        let own = self.admitted.route().config.options.response_header_timeout;
        let limit = own.unwrap_or(self.group.config.response_header_timeout);
        self.time_left().map_or(limit, |left| left.min(limit))
    }

    /// How much is left of the time of this try, where another one may follow.
    fn time_left(&self) -> Option<Duration> {
        Some(self.ahead?.until?.saturating_duration_since(Instant::now()))
    }

    /// Gives up a response of this status for one of another server, where that may be tried and the budget has a retry.
    pub(crate) fn check_status(&self, status: u16) -> Result<(), OnConnection> {
        let is_retried = self.ahead.is_some_and(|ahead| ahead.statuses.contains(status))
            && self.group.may_retry(&self.context.worker.report);
        if !is_retried {
            return Ok(());
        }
        let failed = OnConnection::servers(Rejection::of(Reason::NoHealthyUpstream));
        Err(OnConnection { fate: Fate::Status(status), ..failed })
    }

    /// What the head of a response is held to.
    fn head_limits(&self) -> HeadLimits {
        let limits = &self.context.generation.config.limits;
        HeadLimits {
            head_bytes: limits.max_response_header_bytes.min(net::chunk::CHUNK_BYTES),
            request_line_bytes: limits.max_request_line_bytes,
            fields: limits.max_headers,
        }
    }

    /// How long nothing may move either way once there is a response.
    pub(crate) fn idle(&self) -> Duration {
        self.admitted.route().config.options.stream_idle_timeout.unwrap_or(self.group.config.idle_timeout)
    }
}

/// A connection whose upstream granted an upgrade, and what it sent already. Boxed wherever it goes: every exchange has room for it in what it gives back.
#[derive(Debug)]
pub struct Upgraded {
    /// The upstream's connection.
    pub transport: Transport,
    /// Bytes behind the 101.
    pub first: Chunk,
    /// Where it counts while the tunnel is open; none until the exchange, which counts it so far, is over.
    pub place: Option<TunnelPlace>,
    /// What validates the messages of a WebSocket.
    pub messages: Option<Messages>,
}

/// Tries a request at one server, on the connection `given`, if there is one, which was used before or not. A pooled connection that had ended before the request reached the server is replaced once by a fresh one.
///
/// # Errors
/// See [`Failed`].
pub async fn attempt<B: MessageBody, A: ResponseSink>(
    attempt: &Attempt<'_>,
    given: Option<(Transport, bool)>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failed> {
    let mut head = buffer();
    write_head(attempt, exchange.ledger.noted(), &mut head).map_err(Failed::finally)?;
    let pooled = || attempt.pooled().map(|transport| (transport, true));
    let at_hand = if given.is_none() && !attempt.fresh { pooled() } else { given };
    let mut result = match at_hand {
        Some(connection) => Some(on_connection(connection, &head, attempt, exchange).await),
        None => None,
    };
    if result.as_ref().is_none_or(|tried| matches!(tried, Err(OnConnection { fate: Fate::ConnectionOver, .. }))) {
        result = Some(match fresh_connection(attempt, false, exchange.sink, exchange.ledger).await {
            Ok(transport) => on_connection((transport, false), &head, attempt, exchange).await,
            Err(failed) => Err(failed),
        });
    }
    recycle(head);
    // There is always a result here.
    let result = result.unwrap_or_else(|| Err(OnConnection::servers(Rejection::of(Reason::UpstreamClosed))));
    result.map_err(|failed| failed.check(attempt.admitted.head(), exchange.sink))
}

/// What a request asks of a connection that has rested: one that is sent once asks more.
pub(super) fn care_of(head: &RequestHead) -> Care {
    if may_repeat(head) { Care::Usual } else { Care::Unrepeatable }
}

/// A wait for a connect after which it is the server's failure that the client gave up. By then the kernel has asked twice.
pub(super) const SLOW_CONNECT: Duration = Duration::from_secs(1);

/// Connects while the client waits for it. `negotiates`: see [`Target`].
pub(super) async fn fresh_connection(
    attempt: &Attempt<'_>,
    negotiates: bool,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<Transport, OnConnection> {
    let started = Instant::now();
    // The future is big and rare.
    let connecting = Box::pin(connected(attempt, negotiates, sink.reached()));
    while_wanted(connecting, sink).await.unwrap_or_else(|why| {
        ledger.blame(why);
        // Impatient clients must not keep a server in use that nobody can connect to.
        let servers_fault = started.elapsed() >= SLOW_CONNECT;
        Err(OnConnection { servers_fault, ..OnConnection::clients(Failure::Aborted) })
    })
}

/// Connects for a client whose connection has `reached` this address.
pub(super) async fn connected(
    attempt: &Attempt<'_>,
    negotiates: bool,
    reached: Option<SocketAddr>,
) -> Result<Transport, OnConnection> {
    let own = Target::own(attempt.group, attempt.server);
    let (source, header) = match attempt.onward {
        None => (own.source, Vec::new()),
        Some(onward) => {
            onward.check(attempt.server, reached).map_err(OnConnection::clients)?;
            (onward.source(), onward.header(attempt.context.conn, reached))
        }
    };
    let target = Target { source, ahead: &header, negotiates, ..own };
    let connected = match attempt.time_left() {
        None => connect(target).await,
        Some(left) => Deadline::new().within(left, connect(target)).await.unwrap_or(Err(ConnectError::Timeout)),
    };
    connected.map_err(|error| {
        if source.address.is_some() && error.reason().side() == Side::Proxy {
            // A privilege that we lack: nothing that another server could help.
            return OnConnection::clients(Rejection::of(error.reason()));
        }
        cannot_connect(attempt.server, &error)
    })
}

pub(crate) fn cannot_connect(server: &Server, error: &ConnectError) -> OnConnection {
    if error.is_our_shortage() {
        // No descriptors or no memory: nothing that the server could help.
        let failure = Rejection::of(Reason::NoDescriptors).into();
        return OnConnection { failure, servers_fault: false, fate: Fate::Unsent };
    }
    tracing::debug!(server = %server.name, ?error, "cannot connect");
    let failure = Rejection::of(error.reason()).into();
    // Who said no at once got nothing and cost nothing: to go on is no retry. Who said nothing cost the client that time.
    let fate = if matches!(error, ConnectError::Timeout) { Fate::Unsent } else { Fate::NoConnection };
    OnConnection { failure, servers_fault: true, fate }
}

/// What a connection is good for after a message.
enum After {
    /// Another request.
    Reuse,
    /// Nothing.
    Close,
    /// A tunnel.
    Tunnel,
}

async fn on_connection<B: MessageBody, A: ResponseSink>(
    (transport, was_used): (Transport, bool),
    head: &[u8],
    attempt: &Attempt<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, OnConnection> {
    let mut input = Chunk::empty();
    let body_was_done = exchange.body.is_done();
    let borrowed = attempt.onward.and_then(|onward| onward.source().address);
    exchange.ledger.port_kept = borrowed.map(|_| transport.stream().port_kept());
    let after = message((&transport, &mut input), head, attempt, exchange).await.map_err(|failed| {
        let is_untouched = exchange.ledger.received.get() == 0 && exchange.body.is_done() == body_was_done;
        let fate = match failed.fate {
            Fate::Stale if !was_used => Fate::Unknown,
            Fate::ConnectionOver if !is_untouched => Fate::Unknown,
            fate => fate,
        };
        OnConnection { fate, ..failed }
    })?;
    match after {
        After::Tunnel => {
            let messages = attempt.admitted.messages(exchange.response).ok().flatten();
            return Ok(Some(Box::new(Upgraded { transport, first: input, place: None, messages })));
        }
        // Bytes behind the response belong to no request: such a connection is not used again.
        After::Reuse if input.is_empty() => attempt.keep(transport, exchange.response),
        After::Reuse | After::Close => {}
    }
    Ok(None)
}

async fn message<B: MessageBody, A: ResponseSink>(
    (transport, input): (&Transport, &mut Chunk),
    head: &[u8],
    attempt: &Attempt<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<After, OnConnection> {
    let Exchange { response, body, sink, ledger, timers, .. } = exchange;
    let head_limits = attempt.head_limits();
    let request = attempt.admitted.head();
    let started = Instant::now();
    let writer = BodyWriter::new(transport, request.framing);
    let flow = Flow::default();
    let upload = relay::upload(head, *body, writer, attempt.upload_terms(), &flow, &mut timers.upload);
    let mut upload = pin!(upload);
    let mut upload = Upload::new(upload.as_mut());

    let mut interim = Interim::default();
    loop {
        let reading = read_head(transport, input, &request.method, &head_limits, response);
        let patience = Some((&mut timers.head, attempt.patience()));
        let read = upload.beside(reading, patience, |context| sink.poll_gone(context)).await;
        ledger.received.set(flow.received.get());
        let read = read.map_err(|stopped| stopped_failure(stopped, ledger))?;
        read.map_err(|failed| match failed.fate {
            // Not even the head was taken off our hands.
            Fate::Unknown if !interim.has_passed() && upload.rejected && request.framing != BodyFraming::Chunked => {
                OnConnection { fate: Fate::ConnectionOver, ..failed }
            }
            _ if interim.has_passed() => OnConnection { fate: Fate::Unknown, ..failed },
            _ => failed,
        })?;
        if response.status == 101 {
            check_upgrade(request, response, attempt)?;
        }
        if response.status >= 200 || response.status == 101 {
            break;
        }
        interim.pass(attempt, response, *sink, ledger).await?;
    }
    attempt.check_status(response.status)?;
    if request.is_extended_connect() && (200..300).contains(&response.status) {
        // To its client it would say that the tunnel is open.
        return Err(OnConnection::clients(Rejection::of(Reason::WebsocketNotOffered)));
    }
    head_arrived(response, ledger, started.elapsed());
    let is_tunnel = response.status == 101;
    let mut reader = BodyReader::for_response(transport, input, response.framing);
    let deadline = &mut timers.download;
    relay_response(attempt, response, &mut reader, *sink, ledger, deadline, &mut upload, &flow).await?;
    Ok(match upload.is_complete() && response.keep_alive && reader.is_done() {
        _ if is_tunnel => After::Tunnel,
        true => After::Reuse,
        false => After::Close,
    })
}

/// A response that has begun: its connection, and what came behind the head.
#[derive(Debug)]
pub(super) struct Begun {
    transport: Transport,
    input: Chunk,
}

/// Sends a request without a body to one of several servers that are asked beside each other, and waits for the head of its response.
pub(super) async fn ask(
    attempt: &Attempt<'_>,
    given: Option<(Transport, bool)>,
    head: &[u8],
    aside: &Aside,
    response: &mut ResponseHead,
) -> Result<Begun, OnConnection> {
    let pooled = || attempt.pooled().map(|transport| (transport, true));
    let at_hand = if given.is_none() && !attempt.fresh { pooled() } else { given };
    if let Some(connection) = at_hand {
        match ask_on(connection, head, attempt, aside, response).await {
            Err(OnConnection { fate: Fate::ConnectionOver, .. }) => {}
            asked => return asked,
        }
    }
    let transport = connected(attempt, false, aside.reached).await?;
    ask_on((transport, false), head, attempt, aside, response).await
}

async fn ask_on(
    (transport, was_used): (Transport, bool),
    head: &[u8],
    attempt: &Attempt<'_>,
    aside: &Aside,
    response: &mut ResponseHead,
) -> Result<Begun, OnConnection> {
    let (mut input, mut deadline, mut interim) = (Chunk::empty(), Deadline::new(), Interim::default());
    let sent = deadline.within(attempt.group.config.idle_timeout, transport.send(head)).await;
    let is_rejected = !matches!(sent, Ok(Ok(())));
    let limits = attempt.head_limits();
    let reading = async {
        loop {
            let read = read_head(&transport, &mut input, &attempt.admitted.head().method, &limits, response).await;
            read.map_err(|failed| match failed.fate {
                _ if interim.has_passed() => OnConnection { fate: Fate::Unknown, ..failed },
                // Not even the head was taken off our hands.
                Fate::Unknown if is_rejected => OnConnection { fate: Fate::ConnectionOver, ..failed },
                Fate::Stale if !was_used => OnConnection { fate: Fate::Unknown, ..failed },
                _ => failed,
            })?;
            match response.status {
                101 => return Err(OnConnection::servers(Rejection::of(Reason::UnexpectedUpgrade))),
                200.. => return Ok(()),
                _ if interim.is_for_client(attempt, response)? => aside.pass(response),
                _ => {}
            }
        }
    };
    let read = deadline.within(attempt.patience(), reading).await;
    read.unwrap_or_else(|_| Err(OnConnection::servers(Rejection::of(Reason::ResponseHeaderTimeout))))?;
    // The server may still wait for the rest of the head: the next request would be read as that.
    response.keep_alive &= !is_rejected;
    Ok(Begun { transport, input })
}

/// Relays a response that has begun, its head in the exchange.
pub(super) async fn relay_begun<B: MessageBody, A: ResponseSink>(
    attempt: &Attempt<'_>,
    Begun { transport, mut input }: Begun,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), OnConnection> {
    let Exchange { response, sink, ledger, timers, .. } = exchange;
    let borrowed = attempt.onward.and_then(|onward| onward.source().address);
    ledger.port_kept = borrowed.map(|_| transport.stream().port_kept());
    let (sent, flow) = (pin!(std::future::ready(Ok(()))), Flow::default());
    let mut upload = Upload::new(sent);
    let mut reader = BodyReader::for_response(&transport, &mut input, response.framing);
    let deadline = &mut timers.download;
    relay_response(attempt, response, &mut reader, *sink, ledger, deadline, &mut upload, &flow).await?;
    let is_done = reader.is_done();
    drop(reader);
    if is_done && response.keep_alive && input.is_empty() {
        attempt.keep(transport, response);
    }
    Ok(())
}

/// Interim answers of one try so far.
#[derive(Debug, Default)]
pub(crate) struct Interim(u32);

impl Interim {
    /// Whether there was one.
    fn has_passed(&self) -> bool {
        self.0 > 0
    }

    /// Passes one on to a client that can take it. A 100 that nobody waits for ends here (RFC 9110 §10.1.1).
    pub(crate) async fn pass(
        &mut self,
        attempt: &Attempt<'_>,
        response: &ResponseHead,
        sink: &mut impl ResponseSink,
        ledger: &mut Ledger,
    ) -> Result<(), OnConnection> {
        if self.is_for_client(attempt, response)? && sink.takes_interim() {
            let sent = sink.interim(response).await;
            sent.map_err(|broken| OnConnection::clients(client_failed(&broken, ledger)))?;
        }
        Ok(())
    }

    /// Counts one, within bounds. Whether a client that takes interim responses is to have it.
    pub(crate) fn is_for_client(
        &mut self,
        attempt: &Attempt<'_>,
        response: &ResponseHead,
    ) -> Result<bool, OnConnection> {
        self.0 += 1;
        if self.0 > attempt.context.generation.config.limits.max_interim_responses {
            return Err(OnConnection::servers(Rejection::of(Reason::TooManyInterimResponses)));
        }
        let awaited = attempt.admitted.head().expects_continue && !attempt.admitted.has_continued();
        Ok(response.status != 100 || awaited)
    }
}

/// Notes that the final head is there.
pub(crate) fn head_arrived(response: &ResponseHead, ledger: &mut Ledger, took: Duration) {
    ledger.upstream_status = Some(response.status);
    ledger.upstream_duration = Some(took);
    ledger.status = response.status;
}

pub(crate) fn stopped_failure(stopped: Stopped, ledger: &mut Ledger) -> OnConnection {
    match stopped {
        Stopped::Elapsed => OnConnection::servers(Rejection::of(Reason::ResponseHeaderTimeout)),
        Stopped::Upload(error) => OnConnection::clients(upload_failure(&error, ledger)),
        Stopped::Gone(why) => {
            ledger.blame(why);
            OnConnection::clients(Failure::Aborted)
        }
    }
}

fn upload_failure(error: &UploadError, ledger: &mut Ledger) -> Failure {
    let rejection = match error {
        UploadError::Client(BodyError::Malformed(error)) => Rejection::from(*error),
        UploadError::Client(BodyError::Validated(rejection)) => Rejection::clone(rejection),
        UploadError::Client(BodyError::Truncated | BodyError::Broken) => {
            return cut_by_client(Reason::RequestTruncated, ledger);
        }
        UploadError::Client(BodyError::Void(reason)) => return cut_by_client(*reason, ledger),
        UploadError::ClientSlow => Rejection::of(Reason::RequestBodyTimeout),
        UploadError::TooLarge => Rejection::of(Reason::BodyTooLarge),
        UploadError::Upstream => Rejection::of(Reason::UpstreamReset),
    };
    ledger.blame_on(rejection.fault, rejection.reason);
    rejection.into()
}

fn cut_by_client(reason: Reason, ledger: &mut Ledger) -> Failure {
    ledger.blame(reason);
    Failure::Aborted
}

/// The answer had begun or might have: nothing can be answered in its place any more.
pub(crate) fn download_failure(error: &DownloadError, ledger: &mut Ledger) -> OnConnection {
    let reason = match error {
        DownloadError::Upstream(BodyError::Validated(rejection)) => {
            ledger.blame_on(rejection.fault, rejection.reason);
            return ended_early(rejection.fault);
        }
        DownloadError::Upstream(BodyError::Truncated) => Reason::ResponseTruncated,
        DownloadError::Upstream(BodyError::Broken) => Reason::UpstreamReset,
        DownloadError::Upstream(BodyError::Malformed(_) | BodyError::Void(_)) => Reason::ResponseMalformed,
        DownloadError::UpstreamSlow => Reason::ResponseBodyTimeout,
        DownloadError::Idle => Reason::StreamIdleTimeout,
        DownloadError::Client => Reason::ClientDisconnected,
        DownloadError::ClientSlow => Reason::ClientWriteTimeout,
        DownloadError::Gone(why) => *why,
    };
    ledger.blame(reason);
    ended_early(reason.side())
}

/// A response that ends in its middle, by this side's fault.
fn ended_early(side: Side) -> OnConnection {
    OnConnection { failure: Failure::Aborted, servers_fault: side == Side::Upstream, fate: Fate::Unknown }
}

/// A 101 is good only for what was asked for (RFC 9110 §7.8).
fn check_upgrade(request: &RequestHead, response: &ResponseHead, attempt: &Attempt<'_>) -> Result<(), OnConnection> {
    let asked = upgrade_token(attempt.admitted);
    let granted = response.upgrade.as_deref();
    let is_readable = attempt.admitted.messages(response).is_ok();
    // Nobody else looks whether the server has read a key of ours.
    let is_proven = !request.is_extended_connect() || opening::is_proven(request, response);
    if is_readable && is_proven && asked.is_some() && granted.is_some_and(|granted| Some(granted) == asked) {
        return Ok(());
    }
    Err(OnConnection::servers(Rejection::of(Reason::UnexpectedUpgrade)))
}

/// The protocol an upgrade may go to, if this request asks for one that its route allows.
pub(super) fn upgrade_token<'a>(admitted: &Admitted<'a>) -> Option<&'a str> {
    let request = admitted.head();
    let token = request.upgrade.as_deref().filter(|_| admitted.may_upgrade())?;
    let allowed = &admitted.route().config.upgrades;
    let fits = request.framing == BodyFraming::None && allowed.iter().any(|allowed| allowed == token);
    fits.then_some(token)
}

/// Reads one head, interim or final.
async fn read_head(
    transport: &Transport,
    input: &mut Chunk,
    method: &Method,
    limits: &HeadLimits,
    response: &mut ResponseHead,
) -> Result<(), OnConnection> {
    loop {
        if !input.is_empty() {
            match parse_response(input, limits, method, response) {
                Ok(Parsed::Complete { head_len }) => {
                    input.advance(head_len);
                    forwarding::remove_nominated(&mut response.fields);
                    return Ok(());
                }
                Ok(Parsed::Partial) if input.is_full() => {
                    return Err(OnConnection::servers(Rejection::of(Reason::ResponseHeadTooLarge)));
                }
                Ok(Parsed::Partial) => {}
                Err(error) => return Err(OnConnection::servers(Rejection::of_response(error))),
            }
        }
        let is_silent = input.is_empty();
        match transport.recv_more(input).await {
            Ok(0) if transport.stream().has_unsent() => return Err(ended(is_silent, Fate::ConnectionOver)),
            Ok(0) | Err(Broken::Socket(_)) => return Err(ended(is_silent, Fate::Stale)),
            Ok(_) => {}
            Err(Broken::Tls(_) | Broken::Key(_) | Broken::Certificate(_)) => {
                return Err(OnConnection::servers(Rejection::of(Reason::UpstreamTlsReset)));
            }
        }
    }
}

/// The connection ended instead of a head. If the server's end arrives while it has not acknowledged all of the request, it had ended before it could read
/// it. Else, and after a reset, nothing is certain: it may have died of the request, or have closed a connection at rest with the request unread.
fn ended(is_known: bool, fate: Fate) -> OnConnection {
    let failed = OnConnection::servers(Rejection::of(Reason::UpstreamClosed));
    OnConnection { fate: if is_known { fate } else { Fate::Unknown }, ..failed }
}

/// Writes the head of the response from the upstream's.
pub(super) fn begin_response(
    attempt: &Attempt<'_>,
    response: &ResponseHead,
    (compressing, noted): (&Compressing<'_>, Noted<'_>),
    sink: &mut impl ResponseSink,
) {
    let route = &attempt.admitted.route().config;
    let context = attempt.context;
    sink.begin(response.status);
    let hsts = route.hsts.as_deref().filter(|_| context.conn.tls.is_some());
    let via = context.generation.config.forwarding.via;
    let edits = &route.response_headers;
    let admitted = attempt.admitted;
    let values = (!edits.is_empty()).then(|| context.values(admitted.head(), admitted.params(), noted));
    forwarding::response_fields(response, (edits, values.as_ref()), hsts, via, |name, value| {
        compressing.field(sink, name, value);
    });
    let is_ours = forwarding::is_edited(edits, b"vary");
    compressing.own_fields(sink, response.fields.get_all("vary").filter(|_| !is_ours));
    if attempt.session.begins() {
        begin_session(attempt, sink);
    }
    if response.status == 101 {
        sink.switch(response.upgrade.as_deref().unwrap_or_default().as_bytes());
        return;
    }
    if compressing.encoding().is_some() {
        // To HEAD without a length, which only compressing would tell (RFC 9110 §9.3.2).
        let framing = if compressing.encodes() { BodyFraming::Chunked } else { response.framing };
        sink.finish_head(framing, None);
        return;
    }
    let bodiless = attempt.admitted.head().method == Method::Head || response.status == 304;
    let declared = response.fields.get("content-length").filter(|_| bodiless);
    sink.finish_head(response.framing, declared);
}

/// Gives the client the cookie of a session at this server.
fn begin_session(attempt: &Attempt<'_>, sink: &mut impl ResponseSink) {
    let context = attempt.context;
    let is_secure = context.conn.tls.is_some()
        || forwarding::is_reported_secure(
            attempt.admitted.head(),
            &context.facts(),
            &context.generation.config.forwarding,
        );
    let cookie = attempt.group.sticky.as_ref().and_then(|sticky| sticky.set_cookie(&attempt.server.name, is_secure));
    cookie.iter().for_each(|cookie| sink.field(b"Set-Cookie", cookie));
}

/// Writes the head of the request as the upstream shall see it.
pub(super) fn write_head(attempt: &Attempt<'_>, noted: Noted<'_>, out: &mut Vec<u8>) -> Result<(), Rejection> {
    let request = attempt.admitted.head();
    let config = &attempt.admitted.route().config;
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    let params = attempt.admitted.params();
    // Most targets go on as they came, and need no values.
    let values = || attempt.context.values(request, params, noted);
    route::build_target(attempt.forward, request, values, out).map_err(|_| Rejection::of(Reason::BadParameter))?;
    out.extend_from_slice(b" HTTP/1.1\r\n");
    write_field(b"Host", &forwarding::host(&attempt.forward.host, request, attempt.server.authority.as_bytes()), out);
    let forwarding = &attempt.context.generation.config.forwarding;
    forwarding::request_fields(request, &attempt.facts(), forwarding, noted, (config, params), |name, value| {
        write_field(name, value, out);
    });
    match request.framing {
        // A method that usually has a body says so when it has none (RFC 9110 §8.6).
        BodyFraming::None if matches!(request.method, Method::Post | Method::Put | Method::Patch) => {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        framing => forwarding::write_framing(framing, out),
    }
    if let Some(token) = upgrade_token(attempt.admitted) {
        let _ = write!(out, "Connection: upgrade\r\nUpgrade: {token}\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}
