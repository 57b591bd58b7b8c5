//! `MODE=API` of the front door: documents by number from a database, a list of errors for each request, nothing forwarded. The database is made by
//! SQLite's own program.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Running, exchange, member, statuses, wait_until};

const FIRST: &str = r#"{"openapi":"3.0.3","info":{"title":"First","version":"1"},"paths":{"/pets/{id}":{"get":{
  "parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},
    {"name":"limit","in":"query","required":true,"schema":{"type":"integer","maximum":10}},
    {"name":"X-Kind","in":"header","required":true,"schema":{"type":"string","enum":["cat","dog"]}}],
  "responses":{"200":{"description":"fine"}}},
  "post":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}],
  "requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["name"],
    "properties":{"name":{"type":"string"},"age":{"type":"integer"}}}}}},"responses":{"200":{"description":"fine"}}}}}}"#;
const SECOND: &str = "openapi: 3.0.3\ninfo: { title: Second, version: '2' }\nservers: [{ url: /v2 }]\npaths:\n  /cats:\n    get:\n      security: [{ key: [] }]\n      responses: { '200': { description: fine } }\ncomponents: { securitySchemes: { key: { type: apiKey, in: header, name: X-Key } } }\n";

fn sql(database: &Path, statements: &str) -> String {
    // The program under test reads it, too.
    let mut command = Command::new("sqlite3");
    command.args(["-cmd", ".timeout 60000"]).arg(database).arg(statements);
    let output = command.output().expect("sqlite3 is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn insert(database: &Path, id: u32, version: &str, format: &str, text: &str) {
    let text = text.replace('\'', "''");
    sql(database, &format!("INSERT INTO openapi_schemas VALUES ({id}, '{version}', '{format}', '{text}', 'new')"));
}

struct Front {
    running: Running,
    api: SocketAddr,
    health: SocketAddr,
}

fn command(database: &Path, verb: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portunus"));
    command.args([verb, "api-firewall"]).current_dir(database.parent().unwrap()).stdin(Stdio::null());
    for (name, value) in [
        ("MODE", "API"),
        ("URL", "http://127.0.0.1:0"),
        ("HEALTH_HOST", "127.0.0.2:0"),
        ("API_MODE_DEBUG_PATH_DB", database.to_str().unwrap()),
        ("API_MODE_SPECIFICATION_UPDATE_PERIOD", "1s"),
        ("LOG_FORMAT", "JSON"),
    ] {
        command.env(format!("APIFW_{name}"), value);
    }
    command
}

fn start(database: &Path) -> Front {
    let mut found = std::collections::HashMap::new();
    let running = Running::start(&mut command(database, "as"), |event| {
        if let Some(address) = member(event, "address").and_then(|text| text.parse().ok()) {
            found.extend(member(event, "listener").map(|listener| (listener.to_owned(), address)));
        }
        found.len() == 2
    });
    Front { running, api: found["api"], health: found["health"] }
}

fn ask(address: SocketAddr, request: &str, fields: &str, body: &str) -> (u16, String) {
    let text = format!(
        "{request} HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let response = exchange(address, text.as_bytes());
    let text = String::from_utf8(response.clone()).unwrap();
    (statuses(&response)[0], text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// What is said: the statuses by number, and the codes with the field that each is about.
fn said(front: &Front, ids: &str, request: &str, fields: &str, body: &str) -> (Value, Vec<(String, String)>) {
    let (status, text) = ask(front.api, request, &format!("X-Wallarm-Schema-ID: {ids}\r\n{fields}"), body);
    assert_eq!(status, 200, "{text}");
    let response: Value = serde_json::from_str(&text).unwrap();
    let errors = response["errors"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let errors = errors.iter().map(|error| (text(&error["code"]), text(&error["related_fields"][0]))).collect();
    (response["summary"].clone(), errors)
}

fn database() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("wallarm_api.db");
    sql(
        &database,
        "CREATE TABLE openapi_schemas (schema_id INTEGER, schema_version TEXT, schema_format TEXT, schema_content TEXT, status TEXT)",
    );
    (folder, database)
}

#[test]
fn all_that_is_wrong_is_said_with_the_codes_of_the_original() {
    let (_folder, path) = database();
    insert(&path, 1, "a", "json", FIRST);
    let front = start(&path);
    let one = |status| json!([{ "schema_id": 1, "status_code": status }]);
    let cat = "X-Kind: cat\r\n";
    let json_type = "Content-Type: application/json\r\n";
    for (request, fields, body, status, expected) in [
        ("GET /pets/7?limit=3", cat, "", 200, &[][..]),
        // Nothing goes on to a server that could take the name for another one.
        ("GET /pets/7?limit=3", "X-Kind: cat\r\napi_key: k\r\n", "", 200, &[]),
        ("GET /none", "", "", 403, &[("method_and_path_not_found", "")]),
        (
            "GET /pets/x?limit=11&more=1",
            "X-Kind: bird\r\n",
            "",
            403,
            &[
                ("required_path_parameter_invalid_value", "id"),
                ("required_query_parameter_invalid_value", "limit"),
                ("unknown_parameter_found", "more"),
                ("required_header_invalid_value", "x-kind"),
            ],
        ),
        (
            "GET /pets/7",
            "",
            "",
            403,
            &[("required_query_parameter_missed", "limit"), ("required_header_missed", "x-kind")],
        ),
        ("POST /pets/7", json_type, "{\"name\":\"a\",\"age\":1}", 200, &[]),
        // Without a type it is JSON if it looks like it.
        ("POST /pets/7", "", "{\"name\":\"a\"}", 200, &[]),
        ("POST /pets/7", json_type, "", 403, &[("required_body_missed", "")]),
        ("POST /pets/7", json_type, "{\"name\":", 403, &[("required_body_parse_error", "")]),
        (
            "POST /pets/7",
            json_type,
            "{\"age\":\"old\"}",
            403,
            &[("required_body_parameter_invalid_value", "age"), ("required_body_parameter_missed", "name")],
        ),
    ] {
        let (summary, mut errors) = said(&front, "1", request, fields, body);
        errors.sort();
        let mut expected: Vec<_> =
            expected.iter().map(|(code, field)| ((*code).to_owned(), (*field).to_owned())).collect();
        expected.sort();
        let fields_match = errors
            .iter()
            .zip(&expected)
            .all(|(have, want)| have.0 == want.0 && have.1.to_lowercase().ends_with(&want.1));
        assert!(
            summary == one(status) && errors.len() == expected.len() && fields_match,
            "{request} {body}: {summary} {errors:?}"
        );
    }
}

#[test]
fn each_document_that_is_named_speaks_for_itself() {
    let (_folder, path) = database();
    insert(&path, 1, "a", "json", FIRST);
    insert(&path, 2, "b", "yaml", SECOND);
    insert(&path, 3, "c", "yaml", "openapi: 3.0.3\npaths: [");
    let front = start(&path);
    front.running.wait_for("schema 3 is left out", 1);
    let (summary, errors) = said(&front, "1, 2,9", "GET /v2/cats", "", "");
    let statuses: Vec<_> =
        summary.as_array().unwrap().iter().map(|one| (one["schema_id"].clone(), one["status_code"].clone())).collect();
    assert_eq!(statuses, [(json!(1), json!(403)), (json!(2), json!(403)), (json!(9), json!(500))]);
    assert_eq!(
        errors.iter().map(|(code, _)| code.as_str()).collect::<Vec<_>>(),
        ["method_and_path_not_found", "required_security_requirements_failed"]
    );
    assert_eq!(
        said(&front, "2", "GET /v2/cats", "X-Key: k\r\n", "").0,
        json!([{ "schema_id": 2, "status_code": 200 }])
    );
    for fields in ["", "X-Wallarm-Schema-ID: one\r\n", "X-Wallarm-Schema-ID: -1\r\n", "X-Wallarm-Schema-ID: 1;2\r\n"] {
        assert_eq!(ask(front.api, "GET /pets/7", fields, ""), (500, String::new()), "{fields}");
    }
    assert_eq!(ask(front.health, "GET /v1/readiness", "", "").1, "{\"status\":\"ok\"}");
    let states = sql(&path, "SELECT schema_id, status FROM openapi_schemas ORDER BY schema_id");
    assert_eq!(states, "1|applied\n2|applied\n3|new\n", "what is in use is said in the database");
}

#[test]
fn the_database_may_come_later_change_and_break() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wallarm_api.db");
    let front = start(&path);
    assert_eq!(said(&front, "1", "GET /pets/7", "", "").0, json!([{ "schema_id": 1, "status_code": 500 }]));
    assert_eq!(ask(front.health, "GET /v1/readiness", "", "").0, 500);
    let (_other, made) = database();
    insert(&made, 1, "a", "json", FIRST);
    std::fs::rename(&made, &path).unwrap();
    let status = |request: &str, fields: &str| said(&front, "1", request, fields, "").0[0]["status_code"].clone();
    wait_until("the documents to be there", || status("GET /pets/7?limit=3", "X-Kind: dog\r\n") == 200);
    wait_until("it to be ready", || ask(front.health, "GET /v1/readiness", "", "").0 == 200);
    // Written beside the database first, as SQLite does with a write-ahead log.
    sql(&path, "PRAGMA journal_mode = WAL");
    let changed = FIRST.replace("\"maximum\":10", "\"maximum\":1").replace('\'', "''");
    sql(
        &path,
        &format!("UPDATE openapi_schemas SET schema_version = 'b', schema_content = '{changed}', status = 'new'"),
    );
    wait_until("the change to be active", || status("GET /pets/7?limit=3", "X-Kind: dog\r\n") == 403);
    std::fs::write(&path, "no database any more").unwrap();
    front.running.wait_for("reload rejected", 1);
    assert_eq!(status("GET /pets/7?limit=1", "X-Kind: dog\r\n"), 200, "the last good documents stay");
}

#[test]
fn import_prints_a_configuration_and_where_each_document_belongs() {
    let (folder, path) = database();
    insert(&path, 4, "a", "yaml", SECOND);
    let output = command(&path, "import").output().unwrap();
    let (text, reported) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(
        output.status.success() && reported.contains("save the document of schema 4 as schema-4.yaml"),
        "{reported}"
    );
    assert!(text.contains("schemas: { 4: schema-4 }") && text.contains("document: schema-4.yaml"), "{text}");
    std::fs::write(folder.path().join("native.yaml"), &text).unwrap();
    std::fs::write(folder.path().join("schema-4.yaml"), SECOND).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_portunus"));
    let checked = check.args(["check", "native.yaml"]).current_dir(folder.path()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
