//! Settings that say how strictly a document is meant, from the file to what the upstream sees: the default, and the switch.

use super::site::Site;
use crate::harness::{Reply, Seen};

const DOCUMENT: &str = "openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /a:
    get:
      parameters:
        - { name: ids, in: query, explode: false, schema: { type: array, maxItems: 2, items: { type: integer } } }
        - { name: tags, in: query, explode: false, schema: { type: array, maxItems: 2, items: { type: string } } }
      responses: { '200': { description: nothing is said of a body } }
    post:
      requestBody:
        content:
          application/json: { schema: { type: object, properties: { at: { type: string, format: date-time }, mood: { type: string, nullable: true, enum: [good] }, link: { type: string, format: uri } } } }
          image/png: { schema: { type: string, format: binary } }
      responses: { '200': { description: d } }
";

fn reply(seen: &Seen) -> Reply {
    let length =
        if seen.head.starts_with("GET") { "2\r\nContent-Type: application/json\r\n\r\n{}" } else { "0\r\n\r\n" };
    Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}").into_bytes())
}

const LENIENT: &str = ", formats: [date-time, uuid], lenient_times: true, nullable: intent, escaped_delimiters: split, declared_binary: block, undeclared: { response_body: off }";

#[test]
fn each_switch_has_a_strict_default_and_is_read_from_the_file() {
    let strict = Site::with(DOCUMENT, "", &[], reply);
    let lenient = Site::with(DOCUMENT, LENIENT, &[], reply);
    for (body, code) in [
        (r#"{"at":"2026-01-01T10:00:00"}"#, "format"),
        (r#"{"mood":null}"#, "enum"),
        (r#"{"link":"/relative"}"#, "format"),
    ] {
        let response = strict.post("POST /a", "application/json", body);
        assert_eq!((response.status, &response.json()["code"]), (400, &code.into()), "{body}");
        let before = lenient.seen();
        assert_eq!(lenient.post("POST /a", "application/json", body).status, 200, "{body}");
        assert_eq!(lenient.upstream.seen()[before].body, body.as_bytes());
    }
    assert_eq!((strict.seen(), strict.upstream.raw().len()), (0, 0));
    assert_eq!(lenient.post("POST /a", "application/json", r#"{"at":"2026-01-01"}"#).status, 400);

    // What is bytes by the document goes on as it is.
    assert_eq!(strict.post("POST /a", "image/png", "\u{0}PNG").status, 200);
    assert_eq!(strict.upstream.seen()[0].body, b"\0PNG");
    assert_eq!(lenient.post("POST /a", "image/png", "\u{0}PNG").status, 415);

    // Nothing declares the response's body.
    let blocking = Site::with(DOCUMENT, ", undeclared: { response_body: block }", &[], reply);
    assert_eq!(blocking.get("GET /a?ids=1,2", "").json()["code"], "body_undeclared");
    assert_eq!(strict.get("GET /a?ids=1,2", "").status, 200);
    assert_eq!(lenient.get("GET /a?ids=1,2", "").status, 200);
}

/// Servers that resolve escapes before they split see four elements where the specification sees one.
#[test]
fn escaped_delimiters_do_not_get_around_max_items() {
    let strict = Site::with(DOCUMENT, ", undeclared: { response_body: off }", &[], reply);
    let before = strict.seen();
    assert_eq!(strict.get("GET /a?tags=a%2Cb%2Cc%2Cd", "").json()["code"], "max_items");
    assert_eq!(strict.get("GET /a?ids=1%2C2", "").json()["code"], "type");
    assert_eq!(strict.seen(), before);
    assert_eq!(strict.get("GET /a?tags=a%2Cb", "").status, 200);
    assert!(strict.upstream.seen()[before].head.starts_with("GET /a?tags=a%2Cb "), "it goes on as it came");
    let lenient = Site::with(DOCUMENT, LENIENT, &[], reply);
    assert_eq!(lenient.get("GET /a?ids=1%2C2", "").status, 200);
    assert_eq!(lenient.get("GET /a?ids=1%2C2%2C3", "").json()["code"], "max_items");
}
