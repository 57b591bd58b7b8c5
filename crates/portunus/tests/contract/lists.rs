//! The deny-list of tokens and the allow-list of addresses: exact, on every request, whatever the document and its modes say.

use std::io::Write;

use super::site::{SHOP, Site, shop_response, write};
use crate::harness::{Gate, Upstream, connect, read_response, wait_until};

const DENY: &str = ", deny_tokens: { file: denied.txt, header: Authorization, cookie: session }";
const ALLOW: &str = ", allow_addresses: { file: allowed.txt }";

#[test]
fn denied_tokens_are_rejected_everywhere_and_in_every_mode() {
    for mode in ["", ", request: log, response: log", ", request: off, response: off", ", allow_options: true"] {
        let shop = Site::with(SHOP, &format!("{DENY}{mode}"), &[("denied.txt", "bad-token\n\nother\n")], shop_response);
        for request in ["GET /v1/products", "GET /v1/nothing", "PUT /v1/products", "OPTIONS /v1/products", "GET /"] {
            for field in [
                "Authorization: Bearer bad-token",
                "Authorization: other",
                "Cookie: a=b; session=bad-token",
                "Cookie: session=%62ad-token",
            ] {
                let response = shop.get(request, &format!("{field}\r\n"));
                assert_eq!((response.status, shop.seen()), (403, 0), "{mode} {request} {field}");
            }
        }
        assert_eq!(shop.get("GET /v1/products", "Authorization: Bearer bad-token-2\r\n").status, 200, "{mode}");
        assert_eq!(shop.gate.log(1)[0]["reason"], "token_denied");
    }
}

/// Whoever holds an ES256 token can turn its signature (r, s) into (r, n - s), which is as good, and spell it with padding or unused bits.
#[test]
fn a_denied_token_with_another_signature_is_denied() {
    const CLAIMS: &str = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0";
    let (signature, turned) = ("A".repeat(85) + "Q", "A".repeat(43) + &"_".repeat(42) + "w");
    let denied = format!("{CLAIMS}.{signature}\n");
    let shop = Site::with(SHOP, DENY, &[("denied.txt", &denied)], shop_response);
    for spelled in [&signature, &turned, &format!("{signature}=="), &format!("{}R", &signature[..85])] {
        let response = shop.get("GET /v1/products", &format!("Authorization: Bearer {CLAIMS}.{spelled}\r\n"));
        assert_eq!((response.status, shop.seen()), (403, 0), "{spelled}");
        let response = shop.get("GET /v1/products", &format!("Cookie: session={CLAIMS}.{spelled}\r\n"));
        assert_eq!((response.status, shop.seen()), (403, 0), "{spelled}");
    }
    let other = format!("Authorization: Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJiIn0.{signature}\r\n");
    assert_eq!(shop.get("GET /v1/products", &other).status, 200);
}

/// What a PASETO says is its message and footer: the spelling of their base64 and, in public ones, the signature can be changed.
#[test]
fn a_denied_paseto_is_denied_however_it_is_spelled() {
    let (message, signature) = ("eyJzdWIiOiJhIiwgIjEiOjF9", "A".repeat(86));
    let denied = format!("v4.public.{message}{signature}.Zm9vdA\nv4.local.QUJDRA\n");
    let shop = Site::with(SHOP, DENY, &[("denied.txt", &denied)], shop_response);
    for spelled in [
        format!("v4.public.{message}{signature}.Zm9vdA"),
        format!("v4.public.{message}{signature}.Zm9vdB"),
        format!("v4.public.{message}{signature}==.Zm9vdA=="),
        format!("v4.public.{message}{}w.Zm9vdA", "_".repeat(85)),
        "v4.local.QUJDRB".to_owned(),
        "v4.local.QUJDRA==".to_owned(),
        "v4.local.QUJDRA.".to_owned(),
    ] {
        let response = shop.get("GET /v1/products", &format!("Authorization: Bearer {spelled}\r\n"));
        assert_eq!((response.status, shop.seen()), (403, 0), "{spelled}");
    }
    for other in [
        format!("v4.public.{message}{signature}"),
        format!("v2.public.{message}{signature}.Zm9vdA"),
        format!("v4.public.{}{signature}.Zm9vdA", message.replace("hIiw", "iIiw")),
        "v4.local.QUJDRQ".to_owned(),
        "v4.local.QUJDRA.Zm9vdA".to_owned(),
    ] {
        let before = shop.seen();
        assert_eq!(shop.get("GET /v1/products", &format!("Authorization: Bearer {other}\r\n")).status, 200, "{other}");
        assert_eq!(shop.seen(), before + 1);
    }
}

/// Of an opaque token the text counts, but for the padding that base64 may end with.
#[test]
fn a_denied_opaque_token_is_its_text() {
    let shop = Site::with(SHOP, DENY, &[("denied.txt", "Abc-_12==\n")], shop_response);
    for (token, status) in
        [("Abc-_12==", 403), ("Abc-_12", 403), ("abc-_12==", 200), ("Abc+/12==", 200), ("Abc-_13", 200)]
    {
        assert_eq!(
            shop.get("GET /v1/products", &format!("Authorization: Bearer {token}\r\n")).status,
            status,
            "{token}"
        );
    }
}

#[test]
fn every_token_of_a_large_list_is_denied() {
    let list: String = (0..200_000).map(|number| format!("t{number}\n")).collect();
    let shop = Site::with(SHOP, DENY, &[("denied.txt", &list)], shop_response);
    let mut client = connect(shop.gate.address("web"));
    for number in (0..200_000).step_by(999) {
        write!(client, "GET /v1/products HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t{number}\r\n\r\n").unwrap();
        let (head, _) = read_response(&mut client);
        assert!(head.starts_with("HTTP/1.1 403 "), "t{number}: {head}");
    }
    assert_eq!(shop.seen(), 0);
}

#[test]
fn only_listed_addresses_speak() {
    for (list, status) in
        [("127.0.0.0/8\n", 200), ("::1\n10.0.0.0/8\n", 403), ("", 403), ("2001:db8::/32\n127.0.0.1", 200)]
    {
        let shop = Site::with(SHOP, ALLOW, &[("allowed.txt", list)], shop_response);
        assert_eq!(shop.get("GET /v1/products", "X-Forwarded-For: 127.0.0.1\r\n").status, status, "{list:?}");
        for request in ["GET /nothing", "OPTIONS /v1/products"] {
            assert_eq!(shop.get(request, "").status == 403, status == 403, "{list:?}");
        }
    }
}

#[test]
fn behind_a_trusted_proxy_the_first_stranger_from_the_right_counts() {
    let upstream = Upstream::start(shop_response);
    let text = super::site::yaml(&upstream, ALLOW, "trusted_proxies: [\"127.0.0.1\", \"10.0.0.0/8\"]");
    let folder = super::site::folder(SHOP, &[("allowed.txt", "203.0.113.0/24\n")]);
    let site = Site { gate: Gate::start_in(folder, &text), upstream };
    for (chain, status) in [
        ("203.0.113.9", 200),
        ("198.51.100.1, 203.0.113.9, 10.1.1.1", 200),
        ("203.0.113.9, 198.51.100.1", 403),
        ("203.0.113.9, what", 403),
        ("", 403),
    ] {
        let response = site.get("GET /v1/products", &format!("X-Forwarded-For: {chain}\r\n"));
        assert_eq!(response.status, status, "{chain}");
    }
}

#[test]
fn lists_are_read_again_when_they_change_and_kept_when_they_break() {
    let both = format!("{DENY}{ALLOW}");
    let shop = Site::with(SHOP, &both, &[("denied.txt", "one\n"), ("allowed.txt", "127.0.0.1\n")], shop_response);
    let ask = |token: &str| shop.get("GET /v1/products", &format!("Authorization: Bearer {token}\r\n")).status;
    assert_eq!((ask("one"), ask("two")), (403, 200));
    write(shop.gate.dir.path(), "denied.txt", "two\n");
    wait_until("the new list", || (ask("one"), ask("two")) == (200, 403));
    write(shop.gate.dir.path(), "allowed.txt", "127.0.0.1\nnot an address\n");
    shop.gate.wait_for("allowed.txt:2: `not an address` is not an address or network");
    assert_eq!((ask("one"), ask("two")), (200, 403));
    assert!(shop.gate.metrics().contains("portunus_config_last_reload_successful 0"));
}

#[test]
fn a_list_that_cannot_be_read_stops_the_start() {
    for (contract, files, reported) in [
        (ALLOW, &[("allowed.txt", "10.0.0.0/33\n")][..], "allowed.txt:1"),
        (ALLOW, &[][..], "allowed.txt"),
        (DENY, &[][..], "denied.txt"),
    ] {
        let folder = super::site::folder(SHOP, files);
        let upstream = Upstream::ok();
        std::fs::write(folder.path().join("portunus.yaml"), super::site::yaml(&upstream, contract, "")).unwrap();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_portunus"))
            .args(["check", "portunus.yaml"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(reported), "{errors}");
    }
}

/// Fixed answers and redirects of a route are no way around its lists.
#[test]
fn lists_of_a_route_hold_whatever_the_route_does() {
    let upstream = Upstream::ok();
    let text = format!(
        "listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
contracts: {{ api: {{ document: openapi.yaml{DENY} }} }}
routes:
  - {{ path: /fixed, respond: {{ status: 200 }}, contract: api }}
  - {{ path: /moved, redirect: {{ to: /fixed }}, contract: api }}
  - {{ path: /free, respond: {{ status: 200 }} }}
",
        upstream.address
    );
    let site = Site { gate: Gate::start_in(super::site::folder(SHOP, &[("denied.txt", "bad\n")]), &text), upstream };
    for (path, good, bad) in [("/fixed", 200, 403), ("/moved", 308, 403), ("/free", 200, 200)] {
        assert_eq!(site.get(&format!("GET {path}"), "Authorization: Bearer bad\r\n").status, bad, "{path}");
        assert_eq!(site.get(&format!("GET {path}"), "Authorization: Bearer good\r\n").status, good, "{path}");
    }
}
