//! The settings as a native configuration file, and what an operator should know of the differences.
//!
//! What fails open in the original is closed here, each with a warning; what is not built is a problem, not a silence. `api_mode` writes what is
//! particular to the API mode, `graphql_mode` to the GraphQL mode, and `tokens` how tokens are verified.

mod api_mode;
mod graphql_mode;
mod tokens;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tls::crypto::Certificate;

use super::arguments::{Endpoint, Settings, Source};
use super::database::Schema;
use super::settings::{Kind, Mode, Setting};
use crate::go_duration::milliseconds;

const HEAD: &str = "\
# Made by `portunus import api-firewall`. What is closed here and open there is said in docs/api-firewall.md.
";

/// What holds of every contract: the formats that the original asserts, its reading of times, null and commas, its bodies of images.
const LENIENCY: [&str; 5] = [
    "formats: [byte, date, date-time, int32, int64]",
    "lenient_times: true",
    "nullable: intent",
    "escaped_delimiters: split",
    "opaque_media_types: [image/*]",
];

/// The configuration, and warnings; or everything that stands in the way. `schemas`: the documents of the API mode, and where they are.
pub(super) fn write(
    settings: &Settings,
    schemas: Option<(&Path, &[Schema])>,
) -> Result<(String, Vec<String>), Vec<String>> {
    let mut writer =
        Writer { settings, out: String::from(HEAD), tokens: None, warnings: Vec::new(), problems: Vec::new() };
    writer.check_mode();
    writer.check_built();
    if writer.problems.is_empty() {
        match schemas {
            None if settings.mode() == Mode::Graphql => writer.graphql_mode(),
            None => {
                writer.listeners("\n    contract: api");
                writer.keystore();
                writer.upstream();
                writer.contract();
                writer.write_tokens();
            }
            Some((database, schemas)) => writer.api_mode(database, schemas),
        }
        writer.process();
    }
    if writer.problems.is_empty() { Ok((writer.out, writer.warnings)) } else { Err(writer.problems) }
}

struct Writer<'s> {
    settings: &'s Settings,
    out: String,
    /// How tokens are verified.
    tokens: Option<String>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

/// The longest period after which a document is fetched again, milliseconds.
const MAX_REFRESH: u64 = 24 * 60 * 60 * 1_000;

/// A URL of the original, cut into what matters.
struct Url {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl Writer<'_> {
    fn get(&self, name: &str) -> &str {
        self.settings.get(name)
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    fn check_mode(&mut self) {
        match self.get("MODE").to_ascii_uppercase().as_str() {
            "PROXY" | "API" | "GRAPHQL" => {}
            other => {
                let text = format!("MODE={other}: there are PROXY, API and GRAPHQL");
                self.problem(text);
            }
        }
    }

    /// What is given and not built stops the start: whoever set it relies on it.
    fn check_built(&mut self) {
        let given: Vec<&'static Setting> = self.settings.given().collect();
        let mode = self.settings.mode();
        for setting in given {
            if !setting.is_of(mode) {
                self.warnings.push(format!("{} has no effect with MODE={}", setting.name, mode.as_str()));
                continue;
            }
            match setting.kind {
                Kind::NotBuilt(what) => self.problem(format!("{}: not built: {what}", setting.name)),
                Kind::Idle(why) => self.warnings.push(format!("{} has no effect: {why}", setting.name)),
                Kind::Text | Kind::List | Kind::Bool | Kind::Number | Kind::Duration | Kind::Endpoints => {}
            }
        }
        let required: &[&str] = match mode {
            Mode::Api => &[],
            Mode::Proxy => &["API_SPECS", "REQUEST_VALIDATION", "RESPONSE_VALIDATION"],
            Mode::Graphql => &[
                "GRAPHQL_SCHEMA",
                "GRAPHQL_REQUEST_VALIDATION",
                "GRAPHQL_MAX_QUERY_COMPLEXITY",
                "GRAPHQL_MAX_QUERY_DEPTH",
                "GRAPHQL_NODE_COUNT_LIMIT",
                "GRAPHQL_MAX_ALIASES_NUM",
                "GRAPHQL_BATCH_QUERY_LIMIT",
                "GRAPHQL_INTROSPECTION",
            ],
        };
        for required in required {
            if self.get(required).is_empty() {
                self.problem(format!("{required} is required"));
            }
        }
    }

    fn listeners(&mut self, contract: &str) {
        let Some(url) = self.url("URL", 80, 443) else { return };
        let Some(bind) = self.bind("URL", &url.host, url.port) else { return };
        self.line("listeners:");
        self.line(format!("  - name: api\n    bind: {}{contract}", quoted(&bind)));
        if url.secure {
            self.line("    tls: { keystore: api }");
        }
        let health = self.get("HEALTH_HOST").to_owned();
        let Some((host, port)) = health.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)))
        else {
            return self.problem(format!("HEALTH_HOST: {health:?} is no address and port"));
        };
        let Some(bind) = self.bind("HEALTH_HOST", host, port) else { return };
        self.line(format!("  - name: health\n    bind: {}", quoted(&bind)));
    }

    /// An address to listen on; names mean loopback or nothing.
    fn bind(&mut self, setting: &str, host: &str, port: u16) -> Option<String> {
        let address = match host {
            "" => return Some(format!(":{port}")),
            "localhost" => "127.0.0.1",
            other => other.trim_matches(['[', ']']),
        };
        match address.parse() {
            Ok(address) => Some(std::net::SocketAddr::new(address, port).to_string()),
            Err(_) => {
                self.problem(format!("{setting}: {host:?} is no address to listen on"));
                None
            }
        }
    }

    fn keystore(&mut self) {
        if !self.get("URL").starts_with("https") {
            return;
        }
        let folder = PathBuf::from(self.get("TLS_CERTS_PATH"));
        let file = folder.join(self.get("TLS_CERT_FILE"));
        let key = folder.join(self.get("TLS_CERT_KEY"));
        if !key.exists() {
            self.problem(format!("TLS_CERT_KEY: there is no {}", key.display()));
        }
        match first_name(&file) {
            Ok(name) => {
                let folder = quoted_path(&folder);
                self.line(format!("keystores:\n  api: {{ folder: {folder}, default: {} }}", quoted(&name)));
            }
            Err(problem) => self.problem(format!("TLS_CERT_FILE: {problem}")),
        }
    }

    fn upstream(&mut self) {
        let Some(url) = self.url("SERVER_URL", 80, 443) else { return };
        self.line("upstreams:\n  backend:");
        self.line(format!("    servers: [{}]", quoted(&format!("{}:{}", url.host, url.port))));
        if url.secure {
            self.upstream_tls();
        }
        for (name, key) in [
            ("SERVER_DIAL_TIMEOUT", "connect_timeout"),
            ("SERVER_READ_TIMEOUT", "response_header_timeout"),
            ("SERVER_WRITE_TIMEOUT", "idle_timeout"),
            ("SERVER_MAX_IDLE_CONN_DURATION", "pool_idle_timeout"),
        ] {
            if let Some(duration) = self.duration(name).filter(|duration| *duration != "0ms") {
                self.line(format!("    {key}: {duration}"));
            }
        }
        if let Some(most @ 1..) = self.number("SERVER_MAX_CONNS_PER_HOST") {
            self.line(format!("    max_in_flight: {most}"));
        }
        // The original connects to its backends now and then, and counts one that takes the connection as up.
        if let Some(every) = self.duration("SERVER_HEALTH_CHECK_INTERVAL").filter(|duration| *duration != "0ms") {
            self.line(format!("    health: {{ path: none, interval: {every}, fall: 1, rise: 1 }}"));
        }
        let host = match self.get("SERVER_REQUEST_HOST_HEADER") {
            "" => "upstream".to_owned(),
            host => format!("{{ set: {} }}", quoted(host)),
        };
        let body = self.number("MAX_REQUEST_BODY_SIZE").unwrap_or_default();
        self.line("routes:");
        self.line(format!(
            "  - name: api\n    listeners: [api]\n    upstream: backend\n    host: {host}\n    max_body: {body}"
        ));
        if self.flag("SERVER_DELETE_ACCEPT_ENCODING") {
            self.line("    request_headers: { remove: [accept-encoding] }");
        }
        if self.settings.mode() == Mode::Graphql {
            self.endpoint_route();
        }
        self.liveness();
        self.line(
            "  - name: readiness\n    listeners: [health]\n    path: /v1/readiness\n    methods: [GET]\n    \
             respond: { status: 200, content_type: application/json, body: '{\"status\":\"ok\"}', if_healthy: backend }",
        );
    }

    fn liveness(&mut self) {
        self.line(
            "  - name: liveness\n    listeners: [health]\n    path: /v1/liveness\n    methods: [GET]\n    \
             respond: { status: 200, content_type: application/json, body: '{\"status\":\"up\"}' }",
        );
    }

    fn upstream_tls(&mut self) {
        if self.flag("SERVER_INSECURE_CONNECTION") {
            self.warnings.push(
                "SERVER_INSECURE_CONNECTION: the backend is not verified, so whoever sits between can read and change everything"
                    .to_owned(),
            );
            return self.line("    tls: { insecure_skip_verify: true }");
        }
        match self.get("SERVER_ROOT_CA") {
            "" => self.line("    tls: true"),
            file => {
                let line = format!("    tls: {{ ca: {} }}", quoted_path(Path::new(file)));
                self.warnings.push(
                    "SERVER_ROOT_CA: the backend is verified by this file alone, not by the system's authorities beside it".to_owned(),
                );
                self.line(line);
            }
        }
    }

    fn contract(&mut self) {
        let Some(backend) = self.url("SERVER_URL", 80, 443) else { return };
        let (request, response) = (self.mode("REQUEST_VALIDATION"), self.mode("RESPONSE_VALIDATION"));
        let (Some(request), Some(response)) = (request, response) else { return };
        self.line("contracts:\n  api:");
        self.document();
        let base = match backend.path.trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        let base = quoted(base);
        self.line(format!("    base_path: {base}\n    request: {request}\n    response: {response}"));
        if let Some(status) = self.number("CUSTOM_BLOCK_STATUS_CODE") {
            self.line(format!("    block_status: {status}\n    detail: empty"));
        }
        if self.flag("ADD_VALIDATION_STATUS_HEADER") {
            self.line("    status_header: Apifw-Validation-Status");
        }
        if self.flag("PASS_OPTIONS") {
            self.warnings
                .push("PASS_OPTIONS: OPTIONS passes on paths of the document only, not on any path".to_owned());
            self.line("    allow_options: true");
        }
        let unknown = self.unknown_parameters("SHADOW_API_UNKNOWN_PARAMETERS_DETECTION");
        self.leniency(unknown);
        self.shadow();
        self.operations();
        let body = self.number("MAX_REQUEST_BODY_SIZE").unwrap_or_default();
        let response_body = self.number("SERVER_MAX_RESPONSE_BODY_SIZE").unwrap_or_default();
        if response_body == 0 && response == "block" {
            self.warnings.push(
                "SERVER_MAX_RESPONSE_BODY_SIZE is 0: responses are held until their decision, so they are bounded like requests".to_owned(),
            );
        }
        self.line(format!("    limits: {{ max_body: {} }}", body.max(response_body)));
        self.lists();
        self.tokens();
    }

    /// The document: a file, or a URL with the last good copy beside `apifw.yaml`, so that a restart needs nobody.
    fn document(&mut self) {
        let specs = self.get("API_SPECS").to_owned();
        let of_urls = ["API_SPECS_CUSTOM_HEADER_NAME", "API_SPECS_CUSTOM_HEADER_VALUE", "SPECIFICATION_UPDATE_PERIOD"];
        if !specs.contains("://") {
            for setting in of_urls.into_iter().filter(|setting| self.settings.source(setting).is_some()) {
                let why = "API_SPECS is a file, which is read again when it changes";
                self.warnings.push(format!("{setting} has no effect: {why}"));
            }
            return self.line(format!("    document: {}", quoted_path(Path::new(&specs))));
        }
        if !specs.starts_with("http://") && !specs.starts_with("https://") {
            return self.problem(format!("API_SPECS: {specs:?} is neither a file nor a URL of https:// or http://"));
        }
        if specs.starts_with("http://") {
            self.warnings
                .push("API_SPECS: over http:// anybody on the way can say what may pass; use https://".to_owned());
        }
        let end =
            if specs.split(['?', '#']).next().is_some_and(|url| url.ends_with(".json")) { "json" } else { "yaml" };
        let copy = quoted_path(Path::new(&format!("apifw-specification.{end}")));
        // The original fetches once unless it is told a period.
        let period = self.get("SPECIFICATION_UPDATE_PERIOD").to_owned();
        let period = match milliseconds(&period) {
            Some(0) => MAX_REFRESH,
            Some(period) => period.clamp(1_000, MAX_REFRESH),
            None => {
                return self.problem(format!("SPECIFICATION_UPDATE_PERIOD: {period:?} is no duration such as `5m`"));
            }
        };
        let headers = match (self.get(of_urls[0]).to_owned(), self.settings.source(of_urls[1])) {
            (name, None) if name.is_empty() => String::new(),
            (name, Some(Source::Environment)) if !name.is_empty() => {
                format!(", headers: [{{ name: {}, value: {{ env: APIFW_{} }} }}]", quoted(&name), of_urls[1])
            }
            (name, Some(_)) if !name.is_empty() => {
                return self.problem(
                    "API_SPECS_CUSTOM_HEADER_VALUE: give it in the environment; a command line can be read by others, and a configuration file \
                     holds no secret here",
                );
            }
            _ => return self.problem("API_SPECS_CUSTOM_HEADER_NAME and API_SPECS_CUSTOM_HEADER_VALUE go together"),
        };
        self.line(format!("    document: {copy}"));
        self.line(format!("    document_url: {{ url: {}, refresh_interval: {period}ms{headers} }}", quoted(&specs)));
    }

    fn unknown_parameters(&mut self, setting: &str) -> &'static str {
        if self.flag(setting) { "block" } else { "off" }
    }

    /// How the original reads documents and messages where the native defaults are stricter, as far as its users depend on it.
    /// docs/api-firewall.md has the native default beside each line.
    fn leniency(&mut self, unknown: &str) {
        self.line(format!("    undeclared: {{ query: {unknown}, body_fields: {unknown}, body: off }}"));
        for line in LENIENCY {
            self.line(format!("    {line}"));
        }
    }

    fn shadow(&mut self) {
        let list = self.get("SHADOW_API_EXCLUDE_LIST").to_owned();
        let statuses: Vec<&str> = list.split([';', ',']).map(str::trim).filter(|status| !status.is_empty()).collect();
        if let Some(bad) = statuses.iter().find(|status| !matches!(status.parse(), Ok(100..=599_u16))) {
            return self.problem(format!("SHADOW_API_EXCLUDE_LIST: {bad:?} is no status"));
        }
        self.line(format!("    shadow: {{ exclude_statuses: [{}] }}", statuses.join(", ")));
    }

    fn operations(&mut self) {
        let endpoints: Vec<Endpoint> = self.settings.endpoints.clone();
        if !endpoints.is_empty() {
            self.line("    operations:");
        }
        for endpoint in endpoints {
            let request = self.mode_of("ENDPOINTS", &endpoint.request);
            let response = self.mode_of("ENDPOINTS", &endpoint.response);
            let (Some(request), Some(response)) = (request, response) else { return };
            let methods = match endpoint.method.as_str() {
                "" => String::new(),
                method => format!(", methods: [{}]", quoted(method)),
            };
            let path = quoted(&endpoint.path);
            self.line(format!("      - {{ path: {path}{methods}, request: {request}, response: {response} }}"));
        }
    }

    fn lists(&mut self) {
        let file = self.get("DENYLIST_TOKENS_FILE").to_owned();
        if !file.is_empty() {
            let mut line = format!("    deny_tokens: {{ file: {}", quoted_path(Path::new(&file)));
            for (name, key) in [("DENYLIST_TOKENS_COOKIE_NAME", "cookie"), ("DENYLIST_TOKENS_HEADER_NAME", "header")] {
                if !self.get(name).is_empty() {
                    let _ = write!(line, ", {key}: {}", quoted(self.get(name)));
                }
            }
            let trim = self.flag("DENYLIST_TOKENS_TRIM_BEARER_PREFIX");
            self.line(format!("{line}, trim_bearer: {trim} }}"));
        }
        self.allowed_addresses();
    }

    fn allowed_addresses(&mut self) {
        let file = self.get("ALLOW_IP_FILE").to_owned();
        if file.is_empty() {
            return;
        }
        let header = self.get("ALLOW_IP_HEADER_NAME").to_owned();
        let mut line = format!("    allow_addresses: {{ file: {}", quoted_path(Path::new(&file)));
        if !header.is_empty() {
            let _ = write!(line, ", header: {}", quoted(&header));
            self.warnings.push(format!(
                "ALLOW_IP_HEADER_NAME: {header} is believed from loopback and private networks only (`trusted_proxies`), and X-Forwarded-For is \
                 read from the right; elsewhere any client could name an address for itself"
            ));
        }
        self.line(format!("{line} }}"));
    }

    fn write_tokens(&mut self) {
        if let Some(tokens) = self.tokens.take() {
            self.line(format!("tokens:\n  api:\n    {tokens}"));
        }
    }

    fn process(&mut self) {
        if !self.get("ALLOW_IP_HEADER_NAME").is_empty() {
            self.line("trusted_proxies: [\"127.0.0.0/8\", \"::1/128\", \"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\", \"fc00::/7\"]");
        }
        self.line("limits:");
        if let Some(size) = self.number("READ_BUFFER_SIZE") {
            self.line(format!("  max_header_bytes: {}", size.clamp(1024, 32 * 1024)));
        }
        if let Some(size) = self.number("SERVER_READ_BUFFER_SIZE") {
            self.line(format!("  max_response_header_bytes: {}", size.clamp(1024, 32 * 1024)));
        }
        if let Some(duration) = self.duration("READ_TIMEOUT").filter(|duration| *duration != "0ms") {
            self.line(format!("  request_header_timeout: {duration}\n  client_idle_timeout: {duration}"));
        }
        if let Some(most @ 1..) = self.number("MAX_CONNS_PER_IP") {
            self.line(format!("  max_connections_per_client: {most}"));
        }
        match (self.flag("DISABLE_KEEPALIVE"), self.number("MAX_REQUESTS_PER_CONN")) {
            (true, _) => self.line("  max_requests_per_connection: 1"),
            (false, Some(most @ 1..)) => self.line(format!("  max_requests_per_connection: {most}")),
            _ => {}
        }
        let level = match self.get("LOG_LEVEL").to_ascii_uppercase().as_str() {
            "TRACE" => "trace",
            "DEBUG" => "debug",
            "WARNING" | "WARN" => "warn",
            "ERROR" => "error",
            _ => "info",
        };
        let format = if self.get("LOG_FORMAT").eq_ignore_ascii_case("JSON") { "json" } else { "text" };
        self.line(format!("log: {{ level: {level}, access: {{ format: {format} }} }}"));
    }

    fn mode(&mut self, setting: &str) -> Option<&'static str> {
        let text = self.get(setting).to_owned();
        self.mode_of(setting, &text)
    }

    fn mode_of(&mut self, setting: &str, text: &str) -> Option<&'static str> {
        match text.to_ascii_uppercase().as_str() {
            "BLOCK" => Some("block"),
            "LOG_ONLY" => Some("log"),
            "DISABLE" => Some("off"),
            other => {
                self.problem(format!("{setting}: {other:?} is none of BLOCK, LOG_ONLY and DISABLE"));
                None
            }
        }
    }

    fn flag(&mut self, setting: &str) -> bool {
        match self.get(setting) {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            other => {
                let text = format!("{setting}: {other:?} is neither true nor false");
                self.problem(text);
                false
            }
        }
    }

    fn number(&mut self, setting: &str) -> Option<u64> {
        match self.get(setting).parse() {
            Ok(number) => Some(number),
            Err(_) => {
                let text = format!("{setting}: {:?} is no whole number", self.get(setting));
                self.problem(text);
                None
            }
        }
    }

    fn duration(&mut self, setting: &str) -> Option<String> {
        match milliseconds(self.get(setting)) {
            Some(milliseconds) => Some(format!("{milliseconds}ms")),
            None => {
                let text = format!("{setting}: {:?} is no duration such as `5s`", self.get(setting));
                self.problem(text);
                None
            }
        }
    }

    fn url(&mut self, setting: &str, http_port: u16, https_port: u16) -> Option<Url> {
        let text = self.get(setting).to_owned();
        let cut = cut_url(&text, http_port, https_port);
        if cut.is_none() {
            self.problem(format!("{setting}: {text:?} is no URL such as `http://127.0.0.1:8080/v1`"));
        }
        cut
    }
}

fn cut_url(text: &str, http_port: u16, https_port: u16) -> Option<Url> {
    let (scheme, rest) = text.split_once("://")?;
    let secure = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if path.contains(['?', '#']) || authority.contains('@') {
        return None;
    }
    let default = if secure { https_port } else { http_port };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, default),
    };
    Some(Url { secure, host: host.to_owned(), port, path: path.to_owned() })
}

/// The first name of the first certificate in a PEM file: what clients get that ask for no name, or for another.
fn first_name(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let chain = keystore::trust::certificates(file)?;
    let first = chain.first().ok_or_else(|| format!("{shown} holds no certificate"))?;
    let certificate = Certificate::from_der(first).map_err(|error| format!("{shown}: {error}"))?;
    certificate.dns_names().first().cloned().ok_or_else(|| format!("{shown}: the certificate names no host"))
}

/// A text in double quotes; what JSON escapes, YAML reads alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A path from the root on, so that the file means the same wherever it is put.
fn quoted_path(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    quoted(&absolute.as_deref().unwrap_or(path).display().to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn urls_are_cut() {
        let cut = |text| cut_url(text, 80, 443).map(|url| (url.secure, url.host, url.port, url.path));
        assert_eq!(cut("http://a:8080/v1/"), Some((false, "a".into(), 8080, "/v1/".into())));
        assert_eq!(cut("https://[::1]"), Some((true, "[::1]".into(), 443, String::new())));
        assert_eq!(cut("http://[::1]:81/"), Some((false, "[::1]".into(), 81, "/".into())));
        for wrong in ["a:8080", "ftp://a", "http://a/?q", "http://u@a/"] {
            assert_eq!(cut(wrong), None, "{wrong}");
        }
    }
}
