//! Which operations depend on fields that do not go on as the client sent them, and what of a document can never arrive. Found when a contract is loaded.

use config::{Action, Config, ContractConfig, Mode, RouteConfig};
use contract::Contract;
use contract::openapi::{Operation, Scheme};

use super::{Rule, verifies_token};
use crate::field_fate::{Fate, fate};

/// The security schemes that an operation may demand.
pub fn schemes(operation: &Operation) -> impl Iterator<Item = &Scheme> {
    operation.security().iter().flat_map(|requirement| &requirement.demands).map(|demand| &*demand.scheme)
}

/// Whether the decision on an operation depends on a field that does not go on as the client sent it, on whatever route.
pub fn is_needed(operation: &Operation, config: &Config) -> bool {
    let forwarding = &config.forwarding;
    let mut declared =
        operation.header_parameters().map(|(name, _)| name).chain(schemes(operation).filter_map(Scheme::field));
    let mut edited = config.routes.iter().flat_map(|route| edited_names(route).map(|(name, _)| name));
    // Only as forwarded they are what policies say, where they would else end here.
    let mut said = config.subject_fields();
    declared.any(|name| fate(name, forwarding) != Fate::Forwarded)
        || edited.any(|name| operation.reads_field(name))
        || said.any(|name| operation.reads_field(name))
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
pub fn never_arrive(
    config: &ContractConfig,
    contract: &Contract,
    rules: &[Rule],
    whole: &Config,
) -> (Vec<String>, Vec<String>) {
    let forwarding = &whole.forwarding;
    let ends = |name: &str| fate(name, forwarding) == Fate::Dropped && whole.subject_fields().all(|own| own != name);
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let document = config.document.display();
    for (operation, rule) in contract.operations().iter().zip(rules).filter(|(_, rule)| rule.request != Mode::Off) {
        let label = &rule.label;
        for (name, required) in operation.header_parameters().filter(|(name, _)| ends(name)) {
            let what = format!("{document}: {label}: the header {name} ends here and never reaches the upstream");
            if required && rule.request == Mode::Block {
                problems.push(format!("{what}, so every request would be rejected; remove the parameter from the document, or do not require it"));
            } else {
                warnings.push(format!("{what}: it is taken as missing; remove the parameter from the document"));
            }
        }
        let dropped = |scheme: &&Scheme| scheme.field().is_some_and(ends);
        warnings.extend(schemes(operation).filter(dropped).map(|scheme| {
            let (name, field) = (&scheme.name, scheme.field().unwrap_or_default());
            format!("{document}: {label}: the scheme {name} reads {field}, which ends here and never reaches the upstream: it is taken as missing")
        }));
    }
    (problems, warnings)
}

/// What a route that may be under a contract does to fields that the document declares.
pub fn edited_by(route: &RouteConfig, config: &ContractConfig, contract: &Contract, rules: &[Rule]) -> Vec<String> {
    let mut texts = Vec::new();
    let Action::Forward(_) = &route.action else { return texts };
    for (name, does) in edited_names(route) {
        let at = format!("{}: route `{}` {does} {name}", route.place, route.name);
        let required =
            |operation: &Operation| operation.header_parameters().any(|(have, required)| required && have == name);
        let mut validated = contract.operations().iter().zip(rules).filter(|(_, rule)| rule.request != Mode::Off);
        if does == "removes"
            && let Some((_, rule)) = validated.clone().find(|(operation, _)| required(operation))
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
                validated.find_map(|(operation, rule)| Some((rule, schemes(operation).find(unverified)?)))
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
