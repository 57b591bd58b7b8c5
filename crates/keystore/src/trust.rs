//! Single files that a configuration names: trusted roots, revocation lists, and the pair we show to upstreams.
//!
//! Unlike a store these are read by file, and everything in the file is meant.

use std::path::Path;
use std::sync::Arc;

use tls::Identity;
use tls::crypto::{Certificate, PrivateKey};

use crate::files;
use crate::pem::{self, Label};

/// Roots that Debian and its kin keep, trusted where no other file is named.
pub const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Largest of these files, bytes. A bundle of all public roots has 250 kB, a large revocation list some megabytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The certificates of a PEM file, DER, in order; at least one.
///
/// # Errors
/// The file cannot be read, is not PEM, holds none, or one does not parse: file, what, and fix.
pub fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let certificates = blocks(path, |label| *label == Label::Certificate)?;
    for (number, der) in certificates.iter().enumerate() {
        Certificate::from_der(der)
            .map_err(|error| format!("{}: certificate {}: {error}", path.display(), number + 1))?;
    }
    at_least_one(certificates, path, "CERTIFICATE")
}

/// The revocation lists of a PEM file, or the one of a DER file.
///
/// # Errors
/// The file cannot be read or holds none.
pub fn revocation_lists(path: &Path) -> Result<Vec<Vec<u8>>, String> {
    let bytes = read(path)?;
    // DER begins with a SEQUENCE, PEM with text.
    if bytes.first() == Some(&0x30) {
        return Ok(vec![bytes.to_vec()]);
    }
    let lists = blocks(path, |label| matches!(label, Label::Other(other) if other == "X509 CRL"))?;
    at_least_one(lists, path, "X509 CRL")
}

/// A chain and its key from two PEM files (or one named twice), checked to belong together.
///
/// # Errors
/// A file cannot be read or holds neither, or the key is another certificate's.
pub fn pair(chain: &Path, key: &Path) -> Result<Arc<Identity>, String> {
    let certificates = certificates(chain)?;
    let is_key = |label: &Label| matches!(label, Label::PrivateKey | Label::RsaPrivateKey | Label::EcPrivateKey);
    let keys = blocks(key, is_key)?;
    let [key_der] = keys.as_slice() else {
        return Err(format!("{}: {} private keys; exactly one is needed, unencrypted", key.display(), keys.len()));
    };
    let private = PrivateKey::from_der(key_der).map_err(|error| format!("{}: {error}", key.display()))?;
    let leaf = certificates.first().map(|leaf| Certificate::from_der(leaf));
    let Some(Ok(leaf)) = leaf else { return Err(format!("{}: no certificate", chain.display())) };
    if leaf.public_spki_der() != private.public_spki_der() {
        return Err(format!("{}: this key is not the one of {}", key.display(), chain.display()));
    }
    let kind =
        private.kind().key_type().ok_or_else(|| format!("{}: this kind of key is not supported", key.display()))?;
    Ok(Identity::new(certificates, private.to_pkcs8_der(), kind))
}

fn read(path: &Path) -> Result<zeroize::Zeroizing<Vec<u8>>, String> {
    files::read(path, MAX_FILE_BYTES)
}

fn blocks(path: &Path, wanted: impl Fn(&Label) -> bool) -> Result<Vec<Vec<u8>>, String> {
    let blocks = pem::read(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(blocks.into_iter().filter(|block| wanted(&block.label)).map(|block| block.der.to_vec()).collect())
}

fn at_least_one(found: Vec<Vec<u8>>, path: &Path, label: &str) -> Result<Vec<Vec<u8>>, String> {
    if found.is_empty() { Err(format!("{}: holds no {label} block", path.display())) } else { Ok(found) }
}
