//! Requests that are small, or legal in size, and mean work: each with its document, and with an ordinary body of the same size for the same schema.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// One request that means work.
pub(super) struct Case {
    /// For tables and `--only`.
    pub(super) name: &'static str,
    /// What it does, in some words.
    pub(super) about: &'static str,
    /// The path item of `/sink` in its document.
    item: Value,
    /// Schemas that it refers to.
    schemas: Value,
    /// Method and target.
    pub(super) line: &'static str,
    /// Fields that describe the body.
    pub(super) fields: &'static str,
    /// The body, and the ordinary one.
    pub(super) bodies: [Vec<u8>; 2],
    /// Fields and target of the ordinary one where they differ.
    pub(super) ordinary: Option<(&'static str, &'static str)>,
}

impl Case {
    /// Its document.
    pub(super) fn document(&self) -> String {
        json!({
            "openapi": "3.0.3",
            "info": { "title": "Hostile", "version": "1" },
            "paths": { "/sink": self.item },
            "components": { "schemas": self.schemas },
        })
        .to_string()
    }
}

const JSON: &str = "Content-Type: application/json\r\n";
const POST: &str = "POST /sink";

/// A case whose body is JSON of this schema.
fn of_json(
    name: &'static str,
    about: &'static str,
    schema: &Value,
    hostile: impl Into<Vec<u8>>,
    ordinary: impl Into<Vec<u8>>,
) -> Case {
    of_body(name, about, schema, ("application/json", JSON), [hostile.into(), ordinary.into()])
}

fn of_body(
    name: &'static str,
    about: &'static str,
    schema: &Value,
    (kind, fields): (&'static str, &'static str),
    bodies: [Vec<u8>; 2],
) -> Case {
    let content = json!({ kind: { "schema": schema } });
    let item = json!({ "post": { "requestBody": { "required": true, "content": content }, "responses": { "default": { "description": "any" } } } });
    Case { name, about, item, schemas: json!({}), line: POST, fields, bodies, ordinary: None }
}

/// All cases.
///
/// # Errors
/// The bomb could not be made.
pub(super) fn cases() -> io::Result<Vec<Case>> {
    let mut cases = vec![
        alternatives(),
        references(),
        branches(),
        objects(),
        numbers(),
        enumeration(),
        pattern(),
        digits(),
        depth(),
        members(),
        fields(),
        parts(),
        index(),
    ];
    cases.push(bomb()?);
    Ok(cases)
}

/// A condition that holds another one, in two ways that nothing distinguishes: each level doubles the ways to the innermost, which is wrong.
fn alternatives() -> Case {
    let levels = 28;
    let hostile = format!("{}{{\"field\":7}}{}", "{\"not\":".repeat(levels), "}".repeat(levels));
    let ordinary = format!("{{\"field\":\"{}\"}}", "x".repeat(hostile.len() - 12));
    let reference = json!({ "$ref": "#/components/schemas/Condition" });
    let condition = json!({ "oneOf": [
        { "type": "object", "required": ["not"], "properties": { "not": reference } },
        { "type": "object", "required": ["not", "reason"], "properties": { "not": reference, "reason": { "type": "string" } } },
        { "type": "object", "required": ["field"], "properties": { "field": { "type": "string" } } },
    ] });
    let mut case = of_json("alternatives", "oneOf that leads back to itself, 28 deep", &reference, hostile, ordinary);
    case.schemas = json!({ "Condition": condition });
    case
}

/// The same by `allOf` and `anyOf` of named schemas, as generators make inheritance; what is wrong stands at the end.
fn references() -> Case {
    let levels = 24;
    let hostile = format!("{}{{\"kind\":1}}{}", "{\"child\":".repeat(levels), "}".repeat(levels));
    let ordinary = format!("{{\"kind\":\"{}\"}}", "x".repeat(hostile.len() - 11));
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut case = of_json(
        "references",
        "allOf and anyOf over $ref that lead back, 24 deep",
        &reference("Node"),
        hostile,
        ordinary,
    );
    case.schemas = json!({
        "Base": { "type": "object", "properties": { "child": reference("Node"), "kind": { "type": "string" } } },
        "Leaf": { "allOf": [reference("Base"), { "type": "object", "properties": { "leaf": { "type": "boolean" } } }] },
        "Branch": { "allOf": [reference("Base"), { "type": "object", "properties": { "branch": { "type": "boolean" } } }] },
        "Node": { "anyOf": [reference("Leaf"), reference("Branch")] },
    });
    case
}

/// 60 alternatives by range, for each of 20,000 items.
fn branches() -> Case {
    let branch = |number: usize| json!({ "type": "object", "required": ["v"], "properties": { "v": { "type": "integer", "minimum": number * 100, "maximum": number * 100 + 99 } } });
    let schema = json!({ "type": "array", "items": { "oneOf": (0..60).map(branch).collect::<Vec<_>>() } });
    let list = |last: &str| list((0..20_000).map(|number| format!("{{\"v\":{}}}", number % 6_000)), last);
    of_json("branches", "20,000 items, each one of 60", &schema, list("{\"v\":-1}"), list("{\"v\":1}"))
}

/// 100,000 small objects that must differ; the last two do not.
fn objects() -> Case {
    let schema = json!({ "type": "array", "uniqueItems": true, "items": { "type": "object" } });
    let list = |last: &str| list((0..100_000).map(|number| format!("{{\"a\":{number}}}")), last);
    of_json("objects", "uniqueItems, 100,000 objects", &schema, list("{\"a\":99999}"), list("{\"a\":100000}"))
}

/// The same with numbers.
fn numbers() -> Case {
    let schema = json!({ "type": "array", "uniqueItems": true, "items": { "type": "integer" } });
    let list = |last: &str| list((0..400_000).map(|number| number.to_string()), last);
    of_json("numbers", "uniqueItems, 400,000 numbers", &schema, list("399999"), list("400000"))
}

/// One of 16,000 texts, 20,000 times; the last is none.
fn enumeration() -> Case {
    let text = |number: usize| format!("a-name-like-others-{number:05}");
    let values: Vec<String> = (0..16_000).map(text).collect();
    let schema = json!({ "type": "array", "items": { "type": "string", "enum": values } });
    let list = |last: &str| list((0..20_000).map(|number| format!("\"{}\"", text(number * 7 % 16_000))), last);
    of_json(
        "enumeration",
        "20,000 items, each one of 16,000 texts",
        &schema,
        list("\"a-name-like-others-16000\""),
        list("\"a-name-like-others-15999\""),
    )
}

/// A pattern that backtracks without end where patterns are tried by backtracking, and 1 MB for it.
fn pattern() -> Case {
    let schema = json!({ "type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$" });
    let text = |last: &str| format!("\"{}{last}\"", "a".repeat(1_000_000));
    of_json("pattern", "nested repetition over 1 MB", &schema, text("!"), text("Aa"))
}

/// A number of a million digits.
fn digits() -> Case {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "number", "multipleOf": 0.01 }, "text": { "type": "string" } } });
    let hostile = format!("{{\"amount\":{}}}", "7".repeat(1_000_000));
    let ordinary = format!("{{\"amount\":7,\"text\":\"{}\"}}", "7".repeat(999_990));
    of_json("digits", "a number of 1,000,000 digits", &schema, hostile, ordinary)
}

/// Arrays within arrays.
fn depth() -> Case {
    let schema = json!({ "$ref": "#/components/schemas/Tree" });
    let hostile = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let ordinary = list((0..333_332).map(|_| "[]".to_owned()), "[]");
    let mut case = of_json("depth", "500,000 arrays within each other", &schema, hostile, ordinary);
    case.schemas = json!({ "Tree": { "type": "array", "items": { "$ref": "#/components/schemas/Tree" } } });
    case
}

/// An object with 200,000 members.
fn members() -> Case {
    let schema =
        json!({ "type": "object", "additionalProperties": { "oneOf": [{ "type": "integer" }, { "type": "string" }] } });
    let members: Vec<String> = (100_000..300_000).map(|number| format!("\"key{number}\":{number}")).collect();
    let hostile = format!("{{{}}}", members.join(","));
    let long = hostile.len() / 9_000;
    let ordinary: Vec<String> =
        (0..9_000).map(|number| format!("\"key{number:06}\":\"{}\"", "x".repeat(long - 15))).collect();
    of_json("members", "an object of 200,000 members", &schema, hostile, format!("{{{}}}", ordinary.join(",")))
}

/// A form of 500,000 fields.
fn fields() -> Case {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "string" } } } });
    let hostile = vec!["a=1"; 500_000].join("&");
    let ordinary = vec![format!("a={}", "1".repeat(hostile.len() / 50 - 3)); 50].join("&");
    let kind = "application/x-www-form-urlencoded";
    let fields = "Content-Type: application/x-www-form-urlencoded\r\n";
    of_body("fields", "a form of 500,000 fields", &schema, (kind, fields), [hostile.into(), ordinary.into()])
}

/// A multipart body of 30,000 parts.
fn parts() -> Case {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "string" } } } });
    let part = |text: &str| format!("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{text}\r\n");
    let hostile = part("1").repeat(30_000) + "--b--\r\n";
    let ordinary = part(&"1".repeat(hostile.len() / 50 - 60)).repeat(50) + "--b--\r\n";
    let (kind, fields) = ("multipart/form-data", "Content-Type: multipart/form-data; boundary=b\r\n");
    of_body("parts", "a multipart body of 30,000 parts", &schema, (kind, fields), [hostile.into(), ordinary.into()])
}

/// The place of an element, written in a query.
fn index() -> Case {
    let schema =
        json!({ "type": "object", "properties": { "list": { "type": "array", "items": { "type": "integer" } } } });
    let parameter =
        json!({ "name": "filter", "in": "query", "style": "deepObject", "explode": true, "schema": schema });
    let item = json!({ "get": { "parameters": [parameter], "responses": { "default": { "description": "any" } } } });
    let (line, ordinary) = ("GET /sink?filter[list][99999999]=1", "GET /sink?filter[list][0]=1");
    Case {
        name: "index",
        about: "element 99,999,999 of an array in a query",
        item,
        schemas: json!({}),
        line,
        fields: "",
        bodies: [Vec::new(), Vec::new()],
        ordinary: Some((ordinary, "")),
    }
}

/// 256 MiB of spaces around a number, in 260 kB of gzip.
fn bomb() -> io::Result<Case> {
    let mut gzip =
        Command::new("gzip").args(["-9", "--stdout"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = gzip.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let writer = std::thread::spawn(move || {
        let spaces = vec![b' '; 1 << 20];
        (0..256).try_for_each(|_| input.write_all(&spaces)).and_then(|()| input.write_all(b"1"))
    });
    let output = gzip.wait_with_output()?;
    writer.join().map_err(|_| io::ErrorKind::BrokenPipe)??;
    let ordinary = format!("{}1", " ".repeat(output.stdout.len() - 1));
    let mut case =
        of_json("bomb", "256 MiB in gzip", &json!({ "type": "integer" }), output.stdout, ordinary.into_bytes());
    case.fields = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    case.ordinary = Some((POST, JSON));
    Ok(case)
}

fn list(items: impl Iterator<Item = String>, last: &str) -> String {
    let items: Vec<String> = items.collect();
    format!("[{},{last}]", items.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn bodies_of_a_case_are_about_as_large_and_fit_into_what_proxies_take() {
        for case in cases().unwrap() {
            let [hostile, ordinary] = &case.bodies;
            let (less, more) = (hostile.len().min(ordinary.len()), hostile.len().max(ordinary.len()));
            assert!(more - less <= more / 50, "{}: {} and {}", case.name, hostile.len(), ordinary.len());
            assert!(more < 4 << 20, "{}: {more}", case.name);
        }
    }
}
