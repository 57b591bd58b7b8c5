//! Validation for other proxies: what each of them is told of a request that it holds, and whose fault it is where a question cannot be understood. Real
//! proxies ask in tests/clients/rows_contract.py.

use std::io::Write as _;

use wire::envoy::{Denial, write_denied, write_immediate};
use wire::protobuf::{Value, put_bytes, put_message, put_varint};

use super::site::{ORDER, SHOP, folder};
use crate::harness::frames::{DATA, END_STREAM, Frames, Outcome, frame};
use crate::harness::{Gate, connect, exchange, read_response};

const CHECK: &str = "/envoy.service.auth.v3.Authorization/Check";
const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// A gate that every proxy can ask. `contract`: further keys of the contract; `validate`: of each route.
fn server(contract: &str, validate: &str, files: &[(&str, &str)]) -> Gate {
    server_with(contract, validate, ["", "", ""], files)
}

/// Likewise, with further keys of the listener and of each route, and further lines of the file.
fn server_with(contract: &str, validate: &str, more: [&str; 3], files: &[(&str, &str)]) -> Gate {
    let [listener, every_route, lines] = more;
    let route = |protocol: &str, path: &str| {
        format!(
            "  - {{ path: \"{path}\", contract: api{every_route}, validate: {{ protocol: {protocol}{validate} }} }}\n"
        )
    };
    let routes = [
        route("auth_request", "/auth_request"),
        route("forward_auth", "/forward_auth"),
        route("ext_authz", "/ext_authz/{*path}"),
        route("ext_authz_grpc", CHECK),
        route("ext_proc", PROCESS),
    ];
    let yaml = format!(
        "workers: 1\nlisteners:\n  - {{ name: web, bind: \"127.0.0.1:0\"{listener} }}\n{lines}\
         contracts:\n  api: {{ document: openapi.yaml, response: off{contract} }}\n\
         trusted_proxies: [\"127.0.0.1/32\"]\nforwarding: {{ trusted_fields: [X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Method, X-Forwarded-Uri] }}\nroutes:\n{}admin: {{ bind: \"127.0.0.2:0\" }}\n",
        routes.concat()
    );
    Gate::start_in(folder(SHOP, files), &yaml)
}

/// Status, head and body of what is said to a question over HTTP/1.
fn ask(gate: &Gate, question: &str, body: &str) -> (u16, String, String) {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let mut client = connect(gate.address("web"));
    let (line, fields) = question.split_once('\n').unwrap_or((question, ""));
    let fields: String = fields.lines().map(|line| format!("{line}\r\n")).collect();
    let request = format!("{line} HTTP/1.1\r\nHost: api.test\r\n{fields}{length}\r\n{body}");
    client.write_all(request.as_bytes()).unwrap();
    let (head, body) = read_response(&mut client);
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap();
    (status, head, String::from_utf8(body).unwrap())
}

fn reason(gate: &Gate, lines: usize) -> (String, String) {
    let line = gate.log(lines).pop().unwrap();
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("fault"))
}

#[test]
fn nginx_is_told_yes_or_403_and_the_status_that_fits() {
    let gate = server("", "", &[]);
    for (at, (method, target, fields, expected, fitting, reported)) in [
        ("GET", "/v1/products?page=1", "", 200, "", ""),
        ("GET", "/v1/products?page=0", "", 403, "400", "minimum"),
        ("GET", "/v1/nothing", "", 403, "404", "path_undeclared"),
        ("PUT", "/v1/products", "", 403, "405", "method_undeclared"),
        ("POST", "/v1/products", "Content-Type: application/json\n", 401, "401", "security_missing"),
        // Nothing of a body can be seen; what its type says is.
        ("POST", "/v1/orders", "Content-Type: application/json\n", 200, "", ""),
        ("POST", "/v1/orders", "", 200, "", ""),
        ("POST", "/v1/orders", "Content-Type: text/csv\n", 403, "415", "content_type_undeclared"),
        ("GET", "/v1/products/../orders", "", 403, "400", "dot_segment"),
        ("TRACE", "/v1/products", "", 403, "405", "method_never_allowed"),
    ]
    .into_iter()
    .enumerate()
    {
        let question = format!("GET /auth_request\nX-Original-Method: {method}\nX-Original-URI: {target}\n{fields}");
        let (status, head, _) = ask(&gate, &question, "");
        assert_eq!(status, expected, "{question}");
        let said = head.lines().find_map(|line| line.strip_prefix("Contract-Decision: ")).unwrap_or_default();
        assert_eq!(said, fitting, "{question}");
        assert_eq!(reason(&gate, at + 1).0, reported, "{question}");
    }
    let line = gate.log(1).remove(0);
    assert_eq!(
        (line["contract"]["operation"].as_str(), line["contract"]["decision"].as_str()),
        (Some("GET /products"), Some("passed")),
        "{line}"
    );
    assert!(gate.metrics().contains("portunus_contract_requests_total{contract=\"api\",operation=\"GET /products\""));
}

/// A question that does not say what it is about is the fault of who asks, and nothing passes on it.
#[test]
fn questions_that_say_nothing_or_two_things_are_the_asking_proxy_s_fault() {
    let gate = server("", "", &[]);
    let rows = [
        ("GET /auth_request", "original_request_missing"),
        ("GET /auth_request\nX-Original-Method: GET", "original_request_missing"),
        ("GET /auth_request\nX-Original-URI: /v1/products", "original_request_missing"),
        ("GET /auth_request\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /v1/products", "original_request_missing"),
        (
            "GET /auth_request\nX-Original-Method: GET\nX-Original-URI: /v1/products\nX-Original-URI: /v1/orders",
            "original_request_malformed",
        ),
        ("GET /auth_request\nX-Original-Method: G T\nX-Original-URI: /v1/products", "original_request_malformed"),
        ("GET /forward_auth\nX-Forwarded-Method: GET", "original_request_missing"),
        ("GET /forward_auth\nX-Original-Method: GET\nX-Original-URI: /v1/products", "original_request_missing"),
    ];
    for (at, (question, expected)) in rows.iter().enumerate() {
        assert_eq!(ask(&gate, question, "").0, 400, "{question}");
        assert_eq!(reason(&gate, at + 1), ((*expected).to_owned(), "client".to_owned()), "{question}");
    }
}

#[test]
fn traefik_and_caddy_get_the_response_that_their_client_is_to_get() {
    let gate = server(", detail: pointer", "", &[]);
    let question = |target: &str| {
        format!("GET /forward_auth\nX-Forwarded-Method: GET\nX-Forwarded-Host: shop.test\nX-Forwarded-Uri: {target}")
    };
    assert_eq!(ask(&gate, &question("/v1/products"), "").0, 200);
    let (status, head, body) = ask(&gate, &question("/v1/products?page=0"), "");
    assert!(status == 400 && head.contains("application/problem+json"), "{head}");
    assert!(body.contains("\"code\":\"minimum\"") && body.contains("\"name\":\"page\""), "{body}");
    // A body that is shown is validated.
    let order =
        "GET /forward_auth\nX-Forwarded-Method: POST\nX-Forwarded-Uri: /v1/orders\nContent-Type: application/json";
    let said = ask(&gate, order, ORDER);
    assert_eq!(said.0, 200, "{}", said.2);
    assert_eq!(ask(&gate, order, "{}").0, 400);
}

#[test]
fn envoy_over_http_asks_with_the_request_itself() {
    let gate = server("", ", bodies: whole", &[]);
    assert_eq!(ask(&gate, "GET /ext_authz/v1/products?page=1", "").0, 200);
    assert_eq!(ask(&gate, "GET /ext_authz/v1/products?page=0", "").0, 400);
    assert_eq!(ask(&gate, "GET /v1/products", "").0, 404);
    let order = "POST /ext_authz/v1/orders\nContent-Type: application/json";
    assert_eq!(ask(&gate, order, ORDER).0, 200);
    assert_eq!(ask(&gate, order, &ORDER.replace("\"count\":2", "\"count\":0")).0, 400);
    assert_eq!(ask(&gate, order, "").0, 400, "the whole body is shown, so there is none");
    assert_eq!(ask(&gate, &format!("{order}\nx-envoy-auth-partial-body: false"), ORDER).0, 200);
    assert_eq!(ask(&gate, &format!("{order}\nx-envoy-auth-partial-body: true"), ORDER).0, 413);
    assert_eq!(reason(&gate, 8).0, "original_body_partial");
}

/// The lists of the contract are asked about the client and the credentials of the request, not of the proxy.
#[test]
fn lists_hold_for_the_request_that_is_asked_about() {
    let files = [("denied.txt", "stolen\n"), ("allowed.txt", "192.0.2.0/24\n")];
    let lists = ", deny_tokens: { file: denied.txt, header: Authorization }, allow_addresses: { file: allowed.txt }";
    let gate = server(lists, "", &files);
    let question = |client: &str, token: &str| {
        format!(
            "GET /auth_request\nX-Original-Method: GET\nX-Original-URI: /v1/products\nX-Forwarded-For: {client}\nAuthorization: Bearer {token}"
        )
    };
    assert_eq!(ask(&gate, &question("192.0.2.7", "fine"), "").0, 200);
    assert_eq!(ask(&gate, &question("198.51.100.7", "fine"), "").0, 403);
    assert_eq!(ask(&gate, &question("192.0.2.7", "stolen"), "").0, 403);
    let fields = [("x-forwarded-for", "192.0.2.7"), ("authorization", "Bearer stolen")];
    let message = check("GET", "/v1/products", &fields, "");
    assert!(matches!(status_of(&call(&gate, CHECK, &[message])), Some(403)), "the fields are in the message");
}

#[test]
fn log_mode_says_yes_and_logs() {
    let gate = server(", request: log", "", &[]);
    let question = "GET /forward_auth\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /v1/products?page=0";
    assert_eq!(ask(&gate, question, "").0, 200);
    let line = gate.log(1).remove(0);
    assert_eq!(line["contract"]["decision"], "logged", "{line}");
}

/// A `CheckRequest`.
fn check(method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut message = Vec::new();
    put_message(1, &mut message, |attributes| {
        put_message(4, attributes, |request| {
            put_message(2, request, |http| {
                put_bytes(2, method.as_bytes(), http);
                for (name, value) in fields {
                    put_message(3, http, |field| {
                        put_bytes(1, name.as_bytes(), field);
                        put_bytes(2, value.as_bytes(), field);
                    });
                }
                put_bytes(4, target.as_bytes(), http);
                put_bytes(5, b"api.test", http);
                if !body.is_empty() {
                    put_bytes(11, body.as_bytes(), http);
                }
            });
        });
    });
    message
}

/// A `ProcessingRequest` with the head of a request.
fn head(method: &str, target: &str, fields: &[(&str, &str)], is_whole: bool, mode: u64) -> Vec<u8> {
    let pseudo = [(":method", method), (":path", target), (":authority", "api.test"), (":scheme", "http")];
    let mut message = Vec::new();
    put_message(2, &mut message, |headers| {
        put_message(1, headers, |list| {
            for (name, value) in pseudo.iter().chain(fields) {
                put_message(1, list, |field| {
                    put_bytes(1, name.as_bytes(), field);
                    put_bytes(3, value.as_bytes(), field);
                });
            }
        });
        put_varint(3, u64::from(is_whole), headers);
    });
    put_message(11, &mut message, |configuration| {
        put_varint(1, mode & 15, configuration);
        put_varint(3, mode >> 4, configuration);
    });
    message
}

/// Pieces of a body that are sent without waiting for the word to the head (`send_body_without_waiting_for_header_response`).
const UNASKED: u64 = 16;

/// A `ProcessingRequest` with a piece of its body.
fn piece(bytes: &str, is_last: bool) -> Vec<u8> {
    let mut message = Vec::new();
    put_message(4, &mut message, |body| {
        put_bytes(1, bytes.as_bytes(), body);
        put_varint(2, u64::from(is_last), body);
    });
    message
}

/// The messages of the response to a call.
fn call(gate: &Gate, path: &str, messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut client = Frames::open_plain(gate.address("web"));
    let fields: &[(&str, &[u8])] = &[
        (":method", b"POST"),
        (":scheme", b"http"),
        (":authority", b"validation.test"),
        (":path", path.as_bytes()),
        ("content-type", b"application/grpc"),
        ("te", b"trailers"),
    ];
    client.headers(1, fields, false);
    let mut bytes = Vec::new();
    for message in messages {
        bytes.push(0);
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message);
    }
    client.send(&frame(DATA, END_STREAM, 1, &bytes));
    let Outcome::Response(200, body) = client.outcome(1) else { panic!("no response") };
    let (mut rest, mut out) = (&body[..], Vec::new());
    while let Some((prefix, after)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize;
        out.push(after[..length].to_vec());
        rest = &after[length..];
    }
    out
}

/// The status that Envoy is to respond with; none if the request passes.
fn status_of(messages: &[Vec<u8>]) -> Option<u64> {
    let message = messages.last()?;
    let denied = member(message, 2).or_else(|| member(message, 7))?.bytes().unwrap();
    member(member(denied, 1)?.bytes().unwrap(), 1)?.varint().ok()
}

/// A field of a message.
fn member(message: &[u8], number: u32) -> Option<Value<'_>> {
    wire::protobuf::fields(message).map(Result::unwrap).find(|(have, _)| *have == number).map(|(_, value)| value)
}

#[test]
fn envoy_over_grpc_gets_yes_or_the_response_of_its_client() {
    let gate = server("", ", bodies: whole", &[]);
    let json = [("content-type", "application/json")];
    for (message, expected) in [
        (check("GET", "/v1/products?page=1", &[(":path", "/v1/products?page=1")], ""), None),
        (check("GET", "/v1/products?page=0", &[], ""), Some(400)),
        (check("GET", "/v1/nothing", &[], ""), Some(404)),
        (check("POST", "/v1/orders", &json, ORDER), None),
        (check("POST", "/v1/orders", &json, "{}"), Some(400)),
        (check("POST", "/v1/orders", &json, ""), Some(400)),
        (check("POST", "/v1/orders", &[json[0], ("x-envoy-auth-partial-body", "true")], ORDER), Some(413)),
        (check("GET", "/v1/a\n", &[], ""), None),
    ] {
        let said = call(&gate, CHECK, std::slice::from_ref(&message));
        if said.is_empty() {
            // No word at all: Envoy takes that for an error, and for no.
            assert!(message.windows(2).any(|pair| pair == b"a\n") || expected == Some(413), "no word");
            continue;
        }
        assert_eq!(status_of(&said), expected, "{:?}", String::from_utf8_lossy(&message));
    }
    for message in [b"".to_vec(), b"\x0b\x0c".to_vec(), check("GET", "/v1/products", &[("a b", "c")], "")] {
        assert!(call(&gate, CHECK, std::slice::from_ref(&message)).is_empty(), "nothing is said to {message:?}");
    }
    let reasons: Vec<_> =
        gate.log(11).iter().map(|line| line["reason"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(reasons[8..], ["original_request_missing", "original_request_malformed", "original_request_malformed"]);
}

#[test]
fn an_external_processor_keeps_the_word_to_the_body_until_the_decision() {
    let gate = server("", "", &[]);
    let json = [("content-type", "application/json")];
    let (first, second) = ORDER.split_at(40);
    const BUFFERED: u64 = 2;
    for (messages, words, expected) in [
        (vec![head("GET", "/v1/products", &[], true, BUFFERED)], 1, None),
        (vec![head("GET", "/v1/products?page=0", &[], true, BUFFERED)], 1, Some(400)),
        (vec![head("POST", "/v1/orders", &json, false, BUFFERED), piece(ORDER, true)], 2, None),
        (vec![head("POST", "/v1/orders", &json, false, BUFFERED), piece("{}", true)], 2, Some(400)),
        (
            vec![head("POST", "/v1/orders", &json, false, 1 | UNASKED), piece(first, false), piece(second, true)],
            3,
            None,
        ),
        // No word to the head before the decision: an Envoy that streams would send it on.
        (
            vec![head("POST", "/v1/orders", &json, false, 1 | UNASKED), piece("{", false), piece("}", true)],
            1,
            Some(400),
        ),
        // The head alone is enough to say no.
        (vec![head("PATCH", "/v1/orders", &json, false, BUFFERED)], 1, Some(405)),
        (vec![head("POST", "/v1/orders", &json, true, BUFFERED)], 1, Some(400)),
    ] {
        let said = call(&gate, PROCESS, &messages);
        assert_eq!((said.len(), status_of(&said)), (words, expected));
    }
    // How Envoy is configured to show less than the whole body is said at once.
    for mode in [0, 1, 3, 4, 3 | UNASKED, 4 | UNASKED] {
        assert!(call(&gate, PROCESS, &[head("POST", "/v1/orders", &json, false, mode)]).is_empty(), "{mode}");
    }
    assert_eq!(reason(&gate, 14), ("original_body_partial".to_owned(), "client".to_owned()));
    // Who claims to buffer and streams gets no yes.
    let streams = [head("POST", "/v1/orders", &json, false, BUFFERED), piece(first, false), piece(second, true)];
    assert_eq!(status_of(&call(&gate, PROCESS, &streams)), Some(413));
    assert!(call(&gate, PROCESS, &[piece("{}", true)]).is_empty());
    assert_eq!(reason(&gate, 16).0, "original_request_missing");
}

/// The reader of the tests is that of the program, so what it writes is compared with Envoy itself in the clients' rows; here only with itself.
#[test]
fn denials_differ_by_protocol_alone() {
    let denial = Denial { status: 400, fields: &[], body: b"", reason: "pattern" };
    let (mut denied, mut immediate) = (Vec::new(), Vec::new());
    write_denied(&denial, &mut denied);
    write_immediate(&denial, &mut immediate);
    assert_eq!((status_of(&[denied]), status_of(&[immediate])), (Some(400), Some(400)));
}

/// Names with an underscore are those of the request that is asked about: those pass that nobody could take for another field.
#[test]
fn names_with_an_underscore_pass_where_nothing_is_read_as_the_same() {
    let operation = "openapi: 3.0.3\ninfo: { title: t, version: '1' }\npaths:\n  /a:\n    get:\n      parameters: [{ name: api_key, in: header, required: true, schema: { type: string } }]\n      responses: { default: { description: d } }\n  /b:\n    get: { responses: { default: { description: d } } }\n";
    let gate = server("", "", &[("openapi.yaml", operation)]);
    for (target, fields, is_good) in [
        ("/a", "api_key: k", true),
        ("/a", "api_key: k\napi-key: k", false),
        ("/a", "api_key: k\nX_Forwarded_For: 1.1.1.1", false),
        ("/a", "api_key: k\nX.Real.IP: 1.1.1.1", false),
        ("/a", "api_key: k\nTransfer_Encoding: chunked", false),
        ("/b", "api_key: k", true),
        ("/b", "api.key: k", false),
    ] {
        let nginx = format!("GET /auth_request\nX-Original-Method: GET\nX-Original-URI: {target}\n{fields}");
        assert_eq!(ask(&gate, &nginx, "").0, if is_good { 200 } else { 403 }, "{nginx}");
        let envoy = format!("GET /ext_authz{target}\n{fields}");
        assert_eq!(ask(&gate, &envoy, "").0, if is_good { 200 } else { 400 }, "{envoy}");
    }
}

/// Operations that differ in what they demand, one that may become another protocol, and one that is not validated.
const GUARDED: &str = r##"
openapi: 3.0.3
info: { title: t, version: "1" }
components: { securitySchemes: { key: { type: apiKey, in: header, name: X-Key } } }
paths:
  /a:
    get: { responses: { "200": { description: d } } }
    post: { responses: { default: { description: d } } }
    put: { responses: { default: { description: d } } }
    delete: { security: [{ key: [] }], responses: { default: { description: d } } }
  /ws:
    get: { responses: { "101": { description: d } } }
"##;

/// What is said of a request by each protocol: none if it passes.
fn statuses(gate: &Gate, method: &str, target: &str, fields: &[(&str, &str)]) -> [Option<u64>; 5] {
    let lines: String = fields.iter().map(|(name, value)| format!("\n{name}: {value}")).collect();
    let said = |question: String, decision: Option<&str>| {
        let (status, head, _) = ask(gate, &(question + &lines), "");
        let own = decision.and_then(|name| head.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()));
        own.or((status != 200).then_some(u64::from(status)))
    };
    const BUFFERED: u64 = 2;
    [
        said(
            format!("GET /auth_request\nX-Original-Method: {method}\nX-Original-URI: {target}"),
            Some("Contract-Decision: "),
        ),
        said(format!("GET /forward_auth\nX-Forwarded-Method: {method}\nX-Forwarded-Uri: {target}"), None),
        said(format!("{method} /ext_authz{target}"), None),
        status_of(&call(gate, CHECK, &[check(method, target, fields, "")])),
        status_of(&call(gate, PROCESS, &[head(method, target, fields, true, BUFFERED)])),
    ]
}

/// The asking proxy forwards the field, and its upstream may do what nobody validated.
#[test]
fn a_request_that_asks_for_another_method_is_rejected() {
    let files = [("openapi.yaml", GUARDED)];
    let gate = server(", operations: [{ path: /a, methods: [PUT], request: off }]", "", &files);
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        assert_eq!(statuses(&gate, "POST", "/a", &[(name, "DELETE")]), [Some(400); 5], "{name}");
    }
    assert_eq!(reason(&gate, 15), ("method_override".to_owned(), "client".to_owned()));
    assert_eq!(statuses(&gate, "PUT", "/a", &[("x-http-method-override", "DELETE")]), [Some(400); 5]);
    assert_eq!(statuses(&gate, "POST", "/a", &[]), [None; 5]);
    let kept = server_with("", "", ["", ", keep_method_override: true", ""], &files);
    assert_eq!(statuses(&kept, "POST", "/a", &[("x-http-method-override", "DELETE")]), [None; 5]);
    let logged = server(", request: log", "", &files);
    assert_eq!(statuses(&logged, "POST", "/a", &[("x-http-method-override", "DELETE")]), [None; 5]);
    assert_eq!(logged.log(1)[0]["contract"]["reason"], "method_override");
}

#[test]
fn a_request_that_asks_for_another_protocol_is_rejected_unless_it_is_declared() {
    let files = [("openapi.yaml", GUARDED)];
    let gate = server("", "", &files);
    let asks = |protocol| [("connection", "Upgrade"), ("upgrade", protocol)];
    assert_eq!(statuses(&gate, "GET", "/a", &asks("websocket")), [Some(400); 5]);
    assert_eq!(reason(&gate, 5), ("upgrade_undeclared".to_owned(), "client".to_owned()));
    assert_eq!(statuses(&gate, "GET", "/a", &asks("h2c, websocket")), [Some(400); 5]);
    assert_eq!(statuses(&gate, "GET", "/a", &asks("h2c")), [None; 5], "clients offer it with ordinary requests");
    assert_eq!(statuses(&gate, "GET", "/ws", &asks("websocket")), [None; 5]);
    let logged = server(", request: log", "", &files);
    assert_eq!(statuses(&logged, "GET", "/a", &asks("websocket")), [None; 5]);
    assert_eq!(logged.log(1)[0]["contract"]["reason"], "upgrade_undeclared");
}

/// Policies of the listener and the host are those of the request that is asked about, and count it once.
#[test]
fn policies_hold_for_the_request_that_is_asked_about() {
    let policies = "policies: { rate: { rate_limit: { rate: 1/h, burst: 1 } }, closed: { deny: 192.0.2.66 } }\nhosts: { shop.test: { policies: [closed] } }\n";
    let gate = server_with("", "", [", policies: [rate]", "", policies], &[("openapi.yaml", GUARDED)]);
    let grpc = |client: &str| status_of(&call(&gate, CHECK, &[check("GET", "/a", &[("x-forwarded-for", client)], "")]));
    let said: Vec<_> = ["192.0.2.1", "192.0.2.2", "192.0.2.1"].map(grpc).into();
    assert_eq!(said, [None, None, Some(429)]);
    let http = |host: &str, client: &str| {
        let question = format!(
            "GET /forward_auth\nX-Forwarded-Method: GET\nX-Forwarded-Uri: /a\nX-Forwarded-Host: {host}\nX-Forwarded-For: {client}"
        );
        ask(&gate, &question, "").0
    };
    assert_eq!(["192.0.2.3", "192.0.2.3"].map(|client| http("other.test", client)), [200, 429]);
    assert_eq!(["192.0.2.66", "192.0.2.67"].map(|client| http("shop.test", client)), [403, 200]);
}

/// Nothing says who sent the requests that are asked about, so the policies hold for who asks: those of the route, too.
#[test]
fn policies_of_a_route_hold_for_who_asks_by_schemas() {
    let file = |policies: &str| {
        format!(
            "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\ncontracts: {{ api: {{ document: openapi.yaml, response: off }} }}\n\
             policies: {{ office: {{ allow: 192.0.2.1 }} }}\nroutes:\n  - {{ path: \"/{{*path}}\"{policies}, validate: {{ protocol: schemas, schemas: {{ 1: api }} }} }}\n"
        )
    };
    for (policies, expected) in [("", 200), (", policies: office", 403)] {
        let gate = Gate::start_in(folder(SHOP, &[]), &file(policies));
        let request = b"GET /v1/orders HTTP/1.1\r\nHost: x\r\nX-Wallarm-Schema-ID: 1\r\nConnection: close\r\n\r\n";
        assert_eq!(crate::harness::statuses(&exchange(gate.address("web"), request)), [expected], "{policies}");
    }
}
