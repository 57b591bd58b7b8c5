//! The samples that users start from are what they say: the example and the quick start in containers.

use super::site::{ORDER, Site, folder, shop_response, write};
use crate::harness::{Gate, Upstream};

/// A configuration of ours for a gate in this process's place: its own ports, our upstream, its files where it looks for them.
fn ported(text: &str, upstream: &Upstream) -> String {
    let server = between(text, "servers: [\"", "\"]");
    let text = text
        .replace(server, &upstream.address.to_string())
        .replace(":8080", "127.0.0.1:0")
        .replace("127.0.0.1:9901", "127.0.0.2:0");
    text.replace("- name: edge", "- name: web").replace("- name: api", "- name: web")
}

/// What stands between two texts.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let start = text.find(from).unwrap() + from.len();
    &text[start..start + text[start..].find(to).unwrap()]
}

#[test]
fn the_example_protects_the_shop() {
    let upstream = Upstream::start(shop_response);
    let text = ported(include_str!("../../../../examples/contract-shop.yaml"), &upstream);
    let files = folder("", &[]);
    std::fs::create_dir(files.path().join("shop")).unwrap();
    write(&files.path().join("shop"), "openapi.yaml", super::site::SHOP);
    let site = Site { gate: Gate::start_in(files, &text), upstream };
    assert_eq!(site.get("GET /v1/products?page=2", "").status, 200);
    assert_eq!(site.post("POST /v1/orders", "application/json", ORDER).status, 201);
    let response = site.get("GET /v1/products?page=none", "");
    assert_eq!((response.status, &response.json()["name"]), (400, &"page".into()));
    assert_eq!(site.get("GET /v1/admin", "").status, 404);
    assert_eq!(site.seen(), 2);
}

#[test]
fn the_quick_start_in_containers_does_what_its_first_lines_say() {
    let upstream = Upstream::start(|seen| {
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        crate::harness::Reply::Keep(format!("{head}{body}").into_bytes())
    });
    let text = ported(include_str!("../../../../packaging/contract/portunus.yaml"), &upstream);
    let files = folder(include_str!("../../../../packaging/contract/openapi.yaml"), &[]);
    let site = Site { gate: Gate::start_in(files, &text), upstream };
    let say = |body: &str| site.post("POST /echo", "application/json", body);
    assert_eq!(say(r#"{"to":"a@example.com","text":"hello"}"#).status, 200);
    let rejected = say(r#"{"to":"a@example.com","text":"hello","admin":true}"#);
    assert_eq!(
        (rejected.status, &rejected.json()["code"], &rejected.json()["pointer"]),
        (400, &"unknown_field".into(), &"/admin".into())
    );
    assert_eq!(site.get("GET /admin", "").status, 404);
}
