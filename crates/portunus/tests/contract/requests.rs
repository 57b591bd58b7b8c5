//! Heads of requests: paths, methods, parameters, and what a rejection looks like.

use std::io::Write;

use super::site::{ORDER, SHOP, Site, shop_response};
use crate::harness::{Reply, connect, exchange, read_response, statuses};

#[test]
fn what_the_document_declares_passes_and_nothing_else() {
    let shop = Site::shop("");
    let cases = [
        ("GET /v1/products", 200, ""),
        ("GET /v1/products?page=2&per_page=50&category=books,games&price%5Bmin%5D=5", 200, ""),
        ("GET /v1/products/7", 200, ""),
        ("GET /v1/orders/3fa85f64-5717-4562-b3fc-2c963f66afa6", 200, ""),
        ("GET /v1/products?page=0", 400, "minimum"),
        ("GET /v1/products?page=x", 400, "type"),
        ("GET /v1/products?page=1&page=2", 400, "parameter_repeated"),
        ("GET /v1/products?page=0x10", 400, "type"),
        ("GET /v1/products?per_page=1_0", 400, "type"),
        ("GET /v1/products?page=100e-2", 400, "type"),
        ("GET /v1/products/1000e-2", 400, "type"),
        ("GET /v1/products/7.0", 400, "type"),
        ("GET /v1/products?page=", 400, ""),
        ("GET /v1/products?category=cars", 400, "enum"),
        ("GET /v1/products?price%5Bmax%5D=-1", 400, "minimum"),
        ("GET /v1/products?price%5Bmean%5D=1", 400, ""),
        ("GET /v1/products?debug=1", 400, "parameter_undeclared"),
        ("GET /v1/products/seven", 400, "type"),
        ("GET /v1/products/99999999999", 400, "maximum"),
        ("GET /v1/orders/7", 400, "format"),
        ("GET /v1/customers", 404, "path_undeclared"),
        ("GET /v1/products/", 404, "path_undeclared"),
        ("GET /v1", 404, "path_undeclared"),
        ("GET /products", 404, "path_undeclared"),
        ("PATCH /v1/products/7", 405, "method_undeclared"),
        ("OPTIONS /v1/products", 405, "method_undeclared"),
        ("DELETE /v1/products/7", 401, "security_missing"),
    ];
    let mut passed = 0;
    for (request, status, code) in cases {
        let response = shop.get(request, "");
        assert_eq!(response.status, status, "{request}: {response:?}");
        passed += usize::from(status < 400);
        assert_eq!(shop.seen(), passed, "{request}");
        if !code.is_empty() {
            assert_eq!(response.json()["code"], code, "{request}");
            assert_eq!(response.fields("content-type"), ["application/problem+json"]);
        }
    }
}

#[test]
fn an_unknown_method_is_reported_which_there_are() {
    let shop = Site::shop("");
    let response = shop.get("PUT /v1/products/7", "");
    assert_eq!((response.status, response.fields("allow")), (405, vec!["GET, DELETE"]));
    let response = shop.get("PUT /v1/nothing", "");
    assert_eq!((response.status, response.fields("allow").len()), (404, 0));
    assert_eq!(shop.seen(), 0);
}

#[test]
fn head_is_validated_as_the_get_it_stands_for() {
    let shop = Site::shop("");
    let response = exchange(
        shop.gate.address("web"),
        b"HEAD /v1/products HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(statuses(&response), [200]);
    let response = exchange(
        shop.gate.address("web"),
        b"HEAD /v1/products?page=x HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(statuses(&response), [400]);
    assert!(response.ends_with(b"\r\n\r\n"), "a HEAD request is answered with a body");
    assert_eq!(shop.seen(), 1);
}

#[test]
fn header_fields_and_cookies_are_validated() {
    let shop = Site::shop("");
    let uuid = "3fa85f64-5717-4562-b3fc-2c963f66afa6";
    for (request, fields, status) in [
        ("GET /v1/products".to_owned(), format!("X-Trace: {uuid}\r\n"), 200),
        ("GET /v1/products".to_owned(), "X-Trace: yes\r\n".to_owned(), 400),
        ("GET /v1/products".to_owned(), format!("X-Trace: {uuid}\r\nX-Trace: {uuid}\r\n"), 400),
        (format!("GET /v1/orders/{uuid}"), format!("Cookie: a=b; session={}\r\n", "0a".repeat(16)), 200),
        (format!("GET /v1/orders/{uuid}"), "Cookie: session=0a\r\n".to_owned(), 400),
    ] {
        let response = shop.get(&request, &fields);
        assert_eq!(response.status, status, "{request} {fields}: {response:?}");
    }
}

/// Row 24 of the attack matrix: what was decided on is what goes on, and what is ambiguous goes nowhere.
#[test]
fn path_tricks_do_not_lead_around_the_document() {
    let shop = Site::shop("");
    for (path, status) in [
        ("/v1/products/%37", 200),
        ("/v1/orders/../products/7", 400),
        ("/v1/%70roducts/7", 200),
        ("/v1/products//7", 404),
        ("/v1/products/7;x=1", 400),
        ("/v1/products%2f7", 400),
        ("/v1/products/%2e%2e/secret", 400),
        ("/v1/products\\7", 400),
        ("/v1/products/%00", 400),
        ("/v1/products/%c0%af", 400),
        ("/v1/products/%2537", 400),
    ] {
        let before = shop.seen();
        let response = shop.get(&format!("GET {path}"), "");
        assert_eq!(response.status, status, "{path}: {response:?}");
        assert_eq!(shop.seen() - before, usize::from(status == 200), "{path}");
        if status == 200 {
            assert_eq!(shop.upstream.seen().last().unwrap().line(), "GET /v1/products/7 HTTP/1.1", "{path}");
        }
    }
}

/// Row 25: the firewall validates the real method.
#[test]
fn no_field_speaks_of_another_method() {
    let shop = Site::shop("");
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        let response = shop.get("GET /v1/products/7", &format!("{name}: DELETE\r\n"));
        assert_eq!(response.status, 200);
        assert!(shop.upstream.seen().last().unwrap().fields(name).is_empty(), "{name} went on");
    }
    assert_eq!(shop.get("TRACE /v1/products", "").status, 405);
    assert_eq!(shop.get("get /v1/products", "").status, 400);
    assert_eq!(shop.get("fetch /v1/products", "").status, 405);
    assert_eq!(shop.seen(), 3);
}

#[test]
fn a_rejection_reports_as_much_as_it_may() {
    let request = "GET /v1/products?per_page=1000";
    let shop = Site::shop(", detail: pointer, status_header: Contract-Status");
    let response = shop.get(request, "");
    let problem = response.json();
    assert_eq!(
        (&problem["code"], &problem["in"], &problem["name"]),
        (&"maximum".into(), &"query".into(), &"per_page".into())
    );
    assert_eq!(problem["detail"], "must be at most 100", "{problem}");
    let problem = shop.get("GET /v1/products?page=x", "").json();
    assert_eq!(problem["detail"], "must be an integer, is a string", "{problem}");
    let problem = shop.get("GET /v1/products?category=cars", "").json();
    assert!(problem["detail"].as_str().is_some_and(|what| what.starts_with("must be one of \"")), "{problem}");
    assert_eq!(response.fields("contract-status"), ["request-query:maximum:per_page"]);
    let code = Site::shop(", detail: code").get(request, "").json();
    assert_eq!((&code["code"], code.get("name"), code.get("detail")), (&"maximum".into(), None, None));
    let status = Site::shop(", detail: status").get(request, "").json();
    assert_eq!((status.get("code"), &status["status"]), (None, &400.into()));
    let empty = Site::shop(", detail: empty, block_status: 403").get(request, "");
    assert_eq!((empty.status, empty.body.len(), empty.fields("content-type").len()), (403, 0, 0));
}

#[test]
fn one_block_status_is_for_everything() {
    let shop = Site::shop(", block_status: 418");
    for request in ["GET /v1/nothing", "PUT /v1/products/7", "GET /v1/products?page=0", "DELETE /v1/products/7"] {
        let response = shop.get(request, "");
        assert_eq!((response.status, response.fields("allow").len()), (418, 0), "{request}");
    }
    assert_eq!(shop.post("POST /v1/orders", "text/xml", "<a/>").status, 418);
    assert_eq!(shop.seen(), 0);
}

#[test]
fn options_pass_only_where_it_is_said_and_the_path_is_known() {
    let shop = Site::shop(", allow_options: true");
    assert_eq!(shop.get("OPTIONS /v1/products", "").status, 200);
    assert_eq!(shop.get("OPTIONS /v1/nothing", "").status, 404);
    assert_eq!(shop.get("PUT /v1/products", "").status, 405);
    assert_eq!(shop.seen(), 1);
}

#[test]
fn log_lets_everything_pass_and_says_what_it_would_reject() {
    let shop = Site::shop(", request: log, response: log");
    for request in ["GET /v1/products?page=0&debug=1", "GET /v1/nothing", "PATCH /v1/products/7"] {
        assert_eq!(shop.get(request, "").status, 200, "{request}");
    }
    assert_eq!(shop.post("POST /v1/orders", "application/json", r#"{"items":[],"more":1}"#).status, 201);
    assert_eq!(shop.seen(), 4);
    let log = shop.gate.log(4);
    let of = |number: usize| &log[number]["contract"];
    assert_eq!(
        (&of(0)["decision"], &of(0)["name"], &of(0)["side"]),
        (&"logged".into(), &"api".into(), &"request".into())
    );
    assert_eq!(of(0)["operation"], "GET /products");
    assert_eq!((&of(0)["reason"], &of(0)["violations"]), (&"minimum".into(), &2.into()));
    assert_eq!(of(1)["reason"], "path_undeclared");
    assert_eq!(of(2)["reason"], "method_undeclared");
    // The same words as in a rejection.
    shop.gate.wait_for("must be at least 1");
    // `/items` is too short, `/more` is unknown, `/ship_to` and `/payment` are missing.
    assert_eq!((&of(3)["side"], &of(3)["violations"]), (&"request".into(), &4.into()), "{}", of(3));
    assert!(shop.gate.metrics().contains(r#"portunus_contract_requests_total{contract="api",operation="GET /products",decision="logged",reason="minimum"} 1"#));
    let response = shop.gate.operate("GET /api/v1/contracts", "");
    let view: serde_json::Value = serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap();
    let products =
        view["contracts"].as_array().unwrap().iter().find(|one| one["operation"] == "GET /products").unwrap();
    assert_eq!(
        (&products["contract"], &products["logged"], &products["blocked"]),
        (&"api".into(), &1.into(), &0.into())
    );
    assert_eq!(products["reasons"][0]["reason"], "minimum", "{products}");
}

#[test]
fn modes_hold_per_operation() {
    let operations = ", operations: [{ path: /products, request: log }, { path: \"/v1/products/{product}\", methods: [GET], request: off, response: off }], base_path: /v1";
    let shop = Site::shop(operations);
    assert_eq!(shop.get("GET /v1/products?page=0", "").status, 200);
    assert_eq!(shop.get("GET /v1/products/seven", "").status, 200);
    assert_eq!(shop.get("DELETE /v1/products/7", "").status, 401);
    assert_eq!(shop.get("GET /v1/orders/7", "").status, 400);
    assert_eq!(shop.seen(), 2);
}

#[test]
fn what_holds_for_a_host_or_a_route_holds_before_what_holds_for_a_listener() {
    let upstream = crate::harness::Upstream::start(shop_response);
    let text = format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", contract: shop }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
contracts:
  shop: {{ document: openapi.yaml }}
  other: {{ document: other.yaml }}
hosts:
  other.test: {{ contract: other }}
  \"*.open.test\": {{ contract: other }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
  - {{ path: /healthz, upstream: app, contract: none }}
  - {{ path: /v1/orders, upstream: app, contract: other }}
",
        upstream.address
    );
    let other = "openapi: 3.0.3\ninfo: { title: o, version: '1' }\npaths:\n  /other:\n    get: { responses: { default: { description: any } } }\n";
    let folder = super::site::folder(SHOP, &[("other.yaml", other)]);
    let gate = crate::harness::Gate::start_in(folder, &text);
    let ask = |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
    };
    assert_eq!((ask("a.test", "/v1/products"), ask("a.test", "/other")), (200, 404));
    assert_eq!(ask("other.test", "/v1/products"), 404);
    assert_eq!(ask("other.test.", "/v1/products"), 404);
    assert_eq!(ask("x.open.test", "/v1/products"), 404);
    assert_eq!(ask("a.test", "/healthz"), 200);
    assert_eq!(ask("a.test", "/v1/orders"), 404);
}

/// Row 3: a refusal leaves nothing on the connection that could be taken for a request.
#[test]
fn a_connection_goes_on_cleanly_after_a_rejection() {
    let shop = Site::shop("");
    let mut client = connect(shop.gate.address("web"));
    for round in 0..5 {
        let smuggled = "GET /v1/products?page=66 HTTP/1.1\r\nHost: api.test\r\n\r\n";
        let body = format!("{{\"items\":\"no list\",\"note\":\"{smuggled}\"}}");
        write!(
            client,
            "POST /v1/orders HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let (head, _) = read_response(&mut client);
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        write!(client, "GET /v1/products?page={} HTTP/1.1\r\nHost: api.test\r\n\r\n", round + 1).unwrap();
        let (head, _) = read_response(&mut client);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
    // A large body behind a rejection that needs none of it: the response comes at once, and the connection ends.
    let response = exchange(
        shop.gate.address("web"),
        format!("POST /v1/nothing HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3000000\r\n\r\n{ORDER}").as_bytes(),
    );
    assert_eq!(statuses(&response), [404]);
    let lines: Vec<String> = shop.upstream.seen().iter().map(|seen| seen.line().to_owned()).collect();
    let expected: Vec<String> = (1..=5).map(|page| format!("GET /v1/products?page={page} HTTP/1.1")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_client_that_waits_for_100_gets_it_and_the_upstream_is_not_asked() {
    let shop = Site::shop("");
    let mut client = connect(shop.gate.address("web"));
    write!(
        client,
        "POST /v1/orders HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        ORDER.len()
    )
    .unwrap();
    let (head, _) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 100 "), "{head}");
    client.write_all(ORDER.as_bytes()).unwrap();
    let (head, _) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
    assert!(shop.upstream.seen()[0].fields("expect").is_empty());
    // One that is rejected by its head is not asked for its body.
    let mut client = connect(shop.gate.address("web"));
    client
        .write_all(b"POST /v1/orders HTTP/1.1\r\nHost: api.test\r\nContent-Type: text/xml\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        .unwrap();
    let (head, _) = read_response(&mut client);
    assert!(head.starts_with("HTTP/1.1 415 "), "{head}");
}

const TENANTS: &str = r#"
openapi: 3.1.0
info: { title: t, version: "1" }
components:
  securitySchemes:
    key: { type: apiKey, in: header, name: X-API-Key }
paths:
  /tenants:
    get:
      parameters: [{ name: X-Tenant, in: header, required: true, schema: { type: string } }]
      responses: { "200": { description: ok, headers: { X-Quota: { required: true, schema: { type: string } } } } }
  /keys:
    get:
      security: [{ key: [] }]
      responses: { "200": { description: ok } }
"#;

/// What `Connection` names ends at the gate before anything looks at it: what satisfied the contract is what the upstream gets, and the client.
#[test]
fn a_field_that_ends_here_satisfies_no_contract() {
    let quota =
        |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}X-Quota: 1\r\nContent-Length: 0\r\n\r\n").into_bytes();
    let site = Site::with(TENANTS, "", &[], move |_| Reply::Keep(quota("")));
    for options in ["X-Tenant, X-API-Key", "close, x-tenant\r\nConnection: X-API-KEY", "keep-alive,X-Tenant,,X-Api-Key"]
    {
        for (path, field, code) in
            [("/tenants", "X-Tenant: a", "parameter_missing"), ("/keys", "X-API-Key: k", "security_missing")]
        {
            let response = site.get(&format!("GET {path}"), &format!("{field}\r\nConnection: {options}\r\n"));
            assert_eq!((&response.json()["code"], site.seen()), (&code.into(), 0), "{path} {options}: {response:?}");
        }
    }
    for (path, field) in [("/tenants", "X-Tenant: a"), ("/keys", "X-API-Key: k")] {
        let response = site.get(
            &format!("GET {path}"),
            &format!("{field}\r\nConnection: keep-alive, te, upgrade, X-Else\r\nTE: trailers\r\nX-Else: 1\r\n"),
        );
        assert_eq!(response.status, 200, "{response:?}");
        let seen = site.upstream.seen().pop().unwrap();
        let (name, value) = field.split_once(": ").unwrap();
        assert_eq!(
            (seen.fields(name), seen.fields("te"), seen.fields("x-else")),
            (vec![value], vec!["trailers"], vec![])
        );
    }
    let taken = Site::with(TENANTS, "", &[], move |_| Reply::Keep(quota("Connection: x-quota\r\n")));
    let response = taken.get("GET /tenants", "X-Tenant: a\r\n");
    assert_eq!(response.status, 502, "a field that the client does not get: {response:?}");
}

/// A path and parameters as browsers write them.
const RAW: &str = r#"
openapi: 3.1.0
info: { title: raw, version: "1" }
paths:
  "/größe|x/{id}":
    get:
      parameters:
        - { name: id, in: path, required: true, schema: { type: string, pattern: "^[a-z|]{1,3}$" } }
        - { name: "filter[a]", in: query, schema: { type: integer } }
        - { name: list, in: query, style: pipeDelimited, explode: false, schema: { type: array, maxItems: 2, items: { type: string } } }
      responses: { "200": { description: ok } }
"#;

/// Row 24: what is raw is encoded once, and that form is what is validated.
#[test]
fn what_clients_send_raw_is_validated_in_the_form_that_goes_on() {
    let site = Site::with(RAW, "", &[], |_| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()));
    for target in
        ["/gr\u{f6}\u{df}e|x/a|b?filter[a]=7&list=x|y", "/gr%c3%b6%C3%9fe%7cx/a%7Cb?filter%5Ba%5D=7&list=x%7Cy"]
    {
        let response = site.get(&format!("GET {target}"), "");
        assert_eq!(response.status, 200, "{target}: {response:?}");
        let line = site.upstream.seen().pop().unwrap().line().to_ascii_lowercase();
        assert_eq!(line, "get /gr%c3%b6%c3%9fe%7cx/a%7cb?filter%5ba%5d=7&list=x%7cy http/1.1");
    }
    let seen = site.seen();
    for target in [
        "/gr\u{f6}\u{df}e|x/a|b|",
        "/gr\u{f6}\u{df}e|x/a?filter[a]=x",
        "/gr\u{f6}\u{df}e|x/a?list=x|y|z",
        "/gr\u{f6}\u{df}ex/a",
    ] {
        let response = site.get(&format!("GET {target}"), "");
        assert!(matches!(response.status, 400 | 404), "{target}: {response:?}");
    }
    assert_eq!(site.seen(), seen);
}

const SLUGS: &str = r#"
openapi: 3.1.0
info: { title: t, version: "1" }
components:
  securitySchemes:
    key: { type: apiKey, in: header, name: X-API-Key }
paths:
  /{slug}:
    get:
      parameters: [{ name: slug, in: path, required: true, schema: { type: string } }]
      responses: { "200": { description: ok } }
  /admin:
    get:
      security: [{ key: [] }]
      responses: { "200": { description: ok } }
"#;

/// `/admin;x` is `/{slug}` here and `/admin` at many a server, and the document demands a key of one of them only.
#[test]
fn a_path_of_two_operations_is_rejected() {
    let own = ", request: off, response: off, operations: [{ path: /admin, request: block }]";
    for contract in [", response: off", own] {
        let site = Site::with(SLUGS, contract, &[], shop_response);
        let paths = ["/admin;x", "/admin;", "/admin;jsessionid=1", "//admin", "/;/admin", "/admin%3Bx"];
        for (path, at) in paths.iter().zip(0..) {
            let response = site.get(&format!("GET {path}"), "");
            assert!([400, 404].contains(&response.status) && site.seen() == 0, "{contract} {path}: {response:?}");
            assert!(
                response.status == 404 || response.json()["code"] == "ambiguous_path",
                "{contract} {path}: {response:?}"
            );
            assert!(site.gate.log(at + 1)[at]["reason"].is_string());
        }
        assert_eq!(site.get("GET /other;x", "").status, 200, "{contract}");
    }
    let log = Site::with(SLUGS, ", request: log, response: off", &[], shop_response);
    assert_eq!(log.get("GET /admin;x", "").status, 200);
    assert_eq!(log.gate.log(1)[0]["contract"]["reason"], "ambiguous_path");
}

const CUSTOM_METHODS: &str = r#"
openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /r/{id}:
    parameters: [{ name: id, in: path, required: true, schema: { type: string } }]
    post: { responses: { default: { description: any } } }
  /r/{id}:purge:
    parameters:
      - { name: id, in: path, required: true, schema: { type: string } }
      - { name: X-Admin, in: header, required: true, schema: { type: string } }
    post: { responses: { default: { description: any } } }
  /%40me:
    parameters: [{ name: X-Admin, in: header, required: true, schema: { type: string } }]
    post: { responses: { default: { description: any } } }
  /{name}:
    parameters: [{ name: name, in: path, required: true, schema: { type: string } }]
    post: { responses: { default: { description: any } } }
"#;

/// Servers that decode a path before they match it run `/r/{id}:purge` for `/r/5%3Apurge`, which demands more.
#[test]
fn an_escaped_character_is_no_way_to_another_operation() {
    let ok = |_: &crate::harness::Seen| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    let site = Site::with(CUSTOM_METHODS, "", &[], ok);
    for path in ["/r/5%3Apurge", "/r/5%3apurge", "/r/5%253Apurge", "/r/5%253apurge", "/@me", "/%2540me"] {
        let response = site.get(&format!("POST {path}"), "Content-Length: 0\r\n");
        assert_eq!(
            (response.status, &response.json()["code"], site.seen()),
            (400, &"ambiguous_path".into(), 0),
            "{path}"
        );
    }
    for path in ["/r/5%3Aother", "/r/a%20b", "/r/a%2Bb", "/r/%C3%B6", "/r/5"] {
        let before = site.seen();
        let response = site.get(&format!("POST {path}"), "Content-Length: 0\r\n");
        assert_eq!((response.status, site.seen()), (200, before + 1), "{path}");
    }
    for path in ["/r/5:purge", "/%40me"] {
        let before = site.seen();
        let response = site.get(&format!("POST {path}"), "X-Admin: a\r\nContent-Length: 0\r\n");
        assert_eq!((response.status, site.seen()), (200, before + 1), "{path}");
    }
}

/// Of an operation with a parameter that is empty for a server which drops `;` parameters, the path is another one there.
#[test]
fn a_value_that_other_servers_read_as_empty_is_rejected() {
    let document = "openapi: 3.0.3\ninfo: { title: t, version: '1' }\npaths:\n  /{tenant}/public:\n    parameters: [{ name: tenant, in: path, required: true, schema: { type: string } }]\n    get: { responses: { default: { description: any } } }\n  /points/{id}:\n    parameters: [{ name: id, in: path, required: true, style: matrix, schema: { type: integer } }]\n    get: { responses: { default: { description: any } } }\n";
    let ok = |_: &crate::harness::Seen| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    let site = Site::with(document, "", &[], ok);
    for path in ["/;/public", "/;a=b/public", "/%3Bx/public"] {
        let response = site.get(&format!("GET {path}"), "");
        assert_eq!(
            (response.status, &response.json()["code"], site.seen()),
            (400, &"ambiguous_path".into(), 0),
            "{path}"
        );
    }
    for path in ["/a/public", "/a;b/public", "/points/;id=5"] {
        let before = site.seen();
        assert_eq!((site.get(&format!("GET {path}"), "").status, site.seen()), (200, before + 1), "{path}");
    }
}

/// Overlong UTF-8 may be read as the character that it stands for: never in a parameter that is declared. What nobody declares, and where `undeclared` lets
/// it pass, is opaque, as without a contract.
#[test]
fn queries_that_are_not_utf_8_are_rejected_where_they_are_declared() {
    let shop = Site::shop(", undeclared: { query: off }");
    for query in [
        "category=%c0%af",
        "category=books%C0%AF",
        "category=%ff",
        "page=%c0%b1",
        "price%5Bmin%5D=%e0%80%b1",
        "%c0%af=1",
    ] {
        let response = shop.get(&format!("GET /v1/products?{query}"), "");
        assert_eq!((response.status, shop.seen()), (400, 0), "{query}: {response:?}");
    }
    assert_eq!(shop.get("GET /v1/products?other=%c0%af", "").status, 200);
    assert_eq!(shop.upstream.seen()[0].line(), "GET /v1/products?other=%c0%af HTTP/1.1");
}
