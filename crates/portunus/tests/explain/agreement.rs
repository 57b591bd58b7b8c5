//! What `explain` says of a request is what happens to it: the same request is sent to a running gate with the same file, and status, reason, route,
//! contract, Location and every byte of the upstream's head are compared.

use serde_json::Value;

use super::explained;
use crate::harness::secure::Secure;
use crate::harness::signing::{SECRET, token};
use crate::harness::{Gate, Upstream, certificates, exchange};

const DOCUMENT: &str = r#"
openapi: 3.1.0
info: { title: t, version: "1" }
paths:
  /v1/things/{id}:
    get:
      parameters:
        - { name: id, in: path, required: true, schema: { type: integer } }
        - { name: full, in: query, schema: { type: boolean } }
      responses: { default: { description: d } }
    put:
      parameters: [{ name: id, in: path, required: true, schema: { type: integer } }]
      requestBody:
        required: true
        content:
          application/json:
            schema: { type: object, required: [name], properties: { name: { type: string } }, additionalProperties: false }
      responses: { default: { description: d } }
"#;

/// A gate and what is behind it.
struct Site {
    gate: Gate,
    upstream: Upstream,
    lines: usize,
}

impl Site {
    fn start(trusted: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), SECRET).unwrap();
        std::fs::write(folder.path().join("api.yaml"), DOCUMENT).unwrap();
        std::fs::write(folder.path().join("users"), format!("ann:{}\n", bcrypt::hash("right", 5).unwrap())).unwrap();
        let upstream = Upstream::ok();
        let yaml = format!(
            "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\", policies: [many, nobody] }}
  - {{ name: redirecting, bind: \"127.0.0.1:0\", redirect_to_https: {{ port: 8443 }} }}
trusted_proxies: [{trusted}]
tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}
policies:
  many: {{ rate_limit: {{ rate: 1000/s, burst: 1000 }} }}
  nobody: {{ mode: log, deny: [127.0.0.0/8] }}
  elsewhere: {{ allow: [198.51.100.0/24] }}
  staff: {{ jwt: {{ verifier: id, claims: {{ role: [admin] }}, set: {{ X-User: sub }} }} }}
  users: {{ basic: {{ file: users, user_header: X-User }} }}
  pages: {{ cors: {{ origins: [\"https://app.example\"], methods: [GET, PUT], headers: [x-a] }} }}
  closed: {{ maintenance: {{ file: secret }} }}
contracts: {{ api: {{ document: api.yaml, detail: pointer, response: off }} }}
upstreams:
  app: {{ servers: [\"{address}\"] }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app }}
  - {{ name: tenant, path: \"/t/{{tenant}}/{{*rest}}\", upstream: app, rewrite: \"/{{tenant}}.d/{{rest}}?t={{tenant}}\", host: {{ set: fixed.example }},
       request_headers: {{ set: {{ X-Tenant: \"{{tenant}}\", X-Query: \"{{query.q}}\" }}, remove: [x-gone] }} }}
  - {{ name: beta, path: \"/t/{{tenant}}/b\", upstream: app, when: {{ header: {{ x-beta: \"1\" }}, cookie: {{ c: {{ prefix: y }} }} }} }}
  - {{ name: posts, path: \"/t/{{tenant}}/b\", methods: [POST], upstream: app }}
  - {{ name: shop, hosts: [shop.example, \"*.shop.example\"], path: /a, upstream: app }}
  - {{ name: old, path: /old, redirect: {{ status: 308, to: \"https://{{host}}/new\" }} }}
  - {{ name: label, path: \"/l/{{x}}\", redirect: {{ to: \"https://{{x}}.example/\", allow: [a.example, b.example] }} }}
  - {{ name: fixed, path: /fixed, respond: {{ status: 418, body: short }}, response_headers: {{ set: {{ X-A: b }} }} }}
  - {{ name: guarded, path: /guarded, upstream: app, policies: [elsewhere] }}
  - {{ name: staff, path: /staff, upstream: app, policies: [staff] }}
  - {{ name: users, path: /users, upstream: app, policies: [users] }}
  - {{ name: pages, path: /pages, upstream: app, policies: [pages] }}
  - {{ name: put, path: /put, methods: [PUT], upstream: app, policies: [pages] }}
  - {{ name: closed, path: /closed, upstream: app, policies: [closed] }}
  - {{ name: api, path: \"/v1/{{*rest}}\", upstream: app, contract: api }}
  - {{ name: small, path: /small, upstream: app, max_body: 4 }}
",
            address = upstream.address
        );
        Site { gate: Gate::start_in(folder, &yaml), upstream, lines: 0 }
    }

    /// Sends a request and has it explained; both must agree. Gives what was said.
    fn agree(&mut self, listener: &str, request: (&str, &str, &str), fields: &[&str], body: &str) -> Value {
        let (method, host, target) = request;
        let address = self.gate.address(listener);
        let mut sent = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        let framing = format!("Content-Length: {}", body.len());
        let length: &[&str] = if body.is_empty() { &[] } else { &[&framing] };
        for field in fields.iter().chain(length).chain(&["Connection: close"]) {
            sent.push_str(field);
            sent.push_str("\r\n");
        }
        let before = self.upstream.seen().len();
        let response = exchange(address, format!("{sent}\r\n{body}").as_bytes());
        let response = String::from_utf8(response).unwrap();
        let head = response.split("\r\n\r\n").next().unwrap().to_owned();

        let url = format!("http://127.0.0.1:{}{target}", address.port());
        let host = format!("Host: {host}");
        let body_file = self.gate.dir.path().join("body");
        std::fs::write(&body_file, body).unwrap();
        let mut arguments = vec![method, &url, "--listener", listener, "--from", "127.0.0.1", "-H", &host];
        fields.iter().chain(length).chain(&["Connection: close"]).for_each(|field| arguments.extend(["-H", field]));
        if !body.is_empty() {
            arguments.extend(["--body", "body"]);
        }
        let said = explained(self.gate.dir.path(), &arguments);

        self.lines += 1;
        let line = self.gate.log(self.lines).pop().unwrap();
        let what = format!("{method} {host} {target} {fields:?}: {head} {line} {said:#}");
        let seen = self.upstream.seen();
        match said.get("upstream") {
            Some(upstream) => {
                assert_eq!(seen.len(), before + 1, "it was to be sent: {what}");
                let arrived = seen.last().unwrap();
                let wanted: Vec<String> = lines(&arrived.head).collect();
                assert_eq!(head_of(upstream), wanted, "{what}");
                assert_eq!(line["status"], 200, "{what}");
            }
            None => {
                assert_eq!(seen.len(), before, "nothing was to be sent: {what}");
                assert_eq!(said["response"]["status"], line["status"], "{what}");
                assert_eq!(head[9..12], line["status"].to_string(), "{what}");
            }
        }
        assert_eq!(said["response"].get("reason"), line.get("reason"), "{what}");
        assert_eq!(said["response"].get("fault"), line.get("fault"), "{what}");
        for name in ["location", "www-authenticate", "x-a", "allow", "access-control-allow-origin", "vary"] {
            let field =
                |(found, value): (&str, &str)| found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned());
            let got: Vec<String> = head.lines().filter_map(|line| field(line.split_once(':')?)).collect();
            let fields = said["response"]["fields"].as_array().unwrap().iter();
            let promised: Vec<String> = fields
                .filter_map(|one| field((one["name"].as_str().unwrap(), one["value"].as_str().unwrap())))
                .collect();
            assert_eq!(promised, got, "{name}: {what}");
        }
        if let Some(route) = line.get("route") {
            assert_eq!(said["routes"]["taken"]["name"], *route, "{what}");
        }
        for member in ["name", "operation", "decision", "reason", "place"] {
            assert_eq!(said["contract"].get(member), line["contract"].get(member), "{member}: {what}");
        }
        said
    }

    fn get(&mut self, target: &str, fields: &[&str]) -> Value {
        self.agree("web", ("GET", "h.example", target), fields, "")
    }
}

/// The lines of a head, with ids that differ from request to request made one.
fn lines(head: &str) -> impl Iterator<Item = String> {
    head.lines().filter(|line| !line.is_empty()).map(|line| match line.split_once(": ") {
        Some(("X-Request-Id", _)) => "X-Request-Id: 00000000000000000000000000000000".to_owned(),
        _ => line.to_owned(),
    })
}

fn head_of(upstream: &Value) -> Vec<String> {
    let field = |field: &Value| format!("{}: {}", field["name"].as_str().unwrap(), field["value"].as_str().unwrap());
    let fields = upstream["fields"].as_array().unwrap().iter().map(field);
    [upstream["request_line"].as_str().unwrap().to_owned()].into_iter().chain(fields).collect()
}

#[test]
fn routes_rewrites_and_fields_are_those_that_serve() {
    let mut site = Site::start("");
    site.get("/", &[]);
    site.get("/x%20y/%7Ea?b=%2f&c", &["Accept: a", "accept: b", "Cookie: a=b"]);
    site.get("/t/acme/x/y?q=1%202", &["X-Gone: a", "X-Tenant: spoofed", "X-User: spoofed", "X-Forwarded-For: 1.2.3.4"]);
    let said = site.get("/t/acme/b", &["X-Beta: 1"]);
    assert_eq!(said["routes"]["taken"]["name"], "tenant");
    let said = site.get("/t/acme/b", &["X-Beta: 1", "Cookie: c=yes"]);
    assert_eq!(said["routes"]["taken"]["name"], "beta");
    let said = site.agree("web", ("POST", "h.example", "/t/acme/b"), &[], "");
    assert_eq!(said["routes"]["taken"]["name"], "posts");
    site.agree("web", ("HEAD", "h.example", "/fixed"), &[], "");
    site.agree("web", ("PATCH", "h.example", "/z"), &["Content-Type: text/plain"], "four");
    site.agree("web", ("GET", "shop.example", "/a"), &[], "");
    site.agree("web", ("GET", "a.b.shop.example", "/b"), &[], "");
    site.get("/old?a=b", &[]);
    site.get("/l/a", &[]);
    site.get("/l/c", &[]);
    site.get("/l/-", &[]);
    site.get("/fixed", &[]);
    site.get("/a/../b", &[]);
    site.get("/guarded//", &[]);
    site.get("/old;x", &[]);
    site.get("/a%2Fb", &[]);
    site.get("/a", &["X_Y: z"]);
    site.get("/a", &["Upgrade: websocket", "TE: trailers"]);
    site.agree("web", ("TRACE", "h.example", "/"), &[], "");
    site.agree("web", ("PUT", "h.example", "/small"), &[], "12345");
    site.agree("redirecting", ("GET", "h.example", "/a?b"), &[], "");
}

#[test]
fn policies_say_what_they_say_when_they_serve() {
    let mut site = Site::start("");
    let said = site.get("/guarded", &[]);
    let policies: Vec<String> = said["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {} {}", one["name"], one["named_by"], one["mode"], one["outcome"]).replace('"', ""))
        .collect();
    assert_eq!(
        policies,
        ["many listener enforce unknown", "nobody listener log rejected", "elsewhere route enforce rejected"]
    );
    site.get("/closed", &[]);
    site.get("/staff", &[]);
    site.get("/staff", &["Authorization: Bearer nonsense"]);
    let good = format!("Authorization: Bearer {}", token(r#""sub":"u1","role":"admin""#));
    site.get("/staff", &[&good]);
    let lacking = format!("Authorization: Bearer {}", token(r#""sub":"u1","role":"guest""#));
    site.get("/staff", &[&lacking]);
    site.get("/users", &["Authorization: Basic YW5uOnJpZ2h0"]);
    site.get("/users", &["Authorization: Basic YW5uOndyb25n"]);
    site.get("/users", &["Authorization: Basic !"]);
    site.get("/pages", &["Origin: https://app.example"]);
    site.get("/pages", &["Origin: https://other.example"]);
    let preflight = |method: &str, origin: &str| {
        [format!("Origin: https://{origin}"), format!("Access-Control-Request-Method: {method}")]
    };
    for (method, origin) in [("PUT", "app.example"), ("DELETE", "app.example"), ("PUT", "evil.example")] {
        let fields = preflight(method, origin);
        site.agree("web", ("OPTIONS", "h.example", "/pages"), &[&fields[0], &fields[1]], "");
    }
    for (method, announced, taken) in [("PUT", Some("PUT"), "put"), ("DELETE", None, "*/{*rest}")] {
        let fields = preflight(method, "app.example");
        let said = site.agree("web", ("OPTIONS", "h.example", "/put"), &[&fields[0], &fields[1]], "");
        assert_eq!((said["announced"].as_str(), &said["routes"]["taken"]["name"]), (announced, &taken.into()));
    }
}

#[test]
fn contracts_validate_as_they_do_when_they_serve() {
    let mut site = Site::start("");
    site.get("/v1/things/12?full=true", &[]);
    site.get("/v1/things/twelve", &[]);
    site.get("/v1/things/12?full=perhaps", &[]);
    site.get("/v1/things/12?more=1", &[]);
    site.get("/v1/nothing", &[]);
    let mut put = |fields: &[&str], body: &str| site.agree("web", ("PUT", "h.example", "/v1/things/1"), fields, body);
    put(&["Content-Type: application/json"], r#"{"name":"a"}"#);
    let said = put(&["Content-Type: application/json"], r#"{"name":12}"#);
    assert_eq!(said["contract"]["place"], "body /name");
    assert!(said["contract"]["detail"].as_str().unwrap().contains("string"), "{said:#}");
    put(&["Content-Type: application/json"], r#"{"name":"a","x":1}"#);
    put(&["Content-Type: application/json"], "");
    put(&["Content-Type: text/plain"], "a");
    site.agree("web", ("DELETE", "h.example", "/v1/things/1"), &[], "");
}

#[test]
fn the_client_is_whom_trusted_proxies_name() {
    let mut site = Site::start("127.0.0.1");
    site.get("/a", &["X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https", "X-Request-Id: from-proxy"]);
    let said = site.get("/guarded", &["X-Forwarded-For: 198.51.100.7"]);
    assert_eq!(said["client"]["address"], "198.51.100.7");
    let said = site.get("/guarded", &["X-Forwarded-For: nonsense"]);
    assert_eq!(said["client"]["doubtful"], true);
    site.get("/guarded", &["X-Forwarded-For: 198.51.100.7, 203.0.113.1"]);
}

#[test]
fn certificates_and_rules_are_those_of_the_handshake() {
    let folder = certificates(&[("a.example", true), ("b.example", false)]);
    let gate = Gate::start_in(
        folder,
        "workers: 1
keystores: { main: { folder: certs, default: a.example } }
listeners:
  - { name: tls, bind: \"127.0.0.1:0\", tls: { keystore: main, policy: modern, names: [{ host: b.example, client_certificate: { mode: optional, ca: ca.pem } }] } }
routes: [{ respond: { status: 204 } }]
",
    );
    let port = gate.address("tls").port();
    let ask = |name: &str, host: &str| {
        let url = format!("https://{name}:{port}/");
        explained(gate.dir.path(), &["GET", &url, "--listener", "tls", "-H", &format!("Host: {host}")])
    };
    let mut lines = 0;
    for (name, host, certificate, default, rule) in [
        ("a.example", "a.example", "a.example", false, "none"),
        ("b.example", "b.example", "b.example", false, "optional"),
        ("a.example", "b.example", "a.example", false, "none"),
        ("c.example", "c.example", "a.example", true, "none"),
    ] {
        let said = ask(name, host);
        let tls = &said["tls"];
        let shown = (&tls["certificate"]["names"][0], &tls["certificate"]["default"], &tls["client_certificate"]);
        assert_eq!(shown, (&certificate.into(), &default.into(), &rule.into()), "{said:#}");
        assert_eq!(
            (&tls["policy"], &tls["min_version"], &tls["certificate"]["key_type"]),
            (&"modern".into(), &"TLSv1.3".into(), &"ECDSA".into())
        );
        // The client of the test checks that the certificate is for the name that it expects.
        if !default {
            let mut secure = Secure::connect(gate.address("tls"), gate.dir.path(), name, "http/1.1");
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            std::io::Write::write_all(&mut secure, request.as_bytes()).unwrap();
            let (head, _) = crate::harness::read_response(&mut secure);
            assert_eq!(head[9..12], said["response"]["status"].to_string(), "{said:#}");
            lines += 1;
            let line = gate.log(lines).pop().unwrap();
            assert_eq!(said["response"].get("reason"), line.get("reason"));
        }
    }
}
