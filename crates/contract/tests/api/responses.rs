//! Responses: declared statuses, header fields, media types and bodies.

use contract::options::{Options, Undeclared};

use super::{contract_with, response_decision};

const DOCUMENT: &str = "
openapi: 3.0.3
info: {title: t, version: '1'}
paths:
  /a:
    get:
      responses:
        '200':
          description: ok
          headers:
            X-Count: {required: true, schema: {type: integer}}
            X-Other: {schema: {type: string, enum: [a]}}
            Set-Cookie: {schema: {type: string, maxLength: 5}}
          content:
            application/json:
              schema:
                type: object
                required: [secret, id]
                properties: {id: {type: integer, readOnly: true}, secret: {type: string, writeOnly: true}}
        '204': {description: nothing}
        4XX: {description: bad, content: {application/problem+json: {schema: {type: object}}}}
    head:
      responses:
        '200': {description: ok, content: {application/json: {schema: {type: integer}}}}
    post:
      responses:
        default: {description: any, content: {text/plain: {}}}
";

/// Method, status, fields, body, decision.
type Row<'r> = (&'r str, u16, &'r [(&'r str, &'r str)], &'r str, &'r str);

#[test]
fn declared_responses_pass_and_no_others() {
    let strict = Options { undeclared_response_body: Undeclared::Reject, ..Options::default() };
    let contract = contract_with(DOCUMENT, &strict);
    let json = ("Content-Type", "application/json");
    let problem = ("content-type", "application/problem+json");
    let rows: [Row<'_>; 17] = [
        ("GET", 200, &[json, ("X-Count", "1")], "{\"id\":1}", "ok"),
        ("GET", 200, &[json], "{\"id\":1}", "header_missing header x-count"),
        ("GET", 200, &[json, ("X-Count", "x")], "{\"id\":1}", "type header x-count"),
        ("GET", 200, &[json, ("X-Count", "1"), ("x-count", "2")], "{\"id\":1}", "parameter_repeated header x-count"),
        ("GET", 200, &[json, ("X-Count", "1"), ("X-Other", "b")], "{\"id\":1}", "enum header x-other"),
        // Each cookie is set by a field of its own.
        ("GET", 200, &[json, ("X-Count", "1"), ("Set-Cookie", "a=1"), ("set-cookie", "b=2")], "{\"id\":1}", "ok"),
        (
            "GET",
            200,
            &[json, ("X-Count", "1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2222")],
            "{\"id\":1}",
            "max_length header set-cookie",
        ),
        ("GET", 200, &[json, ("X-Count", "1")], "{\"id\":\"1\"}", "type body /id"),
        ("GET", 200, &[json, ("X-Count", "1")], "{\"id\":1,\"secret\":\"s\"}", "write_only body /secret"),
        (
            "GET",
            200,
            &[("Content-Type", "text/html"), ("X-Count", "1")],
            "<html>",
            "content_type_undeclared header content-type",
        ),
        ("GET", 204, &[], "", "ok"),
        ("GET", 204, &[json], "{}", "body_undeclared body"),
        ("GET", 404, &[problem], "{}", "ok"),
        ("GET", 404, &[problem], "[]", "type body"),
        ("GET", 500, &[problem], "{}", "status_undeclared status 500"),
        ("POST", 503, &[("Content-Type", "text/plain")], "x", "ok"),
        ("HEAD", 200, &[json], "", "ok"),
    ];
    for (method, status, fields, body, expected) in rows {
        let decision = response_decision(&contract, method, "/a", status, fields, body.as_bytes());
        assert_eq!(decision, expected, "{method} {status} {fields:?} {body}");
    }
    let open = Options { undeclared_status: Undeclared::Ignore, ..Options::default() };
    assert_eq!(response_decision(&contract_with(DOCUMENT, &open), "GET", "/a", 500, &[], b"x"), "ok");
}
