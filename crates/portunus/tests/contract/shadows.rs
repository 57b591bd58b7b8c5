//! What stands in no document is counted and listed, the most frequent first, but for what is excluded.

use serde_json::Value;

use super::site::{SHOP, Site};
use crate::harness::{Reply, wait_until};

fn shadows(site: &Site) -> Vec<Value> {
    let text = site.gate.operate("GET /shadow", "");
    let body = text.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str::<Value>(body).unwrap()["shadows"].as_array().unwrap().clone()
}

#[test]
fn paths_methods_statuses_parameters_and_fields_are_listed() {
    let site = Site::with(
        SHOP,
        ", request: log, response: log, undeclared: { body_fields: block }, shadow: { exclude_paths: [/.well-known/] }",
        &[],
        |_| Reply::Keep(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec()),
    );
    for _ in 0..3 {
        site.get("GET /v1/legacy", "");
    }
    site.get("PATCH /v1/products/7", "");
    site.get("GET /v1/products?debug=1", "");
    site.get("GET /.well-known/security.txt", "");
    site.post("POST /v1/orders", "application/json", r#"{"secret":1}"#);
    let has = |list: &[Value], kind: &str, operation: &str, name: &str| {
        list.iter().any(|entry| {
            entry["kind"] == kind && entry["operation"] == operation && entry["name"].as_str().unwrap().contains(name)
        })
    };
    wait_until("the list", || {
        let list = shadows(&site);
        has(&list, "path", "GET", "/v1/legacy")
            && has(&list, "method", "PATCH", "/v1/products/7")
            && has(&list, "parameter", "GET /products", "debug")
            && has(&list, "status", "GET /products", "503")
            && has(&list, "field", "POST /orders", "secret")
    });
    let list = shadows(&site);
    assert_eq!((&list[0]["name"], &list[0]["count"]), (&"/v1/legacy".into(), &3.into()));
    assert!(!has(&list, "path", "GET", "/.well-known/"), "{list:?}");
}

#[test]
fn rejected_shadows_are_listed_too_and_404_is_not() {
    let site =
        Site::with(SHOP, "", &[], |_| Reply::Keep(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()));
    assert_eq!(site.get("GET /v1/products", "").status, 502);
    assert_eq!(site.get("GET /v1/admin", "").status, 404);
    wait_until("the list", || shadows(&site).iter().any(|entry| entry["name"] == "/v1/admin"));
    assert!(shadows(&site).iter().all(|entry| entry["kind"] != "status"));
}

/// Every undeclared field of a body, also where the body breaks the contract otherwise; a status that is only listed is excluded like any other.
#[test]
fn all_fields_of_one_body_are_listed() {
    let document = "openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /orders:
    post:
      requestBody:
        content:
          application/json:
            schema:
              type: object
              properties:
                items: { type: array, items: { type: object, properties: { product: { type: integer } } } }
                to: { allOf: [{ type: object, properties: { name: { type: string } } }] }
      responses: { '200': { description: any } }
";
    for (modes, product) in [(", request: log", "\"no\""), (", undeclared: { body_fields: log, status: log }", "8")] {
        let site = Site::with(document, modes, &[], |_| {
            Reply::Keep(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec())
        });
        let body = r#"{"secret":1,"items":[{"product":PRODUCT,"hidden":{"x":1}},{"other":2}],"to":{"name":"A","planet":"earth"}}"#;
        site.post("POST /orders", "application/json", body.replace("PRODUCT", product));
        assert_eq!(site.seen(), 1, "{modes}");
        let listed = || {
            let mut names: Vec<String> =
                shadows(&site).iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect();
            names.sort_unstable();
            names
        };
        wait_until("the list", || listed().len() >= 4);
        assert_eq!(listed(), ["/items/0/hidden", "/items/1/other", "/secret", "/to/planet"], "{modes}");
    }
}
