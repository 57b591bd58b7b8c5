//! Keys that tokens are checked with: from a PEM file, a key set in a file or at a URL, or a shared secret.
//!
//! Owns the algorithms there are and which key goes with which. A [`KeyRing`] lives on from generation to generation; what is in it is
//! swapped whole, and a set that cannot be read leaves the last good one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use config::{Algorithm, KeyKind, KeySource, Secret};
use keystore::pem::{self, Label};
use tls::crypto::Certificate;
use tls::crypto::verify::{MacKey, PublicKey};

use super::jwk;

/// Largest file or answer with keys, bytes.
pub const MAX_KEYS_BYTES: usize = 1024 * 1024;

/// Most keys of a set. Providers have two to ten.
pub const MAX_KEYS: usize = 100;

/// What a key is made of.
#[derive(Debug)]
pub(super) enum Material {
    Public(PublicKey),
    Secret(MacKey),
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Its name in the set (RFC 7517 §4.5).
    pub(super) id: Option<String>,
    /// The only algorithm it is for, if its set says so.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) material: Material,
}

impl Key {
    /// Whether tokens of this algorithm, naming this key, can be by this one.
    pub(super) fn is_for(&self, algorithm: Algorithm, id: Option<&str>) -> bool {
        let fits = match (&self.material, algorithm.key_kind()) {
            (Material::Public(key), KeyKind::Public(scheme)) => key.fits(scheme),
            (Material::Secret(key), KeyKind::Secret(digest)) => key.fits(digest),
            _ => false,
        };
        fits && self.algorithm.is_none_or(|only| only == algorithm)
            && match (id, &self.id) {
                (Some(wanted), Some(own)) => wanted == own,
                // A key without a name is every name's; a token without one may be by any key.
                _ => true,
            }
    }

    pub(super) fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match (&self.material, algorithm.key_kind()) {
            (Material::Public(key), KeyKind::Public(scheme)) => key.verify(scheme, message, signature),
            (Material::Secret(key), KeyKind::Secret(digest)) => key.verify(digest, message, signature),
            _ => false,
        }
    }
}

/// The keys of one source, swapped whole.
#[derive(Debug)]
pub struct KeyRing {
    /// Where they come from.
    pub source: KeySource,
    keys: ArcSwapOption<Vec<Key>>,
    /// A token was signed by none of the keys that are here: look again soon.
    wanted: AtomicBool,
}

impl KeyRing {
    /// The ring of a source. Files are read now; a URL is read by `refresh`, and until then there is no key and no token passes.
    ///
    /// # Errors
    /// A file cannot be read or holds no usable key, or a secret is too short for one of `algorithms`.
    pub fn load(source: &KeySource, algorithms: &[Algorithm]) -> Result<KeyRing, String> {
        let keys = match source {
            KeySource::Pem(path) => Some(vec![pem_key(path)?]),
            KeySource::Set(path) => {
                let at = |error: String| format!("{}: {error}", path.display());
                let set = jwk::read_set(&read_bounded(path)?).map_err(at)?;
                match set.broken.into_iter().next() {
                    Some(problem) => return Err(at(problem)),
                    None => Some(set.keys),
                }
            }
            KeySource::Secret(secret) => Some(vec![secret_key(secret)?]),
            KeySource::Url { .. } => None,
        };
        if let Some(keys) = &keys {
            for algorithm in algorithms {
                if !keys.iter().any(|key| key.is_for(*algorithm, key.id.as_deref())) {
                    let why = if algorithm.is_symmetric() {
                        "a secret as long as its digest (RFC 7518 §3.2)"
                    } else {
                        "a key of its kind"
                    };
                    return Err(format!("{} is allowed and needs {why}, and there is none", algorithm.name()));
                }
            }
        }
        Ok(KeyRing { source: source.clone(), keys: ArcSwapOption::from_pointee(keys), wanted: AtomicBool::new(false) })
    }

    /// The keys now; none before the first successful fetch.
    pub fn keys(&self) -> Option<Arc<Vec<Key>>> {
        self.keys.load_full()
    }

    /// Notes that a token was signed by none of the keys that are here.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }

    /// Takes over a set as fetched.
    ///
    /// # Errors
    /// It is no key set or holds no usable key; the last good one stays.
    pub fn replace(&self, set: &[u8]) -> Result<usize, String> {
        let jwk::Set { keys, broken } = jwk::read_set(set)?;
        if let Some(first) = broken.first() {
            tracing::warn!(left_out = broken.len(), "keys of a set are left out: {first}");
        }
        let count = keys.len();
        self.keys.store(Some(Arc::new(keys)));
        Ok(count)
    }

    /// How often a URL is read again.
    pub fn period(&self) -> Option<Duration> {
        match &self.source {
            KeySource::Url { refresh, .. } => Some(*refresh),
            _ => None,
        }
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = keystore::files::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    file.take(MAX_KEYS_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if bytes.len() > MAX_KEYS_BYTES {
        return Err(format!("{} is larger than 1 MiB", path.display()));
    }
    Ok(bytes)
}

/// A PEM file with one public key or one certificate.
fn pem_key(path: &Path) -> Result<Key, String> {
    let text = read_bounded(path)?;
    let problem = |what: &str| format!("{}: {what}", path.display());
    let blocks = pem::read(&text).map_err(|error| problem(&error.to_string()))?;
    let [block] = blocks.as_slice() else {
        return Err(problem("it must hold exactly one PEM block, a PUBLIC KEY or a CERTIFICATE"));
    };
    let key = match &block.label {
        Label::Certificate => {
            Certificate::from_der(&block.der).and_then(|it| PublicKey::from_spki(it.public_spki_der()))
        }
        Label::Other(label) if label == "PUBLIC KEY" => PublicKey::from_spki(&block.der),
        _ => return Err(problem("it holds neither a PUBLIC KEY nor a CERTIFICATE")),
    };
    let key = key.map_err(|error| problem(&error.to_string()))?;
    Ok(Key { id: None, algorithm: None, material: Material::Public(key) })
}

fn secret_key(secret: &Secret) -> Result<Key, String> {
    let secret = secret.read()?;
    Ok(Key { id: None, algorithm: None, material: Material::Secret(MacKey::new(secret.as_str().as_bytes().to_vec())) })
}
