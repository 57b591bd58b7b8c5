//! Field names with other characters than letters, digits and hyphens (`X_User`, `X.User`, `X!User`), which servers that turn names into variables take for
//! others: `HTTP_X_USER` is `X-User` and `X.User` alike (CGI, RFC 3875 §4.1.18; WSGI and FastCGI likewise).
//!
//! Such a name never goes on where it would be read as a field that this gate writes, removes, believes or decides by; what becomes of others is a setting
//! (`headers.unusual_names`). Names that a contract declares, or the configuration spells so, are meant as they are, and go on where nothing else in the
//! request is read as the same. Decided at load; a head is looked at only if it holds one.

use std::collections::{BTreeSet, HashSet};

use config::{Config, ContractConfig, Mode, UnusualName};
use contract::Contract;
use contract::openapi::{Operation, Scheme};
use contract::validate::is_everyday_field;
use reason::Reason;
use wire::http::Fields;
use wire::http::field_kind::{FieldKind, folded};

use super::forwarded::schemes;
use super::{Contracts, Rule};

/// What no unusual name may be read as, and which of them are meant.
#[derive(Debug, Default)]
pub struct UnusualNames {
    /// Usual names that the configuration reads or writes, in lower case.
    configured: HashSet<Vec<u8>>,
    /// Names that contracts declare, and unusual ones that are meant, as they are read: none of their other spellings goes on.
    declared: HashSet<Vec<u8>>,
    /// Unusual names that contracts declare or the configuration names, in lower case.
    meant: HashSet<Vec<u8>>,
    /// Usual names, in lower case, as which unusual ones of the configuration are read: what is written or decided by under the one must not come from a
    /// client under the other.
    twins: HashSet<Vec<u8>>,
    /// What becomes of all others.
    others: UnusualName,
}

/// What becomes of a field, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameFate {
    /// It goes on.
    GoesOn,
    /// It is removed as soon as the head is read.
    Removed,
    /// The request is rejected, unless it is under an operation that declares the name.
    Rejected,
}

impl UnusualNames {
    /// What a configuration reads or writes.
    pub fn of_config(config: &Config) -> UnusualNames {
        let mut names = UnusualNames { others: config.unusual_names, ..UnusualNames::default() };
        let (unusual, usual): (Vec<&str>, Vec<&str>) =
            config.request_fields().partition(|name| folded(name.as_bytes()).is_some());
        names.configured = usual.into_iter().map(fold).collect();
        for name in unusual {
            let read_as = fold(name);
            if !names.configured.contains(&read_as) {
                names.twins.insert(read_as);
            }
            match names.others {
                // Where all are removed, nothing of a client is what the configuration reads.
                UnusualName::Drop => _ = names.declared.insert(fold(name)),
                _ => names.declare(name),
            }
        }
        names
    }

    /// The same, and what contracts declare.
    pub fn of(config: &Config, contracts: Option<&Contracts>) -> UnusualNames {
        let mut names = UnusualNames::of_config(config);
        let operations = contracts.into_iter().flat_map(Contracts::all).flat_map(|active| active.contract.operations());
        operations.flat_map(declared_names).for_each(|name| names.declare(name));
        names
    }

    /// Notes a name that is meant as it is. One beside a usual name of the configuration that it would be taken for is not.
    fn declare(&mut self, name: &str) {
        let read_as = fold(name);
        if folded(name.as_bytes()).is_some() && !self.configured.contains(&read_as) {
            self.meant.insert(name.to_ascii_lowercase().into_bytes());
        }
        self.declared.insert(read_as);
    }

    /// Removes the fields that would be read as another one of these, and others where that is set. Whether there was one.
    pub fn remove(&self, fields: &mut Fields) -> bool {
        let before = fields.len();
        fields.retain(|name, _| self.fate(name) != NameFate::Removed);
        fields.len() < before
    }

    /// What becomes of a field of this name.
    pub fn fate(&self, name: &[u8]) -> NameFate {
        match folded(name) {
            Some(read_as) => self.fate_as(name, &read_as),
            None if self.has_twins() && self.twins.contains(&name.to_ascii_lowercase()) => NameFate::Removed,
            None => NameFate::GoesOn,
        }
    }

    /// Whether a usual name may matter, too.
    pub fn has_twins(&self) -> bool {
        !self.twins.is_empty()
    }

    fn fate_as(&self, name: &[u8], read_as: &[u8]) -> NameFate {
        let kind = FieldKind::of(read_as);
        let is_of_connection = matches!(kind, FieldKind::Hop | FieldKind::Ours | FieldKind::Expect);
        let is_confusable = kind != FieldKind::Plain || is_everyday_field(read_as) || self.configured.contains(read_as);
        let is_meant = !is_confusable && self.meant.contains(&name.to_ascii_lowercase());
        let has_only_underscores = || name.iter().all(|octet| octet.is_ascii_alphanumeric() || b"-_".contains(octet));
        match self.others {
            UnusualName::Reject => NameFate::Rejected,
            _ if is_meant => NameFate::GoesOn,
            UnusualName::Drop => NameFate::Removed,
            // To somebody, it may announce a body, or end a connection: no request is read behind it.
            _ if is_of_connection => NameFate::Rejected,
            _ if is_confusable || self.declared.contains(read_as) => NameFate::Removed,
            UnusualName::Underscores if !has_only_underscores() => NameFate::Removed,
            UnusualName::Underscores | UnusualName::Pass => NameFate::GoesOn,
        }
    }

    /// The first unusual name for which a request is rejected: those that are rejected whatever it asks for, and those that its operation does not mean.
    /// `operation`: with those of its names that are [usable](UnusualNames::usable). `is_held`: another proxy holds the request, so that nothing can be
    /// removed from it.
    pub fn rejected<'f>(
        &self,
        fields: &'f Fields,
        operation: Option<(&Operation, &[Box<str>])>,
        is_held: bool,
    ) -> Option<&'f [u8]> {
        let is_good = |name: &[u8]| {
            let Some(read_as) = folded(name) else { return true };
            let same = |other: &[u8]| !other.eq_ignore_ascii_case(name) && fold_bytes(other) == read_as;
            if let Some((operation, usable)) = operation {
                if usable.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name)) {
                    return !fields.iter().any(|(other, _)| same(other));
                }
                if declared_names(operation).any(|own| fold(own) == read_as) {
                    return false;
                }
            }
            match self.fate_as(name, &read_as) {
                NameFate::GoesOn => true,
                NameFate::Removed => !is_held,
                NameFate::Rejected => false,
            }
        };
        fields.iter().map(|(name, _)| name).find(|name| !is_good(name))
    }

    /// The unusual names that an operation declares and its requests may hold.
    pub fn usable(&self, operation: &Operation) -> Box<[Box<str>]> {
        let names = unusual_names(operation).filter(|(name, _)| self.why_not(name, operation).is_none());
        names.map(|(name, _)| name.into()).collect()
    }

    /// Those that never go on: problems where every request that is blocked would need one, else warnings.
    pub fn unusable(&self, config: &ContractConfig, contract: &Contract, rules: &[Rule]) -> (Vec<String>, Vec<String>) {
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        let document = config.document.display();
        for (operation, rule) in contract.operations().iter().zip(rules) {
            for (name, required) in unusual_names(operation) {
                let Some(why) = self.why_not(name, operation) else { continue };
                let what = format!("{document}: {}: the header {name} {why}, so it never goes on", rule.label);
                match required && rule.request == Mode::Block {
                    true => problems
                        .push(format!("{what}, and requests without it are rejected; rename it, or do not require it")),
                    false => warnings.push(what),
                }
            }
        }
        (problems, warnings)
    }

    /// Why a name that an operation declares would be taken for another one.
    fn why_not(&self, name: &str, operation: &Operation) -> Option<String> {
        let read_as = fold(name);
        let shown = String::from_utf8_lossy(&read_as);
        if FieldKind::of(&read_as) != FieldKind::Plain || is_everyday_field(&read_as) {
            return Some(format!("is `{shown}` to servers that make no difference, which has a meaning of its own"));
        }
        let mut others = declared_names(operation).filter(|other| !other.eq_ignore_ascii_case(name));
        let beside = others.find(|other| fold(other) == read_as);
        let beside = beside.or_else(|| self.configured.contains(&read_as).then_some(&shown))?;
        Some(format!("is `{beside}` to servers that make no difference, which is declared or configured beside it"))
    }
}

/// Why a request is rejected for this name.
pub fn reason_of(name: &[u8]) -> Reason {
    if name.contains(&b'_') { Reason::UnderscoreInFieldName } else { Reason::UnusualFieldName }
}

/// A name as servers read it that turn names into variables.
fn fold(name: &str) -> Vec<u8> {
    fold_bytes(name.as_bytes())
}

fn fold_bytes(name: &[u8]) -> Vec<u8> {
    folded(name).unwrap_or_else(|| name.to_ascii_lowercase())
}

/// The header fields that an operation declares, as parameters and as keys of schemes.
fn declared_names(operation: &Operation) -> impl Iterator<Item = &str> {
    operation.header_parameters().map(|(name, _)| name).chain(schemes(operation).filter_map(Scheme::field))
}

/// The unusual ones among them, each once, and whether every request must hold it.
fn unusual_names(operation: &Operation) -> impl Iterator<Item = (&str, bool)> {
    let of_schemes = schemes(operation).filter_map(Scheme::field).map(|name| (name, false));
    let all = operation.header_parameters().chain(of_schemes).filter(|(name, _)| folded(name.as_bytes()).is_some());
    let mut seen = BTreeSet::new();
    all.filter(move |(name, _)| seen.insert(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(others: UnusualName) -> UnusualNames {
        let mut names = UnusualNames { configured: [b"x-user".to_vec()].into(), others, ..UnusualNames::default() };
        ["my_key", "x_user", "x-declared"].into_iter().for_each(|name| names.declare(name));
        names
    }

    #[test]
    fn names_with_an_underscore_that_matter_are_removed_where_others_pass() {
        let all = [
            "X-User",
            "X_User",
            "x_forwarded_for",
            "Content_Length",
            "My_Key",
            "my.key",
            "X_Declared",
            "x_amz_key",
            "app.x",
        ];
        for (others, left) in [
            (
                UnusualName::Reject,
                "X-User X_User x_forwarded_for Content_Length My_Key my.key X_Declared x_amz_key app.x",
            ),
            (UnusualName::Pass, "X-User Content_Length My_Key x_amz_key app.x"),
            (UnusualName::Underscores, "X-User Content_Length My_Key x_amz_key"),
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
    fn what_may_be_read_as_a_field_that_matters_does_not_go_on() {
        let names = of(UnusualName::Pass);
        for mark in ["!", "#", "$", "%", "&", "'", "*", "+", ".", "^", "_", "`", "|", "~"] {
            let check = |fate: NameFate, all: &[&str]| {
                for name in all {
                    let name = name.replacen('-', mark, 1);
                    assert_eq!(names.fate(name.as_bytes()), fate, "{name}");
                }
            };
            check(NameFate::Removed, &["X-User", "x-FORWARDED-for", "X-Client-Cert-Verified", "X-Request-Id"]);
            check(NameFate::Removed, &["sec-fetch-site", "X-HTTP-Method-Override", "x-Declared"]);
            check(NameFate::Rejected, &["content-length", "Transfer-Encoding", "Keep-Alive", "Proxy-Connection"]);
            check(NameFate::GoesOn, &["X-Users", "app-version", "xuser-", "x-", "-user"]);
        }
        for name in ["X-User", "host", "content-length", ""] {
            assert_eq!(names.fate(name.as_bytes()), NameFate::GoesOn, "{name}");
        }
    }
}
