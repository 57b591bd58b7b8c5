//! Parameters: every style and explode in every place, coercion, repetition, absence, and what nobody declared.

use contract::options::{Options, Undeclared};

use super::{Request, all_decisions, contract, contract_with, decision, shadows};

const HEAD: &str = "openapi: 3.1.0\ninfo: {title: t, version: '1'}\npaths:\n";

/// A document with one GET whose only parameter is this, in flow style; `{p}` stands in the path if it is a path parameter.
fn one(parameter: &str) -> String {
    let path = if parameter.contains("in: path") { "/a/{p}" } else { "/a" };
    format!(
        "{HEAD}  {path}:\n    get:\n      parameters:\n        - {{name: p, {parameter}}}\n      responses: {{'200': {{description: ok}}}}\n"
    )
}

#[track_caller]
fn check(parameter: &str, rows: &[(&str, &str)]) {
    let contract = contract(&one(parameter));
    for (sent, expected) in rows {
        let request = match parameter {
            _ if parameter.contains("in: header") => Request::get("/a").with("P", sent),
            _ if parameter.contains("in: cookie") => Request::get("/a").with("Cookie", sent),
            _ if parameter.contains("in: path") => Request::get(&format!("/a/{sent}")),
            _ => Request::get(&format!("/a?{sent}")),
        };
        assert_eq!(decision(&contract, &request), *expected, "{parameter}: {sent}");
    }
}

const COLOUR: &str = "schema: {type: object, properties: {R: {type: integer}, G: {type: integer}}, required: [R], additionalProperties: false}";
const LIST: &str = "schema: {type: array, items: {type: integer}, maxItems: 3}";

#[test]
fn path_styles() {
    check(
        "in: path, required: true, schema: {type: integer, minimum: 1}",
        &[
            ("5", "ok"),
            ("0", "minimum path p"),
            ("x", "type path p"),
            ("0x10", "type path p"),
            ("+5", "type path p"),
            ("05", "type path p"),
            ("1_000", "type path p"),
            ("1.0", "type path p"),
            ("%35", "ok"),
            ("5%2", "parameter_malformed path p"),
        ],
    );
    check(
        &format!("in: path, required: true, {LIST}"),
        &[("1,2,3", "ok"), ("1,2,3,4", "max_items path p"), ("1,x", "type path p /1"), ("1%2C2", "type path p /0")],
    );
    check(
        &format!("in: path, required: true, style: label, {LIST}"),
        &[(".1,2", "ok"), ("1,2", "parameter_malformed path p")],
    );
    check(
        &format!("in: path, required: true, style: label, explode: true, {LIST}"),
        &[(".1.2", "ok"), (".1,2", "type path p /0")],
    );
    check(
        &format!("in: path, required: true, style: matrix, {LIST}"),
        &[(";p=1,2", "ok"), (";q=1", "parameter_malformed path p")],
    );
    check(
        &format!("in: path, required: true, style: matrix, explode: true, {LIST}"),
        &[(";p=1;p=2", "ok"), (";p=1;q=2", "parameter_malformed path p")],
    );
    check(
        &format!("in: path, required: true, {COLOUR}"),
        &[("R,1,G,2", "ok"), ("R,1,G", "parameter_malformed path p"), ("G,1", "required path p /R")],
    );
    check(
        &format!("in: path, required: true, explode: true, {COLOUR}"),
        &[("R=1,G=2", "ok"), ("R,1", "parameter_malformed path p")],
    );
    check(&format!("in: path, required: true, style: label, explode: true, {COLOUR}"), &[(".R=1.G=2", "ok")]);
    check(&format!("in: path, required: true, style: label, {COLOUR}"), &[(".R,1,G,2", "ok")]);
    check(&format!("in: path, required: true, style: matrix, explode: true, {COLOUR}"), &[(";R=1;G=2", "ok")]);
    check(&format!("in: path, required: true, style: matrix, {COLOUR}"), &[(";p=R,1,G,2", "ok")]);
    check(
        "in: path, required: true, style: label, schema: {type: string}",
        &[(".a", "ok"), ("a", "parameter_malformed path p")],
    );
    check(
        "in: path, required: true, style: matrix, schema: {type: string}",
        &[(";p=a", "ok"), (";p", "ok"), ("a", "parameter_malformed path p")],
    );
}

#[test]
fn query_styles() {
    check(
        &format!("in: query, {LIST}"),
        &[("p=1&p=2", "ok"), ("p=1", "ok"), ("p=1&p=2&p=3&p=4", "max_items query p"), ("p=1,2", "type query p /0")],
    );
    check(
        &format!("in: query, explode: false, {LIST}"),
        &[
            ("p=1,2", "ok"),
            ("p=1&p=2", "parameter_repeated query p"),
            ("p=1%2C2", "type query p /0"),
            ("p=", "parameter_empty query p"),
        ],
    );
    check(
        &format!("in: query, style: spaceDelimited, {LIST}"),
        &[("p=1%202", "ok"), ("p=1+2", "ok"), ("p=1,2", "type query p /0")],
    );
    check(
        &format!("in: query, style: pipeDelimited, {LIST}"),
        &[("p=1|2", "ok"), ("p=1%7C2", "ok"), ("p=1%7c2", "ok")],
    );
    check(
        &format!("in: query, {COLOUR}"),
        &[("R=1&G=2", "ok"), ("G=2", "required query p /R"), ("R=1&R=2", "parameter_repeated query p"), ("", "ok")],
    );
    let nullable = COLOUR.replace("type: object", "type: [object, 'null']");
    check(&format!("in: query, {nullable}"), &[("R=1&G=2", "ok"), ("p=R,1", "parameter_undeclared query p")]);
    check(
        &format!("in: query, {}", COLOUR.replace("type: object", "type: [object, integer]")),
        &[("p=1", "ok"), ("p=R,1", "type query p")],
    );
    check(
        &format!("in: query, explode: false, {COLOUR}"),
        &[("p=R,1,G,2", "ok"), ("p=R,1,X,2", "unknown_field query p /X")],
    );
    check(&format!("in: query, style: spaceDelimited, explode: false, {COLOUR}"), &[("p=R%201%20G%202", "ok")]);
    check(&format!("in: query, style: pipeDelimited, explode: false, {COLOUR}"), &[("p=R|1|G|2", "ok")]);
    check(
        "in: query, schema: {type: object, additionalProperties: {type: integer}}",
        &[("x=1&y=2", "ok"), ("x=a", "type query p /x")],
    );
}

#[test]
fn deep_objects() {
    let schema = "schema: {type: object, properties: {R: {type: integer}, list: {type: array, items: {type: integer}}, in: {type: object, properties: {x: {type: string}}, additionalProperties: false}}, additionalProperties: false}";
    check(
        &format!("in: query, style: deepObject, explode: true, {schema}"),
        &[
            ("p[R]=1", "ok"),
            ("p%5BR%5D=1", "ok"),
            ("p[R]=x", "type query p /R"),
            ("p[X]=1", "unknown_field query p /X"),
            ("p[in][x]=a", "ok"),
            ("p[in][y]=a", "unknown_field query p /in/y"),
            ("p[list][0]=1&p[list][1]=2", "ok"),
            ("p[list][1]=2&p[list][0]=1", "ok"),
            ("p[list][0]=1&p[list][2]=2", "parameter_malformed query p"),
            ("p[list][999999999]=1", "parameter_limit query p"),
            ("p[list][99999999999999999999]=1", "parameter_malformed query p"),
            ("p[list][]=1&p[list][]=2", "ok"),
            ("p[list]=1&p[list]=2", "ok"),
            ("p[R]=1&p[R]=2", "parameter_repeated query p"),
            ("p[R=1", "parameter_malformed query p"),
            ("p[R]x=1", "parameter_malformed query p"),
            ("p[R]=1&p[R][a]=2", "parameter_malformed query p"),
            ("p[a][a][a][a][a][a][a][a][a]=1", "parameter_limit query p"),
            ("p=1", "parameter_undeclared query p"),
        ],
    );
}

#[test]
fn header_and_cookie_styles() {
    check("in: header, schema: {type: integer}", &[("5", "ok"), ("a", "type header p"), ("%35", "type header p")]);
    check(&format!("in: header, {LIST}"), &[("1,2", "ok"), ("1 , 2", "ok"), ("1,x", "type header p /1")]);
    check(&format!("in: header, {COLOUR}"), &[("R,1,G,2", "ok")]);
    check(&format!("in: header, explode: true, {COLOUR}"), &[("R=1, G=2", "ok")]);
    check(
        "in: cookie, schema: {type: integer}",
        &[("p=5", "ok"), ("x=1; p=5", "ok"), ("p=a", "type cookie p"), ("p=1; p=2", "parameter_repeated cookie p")],
    );
    check(&format!("in: cookie, explode: false, {LIST}"), &[("p=1,2", "ok"), ("p=1,x", "type cookie p /1")]);
    check(&format!("in: cookie, {LIST}"), &[("p=1; p=2", "ok")]);
    check(&format!("in: cookie, explode: false, {COLOUR}"), &[("p=R,1,G,2", "ok")]);
    check(&format!("in: cookie, {COLOUR}"), &[("R=1; G=2", "ok")]);
}

#[test]
fn content_parameters() {
    let json = "content: {application/json: {schema: {type: object, properties: {a: {type: integer}}, additionalProperties: false}}}";
    check(
        &format!("in: query, {json}"),
        &[
            ("p=%7B%22a%22:1%7D", "ok"),
            ("p=%7B%22a%22:%22x%22%7D", "type query p /a"),
            ("p={", "json_truncated query p"),
            ("p=null", "type query p"),
            ("p=%7B%7D%7B%7D", "json_trailing_data query p"),
            ("p=", "json_truncated query p"),
        ],
    );
    check(&format!("in: header, {json}"), &[("{\"a\":1}", "ok"), ("[]", "type header p")]);
    check(
        "in: query, content: {text/plain: {schema: {type: string, maxLength: 2}}}",
        &[("p=ab", "ok"), ("p=abc", "max_length query p")],
    );
}

#[test]
fn coercion_is_jsons_grammar() {
    check(
        "in: query, schema: {type: boolean}",
        &[
            ("p=true", "ok"),
            ("p=false", "ok"),
            ("p=1", "type query p"),
            ("p=t", "type query p"),
            ("p=TRUE", "type query p"),
            ("p=0", "type query p"),
        ],
    );
    check(
        "in: query, schema: {type: integer, format: int32}",
        &[
            ("p=2147483647", "ok"),
            ("p=2147483648", "maximum query p"),
            ("p=0b1", "type query p"),
            ("p=0o7", "type query p"),
            ("p=NaN", "type query p"),
            ("p=1e400", "type query p"),
            ("p=9007199254740993", "maximum query p"),
        ],
    );
    check(
        "in: query, schema: {type: number}",
        &[("p=1.5e3", "ok"), ("p=1.0.1", "type query p"), ("p=Infinity", "type query p"), ("p=%2B1", "type query p")],
    );
    check(
        "in: query, schema: {oneOf: [{type: integer, maximum: 5}, {type: string, pattern: '^1'}]}",
        &[("p=3", "ok"), ("p=12", "ok"), ("p=22", "maximum query p")],
    );
    check(
        "in: query, schema: {type: ['null', integer]}",
        &[("p=null", "ok"), ("p=1", "ok"), ("p=nil", "type query p")],
    );
    check(
        "in: query, schema: {type: string}",
        &[
            ("p=12", "ok"),
            ("p=true", "ok"),
            ("p=", "ok"),
            ("p=%ff", "parameter_malformed query p"),
            ("p=%zz", "parameter_malformed query p"),
        ],
    );
    check(
        "in: query, schema: {type: string, enum: ['1', 'true']}",
        &[("p=1", "ok"), ("p=true", "ok"), ("p=2", "enum query p")],
    );
    check("in: query, schema: {not: {type: integer}}", &[("p=a", "ok")]);
    check("in: query, schema: {type: string, minLength: 1}", &[("p=a+b", "ok"), ("p=%61%22%5C", "ok")]);
}

/// Texts, and whether they are integers.
const SENT: [(&str, bool); 12] = [
    ("10", true),
    ("0", true),
    ("-0", true),
    ("-12", true),
    ("123456789012345678901234567890", true),
    ("1000e-2", false),
    ("1e1", false),
    ("1E%2B1", false),
    ("10.0", false),
    ("010", false),
    ("%2B10", false),
    ("%2010", false),
];

/// What reads integers from text (`parseInt`, `strtol`) stops at a point or an `e`: `1000e-2` is 10 by value and 1000 to them.
#[test]
fn integers_as_text_are_digits() {
    let integer = "{type: integer}";
    let objects = format!("{{type: object, properties: {{R: {integer}}}, additionalProperties: false}}");
    // Also where text is read by a schema that says nothing of types by itself, or more than one.
    let places = [
        ("in: path, required: true, schema: {type: integer}", ""),
        ("in: query, schema: {type: integer}", "p="),
        ("in: query, schema: {allOf: [{type: number}, {type: integer}]}", "p="),
        ("in: query, schema: {anyOf: [{type: integer}, {type: boolean}]}", "p="),
        ("in: query, schema: {type: [integer, 'null']}", "p="),
        ("in: query, schema: {type: array, items: {type: integer}}", "p=1&p="),
        ("in: query, schema: {type: array, prefixItems: [{type: integer}]}", "p="),
        ("in: query, explode: false, schema: {type: array, items: {type: integer}}", "p=1,"),
        (
            "in: query, schema: {type: object, patternProperties: {'^R': {type: integer}}, additionalProperties: false}",
            "R=",
        ),
        (&format!("in: query, style: deepObject, explode: true, schema: {objects}"), "p[R]="),
        (&format!("in: query, schema: {objects}"), "R="),
        ("in: cookie, schema: {type: integer}", "p="),
    ];
    for (parameter, before) in places {
        let contract = contract(&one(parameter));
        for (sent, is_good) in SENT {
            if before.starts_with("p=") && parameter.contains("in: cookie") && sent.contains('%') {
                continue;
            }
            let text = format!("{before}{sent}");
            let request = match parameter {
                _ if parameter.contains("in: cookie") => Request::get("/a").with("Cookie", &text),
                _ if parameter.contains("in: path") => Request::get(&format!("/a/{text}")),
                _ => Request::get(&format!("/a?{text}")),
            };
            let decision = decision(&contract, &request);
            assert_eq!(decision == "ok", is_good, "{parameter}: {text}: {decision}");
        }
    }
}

#[test]
fn texts_that_stand_for_numbers_otherwise() {
    check(
        "in: header, schema: {type: integer}",
        &[("10", "ok"), ("1000e-2", "type header p"), ("10.0", "type header p")],
    );
    check("in: query, schema: {type: number, format: int64}", &[("p=10", "ok"), ("p=1000e-2", "format query p")]);
    check(
        "in: query, schema: {enum: [10, 20]}",
        &[("p=10", "ok"), ("p=1e1", "enum query p"), ("p=20.0", "enum query p")],
    );
    check("in: query, schema: {const: 10}", &[("p=10", "ok"), ("p=1000e-2", "const query p")]);
    check(
        "in: query, schema: {type: number, enum: [10, 1.5]}",
        &[("p=10", "ok"), ("p=15e-1", "ok"), ("p=2", "enum query p")],
    );
    check("in: query, schema: {type: [integer, string]}", &[("p=1e1", "ok")]);
    // Booleans are two words.
    check(
        "in: query, schema: {type: boolean}",
        &[("p=true", "ok"), ("p=True", "type query p"), ("p=%20true", "type query p")],
    );
    // JSON is JSON wherever it stands.
    check(
        "in: query, content: {application/json: {schema: {type: integer}}}",
        &[("p=10.0", "ok"), ("p=1e1", "ok"), ("p=1.5", "type query p")],
    );
}

/// The best-known firewall validates the first value and forwards all of them.
#[test]
fn a_repeated_scalar_is_rejected() {
    check(
        "in: query, schema: {type: integer}",
        &[("p=1", "ok"), ("p=1&p=x", "parameter_repeated query p"), ("p=1&%70=2", "parameter_repeated query p")],
    );
    let header = contract(&one("in: header, schema: {type: integer}"));
    assert_eq!(decision(&header, &Request::get("/a").with("P", "1").with("p", "x")), "parameter_repeated header p");
    let list = contract(&one(&format!("in: header, {LIST}")));
    assert_eq!(decision(&list, &Request::get("/a").with("P", "1,2").with("p", "3")), "ok");
    let lax = Options { allow_repeated_scalars: true, ..Options::default() };
    let contract = contract_with(&one("in: query, schema: {type: integer}"), &lax);
    assert_eq!(decision(&contract, &Request::get("/a?p=1&p=2")), "ok");
    assert_eq!(decision(&contract, &Request::get("/a?p=1&p=x")), "type query p");
}

#[test]
fn required_empty_and_reserved() {
    check(
        "in: query, required: true, schema: {type: string}",
        &[("p=a", "ok"), ("", "parameter_missing query p"), ("p", "ok")],
    );
    check(
        "in: query, allowEmptyValue: true, schema: {type: integer}",
        &[("p=", "ok"), ("p", "ok"), ("p=1", "ok"), ("p=&p=", "parameter_repeated query p")],
    );
    check("in: query, schema: {type: integer}", &[("p=", "parameter_empty query p")]);
    check(
        "in: query, schema: {type: string}",
        &[("p=a/b:c?d@e", "ok"), ("p=a;q=b", "parameter_malformed query p"), ("p=a%3Bb", "ok")],
    );
    check("in: query, allowReserved: true, schema: {type: string}", &[("p=a;b", "ok")]);
    check(
        &format!("in: query, {COLOUR}"),
        &[("R=1;G=2", "parameter_malformed query R"), ("R=1%3BG", "type query p /R")],
    );
    check(
        "in: query, style: deepObject, schema: {type: object, additionalProperties: {type: string}}",
        &[("p[a]=1;q=2", "parameter_malformed query p[a]"), ("p[a]=1", "ok")],
    );
    check(
        "in: query, schema: {type: string}",
        &[("p=a&;q=b", "query_malformed query ;q"), ("%ff=1", "query_malformed query %ff")],
    );
}

#[test]
fn undeclared_names_are_rejected_reported_or_ignored() {
    let text = one("in: query, schema: {type: integer}");
    let strict = contract(&text);
    assert_eq!(decision(&strict, &Request::get("/a?q=1")), "parameter_undeclared query q");
    assert_eq!(decision(&strict, &Request::get("/a?p[x]=1")), "parameter_undeclared query p[x]");
    assert_eq!(decision(&strict, &Request::get("/a").with("X-Other", "1").with("Cookie", "c=1")), "ok");
    let closed =
        Options { undeclared_fields: Undeclared::Reject, undeclared_cookies: Undeclared::Reject, ..Options::default() };
    let closed = contract_with(&text, &closed);
    assert_eq!(decision(&closed, &Request::get("/a").with("X-Other", "1")), "parameter_undeclared header x-other");
    assert_eq!(decision(&closed, &Request::get("/a").with("Cookie", "c=1")), "parameter_undeclared cookie c");
    assert_eq!(decision(&closed, &Request::get("/a").with("User-Agent", "x").with("Accept-Language", "de")), "ok");
    let report = Undeclared::Report;
    let open = Options {
        undeclared_query: report,
        undeclared_fields: report,
        undeclared_cookies: report,
        ..Options::default()
    };
    let open = contract_with(&text, &open);
    let request = Request::get("/a?p=1&q=1&q=2").with("X-Other", "1").with("Cookie", "c=1");
    assert_eq!(shadows(&open, &request), ["query q", "header x-other", "cookie c"]);
}

#[test]
fn all_violations_come_in_document_order() {
    let text = format!(
        "{HEAD}  /a/{{i}}:\n    get:\n      parameters:\n        - {{name: i, in: path, required: true, schema: {{type: integer}}}}\n        - {{name: h, in: header, required: true, schema: {{type: integer}}}}\n        - {{name: q, in: query, schema: {{type: integer}}}}\n        - {{name: r, in: query, required: true, schema: {{type: integer}}}}\n      responses: {{'200': {{description: ok}}}}\n"
    );
    let found = all_decisions(&contract(&text), &Request::get("/a/x?q=y&z=1"));
    assert_eq!(
        found,
        [
            "type path i",
            "type query q",
            "parameter_missing query r",
            "parameter_undeclared query z",
            "parameter_missing header h"
        ]
    );
}

#[test]
fn numbers_of_parameters_are_bounded() {
    let contract = contract(&one(&format!("in: query, {}", "schema: {type: array, items: {type: integer}}")));
    let many = vec!["p=1"; 257].join("&");
    assert_eq!(decision(&contract, &Request::get(&format!("/a?{many}"))), "parameter_limit query");
    let text = one("in: query, explode: false, schema: {type: array, items: {type: integer}}");
    let many = vec!["1"; 1001].join(",");
    assert_eq!(decision(&super::contract(&text), &Request::get(&format!("/a?p={many}"))), "parameter_limit query p");
}

/// The table of styles in OpenAPI 3.1.1 §4.8.12.4: each text must mean exactly the value that stands over its column.
#[test]
fn the_specifications_own_examples() {
    let text = "schema: {type: string, const: blue}";
    let list = "schema: {type: array, items: {type: string}, const: [blue, black, brown]}";
    let integer = "{type: integer}";
    let object = &format!(
        "schema: {{type: object, properties: {{R: {integer}, G: {integer}, B: {integer}}}, const: {{R: 100, G: 200, B: 150}}}}"
    );
    let rows = [
        ("path, style: matrix", false, [";p=blue", ";p=blue,black,brown", ";p=R,100,G,200,B,150"]),
        ("path, style: matrix", true, [";p=blue", ";p=blue;p=black;p=brown", ";R=100;G=200;B=150"]),
        ("path, style: label", false, [".blue", ".blue,black,brown", ".R,100,G,200,B,150"]),
        ("path, style: label", true, [".blue", ".blue.black.brown", ".R=100.G=200.B=150"]),
        ("path", false, ["blue", "blue,black,brown", "R,100,G,200,B,150"]),
        ("path", true, ["blue", "blue,black,brown", "R=100,G=200,B=150"]),
        ("header", false, ["blue", "blue,black,brown", "R,100,G,200,B,150"]),
        ("header", true, ["blue", "blue,black,brown", "R=100,G=200,B=150"]),
        ("query, style: form", false, ["p=blue", "p=blue,black,brown", "p=R,100,G,200,B,150"]),
        ("query, style: form", true, ["p=blue", "p=blue&p=black&p=brown", "R=100&G=200&B=150"]),
        ("query, style: spaceDelimited", false, ["", "p=blue%20black%20brown", "p=R%20100%20G%20200%20B%20150"]),
        ("query, style: pipeDelimited", false, ["", "p=blue%7Cblack%7Cbrown", "p=R%7C100%7CG%7C200%7CB%7C150"]),
        ("query, style: deepObject", true, ["", "", "p%5BR%5D=100&p%5BG%5D=200&p%5BB%5D=150"]),
    ];
    for (place, explode, [one, several, named]) in rows {
        for (schema, sent) in [(text, one), (list, several), (object.as_str(), named)] {
            if !sent.is_empty() {
                check(&format!("in: {place}, required: true, explode: {explode}, {schema}"), &[(sent, "ok")]);
            }
        }
    }
}

/// The best-known firewall blocks what composed schemas, exploded objects and API keys in the query declare, and lets nested fields pass.
#[test]
fn declared_by_composition_is_declared() {
    let composed = "schema: {allOf: [{type: object, properties: {a: {type: integer}}}, {oneOf: [{properties: {b: {type: integer}}, required: [b]}, {properties: {c: {type: integer}}, required: [c]}]}]}";
    check(
        &format!("in: query, {composed}"),
        &[
            ("a=1&b=2", "ok"),
            ("a=1&c=2", "ok"),
            ("a=1&c=x", "one_of query p"),
            ("a=1&c=2&d=3", "parameter_undeclared query d"),
        ],
    );
    let deep =
        "style: deepObject, schema: {type: object, properties: {a: {type: object, properties: {b: {type: integer}}}}}";
    check(&format!("in: query, {deep}"), &[("p[a][b]=1", "ok"), ("p[a][x]=1", "unknown_field query p /a/x")]);
}
