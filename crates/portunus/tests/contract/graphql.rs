//! A GraphQL endpoint under a contract: what clients get, and what the server behind it saw.

use serde_json::{Value, json};

use super::site::{Response, Site, folder};
use crate::harness::{Gate, Reply, Seen, Upstream, exchange, statuses};

pub const SCHEMA: &str = r"
type Query {
  pet(id: ID!): Pet
  pets(first: Int = 10, filter: Filter): [Pet!]!
  version: String
}
type Mutation { rename(id: ID!, name: String!): Pet }
type Subscription { born: Pet }
type Pet { id: ID! name: String age: Int friends(first: Int): [Pet!]! owner: Owner }
type Owner { name: String pets(first: Int): [Pet!]! }
input Filter { kind: Kind, below: Int, and: [Filter!] }
enum Kind { CAT DOG }
";

fn data(_: &Seen) -> Reply {
    let body = r#"{"data":{}}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
    Reply::Keep(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// A gate before an endpoint. `graphql`: further keys of it; `contract`: further keys of the contract; each after a comma.
fn site(graphql: &str, contract: &str) -> Site {
    let upstream = Upstream::start(data);
    let text = format!(
        "workers: 1\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\", contract: api }}\n\
         upstreams:\n  app: {{ servers: [\"{}\"] }}\n\
         contracts:\n  api: {{ graphql: {{ schema: schema.graphql{graphql} }}{contract} }}\n\
         routes:\n  - {{ path: \"/{{*rest}}\", upstream: app }}\n",
        upstream.address
    );
    let gate = Gate::start_in(folder("", &[("schema.graphql", SCHEMA)]), &text);
    Site { gate, upstream }
}

fn ask(site: &Site, request: &Value) -> Response {
    site.post("POST /graphql", "application/json", request.to_string())
}

fn code(response: &Response) -> String {
    response.json()["errors"][0]["extensions"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_query_of_the_schema_passes_as_it_came_and_no_other() {
    let site = site("", "");
    let body = r#"{"query":"query P($id: ID!) { pet(id: $id) { ...Name } }\nfragment Name on Pet { name }", "variables": {"id": 7}, "operationName":"P"}"#;
    assert_eq!(site.post("POST /graphql", "application/json", body).status, 200);
    assert_eq!(site.upstream.seen()[0].body, body.as_bytes());
    for (query, variables, expected) in [
        ("{ pet(id: 1) { nothing } }", json!({}), "graphql_invalid"),
        ("{ pet { name } }", json!({}), "graphql_invalid"),
        ("{ pets { name }", json!({}), "graphql_malformed"),
        ("query($id: ID!) { pet(id: $id) { name } }", json!({}), "graphql_variables"),
        ("query($n: Int) { pets(first: $n) { name } }", json!({"n": "x"}), "graphql_variables"),
        ("query($f: Filter) { pets(filter: $f) { name } }", json!({"f": {"kind": "FISH"}}), "graphql_variables"),
        ("query($f: Filter) { pets(filter: $f) { name } }", json!({"f": {"other": 1}}), "graphql_variables"),
        ("query A { version } query B { version }", json!({}), "graphql_operation_unknown"),
        ("{ __schema { types { name } } }", json!({}), "graphql_introspection"),
        ("{ ...F } fragment F on Query { __type(name: \"Pet\") { name } }", json!({}), "graphql_introspection"),
        ("subscription { born { name } }", json!({}), "graphql_subscription"),
        ("type Query { a: Int }", json!({}), "graphql_invalid"),
        ("{ pets(filter: {below: 1, below: 2}) { name } }", json!({}), "graphql_invalid"),
        ("query($f: Filter) { pets(filter: {and: [$f]}) { name } }", json!({"f": {}}), "graphql_invalid"),
    ] {
        let response = ask(&site, &json!({ "query": query, "variables": variables }));
        assert_eq!((response.status, code(&response).as_str()), (400, expected), "{query}");
    }
    for passes in
        ["{ __typename }", "mutation { rename(id: 1, name: \"x\") { name } }", "{ pets(filter: {kind: CAT}) { age } }"]
    {
        assert_eq!(ask(&site, &json!({ "query": passes, "extensions": {"a": 1} })).status, 200, "{passes}");
    }
    assert_eq!(site.seen(), 4);
}

#[test]
fn what_is_around_the_query_is_strict_too() {
    let site = site("", "");
    let query = r#"{"query":"{ version }"}"#;
    for (request, content_type, body, status, expected) in [
        // What a page of another site can send without asking (CSRF).
        ("POST /graphql", "text/plain", query, 415, "content_type_undeclared"),
        ("POST /graphql", "application/x-www-form-urlencoded", "query=%7Bversion%7D", 415, "content_type_undeclared"),
        ("POST /graphql", "multipart/form-data; boundary=a", "--a--\r\n", 415, "content_type_undeclared"),
        ("POST /graphql", "application/graphql", "{ version }", 415, "content_type_undeclared"),
        ("POST /graphql", "application/json", r#"{"query":"{ version }","query":"{ a }"}"#, 400, "json_duplicate_key"),
        ("POST /graphql", "application/json", r#"{"query":"{ version }","documentId":"a"}"#, 400, "unknown_field"),
        ("POST /graphql", "application/json", r#"{"query":7}"#, 400, "type"),
        ("POST /graphql", "application/json", r#"{"operationName":"A"}"#, 400, "graphql_query_missing"),
        ("POST /graphql", "application/json", r#"[{"query":"{ version }"}]"#, 400, "graphql_batch"),
        ("POST /graphql", "application/json", "{ version }", 400, "json_syntax"),
        ("POST /graphql?query=%7Bversion%7D", "application/json", query, 400, "parameter_undeclared"),
        ("PUT /graphql", "application/json", query, 405, "method_undeclared"),
        ("POST /graphql/x", "application/json", query, 404, "path_undeclared"),
    ] {
        let response = site.post(request, content_type, body);
        assert_eq!((response.status, code(&response).as_str()), (status, expected), "{request} {content_type} {body}");
        assert_eq!(response.fields("content-type"), ["application/json"]);
    }
    assert_eq!(site.seen(), 0);
    assert_eq!(site.post("POST /graphql", "application/json; charset=utf-8", query).status, 200);
}

#[test]
fn get_takes_queries_and_no_mutations() {
    let open = site("", "");
    let get = |site: &Site, query: &str| site.get(&format!("GET /graphql{query}"), "");
    assert_eq!(
        get(&open, "?query=query%28%24n:Int%29%7Bpets%28first:%24n%29%7Bname%7D%7D&variables=%7B%22n%22:3%7D").status,
        200
    );
    for (query, expected) in [
        ("?query=mutation%7Brename%28id:1,name:%22a%22%29%7Bname%7D%7D", "graphql_no_query_by_get"),
        (
            "?query=query+A%7Bversion%7D+mutation+B%7Brename%28id:1,name:%22a%22%29%7Bname%7D%7D&operationName=B",
            "graphql_no_query_by_get",
        ),
        ("?query=%7Bnothing%7D", "graphql_invalid"),
        ("?query=%7Bversion%7D&query=%7Bversion%7D", "parameter_repeated"),
        ("?query=%7Bversion%7D&other=1", "parameter_undeclared"),
        (
            "?query=query%28%24n:Int%29%7Bpets%28first:%24n%29%7Bname%7D%7D&variables=%7B%22n%22:%22x%22%7D",
            "graphql_variables",
        ),
        ("?query=%7Bversion%7D&variables=%7B%22n%22:1,%22n%22:2%7D", "json_duplicate_key"),
        ("", "graphql_query_missing"),
    ] {
        let response = get(&open, query);
        assert_eq!((response.status, code(&response).as_str()), (400, expected), "{query}");
    }
    let head = exchange(
        open.gate.address("web"),
        b"HEAD /graphql?query=%7Bnothing%7D HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(statuses(&head), [400]);
    assert_eq!(open.seen(), 1);
    let closed = site(", get: false", "");
    assert_eq!(get(&closed, "?query=%7Bversion%7D").status, 405);
}

#[test]
fn what_a_query_costs_is_bounded() {
    let limits = "limits: { max_depth: 4, max_aliases: 3, max_root_fields: 4, max_fields: 40, max_directives: 5, \
                  max_tokens: 300, max_query: 2KiB, max_complexity: 50, max_nodes: 500, max_batch: 2 }";
    let site = site(&format!(", duplicate_fields: block, {limits}"), "");
    let nested =
        |levels: usize| format!("{{ pet(id: 1) {{ {} name {} }} }}", "friends { ".repeat(levels), "}".repeat(levels));
    let doubling = (0..12).fold(String::from("{ pet(id: 1) { ...F0 } } fragment F12 on Pet { name }"), |all, at| {
        format!("{all} fragment F{at} on Pet {{ ...F{next} ...F{next} }}", next = at + 1)
    });
    let brackets = format!("{{ version(a: {}1{}) }}", "[".repeat(120), "]".repeat(120));
    let first = "query($n: Int) { pets(first: $n) { friends(first: 10) { name } } }";
    for (query, variables, expected) in [
        (nested(2), json!({}), ""),
        (nested(3), json!({}), "graphql_depth"),
        ("{ a: version b: version c: version }".to_owned(), json!({}), ""),
        ("{ a: version b: version c: version d: version }".to_owned(), json!({}), "graphql_aliases"),
        (
            "{ version __typename pets { id } pet(id: 1) { id } x: version }".to_owned(),
            json!({}),
            "graphql_root_fields",
        ),
        ("{ version version }".to_owned(), json!({}), "graphql_duplicate_field"),
        (format!("{{ version {} }}", "@include(if: true) ".repeat(6)), json!({}), "graphql_directives"),
        (doubling, json!({}), "graphql_fields"),
        (
            "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }".to_owned(),
            json!({}),
            "graphql_fragment_cycle",
        ),
        (brackets, json!({}), "graphql_nesting"),
        (format!("{{ {} }}", "version, ".repeat(301)), json!({}), "graphql_query_too_long"),
        (format!("{{ {} }}", "a ".repeat(301)), json!({}), "graphql_tokens"),
        (first.to_owned(), json!({"n": 45}), ""),
        // What a variable asks for counts as what is written out, and the default as well.
        (first.to_owned(), json!({"n": 46}), "graphql_nodes"),
        (first.to_owned(), json!({"n": 1_000_000}), "graphql_complexity"),
        ("{ pets(first: 100) { friends { name } } }".to_owned(), json!({}), "graphql_complexity"),
        ("{ pets { friends(first: 100) { name } } }".to_owned(), json!({}), "graphql_nodes"),
        // What a server may take for all of them costs the most.
        ("{ pets(first: -1) { name } }".to_owned(), json!({}), "graphql_nodes"),
        (first.to_owned(), json!({"n": -100_000}), "graphql_complexity"),
    ] {
        let response = ask(&site, &json!({ "query": query, "variables": variables }));
        let found = if response.status == 200 { String::new() } else { code(&response) };
        assert_eq!(found, expected, "{query} {variables}");
    }
    let batch = |count: usize| Value::from(vec![json!({ "query": "{ version }" }); count]);
    assert_eq!(ask(&site, &batch(2)).status, 200);
    assert_eq!(code(&ask(&site, &batch(3))), "graphql_batch");
    assert_eq!(code(&ask(&site, &batch(0))), "graphql_request_malformed");
    assert_eq!(code(&ask(&self::site("", ""), &batch(1))), "graphql_batch");
    let second = json!([{ "query": "{ version }" }, { "query": "{ nothing }" }]);
    assert_eq!(code(&ask(&site, &second)), "graphql_invalid");
    assert_eq!(site.seen(), 4);
}

#[test]
fn errors_have_the_shape_and_status_that_clients_read() {
    let site = site("", ", detail: pointer");
    let wrong = r#"{"query":"{ nothing }"}"#;
    let response = site.post_with(
        "POST /graphql",
        "Content-Type: application/json\r\nAccept: application/graphql-response+json\r\n",
        wrong,
    );
    assert_eq!((response.status, response.fields("content-type")), (400, vec!["application/graphql-response+json"]));
    assert_eq!(response.json()["errors"][0]["message"], "type `Query` does not have a field `nothing`");
    // What makes clients with automatic persisted queries send the query itself.
    let hash = json!({ "extensions": { "persistedQuery": { "version": 1, "sha256Hash": "ab" } } });
    let response = ask(&site, &hash);
    assert_eq!(response.json()["errors"][0]["message"], "PersistedQueryNotSupported");
    let both =
        json!({ "query": "{ version }", "extensions": { "persistedQuery": { "version": 1, "sha256Hash": "ab" } } });
    assert_eq!(ask(&site, &both).status, 200);

    let site = self::site(", error_status: 200, persisted_queries: pass", ", detail: status, block_status: 403");
    let response = site.post("POST /graphql", "application/json", wrong);
    assert_eq!((response.status, response.json()), (200, json!({ "errors": [{ "message": "Request rejected" }] })));
    assert_eq!(site.post("POST /graphql", "text/plain", wrong).status, 403);
    assert_eq!(ask(&site, &hash).status, 200);
    assert_eq!(site.seen(), 1);
}

#[test]
fn an_encoded_body_is_validated_decoded() {
    let site = site("", "");
    let encoded = |query: &str| super::bodies::gzip(json!({ "query": query }).to_string().as_bytes());
    let fields = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    assert_eq!(site.post_with("POST /graphql", fields, encoded("{ version }")).status, 200);
    assert_eq!(code(&site.post_with("POST /graphql", fields, encoded("{ nothing }"))), "graphql_invalid");
    assert_eq!(site.seen(), 1);
}

#[test]
fn under_log_everything_passes_and_is_noted() {
    let site = site("", ", request: log");
    for body in [r#"{"query":"{ nothing }"}"#, r#"{"query":"{ version }"}"#, "{"] {
        assert_eq!(site.post("POST /graphql", "application/json", body).status, 200, "{body}");
    }
    assert_eq!(site.get("GET /graphql?query=mutation%7Ba%7D", "").status, 200);
    let log = site.gate.log(4);
    let decisions: Vec<_> =
        log.iter().map(|line| line["contract"]["decision"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(decisions.iter().filter(|decision| *decision == "logged").count(), 3, "{log:?}");
    assert!(log.iter().any(|line| line["contract"]["reason"] == "graphql_invalid"), "{log:?}");
}

#[test]
fn a_schema_with_problems_does_not_load() {
    let check = |schema: &str, contract: &str| {
        let folder = folder("", &[("schema.graphql", schema)]);
        let text = format!(
            "listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\ncontracts: {{ api: {{ graphql: {{ schema: schema.graphql }}{contract} }} }}\n\
             routes: [{{ upstream: up, contract: api }}]\nupstreams: {{ up: {{ servers: [\"127.0.0.1:9\"] }} }}\n"
        );
        std::fs::write(folder.path().join("portunus.yaml"), text).unwrap();
        let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_portunus"));
        let done = check.args(["check", "portunus.yaml"]).current_dir(folder.path()).output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert!(check(SCHEMA, "").0, "{:?}", check(SCHEMA, ""));
    let (is_good, said) = check("type Query {\n  a: Nothing\n}", "");
    assert!(!is_good && said.contains("schema.graphql:2:6: "), "{said}");
    assert!(!check("type Other { a: Int }", "").0);
    let (is_good, said) = check(SCHEMA, ", response: block, document: openapi.yaml");
    assert!(!is_good && said.contains("`document` and `graphql` exclude each other"), "{said}");
    let (is_good, said) = check(SCHEMA, ", undeclared: { query: log }");
    assert!(!is_good && said.contains("`undeclared` beside `graphql`"), "{said}");
}

/// Where the contract has `tokens`, every request needs one: over HTTP, and to open a WebSocket.
#[test]
fn with_tokens_every_request_needs_one() {
    let upstream = Upstream::start(data);
    let text = format!(
        "workers: 1\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\", contract: api }}\n\
         upstreams:\n  app: {{ servers: [\"{}\"] }}\n\
         tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}\n\
         contracts:\n  api: {{ graphql: {{ schema: schema.graphql, websocket: true }}, tokens: id }}\n\
         routes:\n  - {{ path: \"/{{*rest}}\", upstream: app, upgrades: [websocket] }}\n",
        upstream.address
    );
    let files = [("schema.graphql", SCHEMA), ("secret", "a secret of at least thirty-two bytes")];
    let gate = Gate::start_in(folder("", &files), &text);
    let site = Site { gate, upstream };
    assert_eq!(ask(&site, &json!({ "query": "{ version }" })).status, 401);
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: graphql-ws\r\n";
    assert_eq!(site.get("GET /graphql", upgrade).status, 401);
    assert_eq!(site.get("GET /graphql?query=%7Bversion%7D", "Authorization: Bearer a.b.c\r\n").status, 401);
    assert_eq!(site.seen(), 0);
}

/// The commands that take a document take a schema, by the end of its name.
#[test]
fn commands_take_a_schema_in_place_of_a_document() {
    let request = |query: &str| {
        let body = json!({ "query": query }).to_string();
        format!("POST /graphql HTTP/1.1\nHost: a\nContent-Type: application/json\n\n{body}\n")
    };
    let (good, bad) = (request("{ version }"), request("{ nothing }"));
    let get = "GET /graphql?query=mutation%7Ba%7D HTTP/1.1\nHost: a\n\n";
    let folder = folder(
        "",
        &[("schema.graphql", SCHEMA), ("good.txt", &good), ("bad.txt", &bad), ("get.txt", get), ("wrong.gql", "type")],
    );
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_portunus"));
        let done = command.args(words).current_dir(folder.path()).output().unwrap();
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (is_good, said) = run(&["contract", "check", "schema.graphql"]);
    assert!(is_good && said.contains("POST    /graphql") && said.contains("mutation rename"), "{said}");
    assert!(!run(&["contract", "check", "wrong.gql"]).0);
    assert!(!run(&["contract", "lint", "schema.graphql"]).0);
    for (file, expected) in
        [("good.txt", "request: ok"), ("bad.txt", "graphql_invalid"), ("get.txt", "graphql_invalid")]
    {
        let (is_good, said) = run(&["contract", "test", "schema.graphql", "--request", file]);
        assert!(is_good == (file == "good.txt") && said.contains(expected), "{file}: {said}");
    }
    let (is_good, said) = run(&["validate-server", "schema.graphql", "--base-path", "/api", "--print"]);
    assert!(is_good && said.contains("path: \"/api\" }, request: block }"), "{said}");
}
