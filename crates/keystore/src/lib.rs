//! Key material on disk to identities, and back: PEM folders, PKCS#12, Java keystores.
//!
//! Reads and writes files; opens no socket, watches nothing, caches nothing. A store loads completely or not at all.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

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
    /// Its entries.
    pub entries: Vec<Entry>,
    /// What an operator should know though the store is usable: expired or soon expiring certificates, names shadowed by others.
    pub warnings: Vec<String>,
}

/// Everything wrong with a store at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// One text per mistake: where, what, fix.
    pub problems: Vec<String>,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for LoadError {}

impl Store {
    /// Reads a whole store. `reuse`: entries whose files and bytes are unchanged keep their `Identity` (memory stays flat over reloads).
    ///
    /// # Errors
    /// Every problem found; the caller keeps what it had.
    pub fn load(location: &Location, password: Option<&Password>, reuse: Option<&Store>) -> Result<Store, LoadError> {
        let _ = (location, password, reuse);
        todo!()
    }
}

pub mod pem {
    pub fn certificates(_: &[u8]) -> Result<Vec<Vec<u8>>, String> { todo!() }
    pub fn revocation_lists(_: &[u8]) -> Result<Vec<Vec<u8>>, String> { todo!() }
}
pub fn load_pair(_: &std::path::Path, _: &std::path::Path, _: Option<&Password>) -> Result<Entry, LoadError> { todo!() }
