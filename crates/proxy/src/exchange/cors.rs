//! Requests of pages of other origins: preflights are answered here, before contract and authentication, since browsers show no credentials with them; all
//! other responses say who may read them, rejections among them, so that a page learns why.

use reason::Reason;
use wire::http::{BodyFraming, Method, RequestHead};

use crate::guard;
use crate::message::context::{Aborted, Context, Failure, client_failed};
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::message::sides::ResponseSink;
use crate::policies::cors;
use crate::route::Routed;

/// Answers a preflight, or has the response say who may read it. Whether it is answered.
///
/// # Errors
/// What is asked for is not allowed, or a policy does not let the request pass.
pub(super) async fn begin(
    context: Context<'_>,
    routed: &Routed<'_>,
    head: &RequestHead,
    sink: &mut impl ResponseSink,
    ledger: &mut Ledger,
) -> Result<bool, Failure> {
    let (generation, listener) = (context.generation, &context.conn.listener.name);
    let index = |routed: &Routed<'_>| match routed {
        Routed::Found(route, _) => Some(route.index),
        _ => None,
    };
    if let Some(method) = cors::preflight(head) {
        // The route is that of the request which is to follow.
        let Some(asked) = Method::from_bytes(method) else { return Ok(false) };
        let following = RequestHead { method: asked.clone(), ..head.clone() };
        let routed = generation.routes.find(listener, context.sought(&following));
        let route = index(&routed);
        let Some((policy, rule)) = generation.policies.cors(route, listener, head) else { return Ok(false) };
        if let Some(notes) = &mut ledger.dry_run {
            notes.announced = Some(asked);
        }
        let found = match &routed {
            Routed::Found(route, params) => {
                ledger.takes(&route.config, params, || context.is_secure(head));
                Some(*route)
            }
            _ => None,
        };
        guard::check_preflight(context, found, head, ledger)?;
        let Some(answer) = cors::answer(rule, head, method) else {
            context.worker.report.policy(&policy.config.name, "rejected", Reason::CorsNotAllowed);
            return Err(Rejection::of(Reason::CorsNotAllowed).into());
        };
        ledger.status = 204;
        sink.decorate(answer);
        super::begin_own(sink, 204);
        sink.finish_head(BodyFraming::None, None);
        let sent = sink.end(None).await.map_err(|broken| client_failed(&broken, ledger));
        return sent.map(|()| true).map_err(|Aborted| Failure::Aborted);
    }
    if let Some((_, rule)) = generation.policies.cors(index(routed), listener, head) {
        sink.decorate(cors::decorate(rule, head));
    }
    Ok(false)
}
