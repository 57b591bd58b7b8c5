//! Documents that are fetched from a URL: what holds before, between and after fetches, and what a provider cannot do.

use std::sync::{Arc, Mutex};

use super::site::{SHOP, Site, folder, shop_response, write, yaml};
use super::tokens::Provider;
use crate::harness::{Gate, Reply, Upstream, certificates, path, wait_until};

/// A provider that serves what stands in the cell; nothing: 503.
fn provider(serving: &Arc<Mutex<String>>) -> Upstream {
    let serving = Arc::clone(serving);
    Upstream::start(move |_| {
        let text = serving.lock().unwrap().clone();
        match text.is_empty() {
            true => Reply::Close(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_vec()),
            false => {
                Reply::Close(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes())
            }
        }
    })
}

/// A gate whose document is kept in `openapi.yaml` of this folder.
fn site(folder: tempfile::TempDir, contract: &str) -> Site {
    let upstream = Upstream::start(shop_response);
    let text = yaml(&upstream, contract, "") + "\nsandbox: { write: . }\n";
    Site { gate: Gate::start_in(folder, &text), upstream }
}

#[test]
fn a_document_comes_from_a_url_and_the_last_good_copy_is_kept() {
    let serving = Arc::new(Mutex::new(String::new()));
    let provider = provider(&serving);
    let serve = |text: &str| text.clone_into(&mut serving.lock().unwrap());
    let url = format!(
        ", limits: {{ max_document: 64KiB }}, document_url: {{ url: \"http://{}/api.yaml?v=1\", refresh_interval: 1s, headers: [{{ name: X-Token, value: {{ file: token }} }}] }}",
        provider.address
    );
    let empty = tempfile::tempdir().unwrap();
    write(empty.path(), "token", "s3cret\n");
    write(empty.path(), "other.yaml", "get: { responses: { '200': { description: d } } }\n");
    let shop = site(empty, &url);
    // Nobody knows yet what may pass, and it is not the client's fault.
    shop.gate.wait_for("document not fetched: the response was 503");
    assert_eq!((shop.get("GET /v1/products?page=5", "").status, shop.seen()), (503, 0));
    serve(SHOP);
    wait_until("the document", || shop.get("GET /v1/products?page=5", "").status == 200);
    assert_eq!(provider.seen()[0].line(), "GET /api.yaml?v=1 HTTP/1.1");
    assert_eq!(provider.seen()[0].fields("x-token"), ["s3cret"]);
    let copy = shop.gate.dir.path().join("openapi.yaml");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), SHOP);
    // What is no good changes nothing: no document, one under which the contract does not hold, one that is too large.
    for (bad, reported) in [
        ("openapi: 9.0.0\n".to_owned(), "is no version that is known"),
        (format!("{SHOP}# {}\n", "x".repeat(70_000)), "larger"),
    ] {
        serve(&bad);
        shop.gate.wait_for("document not fetched");
        wait_until("the reason", || shop.gate.diagnostics().iter().any(|line| line.contains(reported)));
        assert_eq!(shop.get("GET /v1/products?page=5", "").status, 200);
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), SHOP);
    }
    serve(&SHOP.replace("maximum: 10000", "maximum: 4"));
    wait_until("the new document", || shop.get("GET /v1/products?page=5", "").status == 400);
    // A restart begins with the copy, whatever has become of the provider.
    serve("");
    let (_, folder) = shop.gate.stop_and_keep();
    let shop = site(folder, &url);
    assert_eq!(shop.get("GET /v1/products?page=5", "").status, 400);
    assert_eq!(shop.get("GET /v1/products?page=4", "").status, 200);
    // It may not lead to files of this machine.
    serve(&SHOP.replace("paths:\n", "paths:\n  /other: { $ref: other.yaml }\n"));
    wait_until("the path", || shop.get("GET /v1/other", "").status == 501);
}

#[test]
fn a_document_comes_over_tls_from_whom_our_ca_knows() {
    let (known, stranger) = (certificates(&[("api.test", false)]), certificates(&[("api.test", false)]));
    write(known.path(), "api.yaml", SHOP);
    let provider = Provider::start(known.path(), 0);
    let site = |ca: &tempfile::TempDir, name: &str| {
        let url = format!("https://127.0.0.1:{}/api.yaml", provider.1);
        let tls = format!("tls: {{ ca: {}, server_name: {name} }}", path(ca, "ca.pem"));
        site(
            tempfile::tempdir().unwrap(),
            &format!(", document_url: {{ url: \"{url}\", refresh_interval: 1s, {tls} }}"),
        )
    };
    for rejected in [site(&stranger, "api.test"), site(&known, "other.test")] {
        rejected.gate.wait_for("document not fetched: upstream_certificate");
        assert_eq!((rejected.get("GET /v1/products", "").status, rejected.seen()), (503, 0));
    }
    let shop = site(&known, "api.test");
    wait_until("the document", || shop.get("GET /v1/products?page=5", "").status == 200);
}

/// In `log` nothing is rejected, so nothing waits for the document either; a file beside it is no reason to fetch nothing.
#[test]
fn modes_hold_before_the_first_fetch() {
    let url = ", document_url: { url: \"http://127.0.0.1:9/api.yaml\", refresh_interval: 1s }";
    let logging = site(tempfile::tempdir().unwrap(), &format!("{url}, request: log, response: log"));
    assert_eq!(logging.get("GET /v1/products?page=5", "").status, 200);
    let kept = site(folder(SHOP, &[]), url);
    assert_eq!(kept.get("GET /v1/products?page=5", "").status, 200);
    assert_eq!(kept.get("GET /v1/products?page=x", "").status, 400);
}
