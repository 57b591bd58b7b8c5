//! The keys that are held: loaded from a key set's files, found again by identifier.

use std::collections::HashMap;
use std::sync::Arc;

use config::{KeySetConfig, OperationSet};
use tls::crypto::public_key::{key_digest, key_identifier};
use tls::crypto::{KeyKind, SigningKey};
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
        self.ski.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Loads a key set. `known` are keys held already: the same key from the same place under the same rule stays as it is.
///
/// # Errors
/// Every problem found.
pub fn load(set: &KeySetConfig, known: &HashMap<Ski, Arc<Key>>) -> Result<Vec<Arc<Key>>, Vec<String>> {
    let password = set.password.as_ref().map(config::Secret::read).transpose().map_err(|problem| vec![problem])?;
    let found = keystore::keys::load(&set.folders, &set.files, password.as_ref()).map_err(|error| error.problems)?;
    let mut problems = Vec::new();
    let mut keys = Vec::with_capacity(found.len());
    for found in found {
        let named = key_identifier(found.key.public_spki_der())
            .and_then(|ski| Ok((ski, key_digest(found.key.public_spki_der())?)));
        let (ski, digest) = match named {
            Ok(named) => named,
            Err(error) => {
                problems.push(format!("{}: {error}", found.origin));
                continue;
            }
        };
        let same = |key: &&Arc<Key>| key.operations == set.operations && key.origin == found.origin;
        if let Some(key) = known.get(&ski).filter(same) {
            keys.push(Arc::clone(key));
            continue;
        }
        match SigningKey::new(&found.key) {
            Ok(signing) => {
                let (operations, class) = (set.operations, Class::of(signing.kind()));
                keys.push(Arc::new(Key { signing, ski, digest, operations, origin: found.origin, class }));
            }
            Err(error) => problems.push(format!("{}: private key {error}", found.origin)),
        }
    }
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}
