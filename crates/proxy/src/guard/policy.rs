//! Policies, asked in the order in which they are named: those of the listener and the host before a request is routed, those of its route before anything is done.
//! Where another proxy asks, all of them are asked about the request that it holds.
//!
//! A policy that is named at several of these places counts a request at each.

use std::sync::Arc;

use config::PolicyMode;
use reason::Reason;
use wire::http::RequestHead;

use crate::message::context::Context;
use crate::message::rejection::{Limited, Rejection};
use crate::policies::{ActivePolicy, Denied};

/// Rejects a request that one of these policies does not let pass.
///
/// # Errors
/// 403 or 429.
pub(super) fn check<'p>(
    policies: impl IntoIterator<Item = &'p Arc<ActivePolicy>>,
    head: &RequestHead,
    context: Context<'_>,
) -> Result<(), Rejection> {
    policies.into_iter().try_for_each(|policy| check_one(policy, head, context))
}

fn check_one(policy: &ActivePolicy, head: &RequestHead, context: Context<'_>) -> Result<(), Rejection> {
    let Err(denied) = policy.check(head, &context.client) else { return Ok(()) };
    let enforces = policy.config.mode == PolicyMode::Enforce;
    let rejection = match denied {
        Denied::Address => Rejection::of(Reason::AddressNotAllowed),
        Denied::Rate(early) => Rejection {
            limited: policy.config.rate_limit.as_ref().map(|limit| {
                let seconds = |time: std::time::Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
                Box::new(Limited {
                    policy: policy.config.name.clone(),
                    quota: limit.burst,
                    window: seconds(limit.interval.saturating_mul(limit.burst)),
                    retry_after: seconds(early),
                })
            }),
            ..Rejection::of(Reason::RateLimited)
        },
    };
    let decision = if enforces { "rejected" } else { "logged" };
    context.worker.report.policy(&policy.config.name, decision, rejection.reason);
    if enforces { Err(rejection) } else { Ok(()) }
}
