//! Loading: what is rejected, with which words and where; files that refer to each other; bounds.

use std::fs;
use std::path::Path;

use contract::Contract;
use contract::options::{Limits, OnUnsupported, Options};

use super::{Request, contract, decision, problems};

/// One operation that cannot be validated is enough not to load the document.
fn failing() -> Options {
    Options { on_unsupported: OnUnsupported::Fail, ..Options::default() }
}

const START: &str = "openapi: 3.1.0\ninfo: {title: t, version: '1'}\n";

/// Each document with a part of the one problem it has.
/// Also where the schema is a body's as a whole, and whatever the media type.
#[test]
fn a_type_that_does_not_exist_is_a_problem() {
    for media in ["application/json", "text/plain", "multipart/form-data"] {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: t, version: '1'}}\npaths:\n  /a: {{post: {{requestBody: {{content: {{{media}: {{schema: {{type: strng}}}}}}}}, responses: {{default: {{description: d}}}}}}}}\n"
        );
        assert!(problems(&text).contains("type is a string; it must be one of"), "{media}: {}", problems(&text));
    }
}

/// A column of many thousands is no place that a person finds.
#[test]
fn what_is_written_in_one_line_has_a_pointer_beside_its_column() {
    let schema = r#"{"type":"object","properties":{"a/b":{"type":"strng"}}}"#;
    let openapi = format!(
        r#"{{"openapi":"3.0.3","info":{{"title":"t","version":"1"}},"paths":{{"/a":{{"post":{{"requestBody":{{"content":{{"application/json":{{"schema":{schema}}}}}}},"responses":{{"default":{{"description":"d"}}}}}}}}}}}}"#
    );
    let swagger = format!(
        r##"{{"swagger":"2.0","info":{{"title":"t","version":"1"}},"paths":{{"/a":{{"post":{{"parameters":[{{"in":"body","name":"b","schema":{{"$ref":"#/definitions/B"}}}}],"responses":{{"default":{{"description":"d"}}}}}}}}}},"definitions":{{"B":{schema}}}}}"##
    );
    for (text, pointer) in [
        (&openapi, "/paths/~1a/post/requestBody/content/application~1json/schema/properties/a~1b/type"),
        (&swagger, "/definitions/B/properties/a~1b/type"),
    ] {
        let found = problems(text);
        assert!(found.contains(":1:") && found.contains(&format!("(at `#{pointer}`)")), "{found}");
        let spread = problems(&text.replacen(',', ",\n", 1));
        assert!(spread.contains(":2:") && !spread.contains("(at `"), "{spread}");
    }
}

#[test]
fn problems_name_place_and_fix() {
    let rows = [
        ("swagger: '1.2'\n".to_owned(), "openapi.yaml:1:10: this version of Swagger is not known"),
        ("info: {}\n".to_owned(), "is no OpenAPI document"),
        ("openapi: 4.0.0\n".to_owned(), "openapi.yaml:1:10: `openapi: 4.0.0` is no version"),
        ("openapi: 3.0.0\ninfo: {title: t, version: '1'}\n".to_owned(), "has no `paths`"),
        (format!("{START}pathz: {{}}\n"), "openapi.yaml:3:1: the document has no `pathz`"),
        (format!("{START}paths:\n  /a:\n    gett: {{}}\n"), "openapi.yaml:5:5: a path item has no `gett`"),
        (format!("{START}paths:\n  /a: {{get: {{requestBodi: 1}}}}\n"), "an operation has no `requestBodi`"),
        (format!("{START}paths: {{$ref: 'p.yaml'}}\n"), "openapi.yaml:3:9: `paths` has no `$ref`; write each path"),
        (format!("{START}paths:\n  a: {{}}\n"), "openapi.yaml:4:3: the path `a` does not start with `/`"),
        (
            format!("{START}paths:\n  /a: {{get: {{parameters: [{{name: p, in: query}}]}}}}\n"),
            "says nothing of its value",
        ),
        (
            format!("{START}paths:\n  /a: {{get: {{parameters: [{{name: p, in: query, type: string}}]}}}}\n"),
            "a parameter has no `type`",
        ),
        (
            format!("{START}paths:\n  /a: {{get: {{parameters: [{{name: p, in: body, schema: {{}}}}]}}}}\n"),
            "cannot be in `body`",
        ),
        (
            format!(
                "{START}paths:\n  /a: {{get: {{parameters: [{{name: p, in: query, style: simple, schema: {{}}}}]}}}}\n"
            ),
            "the style `simple`",
        ),
        (
            format!(
                "{START}paths:\n  /a: {{get: {{parameters: [{{name: p, in: query, required: yes, schema: {{}}}}]}}}}\n"
            ),
            "`required` must be true or false",
        ),
        (
            format!(
                "{START}paths:\n  /a: {{get: {{parameters: [{{name: p, in: query, schema: {{}}}}, {{name: p, in: query, schema: {{}}}}]}}}}\n"
            ),
            "is here twice",
        ),
        (format!("{START}paths:\n  /a/{{x}}: {{get: {{}}}}\n"), "`{x}` of the path `/a/{x}` is no declared parameter"),
        (
            format!("{START}paths:\n  /a: {{get: {{parameters: [{{$ref: '#/components/parameters/P'}}]}}}}\n"),
            "`#/components/parameters/P` leads nowhere",
        ),
        (format!("{START}paths:\n  /a: {{$ref: '#/paths/~1a'}}\n"), "references form a cycle"),
        (format!("{START}paths:\n  /a: {{$ref: 'https://example.com/x.yaml'}}\n"), "nothing is fetched"),
        (
            format!("{START}paths:\n  /a: {{post: {{requestBody: {{content: {{json: {{}}}}}}}}}}\n"),
            "`json` is no media type",
        ),
        (format!("{START}paths:\n  /a: {{post: {{requestBody: {{}}}}}}\n"), "a request body needs its `content`"),
        (format!("{START}paths:\n  /a: {{get: {{responses: {{20X: {{description: x}}}}}}}}\n"), "`20X` is no status"),
        (format!("{START}servers: [{{url: '/{{x}}'}}]\npaths: {{}}\n"), "a variable that `variables` does not declare"),
        (
            format!("{START}paths: {{}}\npaths: {{}}\n"),
            "openapi.yaml:4:1: the name `paths` is here twice, first in line 3",
        ),
        (format!("{START}paths: {{}}\nx-a: .inf\n"), "cannot stand in JSON"),
        (format!("{START}paths: [\n"), "not valid YAML"),
        (format!("{START}paths: {{}}\n---\na: 1\n"), "a second document"),
        (format!("{START}paths: {{}}\nx-a: !custom 1\n"), "means nothing here"),
        (format!("{START}paths: {{}}\nx-a: &a [*a]\n"), "an alias stands within its own anchor"),
        (String::new(), "the file is empty"),
    ];
    for (text, expected) in rows {
        assert!(problems(&text).contains(expected), "{text}\n{}\nnot: {expected}", problems(&text));
    }
}

#[test]
fn all_problems_are_found_at_once() {
    let text = format!(
        "{START}paths:\n  a: {{}}\n  /b: {{gett: 1}}\n  /c: {{get: {{parameters: [{{name: p, in: query}}], security: [{{x: []}}]}}}}\n"
    );
    let found = problems(&text);
    let lines: Vec<&str> = found.lines().map(|line| line.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["4", "5", "6", "6", "6"], "{found}");
}

#[test]
fn anchors_and_merge_keys() {
    let text = format!(
        "{START}x-int: &int {{type: integer, maximum: 5}}\npaths:\n  /a:\n    get:\n      parameters:\n        - {{name: p, in: query, schema: *int}}\n        - {{name: q, in: query, schema: {{<<: *int, maximum: 9}}}}\n      responses: {{'200': {{description: ok}}}}\n"
    );
    let contract = contract(&text);
    assert_eq!(decision(&contract, &Request::get("/a?p=5&q=9")), "ok");
    assert_eq!(decision(&contract, &Request::get("/a?p=6")), "maximum query p");
    assert_eq!(decision(&contract, &Request::get("/a?q=10")), "maximum query q");
}

#[test]
fn expansion_and_size_are_bounded() {
    let mut bomb = format!("{START}paths: {{}}\nx-0: &x0 [a, a, a, a, a, a, a, a, a, a]\n");
    for level in 1..9 {
        let aliases = vec![format!("*x{}", level - 1); 10].join(", ");
        bomb += &format!("x-{level}: &x{level} [{aliases}]\n");
    }
    assert!(problems(&bomb).contains("more than 1000000 values"), "{}", problems(&bomb));
    let deep = format!("{START}paths: {{}}\nx-a: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert!(problems(&deep).contains("nested deeper than") || problems(&deep).contains("not valid YAML"));
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let rejected = Contract::from_text("a.json", &deep, &Options::default()).unwrap_err();
    assert!(rejected[0].what.contains("nested deeper than"), "{}", rejected[0]);
}

#[test]
fn json_documents_have_places_too() {
    let reject = |text: &str| Contract::from_text("a.json", text, &Options::default()).unwrap_err()[0].to_string();
    let rows = [
        ("{\n  \"openapi\": \"3.1.0\",\n  \"pathz\": {}\n}", "a.json:3:3: the document has no `pathz`"),
        ("{\"a\": 1, \"a\": 2}", "a.json:1:10: the name `a` is here twice"),
        ("{\"a\": 01}", "not a number"),
        ("{\"a\": 1,}", "expected a name"),
        ("{\"a\": \"\\ud83d\"}", "surrogates come in pairs"),
        ("{\"a\": \"\t\"}", "control character"),
        ("{} x", "stands behind the document"),
        ("{\"a\"", "expected a colon"),
        ("", "ends in the middle"),
    ];
    for (text, expected) in rows {
        assert!(reject(text).contains(expected), "{text}: {}", reject(text));
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn documents_in_several_files() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("api");
    write(&folder, "openapi.yaml", &format!("{START}paths:\n  /a: {{$ref: 'paths/a.yaml'}}\n"));
    write(
        &folder,
        "paths/a.yaml",
        "get:\n  parameters: [{$ref: '../parameters.json#/P'}]\n  responses: {'200': {description: ok, content: {application/json: {example: {$ref: nowhere.yaml}}}}}\n",
    );
    write(
        &folder,
        "parameters.json",
        "{\"P\": {\"name\": \"p\", \"in\": \"query\", \"schema\": {\"$ref\": \"schemas/p%20q.yaml#/$defs/p~1q\"}}}",
    );
    write(&folder, "schemas/p q.yaml", "$defs: {p/q: {$ref: '#/$defs/n'}, n: {type: integer}}\n");
    for path in [folder.clone(), folder.join("openapi.yaml")] {
        let contract = Contract::load(&path, &Options::default()).unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(decision(&contract, &Request::get("/a?p=1")), "ok");
        assert_eq!(decision(&contract, &Request::get("/a?p=x")), "type query p");
    }
    write(&folder, "schemas/p q.yaml", "$defs: {p/q: {typ: integer}}\n");
    let problems = Contract::load(&folder, &failing()).unwrap_err();
    assert!(problems[0].file.ends_with("schemas/p q.yaml") && problems[0].line == 1, "{}", problems[0]);
}

#[test]
fn nothing_outside_the_folder_is_read() {
    let outer = tempfile::tempdir().unwrap();
    write(outer.path(), "secret.yaml", "get: {responses: {}}\n");
    let folder = outer.path().join("api");
    let rejected = |reference: &str| {
        write(&folder, "openapi.yaml", &format!("{START}paths:\n  /a: {{$ref: '{reference}'}}\n"));
        Contract::load(&folder, &failing()).unwrap_err()[0].to_string()
    };
    assert!(rejected("../secret.yaml").contains("lies outside"), "{}", rejected("../secret.yaml"));
    assert!(rejected("/etc/passwd").contains("lies outside"));
    assert!(rejected("missing.yaml").contains("cannot be read"));
    std::os::unix::fs::symlink(outer.path().join("secret.yaml"), folder.join("link.yaml")).unwrap();
    assert!(rejected("link.yaml").contains("lies outside"), "{}", rejected("link.yaml"));
    let wide = Options { folder: Some(outer.path().to_owned()), ..Options::default() };
    write(&folder, "openapi.yaml", &format!("{START}paths:\n  /a: {{$ref: '../secret.yaml'}}\n"));
    assert!(Contract::load(&folder, &wide).is_ok());
}

#[test]
fn files_are_bounded_in_size_and_number() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "openapi.yaml", &format!("{START}paths: {{}}\n"));
    let small = Options { limits: Limits { document_bytes: 10, ..Limits::default() }, ..Options::default() };
    assert!(Contract::load(folder.path(), &small).unwrap_err()[0].what.contains("larger than 10 bytes"));
    write(folder.path(), "openapi.yaml", &format!("{START}paths: {{/a: {{$ref: b.yaml}}}}\n"));
    write(folder.path(), "b.yaml", "{}\n");
    // Each file counts for 4 KiB at least, so that their number is bounded too.
    let few = Options { limits: Limits { document_bytes: 4096, ..Limits::default() }, ..Options::default() };
    assert!(Contract::load(folder.path(), &few).unwrap_err()[0].what.contains("all files together"));
}
