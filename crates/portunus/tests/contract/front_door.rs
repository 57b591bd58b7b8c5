//! `portunus as api-firewall` and `portunus import api-firewall`: what the original's settings do here, and where they are closed.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::site::{ORDER, SHOP, folder, shop_response};
use crate::harness::{Reply, Running, Upstream, exchange, member, statuses, vacant, wait_until};

/// The program in the original's place.
struct Front {
    _running: Running,
    folder: tempfile::TempDir,
    api: SocketAddr,
    health: SocketAddr,
}

fn command(folder: &std::path::Path, verb: &str, settings: &[(&str, String)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portunus"));
    command.args([verb, "api-firewall"]).current_dir(folder).stdin(Stdio::null());
    settings.iter().for_each(|(name, value)| _ = command.env(format!("APIFW_{name}"), value));
    command
}

fn settings(upstream: &Upstream, more: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("API_SPECS", "openapi.yaml".to_owned()),
        ("URL", "http://127.0.0.1:0".to_owned()),
        ("HEALTH_HOST", "127.0.0.2:0".to_owned()),
        ("SERVER_URL", format!("http://{}/v1/", upstream.address)),
        ("REQUEST_VALIDATION", "BLOCK".to_owned()),
        ("RESPONSE_VALIDATION", "BLOCK".to_owned()),
        ("LOG_FORMAT", "JSON".to_owned()),
    ];
    for (name, value) in more {
        settings.retain(|(known, _)| known != name);
        settings.push((name, (*value).to_owned()));
    }
    settings
}

fn start(upstream: &Upstream, more: &[(&'static str, &str)], files: &[(&str, &str)]) -> Front {
    let folder = folder(SHOP, files);
    let mut found = std::collections::HashMap::new();
    let mut settings = settings(upstream, more);
    // Both sides of a test may be late.
    settings
        .extend(["READ_TIMEOUT", "SERVER_READ_TIMEOUT", "SERVER_WRITE_TIMEOUT"].map(|name| (name, "60s".to_owned())));
    let running = Running::start(&mut command(folder.path(), "as", &settings), |event| {
        if let Some(address) = member(event, "address").and_then(|text| text.parse().ok()) {
            found.extend(member(event, "listener").map(|listener| (listener.to_owned(), address)));
        }
        found.len() == 2
    });
    Front { _running: running, folder, api: found["api"], health: found["health"] }
}

fn ask(address: SocketAddr, request: &str, fields: &str, body: &str) -> (u16, String) {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let text = format!("{request} HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n{fields}{length}\r\n{body}");
    let response = exchange(address, text.as_bytes());
    (statuses(&response)[0], String::from_utf8_lossy(&response).into_owned())
}

#[test]
fn it_blocks_as_the_original_does_and_says_what_in_its_header() {
    let upstream = Upstream::start(shop_response);
    let front = start(&upstream, &[("ADD_VALIDATION_STATUS_HEADER", "true"), ("CUSTOM_BLOCK_STATUS_CODE", "418")], &[]);
    assert_eq!(ask(front.api, "GET /v1/products", "", "").0, 200);
    assert_eq!(ask(front.api, "POST /v1/orders", "Content-Type: application/json\r\n", ORDER).0, 201);
    let (status, response) = ask(front.api, "GET /v1/products?page=0", "", "");
    assert_eq!(status, 418);
    assert!(
        response.contains("Apifw-Validation-Status: request-query:minimum:page\r\n") && response.ends_with("\r\n\r\n"),
        "{response}"
    );
    for request in ["GET /v1/nothing", "PUT /v1/products", "GET /products", "OPTIONS /v1/products"] {
        assert_eq!(ask(front.api, request, "", "").0, 418, "{request}");
    }
    // A declared type without a decoder goes through the original; here it does not.
    assert_eq!(ask(front.api, "POST /v1/orders", "Content-Type: text/xml\r\n", "<a/>").0, 418);
    assert_eq!(upstream.seen().len(), 2);
    assert!(upstream.seen()[0].fields("host")[0].ends_with(&upstream.address.port().to_string()));
    assert_eq!(ask(front.health, "GET /v1/liveness", "", "").0, 200);
    assert!(ask(front.health, "GET /v1/readiness", "", "").1.ends_with("{\"status\":\"ok\"}"));
    assert_eq!(ask(front.health, "GET /v1/products", "", "").0, 404);
    assert!(front.folder.path().exists());
}

/// The path of the backend is the base path; without one the paths of the document stand for themselves.
#[test]
fn a_backend_at_the_root_has_no_base_path() {
    let upstream = Upstream::start(shop_response);
    for url in [format!("http://{}/", upstream.address), format!("http://{}", upstream.address)] {
        let front = start(&upstream, &[("SERVER_URL", &url)], &[]);
        assert_eq!(ask(front.api, "GET /products", "", "").0, 200, "{url}");
        assert_eq!(ask(front.api, "GET /v1/products", "", "").0, 403, "{url}");
    }
}

/// There, readiness says that the process runs.
#[test]
fn it_is_ready_while_its_backend_takes_connections() {
    let upstream = Upstream::start(shop_response);
    let more = [("SERVER_HEALTH_CHECK_INTERVAL", "100ms")];
    let front = start(&upstream, &more, &[]);
    let ready = |front: &Front| ask(front.health, "GET /v1/readiness", "", "").0;
    assert_eq!(ready(&front), 200);
    let address = vacant();
    let gone = format!("http://{address}/v1/");
    let front = start(&upstream, &[more[0], ("SERVER_URL", &gone)], &[]);
    wait_until("it not to be ready", || ready(&front) == 503);
    assert_eq!(ask(front.health, "GET /v1/liveness", "", "").0, 200, "it lives all the same");
    let back = std::net::TcpListener::bind(address).unwrap();
    wait_until("it to be ready", || ready(&front) == 200);
    drop(back);
    wait_until("it not to be ready again", || ready(&front) == 503);
}

#[test]
fn a_backend_is_verified_unless_reported_otherwise() {
    let upstream = Upstream::start(shop_response);
    let more = [("SERVER_URL", "https://127.0.0.1:1/v1/"), ("SERVER_INSECURE_CONNECTION", "true")];
    let front = start(&upstream, &more, &[]);
    assert_eq!(ask(front.health, "GET /v1/liveness", "", "").0, 200);
    let folder = folder(SHOP, &[]);
    for (insecure, expected) in [("true", "    tls: { insecure_skip_verify: true }\n"), ("false", "    tls: true\n")] {
        let settings = settings(&upstream, &[more[0], ("SERVER_INSECURE_CONNECTION", insecure)]);
        let printed = command(folder.path(), "import", &settings).output().unwrap();
        assert!(String::from_utf8_lossy(&printed.stdout).contains(expected), "{printed:?}");
    }
}

/// What the original's own lists do not see: requests for which there is no route.
#[test]
fn lists_hold_where_the_document_has_no_path_and_where_options_pass() {
    let upstream = Upstream::start(shop_response);
    let more = [
        ("REQUEST_VALIDATION", "LOG_ONLY"),
        ("RESPONSE_VALIDATION", "DISABLE"),
        ("PASS_OPTIONS", "true"),
        ("DENYLIST_TOKENS_FILE", "denied.txt"),
        ("DENYLIST_TOKENS_HEADER_NAME", "Authorization"),
    ];
    let front = start(&upstream, &more, &[("denied.txt", "stolen\n")]);
    for request in ["GET /v1/nothing", "OPTIONS /v1/products", "GET /v1/products"] {
        assert_eq!(ask(front.api, request, "Authorization: Bearer stolen\r\n", "").0, 403, "{request}");
        assert_eq!(ask(front.api, request, "Authorization: Bearer fine\r\n", "").0, 200, "{request}");
    }
    assert_eq!(upstream.seen().len(), 3);
}

#[test]
fn the_file_in_the_working_directory_wins_and_endpoints_differ() {
    let upstream = Upstream::start(shop_response);
    let file = "RequestValidation: BLOCK\nEndpoints:\n  - { Path: \"/v1/products\", Method: GET, RequestValidation: LOG_ONLY, ResponseValidation: DISABLE }\n";
    let front = start(&upstream, &[("REQUEST_VALIDATION", "DISABLE")], &[("apifw.yaml", file)]);
    assert_eq!(ask(front.api, "GET /v1/products?page=0", "", "").0, 200);
    assert_eq!(ask(front.api, "GET /v1/products/seven", "", "").0, 403);
}

#[test]
fn import_prints_what_runs() {
    let upstream = Upstream::start(shop_response);
    let folder = folder(SHOP, &[("allowed.txt", "10.0.0.0/8\n")]);
    let more = [
        ("ALLOW_IP_FILE", "allowed.txt"),
        ("ALLOW_IP_HEADER_NAME", "X-Forwarded-For"),
        ("SERVER_DIAL_TIMEOUT", "1.5s"),
    ];
    let output = command(folder.path(), "import", &settings(&upstream, &more)).output().unwrap();
    let (text, reported) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{reported}");
    assert!(reported.contains("ALLOW_IP_HEADER_NAME"), "{reported}");
    for line in
        ["base_path: \"/v1\"", "connect_timeout: 1500ms", "request: block", "block_status: 403", "trusted_proxies:"]
    {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    std::fs::write(folder.path().join("native.yaml"), &text).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_portunus"))
        .args(["check", "native.yaml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// Clients of the original depend on these: what it lets through there must pass here.
#[test]
fn what_the_original_s_users_send_passes() {
    const DOCUMENT: &str = r#"
openapi: 3.0.3
info: { title: Lenient, version: "1" }
paths:
  /bare: { post: { responses: { "200": { description: no content is declared } } }, get: { responses: { "200": { description: none } } } }
  /ids:
    get:
      parameters: [{ name: ids, in: query, style: form, explode: false, schema: { type: array, maxItems: 3, items: { type: integer } } }]
      responses: { "200": { description: fine } }
  /picture:
    put:
      requestBody: { content: { image/svg+xml: {}, image/png: { schema: { type: string, format: binary } } } }
      responses: { "200": { description: fine } }
  /when:
    post:
      requestBody:
        content:
          application/json:
            schema:
              type: object
              properties:
                at: { type: string, format: date-time }
                day: { type: string, format: date }
                mail: { type: string, format: email }
                of: { nullable: true, enum: [a, b] }
      responses: { "200": { description: fine } }
"#;
    let upstream = Upstream::start(|_| {
        Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi".to_vec())
    });
    let json = "Content-Type: application/json\r\n";
    let front =
        start(&upstream, &[("SERVER_URL", &format!("http://{}/", upstream.address))], &[("openapi.yaml", DOCUMENT)]);
    for (request, fields, body) in [
        ("GET /bare", "", ""),
        ("POST /bare", json, "{\"any\":1}"),
        ("GET /ids?ids=1%2C2%2C3", "", ""),
        ("GET /ids?ids=1,2,3", "", ""),
        ("PUT /picture", "Content-Type: image/svg+xml\r\n", "<svg/>"),
        ("PUT /picture", "Content-Type: image/png\r\n", "png"),
        ("POST /when", json, "{\"at\":\"2026-01-01T10:00:00\",\"mail\":\"nobody\",\"of\":null}"),
    ] {
        assert_eq!(ask(front.api, request, fields, body).0, 200, "{request} {body}");
    }
    assert_eq!(upstream.seen().len(), 7);
    for (request, fields, body) in [
        ("GET /ids?ids=1%2C2%2C3%2C4", "", ""),
        ("GET /ids?ids=1,b", "", ""),
        ("POST /when", json, "{\"at\":\"yesterday\"}"),
        ("POST /when", json, "{\"day\":\"2026-02-30\"}"),
        ("POST /when", json, "{\"of\":\"c\"}"),
        ("POST /when", json, "{\"unknown\":1}"),
    ] {
        assert_eq!(ask(front.api, request, fields, body).0, 403, "{request} {body}");
    }
    assert_eq!(upstream.seen().len(), 7, "nothing of what is rejected goes on");
}

/// There, a document that cannot be fetched ends the process, at start and later.
#[test]
fn a_document_comes_from_a_url_with_a_header_and_is_followed() {
    let serving = std::sync::Arc::new(std::sync::Mutex::new(SHOP.to_owned()));
    let served = std::sync::Arc::clone(&serving);
    let provider = Upstream::start(move |_| {
        let text = served.lock().unwrap().clone();
        Reply::Close(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes())
    });
    let upstream = Upstream::start(shop_response);
    let more = [
        ("API_SPECS", &*format!("http://{}/shop.yaml", provider.address)),
        ("API_SPECS_CUSTOM_HEADER_NAME", "X-Token"),
        ("API_SPECS_CUSTOM_HEADER_VALUE", "s3cret"),
        ("SPECIFICATION_UPDATE_PERIOD", "1s"),
    ];
    let front = start(&upstream, &more, &[]);
    wait_until("the document", || ask(front.api, "GET /v1/products?page=5", "", "").0 == 200);
    assert_eq!(provider.seen()[0].fields("x-token"), ["s3cret"]);
    *serving.lock().unwrap() = SHOP.replace("maximum: 10000", "maximum: 4");
    wait_until("the new document", || ask(front.api, "GET /v1/products?page=5", "", "").0 == 403);
    *serving.lock().unwrap() = "no document".to_owned();
    assert_eq!(ask(front.api, "GET /v1/products?page=4", "", "").0, 200);
}

/// There, documents and code disagree about defaults, and some settings do nothing without a word.
#[test]
fn defaults_are_printed_and_settings_without_effect_are_reported() {
    let upstream = Upstream::start(shop_response);
    let folder = folder(SHOP, &[("denied.txt", "t\n")]);
    let more = [
        ("DENYLIST_TOKENS_FILE", "denied.txt"),
        ("DENYLIST_TOKENS_HEADER_NAME", "Authorization"),
        ("DNS_NAMESERVER_HOST", "192.0.2.1"),
        ("DNS_CACHE", "true"),
    ];
    let output = command(folder.path(), "import", &settings(&upstream, &more)).output().unwrap();
    let (text, reported) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    for line in [
        "block_status: 403",
        "shadow: { exclude_statuses: [404] }",
        "undeclared: { query: block, body_fields: block, body: off }",
        "formats: [byte, date, date-time, int32, int64]",
        "lenient_times: true",
        "nullable: intent",
        "escaped_delimiters: split",
        "opaque_media_types: [image/*]",
        "trim_bearer: true",
        "max_body: 4194304",
        "max_header_bytes: 8192",
        "request_header_timeout: 5000ms",
        "connect_timeout: 200ms",
        "max_in_flight: 512",
        "interval: 30000ms",
        "level: info",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    for name in ["DNS_NAMESERVER_HOST has no effect", "DNS_CACHE has no effect"] {
        assert!(reported.contains(name), "{reported}");
    }
}

/// The GraphQL mode: one endpoint, 403 for whatever else is asked for, and errors with status 200.
#[test]
fn the_graphql_mode_validates_by_a_schema() {
    let upstream = Upstream::start(shop_response);
    let backend = format!("http://{}/query", upstream.address);
    let more = [
        ("MODE", "GRAPHQL"),
        ("URL", "http://127.0.0.1:0/graphql"),
        ("SERVER_URL", &backend),
        ("GRAPHQL_SCHEMA", "schema.graphql"),
        ("GRAPHQL_REQUEST_VALIDATION", "BLOCK"),
        ("GRAPHQL_MAX_QUERY_COMPLEXITY", "0"),
        ("GRAPHQL_MAX_QUERY_DEPTH", "3"),
        ("GRAPHQL_NODE_COUNT_LIMIT", "100"),
        ("GRAPHQL_MAX_ALIASES_NUM", "1"),
        ("GRAPHQL_BATCH_QUERY_LIMIT", "2"),
        ("GRAPHQL_INTROSPECTION", "false"),
    ];
    let schema =
        "type Query { a(first: Int @nodeCountMultiply): A } type A { a(first: Int @nodeCountMultiply): A b: String }";
    let front = start(&upstream, &more, &[("schema.graphql", schema)]);
    let post = |body: &str| ask(front.api, "POST /graphql", "Content-Type: application/json\r\n", body);
    assert_eq!(post(r#"{"query":"{ a { b } }"}"#).0, 201);
    assert_eq!(upstream.seen()[0].line(), "POST /query HTTP/1.1");
    for query in [
        "{ nothing }",
        "{ __schema { types { name } } }",
        "{ a { a { a { b } } } }",
        "{ a(first: 20) { a(first: 20) { b } } }",
        "{ x: a { b } y: a { b } }",
    ] {
        let (status, response) = post(&serde_json::json!({ "query": query }).to_string());
        assert_eq!(status, 200, "{query}");
        assert!(response.contains("{\"errors\":[{\"message\":\"Request rejected\"}]}"), "{response}");
    }
    assert_eq!(post(r#"[{"query":"{ a { b } }"},{"query":"{ a { b } }"}]"#).0, 201);
    assert_eq!(ask(front.api, "POST /graphql", "Content-Type: text/plain\r\n", "{}").0, 403);
    assert_eq!(ask(front.api, "GET /other", "", "").0, 403);
    assert_eq!(upstream.seen().len(), 2);
}

/// The original asks about a token for each operation with scopes, and takes `active: false` for a yes.
#[test]
fn tokens_are_asked_about_at_their_issuer() {
    let issuer = Upstream::start(|seen| {
        let is_good = seen.body.starts_with(b"token=good&");
        let body = format!("{{\"active\":{is_good},\"scope\":\"read write\"}}");
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        Reply::Close([head.as_bytes(), body.as_bytes()].concat())
    });
    let document = "openapi: 3.0.3
info: { title: bank, version: '1' }
servers: [{ url: /v1 }]
paths:
  /accounts:
    get:
      security: [{ login: [read] }]
      responses: { default: { description: any } }
  /keys:
    get:
      security: [{ login: [admin] }]
      responses: { default: { description: any } }
components:
  securitySchemes:
    login: { type: oauth2, flows: { clientCredentials: { tokenUrl: 'https://id.test/token', scopes: { read: r, admin: a } } } }
";
    let upstream = Upstream::ok();
    let endpoint = format!("http://{}/introspect", issuer.address);
    let more = [
        ("API_SPECS", "bank.yaml"),
        ("SERVER_OAUTH_VALIDATION_TYPE", "INTROSPECTION"),
        ("SERVER_OAUTH_INTROSPECTION_ENDPOINT", &endpoint),
        ("SERVER_OAUTH_INTROSPECTION_ENDPOINT_METHOD", "POST"),
        ("SERVER_OAUTH_INTROSPECTION_CLIENT_AUTH_BEARER_TOKEN", "ours"),
    ];
    let front = start(&upstream, &more, &[("bank.yaml", document)]);
    for (request, token, status) in [
        ("GET /v1/accounts", "good", 200),
        ("GET /v1/accounts", "good", 200),
        ("GET /v1/accounts", "revoked", 403),
        ("GET /v1/keys", "good", 403),
    ] {
        let fields = format!("Authorization: Bearer {token}\r\n");
        // Again where the issuer was too late.
        wait_until(&format!("{request} {token}"), || ask(front.api, request, &fields, "").0 == status);
    }
    assert_eq!(upstream.seen().len(), 2);
    let asked = issuer.seen();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|seen| seen.fields("authorization") == ["Bearer ours"]), "{asked:?}");
}

#[test]
fn what_is_not_built_or_not_safe_stops_the_start_and_says_so() {
    let upstream = Upstream::start(shop_response);
    for (more, reported) in [
        (&[("MODE", "api"), ("API_MODE_DB_VERSION", "3")][..], "API_MODE_DB_VERSION"),
        (&[("MODE", "graphql")], "GRAPHQL_SCHEMA is required"),
        (&[("MODE", "soap")], "MODE=SOAP: there are PROXY, API and GRAPHQL"),
        (&[("MODSEC_RULES_DIR", "/etc/modsec")], "ModSecurity"),
        (&[("SERVER_OAUTH_VALIDATION_TYPE", "INTROSPECTION")], "SERVER_OAUTH_INTROSPECTION_ENDPOINT is required"),
        (
            &[("SERVER_OAUTH_VALIDATION_TYPE", "INTROSPECTION"), ("SERVER_OAUTH_INTROSPECTION_ENDPOINT", "http://a/")],
            "CLIENT_AUTH_BEARER_TOKEN: give our own credential in the environment",
        ),
        (&[("SERVER_OAUTH_VALIDATION_TYPE", "MAYBE")], "neither JWT nor INTROSPECTION"),
        (
            &[("SERVER_OAUTH_JWT_SECRET_KEY", "a secret")],
            "a shared secret verifies no RS256; set SERVER_OAUTH_JWT_SIGNATURE_ALGORITHM",
        ),
        (&[("API_SPECS", "ftp://a.test/openapi.yaml")], "is neither a file nor a URL"),
        (&[("API_SPECS", "https://a.test/o.yaml"), ("API_SPECS_CUSTOM_HEADER_NAME", "X-Token")], "go together"),
        (
            &[("API_SPECS", "https://a.test/o.yaml"), ("SPECIFICATION_UPDATE_PERIOD", "5")],
            "SPECIFICATION_UPDATE_PERIOD",
        ),
        (&[("REQUEST_VALIDATION", "")], "REQUEST_VALIDATION is required"),
        (&[("RESPONSE_VALIDATION", "MAYBE")], "RESPONSE_VALIDATION"),
        (&[("READ_TIMEOUT", "5")], "READ_TIMEOUT"),
        (&[("SERVER_URL", "localhost:3000")], "SERVER_URL"),
        (&[("ENDPOINTS", "/v1/nothing|BLOCK|BLOCK")], "/v1/nothing"),
        (&[("ALLOW_IP_FILE", "none.txt")], "none.txt"),
    ] {
        let folder = folder(SHOP, &[]);
        let mut child =
            command(folder.path(), "as", &settings(&upstream, more)).stderr(Stdio::piped()).spawn().unwrap();
        let mut code = None;
        wait_until(reported, || {
            code = child.try_wait().unwrap();
            code.is_some()
        });
        let mut errors = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut errors).unwrap();
        assert!(code.and_then(|code| code.code()) == Some(1) && errors.contains(reported), "{reported}: {errors}");
    }
    let help = Command::new(env!("CARGO_BIN_EXE_portunus")).args(["as", "api-firewall", "--help"]).output().unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("--request-validation") && help.status.success());
}
