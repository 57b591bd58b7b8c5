//! The seal of a fleet: one key, which nobody but its nodes and its operators has, and under which everything in etcd is sealed.
//!
//! AES-256-GCM-SIV over each value, about the key that it is stored under: a value opens nowhere else, not under another prefix either. Contents and
//! names of hosts stand there by a keyed hash, so that what is small or known cannot be guessed.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use keystore::files;
use net::trusted::{self, Closed, Owner};
use tls::crypto::digest::random;
use tls::crypto::sealing::SealingKey;
use tls::crypto::verify::keyed_hash;
use wire::hexadecimal::hexadecimal;
use zeroize::Zeroizing;

/// What a key file begins with: what it is, and the version of its form.
const MARK: &str = "portunus-fleet-key-1:";

/// Largest key file, bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// What each value is sealed about, beside its key: the version of the form.
const ABOUT: &str = "portunus fleet 1\n";

/// The seal.
#[derive(Debug)]
pub struct Seal {
    key: SealingKey,
    naming: Zeroizing<[u8; 32]>,
    placing: Zeroizing<[u8; 32]>,
    deriving: Zeroizing<[u8; 32]>,
}

impl Seal {
    /// Makes a key file, readable for its owner alone.
    ///
    /// # Errors
    /// There is such a file, or it cannot be written.
    pub fn make(path: &Path) -> Result<(), String> {
        let place = path.display();
        let key = Zeroizing::new(random::<32>().map_err(|error| error.to_string())?);
        let text = Zeroizing::new(format!("{MARK}{}\n", BASE64.encode(*key)));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                format!("{place}: is there already; what was sealed under its key opens under no other")
            }
            _ => format!("{place}: {error}"),
        })?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| format!("{place}: {error}"))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// It cannot be read, is none, or is open to everybody.
    pub fn read(path: &Path) -> Result<Seal, String> {
        let place = path.display();
        let content = files::read(path, MAX_FILE_BYTES)?;
        let found = std::fs::metadata(path).map_err(|error| format!("{place}: {error}"))?;
        trusted::check(path, &found, Owner::OursOrService, Closed::ToStrangers)?;
        let none = || format!("{place}: is no key of a fleet; `portunus fleet key` makes one");
        let text = std::str::from_utf8(&content).map_err(|_| none())?;
        let text = text.trim_ascii().strip_prefix(MARK).ok_or_else(none)?;
        let bytes = Zeroizing::new(BASE64.decode(text).map_err(|_| none())?);
        let key = Zeroizing::new(<[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| none())?);
        Seal::of(&key)
    }

    /// The seal of a key. What seals and what names are keys of their own, made from it.
    ///
    /// # Errors
    /// The cryptographic library failed.
    pub fn of(key: &[u8; 32]) -> Result<Seal, String> {
        let sealing = Zeroizing::new(keyed_hash(key, b"portunus fleet: seal"));
        let naming = Zeroizing::new(keyed_hash(key, b"portunus fleet: name"));
        let placing = Zeroizing::new(keyed_hash(key, b"portunus fleet: place"));
        let deriving = Zeroizing::new(keyed_hash(key, b"portunus fleet: derive"));
        let key = SealingKey::new(&sealing).map_err(|error| error.to_string())?;
        Ok(Seal { key, naming, placing, deriving })
    }

    /// A key for something else, the same on all nodes. It says nothing of the others.
    pub fn derive(&self, what: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(keyed_hash(&self.deriving, what.as_bytes()))
    }

    /// The name of a content: 64 hexadecimal digits.
    pub fn name(&self, content: &[u8]) -> String {
        hexadecimal(&keyed_hash(&self.naming, content))
    }

    /// Where something is stored whose name is nobody's business: 64 hexadecimal digits.
    pub fn place(&self, name: &str) -> String {
        hexadecimal(&keyed_hash(&self.placing, name.as_bytes()))
    }

    /// Seals what is to be stored under a key.
    ///
    /// # Errors
    /// The cryptographic library failed.
    pub fn close(&self, key: &str, content: &[u8]) -> Result<Vec<u8>, String> {
        self.key.seal(format!("{ABOUT}{key}").as_bytes(), content).map_err(|error| error.to_string())
    }

    /// Opens what is stored under a key; none if it was not sealed for there by somebody who has this seal.
    pub fn open(&self, key: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.key.open(format!("{ABOUT}{key}").as_bytes(), sealed).map(Zeroizing::new)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_file_is_made_once_and_read_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.key");
        Seal::make(&path).unwrap();
        let (one, other) = (Seal::read(&path).unwrap(), Seal::read(&path).unwrap());
        let sealed = one.close("/a/x", b"secret").unwrap();
        assert_eq!(other.open("/a/x", &sealed).as_deref().map(Vec::as_slice), Some(&b"secret"[..]));
        assert_eq!(other.open("/a/y", &sealed), None, "it is stored elsewhere");
        assert_eq!(one.name(b"a"), other.name(b"a"));
        assert!(Seal::make(&path).unwrap_err().contains("is there already"));
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(Seal::read(&path).unwrap_err().contains("every user"));
        for text in ["", "x", "portunus-fleet-key-1:AAAA", "portunus-fleet-key-2:AAAA"] {
            let other = folder.path().join("other.key");
            write(&other, text).unwrap();
            set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
            assert!(Seal::read(&other).unwrap_err().contains("is no key of a fleet"), "{text}");
        }
    }

    #[test]
    fn another_key_opens_and_names_nothing() {
        let (one, other) = (Seal::of(&[1; 32]).unwrap(), Seal::of(&[2; 32]).unwrap());
        assert_eq!(other.open("/a", &one.close("/a", b"x").unwrap()), None);
        assert_ne!(one.name(b"x"), other.name(b"x"));
        assert_ne!(one.place("x"), other.place("x"));
        assert_ne!(one.place("x"), one.name(b"x"));
        assert_eq!(one.name(b"x").len(), 64);
        assert!(one.derive("a") == Seal::of(&[1; 32]).unwrap().derive("a"), "all nodes have the same");
        assert!(one.derive("a") != one.derive("b") && one.derive("a") != other.derive("a"));
    }
}
