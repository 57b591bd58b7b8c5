//! Policies: which requests may pass, attached to listeners, hosts and routes by name.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use wire::http::Method;

use super::{Conditions, HostRewrite, Origins, Secret, Template, UpstreamConfig};

pub use crate::shape::surface::{CertificateKey, PolicyMode, RateScope, RateStoreOptions};

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Its name.
    pub name: String,
    /// What becomes of requests that it does not let pass.
    pub mode: PolicyMode,
    /// The requests that it is asked about.
    pub when: Conditions,
    /// Clients that may pass; none for everybody.
    pub allow: Option<Networks>,
    /// Clients that may not.
    pub deny: Option<Networks>,
    /// The largest rate of requests.
    pub rate_limit: Option<RateLimit>,
    /// The most requests under way at once.
    pub concurrency_limit: Option<ConcurrencyLimit>,
    /// The most bytes in a second.
    pub bandwidth_limit: Option<BandwidthLimit>,
    /// A bearer token that requests must show.
    pub jwt: Option<TokenRule>,
    /// A user name and password that requests must show.
    pub basic: Option<BasicRule>,
    /// An authentication service that is asked about each request.
    pub forward_auth: Option<ForwardAuth>,
    /// Pages of other origins that may use the resource.
    pub cors: Option<Cors>,
    /// A switch for maintenance.
    pub maintenance: Option<Maintenance>,
}

impl PolicyConfig {
    /// The files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let lists = [&self.allow, &self.deny].into_iter().flatten().filter_map(|networks| networks.file.as_ref());
        lists.chain(self.basic.iter().map(|basic| &basic.file))
    }

    /// What its limits count apart, all parts of it.
    pub fn limit_keys(&self) -> impl Iterator<Item = &LimitKey> {
        let rate = self.rate_limit.iter().flat_map(|limit| &limit.key);
        let concurrency = self.concurrency_limit.iter().flat_map(|limit| &limit.key);
        let bandwidth = self.bandwidth_limit.iter().filter_map(|limit| limit.key.as_ref()).flatten();
        rate.chain(concurrency).chain(bandwidth)
    }

    /// The claims that its limits count by.
    pub fn claims_counted(&self) -> impl Iterator<Item = &str> {
        self.limit_keys().filter_map(|key| if let LimitKey::Claim(name) = key { Some(name.as_str()) } else { None })
    }

    /// The claims that it reads from a token: those of its conditions, of its fields, and the name of the user.
    pub fn claims_read(&self) -> impl Iterator<Item = &str> {
        let demanded = self.jwt.iter().flat_map(|jwt| jwt.claims.iter().map(|(claim, _)| claim.as_str()));
        let shown = self.jwt.iter().flat_map(|jwt| jwt.set.iter().map(|(_, claim)| claim.as_str()));
        demanded.chain(shown).chain(self.jwt.iter().map(|_| "sub"))
    }

    /// The fields (lower case) in which it says who the client is.
    pub fn subject_fields(&self) -> impl Iterator<Item = &str> {
        let of_token = self.jwt.iter().flat_map(|jwt| jwt.set.iter().map(|(field, _)| field.as_str()));
        let of_user = self.basic.iter().filter_map(|basic| basic.user_header.as_deref());
        let copied = self.forward_auth.iter().flat_map(|service| service.copy.iter().map(String::as_str));
        of_token.chain(of_user).chain(copied)
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

/// A user name and password that requests must show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicRule {
    /// Users and the hashes of their passwords.
    pub file: PathBuf,
    /// What browsers show when they ask.
    pub realm: String,
    /// The field (lower case) that is set to the user name.
    pub user_header: Option<String>,
    /// How long credentials are accepted without another look.
    pub cache_ttl: Duration,
}

/// An authentication service that is asked about each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardAuth {
    /// Its upstream.
    pub upstream: String,
    /// Path and query.
    pub path: String,
    /// Whether method, path and query of the request are those of the question.
    pub append_path: bool,
    /// The Host to send.
    pub host: HostRewrite,
    /// Fields (lower case) of the request that it gets.
    pub send: Vec<String>,
    /// It gets all of them that are the client's own to send.
    pub sends_all: bool,
    /// Fields (lower case) of its response that the request gets.
    pub copy: Vec<String>,
    /// Whether the client gets the cookies that such a response sets.
    pub set_cookies: bool,
    /// Whether clients get its response where it lets them not pass; otherwise they get its status alone.
    pub relay: bool,
    /// Where a client is sent to that the service responds 401 to.
    pub sign_in: Option<Template>,
    /// One question.
    pub timeout: Duration,
}

/// Pages of other origins that may use a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Every origin.
    pub any_origin: bool,
    /// These origins.
    pub origins: Vec<OriginPattern>,
    /// Pages may show credentials.
    pub credentials: bool,
    /// Methods that pages may use.
    pub methods: Vec<Method>,
    /// Fields (lower case) that pages may send.
    pub headers: Vec<String>,
    /// Fields (lower case) of responses that pages may read.
    pub expose_headers: Vec<String>,
    /// How long browsers remember.
    pub max_age: Duration,
}

/// An origin (RFC 6454 §6.2), or all below a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginPattern {
    /// This one.
    Exact(String),
    /// Those whose host has more labels.
    Below {
        /// `https://` or `http://`.
        scheme: String,
        /// The rest, from its first dot, with a port that is not the scheme's own.
        suffix: String,
    },
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

/// Addresses: written out, in a file, and by where they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// Written out.
    pub listed: Vec<IpNet>,
    /// One in each line.
    pub file: Option<PathBuf>,
    /// Those of countries and autonomous systems.
    pub origins: Origins,
}

/// A rate of requests, as the generic cell rate algorithm has it (ITU-T I.371, annex A).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// One request in this time.
    pub interval: Duration,
    /// Requests that may come at once.
    pub burst: u32,
    /// What is counted apart, all of it together; empty where all requests count together.
    pub key: Vec<LimitKey>,
    /// Values of the key that are remembered.
    pub max_keys: usize,
    /// Who counts together.
    pub scope: RateScope,
}

/// A Valkey or Redis by which nodes share rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateStoreConfig {
    /// The way to it: one server.
    pub upstream: Arc<UpstreamConfig>,
    /// Its user; none: `default`.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// What names of keys are hashed under.
    pub secret: Secret,
    /// Nodes that share a limit.
    pub nodes: u32,
    /// What names in it begin with.
    pub prefix: String,
    /// How it is talked to.
    pub options: RateStoreOptions,
}

/// The most requests under way at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyLimit {
    /// Requests under way.
    pub max_in_flight: u32,
    /// What is counted apart, each combination of these; nothing: all requests count together.
    pub key: Vec<LimitKey>,
    /// Values of the key that are counted apart at once.
    pub max_keys: usize,
}

impl ConcurrencyLimit {
    /// Whether what is counted apart is one client, or what a client shows, rather than all that use a route, or everything.
    pub fn is_of_clients(&self) -> bool {
        self.key.iter().any(|key| *key != LimitKey::Route)
    }
}

/// The most bytes in a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthLimit {
    /// To the client.
    pub download: Option<u64>,
    /// From the client.
    pub upload: Option<u64>,
    /// Bytes that go at full speed after a pause.
    pub burst: u64,
    /// What is counted apart, each combination of these; none: each connection.
    pub key: Option<Vec<LimitKey>>,
    /// Values of the key that are remembered.
    pub max_keys: usize,
}

/// What a limit counts apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitKey {
    /// Client addresses; of IPv6 the /64.
    Client,
    /// Routes; what no route takes is one more.
    Route,
    /// Values of this field (lower case); without it, the client's address.
    Header(String),
    /// Values of this cookie; without it, the client's address.
    Cookie(String),
    /// Values of this claim of a verified token; without it, the client's address.
    Claim(String),
    /// What the client's certificate says; without one, the client's address.
    Certificate(CertificateKey),
}
