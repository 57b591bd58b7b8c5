//! Generated schemas and values, validated here and by the `jsonschema` crate: the decisions must agree. The seed is fixed, so every run is the same.

use crate::support;

use contract::reason::Reason;
use contract::schema::{Dialect, Direction, Options, Run};
use fastrand::Rng;
use serde_json::{Map, Value, json};

const SCHEMAS: usize = 1500;
const VALUES_PER_SCHEMA: usize = 12;

const NAMES: &[&str] = &["a", "b", "c", "dd", "longer_name_than_sixteen"];
const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];

/// Makes schemas and values that have much in common, so that both decisions are frequent.
struct Maker {
    random: Rng,
}

impl Maker {
    fn name(&mut self) -> String {
        NAMES[self.random.usize(0..NAMES.len())].to_owned()
    }

    fn number(&mut self) -> Value {
        match self.random.u8(0..4) {
            0 => json!(self.random.i32(-3..6)),
            1 => json!(f64::from(self.random.i32(-6..12)) / 2.0),
            2 => json!(f64::from(self.random.i32(-3..6))),
            _ => json!(self.random.i32(0..3)),
        }
    }

    fn text(&mut self) -> String {
        let letters = ["a", "b", "é", "😀", "1", "-", "\"", "\\", "x"];
        (0..self.random.usize(0..5)).map(|_| letters[self.random.usize(0..letters.len())]).collect()
    }

    fn value(&mut self, depth: u32) -> Value {
        let kinds = if depth == 0 { 5 } else { 7 };
        match self.random.u8(0..kinds) {
            0 => Value::Null,
            1 => json!(self.random.bool()),
            2 | 3 => self.number(),
            4 => Value::String(self.text()),
            5 => (0..self.random.usize(0..4)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object((0..self.random.usize(0..5)).map(|_| (self.name(), self.value(depth - 1))).collect()),
        }
    }

    fn schemas(&mut self, depth: u32) -> Value {
        (0..self.random.usize(1..4)).map(|_| self.schema(depth)).collect()
    }

    fn schema(&mut self, depth: u32) -> Value {
        if self.random.u8(0..20) == 0 {
            return json!(self.random.u8(0..4) != 0);
        }
        let mut schema = Map::new();
        for _ in 0..self.random.usize(1..4) {
            let (key, value) = self.keyword(depth);
            schema.insert(key.to_owned(), value);
        }
        Value::Object(schema)
    }

    fn keyword(&mut self, depth: u32) -> (&'static str, Value) {
        let choice = self.random.u8(0..if depth == 0 { 12 } else { 32 });
        let small = json!(self.random.u8(0..4));
        let below = depth.saturating_sub(1);
        match choice {
            0..=2 => ("type", json!(TYPES[self.random.usize(0..TYPES.len())])),
            3 => ("type", json!([TYPES[self.random.usize(0..3)], TYPES[self.random.usize(3..TYPES.len())]])),
            4 => ("enum", (0..3).map(|_| self.value(1)).collect()),
            5 => ("const", self.value(1)),
            6 => (["minimum", "exclusiveMinimum"][self.random.usize(0..2)], self.number()),
            7 => (["maximum", "exclusiveMaximum"][self.random.usize(0..2)], self.number()),
            8 => ("multipleOf", json!([0.5, 1.0, 2.0, 3.0][self.random.usize(0..4)])),
            9 => (["minLength", "maxLength"][self.random.usize(0..2)], small),
            10 => ("pattern", json!(["^a", "b$", "^[ab]{1,3}$", "1|é", "^.x"][self.random.usize(0..5)])),
            11 => ("required", json!([NAMES[self.random.usize(0..NAMES.len())]])),
            12..=14 => ("properties", Value::Object((0..3).map(|_| (self.name(), self.schema(below))).collect())),
            15 => ("additionalProperties", self.schema(below)),
            16 => ("patternProperties", json!({ "^[ab]$": self.schema(below), "d": self.schema(below) })),
            17 => ("propertyNames", self.schema(0)),
            18 => (["minProperties", "maxProperties", "minItems", "maxItems"][self.random.usize(0..4)], small),
            19 => ("items", self.schema(below)),
            20 => ("prefixItems", self.schemas(below)),
            21 => ("contains", self.schema(below)),
            22 => ("uniqueItems", json!(true)),
            23 | 24 => ("allOf", self.schemas(below)),
            25 => ("anyOf", self.schemas(below)),
            26 => ("oneOf", self.schemas(below)),
            27 => ("not", self.schema(below)),
            28 => ("if", self.schema(below)),
            29 => (["then", "else"][self.random.usize(0..2)], self.schema(below)),
            30 => (["unevaluatedProperties", "unevaluatedItems"][self.random.usize(0..2)], self.schema(below)),
            _ => ("dependentSchemas", json!({ self.name(): self.schema(below) })),
        }
    }
}

/// What validates in passing and what looks at a whole value once more must not differ in what they let pass, unknown members included.
#[test]
fn what_is_wrong_in_passing_is_wrong_as_a_whole() {
    let mut maker = Maker { random: Rng::with_seed(31_011) };
    let mut run = Run::default();
    let (mut valid, mut unknown) = (0, 0);
    for _ in 0..SCHEMAS {
        let schema = maker.schema(3);
        let node = support::node::parse(&schema.to_string()).unwrap();
        let options = Options { reject_unknown_fields: true, ..Options::default() };
        let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, options).unwrap();
        for _ in 0..VALUES_PER_SCHEMA {
            let text = maker.value(3).to_string();
            let found = support::validate(&program, id, &mut run, text.as_bytes(), usize::MAX);
            let turns = support::validate_in_turns(&program, id, &mut run, text.as_bytes(), 10);
            assert_eq!(found, turns, "schema {schema}\nvalue {text}");
            let all = program.everything_wrong(id, text.as_bytes(), 100);
            assert_eq!(found.is_ok(), all.is_empty(), "schema {schema}\nvalue {text}\n{found:?}\n{all:?}");
            valid += usize::from(found.is_ok());
            unknown += usize::from(all.iter().any(|violation| violation.reason == Reason::UnknownField));
        }
    }
    assert!(valid > SCHEMAS && unknown > 100, "{valid} valid, {unknown} with unknown members");
}

#[test]
fn decisions_agree_with_jsonschema() {
    let mut maker = Maker { random: Rng::with_seed(20_201_200) };
    let mut run = Run::default();
    let (mut valid, mut all) = (0, 0);
    for _ in 0..SCHEMAS {
        let schema = maker.schema(3);
        let oracle = jsonschema::draft202012::new(&schema).unwrap_or_else(|why| panic!("{schema}: {why}"));
        let node = support::node::parse(&schema.to_string()).unwrap();
        let compiled = support::compile(&node, Dialect::OpenApi31, Direction::Request, Options::default());
        let (program, id) = compiled.unwrap_or_else(|problems| panic!("{schema}: {problems:?}"));
        for _ in 0..VALUES_PER_SCHEMA {
            let value = maker.value(3);
            let text = value.to_string();
            let expected = oracle.is_valid(&value);
            for piece in [usize::MAX, 1] {
                let found = support::validate(&program, id, &mut run, text.as_bytes(), piece);
                assert_eq!(found.is_ok(), expected, "schema {schema}\nvalue {text}\nwe say {found:?}");
            }
            for steps in [1, 20] {
                let found = support::validate_in_turns(&program, id, &mut run, text.as_bytes(), steps);
                assert_eq!(
                    found.is_ok(),
                    expected,
                    "schema {schema}\nvalue {text}\nin turns of {steps} we say {found:?}"
                );
            }
            assert_eq!(
                program.everything_wrong(id, text.as_bytes(), 100).is_empty(),
                expected,
                "schema {schema}\nvalue {text}"
            );
            valid += usize::from(expected);
            all += 1;
        }
    }
    assert!(valid * 5 > all && valid * 5 < all * 4, "{valid} of {all} are valid, so one side is hardly tested");
}
