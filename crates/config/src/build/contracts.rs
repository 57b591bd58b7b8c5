//! `contracts` and `hosts`: documents, modes, limits, tokens and lists.
//!
//! Reads no document: that is the generation's, which alone can tell whether it compiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::options::{EscapedDelimiters, OnUnsupported, Undeclared};
use wire::http::Method;
use wire::http::target::canonical_path;

use super::policies::KnownPolicies;
use super::responses::{KnownResponses, RESPONSE_KEYS};
use super::routes::method;
use super::template::Target;
use super::tokens::Verifiers;
use super::{Build, Fault, address, headers, identifier, names_in, read};
use crate::model::{
    AllowConfig, ContractChoice, ContractConfig, Detail, DocumentUrl, HostRule, Mode, OperationRule, Output,
    ServerConfig, ShadowExclude, TokenPlaces, UpstreamConfig, UpstreamProtocol, UpstreamTls,
};
use crate::problem::{Span, shown};
use crate::table::setting;
use crate::yaml::Node;

/// A status that says that somebody looked for what is not there.
const EXCLUDED_STATUS: u16 = 404;

impl Build<'_> {
    pub(super) fn contracts(&mut self, root: &Node, tokens: &Verifiers) -> BTreeMap<String, Arc<ContractConfig>> {
        let mut out = BTreeMap::new();
        let known = names_in(root, "tokens");
        for entry in root.get("contracts").map(Node::entries).unwrap_or_default() {
            if entry.key == "none" {
                self.problems.add(
                    entry.key_span,
                    "a contract cannot be called `none`",
                    "`contract: none` means that there is none",
                );
            }
            let name = self.take(entry.key_span, identifier(&entry.key));
            let contract = self.contract(&entry.key, &entry.value, (tokens, &known));
            if let (Some(name), Some(contract)) = (name, contract) {
                out.insert(name, Arc::new(contract));
            }
        }
        out
    }

    fn contract(
        &mut self,
        name: &str,
        node: &Node,
        (tokens, known): (&Verifiers, &BTreeMap<&str, Span>),
    ) -> Option<ContractConfig> {
        let options = self.contract_options(node);
        let (document, graphql) = match self.graphql(node) {
            Some((schema, graphql)) => (schema, Some(graphql)),
            None => (self.document(node)?, None),
        };
        let mut config = ContractConfig {
            name: name.to_owned(),
            place: self.sources.place(node.span),
            document,
            graphql,
            document_text: None,
            document_url: node.get("document_url").and_then(|url| self.document_url(name, url)),
            options,
            request: mode(node, "request").unwrap_or_default(),
            response: mode(node, "response").unwrap_or_default(),
            operations: node
                .get("operations")
                .map(Node::items)
                .unwrap_or_default()
                .iter()
                .filter_map(|item| self.operation(item))
                .collect(),
            allow_options: setting(node, "allow_options"),
            block_status: read::int(node, "block_status"),
            detail: match read::text(node, "detail") {
                Some("empty") => Detail::Empty,
                Some("status") => Detail::Status,
                Some("pointer") => Detail::Pointer,
                _ => Detail::Code,
            },
            status_header: self
                .parsed(node, "status_header", |text| headers::field_name(text).map(|_| text.to_owned())),
            shadow_exclude: self.shadow_exclude(node.get("shadow")),
            tokens: node
                .get("tokens")
                .and_then(|name| self.name_of(name, "verifier", known))
                .and_then(|name| tokens.get(&name).cloned()),
            bearer_schemes: node
                .get("bearer_schemes")
                .map(|_| self.parsed_list(node, "bearer_schemes", |text| Ok(text.to_owned()))),
            deny_tokens: node.get("deny_tokens").and_then(|list| self.deny_tokens(list)),
            allow_addresses: node.get("allow_addresses").and_then(|list| self.allow_addresses(list)),
        };
        super::graphql::apply(&mut config);
        if let (None, Some(entry)) = (node.entry("tokens"), node.entry("bearer_schemes")) {
            let what = "`bearer_schemes` has no effect without `tokens`: nothing is verified";
            self.problems.add(entry.key_span, what, "add `tokens: NAME`, or remove it");
        }
        Some(config)
    }

    /// The file of the document. One that is fetched need not be there yet.
    fn document(&mut self, node: &Node) -> Option<std::path::PathBuf> {
        match node.get("document_url") {
            None => self.file(node, "document"),
            Some(_) => self.written(node.get("document")?, "API document that is fetched", Output::Replaced),
        }
    }

    fn document_url(&mut self, contract: &str, node: &Node) -> Option<DocumentUrl> {
        let mut upstream = self.connection_settings("contract.document_url", node);
        upstream.name = format!("{contract}-document");
        let (host, target) = self.fetched_from(&mut upstream, node, "documents")?;
        let header = |build: &mut Self, node: &Node| {
            let name = build.parsed(node, "name", headers::field_name)?;
            Some((name, build.secret(node.get("value")?)?))
        };
        let headers = node.get("headers").map(Node::items).unwrap_or_default();
        Some(DocumentUrl {
            upstream: Arc::new(upstream),
            host,
            target,
            refresh: setting(node, "refresh_interval"),
            timeout: setting(node, "timeout"),
            headers: headers.iter().filter_map(|item| header(self, item)).collect(),
        })
    }

    fn contract_options(&mut self, node: &Node) -> contract::options::Options {
        let mut options = contract::options::Options {
            base_path: self.parsed(node, "base_path", base_path),
            opaque_media_types: self.parsed_list(node, "opaque_media_types", media_range),
            strict: setting(node, "strict"),
            on_unsupported: match read::text(node, "on_unsupported") {
                Some("fail") => OnUnsupported::Fail,
                _ => OnUnsupported::RejectOperation,
            },
            allow_repeated_scalars: read::text(node, "repeated_scalars") == Some("allow"),
            escaped_delimiters: match read::text(node, "escaped_delimiters") {
                Some("data") => EscapedDelimiters::Data,
                Some("split") => EscapedDelimiters::Split,
                _ => EscapedDelimiters::Both,
            },
            formats: node
                .get("formats")
                .map(|list| list.one_or_many().iter().filter_map(Node::text).map(str::to_owned).collect()),
            lenient_times: setting(node, "lenient_times"),
            nullable_by_intent: read::text(node, "nullable") == Some("intent"),
            pass_declared_binary: read::text(node, "declared_binary") != Some("block"),
            ..contract::options::Options::default()
        };
        if let Some(list) = node.get("encodings") {
            let names: Vec<_> = list.one_or_many().iter().filter_map(Node::text).collect();
            options.codings.gzip = names.contains(&"gzip");
            options.codings.deflate = names.contains(&"deflate");
            options.codings.br = names.contains(&"br");
            options.codings.zstd = names.contains(&"zstd");
        }
        if let Some(node) = node.get("undeclared") {
            let read = |key: &str, target: &mut Undeclared| {
                if let Some(mode) = mode(node, key) {
                    *target = match mode {
                        Mode::Block => Undeclared::Reject,
                        Mode::Log => Undeclared::Report,
                        Mode::Off => Undeclared::Ignore,
                    };
                }
            };
            read("query", &mut options.undeclared_query);
            read("headers", &mut options.undeclared_fields);
            read("cookies", &mut options.undeclared_cookies);
            read("body_fields", &mut options.undeclared_body_fields);
            read("body", &mut options.undeclared_body);
            if options.undeclared_body == Undeclared::Ignore {
                options.undeclared_response_body = Undeclared::Ignore;
            }
            read("response_body", &mut options.undeclared_response_body);
            read("status", &mut options.undeclared_status);
            options.reject_read_only = read::text(node, "read_only").map(|word| word == "reject");
        }
        if let Some(node) = node.get("limits") {
            contract_limits(node, &mut options.limits);
        }
        options
    }

    fn operation(&mut self, node: &Node) -> Option<OperationRule> {
        Some(OperationRule {
            path: self.parsed(node, "path", |text| {
                if text.starts_with('/') {
                    Ok(text.to_owned())
                } else {
                    Err(Fault::new(
                        format!("the path {} does not start with `/`", shown(text)),
                        "write it as the document does",
                    ))
                }
            })?,
            methods: self.parsed_list::<Method>(node, "methods", method),
            request: mode(node, "request"),
            response: mode(node, "response"),
            max_body_bytes: read::size(node, "max_body"),
        })
    }

    fn shadow_exclude(&mut self, node: Option<&Node>) -> ShadowExclude {
        let default = ShadowExclude { statuses: vec![EXCLUDED_STATUS], paths: Vec::new() };
        let Some(node) = node else { return default };
        let statuses = match node.get("exclude_statuses") {
            None => default.statuses,
            Some(list) => list.one_or_many().iter().filter_map(|item| item.text()?.parse().ok()).collect(),
        };
        ShadowExclude { statuses, paths: self.parsed_list(node, "exclude_paths", |text| Ok(text.to_owned())) }
    }

    /// Sets whom to ask for what is at the `url` of `node`; the Host to send, and path and query.
    pub(super) fn fetched_from(
        &mut self,
        upstream: &mut UpstreamConfig,
        node: &Node,
        what: &str,
    ) -> Option<(String, String)> {
        let is_other = !matches!(upstream.protocol, UpstreamProtocol::Http1 | UpstreamProtocol::Tcp);
        if let Some(entry) = node.entry("protocol").filter(|_| is_other) {
            let what = format!("{what} are fetched over HTTP/1.1");
            self.problems.add(entry.key_span, what, "remove `protocol`");
        }
        let at = node.get("url")?;
        self.server_of_url(upstream, at.span, at.text()?)
    }

    /// Sets whom to ask for what is at a URL; the Host to send, and path and query.
    pub(super) fn server_of_url(
        &mut self,
        upstream: &mut UpstreamConfig,
        at: Span,
        text: &str,
    ) -> Option<(String, String)> {
        let target = self.take(at, Target::cut(text))?;
        let Some(tls) = target.tls else {
            self.problems.add(at, "the URL names no server", "write a whole URL: `https://id.example.com/jwks.json`");
            return None;
        };
        if tls && upstream.tls.is_none() {
            upstream.tls = Some(UpstreamTls::default());
        } else if !tls && upstream.tls.is_some() {
            self.problems.add(at, "`tls` beside an `http://` URL", "write `https://`, or remove `tls`");
        }
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let with_port = match (host.rsplit_once(':'), tls) {
            (Some((_, port)), _) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
            (_, true) => format!("{host}:443"),
            (_, false) => format!("{host}:80"),
        };
        let server = self.server(at, &with_port, address::Service::Web)?;
        upstream.servers = vec![ServerConfig::at(server)];
        Some((host.to_owned(), if path.is_empty() { "/".to_owned() } else { path.to_owned() }))
    }

    fn deny_tokens(&mut self, node: &Node) -> Option<TokenPlaces> {
        let places = TokenPlaces {
            file: self.file(node, "file")?,
            cookie: read::text(node, "cookie").map(str::to_owned),
            header: self.parsed(node, "header", headers::field_name),
            trim_bearer: setting(node, "trim_bearer"),
        };
        if places.cookie.is_none() && node.get("header").is_none() {
            self.problems.add(
                node.span,
                "nothing says where tokens are",
                "add `header: Authorization` or `cookie: NAME`",
            );
        }
        Some(places)
    }

    fn allow_addresses(&mut self, node: &Node) -> Option<AllowConfig> {
        Some(AllowConfig { file: self.file(node, "file")?, header: self.parsed(node, "header", headers::field_name) })
    }

    pub(super) fn host_rules(&mut self, root: &Node) -> Vec<HostRule> {
        let (known, policies) = (names_in(root, "contracts"), KnownPolicies::of(root));
        let known_responses = KnownResponses::of(root);
        let mut out: Vec<HostRule> = Vec::new();
        for entry in root.get("hosts").map(Node::entries).unwrap_or_default() {
            let host = self.take(entry.key_span, address::host_pattern(&entry.key));
            let contract = entry.value.get("contract").and_then(|name| self.name_of(name, "contract", &known));
            let policies = self.policy_names(&entry.value, &policies, policies.verify_on_listeners());
            let responses = self.response_rules(&entry.value, &known_responses);
            let keys = ["contract", "policies"].into_iter().chain(RESPONSE_KEYS);
            if keys.into_iter().all(|key| entry.value.entry(key).is_none()) {
                let what = format!("nothing is set for the host {}", shown(&entry.key));
                self.problems.add(
                    entry.key_span,
                    what,
                    "add `contract`, `policies`, `error_pages` or `compression`, or remove it",
                );
            }
            if let Some(host) = host {
                if out.iter().any(|rule| rule.host == host) {
                    self.problems.add(
                        entry.key_span,
                        format!("{} is there twice", shown(&entry.key)),
                        "remove one of the two",
                    );
                }
                out.push(HostRule { host, contract, policies, responses });
            }
        }
        out
    }

    /// The contract that a route names.
    pub(super) fn contract_choice(&mut self, node: &Node, known: &BTreeMap<&str, Span>) -> ContractChoice {
        match node.get("contract") {
            None => ContractChoice::Inherited,
            Some(name) if name.text() == Some("none") => ContractChoice::None,
            Some(name) => self.name_of(name, "contract", known).map_or(ContractChoice::None, ContractChoice::Named),
        }
    }
}

fn mode(node: &Node, key: &str) -> Option<Mode> {
    match read::text(node, key)? {
        "block" => Some(Mode::Block),
        "log" => Some(Mode::Log),
        "off" => Some(Mode::Off),
        _ => None,
    }
}

fn contract_limits(node: &Node, limits: &mut contract::options::Limits) {
    limits.body_bytes = read::size(node, "max_body").unwrap_or(limits.body_bytes);
    limits.decoded_body_bytes = read::size(node, "max_decoded_body").unwrap_or(limits.decoded_body_bytes);
    limits.decoded_ratio = read::int(node, "max_decoded_ratio").unwrap_or(limits.decoded_ratio);
    limits.query_parameters = read::int(node, "max_query_parameters").unwrap_or(limits.query_parameters);
    limits.multipart_parts = read::int(node, "max_multipart_parts").unwrap_or(limits.multipart_parts);
    limits.xml_attributes = read::int(node, "max_xml_attributes").unwrap_or(limits.xml_attributes);
    limits.yaml_aliases = read::int(node, "max_yaml_aliases").unwrap_or(limits.yaml_aliases);
    limits.document_bytes = read::memory_size(node, "max_document").unwrap_or(limits.document_bytes);
    limits.json.steps = read::int(node, "max_validation_steps").unwrap_or(limits.json.steps);
    limits.json.steps_per_byte = read::int(node, "max_validation_steps_per_byte").unwrap_or(limits.json.steps_per_byte);
}

/// Reads a base path, which must be one that can occur.
fn base_path(text: &str) -> Result<String, Fault> {
    let mut canonical = Vec::new();
    let fits = text.starts_with('/')
        && !text.contains(['?', '#'])
        && canonical_path(text.as_bytes(), &mut canonical) == Ok(false)
        && canonical == text.as_bytes();
    if fits {
        let trimmed = text.trim_end_matches('/');
        return Ok(if trimmed.is_empty() { "/" } else { trimmed }.to_owned());
    }
    Err(Fault::new(format!("{} is not a path", shown(text)), "write a canonical path such as `/v1`, or `/` for none"))
}

/// Reads a media type or `type/*`.
fn media_range(text: &str) -> Result<String, Fault> {
    let text = text.to_ascii_lowercase();
    match text.split_once('/') {
        Some((kind, subtype)) if headers::is_token(kind) && kind != "*" && headers::is_token(subtype) => Ok(text),
        _ => Err(Fault::new(format!("{} is not a media type", shown(&text)), "write `type/subtype` or `type/*`")),
    }
}
