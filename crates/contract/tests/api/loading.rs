//! What a document that is not as it should be comes to: what weakens nothing is a warning, and what would weaken a check is charged to the operations
//! that it concerns and to no others.

use contract::Contract;
use contract::options::{OnUnsupported, Options, Undeclared};

use super::{Request, contract, contract_with, decision, problems, response_decision};

const UNSUPPORTED: &str = "operation_unsupported operation";

fn text(version: &str, paths: &str) -> String {
    format!("openapi: {version}\ninfo: {{title: t, version: '1'}}\npaths:\n{paths}")
}

fn lines(problems: &[contract::Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// An operation whose body has this schema, in flow style.
fn body(schema: &str) -> String {
    format!(
        "  /a: {{post: {{requestBody: {{content: {{application/json: {{schema: {schema}}}}}}}, responses: {{default: {{description: d}}}}}}}}\n"
    )
}

/// Documents with one warning each: its words, and what is then said of a request.
#[test]
fn what_weakens_nothing_is_a_warning() {
    let json = |body: &str| Request::post("/a", "application/json", body);
    let rows = [
        ("3.1.0", body("{type: string, nullable: true}"), "write `type: [..., \"null\"]`", json("null"), "type body"),
        ("3.1.0", body("{type: string, enumNames: [a]}"), "\"enumNames\" is not known", json("1"), "type body"),
        ("3.0.3", body("{type: string, flavour: mild}"), "\"flavour\" is not known", json("1"), "type body"),
        ("3.0.3", body("{const: 1}"), "3.0 has no \"const\"", json("2"), "const body"),
        ("3.0.3", body("{type: [string, 'null']}"), "neither lists of types", json("1"), "type body"),
        ("3.0.3", body("{exclusiveMinimum: 5}"), "validated as the other has it", json("5"), "minimum body"),
        (
            "3.1.0",
            body("{minimum: 5, exclusiveMinimum: true}"),
            "validated as the other has it",
            json("5"),
            "minimum body",
        ),
        (
            "3.1.0",
            format!("  /b#c: {{get: {{responses: {{}}}}}}\n{}", body("{type: string}")),
            "the path `/b#c`: `#` is no part of a path",
            Request::get("/b"),
            "unknown path",
        ),
        (
            "3.1.0",
            format!("  /b?c=d: {{get: {{responses: {{}}}}}}\n{}", body("{type: string}")),
            "`?` is no part of a path",
            Request::get("/b?c=d"),
            "unknown path",
        ),
        (
            "3.1.0",
            "  /a: {post: {requestBody: {content: {application/json: {schema: {type: string}}, examples: {}, 'application/json, v=1': {}}}}}\n".to_owned(),
            "`examples` is no media type; it is left out",
            json("1"),
            "type body",
        ),
        (
            "3.1.0",
            "  /a: {post: {requestBody: {content: {'application/json, v=1': {}}}}}\n".to_owned(),
            "is no media type; it is left out",
            json("1"),
            "content_type_undeclared header content-type",
        ),
        (
            "3.1.0",
            "  /a: {post: {security: [{none: []}, {key: []}], responses: {}}}\ncomponents: {securitySchemes: {key: {type: apiKey, in: header, name: k}}}\n".to_owned(),
            "the security scheme `none` is not declared",
            json(""),
            "security_missing security",
        ),
        ("3.1.0", "  a: {get: {responses: {}}}\n".to_owned(), "does not start with `/`", Request::get("/a?b=1"), "parameter_undeclared query b"),
        ("3.1.0", "  /a: {get: {colour: red, responses: {}}}\n".to_owned(), "an operation has no `colour`", Request::get("/a"), "ok"),
    ];
    for (version, paths, warning, request, expected) in rows {
        let text = text(version, &paths);
        let contract = contract(&text);
        assert!(lines(contract.warnings()).contains(warning), "{text}\n{}", lines(contract.warnings()));
        assert_eq!(contract.errors(), &[], "{text}");
        assert_eq!(decision(&contract, &request), expected, "{text}");
        assert!(problems(&text).contains(warning), "strict: {text}");
    }
}

/// Each makes the operation of `/bad` one that cannot be validated, and leaves `/good` as it is.
#[test]
fn what_would_weaken_a_check_concerns_its_operations_only() {
    let of_schema = |schema: &str| {
        format!("{{post: {{requestBody: {{content: {{application/json: {{schema: {schema}}}}}}}, responses: {{}}}}}}")
    };
    let rows = [
        (of_schema("{pattern: '(a)\\1'}"), "not linear"),
        (of_schema("{min_items: 1}"), "write \"minItems\""),
        (of_schema("{dependencies: {a: [b]}}"), "write \"dependentRequired or dependentSchemas\""),
        (of_schema("{type: strng}"), "it must be one of"),
        (of_schema("{properties: {a: {items: {$ref: '#/components/schemas/Bad'}}}}"), "minLength is a string"),
        (of_schema("{$ref: '#/components/schemas/Circle'}"), "leads back to itself"),
        (of_schema("{$ref: '#/components/schemas/Nowhere'}"), "leads nowhere"),
        (
            "{post: {parameters: [{name: p, in: query, schema: {}, enum: [a]}], responses: {}}}".to_owned(),
            "belongs into its `schema`",
        ),
        (
            "{post: {parameters: [{name: p, in: query, requird: true, schema: {}}], responses: {}}}".to_owned(),
            "write `required`",
        ),
        (
            "{post: {parameters: [{name: p, in: query, style: simple, schema: {}}], responses: {}}}".to_owned(),
            "the style `simple`",
        ),
        ("{post: {security: [{none: []}], responses: {}}}".to_owned(), "no alternative of `security` can be met"),
        ("{post: {requestBody: {}, responses: {}}}".to_owned(), "needs its `content`"),
        ("{parameters: [{$ref: '#/nowhere'}], post: {responses: {}}}".to_owned(), "leads nowhere"),
        ("{$ref: 'https://example.com/x.yaml'}".to_owned(), "nothing is fetched"),
        ("{post: 1}".to_owned(), "an operation must be an object"),
    ];
    for (bad, expected) in rows {
        let good = "  /good: {get: {parameters: [{name: n, in: query, schema: {type: integer}}], responses: {}}}\n";
        let components = "components: {schemas: {Bad: {minLength: '1'}, Circle: {allOf: [{$ref: '#/components/schemas/Circle'}]}}}\n";
        let text = text("3.1.0", &format!("  /bad: {bad}\n{good}{components}"));
        let contract = contract(&text);
        let errors = lines(contract.errors());
        assert!(errors.contains(expected) && errors.contains("POST /bad") && !errors.contains("GET /good"), "{errors}");
        let mut request = Request::post("/bad", "application/json", "{}");
        assert_eq!(decision(&contract, &request), UNSUPPORTED, "{text}");
        request.body.clear();
        assert_eq!(decision(&contract, &request), UNSUPPORTED, "{text}");
        assert_eq!(decision(&contract, &Request::get("/good?n=1")), "ok");
        assert_eq!(decision(&contract, &Request::get("/good?n=x")), "type query n");
        let failing = Options { on_unsupported: OnUnsupported::Fail, ..Options::default() };
        assert!(Contract::from_text("a.yaml", &text, &failing).is_err(), "{text}");
    }
}

/// A response that cannot be validated leaves the requests of its operation alone, and the other way round.
#[test]
fn requests_and_responses_are_told_apart() {
    let bad = "{content: {application/json: {schema: {pattern: '(a)\\1'}}}, description: d}";
    let good = "{content: {application/json: {schema: {type: string}}}, description: d}";
    let paths = format!(
        "  /a: {{post: {{requestBody: {good}, responses: {{'200': {bad}}}}}}}\n  /b: {{post: {{requestBody: {bad}, responses: {{'200': {good}}}}}}}\n"
    );
    let contract = contract(&text("3.1.0", &paths));
    let json = [("Content-Type", "application/json")];
    for (path, request, response) in [("/a", "ok", UNSUPPORTED), ("/b", UNSUPPORTED, "ok")] {
        assert_eq!(decision(&contract, &Request::post(path, json[0].1, "\"x\"")), request, "{path}");
        assert_eq!(response_decision(&contract, "POST", path, 200, &json, b"\"x\""), response, "{path}");
    }
}

/// Where it is not clear which paths a template matches, or whose operation they are, neither is served by the other's rules.
#[test]
fn paths_that_are_not_clear_are_nobodys() {
    let get = "{get: {responses: {}, parameters: [{name: x, in: path, required: true, schema: {}}, {name: y, in: path, required: true, schema: {}}]}}";
    let rows = [
        ("/a/{x}{y}", "/a/1", UNSUPPORTED),
        ("/a/{x}{y}", "/a/1/2", "unknown path"),
        ("/a/{x}/{x}", "/a/1/2", UNSUPPORTED),
        ("/a/{x", "/a/1", UNSUPPORTED),
    ];
    for (template, path, expected) in rows {
        let contract =
            contract(&text("3.1.0", &format!("  '{template}': {get}\n  /b: {{get: {{responses: {{}}}}}}\n")));
        assert_eq!(decision(&contract, &Request::get(path)), expected, "{template}");
        assert_eq!(decision(&contract, &Request::get("/b")), "ok");
    }
    let parameter = |name: &str, kind: &str| {
        format!(
            "{{parameters: [{{name: {name}, in: path, required: true, schema: {{type: {kind}}}}}], responses: {{}}}}"
        )
    };
    let two = |method: &str| {
        let (x, y) = (parameter("x", "integer"), parameter("y", "boolean"));
        contract(&text("3.1.0", &format!("  '/a/{{x}}': {{get: {x}}}\n  '/a/{{y}}': {{{method}: {y}}}\n")))
    };
    let (by_method, same) = (two("delete"), two("get"));
    assert_eq!(decision(&by_method, &Request::get("/a/1")), "ok");
    assert_eq!(decision(&by_method, &Request::get("/a/true")), "type path x");
    assert_eq!(decision(&by_method, &Request { method: "DELETE", ..Request::get("/a/true") }), "ok");
    assert_eq!(
        decision(&by_method, &Request { method: "PUT", ..Request::get("/a/1") }),
        "unknown method, allow GET, DELETE"
    );
    assert_eq!(decision(&same, &Request::get("/a/1")), UNSUPPORTED);
    assert!(lines(same.errors()).contains("`/a/{x}` and `/a/{y}` match the same paths"), "{}", lines(same.errors()));
    assert!(lines(same.errors()).contains("GET /a/{x}, GET /a/{y}"), "{}", lines(same.errors()));
}

#[test]
fn base_paths_are_compared_without_their_last_slash() {
    for servers in ["[{url: /v1/}, {url: /v1}]", "[{url: 'https://a.example/v1'}, {url: 'http://localhost:8080/v1/'}]"]
    {
        let contract = contract(&format!("{}servers: {servers}\n", text("3.1.0", "  /a: {get: {responses: {}}}\n")));
        assert_eq!(contract.errors(), &[]);
        assert_eq!(decision(&contract, &Request::get("/v1/a")), "ok");
    }
    // One that cannot be used is left out.
    let servers = "servers: [{url: '/{x}'}, {url: /v1}]\n";
    let contract = contract(&format!("{}{servers}", text("3.1.0", "  /a: {get: {responses: {}}}\n")));
    assert!(lines(contract.warnings()).contains("`variables` does not declare"));
    assert_eq!(decision(&contract, &Request::get("/v1/a")), "ok");
}

/// As libyaml, Go and Python read them; YAML 1.2 wants closing braces deeper.
#[test]
fn closing_braces_may_stand_in_the_column_of_their_key() {
    let example = "            example: {\n              a: [\n                1\n              ],\n              b: {}\n            }\n";
    let paths = format!(
        "  /a:\n    post:\n      requestBody:\n        content:\n          application/json:\n{example}            schema: {{\n              type: integer\n            }}\n      responses: {{}}\n"
    );
    let contract = contract(&text("3.1.0", &paths));
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", "1")), "ok");
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", "[]")), "type body");
    // Anything else in that column stays a problem, with its own place.
    let broken = paths.replace("              type: integer\n", "  type: integer\n");
    assert!(problems(&text("3.1.0", &broken)).contains("not valid YAML"), "{}", problems(&text("3.1.0", &broken)));
}

/// Content that nothing can read is not the same as none.
#[test]
fn a_response_of_unusable_media_types_does_not_pass_as_one_without_content() {
    let options = Options { undeclared_body: Undeclared::Ignore, ..Options::default() };
    let paths = "  /a: {get: {responses: {'200': {description: d, content: {'application/json;simple': {}}}}}}\n";
    let contract = contract_with(&text("3.1.0", paths), &options);
    let fields = [("Content-Type", "application/json")];
    assert_eq!(
        response_decision(&contract, "GET", "/a", 200, &fields, b"{}"),
        "content_type_undeclared header content-type"
    );
}

/// Each link is followed once: with twice the links this would take twice the time, and squared it would never end.
#[test]
fn long_chains_of_references_load() {
    const LINKS: usize = 30_000;
    let mut schemas = String::new();
    for link in 0..LINKS {
        schemas += &format!("\"S{link}\": {{\"$ref\": \"#/components/schemas/S{}\"}},\n", link + 1);
    }
    let json = format!(
        "{{\"openapi\": \"3.0.3\", \"info\": {{\"title\": \"t\", \"version\": \"1\"}}, \"paths\": {{\"/a\": {{\"post\": {{\"requestBody\": {{\"content\": {{\"application/json\": {{\"schema\": {{\"$ref\": \"#/components/schemas/S0\"}}}}}}}}, \"responses\": {{}}}}}}}}, \"components\": {{\"schemas\": {{{schemas}\"S{LINKS}\": {{\"type\": \"object\", \"properties\": {{\"id\": {{\"type\": \"integer\", \"readOnly\": true}}}}}}}}}}}}"
    );
    let contract = Contract::from_text("a.json", &json, &Options::default()).unwrap();
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", "{}")), "ok");
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", "{\"id\": 1}")), "read_only body /id");
}
