//! Contracts as configured: which document, how strictly, and what becomes of what breaks it. Part of the model; see `model.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wire::http::Method;

use super::{HostPattern, ResponseRules, Secret, TokensConfig, UpstreamConfig};

/// What becomes of a message that breaks its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// It is rejected.
    #[default]
    Block,
    /// It passes, and everything that `Block` would reject is logged and counted.
    Log,
    /// It is not validated.
    Off,
}

impl Mode {
    /// The word for it in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Block => "block",
            Mode::Log => "log",
            Mode::Off => "off",
        }
    }
}

/// What a rejection's body tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// There is no body.
    Empty,
    /// The status, in words.
    Status,
    /// Also the reason code.
    #[default]
    Code,
    /// Also where in the message, and what is wrong there.
    Pointer,
}

/// A contract by name.
#[derive(Debug, Clone)]
pub struct ContractConfig {
    /// Its name.
    pub name: String,
    /// Where it stands, for messages: `portunus.yaml:31`.
    pub place: String,
    /// The OpenAPI document; where it is fetched, the last good copy. The schema of a GraphQL endpoint.
    pub document: PathBuf,
    /// The endpoint, where `document` is a schema of GraphQL.
    pub graphql: Option<GraphqlConfig>,
    /// The document itself, where a front door found it in `document`, which is then no file of its own. No configuration file says this.
    pub document_text: Option<DocumentText>,
    /// Where the document is fetched from.
    pub document_url: Option<DocumentUrl>,
    /// How the document is read and applied.
    pub options: contract::options::Options,
    /// What becomes of requests that break it.
    pub request: Mode,
    /// What becomes of responses that break it.
    pub response: Mode,
    /// Operations that differ; the last one that matches counts.
    pub operations: Vec<OperationRule>,
    /// OPTIONS on a path of the document passes although the document does not list it.
    pub allow_options: bool,
    /// The status of every rejection; none: the one that fits.
    pub block_status: Option<u16>,
    /// What the body of a rejection tells.
    pub detail: Detail,
    /// The field that says in a response of ours what broke the contract.
    pub status_header: Option<String>,
    /// What is never listed as a shadow.
    pub shadow_exclude: ShadowExclude,
    /// How tokens of OAuth 2 and OpenID Connect are verified.
    pub tokens: Option<Arc<TokensConfig>>,
    /// Names of the `http` `bearer` schemes whose credential is a token to verify; none for all of them.
    pub bearer_schemes: Option<Vec<String>>,
    /// Tokens that are rejected.
    pub deny_tokens: Option<TokenPlaces>,
    /// Addresses that may speak.
    pub allow_addresses: Option<AllowConfig>,
}

/// A GraphQL endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphqlConfig {
    /// What it takes, and within which limits.
    pub options: graphql::Options,
    /// Sites whose pages may open WebSockets, lower case, `*` for all; none for that of the host that is asked.
    pub origins: Option<Vec<String>>,
    /// The status of rejections for what a request asks for; none: the one that fits.
    pub error_status: Option<u16>,
}

/// A document that is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentText {
    /// What it is called in messages; ends in `.yaml` or `.json`.
    pub name: String,
    /// The document.
    pub text: Arc<str>,
}

impl ContractConfig {
    /// The files it names and that are read anew when they change.
    pub fn files(&self) -> Vec<&Path> {
        let denied = self.deny_tokens.as_ref().map(|places| places.file.as_path());
        let allowed = self.allow_addresses.as_ref().map(|list| list.file.as_path());
        // What a front door found in a file is read again by it.
        let document = Some(self.document.as_path()).filter(|_| self.document_text.is_none());
        [document, denied, allowed].into_iter().flatten().collect()
    }
}

/// Where a document is fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentUrl {
    /// Whom to ask, and how to connect.
    pub upstream: Arc<UpstreamConfig>,
    /// The Host to send.
    pub host: String,
    /// Path and query.
    pub target: String,
    /// How often.
    pub refresh: Duration,
    /// One fetch, from name to last byte.
    pub timeout: Duration,
    /// Further fields of the request.
    pub headers: Vec<(String, Secret)>,
}

/// Where tokens are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenPlaces {
    /// The file with one token in each line.
    pub file: PathBuf,
    /// A cookie by this name.
    pub cookie: Option<String>,
    /// A field by this name, lower case.
    pub header: Option<String>,
    /// `Bearer ` before the token in the field is not part of it.
    pub trim_bearer: bool,
}

/// What differs for some operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRule {
    /// The path as the document writes it, with the base path before it: `/v1/pets/{id}`.
    pub path: String,
    /// Methods; empty for all.
    pub methods: Vec<Method>,
    /// What becomes of requests.
    pub request: Option<Mode>,
    /// What becomes of responses.
    pub response: Option<Mode>,
    /// Largest body, bytes.
    pub max_body_bytes: Option<u64>,
}

/// What is never listed as a shadow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShadowExclude {
    /// Statuses of responses.
    pub statuses: Vec<u16>,
    /// Beginnings of paths.
    pub paths: Vec<String>,
}

/// Which clients may speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowConfig {
    /// The list.
    pub file: PathBuf,
    /// The field (lower case) in which trusted proxies name the client, for this list alone; none: the client of the request.
    pub header: Option<String>,
}

/// Which contract a route is under.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContractChoice {
    /// That of its host, else of its listener, else none.
    #[default]
    Inherited,
    /// None, whatever its host and listener say.
    None,
    /// This one.
    Named(String),
}

/// What holds for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// The host.
    pub host: HostPattern,
    /// Its contract.
    pub contract: Option<String>,
    /// Policies that its requests must pass.
    pub policies: Vec<String>,
    /// What holds for its responses.
    pub responses: ResponseRules,
}
