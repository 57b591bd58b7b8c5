//! What a request to a GraphQL endpoint asks for, once what it looks like was validated: the schema, and what the endpoint takes.
//!
//! Documents that were validated are remembered by each worker, since the typical client sends the same few.

use std::cell::RefCell;

use contract::Matched;
use contract::validate::{Findings, Part, Violation, Where, code};
use graphql::{Cache, Protocol};
use reason::Reason;
use wire::http::RequestHead;
use wire::http::fields::list_items;

use crate::contracts::ActiveContract;
use crate::guard::validation::{caught, panicked};

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::new(Cache::default());
}

/// Validates with what this worker remembers. A panic of the validator is a violation.
pub(super) fn checked<E>(
    of: impl FnOnce(Violation) -> E,
    check: impl FnOnce(&mut Cache) -> Result<(), E>,
) -> Result<(), E> {
    let outcome = caught(|| CACHE.with_borrow_mut(check));
    outcome.unwrap_or_else(|| Err(of(panicked(Part::Body))))
}

/// Whether the body of an operation holds requests of GraphQL.
pub(super) fn reads_body(active: &ActiveContract, matched: Matched<'_>) -> bool {
    active.graphql.is_some() && matched.operation.method() == "POST"
}

/// Validates a body whose shape is right.
pub(super) fn check_body(active: &ActiveContract, body: &[u8]) -> Result<(), Violation> {
    let Some(endpoint) = &active.graphql else { return Ok(()) };
    checked(|violation| violation, |cache| endpoint.check_body(body, cache))
}

/// Validates what the head of a GET asks for: a query, or a WebSocket.
pub(super) fn check_head(active: &ActiveContract, matched: Matched<'_>, head: &RequestHead, findings: &mut Findings) {
    let Some(endpoint) = active.graphql.as_ref().filter(|_| matched.operation.method() == "GET") else { return };
    let opens_websocket = endpoint.options().websocket && head.upgrade.as_deref() == Some("websocket");
    let mut found = Vec::new();
    if opens_websocket {
        found.extend(check_opening(active, head));
    }
    let query = head.query().strip_prefix(b"?");
    let asked = checked(|violation| violation, |cache| endpoint.check_query_string(query, opens_websocket, cache));
    if let Err(violation) = asked {
        found.push(Violation { place: Where { part: Part::Query, ..violation.place }, ..violation });
    }
    for violation in found {
        if findings.add(violation).is_err() {
            break;
        }
    }
}

/// A WebSocket must speak a protocol whose messages can be validated, and be opened by a page of a site that may.
fn check_opening(active: &ActiveContract, head: &RequestHead) -> Option<Violation> {
    let mut protocols = head.fields.get_all("sec-websocket-protocol").flat_map(list_items).peekable();
    if protocols.peek().is_none() || protocols.any(|protocol| Protocol::named(protocol).is_none()) {
        let place = Where::named(Part::Header, b"sec-websocket-protocol");
        let what = "must offer `graphql-transport-ws` or `graphql-ws`, and nothing else";
        return Some(Violation::new(code::WEBSOCKET_PROTOCOL, place, what));
    }
    let mut origins = head.fields.get_all("origin");
    let origin = origins.next()?;
    let is_one = origins.next().is_none();
    if is_one && may_open(active, origin, &head.authority) {
        return None;
    }
    let what = "is of a site whose pages may not open WebSockets here";
    Some(Violation::new(code::WEBSOCKET_ORIGIN, Where::named(Part::Header, b"origin"), what))
}

fn may_open(active: &ActiveContract, origin: &[u8], authority: &[u8]) -> bool {
    let origin = origin.to_ascii_lowercase();
    match active.config.graphql.as_ref().and_then(|graphql| graphql.origins.as_ref()) {
        Some(allowed) => allowed.iter().any(|allowed| allowed == "*" || allowed.as_bytes() == origin),
        None => {
            let host = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
            host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
        }
    }
}

/// The status that is configured for what a request to an endpoint asks for.
pub(super) fn status_of(active: &ActiveContract, reason: Reason) -> Option<u16> {
    let status = active.config.graphql.as_ref()?.error_status;
    status.filter(|_| reason.code().starts_with("graphql_"))
}
