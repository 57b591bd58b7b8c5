//! XML, YAML and JSON texts in a row, in requests and responses: what the client got, and what the upstream saw.

use std::io::Write as _;

use super::bodies::gzip;
use super::site::Site;
use crate::harness::{Reply, Seen, connect, read_response};

const DOCUMENT: &str = "openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /pets:
    post:
      requestBody:
        required: true
        content: &content
          application/xml: { schema: { $ref: '#/components/schemas/Pet' } }
          application/yaml: { schema: { $ref: '#/components/schemas/Pet' } }
          application/x-ndjson: { schema: { $ref: '#/components/schemas/Pet' } }
          application/json-seq: { schema: { $ref: '#/components/schemas/Pet' } }
      responses: { '200': { description: d, content: *content } }
components:
  schemas:
    Pet:
      type: object
      required: [kind]
      properties:
        kind: { type: string, enum: [cat, dog] }
        age: { type: integer, xml: { attribute: true } }
      xml: { name: pet }
";

/// Media type, body, and the code, place and words of the rejection; none if it passes.
type Row = (&'static str, &'static str, Option<(&'static str, &'static str, &'static str)>);

const ROWS: &[Row] = &[
    ("application/xml", "<?xml version=\"1.0\"?>\r\n<pet age=\"3\"><kind>cat</kind></pet>", None),
    (
        "application/xml",
        "<pet age='x'><kind>cat</kind></pet>",
        Some(("type", "/age", "must be an integer, is a string")),
    ),
    ("application/xml", "<pet><kind>cow</kind></pet>", Some(("enum", "/kind", "must be one of \"cat\", \"dog\""))),
    (
        "application/xml",
        "<!DOCTYPE pet [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><pet><kind>&x;</kind></pet>",
        Some(("xml_malformed", "", "has a document type declaration")),
    ),
    ("application/yaml", "kind: cat\nage: 3\n", None),
    ("application/yaml", "kind: cow\n", Some(("enum", "/kind", "must be one of \"cat\", \"dog\""))),
    ("application/yaml", "kind: cat\nage: x\n", Some(("type", "/age", "must be an integer, is a string"))),
    ("application/yaml", "kind: !!python/name:os.system cat\n", Some(("yaml_malformed", "", "has a tag"))),
    (
        "application/yaml",
        "kind: cat\nage: 012\n",
        Some(("yaml_malformed", "", "holds `012`, which readers of YAML take differently; quote it if it is text")),
    ),
    ("application/x-ndjson", "{\"kind\":\"cat\"}\n{\"kind\":\"dog\",\"age\":1}\n", None),
    (
        "application/x-ndjson",
        "{\"kind\":\"cat\"}\n{\"kind\":\"cow\"}\n",
        Some(("enum", "/1/kind", "must be one of \"cat\", \"dog\"")),
    ),
    (
        "application/x-ndjson",
        "{\"kind\":\"cat\"}\n\n{\"kind\":\"dog\"}\n",
        Some(("sequence_malformed", "", "holds an empty line")),
    ),
    ("application/json-seq", "\u{1e}{\"kind\":\"cat\"}\n\u{1e}{\"kind\":\n\"dog\"}\n", None),
    (
        "application/json-seq",
        "\u{1e}{\"kind\":\"cat\"}",
        Some(("sequence_malformed", "", "does not end with a line feed")),
    ),
];

fn empty(_: &Seen) -> Reply {
    let body = "kind: cat\n";
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/yaml\r\nContent-Length: {}\r\n\r\n", body.len());
    Reply::Keep([head.as_bytes(), body.as_bytes()].concat())
}

#[test]
fn requests_are_validated_before_the_upstream_sees_a_byte() {
    let site = Site::with(DOCUMENT, ", detail: pointer", &[], empty);
    let mut passed = 0;
    for (kind, body, rejected) in ROWS {
        let encoded = gzip(body.as_bytes());
        let gzipped = format!("Content-Type: {kind}\r\nContent-Encoding: gzip\r\n");
        for (fields, sent) in [(format!("Content-Type: {kind}\r\n"), body.as_bytes()), (gzipped, &encoded)] {
            let response = site.post_with("POST /pets", &fields, sent);
            match rejected {
                None => {
                    assert_eq!(response.status, 200, "{kind} {body:?}: {response:?}");
                    passed += 1;
                    assert_eq!(site.upstream.seen().last().unwrap().body, sent, "{kind} {body:?}");
                }
                Some((code, pointer, what)) => {
                    let problem = response.json();
                    let found = (&problem["code"], &problem["detail"]);
                    assert_eq!((response.status, found), (400, (&(*code).into(), &(*what).into())), "{kind} {body:?}");
                    assert_eq!(problem["pointer"].as_str().unwrap_or_default(), *pointer, "{kind} {body:?}: {problem}");
                }
            }
            assert_eq!(site.seen(), passed, "{kind} {body:?}");
        }
    }
    assert!(!String::from_utf8_lossy(&site.upstream.raw()).contains("DOCTYPE"));
}

/// However the bytes arrive.
#[test]
fn pieces_make_no_difference() {
    let site = Site::with(DOCUMENT, "", &[], empty);
    for (kind, body, rejected) in ROWS {
        let mut client = connect(site.gate.address("web"));
        let head = format!(
            "POST /pets HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        for byte in body.as_bytes() {
            // What is rejected early is not read to its end.
            let _ = client.write_all(&[b"1\r\n", &[*byte][..], b"\r\n"].concat());
        }
        let _ = client.write_all(b"0\r\n\r\n");
        let (head, _) = read_response(&mut client);
        let status = if rejected.is_some() { "HTTP/1.1 400" } else { "HTTP/1.1 200" };
        assert!(head.starts_with(status), "{kind} {body:?}: {head}");
    }
}

#[test]
fn responses_are_validated_before_the_client_sees_a_byte() {
    for (kind, body, rejected) in ROWS {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let reply = move |_: &Seen| Reply::Keep(text.clone().into_bytes());
        let site = Site::with(DOCUMENT, "", &[], reply);
        let response = site.post("POST /pets", "application/yaml", "kind: cat\n");
        match rejected {
            None => assert_eq!((response.status, response.body.as_slice()), (200, body.as_bytes()), "{kind} {body:?}"),
            Some((code, ..)) => {
                assert_eq!(response.status, 502, "{kind} {body:?}");
                assert_eq!(site.gate.log(1)[0]["contract"]["reason"], *code, "{kind} {body:?}");
            }
        }
    }
}

/// In mode `log` nothing waits and nothing is rejected, and the log says it in the same words.
#[test]
fn log_says_what_it_would_reject() {
    let site = Site::with(DOCUMENT, ", request: log", &[], empty);
    for (number, (kind, body, rejected)) in ROWS.iter().enumerate() {
        assert_eq!(site.post("POST /pets", kind, body).status, 200, "{kind} {body:?}");
        assert_eq!(site.upstream.seen().last().unwrap().body, body.as_bytes(), "{kind} {body:?}");
        let log = site.gate.log(number + 1);
        let contract = &log[number]["contract"];
        match rejected {
            None => assert_eq!(contract["decision"], "passed", "{kind} {body:?}"),
            Some((code, _, what)) => {
                assert_eq!(contract["reason"], *code, "{kind} {body:?}: {contract}");
                if !what.contains('"') {
                    site.gate.wait_for(what);
                }
            }
        }
    }
}
