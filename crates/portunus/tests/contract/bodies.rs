//! Bodies of requests: what is validated is what goes on, byte for byte, and what cannot be validated goes nowhere.

use std::io::Write;
use std::process::{Command, Stdio};

use super::site::{ORDER, Site};
use crate::harness::{Reply, Seen, connect, read_response, wait_until};

const JSON: &str = "application/json";

#[test]
fn what_was_validated_is_what_goes_on() {
    let shop = Site::shop("");
    let spaced = format!("  {}\r\n", ORDER.replace(',', " ,\n\t").replace("tok_", "\\u0074ok_"));
    for body in [ORDER, spaced.as_str()] {
        let response = shop.post("POST /v1/orders", JSON, body);
        assert_eq!(response.status, 201, "{response:?}");
        assert_eq!(shop.upstream.seen().last().unwrap().body, body.as_bytes());
    }
}

#[test]
fn a_body_in_any_pieces_is_the_same_body() {
    let shop = Site::shop("");
    for size in [1, 7, 64] {
        let mut client = connect(shop.gate.address("web"));
        client
            .write_all(b"POST /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        for piece in ORDER.as_bytes().chunks(size) {
            write!(client, "{:x}\r\n", piece.len()).unwrap();
            client.write_all(piece).unwrap();
            client.write_all(b"\r\n").unwrap();
        }
        client.write_all(b"0\r\nX-Late: trailer\r\n\r\n").unwrap();
        let (head, _) = read_response(&mut client);
        assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
        let seen = shop.upstream.seen();
        assert_eq!((&seen.last().unwrap().body[..], seen.last().unwrap().whole), (ORDER.as_bytes(), true));
        assert!(!String::from_utf8_lossy(&shop.upstream.raw()).contains("X-Late"), "a trailer went past the contract");
    }
}

/// A chunked body that turns out to be empty has an end all the same, or the upstream waits for it.
#[test]
fn an_empty_chunked_body_that_is_optional_ends_at_the_upstream() {
    let document = "openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /note:
    post:
      requestBody: { content: { application/json: { schema: { type: object } } } }
      responses: { default: { description: any } }
";
    for mode in ["block", "log", "off"] {
        let ok = |_: &Seen| Reply::Keep(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
        let site = Site::with(document, &format!(", request: {mode}"), &[], ok);
        let response = site.send(
            b"POST /note HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        );
        assert_eq!(response.status, 204, "{mode}: {response:?}");
        assert!(site.upstream.seen()[0].whole && site.upstream.seen()[0].body.is_empty(), "{mode}");
    }
}

/// Nothing of a refused request reaches the upstream: the body is held until its last byte.
#[test]
fn an_upstream_sees_nothing_of_what_is_rejected() {
    let shop = Site::shop(", undeclared: { read_only: reject }");
    let last = format!("{}X", &ORDER[..ORDER.len() - 1]);
    for (body, code) in [
        (last.as_str(), "json_syntax"),
        (&ORDER[..ORDER.len() - 1], "json_truncated"),
        (&ORDER.replace("card", "cash"), ""),
        (&ORDER.replace("\"count\":2", "\"count\":2,\"count\":3"), "json_duplicate_key"),
        (&ORDER.replace("\"DE\"", "\"DE\",\"planet\":\"earth\""), ""),
        (&ORDER.replace('A', "\\ud800"), "json_lone_surrogate"),
        (&format!("\u{feff}{ORDER}"), "json_byte_order_mark"),
        (&format!("{ORDER}{ORDER}"), "json_trailing_data"),
        (&ORDER.replace("\"count\":2", "\"count\":1.0.1"), "json_syntax"),
        (&ORDER.replace("\"count\":2", "\"count\":NaN"), "json_syntax"),
        (&ORDER.replace("\"count\":2", "\"count\":9007199254740993"), ""),
        (&ORDER.replace("{\"items\"", "{\"id\":\"3fa85f64-5717-4562-b3fc-2c963f66afa6\",\"items\""), ""),
        ("null", ""),
        ("", "body_missing"),
    ] {
        let response = shop.post("POST /v1/orders", JSON, body);
        assert_eq!(response.status, 400, "{body}: {response:?}");
        if !code.is_empty() {
            let reported = response.json()["code"].as_str().unwrap().to_owned();
            assert!(reported.ends_with(code) || reported.contains(&code[5..]), "{body}: {reported}");
        }
    }
    let mut bad_utf8 = ORDER.as_bytes().to_vec();
    let at = ORDER.find("\"A\"").unwrap() + 1;
    bad_utf8[at] = 0xff;
    assert_eq!(shop.post("POST /v1/orders", JSON, bad_utf8).status, 400);
    assert_eq!((shop.seen(), shop.upstream.raw().len()), (0, 0));
}

/// Row 28, and what the original lets pass: a declared type without a decoder, a missing or odd one, another charset.
#[test]
fn what_has_no_reader_is_rejected() {
    let shop = Site::shop("");
    for (fields, status) in [
        ("Content-Type: text/xml\r\n", 415),
        ("Content-Type: text/html\r\n", 415),
        ("Content-Type: application/pdf\r\n", 415),
        ("Content-Type: application/json; charset=utf-16\r\n", 415),
        ("", 415),
        ("Content-Type: nonsense\r\n", 400),
        ("Content-Type: application/json; charset*=utf-8''utf-7\r\n", 400),
        ("Content-Type: application/json\r\nContent-Type: text/plain\r\n", 400),
        ("Content-Type: application/json\r\nContent-Encoding: compress\r\n", 415),
        ("Content-Type: application/json\r\nContent-Encoding: gzip, gzip\r\n", 415),
        ("Content-Type: application/json\r\nContent-Encoding: gzip\r\n", 400),
    ] {
        let response = shop.post_with("POST /v1/orders", fields, ORDER);
        assert_eq!(response.status, status, "{fields}: {response:?}");
    }
    assert_eq!(shop.seen(), 0);
    assert_eq!(shop.post("POST /v1/orders", "Application/JSON; charset=\"UTF-8\"", ORDER).status, 201);
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, bytes) = (child.stdin.take().unwrap(), bytes.to_vec());
    let writing = std::thread::spawn(move || input.write_all(&bytes).unwrap());
    let output = child.wait_with_output().unwrap().stdout;
    writing.join().unwrap();
    output
}

#[test]
fn an_encoded_body_is_validated_decoded_and_goes_on_encoded() {
    let shop = Site::shop("");
    let encoded = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
    let good = gzip(ORDER.as_bytes());
    assert_eq!(shop.post_with("POST /v1/orders", encoded, &good).status, 201);
    assert_eq!(shop.upstream.seen()[0].body, good);
    let bad = gzip(ORDER.replace("card", "cash").as_bytes());
    assert_eq!(shop.post_with("POST /v1/orders", encoded, &bad).status, 400);
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let response = shop.post_with("POST /v1/orders", encoded, &bomb);
    assert_eq!(response.status, 413, "{response:?}");
    assert_eq!(shop.post_with("POST /v1/orders", encoded, [&good[..], b"x"].concat()).status, 400);
    assert_eq!(shop.seen(), 1);
    let without = Site::shop(", encodings: []");
    assert_eq!(without.post_with("POST /v1/orders", encoded, &good).status, 415);
}

/// Row 26: depth, digits, keys and names in numbers that are no accident.
#[test]
fn bodies_made_to_hurt_are_rejected_quickly() {
    let shop = Site::shop("");
    let deep = "[".repeat(100_000);
    let digits = ORDER.replace("\"count\":2", &format!("\"count\":{}", "9".repeat(1_000_000)));
    let keys: String = (0..100_000).map(|number| format!("\"k{number}\":1,")).collect();
    let keys = format!("{{{keys}\"z\":1}}");
    for body in [deep.as_str(), &digits, &keys] {
        let response = shop.post("POST /v1/orders", JSON, body);
        assert!(matches!(response.status, 400 | 413), "{response:?}");
    }
    let query: String = (0..1_000).map(|number| format!("a{number}=1&")).collect();
    assert_eq!(shop.get(&format!("GET /v1/products?{}", &query[..query.len().min(7_000)]), "").status, 400);
    assert_eq!(shop.seen(), 0);
}

#[test]
fn a_body_beyond_the_operation_s_bound_is_rejected() {
    let shop = Site::shop(", operations: [{ path: /orders, max_body: 1KiB }]");
    let large = ORDER.replace("\"payment\"", &format!("\"note\":\"{}\",\"payment\"", "n".repeat(900)));
    assert!(large.len() > 1024);
    let response = shop.post("POST /v1/orders", JSON, &large);
    assert_eq!((response.status, &response.json()["code"]), (413, &"body_too_large".into()), "{response:?}");
    let mut client = connect(shop.gate.address("web"));
    write!(client, "POST /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n", large.len())
        .unwrap();
    let (head, _) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    assert_eq!(shop.seen(), 0);
    assert_eq!(shop.post("POST /v1/orders", JSON, ORDER).status, 201);
}

#[test]
fn bodies_that_no_operation_declares_are_rejected() {
    let shop = Site::shop("");
    let response = shop.post("GET /v1/products", JSON, "{}");
    assert_eq!((response.status, &response.json()["code"]), (400, &"body_undeclared".into()));
    let mut client = connect(shop.gate.address("web"));
    client
        .write_all(b"GET /v1/products HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
        .unwrap();
    let (head, _) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert_eq!(shop.seen(), 0);
}

#[test]
fn forms_are_validated_field_by_field() {
    let shop = Site::shop("");
    let form = "application/x-www-form-urlencoded";
    for (body, status) in [
        ("email=a%40example.com&weekly=true", 204),
        ("email=a%40example.com&weekly=1", 400),
        ("email=nobody", 400),
        ("weekly=true", 400),
        ("email=a%40example.com&email=b%40example.com", 400),
        ("email=a%40example.com&admin=true", 400),
        ("email=a%40example.com&weekly=%zz", 400),
    ] {
        let response = shop.post("POST /v1/newsletter", form, body);
        assert_eq!(response.status, status, "{body}: {response:?}");
    }
    assert_eq!(shop.seen(), 1);
}

fn multipart(parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (head, content) in parts {
        body.push_str(&format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n"));
    }
    body + "--b--\r\n"
}

#[test]
fn files_stream_through_and_their_parts_are_validated() {
    let shop = Site::shop(", operations: [{ path: \"/products/{product}/picture\", max_body: 10MiB }]");
    let kind = "Content-Type: multipart/form-data; boundary=b\r\nX-Api-Key: k\r\n";
    let picture = "p".repeat(6 << 20);
    let file = "name=\"picture\"; filename=\"a.png\"\r\nContent-Type: image/png";
    let good = multipart(&[("name=\"caption\"", "nice"), (file, &picture)]);
    let response = shop.post_with("PUT /v1/products/7/picture", kind, &good);
    assert_eq!(response.status, 204, "{response:?}");
    assert_eq!(shop.upstream.seen()[0].body, good.as_bytes());
    for bad in [
        multipart(&[("name=\"caption\"", "nice")]),
        multipart(&[(file, "x"), ("name=\"admin\"", "1")]),
        multipart(&[("name=\"picture\"; filename=\"a.html\"\r\nContent-Type: text/html", "x")]),
        multipart(&[(file, "x")]).replace("--b--", ""),
    ] {
        let before = shop.upstream.seen().iter().filter(|seen| seen.whole).count();
        let response = shop.post_with("PUT /v1/products/7/picture", kind, &bad);
        assert!(matches!(response.status, 400 | 415), "{bad}: {response:?}");
        assert_eq!(shop.upstream.seen().iter().filter(|seen| seen.whole).count(), before, "{bad}");
    }
}

/// A client that goes away in the middle of a held body leaves nothing behind.
#[test]
fn a_cut_body_never_reaches_the_upstream() {
    let shop = Site::shop("");
    let mut client = connect(shop.gate.address("web"));
    write!(
        client,
        "POST /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Type: {JSON}\r\nContent-Length: {}\r\n\r\n{}",
        ORDER.len(),
        &ORDER[..40]
    )
    .unwrap();
    drop(client);
    wait_until("the cut request in the log", || shop.gate.log(1)[0]["reason"] == "request_truncated");
    assert_eq!(shop.upstream.raw().len(), 0);
}

#[test]
fn http_2_is_validated_alike() {
    let folder = crate::harness::certificates(&[("api.test", false)]);
    super::site::write(folder.path(), "openapi.yaml", super::site::SHOP);
    let upstream = crate::harness::Upstream::start(super::site::shop_response);
    let text = super::site::yaml(&upstream, "", "keystores: { main: { folder: certs, default: api.test } }")
        .replace("contract: api }", "contract: api, tls: { keystore: main } }");
    let gate = crate::harness::Gate::start_in(folder, &text);
    let curl = |path: &str, arguments: &[&str]| {
        let port = gate.address("web").port();
        let output = Command::new("curl")
            .args(["--silent", "--http2", "--insecure", "--write-out", " %{http_code} %{http_version}", "--resolve"])
            .arg(format!("api.test:{port}:127.0.0.1"))
            .args(arguments)
            .arg(format!("https://api.test:{port}{path}"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let json = "Content-Type: application/json";
    assert!(curl("/v1/orders", &["--header", json, "--data", ORDER]).ends_with(" 201 2"));
    let rejected = curl("/v1/orders", &["--header", json, "--data", &ORDER.replace("DE", "Germany")]);
    assert!(rejected.ends_with(" 400 2") && rejected.contains("pattern"), "{rejected}");
    assert!(curl("/v1/products?page=x", &[]).ends_with(" 400 2"));
    assert!(curl("/v1/products", &[]).ends_with(" 200 2"));
    let seen = upstream.seen();
    assert_eq!((seen.len(), &seen[0].body[..]), (2, ORDER.as_bytes()));
}
