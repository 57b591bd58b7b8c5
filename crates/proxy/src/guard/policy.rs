//! Policies, asked in the order in which they are named: those of the listener and the host before a request is routed, those of its route before anything is done.
//! Where another proxy asks, all of them are asked about the request that it holds. Within one: maintenance, addresses, rate, number, then who sends the request
//! (`authenticate`), what is counted by a claim, and the bandwidth of who may pass.
//!
//! A policy that is named at several of these places counts a request at each.

use std::sync::Arc;
use std::time::Duration;

use config::PolicyMode;
use wire::http::RequestHead;

use super::authenticate::authenticate;
use super::rehearsal;
use crate::auth::Subject;
use crate::message::context::Context;
use crate::message::ledger::Ledger;
use crate::message::rejection::{Limited, Rejection};
use crate::policies::{ActivePolicy, Denied, Permit};
use crate::route::Sought;

/// Rejects a request that one of these policies does not let pass. Who it comes from, and what it counts as until it ends, is noted in its ledger.
///
/// # Errors
/// 401, 403, 429 or 503.
pub(super) async fn check<'p>(
    policies: impl IntoIterator<Item = &'p Arc<ActivePolicy>>,
    (head, route): (&RequestHead, Option<&str>),
    context: Context<'_>,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    for policy in policies {
        let sought = Sought { subject: Some(&ledger.subject), ..context.sought(head) };
        if !policy.concerns(&sought) {
            let why = if ledger.dry_run.is_some() { policy.unmet(&sought) } else { None };
            rehearsal::skip(policy, why, ledger);
            continue;
        }
        if ledger.dry_run.is_some() {
            let checked = Box::pin(rehearsal::check(policy, head, context, ledger)).await;
            enforced(policy, checked, context, ledger)?;
            continue;
        }
        let mut checked = count(policy, policy.check(&context.applicant(head, route, &ledger.subject)), ledger);
        // Made where it stays, since most policies ask for nothing of this kind.
        if checked.is_ok() && policy.authenticates() {
            checked = Box::pin(authenticate(policy, head, context, ledger)).await;
        }
        if checked.is_ok() {
            checked = count(policy, policy.check_identified(&context.applicant(head, route, &ledger.subject)), ledger);
        }
        enforced(policy, checked, context, ledger)?;
        let applicant = context.applicant(head, route, &ledger.subject);
        policy.throttle(&applicant, &context.conn.meters, &mut ledger.throttles);
    }
    Ok(())
}

/// Counts what a policy says; a rejection is none where the policy only logs.
fn enforced(
    policy: &ActivePolicy,
    checked: Result<(), Rejection>,
    context: Context<'_>,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let Err(rejection) = checked else {
        context.worker.report.policy_passed(&policy.config.name);
        return Ok(());
    };
    let enforces = policy.config.mode == PolicyMode::Enforce;
    let decision = if enforces { "rejected" } else { "logged" };
    context.worker.report.policy(&policy.config.name, decision, rejection.reason);
    if !enforces {
        ledger.would_reject.push(policy.would_reject(rejection.reason));
        return Ok(());
    }
    ledger.policy = Some(Arc::clone(&policy.config));
    Err(rejection)
}

/// Rejects a preflight, which shows no credentials, for what it is rejected for without any. Where requests count by a claim it counts by its client.
///
/// # Errors
/// 403, 429 or 503.
pub(super) fn check_preflight<'p>(
    policies: impl IntoIterator<Item = &'p Arc<ActivePolicy>>,
    (head, route): (&RequestHead, Option<&str>),
    context: Context<'_>,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let nobody = Subject::default();
    policies.into_iter().try_for_each(|policy| {
        let sought = context.sought(head);
        if !policy.concerns(&sought) {
            let why = if ledger.dry_run.is_some() { policy.unmet(&sought) } else { None };
            rehearsal::skip(policy, why, ledger);
            return Ok(());
        }
        let checked = match ledger.dry_run {
            Some(_) => rehearsal::check_client(policy, head, context, ledger),
            None => count(policy, policy.check_unidentified(&context.applicant(head, route, &nobody)), ledger),
        };
        enforced(policy, checked, context, ledger)
    })
}

/// Notes what a request counts as until it ends.
fn count(policy: &ActivePolicy, checked: Result<Option<Permit>, Denied>, ledger: &mut Ledger) -> Result<(), Rejection> {
    let permit = checked.map_err(|denied| rejection(policy, denied))?;
    permit.into_iter().for_each(|permit| ledger.permits.hold(permit));
    Ok(())
}

pub(super) fn rejection(policy: &ActivePolicy, denied: Denied) -> Rejection {
    let rejection = Rejection::of(policy.reason(denied));
    match denied {
        Denied::Maintenance(after) => rejection.telling(|details| details.retry_after = Some(seconds(after))),
        Denied::Rate(early) => rejection.telling(|details| {
            details.limited = policy.config.rate_limit.as_ref().map(|limit| Limited {
                policy: policy.config.name.clone(),
                quota: limit.burst,
                window: seconds(limit.interval.saturating_mul(limit.burst)),
                retry_after: seconds(early),
            });
        }),
        _ => rejection,
    }
}

/// Whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
