//! Documents with holes, and what `contract::lint` says of them.

use std::collections::BTreeSet;

use contract::lint::{Rule, lint_text};
use contract::options::Options;

/// A document with nothing to say about, but for what is put in place of its marks.
const GOOD: &str = r##"openapi: 3.1.0
info: { title: Pets, version: "1" }
security: [{ key: [] }]
paths:
  /pets/{id}:
    parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
    get:
      responses: { "200": { description: a pet, content: { application/json: { schema: { $ref: "#/components/schemas/Pet" } } } } }
    put:
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: "#/components/schemas/Pet" } } }
      responses: { "204": { description: stored } }
components:
  securitySchemes: { key: { type: apiKey, in: header, name: X-Key } }
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: { type: string, maxLength: 40, examples: [Rex] }
        tags: { type: array, maxItems: 9, items: { type: string, enum: [a, b] } }
        owner: { oneOf: [{ type: string, format: uuid }, { $ref: "#/components/schemas/Pet" }] }
        size: { allOf: [{ type: string }, { maxLength: 3, pattern: "^[a-z]+$" }] }
"##;

/// What is put in place of what, and what is then found.
const ROWS: [(&str, &str, &[&str]); 31] = [
    ("maxLength: 40, ", "", &["21 string_unbounded PUT /pets/{id}"]),
    ("maxLength: 40", "maxLenght: 40", &["21 string_unbounded PUT /pets/{id}", "21 unsupported "]),
    ("maxLength: 40", "color: red, maxLength: 40", &["21 without_effect "]),
    ("maxLength: 40, examples: [Rex]", "format: uuid, examples: [550e8400-e29b-41d4-a716-446655440000]", &[]),
    ("examples: [Rex]", "examples: [7]", &["21 example_invalid GET /pets/{id}"]),
    ("examples: [Rex]", "default: null", &["21 example_invalid GET /pets/{id}"]),
    ("maxItems: 9, ", "", &["22 array_unbounded PUT /pets/{id}"]),
    (", items: { type: string, enum: [a, b] }", "", &["22 any_value GET /pets/{id}"]),
    ("{ type: string, enum: [a, b] }", "{}", &[]),
    ("{ type: string, enum: [a, b] }", "{ enum: [a, 1] }", &[]),
    (
        "type: string, format: uuid",
        "type: string, format: phone",
        &["23 string_unbounded PUT /pets/{id}", "23 format_unknown GET /pets/{id}"],
    ),
    ("^[a-z]+$", "[a-z]+", &["24 pattern_unanchored GET /pets/{id}"]),
    ("{ maxLength: 3, pattern: \"^[a-z]+$\" }", "{ minLength: 3 }", &["24 string_unbounded PUT /pets/{id}"]),
    ("        size: { allOf", "        free: true\n        size: { allOf", &["24 any_value GET /pets/{id}"]),
    ("      type: object\n      required", "      required", &["18 type_missing GET /pets/{id}"]),
    ("      required: [name]\n", "      additionalProperties: true\n", &["18 object_open GET /pets/{id}"]),
    (
        "      required: [name]\n",
        "      additionalProperties: { type: integer }\n",
        &["18 object_unbounded PUT /pets/{id}"],
    ),
    ("      required: [name]\n", "      additionalProperties: false\n", &[]),
    (
        "{ oneOf: [{ type: string, format: uuid }, { $ref: \"#/components/schemas/Pet\" }] }",
        "{ type: object }",
        &["23 object_open GET /pets/{id}"],
    ),
    (
        "security: [{ key: [] }]\n",
        "",
        &["7 security_undeclared GET /pets/{id}", "9 security_undeclared PUT /pets/{id}"],
    ),
    ("security: [{ key: [] }]", "security: [{ key: [] }, {}]", &["3 security_optional GET /pets/{id}"]),
    ("security: [{ key: [] }]", "security: []", &[]),
    ("in: header, name: X-Key", "in: query, name: key", &["15 key_in_query "]),
    (
        ", content: { application/json: { schema: { $ref: \"#/components/schemas/Pet\" } } } } }\n    put",
        " } }\n    put",
        &["8 response_undescribed GET /pets/{id}"],
    ),
    (
        "\"204\": { description: stored }",
        "\"200\": { description: stored, content: { application/json: {} } }",
        &["13 response_unchecked PUT /pets/{id}"],
    ),
    (
        "\"204\": { description: stored }",
        "\"204\": { description: stored }, default: { description: all }",
        &["13 any_status PUT /pets/{id}"],
    ),
    ("        required: true\n", "", &["11 body_optional PUT /pets/{id}"]),
    (
        "        content: { application/json: { schema",
        "        content: { image/png: {}, application/json: { schema",
        &["12 body_unchecked PUT /pets/{id}"],
    ),
    (
        "        content: { application/json: { schema",
        "        content: { text/*: { schema: { type: string, maxLength: 9 } }, application/json: { schema",
        &["12 media_range PUT /pets/{id}"],
    ),
    (
        "components:\n",
        "  /pets/{name}:\n    delete: { parameters: [{ name: name, in: path, required: true, schema: { type: integer } }], responses: { \"204\": { description: gone } } }\ncomponents:\n",
        &["14 same_shape "],
    ),
    ("{ type: integer } }]\n", "{ type: integer }, example: seven }]\n", &["6 example_invalid GET /pets/{id}"]),
];

/// Line, rule and operation of everything found.
fn found(document: &str) -> Vec<String> {
    let findings = lint_text("pets.yaml", document, &Options::default())
        .unwrap_or_else(|problems| panic!("{problems:?}\n{document}"));
    findings
        .iter()
        .map(|finding| format!("{} {} {}", finding.problem.line, finding.rule.code(), finding.operation))
        .collect()
}

#[test]
fn a_document_without_holes_has_no_findings() {
    assert_eq!(found(GOOD), Vec::<String>::new());
}

#[test]
fn each_hole_is_found_where_it_is() {
    let mut seen = BTreeSet::new();
    for (mark, instead, expected) in ROWS {
        assert!(GOOD.contains(mark), "{mark}");
        let document = GOOD.replacen(mark, instead, 1);
        let found = found(&document);
        seen.extend(found.iter().filter_map(|line| Some(line.split(' ').nth(1)?.to_owned())));
        assert_eq!(found, expected, "{mark} -> {instead}");
    }
    let untried: Vec<&str> = Rule::ALL.iter().map(|rule| rule.code()).filter(|code| !seen.contains(*code)).collect();
    assert!(untried.is_empty(), "no row for {untried:?}");
}

#[test]
fn an_example_without_what_is_required_says_so() {
    let document = GOOD.replacen("      properties:\n", "      example: { tags: [a] }\n      properties:\n", 1);
    let findings = lint_text("pets.yaml", &document, &Options::default()).unwrap();
    assert!(findings.len() == 1 && findings[0].problem.what.ends_with("`/name` is required"), "{findings:?}");
}

#[test]
fn a_document_that_does_not_load_is_rejected_as_it_would_be_at_start() {
    let problems = lint_text("pets.yaml", "openapi: 3.1.0\npaths: [", &Options::default()).unwrap_err();
    assert!(problems[0].to_string().starts_with("pets.yaml:"), "{problems:?}");
}

#[test]
fn schemas_that_refer_to_themselves_end() {
    let long: String = (0..3_000)
        .map(|n| format!("    S{n}: {{ type: object, additionalProperties: false, properties: {{ next: {{ $ref: '#/components/schemas/S{}' }} }} }}\n", (n + 1) % 3_000))
        .collect();
    let document = format!(
        "openapi: 3.1.0\ninfo: {{ title: t, version: '1' }}\nsecurity: []\npaths:\n  /:\n    post:\n      requestBody: {{ required: true, content: {{ application/json: {{ schema: {{ $ref: '#/components/schemas/S0' }} }} }} }}\n      responses: {{ '204': {{ description: d }} }}\ncomponents:\n  schemas:\n{long}"
    );
    assert_eq!(found(&document), Vec::<String>::new());
}
