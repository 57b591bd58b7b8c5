//! The fields of requests that a configuration reads or writes, by name. Nobody else may be taken for one of them.

use super::{Balance, Conditions, Config, HashKey, LimitKey, RouteConfig, ValueOf, Variable};

impl Config {
    /// Their names: of conditions, edits, templates, policies, limits, lists and hashes. Some more than once.
    pub fn request_fields(&self) -> impl Iterator<Item = &str> {
        let routes = self.routes.iter().flat_map(RouteConfig::request_fields);
        let lists = self.contracts.values().flat_map(|contract| {
            let denied = contract.deny_tokens.as_ref().and_then(|list| list.header.as_deref());
            denied.into_iter().chain(contract.allow_addresses.as_ref().and_then(|list| list.header.as_deref()))
        });
        let counted = self.policies.values().flat_map(|policy| policy.limit_keys()).filter_map(|key| match key {
            LimitKey::Header(name) => Some(name.as_str()),
            _ => None,
        });
        let asked = self.policies.values().filter_map(|policy| policy.forward_auth.as_ref());
        let asked = asked.flat_map(|service| service.send.iter().map(String::as_str));
        let hashed = self.upstreams.values().filter_map(|group| match &group.balance {
            Balance::Hash { key: HashKey::Header(name), .. } => Some(name.as_str()),
            _ => None,
        });
        routes.chain(lists).chain(counted).chain(asked).chain(hashed).chain(self.subject_fields())
    }
}

impl RouteConfig {
    fn request_fields(&self) -> impl Iterator<Item = &str> {
        let edits = &self.request_headers;
        let written = edits.set.iter().chain(&edits.add).map(|(name, _)| name.as_str());
        let matched = self.conditions().flat_map(Conditions::values).filter(|value| value.of == ValueOf::Header);
        let read = self.templates().flat_map(|template| template.variables()).filter_map(|variable| match variable {
            Variable::Header(name) => Some(name.as_str()),
            _ => None,
        });
        let removed = edits.remove.iter().map(String::as_str);
        matched.map(|value| value.name.as_str()).chain(written).chain(removed).chain(read)
    }
}
