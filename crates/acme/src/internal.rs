//! A development CA of the keystore's own (`directory: internal`): its key lies in the folder, its leaves live for a week and are renewed as any other.
//!
//! Proves nothing and asks nobody; whoever is to accept what it issues must be told to trust its certificate.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use keystore::authority::{Authority, Leaf, SKEW};
use keystore::dev_ca::Purpose;
use rcgen::{CertificateParams, KeyPair};
use tls::crypto::digest;
use zeroize::Zeroizing;

use crate::key::{self, Held};
use crate::storage::Storage;
use crate::wanted::Wanted;

/// What it is called in logs and metrics.
pub const NAME: &str = "internal";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long a leaf is valid.
const LEAF_LIFETIME: Duration = DAY.saturating_mul(7);

/// How long the CA is.
const CA_LIFETIME: Duration = DAY.saturating_mul(3650);

/// A CA that ends within this time is replaced: nobody is to trust a certificate that will be of no use tomorrow.
const CA_RENEWAL: Duration = DAY.saturating_mul(30);

/// What it is called in its certificate.
const CALLED: &str = "Portunus development CA";

/// Whose turn it is to look for the CA, or to make it. Another process is kept out by the lock on the folder.
static TURN: Mutex<()> = Mutex::new(());

/// Issues what is wanted, by the CA in this folder, which is made if there is none: the file to keep, and what is in it.
///
/// # Errors
/// The key of the CA cannot be read or written, or a name cannot stand in a certificate.
pub fn issue(storage: &Storage, wanted: &Wanted) -> Result<(Zeroizing<String>, Held), String> {
    let key_pem = keystore::keys::generate(wanted.key_type)?;
    // Several certificates are issued at once, and there is one CA.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let authority = authority(storage, SystemTime::now())?;
    let leaf = sign(&authority, wanted, &key_pem)?;
    key::check(wanted, &key_pem, &leaf)
}

/// Where its certificate is, for clients to trust; and its fingerprint, once it is there.
pub fn place(storage: &Storage) -> (PathBuf, Option<String>) {
    let path = storage.ca_certificate_path();
    let fingerprint = storage.ca().ok().flatten().and_then(|(certificate, _)| {
        let der = key::first_certificate(certificate.as_bytes())?;
        Some(digest::sha256(&der).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":"))
    });
    (path, fingerprint)
}

/// The CA in the folder; a new one if there is none, or if it ends soon.
fn authority(storage: &Storage, now: SystemTime) -> Result<Authority, String> {
    if let Some((certificate, key)) = storage.ca()? {
        let kept = Authority::kept(CALLED, &certificate, &key).map_err(|problem| {
            format!("{}: {problem}; remove the folder it is in to have a new CA made", storage.ca_key_path().display())
        })?;
        if kept.not_after.checked_sub(CA_RENEWAL).is_some_and(|soon| now < soon) {
            return Ok(kept);
        }
    }
    let (made, files) = Authority::make(CALLED, now, CA_LIFETIME)?;
    storage.keep_ca(&files.certificate, &files.key)?;
    Ok(made)
}

fn sign(authority: &Authority, wanted: &Wanted, key_pem: &str) -> Result<String, String> {
    let failed = |error: rcgen::Error| format!("no certificate can be made: {error}");
    let now = SystemTime::now();
    let leaf = Leaf {
        // Tells names from addresses.
        names: CertificateParams::new(wanted.names()).map_err(failed)?.subject_alt_names,
        validity: (now.checked_sub(SKEW).unwrap_or(now), now.checked_add(LEAF_LIFETIME).unwrap_or(now)),
        purpose: Purpose::Server,
        serial: None,
    };
    Ok(authority.certify(&leaf, &KeyPair::from_pem(key_pem).map_err(failed)?)?.pem())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::wanted::Subject;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use tls::KeyType;

    fn wanted(name: &str, key_type: KeyType) -> Wanted {
        Wanted { subject: Subject::Name(name.to_owned()), key_type }
    }

    #[test]
    fn a_ca_is_made_once_and_its_key_is_ours_alone() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::at(&dir.path().join("local"));
        storage.make().unwrap();
        let (path, fingerprint) = place(&storage);
        assert!(fingerprint.is_none() && !path.exists());
        let (text, first) = issue(&storage, &wanted("localhost", KeyType::Ecdsa)).unwrap();
        let (_, second) = issue(&storage, &wanted("*.dev.test", KeyType::Rsa)).unwrap();
        assert_eq!(first.authority_key_id, second.authority_key_id, "one CA");
        assert_eq!(first.validity.lifetime(), LEAF_LIFETIME + SKEW);
        assert!(
            text.contains("PRIVATE KEY") && key::held(&wanted("localhost", KeyType::Ecdsa), text.as_bytes()).is_some()
        );
        assert!(place(&storage).1.is_some());
        assert_eq!(std::fs::metadata(storage.ca_key_path()).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_key_that_others_may_read_or_of_another_certificate_signs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::at(dir.path());
        storage.make().unwrap();
        issue(&storage, &wanted("localhost", KeyType::Ecdsa)).unwrap();
        let path = storage.ca_key_path();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let problem = issue(&storage, &wanted("localhost", KeyType::Ecdsa)).unwrap_err();
        assert!(problem.contains("other users may read"), "{problem}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        for (key, expected) in [
            (KeyPair::generate().unwrap().serialize_pem(), "do not belong together"),
            ("nonsense".to_owned(), "cannot be read"),
        ] {
            std::fs::write(&path, &key).unwrap();
            let problem = issue(&storage, &wanted("localhost", KeyType::Ecdsa)).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), key, "nothing is replaced");
        }
    }

    #[test]
    fn one_that_ends_soon_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::at(dir.path());
        storage.make().unwrap();
        let now = SystemTime::now();
        let fingerprint_at = |time: SystemTime| {
            authority(&storage, time).unwrap();
            place(&storage).1.unwrap()
        };
        let first = fingerprint_at(now - CA_LIFETIME + CA_RENEWAL + DAY);
        assert_eq!(first, fingerprint_at(now));
        assert_ne!(first, fingerprint_at(now + DAY + DAY));
    }
}
