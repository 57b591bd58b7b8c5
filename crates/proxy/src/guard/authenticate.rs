//! Who sends a request, as a policy demands to know it. What a client says of itself in the fields that a policy sets ended when the head was read.

use std::sync::Arc;
use std::time::SystemTime;

use config::{BasicRule, PolicyMode, TokenRule};
use reason::Reason;
use wire::http::RequestHead;

use super::forward_auth;
use super::request::{ask_about, look_up};
use crate::auth::passwords::Credentials;
use crate::auth::token::{self, Shown, shown_in};
use crate::auth::{Grant, Passwords, Verifier, lookups};
use crate::message::context::Context;
use crate::message::dry_run::DryRun;
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::policies::{ActivePolicy, network_of};
use crate::route::Params;

/// Rejects a request that does not show what a policy demands; else notes who it comes from.
///
/// # Errors
/// 401, 403, or 503 where nobody can say.
pub(super) async fn authenticate(
    policy: &ActivePolicy,
    head: &RequestHead,
    context: Context<'_>,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let enforces = policy.config.mode == PolicyMode::Enforce;
    if let Some((rule, verifier)) = policy.token() {
        let granted = verify_token((rule, verifier), enforces, (head, context), ledger.dry_run.as_deref_mut()).await?;
        let Some(grant) = granted else { return Ok(()) };
        check_grant(rule, &grant)?;
        if policy.denies_token(&grant, || match shown_in(&head.fields, rule.cookie.as_deref()) {
            Shown::One(token) => Some(token),
            Shown::None | Shown::Unclear => None,
        }) {
            return Err(Rejection::of(Reason::TokenDenied));
        }
        let subject = &mut ledger.subject;
        for (field, claim) in &rule.set {
            let untellable = |_| Rejection::of(Reason::JwtClaim);
            let Some(value) = grant.text(claim).map_err(untellable)? else { continue };
            subject.set(field, value.as_bytes()).map_err(|_| Rejection::of(Reason::JwtClaim))?;
        }
        subject.holds(grant);
    }
    if let Some((rule, passwords)) = policy.password() {
        let user = verify_password(rule, passwords, head, context).await.map_err(|rejection| {
            let text = format!("Basic realm=\"{}\", charset=\"UTF-8\"", rule.realm);
            if rejection.status == 401 { challenge(rejection, text) } else { rejection }
        })?;
        if policy.denies_user(&user) {
            return Err(Rejection::of(Reason::TokenDenied));
        }
        if let Some(field) = &rule.user_header {
            ledger.subject.set(field, user.as_bytes()).map_err(|_| Rejection::of(Reason::PasswordWrong))?;
        }
        ledger.subject.is_user(&user);
    }
    match (&policy.config.forward_auth, &mut ledger.dry_run) {
        (Some(rule), None) => {
            let asked = forward_auth::ask(rule, head, context, &mut ledger.subject).await;
            asked.map_err(|rejection| {
                let params = Params::default();
                forward_auth::to_sign_in(rule, rejection, &context.values(head, &params, ledger.noted()))
            })
        }
        (Some(rule), Some(dry_run)) => {
            dry_run.unknown("forward_auth", forward_auth::question(rule, head, context));
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

/// The user whose password a request shows.
async fn verify_password(
    rule: &BasicRule,
    passwords: Option<&Arc<Passwords>>,
    head: &RequestHead,
    context: Context<'_>,
) -> Result<String, Rejection> {
    let mut values = head.fields.get_all("authorization");
    let credentials = match (values.next(), values.next()) {
        (None, _) => return Err(Rejection::of(Reason::CredentialsMissing)),
        // Of two, the upstream might take either.
        (Some(_), Some(_)) => None,
        (Some(value), None) => Credentials::read(value),
    };
    let Some(credentials) = credentials else { return Err(Rejection::of(Reason::CredentialsMalformed)) };
    // The configuration was checked; should the users not be there all the same, nobody gets in.
    let Some(passwords) = passwords else {
        tracing::error!(file = %rule.file.display(), "users are not loaded");
        return Err(Rejection::of(Reason::PasswordCheckBusy));
    };
    let client = context.client.address.map_or(0, network_of);
    let report = &context.worker.report;
    let waited = |time, result: Result<(), Reason>| {
        report.authentication("basic", &rule.realm, result.err().map_or("accepted", |reason| reason.code()), time);
    };
    passwords.verify(&credentials, client, waited).await.map_err(Rejection::of)?;
    Ok(credentials.user)
}

/// What the token of a request says; none if it need not show one, or if nobody waits to know.
async fn verify_token(
    (rule, verifier): (&TokenRule, Option<&Verifier>),
    enforces: bool,
    (head, context): (&RequestHead, Context<'_>),
    dry_run: Option<&mut DryRun>,
) -> Result<Option<Grant>, Rejection> {
    let shown = shown_in(&head.fields, rule.cookie.as_deref());
    let token = match shown {
        // The upstream might take that one.
        _ if token::is_in_query(head.query().get(1..).unwrap_or_default()) => {
            return Err(invalid(token::rejected(Reason::JwtMalformed)));
        }
        Shown::None if rule.allow_missing => return Ok(None),
        Shown::None => return Err(challenge(Rejection::of(Reason::CredentialsMissing), "Bearer")),
        Shown::Unclear => return Err(invalid(token::rejected(Reason::JwtMalformed))),
        Shown::One(token) => token,
    };
    if let Some((dry_run, who)) = dry_run.zip(verifier.and_then(Verifier::who_knows)) {
        dry_run.unknown("jwt", who);
        return Ok(None);
    }
    let granted = match verifier {
        Some(Verifier::Signed(signed)) => {
            signed.rule.check(token, SystemTime::now()).map(|claims| Grant::Claims(Box::new(claims)))
        }
        Some(Verifier::Asked(server)) => {
            let said = match enforces {
                true => Some(look_up(server, token, context).await),
                false => lookups::look_up_for_later(server, token, ask_about),
            };
            let Some(said) = said else { return Ok(None) };
            said.map(Grant::Said)
        }
        // The configuration was checked; should the name not be there all the same, nobody gets in.
        None => Err(token::rejected(Reason::JwtNoKeys)),
    };
    granted.map(Some).map_err(invalid)
}

/// Whether a token reaches as far as the policy demands.
fn check_grant(rule: &TokenRule, grant: &Grant) -> Result<(), Rejection> {
    if !grant.grants(&rule.scopes) {
        // Scopes hold nothing that a quoted string cannot (RFC 6750 §3).
        let scopes = rule.scopes.join(" ");
        let text = format!("Bearer error=\"insufficient_scope\", scope=\"{scopes}\"");
        return Err(challenge(Rejection::of(Reason::JwtScope), text));
    }
    match rule.claims.iter().all(|(name, values)| grant.is_any(name, values)) {
        true => Ok(()),
        false => Err(Rejection::of(Reason::JwtClaim)),
    }
}

/// A token that is no good, or that nobody can say anything about.
fn invalid(rejected: token::Rejected) -> Rejection {
    let rejection = Rejection::of(rejected.reason);
    if rejection.status == 401 { challenge(rejection, "Bearer error=\"invalid_token\"") } else { rejection }
}

fn challenge(rejection: Rejection, text: impl Into<Box<str>>) -> Rejection {
    rejection.telling(|details| details.challenge = Some(text.into()))
}
