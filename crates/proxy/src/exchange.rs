//! One request, from its head to its response's last byte, whichever version the client speaks.
//!
//! ```text
//! checked → routed → admitted → server chosen → connected → sent ─┬→ answered → relayed
//!    └────────┴─────────┴──→ rejection                             └→ upgraded → tunnel
//! ```

mod affinity;
mod cors;
mod dry_run;
mod mirror;
mod respond;
mod compress;
mod relay;
mod replay;
pub mod retry;
pub mod upstream_h1;
mod upstream_h2;
mod validate;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Action, Forward, ForwardTo, RouteConfig, Service, UpstreamProtocol};
use net::Deadline;
use reason::Reason;
use transport::{buffer, recycle};
use wire::http::http1::reason_phrase;
use wire::http::{BodyFraming, Fields, RequestHead, ResponseHead, Version};

use crate::auth::Subject;
use crate::contracts::ActiveContract;
use crate::generation::Generation;
use crate::guard::{self, Admitted, Candidate, ExchangeParts, GuardedBody, Lease, Origin, ScratchSpace};
use crate::message::context::{Aborted, Context, Failure, client_failed};
use crate::message::forwarding::{self, TrailerRule};
use crate::message::ledger::Ledger;
use crate::message::rejection::{self, Rejection};
use crate::message::scratch::Timers;
use crate::message::sides::{MessageBody, ResponseSink, while_wanted};
use crate::message::{date, encoder, grpc};
use crate::responses::{Compressible, ErrorPages};
use crate::route::{self, CompiledRoute, Params, Routed, Sought, Values, build_authority, build_location};
use crate::upstream::{Full, Group, NoServer, Server, TunnelPlace, Wish};
use compress::Compressing;
use mirror::Duplicate;
use replay::Replay;
use retry::{Condition, Failed, Tries};
use upstream_h1::{Attempt, Upgraded, upgrade_token};

/// Everything one exchange works with, each part borrowed from its owner.
pub struct Exchange<'a, B, A> {
    /// Where the request comes from.
    pub context: Context<'a>,
    /// Its head.
    pub head: &'a RequestHead,
    /// ExchangeParts for the upstream's head.
    pub response: &'a mut ResponseHead,
    /// Its body.
    pub body: &'a mut B,
    /// Where its response goes.
    pub sink: &'a mut A,
    /// What becomes of it.
    pub ledger: &'a mut Ledger,
    /// One timer per wait.
    pub timers: &'a mut Timers,
}

/// Serves one request. Gives the upstream's connection if it was upgraded: a tunnel begins.
///
/// # Errors
/// [`Aborted`], after which the client's side must be broken off.
pub async fn run<B: MessageBody, A: ResponseSink>(
    mut exchange: Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Aborted> {
    let context = exchange.context;
    if context.client.via_trusted {
        exchange.ledger.client = context.client.address;
        let forwarding = &context.generation.config.forwarding;
        exchange.ledger.given_id = forwarding::given_id(exchange.head, &context.facts(), forwarding).map(Box::from);
    }
    if let Some(access) = context.generation.config.log.access.as_ref().filter(|access| !access.fields.is_empty()) {
        exchange.ledger.add_fields(&access.fields, context.is_secure(exchange.head));
    }
    let outcome = serve(&mut exchange).await;
    let Exchange { head, body, sink, ledger, .. } = exchange;
    match outcome {
        Ok(upgraded) => Ok(upgraded),
        Err(Failure::Aborted) => Err(Aborted),
        Err(Failure::Rejected(_)) if sink.has_begun() => Err(Aborted),
        Err(Failure::Rejected(rejection)) => {
            // Behind a body that is malformed, too long or too slow nothing can be read as a request.
            // What a contract rejects is well framed, and may be read to its end.
            let is_broken = rejection.reported.is_none() && matches!(rejection.status, 400 | 408 | 413 | 417 | 431);
            // If the rest of its body may be more than what is read of it, the client is told, or its next request would meet the end (RFC 9112 §9.6).
            let most = context.generation.config.limits.max_drain_bytes;
            // To somebody, `Content_Length` may have announced a body.
            let is_last = rejection.reason == Reason::UnderscoreInFieldName
                || (!body.is_done() && (is_broken || !body.ends_within(most)));
            if is_last {
                sink.be_last();
            }
            reject(&rejection, context, head, sink, ledger).await.map(|()| None)
        }
    }
}

async fn serve<B: MessageBody, A: ResponseSink>(
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failure> {
    let (context, head) = (exchange.context, exchange.head);
    #[cfg(any(test, feature = "forced-panics"))]
    assert_ne!(head.target, b"/panic", "a fault that a test asked for");
    check_head(context, head)?;
    if let Some(proof) = context.generation.issuance.challenges().and_then(|challenges| challenges.response(head)) {
        return prove(&proof, head, exchange.sink, exchange.ledger).await.map(|()| None);
    }
    if let Service::RedirectToHttps { port } = context.conn.listener.service {
        return redirect_to_https(head, port, exchange.sink, exchange.ledger).await.map(|()| None);
    }
    let routed = context.generation.routes.find(&context.conn.listener.name, context.sought(head));
    if context.generation.policies.has_cors() {
        let Exchange { sink, ledger, .. } = exchange;
        if Box::pin(cors::begin(context, &routed, head, &mut **sink, ledger)).await? {
            return Ok(None);
        }
    }
    let has_policies = !context.generation.policies.is_empty();
    // Policies are asked once: there about the request that another proxy holds.
    if has_policies && !matches!(&routed, Routed::Found(route, _) if matches!(route.config.action, Action::Validate(_)))
    {
        guard::check_policies(context, routed.name(), head, exchange.ledger).await?;
    }
    guard::check_around(context, head)?;
    let (route, params) = match routed {
        Routed::Found(route, params) => (route, params),
        other => return respond_unrouted(other, exchange).await.map(|()| None),
    };
    exchange.ledger.takes(&route.config, &params, || context.is_secure(head));
    check_action(head, &route.config.action)?;
    exchange.sink.pace(route.config.pace(context.limits()));
    if let Action::Validate(service) = &route.config.action {
        return Box::pin(validate::serve(route, params, service, exchange)).await.map(|()| None);
    }
    if has_policies {
        guard::check_route_policies(context, route, head, exchange.ledger).await?;
    }
    // From here on the head says who the client is: contract and upstream see the same.
    let named = exchange.ledger.subject.name_in(head);
    let head = named.as_deref().unwrap_or(head);
    let active = guard::contract_of(context, route, head)?;
    let (status, location) = match &route.config.action {
        Action::Forward(forward) => return forward_admitted(head, (route, params), active, forward, exchange).await,
        Action::Respond { status, content_type, body, if_healthy, .. } => {
            check_health(if_healthy.as_deref(), context.generation, exchange.ledger)?;
            let body = context.generation.responses.body(route.index).unwrap_or(body);
            let fixed = (*status, content_type.as_str(), body);
            return respond_fixed(context, (&route.config, &params), fixed, head, exchange.sink, exchange.ledger)
                .await
                .map(|()| None);
        }
        Action::Redirect { status, to, allow, query } => {
            let mut location = buffer();
            let values = context.values(head, &params, exchange.ledger.noted());
            build_location(to, allow, *query, &values, &mut location)
                .map_err(|_| Rejection::of(Reason::BadParameter))?;
            (*status, location)
        }
        // Served above: the contract of the request that is asked about counts, not that of the one that asks.
        Action::Validate(_) => return Err(Rejection::of(Reason::NoRoute).into()),
    };
    let sent = redirect(status, &location, exchange.sink, exchange.ledger).await;
    recycle(location);
    sent.map(|()| None)
}

/// To who asks for a WebSocket over HTTP/2, a response 2xx says that it is open (RFC 8441 §5.1): what has another meaning is rejected.
fn check_action(head: &RequestHead, action: &Action) -> Result<(), Rejection> {
    let is_other = matches!(action, Action::Respond { status: 200..300, .. } | Action::Validate(_));
    if is_other && head.is_extended_connect() { Err(Rejection::of(Reason::WebsocketNotOffered)) } else { Ok(()) }
}

/// The same where it would be forwarded without that wish.
fn check_upgrade(admitted: &Admitted<'_>, group: &Group) -> Result<(), Rejection> {
    let is_forwarded = || group.config.protocol == UpstreamProtocol::Http1 && upgrade_token(admitted).is_some();
    if !admitted.head().is_extended_connect() || is_forwarded() {
        return Ok(());
    }
    Err(Rejection::of(Reason::WebsocketNotOffered))
}

/// Whether the group that a fixed response depends on has a server that is up. How servers fare is nothing that a dry run knows.
fn check_health(group: Option<&str>, generation: &Generation, ledger: &Ledger) -> Result<(), Rejection> {
    let Some(name) = group.filter(|_| ledger.dry_run.is_none()) else { return Ok(()) };
    let is_up = generation.group(name).is_some_and(|group| group.is_up());
    if is_up { Ok(()) } else { Err(Rejection::of(Reason::NoHealthyUpstream)) }
}

/// Has a request checked by the contract it is under, if any, and forwards it.
async fn forward_admitted<B: MessageBody, A: ResponseSink>(
    head: &RequestHead,
    (route, params): (&CompiledRoute, Params),
    active: Option<&Arc<ActiveContract>>,
    forward: &Forward,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failure> {
    let context = exchange.context;
    let mut scratch = ScratchSpace::empty();
    let mut body = GuardedBody::through(exchange.body, Lease::new(context));
    let admitted = match active {
        None => guard::admit(context, head, route, params)?,
        Some(active) => {
            let candidate = Candidate { context, head, route, params, active, origin: Origin::Own };
            let Exchange { sink, response, ledger, timers, .. } = exchange;
            let mut parts = ExchangeParts { sink: *sink, interim: response, ledger, timers };
            let admitted = guard::admit_under(candidate, &mut body, &mut scratch, &mut parts).await?;
            if head.upgrade.is_some() {
                guard::note_upgrade(&admitted, exchange.ledger);
            }
            admitted
        }
    };
    body.rule_trailers(TrailerRule::of_request(head, &route.config, &context.generation.policies));
    let is_dry = exchange.ledger.dry_run.is_some();
    let mirror = forward.mirror.as_ref().filter(|_| !is_dry);
    let copy = mirror.and_then(|mirror| Duplicate::of(mirror, forward, &admitted, context, exchange.ledger.noted()));
    body.copy_to(copy.as_deref().map(Duplicate::body));
    let Exchange { sink, response, ledger, timers, .. } = exchange;
    let mut guarded = Exchange { context, head, response, body: &mut body, sink: *sink, ledger, timers };
    let outcome = match is_dry {
        true => Box::pin(dry_run::forward(&admitted, forward, &mut guarded)).await.map(|()| None),
        false => forward_request(&admitted, forward, &mut guarded).await,
    };
    if let Some(copy) = copy {
        // What reached no upstream is not for another one either.
        let has_gone = outcome.is_ok() || exchange.ledger.upstream_status.is_some();
        copy.send(has_gone && body.is_done());
    }
    guard::note_watched(&admitted, context, &mut body, exchange.ledger);
    outcome
}

/// Shows a certificate authority that the name is ours (RFC 8555 §8.3).
async fn prove(
    proof: &[u8],
    head: &RequestHead,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    ledger.status = 200;
    begin_own(sink, 200);
    send_whole(sink, "application/octet-stream", proof, head, ledger).await.map_err(|Aborted| Failure::Aborted)
}

/// Answers where the routes lead nowhere.
async fn respond_unrouted<B: MessageBody, A: ResponseSink>(
    routed: Routed<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    let rejection = match routed {
        Routed::Options(allow) => return options(&allow, exchange.sink, exchange.ledger).await,
        Routed::RedirectTo(status, location) => {
            return redirect(status, &location, exchange.sink, exchange.ledger).await;
        }
        Routed::UnknownHost => {
            Rejection::with_status(Reason::UnknownHost, exchange.context.generation.routes.unknown_host_status())
        }
        Routed::EncodedSlash => Rejection::of(Reason::EncodedSlash),
        Routed::AmbiguousPath => Rejection::of(Reason::AmbiguousPath),
        Routed::MethodNotAllowed(allow) => Rejection { allow: Some(allow), ..Rejection::of(Reason::MethodNotAllowed) },
        Routed::NotFound | Routed::Found(..) => Rejection::of(Reason::NoRoute),
    };
    Err(rejection.into())
}

/// What must hold for every request, wherever it leads.
fn check_head(context: Context<'_>, head: &RequestHead) -> Result<(), Rejection> {
    check_connection(context, head)?;
    guard::check_method(head)?;
    guard::check_names(context, head)
}

/// A resource of https is asked for over TLS, or by a peer that may say so (RFC 9110 §7.4).
fn check_scheme(context: Context<'_>, head: &RequestHead) -> Result<(), Rejection> {
    if head.says_https && context.conn.tls.is_none() && !context.client.via_trusted {
        return Err(Rejection::of(Reason::HttpsWithoutTls));
    }
    Ok(())
}

/// Whether this connection may carry a request for this scheme and host: its handshake must have been done under the very rule that the host
/// has now. Else the request belongs on another connection (RFC 9110 §15.5.20).
fn check_connection(context: Context<'_>, head: &RequestHead) -> Result<(), Rejection> {
    check_scheme(context, head)?;
    let Some(tls) = &context.conn.tls else { return Ok(()) };
    let Some(front) = context.generation.front(&context.conn.listener.name) else {
        return Err(Rejection::of(Reason::ListenerRemoved));
    };
    let host = std::str::from_utf8(head.host()).ok().map(|host| host.strip_suffix('.').unwrap_or(host));
    if front.rule(host).is_same_policy(&tls.rule) {
        return Ok(());
    }
    Err(Rejection::of(Reason::TlsPolicyMismatch))
}

/// Chooses a server, sends the request, and goes on to the next server while that is safe.
async fn forward_request<B: MessageBody, A: ResponseSink>(
    admitted: &Admitted<'_>,
    forward: &Forward,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failure> {
    let context = exchange.context;
    let group = group_for(admitted, forward, exchange)?;
    let until = total_timeout(admitted, &group).map(|limit| Instant::now() + limit);
    let in_flight = match group.admit(context.places()) {
        Err(Full::OfAll) if group.queues() => queue(Box::pin(group.admit_in_turn(context.places())), exchange)
            .await?
            .map_err(|full| Rejection::of(full.reason()))?,
        admitted => admitted.map_err(|full| Rejection::of(full.reason()))?,
    };
    if group.is_resolving() {
        // The first answer of a name server, and then never again.
        let resolved = while_wanted(Box::pin(group.resolved(group.config.connect_timeout)), exchange.sink).await;
        resolved.map_err(|why| {
            exchange.ledger.blame(why);
            Aborted
        })?;
    }
    let (mut tries, replay) = (Tries::default(), Replay::default());
    let hash = affinity::hash_of(&group, &context.client, admitted);
    let session = affinity::session(&group, admitted.head());
    let mut kept = None;
    loop {
        let wish = Wish { hash, prefer: session.server(), not: tries.tried(), is_again: !tries.is_first() };
        let taken = match kept.take().map_or_else(|| group.take(wish), Ok) {
            Err(NoServer::Busy) if tries.is_first() && group.queues() => {
                queue(Box::pin(group.take_in_turn(wish, context.places())), exchange).await?
            }
            taken => taken,
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(why) => return Err(tries.last(|| no_server(&group, why).into())),
        };
        let server = &taken.server;
        exchange.ledger.server = Some(Arc::clone(server));
        let ahead = tries.ahead(&group, server, admitted.head());
        let (pool, fresh) = (server.pool(), tries.is_fresh());
        let attempt =
            Attempt { context, admitted, forward, group: &group, server, pool, fresh, ahead, session, replay: &replay };
        let outcome = match until {
            None => try_once(&attempt, exchange).await,
            Some(until) => bounded(until, &attempt, exchange).await,
        };
        let failed = match outcome {
            Ok(upgraded) => {
                exchange.ledger.session = session.outcome(server);
                // How long a request with a body takes is its client's affair, too.
                let took = exchange.ledger.upstream_duration.filter(|_| !retry::has_body(admitted.head()));
                note_response(&group, server, exchange.ledger.upstream_status, took);
                return Ok(upgraded.map(|mut upgraded| {
                    upgraded.place = Some(TunnelPlace::of(&group, in_flight, taken));
                    upgraded
                }));
            }
            Err(failed) => failed,
        };
        note_failed(&attempt, &failed);
        let pause = tries.note(failed, &group, server)?;
        exchange.ledger.retries += 1;
        // On a fresh connection to the same server it has the place that it had.
        kept = Some(taken).filter(|_| tries.is_same_again());
        wait(pause, exchange).await?;
    }
}

/// The group that a request goes to, noted.
fn group_for<B, A>(
    admitted: &Admitted<'_>,
    forward: &Forward,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Arc<Group>, Rejection> {
    let group = destination(exchange.context, admitted, forward, &exchange.ledger.subject)?;
    exchange.ledger.group = Some(Arc::clone(&group));
    check_upgrade(admitted, &group)?;
    Ok(group)
}

/// The time for an exchange, if there is a limit.
fn total_timeout(admitted: &Admitted<'_>, group: &Group) -> Option<Duration> {
    admitted.route().config.options.total_timeout.or(group.config.total_timeout)
}

/// Waits in a group's queue while the client waits for its response, and notes for how long.
async fn queue<T, B, A: ResponseSink>(
    waiting: Pin<Box<impl Future<Output = T>>>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<T, Aborted> {
    let began = Instant::now();
    let waited = while_wanted(waiting, exchange.sink).await;
    exchange.ledger.queued = Some(exchange.ledger.queued.unwrap_or_default() + began.elapsed());
    waited.map_err(|why| {
        exchange.ledger.blame(why);
        Aborted
    })
}

/// Waits before a retry.
async fn wait<B, A: ResponseSink>(pause: Duration, exchange: &mut Exchange<'_, B, A>) -> Result<(), Aborted> {
    if pause.is_zero() {
        return Ok(());
    }
    while_wanted(Box::pin(tokio::time::sleep(pause)), exchange.sink).await.map_err(|why| {
        exchange.ledger.blame(why);
        Aborted
    })
}

/// What a response says of its server.
fn note_response(group: &Group, server: &Server, status: Option<u16>, took: Option<Duration>) {
    if group.note_response(server, status, took) {
        tracing::warn!(upstream = group.config.name, server = %server.name, status, "server ejected");
    }
}

/// What a try that failed says of its server.
fn note_failed(attempt: &Attempt<'_>, failed: &Failed) {
    let (group, server, report) = (attempt.group, attempt.server, &attempt.context.worker.report);
    if let Condition::Status(status) = failed.condition {
        report.response_retried(&group.config.name, &server.name, status);
        note_response(group, server, Some(status), None);
    } else if failed.servers_fault && server.failed(group.config.ejection) {
        tracing::warn!(upstream = group.config.name, server = %server.name, "server ejected");
    }
}

/// A group has no server that could be asked, and that is known without asking.
fn no_server(group: &Group, why: NoServer) -> Rejection {
    Rejection::of(match why {
        NoServer::Busy => Reason::UpstreamOverflow,
        NoServer::BusyForClient => Reason::TooManyInFlight,
        NoServer::ForTooLong => Reason::UpstreamQueueTimeout,
        NoServer::None if group.is_unresolved() => Reason::UpstreamUnresolved,
        NoServer::None => Reason::NoHealthyUpstream,
    })
}

async fn try_once<B: MessageBody, A: ResponseSink>(
    attempt: &Attempt<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failed> {
    match attempt.group.config.protocol {
        // The configuration lets no route use the third.
        UpstreamProtocol::Http1 | UpstreamProtocol::Tcp => upstream_h1::attempt(attempt, exchange).await,
        UpstreamProtocol::Http2 => Box::pin(upstream_h2::attempt(attempt, exchange)).await.map(|()| None),
    }
}

/// One try that must be over in time, its response included.
async fn bounded<B: MessageBody, A: ResponseSink>(
    until: Instant,
    attempt: &Attempt<'_>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failed> {
    let limit = until.saturating_duration_since(Instant::now());
    let outcome = Deadline::new().within(limit, Box::pin(try_once(attempt, exchange))).await;
    outcome.unwrap_or_else(|_| {
        exchange.ledger.blame(Reason::UpstreamTotalTimeout);
        let failure = Rejection::of(Reason::UpstreamTotalTimeout);
        // Its time went by in the queue and with the client, too; how slow a server may be has limits of its own.
        Err(Failed::finally(failure))
    })
}

fn destination(
    context: Context<'_>,
    admitted: &Admitted<'_>,
    forward: &Forward,
    subject: &Subject,
) -> Result<Arc<Group>, Rejection> {
    match &forward.to {
        ForwardTo::Group(name) => context.generation.group(name).cloned().ok_or(Rejection::of(Reason::UnknownUpstream)),
        ForwardTo::Split(shares) => {
            let sought = Sought { subject: Some(subject), ..context.sought(admitted.head()) };
            let name = route::share(shares, &sought);
            let group = name.and_then(|name| context.generation.group(name)).cloned();
            group.ok_or(Rejection::of(Reason::UnknownUpstream))
        }
        ForwardTo::Authority { authority, allow, .. } => {
            let mut written = buffer();
            let bad = Rejection::of(Reason::BadParameter);
            build_authority(authority, allow, admitted.head(), admitted.params(), &mut written)
                .map_err(|_| bad.clone())?;
            let group = context.generation.made_group(admitted.route().index, &written, allow.is_empty());
            recycle(written);
            group.ok_or(bad)
        }
    }
}

/// Begins a response of our own.
fn begin_own(sink: &mut impl ResponseSink, status: u16) {
    sink.begin(status);
    sink.field(b"Date", &date::now());
}

/// Answers in the upstream's place.
///
/// # Errors
/// The client is gone.
pub async fn reject(
    rejection: &Rejection,
    context: Context<'_>,
    head: &RequestHead,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Aborted> {
    ledger.rejected(rejection);
    let is_grpc = grpc::is_call(head);
    // Clients of gRPC read their own status; the log has the one that this stands for.
    begin_own(sink, if is_grpc { 200 } else { rejection.status });
    rejection.fields(|name, value| sink.field(name, value));
    if is_grpc {
        sink.field(b"Content-Type", grpc::CONTENT_TYPE);
        sink.field(b"Grpc-Status", grpc::status(rejection.status).as_bytes());
        sink.field(b"Grpc-Message", format!("{} {}", rejection.status, reason_phrase(rejection.status)).as_bytes());
        sink.finish_head(BodyFraming::None, None);
        return sink.end(None).await.map_err(|broken| client_failed(&broken, ledger));
    }
    if let Some(relayed) = &rejection.relayed {
        return send_whole(sink, &relayed.content_type, &relayed.body, head, ledger).await;
    }
    let pages = error_pages(context, head, ledger);
    let (body, content_type) = rejection::body(rejection, head, pages, ledger.id());
    if let Some(pages) = pages {
        ledger.error_pages = Some(Arc::clone(&pages.name));
        sink.field(b"Vary", b"Accept");
    }
    send_whole(sink, content_type, &body, head, ledger).await
}

/// The error pages of a request, by how far it came.
fn error_pages<'g>(context: Context<'g>, head: &RequestHead, ledger: &Ledger) -> Option<&'g ErrorPages> {
    let route = ledger.route.as_ref().map(|route| route.name.as_str());
    context.generation.responses.error_pages(route, &context.conn.listener.name, head).map(Arc::as_ref)
}

/// Largest body of our own that is compressed, bytes: it is done in one turn, for each request.
const MAX_COMPRESSED_AT_ONCE: usize = 64 * 1024;

async fn respond_fixed(
    context: Context<'_>,
    (route, params): (&RouteConfig, &Params),
    (status, content_type, body): (u16, &str, &[u8]),
    head: &RequestHead,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    ledger.status = status;
    sink.begin(status);
    own_fields(context, route, &context.values(head, params, ledger.noted()), sink);
    let compression = context.generation.responses.compression(&route.name, &context.conn.listener.name, head);
    if let Some(compression) = compression.filter(|_| (1..=MAX_COMPRESSED_AT_ONCE).contains(&body.len())) {
        let mut fields = Fields::new();
        fields.push(b"content-type", content_type.as_bytes());
        let subject = Compressible {
            request: head,
            has_certificate: context.facts().certificate.is_some(),
            status,
            fields: &fields,
            edits: &route.response_headers,
            length: Some(body.len() as u64),
        };
        let mut compressing = Compressing::of(context, compression, &subject, false);
        let compressed = compressing.take().and_then(|(encoder, _place)| compress::whole(encoder, body));
        if let Some(compressed) = compressed {
            compressing.own_fields(sink, std::iter::empty());
            ledger.compressed = compressing.encoding().map(|encoding| (encoder::name(encoding), body.len() as u64));
            let sent = send_whole(sink, content_type, &compressed, head, ledger).await;
            return sent.map_err(|Aborted| Failure::Aborted);
        }
        if compressing.encoding().is_none() {
            compressing.own_fields(sink, std::iter::empty());
        }
    }
    send_whole(sink, content_type, body, head, ledger).await.map_err(|Aborted| Failure::Aborted)
}

/// Fields that a route adds to answers of our own.
fn own_fields(context: Context<'_>, route: &RouteConfig, values: &Values<'_>, sink: &mut impl ResponseSink) {
    if let Some(hsts) = route.hsts.as_ref().filter(|_| context.conn.tls.is_some()) {
        sink.field(b"Strict-Transport-Security", hsts.as_bytes());
    }
    let edits = &route.response_headers;
    if !forwarding::is_edited(edits, b"date") {
        sink.field(b"Date", &date::now());
    }
    forwarding::put_edited(edits, values, &mut |name: &[u8], value: &[u8]| sink.field(name, value));
}

async fn send_whole(
    sink: &mut impl ResponseSink,
    content_type: &str,
    body: &[u8],
    head: &RequestHead,
    ledger: &mut Ledger,
) -> Result<(), Aborted> {
    if !body.is_empty() && !content_type.is_empty() {
        sink.field(b"Content-Type", content_type.as_bytes());
    }
    let is_head = head.method == wire::http::Method::Head;
    if is_head {
        sink.finish_head(BodyFraming::None, Some(body.len().to_string().as_bytes()));
    } else {
        sink.finish_head(BodyFraming::Length(body.len() as u64), None);
        if !body.is_empty() {
            sink.piece(body).await.map_err(|broken| client_failed(&broken, ledger))?;
            ledger.sent.set(body.len() as u64);
        }
    }
    sink.end(None).await.map_err(|broken| client_failed(&broken, ledger))
}

async fn options(allow: &str, sink: &mut impl ResponseSink, ledger: &mut Ledger) -> Result<(), Failure> {
    ledger.status = 200;
    begin_own(sink, 200);
    sink.field(b"Allow", allow.as_bytes());
    sink.finish_head(BodyFraming::Length(0), None);
    sink.end(None).await.map_err(|broken| client_failed(&broken, ledger)).map_err(|Aborted| Failure::Aborted)
}

async fn redirect(
    status: u16,
    location: &[u8],
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    ledger.status = status;
    begin_own(sink, status);
    sink.field(b"Location", location);
    sink.finish_head(BodyFraming::Length(0), None);
    sink.end(None).await.map_err(|broken| client_failed(&broken, ledger)).map_err(|Aborted| Failure::Aborted)
}

/// The same URL under https. A request without Host has no such URL.
async fn redirect_to_https(
    head: &RequestHead,
    port: u16,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    if head.authority.is_empty() || head.target.first() != Some(&b'/') {
        return Err(Rejection::of(Reason::NoHttpsUrl).into());
    }
    let mut location = b"https://".to_vec();
    location.extend_from_slice(head.host());
    if port != 443 {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    location.extend_from_slice(&head.target);
    redirect(308, &location, sink, ledger).await
}

/// Whether the client may be sent chunked bodies and interim responses.
pub fn is_modern(version: Version) -> bool {
    version != Version::H10
}
