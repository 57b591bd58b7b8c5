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
    /// A bearer token that requests must show.
    pub jwt: Option<TokenRule>,
    /// A switch for maintenance.
    pub maintenance: Option<Maintenance>,
}

impl PolicyConfig {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.allow, &self.deny].into_iter().flatten().filter_map(|networks| networks.file.as_ref())
    }

    /// The claims that it reads from a token: those of its conditions, of its fields, and the name of the user.
    pub fn claims_read(&self) -> impl Iterator<Item = &str> {
        let demanded = self.jwt.iter().flat_map(|jwt| jwt.claims.iter().map(|(claim, _)| claim.as_str()));
        let shown = self.jwt.iter().flat_map(|jwt| jwt.set.iter().map(|(_, claim)| claim.as_str()));
        demanded.chain(shown).chain(self.jwt.iter().map(|_| "sub"))
    }

    /// The fields (lower case) in which it says who the client is.
    pub fn subject_fields(&self) -> impl Iterator<Item = &str> {
        self.jwt.iter().flat_map(|jwt| jwt.set.iter().map(|(field, _)| field.as_str()))
    }
}

/// A bearer token that requests must show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRule {
    /// Its entry of `tokens`.
    pub verifier: String,
    /// The cookie that it is in; none: `Authorization: Bearer`.
    pub cookie: Option<String>,
    /// Requests without one pass.
    pub allow_missing: bool,
    /// Scopes that it must grant.
    pub scopes: Vec<String>,
    /// Claims that it must have, with their accepted values.
    pub claims: Vec<(String, Vec<String>)>,
    /// Fields (lower case) that are set, and the claims that they show.
    pub set: Vec<(String, String)>,
}

/// A switch for maintenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maintenance {
    /// While it exists, nothing passes.
    pub file: PathBuf,
    /// When clients may come again.
    pub retry_after: Duration,
    /// Clients that pass all the same.
    pub except: Vec<IpNet>,
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
