//! Policies: which requests may pass, attached to listeners, hosts and routes by name.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

pub use crate::shape::surface::PolicyMode;

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Its name.
    pub name: String,
    /// What becomes of requests that it does not let pass.
    pub mode: PolicyMode,
    /// Clients that may pass; none for everybody.
    pub allow: Option<Networks>,
    /// Clients that may not.
    pub deny: Option<Networks>,
    /// The largest rate of requests.
    pub rate_limit: Option<RateLimit>,
}

impl PolicyConfig {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.allow, &self.deny].into_iter().flatten().filter_map(|networks| networks.file.as_ref())
    }
}

/// Addresses, written out and in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// Written out.
    pub listed: Vec<IpNet>,
    /// One in each line.
    pub file: Option<PathBuf>,
}

/// A rate of requests, as the generic cell rate algorithm has it (ITU-T I.371, annex A).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// One request in this time.
    pub interval: Duration,
    /// Requests that may come at once.
    pub burst: u32,
    /// What is counted apart.
    pub key: RateKey,
    /// Values of the key that are remembered.
    pub max_keys: usize,
}

/// What a rate limit counts apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// Client addresses; of IPv6 the /64.
    Client,
    /// Nothing: all requests count together.
    All,
    /// Values of this field (lower case); without it, the client's address.
    Header(String),
    /// Values of this cookie; without it, the client's address.
    Cookie(String),
}
