//! Routes in order: the first that fits is taken, as HAProxy takes it; what `check`, `explain`, `diff` and a reload say of groups.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::explain::{explained, portunus};
use crate::harness::{Gate, Upstream, ask_socket, exchange, wait_until};

const LISTENER: &str = "workers: 1\nlisteners: [{ name: web, bind: \"127.0.0.1:0\" }]\n";

/// The body of a response 200 to a request on a connection of its own, else its status.
fn ask(address: SocketAddr, line: &str, fields: &str) -> String {
    let request = format!("{line} HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n{fields}\r\n");
    outcome(&exchange(address, request.as_bytes()))
}

fn outcome(response: &[u8]) -> String {
    let text = std::str::from_utf8(response).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    if head.starts_with("HTTP/1.1 200") { body.to_owned() } else { head[9..12].to_owned() }
}

fn respond(name: &str) -> String {
    format!("respond: {{ status: 200, body: \"{name}\" }}")
}

/// A file with these routes in order.
fn in_order(entries: &[&str]) -> String {
    let entries: String = entries.iter().map(|entry| format!("      - {{ {entry} }}\n")).collect();
    format!("{LISTENER}routes:\n  - hosts: x.test\n    in_order:\n{entries}")
}

#[test]
fn an_early_rejection_wins_over_a_more_specific_route_behind_it() {
    let upstream = Upstream::ok();
    let gate = Gate::start(&format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
policies: {{ nobody: {{ deny: [0.0.0.0/0] }} }}
routes:
  - hosts: x.test
    in_order:
      - {{ name: closed, path: {{ prefix: /admin }}, when: {{ header: {{ x-inside: {{ present: false }} }} }}, respond: {{ status: 403 }} }}
      - {{ name: guarded, path: \"/admin/keys/{{*rest}}\", policies: [nobody], upstream: app }}
      - {{ name: login, path: /admin/login, upstream: app }}
      - {{ name: files, path: {{ prefix: /static }}, rewrite: \"/files/{{rest}}\", upstream: app }}
      - {{ name: umlaut, path: {{ regex: '/(\u{f6}) (?<name>.*)', decoded: true }}, rewrite: \"/{{1}}/{{name}}\", upstream: app }}
      - {{ path: \"/{{*rest}}\", methods: [GET], upstream: app }}
",
        upstream.address
    ));
    let web = gate.address("web");
    let passed = |line: &str, fields: &str| {
        let before = upstream.seen().len();
        let said = ask(web, line, fields);
        let seen = upstream.seen();
        let target = seen.get(before).map(|seen| seen.head.split(' ').nth(1).unwrap().to_owned());
        assert_eq!(said == "ok", target.is_some(), "{line}: {said}");
        target.unwrap_or(said)
    };
    for (line, fields, expected) in [
        ("GET /admin/login", "", "403"),
        ("GET /admin", "", "403"),
        ("GET /administration", "", "403"),
        ("GET /admin/login", "X-Inside: 1\r\n", "/admin/login"),
        ("GET /admin/keys/x", "X-Inside: 1\r\n", "403"),
        ("GET /static", "", "/files/"),
        ("GET /static/a%20b?q", "", "/files//a%20b?q"),
        ("GET /staticky", "", "/files/ky"),
        ("GET /%C3%B6%20a%3Ab%20c", "", "/%C3%B6/a%3Ab%20c"),
        ("GET /x", "", "/x"),
        ("HEAD /x", "", "200"),
        ("POST /x", "Content-Length: 0\r\n", "405"),
        // Every reading of a path must be of the route that it is of as it is written.
        ("GET //admin/login", "", "400"),
        ("GET /x/;/..a/%2561dmin", "", "400"),
        ("GET /admin;x/login", "X-Inside: 1\r\n", "400"),
        ("GET /admin/keys;/x", "X-Inside: 1\r\n", "400"),
        ("GET /admin%2Fkeys/x", "X-Inside: 1\r\n", "400"),
        ("GET /admin%2fkeys/x", "", "400"),
        ("GET /%61dmin/login", "", "403"),
        ("GET /x//y;z%3A", "", "/x//y;z%3A"),
    ] {
        if line.starts_with("HEAD") {
            assert_eq!(ask(web, line, fields), "", "{line}");
            continue;
        }
        assert_eq!(passed(line, fields), expected, "{line} {fields}");
    }
    let said: Vec<Value> = gate.log(3).into_iter().take(3).map(|line| line["route"].clone()).collect();
    assert_eq!(said, ["closed", "closed", "closed"]);
    gate.stop();
}

const BOTH_FORMS: [&str; 3] = ["GET /a/b", "GET /a/c", "GET /d"];

#[test]
fn a_reload_changes_between_order_and_specificity() {
    let entries =
        [&format!("path: \"/a/{{*rest}}\", {}", respond("rest"))[..], &format!("path: /a/b, {}", respond("exact"))];
    let ordered = in_order(&entries);
    let specific = format!("{LISTENER}routes:\n  - {{ {} }}\n  - {{ {} }}\n", entries[0], entries[1]);
    let gate = Gate::start(&ordered);
    let web = gate.address("web");
    let all = || BOTH_FORMS.map(|line| ask(web, line, ""));
    for (number, text) in [(1, &ordered), (2, &specific), (3, &ordered)] {
        if number > 1 {
            gate.rewrite(text);
            let said = gate.operate("POST /reload", "Content-Length: 0\r\n");
            assert!(said.ends_with(&format!("{{\"generation\":{number}}}\n")), "{said}");
        }
        let first = if number == 2 { "exact" } else { "rest" };
        assert_eq!(all(), [first, "rest", "404"]);
        // What is shown of it is a file that says the same.
        let shown = gate.operate("GET /config", "");
        let body = shown.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body.contains("in_order"), number != 2, "{body}");
        std::fs::write(gate.dir.path().join("shown.yaml"), body).unwrap();
        let same = portunus(gate.dir.path(), &["diff", "portunus.yaml", "shown.yaml"]);
        assert!(same.status.success(), "{}", String::from_utf8_lossy(&[same.stdout, same.stderr].concat()));
    }
    gate.stop();
}

#[test]
fn the_difference_of_two_orders_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let entry = |name: &str, path: &str| format!("name: {name}, path: {path}, {}", respond(name));
    let (one, two, three) = (entry("one", "/a"), entry("two", "\"/{*rest}\""), entry("three", "/c"));
    std::fs::write(dir.path().join("old.yaml"), in_order(&[&one, &two])).unwrap();
    std::fs::write(dir.path().join("new.yaml"), in_order(&[&three, &two, &one])).unwrap();
    let output = portunus(dir.path(), &["diff", "old.yaml", "new.yaml"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "+ routes[in_order hosts [x.test]].in_order.three: { name: three, path: [/c], respond: { body: three, status: 200 } }\n\
         ~ routes[in_order hosts [x.test]].in_order: order one, two -> three, two, one\n"
    );
}

#[test]
fn what_explain_says_of_routes_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let entries = [
        format!("name: closed, path: {{ prefix: /a }}, when: {{ header: {{ x-a: \"1\" }} }}, {}", respond("closed")),
        format!("name: posts, path: /a/b, methods: [POST], {}", respond("posts")),
        format!("name: elsewhere, path: /b, {}", respond("elsewhere")),
        format!("name: taken, path: \"/a/{{x}}\", {}", respond("taken")),
        format!("name: later, path: /a/b, {}", respond("later")),
    ];
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    std::fs::write(dir.path().join("portunus.yaml"), in_order(&entries)).unwrap();
    let said = explained(dir.path(), &["GET", "http://x.test/a/b"]);
    assert_eq!(said["routes"]["taken"]["name"], "taken");
    let lost: Vec<Value> = said["routes"]["lost"]
        .as_array()
        .unwrap()
        .iter()
        .map(|route| json!([route["name"], route["why"], route.get("detail")]))
        .collect();
    let expected = [
        json!(["closed", "condition", "header `x-a` is not `1`"]),
        json!(["posts", "method", null]),
        json!(["later", "later", null]),
    ];
    assert_eq!(lost, expected);
    let output = portunus(dir.path(), &["explain", "portunus.yaml", "GET", "http://x.test/a/b"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = [
        "route      taken (portunus.yaml:9) /a/{x}\n           x = b\n",
        "           not closed (portunus.yaml:6) /a*: header `x-a` is not `1`\n",
        "           not posts (portunus.yaml:7) /a/b: it serves other methods\n",
        "           before later (portunus.yaml:10) /a/b: of routes in order the first that fits counts\n",
    ];
    assert!(text.contains(&rows.concat()), "{text}");
}

/// A file, the exit code of `check --strict`, and what it says.
fn check(dir: &Path, text: &str, said: &[&str]) {
    std::fs::write(dir.join("p.yaml"), text).unwrap();
    let output = portunus(dir, &["check", "--strict", "p.yaml"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), said.is_empty(), "{text}{errors}");
    assert!(
        said.iter().all(|part| errors.contains(part)) && errors.lines().count() == said.len().min(1),
        "{text}{errors}"
    );
}

#[test]
fn what_check_says_of_routes_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let ok = respond("ok");
    let group = |entries: &str| format!("{LISTENER}routes:\n  - hosts: x.test\n    in_order:\n{entries}");
    let one = |path: &str| format!("      - {{ path: {path}, {ok} }}\n");
    let all = one("\"/{*rest}\"");
    check(dir.path(), &group(&(one("{ prefix: /a }") + &one("/b") + &all)), &[]);
    let unreached = [
        "warning: p.yaml:8: route `x.test/b` (/b) is never taken: route `x.test/{*rest}` (/{*rest}, at p.yaml:7) stands before it",
        "move it before that one, or remove it",
    ];
    check(dir.path(), &group(&(one("\"/{x}/y\"") + &all + &one("/b"))), &unreached);
    let mixed = group(&one("/a")) + &format!("  - {{ hosts: [y.test, x.test], path: /b, {ok} }}\n");
    check(
        dir.path(),
        &mixed,
        &[
            "p.yaml:7: route `y.test+1/b` (/b) and route `x.test/a` (/a, at p.yaml:6): x.test has routes in order, and others; put all routes of the host into the group",
        ],
    );
    let two = group(&one("/a")) + &format!("  - hosts: [x.test]\n    in_order:\n{all}");
    check(dir.path(), &two, &["x.test has another group of routes in order; put the routes of both into one group"]);
    let few = format!("      - {{ path: [/b, \"/{{x}}/y\"], {ok} }}\n");
    let unreached = ["path `/b` of route `x.test/b+1` is never taken: route `x.test/{x}`"];
    check(dir.path(), &group(&(one("\"/{x}\"") + &few + &all)), &unreached);
    for (path, sample) in
        [("\"/a//b\"", "/a//b"), ("{ regex: \"/r/[a-z]+%3Apurge\" }", "/r/a%3Apurge"), ("\"/a;b\"", "/a;b")]
    {
        let what = format!("): {sample} is rejected with 400, because servers that decode paths");
        check(dir.path(), &group(&(one(path) + &all)), &[&what, "`allow_ambiguous_path: true` lets it pass"]);
        let allowed = format!("      - {{ path: {path}, allow_ambiguous_path: true, {ok} }}\n");
        check(dir.path(), &group(&(allowed + &all)), &[]);
    }
    let rewritten = |prefix: &str, to: &str| {
        let upstreams = "upstreams: { app: { servers: [\"127.0.0.1:9\"] } }\n";
        group(&format!("      - {{ path: {{ prefix: {prefix} }}, rewrite: {to}, upstream: app }}\n")) + upstreams
    };
    check(dir.path(), &rewritten("/static", "\"/v2{rest}\""), &[]);
    check(dir.path(), &rewritten("/static/", "\"/v2/{rest}\""), &[]);
    let doubled = "what follows the prefix `/static` may begin with a slash, so that `/static/x` becomes a path with `//`; write `{rest}` without";
    check(dir.path(), &rewritten("/static", "\"/v2/{rest}\""), &[doubled]);
    let paths = |route: usize| (0..64).map(|path| format!("/p{route}-{path}, ")).collect::<String>();
    let many: String = (0..157).map(|route| one(&format!("[{}]", paths(route)))).collect();
    check(dir.path(), &group(&many), &["the group has more than 10000 paths; fix: write prefixes"]);
    check(
        dir.path(),
        &group("      []\n"),
        &["p.yaml:6:7: `in_order` is empty; fix: add a route, or remove the group"],
    );
    let beside = format!("{LISTENER}routes:\n  - policies: []\n    in_order:\n{all}");
    check(dir.path(), &beside, &["p.yaml:4:5: `policies` stands beside `in_order`"]);
    check(dir.path(), &group(&one("/a").replace("path", "hosts: y.test, path")), &["p.yaml:6:11: unknown key `hosts`"]);
    let outside = |path: &str| format!("{LISTENER}routes:\n  - {{ path: {path}, {ok} }}\n");
    check(dir.path(), &outside("{ prefix: /a }"), &["p.yaml:4:15: `prefix` in a route that is not `in_order`"]);
    check(
        dir.path(),
        &outside("{ regex: /a, decoded: true }"),
        &["`decoded` in a route that is not `in_order`; fix: write the expression percent-encoded"],
    );
    check(dir.path(), &group(&one("{ prefix: a }")), &["the prefix `a` does not start with `/`"]);
    check(dir.path(), &group(&one("{ prefix: \"/a b\" }")), &["percent-encode it: `a%20b`"]);
    check(dir.path(), &group(&one("{ prefix: /a, except: /a/b }")), &["`except` has no effect beside `prefix`"]);
    check(dir.path(), &group(&one("{ prefix: /a, regex: /b }")), &["p.yaml:6:"]);
    let both = format!("{LISTENER}routes:\n  - {{ in_order: [{{ {ok} }}], {ok} }}\n");
    check(dir.path(), &both, &["p.yaml:4:7: `respond` and `in_order` exclude each other"]);
}

/// HAProxy, ended with the test.
struct Haproxy(Child);

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// HAProxy's condition, our entry.
const SAME_AS_HAPROXY: [(&str, &str); 9] = [
    ("{ path_beg /private } { req.hdr(x-a) 1 }", "path: { prefix: /private }, when: { header: { x-a: \"1\" } }"),
    ("{ path_beg /static }", "path: { prefix: /static }"),
    ("{ path /private/open }", "path: /private/open"),
    ("{ path_reg \\.php$ }", "path: { regex: '.*\\.php' }"),
    ("{ path_beg /api/ } { method POST }", "path: { prefix: /api/ }, methods: [POST]"),
    ("{ path_reg ^/v[0-9]+/ }", "path: { regex: '/v[0-9]+/.*' }"),
    ("{ path_beg /static/deep }", "path: { prefix: /static/deep }"),
    ("{ path_beg /pri }", "path: { prefix: /pri }"),
    ("TRUE", "path: \"/{*rest}\""),
];

/// Random paths meet in HAProxy the rule that they meet here.
#[test]
fn haproxy_takes_the_same_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (rules, socket) = (SAME_AS_HAPROXY, dir.path().join("haproxy.sock"));
    let line = |(number, (condition, _)): (usize, &(&str, &str))| {
        format!(" http-request return status 200 content-type text/plain string \"{number}\" if {condition}\n")
    };
    let lines: String = rules.iter().enumerate().map(line).collect();
    let text = format!(
        "defaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 60s\nfrontend web\n bind unix@{}\n{lines}",
        socket.display()
    );
    std::fs::write(dir.path().join("haproxy.cfg"), text).unwrap();
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f"]).arg(dir.path().join("haproxy.cfg"));
    let _haproxy = Haproxy(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("HAProxy", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let entries: Vec<String> = rules
        .iter()
        .enumerate()
        .map(|(number, (_, entry))| format!("{entry}, {}", respond(&number.to_string())))
        .collect();
    let gate = Gate::start(&in_order(&entries.iter().map(String::as_str).collect::<Vec<_>>()));
    let random = &mut fastrand::Rng::with_seed(37);
    let pieces = [
        "private",
        "private/",
        "private/open",
        "static",
        "static/deep",
        "ky",
        "a.php",
        "api/",
        "v1/",
        "v/",
        "/x",
        "pri",
    ];
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..500 {
        let path: String = (0..random.usize(1..4)).map(|_| random.choice(pieces).unwrap()).collect();
        if path.contains("//") {
            continue;
        }
        let (method, length) = random.choice([("GET", ""), ("POST", "Content-Length: 0\r\n")]).unwrap();
        let fields = random.choice(["", "x-a: 1\r\n"]).unwrap();
        let line = format!("{method} /{path}");
        let ours = ask(gate.address("web"), &line, &format!("{fields}{length}"));
        let theirs = outcome(ask_socket(&socket, &line, &format!("{fields}{length}")).as_bytes());
        assert_eq!(ours, theirs, "{line} {fields}");
        seen.insert(ours);
    }
    // One of them is never taken, in both.
    assert_eq!(seen.len(), rules.len() - 1, "each was met: {seen:?}");
    gate.stop();
}
