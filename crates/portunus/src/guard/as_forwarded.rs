//! The fields of a request as its upstream will get them, for operations whose verdict depends on one that ends here, that we write, or that a route edits.
//!
//! Operations are told apart when a contract is loaded: nearly all depend on fields that go on as they are, and look at those in place. What can never
//! arrive is told then, too.

use contract::Contract;
use contract::openapi::{Operation, Scheme};
use wire::http::BodyFraming;

use super::in_force::{Rule, verifies_token};
use super::request::Candidate;
use crate::config::{Action, Config, ContractConfig, Forward, Forwarding, HostRewrite, Mode, RouteConfig};
use crate::http::forwarding::{self, Facts, Fate, fate};

/// Fields as a judge visits them: copies, where they have to be put together.
pub(super) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The fields of a request as they will be forwarded, as far as the operation depends on them or the client sent them. Credentials are the client's: a
/// route may put others in their place, but nobody else's show who the client is.
pub(super) fn fields(candidate: &Candidate<'_>, operation: &Operation, request_id: &[u8]) -> Fields {
    let Candidate { context, head, route, .. } = *candidate;
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
    let facts = Facts { judged: true, ..context.facts() };
    forwarding::request_fields(head, &facts, forwarding, request_id, &route.config, &mut put);
    if let Action::Forward(Forward { host: HostRewrite::Fixed(host), .. }) = &route.config.action {
        put(b"host", host.as_bytes());
    } else {
        put(b"host", &head.authority);
    }
    match head.framing {
        BodyFraming::Length(length) => put(b"content-length", length.to_string().as_bytes()),
        BodyFraming::Chunked => put(b"transfer-encoding", b"chunked"),
        BodyFraming::None | BodyFraming::UntilClose => {}
    }
    let upgrades = &route.config.upgrades;
    if let Some(token) = head.upgrade.as_deref().filter(|token| upgrades.iter().any(|allowed| allowed == token))
        && operation.declares_status(101)
    {
        put(b"connection", b"upgrade");
        put(b"upgrade", token.as_bytes());
    }
    let shown = head.fields.iter().filter(|(name, _)| is_shown(&lower(name)));
    let shown: Fields = shown.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    out.extend(shown);
    out
}

fn schemes(operation: &Operation) -> impl Iterator<Item = &Scheme> {
    operation.security().iter().flat_map(|requirement| &requirement.demands).map(|demand| &*demand.scheme)
}

/// Whether the verdict on an operation depends on a field that does not go on as the client sent it, on whatever route.
pub(super) fn is_needed(operation: &Operation, config: &Config) -> bool {
    let forwarding = &config.forwarding;
    let mut declared =
        operation.header_parameters().map(|(name, _)| name).chain(schemes(operation).filter_map(Scheme::field));
    let mut edited = config.routes.iter().flat_map(|route| edited_names(route).map(|(name, _)| name));
    declared.any(|name| fate(name, forwarding) != Fate::Forwarded) || edited.any(|name| operation.reads_field(name))
}

/// The fields that a route edits on the way to the upstream, with the word for it.
fn edited_names(route: &RouteConfig) -> impl Iterator<Item = (&str, &'static str)> {
    let edits = &route.request_headers;
    let removed = edits.remove.iter().map(|name| (name.as_str(), "removes"));
    let set = edits.set.iter().map(|(name, _)| (name.as_str(), "sets"));
    removed.chain(set).chain(edits.add.iter().map(|(name, _)| (name.as_str(), "adds to")))
}

/// What can never arrive as it was validated, whatever a client sends: problems for required parameters of requests that are blocked, which would all be
/// rejected, else warnings.
pub(super) fn never_arrive(
    config: &ContractConfig,
    contract: &Contract,
    rules: &[Rule],
    forwarding: &Forwarding,
) -> (Vec<String>, Vec<String>) {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let document = config.document.display();
    for (operation, rule) in contract.operations().iter().zip(rules).filter(|(_, rule)| rule.request != Mode::Off) {
        let label = &rule.label;
        for (name, required) in
            operation.header_parameters().filter(|(name, _)| fate(name, forwarding) == Fate::Dropped)
        {
            let what = format!("{document}: {label}: the header {name} ends here and never reaches the upstream");
            if required && rule.request == Mode::Block {
                problems.push(format!("{what}, so every request would be rejected; remove the parameter from the document, or do not require it"));
            } else {
                warnings.push(format!("{what}: it is taken as missing; remove the parameter from the document"));
            }
        }
        let dropped = |scheme: &&Scheme| scheme.field().is_some_and(|name| fate(name, forwarding) == Fate::Dropped);
        warnings.extend(schemes(operation).filter(dropped).map(|scheme| {
            let (name, field) = (&scheme.name, scheme.field().unwrap_or_default());
            format!("{document}: {label}: the scheme {name} reads {field}, which ends here and never reaches the upstream: it is taken as missing")
        }));
    }
    (problems, warnings)
}

/// What a route that may be under a contract does to fields that the document declares.
pub(super) fn edited_by(
    route: &RouteConfig,
    config: &ContractConfig,
    contract: &Contract,
    rules: &[Rule],
) -> Vec<String> {
    let mut texts = Vec::new();
    let Action::Forward(_) = &route.action else { return texts };
    for (name, does) in edited_names(route) {
        let at = format!("{}: route `{}` {does} {name}", route.place, route.name);
        let required =
            |operation: &Operation| operation.header_parameters().any(|(have, required)| required && have == name);
        let mut judged = contract.operations().iter().zip(rules).filter(|(_, rule)| rule.request != Mode::Off);
        if does == "removes"
            && let Some((_, rule)) = judged.clone().find(|(operation, _)| required(operation))
        {
            texts.push(format!(
                "{at}, which {} demands: requests break the contract on this route; leave the field, or remove the parameter from the document",
                rule.label
            ));
        }
        let unverified = |scheme: &&Scheme| scheme.field() == Some(name) && !verifies_token(config, scheme);
        if name != "cookie"
            && does != "removes"
            && let Some((rule, scheme)) =
                judged.find_map(|(operation, rule)| Some((rule, schemes(operation).find(unverified)?)))
        {
            texts.push(format!(
                "{at}, which the scheme {} of {} demands: what the client shows is not verified here, and the upstream gets the route's own credential for it; \
                 see that others decide who may come",
                scheme.name, rule.label
            ));
        }
    }
    texts
}
