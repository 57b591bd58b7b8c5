//! `graphql` of a contract: schema, endpoint and limits. Reads no schema: that is the generation's.

use std::path::PathBuf;

use contract::options::Undeclared;
use graphql::{Limits, Options, PersistedQueries};

use super::{Build, Fault, read};
use crate::model::{ContractConfig, GraphqlConfig, Mode};
use crate::problem::shown;
use crate::yaml::Node;
use wire::http::target::canonical_path;

/// Keys of a contract that say something of a document of OpenAPI, or of responses.
const OF_DOCUMENTS: [&str; 15] = [
    "bearer_schemes",
    "document_url",
    "base_path",
    "response",
    "strict",
    "on_unsupported",
    "operations",
    "undeclared",
    "repeated_scalars",
    "escaped_delimiters",
    "formats",
    "lenient_times",
    "nullable",
    "declared_binary",
    "opaque_media_types",
];

impl Build<'_> {
    /// The file of the schema, and what the endpoint takes.
    pub(super) fn graphql(&mut self, contract: &Node) -> Option<(PathBuf, GraphqlConfig)> {
        let node = contract.get("graphql")?;
        for key in OF_DOCUMENTS {
            if let Some(entry) = contract.entry(key) {
                let what = format!("`{key}` beside `graphql`: it has no meaning there");
                self.problems.add(entry.key_span, what, "remove it");
            }
        }
        let schema = self.file(node, "schema")?;
        let origins = node.get("websocket_origins");
        if let (Some(entry), Some(false)) = (node.entry("websocket_origins"), read::boolean(node, "websocket")) {
            self.problems.add(entry.key_span, "`websocket_origins` without WebSockets", "add `websocket: true`");
        }
        let config = GraphqlConfig {
            options: self.graphql_options(contract, node),
            origins: origins.is_some().then(|| self.parsed_list(node, "websocket_origins", origin)),
            error_status: read::int(node, "error_status"),
        };
        Some((schema, config))
    }

    fn graphql_options(&mut self, contract: &Node, node: &Node) -> Options {
        let mut options = Options { needs_token: contract.get("tokens").is_some(), ..Options::default() };
        if let Some(path) = self.parsed(node, "path", path) {
            options.path = path;
        }
        let flag = |key: &str, default: bool| read::boolean(node, key).unwrap_or(default);
        options.get = flag("get", options.get);
        options.websocket = flag("websocket", options.websocket);
        options.http_subscriptions = flag("http_subscriptions", options.http_subscriptions);
        options.introspection = flag("introspection", options.introspection);
        if read::text(node, "persisted_queries") == Some("pass") {
            options.persisted_queries = PersistedQueries::Pass;
        }
        options.rejects_duplicate_fields = read::text(node, "duplicate_fields") == Some("block");
        if node.get("list_arguments").is_some() {
            options.list_arguments = self.parsed_list(node, "list_arguments", |text| Ok(text.to_owned()));
        }
        if let Some(node) = node.get("limits") {
            graphql_limits(node, &mut options.limits);
        }
        options
    }
}

/// What a contract of a schema has in place of what its file says of documents.
pub(super) fn apply(config: &mut ContractConfig) {
    let Some(graphql) = &config.graphql else { return };
    // Responses are not validated.
    config.response = Mode::Off;
    let request = graphql.options.limits.request_bytes as u64;
    let limits = &mut config.options.limits;
    limits.body_bytes = limits.body_bytes.min(request);
    limits.decoded_body_bytes = limits.decoded_body_bytes.min(request);
    config.options.undeclared_status = Undeclared::Ignore;
}

fn graphql_limits(node: &Node, limits: &mut Limits) {
    limits.request_bytes = read::memory_size(node, "max_request").unwrap_or(limits.request_bytes);
    limits.query_bytes = read::memory_size(node, "max_query").unwrap_or(limits.query_bytes);
    limits.tokens = read::int(node, "max_tokens").unwrap_or(limits.tokens);
    limits.depth = read::int(node, "max_depth").unwrap_or(limits.depth);
    limits.fields = read::int(node, "max_fields").unwrap_or(limits.fields);
    limits.root_fields = read::int(node, "max_root_fields").unwrap_or(limits.root_fields);
    limits.aliases = read::int(node, "max_aliases").unwrap_or(limits.aliases);
    limits.directives = read::int(node, "max_directives").unwrap_or(limits.directives);
    limits.complexity = read::int(node, "max_complexity").unwrap_or(limits.complexity);
    limits.nodes = read::int(node, "max_nodes").unwrap_or(limits.nodes);
    limits.batch = read::int(node, "max_batch").unwrap_or(limits.batch);
}

/// Reads the path of an endpoint, which must be one that can be asked for, without expressions.
fn path(text: &str) -> Result<String, Fault> {
    let mut canonical = Vec::new();
    let fits = text.starts_with('/')
        && !text.contains(['?', '#', '{', '}'])
        && canonical_path(text.as_bytes(), &mut canonical) == Ok(false)
        && canonical == text.as_bytes();
    match fits {
        true => Ok(text.to_owned()),
        false => Err(Fault::new(format!("{} is not a path", shown(text)), "write a canonical path such as `/graphql`")),
    }
}

/// Reads an origin as browsers send it (RFC 6454 §7).
fn origin(text: &str) -> Result<String, Fault> {
    let is_origin = text.split_once("://").is_some_and(|(scheme, rest)| {
        matches!(scheme, "http" | "https") && !rest.is_empty() && !rest.contains(['/', '?', '#', '@', ' '])
    });
    match is_origin || text == "*" {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(Fault::new(
            format!("{} is no origin", shown(text)),
            "write scheme and host as browsers do: `https://app.example.com`, without a path",
        )),
    }
}
