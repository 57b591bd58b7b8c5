//! Header fields that a document declares with an underscore in their name. Servers that turn names into variables take `_` for `-` (CGI, RFC 3875
//! §4.1.18), so a request holds such a name only where nobody can take it for another one. Decided when a contract is loaded; `guard::check_names` asks.

use std::collections::BTreeSet;

use config::{Config, ContractConfig, LimitKey, Mode};
use contract::Contract;
use contract::openapi::{Operation, Scheme};
use contract::validate::is_everyday_field;
use wire::http::field_kind::FieldKind;

use super::Rule;
use super::forwarded::schemes;

/// The declared names with an underscore that requests of an operation may hold.
pub fn usable(operation: &Operation, config: &ContractConfig, whole: &Config) -> Box<[Box<str>]> {
    let names = names(operation).filter(|(name, _)| why_not(name, operation, config, whole).is_none());
    names.map(|(name, _)| name.into()).collect()
}

/// Those that no request may hold: problems where every request that is blocked would need one, else warnings.
pub fn unusable(
    config: &ContractConfig,
    contract: &Contract,
    rules: &[Rule],
    whole: &Config,
) -> (Vec<String>, Vec<String>) {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let document = config.document.display();
    for (operation, rule) in contract.operations().iter().zip(rules) {
        for (name, required) in names(operation) {
            let Some(why) = why_not(name, operation, config, whole) else { continue };
            let what =
                format!("{document}: {}: the header {name} {why}, so requests that hold it are rejected", rule.label);
            match required && rule.request == Mode::Block {
                true => problems.push(format!("{what}, and all others lack it; rename it, or do not require it")),
                false => warnings.push(what),
            }
        }
    }
    (problems, warnings)
}

/// The names with an underscore that an operation declares, each once, and whether every request must hold it.
fn names(operation: &Operation) -> impl Iterator<Item = (&str, bool)> {
    let of_schemes = schemes(operation).filter_map(Scheme::field).map(|name| (name, false));
    let all = operation.header_parameters().chain(of_schemes).filter(|(name, _)| name.contains('_'));
    let mut seen = BTreeSet::new();
    all.filter(move |(name, _)| seen.insert(*name))
}

/// Why a name would be taken for another one.
fn why_not(name: &str, operation: &Operation, config: &ContractConfig, whole: &Config) -> Option<String> {
    let hyphens = name.replace('_', "-");
    if FieldKind::of(hyphens.as_bytes()) != FieldKind::Plain || is_everyday_field(hyphens.as_bytes()) {
        return Some(format!("is `{hyphens}` to servers that make no difference, which has a meaning of its own"));
    }
    let declared =
        operation.header_parameters().map(|(other, _)| other).chain(schemes(operation).filter_map(Scheme::field));
    let mut others = declared.chain(configured(config, whole));
    let other = others.find(|other| is_confused(other.as_bytes(), name.as_bytes()))?;
    Some(format!("is `{other}` to servers that make no difference, which is declared or configured beside it"))
}

/// The fields that the configuration reads or writes in requests.
fn configured<'c>(config: &'c ContractConfig, whole: &'c Config) -> impl Iterator<Item = &'c str> {
    // The lists of a listener's or host's contract are validated whatever contract a route has.
    let around = whole.listeners.iter().filter_map(|listener| listener.contract.as_ref());
    let around = around.chain(whole.host_rules.iter().filter_map(|host| host.contract.as_ref()));
    let around = around.filter_map(|name| whole.contracts.get(name).map(AsRef::as_ref));
    let lists = std::iter::once(config).chain(around).flat_map(|config| {
        [
            config.deny_tokens.as_ref().and_then(|list| list.header.as_deref()),
            config.allow_addresses.as_ref().and_then(|list| list.header.as_deref()),
        ]
    });
    let counted = whole.policies.values().flat_map(|policy| policy.limit_keys()).filter_map(|key| match key {
        LimitKey::Header(name) => Some(name.as_str()),
        _ => None,
    });
    let routes = whole.routes.iter().flat_map(|route| {
        let edits = &route.request_headers;
        let written = edits.set.iter().chain(&edits.add).map(|(name, _)| name);
        let matched = route.when.values.iter().filter(|condition| condition.of == config::ValueOf::Header);
        matched.map(|condition| &condition.name).chain(written).chain(&edits.remove)
    });
    lists.flatten().chain(counted).chain(whole.subject_fields()).chain(routes.map(String::as_str))
}

/// Whether two names differ, and only in case, `_` and `-` other than case alone.
pub fn is_confused(one: &[u8], other: &[u8]) -> bool {
    let same = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    !one.eq_ignore_ascii_case(other) && one.len() == other.len() && one.iter().map(same).eq(other.iter().map(same))
}
