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

use config::{Action, MethodForm, Mode};
use contract::openapi::Operation;
use contract::{Found, Matched};
use reason::Reason;
use wire::http::{BodyFraming, Method, RequestHead};

use crate::client::RequestClient;
use crate::contracts::ActiveContract;
use crate::contracts::unusual_names::reason_of;
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
/// made the request. Others pass as `methods` says.
///
/// # Errors
/// 405, or 400.
pub fn check_method(head: &RequestHead, form: MethodForm) -> Result<(), Rejection> {
    let fits = |byte: u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
    match &head.method {
        Method::Other(name) if form == MethodForm::Capitals && !name.bytes().all(fits) => {
            Err(Rejection::of(Reason::BadMethod))
        }
        Method::Connect | Method::Trace => {
            Err(Rejection::of(Reason::MethodNeverAllowed).telling(|details| details.allow = Some(String::new())))
        }
        _ => Ok(()),
    }
}

/// Rejects unusual names of fields that cannot be removed without a word, and those that the operation of the request does not mean, as
/// [`UnusualNames::rejected`] says; what could be taken for another field was removed when the head was read.
///
/// [`UnusualNames::rejected`]: crate::contracts::unusual_names::UnusualNames::rejected
///
/// # Errors
/// 400.
pub fn check_names(context: Context<'_>, head: &RequestHead) -> Result<(), Rejection> {
    if !head.has_unusual_name {
        return Ok(());
    }
    let (generation, listener) = (context.generation, &context.conn.listener.name);
    let active = match generation.routes.find(listener, context.sought(head)) {
        // What is asked about is another request, whose names are checked under its own operation. With `schemas` nothing goes on to anybody who
        // could confuse them.
        Routed::Found(route, _) if matches!(route.config.action, Action::Validate(_)) => return Ok(()),
        Routed::Found(route, _) if !generation.contracts.is_empty() => {
            generation.contracts.of(route.index, listener, head)
        }
        _ => None,
    };
    let operation = active.and_then(|active| operation_of(active, head));
    let rejected = generation.unusual_names.rejected(&head.fields, operation, false);
    rejected.map_or(Ok(()), |name| Err(Rejection::of(reason_of(name))))
}

/// As [`check_names`], of a request that another proxy holds, under its contract: what it could not hold here is not removed from it there.
///
/// # Errors
/// 400.
pub fn check_held_names(context: Context<'_>, active: &ActiveContract, head: &RequestHead) -> Result<(), Rejection> {
    if head.has_lost_name {
        return Err(Rejection::of(Reason::UnusualFieldName));
    }
    let rejected = context.generation.unusual_names.rejected(&head.fields, operation_of(active, head), true);
    rejected.map_or(Ok(()), |name| Err(Rejection::of(reason_of(name))))
}

/// The operation that a request asks for, if the document has it, and the unusual names that it may hold.
fn operation_of<'c>(active: &'c ActiveContract, head: &RequestHead) -> Option<(&'c Operation, &'c [Box<str>])> {
    let method = active.contract.method_of(head.method.as_str(), head.path());
    let Found::Operation(matched, _) = active.contract.find(method, head.path()) else { return None };
    Some((matched.operation, &active.rule(matched.operation.number())?.unusual_names))
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
