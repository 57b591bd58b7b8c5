//! Certificates that are ordered from authorities. Part of the model; see `model.rs`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tls::KeyType;

use super::{HostPattern, Secret, UpstreamConfig};
use crate::shape::surface::{AcmeOptions, DnsOptions, OnDemandOptions};

/// How the certificates of a keystore are ordered and renewed (RFC 8555).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// Where everything is kept that is ours alone.
    pub folder: PathBuf,
    /// Certificates are issued by a development CA in the folder, and nobody is asked.
    pub is_internal: bool,
    /// Who is asked, in this order. At least one, unless nobody is.
    pub authorities: Vec<Arc<AuthorityConfig>>,
    /// Where they may write to, as URIs.
    pub contact: Vec<String>,
    /// Host names and `*.` wildcards (A-labels), each for a certificate of its own.
    pub names: BTreeSet<String>,
    /// Addresses, for one certificate together.
    pub addresses: BTreeSet<IpAddr>,
    /// How names are proved, the preferred way first. At least one.
    pub challenges: Vec<ChallengeKind>,
    /// How TXT records are set; always there if names are proved by them.
    pub dns: Option<Arc<DnsConfig>>,
    /// Kinds of keys. At least one.
    pub key_types: Vec<KeyType>,
    /// Certificates that are ordered when a client first asks for their name.
    pub on_demand: Option<OnDemandConfig>,
    /// Its other settings.
    pub options: AcmeOptions,
}

/// Certificates that are ordered when a client first asks for their name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemandConfig {
    /// The names that may be had so; any, as far as `ask` agrees, if there are none.
    pub allow: Vec<HostPattern>,
    /// Who must agree to each name. Always there if any name may be had.
    pub ask: Option<AskConfig>,
    /// Its other settings.
    pub options: OnDemandOptions,
}

/// A server that says which names certificates may be ordered for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskConfig {
    /// How to connect.
    pub upstream: Arc<UpstreamConfig>,
    /// The Host to send.
    pub host: String,
    /// Path and query, to which the name is added.
    pub target: String,
}

impl OnDemandConfig {
    /// Whether a name (lower case, A-labels) is one of those that may be had, if whoever is asked agrees.
    pub fn allows(&self, name: &str) -> bool {
        let exact = HostPattern::Exact(name.to_owned());
        self.allow.is_empty() || self.allow.iter().any(|pattern| pattern.overlaps(&exact))
    }
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
        let dns = self.dns.as_ref().and_then(|dns| match &dns.by {
            DnsUpdater::Program(_) => None,
            DnsUpdater::Update(update) => Some(&update.upstream),
            DnsUpdater::AcmeDns(server) => Some(&server.upstream),
        });
        let ask = self.on_demand.as_ref().and_then(|on_demand| on_demand.ask.as_ref()).map(|ask| &ask.upstream);
        self.authorities.iter().map(|authority| &authority.upstream).chain(dns).chain(ask)
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
    /// Its name in records that stand for good, lower case; what its directory says if there is none here.
    pub issuer: Option<String>,
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

/// How TXT records are set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsConfig {
    /// By whom.
    pub by: DnsUpdater,
    /// Name servers that must have a record; those of its zone if there are none here.
    pub name_servers: Vec<SocketAddr>,
    /// Its other settings.
    pub options: DnsOptions,
}

/// Who sets TXT records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsUpdater {
    /// A program with its first arguments.
    Program(Vec<String>),
    /// A name server, by dynamic updates (RFC 2136).
    Update(DnsUpdateConfig),
    /// An acme-dns server.
    AcmeDns(AcmeDnsConfig),
}

/// A name server that takes dynamic updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsUpdateConfig {
    /// How to connect.
    pub upstream: Arc<UpstreamConfig>,
    /// The zones that it may be asked to change, lower case.
    pub zones: Vec<String>,
    /// What updates are signed with.
    pub key: Option<TsigKeyConfig>,
    /// Time to live of records.
    pub ttl: Duration,
}

impl DnsUpdateConfig {
    /// The zone of a name: the longest one.
    pub fn zone_of(&self, name: &str) -> Option<&str> {
        let holds = |zone: &&String| {
            name.strip_suffix(zone.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.zones.iter().filter(holds).max_by_key(|zone| zone.len()).map(String::as_str)
    }
}

/// A key that updates are signed with (RFC 8945).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsigKeyConfig {
    /// Its name.
    pub name: String,
    /// Its algorithm, such as `hmac-sha256`.
    pub algorithm: String,
    /// The key, in base64.
    pub secret: Secret,
}

/// An acme-dns server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeDnsConfig {
    /// How to connect.
    pub upstream: Arc<UpstreamConfig>,
    /// The Host to send.
    pub host: String,
    /// What stands before `/update` in the path.
    pub prefix: String,
    /// The file with the accounts of hosts.
    pub accounts: PathBuf,
}

/// How a name is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChallengeKind {
    /// By a certificate that is presented in a handshake (RFC 8737).
    TlsAlpn01,
    /// By a response to a request (RFC 8555 §8.3).
    Http01,
    /// By a TXT record (RFC 8555 §8.4).
    Dns01,
    /// By a TXT record that stands for good and names our account (draft-ietf-acme-dns-persist).
    DnsPersist01,
}

impl ChallengeKind {
    /// As it is called everywhere.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::Dns01 => "dns-01",
            ChallengeKind::DnsPersist01 => "dns-persist-01",
        }
    }

    /// The port that an authority connects to, if it does.
    pub fn port(self) -> Option<u16> {
        match self {
            ChallengeKind::TlsAlpn01 => Some(443),
            ChallengeKind::Http01 => Some(80),
            ChallengeKind::Dns01 | ChallengeKind::DnsPersist01 => None,
        }
    }

    /// Whether it proves a wildcard.
    pub fn proves_wildcards(self) -> bool {
        matches!(self, ChallengeKind::Dns01 | ChallengeKind::DnsPersist01)
    }

    /// Whether it proves an address.
    pub fn proves_addresses(self) -> bool {
        !self.proves_wildcards()
    }
}
