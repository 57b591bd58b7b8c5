//! What happens seldom and to the whole process: reloads, keystores, server health, ticket keys. Behind a lock, off the data path.

use std::collections::BTreeMap;
use std::time::SystemTime;

use reason::Reason;

/// Certificates shown per keystore: those that expire first.
const SHOWN_CERTIFICATES: usize = 200;

/// Upstream servers shown.
pub(super) const SHOWN_SERVERS: usize = 4096;

/// When one certificate of a keystore expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Name it is served under.
    pub name: String,
    /// Kind of its key.
    pub key_type: tls::KeyType,
    /// End of its validity.
    pub not_after: SystemTime,
}

/// How the client certificate for a group of key servers stands, which the edge renews itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentStanding {
    /// When it ends.
    pub not_after: SystemTime,
    /// Renewals since the start.
    pub renewals: u64,
    /// Tries that failed.
    pub failures: u64,
}

/// How a node stands in its fleet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FleetStanding {
    /// The store answers.
    pub is_connected: bool,
    /// Something is wrong: the store is away, or what it has cannot be served.
    pub has_problem: bool,
    /// Serial number of the newest state of the fleet that is known.
    pub serial: u64,
    /// Generations that were rejected.
    pub rejections: u64,
    /// It is this node that orders certificates for all.
    pub orders_certificates: bool,
}

/// One keystore's loads.
#[derive(Debug, Default)]
pub(super) struct Keystore {
    pub(super) loaded: u64,
    pub(super) failed: u64,
    pub(super) last_success: Option<SystemTime>,
    /// All certificates, shown or not.
    pub(super) certificates: u64,
    /// Those that expire first, in that order.
    pub(super) shown: Vec<CertificateExpiry>,
}

/// How this node fares with the store by which nodes share rates.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateStoreTotals {
    /// Nodes learn of each other.
    pub is_up: bool,
    /// Exchanges that succeeded.
    pub successes: u64,
    /// Those that did not.
    pub failures: u64,
    /// Keys reported to it.
    pub keys: u64,
    /// Keys that wait for the next exchange.
    pub waiting: u64,
    /// How long the last exchange that succeeded took.
    pub seconds: f64,
}

#[derive(Debug, Default)]
pub(super) struct SlowEvents {
    pub(super) generation: u64,
    pub(super) reloads: u64,
    pub(super) failed_reloads: u64,
    pub(super) last_reload: Option<SystemTime>,
    pub(super) last_reload_failed: bool,
    pub(super) ticket_rotations: u64,
    pub(super) keystores: BTreeMap<String, Keystore>,
    /// Orders of certificates by keystore and authority: those that succeeded, and those that failed.
    pub(super) orders: BTreeMap<(String, String), (u64, u64)>,
    /// Certificates that keystores have ordered and do not have, and those whose last order failed.
    pub(super) wanted: BTreeMap<String, (u64, u64)>,
    /// Names that keystores have certificates for because clients asked.
    pub(super) on_demand: BTreeMap<String, u64>,
    /// What became of names that were demanded, by keystore and result.
    pub(super) demands: BTreeMap<(String, &'static str), u64>,
    /// How this process stands in its fleet, if it is in one.
    pub(super) fleet: Option<FleetStanding>,
    /// Client certificates for groups of key servers that are renewed.
    pub(super) enrolments: BTreeMap<String, EnrolmentStanding>,
    /// By upstream, name, reason.
    pub(super) resolutions: BTreeMap<(String, String, &'static str), u64>,
    /// Directories of servers, by name and upstream: whether they respond, and how often they did not.
    pub(super) directories: BTreeMap<(String, String), (bool, u64)>,
    /// How the store of rates stands, if there is one.
    pub(super) rate_store: Option<RateStoreTotals>,
}

impl SlowEvents {
    pub(super) fn reload(&mut self, generation: Option<u64>, now: SystemTime) {
        self.last_reload_failed = generation.is_none();
        match generation {
            Some(generation) => {
                self.generation = generation;
                self.reloads += 1;
                self.last_reload = Some(now);
            }
            None => self.failed_reloads += 1,
        }
    }

    pub(super) fn keystore(&mut self, name: &str, certificates: Option<Vec<CertificateExpiry>>, now: SystemTime) {
        let keystore = self.keystores.entry(name.to_owned()).or_default();
        match certificates {
            Some(mut certificates) => {
                keystore.loaded += 1;
                keystore.last_success = Some(now);
                keystore.certificates = certificates.len() as u64;
                certificates
                    .sort_by(|a, b| (a.not_after, &a.name, a.key_type).cmp(&(b.not_after, &b.name, b.key_type)));
                // One name may stand in several places of a store; a label set may be shown once only.
                let mut seen = std::collections::HashSet::new();
                certificates.retain(|certificate| {
                    seen.len() < SHOWN_CERTIFICATES && seen.insert((certificate.name.clone(), certificate.key_type))
                });
                keystore.shown = certificates;
            }
            None => keystore.failed += 1,
        }
    }

    pub(super) fn certificate_ordered(&mut self, keystore: &str, authority: &str, is_issued: bool) {
        let (issued, failed) = self.orders.entry((keystore.to_owned(), authority.to_owned())).or_default();
        if is_issued {
            *issued += 1;
        } else {
            *failed += 1;
        }
    }

    pub(super) fn resolution_failed(&mut self, upstream: &str, name: &str, reason: Reason) {
        let key = (upstream.to_owned(), name.to_owned(), reason.code());
        if self.resolutions.len() < SHOWN_SERVERS || self.resolutions.contains_key(&key) {
            *self.resolutions.entry(key).or_default() += 1;
        }
    }

    /// Forgets keystores that the configuration no longer has.
    pub(super) fn retain(&mut self, keystore: impl Fn(&str) -> bool) {
        self.keystores.retain(|name, _| keystore(name));
        self.wanted.retain(|name, _| keystore(name));
        self.on_demand.retain(|name, _| keystore(name));
        self.demands.retain(|(name, _), _| keystore(name));
        self.orders.retain(|(name, _), _| keystore(name));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_certificates_that_expire_first_are_shown_once_each() {
        let expiry = |i: u64| CertificateExpiry {
            name: format!("{}.example", i % 300),
            key_type: tls::KeyType::Rsa,
            not_after: SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - i),
        };
        let mut events = SlowEvents::default();
        events.keystore("main", Some((0..600).map(expiry).collect()), SystemTime::UNIX_EPOCH);
        events.keystore("main", None, SystemTime::UNIX_EPOCH);
        let keystore = &events.keystores["main"];
        assert_eq!((keystore.loaded, keystore.failed, keystore.certificates), (1, 1, 600));
        assert_eq!(keystore.shown.len(), SHOWN_CERTIFICATES);
        assert_eq!(keystore.shown[0].name, "299.example", "number 599 expires first");
        assert_eq!(keystore.shown[1].name, "298.example");
    }
}
