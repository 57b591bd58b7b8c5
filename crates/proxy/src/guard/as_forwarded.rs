//! The fields of a request as its upstream will get them, for operations whose decision depends on one that ends here, that we write, or that a route edits
//! (`contracts::forwarded`). All others look at those that the client sent, in place.

use config::{Action, Forward, HostRewrite};
use contract::openapi::{Operation, Scheme};
use wire::http::BodyFraming;

use super::request::Candidate;
use crate::contracts::forwarded::schemes;
use crate::field_fate::{Fate, fate};
use crate::message::forwarding::{self, Facts};
use crate::route::Noted;

/// Fields as a validator visits them: copies, where they have to be put together.
pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The fields of a request as they will be forwarded, as far as the operation depends on them or the client sent them. Credentials are the client's: a
/// route may put others in their place, but nobody else's show who the client is.
pub(super) fn fields(candidate: &Candidate<'_>, operation: &Operation, noted: Noted<'_>) -> Fields {
    let Candidate { context, head, route, params, .. } = *candidate;
    let forwarding = &context.generation.config.forwarding;
    let shown: Vec<&str> = schemes(operation).filter_map(Scheme::field).collect();
    let lower = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
    let is_shown = |name: &str| shown.contains(&name) && fate(name, forwarding) != Fate::Dropped;
    let mut out = Fields::new();
    let mut put = |name: &[u8], value: &[u8]| {
        let name = lower(name);
        if !is_shown(&name) && (operation.reads_field(&name) || head.fields.contains(&name)) {
            out.push((name.into_bytes(), value.to_vec()));
        }
    };
    let facts = Facts { checked: true, ..context.facts() };
    forwarding::request_fields(head, &facts, forwarding, noted, (&route.config, &params), &mut put);
    match &route.config.action {
        Action::Forward(Forward { host, .. }) if *host != HostRewrite::Upstream => {
            put(b"host", &forwarding::host(host, head, b""));
        }
        _ => put(b"host", &head.authority),
    }
    match head.framing {
        BodyFraming::Length(length) => put(b"content-length", length.to_string().as_bytes()),
        BodyFraming::Chunked => put(b"transfer-encoding", b"chunked"),
        BodyFraming::None | BodyFraming::UntilClose => {}
    }
    let upgrades = &route.config.upgrades;
    if let Some(token) = head.upgrade.as_deref().filter(|token| upgrades.iter().any(|allowed| allowed == token))
        && candidate.active.may_upgrade(Some(operation))
    {
        put(b"connection", b"upgrade");
        put(b"upgrade", token.as_bytes());
    }
    let shown = head.fields.iter().filter(|(name, _)| is_shown(&lower(name)));
    let shown: Fields = shown.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    out.extend(shown);
    out
}
