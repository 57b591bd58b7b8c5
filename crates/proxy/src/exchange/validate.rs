//! Validation for another proxy: it holds a request and asks whether it keeps the contract. Each protocol is an adapter that makes of what the proxy says
//! the head of that request (`original`) and its body, and of the decision the response that the proxy understands.
//!
//! Between the adapters stands [`decide`]: lists, operation, head, tokens and body, by the guard that requests of our own pass, with its reasons, records
//! and bounds. Nothing is forwarded. What a protocol cannot show is said where its adapter is made, and in docs/validate-server.md.

mod ext_proc;
mod messages;
mod original;
mod schemas;

use config::{Bodies, Validate, ValidateProtocol};
use reason::Reason;
use wire::envoy::{Denial, read_check, write_allowed, write_denied};
use wire::http::{BodyFraming, RequestHead};

use crate::exchange::{Exchange, begin_own, send_whole};
use crate::guard::{self, Candidate, ExchangeParts, Grounds, GuardedBody, Lease, Origin, ScratchSpace};
use crate::message::body::BodyError;
use crate::message::context::{Aborted, Context, Failure, client_failed};
use crate::message::rejection::{self, Rejection};
use crate::message::sides::{MessageBody, Piece, ResponseSink};
use crate::route::{CompiledRoute, Params};
use messages::{Messages, answer_one};
use original::Names;

/// Says whether a request that another proxy holds keeps its contract.
///
/// # Errors
/// What is asked cannot be read, or the request breaks its contract and the protocol says so by status and body.
pub(super) async fn serve<B: MessageBody, A: ResponseSink>(
    route: &CompiledRoute,
    params: Params,
    service: &Validate,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    let asked = Asked { route, params };
    match service.protocol {
        ValidateProtocol::AuthRequest => auth_request(asked, service, exchange).await,
        ValidateProtocol::ForwardAuth => {
            let head = original::of_fields(exchange.head, &Names::FORWARDED, exchange.context)?;
            decide_shown(asked, service, &head, exchange).await?;
            pass(exchange).await
        }
        ValidateProtocol::ExtAuthz => {
            let head = original::below(exchange.head, &service.prefix)?;
            decide_shown(asked, service, &head, exchange).await?;
            pass(exchange).await
        }
        ValidateProtocol::ExtAuthzGrpc => check(asked, service, exchange).await,
        ValidateProtocol::ExtProc => ext_proc::serve(asked, service, exchange).await,
        ValidateProtocol::Schemas => {
            // Nothing says who sent the requests that are asked about: who asks is counted.
            let (name, ledger) = (Some(route.config.name.as_str()), &mut *exchange.ledger);
            guard::check_policies(exchange.context, name, exchange.head, ledger).await?;
            guard::check_route_policies(exchange.context, route, exchange.head, ledger).await?;
            schemas::serve(asked, service, exchange).await
        }
    }
}

/// The route that a proxy asks on.
#[derive(Clone, Copy)]
struct Asked<'r> {
    route: &'r CompiledRoute,
    params: Params,
}

/// The decision on a request that another proxy holds: all that the guard asks of a request which is to be forwarded.
async fn decide<B: MessageBody, A: ResponseSink>(
    asked: Asked<'_>,
    original: &RequestHead,
    shows_body: bool,
    body: &mut B,
    asking: Context<'_>,
    parts: &mut ExchangeParts<'_, A>,
) -> Result<(), Failure> {
    let Asked { route, params } = asked;
    guard::check_method(original, asking.generation.config.methods)?;
    if original.has_encoded_slash && route.config.options.allow_encoded_slash != Some(true) {
        return Err(Rejection::of(Reason::EncodedSlash).into());
    }
    // Its client is whom its own fields name, as far as the asking proxy is trusted.
    let context = asking.of_relayed(original);
    let name = Some(route.config.name.as_str());
    guard::check_policies(context, name, original, parts.ledger).await?;
    guard::check_around(context, original)?;
    guard::check_route_policies(context, route, original, parts.ledger).await?;
    let active = guard::contract_of(context, route, original)?;
    let Some(active) = active else { return Err(Rejection::of(Reason::NoContract).into()) };
    guard::check_held_names(context, active, original)?;
    let mut scratch = ScratchSpace::empty();
    let mut guarded = GuardedBody::through(body, Lease::new(context));
    let candidate =
        Candidate { context, head: original, route, params, active, origin: Origin::Relayed { shows_body } };
    let admitted = guard::admit_under(candidate, &mut guarded, &mut scratch, parts).await?;
    guard::check_relayed(&admitted, parts.ledger)?;
    let idle = route.config.pace(context.limits()).idle;
    // What was not held is validated as it passes, to nobody.
    while matches!(admitted.grounds(), Grounds::Validated | Grounds::Logged) {
        let next = parts.timers.upload.within(idle, guarded.next()).await;
        match next.map_err(|_| Rejection::of(Reason::RequestBodyTimeout))? {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(BodyError::Validated(rejection)) => return Err(Failure::Rejected(rejection)),
            Err(BodyError::Malformed(error)) => return Err(Rejection::from(error).into()),
            Err(BodyError::Broken | BodyError::Truncated | BodyError::Void(_)) => {
                parts.ledger.blame(Reason::RequestTruncated);
                return Err(Failure::Aborted);
            }
        }
    }
    guard::note_watched(&admitted, context, &mut guarded, parts.ledger);
    Ok(())
}

/// The decision on a request whose body, if any is shown, is that of the question itself.
async fn decide_shown<B: MessageBody, A: ResponseSink>(
    asked: Asked<'_>,
    service: &Validate,
    original: &RequestHead,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    let is_empty = matches!(exchange.head.framing, BodyFraming::None | BodyFraming::Length(0));
    let shows_body = shows_body(service, original, is_empty)?;
    let context = exchange.context;
    let Exchange { body, sink, response, ledger, timers, .. } = exchange;
    let mut parts = ExchangeParts { sink: *sink, interim: response, ledger, timers };
    decide(asked, original, shows_body, *body, context, &mut parts).await
}

/// Whether the whole body is shown: one that came is, one that did not may be there all the same.
fn shows_body(service: &Validate, original: &RequestHead, is_empty: bool) -> Result<bool, Rejection> {
    match original.fields.get(PARTIAL_BODY) {
        // Envoy says so where it shows the beginning of a long body.
        Some(value) if value != b"false" => Err(Rejection::of(Reason::OriginalBodyPartial)),
        _ => Ok(!is_empty || service.bodies == Bodies::Whole),
    }
}

/// Where Envoy says whether the body it shows is all of it.
const PARTIAL_BODY: &str = "x-envoy-auth-partial-body";

/// Lets the request pass.
async fn pass<B: MessageBody, A: ResponseSink>(exchange: &mut Exchange<'_, B, A>) -> Result<(), Failure> {
    let Exchange { sink, ledger, .. } = exchange;
    ledger.status = 200;
    begin_own(*sink, 200);
    sink.finish_head(BodyFraming::Length(0), None);
    sink.end(None).await.map_err(|broken| client_failed(&broken, ledger)).map_err(|Aborted| Failure::Aborted)
}

/// nginx's `auth_request`: it shows no body, and knows two ways to say no: 401, and 403. The status that fits stands in a field, which nginx can read.
async fn auth_request<B: MessageBody, A: ResponseSink>(
    asked: Asked<'_>,
    service: &Validate,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    let said = original::of_fields(exchange.head, &Names::ORIGINAL, exchange.context);
    let outcome = match said {
        Ok(head) => decide_shown(asked, service, &head, exchange).await,
        Err(rejection) => Err(rejection.into()),
    };
    let mut rejection = match outcome {
        Ok(()) => return pass(exchange).await,
        // For nginx that is an error, which it logs, and answers with 500.
        Err(Failure::Rejected(rejection)) if is_of_the_question(rejection.reason) => {
            return Err(Failure::Rejected(rejection));
        }
        Err(Failure::Rejected(rejection)) => rejection,
        Err(Failure::Aborted) => return Err(Failure::Aborted),
    };
    let fitting = rejection.status;
    rejection.status = if fitting == 401 { 401 } else { 403 };
    let Exchange { sink, ledger, .. } = exchange;
    ledger.rejected(&rejection);
    begin_own(*sink, rejection.status);
    rejection.fields(|name, value| sink.field(name, value));
    sink.field(b"Contract-Decision", fitting.to_string().as_bytes());
    let (body, content_type) = rejection::body(&rejection, exchange.head, None, &[]);
    send_whole(*sink, content_type, &body, exchange.head, exchange.ledger).await.map_err(|Aborted| Failure::Aborted)
}

/// Whether what is wrong is the question, and not the request that it is about.
fn is_of_the_question(reason: Reason) -> bool {
    matches!(reason, Reason::OriginalRequestMissing | Reason::OriginalRequestMalformed)
}

/// Envoy's `ext_authz` over gRPC: one message, one word.
async fn check<B: MessageBody, A: ResponseSink>(
    asked: Asked<'_>,
    service: &Validate,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    let context = exchange.context;
    let limits = context.limits();
    let idle = asked.route.config.pace(limits).idle;
    let mut messages = Messages::new(exchange.body, asked.route.config.max_body(context.limits()), context);
    let message = exchange.timers.upload.within(idle, messages.next()).await;
    let message = message.map_err(|_| Rejection::of(Reason::RequestBodyTimeout))??;
    let message = message.ok_or(Rejection::of(Reason::OriginalRequestMissing))?;
    let malformed = |_| Rejection::of(Reason::OriginalRequestMalformed);
    let said = read_check(&message, limits.max_headers).map_err(malformed)?;
    let mut head = original::of_list(said.method, said.target, said.host, &said.fields, limits)?;
    head.framing = BodyFraming::Length(said.body.len() as u64);
    let shows_body = shows_body(service, &head, said.body.is_empty())?;
    let mut body = Piece::new(said.body);
    let Exchange { sink, response, ledger, timers, .. } = exchange;
    let mut parts = ExchangeParts { sink: *sink, interim: response, ledger, timers };
    let mut out = Vec::new();
    match decide(asked, &head, shows_body, &mut body, context, &mut parts).await {
        Ok(()) => {
            exchange.ledger.status = 200;
            write_allowed(&mut out);
        }
        Err(Failure::Rejected(rejection)) => {
            exchange.ledger.rejected(&rejection);
            denied(&rejection, &head, |denial| write_denied(denial, &mut out));
        }
        Err(Failure::Aborted) => return Err(Failure::Aborted),
    }
    answer_one(exchange.sink, &out, exchange.ledger).await
}

/// The response that a proxy is to give in the upstream's place.
fn denied(rejection: &Rejection, head: &RequestHead, write: impl FnOnce(&Denial<'_>)) {
    let mut fields = Vec::new();
    rejection.fields(|name, value| fields.push((name.to_vec(), value.to_vec())));
    let (body, content_type) = rejection::body(rejection, head, None, &[]);
    if !body.is_empty() {
        fields.push((b"content-type".to_vec(), content_type.as_bytes().to_vec()));
    }
    write(&Denial { status: rejection.status, fields: &fields, body: &body, reason: rejection.reason.code() });
}
