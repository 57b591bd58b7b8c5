//! A development CA of the keystore's own (`directory: internal`): its key lies in the folder, its leaves live for a week and are renewed as any other.
//!
//! Proves nothing and asks nobody; whoever is to accept what it issues must be told to trust its certificate.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use config::AcmeConfig;
use ipnet::IpNet;
use keystore::authority::{Authority, Leaf, SKEW};
use keystore::dev_ca::{Purpose, constraints};
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

/// Names and addresses that mean nothing to others than who uses them (RFC 6761, 6762, 8375, 9476, 1918, 4193): who finds the key of a CA for these can be
/// nobody on the Internet to those who trust it.
const DEVELOPMENT: [&str; 14] = [
    "test",
    "example",
    "example.com",
    "example.net",
    "example.org",
    "invalid",
    "local",
    "internal",
    "home.arpa",
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
];

/// What the certificate of a CA is followed by in its file, before the names that it is for.
const ONLY_FOR: &str = "# only for these and what is below them: ";

/// What a new CA may issue certificates for; none for anything.
#[derive(Debug, Clone)]
pub struct Permitted(Option<Vec<String>>);

impl Permitted {
    /// This machine, names of development, and those that are configured. Where any name may be asked for, anything.
    pub fn of(acme: &AcmeConfig) -> Permitted {
        let asked = acme.on_demand.as_ref().map(|on_demand| &*on_demand.allow);
        if asked.is_some_and(<[_]>::is_empty) {
            return Permitted(None);
        }
        let fixed = ["localhost", "::1"].iter().chain(&DEVELOPMENT).map(ToString::to_string);
        let names = acme.names.iter().cloned().chain(acme.addresses.iter().map(ToString::to_string));
        let names = fixed.chain(names).chain(asked.unwrap_or_default().iter().map(ToString::to_string));
        Permitted(Some(names.collect()))
    }

    /// As the file of a certificate says.
    fn of_file(certificate: &str) -> Permitted {
        let said = certificate.lines().find_map(|line| line.strip_prefix(ONLY_FOR));
        Permitted(said.map(|names| names.split(' ').map(ToOwned::to_owned).collect()))
    }

    /// Whether a name or address is among them, or below one.
    fn has(&self, name: &str) -> bool {
        let Some(permitted) = &self.0 else { return true };
        let (name, address) = (name.strip_prefix("*.").unwrap_or(name), name.parse::<IpAddr>().ok());
        permitted.iter().any(|own| match (address, own.parse::<IpNet>(), own.parse::<IpAddr>()) {
            (Some(address), Ok(network), _) => network.contains(&address),
            (Some(address), _, Ok(own)) => address == own,
            (Some(_), ..) => false,
            (None, ..) => {
                let own = own.strip_prefix("*.").unwrap_or(own);
                name.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
        })
    }
}

/// Issues what is wanted, by the CA in this folder, which is made for what is `permitted` if there is none: the file to keep, and what is in it.
///
/// # Errors
/// The key of the CA cannot be read or written, the CA is for other names, or a name cannot stand in a certificate.
pub fn issue(storage: &Storage, permitted: &Permitted, wanted: &Wanted) -> Result<(Zeroizing<String>, Held), String> {
    let key_pem = keystore::keys::generate(wanted.key_type)?;
    // Several certificates are issued at once, and there is one CA.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let authority = authority(storage, permitted, wanted, SystemTime::now())?;
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
fn authority(storage: &Storage, permitted: &Permitted, wanted: &Wanted, now: SystemTime) -> Result<Authority, String> {
    if let Some((certificate, key)) = storage.ca()? {
        let kept = Authority::kept(CALLED, &certificate, &key).map_err(|problem| {
            format!("{}: {problem}; remove the folder it is in to have a new CA made", storage.ca_key_path().display())
        })?;
        if kept.not_after.checked_sub(CA_RENEWAL).is_some_and(|soon| now < soon) {
            let only_for = Permitted::of_file(&certificate);
            if let Some(name) = wanted.names().iter().find(|name| !only_for.has(name)) {
                let path = storage.ca_certificate_path();
                let what = "remove the folder it is in to have one made that is, and have clients trust that";
                return Err(format!("{}: the CA is not for {name}; {what}", path.display()));
            }
            return Ok(kept);
        }
    }
    let only = permitted.0.as_ref().map(|names| constraints(names.iter().map(String::as_str)));
    let (made, mut files) = Authority::make(CALLED, only, now, CA_LIFETIME)?;
    if let Some(names) = &permitted.0 {
        files.certificate += &format!("{ONLY_FOR}{}\n", names.join(" "));
    }
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
    use std::process::Command;
    use tls::KeyType;

    fn wanted(name: &str, key_type: KeyType) -> Wanted {
        Wanted { subject: Subject::Name(name.to_owned()), key_type }
    }

    fn any() -> Permitted {
        Permitted(None)
    }

    #[test]
    fn a_ca_for_some_names_is_believed_for_no_other_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::at(dir.path());
        storage.make().unwrap();
        let permitted = Permitted(Some(
            ["localhost", "test", "*.shop.dev", "10.0.0.0/8", "127.0.0.0/8"].map(String::from).to_vec(),
        ));
        let leaf = |name: &str| issue(&storage, &permitted, &wanted(name, KeyType::Ecdsa));
        let is_believed = |text: &str| {
            let path = dir.path().join("leaf.pem");
            std::fs::write(&path, text).unwrap();
            let ca = storage.ca_certificate_path();
            let verify = Command::new("openssl").arg("verify").arg("-CAfile").args([&ca, &path]).output().unwrap();
            verify.status.success()
        };
        for name in ["localhost", "a.test", "*.dev.test", "shop.dev", "a.shop.dev"] {
            assert!(is_believed(&leaf(name).unwrap().0), "{name}");
        }
        for name in ["www.example.org", "dev", "notshop.dev", "test.dev"] {
            let problem = leaf(name).unwrap_err();
            assert!(problem.contains("remove the folder"), "{name}: {problem}");
        }
        let mut command = Command::new("openssl");
        command.args(["x509", "-noout", "-text", "-in"]).arg(storage.ca_certificate_path());
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(text.contains("X509v3 Name Constraints: critical") && text.contains("DNS:shop.dev"), "{text}");
    }

    #[test]
    fn a_ca_is_made_once_and_its_key_is_ours_alone() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::at(&dir.path().join("local"));
        storage.make().unwrap();
        let (path, fingerprint) = place(&storage);
        assert!(fingerprint.is_none() && !path.exists());
        let (text, first) = issue(&storage, &any(), &wanted("localhost", KeyType::Ecdsa)).unwrap();
        let (_, second) = issue(&storage, &any(), &wanted("*.dev.test", KeyType::Rsa)).unwrap();
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
        issue(&storage, &any(), &wanted("localhost", KeyType::Ecdsa)).unwrap();
        let path = storage.ca_key_path();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let problem = issue(&storage, &any(), &wanted("localhost", KeyType::Ecdsa)).unwrap_err();
        assert!(problem.contains("other users may read"), "{problem}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        for (key, expected) in [
            (KeyPair::generate().unwrap().serialize_pem(), "do not belong together"),
            ("nonsense".to_owned(), "cannot be read"),
        ] {
            std::fs::write(&path, &key).unwrap();
            let problem = issue(&storage, &any(), &wanted("localhost", KeyType::Ecdsa)).unwrap_err();
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
            authority(&storage, &any(), &wanted("localhost", KeyType::Ecdsa), time).unwrap();
            place(&storage).1.unwrap()
        };
        let first = fingerprint_at(now - CA_LIFETIME + CA_RENEWAL + DAY);
        assert_eq!(first, fingerprint_at(now));
        assert_ne!(first, fingerprint_at(now + DAY + DAY));
    }
}
