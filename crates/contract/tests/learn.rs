//! Documents that are learnt from what was recorded: what is in them, and that each accepts all that it was learnt from.

use std::path::Path;

use contract::Contract;
use contract::learn::{Bodies, Body, Credentials, Exchange, LogLine, exchange_of_line, exchanges_of_har, learn};
use contract::lint::lint_text;
use contract::options::Options;

const HAR: &str = r#"{"log":{"version":"1.2","entries":[
 {"request":{"method":"GET","url":"https://api.example/v1/pets?limit=10&tag=a","headers":[{"name":"Authorization","value":"Bearer t"}]},
  "response":{"status":200,"headers":[],"content":{"mimeType":"application/json; charset=utf-8","size":40,"text":"[{\"id\":1,\"name\":\"Rex\",\"born\":\"2020-01-02\",\"owner\":null}]"}}},
 {"request":{"method":"GET","url":"https://api.example/v1/pets?limit=20","headers":[{"name":"authorization","value":"Bearer t"}]},
  "response":{"status":200,"headers":[],"content":{"mimeType":"application/json","size":2,"text":"W10=","encoding":"base64"}}},
 {"request":{"method":"GET","url":"https://api.example/v1/pets/7","headers":[]},
  "response":{"status":200,"headers":[],"content":{"mimeType":"application/json","size":2,"text":"{\"id\":7,\"weight\":1.5}"}}},
 {"request":{"method":"GET","url":"https://api.example/v1/pets/9","headers":[]},
  "response":{"status":404,"headers":[],"content":{"mimeType":"application/problem+json","size":2,"text":"{\"status\":404}"}}},
 {"request":{"method":"POST","url":"https://api.example/v1/pets","headers":[],"postData":{"mimeType":"application/json","text":"{\"name\":\"Max\"}"}},
  "response":{"status":201,"headers":[],"content":{"mimeType":"","size":0}}},
 {"request":{"method":"GET","url":"https://api.example/admin.php","headers":[]},"response":{"status":404,"headers":[],"content":{"size":0,"mimeType":"x"}}},
 {"request":{"method":"GET","url":"https://api.example/gone","headers":[]},"response":{"status":0,"headers":[],"content":{"size":0,"mimeType":"x"}}}
]}}"#;

const LEARNT: &str = r#"openapi: "3.1.0"
info:
  title: Pets
  version: "0"
paths:
  /v1/pets:
    get:
      parameters:
        - name: limit
          in: query
          required: true
          schema:
            type: integer
        - name: tag
          in: query
          required: false
          schema:
            type: string
            maxLength: 256
      security:
        - bearer: []
      responses:
        "200":
          description: Seen
          content:
            application/json:
              schema:
                type: array
                items:
                  type: object
                  additionalProperties: false
                  required: [born, id, name, owner]
                  properties:
                    born:
                      type: string
                      format: date
                    id:
                      type: integer
                    name:
                      type: string
                      maxLength: 256
                    owner:
                      type: "null"
                maxItems: 64
    post:
      security: []
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              additionalProperties: false
              required: [name]
              properties:
                name:
                  type: string
                  maxLength: 256
      responses:
        "201":
          description: Seen
  /v1/pets/{pet_id}:
    get:
      parameters:
        - name: pet_id
          in: path
          required: true
          schema:
            type: integer
      security: []
      responses:
        "200":
          description: Seen
          content:
            application/json:
              schema:
                type: object
                additionalProperties: false
                required: [id, weight]
                properties:
                  id:
                    type: integer
                  weight:
                    type: number
        "404":
          description: Seen
          content:
            "application/problem+json":
              schema:
                type: object
                additionalProperties: false
                required: [status]
                properties:
                  status:
                    type: integer
components:
  securitySchemes:
    bearer:
      type: http
      scheme: bearer
"#;

#[test]
fn a_har_file_becomes_a_document_with_templates_parameters_and_schemas() {
    let exchanges = exchanges_of_har(Path::new("shop.har"), HAR).unwrap();
    let learnt = learn(&exchanges, "Pets");
    assert_eq!(learnt.rejected, []);
    assert_eq!((learnt.operations, learnt.used), (3, 4));
    assert_eq!(learnt.left_out.values().sum::<usize>(), 2, "{:?}", learnt.left_out);
    let document: String =
        learnt.document.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    assert_eq!(document, LEARNT);
    assert!(!learnt.document.contains("Rex") && !learnt.document.contains("Max"), "values are kept");
}

#[test]
fn lines_of_the_access_log_say_which_operations_there_are() {
    let lines = [
        r#"{"time":"t","kind":"request","method":"GET","host":"a","target":"/orders/17?page=2","status":200}"#,
        r#"{"time":"t","kind":"request","method":"PUT","host":"a","target":"/orders/18","status":204}"#,
        r#"{"time":"t","kind":"connection","reason":"client_closed"}"#,
        r#"{"time":"t","kind":"request","method":"GET","host":"a","target":"/wp-login","status":404}"#,
        r#"{"time":"t","kind":"request","method":"GET","host":"a","target":"/cut","status":200,"truncated":["target"]}"#,
    ];
    let of_line = |line: &&str| match exchange_of_line(line) {
        LogLine::Request(exchange) => Some(*exchange),
        LogLine::Other => None,
        LogLine::Unreadable => panic!("{line}"),
    };
    let exchanges: Vec<Exchange> = lines.iter().filter_map(of_line).collect();
    assert_eq!(exchanges.len(), 3);
    let learnt = learn(&exchanges, "Orders");
    assert_eq!((learnt.operations, learnt.rejected.len()), (2, 0), "{}", learnt.document);
    assert!(learnt.assumptions.iter().any(|it| it.contains("Bodies were not recorded")), "{:?}", learnt.assumptions);
    assert!(learnt.assumptions.iter().any(|it| it.contains("`security` is not declared")), "{:?}", learnt.assumptions);
    assert!(!learnt.document.contains("wp-login"));
    for bad in ["", "GET / 200", "[]", "{\"kind\":\"request\"", "{\"a\":1,\"a\":2}"] {
        assert_eq!(exchange_of_line(bad), LogLine::Unreadable, "{bad}");
    }
}

/// A small value that is different each time, of a shape that is not.
fn value(random: &mut fastrand::Rng, depth: usize, out: &mut String) {
    match random.u32(..if depth < 4 { 9 } else { 6 }) {
        0 => out.push_str("null"),
        1 => out.push_str("true"),
        2 => out.push_str(&random.i32(..).to_string()),
        3 => out.push_str(&format!("{}.{}e{}", random.i16(..), random.u8(..), random.u8(..9))),
        4 => out.push_str("\"550e8400-e29b-41d4-a716-446655440000\""),
        5 => out.push_str(&format!("\"{}\"", ["", "a", "ö\\u0000\\\"", "2026-01-01", "1", "null"][random.usize(..6)])),
        6 => {
            out.push('[');
            for n in 0..random.usize(..4) {
                out.push_str(if n > 0 { "," } else { "" });
                value(random, depth + 1, out);
            }
            out.push(']');
        }
        kind => {
            out.push('{');
            let members = if kind == 8 && random.u32(..20) == 0 { 150 } else { random.usize(..5) };
            for n in 0..members {
                let name = ["a", "b", "yes", "a b", "x: y", "#", "{", "ü", "0"]
                    .get(n)
                    .map_or(n.to_string(), |name| (*name).to_owned());
                out.push_str(&format!("{}\"{name}\":", if n > 0 { "," } else { "" }));
                value(random, depth + 1, out);
            }
            out.push('}');
        }
    }
}

fn body(random: &mut fastrand::Rng) -> Option<Body> {
    let with = |content_type: &str, bytes: String| {
        Some(Body { content_type: content_type.to_owned(), bytes: Some(bytes.into_bytes()), fields: Vec::new() })
    };
    match random.u32(..8) {
        0 => None,
        7 => with("application/xml", "<a b=\"c\">d</a>".to_owned()),
        1 => with("application/x-www-form-urlencoded", query(random)),
        2 => with("text/plain; charset=utf-8", "hello \u{20ac}".to_owned()),
        3 => with("image/png", "\u{1}\u{2}".to_owned()),
        kind => {
            let mut text = String::new();
            value(random, 0, &mut text);
            with(if kind == 4 { "application/vnd.x+json" } else { "application/json" }, text)
        }
    }
    .filter(|body| body.bytes.as_ref().is_some_and(|bytes| !bytes.is_empty()))
}

fn query(random: &mut fastrand::Rng) -> String {
    let names = ["a", "b", "page", "filter%5Bx%5D", "yes", "caf%C3%A9", "x.y"];
    let values = [
        "",
        "1",
        "-5",
        "007",
        "1.50",
        "true",
        "a+b",
        "%2C%25",
        "x,y",
        "x|y",
        "550e8400-e29b-41d4-a716-446655440000",
        "2026-11-22",
    ];
    (0..random.usize(..4))
        .map(|_| format!("{}={}", random.choice(names).unwrap(), random.choice(values).unwrap()))
        .collect::<Vec<_>>()
        .join("&")
}

fn exchange(random: &mut fastrand::Rng) -> Exchange {
    let segments = [
        "",
        "users",
        "1",
        "-7",
        "0017",
        "v1",
        "a:b",
        "%20",
        "%7B",
        "a;b",
        "550e8400-e29b-41d4-a716-446655440000",
        "2026-11-22",
        "x%40y.z",
        "{",
        "null",
    ];
    let mut target: String =
        (0..random.usize(1..5)).map(|_| format!("/{}", random.choice(segments).unwrap().replace('{', "w"))).collect();
    if random.u32(..8) == 0 {
        target.push_str(&format!("/w{}", random.u8(..40)));
    }
    if random.bool() {
        target = format!("{target}?{}", query(random));
    }
    let method = random.choice(["GET", "POST", "PUT", "DELETE"]).unwrap();
    let bodies = match random.u32(..8) {
        0 => Bodies::Unknown,
        _ => Bodies::Known(body(random).filter(|_| method != "GET"), body(random)),
    };
    let credentials =
        random.choice([None, Some(Credentials::Nothing), Some(Credentials::Bearer), Some(Credentials::Basic)]).unwrap();
    let status = random.choice([200, 200, 200, 201, 302, 404, 500, 0]).unwrap();
    Exchange { method: method.to_owned(), host: "a".to_owned(), target, status, credentials, bodies }
}

#[test]
fn a_document_accepts_all_that_it_was_learnt_from_and_has_no_errors() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let exchanges: Vec<Exchange> = (0..random.usize(1..60)).map(|_| exchange(&mut random)).collect();
        let learnt = learn(&exchanges, "Any: \"title\"\n#");
        assert_eq!(learnt.rejected, [], "seed {seed}\n{}", learnt.document);
        let contract = Contract::from_text("learnt.yaml", &learnt.document, &Options::default());
        let contract = contract.unwrap_or_else(|problems| panic!("seed {seed}: {problems:?}\n{}", learnt.document));
        assert_eq!(contract.operations().len(), learnt.operations, "seed {seed}");
        let findings = lint_text("learnt.yaml", &learnt.document, &Options::default()).unwrap();
        let errors: Vec<_> = findings.iter().filter(|finding| finding.rule.is_error()).collect();
        assert!(errors.is_empty(), "seed {seed}: {errors:?}\n{}", learnt.document);
        let good = exchanges.iter().filter(|one| (200..400).contains(&one.status)).count();
        assert_eq!(learnt.used, good, "seed {seed}: {:?}", learnt.left_out);
    }
}

#[test]
fn what_is_learnt_does_not_depend_on_the_order() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut exchanges: Vec<Exchange> = (0..40).map(|_| exchange(&mut random)).collect();
    let first = learn(&exchanges, "t").document;
    random.shuffle(&mut exchanges);
    assert_eq!(learn(&exchanges, "t").document, first);
}

#[test]
fn hostile_recordings_end_in_a_document_or_an_error() {
    let many: Vec<Exchange> = (0..3_000)
        .map(|n| Exchange {
            method: "GET".to_owned(),
            target: format!("/x{n}/{}", "a/".repeat(50)),
            status: 200,
            ..Exchange::default()
        })
        .collect();
    let learnt = learn(&many, "t");
    assert_eq!((learnt.operations, learnt.rejected.len()), (1, 0), "{:?}", learnt.left_out);
    for target in [
        "x",
        "/..",
        "/a/./b",
        "/{x}",
        "/a b",
        "/\u{e9}",
        "/a\\b",
        &format!("/{}", "a/".repeat(70)),
        "/x?%zz",
        "/x?%ff=1",
    ] {
        let one =
            Exchange { method: "GET".to_owned(), target: (*target).to_owned(), status: 200, ..Exchange::default() };
        let learnt = learn(&[one], "t");
        assert_eq!(
            (learnt.operations, learnt.left_out.len(), learnt.rejected.len()),
            (0, 1, 0),
            "{target}\n{}",
            learnt.document
        );
    }
    for bad in ["", "{}", "[1]", "{\"log\":{\"entries\":{}}}", "{\"log\":"] {
        assert!(exchanges_of_har(Path::new("x.har"), bad).is_err(), "{bad}");
    }
    let odd = r#"{"log":{"entries":[{},1,null,{"request":{},"response":{}},{"request":{"method":"GET","url":"nothing"},"response":{"status":200}}]}}"#;
    assert_eq!(exchanges_of_har(Path::new("x.har"), odd).unwrap(), []);
}
