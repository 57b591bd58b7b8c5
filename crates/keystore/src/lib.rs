//! Key material on disk to identities, and back: PEM folders, PKCS#12, Java keystores.
//!
//! Reads and writes files; opens no socket, watches nothing, caches nothing. A store loads completely or not at all.
//!
//! ```
//! use keystore::dev_ca::{DevCa, Purpose};
//! use keystore::{Location, Store};
//!
//! let folder = tempfile::tempdir()?;
//! let pair = DevCa::new("Example CA")?.issue(&["www.example.com"], tls::KeyType::Ecdsa, Purpose::Server)?;
//! std::fs::write(folder.path().join("www.pem"), [pair.certificate_pem.as_str(), pair.key_pem.as_str()].concat())?;
//!
//! let store = Store::load(&Location::PemFolder(folder.path().into()), None, None)?;
//! assert_eq!(store.entries[0].names, ["www.example.com"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

mod unchanged;
pub mod authority;
pub mod dev_ca;
pub mod edit;
pub mod inspect;
mod pkcs12_store;
mod jks_store;
pub mod trust;
pub mod keys;
mod pem_folder;
pub mod ech;
mod parallel;
pub mod files;
mod pair;
mod certified;
pub mod date;
pub mod jks;
pub mod pem;
pub mod names;

pub use pair::EXPIRY_WARNING_DAYS;

/// Where a store lies and in which form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder of PEM files.
    PemFolder(PathBuf),
    /// One PKCS#12 file.
    Pkcs12(PathBuf),
    /// One Java keystore (JKS), also as SillyProxy writes it.
    Jks(PathBuf),
}

impl Location {
    /// The file or folder.
    pub fn path(&self) -> &Path {
        match self {
            Location::PemFolder(path) | Location::Pkcs12(path) | Location::Jks(path) => path,
        }
    }
}

impl Location {
    /// The location of a store at `path`: a folder by being one, a file by its content, what does not exist yet by the ending of its name
    /// (`.p12`, `.pfx`, `.jks`). None if none of these tells.
    pub fn detect(path: &Path) -> Option<Location> {
        if path.is_dir() {
            return Some(Location::PemFolder(path.to_owned()));
        }
        let head = files::head(path);
        match head.and_then(|head| Form::of(&head).ok()) {
            Some(Form::Jks) => return Some(Location::Jks(path.to_owned())),
            Some(Form::Pkcs12) => return Some(Location::Pkcs12(path.to_owned())),
            None => {}
        }
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_deref().and_then(|ending| ending.to_str()) {
            Some("p12" | "pfx") => Some(Location::Pkcs12(path.to_owned())),
            Some("jks") => Some(Location::Jks(path.to_owned())),
            _ => None,
        }
    }
}

/// Where the keys of a store's certificates are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// All in the store: a certificate without its key is a problem.
    InStore,
    /// In the store or on key servers: a certificate without its key is served with a key that is elsewhere.
    InStoreOrElsewhere,
}

/// A password, wiped when dropped.
pub type Password = zeroize::Zeroizing<String>;

/// One usable pair of chain and key.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Names it is served under: lower-case A-label host names, `*.` wildcards, or `default`.
    pub names: Vec<String>,
    /// The pair.
    pub identity: Arc<tls::Identity>,
    /// SHA-256 of the leaf.
    pub fingerprint: [u8; 32],
    /// Over the whole chain and the key: equal if and only if nothing of the pair changed.
    pub digest: [u8; 32],
    /// Start of validity of the leaf.
    pub not_before: SystemTime,
    /// End of validity of the leaf.
    pub not_after: SystemTime,
    /// File and alias it came from, for messages.
    pub origin: String,
}

/// A whole store as read at one moment.
#[derive(Debug, Clone)]
pub struct Store {
    /// Its entries. No name has two entries of one key type.
    pub entries: Vec<Entry>,
    /// What an operator should know though the store is usable: expired or soon expiring certificates, names shadowed by others.
    pub warnings: Vec<String>,
    /// See `unchanged`.
    state: Option<[u8; 32]>,
}

/// Everything wrong with a store at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// One text per problem: where, what, fix.
    pub problems: Vec<String>,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for LoadError {}

impl Store {
    /// Reads a whole store. `reuse`: entries whose chain and key are unchanged keep their `Identity` (memory stays flat over reloads).
    ///
    /// An expired certificate is a warning here, so that one forgotten site does not take the others down with it.
    ///
    /// # Errors
    /// Every problem found; the caller keeps what it had.
    pub fn load(location: &Location, password: Option<&Password>, reuse: Option<&Store>) -> Result<Store, LoadError> {
        Store::load_with(location, password, Keys::InStore, reuse)
    }

    /// The same, where `keys` says whether certificates may come without their keys.
    ///
    /// # Errors
    /// As [`Store::load`].
    pub fn load_with(
        location: &Location,
        password: Option<&Password>,
        keys: Keys,
        reuse: Option<&Store>,
    ) -> Result<Store, LoadError> {
        let state = unchanged::state(location, password, keys);
        let loaded = load_pairs(location, password, keys);
        let store = pair::settle(pair::not_empty(loaded, location.path()), reuse)?;
        Ok(Store { state, ..store })
    }

    /// The same of a folder that certificates are put into one by one: it may be empty, and need not be there yet.
    ///
    /// # Errors
    /// As [`Store::load`].
    pub fn load_growing(folder: &Path, keys: Keys, reuse: Option<&Store>) -> Result<Store, LoadError> {
        let location = Location::PemFolder(folder.to_owned());
        let state = unchanged::state(&location, None, keys);
        let is_there = std::fs::symlink_metadata(folder).is_ok();
        let loaded = if is_there { load_pairs(&location, None, keys) } else { pair::Loaded::default() };
        let store = pair::settle(loaded, reuse)?;
        Ok(Store { state, ..store })
    }

    /// Whether loading it again, with these arguments, would surely give the same: its files have not been touched since, and what it says of
    /// expiry is of today.
    pub fn is_current(&self, location: &Location, password: Option<&Password>, keys: Keys) -> bool {
        self.state.is_some() && unchanged::state(location, password, keys) == self.state
    }

    /// Whether something is served to clients that ask for no name or for an unknown one.
    pub fn has_default(&self) -> bool {
        self.entries.iter().any(|entry| entry.names.iter().any(|name| name == names::DEFAULT))
    }
}

/// The pairs of a store, and everything noticed on the way.
fn load_pairs(location: &Location, password: Option<&Password>, keys: Keys) -> pair::Loaded {
    pair::name_the_only_one(read_pairs(location, password, keys))
}

fn read_pairs(location: &Location, password: Option<&Password>, keys: Keys) -> pair::Loaded {
    let path = match location {
        Location::PemFolder(folder) => return pem_folder::load(folder, password, keys),
        Location::Pkcs12(path) | Location::Jks(path) => path,
    };
    let fail = |problem| pair::Loaded {
        report: pair::Report { problems: vec![problem], ..Default::default() },
        ..Default::default()
    };
    let bytes = match files::read(path, jks::MAX_FILE_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(problem) => return fail(problem),
    };
    match Form::of(&bytes) {
        Ok(Form::Jks) => jks_store::load(path, &bytes, password, keys),
        Ok(Form::Pkcs12) => pkcs12_store::load(path, &bytes, password, keys),
        Err(problem) => fail(format!("{}: {problem}", path.display())),
    }
}

/// The form of a store that is one file. The content says it, since Java's keytool calls PKCS#12 files `.jks` too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Jks,
    Pkcs12,
}

impl Form {
    fn of(bytes: &[u8]) -> Result<Form, &'static str> {
        match bytes {
            [0xfe, 0xed, 0xfe, 0xed, ..] => Ok(Form::Jks),
            [0x30, ..] => Ok(Form::Pkcs12),
            [0xce, 0xce, 0xce, 0xce, ..] => Err(
                "a JCEKS keystore, which is not supported; convert it with `keytool -importkeystore -deststoretype pkcs12`",
            ),
            [] => Err("empty; remove it, and `portunus keystore add` makes a new one"),
            [b'-', b'-', b'-', b'-', ..] => Err("PEM text; put it into a folder and name the folder as the store"),
            _ => Err("neither a Java keystore nor a PKCS#12 file"),
        }
    }
}
