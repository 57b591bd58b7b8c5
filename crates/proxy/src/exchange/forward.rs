//! A request on its way to a group: which server it is sent to, and which next, until one has responded or no other may be asked.
//!
//! Owns the order of these steps. One try at one server is `upstream_h1` and `upstream_h2`; whether another may follow, `retry`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Forward, ForwardTo, Hedge, UpstreamProtocol};
use net::Deadline;
use reason::Reason;
use transport::{buffer, recycle};

use crate::auth::Subject;
use crate::exchange::hedge::{self, Plan};
use crate::exchange::replay::Replay;
use crate::exchange::retry::{self, Condition, Failed, Tries};
use crate::exchange::upstream_h1::{self, Attempt, Upgraded, upgrade_token};
use crate::exchange::{Exchange, affinity, negotiate, upstream_h2};
use crate::guard::Admitted;
use crate::message::context::{Aborted, Context, Failure};
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink, while_wanted};
use crate::onward::Onward;
use crate::route::{self, Sought, build_authority};
use crate::upstream::{Full, Group, InFlight, NoServer, Server, Session, Taken, TunnelPlace, Wish};

/// Rejects who asks for a WebSocket over HTTP/2 where the request would be forwarded without that wish.
pub(super) fn check_upgrade(admitted: &Admitted<'_>, group: &Group) -> Result<(), Rejection> {
    let takes = matches!(group.config.protocol, UpstreamProtocol::Http1 | UpstreamProtocol::Auto);
    let is_forwarded = || takes && upgrade_token(admitted).is_some();
    if !admitted.head().is_extended_connect() || is_forwarded() {
        return Ok(());
    }
    Err(Rejection::of(Reason::WebsocketNotOffered))
}

/// Chooses a server, sends the request, and goes on to the next server while that is safe.
pub(super) async fn forward_request<B: MessageBody, A: ResponseSink>(
    admitted: &Admitted<'_>,
    forward: &Forward,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Box<Upgraded>>, Failure> {
    let context = exchange.context;
    let group = group_for(admitted, forward, exchange)?;
    let until = total_timeout(admitted, &group).map(|limit| Instant::now() + limit);
    let in_flight = admit(&group, exchange).await?;
    resolve(&group, exchange).await?;
    let onward = Onward::of(context, &group)?;
    let onward = onward.as_deref();
    let (mut tries, replay) = (Tries::without(onward.map_or(&[], Onward::unfit)), Replay::default());
    let hash = affinity::hash_of(&group, &context.client, admitted);
    let session = affinity::session(&group, admitted.head());
    let mut kept = None;
    loop {
        let wish = Wish { hash, prefer: session.server(), not: tries.left_out(), is_again: !tries.is_first() };
        let taken = match kept.take().map_or_else(|| group.take(wish), Ok) {
            Err(NoServer::Busy) if tries.is_first() && group.queues() => {
                queue(Box::pin(group.take_in_turn(wish, context.places())), exchange).await?
            }
            taken => taken,
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(why) => return Err(tries.last(|| no_server(&group, onward, why).into())),
        };
        exchange.ledger.server = Some(Arc::clone(&taken.server));
        exchange.ledger.begin_try(&taken.server);
        if let Some(hedge) = hedge(&tries, &group, session, admitted, exchange) {
            let plan = Plan { context, admitted, forward, group: &group, session, onward, replay: &replay, hash };
            let raced = Box::pin(hedge::run(plan, taken, (hedge, &mut tries), until, exchange)).await;
            let Err(ended) = raced else { return Ok(None) };
            let (failed, taken) = *ended;
            let Some(taken) = taken else { return Err(failed.failure) };
            kept = go_on(failed, &mut tries, taken, &group, exchange).await?;
            continue;
        }
        let server = &taken.server;
        let ahead = tries.ahead(&group, server, admitted.head());
        let (pool, fresh, replay) = (server.pool(), tries.is_fresh(), &replay);
        let attempt =
            Attempt { context, admitted, forward, group: &group, server, pool, fresh, ahead, session, onward, replay };
        let outcome = match until {
            None => try_once(&attempt, exchange).await,
            Some(until) => bounded(until, &attempt, exchange).await,
        };
        let failed = match outcome {
            Ok(upgraded) => {
                note_served(&attempt, exchange.ledger);
                return Ok(upgraded.map(|mut upgraded| {
                    upgraded.place = Some(TunnelPlace::of(&group, in_flight, taken));
                    upgraded
                }));
            }
            Err(failed) => failed,
        };
        note_failed(&attempt, &failed);
        kept = go_on(failed, &mut tries, taken, &group, exchange).await?;
    }
}

/// Whether another server is asked beside the next one, and when. A client that has a session there gets no response of another one.
fn hedge<B: MessageBody, A>(
    tries: &Tries,
    group: &Group,
    session: Session,
    admitted: &Admitted<'_>,
    exchange: &Exchange<'_, B, A>,
) -> Option<Hedge> {
    let is_all_head = exchange.body.is_done() && !exchange.body.has_trailers();
    tries.hedge(group, admitted.head()).filter(|_| session.server().is_none() && is_all_head)
}

/// Waits for the next try, if there is one. Gives the place at the server that failed where the request goes to the same again, on a fresh connection.
async fn go_on<'g, B, A: ResponseSink>(
    failed: Failed,
    tries: &mut Tries,
    taken: Taken<'g>,
    group: &Group,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<Option<Taken<'g>>, Failure> {
    exchange.ledger.end_try(&taken.server, failed.condition.ended());
    let pause = tries.note(failed, (group, &taken.server), &exchange.context.worker.report)?;
    exchange.ledger.retries += 1;
    let kept = Some(taken).filter(|_| tries.is_same_again());
    wait(pause, exchange).await?;
    Ok(kept)
}

/// Counts a request in at its group, once there is room for it.
async fn admit<'g, B, A: ResponseSink>(
    group: &'g Group,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<InFlight<'g>, Failure> {
    let places = exchange.context.places();
    let admitted = match group.admit(places) {
        Err(Full::OfAll) if group.queues() => queue(Box::pin(group.admit_in_turn(places)), exchange).await?,
        admitted => admitted,
    };
    admitted.map_err(|full| Rejection::of(full.reason()).into())
}

/// Waits for the first answer of a name server, and then never again.
async fn resolve<B, A: ResponseSink>(group: &Group, exchange: &mut Exchange<'_, B, A>) -> Result<(), Aborted> {
    if !group.is_resolving() {
        return Ok(());
    }
    let resolved = while_wanted(Box::pin(group.resolved(group.config.connect_timeout)), exchange.sink).await;
    resolved.map_err(|why| {
        exchange.ledger.blame(why);
        Aborted
    })
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

/// Notes what a response says of its server and of the client's session.
pub(super) fn note_served(attempt: &Attempt<'_>, ledger: &mut Ledger) {
    ledger.session = attempt.session.outcome(attempt.server);
    // How long a request with a body takes is its client's affair, too.
    let took = ledger.upstream_duration.filter(|_| !retry::has_body(attempt.admitted.head()));
    note_response(attempt.group, attempt.server, ledger.upstream_status, took);
}

/// What a response says of its server.
fn note_response(group: &Group, server: &Server, status: Option<u16>, took: Option<Duration>) {
    if group.note_response(server, status, took) {
        tracing::warn!(upstream = group.config.name, server = %server.name, status, "server ejected");
    }
}

/// What a try that failed says of its server.
pub(super) fn note_failed(attempt: &Attempt<'_>, failed: &Failed) {
    let (group, server, report) = (attempt.group, attempt.server, &attempt.context.worker.report);
    if let Condition::Status(status) = failed.condition {
        report.response_retried(&group.config.name, &server.name, status);
        note_response(group, server, Some(status), None);
    } else if failed.servers_fault && server.failed(group.config.ejection) {
        tracing::warn!(upstream = group.config.name, server = %server.name, "server ejected");
    }
}

/// A group has no server that could be asked, and that is known without asking.
fn no_server(group: &Group, onward: Option<&Onward>, why: NoServer) -> Rejection {
    if onward.is_some_and(|onward| !onward.unfit().is_empty()) && why == NoServer::None {
        return Rejection::with_status(Reason::NoTargetOfFamily, 503);
    }
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
        UpstreamProtocol::Http1 | UpstreamProtocol::Tcp | UpstreamProtocol::Udp => {
            upstream_h1::attempt(attempt, None, exchange).await
        }
        UpstreamProtocol::Auto => Box::pin(negotiate::attempt(attempt, exchange)).await,
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

pub(super) fn destination(
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
