//! What is a question of how strictly a document is meant: each setting, its default and what it changes.

use contract::options::{EscapedDelimiters, Options, Undeclared};
use contract::validate::Findings;

use super::{Request, contract_with, decision, response_decision};

/// A document with POST /a whose body has this content, and GET /a with these parameters.
fn document(version: &str, content: &str, parameters: &str) -> String {
    format!(
        "openapi: {version}\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    get:\n      parameters: {parameters}\n      responses: {{'200': {{description: ok}}}}\n    post:\n      requestBody: {{content: {content}}}\n      responses: {{'200': {{description: ok}}}}\n"
    )
}

fn bodies(schema: &str, options: &Options, rows: &[(&str, &str)]) {
    let contract =
        contract_with(&document("3.0.3", &format!("{{application/json: {{schema: {schema}}}}}"), "[]"), options);
    for (body, expected) in rows {
        assert_eq!(decision(&contract, &Request::post("/a", "application/json", *body)), *expected, "{schema} {body}");
    }
}

fn queries(parameter: &str, options: &Options, rows: &[(&str, &str)]) {
    let contract = contract_with(&document("3.0.3", "{text/plain: {}}", &format!("[{parameter}]")), options);
    for (query, expected) in rows {
        assert_eq!(decision(&contract, &Request::get(&format!("/a?{query}"))), *expected, "{parameter} {query}");
    }
}

#[test]
fn formats_are_asserted_unless_they_are_left_out() {
    let schema = "{type: object, properties: {t: {type: string, format: date-time}, d: {type: string, format: duration}, u: {type: string, format: uri}, n: {type: integer, format: int32}}}";
    let no = |name: &str| format!("format body /{name}");
    bodies(
        schema,
        &Options::default(),
        &[
            (r#"{"t":"2026-01-01T10:00:00"}"#, &no("t")),
            (r#"{"d":"PT1.5S"}"#, &no("d")),
            (r#"{"u":"/2010-04-01/x"}"#, &no("u")),
            (r#"{"n":2147483648}"#, "maximum body /n"),
        ],
    );
    let lenient = Options { lenient_times: true, ..Options::default() };
    bodies(
        schema,
        &lenient,
        &[
            (r#"{"t":"2026-01-01T10:00:00"}"#, "ok"),
            (r#"{"t":"2026-01-01T25:00:00"}"#, &no("t")),
            (r#"{"d":"PT1.5S"}"#, "ok"),
            (r#"{"u":"/x"}"#, &no("u")),
        ],
    );
    let some = Options { formats: Some(vec!["date-time".into()]), ..Options::default() };
    bodies(
        schema,
        &some,
        &[
            (r#"{"t":"2026-01-01T10:00:00"}"#, &no("t")),
            (r#"{"u":"/x","d":"soon","n":2147483648}"#, "ok"),
            (r#"{"n":1.5}"#, "type body /n"),
        ],
    );
}

#[test]
fn nullable_counts_as_it_is_meant_where_that_is_asked_for() {
    let intent = Options { nullable_by_intent: true, ..Options::default() };
    let schemas = [
        ("{nullable: true}", "ok"),
        ("{type: string, nullable: true, enum: [a, b]}", "enum body /v"),
        ("{nullable: true, allOf: [{type: object, properties: {x: {type: integer}}}]}", "type body /v"),
        ("{nullable: true, oneOf: [{type: string}, {type: integer}]}", "one_of body /v"),
        ("{type: string, nullable: true}", "ok"),
        ("{type: string}", "type body /v"),
        ("{type: string, nullable: false, enum: [a]}", "enum body /v"),
    ];
    for (schema, strict) in schemas {
        let schema = format!("{{type: object, properties: {{v: {schema}}}}}");
        let null = r#"{"v":null}"#;
        let contract = |options: &Options| {
            contract_with(&document("3.0.3", &format!("{{application/json: {{schema: {schema}}}}}"), "[]"), options)
        };
        let found = decision(&contract(&Options::default()), &Request::post("/a", "application/json", null));
        // Kinds that only `type` and `enum` name are one reason or the other.
        assert!(found == strict || (strict != "ok" && found != "ok"), "{schema}: {found}");
        let meant = if schema.contains("nullable: true") { "ok" } else { found.as_str() };
        assert_eq!(decision(&contract(&intent), &Request::post("/a", "application/json", null)), meant, "{schema}");
    }
    // Nothing else is allowed by it.
    bodies(
        "{type: object, properties: {v: {nullable: true, allOf: [{type: object, required: [x], properties: {x: {type: integer}}}]}, e: {type: string, nullable: true, enum: [a]}}}",
        &intent,
        &[
            (r#"{"v":{"x":1},"e":"a"}"#, "ok"),
            (r#"{"v":{"x":"1"}}"#, "type body /v/x"),
            (r#"{"v":{}}"#, "required body /v/x"),
            (r#"{"v":{"x":1,"y":1}}"#, "unknown_field body /v/y"),
            (r#"{"v":1}"#, "any_of body /v"),
            (r#"{"e":"b"}"#, "enum body /e"),
        ],
    );
}

#[test]
fn escaped_delimiters_are_read_both_ways() {
    let ids = "{name: ids, in: query, explode: false, schema: {type: array, maxItems: 3, items: {type: integer}}}";
    let tags = "{name: tags, in: query, explode: false, schema: {type: array, maxItems: 2, items: {type: string}}}";
    let object = "{name: o, in: query, explode: false, schema: {type: object, additionalProperties: false, properties: {a: {type: string}, b: {type: integer}}}}";
    let both = Options::default();
    let data = Options { escaped_delimiters: EscapedDelimiters::Data, ..Options::default() };
    let split = Options { escaped_delimiters: EscapedDelimiters::Split, ..Options::default() };
    queries(
        ids,
        &both,
        &[("ids=1,2,3", "ok"), ("ids=1%2C2%2C3", "type query ids /0"), ("ids=1,2,3,4", "max_items query ids")],
    );
    queries(
        ids,
        &split,
        &[
            ("ids=1,2,3", "ok"),
            ("ids=1%2C2%2c3", "ok"),
            ("ids=1%2C2,3,4", "max_items query ids"),
            ("ids=1%2Cx", "type query ids /1"),
        ],
    );
    queries(ids, &data, &[("ids=1%2C2", "type query ids /0")]);
    // Many clients send that, so what is said of it leads to the setting.
    let contract = contract_with(&document("3.0.3", "{text/plain: {}}", &format!("[{ids}]")), &both);
    let mut found = Findings::first();
    super::validate(&contract, &Request::get("/a?ids=1%2C2"), usize::MAX, &mut found);
    let said = "must be an integer, is a string; an escaped delimiter is part of its element (`escaped_delimiters`)";
    assert_eq!(found.violations()[0].what, said);
    queries(
        tags,
        &both,
        &[
            ("tags=a%2Cb", "ok"),
            ("tags=a%2Cb,c", "max_items query tags"),
            ("tags=a%2Cb%2Cc%2Cd", "max_items query tags"),
            ("tags=a%20b,c", "ok"),
        ],
    );
    queries(tags, &data, &[("tags=a%2Cb%2Cc%2Cd", "ok")]);
    queries(
        object,
        &both,
        &[
            ("o=a,x%2Cb,b,1", "parameter_malformed query o"),
            ("o=a,x,b,1", "ok"),
            ("o=a,x%2Cb%2C1", "ok"),
            ("o=a,x%2Cb%2Cz", "type query o /b"),
        ],
    );
    queries(object, &data, &[("o=a,x%2Cb%2Cz", "ok")]);
    let path = "openapi: 3.0.3\ninfo: {title: t, version: '1'}\npaths: {'/p/{l}': {get: {parameters: [{name: l, in: path, required: true, schema: {type: array, maxItems: 2, items: {type: string}}}], responses: {'200': {description: d}}}}}\n";
    for (options, target, expected) in
        [(&both, "/p/a%2Cb%2Cc", "max_items path l"), (&data, "/p/a%2Cb%2Cc", "ok"), (&both, "/p/a,b", "ok")]
    {
        assert_eq!(decision(&contract_with(path, options), &Request::get(target)), expected, "{target}");
    }
}

#[test]
fn escaped_delimiters_in_forms_are_read_both_ways() {
    let form = "{application/x-www-form-urlencoded: {schema: {type: object, properties: {l: {type: array, maxItems: 2, items: {type: string}}}}, encoding: {l: {explode: false}}}}";
    let strict = contract_with(&document("3.0.3", form, "[]"), &Options::default());
    let post = |body: &str| Request::post("/a", "application/x-www-form-urlencoded", body);
    assert_eq!(decision(&strict, &post("l=a,b")), "ok");
    assert_eq!(decision(&strict, &post("l=a%2Cb%2Cc")), "max_items body /l");
    let data = Options { escaped_delimiters: EscapedDelimiters::Data, ..Options::default() };
    assert_eq!(decision(&contract_with(&document("3.0.3", form, "[]"), &data), &post("l=a%2Cb%2Cc")), "ok");
}

#[test]
fn what_a_document_declares_as_bytes_passes_unread() {
    let types = "{image/png: {}, application/pdf: {schema: {type: string, format: binary, maxLength: 5}}, 'video/*': {schema: {type: string, format: binary}}, application/vnd.x: {schema: {type: string, format: binary}}, application/zip: {schema: {type: object}}, application/vnd.y: {schema: {type: string}}}";
    let text = document("3.0.3", types, "[]");
    let strict = Options { pass_declared_binary: false, ..Options::default() };
    for (kind, body, expected) in [
        ("image/png", "\u{0}x", "ok"),
        ("application/pdf", "%PDF-", "ok"),
        ("application/pdf", "%PDF-1", "max_length body"),
        ("video/mp4", "x", "ok"),
        ("application/vnd.x", "x", "ok"),
        ("application/zip", "x", "content_type_unreadable header content-type"),
        ("application/vnd.y", "x", "content_type_unreadable header content-type"),
        ("audio/mp3", "x", "content_type_undeclared header content-type"),
    ] {
        let request = Request::post("/a", kind, body);
        assert_eq!(decision(&contract_with(&text, &Options::default()), &request), expected, "{kind}");
        let unread = decision(&contract_with(&text, &strict), &request);
        assert!(unread.starts_with("content_type_un"), "{kind} {unread}");
    }
}

#[test]
fn bodies_of_responses_that_none_declares_have_a_switch() {
    let text = document("3.0.3", "{text/plain: {}}", "[]");
    for (mode, expected) in
        [(Undeclared::Reject, "body_undeclared body"), (Undeclared::Report, "ok"), (Undeclared::Ignore, "ok")]
    {
        let options = Options { undeclared_response_body: mode, ..Options::default() };
        assert_eq!(
            response_decision(
                &contract_with(&text, &options),
                "GET",
                "/a",
                200,
                &[("content-type", "application/json")],
                b"{}"
            ),
            expected,
            "{mode:?}"
        );
    }
}

#[test]
fn undeclared_form_fields_may_repeat_where_they_may_be_there() {
    let form = "{application/x-www-form-urlencoded: {schema: {type: object, properties: {name: {type: string}}}}}";
    let text = document("3.0.3", form, "[]");
    for (mode, expected) in [(Undeclared::Reject, "parameter_repeated body x"), (Undeclared::Ignore, "ok")] {
        let options = Options { undeclared_body_fields: mode, ..Options::default() };
        let contract = contract_with(&text, &options);
        let post = |body: &str| decision(&contract, &Request::post("/a", "application/x-www-form-urlencoded", body));
        assert_eq!(post("name=a&x=1&x=2"), expected);
        assert_eq!(post("name=a&name=b"), "parameter_repeated body name");
    }
}
