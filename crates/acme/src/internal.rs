//! A development CA of the keystore's own (`directory: internal`): its key lies in the folder, its leaves live for a week and are renewed as any other.
//!
//! Proves nothing and asks nobody; whoever is to accept what it issues must be told to trust its certificate.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use tls::crypto::{Certificate, digest};
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

/// Validity begins so much earlier, since clocks differ.
const SKEW: Duration = Duration::from_secs(3600);

/// Whose turn it is to look for the CA, or to make it. Another process is kept out by the lock on the folder.
static TURN: Mutex<()> = Mutex::new(());

/// Issues what is wanted, by the CA in this folder, which is made if there is none: the file to keep, and what is in it.
///
/// # Errors
/// The key of the CA cannot be read or written, or a name cannot stand in a certificate.
pub fn issue(storage: &Storage, wanted: &Wanted) -> Result<(Zeroizing<String>, Held), String> {
    let key_pem = key::generate(wanted.key_type)?;
    // Several certificates are issued at once, and there is one CA.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let authority = Authority::of(storage, SystemTime::now())?;
    let leaf = authority.sign(wanted, &key_pem).map_err(|error| format!("no certificate can be made: {error}"))?;
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

/// The CA, ready to sign.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
    /// When it ends.
    not_after: SystemTime,
}

impl Authority {
    /// The one in the folder; a new one if there is none, or if it ends soon.
    fn of(storage: &Storage, now: SystemTime) -> Result<Authority, String> {
        if let Some((certificate, key)) = storage.ca()? {
            let kept = Authority::kept(&certificate, &key).map_err(|problem| {
                format!(
                    "{}: {problem}; remove the folder it is in to have a new CA made",
                    storage.ca_key_path().display()
                )
            })?;
            if kept.not_after.checked_sub(CA_RENEWAL).is_some_and(|soon| now < soon) {
                return Ok(kept);
            }
        }
        let key = KeyPair::generate().map_err(|error| format!("no key can be made: {error}"))?;
        let (not_before, not_after) =
            (now.checked_sub(SKEW).unwrap_or(now), now.checked_add(CA_LIFETIME).unwrap_or(now));
        let mut params = parameters(Vec::new(), not_before, not_after).map_err(|error| error.to_string())?;
        params.distinguished_name = name_of(&key);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(|error| error.to_string())?.pem();
        storage.keep_ca(&certificate, &Zeroizing::new(key.serialize_pem()))?;
        Ok(Authority { params, key, not_after })
    }

    /// That of a file. Its name follows from its key, so that nothing needs to be read from the certificate but whose it is, and until when.
    fn kept(certificate: &str, key: &str) -> Result<Authority, String> {
        let key = KeyPair::from_pem(key).map_err(|error| format!("the key cannot be read: {error}"))?;
        let der = key::first_certificate(certificate.as_bytes()).ok_or("the certificate cannot be read")?;
        let certificate =
            Certificate::from_der(&der).map_err(|error| format!("the certificate cannot be read: {error}"))?;
        if certificate.public_spki_der() != key.subject_public_key_info() {
            return Err("key and certificate do not belong together".to_owned());
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = name_of(&key);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Authority { params, key, not_after: certificate.not_after() })
    }

    fn sign(&self, wanted: &Wanted, key_pem: &str) -> Result<String, rcgen::Error> {
        let now = SystemTime::now();
        let (not_before, not_after) =
            (now.checked_sub(SKEW).unwrap_or(now), now.checked_add(LEAF_LIFETIME).unwrap_or(now));
        let mut params = parameters(wanted.names(), not_before, not_after.min(self.not_after))?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issuer = Issuer::from_params(&self.params, &self.key);
        Ok(params.signed_by(&KeyPair::from_pem(key_pem)?, &issuer)?.pem())
    }
}

/// The name of a CA: each has another one, so that clients that trust two of them find the right one.
fn name_of(key: &KeyPair) -> DistinguishedName {
    let digest = digest::sha256(&key.subject_public_key_info());
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Portunus");
    name.push(DnType::CommonName, format!("Portunus development CA {short}"));
    name
}

fn parameters(
    names: Vec<String>,
    not_before: SystemTime,
    not_after: SystemTime,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    let date = |time: SystemTime| {
        rcgen::date_time_ymd(1970, 1, 1) + time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    };
    (params.not_before, params.not_after) = (date(not_before), date(not_after));
    Ok(params)
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
        assert!(problem.contains("others may read it"), "{problem}");
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
        let first = Authority::of(&storage, now - CA_LIFETIME + CA_RENEWAL + DAY).unwrap();
        let same = Authority::of(&storage, now).unwrap();
        assert_eq!(first.key.subject_public_key_info(), same.key.subject_public_key_info());
        let next = Authority::of(&storage, now + DAY + DAY).unwrap();
        assert_ne!(first.key.subject_public_key_info(), next.key.subject_public_key_info());
    }
}
