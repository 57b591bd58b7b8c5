//! Routes, policies, own responses and upstreams do the same whatever version of HTTP a request comes over: one list of requests, sent by curl over
//! HTTP/1.1 and over HTTP/2.

use std::fs;
use std::process::Command;

use keystore::dev_ca::{DevCa, Purpose};

use crate::harness::signing::{SECRET, token};
use crate::harness::{Gate, Reply, Upstream, certificates, wait_until};

/// A server that responds with its name.
fn says(name: &'static str) -> Upstream {
    Upstream::start(move |_| Reply::Keep(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}").into_bytes()))
}

fn yaml(a: &Upstream, b: &Upstream) -> String {
    let (a, b) = (a.address, b.address);
    format!(
        "workers: 1
keystores: {{ main: {{ folder: certs, default: a.test }} }}
listeners:
  - name: web
    bind: \"127.0.0.1:0\"
    tls: {{ keystore: main, client_certificate: {{ mode: optional, ca: clients.pem }} }}
    error_pages: own
    limits: {{ max_body: 1KiB, max_header_bytes: 2KiB }}
tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}
error_pages: {{ own: {{ pages: {{ 4xx: page.html }} }} }}
policies:
  by-header: {{ rate_limit: {{ rate: 1/h, burst: 2, key: {{ header: x-key }} }} }}
  by-certificate: {{ rate_limit: {{ rate: 1/h, burst: 1, key: {{ certificate: san }} }} }}
  user: {{ jwt: {{ verifier: id }}, rate_limit: {{ rate: 1/h, burst: 2, key: {{ claim: sub }} }} }}
upstreams:
  a: {{ servers: [\"{a}\"] }}
  b: {{ servers: [\"{b}\"] }}
  sticky: {{ servers: [\"{a}\", \"{b}\"], sticky: {{ cookie: sid }} }}
  hash: {{ servers: [\"{a}\", \"{b}\"], balance: {{ hash: {{ header: x-tenant }} }} }}
routes:
  - {{ path: /header, respond: {{ status: 200, body: none }} }}
  - {{ path: /header, when: {{ header: {{ x-beta: {{ prefix: b }} }} }}, respond: {{ status: 200, body: header }} }}
  - {{ path: /query, respond: {{ status: 200, body: none }} }}
  - {{ path: /query, when: {{ query: {{ debug: \"1\" }} }}, respond: {{ status: 200, body: query }} }}
  - {{ path: /cookie, respond: {{ status: 200, body: none }} }}
  - {{ path: /cookie, when: {{ cookie: {{ plan: {{ regex: \"pro|team-[0-9]+\" }} }} }}, respond: {{ status: 200, body: cookie }} }}
  - {{ path: /certificate, respond: {{ status: 200, body: none }} }}
  - {{ path: /certificate, when: {{ certificate: {{ san: \"DNS:*.clients.test\" }} }}, respond: {{ status: 200, template: true, body: \"{{certificate.san}}\" }} }}
  - path: {{ regex: \"/v[0-9]+/(?<rest>[a-z]+)\" }}
    respond: {{ status: 200, template: true, body: \"{{rest}} {{method}} {{host}} {{query.q}} {{header.X-A}} {{cookie.c}} {{tls.server_name}}\" }}
  - {{ path: /rate, policies: [by-header], respond: {{ status: 200, body: passed }} }}
  - {{ path: /certificate-rate, policies: [by-certificate], respond: {{ status: 200, body: passed }} }}
  - {{ path: /claims, policies: [user], split: [{{ upstream: a }}, {{ upstream: b, when: {{ claim: {{ groups: testers }} }} }}] }}
  - {{ path: /split, split: [{{ upstream: a, weight: 1 }}, {{ upstream: b, when: {{ cookie: {{ canary: \"1\" }} }} }}] }}
  - {{ path: /mirror, upstream: a, mirror: {{ upstream: b }} }}
  - {{ path: /sticky, upstream: sticky }}
  - {{ path: /hash, upstream: hash }}
admin: {{ bind: \"127.0.0.2:0\" }}
"
    )
}

fn start(a: &Upstream, b: &Upstream) -> Gate {
    let folder = certificates(&[("a.test", false)]);
    let file = |name: &str| folder.path().join(name);
    let ca = DevCa::new("Clients").unwrap();
    fs::write(file("clients.pem"), ca.certificate_pem()).unwrap();
    for name in ["ada", "bob"] {
        let pair = ca.issue(&[&format!("{name}.clients.test")], tls::KeyType::Ecdsa, Purpose::Client).unwrap();
        fs::write(file(name), format!("{}{}", pair.certificate_pem, *pair.key_pem)).unwrap();
    }
    fs::write(file("page.html"), "<h1>{{status}}</h1>").unwrap();
    fs::write(file("secret"), SECRET).unwrap();
    Gate::start_in(folder, &yaml(a, b))
}

/// Who asks, over which version.
struct Client<'g> {
    gate: &'g Gate,
    option: &'static str,
    version: &'static str,
}

impl Client<'_> {
    /// Status and body of the response; `options` are curl's.
    fn ask(&self, path: &str, options: &[&str]) -> (u16, String) {
        let address = self.gate.address("web");
        let output = Command::new("curl")
            .current_dir(self.gate.dir.path())
            .args(["--silent", "--show-error", "--max-time", "60", "--cacert", "ca.pem", self.option])
            .args(["--resolve", &format!("a.test:{}:{}", address.port(), address.ip())])
            .args(["--write-out", "\n%{http_code} %{http_version}"])
            .args(options)
            .arg(format!("https://a.test:{}{path}", address.port()))
            .output()
            .expect("curl is installed (Debian package curl)");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, outcome) = text.rsplit_once('\n').unwrap();
        let (status, version) = outcome.split_once(' ').unwrap();
        assert_eq!(version, self.version, "{path}: {}", String::from_utf8_lossy(&output.stderr));
        (status.parse().unwrap(), body.to_owned())
    }

    /// Checks what comes, in this order.
    fn expect(&self, cases: &[(&str, &[&str], u16, &str)]) {
        for (path, options, status, body) in cases {
            let case = format!("HTTP/{} {path} {options:?}", self.version);
            assert_eq!(self.ask(path, options), (*status, (*body).to_owned()), "{case}");
        }
    }
}

/// Runs a test over each version, with a gate that has seen nothing.
fn over_each_version(test: impl Fn(&Client<'_>, [&Upstream; 2])) {
    for (option, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let (a, b) = (says("a"), says("b"));
        let gate = start(&a, &b);
        test(&Client { gate: &gate, option, version }, [&a, &b]);
        assert_eq!(gate.stop(), Some(0));
    }
}

#[test]
fn routes_and_own_responses_are_those_of_any_version() {
    over_each_version(|client, _| {
        let long = format!("X-Long: {}", "x".repeat(3000));
        client.expect(&[
            ("/header", &[], 200, "none"),
            ("/header", &["-H", "X-Beta: beta"], 200, "header"),
            ("/query?debug=0", &[], 200, "none"),
            ("/query?debug=0&debug=%31", &[], 200, "query"),
            ("/cookie", &["-b", "a=b; plan=team"], 200, "none"),
            ("/cookie", &["-b", "a=b; plan=team-7"], 200, "cookie"),
            ("/certificate", &[], 200, "none"),
            ("/certificate", &["--cert", "ada"], 200, "ada.clients.test"),
            ("/v12/shoes?q=1", &["-H", "X-A: a", "-b", "b=2; c=3"], 200, "shoes GET a.test 1 a 3 a.test"),
            ("/v12/shoes", &["-X", "DELETE"], 200, "shoes DELETE a.test    a.test"),
            ("/v/shoes", &["-H", "Accept: text/html"], 404, "<h1>404</h1>"),
            (
                "/v/shoes",
                &["-H", "Accept: application/json"],
                404,
                "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404}\n",
            ),
            ("/split", &["-H", "Accept: text/html", "-d", &"x".repeat(1025)], 413, "<h1>413</h1>"),
            ("/split", &["-d", &"x".repeat(1024)], 200, "a"),
        ]);
        assert_eq!(client.ask("/header", &["-H", &long]).0, 431);
    });
}

#[test]
fn rates_claims_and_certificates_are_those_of_any_version() {
    over_each_version(|client, _| {
        let bearer = |claims: &str| format!("Authorization: Bearer {}", token(claims));
        let ada = bearer(r#""sub":"ada","groups":["testers"]"#);
        let bob = bearer(r#""sub":"bob","groups":[]"#);
        let rejected = "429 Too Many Requests\n";
        let plain = ["-H", "Accept: text/plain"];
        let with = |option: &'static str, value| [plain[0], plain[1], option, value];
        client.expect(&[
            ("/rate", &with("-H", "X-Key: 1"), 200, "passed"),
            ("/rate", &with("-H", "X-Key: 1"), 200, "passed"),
            ("/rate", &with("-H", "X-Key: 1"), 429, rejected),
            ("/rate", &with("-H", "X-Key: 2"), 200, "passed"),
            ("/claims", &with("-H", &ada), 200, "b"),
            ("/claims", &with("-H", &bob), 200, "a"),
            ("/claims", &with("-H", &ada), 200, "b"),
            ("/claims", &with("-H", &ada), 429, rejected),
            ("/claims", &with("-H", &bob), 200, "a"),
            ("/claims", &plain, 401, "401 Unauthorized\n"),
            ("/certificate-rate", &with("--cert", "ada"), 200, "passed"),
            ("/certificate-rate", &with("--cert", "ada"), 429, rejected),
            ("/certificate-rate", &with("--cert", "bob"), 200, "passed"),
        ]);
    });
}

#[test]
fn servers_are_chosen_as_for_any_version() {
    over_each_version(|client, [_, b]| {
        for _ in 0..3 {
            client.expect(&[("/split", &[], 200, "a"), ("/split", &["-b", "canary=1"], 200, "b")]);
        }
        let before = b.seen().len();
        client.expect(&[("/mirror", &["-d", "x"], 200, "a")]);
        wait_until("the copy", || b.seen().len() == before + 1);
        assert_eq!(b.seen()[before].body, b"x");
        for options in [["-c", "jar", "-b", "jar"], ["-H", "X-Tenant: acme", "-H", "X-Other: 1"]] {
            let path = if options[0] == "-c" { "/sticky" } else { "/hash" };
            let servers: Vec<_> = (0..5).map(|_| client.ask(path, &options)).collect();
            assert!(servers.iter().all(|server| *server == servers[0] && server.0 == 200), "{path}: {servers:?}");
        }
    });
}
