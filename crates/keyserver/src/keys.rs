//! The keys that are held: loaded from a key set's files, found again by identifier.

use std::collections::HashMap;
use std::sync::Arc;

use config::{KeySetConfig, OperationSet};
use tls::crypto::public_key::{key_digest, key_identifier};
use tls::crypto::{KeyKind, PrivateKey, SigningKey};
use wire::keyless::KeyFamily;

use super::backlog::Class;

/// A subject key identifier.
pub type Ski = [u8; 20];

/// A key and what is asked of it.
#[derive(Debug)]
pub struct Key {
    /// The key itself.
    pub signing: SigningKey,
    /// SHA-1 over its public half's bits.
    pub ski: Ski,
    /// The other name that peers may have for it.
    pub digest: Option<[u8; 32]>,
    /// What it may do at all.
    pub operations: OperationSet,
    /// File it came from.
    pub origin: String,
    /// The queue that its work waits in.
    pub(super) class: Class,
}

impl Key {
    /// A key that was read from `origin`.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn new(key: &PrivateKey, operations: OperationSet, origin: String) -> Result<Key, String> {
        let spki = key.public_spki_der();
        let named = key_identifier(spki).and_then(|ski| Ok((ski, key_digest(spki)?)));
        let (ski, digest) = named.map_err(|error| format!("{origin}: {error}"))?;
        let signing = SigningKey::new(key).map_err(|error| format!("{origin}: private key {error}"))?;
        let class = Class::of(signing.kind());
        Ok(Key { signing, ski, digest, operations, origin, class })
    }

    /// The family of operations that it is for.
    pub fn family(&self) -> Option<KeyFamily> {
        match self.signing.kind() {
            KeyKind::Rsa { .. } => Some(KeyFamily::Rsa),
            KeyKind::Ec(_) => Some(KeyFamily::Ecdsa),
            KeyKind::Ed25519 => Some(KeyFamily::Ed25519),
            KeyKind::Other => None,
        }
    }

    /// The identifier as operators see it: lower-case hexadecimal.
    pub fn ski_text(&self) -> String {
        wire::hexadecimal::hexadecimal(&self.ski)
    }
}

/// Loads a key set. `known` are keys held already: the same key from the same place under the same rule stays as it is.
///
/// # Errors
/// Every problem found.
pub fn load(set: &KeySetConfig, known: &HashMap<Ski, Arc<Key>>) -> Result<Vec<Arc<Key>>, Vec<String>> {
    let password = set.password.as_ref().map(config::Secret::read).transpose().map_err(|problem| vec![problem])?;
    let load = if set.grows { keystore::keys::load_growing } else { keystore::keys::load };
    let found = load(&set.folders, &set.files, password.as_ref()).map_err(|error| error.problems)?;
    let mut problems = Vec::new();
    let mut keys = Vec::with_capacity(found.len());
    for found in found {
        let same = |key: &&Arc<Key>| key.operations == set.operations && key.origin == found.origin;
        let ski = key_identifier(found.key.public_spki_der()).ok();
        if let Some(key) = ski.and_then(|ski| known.get(&ski)).filter(same) {
            keys.push(Arc::clone(key));
            continue;
        }
        match Key::new(&found.key, set.operations, found.origin) {
            Ok(key) => keys.push(Arc::new(key)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}
