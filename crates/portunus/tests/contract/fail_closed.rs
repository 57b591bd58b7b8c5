//! Where other firewalls of APIs fail open, or are said to: each is tried on ours. docs/api-firewall.md lists them with the test that holds each closed.

use std::io::Write;
use std::process::Command;

use super::site::{ORDER, SHOP, Site, folder, shop_response, write, yaml};
use crate::harness::{Gate, Reply, Seen, Upstream, connect, read_response, wait_until};

const JSON: &str = "application/json";

/// An upstream that takes everything.
fn ok(_: &Seen) -> Reply {
    Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
}

/// A document with these paths, 3.1 unless `version` says otherwise.
fn document(version: &str, paths: &str) -> String {
    format!("openapi: {version}\ninfo: {{ title: t, version: '1' }}\npaths:\n{paths}")
}

/// POST /a with a required body of this content.
fn posting(version: &str, content: &str) -> String {
    let paths = format!(
        "  /a:\n    post:\n      requestBody: {{ required: true, content: {content} }}\n      responses: {{ default: {{ description: any }} }}\n"
    );
    document(version, &paths)
}

/// POST /a with a JSON body of this schema.
fn json_of(version: &str, schema: &str) -> Site {
    Site::with(&posting(version, &format!("{{ application/json: {{ schema: {schema} }} }}")), "", &[], ok)
}

/// Each body with the code of its rejection; empty: it passes as it is.
fn validate(site: &Site, content_type: &str, rows: &[(&str, &str)]) {
    for (body, code) in rows {
        let before = site.seen();
        let response = site.post("POST /a", content_type, body);
        if code.is_empty() {
            assert_eq!(response.status, 200, "{body}: {response:?}");
            assert_eq!(site.upstream.seen()[before].body, body.as_bytes());
        } else {
            assert!(response.status >= 400, "{body} passed");
            assert_eq!((response.json()["code"].as_str(), site.seen()), (Some(*code), before), "{body}");
        }
    }
}

/// Requests that no operation is for skip everything elsewhere; here only the decision is off.
#[test]
fn what_passes_unvalidated_is_stripped_all_the_same() {
    for modes in [", request: log, response: log", ", request: off, response: off", ", allow_options: true"] {
        let shop = Site::shop(modes);
        let request = if modes.contains("options") { "OPTIONS /v1/products" } else { "GET /v1/nothing" };
        let fields = "Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 5\r\nX-Forwarded-For: 10.0.0.1\r\nX-HTTP-Method-Override: DELETE\r\nProxy-Connection: close\r\n";
        assert_eq!(shop.get(request, fields).status, 200, "{modes}");
        let seen = &shop.upstream.seen()[0];
        for name in ["x-secret", "keep-alive", "x-http-method-override", "proxy-connection"] {
            assert!(seen.fields(name).is_empty(), "{modes}: {name} went on: {}", seen.head);
        }
        assert_eq!(seen.fields("x-forwarded-for"), ["127.0.0.1"], "{modes}");
        // Paths are decided on and forwarded in one form, also where nothing is decided.
        assert_eq!(shop.get("GET /v1/products/%2e%2e/admin", "").status, 400, "{modes}");
    }
}

/// Declared and without a decoder: forwarded elsewhere, even where it blocks.
#[test]
fn a_declared_type_without_a_reader_is_rejected() {
    let types = [
        "application/toml",
        "application/msgpack",
        "application/cbor",
        "application/pdf",
        "application/zip",
        "application/x-protobuf",
        "image/png",
    ];
    let content: String = types.iter().map(|name| format!("{name}: {{ schema: {{ type: object }} }}, ")).collect();
    let text = posting("3.0.3", &format!("{{ {content} application/json: {{}} }}"));
    let strict = Site::with(&text, "", &[], ok);
    let logging = Site::with(&text, ", request: log", &[], ok);
    for (number, name) in types.iter().enumerate() {
        let response = strict.post("POST /a", name, "<a/>");
        assert_eq!((response.status, &response.json()["code"]), (415, &"content_type_unreadable".into()), "{name}");
        assert_eq!(logging.post("POST /a", name, "<a/>").status, 200);
        assert_eq!(logging.gate.log(number + 1)[number]["contract"]["reason"], "content_type_unreadable", "{name}");
    }
    assert_eq!((strict.seen(), strict.upstream.raw().len()), (0, 0));
    let open = Site::with(&text, ", opaque_media_types: [application/pdf]", &[], ok);
    assert_eq!(open.post("POST /a", "application/pdf", "%PDF").status, 200);
    assert_eq!(open.post("POST /a", "application/toml", "a = 1").status, 415);
}

/// Patterns that make others reject a document, panic, or count a request as valid; and what is no number in a body.
#[test]
fn patterns_and_numbers_that_made_others_fail() {
    let schema = "{ type: object, properties: {
        price: { type: string, pattern: '^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$' },
        password: { type: string, pattern: '^(?=.*[a-z])(?=.*\\d).{8,}$' },
        note: { type: string, pattern: '^[a-z]{0,4096}$' },
        slow: { type: string, pattern: '^(a+)+$' },
        count: { type: integer } } }";
    let rows = [
        (r#"{"price":"-0.5","password":"abcdefg1","note":"abc"}"#, ""),
        (r#"{"price":"."}"#, "pattern"),
        (r#"{"password":"abcdefgh"}"#, "pattern"),
        (r#"{"note":"A"}"#, "pattern"),
        (r#"{"count":NaN}"#, "json_syntax"),
        (r#"{"count":Infinity}"#, "json_syntax"),
        (r#"{"count":1.0.1}"#, "json_syntax"),
        (r#"{"note":"\u12g4"}"#, "json_syntax"),
        (r#"{"count":1,"count":2}"#, "json_duplicate_key"),
    ];
    let long = format!(r#"{{"slow":"{}!"}}"#, "a".repeat(100_000));
    for version in ["3.0.3", "3.1.0"] {
        let site = json_of(version, schema);
        validate(&site, JSON, &rows);
        validate(&site, JSON, &[(&long, "pattern")]);
        // Collecting everything that is wrong counts nothing as right.
        let text = posting(version, &format!("{{ application/json: {{ schema: {schema} }} }}"));
        let logging = Site::with(&text, ", request: log", &[], ok);
        for (number, (body, code)) in rows.iter().enumerate() {
            assert_eq!(logging.post("POST /a", JSON, body).status, 200);
            let line = &logging.gate.log(number + 1)[number]["contract"];
            assert_eq!(line["reason"].as_str().unwrap_or_default(), *code, "{body}");
        }
    }
}

/// What makes a 3.1 document unloadable elsewhere.
#[test]
fn keywords_of_3_1_are_validated() {
    let schema = "{ type: object, required: [kind], unevaluatedProperties: false, patternProperties: { '^x-': { type: string } },
        properties: {
            kind: { const: a }, maybe: { type: [string, 'null'] }, pair: { prefixItems: [{ type: string }, { type: integer }], items: false },
            some: { contains: { const: 1 }, minContains: 1 }, n: { exclusiveMinimum: 0 }, ref: { $ref: '#/$defs/short', minLength: 1 },
            names: { type: object, propertyNames: { maxLength: 2 }, additionalProperties: true }, a: {}, b: {} },
        if: { required: [a] }, then: { required: [b] }, dependentRequired: { b: [a] },
        $defs: { short: { type: string, maxLength: 3 } } }";
    // References to `$defs` are from the document's root.
    let schema = schema.replace("#/$defs/short", "#/components/schemas/Short");
    let text = posting("3.1.0", &format!("{{ application/json: {{ schema: {schema} }} }}"))
        + "components: { schemas: { Short: { type: string, maxLength: 3 } } }\nwebhooks: { later: { post: { responses: { default: { description: any } } } } }\n";
    let site = Site::with(&text, "", &[], ok);
    validate(
        &site,
        JSON,
        &[
            (r#"{"kind":"a","maybe":null,"pair":["x",1],"some":[2,1],"n":0.1,"ref":"abc","x-y":"1"}"#, ""),
            (r#"{"kind":"b"}"#, "const"),
            (r#"{"kind":"a","maybe":1}"#, "type"),
            (r#"{"kind":"a","pair":["x","y"]}"#, "type"),
            (r#"{"kind":"a","pair":["x",1,2]}"#, "unknown_item"),
            (r#"{"kind":"a","some":[2]}"#, "contains"),
            (r#"{"kind":"a","n":0}"#, "minimum"),
            (r#"{"kind":"a","ref":""}"#, "min_length"),
            (r#"{"kind":"a","ref":"abcd"}"#, "max_length"),
            (r#"{"kind":"a","x-y":1}"#, "type"),
            (r#"{"kind":"a","names":{"abc":1}}"#, "property_names"),
            (r#"{"kind":"a","a":1}"#, "required"),
            (r#"{"kind":"a","b":1}"#, "required"),
            (r#"{"kind":"a","other":1}"#, "unknown_field"),
        ],
    );
    // 3.2 is read as 3.1, with a warning; what it does not know is reported, never passed over.
    let files = folder(&text.replace("3.1.0", "3.2.0"), &[]);
    let check = || {
        Command::new(env!("CARGO_BIN_EXE_portunus"))
            .args(["contract", "check", "--on-unsupported", "fail", "openapi.yaml"])
            .current_dir(files.path())
            .output()
            .unwrap()
    };
    let checked = check();
    assert!(checked.status.success() && String::from_utf8_lossy(&checked.stderr).contains("3.2"), "{checked:?}");
    write(files.path(), "openapi.yaml", &text.replace("prefixItems", "prefixItemz"));
    let checked = check();
    assert!(
        checked.status.code() == Some(1) && String::from_utf8_lossy(&checked.stderr).contains("prefixItemz"),
        "{checked:?}"
    );
}

/// Templates are text, servers of operations count, and one form of the path is both validated and forwarded.
#[test]
fn templates_are_text_and_servers_count() {
    let get = |more: &str| format!("get: {{ {more}responses: {{ default: {{ description: any }} }} }}");
    let name = "parameters: [{ name: name, in: path, required: true, schema: { type: string, maxLength: 5 } }], ";
    let text = document(
        "3.0.3",
        &format!(
            "  '/v1/{{name}}:cancel':\n    {}\n  '/a.b':\n    {}\n  '/files/{{name}}.json':\n    {}\n  /moved:\n    {}\n  /files/readme.json:\n    {}\n",
            get(name),
            get(""),
            get(name),
            get("servers: [{ url: /v9 }], "),
            get("")
        ),
    );
    let site = Site::with(&text, "", &[], ok);
    for (path, status, forwarded) in [
        ("/v1/job:cancel", 200, "/v1/job:cancel"),
        // What is reserved and escaped is another path (RFC 3986 §2.2).
        ("/v1/job%3Acancel", 404, ""),
        ("/v1/job:start", 404, ""),
        ("/v1/toolong:cancel", 400, ""),
        ("/aXb", 404, ""),
        ("/a%2Eb", 200, "/a.b"),
        ("/files/x.json", 200, "/files/x.json"),
        ("/files/xyzxyz.json", 400, ""),
        ("/files/readme.json", 200, "/files/readme.json"),
        ("/files/x%2fy.json", 400, ""),
        ("/files/x/../y.json", 400, ""),
        ("/moved", 404, ""),
        ("/v9/moved", 200, "/v9/moved"),
        ("/a.b/", 404, ""),
        ("/A.b", 404, ""),
    ] {
        let before = site.seen();
        assert_eq!(site.get(&format!("GET {path}"), "").status, status, "{path}");
        assert_eq!(site.seen() - before, usize::from(status == 200), "{path}");
        if status == 200 {
            assert_eq!(site.upstream.seen()[before].line(), format!("GET {forwarded} HTTP/1.1"));
        }
    }
    let other = "parameters: [{ name: other, in: path, required: true, schema: { type: string } }], ";
    let twice = text.replace("/moved", "'/files/{other}.json'").replace("servers: [{ url: /v9 }], ", other);
    let files = folder(&twice, &[]);
    let checked = Command::new(env!("CARGO_BIN_EXE_portunus"))
        .args(["contract", "check", "openapi.yaml"])
        .current_dir(files.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&checked.stderr).contains("match the same paths"), "{checked:?}");
}

/// Text becomes a value by JSON's grammar, every value is validated, and what was sent is what goes on.
#[test]
fn parameters_are_what_their_schema_says() {
    let list = [
        "{ name: n, in: query, schema: { type: integer, format: int32, default: 7 } }",
        "{ name: b, in: query, schema: { type: boolean } }",
        "{ name: no, in: query, schema: { not: { type: integer } } }",
        "{ name: one, in: query, schema: { oneOf: [{ type: integer, maximum: 5 }, { type: string, pattern: '^x' }] } }",
        "{ name: deep, in: query, style: deepObject, explode: true, schema: { type: object, properties: { l: { type: array, items: { type: integer } } } } }",
        "{ name: json, in: query, content: { application/json: { schema: { type: object, properties: { a: { type: integer } } } } } }",
        "{ name: bare, in: query, content: { application/json: {} } }",
        "{ name: X-N, in: header, schema: { type: integer } }",
        "{ name: c, in: cookie, schema: { type: integer } }",
    ];
    let text = document(
        "3.0.3",
        &format!(
            "  /a:\n    get:\n      parameters: [{}]\n      responses: {{ default: {{ description: any }} }}\n",
            list.join(", ")
        ),
    );
    let site = Site::with(&text, "", &[], ok);
    let rows = [
        ("", "", ""),
        ("n=5&b=true&no=x&one=3&one=", "", "parameter_repeated"),
        ("n=5&b=true&one=x1", "", ""),
        ("n=0x10", "", "type"),
        ("n=0b1", "", "type"),
        ("n=0o7", "", "type"),
        ("n=1_000", "", "type"),
        ("n=%2B1", "", "type"),
        ("n=2147483648", "", "maximum"),
        ("n=", "", "parameter_empty"),
        ("n=1&n=x", "", "parameter_repeated"),
        ("n=1&%6E=x", "", "parameter_repeated"),
        ("b=1", "", "type"),
        ("b=t", "", "type"),
        ("b=TRUE", "", "type"),
        ("no=1.5", "", ""),
        ("one=9", "", "maximum"),
        ("deep[l][0]=1&deep[l][1]=2", "", ""),
        ("deep[l][999999999]=1", "", "parameter_limit"),
        ("deep[l][0]=x", "", "type"),
        ("json=%7B%22a%22:1%7D&bare=1", "", ""),
        ("json=text", "", "json_syntax"),
        ("bare=text", "", "json_syntax"),
        ("", "X-N: 1\r\nX-N: x\r\n", "parameter_repeated"),
        ("", "X-N: 1, x\r\n", "type"),
        ("", "Cookie: c=1; c=x\r\n", "parameter_repeated"),
        ("", "Cookie: c=1\r\nCookie: c=x\r\n", "parameter_repeated"),
    ];
    for (query, fields, code) in rows {
        let before = site.seen();
        let response = site.get(&format!("GET /a?{query}"), fields);
        let reported =
            if response.status == 200 { String::new() } else { response.json()["code"].as_str().unwrap().to_owned() };
        assert_eq!((reported.as_str(), site.seen() - before), (code, usize::from(code.is_empty())), "{query} {fields}");
        if code.is_empty() {
            // Defaults are the application's own business.
            let query = query.replace('[', "%5B").replace(']', "%5D");
            assert_eq!(site.upstream.seen()[before].line(), format!("GET /a?{query} HTTP/1.1"));
        }
    }
}

/// Exact numbers, asserted formats, and what travels in one direction only.
#[test]
fn values_are_exact() {
    let site = json_of(
        "3.0.3",
        "{ type: object, properties: {
            big: { type: integer, format: int64, maximum: 9007199254740993 }, cents: { type: number, multipleOf: 0.01 }, id: { type: integer, readOnly: true },
            u: { type: string, format: uuid }, e: { type: string, format: email }, h: { type: string, format: hostname }, f: { type: string, format: ipv4 },
            s: { type: string, format: ipv6 }, l: { type: string, format: uri }, set: { type: array, uniqueItems: true, items: {} }, i: { type: integer } } }",
    );
    validate(
        &site,
        JSON,
        &[
            (r#"{"big":9007199254740993,"cents":19.99,"i":1.0}"#, ""),
            (r#"{"big":9007199254740994}"#, "maximum"),
            (r#"{"big":9007199254740992.5}"#, "type"),
            (r#"{"cents":0.015}"#, "multiple_of"),
            (r#"{"cents":1e400}"#, ""),
            (r#"{"cents":1e401}"#, "json_exponent_limit"),
            (r#"{"cents":1e-3}"#, "multiple_of"),
            (r#"{"cents":-0}"#, ""),
            (r#"{"i":1e2}"#, ""),
            (r#"{"i":1e-2}"#, "type"),
            (r#"{"id":1}"#, "read_only"),
            (
                r#"{"u":"3fa85f64-5717-4562-b3fc-2c963f66afa6","e":"a@b.example","h":"a.example","f":"192.0.2.1","s":"2001:db8::1","l":"https://a.example/"}"#,
                "",
            ),
            (r#"{"u":"3fa85f64"}"#, "format"),
            (r#"{"e":"nobody"}"#, "format"),
            (r#"{"h":"-a"}"#, "format"),
            (r#"{"f":"192.0.2.256"}"#, "format"),
            (r#"{"s":"::g"}"#, "format"),
            (r#"{"l":"not a uri"}"#, "format"),
            (r#"{"set":[1,1.0]}"#, "unique_items"),
            (r#"{"set":[{"a":1,"b":2},{"b":2,"a":1}]}"#, "unique_items"),
        ],
    );
    let text = posting(
        "3.0.3",
        "{ application/json: { schema: { anyOf: [{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/Dog' }], discriminator: { propertyName: kind } } } }",
    ) + "components: { schemas: { Cat: { type: object, required: [kind], properties: { kind: { type: string, enum: [cat] }, lives: { type: integer } } }, Dog: { type: object, required: [kind], properties: { kind: { type: string, enum: [dog] }, bark: { type: boolean } } } } }\n";
    let site = Site::with(&text, "", &[], ok);
    validate(
        &site,
        JSON,
        &[
            (r#"{"kind":"cat","lives":9}"#, ""),
            (r#"{"kind":"dog","lives":9}"#, "unknown_field"),
            (r#"{"kind":"Cat","lives":9}"#, "enum"),
            (r#"{"lives":9}"#, "discriminator"),
        ],
    );
}

/// Composed schemas are no reason to block, and no hiding place.
#[test]
fn unknown_fields_are_found_wherever_they_are() {
    let schema = "{ allOf: [{ type: object, properties: { a: { type: object, properties: { x: {} } } } }, { oneOf: [{ required: [b], properties: { b: {} } }, { required: [c], properties: { c: { type: array, items: { type: object, properties: { y: {} } } } } }] }], properties: { free: { type: object, additionalProperties: true } } }";
    let text = posting("3.1.0", &format!("{{ application/json: {{ schema: {schema} }}, application/x-www-form-urlencoded: {{ schema: {schema} }} }}"))
        .replace("    post:\n", "    post:\n      parameters: [{ name: filter, in: query, schema: { type: object, properties: { q: { type: string } } } }]\n      security: [{ key: [] }, {}]\n")
        + "components: { securitySchemes: { key: { type: apiKey, in: query, name: api_key } } }\n";
    let site = Site::with(&text, ", undeclared: { headers: block, cookies: block }", &[], ok);
    validate(
        &site,
        JSON,
        &[
            (r#"{"a":{"x":1},"b":1,"free":{"any":1}}"#, ""),
            (r#"{"c":[{"y":1}]}"#, ""),
            (r#"{"b":1,"z":1}"#, "unknown_field"),
            (r#"{"a":{"z":1},"b":1}"#, "unknown_field"),
            (r#"{"c":[{"y":1},{"z":1}]}"#, "unknown_field"),
        ],
    );
    validate(
        &site,
        "application/x-www-form-urlencoded",
        &[("b=1", ""), ("b=1&z=1", "unknown_field"), ("b=%", "form_malformed")],
    );
    for (target, fields, status) in [
        ("/a?q=1&api_key=k", "", 200),
        ("/a?r=1", "", 400),
        ("/a?filter[q]=1", "", 400),
        ("/a", "X-Debug: 1\r\n", 400),
        ("/a", "Cookie: debug=1\r\n", 400),
    ] {
        let fields = format!("Content-Type: {JSON}\r\n{fields}");
        assert_eq!(
            site.post_with(&format!("POST {target}"), &fields, r#"{"b":1}"#).status,
            status,
            "{target} {fields}"
        );
    }
}

/// A composed form, and an upload of a type that nobody has a decoder for.
#[test]
fn forms_of_composed_schemas_and_uploads_of_any_type() {
    let schema = "{ allOf: [{ type: object, properties: { a: { type: integer } } }, { type: object, properties: { b: { type: array, items: { type: string } } } }] }";
    let text = posting(
        "3.0.3",
        &format!(
            "{{ application/x-www-form-urlencoded: {{ schema: {schema} }}, multipart/form-data: {{ schema: {{ type: object, properties: {{ doc: {{ type: string, format: binary }} }} }} }} }}"
        ),
    );
    let site = Site::with(&text, "", &[], ok);
    validate(
        &site,
        "application/x-www-form-urlencoded",
        &[
            ("a=1&b=x&b=y", ""),
            ("a=x", "type"),
            ("a=1&a=2", "parameter_repeated"),
            ("c=1", "unknown_field"),
            ("a=1;b=x", "form_malformed"),
        ],
    );
    let docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
    let part = |name: &str| {
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.docx\"\r\nContent-Type: {docx}\r\n\r\nPK\r\n--b--\r\n"
        )
    };
    validate(
        &site,
        "multipart/form-data; boundary=b",
        &[(&part("doc"), ""), (&part("other"), "part_content_type"), ("--b--\r\n", "")],
    );
}

/// Uploads are neither read before their sender is known nor kept in memory.
#[test]
fn uploads_are_rejected_early_and_stream_otherwise() {
    let shop = Site::shop(", operations: [{ path: \"/products/{product}/picture\", max_body: 60MiB }]");
    let head = "PUT /v1/products/7/picture HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 60000000\r\n";
    let mut client = connect(shop.gate.address("web"));
    write!(client, "{head}\r\n").unwrap();
    let (response, _) = read_response(&mut client);
    assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
    assert_eq!(shop.seen(), 0);
    let mut client = connect(shop.gate.address("web"));
    write!(client, "{head}X-Api-Key: k\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"a\"\r\nContent-Type: image/png\r\n\r\n").unwrap();
    client.write_all(&vec![b'p'; 1 << 20]).unwrap();
    wait_until("the first bytes to be at the upstream", || shop.upstream.raw().len() > 1 << 19);
}

/// Each request is one line that says what it was, and each rejection has a reason that is counted.
#[test]
fn lines_say_method_path_and_reason() {
    let shop = Site::shop("");
    for (number, (request, reason)) in [
        ("GET /v1/products?page=0", "minimum"),
        ("GET /v1/nothing%20at%20all", "path_undeclared"),
        ("PUT /v1/products/7", "method_undeclared"),
    ]
    .into_iter()
    .enumerate()
    {
        let response = shop.get(request, "");
        assert!(response.status >= 400, "{request}");
        let lines = shop.gate.log(number + 1);
        let (method, target) = request.split_once(' ').unwrap();
        let line = &lines[number];
        assert_eq!(
            (line["method"].as_str(), line["contract"]["reason"].as_str()),
            (Some(method), Some(reason)),
            "{line}"
        );
        assert!(line.to_string().contains(target.split('?').next().unwrap()), "{line}");
        assert!(shop.gate.metrics().contains(&format!("decision=\"blocked\",reason=\"{reason}\"}} 1")), "{reason}");
    }
    let ids: std::collections::HashSet<String> =
        shop.gate.log(3).iter().map(|line| line["request_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 3, "request ids collide");
}

/// Elsewhere one slow request stalls a reload, and with it everybody.
#[test]
fn a_slow_request_holds_up_no_reload() {
    let shop = Site::with(SHOP, "", &[], |seen| match seen.line().contains("/orders/") {
        true => Reply::Silence,
        false => shop_response(seen),
    });
    let mut slow = connect(shop.gate.address("web"));
    slow.write_all(b"GET /v1/orders/3fa85f64-5717-4562-b3fc-2c963f66afa6 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_until("the slow request to be at the upstream", || shop.seen() == 1);
    assert_eq!(shop.get("GET /v1/products?page=5", "").status, 200);
    write(shop.gate.dir.path(), "openapi.yaml", &SHOP.replace("maximum: 10000", "maximum: 4"));
    wait_until("the new document", || shop.get("GET /v1/products?page=5", "").status == 400);
    assert_eq!(shop.post("POST /v1/orders", JSON, ORDER).status, 201);
    drop(slow);
}

/// Networks hold all their addresses, however many those are.
#[test]
fn networks_hold_their_first_and_last_address() {
    let upstream = Upstream::start(shop_response);
    let text = yaml(&upstream, ", allow_addresses: { file: allowed.txt }", "trusted_proxies: [127.0.0.1]");
    let files = folder(SHOP, &[("allowed.txt", "203.0.113.0/24\n2001:db8:0:1::/64\n2001::/16 ; all\n")]);
    let site = Site { gate: Gate::start_in(files, &text), upstream };
    for (client, status) in [
        ("203.0.113.0", 200),
        ("203.0.113.255", 200),
        ("203.0.112.255", 403),
        ("203.0.114.0", 403),
        ("2001:db8:0:1::", 200),
        ("2001:db8:0:1:ffff:ffff:ffff:ffff", 200),
        ("2001:ffff::1", 200),
        ("2002::", 403),
        ("::ffff:203.0.113.9", 200),
    ] {
        let response = site.get("GET /v1/products", &format!("X-Forwarded-For: {client}\r\n"));
        assert_eq!(response.status, status, "{client}");
    }
}
