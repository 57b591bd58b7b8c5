//! Members that come as expected are taken in one go, where the text is there; byte by byte none is. Both ways must say the same of every text.

use crate::support;

use contract::limits::Limits;
use contract::schema::{Dialect, Direction, Options, Run};
use fastrand::Rng;

const SCHEMA: &str = r##"{
  "type": "object", "required": ["rows"], "additionalProperties": false,
  "properties": {
    "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
    "pairs": {"type": "array", "prefixItems": [{"$ref": "#/$defs/row"}], "items": {"$ref": "#/$defs/pair"}},
    "open": {"type": "object", "properties": {"a": {"type": "string"}}, "maxProperties": 3}
  },
  "$defs": {
    "pair": {"type": "object", "additionalProperties": false, "properties": {"x": {"type": "integer"}, "y": {"type": ["number", "null"]}}, "minProperties": 1},
    "row": {
      "type": "object", "required": ["id", "name"], "additionalProperties": false,
      "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 99999},
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "a_name_of_more_than_sixteen": {"type": "integer", "minimum": -5, "maximum": 5},
        "a_name_of_even_more_than_thirty_two_bytes": {"enum": ["one", "two"]},
        "at": {"type": ["string", "null"], "format": "date-time"},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$", "maxLength": 2},
        "yes": {"const": true},
        "any": true,
        "ratio": {"type": "number", "exclusiveMaximum": 1},
        "pair": {"$ref": "#/$defs/pair"}
      }
    }
  }
}"##;

/// A text that keeps the schema more often than not.
struct Author {
    random: Rng,
    text: String,
    spaces: bool,
}

impl Author {
    fn put(&mut self, token: &str) {
        self.text.push_str(token);
        if self.spaces && self.random.u8(0..3) == 0 {
            self.text.push_str([" ", "\n  ", "\t", "\r\n"][self.random.usize(0..4)]);
        }
    }

    fn value(&mut self, of: &[&'static str]) {
        let token = of[self.random.usize(0..of.len())];
        self.put(token);
    }

    fn object(&mut self, members: &[(&str, &[&'static str])], fewest: usize) {
        self.put("{");
        let mut is_first = true;
        for (number, (name, values)) in members.iter().enumerate() {
            if number > 0 && self.random.u8(0..200) == 0 {
                // A name that is there already.
                let (name, value) = (members[0].0, members[0].1[0]);
                self.put(&format!(",\"{name}\":{value}"));
            }
            if number >= fewest && self.random.u8(0..3) == 0 {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                self.put(",");
            }
            self.put(&format!("\"{name}\""));
            self.put(":");
            self.value(values);
        }
        self.put("}");
    }

    fn list(&mut self, mut element: impl FnMut(&mut Self, usize)) {
        self.put("[");
        for number in 0..self.random.usize(0..5) {
            if number > 0 {
                self.put(",");
            }
            element(self, number);
        }
        self.put("]");
    }

    fn body(&mut self) {
        const PAIR: &[(&str, &[&str])] = &[("x", &["1", "-1234567", "123456789012"]), ("y", &["null", "0", "1.5"])];
        const ROW: &[(&str, &[&str])] = &[
            ("id", &["1", "99999", "12345678", "7"]),
            ("name", &["\"n\"", "\"a longer name\"", "\"\u{e9}\"", "\"\\u0041\""]),
            ("a_name_of_more_than_sixteen", &["0", "-5", "5", "5.0", "-0"]),
            ("a_name_of_even_more_than_thirty_two_bytes", &["\"one\"", "\"two\""]),
            ("at", &["null", "\"2024-02-29T12:00:00Z\"", "\"1999-12-31T23:59:60.25+00:00\""]),
            ("code", &["\"AB\""]),
            ("yes", &["true"]),
            ("any", &["true", "false", "null", "\"\"", "1e3", "[1,{}]"]),
            ("ratio", &["0.5", "0", "-3"]),
            ("pair", &["{\"x\":1}", "{\"y\":null,\"x\":2}"]),
        ];
        self.put("{");
        self.put("\"rows\"");
        self.put(":");
        self.list(|author, _| author.object(ROW, 2));
        self.put(",");
        self.put("\"pairs\"");
        self.put(":");
        self.list(|author, number| {
            author.object(if number == 0 { ROW } else { PAIR }, if number == 0 { 2 } else { 1 })
        });
        self.put(",");
        self.put("\"open\"");
        self.put(":");
        self.object(&[("a", &["\"\""]), ("b", &["1"]), ("c", &["null"])], 0);
        self.put("}");
    }
}

/// How many texts were right and wrong. Beyond a limit the first reason depends on how much of a token is there; the decision never does.
fn agree(limits: Limits, rounds: usize, in_reasons: bool) -> (usize, usize) {
    let node = support::node::parse(SCHEMA).unwrap();
    let options = Options { limits, ..Options::default() };
    let (program, id) = support::compile(&node, Dialect::OpenApi31, Direction::Request, options).unwrap();
    // Each way learns the order of members for itself.
    let mut runs = [Run::default(), Run::default(), Run::default()];
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..rounds {
        let mut author =
            Author { random: Rng::with_seed(seed as u64), text: String::new(), spaces: seed.is_multiple_of(2) };
        author.body();
        let Author { mut random, text, .. } = author;
        let mut text = text.into_bytes();
        for _ in 0..random.usize(0..3) {
            let at = random.usize(0..text.len());
            match random.u8(0..4) {
                0 => drop(text.remove(at)),
                1 => text[at] = *random.choice(b"{}[],:\"\\0129-.etfnaxyz \x00\xc3").unwrap(),
                2 => text.insert(at, *random.choice(b"{}[],:\"09-e \xff").unwrap()),
                _ => text.extend_from_within(at..),
            }
        }
        let [whole, bytes, sevens] = &mut runs;
        let decision = support::validate(&program, id, whole, &text, usize::MAX);
        for (run, piece) in [(bytes, 1), (sevens, 7)] {
            let other = support::validate(&program, id, run, &text, piece);
            let is_same = if in_reasons { decision == other } else { decision.is_ok() == other.is_ok() };
            assert!(is_same, "seed {seed}, {piece}: {decision:?} {other:?}: {}", String::from_utf8_lossy(&text));
        }
        *if decision.is_ok() { &mut right } else { &mut wrong } += 1;
    }
    (right, wrong)
}

#[test]
fn what_is_taken_in_one_go_is_validated_as_byte_by_byte() {
    let (right, wrong) = agree(Limits::default(), 6000, true);
    assert!(right > 500 && wrong > 500, "{right} {wrong}");
}

#[test]
fn limits_hold_for_what_is_taken_in_one_go() {
    let tight = [
        Limits { values: 12, ..Limits::default() },
        Limits { string_bytes: 10, ..Limits::default() },
        Limits { number_chars: 5, ..Limits::default() },
        Limits { depth: 3, ..Limits::default() },
        Limits { key_bytes: 30, ..Limits::default() },
        Limits { keys_per_object: 2, ..Limits::default() },
    ];
    for limits in tight {
        let (right, wrong) = agree(limits.clone(), 600, false);
        assert!(right + wrong == 600 && wrong > 0, "{limits:?}: {right} {wrong}");
    }
}
