//! The upstream's answer on its way to the client, whichever version brought it: checked, begun, relayed to its end.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use net::Deadline;
use net::clock::coarse;
use net::pace::Pace;
use reason::Reason;
use wire::http::ResponseHead;

use crate::exchange::compress::{Compressed, Compressing, is_of_events};
use crate::exchange::relay::{self, Flow, Upload, UploadError};
use crate::exchange::retry::OnConnection;
use crate::exchange::upstream_h1::{Attempt, begin_response, download_failure, stopped_failure};
use crate::exchange::{own_fields, send_whole};
use crate::guard::response::Plan;
use crate::guard::{GuardedBody, HoldError, Lease, ScratchSpace, response as guarded};
use crate::message::body::BodyError;
use crate::message::context::{Aborted, Failure, client_failed};
use crate::message::forwarding::TrailerRule;
use crate::message::ledger::Ledger;
use crate::message::rejection::{self, Rejection};
use crate::message::sides::{MessageBody, ResponseSink};
use crate::message::{encoder, grpc};
use crate::responses::{Compressible, ErrorPages};

/// Relays a response whose head is read, while the rest of the request goes on.
///
/// # Errors
/// It breaks the contract, or one side broke; nothing may be answered in its place once it has begun.
#[expect(clippy::too_many_arguments, reason = "the parts of one exchange, each borrowed from its owner")]
pub(crate) async fn relay_response<F: Future<Output = Result<(), UploadError>>>(
    attempt: &Attempt<'_>,
    response: &ResponseHead,
    body: &mut impl MessageBody,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
    deadline: &mut Deadline,
    upload: &mut Upload<'_, F>,
    flow: &Flow,
) -> Result<(), OnConnection> {
    flow.response_began();
    let (context, admitted, idle) = (attempt.context, attempt.admitted, attempt.idle());
    let mut scratch = ScratchSpace::empty();
    let plan =
        guarded::validate_head(admitted, context, response, &mut scratch, ledger).map_err(OnConnection::clients)?;
    if response.status == 101 {
        begin_response(attempt, response, (&Compressing::none(), ledger.noted()), sink);
        let flushed = sink.flush().await;
        return flushed.map_err(|broken| OnConnection::clients(Failure::from(client_failed(&broken, ledger))));
    }
    if let Some(pages) = intercepting(attempt, response, ledger) {
        replace(attempt, response, pages, sink, ledger).await.map_err(OnConnection::clients)?;
        drain(body, context.generation.config.limits.max_drain_bytes, deadline).await;
        return Ok(());
    }
    let mut compressing = compressing(attempt, response, ledger);
    if matches!(plan, Plan::Free)
        && upload.is_complete()
        && !compressing.encodes()
        && let Some(piece) = body.whole()
    {
        begin_response(attempt, response, (&compressing, ledger.noted()), sink);
        return relay_whole(piece, sink, ledger, flow).await;
    }
    let mut body = GuardedBody::through(body, Lease::new(context));
    body.rule_trailers(TrailerRule::of_response(response, &admitted.route().config));
    match plan {
        Plan::Free => {}
        Plan::Watch { validation, blocks } => body.watch(validation, blocks),
        Plan::Hold(mut validation) => {
            let (pace, held_bytes) = (Pace { idle, min_rate: 0 }, Cell::new(0));
            let holding = body.hold(&mut validation, pace, &held_bytes, deadline);
            let held = upload.beside(holding, None, |context| sink.poll_gone(context)).await;
            ledger.received.set(flow.received.get());
            let held = held.map_err(|stopped| stopped_failure(stopped, ledger))?;
            guarded::finished(admitted, context, &validation, ledger);
            held.map_err(not_held)?;
        }
    }
    begin_response(attempt, response, (&compressing, ledger.noted()), sink);
    let relayed = match compressing.take() {
        None => {
            let relaying = relay::download(&mut body, sink, idle, flow, &ledger.sent, deadline);
            upload.beside(relaying, None, |_| Poll::Pending).await
        }
        Some((encoder, _place)) => {
            let mut compressed = Compressed::new(&mut body, encoder, compressing.is_of_events());
            // It is big, and most responses have none.
            let relaying = Box::pin(relay::download(&mut compressed, sink, idle, flow, &ledger.sent, deadline));
            let relayed = upload.beside(relaying, None, |_| Poll::Pending).await;
            ledger.compressed = compressing.encoding().map(|encoding| (encoder::name(encoding), compressed.taken()));
            relayed
        }
    };
    ledger.received.set(flow.received.get());
    if let Some(validation) = body.watched() {
        guarded::finished(admitted, context, &validation, ledger);
    }
    relayed.map_err(|stopped| stopped_failure(stopped, ledger))?.map_err(|error| download_failure(&error, ledger))
}

/// Sends a body that is all at hand, behind its head.
async fn relay_whole(
    piece: &[u8],
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
    flow: &Flow,
) -> Result<(), OnConnection> {
    ledger.received.set(flow.received.get());
    let sent = if piece.is_empty() { sink.end(None).await } else { sink.last(piece, None).await };
    sent.map_err(|broken| download_failure(&broken.into(), ledger))?;
    ledger.sent.set(piece.len() as u64);
    Ok(())
}

/// What becomes of an upstream's response: whether it is compressed.
fn compressing<'a>(attempt: &Attempt<'a>, response: &ResponseHead, ledger: &Ledger) -> Compressing<'a> {
    let (context, head) = (attempt.context, attempt.admitted.head());
    let Some(route) = &ledger.route else { return Compressing::none() };
    let compression = context.generation.responses.compression(&route.name, &context.conn.listener.name, head);
    let Some(compression) = compression else { return Compressing::none() };
    let subject = Compressible::of(head, context.facts().certificate.is_some(), response, &route.response_headers);
    Compressing::of(context, compression, &subject, is_of_events(response))
}

/// How long the rest of a response that is replaced may take, so that its connection can be used again.
const DROPPED_WITHIN: Duration = Duration::from_secs(1);

/// Fields of a response that stay when its body is replaced: what its status asks for.
const KEPT_FIELDS: [&str; 3] = ["WWW-Authenticate", "Allow", "Retry-After"];

/// The error pages that replace a response, if there are any. Clients of gRPC read none.
fn intercepting<'a>(attempt: &Attempt<'a>, response: &ResponseHead, ledger: &Ledger) -> Option<&'a Arc<ErrorPages>> {
    if response.status < 400 {
        return None;
    }
    let (context, head) = (attempt.context, attempt.admitted.head());
    let route = ledger.route.as_ref().map(|route| route.name.as_str());
    let pages = context.generation.responses.error_pages(route, &context.conn.listener.name, head)?;
    (pages.intercepts(response.status) && !grpc::is_call(head)).then_some(pages)
}

/// Sends an error page in place of an upstream's response.
async fn replace(
    attempt: &Attempt<'_>,
    response: &ResponseHead,
    pages: &Arc<ErrorPages>,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<(), Aborted> {
    let head = attempt.admitted.head();
    let (body, content_type) = rejection::page(response.status, head, Some(pages), ledger.id());
    ledger.error_pages = Some(Arc::clone(&pages.name));
    sink.begin(response.status);
    let values = attempt.context.values(head, attempt.admitted.params(), ledger.noted());
    own_fields(attempt.context, &attempt.admitted.route().config, &values, sink);
    for name in KEPT_FIELDS {
        response.fields.get_all(name).for_each(|value| sink.field(name.as_bytes(), value));
    }
    sink.field(b"Vary", b"Accept");
    send_whole(sink, content_type, &body, head, ledger).await
}

/// Reads what is left of a body that nobody wants, within bounds. Where that is not all of it, its connection is not used again.
async fn drain(body: &mut impl MessageBody, limit: u64, deadline: &mut Deadline) {
    let until = coarse() + DROPPED_WITHIN;
    let mut dropped = 0;
    while dropped <= limit {
        match deadline.until(until, body.next()).await {
            Ok(Ok(Some(piece))) => dropped += piece.len() as u64,
            _ => return,
        }
    }
}

/// What is answered instead of a body that could not be held to its end.
fn not_held(error: HoldError) -> OnConnection {
    match error {
        HoldError::Validated(stop) => OnConnection::clients(stop.rejection),
        HoldError::NoMemory => OnConnection::clients(Rejection::of(Reason::ValidationMemory)),
        HoldError::Slow => OnConnection::servers(Rejection::of(Reason::ResponseBodyTimeout)),
        HoldError::Body(BodyError::Malformed(_) | BodyError::Void(_)) => {
            OnConnection::servers(Rejection::of(Reason::ResponseMalformed))
        }
        HoldError::Body(BodyError::Truncated) => OnConnection::servers(Rejection::of(Reason::ResponseTruncated)),
        HoldError::Body(_) => OnConnection::servers(Rejection::of(Reason::UpstreamReset)),
    }
}
