//! Hedged requests: when a server takes long to respond, another one is asked beside it, and the first response that begins is the client's.
//!
//! Only of requests that may be executed twice, and within the budget and the attempts of retries: `retry.rs` decides. Owns the race up to the head of a
//! response. Who loses is given up, which is no failure: its connection is closed, or its stream reset. All of it is a future of its own that other
//! requests do not have.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use config::{Forward, Hedge, UpstreamProtocol};
use http::Request;
use net::Deadline;
use reason::Reason;
use tokio::time::Sleep;
use transport::{buffer, recycle};
use wire::http::ResponseHead;

use crate::exchange::Exchange;
use crate::exchange::forward::{note_failed, note_served};
use crate::exchange::negotiate::{self, Spoken};
use crate::exchange::replay::Replay;
use crate::exchange::retry::{Ahead, Condition, Failed, Next, OnConnection, Tries};
use crate::exchange::upstream_h1::{self, Attempt, head_arrived};
use crate::exchange::upstream_h2;
use crate::guard::Admitted;
use crate::message::context::{Context, Failure, client_failed};
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink};
use crate::onward::Onward;
use crate::route::Noted;
use crate::upstream::{Group, Server, ServerId, Session, Standing, Taken, Wish};

/// A request and its group: what all servers that are asked have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) context: Context<'a>,
    pub(super) admitted: &'a Admitted<'a>,
    pub(super) forward: &'a Forward,
    pub(super) group: &'a Group,
    pub(super) session: Session,
    pub(super) onward: Option<&'a Onward>,
    pub(super) replay: &'a Replay,
    pub(super) hash: Option<u64>,
}

/// How a race ends without a response: what failed, and the server, unless no server is to be asked any more.
pub(super) type Ended<'a> = Box<(Failed, Option<Taken<'a>>)>;

/// What servers that are asked beside each other leave for whoever asks them.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// The address that the client's connection has reached.
    pub(super) reached: Option<SocketAddr>,
    /// Interim responses for the client, of whichever server.
    interim: RefCell<VecDeque<ResponseHead>>,
    retries: Cell<u32>,
}

impl Aside {
    /// Leaves an interim response.
    pub(super) fn pass(&self, response: &ResponseHead) {
        self.interim.borrow_mut().push_back(response.clone());
    }

    /// Notes that a server was asked once more.
    pub(super) fn note_retry(&self) {
        self.retries.set(self.retries.get() + 1);
    }

    fn has_interim(&self) -> bool {
        !self.interim.borrow().is_empty()
    }
}

/// A response that has begun.
enum Begun {
    Http1(upstream_h1::Begun),
    Http2(upstream_h2::Begun),
}

/// What is sent to one server: as HTTP/1.1 or HTTP/2 has it, or both where that is negotiated.
struct Written {
    http1: Option<Vec<u8>>,
    http2: Option<Box<Request<()>>>,
}

/// What came of one server.
struct Asked {
    /// Until its head was there, or it failed: another server may be waited for meanwhile.
    took: Duration,
    response: Box<ResponseHead>,
    begun: Result<Begun, OnConnection>,
}

/// A server that is being asked.
struct Running<'a, F> {
    taken: Taken<'a>,
    asking: Pin<Box<F>>,
}

/// What a race waits for.
enum Event {
    /// The server at this place has responded, or failed to.
    Ended(usize, Asked),
    /// Another one is to be asked.
    Due,
    /// Interim responses are there.
    Interim,
    /// The client has gone.
    Gone(Reason),
}

impl<'a> Plan<'a> {
    fn at<'s>(&self, server: &'s Arc<Server>, fresh: bool, ahead: Option<Ahead>) -> Attempt<'s>
    where
        'a: 's,
    {
        Attempt {
            context: self.context,
            admitted: self.admitted,
            forward: self.forward,
            group: self.group,
            server,
            pool: server.pool(),
            fresh,
            ahead,
            session: self.session,
            onward: self.onward,
            replay: self.replay,
        }
    }

    /// The request as this server shall see it.
    fn written(&self, server: &Arc<Server>, noted: Noted<'_>) -> Result<Written, Rejection> {
        let attempt = self.at(server, false, None);
        let protocol = self.group.config.protocol;
        let mut written = Written { http1: None, http2: None };
        if protocol != UpstreamProtocol::Http2 {
            let mut head = buffer();
            upstream_h1::write_head(&attempt, noted, &mut head)?;
            written.http1 = Some(head);
        }
        if matches!(protocol, UpstreamProtocol::Http2 | UpstreamProtocol::Auto) {
            written.http2 = Some(Box::new(upstream_h2::request(&attempt, noted)?));
        }
        Ok(written)
    }

    /// Asks a server until the head of its response is there.
    async fn ask(self, server: Arc<Server>, how: (bool, Option<Ahead>), written: Written, aside: &Aside) -> Asked {
        let attempt = self.at(&server, how.0, how.1);
        let (began, mut response) = (Instant::now(), Box::<ResponseHead>::default());
        let spoken = match &written {
            Written { http1: Some(_), http2: Some(_) } => negotiate::aside(&attempt, aside.reached).await,
            Written { http2: Some(_), .. } => Ok(Spoken::Http2),
            Written { .. } => Ok(Spoken::Http1(None)),
        };
        let begun = match (spoken, &written.http2) {
            (Err(failed), _) => Err(failed),
            (Ok(Spoken::Http2), Some(request)) => {
                // Where that was negotiated and a new connection was wanted, it has just been opened.
                let shared = Attempt { fresh: attempt.fresh && written.http1.is_none(), ..attempt };
                upstream_h2::ask(&shared, request, aside, &mut response).await.map(Begun::Http2)
            }
            (Ok(Spoken::Http1(given)), _) => {
                let head = written.http1.as_deref().unwrap_or_default();
                upstream_h1::ask(&attempt, given, head, aside, &mut response).await.map(Begun::Http1)
            }
            (Ok(Spoken::Http2), None) => Err(OnConnection::clients(Rejection::of(Reason::BadRequestForHttp2))),
        };
        written.http1.into_iter().for_each(recycle);
        Asked { took: began.elapsed(), response, begun }
    }

    /// Another server, to be asked beside those that are; none if none may be or can.
    fn another<B, A>(
        &self,
        newest: &Server,
        tries: &mut Tries,
        exchange: &mut Exchange<'_, B, A>,
    ) -> Option<(Taken<'a>, Written)> {
        let (group, report) = (self.group, &self.context.worker.report);
        if !tries.goes_beside(group, newest) {
            return None;
        }
        let wish = Wish { hash: self.hash, prefer: None, not: tries.left_out(), is_again: true };
        let mut is_recorded = false;
        let found = group.take(wish).ok().and_then(|taken| {
            is_recorded = exchange.ledger.begin_try(&taken.server);
            let written = self.written(&taken.server, exchange.ledger.noted()).ok()?;
            Some((taken, written))
        });
        let is_over_budget = found.is_some() && !group.take_from_budget();
        if is_over_budget {
            report.hedged(&group.config.name, None);
        }
        let Some(found) = found.filter(|_| !is_over_budget) else {
            tries.stays_alone();
            if let Some(trace) = exchange.ledger.trace.as_mut().filter(|_| is_recorded) {
                trace.drop_try();
            }
            return None;
        };
        exchange.ledger.hedges += 1;
        report.hedged(&group.config.name, Some(&found.0.server.name));
        Some(found)
    }
}

/// Sends a request to the server that was taken, and to others while none has responded; relays the first response. `until`: when all of it must be over.
///
/// # Errors
/// See [`Ended`]; what it says of the server has been noted.
pub(super) async fn run<'a, B: MessageBody, A: ResponseSink>(
    plan: Plan<'a>,
    taken: Taken<'a>,
    (hedge, tries): (Hedge, &mut Tries),
    until: Option<Instant>,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Ended<'a>> {
    let Some(until) = until else { return race(plan, taken, (hedge, tries), exchange).await };
    let limit = until.saturating_duration_since(Instant::now());
    let raced = Deadline::new().within(limit, Box::pin(race(plan, taken, (hedge, tries), exchange))).await;
    raced.unwrap_or_else(|_| {
        exchange.ledger.blame(Reason::UpstreamTotalTimeout);
        Err(Box::new((Failed::finally(Rejection::of(Reason::UpstreamTotalTimeout)), None)))
    })
}

async fn race<'a, B: MessageBody, A: ResponseSink>(
    plan: Plan<'a>,
    taken: Taken<'a>,
    (hedge, tries): (Hedge, &mut Tries),
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Ended<'a>> {
    let (group, request) = (plan.group, plan.admitted.head());
    let aside = Aside { reached: exchange.sink.reached(), ..Aside::default() };
    let written = match plan.written(&taken.server, exchange.ledger.noted()) {
        Ok(written) => written,
        Err(rejection) => return Err(Box::new((Failed::finally(rejection), Some(taken)))),
    };
    let how = (tries.is_fresh(), tries.ahead(group, &taken.server, request));
    let (mut newest, mut left, mut held) = (Arc::clone(&taken.server), hedge.max, None);
    let first = newest.id;
    let start = |taken: Taken<'a>, how, written| {
        let asking = Box::pin(plan.ask(Arc::clone(&taken.server), how, written, &aside));
        Running { taken, asking }
    };
    let mut running = vec![start(taken, how, written)];
    let mut due = pin!(tokio::time::sleep(hedge.after));
    let last = loop {
        let is_due = (left > 0).then_some(due.as_mut());
        let event = next_event(&mut running, is_due, &aside, exchange.sink).await;
        // They may have come together with what followed them.
        pass_interim(&aside, exchange).await.map_err(given_up)?;
        match event {
            Event::Due => {
                let another = plan.another(&newest, tries, exchange);
                left = if another.is_some() { left - 1 } else { 0 };
                if let Some((taken, written)) = another {
                    newest = Arc::clone(&taken.server);
                    let ahead = tries.ahead(group, &newest, request);
                    running.push(start(taken, (false, ahead), written));
                    due.set(tokio::time::sleep(hedge.after));
                }
            }
            Event::Interim => {}
            Event::Gone(why) => {
                exchange.ledger.blame(why);
                return Err(given_up(Failure::Aborted));
            }
            Event::Ended(place, asked) => {
                let Running { taken, .. } = running.swap_remove(place);
                let is_alone = running.is_empty();
                match &asked.begun {
                    // A better one may come.
                    Ok(_) if !is_alone && group.config.retries.statuses.contains(asked.response.status) => {
                        note_given_up(&plan, held.replace((taken, asked)));
                    }
                    Err(_) if !is_alone || held.is_some() => {
                        note_lost(&plan, taken, asked, exchange);
                        match held.take() {
                            Some(last) if is_alone => break last,
                            other => held = other,
                        }
                    }
                    _ => break (taken, asked),
                }
            }
        }
    };
    give_up(group, running);
    exchange.ledger.retries += aside.retries.get();
    note_given_up(&plan, held);
    tries.is_about(&last.0.server, &newest);
    let ahead = tries.ahead(group, &last.0.server, request);
    finish(&plan, last, ahead, first, exchange).await
}

/// Relays the response that came first, or ends as the last server has failed.
async fn finish<'a, B: MessageBody, A: ResponseSink>(
    plan: &Plan<'a>,
    (taken, asked): (Taken<'a>, Asked),
    ahead: Option<Ahead>,
    first: ServerId,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Ended<'a>> {
    exchange.ledger.server = Some(Arc::clone(&taken.server));
    let attempt = plan.at(&taken.server, false, ahead);
    let relayed = relay(&attempt, asked, exchange).await;
    match relayed.map_err(|failed| failed.check(plan.admitted.head(), exchange.sink)) {
        Ok(()) => {
            exchange.ledger.hedge_won = taken.server.id != first;
            note_served(&attempt, exchange.ledger);
            Ok(())
        }
        Err(failed) => {
            note_failed(&attempt, &failed);
            Err(Box::new((failed, Some(taken))))
        }
    }
}

/// Who is still being asked is not asked any more. That is no failure, but for a server that was to show that it can be connected to again, and did not:
/// its next trial would come with the next request.
fn give_up<F>(group: &Group, running: Vec<Running<'_, F>>) {
    for Running { taken, .. } in running {
        let server = &taken.server;
        if server.standing() == Standing::OnTrial && server.failed(group.config.ejection) {
            tracing::warn!(upstream = group.config.name, server = %server.name, "server ejected");
        }
    }
}

/// The client has gone, or cannot be sent anything.
fn given_up<'a>(failure: Failure) -> Ended<'a> {
    Box::new((Failed::finally(failure), None))
}

/// What happens next.
async fn next_event<F: Future<Output = Asked>>(
    running: &mut [Running<'_, F>],
    mut due: Option<Pin<&mut Sleep>>,
    aside: &Aside,
    sink: &mut impl ResponseSink,
) -> Event {
    poll_fn(|waker| {
        for (place, one) in running.iter_mut().enumerate() {
            if let Poll::Ready(asked) = one.asking.as_mut().poll(waker) {
                return Poll::Ready(Event::Ended(place, asked));
            }
        }
        if aside.has_interim() {
            return Poll::Ready(Event::Interim);
        }
        if due.as_mut().is_some_and(|due| due.as_mut().poll(waker).is_ready()) {
            return Poll::Ready(Event::Due);
        }
        sink.poll_gone(waker).map(Event::Gone)
    })
    .await
}

/// Passes on interim responses to a client that takes them.
async fn pass_interim<B, A: ResponseSink>(aside: &Aside, exchange: &mut Exchange<'_, B, A>) -> Result<(), Failure> {
    loop {
        let Some(head) = aside.interim.borrow_mut().pop_front() else { return Ok(()) };
        if exchange.sink.takes_interim() {
            let sent = exchange.sink.interim(&head).await;
            sent.map_err(|broken| client_failed(&broken, exchange.ledger))?;
        }
    }
}

/// Notes that a server has failed while others are asked.
fn note_lost<B, A: ResponseSink>(plan: &Plan<'_>, taken: Taken<'_>, asked: Asked, exchange: &mut Exchange<'_, B, A>) {
    let Err(failed) = asked.begun else { return };
    let failed = failed.check(plan.admitted.head(), exchange.sink);
    exchange.ledger.end_try(&taken.server, failed.condition.ended());
    note_failed(&plan.at(&taken.server, false, None), &failed);
}

/// Notes a response with a status that is retried, for which a better one has come.
fn note_given_up(plan: &Plan<'_>, held: Option<(Taken<'_>, Asked)>) {
    let Some((taken, asked)) = held else { return };
    let condition = Condition::Status(asked.response.status);
    let failure = Rejection::of(Reason::NoHealthyUpstream).into();
    let failed = Failed { failure, servers_fault: true, next: Next::Nowhere, condition };
    note_failed(&plan.at(&taken.server, false, None), &failed);
}

/// Relays what a server has begun, unless its status is retried and another server may be asked.
async fn relay<B: MessageBody, A: ResponseSink>(
    attempt: &Attempt<'_>,
    mut asked: Asked,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), OnConnection> {
    let begun = asked.begun?;
    attempt.check_status(asked.response.status)?;
    std::mem::swap(exchange.response, &mut asked.response);
    head_arrived(exchange.response, exchange.ledger, asked.took);
    match begun {
        Begun::Http1(begun) => upstream_h1::relay_begun(attempt, begun, exchange).await,
        Begun::Http2(begun) => upstream_h2::relay_begun(attempt, begun, exchange).await,
    }
}
