//! Documents that change under load: whole generations, nothing lost, nothing validated by half a document.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use super::site::{SHOP, Site, shop_response, write};
use crate::harness::{connect, read_response, wait_until};

#[test]
fn a_document_is_read_again_when_it_changes_and_a_broken_one_changes_nothing() {
    let shop = Site::shop(", on_unsupported: fail");
    assert_eq!(shop.get("GET /v1/products?page=5", "").status, 200);
    write(shop.gate.dir.path(), "openapi.yaml", &SHOP.replace("maximum: 10000", "maximum: 4"));
    wait_until("the new document", || shop.get("GET /v1/products?page=5", "").status == 400);
    for (broken, reported) in [
        (SHOP.replace("pattern: \"^[A-Z]{3}$\"", "pattern: \"(a\""), "openapi.yaml:"),
        (SHOP.replace("#/components/schemas/Money", "#/components/schemas/Monies"), "Monies"),
        ("openapi: 3.1.0\n".to_owned(), "openapi.yaml"),
        (SHOP.replace("openapi: 3.1.0", "swagger: '1.2'"), "openapi.yaml"),
    ] {
        write(shop.gate.dir.path(), "openapi.yaml", &broken);
        shop.gate.wait_for("reload rejected, the active configuration stays");
        wait_until("the reason", || {
            shop.gate.diagnostics().iter().any(|line| line.contains("rejected") && line.contains(reported))
        });
        assert_eq!(shop.get("GET /v1/products?page=5", "").status, 400);
        assert_eq!(shop.get("GET /v1/products?page=4", "").status, 200);
    }
    assert!(shop.gate.metrics().contains("portunus_config_last_reload_successful 0"));
}

#[test]
fn fifty_reloads_under_load_lose_nothing_and_validate_by_one_document_at_a_time() {
    let shop = Site::with(SHOP, "", &[], shop_response);
    let folder = shop.gate.dir.path();
    let done = AtomicBool::new(false);
    // Valid under both documents, under one of them, under none.
    let cases = [("page=3", &[200][..]), ("page=5", &[200, 400]), ("page=0", &[400])];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = connect(shop.gate.address("web"));
                while !done.load(Ordering::Relaxed) {
                    for (query, expected) in cases {
                        write!(client, "GET /v1/products?{query} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                        let (head, _) = read_response(&mut client);
                        let status: u16 = head[9..12].parse().unwrap();
                        assert!(expected.contains(&status), "{query}: {head}");
                    }
                }
            });
        }
        for round in 0..50 {
            let text = if round % 2 == 0 { SHOP.replace("maximum: 10000", "maximum: 4") } else { SHOP.to_owned() };
            write(folder, "openapi.yaml", &text);
            shop.gate.signal("HUP");
            let wanted = format!("\"generation\":{}", round + 2);
            wait_until("a generation", || shop.gate.diagnostics().iter().any(|line| line.contains(&wanted)));
        }
        done.store(true, Ordering::Relaxed);
    });
    let log = shop.gate.log(1);
    assert!(log.iter().all(|line| line["fault"].is_null() || line["contract"]["decision"] == "blocked"));
}
