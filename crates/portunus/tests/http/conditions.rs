//! `when` as a tree, black box: what it looks at of a request and of how that came, what the upstream then gets, as HAProxy decides by its ACLs, and what `check` and
//! `explain` say of it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::explain::{explained, portunus};
use crate::harness::frames::{Frames, Outcome};
use crate::harness::{Gate, Upstream, ask_socket, exchange, wait_until};

fn outcome(response: &[u8]) -> String {
    let text = std::str::from_utf8(response).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    if head.split(' ').nth(1) == Some("200") { body.to_owned() } else { head[9..12].to_owned() }
}

/// The body of the response 200 to a request on a connection of its own, else its status.
fn ask(address: SocketAddr, line: &str, fields: &str) -> String {
    outcome(&exchange(
        address,
        format!("{line} HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n{fields}\r\n").as_bytes(),
    ))
}

fn respond(name: &str) -> String {
    format!("respond: {{ status: 200, body: \"{name}\" }}")
}

#[test]
fn what_was_judged_is_what_the_upstream_gets() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes:
  - in_order:
      - name: closed
        when:
          any:
            - path: [{{ prefix: /admin }}, /v1/items:delete]
              not: {{ header: {{ x-inside: {{ which: all, exact: \"1\" }} }} }}
            - method: [DELETE, FLUSH]
            - query: {{ role: admin }}
              not: {{ all: [{{ scheme: https }}, {{ client: 127.0.0.0/8 }}] }}
            - header: {{ x-level: {{ number: {{ at_least: 5 }} }} }}
            - cookie: {{ id: {{ count: {{ at_least: 2 }} }} }}
        respond: {{ status: 403 }}
      - {{ name: open, upstream: app }}
",
        upstream.address
    ));
    let web = gate.address("web");
    for (line, fields, expected) in [
        ("GET /x", "", "ok"),
        ("GET /admin", "", "403"),
        ("GET /admin", "X-Inside: 1\r\n", "ok"),
        // A second value, one that `Connection` takes away, one of an untrusted peer.
        ("GET /admin", "X-Inside: 1\r\nX-Inside: 0\r\n", "403"),
        ("GET /admin", "X-Inside: 1\r\nConnection: x-inside\r\n", "403"),
        ("GET /x?role=admin", "X-Forwarded-Proto: https\r\n", "403"),
        ("GET /x?%72ole=%61dmin", "", "403"),
        ("GET /x?role=user&role=admin", "", "403"),
        ("GET /x?Role=admin", "", "ok"),
        ("DELETE /x", "", "403"),
        ("FLUSH /x", "", "403"),
        ("flush /x", "", "400"),
        ("delete /x", "", "400"),
        ("GET /x", "X-Level: 5\r\n", "403"),
        ("GET /x", "X-Level: 1\r\nX-Level: 7\r\n", "403"),
        ("GET /x", "X-Level: 4\r\n", "ok"),
        ("GET /x", "Cookie: id=1; id=2\r\n", "403"),
        ("GET /x", "Cookie: id=1\r\nCookie: id=2\r\n", "403"),
        ("GET /x", "Cookie: id=1\r\n", "ok"),
        // Each reading of the path.
        ("GET //admin", "", "400"),
        ("GET /%61dmin", "", "403"),
        ("GET /x/..%3B/admin", "", "400"),
        ("GET /v1/items:delete", "", "403"),
        ("GET /v1/items%3Adelete", "", "400"),
        ("GET /v1/items%253adelete", "", "400"),
        ("GET /v1/items%3Aget", "", "ok"),
    ] {
        let before = upstream.seen().len();
        assert_eq!(ask(web, line, fields), expected, "{line} {fields}");
        assert_eq!(upstream.seen().len() > before, expected == "ok", "{line} {fields}");
    }
    gate.stop();
}

#[test]
fn how_a_request_came_is_what_the_connection_and_those_who_are_trusted_say() {
    let entries = |keys: &str, name: &str| format!("      - {{ when: {{ {keys} }}, {} }}\n", respond(name));
    let gate = Gate::start(&format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
  - {{ name: published, bind: \"127.0.0.1:0\", public_port: 8443 }}
  - {{ name: behind, bind: \"127.0.0.1:0\", proxy_protocol: {{ trust: 127.0.0.0/8 }} }}
trusted_proxies: [192.0.2.7]
routes:
  - in_order:
{}{}{}{}{}{}",
        entries("path: /scheme, scheme: https", "https"),
        entries("path: /scheme, not: { scheme: http }", "neither"),
        entries("path: /scheme", "http"),
        entries("path: /port, port: [8443, 4711]", "ours"),
        entries("any: [{ path: /version, version: \"1.0\" }, { version: 2 }]", "old or new"),
        entries("not: { path: /none }", "other"),
    ));
    let (web, published, behind) = (gate.address("web"), gate.address("published"), gate.address("behind"));
    assert_eq!(ask(web, "GET /scheme", ""), "http");
    assert_eq!(ask(web, "GET /scheme", "X-Forwarded-Proto: https\r\n"), "http");
    // Whom a PROXY header names may be a proxy that is trusted.
    let from = |client: &str, port: u16, line: &str, fields: &str| {
        let header = format!("PROXY TCP4 {client} 198.51.100.1 1 {port}\r\n");
        outcome(&exchange(
            behind,
            format!("{header}{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n").as_bytes(),
        ))
    };
    for (client, fields, expected) in [
        ("192.0.2.7", "X-Forwarded-Proto: https\r\n", "https"),
        ("192.0.2.7", "X-Forwarded-Proto: http\r\n", "http"),
        ("192.0.2.7", "X-Forwarded-Proto: ftp\r\n", "neither"),
        ("192.0.2.7", "X-Forwarded-Proto: https\r\nX-Forwarded-Proto: https\r\n", "http"),
        ("192.0.2.8", "X-Forwarded-Proto: https\r\n", "http"),
    ] {
        assert_eq!(from(client, 80, "GET /scheme", fields), expected, "{client} {fields}");
    }
    // The port.
    assert_eq!(ask(web, "GET /port", ""), "other");
    assert_eq!(ask(web, "GET /port", "X-Forwarded-Port: 8443\r\n"), "other");
    assert_eq!(ask(published, "GET /port", ""), "ours");
    assert_eq!(
        (from("192.0.2.8", 4711, "GET /port", ""), from("192.0.2.8", 4712, "GET /port", "")),
        ("ours".into(), "other".into())
    );
    // The version.
    assert_eq!(ask(web, "GET /version", ""), "other");
    assert_eq!(outcome(&exchange(web, b"GET /version HTTP/1.0\r\nHost: x\r\n\r\n")), "old or new");
    let mut client = Frames::open_plain(web);
    client.headers(1, &[(":method", b"GET"), (":scheme", b"http"), (":authority", b"x"), (":path", b"/any")], true);
    assert_eq!(client.outcome(1), Outcome::Response(200, b"old or new".to_vec()));
    assert_eq!(ask(web, "GET /none", ""), "404");
    gate.stop();
}

/// HAProxy, ended with the test.
struct Haproxy(Child);

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An ACL of HAProxy, and our condition.
const ACLS: [(&str, &str); 16] = [
    ("req.fhdr(x-a) -m str 1", "header: { x-a: \"1\" }"),
    ("req.fhdr(x-a,1) -m str 1", "header: { x-a: { which: first, exact: \"1\" } }"),
    ("req.fhdr(x-a,-1) -m str 1", "header: { x-a: { which: last, exact: \"1\" } }"),
    ("req.fhdr_cnt(x-a) -m int eq 2", "header: { x-a: { count: { equals: 2 } } }"),
    ("req.fhdr(x-a),length -m int ge 2", "header: { x-a: { length: { at_least: 2 } } }"),
    ("req.fhdr(x-a) -m found", "header: { x-a: { present: true } }"),
    ("req.hdr_val(x-n) -m int ge 5", "header: { x-n: { number: { at_least: 5 } } }"),
    ("req.hdr_val(x-n) -m int 3:7", "header: { x-n: { number: { at_least: 3, at_most: 7 } } }"),
    ("req.cook(c) -m beg 1", "cookie: { c: { prefix: \"1\" } }"),
    ("url_param(q) -m reg ^[12]+$", "query: { q: { regex: \"[12]+\" } }"),
    ("method POST PUT", "method: [POST, PUT]"),
    ("path_beg /a", "path: { prefix: /a }"),
    ("path /a/b", "path: /a/b"),
    ("path_reg ^/[ab]+$", "path: { regex: \"/[ab]+\" }"),
    ("ssl_fc", "scheme: https"),
    ("req.fhdr(x-b) -m str 2 3", "header: { x-b: [\"2\", \"3\"] }"),
];

/// Random alternatives of conditions that hold together, as HAProxy has them and as we do. Theirs are lines of one anonymous ACL after the other, with `or`.
fn random_rule(random: &mut fastrand::Rng) -> (String, String) {
    let term = |random: &mut fastrand::Rng| {
        let literals: Vec<(String, String)> = (0..random.usize(1..4))
            .map(|_| {
                let (theirs, ours) = random.choice(ACLS).unwrap();
                match random.bool() {
                    true => (format!("!{{ {theirs} }}"), format!("{{ not: {{ {ours} }} }}")),
                    false => (format!("{{ {theirs} }}"), format!("{{ {ours} }}")),
                }
            })
            .collect();
        let (theirs, ours): (Vec<String>, Vec<String>) = literals.into_iter().unzip();
        (theirs.join(" "), format!("{{ all: [{}] }}", ours.join(", ")))
    };
    let (theirs, ours): (Vec<String>, Vec<String>) = (0..random.usize(1..3)).map(|_| term(random)).unzip();
    let (theirs, ours) = (theirs.join(" or "), format!("{{ any: [{}] }}", ours.join(", ")));
    match random.bool() {
        true => (format!("unless {theirs}"), format!("{{ not: {ours} }}")),
        false => (format!("if {theirs}"), ours),
    }
}

/// Random requests meet in HAProxy the rules that they meet here.
#[test]
fn haproxy_decides_the_same_by_its_acls() {
    const RULES: usize = 30;
    let random = &mut fastrand::Rng::with_seed(1270);
    let rules: Vec<(String, String)> = (0..RULES).map(|_| random_rule(random)).collect();
    let (dir, mut text) = (
        tempfile::tempdir().unwrap(),
        "defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 60s\n".to_owned(),
    );
    let socket = |number: usize| dir.path().join(format!("{number}.sock"));
    let mut routes = String::new();
    for (number, (theirs, ours)) in rules.iter().enumerate() {
        let respond_there =
            |name: &str| format!(" http-request return status 200 content-type text/plain string {name}");
        text += &format!(
            "frontend f{number}\n bind unix@{}\n{} {theirs}\n{}\n",
            socket(number).display(),
            respond_there("yes"),
            respond_there("no")
        );
        routes += &format!(
            "  - hosts: r{number}.test\n    in_order:\n      - {{ when: {ours}, {} }}\n      - {{ {} }}\n",
            respond("yes"),
            respond("no")
        );
    }
    std::fs::write(dir.path().join("haproxy.cfg"), text).unwrap();
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f"]).arg(dir.path().join("haproxy.cfg"));
    let _haproxy = Haproxy(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("HAProxy", || std::os::unix::net::UnixStream::connect(socket(RULES - 1)).is_ok());
    let gate =
        Gate::start(&format!("workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nroutes:\n{routes}"));
    let mut counts = [0; 2];
    for at in 0..900 {
        let number = at % RULES;
        let mut fields = String::new();
        for (name, most, values) in
            [("x-a", 3, ["1", "2", "12"]), ("x-n", 2, ["3", "7", "12"]), ("x-b", 3, ["2", "3", "4"])]
        {
            for _ in 0..random.usize(..most) {
                fields += &format!("{name}: {}\r\n", random.choice(values).unwrap());
            }
        }
        fields += random.choice(["", "Cookie: c=12\r\n", "Cookie: d=1; c=2\r\n"]).unwrap();
        let (method, length) =
            random.choice([("GET", ""), ("POST", "Content-Length: 0\r\n"), ("PUT", "Content-Length: 0\r\n")]).unwrap();
        let path = random.choice(["/", "/a", "/a/b", "/ab", "/b", "/c"]).unwrap();
        let query = random.choice(["", "?q=1", "?q=21", "?q=3", "?p=1"]).unwrap();
        let line = format!("{method} {path}{query}");
        let theirs = outcome(ask_socket(&socket(number), &line, &format!("{fields}{length}")).as_bytes());
        let request = format!("{line} HTTP/1.1\r\nHost: r{number}.test\r\nConnection: close\r\n{fields}{length}\r\n");
        let ours = outcome(&exchange(gate.address("web"), request.as_bytes()));
        assert_eq!(ours, theirs, "{line} {fields} {:?}", rules[number]);
        counts[usize::from(ours == "yes")] += 1;
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}: the test has become blind");
    gate.stop();
}

#[test]
fn what_explain_says_of_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "listeners: [{{ name: web, bind: \":80\" }}]
policies: {{ writers: {{ when: {{ not: {{ method: GET }} }}, rate_limit: {{ rate: 1/s }} }} }}
routes:
  - in_order:
      - {{ name: first, when: {{ any: [{{ scheme: https }}, {{ not: {{ header: {{ x-a: \"1\" }} }} }}] }}, {} }}
      - {{ name: second, when: {{ all: [{{ path: {{ prefix: /a }} }}, {{ port: 80 }}] }}, policies: [writers], {} }}
",
        respond("first"),
        respond("second")
    );
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    let said = explained(dir.path(), &["GET", "http://x.test/a", "-H", "X-A: 1"]);
    let lost = &said["routes"]["lost"][0];
    assert_eq!(
        (&lost["name"], &lost["why"], &lost["detail"]),
        (
            &json!("first"),
            &json!("condition"),
            &json!("the scheme is not https (when.any[0].scheme), header `x-a` is `1` (when.any[1].not.header)")
        )
    );
    let because = "the path is like /a* (when.all[0].path), the port is 80 (when.all[1].port)";
    assert_eq!(said["routes"]["taken"]["because"], because);
    let about = |said: &Value| said["policies"][0]["checks"][0]["about"].as_str().unwrap().to_owned();
    assert_eq!(about(&said), "does not hold, so nothing else of it is asked: the method is GET (when.not.method)");
    let output = portunus(dir.path(), &["explain", "portunus.yaml", "GET", "http://x.test/a", "-H", "X-A: 1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = [
        "route      second (portunus.yaml:6) /{*rest}\n",
        &format!("           because {because}\n"),
        "           rest = a\n",
        "           not first (portunus.yaml:5) /{*rest}: the scheme is not https (when.any[0].scheme), header `x-a` is `1` (when.any[1].not.header)\n",
    ];
    assert!(text.contains(&rows.concat()), "{text}");
}

/// What `check --strict` says of a file: it passes, or has these parts.
fn check(dir: &Path, text: &str, said: &[&str]) {
    std::fs::write(dir.join("p.yaml"), text).unwrap();
    let output = portunus(dir, &["check", "--strict", "p.yaml"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), said.is_empty(), "{text}{errors}");
    assert!(said.iter().all(|part| errors.contains(part)), "{text}{errors}");
}

/// A `when`, and parts of what is said of it; nothing where it is right.
const WRONG: &[(&str, &[&str])] = &[
    ("{ any: [] }", &["p.yaml:3:20: `any` has no conditions; fix: name some, or remove it"]),
    ("{ all: [{ method: GET }, {}] }", &["`all` has no conditions, so it always holds"]),
    ("{ not: {} }", &["`not` has no conditions, so it always holds"]),
    ("{ not: [{ method: GET }] }", &["p.yaml:3:20: `not` must be a mapping"]),
    ("{ any: { method: GET } }", &["p.yaml:3:20: `any` must be a list"]),
    ("{ or: [{ method: GET }] }", &["unknown key `or` in `when`; fix: write `any`"]),
    ("{ and: [{ method: GET }] }", &["unknown key `and` in `when`; fix: write `all`"]),
    ("{ not: { methods: GET } }", &["unknown key `methods` in `not`; fix: did you mean `method`?"]),
    ("{ method: get }", &["the method `get` is in lower case"]),
    ("{ path: a }", &["the path `a` does not start with `/`"]),
    ("{ path: [] }", &["the list is empty, so the condition never holds"]),
    ("{ scheme: ftp }", &["`scheme` must be one of `http` and `https`"]),
    ("{ version: 1.2 }", &["`version` must be one of"]),
    ("{ port: 0 }", &["`port`"]),
    (
        "{ any: [{ not: { claim: { sub: a } } }] }",
        &["this demands a claim, and a route is chosen before a token is verified"],
    ),
    ("{ header: { x: { count: {} } } }", &["`count` has no bound; fix: add `equals`, `at_least` or `at_most`"]),
    ("{ header: { x: { number: { equals: 1, at_most: 2 } } } }", &["`equals` beside another bound"]),
    ("{ header: { x: { length: { at_least: 3, at_most: 2 } } } }", &["no number is at least 3 and at most 2"]),
    ("{ header: { x: { present: true, which: last } } }", &["`which` beside `present` or `count`"]),
    ("{ header: { x: { exact: a, number: { equals: 1 } } } }", &["`exact` and `number` exclude each other"]),
    ("{ header: { x: { which: last } } }", &["has none of `exact`, "]),
    (
        "{ any: [{ server_name: a.test }, { certificate: { san: \"DNS:a.test\" } }] }",
        &["the condition `server_name` never holds: none of its listeners has `tls`"],
    ),
    ("{ any: [{ server_name: a.test }, { method: GET }] }", &[]),
    ("{ not: { server_name: a.test } }", &[]),
];

#[test]
fn what_check_says_of_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let route = |when: &str| {
        format!(
            "listeners: [{{ name: web, bind: \":80\" }}]\nroutes:\n  - {{ when: {when}, {} }}\n  - {{ {} }}\n",
            respond("a"),
            respond("b")
        )
    };
    let nested = |depth: usize| format!("{}{{ method: GET }}{}", "{ not: ".repeat(depth), " }".repeat(depth));
    let many = |count: usize| format!("{{ any: [{}] }}", vec!["{ method: GET }"; count].join(", "));
    for (when, said) in [
        (nested(8), &[][..]),
        (nested(9), &["p.yaml:3:71: conditions are nested deeper than 8 levels; fix: "]),
        (many(255), &[]),
        (many(256), &["p.yaml:3:13: the `when` has 257 conditions, 256 is the most; fix: "]),
    ] {
        check(dir.path(), &route(&when), said);
    }
    for (when, said) in WRONG {
        check(dir.path(), &route(when), said);
    }
}

#[test]
fn what_check_says_of_trees_beside_each_other_and_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let check = |text: &str, said: &[&str]| check(dir.path(), text, said);
    let entry = |when: &str| format!("      - {{ when: {when}, {} }}\n", respond("a"));
    let group =
        |entries: &str| format!("listeners: [{{ name: web, bind: \":80\" }}]\nroutes:\n  - in_order:\n{entries}");
    let regex = |number: usize| {
        entry(&format!(
            "{{ not: {{ path: {{ regex: \"/a{number}\" }} }}, header: {{ x: {{ regex: \"b{number}\" }} }} }}"
        ))
    };
    let some = |count: usize| group(&(0..count).map(regex).collect::<String>());
    check(&some(128), &[]);
    check(&some(129), &["p.yaml:132:9: the group has more than 256 regular expressions"]);
    check(
        &group(&(entry("{ any: [{ port: 1 }, { method: GET }] }") + &entry("{ path: /a, method: GET }"))),
        &["is never taken: route"],
    );
    // Where no route is chosen, readings of a path are not compared.
    let elsewhere = "listeners: [{ name: web, bind: \":80\" }]\nupstreams: { a: { servers: \"127.0.0.1:9\" } }\n";
    let what = "`path` in a `when` that chooses no route; fix: write a route of its own for the path";
    check(
        &format!(
            "{elsewhere}policies: {{ p: {{ when: {{ not: {{ path: /a }} }}, deny: 10.0.0.0/8 }} }}\nroutes: [{{ upstream: a, policies: p }}]\n"
        ),
        &[what],
    );
    check(
        &format!(
            "{elsewhere}routes: [{{ split: [{{ upstream: a, when: {{ any: [{{ path: /a }}] }} }}, {{ upstream: a }}] }}]\n"
        ),
        &[what],
    );
    // A claim in whatever depth needs a token that is verified before.
    check(
        &format!(
            "{elsewhere}policies: {{ p: {{ when: {{ any: [{{ not: {{ claim: {{ sub: a }} }} }}] }}, deny: 10.0.0.0/8 }} }}\nroutes: [{{ upstream: a, policies: p }}]\n"
        ),
        &["claim"],
    );
}
