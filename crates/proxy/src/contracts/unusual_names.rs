//! Field names with other characters than letters, digits and hyphens (`X.User`, `X!User`), which servers that turn names into variables take for others:
//! `HTTP_X_USER` is both `X-User` and `X.User` (CGI, RFC 3875 §4.1.18; WSGI and FastCGI alike).
//!
//! Those that would be a field which this gate writes, removes, believes or decides by are removed. What becomes of others is a setting
//! (`headers.unusual_names`); names with `_` that are left are validated by `guard::check_names`.

use std::collections::HashSet;

use config::{Config, LimitKey, UnusualName, ValueOf};
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
    /// Unusual names that are meant themselves, in lower case.
    meant: HashSet<Vec<u8>>,
    /// What becomes of those that no field is meant by.
    others: UnusualName,
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
        let (unusual, usual): (Vec<&[u8]>, Vec<&[u8]>) =
            names.map(str::as_bytes).partition(|name| folded(name).is_some());
        let mut configured: HashSet<Vec<u8>> = usual.into_iter().map(fold).collect();
        // One beside a usual name that it would be taken for is not meant.
        let meant = unusual.iter().filter(|name| !configured.contains(&fold(name)));
        let meant = meant.map(|name| name.to_ascii_lowercase()).collect();
        configured.extend(unusual.into_iter().map(fold));
        UnusualNames { configured, meant, others: config.unusual_names }
    }

    /// Removes the fields that would be read as another one of these, and others where that is set.
    pub fn remove(&self, fields: &mut Fields) {
        match self.others {
            UnusualName::Drop => {
                fields.retain(|name, _| folded(name).is_none() || (self.is_meant(name) && !self.is_confusable(name)));
            }
            UnusualName::Pass | UnusualName::Reject => fields.retain(|name, _| !self.is_confusable(name)),
        }
    }

    /// Whether a name with `_` is one that a contract declares or the configuration names.
    fn is_meant(&self, name: &[u8]) -> bool {
        name.contains(&b'_') && self.meant.contains(&name.to_ascii_lowercase())
    }

    /// Whether names with `_` go on that no contract declares.
    pub fn pass(&self) -> bool {
        self.others != UnusualName::Reject
    }

    /// Whether a name, not usual itself, may be read as another one that matters. One with `_` is rejected as a whole where that is set.
    pub fn is_confusable(&self, name: &[u8]) -> bool {
        let is_rejected = self.others == UnusualName::Reject && name.contains(&b'_');
        let Some(folded) = folded(name).filter(|_| !is_rejected) else { return false };
        FieldKind::of(&folded) != FieldKind::Plain
            || is_everyday_field(&folded)
            || (self.configured.contains(&folded) && !self.is_meant(name))
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
    fn names_with_an_underscore_that_matter_are_removed_where_others_pass() {
        let of = |others| UnusualNames {
            configured: [b"x-user".to_vec(), b"my-key".to_vec()].into(),
            meant: [b"my_key".to_vec()].into(),
            others,
        };
        let all = ["X-User", "X_User", "x_forwarded_for", "Content_Length", "My_Key", "my.key", "x_amz_key", "app.x"];
        for (others, left) in [
            (UnusualName::Reject, "X-User X_User x_forwarded_for Content_Length My_Key x_amz_key app.x"),
            (UnusualName::Pass, "X-User My_Key x_amz_key app.x"),
            (UnusualName::Drop, "X-User My_Key"),
        ] {
            let mut fields = Fields::default();
            all.iter().for_each(|name| fields.push(name.as_bytes(), b"1"));
            of(others).remove(&mut fields);
            let names: Vec<_> = fields.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
            assert_eq!(names.join(" "), left);
        }
    }

    #[test]
    fn what_may_be_read_as_a_field_that_matters_is_confusable() {
        let names = UnusualNames {
            configured: [b"x-user".to_vec()].into(),
            meant: HashSet::new(),
            others: UnusualName::Reject,
        };
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
