//! What another proxy forwards as it came, while requests of our own lose it on their way: fields that ask for another method, and for another protocol.
//! Where nothing is blocked, requests of our own keep the latter, too.

use config::Mode;
use contract::validate::{Part, Violation, Where};
use reason::Reason;
use wire::http::RequestHead;
use wire::http::field_kind::FieldKind;
use wire::http::fields::list_items;

use super::validation::{Side, rejection};
use super::{Admitted, Grounds};
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;

/// Rejects what nobody validated in a request that another proxy holds. Where nothing is blocked it is logged.
///
/// # Errors
/// 400, or the contract's one status.
pub fn check_relayed(admitted: &Admitted<'_>, ledger: &mut Ledger) -> Result<(), Rejection> {
    let Some(under) = admitted.under else { return Ok(()) };
    let (active, keeps) = (under.active, admitted.route.config.options.keep_method_override);
    // Which operation the upstream would take it for is not known: that any is blocked is enough.
    if let Some(name) = method_override(admitted.head).filter(|_| !keeps) {
        let what = "asks for another method";
        reject(admitted, Reason::MethodOverride, name, what, active.blocks_requests(), ledger)?;
    }
    // The messages of a WebSocket would pass unseen.
    let hides_messages = active.graphql.is_some() && admitted.grounds != Grounds::Off;
    if offers_protocol(admitted.head) && (hides_messages || !admitted.declares_upgrade()) {
        let rule = under.operation.and_then(|operation| active.rule(operation.operation.number()));
        let blocks = rule.map_or(active.config.request, |rule| rule.request) == Mode::Block;
        let what = match active.graphql.is_some() {
            true => "asks for a WebSocket, whose messages are not shown",
            false => "asks for another protocol, without a response 101 in the document",
        };
        reject(admitted, Reason::UpgradeUndeclared, b"upgrade", what, blocks, ledger)?;
    }
    Ok(())
}

/// Notes that a request of our own goes on with its wish for another protocol only because nothing is blocked.
pub fn note_upgrade(admitted: &Admitted<'_>, ledger: &mut Ledger) {
    let allowed = &admitted.route.config.upgrades;
    let is_allowed = admitted.head.upgrade.as_deref().is_some_and(|token| allowed.iter().any(|one| one == token));
    if is_allowed
        && admitted.may_upgrade()
        && !admitted.declares_upgrade()
        && let Some(note) = &mut ledger.contract
    {
        let place = Where::named(Part::Header, b"upgrade");
        note.broken("request", Reason::UpgradeUndeclared, || (place.to_string(), String::new()), 1, false);
    }
}

fn reject(
    admitted: &Admitted<'_>,
    reason: Reason,
    name: &[u8],
    what: &str,
    blocks: bool,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let Some(under) = admitted.under else { return Ok(()) };
    let violation = Violation::new(reason.code(), Where::named(Part::Header, name), what);
    if let Some(note) = &mut ledger.contract {
        note.broken("request", reason, || (violation.place.to_string(), violation.what.clone()), 1, blocks);
    }
    if blocks { Err(rejection(under.active, Side::Request, &violation)) } else { Ok(()) }
}

/// The name of a field that asks for another method.
fn method_override(head: &RequestHead) -> Option<&[u8]> {
    head.fields.iter().map(|(name, _)| name).find(|name| FieldKind::of(name) == FieldKind::MethodOverride)
}

/// Whether another protocol is offered than HTTP/2, which HTTP clients offer with ordinary requests and proxies do not take up.
fn offers_protocol(head: &RequestHead) -> bool {
    head.fields.get_all("upgrade").flat_map(list_items).any(|protocol| !protocol.eq_ignore_ascii_case(b"h2c"))
}
