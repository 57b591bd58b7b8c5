//! `portunus contract` as a user runs it: exit status, and what goes where.

use std::fs;
use std::path::Path;
use std::process::Command;

const SPEC: &str = "
openapi: 3.0.3
info: {title: pets, version: '1'}
servers: [{url: 'https://api.example/v1'}]
paths:
  /pets/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer, minimum: 1}}]
    get:
      operationId: getPet
      responses:
        '200': {description: ok, content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}}
    put:
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object, required: [name], additionalProperties: false, properties: {name: {type: string, maxLength: 5}, age: {type: integer}}}
          application/toml: {}
      responses: {'204': {description: done}}
";

/// Runs in a folder with these files; gives status, stdout and stderr.
fn portunus(files: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let run = Command::new(env!("CARGO_BIN_EXE_portunus")).args(arguments).current_dir(folder.path()).output().unwrap();
    let canonical = format!("{}/", folder.path().canonicalize().unwrap().display());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(&canonical, "");
    (run.status.code(), text(&run.stdout), text(&run.stderr))
}

fn validate(request: &str, response: Option<&str>) -> (Option<i32>, String, String) {
    let mut files = vec![("api.yaml", SPEC), ("request", request)];
    let mut arguments = vec!["contract", "test", "api.yaml", "--request", "request"];
    if let Some(response) = response {
        files.push(("response", response));
        arguments.extend(["--response", "response"]);
    }
    portunus(&files, &arguments)
}

#[test]
fn a_document_that_compiles_is_listed() {
    let (status, out, err) = portunus(&[("api.yaml", SPEC)], &["contract", "check", "api.yaml"]);
    assert_eq!(status, Some(0), "{err}");
    assert_eq!(out, "GET     /pets/{id}  getPet\nPUT     /pets/{id}\napi.yaml: ok (2 operations, 1 warning)\n");
    assert!(err.contains("api.yaml:18:29: nothing reads `application/toml`"), "{err}");
    let (_, out, err) =
        portunus(&[("api.yaml", SPEC)], &["contract", "check", "--quiet", "--opaque", "application/toml", "api.yaml"]);
    assert_eq!((out.as_str(), err.as_str()), ("api.yaml: ok (2 operations, 0 warnings)\n", ""));
}

#[test]
fn a_document_that_does_not_compile_is_reported_with_every_place() {
    let bad = SPEC.replace("operationId: getPet", "operationIdd: getPet").replace("maxLength: 5", "maxLengthh: 5");
    let (status, out, err) = portunus(&[("api.yaml", &bad)], &["contract", "check", "api.yaml"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("GET     /pets/{id}  (cannot be validated: 501)\n"), "{out}");
    assert!(out.ends_with("api.yaml: ok (2 operations, 2 errors, 1 warning)\n"), "{out}");
    assert!(err.contains("(concerns PUT /pets/{id})"), "{err}");
    let fail = ["contract", "check", "--on-unsupported", "fail", "api.yaml"];
    let (status, out, err) = portunus(&[("api.yaml", &bad)], &fail);
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(err.contains("api.yaml:9:7: an operation has no `operationIdd`"), "{err}");
    assert!(err.contains("api.yaml:17:117: "), "{err}");
    assert!(err.ends_with("api.yaml: rejected (2 problems)\n"), "{err}");
}

#[test]
fn warnings_are_errors_where_that_is_asked_for() {
    let odd = SPEC.replace("operationId: getPet", "colour: red");
    let (status, out, err) = portunus(&[("api.yaml", &odd)], &["contract", "check", "-q", "api.yaml"]);
    assert_eq!((status, out.as_str()), (Some(0), "api.yaml: ok (2 operations, 2 warnings)\n"));
    assert!(err.contains("api.yaml:9:7: an operation has no `colour`"), "{err}");
    let strict = ["contract", "check", "-q", "--strict", "--on-unsupported", "fail", "api.yaml"];
    let (status, _, err) = portunus(&[("api.yaml", &odd)], &strict);
    assert_eq!(status, Some(1));
    assert!(err.ends_with("api.yaml: rejected (2 problems)\n"), "{err}");
}

#[test]
fn requests_are_validated_with_code_and_pointer() {
    let rows: [(&str, i32, &str); 8] = [
        ("GET /v1/pets/5 HTTP/1.1\nHost: a\n\n", 0, "operation: GET /pets/{id}\nrequest: ok\n"),
        (
            "GET /v1/pets/0 HTTP/1.1\nHost: a\n\n",
            1,
            "operation: GET /pets/{id}\nrequest: rejected\n  minimum: path id: must be at least 1\n",
        ),
        ("GET /pets/5 HTTP/1.1\nHost: a\n\n", 1, "request: rejected\n  the document has no such path\n"),
        ("POST /v1/pets/5 HTTP/1.1\nHost: a\n\n", 1, "request: rejected\n  the path takes PUT, GET only\n"),
        (
            "PUT /v1/pets/5 HTTP/1.1\nHost: a\nContent-Type: application/json\n\n{\"name\":\"rex\"}\n",
            0,
            "operation: PUT /pets/{id}\nrequest: ok\n",
        ),
        (
            "PUT /v1/pets/0?x=1 HTTP/1.1\nHost: a\nContent-Type: application/json\n\n{\"name\":\"rex\",\"age\":\"1\"}\n",
            1,
            "operation: PUT /pets/{id}\nrequest: rejected\n  minimum: path id: must be at least 1\n  parameter_undeclared: query x: is not declared\n  type: body /age: must be an integer, is a string\n",
        ),
        (
            "PUT /v1/pets/5 HTTP/1.1\nHost: a\n\n",
            1,
            "operation: PUT /pets/{id}\nrequest: rejected\n  body_missing: body: is required\n",
        ),
        (
            "PUT /v1/pets/5 HTTP/1.1\nHost: a\nContent-Type: application/toml\n\n<a/>\n",
            1,
            "operation: PUT /pets/{id}\nrequest: rejected\n  content_type_unreadable: header content-type: nothing reads `application/toml` here\n",
        ),
    ];
    for (request, status, expected) in rows {
        let (code, out, err) = validate(request, None);
        assert_eq!((code, out.replace("GET, PUT", "PUT, GET").as_str()), (Some(status), expected), "{request}\n{err}");
    }
}

#[test]
fn responses_are_validated_too() {
    let request = "GET /v1/pets/5 HTTP/1.1\nHost: a\n\n";
    let good = "HTTP/1.1 200 OK\nContent-Type: application/json\n\n{\"name\":\"rex\"}\n";
    let (code, out, err) = validate(request, Some(good));
    assert_eq!((code, out.as_str()), (Some(0), "operation: GET /pets/{id}\nrequest: ok\nresponse: ok\n"), "{err}");
    let (code, out, _) = validate(request, Some("HTTP/1.1 200 OK\nContent-Type: application/json\n\n{}\n"));
    assert_eq!(code, Some(1));
    assert!(out.ends_with("response: rejected\n  required: body /name: is required\n"), "{out}");
    let (_, out, _) = validate(request, Some("HTTP/1.1 500 No\n\n"));
    assert!(out.ends_with("response: rejected\n  status_undeclared: status 500: is not declared\n"), "{out}");
}

#[test]
fn what_the_edge_would_not_let_in_is_said() {
    let (code, _, err) = validate("GET /v1/../pets/5 HTTP/1.1\nHost: a\n\n", None);
    assert_eq!(code, Some(1));
    assert!(err.contains("no request that would be let in: dot_segment"), "{err}");
    let (code, _, err) = portunus(&[("api.yaml", SPEC)], &["contract", "test", "api.yaml", "--request", "none"]);
    assert!(code == Some(1) && err.contains("none: cannot be read"), "{err}");
    assert!(!Path::new("request").exists());
}

const CASES: &str = "
- name: a pet
  request: { method: GET, target: /v1/pets/7 }
  response: { status: 200, json: { name: Rex } }
- name: no pet
  request: { method: GET, target: /v1/pets/0, expect: minimum }
- name: head
  request: { method: HEAD, target: /v1/pets/7, expect: pass }
- request: { method: PUT, target: /v1/pets/7, headers: { X-List: [a, b] }, json: { name: Rex }, expect: pass }
  response: { status: 500, expect: status_undeclared }
- request: { method: PUT, target: /v1/pets/7, headers: { Content-Type: application/json }, body: '{\"name\":1}', expect: reject }
- request: { method: GET, target: /v1/../pets, expect: dot_segment }
- request: { method: GET, target: /none, expect: path_undeclared }
- request: { method: DELETE, target: /v1/pets/7, expect: method_undeclared }
";

#[test]
fn recorded_cases_say_which_differ_and_why() {
    let run = |name: &str, cases: &str| {
        portunus(&[("api.yaml", SPEC), (name, cases)], &["contract", "test", "api.yaml", name])
    };
    assert_eq!(run("cases.yaml", CASES), (Some(0), "cases.yaml: ok (8 cases)\n".to_owned(), String::new()));
    let wrong =
        CASES.replace("expect: minimum", "expect: pass").replace("{ name: Rex } }\n- name: no", "{} }\n- name: no");
    let (status, out, _) = run("cases.yaml", &wrong.replace("expect: reject", "expect: maximum"));
    let expected = "cases.yaml:2: a pet: response: expected pass, is rejected: required: body /name: is required\n\
        cases.yaml:5: no pet: request: expected pass, is rejected: minimum: path id: must be at least 1\n\
        cases.yaml:11: request: expected maximum, is rejected: type: body /name: must be a string, is a number\n\
        cases.yaml: 3 of 8 cases differ\n";
    assert_eq!((status, out.replace("is an integer", "is a number").as_str()), (Some(1), expected));
    let lines = "{\"request\":{\"method\":\"GET\",\"target\":\"/v1/pets/7\"}}\n\n{\"request\":{\"method\":\"GET\",\"target\":\"/v1/pets/7\",\"expect\":\"reject\"}}\n";
    let (status, out, _) = run("cases.jsonl", lines);
    assert_eq!(
        (status, out.as_str()),
        (Some(1), "cases.jsonl:3: request: expected reject, passes\ncases.jsonl: 1 of 2 cases differ\n")
    );
    for (bad, said) in [
        ("a: 1", "is no list of cases"),
        ("- { request: { method: GET, target: /, expekt: pass } }", "cases.yaml:1: has no `expekt`"),
        ("- { response: { status: 200 } }", "cases.yaml:1: has no `request`"),
        ("- { request: { method: GET } }", "`target` must be there"),
        ("- { request: { method: GET, target: /v1/pets/7, body: a, json: 1 } }", "write one of them"),
        ("- { request: { method: GET, target: /v1/pets/7, headers: { a: \"b\\nc\" } } }", "must be text in one line"),
        ("- [", "cases.yaml:"),
    ] {
        let (status, _, err) = run("cases.yaml", bad);
        assert!(status == Some(1) && err.contains(said), "{bad}: {err}");
    }
}

#[test]
fn lint_says_what_is_left_open_and_how_to_close_it() {
    let (status, out, err) = portunus(&[("api.yaml", SPEC)], &["contract", "lint", "api.yaml"]);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    let expected = "\
        api.yaml:9:7: `security` is not declared (GET /pets/{id}); declare `security`; `security: []` says that the operation is public [warning security_undeclared]\n\
        api.yaml:13:7: `security` is not declared (PUT /pets/{id}); declare `security`; `security: []` says that the operation is public [warning security_undeclared]\n\
        api.yaml:18:29: nothing reads `application/toml`, so bodies of that type are rejected; list it in `opaque_media_types` to let them pass unread; correct or remove it [warning without_effect]\n\
        api.yaml: 0 errors, 3 warnings\n";
    assert_eq!(out, expected);
    let strict = portunus(&[("api.yaml", SPEC)], &["contract", "lint", "--strict", "api.yaml"]);
    assert_eq!(strict.0, Some(1));
    let bad = SPEC.replace("maxLength: 5", "maxLengthh: 5");
    let (status, out, _) = portunus(&[("api.yaml", &bad)], &["contract", "lint", "--format", "json", "api.yaml"]);
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &found["errors"]), (Some(1), &1.into()), "{out}");
    let first = found["findings"].as_array().unwrap().iter().find(|one| one["rule"] == "unsupported").unwrap();
    assert_eq!((&first["line"], &first["severity"]), (&17.into(), &"error".into()), "{out}");
    let (status, out, err) = portunus(&[("api.yaml", "openapi: [")], &["contract", "lint", "api.yaml"]);
    assert_eq!((status, out.as_str()), (Some(1), ""), "{err}");
}

#[test]
fn a_document_is_learnt_from_logs_and_then_checks() {
    let log = "{\"kind\":\"request\",\"method\":\"GET\",\"host\":\"a\",\"target\":\"/orders/1?x=%7e\",\"status\":200}\n\
        {\"kind\":\"request\",\"method\":\"GET\",\"host\":\"a\",\"target\":\"/%6frders/2\",\"status\":200}\n\
        {\"kind\":\"request\",\"method\":\"GET\",\"host\":\"b\",\"target\":\"/other\",\"status\":200}\n\
        {\"kind\":\"request\",\"method\":\"GET\",\"host\":\"a\",\"target\":\"/a/../b\",\"status\":200}\nno line\n";
    let (status, out, err) = portunus(&[("access.log", log)], &["contract", "learn", "access.log"]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("\n  /orders/{order_id}:\n") && !out.contains("other"), "{out}");
    for said in [
        "left out: 1 request (other hosts than `a`)",
        "left out: 1 request (no request that would be let in: dot_segment)",
        "left out: 1 request (the line is no JSON object)",
        "1 operation from 2 different requests; 0 of these rejected by the document",
    ] {
        assert!(err.contains(said), "{said}: {err}");
    }
    let (status, checked, err) = portunus(&[("learnt.yaml", &out)], &["contract", "check", "learnt.yaml"]);
    assert_eq!(
        (status, checked.as_str()),
        (Some(0), "GET     /orders/{order_id}\nlearnt.yaml: ok (1 operation, 0 warnings)\n"),
        "{err}"
    );
    let (status, _, err) = portunus(&[("access.log", "GET / 200\n")], &["contract", "learn", "access.log"]);
    assert!(status == Some(1) && err.contains("no line is JSON"), "{err}");
    let (status, _, err) = portunus(&[("x.har", "{}")], &["contract", "learn", "x.har"]);
    assert!(status == Some(1) && err.contains("is no HAR file"), "{err}");
    let (status, _, err) = portunus(&[("access.log", "")], &["contract", "learn", "access.log"]);
    assert!(status == Some(1) && err.contains("nothing to learn"), "{err}");
}

/// Servers that decode a path before they match it would run the operation that demands more.
#[test]
fn a_path_of_two_operations_is_no_valid_request() {
    let two = format!("{SPEC}  /pets/{{id}}:sell:\n    parameters: [{{name: id, in: path, required: true, schema: {{type: string}}}}]\n    get:\n      responses: {{'204': {{description: done}}}}\n")
        .replace("type: integer, minimum: 1", "type: string");
    let ask = |path: &str| {
        let request = format!("GET /v1/pets/{path} HTTP/1.1\r\nHost: api.example\r\n\r\n");
        portunus(
            &[("api.yaml", &two), ("request", &request)],
            &["contract", "test", "api.yaml", "--request", "request"],
        )
    };
    for (path, is_good) in [("7%3Asell", false), ("7%253asell", false), ("7:sell", true), ("7%3Abuy", true)] {
        let (status, out, err) = ask(path);
        assert_eq!(status, Some(i32::from(!is_good)), "{path}: {out}{err}");
        assert_eq!(out.contains("ambiguous_path"), !is_good, "{path}: {out}{err}");
    }
}
