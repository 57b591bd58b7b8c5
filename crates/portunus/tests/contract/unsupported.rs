//! Operations that cannot be validated as their document says: never served unchecked where the contract blocks, and no reason to reject the others.

use super::site::{Site, checked};
use crate::harness::{Reply, Seen};

fn ok(_: &Seen) -> Reply {
    Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".to_vec())
}

/// `/good` is as it should be; the requests of `/request` and the responses of `/response` cannot be validated.
const API: &str = "openapi: 3.1.0
info: { title: t, version: '1' }
paths:
  /good:
    post:
      requestBody: { content: { application/json: { schema: { type: object } } } }
      responses: { '200': { description: d, content: { application/json: { schema: { type: object, nullable: true } } } } }
  /request:
    post:
      requestBody: { content: { application/json: { schema: { pattern: '(a)\\1' } } } }
      responses: { '200': { description: d, content: { application/json: {} } } }
  /response:
    post:
      requestBody: { content: { application/json: { schema: { type: object } } } }
      responses: { '200': { description: d, content: { application/json: { schema: { min_properties: 1 } } } } }
";

#[test]
fn an_unsupported_operation_is_501_and_the_others_are_served() {
    let site = Site::with(API, "", &[], ok);
    assert_eq!(site.post("POST /good", "application/json", "{}").status, 200);
    assert_eq!(site.post("POST /good", "application/json", "[]").status, 400);
    assert_eq!(site.seen(), 1);
    for path in ["/request", "/response"] {
        let response = site.post(&format!("POST {path}"), "application/json", "{}");
        assert_eq!((response.status, response.json()["code"].as_str()), (501, Some("operation_unsupported")), "{path}");
    }
    assert_eq!(site.seen(), 1, "nothing of them goes on");
}

/// What is not blocked passes; what is, is not executed for a response that nobody would get.
#[test]
fn each_side_has_its_mode() {
    let rows = [
        (", request: log, response: log", 200, 200),
        (", request: log, response: block", 200, 501),
        (", request: off, response: block", 200, 501),
        (", request: block, response: off", 501, 200),
        (", operations: [{ path: /request, request: log }, { path: /response, response: off }]", 200, 200),
    ];
    for (modes, request, response) in rows {
        let site = Site::with(API, modes, &[], ok);
        for (path, expected) in [("/request", request), ("/response", response)] {
            let got = site.post(&format!("POST {path}"), "application/json", "{}");
            assert_eq!(got.status, expected, "{modes} {path}: {got:?}");
        }
        let passed = [request, response].iter().filter(|status| **status == 200).count();
        assert_eq!(site.seen(), passed, "{modes}");
    }
}

#[test]
fn check_lists_what_is_wrong_with_line_and_fix() {
    let (fine, said) = checked(API, &[], "");
    assert!(fine, "{said}");
    for expected in [
        "api.yaml:10:72: pattern",
        "(concerns POST /request); its messages are rejected",
        "write \"minProperties\"",
        "(concerns POST /response)",
        "api.yaml:7:",
        "write `type: [..., \"null\"]`",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let (fine, said) = checked(API, &[], ", on_unsupported: fail");
    assert!(!fine && said.contains("POST /request") && !said.contains("nullable"), "{said}");
    let (fine, said) = checked(API, &[], ", strict: true");
    assert!(fine && said.contains("(concerns POST /good)"), "{said}");
}
