//! The OpenAPI document of the admin API: it is served, and each response is what it says, by the engine that validates the responses of the gate.

use std::io::{Read, Write};
use std::process::Command;

use contract::options::Options;
use contract::validate::{Enough, FieldSource, Findings, Framing, ResponseParts, Scratch};
use contract::{Contract, Found};
use serde_json::{Value, json};
use wire::http::{Fields, HeadLimits, Method, ResponseHead, http1};

use crate::harness::{Gate, PORTUNUS, Upstream, certificates, connect, connect_unix, exchange, read_to_end, vacant};

struct Given<'f>(&'f Fields);

impl FieldSource for Given<'_> {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.0.iter().for_each(|(name, value)| visit(name, value));
    }
}

/// Sends a request over the admin socket.
fn call(gate: &Gate, method: &str, path: &str, fields: &str, body: &str) -> Vec<u8> {
    let mut stream = connect_unix(&gate.dir.path().join("control.sock"));
    let length = if method == "POST" { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}{length}\r\n{body}");
    stream.write_all(head.as_bytes()).unwrap();
    read_to_end(&mut stream)
}

/// The body of a response with this status that is what the document says.
fn checked(contract: &Contract, (method, path): (&str, &str), response: &[u8], status: u16) -> String {
    let mut head = ResponseHead::default();
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let limits = HeadLimits { head_bytes: 16_384, request_line_bytes: 8_192, fields: 100 };
    http1::parse_response(response, &limits, &Method::Get, &mut head).unwrap();
    let body = &response[end..];
    assert_eq!(head.status, status, "{method} {path}: {}", String::from_utf8_lossy(body));
    let path_alone = path.split('?').next().unwrap();
    let Found::Operation(matched, _) = contract.find(method, path_alone.as_bytes()) else {
        panic!("{method} {path} stands in no document")
    };
    let parts = ResponseParts {
        status,
        fields: &Given(&head.fields),
        framing: Framing::Length(body.len() as u64),
        responds_head: false,
    };
    let (mut scratch, mut findings) = (Scratch::new(), Findings::all());
    if let Ok(plan) = matched.validate_response(&parts, &mut scratch, &mut findings) {
        let mut validator = plan.validator;
        let mut read = || {
            validator.feed(body, &mut findings)?;
            while !validator.finish_some(&mut findings)? {}
            Ok::<_, Enough>(())
        };
        if read().is_ok() {
            let _ = validator.finish(&mut findings);
        }
    }
    let text = String::from_utf8(body.to_vec()).unwrap();
    let wrong: Vec<_> = findings.violations().iter().map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "{method} {path} {status}: {wrong:#?}\n{text}");
    text
}

fn start(upstream: &Upstream) -> Gate {
    let dir = certificates(&[("a.example", true)]);
    let (app, socket) = (upstream.address, dir.path().join("control.sock"));
    let text = format!(
        "listeners:
  - {{ name: web, bind: '127.0.0.1:0', tls: {{ keystore: main }} }}
  - {{ name: plain, bind: '127.0.0.1:0' }}
  - {{ name: upgrade, bind: '127.0.0.1:0', redirect_to_https: {{}} }}
  - {{ name: mail, bind: '127.0.0.1:0', tunnel: {{ upstream: mail }} }}
keystores: {{ main: {{ folder: certs }} }}
upstreams:
  app: {{ servers: ['{app}', '{}'] }}
  mail: {{ protocol: tcp, servers: ['{}'] }}
policies: {{ planned: {{ maintenance: {{ file: closed }} }} }}
routes:
  - {{ name: app, hosts: [a.example, '*.b.example'], methods: [GET, POST], path: ['/x/{{id}}', /y], upstream: app, policies: planned }}
  - {{ path: /r, redirect: {{ to: /y }} }}
  - {{ path: /s, respond: {{ status: 204 }} }}
admin: {{ bind: '127.0.0.1:0' }}
",
        vacant(),
        vacant(),
    );
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    let mut command = Command::new(PORTUNUS);
    command.args(["run", "--no-watch", "--control"]).arg(socket).arg(dir.path().join("portunus.yaml"));
    Gate::start_command(dir, command, 5)
}

/// Changes things, and tries to.
fn change(contract: &Contract, gate: &Gate, upstream: &Upstream) {
    let server = upstream.address.to_string();
    let post = |name: &str, body: &Value, status: u16| {
        let path = format!("/api/v1/{name}");
        let fields = "Content-Type: application/json\r\n";
        checked(contract, ("POST", &path), &call(gate, "POST", &path, fields, &body.to_string()), status)
    };
    post("drain", &json!({ "server": server, "drained": true }), 200);
    post("drain", &json!({ "server": server, "upstream": "app", "drained": false }), 200);
    post("weight", &json!({ "server": server, "weight": 5 }), 200);
    post("weight", &json!({ "server": server, "weight": null }), 200);
    post("maintenance", &json!({ "on": true }), 200);
    post("maintenance", &json!({ "policy": "planned", "on": false }), 200);
    post("log-level", &json!({ "level": "debug", "seconds": 1 }), 200);
    post("drain", &json!({ "server": "192.0.2.1:1", "drained": true }), 404);
    post("maintenance", &json!({ "policy": "nobody", "on": true }), 404);
    for (name, body, place) in [
        ("drain", json!({ "server": server }), "drained"),
        ("drain", json!({ "server": server, "drained": true, "more": 1 }), "more"),
        ("weight", json!({ "server": server, "weight": 0 }), "weight"),
        ("log-level", json!({ "level": "loud" }), "level"),
    ] {
        let said = post(name, &body, 400);
        assert!(said.contains(place), "{said}");
    }
    let drain = ("POST", "/api/v1/drain");
    let plain = call(gate, drain.0, drain.1, "Content-Type: text/plain\r\n", "{}");
    checked(contract, drain, &plain, 415);
    let long = call(gate, drain.0, drain.1, "Content-Type: application/json\r\n", &" ".repeat(20_000));
    checked(contract, drain, &long, 413);
    let query = call(gate, "GET", "/api/v1/status?verbose=1", "", "");
    checked(contract, ("GET", "/api/v1/status?verbose=1"), &query, 400);
}

#[test]
fn each_response_of_the_api_is_what_its_document_says() {
    let upstream = Upstream::ok();
    let gate = start(&upstream);
    let text = call(&gate, "GET", "/api/v1/openapi.json", "", "");
    let document = String::from_utf8(text.clone()).unwrap().split_once("\r\n\r\n").unwrap().1.to_owned();
    let contract = Contract::from_text("openapi.json", &document, &Options::default()).unwrap();
    assert!(contract.warnings().is_empty(), "{:?}", contract.warnings());
    checked(&contract, ("GET", "/api/v1/openapi.json"), &text, 200);
    let views = [
        "status",
        "listeners",
        "routes",
        "upstreams",
        "certificates",
        "connections",
        "rejections",
        "errors",
        "policies",
        "contracts",
        "handshakes",
        "clients",
        "shadow",
        "key-servers",
        "history",
    ];
    let show = || {
        for name in views {
            let path = format!("/api/v1/{name}");
            let said = checked(&contract, ("GET", &path), &call(&gate, "GET", &path, "", ""), 200);
            let value: Value = serde_json::from_str(&said).unwrap();
            assert!(value.as_object().is_some_and(|members| !members.is_empty()), "{said}");
        }
    };
    show();
    // Requests of all kinds, a rejection, a connection that stays, and a reload that is rejected.
    for line in ["GET /x/1", "GET /nowhere", "GET /r", "GET /\u{1}", "GET /y"] {
        let request = format!("{line} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        exchange(gate.address("plain"), request.as_bytes());
    }
    let _open = connect(gate.address("mail"));
    change(&contract, &gate, &upstream);
    let reload = ("POST", "/api/v1/reload");
    checked(&contract, reload, &call(&gate, reload.0, reload.1, "", ""), 200);
    let file = gate.dir.path().join("portunus.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("upstream: app,", "upstream: nobody,")).unwrap();
    checked(&contract, reload, &call(&gate, reload.0, reload.1, "", ""), 422);
    show();
    // From another site, and over TCP, where nobody says who they are.
    let ask = |line: &str, host: &str| {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        exchange(gate.address("admin"), request.as_bytes())
    };
    checked(&contract, ("POST", "/api/v1/drain"), &ask("POST /api/v1/drain", "localhost"), 403);
    checked(&contract, ("GET", "/api/v1/status"), &ask("GET /api/v1/status", "localhost"), 403);
    checked(&contract, ("GET", "/api/v1/status"), &ask("GET /api/v1/status", "evil.example"), 421);
    // The stream, as far as its first event.
    let mut stream = connect_unix(&gate.dir.path().join("control.sock"));
    stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    while !bytes.windows(2).any(|two| two == b"\n\n") {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0);
        bytes.extend_from_slice(&buffer[..length]);
    }
    assert!(String::from_utf8_lossy(&bytes).contains("event: state\ndata: {"), "{}", String::from_utf8_lossy(&bytes));
}
