//! What ordinary clients and frameworks send: messages that a narrow reading of a document would reject, beside those that are wrong all the same.

use contract::options::{Options, Undeclared};
use contract::validate::{Findings, Framing, Hold, ResponseParts, Scratch};

use super::{Request, contract, contract_with, decision, response_decision};

/// A document with POST /a, whose required body has this content, and whose response has `response` as its content.
fn posting(version: &str, content: &str, response: &str) -> String {
    format!(
        "openapi: {version}\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    post:\n      requestBody: {{required: true, content: {content}}}\n      responses: {{'200': {{description: ok, content: {response}}}}}\n"
    )
}

fn multipart(parts: &[(&str, &str)]) -> Request {
    let parts: String = parts
        .iter()
        .map(|(head, content)| {
            format!("--b\r\nContent-Disposition: form-data; {}\r\n\r\n{content}\r\n", head.replace('\n', "\r\n"))
        })
        .collect();
    Request::post("/a", "multipart/form-data; boundary=b", format!("{parts}--b--\r\n"))
}

const FORM: &str = "application/x-www-form-urlencoded";

/// Each way in which documents say that a list or object may be null (FastAPI, Swashbuckle, springdoc).
fn nullable(schema: &str) -> Vec<(&'static str, String)> {
    let members = schema.strip_prefix('{').unwrap_or_default();
    let kind = if schema.contains("type: array") { "array" } else { "object" };
    vec![
        ("3.0.3", schema.to_owned()),
        ("3.0.3", format!("{{nullable: true, {members}")),
        ("3.1.0", schema.replacen(&format!("type: {kind}"), &format!("type: [{kind}, 'null']"), 1)),
        ("3.1.0", format!("{{anyOf: [{schema}, {{type: 'null'}}]}}")),
        ("3.1.0", format!("{{oneOf: [{{type: 'null'}}, {schema}]}}")),
    ]
}

#[test]
fn a_list_or_object_that_may_be_null_is_a_list_or_object() {
    let file = "name=\"c\"; filename=\"a.png\"\nContent-Type: image/png";
    for (version, c) in nullable("{type: array, items: {type: string, format: binary}}") {
        let text = posting(
            version,
            &format!("{{multipart/form-data: {{schema: {{type: object, properties: {{c: {c}}}}}}}}}"),
            "{}",
        );
        let contract = contract(&text);
        assert_eq!(decision(&contract, &multipart(&[(file, "x"), (file, "y")])), "ok", "{c}");
        assert_eq!(decision(&contract, &multipart(&[(file, "x")])), "ok", "{c}");
    }
    let json = "name=\"c\"\nContent-Type: application/json";
    for (version, c) in nullable("{type: array, items: {type: object, properties: {a: {type: integer}}}}") {
        let schema = format!("{{schema: {{type: object, properties: {{c: {c}}}}}}}");
        let contract =
            contract(&posting(version, &format!("{{multipart/form-data: {schema}, {FORM}: {schema}}}"), "{}"));
        assert_eq!(decision(&contract, &multipart(&[(json, "{\"a\":1}"), (json, "{\"a\":2}")])), "ok", "{c}");
        assert_ne!(decision(&contract, &multipart(&[(json, "{\"a\":\"x\"}")])), "ok", "{c}");
        assert_eq!(decision(&contract, &Request::post("/a", FORM, "c=%7B%22a%22:1%7D&c=%7B%22a%22:2%7D")), "ok", "{c}");
    }
    for (version, c) in nullable("{type: array, items: {type: integer}}") {
        let schema = format!("{{type: object, properties: {{c: {c}}}}}");
        let forms = format!("{{{FORM}: {{schema: {schema}}}, application/xml: {{schema: {schema}}}}}");
        let contract_of_forms = contract(&posting(version, &forms, "{}"));
        for (body, expected) in [("c=1", true), ("c=1&c=2", true), ("c=x", false), ("c=1&c=x", false)] {
            let found = decision(&contract_of_forms, &Request::post("/a", FORM, body));
            assert_eq!(found == "ok", expected, "{c} {body} {found}");
        }
        assert_eq!(
            decision(&contract_of_forms, &Request::post("/a", "application/xml", "<r><c>1</c><c>2</c></r>")),
            "ok",
            "{c}"
        );
        let parameter = |name: &str, more: &str| format!("{{name: {name}, in: query, {more} schema: {c}}}");
        let deep =
            format!("{{name: d, in: query, style: deepObject, schema: {{type: object, properties: {{l: {c}}}}}}}");
        let text = format!(
            "openapi: {version}\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    get:\n      parameters: [{}, {}, {deep}]\n      responses: {{'200': {{description: ok}}}}\n",
            parameter("e", ""),
            parameter("f", "explode: false,"),
        );
        let contract = contract(&text);
        for (query, expected) in [
            ("e=1", true),
            ("e=1&e=2", true),
            ("e=x", false),
            ("f=1", true),
            ("f=1,2", true),
            ("f=1,x", false),
            ("d[l]=1", true),
            ("d[l]=1&d[l]=2", true),
            ("d[l][]=1", true),
            ("d[l]=x", false),
        ] {
            let found = decision(&contract, &Request::get(&format!("/a?{query}")));
            assert_eq!(found == "ok", expected, "{c} {query} {found}");
        }
    }
    for (version, o) in nullable("{type: object, properties: {k: {type: integer}}, additionalProperties: false}") {
        let text = format!(
            "openapi: {version}\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    get:\n      parameters: [{{name: o, in: query, explode: false, schema: {o}}}, {{name: d, in: query, style: deepObject, schema: {o}}}]\n      responses: {{'200': {{description: ok}}}}\n"
        );
        let contract = contract(&text);
        for (query, expected) in [("o=k,1", true), ("o=k,x", false), ("d[k]=1", true), ("d[k]=x", false)] {
            let found = decision(&contract, &Request::get(&format!("/a?{query}")));
            assert_eq!(found == "ok", expected, "{o} {query} {found}");
        }
    }
}

/// JSON Schema 2020-12 (core) §10.3.2.2 and §10.3.2.3.
#[test]
fn fields_that_patterns_and_others_describe_are_read_by_their_schemas() {
    let form = |schema: &str| {
        let schema = format!("{{schema: {schema}}}");
        contract(&posting("3.1.0", &format!("{{multipart/form-data: {schema}, {FORM}: {schema}}}"), "{}"))
    };
    let file = |name: &str| format!("name=\"{name}\"; filename=\"a.pdf\"\nContent-Type: application/pdf");
    let binary = "{type: string, format: binary, maxLength: 5}";
    let matched = form(&format!(
        "{{type: object, properties: {{t: {{type: string}}}}, patternProperties: {{'^doc_': {binary}, '^n_': {{type: integer}}, '^o_': {{type: object, properties: {{x: {{type: integer}}}}, additionalProperties: false}}, '^l_': {{type: array, items: {{type: integer}}}}}}, additionalProperties: {{type: boolean}}}}"
    ));
    let others =
        form(&format!("{{type: object, properties: {{t: {{type: string}}}}, additionalProperties: {binary}}}"));
    for (contract, parts, expected) in [
        (&matched, vec![(file("doc_a"), "x"), (file("doc_b"), "y")], "ok"),
        (&matched, vec![(file("doc_a"), "123456")], "max_length body /doc_a"),
        (&matched, vec![(file("doc_a"), "x"), (file("doc_a"), "x")], "parameter_repeated body doc_a"),
        (&matched, vec![(file("other"), "x")], "part_content_type body other"),
        (&matched, vec![(file("t"), "x")], "part_content_type body t"),
        (&matched, vec![("name=\"n_a\"".to_owned(), "5"), ("name=\"n_b\"".to_owned(), "6")], "ok"),
        (&matched, vec![("name=\"n_a\"".to_owned(), "x")], "type body /n_a"),
        (&matched, vec![("name=\"o_a\"\nContent-Type: application/json".to_owned(), "{\"x\":1}")], "ok"),
        (&matched, vec![("name=\"o_a\"".to_owned(), "{\"y\":1}")], "unknown_field body /o_a/y"),
        (&matched, vec![("name=\"b\"".to_owned(), "true")], "ok"),
        (&matched, vec![("name=\"b\"".to_owned(), "1")], "type body /b"),
        (&others, vec![("name=\"t\"".to_owned(), "a"), (file("x"), "x")], "ok"),
        (&others, vec![(file("x"), "123456")], "max_length body /x"),
    ] {
        let parts: Vec<(&str, &str)> = parts.iter().map(|(head, content)| (head.as_str(), *content)).collect();
        assert_eq!(decision(contract, &multipart(&parts)), expected, "{parts:?}");
    }
    for (body, expected) in [
        ("n_a=5&n_b=-1", "ok"),
        ("n_a=x", "type body /n_a"),
        ("n_a=5&n_a=6", "parameter_repeated body n_a"),
        ("l_a=5&l_a=6", "ok"),
        ("l_a=5&l_a=x", "type body /l_a/1"),
        ("o_a=%7B%22x%22:1%7D", "ok"),
        ("o_a=%7B%22x%22:%22y%22%7D", "type body /o_a/x"),
        ("b=true&c=false&t=true", "ok"),
        ("b=x", "type body /b"),
    ] {
        assert_eq!(decision(&matched, &Request::post("/a", FORM, body)), expected, "{body}");
    }
    // Also where an object is written as parameters.
    let text = "openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths:\n  /a:\n    get:\n      parameters: [{name: o, in: query, schema: {type: object, patternProperties: {'^n_': {type: integer}}, additionalProperties: false}}, {name: d, in: query, style: deepObject, schema: {type: object, patternProperties: {'^n_': {type: integer}}, additionalProperties: {type: boolean}}}]\n      responses: {'200': {description: ok}}\n";
    let queries = contract(text);
    for (query, expected) in
        [("n_a=5", true), ("n_a=x", false), ("d[n_a]=5&d[b]=true", true), ("d[n_a]=true", false), ("d[b]=5", false)]
    {
        let found = decision(&queries, &Request::get(&format!("/a?{query}")));
        assert_eq!(found == "ok", expected, "{query} {found}");
    }
}

/// OpenAPI 3.1.1, Appendix B.
#[test]
fn text_stands_for_what_its_schema_allows() {
    for (schema, rows) in [
        ("{type: integer}", [("42", true), ("4.5", false), ("x", false), ("", false), ("1e1", false)].as_slice()),
        ("{type: integer, format: int64, minimum: 1}", &[("42", true), ("0", false)]),
        ("{type: number}", &[("4.5", true), ("-1e3", true), ("+1", false), ("1\n", false)]),
        ("{type: boolean}", &[("true", true), ("TRUE", false), ("\"true\"", false)]),
        ("{oneOf: [{type: number}, {type: boolean}]}", &[("4.5", true), ("false", true), ("no", false)]),
        ("{type: integer, enum: [1, 2]}", &[("1", true), ("3", false)]),
        ("{enum: [1, a]}", &[("1", true), ("a", true), ("b", false)]),
        ("{type: string, enum: ['1', a]}", &[("1", true), ("2", false)]),
        ("{oneOf: [{type: string, maxLength: 2}, {type: integer}]}", &[("12345", true), ("ab", true), ("abc", false)]),
        ("{type: integer, nullable: true}", &[("7", true), ("null", true), ("nil", false)]),
        ("{type: string, nullable: true, maxLength: 4}", &[("null", true), ("nulls", false)]),
    ] {
        let contract = contract(&posting(
            "3.0.3",
            &format!("{{text/plain: {{schema: {schema}}}}}"),
            &format!("{{text/plain: {{schema: {schema}}}}}"),
        ));
        for (body, passes) in rows {
            let found = decision(&contract, &Request::post("/a", "text/plain", *body));
            assert_eq!(found == "ok", *passes, "{schema} {body:?} {found}");
            let fields = [("Content-Type", "text/plain")];
            let found = response_decision(&contract, "POST", "/a", 200, &fields, body.as_bytes());
            assert_eq!(found == "ok", *passes, "{schema} {body:?} {found}");
        }
    }
    let text = "openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths:\n  /a:\n    get:\n      parameters: [{name: n, in: query, content: {text/plain: {schema: {type: integer}}}}]\n      responses: {'200': {description: ok}}\n";
    let contract = contract(text);
    for (query, expected) in [("n=5", "ok"), ("n=x", "type query n"), ("n=1e1", "type query n")] {
        assert_eq!(decision(&contract, &Request::get(&format!("/a?{query}"))), expected, "{query}");
    }
}

/// A content of no bytes is one (RFC 9110 §6.4, §8.6).
#[test]
fn an_empty_text_file_or_form_is_a_body() {
    for (content_type, schema, expected) in [
        ("application/octet-stream", "{type: string, format: binary}", "ok"),
        ("application/octet-stream", "{type: string, format: binary, minLength: 1}", "min_length body"),
        ("image/png", "{type: string, format: binary}", "ok"),
        ("text/plain", "{type: string}", "ok"),
        ("text/plain", "{type: string, minLength: 1}", "min_length body"),
        ("text/plain", "{type: integer}", "type body"),
        (FORM, "{type: object, properties: {a: {type: string}}}", "ok"),
        (FORM, "{type: object, required: [a], properties: {a: {type: string}}}", "required body /a"),
        ("application/json", "{}", "body_missing body"),
        ("application/xml", "{type: object}", "body_missing body"),
        ("application/yaml", "{type: object}", "body_missing body"),
    ] {
        let text = posting("3.0.3", &format!("{{{content_type}: {{schema: {schema}}}}}"), "{}");
        let contract = contract(&text);
        assert_eq!(decision(&contract, &Request::post("/a", content_type, "")), expected, "{content_type} {schema}");
        // Without a type, or with one that is not declared, there is no body.
        assert_eq!(decision(&contract, &Request { method: "POST", ..Request::get("/a") }), "body_missing body");
        assert_eq!(decision(&contract, &Request::post("/a", "application/x-other", "")), "body_missing body");
        assert_eq!(
            decision(&contract, &Request::post("/a", content_type, "").with("Content-Encoding", "gzip")),
            "body_missing body"
        );
        // In chunks nobody knows how much comes.
        let chunked = super::chunked_decision(&contract, &Request::post("/a", content_type, ""));
        assert_eq!(chunked, expected, "{content_type} {schema} in chunks");
        // What need not be there is not validated where it is not.
        let optional = contract_with(&text.replace("required: true", "required: false"), &Options::default());
        assert_eq!(decision(&optional, &Request::post("/a", content_type, "")), "ok", "{content_type} {schema}");
    }
}

#[test]
fn parameters_that_a_media_type_does_not_have_are_no_difference() {
    let one = "{schema: {type: integer}}";
    for (key, sent, passes) in [
        ("application/json; charset=utf-8", "application/json", true),
        ("application/json;charset=UTF-8", "application/json; charset=utf-8", true),
        ("application/json; charset=ISO-8859-1", "application/json", true),
        ("application/json", "application/json; charset=utf-8", true),
        ("application/json; odata.metadata=minimal", "application/json", true),
        ("application/json; version=1", "application/json; version=2", false),
        ("application/vnd.a+json; charset=utf-8", "application/vnd.a+json", true),
        ("application/vnd.a+json; version=1", "application/vnd.a+json", false),
        ("application/*+json", "application/hal+json", true),
        ("application/*+json", "application/json", false),
    ] {
        let text = posting("3.0.3", &format!("{{'{key}': {one}}}"), &format!("{{'{key}': {one}}}"));
        let contract = contract(&text);
        let expected =
            |bad: &str| if passes { bad.to_owned() } else { "content_type_undeclared header content-type".to_owned() };
        assert_eq!(decision(&contract, &Request::post("/a", sent, "1")), expected("ok"), "{key} {sent}");
        assert_eq!(decision(&contract, &Request::post("/a", sent, "\"x\"")), expected("type body"), "{key} {sent}");
        assert_eq!(
            response_decision(&contract, "POST", "/a", 200, &[("Content-Type", sent)], b"1"),
            expected("ok"),
            "{key} {sent}"
        );
    }
    let both = contract(&posting(
        "3.0.3",
        "{application/json: {schema: {type: integer}}, 'application/json; charset=utf-8': {schema: {type: string}}, 'application/json; v=1': {schema: {type: boolean}}}",
        "{}",
    ));
    for (sent, body) in [
        ("application/json", "1"),
        ("application/json; charset=utf-8", "\"x\""),
        ("application/json; v=1", "true"),
        ("application/json; v=2", "1"),
    ] {
        assert_eq!(decision(&both, &Request::post("/a", sent, body)), "ok", "{sent}");
    }
    // Of two versions none is meant.
    let versions = contract(&posting(
        "3.0.3",
        "{'application/json; v=1': {schema: {type: integer}}, 'application/json; v=2': {schema: {type: string}}}",
        "{}",
    ));
    assert_eq!(
        decision(&versions, &Request::post("/a", "application/json", "1")),
        "content_type_undeclared header content-type"
    );
    assert_eq!(decision(&versions, &Request::post("/a", "application/json; v=1", "1")), "ok");
}

/// Method, target, decision.
type Requests<'r> = &'r [(&'static str, &'r str, &'r str)];

/// OpenAPI 3.1.1 §4.8.9.1: what is undefined is a member that stands on both sides.
#[test]
fn a_path_item_is_one_with_what_it_refers_to() {
    let document = |item: &str, referred: &str| {
        format!(
            "openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\npaths:\n  /a: {{$ref: '#/components/pathItems/P'{item}}}\ncomponents: {{pathItems: {{P: {{{referred}}}, Q: {{delete: {{responses: {{'200': {{description: d}}}}}}}}}}}}\n"
        )
    };
    let get = "get: {responses: {'200': {description: d}}}";
    let post = "post: {responses: {'200': {description: d}}}";
    let parameters = "parameters: [{name: q, in: query, required: true, schema: {type: integer}}]";
    let servers = "servers: [{url: /v2}]";
    let unsupported = "operation_unsupported operation";
    let rows: [(String, Requests<'_>); 8] = [
        (document("", get), &[("GET", "/a", "ok"), ("POST", "/a", "unknown method, allow GET")]),
        (document(&format!(", {post}"), get), &[("GET", "/a", "ok"), ("POST", "/a", "ok")]),
        (
            document(&format!(", {parameters}"), get),
            &[("GET", "/a", "parameter_missing query q"), ("GET", "/a?q=1", "ok")],
        ),
        (
            document(&format!(", {get}"), parameters),
            &[("GET", "/a", "parameter_missing query q"), ("GET", "/a?q=1", "ok")],
        ),
        (document(&format!(", {servers}"), get), &[("GET", "/a", "unknown path"), ("GET", "/v2/a", "ok")]),
        (
            document(&format!(", {get}, summary: s"), &format!("{get}, {post}")),
            &[("GET", "/a", unsupported), ("POST", "/a", "ok")],
        ),
        (document(&format!(", {parameters}"), &format!("{get}, {parameters}")), &[("GET", "/a?q=1", unsupported)]),
        (
            document(&format!(", {post}"), &format!("$ref: '#/components/pathItems/Q', {get}")),
            &[("GET", "/a", "ok"), ("POST", "/a", "ok"), ("DELETE", "/a", "ok")],
        ),
    ];
    for (text, requests) in rows {
        let contract = contract(&text);
        for (method, target, expected) in requests {
            let request = Request { method, ..Request::get(target) };
            assert_eq!(decision(&contract, &request), *expected, "{method} {target}\n{text}");
        }
    }
    let cycle = contract(&document(&format!(", {post}"), "$ref: '#/components/pathItems/P'"));
    assert_eq!(decision(&cycle, &Request { method: "POST", ..Request::get("/a") }), unsupported);
}

const RESPONSES: &str = "
openapi: 3.0.3
info: {title: t, version: '1'}
paths:
  /silent:
    get: {responses: {'200': {description: ok}}}
    post: {responses: {'201': {description: made}, default: {description: other}}}
  /none:
    get: {}
    post: {responses: {}}
  /json:
    get: {responses: {'200': {description: ok, headers: {X-A: {required: true, schema: {type: integer}}}, content: {application/json: {schema: {type: integer}}}}}}
    post: {responses: {'200': {description: ok, content: {application/json: {schema: {type: integer}}}}}}
  /file:
    get: {responses: {'200': {description: ok, content: {application/pdf: {}}}}}
  /range:
    get: {responses: {2XX: {description: ok, content: {application/json: {schema: {type: integer}}}}, default: {description: e, headers: {X-E: {required: true, schema: {type: string}}}}}}
  /events:
    get: {responses: {'200': {description: ok, content: {text/event-stream: {schema: {type: object}}, application/json: {schema: {type: integer}}}}}}
  /any:
    get: {responses: {'200': {description: ok, content: {'*/*': {schema: {type: string, maxLength: 3}}}}}}
";

/// What a document's author may not have meant to forbid.
#[test]
fn what_a_document_does_not_say_of_responses_passes_and_is_listed() {
    let contract = contract(RESPONSES);
    let json = ("Content-Type", "application/json");
    let with = json;
    for (method, path, status, fields, body, expected) in [
        ("GET", "/silent", 200, vec![json], "{}", "ok"),
        ("POST", "/silent", 201, vec![json], "{}", "ok"),
        ("POST", "/silent", 500, vec![json], "{}", "ok"),
        ("GET", "/silent", 404, vec![json], "{}", "status_undeclared status 404"),
        ("GET", "/none", 200, vec![json], "{}", "ok"),
        ("POST", "/none", 503, vec![], "x", "ok"),
        ("GET", "/json", 200, vec![with, ("X-A", "1")], "1", "ok"),
        ("GET", "/json", 200, vec![with], "1", "header_missing header x-a"),
        ("GET", "/json", 304, vec![], "", "ok"),
        ("POST", "/json", 304, vec![], "", "status_undeclared status 304"),
        ("GET", "/range", 304, vec![], "", "ok"),
        // All of a body as a range of it would go round its schema.
        ("GET", "/json", 206, vec![json, ("Content-Range", "bytes 0-1/2")], "11", "status_undeclared status 206"),
        ("GET", "/file", 206, vec![("Content-Type", "application/pdf")], "x", "ok"),
        ("GET", "/file", 206, vec![("Content-Type", "text/html")], "x", "status_undeclared status 206"),
        ("GET", "/silent", 206, vec![json], "x", "ok"),
        ("POST", "/json", 206, vec![json], "1", "status_undeclared status 206"),
    ] {
        let found = response_decision(&contract, method, path, status, &fields, body.as_bytes());
        assert_eq!(found, expected, "{method} {path} {status} {fields:?}");
    }
    let strict =
        contract_with(RESPONSES, &Options { undeclared_response_body: Undeclared::Reject, ..Options::default() });
    assert_eq!(response_decision(&strict, "GET", "/silent", 200, &[json], b"{}"), "body_undeclared body");
    assert_eq!(response_decision(&strict, "GET", "/silent", 206, &[json], b"{}"), "status_undeclared status 206");
}

/// Its end may never come.
#[test]
fn a_stream_of_events_passes_as_it_comes() {
    let contract = contract(RESPONSES);
    assert!(contract.warnings().is_empty(), "{:?}", contract.warnings());
    let event = "text/event-stream; charset=utf-8";
    for (path, content_type, expected) in [
        ("/events", event, Hold::Nothing),
        ("/events", "application/json", Hold::UntilDecision),
        ("/silent", event, Hold::Nothing),
        ("/none", event, Hold::Nothing),
        // A range is no word for a stream: what it says of texts is validated.
        ("/any", event, Hold::UntilDecision),
    ] {
        let contract::Found::Operation(matched, _) = contract.find("GET", path.as_bytes()) else { panic!("{path}") };
        let fields = vec![("Content-Type".to_owned(), content_type.to_owned())];
        let parts = ResponseParts { status: 200, fields: &fields, framing: Framing::Unknown, responds_head: false };
        let (mut scratch, mut findings) = (Scratch::new(), Findings::first());
        let mut plan =
            matched.validate_response(&parts, &mut scratch, &mut findings).unwrap_or_else(|_| panic!("{path}"));
        assert_eq!(plan.hold, expected, "{path} {content_type}");
        if expected == Hold::Nothing {
            // However long it becomes.
            plan.validator.set_limit(1);
            assert!(
                plan.validator.feed(b"data: x\n\n", &mut findings).is_ok()
                    && plan.validator.finish(&mut findings).is_ok()
            );
            assert!(findings.violations().is_empty());
        }
    }
    let json = contract_with(RESPONSES, &Options::default());
    assert_eq!(
        response_decision(&json, "GET", "/json", 200, &[("Content-Type", event), ("X-A", "1")], b"data: 1"),
        "content_type_undeclared header content-type"
    );
    assert_eq!(response_decision(&json, "GET", "/any", 200, &[("Content-Type", event)], b"data: 1"), "max_length body");
}

#[test]
fn an_escaped_comma_is_data_where_the_pieces_would_be_no_elements() {
    for (items, more, query, expected) in [
        // A place is latitude, comma, longitude.
        ("{type: string, pattern: '^-?[0-9.]+,-?[0-9.]+$'}", "", "p=1.5%2C2.5,3%2C4", "ok"),
        ("{type: string, pattern: '^-?[0-9.]+,-?[0-9.]+$'}", "", "p=1.5%2C2.5", "ok"),
        ("{type: string, minLength: 3}", "", "p=a%2Cb", "ok"),
        ("{type: string, enum: ['a,b', 'c,d']}", "", "p=a%2Cb,c%2Cd", "ok"),
        // The pieces are elements, too, or one of them is.
        ("{type: string, enum: ['a,b', a, b, c]}", ", maxItems: 2", "p=a%2Cb%2Cc", "enum query p /0"),
        ("{type: string, enum: ['a,b', a]}", "", "p=a%2Cb", "enum query p /1"),
        ("{type: string, pattern: '^([a-z]+|[a-z]+,[a-z]+)$'}", ", maxItems: 2", "p=a%2Cb,c", "max_items query p"),
        ("{type: string, pattern: '^(a|a,.*)$'}", "", "p=a%2C../x", "pattern query p /1"),
        ("{type: string}", ", maxItems: 2", "p=a%2Cb%2Cc", "max_items query p"),
        ("{type: string, pattern: '^.,.$'}", ", maxItems: 2", "p=a%2Cb,c%2Cd", "pattern query p /0"),
    ] {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    get:\n      parameters: [{{name: p, in: query, explode: false, schema: {{type: array, items: {items}{more}}}}}]\n      responses: {{'200': {{description: ok}}}}\n"
        );
        let contract = contract(&text);
        assert_eq!(decision(&contract, &Request::get(&format!("/a?{query}"))), expected, "{items} {query}");
        if expected != "ok" {
            let mut found = Findings::first();
            super::validate(&contract, &Request::get(&format!("/a?{query}")), usize::MAX, &mut found);
            assert!(
                found.violations().is_empty()
                    || found.violations()[0].what.contains("`escaped_delimiters`")
                    || expected.starts_with("enum query p /0"),
                "{query}"
            );
        }
    }
}
