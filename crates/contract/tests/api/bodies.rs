//! Bodies: media types, JSON, forms, text, bytes, content codings, and bounds.

use std::io::Write as _;

use contract::options::{Codings, Limits, Options, Undeclared};
use contract::validate::Findings;

use super::{Request, contract, contract_with, decision, problems, shadows};

const SIGN_UP: &str = "{type: object, required: [name], additionalProperties: false, properties: {name: {type: string}, age: {type: integer}, tags: {type: array, items: {type: integer}}, deep: {type: object, properties: {x: {type: integer}}, additionalProperties: false}}}";

/// A document with POST /a whose body is required and has this content.
fn posting(content: &str) -> String {
    format!(
        "openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\npaths:\n  /a:\n    post:\n      requestBody:\n        required: true\n        content: {content}\n      responses: {{'200': {{description: ok}}}}\n    get:\n      responses: {{'200': {{description: ok}}}}\n"
    )
}

#[test]
fn media_types_are_chosen_exactly_and_nothing_else_passes() {
    let text = posting(
        "{application/json: {schema: {type: integer}}, 'application/*': {schema: {type: string}}, text/plain: {schema: {type: string, maxLength: 3}}, image/png: {}}",
    );
    let contract = contract(&text);
    let rows = [
        ("application/json", "1", "ok"),
        ("APPLICATION/JSON; charset=UTF-8", "1", "ok"),
        ("application/json", "\"a\"", "type body"),
        ("application/problem+json", "\"a\"", "ok"),
        ("application/problem+json", "1", "type body"),
        ("application/octet-stream", "\x00", "ok"),
        ("application/json; charset=utf-16", "1", "charset header content-type"),
        ("text/plain", "abc", "ok"),
        ("text/plain", "abcd", "max_length body"),
        ("text/html", "abc", "content_type_undeclared header content-type"),
        ("application/pdf", "abc", "content_type_unreadable header content-type"),
        ("image/png", "abc", "ok"),
        ("application/xml", "<a/>", "ok"),
        ("application/xml", "<a>", "xml_malformed body"),
        ("application", "1", "content_type_malformed header content-type"),
        ("application/json; charset*=utf-8''utf-7", "1", "content_type_malformed header content-type"),
        ("application/json; charset*0=utf-; charset*1=7", "1", "content_type_malformed header content-type"),
        ("application/json, text/plain", "1", "content_type_malformed header content-type"),
    ];
    for (content_type, body, expected) in rows {
        assert_eq!(decision(&contract, &Request::post("/a", content_type, body)), expected, "{content_type} {body}");
    }
    let twice = Request::post("/a", "application/json", "1").with("content-type", "text/plain");
    assert_eq!(decision(&contract, &twice), "content_type_malformed header content-type");
    let none = Request { method: "POST", body: b"1".to_vec(), ..Request::get("/a") };
    assert_eq!(decision(&contract, &none), "content_type_missing header content-type");
}

/// The best-known firewall forwards what it has no decoder for.
#[test]
fn a_type_without_a_reader_passes_only_by_name() {
    let text = posting("{application/vnd.sqlite3: {}, application/toml: {schema: {type: object}}}");
    let strict = contract(&text);
    for content_type in ["application/vnd.sqlite3", "application/toml"] {
        assert_eq!(
            decision(&strict, &Request::post("/a", content_type, "x")),
            "content_type_unreadable header content-type"
        );
    }
    assert_eq!(strict.warnings().len(), 2);
    let options = Options { opaque_media_types: vec!["application/vnd.sqlite3".to_owned()], ..Options::default() };
    let open = contract_with(&text, &options);
    assert_eq!(decision(&open, &Request::post("/a", "application/vnd.sqlite3", "x")), "ok");
    let toml = Request::post("/a", "application/toml", "x");
    assert_eq!(decision(&open, &toml), "content_type_unreadable header content-type");
    assert_eq!(open.warnings().len(), 1);
}

/// Documents that are made by programs list forms and text beside JSON, with one schema for all.
#[test]
fn a_type_that_no_schema_fits_is_rejected_and_warned_of() {
    let array = "{schema: {type: array, items: {type: integer}}}";
    let text = posting(&format!("{{application/json: {array}, text/plain: {array}, multipart/form-data: {array}}}"));
    let contract = contract(&text);
    assert_eq!(contract.warnings().len(), 2);
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", "[1]")), "ok");
    let decision = decision(&contract, &Request::post("/a", "text/plain", "[1]"));
    assert_eq!(decision, "content_type_unreadable header content-type");
}

/// What is reported says what was expected and what was found.
#[test]
fn violations_say_what_was_expected() {
    let schema = "{type: object, additionalProperties: false, properties: {\
         n: {type: integer, minimum: 1, maximum: 9}, s: {type: [string, 'null'], minLength: 2, maxLength: 4, pattern: '^a'}, \
         e: {enum: [a, 'b\"', 3]}, f: {type: string, format: date-time}, c: {const: x}, l: {type: array, minItems: 1, maxItems: 2, items: {type: number}}, b: {type: boolean}, \
         m: {type: number, multipleOf: 0.25}, z: {enum: [a, null]}, o: {type: object, minProperties: 1, maxProperties: 2, additionalProperties: true}}}";
    let recorded = format!("{{allOf: [{schema}, {{not: {{required: [never]}}}}]}}");
    let rows = [
        ("[]", "must be an object, is an array"),
        (r#"{"n":"1"}"#, "must be an integer, is a string"),
        (r#"{"n":1.5}"#, "must be an integer, is a number"),
        (r#"{"n":0}"#, "must be at least 1"),
        (r#"{"n":10}"#, "must be at most 9"),
        (r#"{"s":1}"#, "must be null or a string, is an integer"),
        (r#"{"s":"a"}"#, "must have at least 2 characters"),
        (r#"{"s":"abcde"}"#, "must have at most 4 characters"),
        (r#"{"s":"bb"}"#, "must match the pattern ^a"),
        (r#"{"e":"c"}"#, "must be one of \"a\", \"b\\\"\", 3"),
        (r#"{"f":"today"}"#, "must have the format date-time"),
        (r#"{"c":"y"}"#, "must be \"x\""),
        (r#"{"l":["1"]}"#, "must be a number, is a string"),
        (r#"{"b":1}"#, "must be a boolean, is an integer"),
        (r#"{"l":[]}"#, "must have at least 1 elements"),
        (r#"{"l":[1,2,3]}"#, "must have at most 2 elements"),
        (r#"{"o":{}}"#, "must have at least 1 members"),
        (r#"{"o":{"a":[],"b":1,"c":2}}"#, "must have at most 2 members"),
        (r#"{"m":0.3}"#, "must be a multiple of 0.25"),
        (r#"{"z":"b"}"#, "must be one of \"a\", null"),
    ];
    for schema in [schema, &recorded] {
        let contract = contract(&posting(&format!("{{application/json: {{schema: {schema}}}}}")));
        for (body, expected) in rows {
            for mut found in [Findings::first(), Findings::all()] {
                super::validate(&contract, &Request::post("/a", "application/json", body), usize::MAX, &mut found);
                assert_eq!(found.violations()[0].what, expected, "{schema}: {body}");
            }
        }
    }
}

/// What may be null is an alternative in most documents that programs make.
#[test]
fn violations_say_what_alternatives_expect() {
    let schema = "{type: object, properties: {\
         d: {anyOf: [{type: string, format: date}, {type: 'null'}]}, \
         p: {anyOf: [{type: number, exclusiveMinimum: 0}, {type: string}]}, \
         n: {oneOf: [{allOf: [{type: integer, maximum: 9}]}, {type: 'null'}]}, \
         s: {anyOf: [{type: string, maxLength: 2}, {type: array, items: {type: string}}]}, \
         i: {oneOf: [{type: integer}, {type: number}]}}}";
    let contract = contract(&posting(&format!("{{application/json: {{schema: {schema}}}}}")));
    for (body, expected) in [
        (r#"{"d":"31.1.2026"}"#, "must have the format date"),
        (r#"{"p":0}"#, "must be greater than 0"),
        (r#"{"n":10}"#, "must be at most 9"),
        (r#"{"s":"abc"}"#, "must have at most 2 characters"),
        (r#"{"d":5}"#, "must be null or a string, is an integer"),
        (r#"{"p":true}"#, "must be a number or a string, is a boolean"),
        (r#"{"n":[]}"#, "must be null or an integer, is an array"),
        (r#"{"s":1.5}"#, "must be a string or an array, is a number"),
        (r#"{"i":"1"}"#, "must be a number, is a string"),
        (r#"{"i":1}"#, "does not follow exactly one of the allowed schemas"),
    ] {
        // What a bound says is not known of everything that is wrong.
        let both =
            [Findings::first(), Findings::all()].into_iter().take(if expected.contains(", is ") { 2 } else { 1 });
        for mut found in both {
            super::validate(&contract, &Request::post("/a", "application/json", body), usize::MAX, &mut found);
            assert_eq!(found.violations()[0].what, expected, "{body}");
        }
    }
}

/// The same words wherever the value stands.
#[test]
fn violations_say_it_of_every_part() {
    let value = "{enum: [a, b]}";
    let object = format!("{{schema: {{type: object, properties: {{v: {value}, n: {{type: integer}}}}}}}}");
    let text = format!(
        "openapi: 3.1.0\ninfo: {{title: t, version: '1'}}\npaths:\n  /a/{{v}}:\n    post:\n      parameters:\n\
         \x20       - {{name: v, in: path, required: true, schema: {value}}}\n        - {{name: v, in: query, schema: {value}}}\n\
         \x20       - {{name: v, in: header, schema: {value}}}\n        - {{name: v, in: cookie, schema: {value}}}\n\
         \x20     requestBody: {{content: {{application/json: {object}, application/x-www-form-urlencoded: {object}, multipart/form-data: {object}, application/xml: {object}, application/yaml: {object}, application/jsonl: {object}}}}}\n\
         \x20     responses: {{default: {{description: d, headers: {{X-V: {{schema: {value}}}}}}}}}\n"
    );
    let contract = contract(&text);
    let part = "--b\r\nContent-Disposition: form-data; name=\"v\"\r\n\r\nc\r\n--b--\r\n";
    let rows = [
        (Request::post("/a/c", "application/json", "{}"), "path v"),
        (Request::post("/a/a?v=c", "application/json", "{}"), "query v"),
        (Request::post("/a/a", "application/json", "{}").with("v", "c"), "header v"),
        (Request::post("/a/a", "application/json", "{}").with("cookie", "v=c"), "cookie v"),
        (Request::post("/a/a", "application/json", r#"{"v":"c"}"#), "body /v"),
        (Request::post("/a/a", "application/x-www-form-urlencoded", "v=c"), "body /v"),
        (Request::post("/a/a", "multipart/form-data; boundary=b", part), "body /v"),
        (Request::post("/a/a", "application/xml", "<r><v>c</v></r>"), "body /v"),
        (Request::post("/a/a", "application/yaml", "v: c"), "body /v"),
        (Request::post("/a/a", "application/jsonl", "{\"v\":\"c\"}\n"), "body /0/v"),
    ];
    for (request, place) in rows {
        for mut found in [Findings::first(), Findings::all()] {
            super::validate(&contract, &request, usize::MAX, &mut found);
            let found = &found.violations()[0];
            assert_eq!(
                (found.place.to_string().as_str(), found.what.as_str()),
                (place, "must be one of \"a\", \"b\""),
                "{request:?}"
            );
        }
    }
    let typed = [
        (Request::post("/a/a", "application/x-www-form-urlencoded", "n=x"), "must be an integer, is a string"),
        (Request::post("/a/a", "application/xml", "<r><n>x</n></r>"), "must be an integer, is a string"),
        (Request::post("/a/a", "application/yaml", "'n': x"), "must be an integer, is a string"),
        (Request::post("/a/a", "application/yaml", "'n': 1.5"), "must be an integer, is a number"),
    ];
    for (request, expected) in typed {
        for mut found in [Findings::first(), Findings::all()] {
            super::validate(&contract, &request, usize::MAX, &mut found);
            assert_eq!(found.violations()[0].what, expected, "{request:?}");
        }
    }
}

/// A form's integers are text that the upstream reads with a parser of integers; those of a part that is JSON are JSON's.
#[test]
fn integers_of_forms_are_digits() {
    let form = "application/x-www-form-urlencoded";
    let contract =
        contract(&posting(&format!("{{{form}: {{schema: {SIGN_UP}}}, application/json: {{schema: {SIGN_UP}}}}}")));
    for (sent, expected) in [
        ("name=a&age=10", "ok"),
        ("name=a&age=1000e-2", "type body /age"),
        ("name=a&age=10.0", "type body /age"),
        ("name=a&tags=1&tags=1e1", "type body /tags/1"),
    ] {
        assert_eq!(decision(&contract, &Request::post("/a", form, sent)), expected, "{sent}");
    }
    let decision = |body| decision(&contract, &Request::post("/a", "application/json", body));
    assert_eq!(decision(r#"{"name":"a","age":10.0,"tags":[1e1,1000e-2]}"#), "ok");
}

#[test]
fn required_and_undeclared_bodies() {
    let contract = contract(&posting("{application/json: {}}"));
    let empty = Request { method: "POST", ..Request::get("/a") };
    assert_eq!(decision(&contract, &empty), "body_missing body");
    assert_eq!(decision(&contract, &Request { body: b"x".to_vec(), ..Request::get("/a") }), "body_undeclared body");
    assert_eq!(decision(&contract, &Request::get("/a")), "ok");
    let open = Options { undeclared_body: Undeclared::Ignore, ..Options::default() };
    let open = contract_with(&posting("{application/json: {}}"), &open);
    assert_eq!(decision(&open, &Request { body: b"x".to_vec(), ..Request::get("/a") }), "ok");
}

#[test]
fn json_is_validated_as_it_comes() {
    let contract = contract(&posting(&format!("{{application/json: {{schema: {SIGN_UP}}}}}")));
    let rows = [
        ("{\"name\":\"a\"}", "ok"),
        ("{\"name\":1}", "type body /name"),
        ("{}", "required body /name"),
        ("{\"name\":\"a\",\"x\":1}", "unknown_field body /x"),
        ("{\"name\":\"a\",\"deep\":{\"y\":1}}", "unknown_field body /deep/y"),
        ("{\"name\":\"a\",\"name\":\"b\"}", "json_duplicate_key body /name"),
        ("{\"name\":\"a\"}}", "json_trailing_data body"),
        ("\u{feff}{\"name\":\"a\"}", "json_byte_order_mark body"),
        ("{\"name\":\"\\ud800\"}", "json_lone_surrogate body /name"),
        ("{\"name\":\"a\",\"age\":NaN}", "json_syntax body /age"),
        ("{\"name\":\"a\",\"age\":1.0.1}", "json_syntax body /age"),
        ("{\"name\":\"a\"", "json_truncated body /name"),
    ];
    for (body, expected) in rows {
        assert_eq!(decision(&contract, &Request::post("/a", "application/json", body)), expected, "{body}");
    }
}

#[test]
fn forms_become_objects() {
    let contract = contract(&posting(&format!("{{application/x-www-form-urlencoded: {{schema: {SIGN_UP}}}}}")));
    let rows = [
        ("name=a", "ok"),
        ("name=a+b%20c&age=3", "ok"),
        ("name=a&age=x", "type body /age"),
        ("age=3", "required body /name"),
        ("name=a&x=1", "unknown_field body /x"),
        ("name=a&name=b", "parameter_repeated body name"),
        ("name=a&tags=1&tags=2", "ok"),
        ("name=a&tags=1&tags=x", "type body /tags/1"),
        ("name=a&tags=1,2", "type body /tags/0"),
        ("name=a&deep=%7B%22x%22:1%7D", "ok"),
        ("name=a&deep=%7B%22x%22:%22y%22%7D", "type body /deep/x"),
        ("name=a&deep=1,%22admin%22:true", "form_malformed body deep"),
        ("name=%zz", "form_malformed body name"),
        // Servers disagree whether these are two fields.
        ("name=a;age=x", "form_malformed body name"),
        ("name=a&;age=1", "form_malformed body"),
        ("name=a%3Bage=x", "ok"),
        ("na%ffme=1", "form_malformed body na\u{fffd}me"),
    ];
    for (body, expected) in rows {
        assert_eq!(
            decision(&contract, &Request::post("/a", "application/x-www-form-urlencoded", body)),
            expected,
            "{body}"
        );
    }
    let many = (0..1001).map(|number| format!("f{number}=1")).collect::<Vec<_>>().join("&");
    let decision = decision(&contract, &Request::post("/a", "application/x-www-form-urlencoded", many));
    assert_eq!(decision, "form_limit body");
}

/// As payment services have their forms: objects in brackets, an empty text that unsets one, lists of objects.
#[test]
fn forms_have_objects_in_brackets_where_the_encoding_says_so() {
    let schema = "{type: object, properties: { \
         meta: {anyOf: [{type: object, additionalProperties: {type: string}}, {type: string, enum: ['']}]}, \
         expand: {type: array, items: {type: string, maxLength: 5}}, \
         items: {type: array, items: {type: object, required: [price], properties: {price: {type: integer}, tags: {type: array, items: {type: string}}}}}, \
         to: {type: object, required: [city], properties: {city: {type: string}, zip: {type: integer}}}, \
         at: {type: object, properties: {x: {type: integer}}}, \
         'meta[]': {type: integer}}}";
    let deep = "{style: deepObject, explode: true}";
    let text = posting(&format!(
        "{{application/x-www-form-urlencoded: {{schema: {schema}, encoding: {{meta: {deep}, expand: {deep}, items: {deep}, to: {deep}, at: {{style: form, explode: false}}}}}}}}"
    ));
    let contract = contract(&text);
    let rows = [
        ("meta[a]=b&meta[c]=1", "ok"),
        ("meta=", "ok"),
        ("meta=x", "enum body /meta"),
        ("meta=&meta[a]=b", "form_malformed body meta"),
        ("meta%5Ba%5D=b&meta[a]=c", "parameter_repeated body meta"),
        ("expand[]=a&expand[]=b", "ok"),
        ("expand[0]=a&expand[1]=toolong", "max_length body /expand/1"),
        ("items[0][price]=1&items[1][price]=2&items[1][tags][]=a&items[1][tags][]=b", "ok"),
        ("items[0][price]=x", "type body /items/0/price"),
        ("items[0][tags][]=a", "required body /items/0/price"),
        ("to[city]=a&to[zip]=1", "ok"),
        ("to[zip]=1", "required body /to/city"),
        ("to[city]=a&to[admin]=1", "unknown_field body /to/admin"),
        ("to[city=a", "form_malformed body to"),
        ("from[city]=a", "unknown_field body /from[city]"),
        // Another field has brackets in its name: it keeps nothing from being validated.
        ("meta[]=1", "ok"),
        ("meta[]=z", "type body /meta[]"),
        ("meta[]=1&meta[x]=y&meta[x]=z", "parameter_repeated body meta"),
        ("at=x,1", "ok"),
        ("at=x,y", "type body /at/x"),
        ("at=%7B%22x%22:1%7D", "form_malformed body at"),
    ];
    for (body, expected) in rows {
        let found = decision(&contract, &Request::post("/a", "application/x-www-form-urlencoded", body));
        assert_eq!(found, expected, "{body}");
    }
}

/// OpenAPI 3.0.3 §4.7.15, 3.1.1 §4.8.15: under an explicit style, the members of an exploded object are fields of the form.
#[test]
fn exploded_objects_are_fields_of_their_own() {
    let to = "{type: object, required: [city], properties: {city: {type: string}, zip: {type: integer}, tags: {type: array, items: {type: integer}}}}";
    let form = |schema: &str, encoding: &str| {
        posting(&format!("{{application/x-www-form-urlencoded: {{schema: {schema}, encoding: {encoding}}}}}"))
    };
    let schema = format!("{{type: object, required: [name], properties: {{name: {{type: string}}, to: {to}}}}}");
    let rows = [
        ("name=a&city=b&zip=1", "ok"),
        ("zip=1&name=a&city=b", "ok"),
        ("name=a", "ok"),
        ("name=a&city=b&tags=1&tags=2", "ok"),
        ("name=a&city=b&tags=1&tags=x", "type body /to/tags/1"),
        ("name=a&zip=1", "required body /to/city"),
        ("name=a&city=b&zip=x", "type body /to/zip"),
        ("name=a&city=b&city=c", "parameter_repeated body to"),
        ("name=a&city=b&admin=true", "unknown_field body /admin"),
        ("name=a&to=%7B%22city%22:%22b%22%7D", "form_malformed body to"),
        ("name=a&to=city,b", "form_malformed body to"),
        ("name=a&city=b;zip=1", "form_malformed body to"),
    ];
    for encoding in
        ["{to: {style: form}}", "{to: {explode: true}}", "{to: {style: form, contentType: application/json}}"]
    {
        for text in [form(&schema, encoding), form(&schema, encoding).replace("3.1.0", "3.0.3")] {
            let contract = contract(&text);
            for (body, expected) in rows {
                let found = decision(&contract, &Request::post("/a", "application/x-www-form-urlencoded", body));
                assert_eq!(found, expected, "{encoding}: {body}");
            }
        }
    }
    let open = "{type: object, properties: {name: {type: string}, rest: {type: object, additionalProperties: {type: integer}}}}";
    let open = contract(&form(open, "{rest: {style: form}}"));
    for (body, expected) in [("name=a&x=1&y=2", "ok"), ("name=a&x=1&y=z", "type body /rest/y"), ("rest=1", "ok")] {
        assert_eq!(
            decision(&open, &Request::post("/a", "application/x-www-form-urlencoded", body)),
            expected,
            "{body}"
        );
    }
    // What the specification leaves open, or what nobody could distinguish, does not load.
    let two = format!("{{type: object, properties: {{city: {{type: string}}, to: {to}, from: {to}}}}}");
    let lists = "{type: object, properties: {to: {type: array, items: {type: object}}}}";
    for (schema, encoding, reported) in [
        (schema.as_str(), "{to: {style: spaceDelimited, explode: true}}", "does not say how objects are exploded"),
        (&schema, "{to: {style: pipeDelimited, explode: true}}", "does not say how objects are exploded"),
        (&schema, "{to: {style: simple}}", "`simple` is not read in forms"),
        (lists, "{to: {style: form}}", "objects in a list have no place"),
        (&two, "{to: {style: form}}", "`city` would belong to the exploded `to` and to `city`"),
        (&two, "{to: {style: form}, from: {style: form}}", "`zip` would belong to the exploded `to` and to `from`"),
        (
            "{type: object, additionalProperties: true, properties: {to: {type: object}}}",
            "{to: {style: form}}",
            "`to` and the form itself both take fields that are not listed",
        ),
    ] {
        let found = problems(&form(schema, encoding));
        assert!(found.contains(reported), "{encoding}: {found}");
    }
}

/// Objects that stand in one value, in each style that has them.
#[test]
fn objects_between_delimiters() {
    let schema = "{type: object, properties: {to: {type: [object, 'null'], properties: {city: {type: string}, zip: {type: integer}}, additionalProperties: false}}}";
    for (style, good, bad) in [
        ("form, explode: false", "to=city,a,zip,1", "to=city,a,zip,b"),
        ("spaceDelimited", "to=city%20a%20zip%201", "to=city%20a%20zip%20b"),
        ("spaceDelimited", "to=city+a+zip+1", "to=city+a+zip+b"),
        ("pipeDelimited", "to=city|a|zip|1", "to=city|a|zip|b"),
        ("deepObject, explode: true", "to[city]=a&to[zip]=1", "to[city]=a&to[zip]=b"),
        ("deepObject", "to%5Bcity%5D=a&to%5Bzip%5D=1", "to[zip]=b"),
    ] {
        let text = posting(&format!(
            "{{application/x-www-form-urlencoded: {{schema: {schema}, encoding: {{to: {{style: {style}}}}}}}}}"
        ));
        let contract = contract(&text);
        let validate =
            |body: &str| decision(&contract, &Request::post("/a", "application/x-www-form-urlencoded", body));
        assert_eq!(validate(good), "ok", "{style}");
        assert!(validate(bad).starts_with("type body /to"), "{style}: {}", validate(bad));
    }
    // Without a style, an object is JSON (OpenAPI 3.1.1 §4.8.15.1.1), also one that may be null or that is not listed.
    let text = posting(&format!("{{application/x-www-form-urlencoded: {{schema: {schema}}}}}"));
    let listed = contract(&text);
    let text = text.replace("properties: {to: {type", "additionalProperties: {type").replacen("false}}}", "false}}", 1);
    let unlisted = contract(&text);
    for contract in [&listed, &unlisted] {
        let validate = |body: &str| decision(contract, &Request::post("/a", "application/x-www-form-urlencoded", body));
        assert_eq!(validate("to=%7B%22city%22:%22a%22%7D"), "ok");
        assert_eq!(validate("to=null"), "ok");
        assert_eq!(validate("to=%7B%22city%22:1%7D"), "type body /to/city");
        assert_eq!(validate("to=city,a"), "form_malformed body to");
    }
}

/// Everything that is wrong with a form is reported, and nothing that only follows from it.
#[test]
fn all_that_is_wrong_with_a_form_is_reported() {
    let contract = contract(&posting(&format!("{{application/x-www-form-urlencoded: {{schema: {SIGN_UP}}}}}")));
    let post = |body: &str| Request::post("/a", "application/x-www-form-urlencoded", body);
    let rows: [(&str, &[&str]); 5] = [
        (
            "name=a&name=b&age=x&deep=%7B",
            &["parameter_repeated body name", "form_malformed body deep", "type body /age"],
        ),
        ("name=%zz&age=1", &["form_malformed body name"]),
        ("age=x&tags=1&tags=y", &["type body /age", "required body /name", "type body /tags/1"]),
        ("name=a;b&x=1", &["form_malformed body name", "unknown_field body /x"]),
        ("name=a", &[]),
    ];
    for (body, expected) in rows {
        assert_eq!(super::all_decisions(&contract, &post(body)), expected, "{body}");
    }
}

/// `allOf` as inheritance: a base with a `discriminator`, and those that take it in.
const FAMILY: &str = "openapi: 3.0.3
info: {title: t, version: '1'}
paths:
  /pet: {post: {requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}}, responses: {default: {description: d}}}}
  /pets: {post: {requestBody: {required: true, content: {application/json: {schema: {type: array, items: {allOf: [{$ref: '#/components/schemas/Pet'}, {type: object, properties: {id: {readOnly: true, type: integer}}}]}}}}}, responses: {default: {description: d}}}}
  /cat: {post: {requestBody: {required: true, content: {application/json: {schema: {$ref: '#/components/schemas/Cat'}}}}, responses: {default: {description: d}}}}
components:
  schemas:
    Pet: {type: object, required: [kind], properties: {kind: {type: string}, id: {type: integer}}, discriminator: {propertyName: kind, mapping: {kitty: '#/components/schemas/Cat', dog: Dog}}}
    Cat: {allOf: [{$ref: '#/components/schemas/Pet'}, {type: object, required: [lives], properties: {lives: {type: integer}}}]}
    Dog: {allOf: [{allOf: [{$ref: '#/components/schemas/Pet'}]}], properties: {bark: {type: boolean}, friend: {$ref: '#/components/schemas/Pet'}}}
    Puppy: {allOf: [{$ref: '#/components/schemas/Dog'}, {type: object, properties: {weeks: {type: integer, maximum: 52}}}]}
    Bird: {allOf: [{$ref: '#/components/schemas/Pet'}, {type: object, properties: {kind: {enum: [crow, owl]}, wings: {type: integer}}}]}
";

/// A base is validated by itself (OpenAPI 3.1.1 §4.8.25.3). Which members are declared, its subtypes say: the one that the discriminator names, or those
/// that the value satisfies.
#[test]
fn members_of_subtypes_are_declared_in_their_base() {
    let contract = contract(FAMILY);
    let rows = [
        ("/pet", r#"{"kind":"kitty","lives":9}"#, "ok"),
        ("/pet", r#"{"kind":"Cat","lives":9}"#, "ok"),
        // It is no cat, and a pet all the same.
        ("/pet", r#"{"kind":"kitty"}"#, "ok"),
        ("/pet", r#"{"kind":"kitty","lives":"x"}"#, "type body /lives"),
        ("/pet", r#"{"kind":"kitty","bark":true,"lives":1}"#, "unknown_field body /bark"),
        ("/pet", r#"{"kind":"dog","bark":true,"friend":{"kind":"Cat","lives":1}}"#, "ok"),
        ("/pet", r#"{"kind":"dog","friend":{"kind":"Cat","lives":"x"}}"#, "type body /friend/lives"),
        ("/pet", r#"{"kind":"Puppy","bark":true,"weeks":6}"#, "ok"),
        ("/pet", r#"{"kind":"Puppy","weeks":60}"#, "maximum body /weeks"),
        // No subtype has that name: the base counts, and who holds as it stands says what may be there.
        ("/pet", r#"{"kind":"bird","id":1}"#, "ok"),
        ("/pet", r#"{"kind":"bird","id":"x"}"#, "type body /id"),
        ("/pet", r#"{"kind":"bird","wings":2}"#, "unknown_field body /wings"),
        ("/pet", r#"{"kind":"owl","wings":2}"#, "ok"),
        ("/pet", r#"{"kind":"owl","wings":"2"}"#, "unknown_field body /wings"),
        ("/pet", r#"{"lives":1}"#, "required body /kind"),
        ("/pet", "[]", "type body"),
        ("/cat", r#"{"kind":"dog","lives":1}"#, "ok"),
        ("/cat", r#"{"kind":"Puppy","lives":1,"weeks":60}"#, "unknown_field body /weeks"),
        ("/pets", r#"[{"kind":"kitty","lives":1},{"kind":"bird"}]"#, "ok"),
        ("/pets", r#"[{"kind":"kitty","lives":1,"id":1}]"#, "read_only body /0/id"),
    ];
    for (path, body, expected) in rows {
        assert_eq!(decision(&contract, &Request::post(path, "application/json", body)), expected, "{path} {body}");
    }
}

/// OpenAPI 3.0.4 and 3.1.1: "MUST NOT change the validation outcome", nor "perform a search for child schemas".
#[test]
fn the_discriminator_of_a_base_changes_no_outcome() {
    let named = ", discriminator: {propertyName: kind, mapping: {kitty: '#/components/schemas/Cat', dog: Dog}}";
    assert!(FAMILY.contains(named));
    let options = Options { undeclared_body_fields: Undeclared::Ignore, ..Options::default() };
    let plain = contract_with(&FAMILY.replace(named, ""), &options);
    let names = ["kitty", "Cat", "dog", "Dog", "Puppy", "Bird", "owl", "Pet", "nobody", ""];
    let members =
        ["", r#","lives":9"#, r#","lives":"x""#, r#","id":"x""#, r#","bark":1,"weeks":60"#, r#","wings":"2""#];
    let (mut held, mut failed) = (0, 0);
    for other in [named, ", discriminator: {propertyName: kind}", ", discriminator: {propertyName: bark}"] {
        let with = contract_with(&FAMILY.replace(named, other), &options);
        for (name, members) in names.iter().flat_map(|name| members.iter().map(move |members| (name, members))) {
            for (path, body) in [
                ("/pet", format!(r#"{{"kind":"{name}"{members}}}"#)),
                ("/pets", format!(r#"[{{"kind":"{name}"{members}}}]"#)),
                ("/cat", format!(r#"{{"kind":"{name}"{members}}}"#)),
                ("/cat", format!(r#"{{"friend":{{"kind":"{name}"{members}}}}}"#)),
            ] {
                let request = Request::post(path, "application/json", body.clone());
                let expected = decision(&plain, &request);
                assert_eq!(decision(&with, &request), expected, "{other} {path} {body}");
                if expected == "ok" { held += 1 } else { failed += 1 }
            }
        }
    }
    assert!(held > 200 && failed > 100, "{held} {failed}");
}

#[test]
fn encodings_of_form_fields() {
    let schema =
        "{type: object, properties: {l: {type: array, items: {type: integer}}, s: {type: string}, r: {type: string}}}";
    let text = posting(&format!(
        "{{application/x-www-form-urlencoded: {{schema: {schema}, encoding: {{l: {{style: pipeDelimited, explode: false}}, s: {{contentType: application/json}}, r: {{allowReserved: true}}}}}}}}"
    ));
    let contract = contract(&text);
    let rows = [
        ("l=1|2", "ok"),
        ("l=1,2", "type body /l/0"),
        ("s=%22a%22", "ok"),
        ("s=a", "form_malformed body s"),
        ("s=1", "type body /s"),
        ("r=a;b", "ok"),
    ];
    for (body, expected) in rows {
        assert_eq!(
            decision(&contract, &Request::post("/a", "application/x-www-form-urlencoded", body)),
            expected,
            "{body}"
        );
    }
}

#[test]
fn undeclared_form_fields_can_be_reported() {
    let options = Options { undeclared_body_fields: Undeclared::Report, ..Options::default() };
    let schema = "{type: object, properties: {name: {type: string}}}";
    let contract =
        contract_with(&posting(&format!("{{application/x-www-form-urlencoded: {{schema: {schema}}}}}")), &options);
    assert_eq!(shadows(&contract, &Request::post("/a", "application/x-www-form-urlencoded", "name=a&x=1")), ["body x"]);
}

#[test]
fn undeclared_json_fields_can_be_reported() {
    let options = Options { undeclared_body_fields: Undeclared::Report, ..Options::default() };
    let schema = SIGN_UP.replace(", additionalProperties: false", "");
    let contract = contract_with(&posting(&format!("{{application/json: {{schema: {schema}}}}}")), &options);
    let post = |body: &str| Request::post("/a", "application/json", body);
    assert_eq!(shadows(&contract, &post("{\"name\":\"a\"}")), [""; 0]);
    assert_eq!(shadows(&contract, &post("{\"name\":\"a\",\"deep\":{\"y\":1}}")), ["body /deep/y"]);
    assert_eq!(decision(&contract, &post("{\"name\":1,\"x\":1}")), "type body /name");
}

#[test]
fn text_and_bytes() {
    let text = posting(
        "{text/plain: {schema: {type: string, pattern: '^[a-c\"\\\\]+$'}}, application/octet-stream: {schema: {type: string, format: binary, minLength: 2, maxLength: 4}}}",
    );
    let contract = contract(&text);
    let rows: [(&str, &[u8], &str); 7] = [
        ("text/plain", b"ab\"\\c", "ok"),
        ("text/plain", b"abd", "pattern body"),
        ("text/plain", b"\xff", "text_malformed body"),
        ("text/plain", b"a\xc3", "text_malformed body"),
        ("application/octet-stream", b"\xff\x00", "ok"),
        ("application/octet-stream", b"1", "min_length body"),
        ("application/octet-stream", b"12345", "max_length body"),
    ];
    for (content_type, body, expected) in rows {
        assert_eq!(decision(&contract, &Request::post("/a", content_type, body)), expected, "{body:?}");
    }
}

/// A Zstandard frame of one raw block: enough of an encoder for a test.
fn zstd(content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, content.len() as u8];
    let header = (content.len() as u32) << 3 | 1;
    frame.extend_from_slice(&header.to_le_bytes()[..3]);
    frame.extend_from_slice(content);
    frame
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// `{"name":"a"}` as the reference Brotli encoder writes it uncompressed: window 16, one raw meta-block, an empty last one.
fn brotli(content: &[u8]) -> Vec<u8> {
    assert!(content.len() <= 0x10000);
    // WBITS 0 (1 bit), ISLAST 0, MNIBBLES 00, MLEN-1 (16 bits), ISUNCOMPRESSED 1, padding; then the bytes; then ISLAST 1, ISEMPTY 1.
    let bits = ((content.len() as u32 - 1) << 4) | 1 << 20;
    let mut stream = bits.to_le_bytes()[..3].to_vec();
    stream.extend_from_slice(content);
    stream.push(3);
    stream
}

type Encoder = fn(&[u8]) -> Vec<u8>;

#[test]
fn content_codings_are_decoded_or_rejected() {
    let text = posting(&format!("{{application/json: {{schema: {SIGN_UP}}}}}"));
    let contract = contract(&text);
    let coded =
        |coding: &str, body: Vec<u8>| Request::post("/a", "application/json", body).with("Content-Encoding", coding);
    let (good, bad) = (b"{\"name\":\"a\"}".as_slice(), b"{\"name\":1}".as_slice());
    let encoders: [(&str, Encoder); 6] =
        [("gzip", gzip), ("x-gzip", gzip), ("deflate", zlib), ("deflate", deflate), ("br", brotli), ("zstd", zstd)];
    for (coding, encode) in encoders {
        assert_eq!(decision(&contract, &coded(coding, encode(good))), "ok", "{coding}");
        assert_eq!(decision(&contract, &coded(coding, encode(bad))), "type body /name", "{coding}");
        let trailing = [encode(good), b"x".to_vec()].concat();
        assert_eq!(
            decision(&contract, &coded(coding, trailing)),
            "content_encoding_malformed body",
            "{coding} trailing"
        );
        let twice = [encode(b"{\"name\":"), encode(b"\"a\"}")].concat();
        assert_eq!(decision(&contract, &coded(coding, twice)), "content_encoding_malformed body", "{coding} twice");
        let cut = encode(good)[..encode(good).len() - 1].to_vec();
        assert_eq!(decision(&contract, &coded(coding, cut)), "content_encoding_malformed body", "{coding} cut");
        assert_ne!(decision(&contract, &coded(coding, good.to_vec())), "ok", "{coding} plain");
    }
    let mut wrong_sum = gzip(good);
    let at = wrong_sum.len() - 5;
    wrong_sum[at] ^= 1;
    assert_eq!(decision(&contract, &coded("gzip", wrong_sum)), "content_encoding_malformed body");
    for coding in ["compress", "gzip, br", "gzip, gzip", "", "GZIP2"] {
        let decision = decision(&contract, &coded(coding, gzip(good)));
        assert_eq!(decision, "content_encoding_rejected header content-encoding", "{coding}");
    }
    assert_eq!(decision(&contract, &coded("identity", good.to_vec())), "ok");
    let twice = coded("gzip", gzip(good)).with("Content-Encoding", "gzip");
    assert_eq!(decision(&contract, &twice), "content_encoding_rejected header content-encoding");
    let off = Options { codings: Codings { gzip: false, ..Codings::default() }, ..Options::default() };
    let off = contract_with(&text, &off);
    assert_eq!(decision(&off, &coded("gzip", gzip(good))), "content_encoding_rejected header content-encoding");
}

#[test]
fn decoding_bombs_are_stopped() {
    let limits = Limits { decoded_body_bytes: 300_000, ..Limits::default() };
    let text = posting("{application/octet-stream: {}}");
    let contract = contract_with(&text, &Options { limits, ..Options::default() });
    let coded = |body: Vec<u8>| Request::post("/a", "application/octet-stream", body).with("Content-Encoding", "gzip");
    assert_eq!(decision(&contract, &coded(gzip(&[0; 60_000]))), "ok");
    assert_eq!(decision(&contract, &coded(gzip(&[0; 200_000]))), "body_ratio body");
    let noise: Vec<u8> = (0..400_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(decision(&contract, &coded(gzip(&noise))), "body_decoded_too_large body");
    // Windows beyond what RFC 9659 allows, and the gigabyte windows of a Brotli extension.
    let zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0, 0, 0];
    let request = Request::post("/a", "application/octet-stream", zstd).with("Content-Encoding", "zstd");
    assert_eq!(decision(&contract, &request), "content_encoding_malformed body");
    let request =
        Request::post("/a", "application/octet-stream", vec![0x11, 0x1e, 0, 0]).with("Content-Encoding", "br");
    assert_eq!(decision(&contract, &request), "content_encoding_malformed body");
}

#[test]
fn bodies_are_bounded() {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let contract = contract_with(&posting("{application/json: {}}"), &Options { limits, ..Options::default() });
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", "1234567890")), "ok");
    assert_eq!(decision(&contract, &Request::post("/a", "application/json", "12345678901")), "body_too_large body");
}
