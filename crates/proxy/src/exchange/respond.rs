//! The upstream's answer on its way to the client, whichever version brought it: checked, begun, relayed to its end.

use std::cell::Cell;
use std::future::Future;
use std::task::Poll;

use net::Deadline;
use net::pace::Pace;
use reason::Reason;
use wire::http::ResponseHead;

use crate::exchange::relay::{self, Flow, Upload, UploadError};
use crate::exchange::retry::OnConnection;
use crate::exchange::upstream_h1::{Attempt, begin_response, download_failure, stopped_failure};
use crate::guard::response::Plan;
use crate::guard::{GuardedBody, HoldError, Lease, ScratchSpace, response as guarded};
use crate::message::body::BodyError;
use crate::message::context::{Failure, client_failed};
use crate::message::forwarding::TrailerRule;
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink};

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
    let (context, admitted) = (attempt.context, attempt.admitted);
    let mut scratch = ScratchSpace::empty();
    let plan =
        guarded::validate_head(admitted, context, response, &mut scratch, ledger).map_err(OnConnection::clients)?;
    if response.status == 101 {
        begin_response(attempt, response, ledger.id(), sink);
        let flushed = sink.flush().await;
        return flushed.map_err(|broken| OnConnection::clients(Failure::from(client_failed(&broken, ledger))));
    }
    let idle = attempt.idle();
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
    begin_response(attempt, response, ledger.id(), sink);
    let relaying = relay::download(&mut body, sink, idle, flow, &ledger.sent, deadline);
    let relayed = upload.beside(relaying, None, |_| Poll::Pending).await;
    ledger.received.set(flow.received.get());
    if let Some(validation) = body.watched() {
        guarded::finished(admitted, context, &validation, ledger);
    }
    relayed.map_err(|stopped| stopped_failure(stopped, ledger))?.map_err(|error| download_failure(&error, ledger))
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
