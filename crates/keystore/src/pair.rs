//! A chain with its key (or the promise of one elsewhere), whatever store it came from: the checks every pair passes, and how a load's pairs become a `Store`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tls::crypto::{KeyKind, PrivateKey, digest};
use tls::{Identity, KeyType};
use zeroize::Zeroizing;

use crate::certified::{Certified, Digest, public_key_digest};
use crate::date::{date, days_until};
use crate::{Entry, LoadError, Store};

/// From this many days before its end, a certificate is worth a warning; one that lives for less than three times as long, in its last third.
pub const EXPIRY_WARNING_DAYS: i64 = 14;

/// What is wrong, and what should be known, so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) problems: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Report {
    pub(crate) fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    pub(crate) fn append(&mut self, mut other: Report) {
        self.problems.append(&mut other.problems);
        self.warnings.append(&mut other.warnings);
    }
}

/// A store's pairs before names are settled, and what was found on the way.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) report: Report,
}

/// Where in its store a pair stands, for who wants to remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Files of a folder.
    Files {
        /// The one with its certificate.
        certificate: PathBuf,
        /// Every one that holds its key; the certificate's may be among them. Shared, since one key may serve thousands of certificates.
        keys: Arc<Vec<PathBuf>>,
    },
    /// The alias in a Java keystore.
    Alias(String),
    /// The number of its key in a PKCS#12 file, from 0.
    Key(usize),
}

/// A chain and the key of its leaf, checked to belong together; or a chain whose key is elsewhere.
#[derive(Debug)]
pub(crate) struct Pair {
    /// File and alias, for messages.
    pub(crate) origin: String,
    pub(crate) source: Source,
    pub(crate) names: Vec<String>,
    /// What an operator should know if it has no name, so that nobody is served it.
    pub(crate) unserved: Option<String>,
    /// Whether it certifies others.
    is_authority: bool,
    /// Leaf first, DER.
    pub(crate) chain: Vec<Vec<u8>>,
    /// PKCS#8; none if it is elsewhere.
    pub(crate) key: Option<Zeroizing<Vec<u8>>>,
    pub(crate) key_type: KeyType,
    pub(crate) kind: KeyKind,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl Pair {
    /// Checks what every pair must satisfy. Names are given afterwards; see [`Pair::names`].
    pub(crate) fn new(
        origin: String,
        source: Source,
        chain: Vec<Certified>,
        key: Option<&PrivateKey>,
        report: &mut Report,
    ) -> Option<Pair> {
        let Some(leaf) = chain.first() else {
            report.problem(format!("{origin}: key without a certificate; add the certificate or remove the key"));
            return None;
        };
        if let Some(key) = key.filter(|key| leaf.public_key != public_key_digest(key)) {
            report.problem(format!(
                "{origin}: the key ({}) does not belong to the certificate of {:?} ({}); put the pair that was issued together there",
                key.kind(),
                leaf.subject,
                leaf.kind
            ));
            return None;
        }
        let Some(key_type) = leaf.kind.key_type() else {
            report.problem(format!(
                "{origin}: the key of {:?} is {}, which is not served; use RSA of 2048 bits or more, ECDSA P-256, P-384 or P-521, or Ed25519",
                leaf.subject, leaf.kind
            ));
            return None;
        };
        for (name, error) in &leaf.unusable_names {
            report.warn(format!("{origin}: the name {name:?} in the certificate is not served: {error}"));
        }
        for links in chain.windows(2) {
            if !links[0].is_issued_by(&links[1]) {
                report.warn(format!(
                    "{origin}: {:?} does not certify {:?} before it; clients may fail to verify the chain; put each issuer after what it certified",
                    links[1].subject, links[0].subject
                ));
            }
        }
        Some(Pair {
            origin,
            source,
            names: leaf.names.clone(),
            unserved: None,
            is_authority: leaf.is_authority,
            key_type,
            kind: leaf.kind,
            not_before: leaf.not_before,
            not_after: leaf.not_after,
            key: key.map(PrivateKey::to_pkcs8_der),
            chain: chain.into_iter().map(|certificate| certificate.der).collect(),
        })
    }

    /// What tells a changed pair from an unchanged one: every certificate and the key.
    fn digest(&self) -> Digest {
        let parts = self.chain.iter().map(Vec::as_slice).chain(self.key.iter().map(|key| key.as_slice()));
        digest::sha256(&parts.map(digest::sha256).collect::<Vec<_>>().concat())
    }

    /// Whether this pair is to be served rather than `other` where both claim a name for one key type.
    pub(crate) fn beats(&self, other: &Pair) -> bool {
        let rank = |pair: &Pair| (pair.not_before, pair.not_after, pair.chain.len(), pair.key.is_some());
        rank(self) > rank(other)
    }
}

/// A certificate without a host name (an address alone, a common name alone, version 1) that is the only one of its store is what everybody gets, as in other
/// servers: it cannot be meant for anything else. What has no name beside others is served to nobody, with a warning.
pub(crate) fn name_the_only_one(mut loaded: Loaded) -> Loaded {
    let pairs = &mut loaded.pairs;
    // Whoever makes a certificate for oneself may have made an authority, as `openssl req -x509` does.
    let certifies = pairs.iter().all(|pair| pair.is_authority);
    let is_meant = |pair: &Pair| certifies || !pair.is_authority;
    let mut leaves: HashMap<KeyType, &[u8]> = HashMap::new();
    let is_one = pairs.iter().all(|pair| pair.names.is_empty())
        && pairs.iter().filter(|pair| is_meant(pair)).all(|pair| {
            let leaf = pair.chain.first().map(Vec::as_slice).unwrap_or_default();
            *leaves.entry(pair.key_type).or_insert(leaf) == leaf
        });
    for pair in pairs.iter_mut().filter(|pair| pair.names.is_empty()) {
        if is_one && is_meant(pair) {
            pair.names.push(crate::names::DEFAULT.to_owned());
        } else if let Some(warning) = pair.unserved.take() {
            loaded.report.warnings.push(warning);
        }
    }
    loaded
}

/// With a problem if a store holds nothing.
pub(crate) fn not_empty(mut loaded: Loaded, place: &Path) -> Loaded {
    if loaded.pairs.is_empty() && loaded.report.problems.is_empty() {
        let place = place.display();
        loaded.report.problem(format!(
            "{place}: holds no certificate with its key; add one with `portunus keystore add --store {place}`"
        ));
    }
    loaded
}

/// Gives each name and key type to one pair, and makes the store.
pub(crate) fn settle(mut loaded: Loaded, reuse: Option<&Store>) -> Result<Store, LoadError> {
    if !loaded.report.problems.is_empty() {
        return Err(LoadError { problems: loaded.report.problems });
    }
    let mut warnings = loaded.report.warnings;
    drop_shadowed(&mut loaded.pairs, &mut warnings);
    let known: HashMap<Digest, &Arc<Identity>> =
        reuse.iter().flat_map(|store| &store.entries).map(|entry| (entry.digest, &entry.identity)).collect();
    let now = SystemTime::now();
    let mut entries = Vec::with_capacity(loaded.pairs.len());
    for pair in loaded.pairs {
        warnings.extend(validity_problem(&pair.origin, pair.not_before, pair.not_after, now));
        let digest = pair.digest();
        let fingerprint = pair.chain.first().map(|leaf| digest::sha256(leaf)).unwrap_or_default();
        let identity = match known.get(&digest) {
            Some(identity) => Arc::clone(identity),
            None => match pair.key {
                Some(key) => Identity::new(pair.chain, key, pair.key_type),
                None => Identity::remote(&pair.chain, pair.key_type),
            },
        };
        let mut names = pair.names;
        names.shrink_to_fit();
        let (not_before, not_after) = (pair.not_before, pair.not_after);
        entries.push(Entry { names, identity, fingerprint, digest, not_before, not_after, origin: pair.origin });
    }
    Ok(Store { entries, warnings, state: None })
}

/// Takes from each pair the names that a better pair of the same key type serves, and drops the pairs that have none left.
pub(crate) fn drop_shadowed(pairs: &mut Vec<Pair>, warnings: &mut Vec<String>) {
    let mut best: HashMap<(&str, KeyType), usize> = HashMap::with_capacity(pairs.len());
    let mut losses: Vec<(usize, usize, String)> = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        for name in &pair.names {
            let Some(holder) = best.get_mut(&(name.as_str(), pair.key_type)) else {
                best.insert((name, pair.key_type), index);
                continue;
            };
            let loser = if pair.beats(&pairs[*holder]) { std::mem::replace(holder, index) } else { index };
            losses.push((loser, *holder, name.clone()));
        }
    }
    losses.sort();
    for part in losses.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (loser, winner) = (part[0].0, part[0].1);
        let lost: Vec<&str> = part.iter().map(|(_, _, name)| name.as_str()).collect();
        // The same certificate twice, as `cert.pem` beside `fullchain.pem`, is no news.
        if pairs[loser].chain.first() != pairs[winner].chain.first() {
            warnings.push(format!(
                "{}: not served as {}, because the certificate of {} is newer; remove the older one",
                pairs[loser].origin,
                lost.join(", "),
                pairs[winner].origin
            ));
        }
    }
    for (loser, _, name) in losses {
        pairs[loser].names.retain(|own| *own != name);
    }
    pairs.retain(|pair| !pair.names.is_empty());
}

/// What is wrong with the validity of a certificate at `now`, if something is.
pub(crate) fn validity_problem(
    origin: &str,
    not_before: SystemTime,
    not_after: SystemTime,
    now: SystemTime,
) -> Option<String> {
    let left = days_until(not_after, now);
    let is_soon = left < EXPIRY_WARNING_DAYS.min(days_until(not_after, not_before) / 3);
    if now > not_after {
        Some(format!("{origin}: expired on {}; clients reject it; renew it", date(not_after)))
    } else if now < not_before {
        Some(format!("{origin}: not valid before {}; clients reject it until then", date(not_before)))
    } else if is_soon {
        Some(format!("{origin}: expires on {}, in {left} days; renew it", date(not_after)))
    } else {
        None
    }
}
