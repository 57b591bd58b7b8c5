//! Who is denied by those who operate several machines at once, over the lists of policies: addresses by policies that have such a list, tokens by those that
//! demand one and by contracts with such a list, users by policies that demand passwords.
//!
//! One for the life of a process, so that no reload forgets it. As long as nobody is denied it costs who asks a look at a flag.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use ipnet::IpNet;

use crate::auth::Grant;
use crate::auth::deny::fingerprint;
use crate::client::AddressSet;

/// One who is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeniedOne {
    /// Clients of a network.
    Network(IpNet),
    /// The token with this id, the claim `jti` (RFC 7519 §4.1.7).
    TokenId(String),
    /// The token with this [`fingerprint`].
    Token([u8; 32]),
    /// The user of this name who shows a password (RFC 7617).
    User(String),
}

/// All who are denied: by every policy, and by one.
#[derive(Debug, Default)]
pub struct DeniedLists {
    everywhere: Denied,
    by_policy: BTreeMap<String, Denied>,
}

#[derive(Debug, Default)]
struct Denied {
    addresses: AddressSet,
    ids: HashSet<String>,
    tokens: HashSet<[u8; 32]>,
    users: HashSet<String>,
}

impl DeniedLists {
    /// These, each with the one policy that denies it, if not every one does.
    pub fn of(entries: Vec<(Option<String>, DeniedOne)>) -> DeniedLists {
        let (mut lists, mut networks) = (DeniedLists::default(), BTreeMap::<Option<String>, Vec<IpNet>>::new());
        for (policy, one) in entries {
            let of_policy = match &policy {
                None => &mut lists.everywhere,
                Some(policy) => lists.by_policy.entry(policy.clone()).or_default(),
            };
            match one {
                DeniedOne::Network(network) => networks.entry(policy).or_default().push(network),
                DeniedOne::TokenId(id) => _ = of_policy.ids.insert(id),
                DeniedOne::Token(token) => _ = of_policy.tokens.insert(token),
                DeniedOne::User(name) => _ = of_policy.users.insert(name),
            }
        }
        for (policy, networks) in networks {
            let addresses = AddressSet::of_networks(&networks);
            match policy {
                None => lists.everywhere.addresses = addresses,
                Some(policy) => lists.by_policy.entry(policy).or_default().addresses = addresses,
            }
        }
        lists
    }

    fn is_empty(&self) -> bool {
        let is_empty = |Denied { addresses, ids, tokens, users }: &Denied| {
            addresses.is_empty() && ids.is_empty() && tokens.is_empty() && users.is_empty()
        };
        is_empty(&self.everywhere) && self.by_policy.values().all(is_empty)
    }

    fn any(&self, policy: &str, holds: impl Fn(&Denied) -> bool) -> bool {
        holds(&self.everywhere) || self.by_policy.get(policy).is_some_and(holds)
    }
}

/// What policies ask.
#[derive(Debug, Default)]
pub struct Denials {
    is_used: AtomicBool,
    lists: ArcSwap<DeniedLists>,
}

impl Denials {
    /// Denies these from now on, and nobody else.
    pub fn set(&self, lists: DeniedLists) {
        let is_used = !lists.is_empty();
        self.lists.store(std::sync::Arc::new(lists));
        self.is_used.store(is_used, Ordering::Release);
    }

    /// Whether anybody is denied.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    /// Whether a policy denies an address.
    pub fn denies_address(&self, policy: &str, address: Option<IpAddr>) -> bool {
        let Some(address) = address.filter(|_| self.is_used()) else { return false };
        self.lists.load().any(policy, |denied| denied.addresses.contains(address))
    }

    /// Whether a policy denies a user who has shown the right password.
    pub fn denies_user(&self, policy: &str, user: &str) -> bool {
        self.is_used() && self.lists.load().any(policy, |denied| denied.users.contains(user))
    }

    /// Whether a token with this [`fingerprint`] is denied everywhere.
    pub fn denies_fingerprint(&self, fingerprint: [u8; 32]) -> bool {
        self.lists.load().everywhere.tokens.contains(&fingerprint)
    }

    /// Whether a policy denies a genuine token, as it was shown.
    pub fn denies_token(&self, policy: &str, token: &[u8], grant: &Grant) -> bool {
        let id = grant.text("jti").ok().flatten();
        self.lists.load().any(policy, |denied| {
            id.as_deref().is_some_and(|id| denied.ids.contains(id))
                || (!denied.tokens.is_empty() && denied.tokens.contains(&fingerprint(token)))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_denied_everywhere_or_by_one_policy_until_they_are_taken_back() {
        let denials = Denials::default();
        let denies = |policy: &str, address: &str| denials.denies_address(policy, address.parse().ok());
        assert!(!denials.is_used() && !denies("a", "192.0.2.1"));
        let network = |text: &str| DeniedOne::Network(text.parse().unwrap());
        denials.set(DeniedLists::of(vec![
            (None, network("192.0.2.0/24")),
            (None, network("2001:db8::/32")),
            (Some("b".to_owned()), network("198.51.100.7/32")),
        ]));
        assert!(denies("a", "192.0.2.1") && denies("b", "2001:db8::1"));
        assert!(!denies("a", "198.51.100.7") && denies("b", "198.51.100.7") && !denies("b", "198.51.100.8"));
        assert!(!denials.denies_address("a", None));
        denials.set(DeniedLists::of(Vec::new()));
        assert!(!denials.is_used() && !denies("a", "192.0.2.1"));
    }
}
