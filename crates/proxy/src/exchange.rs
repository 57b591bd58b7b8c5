//! One request, from its head to its response's last byte, whichever version the client speaks.
//!
//! ```text
//! checked → routed → admitted → server chosen → connected → sent ─┬→ answered → relayed
//!    └────────┴─────────┴──→ rejection                             └→ upgraded → tunnel
//! ```

mod affinity;
mod cors;
mod dry_run;
mod forward;
mod hedge;
mod mirror;
mod negotiate;
mod respond;
mod compress;
mod fixed;
mod relay;
mod replay;
pub mod retry;
pub mod upstream_h1;
mod upstream_h2;
mod validate;

use std::sync::Arc;

use config::{Action, Forward, RouteConfig, Service};
use reason::Reason;
use transport::{buffer, recycle};
use wire::http::http1::reason_phrase;
use wire::http::{BodyFraming, RequestHead, ResponseHead, Version};

use crate::contracts::ActiveContract;
use crate::generation::Generation;
use crate::guard::{self, Candidate, ExchangeParts, GuardedBody, Lease, Origin, ScratchSpace};
use crate::message::context::{Aborted, Context, Failure, client_failed};
use crate::message::forwarding::{self, TrailerRule};
use crate::message::ledger::Ledger;
use crate::message::rejection::{self, Rejection};
use crate::message::scratch::Timers;
use crate::message::sides::{MessageBody, NoBody, ResponseSink};
use crate::message::{date, grpc};
use crate::policies::cors::Decoration;
use crate::redirects::https_location;
use crate::responses::ErrorPages;
use crate::route::{CompiledRoute, Params, Routed, Values, build_location};
use forward::forward_request;
use mirror::Duplicate;
use upstream_h1::Upgraded;

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
        exchange.ledger.is_doubtful = context.client.is_doubtful;
        let forwarding = &context.generation.config.forwarding;
        exchange.ledger.given_id = forwarding::given_id(exchange.head, &context.facts(), forwarding).map(Box::from);
    }
    if let Some(access) = context.generation.config.log.access.as_ref().filter(|access| !access.fields.is_empty()) {
        exchange.ledger.add_fields(&access.fields, context.is_secure(exchange.head));
    }
    if let Some(tracing) = &context.generation.config.tracing {
        exchange.ledger.trace = Some(Box::new(forwarding::trace(exchange.head, &context.client, tracing)));
    }
    if context.offers_http3(exchange.head) {
        exchange.sink.decorate(Decoration::of_http3(context.conn.listener.options.http3_port(context.conn.bound_port)));
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
            let is_broken = rejection.reported().is_none() && matches!(rejection.status, 400 | 408 | 413 | 417 | 431);
            // If the rest of its body may be more than what is read of it, the client is told, or its next request would meet the end (RFC 9112 §9.6).
            let most = context.generation.config.limits.max_drain_bytes;
            // To somebody, `Content_Length` may have announced a body.
            let is_last = matches!(rejection.reason, Reason::UnderscoreInFieldName | Reason::UnusualFieldName)
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
    if let Some(proof) = challenge(context, head) {
        return prove(&proof, head, exchange.sink, exchange.ledger).await.map(|()| None);
    }
    if let Service::RedirectToHttps { port } = context.conn.listener.service {
        return redirect_to_https(head, port, exchange.sink, exchange.ledger).await.map(|()| None);
    }
    let routed = context.generation.routes.find(&context.conn.listener.name, context.sought(head));
    if context.generation.policies.has_cors()
        && Box::pin(cors::begin(context, &routed, head, exchange.sink, exchange.ledger)).await?
    {
        return Ok(None);
    }
    let has_policies = !context.generation.policies.is_empty();
    // Policies are asked once: there about the request that another proxy holds.
    if has_policies && !matches!(&routed, Routed::Found(route, _) if matches!(route.config.action, Action::Validate(_)))
    {
        guard::check_policies(context, routed.name(), head, exchange.ledger).await?;
        bear_cookies(exchange.sink, exchange.ledger);
    }
    guard::check_around(context, head)?;
    let (route, params) = match routed {
        Routed::Found(route, params) => (route, params),
        other => return respond_unrouted(other, exchange).await.map(|()| None),
    };
    exchange.ledger.takes(&route.config, &params, || context.is_secure(head));
    check_action(head, &route.config.action)?;
    prepare(exchange.sink, &route.config, context);
    if let Action::Validate(service) = &route.config.action {
        return Box::pin(validate::serve(route, params, service, exchange)).await.map(|()| None);
    }
    if has_policies {
        guard::check_route_policies(context, route, head, exchange.ledger).await?;
        bear_cookies(exchange.sink, exchange.ledger);
        exchange.sink.throttle(&exchange.ledger.throttles);
    }
    // From here on the head says who the client is: contract and upstream see the same.
    let named = exchange.ledger.subject.name_in(head);
    let head = named.as_deref().unwrap_or(head);
    let active = guard::contract_of(context, route, head)?;
    let (status, location) = match &route.config.action {
        Action::Forward(forward) if active.is_none() && is_all_head(forward, exchange) => {
            return forward_head(head, (route, params), forward, exchange).await;
        }
        Action::Forward(forward) => return forward_admitted(head, (route, params), active, forward, exchange).await,
        Action::Respond { if_healthy, .. } => {
            check_health(if_healthy.as_deref(), context.generation, exchange.ledger)?;
            let sent = fixed::respond(context, (route, &params), head, exchange.sink, exchange.ledger);
            return sent.await.map(|()| None);
        }
        Action::Redirect { status, to, allow, query } => {
            guard::check_length(context, head, route)?;
            let mut location = buffer();
            let values = context.values(head, &params, exchange.ledger.noted());
            let built = build_location(to, allow, *query, &values, &mut location);
            built.map_err(|_| Rejection::of(Reason::BadParameter))?;
            (*status, location)
        }
        // Served above: the contract of the request that is asked about counts, not that of the one that asks.
        Action::Validate(_) => return Err(Rejection::of(Reason::NoRoute).into()),
    };
    let Exchange { sink, ledger, .. } = exchange;
    redirect_on(context, (&route.config, &params), (status, location), head, *sink, ledger).await.map(|()| None)
}

/// Has the response go out as its route says.
fn prepare(sink: &mut impl ResponseSink, route: &RouteConfig, context: Context<'_>) {
    if forwarding::writes(&route.response_headers, b"alt-svc") {
        sink.decorate(Decoration::of_own_alternative());
    }
    sink.pace(route.pace(context.limits()));
}

/// To who asks for a WebSocket over HTTP/2, a response 2xx says that it is open (RFC 8441 §5.1): what has another meaning is rejected.
fn check_action(head: &RequestHead, action: &Action) -> Result<(), Rejection> {
    let is_other = matches!(action, Action::Respond { status: 200..300, .. } | Action::Validate(_));
    if is_other && head.is_extended_connect() { Err(Rejection::of(Reason::WebsocketNotOffered)) } else { Ok(()) }
}

/// Whether the group that a fixed response depends on has a server that is up. How servers fare is nothing that a dry run knows.
fn check_health(group: Option<&str>, generation: &Generation, ledger: &Ledger) -> Result<(), Rejection> {
    let Some(name) = group.filter(|_| ledger.dry_run.is_none()) else { return Ok(()) };
    let is_up = generation.group(name).is_some_and(|group| group.is_up());
    if is_up { Ok(()) } else { Err(Rejection::of(Reason::NoHealthyUpstream)) }
}

/// Whether nothing follows the head of a request, nor is it copied or tried out.
fn is_all_head<B: MessageBody, A>(forward: &Forward, exchange: &Exchange<'_, B, A>) -> bool {
    exchange.body.is_done()
        && !exchange.body.has_trailers()
        && forward.mirror.is_none()
        && exchange.ledger.dry_run.is_none()
}

/// Forwards a request that is all head, and that nobody checks or copies: all that is there for bodies is left out of what is built for this.
async fn forward_head<B, A: ResponseSink>(
    head: &RequestHead,
    (route, params): (&CompiledRoute, Params),
    forward: &Forward,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failure> {
    let context = exchange.context;
    let admitted = guard::admit(context, head, route, params)?;
    let Exchange { sink, response, ledger, timers, .. } = exchange;
    let mut exchange = Exchange { context, head, response, body: &mut NoBody, sink: *sink, ledger, timers };
    forward_request(&admitted, forward, &mut exchange).await
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
    body.throttle(&exchange.ledger.throttles);
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
    body.rule_trailers(TrailerRule::of_request(head, &route.config, context.generation));
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
        exchange.ledger.mirror = copy.send(has_gone && body.is_done());
    }
    guard::note_watched(&admitted, context, &mut body, exchange.ledger);
    outcome
}

/// What shows a certificate authority that the name is ours, if that is what is asked for. To a WebSocket over HTTP/2 it would say something else.
fn challenge(context: Context<'_>, head: &RequestHead) -> Option<Arc<[u8]>> {
    context.generation.issuance.challenges().filter(|_| !head.is_extended_connect())?.response(head)
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
        Routed::MethodInOtherCase => Rejection::of(Reason::MethodInOtherCase),
        Routed::MethodNotAllowed(allow) => {
            Rejection::of(Reason::MethodNotAllowed).telling(|details| details.allow = Some(allow))
        }
        Routed::NotFound | Routed::Found(..) => Rejection::of(Reason::NoRoute),
    };
    Err(rejection.into())
}

/// What must hold for every request, wherever it leads.
fn check_head(context: Context<'_>, head: &RequestHead) -> Result<(), Rejection> {
    check_connection(context, head)?;
    guard::check_method(head, context.generation.config.methods)?;
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

/// Has the response bear the cookies that an authentication service sets.
fn bear_cookies(sink: &mut impl ResponseSink, ledger: &mut Ledger) {
    let cookies = ledger.subject.take_cookies();
    if !cookies.is_empty() {
        sink.decorate(Decoration::of_cookies(cookies));
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
    // Of a service that let the request pass before another policy did not.
    bear_cookies(sink, ledger);
    let is_grpc = grpc::is_call(head);
    // Clients of gRPC read their own status; the log has the one that this stands for.
    begin_own(sink, if is_grpc { 200 } else { rejection.status });
    rejection.fields(|name, value| sink.field(name, value));
    if is_grpc {
        sink.field(b"Content-Type", grpc::CONTENT_TYPE);
        sink.field(b"Grpc-Status", grpc::status(rejection.status, rejection.reason).as_bytes());
        sink.field(b"Grpc-Message", format!("{} {}", rejection.status, reason_phrase(rejection.status)).as_bytes());
        sink.finish_head(BodyFraming::None, None);
        return sink.end(None).await.map_err(|broken| client_failed(&broken, ledger));
    }
    if let Some(relayed) = rejection.relayed() {
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
            sink.last(body, None).await.map_err(|broken| client_failed(&broken, ledger))?;
            ledger.sent.set(body.len() as u64);
            return Ok(());
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
    finish_redirect(location, sink, ledger).await
}

/// The same with the fields of a route.
async fn redirect_on(
    context: Context<'_>,
    (route, params): (&RouteConfig, &Params),
    (status, location): (u16, Vec<u8>),
    head: &RequestHead,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    ledger.status = status;
    sink.begin(status);
    own_fields(context, route, &context.values(head, params, ledger.noted()), sink);
    let sent = finish_redirect(&location, sink, ledger).await;
    recycle(location);
    sent
}

async fn finish_redirect(location: &[u8], sink: &mut impl ResponseSink, ledger: &mut Ledger) -> Result<(), Failure> {
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
    let location = https_location(head, port).ok_or(Rejection::of(Reason::NoHttpsUrl))?;
    redirect(308, &location, sink, ledger).await
}

/// Whether the client may be sent chunked bodies and interim responses.
pub fn is_modern(version: Version) -> bool {
    version != Version::H10
}
