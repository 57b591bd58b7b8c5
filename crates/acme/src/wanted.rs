//! Which certificates a configuration wants: one for each name and type of key, and one for all addresses together. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use config::AcmeConfig;
use instant_acme::Identifier;
use proxy::demands::is_issuable;
use tls::KeyType;

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A host name or a `*.` wildcard, lower case, A-labels.
    Name(String),
    /// Addresses. Their certificate is the default one, since clients that connect to an address send no name.
    Addresses(BTreeSet<IpAddr>),
}

/// A certificate that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wanted {
    /// What for.
    pub subject: Subject,
    /// With which kind of key.
    pub key_type: KeyType,
}

/// All that a keystore wants.
pub fn of(acme: &AcmeConfig) -> BTreeSet<Wanted> {
    let names = acme.names.iter().cloned().map(Subject::Name);
    let addresses = (!acme.addresses.is_empty()).then(|| Subject::Addresses(acme.addresses.clone()));
    let subjects = names.chain(addresses);
    let kinds = |subject: Subject| {
        let with = move |key_type: &KeyType| Wanted { subject: subject.clone(), key_type: *key_type };
        acme.key_types.iter().map(with)
    };
    subjects.flat_map(kinds).collect()
}

impl Wanted {
    /// What its files are called, without an ending. It holds letters, digits, `-`, `_` and `.` alone, and no folder.
    pub fn stem(&self) -> String {
        let subject = match &self.subject {
            Subject::Name(name) => name.replace('*', "_wildcard"),
            Subject::Addresses(_) => "default".to_owned(),
        };
        format!("{subject}.{}", self.key_word())
    }

    /// That of a name that clients asked for, whose files are called so.
    pub fn of_stem(stem: &str) -> Option<Wanted> {
        let (name, word) = stem.rsplit_once('.')?;
        let key_type = [KeyType::Ecdsa, KeyType::Rsa].into_iter().find(|kind| key_word(*kind) == word)?;
        is_issuable(name).then(|| Wanted { subject: Subject::Name(name.to_owned()), key_type })
    }

    /// The kind of its key in a word.
    pub fn key_word(&self) -> &'static str {
        key_word(self.key_type)
    }

    /// The names in it.
    pub fn names(&self) -> Vec<String> {
        match &self.subject {
            Subject::Name(name) => vec![name.clone()],
            Subject::Addresses(addresses) => addresses.iter().map(ToString::to_string).collect(),
        }
    }

    /// What is ordered.
    pub fn identifiers(&self) -> Vec<Identifier> {
        match &self.subject {
            Subject::Name(name) => vec![Identifier::Dns(name.clone())],
            Subject::Addresses(addresses) => addresses.iter().copied().map(Identifier::Ip).collect(),
        }
    }

    /// Whether an authority asks for a proof of something that was ordered. `wildcard`: the proof is for everything below the name.
    pub fn asks_for(&self, identifier: &Identifier, wildcard: bool) -> bool {
        match (&self.subject, identifier) {
            (Subject::Name(name), Identifier::Dns(dns)) => match name.strip_prefix("*.") {
                Some(parent) => wildcard && parent.eq_ignore_ascii_case(dns),
                None => !wildcard && name.eq_ignore_ascii_case(dns),
            },
            (Subject::Addresses(addresses), Identifier::Ip(address)) => !wildcard && addresses.contains(address),
            _ => false,
        }
    }

    /// For messages.
    pub fn shown(&self) -> String {
        self.names().join(", ")
    }
}

fn key_word(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::Ecdsa => "ecdsa",
        KeyType::Rsa => "rsa",
        KeyType::Ed25519 => "ed25519",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Wanted {
        Wanted { subject: Subject::Name(name.to_owned()), key_type: KeyType::Ecdsa }
    }

    #[test]
    fn files_are_called_after_what_is_in_them() {
        assert_eq!(name("www.example.com").stem(), "www.example.com.ecdsa");
        assert_eq!(Wanted { key_type: KeyType::Rsa, ..name("*.example.com") }.stem(), "_wildcard.example.com.rsa");
        let addresses = Subject::Addresses(["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()].into());
        let wanted = Wanted { subject: addresses, key_type: KeyType::Ecdsa };
        assert_eq!(Wanted::of_stem("www.example.com.ecdsa"), Some(name("www.example.com")));
        for other in ["default.ecdsa", "www.example.com.dsa", "_wildcard.example.com.rsa", "../x.test.rsa", "rsa", ""] {
            assert_eq!(Wanted::of_stem(other), None, "{other}");
        }
        assert_eq!((wanted.stem(), wanted.shown()), ("default.ecdsa".to_owned(), "192.0.2.1, 2001:db8::1".to_owned()));
    }

    #[test]
    fn only_what_was_ordered_is_proved() {
        let dns = |name: &str| Identifier::Dns(name.to_owned());
        for (ordered, asked, wildcard, expected) in [
            ("www.example.com", dns("www.example.com"), false, true),
            ("www.example.com", dns("WWW.example.com"), false, true),
            ("www.example.com", dns("other.example.com"), false, false),
            ("www.example.com", dns("www.example.com"), true, false),
            ("*.example.com", dns("example.com"), true, true),
            ("*.example.com", dns("example.com"), false, false),
            ("*.example.com", dns("www.example.com"), true, false),
            ("192-0-2-1.example.com", Identifier::Ip("192.0.2.1".parse().unwrap()), false, false),
        ] {
            assert_eq!(name(ordered).asks_for(&asked, wildcard), expected, "{ordered} {asked:?} {wildcard}");
        }
    }
}
