//! Fields that the configuration adds to the access log: for all requests and for those of a route; what is logged of whom, and what never is.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::signing::{SECRET, token};
use crate::harness::{Gate, PORTUNUS, Upstream, exchange, wait_until};

fn yaml(upstream: &Upstream, format: &str) -> String {
    format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}
policies: {{ maybe: {{ jwt: {{ verifier: id, allow_missing: true, set: {{ X-User: sub }} }} }} }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes:
  - {{ path: \"/t/{{tenant}}/{{*rest}}\", upstream: app, policies: maybe, log_fields: {{ plan: \"{{cookie.plan}}\", agent: \"{{path.rest}}\" }} }}
  - {{ path: /x, upstream: app }}
  - {{ path: \"/u/{{tenant}}\", redirect: {{ to: /x }} }}
log:
  access: {{ format: {format}, output: access.log, fields: {{ tenant: \"{{path.tenant}}\", agent: \"<{{header.x-a}}>\", who: \"{{claim.sub}}\", by: \"{{header.X-User}}\", scheme: \"{{scheme}}\", raw: \"{{query.q}}\" }} }}
",
        upstream.address
    )
}

fn start(upstream: &Upstream, format: &str) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), SECRET).unwrap();
    Gate::start_in(dir, &yaml(upstream, format))
}

fn ask(gate: &Gate, line: &str, fields: &str) {
    let request = format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    exchange(gate.address("web"), request.as_bytes());
}

#[test]
fn a_line_has_the_fields_of_its_route_and_those_for_all_requests() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "json");
    let bearer = format!("Authorization: Bearer {}\r\n", token(r#""sub":"u1""#));
    ask(&gate, "GET /t/acme/a/b?q=%22%0a", &format!("X-A: 1\r\nCookie: a=b; plan=pro\r\n{bearer}X-User: root\r\n"));
    ask(&gate, "GET /x", "X-A: a\"b\\\r\nX-User: root\r\n");
    ask(&gate, "GET /u/globex", "");
    ask(&gate, "GET /nowhere", "Cookie: plan=pro\r\n");
    ask(&gate, "GET /t/acme/", "Authorization: Bearer nonsense\r\nCookie: plan=pro\r\n");
    ask(&gate, "GET /x\u{1b}", "X-A: 1\r\n");
    let lines = gate.log(6);
    let fields: Vec<Value> = lines.iter().map(|line| line["fields"].clone()).collect();
    assert_eq!(
        fields,
        [
            json!({ "tenant": "acme", "agent": "a/b", "who": "u1", "by": "u1", "scheme": "http", "raw": "%22%0a", "plan": "pro" }),
            json!({ "agent": "<a\"b\\>", "scheme": "http" }),
            json!({ "tenant": "globex", "agent": "<>", "scheme": "http" }),
            // What no route takes, what a policy turns away, and what is no request at all.
            json!({ "agent": "<>", "scheme": "http" }),
            json!({ "tenant": "acme", "scheme": "http", "plan": "pro" }),
            Value::Null,
        ]
    );
    assert_eq!(lines[4]["status"], 401);
    assert_eq!(lines[5]["status"], 400);
}

#[test]
fn lines_of_text_have_them_under_a_name_of_their_own() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "text");
    ask(&gate, "GET /x", "X-A: 1 fault=upstream\r\n");
    let file = gate.dir.path().join("access.log");
    let mut text = String::new();
    wait_until("a line", || {
        text = fs::read_to_string(&file).unwrap_or_default();
        text.ends_with('\n')
    });
    assert!(text.contains(" fields.agent=\"<1 fault=upstream>\" fields.scheme=http id="), "{text}");
}

#[test]
fn a_reload_changes_them() {
    let upstream = Upstream::ok();
    let gate = start(&upstream, "json");
    ask(&gate, "GET /x", "X-A: 1\r\n");
    gate.rewrite(&yaml(&upstream, "json").replace("agent: \"<{header.x-a}>\"", "agent2: \"[{header.x-a}]\""));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    ask(&gate, "GET /x", "X-A: 1\r\n");
    let lines = gate.log(2);
    assert_eq!((&lines[0]["fields"]["agent"], &lines[1]["fields"]["agent2"]), (&json!("<1>"), &json!("[1]")));
}

/// What `check` says of these fields for all requests, and of these of a route.
fn check(of_all: &str, of_route: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.yaml");
    fs::write(dir.path().join("secret"), SECRET).unwrap();
    let text = format!(
        "listeners: [{{ name: web, bind: \":0\", policies: p }}]\ntokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}\n\
         policies: {{ p: {{ jwt: {{ verifier: id, cookie: sid }} }} }}\n\
         routes: [{{ path: \"/{{a}}\", respond: {{ status: 200 }}{of_route} }}]\nlog: {{ access: {of_all} }}\n"
    );
    fs::write(&file, text).unwrap();
    let output = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

#[test]
fn what_cannot_be_logged_is_said_with_its_place() {
    for (of_all, of_route, said) in [
        (
            "{ fields: { a: \"{header.Authorization}\" } }",
            "",
            "p.yaml:5:31: `authorization` is a credential, which no log may hold",
        ),
        ("{ fields: { a: \"{header.cookie}\" } }", "", "`cookie` is a credential"),
        ("{ fields: { a: \"{cookie.sid}\" } }", "", "`sid` is a credential"),
        ("{}", ", log_fields: { a: \"{cookie.sid}\" }", "`sid` is a credential"),
        ("{ fields: { a: \"{path.b}\" } }", "", "no route has a path parameter `b`"),
        ("{ fields: { a: \"{a}\" } }", "", "write `{path.a}`"),
        ("{ fields: { a: \"$remote_addr\" } }", "", "write `{client.address}`"),
        ("{ fields: { \"a b\": \"{host}\" } }", "", "`a b` cannot be a name"),
        ("{ fields: { \"a\\\"\": \"{host}\" } }", "", "cannot be a name"),
        ("none", ", log_fields: { a: \"{a}\" }", "`log_fields` beside `log: { access: none }`"),
        ("{}", ", log_fields: { a: \"{b}\" }", "unknown parameter `b`"),
    ] {
        let (success, text) = check(of_all, of_route);
        assert!(!success && text.contains(said), "{of_all} {of_route}: {text}");
    }
    for (of_all, of_route, said) in [
        (
            "{ fields: { a: \"{header.x-api-key}\" } }",
            "",
            "log: the field `a` logs `x-api-key`, which looks like a credential",
        ),
        (
            "{}",
            ", log_fields: { a: \"{cookie.session}\" }",
            "the field `a` logs `session`, which looks like a credential",
        ),
    ] {
        let (success, text) = check(of_all, of_route);
        assert!(success && text.matches(said).count() == 1, "{of_all} {of_route}: {text}");
    }
}
