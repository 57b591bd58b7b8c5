//! Certificates that are ordered from authorities. Part of the model; see `model.rs`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tls::KeyType;

use super::{Secret, UpstreamConfig};
use crate::shape::surface::AcmeOptions;

/// How the certificates of a keystore are ordered and renewed (RFC 8555).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// Where everything is kept that is ours alone.
    pub folder: PathBuf,
    /// Who is asked, in this order. At least one.
    pub authorities: Vec<Arc<AuthorityConfig>>,
    /// Where they may write to, as URIs.
    pub contact: Vec<String>,
    /// Host names and `*.` wildcards (A-labels), each for a certificate of its own.
    pub names: BTreeSet<String>,
    /// Addresses, for one certificate together.
    pub addresses: BTreeSet<IpAddr>,
    /// How names are proved, the preferred way first. At least one.
    pub challenges: Vec<ChallengeKind>,
    /// Kinds of keys. At least one.
    pub key_types: Vec<KeyType>,
    /// Its other settings.
    pub options: AcmeOptions,
}

impl AcmeConfig {
    /// The folder of its certificates, which is the keystore that is served.
    pub fn certificates(&self) -> PathBuf {
        self.folder.join("certificates")
    }

    /// Whether a certificate for this name is ordered, or one for a wildcard that covers it.
    pub fn orders(&self, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        self.names.contains(host) || parent.is_some_and(|wildcard| self.names.contains(&wildcard))
    }

    /// Whom it has requests for.
    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<UpstreamConfig>> {
        self.authorities.iter().map(|authority| &authority.upstream)
    }
}

/// A certificate authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityConfig {
    /// The URL of its directory.
    pub url: String,
    /// Whom to ask, and how to connect.
    pub upstream: Arc<UpstreamConfig>,
    /// The Host to send, which names it in logs and metrics, too.
    pub host: String,
    /// The profile of certificates.
    pub profile: Option<String>,
    /// What our account is bound to.
    pub external_account: Option<ExternalAccount>,
}

/// An account with an authority that our own is bound to (RFC 8555 §7.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Identifier of the key.
    pub key_id: String,
    /// The key, in base64url.
    pub hmac_key: Secret,
}

/// How a name is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChallengeKind {
    /// By a certificate that is presented in a handshake (RFC 8737).
    TlsAlpn01,
    /// By a response to a request (RFC 8555 §8.3).
    Http01,
}

impl ChallengeKind {
    /// As it is called everywhere.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
            ChallengeKind::Http01 => "http-01",
        }
    }

    /// The port that an authority connects to.
    pub fn port(self) -> u16 {
        match self {
            ChallengeKind::TlsAlpn01 => 443,
            ChallengeKind::Http01 => 80,
        }
    }

    /// Whether it proves a wildcard.
    pub fn proves_wildcards(self) -> bool {
        match self {
            ChallengeKind::TlsAlpn01 | ChallengeKind::Http01 => false,
        }
    }
}
