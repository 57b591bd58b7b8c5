//! `portunus contract check` and `portunus contract test` as a user runs them: exit status, and what goes where.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
