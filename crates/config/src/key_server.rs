//! The configuration of a key server as the program uses it. Built by `build/key-server.rs`, shown by its `effective`.
//!
//! Immutable; opens nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tls::ProtocolVersion;
use wire::keyless::{HashKind, Operation};

use super::{AdminConfig, Endpoint, SandboxMode, Secret, UnixSocket};
use crate::limits::KeyServerLimits;
use crate::shape::effective::Effective;

/// A key server.
#[derive(Debug, Clone)]
pub struct KeyServerConfig {
    /// Threads for connections.
    pub workers: usize,
    /// Threads for signing.
    pub crypto_threads: usize,
    /// Where edges connect.
    pub listeners: Vec<Arc<KeyServerListener>>,
    /// Sets of keys by name.
    pub keys: BTreeMap<String, KeySetConfig>,
    /// Who may use which; the first that names a client decides.
    pub access: Vec<AccessRule>,
    /// How nodes get client certificates, if they do.
    pub enrolment: Option<EnrolmentConfig>,
    /// Whether ECDSA opcodes are answered for RSA keys.
    pub ecdsa_opcodes_on_rsa_keys: bool,
    /// Period of the unconditional re-read.
    pub reload_interval: Duration,
    /// Whether all memory is kept out of swap.
    pub lock_memory: bool,
    /// Whether the process shuts itself in after the start.
    pub sandbox: SandboxMode,
    /// The audit log, if any.
    pub audit: Option<AuditTarget>,
    /// The admin listener.
    pub admin: Option<AdminConfig>,
    /// Level of the diagnostic log.
    pub log_level: String,
    /// The folder of the configuration file, which a reload reads.
    pub config_folder: Option<PathBuf>,
    /// A file that holds the process id while it runs.
    pub pid_file: Option<PathBuf>,
    /// Bounds.
    pub limits: KeyServerLimits,
    /// All of it in the shape of a file.
    pub effective: Effective,
}

/// Addresses that share their settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyServerListener {
    /// Name in logs and metrics.
    pub name: String,
    /// Addresses.
    pub bind: Vec<Endpoint>,
    /// What its Unix sockets are made with.
    pub unix_socket: UnixSocket,
    /// Mutual TLS; none on Unix sockets.
    pub tls: Option<KeyServerTls>,
}

/// Files of mutual TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyServerTls {
    /// Chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub private_key: PathBuf,
    /// Authorities for clients, PEM; none where enrolment is the only one.
    pub client_ca: Option<PathBuf>,
    /// Revocation lists.
    pub client_crl: Option<PathBuf>,
    /// Lowest version.
    pub min_version: ProtocolVersion,
}

/// How nodes get client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolmentConfig {
    /// What is kept of it.
    pub folder: PathBuf,
    /// How long a certificate is valid.
    pub lifetime: Duration,
    /// Authorities of this server's own certificate, PEM, which nodes get.
    pub server_ca: PathBuf,
}

/// Where keys lie, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySetConfig {
    /// Folders, read with all below.
    pub folders: Vec<PathBuf>,
    /// Files.
    pub files: Vec<PathBuf>,
    /// For what is encrypted.
    pub password: Option<Secret>,
    /// What the keys may do at all.
    pub operations: OperationSet,
    /// Clients may have keys made in its first folder, so that there may be none yet.
    pub grows: bool,
}

/// Who may use which keys for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRule {
    /// Names of clients.
    pub clients: Vec<ClientPattern>,
    /// Key sets; none for all.
    pub keys: Option<Vec<String>>,
    /// What may be asked for.
    pub operations: OperationSet,
    /// Bound on operations per second of all its clients together.
    pub rate_per_second: Option<u32>,
    /// The key set that its clients may have keys made for; one of those they may use.
    pub make_keys: Option<String>,
}

/// Names that a client's certificate may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientPattern {
    /// Any client.
    Any,
    /// Clients on Unix sockets.
    Unix,
    /// This name, letter case apart.
    Exact(String),
    /// Host names that end in this (with its dot).
    HostsUnder(String),
    /// Names that begin so.
    Prefix(String),
}

impl std::fmt::Display for ClientPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientPattern::Any => f.write_str("*"),
            ClientPattern::Unix => f.write_str("unix"),
            ClientPattern::Exact(name) => f.write_str(name),
            ClientPattern::HostsUnder(suffix) => write!(f, "*{suffix}"),
            ClientPattern::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// Where the audit log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// A set of operations on keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationSet(u32);

impl OperationSet {
    /// All operations.
    pub const ALL: OperationSet = OperationSet(u32::MAX);

    /// The set that a word of a configuration stands for, or the one operation of that name.
    pub fn from_word(word: &str) -> Option<OperationSet> {
        let legacy = |operation: &Operation| {
            matches!(
                operation,
                Operation::RsaPkcs1(HashKind::Md5Sha1 | HashKind::Sha1)
                    | Operation::Ecdsa(HashKind::Md5Sha1 | HashKind::Sha1)
            )
        };
        let signs = |operation: &Operation| !matches!(operation, Operation::Ping | Operation::RsaDecrypt);
        let set: OperationSet = match word {
            "sign" => Operation::all().filter(|operation| signs(operation) && !legacy(operation)).collect(),
            "sign_legacy" => Operation::all().filter(legacy).collect(),
            _ => {
                Operation::all().filter(|operation| operation.name() == word && *operation != Operation::Ping).collect()
            }
        };
        (set.0 != 0).then_some(set)
    }

    /// Whether it holds `operation`.
    pub fn contains(self, operation: Operation) -> bool {
        self.0 & bit(operation) != 0
    }

    /// What is in both.
    pub fn and(self, other: OperationSet) -> OperationSet {
        OperationSet(self.0 & other.0)
    }

    /// What is in either.
    pub fn or(self, other: OperationSet) -> OperationSet {
        OperationSet(self.0 | other.0)
    }

    /// The names of its operations.
    pub fn names(self) -> Vec<&'static str> {
        Operation::all()
            .filter(|operation| *operation != Operation::Ping && self.contains(*operation))
            .map(Operation::name)
            .collect()
    }
}

impl FromIterator<Operation> for OperationSet {
    fn from_iter<I: IntoIterator<Item = Operation>>(operations: I) -> OperationSet {
        OperationSet(operations.into_iter().fold(0, |set, operation| set | bit(operation)))
    }
}

/// Each operation's place in a set.
fn bit(operation: Operation) -> u32 {
    let index = match operation {
        Operation::RsaPkcs1(hash) => hash as u32,
        Operation::Ecdsa(hash) => 6 + hash as u32,
        Operation::RsaPss(hash) => 12 + hash as u32,
        Operation::Ed25519 => 18,
        Operation::RsaDecrypt => 19,
        Operation::Ping => 20,
    };
    1 << index
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn words_stand_for_operations() {
        let sign = OperationSet::from_word("sign").unwrap();
        assert!(sign.contains(Operation::Ecdsa(HashKind::Sha256)) && sign.contains(Operation::Ed25519));
        for rejected in
            [Operation::RsaDecrypt, Operation::RsaPkcs1(HashKind::Md5Sha1), Operation::Ecdsa(HashKind::Sha1)]
        {
            assert!(!sign.contains(rejected), "{rejected:?}");
        }
        assert_eq!(OperationSet::from_word("sign_legacy").unwrap().names().len(), 4);
        assert_eq!(OperationSet::from_word("rsa_decrypt").unwrap().names(), ["rsa_decrypt"]);
        assert_eq!(OperationSet::from_word("ping"), None);
        let bits: std::collections::HashSet<u32> = Operation::all().map(bit).collect();
        assert_eq!(bits.len(), Operation::all().count());
    }

    #[test]
    fn every_word_of_the_file_is_known() {
        for word in super::super::shape::surface::key_server::OPERATIONS {
            assert!(OperationSet::from_word(word).is_some(), "{word}");
        }
    }
}
