//! What a contract validates is what is forwarded: fields that end at the gate, are written by it or are edited by a route.

use std::process::Command;

use super::site::{Site, folder};
use crate::harness::{Gate, Reply, Seen, Upstream};

fn ok(_: &Seen) -> Reply {
    Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
}

/// GET /a with header parameters, each `{name} {required} {schema}`.
fn document(parameters: &[(&str, bool, &str)]) -> String {
    let parameters: String = parameters
        .iter()
        .map(|(name, required, schema)| {
            format!("        - {{ name: {name}, in: header, required: {required}, schema: {schema} }}\n")
        })
        .collect();
    format!(
        "openapi: 3.0.3\ninfo: {{ title: t, version: '1' }}\npaths:\n  /a:\n    get:\n      parameters:\n{parameters}      responses: {{ default: {{ description: any }} }}\n"
    )
}

/// A gate whose one route has these keys, under a contract with these parameters.
fn site(parameters: &[(&str, bool, &str)], route: &str, file: &str) -> Site {
    let upstream = Upstream::start(ok);
    let gate = Gate::start_in(folder(&document(parameters), &[]), &yaml(&upstream, route, file));
    Site { gate, upstream }
}

fn yaml(upstream: &Upstream, route: &str, file: &str) -> String {
    format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
contracts: {{ api: {{ document: openapi.yaml }} }}
routes:
  - {{ name: all, path: \"/{{*rest}}\", upstream: app, contract: api{route} }}
{file}
",
        upstream.address
    )
}

/// The exit code of `check`, and what it says.
fn check(parameters: &[(&str, bool, &str)], route: &str, file: &str) -> (Option<i32>, String) {
    let upstream = Upstream::ok();
    let folder = folder(&document(parameters), &[]);
    std::fs::write(folder.path().join("portunus.yaml"), yaml(&upstream, route, file)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portunus"));
    let output = command.args(["check", "portunus.yaml"]).current_dir(folder.path()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const TEXT: &str = "{ type: string, maxLength: 8 }";

/// The request id that goes on is the gate's: it is what must keep the contract, not what the client sent in its place.
#[test]
fn fields_that_the_gate_writes_are_validated_as_it_writes_them() {
    let parameters = [("X-Request-Id", true, "{ type: string, pattern: '^[0-9a-f]{32}$' }")];
    let generated = site(&parameters, "", "");
    for sent in ["", "X-Request-Id: nonsense\r\n", "X-Request-Id: a\r\nX-Request-Id: b\r\n"] {
        assert_eq!(generated.get("GET /a", sent).status, 200, "{sent}");
        let seen = generated.upstream.seen().pop().unwrap();
        assert_eq!(seen.fields("x-request-id")[0].len(), 32, "{}", seen.head);
    }
    // The client's own is not what arrives, however well it keeps the contract.
    let parameters = [("X-Request-Id", false, "{ type: string, enum: [mine] }")];
    let strict = site(&parameters, "", "");
    assert_eq!(strict.get("GET /a", "X-Request-Id: mine\r\n").status, 400);
    assert_eq!(strict.seen(), 0);
    let believed =
        site(&parameters, "", "trusted_proxies: [\"127.0.0.0/8\"]\nforwarding: { trusted_fields: [X-Request-Id] }");
    assert_eq!(believed.get("GET /a", "X-Request-Id: mine\r\n").status, 200);
    assert_eq!(believed.upstream.seen()[0].fields("x-request-id"), ["mine"]);
}

#[test]
fn fields_that_end_at_the_gate_satisfy_no_contract() {
    let fields = "Keep-Alive: 1\r\nTE: gzip\r\nProxy-Authorization: x\r\nX-HTTP-Method-Override: x\r\nUpgrade: x\r\n";
    for name in ["TE", "Upgrade", "X-Real-IP"] {
        let site = site(&[(name, true, "{ type: string, enum: [gzip, x] }")], "", "");
        let response = site.get("GET /a", fields);
        assert_eq!((response.status, site.seen()), (400, 0), "{name}: {response:?}");
    }
    // Of TE the one value that goes on.
    let site = site(&[("TE", true, "{ type: string, enum: [trailers] }")], "", "");
    assert_eq!(site.get("GET /a", "TE: trailers\r\nConnection: TE\r\n").status, 200);
    assert_eq!(site.upstream.seen()[0].fields("te"), ["trailers"]);
}

#[test]
fn a_parameter_that_can_never_arrive_is_a_problem_or_a_warning() {
    for name in ["Keep-Alive", "Proxy-Authorization", "X-HTTP-Method-Override", "HTTP2-Settings"] {
        let reported = format!("GET /a: the header {}", name.to_lowercase());
        let (code, errors) = check(&[(name, true, TEXT)], "", "");
        assert!(code == Some(1) && errors.contains(&reported) && errors.contains("never reaches"), "{name}: {errors}");
        let (code, errors) = check(&[(name, false, TEXT)], "", "");
        assert!(code == Some(0) && errors.contains(&reported) && errors.contains("warning: "), "{name}: {errors}");
    }
    for (name, file) in [("X-Tenant", ""), ("X-Request-Id", ""), ("X-Forwarded-For", ""), ("Cookie", "")] {
        let (code, errors) = check(&[(name, true, TEXT)], "", file);
        assert!(code == Some(0) && !errors.contains("the header"), "{name}: {errors}");
    }
    let (code, errors) = check(&[("X-Request-Id", true, TEXT)], "", "forwarding: { request_id: false }");
    assert!(code == Some(1) && errors.contains("GET /a: the header x-request-id"), "{errors}");
}

#[test]
fn fields_that_a_route_edits_are_validated_as_they_arrive() {
    let parameters = [("X-Tenant", true, "{ type: string, enum: [a, b] }")];
    let set = site(&parameters, ", request_headers: { set: { X-Tenant: b } }", "");
    for sent in ["", "X-Tenant: a\r\n", "X-Tenant: evil\r\n"] {
        assert_eq!(set.get("GET /a", sent).status, 200, "{sent}");
        assert_eq!(set.upstream.seen().pop().unwrap().fields("x-tenant"), ["b"]);
    }
    let removed = site(&parameters, ", request_headers: { remove: [X-Tenant] }", "");
    assert_eq!((removed.get("GET /a", "X-Tenant: a\r\n").status, removed.seen()), (400, 0));
    let added = site(&parameters, ", request_headers: { add: { X-Tenant: b } }", "");
    assert_eq!((added.get("GET /a", "X-Tenant: a\r\n").status, added.seen()), (400, 0), "two values arrive");
    assert_eq!(added.get("GET /a", "").status, 200);
    let broken = site(&parameters, ", request_headers: { set: { X-Tenant: c } }", "");
    assert_eq!((broken.get("GET /a", "X-Tenant: a\r\n").status, broken.seen()), (400, 0));
    let (code, errors) = check(&parameters, ", request_headers: { remove: [X-Tenant] }", "");
    assert!(code == Some(0), "{errors}");
    for part in ["warning: ", "route `all`", "GET /a", "x-tenant", "removes"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
}

/// The type that the body is read under upstream is the one that it is validated under.
#[test]
fn a_body_is_validated_under_the_type_that_arrives() {
    let document = "openapi: 3.0.3\ninfo: { title: t, version: '1' }\npaths:\n  /a:\n    post:\n      requestBody: { required: true, content: { application/json: { schema: { type: integer } }, text/plain: {} } }\n      responses: { default: { description: any } }\n";
    let upstream = Upstream::start(ok);
    let route = ", request_headers: { set: { Content-Type: application/json } }";
    let gate = Gate::start_in(folder(document, &[]), &yaml(&upstream, route, ""));
    let site = Site { gate, upstream };
    assert_eq!((site.post("POST /a", "text/plain", "no number").status, site.seen()), (400, 0));
    assert_eq!(site.post("POST /a", "text/plain", "5").status, 200);
    assert_eq!(site.upstream.seen()[0].fields("content-type"), ["application/json"]);
}

/// A credential is shown by the client, whatever the route puts in its place; one that is not verified here and is replaced is warned of.
#[test]
fn credentials_are_the_clients() {
    let document = |scheme: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{ title: t, version: '1' }}\ncomponents: {{ securitySchemes: {{ key: {scheme} }} }}\npaths:\n  /a:\n    get: {{ security: [{{ key: [] }}], responses: {{ default: {{ description: any }} }} }}\n"
        )
    };
    let upstream = Upstream::start(ok);
    let route = ", request_headers: { set: { X-Api-Key: ours } }";
    let text = document("{ type: apiKey, in: header, name: X-Api-Key }");
    let gate = Gate::start_in(folder(&text, &[]), &yaml(&upstream, route, ""));
    gate.wait_for("the route's own credential");
    let site = Site { gate, upstream };
    assert_eq!((site.get("GET /a", "").status, site.seen()), (401, 0), "the route's is not the client's");
    assert_eq!(site.get("GET /a", "X-Api-Key: any\r\n").status, 200);
    assert_eq!(site.upstream.seen()[0].fields("x-api-key"), ["ours"]);
    // One that never arrives is none.
    let upstream = Upstream::start(ok);
    let text = document("{ type: apiKey, in: header, name: Proxy-Authorization }");
    let gate = Gate::start_in(folder(&text, &[]), &yaml(&upstream, "", ""));
    let site = Site { gate, upstream };
    assert_eq!((site.get("GET /a", "Proxy-Authorization: any\r\n").status, site.seen()), (401, 0));
}
