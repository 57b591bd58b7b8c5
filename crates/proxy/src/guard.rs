//! What stands between a routed request and its upstream. Sole maker of [`Admitted`].
//!
//! Policies come first (`policy`; `authenticate` says who sends a request). Without a contract a request is admitted by its head. Under one, the lists speak first (`lists`), then the document validates head and body
//! (`request`), and later the response (`response`); `as_forwarded` shows it fields as they go on, `active` says which contract holds where, `body` holds what is not yet validated.
//! `graphql` validates what requests of GraphQL ask for, `messages` those in a WebSocket.
//! `relayed` rejects what another proxy, which asks, would forward and we would not.

mod as_forwarded;
mod authenticate;
mod body;
mod every_finding;
mod forward_auth;
mod graphql;
mod validation;
mod lists;
mod memory;
mod messages;
mod policy;
mod rehearsal;
mod relayed;
mod request;
pub mod response;

use std::sync::Arc;

use config::{Action, Mode};
use contract::{Found, Matched};
use reason::Reason;
use wire::http::{BodyFraming, Method, RequestHead};

use crate::client::RequestClient;
use crate::contracts::ActiveContract;
use crate::contracts::underscored::is_confused;
use crate::generation::Generation;
use crate::message::context::Context;
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::route::{CompiledRoute, Params, Routed};

pub use body::{Copying, GuardedBody, HoldError};
pub use every_finding::{Everything, find_all};
pub use memory::Lease;
pub use messages::{Answer, Messages};
pub use rehearsal::rehearse_connection;
pub use relayed::{check_relayed, note_upgrade};
pub use request::{Candidate, ExchangeParts, Origin, admit_under, note_watched};
pub use validation::{ScratchSpace, trim};

/// Why a request was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grounds {
    /// The route is under no contract.
    NoContract,
    /// Its contract was asked, and nothing breaks it.
    Validated,
    /// Its contract was asked, and would reject it if the mode were not `log`.
    Logged,
    /// Its contract says that requests of this operation are not validated.
    Off,
    /// The document has no such operation, and the contract lets that pass.
    NoOperation,
}

/// Proof that a request may go to its upstream. Only this module makes one.
#[derive(Debug, Clone, Copy)]
pub struct Admitted<'a> {
    head: &'a RequestHead,
    route: &'a CompiledRoute,
    params: Params,
    grounds: Grounds,
    under: Option<Under<'a>>,
}

/// The contract that a request was admitted under.
#[derive(Debug, Clone, Copy)]
struct Under<'a> {
    active: &'a Arc<ActiveContract>,
    operation: Option<Matched<'a>>,
    response: Mode,
    /// The client was told to send its body, which is here.
    has_continued: bool,
}

impl<'a> Admitted<'a> {
    /// The request.
    pub fn head(&self) -> &'a RequestHead {
        self.head
    }

    /// Its route.
    pub fn route(&self) -> &'a CompiledRoute {
        self.route
    }

    /// The parameters of its path.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Why it was let through.
    pub fn grounds(&self) -> Grounds {
        self.grounds
    }

    /// Whether a contract has decided on its method, so that no field may speak of another one.
    pub fn is_under_contract(&self) -> bool {
        self.under.is_some()
    }

    /// Whether the client need not be told to continue by the upstream, since its body was read already.
    pub fn has_continued(&self) -> bool {
        self.under.is_some_and(|under| under.has_continued)
    }

    /// Whether it may ask for another protocol.
    pub fn may_upgrade(&self) -> bool {
        self.under.is_none_or(|under| under.active.may_upgrade(under.operation.map(|matched| matched.operation)))
    }

    /// Whether the document declares the response 101 for its operation, or nobody asks it to.
    fn declares_upgrade(&self) -> bool {
        let Some(under) = self.under.filter(|_| self.grounds != Grounds::Off) else { return true };
        let is_off = under.active.config.request == Mode::Off;
        under.operation.map_or(is_off, |matched| matched.operation.declares_status(101))
    }
}

/// Rejects the methods that never pass, whatever the routes say: CONNECT would make a tunnel to anywhere, TRACE would show fields to whoever
/// made the request.
///
/// # Errors
/// 405.
pub fn check_method(head: &RequestHead) -> Result<(), Rejection> {
    match head.method {
        Method::Connect | Method::Trace => {
            Err(Rejection::of(Reason::MethodNeverAllowed).telling(|details| details.allow = Some(String::new())))
        }
        _ => Ok(()),
    }
}

/// Rejects names with an underscore, unless the contract that the request is under declares the very name and no other spelling of it is there: servers
/// that turn names into variables take it for a hyphen (CGI, RFC 3875 §4.1.18), so `X_Forwarded_For` would be ours, or another field than what was
/// validated. Where no contract is, `headers.unusual_names` may let them pass; those that matter were removed when the head was read.
///
/// # Errors
/// 400.
pub fn check_names(context: Context<'_>, head: &RequestHead) -> Result<(), Rejection> {
    if !head.has_underscore {
        return Ok(());
    }
    let (generation, listener) = (context.generation, &context.conn.listener.name);
    let under_none = || if generation.unusual_names.pass() { Ok(()) } else { check_names_under(None, head) };
    let Routed::Found(route, _) = generation.routes.find(listener, context.sought(head)) else {
        return under_none();
    };
    match &route.config.action {
        // What is asked about is another request, whose names are checked under its own operation. With `schemas` nothing goes on to anybody who
        // could confuse them.
        Action::Validate(_) => Ok(()),
        _ if generation.contracts.is_empty() => under_none(),
        _ => match generation.contracts.of(route.index, listener, head) {
            None => under_none(),
            active => check_names_under(active, head),
        },
    }
}

/// As [`check_names`], under the contract that is known already.
///
/// # Errors
/// 400.
pub fn check_names_under(active: Option<&Arc<ActiveContract>>, head: &RequestHead) -> Result<(), Rejection> {
    let mut odd = head.fields.iter().map(|(name, _)| name).filter(|name| name.contains(&b'_')).peekable();
    if odd.peek().is_none() {
        return Ok(());
    }
    let declared = active.and_then(|active| declared_names(active, head)).unwrap_or_default();
    let is_meant = |name: &[u8]| {
        declared.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
            && head.fields.iter().all(|(other, _)| !is_confused(other, name))
    };
    if odd.all(is_meant) { Ok(()) } else { Err(Rejection::of(Reason::UnderscoreInFieldName)) }
}

/// The names with an underscore that a request may hold.
fn declared_names<'c>(active: &'c ActiveContract, head: &RequestHead) -> Option<&'c [Box<str>]> {
    let method = active.contract.method_of(head.method.as_str(), head.path());
    let Found::Operation(matched, _) = active.contract.find(method, head.path()) else { return None };
    Some(&active.rule(matched.operation.number())?.underscored)
}

/// Rejects what a policy of the listener or the host does not let pass, whatever the request asks for. `route`: the name of its route, if it has one.
///
/// # Errors
/// 401, 403, 429 or 503.
pub async fn check_policies(
    context: Context<'_>,
    route: Option<&str>,
    head: &RequestHead,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let policies = &context.generation.policies;
    policy::check(policies.around(&context.conn.listener.name, head), (head, route), context, ledger).await
}

/// Rejects what a policy of the route does not let pass.
///
/// # Errors
/// As [`check_policies`].
pub async fn check_route_policies(
    context: Context<'_>,
    route: &CompiledRoute,
    head: &RequestHead,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let policies = context.generation.policies.of_route(route.index);
    if policies.is_empty() {
        return Ok(());
    }
    policy::check(policies, (head, Some(&route.config.name)), context, ledger).await
}

/// Rejects a preflight that a policy does not let pass, but for the credentials that it cannot show.
///
/// # Errors
/// 403, 429 or 503.
pub fn check_preflight(
    context: Context<'_>,
    route: Option<&CompiledRoute>,
    head: &RequestHead,
    ledger: &mut Ledger,
) -> Result<(), Rejection> {
    let policies = &context.generation.policies;
    let asked = (head, route.map(|route| route.config.name.as_str()));
    policy::check_preflight(policies.around(&context.conn.listener.name, head), asked, context, ledger)?;
    let of_route = route.map(|route| policies.of_route(route.index)).unwrap_or_default();
    policy::check_preflight(of_route, asked, context, ledger)
}

/// Rejects who may not speak on this listener or to this host, whatever the request asks for.
///
/// # Errors
/// 403, or the contract's one status.
pub fn check_around(context: Context<'_>, head: &RequestHead) -> Result<(), Rejection> {
    let (generation, listener, client) = (context.generation, &context.conn.listener.name, &context.client);
    if generation.contracts.is_empty() {
        return Ok(());
    }
    let around = generation.contracts.around(listener, head);
    around.into_iter().flatten().try_for_each(|active| lists::validate(active, head, client, generation))
}

/// Rejects who may not speak under this contract, wherever it was named.
///
/// # Errors
/// As [`check_around`].
pub fn check_lists(
    active: &ActiveContract,
    generation: &Generation,
    head: &RequestHead,
    client: &RequestClient,
) -> Result<(), Rejection> {
    lists::validate(active, head, client, generation)
}

/// The contract that a request on a route is under, whatever the route does; policies and lists have spoken.
///
/// # Errors
/// As [`check_around`], for what the route itself names.
pub fn contract_of<'g>(
    context: Context<'g>,
    route: &CompiledRoute,
    head: &RequestHead,
) -> Result<Option<&'g Arc<ActiveContract>>, Rejection> {
    let (generation, listener, client) = (context.generation, &context.conn.listener.name, &context.client);
    let contracts = &generation.contracts;
    if contracts.is_empty() {
        return Ok(None);
    }
    let Some(active) = contracts.of(route.index, listener, head) else { return Ok(None) };
    let is_validated = contracts.around(listener, head).into_iter().flatten().any(|around| Arc::ptr_eq(around, active));
    if !is_validated {
        lists::validate(active, head, client, generation)?;
    }
    Ok(Some(active))
}

/// Validates a request that is under no contract by what its head tells.
///
/// # Errors
/// 413 for a body that says it is too long.
pub fn admit<'a>(
    context: Context<'_>,
    head: &'a RequestHead,
    route: &'a CompiledRoute,
    params: Params,
) -> Result<Admitted<'a>, Rejection> {
    check_length(context, head, route)?;
    Ok(Admitted { head, route, params, grounds: Grounds::NoContract, under: None })
}

/// Checks that a body that tells its length is within the limit of its route, whatever the route does with it.
///
/// # Errors
/// 413.
pub fn check_length(context: Context<'_>, head: &RequestHead, route: &CompiledRoute) -> Result<(), Rejection> {
    fits(head, route.config.max_body(context.limits()))
}

/// Whether a body that tells its length is short enough.
fn fits(head: &RequestHead, max_body_bytes: u64) -> Result<(), Rejection> {
    if matches!(head.framing, BodyFraming::Length(length) if length > max_body_bytes) {
        return Err(Rejection::of(Reason::BodyTooLarge));
    }
    Ok(())
}
