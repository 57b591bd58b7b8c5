//! The validated, immutable configuration: what the rest of the program sees. Nothing here is text that still needs parsing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use net::pace::Pace;
use wire::http::Method;
use wire::http::field_kind::names_client;

use crate::environment::FromEnvironment;
use crate::expression::Expression;
use crate::limits::Limits;
use crate::shape::effective::Effective;
use crate::shape::surface::{ListenerOptions, MethodForm, RedirectQuery, RouteOptions, UnusualName};
use crate::sources::Included;

mod access_log;
mod acme;
mod conditions;
mod contracts;
mod datagram;
mod geoip;
mod listener_limits;
mod place;
mod policies;
mod request_fields;
mod responses;
mod rewrites;
mod sandbox;
mod split;
mod tokens;
mod tracing;
mod tunnels;
mod upstreams;
mod variables;

pub use access_log::*;
pub use acme::*;
pub use conditions::*;
pub use datagram::{AllowedDestination, DatagramHeader, SourceConfig, TargetsConfig, UdpListenerConfig};
pub use geoip::{Country, GeoipConfig, Origins};
pub use place::{Bindable, Place, UnixSocket, places};
pub use policies::*;
pub use responses::*;
pub use rewrites::{CookieFlags, CookieRule, CookieSameSite, ResponseRewrites, Rewrite};
pub use sandbox::{Output, SandboxConfig, SandboxMode, Written};
pub use split::{Mirror, Share};
pub use tokens::*;
pub use tracing::TracingConfig;
pub use tunnels::*;
pub use upstreams::*;
pub use variables::{BodyVariables, Escape, FieldValue, LogField, Template, TemplatePart, Variable};

/// The whole configuration of a process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Worker threads, each with its own runtime and listeners. At least 1.
    pub workers: usize,
    /// Where the keys of session tickets are kept over restarts.
    pub ticket_keys: Option<PathBuf>,
    /// The keys that ClientHellos may be encrypted for.
    pub ech_keys: Option<PathBuf>,
    /// Where connections come in. At least one, or one for UDP.
    pub listeners: Vec<Arc<ListenerConfig>>,
    /// Where datagrams come in.
    pub udp_listeners: Vec<Arc<UdpListenerConfig>>,
    /// Key material by name.
    pub keystores: BTreeMap<String, KeystoreConfig>,
    /// HTTP routes, in file order.
    pub routes: Vec<RouteConfig>,
    /// Groups of key servers.
    pub key_servers: BTreeMap<String, Arc<KeyServersConfig>>,
    /// Directories of servers by name.
    pub discovery: BTreeMap<String, Arc<DiscoveryConfig>>,
    /// Upstream groups by name.
    pub upstreams: BTreeMap<String, Arc<UpstreamConfig>>,
    /// How tokens are verified, by name.
    pub tokens: BTreeMap<String, Arc<TokensConfig>>,
    /// Policies by name.
    pub policies: BTreeMap<String, Arc<PolicyConfig>>,
    /// Error pages by name.
    pub error_pages: BTreeMap<String, Arc<ErrorPagesConfig>>,
    /// Where nodes share rates, if they do.
    pub rate_store: Option<Arc<RateStoreConfig>>,
    /// Compression by name.
    pub compression: BTreeMap<String, Arc<CompressionConfig>>,
    /// Contracts by name.
    pub contracts: BTreeMap<String, Arc<ContractConfig>>,
    /// What holds for hosts.
    pub host_rules: Vec<HostRule>,
    /// Databases of addresses.
    pub geoip: GeoipConfig,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Which forwarding headers go upstream.
    pub forwarding: Forwarding,
    /// What becomes of fields with unusual names.
    pub unusual_names: UnusualName,
    /// Which methods requests may have.
    pub methods: MethodForm,
    /// The admin listener, if any.
    pub admin: Option<AdminConfig>,
    /// Logs.
    pub log: LogConfig,
    /// Traces, if any are made.
    pub tracing: Option<TracingConfig>,
    /// Every bound; see `limits.rs`.
    pub limits: Limits,
    /// The same of listeners that have limits of their own, by name.
    pub listener_limits: BTreeMap<String, Limits>,
    /// What the process may still do once it serves.
    pub sandbox: SandboxConfig,
    /// What its file includes.
    pub included: Vec<Included>,
    /// Every file and folder that the file names to be read.
    pub named_files: Vec<PathBuf>,
    /// Every Unix socket that the file names to be connected to.
    pub named_sockets: Vec<PathBuf>,
    /// Everything that the file names to be written, and the Unix sockets that it names to listen on.
    pub written: Vec<Written>,
    /// All of it in the shape of a file; empty if it comes from none.
    pub effective: Effective,
    /// What variables of the environment put into it.
    pub environment: FromEnvironment,
    /// What is defined and nothing refers to.
    pub unused: Unused,
}

/// A text for each thing that is defined and nothing refers to. It names lines, so it is no part of what two files may have in common.
#[derive(Clone, Default)]
pub struct Unused(pub Vec<String>);

impl std::fmt::Debug for Unused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unused")
    }
}

impl Config {
    /// The fields (lower case, each once) in which policies say who the client is.
    pub fn subject_fields(&self) -> impl Iterator<Item = &str> {
        self.policies.values().flat_map(|policy| policy.subject_fields()).collect::<BTreeSet<_>>().into_iter()
    }
}

pub use contracts::{
    AllowConfig, ContractChoice, ContractConfig, Detail, DocumentText, DocumentUrl, GraphqlConfig, HostRule, Mode,
    OperationRule, ShadowExclude, TokenPlaces,
};
pub use net::Endpoint;

impl Config {
    /// The limits on a listener.
    pub fn limits_at(&self, listener: &str) -> &Limits {
        if self.listener_limits.is_empty() {
            return &self.limits;
        }
        self.listener_limits.get(listener).unwrap_or(&self.limits)
    }
}

/// One listener: addresses that share all settings.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Unique name, used by routes, logs and metrics.
    pub name: String,
    /// Where it binds. At least one.
    pub bind: Vec<Endpoint>,
    /// What its Unix sockets are made with.
    pub unix_socket: UnixSocket,
    /// TLS, unless plain.
    pub tls: Option<TlsConfig>,
    /// PROXY headers of those who connect; none: there are none, and whoever connects is the client.
    pub proxy_protocol: Option<ProxyHeaderRule>,
    /// What happens with what was accepted.
    pub service: Service,
    /// The contract of everything that comes in by it, unless host or route say otherwise.
    pub contract: Option<String>,
    /// Policies that its requests, or where it tunnels its connections, must pass.
    pub policies: Vec<String>,
    /// What holds for its responses.
    pub responses: ResponseRules,
    /// Its other settings.
    pub options: ListenerOptions,
}

impl Config {
    /// The authorities and revocation lists of clients' certificates.
    pub fn client_trust_files(&self) -> impl Iterator<Item = &PathBuf> {
        let tls = self.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        let settings = tls.flat_map(|tls| tls.names.values().chain([&tls.settings]));
        let of_admin = self.admin.iter().filter_map(|admin| admin.tls.as_ref()?.client_certificate.as_ref());
        let rules = settings.filter_map(|settings| settings.client_certificate.as_ref()).chain(of_admin);
        rules.flat_map(|rule| [Some(&rule.ca), rule.crl.as_ref()]).flatten()
    }

    /// The files of responses of our own.
    pub fn response_files(&self) -> impl Iterator<Item = &PathBuf> {
        let bodies = self.routes.iter().filter_map(|route| match &route.action {
            Action::Respond { body_file, .. } => body_file.as_ref(),
            _ => None,
        });
        self.error_pages.values().flat_map(|pages| pages.files()).chain(bodies)
    }
}

impl ListenerConfig {
    /// Its sockets.
    pub fn places(&self) -> impl Iterator<Item = Place<Endpoint>> + '_ {
        places(&self.name, &self.bind)
    }

    /// Whether it reads requests, in which proxies in front of it name their clients.
    pub fn reads_requests(&self) -> bool {
        !matches!(self.service, Service::Tunnel(_))
    }
}

/// How a listener takes PROXY headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyHeaderRule {
    /// Who is believed. A header from anybody else ends the connection.
    pub trust: Trust,
    /// A connection that begins without a header passes as its peer's own; else it is rejected.
    pub header_optional: bool,
    /// From accept to the last byte of the header.
    pub header_timeout: Duration,
}

/// Peers that may speak for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// These.
    Networks(Vec<IpNet>),
    /// Those in a file, which each reload reads again.
    File(PathBuf),
}

/// What a listener does with its connections.
#[derive(Debug, Clone)]
pub enum Service {
    /// HTTP, routed by `Config::routes`.
    Http,
    /// Bytes, to whom the rules say.
    Tunnel(Arc<TunnelConfig>),
    /// Every request is answered 308 to the same URL under https at this port.
    RedirectToHttps {
        /// Port in the Location; 443 is left out there.
        port: u16,
    },
}

/// TLS of a listener.
#[derive(Debug, Clone)]
pub struct TlsConfig {
    /// Key into `Config::keystores`.
    pub keystore: String,
    /// Settings for names without their own.
    pub settings: Arc<TlsSettings>,
    /// Settings by host pattern: exact names and `*.` wildcards, lower-case A-labels.
    pub names: BTreeMap<String, Arc<TlsSettings>>,
    /// An unknown name is rejected with unrecognized_name instead of getting the default certificate.
    pub strict_sni: bool,
    /// A handshake that names no server is rejected with unrecognized_name, too.
    pub require_sni: bool,
}

/// What a name is served under. Two names with equal settings are one TLS policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// Versions, suites, groups.
    pub policy: tls::Policy,
    /// Lowest version.
    pub min_version: tls::ProtocolVersion,
    /// ALPN protocols in our order: `h2`, `http/1.1`.
    pub alpn: Vec<String>,
    /// Client certificates.
    pub client_certificate: Option<ClientCertificateConfig>,
}

/// A rule for client certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificateConfig {
    /// Without one: rejected, or served without identity headers.
    pub required: bool,
    /// PEM file of trusted roots.
    pub ca: PathBuf,
    /// PEM or DER file of revocation lists.
    pub crl: Option<PathBuf>,
    /// If not empty, one of the certificate's SANs (`DNS:`, `URI:`, `EMAIL:`, `IP:` prefixed) must be here.
    pub allow_san: Vec<String>,
}

/// A keystore.
#[derive(Debug, Clone)]
pub struct KeystoreConfig {
    /// Name.
    pub name: String,
    /// Where and in which form.
    pub location: keystore::Location,
    /// Where its password comes from.
    pub password: Option<Secret>,
    /// The group of key servers that has the keys of certificates without one.
    pub key_servers: Option<String>,
    /// The name whose identities serve as `default`; else the alias `default` must exist.
    pub default: Option<String>,
    /// Period of the unconditional re-read.
    pub reload_interval: Duration,
    /// How its certificates are ordered; none: it is what somebody else puts there.
    pub acme: Option<Arc<AcmeConfig>>,
}

/// A group of key servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyServersConfig {
    /// Its servers, their TLS, connecting, ejection; operations in flight are those of one worker.
    pub upstream: Arc<UpstreamConfig>,
    /// One operation at one server.
    pub timeout: Duration,
    /// One operation in all.
    pub total_timeout: Duration,
    /// Connections to each server, by each worker.
    pub connections: usize,
    /// Between two pings of a connection.
    pub ping_interval: Duration,
    /// The folder in which `portunus enrol` keeps what the TLS of its servers takes, and where it is renewed; none: its files are somebody else's.
    pub enrolment: Option<PathBuf>,
}

/// What `portunus enrol` writes into its folder: the client certificate and its key, in one file so that they are replaced in one step.
pub const ENROLLED_IDENTITY: &str = "identity.pem";
/// The certificate authorities of the key servers.
pub const ENROLLED_SERVER_CA: &str = "server-ca.pem";

/// Where a secret comes from. But for what a front door was given, the secret itself is read when it is needed, never kept in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// A file's content without its final newline.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The secret itself, from the command line of a front door, where others on the machine could see it anyway. No file can hold one.
    Argument(ArgumentSecret),
}

/// Largest file of a secret, bytes.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

impl Secret {
    /// Reads the secret where it lies.
    ///
    /// # Errors
    /// The file or variable is missing or not text; the message never holds the secret.
    pub fn read(&self) -> Result<keystore::Password, String> {
        let text = match self {
            Secret::File(path) => keystore::files::text(path, MAX_SECRET_BYTES)
                .map_err(|error| format!("password file {}: {error}", path.display()))?,
            Secret::Env(name) => {
                std::env::var(name).map_err(|_| format!("the environment variable {name} is not set or not text"))?
            }
            Secret::Argument(secret) => return Ok(secret.0.clone()),
        };
        let text = keystore::Password::new(text);
        Ok(keystore::Password::new(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

/// A secret from the command line; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ArgumentSecret(pub keystore::Password);

impl std::fmt::Debug for ArgumentSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(redacted)")
    }
}

/// One route: what it matches, and what is done.
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Name in logs and metrics; unique. Made from file and position if the file gives none.
    pub name: String,
    /// Where it stands, for messages: `portunus.yaml:31`.
    pub place: String,
    /// Listener names it belongs to; empty = all HTTP listeners.
    pub listeners: Vec<String>,
    /// Hosts; empty = any.
    pub hosts: Vec<HostPattern>,
    /// Methods; empty = any.
    pub methods: Vec<Method>,
    /// The path pattern.
    pub path: PathPattern,
    /// The route has several paths, and this is not the first: all else is as in the one before.
    pub is_further_path: bool,
    /// It is an entry of this group of routes in order (by number); its place among the routes is its place in the group.
    pub group: Option<usize>,
    /// What else a request must be like.
    pub when: Conditions,
    /// What is done.
    pub action: Action,
    /// Set, add, remove on the request.
    pub request_headers: HeaderEdits,
    /// Set, add, remove on the response.
    pub response_headers: HeaderEdits,
    /// Strict-Transport-Security value for responses over TLS, whole.
    pub hsts: Option<String>,
    /// Its other settings.
    pub options: RouteOptions,
    /// Largest request body, bytes; none for that of the listener.
    pub max_body_bytes: Option<u64>,
    /// Upgrade tokens that may pass (lower case); `websocket` by default.
    pub upgrades: Vec<String>,
    /// The contract it is under.
    pub contract: ContractChoice,
    /// Policies that its requests must pass, besides those of listener and host.
    pub policies: Vec<String>,
    /// What holds for its responses.
    pub responses: ResponseRules,
    /// Fields of the access log for its requests, those for all requests among them.
    pub log_fields: Arc<[LogField]>,
    /// What a set of compatible routes does beyond native matching.
    pub lenient: Leniency,
}

impl RouteConfig {
    /// Largest request body under these limits.
    pub fn max_body(&self, limits: &Limits) -> u64 {
        self.max_body_bytes.unwrap_or(limits.max_body_bytes)
    }

    /// How long a WebSocket may rest.
    pub fn tunnel_idle_timeout(&self, limits: &Limits) -> Duration {
        self.options.tunnel_idle_timeout.unwrap_or(limits.tunnel_idle_timeout)
    }

    /// How slow a client may be.
    pub fn pace(&self, limits: &Limits) -> Pace {
        Pace {
            idle: self.options.client_idle_timeout.unwrap_or(limits.client_idle_timeout),
            min_rate: self.options.min_body_rate.unwrap_or(limits.min_body_rate),
        }
    }
}

/// Matching conveniences that native routes do not have; front doors switch them on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leniency {
    /// Redirect (301 for GET, 307 otherwise) where adding or removing the final slash, cleaning the path or ignoring case would match.
    pub redirect_to_match: bool,
    /// Answer OPTIONS with 200 and Allow.
    pub response_options: bool,
    /// HEAD needs a route that names it; natively a route that names GET serves HEAD too.
    pub explicit_head: bool,
    /// A parameter before the last segment may be empty: `/a//b` matches `/a/{x}/b`.
    pub empty_parameters: bool,
    /// A host without routes is answered 403 instead of 404; holds for the whole table as soon as one route has it.
    pub forbid_unknown_hosts: bool,
}

/// A host of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Exactly this name, lower-case A-label form, without port.
    Exact(String),
    /// `*.example.com`, stored as `example.com`: one or more labels before it.
    Wildcard(String),
}

impl HostPattern {
    /// The pattern of a text that was checked: `*.` and a name, or a name.
    pub fn of_text(text: &str) -> HostPattern {
        match text.strip_prefix("*.") {
            Some(parent) => HostPattern::Wildcard(parent.to_owned()),
            None => HostPattern::Exact(text.to_owned()),
        }
    }
}

impl HostPattern {
    /// Whether a name fits both.
    pub fn overlaps(&self, other: &HostPattern) -> bool {
        let is_below = |name: &str, parent: &str| {
            name.strip_suffix(parent).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
        };
        match (self, other) {
            (HostPattern::Exact(one), HostPattern::Exact(other)) => one == other,
            (HostPattern::Exact(name), HostPattern::Wildcard(parent))
            | (HostPattern::Wildcard(parent), HostPattern::Exact(name)) => is_below(name, parent),
            (HostPattern::Wildcard(one), HostPattern::Wildcard(other)) => {
                one == other || is_below(one, other) || is_below(other, one)
            }
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Wildcard(parent) => write!(f, "*.{parent}"),
        }
    }
}

/// A path pattern: `/users/{id}/files/{*rest}`. Static parts are canonical paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    /// As written.
    pub text: String,
    /// The parts between slashes, in order. A final slash is an empty static segment, so `/` has exactly that one.
    pub segments: Vec<Segment>,
}

/// One segment of a path pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Exactly this text (canonical, without slashes).
    Static(String),
    /// `prefix{name}`: the rest of the segment after a literal prefix (usually empty) is the parameter.
    Param {
        /// Literal start of the segment.
        prefix: String,
        /// Name.
        name: String,
    },
    /// `{*name}`: everything from here on, slashes included. Last only.
    CatchAll {
        /// Name.
        name: String,
    },
    /// A regular expression over the whole path, of which the segments before it are the literal start. Last only; none before it has a parameter.
    Regex(Expression),
    /// A path that begins with this text (canonical) and the segments before it, wherever a segment ends; what follows is the parameter. Last only; none
    /// before it has a parameter. Only in groups of routes in order.
    Prefix {
        /// Literal start of what follows the segments before it; may be empty.
        text: String,
        /// Name.
        name: String,
    },
}

impl PathPattern {
    /// The names of its parameters, in path order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.segments
            .iter()
            .flat_map(|segment| match segment {
                Segment::Static(_) => [].iter(),
                Segment::Param { name, .. } | Segment::CatchAll { name } | Segment::Prefix { name, .. } => {
                    std::slice::from_ref(name).iter()
                }
                Segment::Regex(expression) => expression.groups().iter(),
            })
            .map(String::as_str)
    }

    /// The expression that the path is matched by, if it is one.
    pub fn expression(&self) -> Option<&Expression> {
        match self.segments.last() {
            Some(Segment::Regex(expression)) => Some(expression),
            _ => None,
        }
    }
}

/// What a route does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Forward to a group.
    Forward(Forward),
    /// Redirect.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// Location.
        to: Template,
        /// Allowed values of the authority of the rendered Location; anything else is rejected (400). Never empty if a parameter stands in
        /// the authority, and not to be checked if it is empty.
        allow: Vec<String>,
        /// What becomes of the query of the request.
        query: RedirectQuery,
    },
    /// Answer by ourselves.
    Respond {
        /// 200 to 599.
        status: u16,
        /// Content-Type.
        content_type: String,
        /// Body.
        body: Arc<[u8]>,
        /// The file that has the body instead.
        body_file: Option<PathBuf>,
        /// Whether variables stand in the body.
        variables: BodyVariables,
        /// The group that must have a server that is up; without one, the response is 503.
        if_healthy: Option<String>,
    },
    /// Say whether a request that another proxy holds keeps its contract.
    Validate(Validate),
}

/// Validation of requests that another proxy holds.
#[derive(Debug, Clone)]
pub struct Validate {
    /// How that proxy asks.
    pub protocol: ValidateProtocol,
    /// Whether bodies are shown.
    pub bodies: Bodies,
    /// What stands before the path of the request in the path of the question; empty where it says the path elsewhere.
    pub prefix: String,
    /// The contracts that a question names by numbers.
    pub schemas: BTreeMap<u32, String>,
    /// Most errors in one response of `schemas`; 0 for all.
    pub max_errors: usize,
}

/// How another proxy asks for validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidateProtocol {
    /// A subrequest with fields that nginx is told to set.
    AuthRequest,
    /// A request with the fields that Traefik and Caddy set.
    ForwardAuth,
    /// The request itself, without its body or with it, below a prefix: Envoy's authorization over HTTP.
    ExtAuthz,
    /// Envoy's authorization over gRPC.
    ExtAuthzGrpc,
    /// Envoy's external processing.
    ExtProc,
    /// The request itself, with the numbers of the documents to validate it by; the response lists what is wrong.
    Schemas,
}

/// What a proxy that asks shows of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    /// Each whole, so that where none comes there is none.
    Whole,
    /// Where none comes, there may be one.
    Unseen,
}

/// Forwarding of a request.
#[derive(Debug, Clone)]
pub struct Forward {
    /// Who gets it.
    pub to: ForwardTo,
    /// The path sent; none = the path as matched. The query is appended (with `&` if the template already holds `?`).
    pub rewrite: Option<Template>,
    /// An empty query of the request is not appended to a path that is rewritten.
    pub drops_empty_query: bool,
    /// The Host field sent.
    pub host: HostRewrite,
    /// Who gets copies.
    pub mirror: Option<Mirror>,
}

impl Forward {
    /// With a path of its own, and nothing else that is not as by default.
    pub fn rewritten(to: ForwardTo, rewrite: Template, host: HostRewrite) -> Forward {
        Forward { to, rewrite: Some(rewrite), drops_empty_query: false, host, mirror: None }
    }

    /// The configured groups that requests may go to.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let (one, shares): (Option<&String>, &[Share]) = match &self.to {
            ForwardTo::Group(name) => (Some(name), &[]),
            ForwardTo::Split(shares) => (None, shares),
            ForwardTo::Authority { .. } => (None, &[]),
        };
        one.into_iter().chain(shares.iter().map(|share| &share.group)).map(String::as_str)
    }
}

/// Who gets a forwarded request.
#[derive(Debug, Clone)]
pub enum ForwardTo {
    /// A group, by name.
    Group(String),
    /// One of several groups.
    Split(Vec<Share>),
    /// A server whose authority is built from parameters. Each parameter there must be one host label, and on the list if there is one.
    Authority {
        /// TLS to the upstream.
        tls: bool,
        /// `host[:port]` template.
        authority: Template,
        /// Allowed values of the whole authority; empty = any whose parameters are single letter-digit-hyphen labels.
        allow: Vec<String>,
        /// Settings of connections made this way (its `servers` are empty).
        settings: Arc<UpstreamConfig>,
    },
}

/// Which Host goes upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRewrite {
    /// The client's.
    Keep,
    /// The client's without its port.
    Name,
    /// The client's with this port.
    Port(u16),
    /// The upstream server's own name and port.
    Upstream,
    /// This one.
    Fixed(String),
}

/// Edits of header fields, applied remove, set, add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Names, lower case.
    pub remove: Vec<String>,
    /// Replace or create.
    pub set: Vec<(String, FieldValue)>,
    /// Append.
    pub add: Vec<(String, FieldValue)>,
    /// Of responses of upstreams: what becomes of URLs and cookies that stay.
    pub rewrites: Option<Box<ResponseRewrites>>,
}

impl HeaderEdits {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty() && self.rewrites.is_none()
    }
}

/// Which forwarding fields are written upstream, and which are believed. All others are removed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`.
    pub x_forwarded: bool,
    /// `X-Forwarded-Host` among them.
    pub x_forwarded_host: bool,
    /// `X-Forwarded-Port` among them.
    pub x_forwarded_port: bool,
    /// `X-Real-IP`.
    pub x_real_ip: bool,
    /// `Forwarded` (RFC 7239).
    pub forwarded: bool,
    /// `Via` both ways (RFC 9110 §7.6.3).
    pub via: bool,
    /// `X-Request-Id`.
    pub request_id: bool,
    /// `traceparent` and `tracestate`, since there are traces.
    pub traces: bool,
    /// Fields (lower case) that every trusted proxy sets or appends to. The first that names an address names the client.
    pub trusted_fields: Vec<String>,
}

impl Forwarding {
    /// Whether trusted proxies are believed in this field (in any case).
    pub fn trusts_field(&self, name: &[u8]) -> bool {
        self.trusted_fields.iter().any(|trusted| trusted.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The field in which trusted proxies name the client.
    pub fn client_field(&self) -> Option<&str> {
        self.trusted_fields.iter().map(String::as_str).find(|field| names_client(field))
    }
}

/// The admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// Loopback or Unix socket, unless `allow_remote` was said.
    pub bind: Endpoint,
    /// What requests over TCP must bear.
    pub token: Option<Secret>,
    /// TLS on its address.
    pub tls: Option<AdminTls>,
    /// Further Host values accepted beside the bound address, `localhost` and loopback literals.
    pub hosts: Vec<String>,
    /// Longest life of a connection.
    pub connection_timeout: Duration,
}

/// TLS of the admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminTls {
    /// Chain, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub private_key: PathBuf,
    /// What clients must show.
    pub client_certificate: Option<ClientCertificateConfig>,
}

/// True client of a connection.
pub type ClientAddr = IpAddr;
