//! Policies, asked in the order in which they are named: those of the listener and the host before a request is routed, those of its route before anything is done.
//! Where another proxy asks, all of them are asked about the request that it holds. Within one: maintenance, addresses, rate, then who sends the request (`authenticate`); a
//! rate by a claim behind that.
//!
//! A policy that is named at several of these places counts a request at each.

use std::sync::Arc;
use std::time::Duration;

use config::PolicyMode;
use reason::Reason;
use wire::http::RequestHead;

use super::authenticate::authenticate;
use crate::auth::Subject;
use crate::message::context::Context;
use crate::message::rejection::{Limited, Rejection};
use crate::policies::{ActivePolicy, Counted, Denied};

/// Rejects a request that one of these policies does not let pass. Who it comes from is noted in `subject`.
///
/// # Errors
/// 401, 403, 429 or 503.
pub(super) async fn check<'p>(
    policies: impl IntoIterator<Item = &'p Arc<ActivePolicy>>,
    (head, route): (&RequestHead, Option<&str>),
    context: Context<'_>,
    subject: &mut Subject,
) -> Result<(), Rejection> {
    for policy in policies {
        // What is counted by a claim waits for the token.
        let by_claim = policy.counts_by_claim();
        let mut checked = policy.check(&context.client);
        if !by_claim {
            checked = checked.and_then(|()| policy.count(&counted(head, route, &context, subject)));
        }
        let mut checked = checked.map_err(|denied| rejection(policy, denied));
        if checked.is_ok() && policy.authenticates() {
            // Made where it stays, since most policies ask for nothing of this kind.
            checked = Box::pin(authenticate(policy, head, context, subject)).await;
        }
        if checked.is_ok() && by_claim {
            let taken = policy.count(&counted(head, route, &context, subject));
            checked = taken.map_err(|denied| rejection(policy, denied));
        }
        enforced(policy, checked, context)?;
    }
    Ok(())
}

/// What a rate may count a request by.
fn counted<'c>(
    head: &'c RequestHead,
    route: Option<&'c str>,
    context: &'c Context<'_>,
    subject: &'c Subject,
) -> Counted<'c> {
    let tls = context.conn.tls.as_ref();
    Counted { head, client: &context.client, certificate: tls.and_then(|tls| tls.info.peer.as_deref()), route, subject }
}

/// Counts a rejection, which is none where the policy only logs.
fn enforced(policy: &ActivePolicy, checked: Result<(), Rejection>, context: Context<'_>) -> Result<(), Rejection> {
    let Err(rejection) = checked else { return Ok(()) };
    let enforces = policy.config.mode == PolicyMode::Enforce;
    let decision = if enforces { "rejected" } else { "logged" };
    context.worker.report.policy(&policy.config.name, decision, rejection.reason);
    if enforces { Err(rejection) } else { Ok(()) }
}

/// Rejects a preflight, which shows no credentials, for what it is rejected for without any. Where requests count by a claim it counts by its client.
///
/// # Errors
/// 403, 429 or 503.
pub(super) fn check_preflight<'p>(
    policies: impl IntoIterator<Item = &'p Arc<ActivePolicy>>,
    (head, route): (&RequestHead, Option<&str>),
    context: Context<'_>,
) -> Result<(), Rejection> {
    let nobody = Subject::default();
    policies.into_iter().try_for_each(|policy| {
        let checked = policy.check(&context.client);
        let checked = checked.and_then(|()| policy.count(&counted(head, route, &context, &nobody)));
        enforced(policy, checked.map_err(|denied| rejection(policy, denied)), context)
    })
}

fn rejection(policy: &ActivePolicy, denied: Denied) -> Rejection {
    match denied {
        Denied::Address => Rejection::of(Reason::AddressNotAllowed),
        Denied::Maintenance(after) => {
            Rejection { retry_after: Some(seconds(after)), ..Rejection::of(Reason::Maintenance) }
        }
        Denied::Rate(early) => Rejection {
            limited: policy.config.rate_limit.as_ref().map(|limit| {
                Box::new(Limited {
                    policy: policy.config.name.clone(),
                    quota: limit.burst,
                    window: seconds(limit.interval.saturating_mul(limit.burst)),
                    retry_after: seconds(early),
                })
            }),
            ..Rejection::of(Reason::RateLimited)
        },
    }
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
