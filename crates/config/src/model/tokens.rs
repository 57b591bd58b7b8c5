//! How bearer tokens are verified, by name: contracts and policies refer to it. Part of the model; see `model.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Secret, UpstreamConfig};
use crate::jwt::Algorithm;

/// A way to verify tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokensConfig {
    /// Its name.
    pub name: String,
    /// Where it stands, for messages: `portunus.yaml:31`.
    pub place: String,
    /// How tokens are verified.
    pub by: TokenCheck,
}

/// How tokens are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenCheck {
    /// By their signature.
    Jwt(JwtConfig),
    /// By asking their issuer.
    Introspection(Arc<IntrospectionConfig>),
}

impl TokensConfig {
    /// The files it names and that are read anew when they change.
    pub fn files(&self) -> Option<&Path> {
        match &self.by {
            TokenCheck::Jwt(jwt) => match &jwt.keys {
                KeySource::Pem(path) | KeySource::Set(path) | KeySource::Secret(Secret::File(path)) => Some(path),
                KeySource::Secret(_) | KeySource::Url { .. } => None,
            },
            TokenCheck::Introspection(server) => match &server.client_secret {
                Secret::File(path) => Some(path),
                _ => None,
            },
        }
    }
}

/// What must hold for the claims of a token, wherever they come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimRule {
    /// `iss` must be one of these; empty for any.
    pub issuers: Vec<String>,
    /// `aud` must hold one of these; empty for any.
    pub audiences: Vec<String>,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// A token without `exp` is rejected.
    pub require_expiry: bool,
}

/// How signed tokens are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtConfig {
    /// The algorithms that are accepted.
    pub algorithms: Vec<Algorithm>,
    /// Where the keys are.
    pub keys: KeySource,
    /// What must hold for the claims.
    pub claims: ClaimRule,
}

/// A server that is asked about tokens (RFC 7662).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntrospectionConfig {
    /// Whom to ask, and how to connect.
    pub upstream: Arc<UpstreamConfig>,
    /// The Host to send.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// Who asks; none: the secret is a bearer token.
    pub client_id: Option<String>,
    /// The password of who asks.
    pub client_secret: Secret,
    /// What must hold for the claims.
    pub claims: ClaimRule,
    /// Claims that policies ask for and that are therefore remembered, without order.
    pub kept_claims: Vec<String>,
    /// One lookup, waiting for its turn included.
    pub timeout: Duration,
    /// Longest time that an active token is believed without asking again.
    pub cache_ttl: Duration,
    /// The same of one that is not.
    pub negative_cache_ttl: Duration,
    /// Tokens that a worker keeps, of each kind.
    pub max_cached_tokens: usize,
    /// Lookups that run at once.
    pub max_concurrent_lookups: usize,
}

/// Where keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A PEM file with a public key or a certificate.
    Pem(PathBuf),
    /// A key set in a file.
    Set(PathBuf),
    /// A shared secret.
    Secret(Secret),
    /// A key set at a URL.
    Url {
        /// Whom to ask, and how to connect.
        upstream: Arc<UpstreamConfig>,
        /// The Host to send.
        host: String,
        /// Path and query.
        target: String,
        /// How often.
        refresh: Duration,
    },
}
