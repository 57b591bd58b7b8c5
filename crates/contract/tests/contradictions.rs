//! Schemas that nothing can fit, and patterns of other dialects: `check` and `lint` warn of them before traffic meets them.

use contract::Contract;
use contract::options::Options;

/// Components that the schemas below may refer to.
const COMPONENTS: &str = "components:
  schemas:
    Closed: { type: object, properties: { a: { type: string } }, additionalProperties: false }
    Short: { type: string, maxLength: 3 }
    Loop: { allOf: [{ $ref: '#/components/schemas/Loop2' }] }
    Loop2: { type: object, properties: { next: { $ref: '#/components/schemas/Loop' } } }
";

/// A schema, and a piece of each warning about it.
const ROWS: &[(&str, &[&str])] = &[
    ("{ type: integer, enum: [1, 2] }", &[]),
    ("{ type: integer, enum: [1, 2.0, 1e3] }", &[]),
    ("{ type: [string, 'null'], enum: [a, null] }", &[]),
    ("{ enum: [a, 1, null, []] }", &[]),
    ("{ type: integer, enum: ['1', '2'] }", &["no value of `enum` is of the type `integer`"]),
    ("{ type: integer, enum: [1, '2'] }", &["\"2\" in `enum` is not of the type `integer`"]),
    ("{ type: integer, enum: [1, 1.5] }", &["1.5 in `enum` is not of the type `integer`"]),
    ("{ type: number, enum: [1, 1.5] }", &[]),
    ("{ type: string, enum: [yes, true] }", &["true in `enum`"]),
    ("{ type: string, enum: [a, null] }", &["null in `enum` is not of the type `string`"]),
    ("{ type: [string, boolean], enum: [a, 1] }", &["is not of the type `string` or `boolean`"]),
    ("{ type: string, const: 7 }", &["no value of `const`"]),
    ("{ type: array, enum: [[a], {}] }", &["an object in `enum`"]),
    ("{ type: integer, minimum: 5, maximum: 4 }", &["above the minimum 5 and below the maximum 4"]),
    ("{ type: integer, minimum: 5, maximum: 5.0 }", &[]),
    ("{ type: number, exclusiveMinimum: 5, maximum: 5 }", &["above the minimum 5"]),
    ("{ type: integer, format: int32, minimum: 3000000000 }", &["minimum 3000000000 and below the maximum 2147483647"]),
    ("{ type: string, minLength: 3, maxLength: 2 }", &["`minLength` 3 is above `maxLength` 2"]),
    ("{ type: array, items: {}, minItems: 1, maxItems: 0 }", &["`minItems` 1 is above `maxItems` 0"]),
    ("{ type: object, minProperties: 2, maxProperties: 1 }", &["`minProperties` 2"]),
    // A bound of strings says nothing of numbers.
    ("{ type: integer, minLength: 3, maxLength: 2 }", &[]),
    ("{ type: object, required: [b], properties: { a: {} }, additionalProperties: false }", &["`b` is required"]),
    ("{ type: object, required: [b], properties: { b: {} }, additionalProperties: false }", &[]),
    ("{ type: object, required: [b], patternProperties: { '^b$': {} }, additionalProperties: false }", &[]),
    ("{ type: object, required: [b], properties: { a: {} } }", &[]),
    ("{ type: object, required: [a], properties: { a: false } }", &["`a` is required"]),
    ("{ allOf: [{ type: string }, { type: integer }] }", &["types that exclude each other"]),
    ("{ allOf: [{ type: integer }, { type: number }] }", &[]),
    ("{ type: string, allOf: [{ type: [object, 'null'] }] }", &["types that exclude each other"]),
    (
        "{ allOf: [{ $ref: '#/components/schemas/Closed' }, { required: [b], properties: { b: {} } }] }",
        &["`b` is required"],
    ),
    ("{ allOf: [{ $ref: '#/components/schemas/Closed' }, { required: [a] }] }", &[]),
    (
        "{ allOf: [{ $ref: '#/components/schemas/Short' }, { minLength: 4 }] }",
        &["`minLength` 4 is above `maxLength` 3"],
    ),
    ("{ allOf: [{ minimum: 5 }, { type: integer, maximum: 4 }] }", &["above the minimum 5"]),
    ("{ anyOf: [{ type: string }, { type: integer }] }", &[]),
    // What contradicts itself is told of where it does, not where it is taken in.
    ("{ allOf: [{ type: string, minLength: 3, maxLength: 2 }, { description: d }] }", &["`minLength` 3"]),
    ("{ $ref: '#/components/schemas/Loop' }", &[]),
    ("{ type: string, pattern: '/^a$/i' }", &["its slashes belong to the text"]),
    ("{ type: string, pattern: '^[[:alpha:]]+$' }", &["`[:alpha:]` is no class"]),
    ("{ type: string, pattern: '^/a/[a-z]+$' }", &[]),
];

fn warnings(document: &str, options: &Options) -> Vec<String> {
    let contract = Contract::from_text("a.yaml", document, options).unwrap_or_else(|why| panic!("{why:?}\n{document}"));
    contract.warnings().iter().map(ToString::to_string).collect()
}

fn document(version: &str, schema: &str) -> String {
    format!(
        "openapi: {version}\ninfo: {{ title: t, version: '1' }}\npaths:\n  /a:\n    post:\n      requestBody: {{ content: {{ application/json: {{ schema: {schema} }} }} }}\n      responses: {{ '200': {{ description: d, content: {{ application/json: {{ schema: {schema} }} }} }} }}\n{COMPONENTS}"
    )
}

#[test]
fn what_nothing_can_fit_is_told_where_it_is() {
    for (schema, expected) in ROWS {
        let found = warnings(&document("3.1.0", schema), &Options::default());
        // Once for the request and once for the response, each at its own place.
        assert_eq!(found.len(), 2 * expected.len(), "{schema}: {found:?}");
        for (line, found) in [6, 7].into_iter().zip(found.chunks(expected.len().max(1))) {
            for (expected, found) in expected.iter().zip(found) {
                assert!(found.contains(expected) && found.contains(&format!("a.yaml:{line}:")), "{schema}: {found}");
            }
        }
    }
}

#[test]
fn nullable_belongs_to_the_types_of_3_0() {
    for (schema, expected) in [
        ("{ type: string, nullable: true, enum: [a, null] }", 0),
        ("{ type: string, enum: [a, null] }", 2),
        ("{ type: integer, minimum: 5, exclusiveMinimum: true, maximum: 5 }", 2),
    ] {
        let found = warnings(&document("3.0.3", schema), &Options::default());
        assert_eq!(found.len(), expected, "{schema}: {found:?}");
    }
}

#[test]
fn a_path_parameter_should_say_that_it_is_required() {
    let with = |more: &str| {
        format!(
            "openapi: 3.1.0\ninfo: {{ title: t, version: '1' }}\npaths:\n  /a/{{b}}:\n    parameters: [{{ name: b, in: path, {more}schema: {{ type: string }} }}]\n    get: {{ responses: {{ '204': {{ description: d }} }} }}\n"
        )
    };
    let found = warnings(&with(""), &Options::default());
    assert!(found.len() == 1 && found[0].contains("required: true"), "{found:?}");
    assert_eq!(warnings(&with("required: true, "), &Options::default()), Vec::<String>::new());
}

#[test]
fn a_status_beside_responses_is_told_where_it_belongs() {
    let document = "openapi: 3.1.0\ninfo: { title: t, version: '1' }\npaths:\n  /a:\n    get:\n      responses: { '204': { description: d } }\n      '404': { description: gone }\n";
    let found = warnings(document, &Options::default());
    assert!(
        found.len() == 1 && found[0].contains(":7:7: `404`") && found[0].contains("below `responses`"),
        "{found:?}"
    );
}

/// A chain in which each takes in all before it would be looked at for hours without a bound.
#[test]
fn many_that_take_in_each_other_end() {
    let chain: String = (0..3_000)
        .map(|n| format!("    S{n}: {{ required: [m{n}], allOf: [{{ $ref: '#/components/schemas/S{}' }}] }}\n", n + 1))
        .collect();
    let schema = "{ $ref: '#/components/schemas/S0' }";
    let document = format!("{}{chain}    S3000: {{ type: object }}\n", document("3.1.0", schema));
    assert_eq!(warnings(&document, &Options::default()), Vec::<String>::new());
}
