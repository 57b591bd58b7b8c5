//! What OpenAPI adds to JSON Schema, and what a contract makes of it: nullable, exclusive bounds, readOnly and writeOnly, discriminators, unknown
//! fields, and schemas that are rejected. And that no schema takes more than linear steps, or a budget ends it.

use crate::support;

use contract::limits::Limits;
use contract::reason::Reason;
use contract::schema::{Dialect, Direction, Event, Options, Run};
use support::node::parse;

/// A value, and where and why it is wrong.
type Row<'a> = (&'a str, Option<(Reason, &'a str)>);

fn check(schema: &str, dialect: Dialect, direction: Direction, options: Options, rows: &[Row<'_>]) {
    let node = parse(schema).unwrap();
    let (program, id) =
        support::compile(&node, dialect, direction, options).unwrap_or_else(|p| panic!("{schema}: {p:?}"));
    let mut run = Run::default();
    for (text, expected) in rows {
        for piece in [usize::MAX, 7, 1] {
            let found = support::validate(&program, id, &mut run, text.as_bytes(), piece).err();
            let found = found.as_ref().map(|violation| (violation.reason, violation.pointer.as_str()));
            assert_eq!(found, *expected, "{schema}: {text} in pieces of {piece}");
        }
    }
}

fn check_30(schema: &str, rows: &[Row<'_>]) {
    check(schema, Dialect::OpenApi30, Direction::Request, Options::default(), rows);
}

fn check_31(schema: &str, rows: &[Row<'_>]) {
    check(schema, Dialect::OpenApi31, Direction::Request, Options::default(), rows);
}

/// Under the setting that makes `readOnly` more than an annotation.
fn one_way() -> Options {
    Options { reject_read_only: Some(true), ..Options::default() }
}

/// A request under it, as 3.1.
fn check_one_way(schema: &str, rows: &[Row<'_>]) {
    check(schema, Dialect::OpenApi31, Direction::Request, one_way(), rows);
}

/// 3.1: an annotation (3.1.1 §4.8.24). 3.0 says what is required, whatever becomes of such members.
#[test]
fn read_only_is_an_annotation_in_3_1_unless_that_is_asked_for() {
    let schema = r#"{"type":"object","additionalProperties":false,"required":["id","name","secret"],"properties":{
        "id":{"type":"integer","readOnly":true},"name":{"type":"string"},"secret":{"type":"string","writeOnly":true}}}"#;
    let (all, no_id, no_secret) =
        (r#"{"id":1,"name":"a","secret":"s"}"#, r#"{"name":"a","secret":"s"}"#, r#"{"id":1,"name":"a"}"#);
    let wrong = r#"{"id":"x","name":"a","secret":"s"}"#;
    let missing = |pointer| Some((Reason::Required, pointer));
    let ignoring = || Options { reject_read_only: Some(false), ..Options::default() };
    for (dialect, direction, options, rows) in [
        (Dialect::OpenApi31, Direction::Request, Options::default(), [None, missing("/id"), missing("/secret")]),
        (Dialect::OpenApi31, Direction::Response, Options::default(), [None, missing("/id"), missing("/secret")]),
        (Dialect::OpenApi31, Direction::Request, ignoring(), [None, missing("/id"), missing("/secret")]),
        (
            Dialect::OpenApi31,
            Direction::Request,
            one_way(),
            [Some((Reason::ReadOnly, "/id")), None, Some((Reason::ReadOnly, "/id"))],
        ),
        (
            Dialect::OpenApi31,
            Direction::Response,
            one_way(),
            [Some((Reason::WriteOnly, "/secret")), Some((Reason::WriteOnly, "/secret")), None],
        ),
        (
            Dialect::OpenApi30,
            Direction::Request,
            Options::default(),
            [Some((Reason::ReadOnly, "/id")), None, Some((Reason::ReadOnly, "/id"))],
        ),
        (
            Dialect::OpenApi30,
            Direction::Request,
            one_way(),
            [Some((Reason::ReadOnly, "/id")), None, Some((Reason::ReadOnly, "/id"))],
        ),
        (Dialect::OpenApi30, Direction::Request, ignoring(), [None, None, missing("/secret")]),
        (Dialect::OpenApi30, Direction::Response, ignoring(), [None, missing("/id"), None]),
    ] {
        let rows: Vec<_> = [all, no_id, no_secret].into_iter().zip(rows).collect();
        check(schema, dialect, direction, options, &rows);
    }
    // What passes is of its type.
    check(schema, Dialect::OpenApi31, Direction::Request, Options::default(), &[(wrong, Some((Reason::Type, "/id")))]);
    check(schema, Dialect::OpenApi30, Direction::Request, ignoring(), &[(wrong, Some((Reason::Type, "/id")))]);
}

const TYPE: Reason = Reason::Type;

#[test]
fn nullable_needs_a_type_beside_it() {
    check_30(r#"{"type":"string","nullable":true}"#, &[("null", None), ("\"a\"", None), ("1", Some((TYPE, "")))]);
    check_30(
        r#"{"type":"string","nullable":true,"enum":["a"]}"#,
        &[("null", Some((Reason::Enum, ""))), ("\"a\"", None)],
    );
    check_30(r#"{"type":"string","nullable":true,"enum":["a",null]}"#, &[("null", None)]);
    check_30(r#"{"nullable":true,"allOf":[{"type":"object"}]}"#, &[("null", Some((TYPE, ""))), ("{}", None)]);
    check_30(
        r#"{"type":"object","properties":{"a":{"type":"integer","nullable":false}}}"#,
        &[(r#"{"a":null}"#, Some((TYPE, "/a")))],
    );
}

#[test]
fn exclusive_bounds_are_flags_in_one_dialect_and_numbers_in_the_other() {
    let rows: &[Row<'_>] = &[
        ("1", Some((Reason::Minimum, ""))),
        ("1.0000000000000000001", None),
        ("9", None),
        ("10", Some((Reason::Maximum, ""))),
        ("9.99999999999999999999", None),
    ];
    check_30(r#"{"minimum":1,"exclusiveMinimum":true,"maximum":10,"exclusiveMaximum":true}"#, rows);
    check_31(r#"{"exclusiveMinimum":1,"exclusiveMaximum":10}"#, rows);
    check_30(r#"{"minimum":1,"exclusiveMinimum":false}"#, &[("1", None), ("0", Some((Reason::Minimum, "")))]);
    check_31(
        r#"{"type":"integer","format":"int64"}"#,
        &[
            ("9223372036854775807", None),
            ("9223372036854775808", Some((Reason::Maximum, ""))),
            ("-9223372036854775809", Some((Reason::Minimum, ""))),
            ("1.0", None),
            ("1.5", Some((TYPE, ""))),
            ("\"1\"", Some((TYPE, ""))),
        ],
    );
}

#[test]
fn members_that_may_not_travel_are_rejected_and_not_required() {
    let schema = r#"{"type":"object","required":["id","name","secret"],"properties":{
        "id":{"type":"integer","readOnly":true},"name":{"type":"string"},"secret":{"allOf":[{"type":"string","writeOnly":true}]}}}"#;
    check(
        schema,
        Dialect::OpenApi30,
        Direction::Request,
        Options::default(),
        &[
            (r#"{"name":"a","secret":"s"}"#, None),
            (r#"{"name":"a","secret":"s","id":1}"#, Some((Reason::ReadOnly, "/id"))),
            (r#"{"name":"a"}"#, Some((Reason::Required, "/secret"))),
        ],
    );
    check(
        schema,
        Dialect::OpenApi30,
        Direction::Response,
        Options::default(),
        &[
            (r#"{"name":"a","id":1}"#, None),
            (r#"{"name":"a","id":1,"secret":"s"}"#, Some((Reason::WriteOnly, "/secret"))),
            (r#"{"name":"a"}"#, Some((Reason::Required, "/id"))),
        ],
    );
    let composed = r#"{"allOf":[{"type":"object","properties":{"id":{"readOnly":true}}},{"required":["id"]}]}"#;
    check(composed, Dialect::OpenApi31, Direction::Request, one_way(), &[("{}", None)]);
}

/// Wherever a member gets its schema from.
#[test]
fn members_that_may_not_travel_are_found_wherever_they_are_declared() {
    let read_only = |pointer| Some((Reason::ReadOnly, pointer));
    check_one_way(
        r#"{"type":"object","patternProperties":{"^r":{"readOnly":true}},"additionalProperties":{"type":"integer"}}"#,
        &[(r#"{"x":1}"#, None), (r#"{"r1":1}"#, read_only("/r1")), (r#"{"x":1,"\u0072":1}"#, read_only("/r"))],
    );
    let open = r#"{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer","readOnly":true}}"#;
    check_30(open, &[(r#"{"a":1}"#, None), (r#"{"b":1}"#, read_only("/b"))]);
    let branches = r##"{"type":"object","properties":{"o":{"oneOf":[{"$ref":"#/$defs/made"},{"type":"string"}]},
        "l":{"type":"array","items":{"type":"object","properties":{"m":{"allOf":[{"anyOf":[{"$ref":"#/$defs/made"},{"type":"string"}]}]}}}}},
        "$defs":{"made":{"type":"integer","readOnly":true}}}"##;
    check_one_way(
        branches,
        &[
            (r#"{"o":"x","l":[{"m":"x"}]}"#, None),
            (r#"{"o":1}"#, Some((Reason::OneOf, "/o"))),
            (r#"{"l":[{"m":1}]}"#, Some((Reason::AnyOf, "/l/0/m"))),
        ],
    );
    check(branches, Dialect::OpenApi31, Direction::Response, one_way(), &[(r#"{"o":1,"l":[{"m":1}]}"#, None)]);
}

/// One part may be asked of two objects, and only one of them forbids the member that the part requires.
#[test]
fn what_is_exempt_in_one_object_is_required_in_another() {
    let schema = r##"{"type":"object","properties":{
        "created":{"allOf":[{"$ref":"#/$defs/named"},{"properties":{"id":{"readOnly":true}}}]},
        "linked":{"$ref":"#/$defs/named"},
        "both":{"allOf":[{"$ref":"#/$defs/named"},{"required":["name"]}]}},
      "$defs":{"identified":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}},
               "named":{"allOf":[{"$ref":"#/$defs/identified"},{"properties":{"name":{"type":"string"}}}]}}}"##;
    check_one_way(
        schema,
        &[
            (r#"{"created":{}}"#, None),
            (r#"{"created":{"id":1}}"#, Some((Reason::ReadOnly, "/created/id"))),
            (r#"{"linked":{}}"#, Some((Reason::Required, "/linked/id"))),
            (r#"{"both":{"name":"a"}}"#, Some((Reason::Required, "/both/id"))),
            (r#"{"linked":{"id":1},"both":{"id":1,"name":"a"}}"#, None),
        ],
    );
}

#[test]
fn everything_that_is_wrong_is_reported_in_order() {
    let all = |schema: &str, text: &str, wanted: usize| {
        let node = parse(schema).unwrap();
        let options = Options { reject_unknown_fields: true, ..Options::default() };
        let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, options).unwrap();
        let found = program.everything_wrong(id, text.as_bytes(), wanted);
        let reported: Vec<String> = found.iter().map(|found| format!("{} {}", found.reason, found.pointer)).collect();
        reported.join(", ")
    };
    let schema = r#"{"type":"object","required":["a","b"],"properties":{
        "a":{"type":"integer","maximum":5},"b":{"type":"string"},"c":{"type":"array","items":{"type":"string"},"maxItems":2,"uniqueItems":true},
        "d":{"type":"object","properties":{"e":{"type":"integer"}}},
        "f":{"oneOf":[{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}}},{"type":"string","minLength":2}]}}}"#;
    for (text, expected) in [
        (r#"{"a":1,"b":"x"}"#, ""),
        (r#"{"a":6}"#, "required /b, maximum /a"),
        (r#"{}"#, "required /a, required /b"),
        (
            r#"{"a":"x","b":1,"u":1,"d":{"e":"y","v":{"w":1}}}"#,
            "type /a, type /b, unknown_field /u, type /d/e, unknown_field /d/v",
        ),
        (r#"{"a":1,"b":"x","c":["p",1,"p"]}"#, "max_items /c, type /c/1, unique_items /c/2"),
        // Nobody can say what is unknown in an object that follows no branch.
        (r#"{"a":1,"b":"x","f":{"y":1},"g":1}"#, "one_of /f, unknown_field /g"),
        (r#"{"a":6,"a":7}"#, "json_duplicate_key "),
        (r#"{"a":6,}"#, "json_syntax "),
    ] {
        assert_eq!(all(schema, text, 100), expected, "{text}");
    }
    assert_eq!(all(schema, "{}", 1), "required /a");
    let many: Vec<String> = (0..300).map(|number| format!("\"u{number}\":1")).collect();
    assert_eq!(all(schema, &format!("{{{}}}", many.join(",")), 100).matches(',').count(), 99);
}

/// What the branches allow in the member decides, so that at most one is tried, and its error is the one that is reported.
#[test]
fn a_member_that_distinguishes_branches_chooses_one() {
    let schema = r##"{"oneOf":[{"$ref":"#/$defs/cat"},{"$ref":"#/$defs/dog"},{"allOf":[{"type":"object","required":["kind"],"properties":{"kind":{"$ref":"#/$defs/hounds"}}}]}],
        "discriminator":{"propertyName":"kind","mapping":{"hound":"#/$defs/dog","nothing":"#/$defs/hounds"}},
        "$defs":{"cat":{"type":"object","properties":{"kind":{"const":"tom"},"lives":{"type":"integer"}},"required":["kind","lives"]},
                 "dog":{"type":"object","properties":{"kind":{"enum":["dog","hound"]},"tricks":{"type":"integer"}},"required":["kind"]},
                 "hounds":{"type":"string","enum":["beagle","pointer"]}}}"##;
    check_31(
        schema,
        &[
            (r#"{"lives":9,"kind":"tom"}"#, None),
            (r#"{"lives":"9","kind":"tom"}"#, Some((TYPE, "/lives"))),
            // Its schema's name says nothing where the branch says otherwise.
            (r#"{"lives":9,"kind":"cat"}"#, Some((Reason::Enum, "/kind"))),
            (r#"{"kind":"hound","tricks":1}"#, None),
            (r#"{"kind":"hound","tricks":"1"}"#, Some((TYPE, "/tricks"))),
            (r#"{"kind":"beagle"}"#, None),
            (r#"{"kind":"bird"}"#, Some((Reason::Enum, "/kind"))),
            (r#"{"lives":9}"#, Some((Reason::Discriminator, "/kind"))),
            (r#"{"kind":1}"#, Some((Reason::Enum, "/kind"))),
            ("1", Some((Reason::OneOf, ""))),
        ],
    );
}

/// OpenAPI 3.0.4 and 3.1.1: it "MUST NOT change the validation outcome".
#[test]
fn a_discriminator_changes_no_outcome() {
    let definitions = r##""$defs":{"cat":{"type":"object","properties":{"kind":{},"lives":{"type":"integer"}},"required":["lives"]},
                 "dog":{"type":"object","properties":{"kind":{},"tricks":{"type":"integer"}}},
                 "Fish":{"type":"object","properties":{"kind":{"const":"fish"}}}}"##;
    let branches = r##"[{"$ref":"#/$defs/cat"},{"$ref":"#/$defs/dog"},{"$ref":"#/$defs/Fish"},{"type":"object","required":["wings"]}]"##;
    let values = [
        r#"{"lives":9,"kind":"cat"}"#,
        r#"{"lives":"9","kind":"cat"}"#,
        r#"{"lives":9,"kind":"cat","tricks":"none"}"#,
        r#"{"kind":"hound","tricks":1}"#,
        r#"{"kind":"hound","tricks":"1"}"#,
        r#"{"kind":"fish","tricks":"1"}"#,
        r#"{"kind":"Fish","tricks":"1"}"#,
        r#"{"kind":"Fish","tricks":"1","wings":2}"#,
        r#"{"kind":"bird"}"#,
        r#"{"kind":"bird","wings":2}"#,
        r#"{"lives":9}"#,
        r#"{"tricks":"1"}"#,
        r#"{"tricks":"1","wings":2}"#,
        r#"{"kind":1}"#,
        r#"{"kind":1,"wings":1,"tricks":""}"#,
        r#"{}"#,
        "1",
    ];
    let mut run = Run::default();
    let (mut held, mut failed) = (0, 0);
    for keyword in ["oneOf", "anyOf"] {
        for named in [
            r##""discriminator":{"propertyName":"kind"},"##,
            r##""discriminator":{"propertyName":"kind","mapping":{"hound":"#/$defs/dog","cat":"#/$defs/dog"}},"##,
            r##""discriminator":{"propertyName":"none"},"##,
        ] {
            let [with, plain] = [named, ""].map(|named| {
                let node = parse(&format!("{{{named}\"{keyword}\":{branches},{definitions}}}")).unwrap();
                support::compile(&node, Dialect::OpenApi31, Direction::Request, Options::default()).unwrap()
            });
            for text in values {
                let mut holds =
                    |(program, id): &(_, _)| support::validate(program, *id, &mut run, text.as_bytes(), 9).is_ok();
                let outcome = holds(&plain);
                assert_eq!(holds(&with), outcome, "{keyword} {named} {text}");
                if outcome { held += 1 } else { failed += 1 }
            }
        }
    }
    assert!(held > 30 && failed > 20, "{held} {failed}");
}

#[test]
fn unknown_fields_are_those_that_no_part_of_the_composition_knows() {
    let strict = || Options { reject_unknown_fields: true, ..Options::default() };
    let check = |schema: &str, rows: &[Row<'_>]| check(schema, Dialect::OpenApi31, Direction::Request, strict(), rows);
    let unknown = |pointer| Some((Reason::UnknownField, pointer));
    check(
        r#"{"properties":{"a":{"properties":{"b":{}}}}}"#,
        &[(r#"{"a":{"b":1}}"#, None), (r#"{"x":1}"#, unknown("/x")), (r#"{"a":{"x":1}}"#, unknown("/a/x"))],
    );
    check(
        r#"{"allOf":[{"properties":{"a":{"properties":{"p":{}}}}},{"properties":{"b":{},"a":{"properties":{"q":{}}}}}]}"#,
        &[(r#"{"a":{"p":1,"q":1},"b":1}"#, None), (r#"{"a":{"r":1}}"#, unknown("/a/r"))],
    );
    check(r#"{"type":"object"}"#, &[(r#"{"x":1}"#, None)]);
    check(r#"{"properties":{"a":{}},"additionalProperties":true}"#, &[(r#"{"x":1}"#, None)]);
    check(
        r#"{"properties":{"a":{}},"patternProperties":{"^x-":{}}}"#,
        &[(r#"{"x-b":1,"a":1}"#, None), (r#"{"y":1}"#, unknown("/y"))],
    );
    let either = r#"{"properties":{"k":{}},"anyOf":[{"required":["a"],"properties":{"a":{}}},{"required":["b"],"properties":{"b":{"properties":{"c":{}}}}}]}"#;
    check(
        either,
        &[
            (r#"{"k":1,"a":1}"#, None),
            (r#"{"a":1,"b":{"c":1}}"#, None),
            (r#"{"a":1,"z":1}"#, unknown("/z")),
            (r#"{"b":{"d":1}}"#, unknown("/b/d")),
            (r#"{"k":1}"#, Some((Reason::AnyOf, ""))),
        ],
    );
}

#[test]
fn pointers_name_the_place() {
    let schema = r#"{"type":"object","required":["a/b"],"additionalProperties":false,"properties":{"a/b":{"type":"array","items":{"type":"integer"}},
        "u":{"type":"array","uniqueItems":true,"items":{"type":"object","properties":{"n":{"type":"integer"}}}}}}"#;
    check_31(
        schema,
        &[
            (r#"{"a/b":[1,2,"x"]}"#, Some((TYPE, "/a~1b/2"))),
            ("{}", Some((Reason::Required, "/a~1b"))),
            (r#"{"a/b":[],"z":1}"#, Some((Reason::UnknownField, "/z"))),
            (r#"{"a/b":[],"u":[{"n":1},{"n":"x"}]}"#, Some((TYPE, "/u/1/n"))),
            (r#"{"a/b":[],"u":[{"n":1},{"n":1.0}]}"#, Some((Reason::UniqueItems, "/u/1"))),
            (r#"{"a/b":[1,]}"#, Some((Reason::Syntax, "/a~1b/0"))),
        ],
    );
}

#[test]
fn what_cannot_be_honoured_is_a_problem() {
    let rejected = |schema: &str, dialect| {
        let node = parse(schema).unwrap();
        let options = Options { strict: true, ..Options::default() };
        support::compile(&node, dialect, Direction::Request, options).is_err()
    };
    let rows_31 = [
        r#"{"maximun":1}"#,
        r#"{"type":"file"}"#,
        r#"{"pattern":"(a)\\1"}"#,
        r#"{"minimum":"1"}"#,
        r#"{"exclusiveMinimum":true}"#,
        r#"{"multipleOf":0}"#,
        r#"{"required":true}"#,
        r#"{"items":[{}]}"#,
        r##"{"$ref":"#/nowhere"}"##,
        r##"{"$ref":"#"}"##,
        r##"{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}}"##,
        r#"{"$ref":"https://example.org/x"}"#,
        r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
        r#"{"minLength":-1}"#,
        r#"{"nullable":true}"#,
        r#"{"properties":[]}"#,
        r#"{"anyOf":[]}"#,
        "[]",
        "1",
    ];
    for schema in rows_31 {
        assert!(rejected(schema, Dialect::OpenApi31), "{schema}");
    }
    for schema in [
        r#"{"const":1}"#,
        r#"{"if":{}}"#,
        r#"{"type":["string","null"]}"#,
        r#"{"type":"null"}"#,
        r#"{"patternProperties":{}}"#,
    ] {
        assert!(rejected(schema, Dialect::OpenApi30), "{schema}");
        assert!(!rejected(schema, Dialect::OpenApi31), "{schema}");
    }
    assert!(!rejected(r#"{"x-internal":1,"example":2}"#, Dialect::OpenApi30));
}

#[test]
fn a_metaschema_of_ones_own_says_which_keywords_count() {
    const VOCABULARIES: &str = "https://json-schema.org/draft/2020-12/vocab";
    let schema = |declared: &str| {
        let text = r##"{"$schema":"#/$defs/meta","minimum":5,"properties":{"a":{"type":"string"},"b":false},"$defs":{"meta":{DECLARED}}}"##;
        text.replace("DECLARED", declared).replace("VOCAB", VOCABULARIES)
    };
    // Without validation only the applicators are left.
    check_31(
        &schema(r#""$vocabulary":{"VOCAB/core":true,"VOCAB/applicator":true,"https://example.org/own":false}"#),
        &[("3", None), (r#"{"a":1}"#, None), (r#"{"b":1}"#, Some((Reason::False, "/b")))],
    );
    for declared in ["", r#""$vocabulary":{"VOCAB/validation":true}"#] {
        check_31(
            &schema(declared),
            &[("3", Some((Reason::Minimum, ""))), ("7", None), (r#"{"a":1}"#, Some((Reason::Type, "/a")))],
        );
    }
    let node = parse(&schema(r#""$vocabulary":{"https://example.org/own":true}"#)).unwrap();
    let problems = support::compile(&node, Dialect::OpenApi31, Direction::Request, Options::default()).unwrap_err();
    assert!(problems[0].message.contains("https://example.org/own"), "{problems:?}");
}

#[test]
fn steps_are_linear_or_the_budget_ends_them() {
    let validate = |schema: &str, text: &str, steps: u64| {
        let node = parse(schema).unwrap();
        let limits = Limits { steps, ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, options).unwrap();
        support::validate(&program, id, &mut Run::default(), text.as_bytes(), usize::MAX)
            .map_err(|violation| violation.reason)
    };
    let unique = r#"{"type":"array","uniqueItems":true}"#;
    for count in [100u64, 10_000] {
        let elements: Vec<String> = (0..count).map(|number| format!("{{\"a\":{number}}}")).collect();
        assert_eq!(validate(unique, &format!("[{}]", elements.join(",")), 10 * count), Ok(()), "{count} elements");
    }
    let plain = r#"{"type":"object","additionalProperties":{"type":"integer"}}"#;
    assert_eq!(validate(plain, r#"{"a":1,"b":2}"#, 0), Ok(()), "what is validated in passing takes no steps");
    let tree = r##"{"anyOf":[{"type":"array","items":{"$ref":"#"},"minItems":1},{"type":"array","items":{"$ref":"#"},"maxItems":1},{"type":"integer"}]}"##;
    let text = format!("{}\"x\"{}", "[".repeat(40), "]".repeat(40));
    assert_eq!(validate(tree, &text, 10_000), Err(Reason::AnyOf), "each value is validated once by each schema");
    assert_eq!(validate(tree, &text, 100), Err(Reason::Budget));
}

#[test]
fn decoded_parts_are_validated_like_text() {
    let node = parse(r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer","maximum":5},"t":{"type":"array","items":{"type":"string"}}}}"#).unwrap();
    let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, Options::default()).unwrap();
    let mut run = Run::default();
    let mut validate = |events: &[Event<'_>]| {
        let mut check = program.check(id, &mut run);
        events.iter().try_for_each(|event| check.event(*event)).and_then(|()| check.finish()).map_err(|v| v.reason)
    };
    use Event::{BeginArray, BeginObject, EndArray, EndObject, Key, Number, String};
    assert_eq!(
        validate(&[BeginObject, Key("t"), BeginArray, String("é"), EndArray, Key("n"), Number("5"), EndObject]),
        Ok(())
    );
    assert_eq!(validate(&[BeginObject, Key("n"), Number("6"), EndObject]), Err(Reason::Maximum));
    assert_eq!(validate(&[BeginObject, Key("n"), Number("05"), EndObject]), Err(Reason::Syntax));
    assert_eq!(validate(&[BeginObject, EndObject]), Err(Reason::Required));
    assert_eq!(validate(&[BeginObject, EndArray]), Err(Reason::Syntax));
    assert_eq!(validate(&[EndObject]), Err(Reason::Syntax));
    assert_eq!(validate(&[BeginObject, Key("n"), Number("1")]), Err(Reason::Truncated));
    assert_eq!(
        validate(&[BeginObject, Key("n"), Number("1"), Key("n"), Number("1"), EndObject]),
        Err(Reason::DuplicateKey)
    );
}

#[test]
fn room_is_freed_and_used_again() {
    let node = parse(r#"{"type":"object","additionalProperties":{"uniqueItems":true}}"#).unwrap();
    let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, Options::default()).unwrap();
    let members: Vec<String> = (0..5000).map(|number| format!("\"k{number}\":[{number},\"\\n\"]")).collect();
    let text = format!("{{{}}}", members.join(","));
    let mut run = Run::default();
    for _ in 0..3 {
        assert_eq!(support::validate(&program, id, &mut run, text.as_bytes(), 1000), Ok(()));
        assert!(support::validate(&program, id, &mut run, &text.as_bytes()[..text.len() / 2], 1000).is_err());
        run.shrink(0);
    }
}
