//! A policy in a dry run: it says what it would say, but counts nothing and asks nobody, and notes what it looks at.

use std::net::IpAddr;

use config::{Condition, LimitKey, PolicyConfig, PolicyMode, ValueOf};
use reason::Reason;
use wire::http::RequestHead;

use super::authenticate::authenticate;
use super::policy::rejection;
use crate::client::RequestClient;
use crate::message::context::Context;
use crate::message::dry_run::DryRun;
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::policies::{ActivePolicy, Applicant};

/// Rejects a request that a policy does not let pass, as far as that is known here.
///
/// # Errors
/// 401, 403 or 503.
pub(super) async fn check(
    policy: &ActivePolicy,
    head: &RequestHead,
    context: Context<'_>,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    check_client(policy, head, context, ledger)?;
    let PolicyConfig { jwt, basic, forward_auth, .. } = &*policy.config;
    let kind = match (jwt, basic, forward_auth) {
        (Some(_), ..) => "jwt",
        (_, Some(_), _) => "basic",
        (_, _, Some(_)) => "forward_auth",
        _ => return Ok(()),
    };
    let Some(dry_run) = &mut ledger.dry_run else { return Ok(()) };
    if dry_run.is_partial {
        dry_run.unknown(kind, "credentials are not known");
        return Ok(());
    }
    let noted = dry_run.checks();
    let checked = Box::pin(authenticate(policy, head, context, ledger)).await;
    // Where somebody has to be asked, it is noted who, and for what.
    if let Some(dry_run) = ledger.dry_run.as_mut().filter(|dry_run| dry_run.checks() == noted) {
        dry_run.checked(kind, checked.as_ref().copied(), "");
    }
    checked
}

/// Notes a policy that is not asked, and why.
pub(super) fn skip(policy: &ActivePolicy, why: Option<String>, ledger: &mut Ledger) {
    if let Some(dry_run) = &mut ledger.dry_run {
        dry_run.begin_policy(&policy.config.name, policy.config.mode == PolicyMode::Log);
        let when = &policy.config.when;
        let has_claim = when.values().any(|condition| condition.of == ValueOf::Claim);
        let has_ja4 = when.leaves().iter().any(|leaf| matches!(leaf, Condition::Ja4(_)));
        match (!has_ja4, has_claim && dry_run.is_partial) {
            (false, _) => dry_run.unknown("when", "the JA4 fingerprint of the client is not known"),
            (true, true) => dry_run.unknown("when", "the claims of the token are not known"),
            (true, false) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                dry_run.checked("when", Ok(()), format!("does not hold, so nothing else of it is asked{why}"));
            }
        }
    }
}

/// As [`check`], whoever sends the request: what a preflight is rejected for.
///
/// # Errors
/// 403 or 503.
pub(super) fn check_client(
    policy: &ActivePolicy,
    head: &RequestHead,
    context: Context<'_>,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let checked = policy.check_client(&context.applicant(head, None, &ledger.subject));
    let checked = checked.map_err(|denied| rejection(policy, denied));
    if let Some(dry_run) = &mut ledger.dry_run {
        note(&policy.config, checked.as_ref().copied(), dry_run);
    }
    checked
}

/// Notes what a policy says of a connection from a client; whether it lets it pass.
pub fn rehearse_connection(policy: &ActivePolicy, client: Option<IpAddr>, dry_run: &mut DryRun) -> bool {
    let client = RequestClient::itself(client);
    let applicant = Applicant { client, head: None, route: None, certificate: None, subject: None };
    let checked = policy.check_client(&applicant).map_err(|denied| rejection(policy, denied));
    note(&policy.config, checked.as_ref().copied(), dry_run);
    checked.is_ok() || policy.config.mode == PolicyMode::Log
}

/// Notes what a policy says of the client alone, and what it would count.
fn note(config: &PolicyConfig, checked: Result<(), &Rejection>, dry_run: &mut DryRun) {
    dry_run.begin_policy(&config.name, config.mode == PolicyMode::Log);
    if config.cors.is_some() {
        dry_run.checked("cors", Ok(()), "");
    }
    let is_closed = checked.is_err_and(|rejection| rejection.reason == Reason::Maintenance);
    if let Some(maintenance) = &config.maintenance {
        let about = format!("{} is {}", maintenance.file.display(), if is_closed { "there" } else { "not there" });
        dry_run.checked("maintenance", if is_closed { checked } else { Ok(()) }, about);
    }
    if (config.allow.is_some() || config.deny.is_some()) && !is_closed {
        dry_run.checked("addresses", checked, "");
    }
    if checked.is_err() {
        return;
    }
    if let Some(limit) = &config.rate_limit {
        let (each, burst, per) = (limit.interval, limit.burst, in_words(&limit.key));
        dry_run.unknown("rate_limit", format!("one request each {each:?} and a burst of {burst}, {per}"));
    }
    if let Some(limit) = &config.concurrency_limit {
        let (most, per) = (limit.max_in_flight, in_words(&limit.key));
        dry_run.unknown("concurrency_limit", format!("{most} requests at once, {per}"));
    }
    if let Some(limit) = &config.bandwidth_limit {
        let per = limit.key.as_deref().map_or_else(|| "per connection".to_owned(), in_words);
        let rates = [("download", limit.download), ("upload", limit.upload)];
        let rates = rates.iter().filter_map(|(way, rate)| Some(format!("{way} of {} bytes per second", (*rate)?)));
        let rates: Vec<_> = rates.collect();
        dry_run.checked("bandwidth_limit", Ok(()), format!("{}, {per}", rates.join(" and ")));
    }
}

fn in_words(keys: &[LimitKey]) -> String {
    let key = |key: &LimitKey| match key {
        LimitKey::Client => "client".to_owned(),
        LimitKey::Route => "route".to_owned(),
        LimitKey::Header(name) => format!("header {name}"),
        LimitKey::Cookie(name) => format!("cookie {name}"),
        LimitKey::Claim(name) => format!("claim {name}"),
        LimitKey::Certificate(_) => "client certificate".to_owned(),
    };
    let keys: Vec<String> = keys.iter().map(key).collect();
    if keys.is_empty() { "of all together".to_owned() } else { format!("per {}", keys.join(" and ")) }
}
