//! Field names with other characters than letters, digits and hyphens (`X.User`, `X!User`), which servers that turn names into variables take for others:
//! `HTTP_X_USER` is both `X-User` and `X.User` (CGI, RFC 3875 §4.1.18; WSGI and FastCGI alike).
//!
//! Those that would be a field which this gate writes, removes, believes or decides by are removed. Names with `_`, which real clients send, are ruled by
//! `guard::check_names`.

use std::collections::HashSet;

use config::{Config, LimitKey, ValueOf};
use contract::openapi::{Operation, Scheme};
use contract::validate::is_everyday_field;
use wire::http::Fields;
use wire::http::field_kind::{FieldKind, folded};

use super::Contracts;
use super::forwarded::schemes;

/// Names in folded form that no unusual name may be read as.
#[derive(Debug, Default)]
pub struct UnusualNames {
    configured: HashSet<Vec<u8>>,
}

impl UnusualNames {
    /// What a configuration and its contracts read or write.
    pub fn of(config: &Config, contracts: Option<&Contracts>) -> UnusualNames {
        let routes = config.routes.iter().flat_map(|route| {
            let edits = &route.request_headers;
            let written = edits.set.iter().chain(&edits.add).map(|(name, _)| name);
            let matched = route.when.values.iter().filter(|condition| condition.of == ValueOf::Header);
            matched.map(|condition| &condition.name).chain(written).chain(&edits.remove)
        });
        let lists = config.contracts.values().flat_map(|contract| {
            let denied = contract.deny_tokens.as_ref().and_then(|list| list.header.as_deref());
            denied.into_iter().chain(contract.allow_addresses.as_ref().and_then(|list| list.header.as_deref()))
        });
        let counted = config.policies.values().flat_map(|policy| policy.limit_keys()).filter_map(|key| match key {
            LimitKey::Header(name) => Some(name.as_str()),
            _ => None,
        });
        let asked = config.policies.values().filter_map(|policy| policy.forward_auth.as_ref());
        let asked = asked.flat_map(|service| service.send.iter().map(String::as_str));
        let declared = contracts.into_iter().flat_map(Contracts::all).flat_map(|active| active.contract.operations());
        let names = routes.map(String::as_str).chain(lists).chain(counted).chain(asked).chain(config.subject_fields());
        let names = names.chain(declared.flat_map(declared_names));
        UnusualNames { configured: names.map(|name| fold(name.as_bytes())).collect() }
    }

    /// Removes the fields that would be read as another one of these.
    pub fn remove(&self, fields: &mut Fields) {
        fields.retain(|name, _| !self.is_confusable(name));
    }

    /// Whether a name, not usual itself, may be read as another one that matters.
    pub fn is_confusable(&self, name: &[u8]) -> bool {
        let Some(folded) = folded(name).filter(|_| !name.contains(&b'_')) else { return false };
        FieldKind::of(&folded) != FieldKind::Plain || is_everyday_field(&folded) || self.configured.contains(&folded)
    }
}

fn fold(name: &[u8]) -> Vec<u8> {
    folded(name).unwrap_or_else(|| name.to_ascii_lowercase())
}

fn declared_names(operation: &Operation) -> impl Iterator<Item = &str> {
    operation.header_parameters().map(|(name, _)| name).chain(schemes(operation).filter_map(Scheme::field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_read_as_a_field_that_matters_is_confusable() {
        let names = UnusualNames { configured: [b"x-user".to_vec()].into() };
        for mark in ["!", "#", "$", "%", "&", "'", "*", "+", ".", "^", "`", "|", "~"] {
            for name in [
                "X-User",
                "x-FORWARDED-for",
                "X-Client-Cert-Verified",
                "content-length",
                "X-Request-Id",
                "sec-fetch-site",
            ] {
                let name = name.replacen('-', mark, 1);
                assert!(names.is_confusable(name.as_bytes()), "{name}");
            }
            for name in ["X-Users", "app-version", "xuser"] {
                let name = name.replace('-', mark);
                assert!(!names.is_confusable(name.as_bytes()), "{name}");
            }
        }
        for name in ["X-User", "X_User", "X_Forwarded.For", "host", ""] {
            assert!(!names.is_confusable(name.as_bytes()), "{name}");
        }
    }
}
