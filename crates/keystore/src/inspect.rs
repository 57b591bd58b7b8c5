//! Looking at a store without serving it: what it holds, what is wrong with it, and its pairs as PEM.

use std::time::SystemTime;

use tls::KeyType;
use tls::crypto::{KeyKind, PrivateKey, digest};
use zeroize::Zeroizing;

use crate::date::days_until;
use crate::pair::{Loaded, Pair, drop_shadowed, validity_problem};
use crate::pem::{self, Label};
use crate::{Keys, LoadError, Location, Password, load_pairs, names, parallel};

/// One pair of a store, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The names it is served under.
    pub names: Vec<String>,
    /// The kind of its key.
    pub kind: KeyKind,
    /// Start of validity of the leaf.
    pub not_before: SystemTime,
    /// End of validity of the leaf.
    pub not_after: SystemTime,
    /// SHA-256 of the leaf.
    pub fingerprint: [u8; 32],
    /// File and alias.
    pub origin: String,
}

impl Listed {
    /// Whole days from `now` to the end of validity; negative if it has passed.
    pub fn days_left(&self, now: SystemTime) -> i64 {
        days_until(self.not_after, now)
    }
}

/// What a store holds, usable or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// The pairs that can be read, as they would be served.
    pub pairs: Vec<Listed>,
    /// What stops the store from loading.
    pub problems: Vec<String>,
    /// What should be known.
    pub warnings: Vec<String>,
}

/// Reads a store as far as it can be read.
pub fn inspect(location: &Location, password: Option<&Password>) -> Inspection {
    list(&read(location, password))
}

fn read(location: &Location, password: Option<&Password>) -> Loaded {
    let mut loaded = load_pairs(location, password, Keys::InStore);
    drop_shadowed(&mut loaded.pairs, &mut loaded.report.warnings);
    loaded
}

fn list(loaded: &Loaded) -> Inspection {
    let pairs = loaded.pairs.iter().map(|pair| Listed {
        names: pair.names.clone(),
        kind: pair.kind,
        not_before: pair.not_before,
        not_after: pair.not_after,
        fingerprint: pair.chain.first().map(|leaf| digest::sha256(leaf)).unwrap_or_default(),
        origin: pair.origin.clone(),
    });
    let report = &loaded.report;
    Inspection { pairs: pairs.collect(), problems: report.problems.clone(), warnings: report.warnings.clone() }
}

/// Checks everything that can be checked: what [`inspect`] does, every number of every key, and that no certificate is out of its dates.
pub fn check(location: &Location, password: Option<&Password>) -> Inspection {
    let loaded = read(location, password);
    let mut inspection = list(&loaded);
    let now = SystemTime::now();
    for pair in &inspection.pairs {
        let finding = validity_problem(&pair.origin, pair.not_before, pair.not_after, now);
        let is_out = now > pair.not_after || now < pair.not_before;
        if is_out { &mut inspection.problems } else { &mut inspection.warnings }.extend(finding);
    }
    if inspection.pairs.is_empty() && inspection.problems.is_empty() {
        inspection.problems.push(format!("{}: holds no certificate with its key", location.path().display()));
    }
    let damaged = parallel::map(loaded.pairs, |pair: Pair| {
        PrivateKey::from_der(pair.key.as_ref()?).err().map(|error| format!("{}: private key {error}", pair.origin))
    });
    inspection.problems.extend(damaged.into_iter().flatten());
    if inspection.pairs.len() > 1
        && !inspection.pairs.iter().any(|pair| pair.names.iter().any(|name| name == names::DEFAULT))
    {
        inspection.warnings.push(format!(
            "{}: has no `default` certificate for clients that send no server name or an unknown one",
            location.path().display()
        ));
    }
    inspection
}

/// A pair as PEM text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The chain, leaf first.
    pub chain: String,
    /// The key, PKCS#8, wiped when dropped.
    pub key: Zeroizing<String>,
    /// The type of the key.
    pub key_type: KeyType,
}

/// The pairs that serve a name, of one key type or of all.
///
/// # Errors
/// Nothing serves it, or the store cannot be read so far.
pub fn export(
    location: &Location,
    password: Option<&Password>,
    name: &str,
    key_type: Option<KeyType>,
) -> Result<Vec<Exported>, LoadError> {
    let fail = |problem: String| LoadError { problems: vec![problem] };
    let name = names::canonical(name).map_err(|error| fail(format!("{name:?}: {error}")))?;
    let loaded = read(location, password);
    let wanted = |pair: &&Pair| pair.names.contains(&name) && key_type.is_none_or(|wanted| wanted == pair.key_type);
    let exported: Vec<Exported> = loaded
        .pairs
        .iter()
        .filter(wanted)
        .filter_map(|pair| {
            Some(Exported {
                chain: pair.chain.iter().map(|der| pem::write(&Label::Certificate, der).to_string()).collect(),
                key: pem::write(&Label::PrivateKey, pair.key.as_ref()?),
                key_type: pair.key_type,
            })
        })
        .collect();
    if !exported.is_empty() {
        return Ok(exported);
    }
    let mut problems = loaded.report.problems;
    problems.push(format!("{}: nothing serves {name}", location.path().display()));
    Err(LoadError { problems })
}
