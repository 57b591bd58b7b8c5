//! `portunus explain` as an operator reads it: the text, why routes lose, which listener, what cannot be asked.

use std::fs;
use std::path::Path;

use keystore::dev_ca::{DevCa, Purpose};
use serde_json::Value;

use super::{explained, portunus};

const SITE: &str = "listeners:
  - { name: http, bind: \":8080\", policies: [office] }
  - { name: inner, bind: \"127.0.0.1:8081\" }
  - { name: raw, bind: \":9000\", tunnel: { upstream: bytes } }
upstreams:
  web: { servers: [\"10.0.0.10:8080\", { address: \"10.0.0.11:8080\", weight: 3 }], balance: least_loaded }
  beta: { servers: [\"beta.internal:80\"], protocol: http2 }
  sso: { servers: [\"127.0.0.1:4180\"] }
  bytes: { servers: [\"10.0.0.12:25\"], protocol: tcp }
policies:
  office: { allow: [192.0.2.0/24] }
  rate: { rate_limit: { rate: 10/s, burst: 20 }, bandwidth_limit: { download: 1MiB, upload: 64KiB, key: client } }
  sso: { forward_auth: { upstream: sso, path: /oauth2/auth, copy: [X-User] } }
routes:
  - { path: \"/{*rest}\", upstream: web }
  - { name: api, path: \"/v1/{*rest}\", upstream: web, rewrite: \"/{rest}\", policies: [rate, sso] }
  - { name: beta, path: /v1/users, upstream: beta, when: { header: { x-beta: \"1\" } } }
  - { name: new-users, path: /v1/users, methods: POST, split: [{ upstream: web, weight: 9 }, { upstream: beta, weight: 1 }] }
  - { name: vip, path: /v1/users, upstream: web, when: { client: 203.0.113.0/24 } }
  - { name: shop, hosts: [shop.example], path: /v1/users, upstream: web }
  - { name: inside, listeners: [inner], path: /v1/users, upstream: web }
";

fn site(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("portunus.yaml"), text).unwrap();
    folder
}

/// What is printed for people, which must succeed.
fn text(folder: &Path, arguments: &[&str]) -> String {
    let output = portunus(folder, &[&["explain", "portunus.yaml"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_text_says_what_wins_what_it_beats_and_what_is_sent() {
    let folder = site(SITE);
    let said = text(folder.path(), &["GET", "http://example.com:8080/v1/users?a=b", "-H", "X-User: me"]);
    assert_eq!(
        said,
        "listener   http (0.0.0.0:8080, [::]:8080)
removed    x-user: before anything looks at them
route      api (portunus.yaml:16) /v1/{*rest}
           rest = users
           not beta (portunus.yaml:17) /v1/users: header `x-beta` is not `1`
           not vip (portunus.yaml:19) /v1/users: the client is not in 203.0.113.0/24
           not new-users (portunus.yaml:18) /v1/users: it serves other methods
           before */{*rest} (portunus.yaml:15): its path is more specific
           not inside (portunus.yaml:21) /v1/users: it belongs to other listeners
           1 other route does not match host and path
policy     office (of the listener) passes
             addresses passes
policy     rate (of the route) depends on what is not known here; taken as passed
             rate_limit not known: one request each 100ms and a burst of 20, per client
             bandwidth_limit passes: download of 1048576 bytes per second and upload of 65536 bytes per second, per client
policy     sso (of the route) depends on what is not known here; taken as passed
             forward_auth not known: asks sso: GET /oauth2/auth, and copies x-user
sends      to web, HTTP/1.1
           servers 10.0.0.10:8080, 10.0.0.11:8080 weight 3, least_loaded
             GET /users?a=b HTTP/1.1
             Host: example.com:8080
             X-Forwarded-For: 192.0.2.1
             X-Forwarded-Proto: http
             X-Forwarded-Host: example.com:8080
             X-Forwarded-Port: 8080
             X-Real-IP: 192.0.2.1
             Via: 1.1 portunus
             X-Request-Id: 00000000000000000000000000000000
response   of web
"
    );
    let said = text(folder.path(), &["GET", "http://example.com:8080/", "--from", "198.51.100.7"]);
    assert_eq!(
        said,
        "listener   http (0.0.0.0:8080, [::]:8080)
route      */{*rest} (portunus.yaml:15)
           rest is empty
           6 other routes do not match host and path
policy     office (of the listener) rejects: 403 address_not_allowed
             addresses does not pass
response   403 address_not_allowed
           The address of the client is not on the list of allowed addresses, or on one of denied addresses.
           fix: If it should be let in, correct the list that `policy` or `route` of the log line names; behind a balancer, check that `trusted_proxies` names it.
             Content-Type: text/plain; charset=utf-8
"
    );
    let said = text(folder.path(), &["GET", "http://example.com:9000/"]);
    assert_eq!(
        said,
        "listener   raw (0.0.0.0:9000, [::]:9000)\ntunnel     its bytes are carried to bytes\n           servers 10.0.0.12:25\n"
    );
}

/// Upstreams whose connections say who the client is, of requests and of a tunnel, and the tunnel's own policies.
#[test]
fn how_a_client_is_passed_on_is_said() {
    let folder = site(
        "listeners:
  - { name: http, bind: \":8080\" }
  - { name: raw, bind: \":9000\", policies: [office], tunnel: { upstream: bytes, policies: [inner] } }
trusted_proxies: 198.51.100.9
upstreams:
  web: { servers: [\"10.0.0.10:8080\"], send_proxy: v2, transparent: true }
  bytes: { servers: [\"10.0.0.12:25\", { address: \"10.0.0.13:25\", backup: true }], protocol: tcp, send_proxy: v1, transparent: true }
policies:
  office: { allow: [192.0.2.0/24, 203.0.113.0/24] }
  inner: { deny: 203.0.113.0/24 }
routes:
  - { path: \"/{*rest}\", upstream: web }
",
    );
    let said = text(folder.path(), &["GET", "http://example.com:8080/"]);
    let onward = "           connects from the client's own address 192.0.2.1
           a PROXY header (v2) goes ahead, which names 192.0.2.1
";
    assert!(said.contains(onward), "{said}");
    let said = explained(folder.path(), &["GET", "http://example.com:8080/"]);
    assert_eq!(said["upstream"]["proxy_header"], serde_json::json!({ "version": "v2", "client": "192.0.2.1" }));
    assert_eq!(said["upstream"]["source"], "192.0.2.1");
    let doubtful = ["GET", "http://example.com:8080/", "--from", "198.51.100.9", "-H", "X-Forwarded-For: nobody"];
    assert_eq!(explained(folder.path(), &doubtful)["response"]["status"], 403);
    let said = text(folder.path(), &["GET", "http://example.com:9000/"]);
    assert_eq!(
        said,
        "listener   raw (0.0.0.0:9000, [::]:9000)
tunnel     its bytes are carried to bytes
           servers 10.0.0.12:25, 10.0.0.13:25 backup
           connects from the client's own address
           a PROXY header (v1) that names the client goes ahead
policy     office (of the listener) passes
             addresses passes
policy     inner (of the rule) passes
             addresses passes
"
    );
    let from = |address: &str| explained(folder.path(), &["GET", "http://example.com:9000/", "--from", address]);
    let denied = |said: &Value| (said["tunnel"]["denied"].clone(), said["policies"].as_array().unwrap().len());
    assert_eq!(denied(&from("203.0.113.1")), (true.into(), 2));
    assert_eq!(denied(&from("198.51.100.1")), (true.into(), 1));
    assert_eq!(denied(&from("192.0.2.1")), (false.into(), 2));
}

/// What a variable of the environment holds, and what a route writes into fields that look like credentials.
#[test]
fn secrets_of_the_configuration_are_not_shown() {
    let folder = site(
        "listeners: [{ name: http, bind: \":8080\", policies: [sso] }]
upstreams: { web: { servers: [\"10.0.0.10:8080\"] }, sso: { servers: [\"127.0.0.1:4180\"] } }
policies: { sso: { forward_auth: { upstream: sso, path: \"/auth?k=literal-secret\" } } }
routes:
  - { path: \"/{*rest}\", upstream: web, rewrite: \"/${A_PREFIX}/{rest}\", request_headers: { set: { X-Api-Key: literal-secret, X-Plain: \"of ${A_SECRET}\", X-Other: shown } } }
  - { path: /own, respond: { status: 200 }, response_headers: { set: { Set-Cookie: \"a=literal-secret\", X-Plain: \"${A_SECRET}\" } } }
",
    );
    let other = std::fs::read_to_string(folder.path().join("portunus.yaml"))
        .unwrap()
        .replace("of ${A_SECRET}", "by ${A_SECRET}");
    fs::write(folder.path().join("other.yaml"), other).unwrap();
    let said = |arguments: &[&str]| {
        let mut command = std::process::Command::new(crate::harness::PORTUNUS);
        command.current_dir(folder.path()).args(arguments);
        let output = command.env("A_SECRET", "held-by-a-variable").env("A_PREFIX", "prefixed").output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!said.contains("literal-secret") && !said.contains("held-by"), "{said}");
        said
    };
    for format in [&[][..], &["--json"]] {
        let sent = said(
            &[&["explain", "portunus.yaml", "GET", "http://a:8080/x", "-H", "Authorization: mine"], format].concat(),
        );
        let shown = ["(redacted)", "of ${A_SECRET}", "/${A_PREFIX}/x", "shown", "mine", "/auth?(redacted)"];
        shown.iter().for_each(|text| assert!(sent.contains(text), "{text} in {sent}"));
        let own = said(&[&["explain", "portunus.yaml", "GET", "http://a:8080/own"], format].concat());
        assert!(own.contains("(redacted)") && own.contains("${A_SECRET}"), "{own}");
    }
    let changed = said(&["diff", "portunus.yaml", "other.yaml"]);
    assert!(changed.contains("of ${A_SECRET}") && changed.contains("by ${A_SECRET}"), "{changed}");
}

/// Names of the routes that lose, each with why.
fn lost(said: &Value) -> Vec<(&str, &str)> {
    let lost = said["routes"]["lost"].as_array().unwrap().iter();
    lost.map(|route| (route["name"].as_str().unwrap(), route["why"].as_str().unwrap())).collect()
}

#[test]
fn each_route_that_loses_says_why() {
    let folder = site(SITE);
    let ask = |arguments: &[&str]| explained(folder.path(), arguments);
    let said = ask(&["GET", "http://shop.example:8080/v1/users"]);
    assert_eq!(said["routes"]["taken"]["name"], "shop");
    let hosts = [("beta", "host"), ("vip", "host"), ("new-users", "host"), ("api", "host"), ("*/{*rest}", "host")];
    assert_eq!(lost(&said), hosts);
    let said = ask(&["POST", "http://a.example:8081/v1/users", "--from", "203.0.113.9", "-H", "x-beta: 1"]);
    assert_eq!(said["routes"]["taken"]["name"], "beta");
    let why = lost(&said);
    assert_eq!(why[..3], [("vip", "less_specific"), ("inside", "less_specific"), ("new-users", "less_specific")]);
    let details: Vec<&str> =
        said["routes"]["lost"].as_array().unwrap().iter().map(|route| route["detail"].as_str().unwrap()).collect();
    assert_eq!(
        details,
        [
            "its conditions are more exact",
            "its conditions are more exact",
            "its conditions are more exact",
            "its path is more specific",
            "its path is more specific"
        ]
    );
    let said = ask(&["POST", "http://a.example:8080/v1/users"]);
    let group = |at: usize| {
        let group = &said["upstream"]["upstreams"][at];
        let servers = group["servers"].as_array().unwrap().iter().map(|server| server["address"].as_str().unwrap());
        let text = |member: &str| group[member].as_str().unwrap().to_owned();
        (text("name"), group["weight"].as_u64().unwrap(), text("protocol"), servers.collect::<Vec<_>>())
    };
    let web = ("web".to_owned(), 9, "http1".to_owned(), vec!["10.0.0.10:8080", "10.0.0.11:8080"]);
    let beta = ("beta".to_owned(), 1, "http2".to_owned(), vec!["beta.internal:80"]);
    assert_eq!((group(0), group(1)), (web, beta), "a split lists the servers of all its groups");
    let said = ask(&["GET", "http://a.example:8081//v1/users"]);
    assert_eq!((&said["response"]["reason"], &said["routes"].get("taken")), (&"ambiguous_path".into(), &None));
    assert_eq!(lost(&said)[0], ("*/{*rest}", "path_rejected"));
}

#[test]
fn an_upstream_of_http_2_is_shown_its_request() {
    let folder = site(SITE);
    let said = explained(folder.path(), &["GET", "http://a.example:8080/v1/users", "-H", "x-beta: 1"]);
    let upstream = &said["upstream"];
    assert_eq!(
        (&upstream["upstreams"][0]["protocol"], &upstream["request_line"]),
        (&"http2".into(), &"GET /v1/users HTTP/2".into())
    );
    assert_eq!(upstream["fields"][0], serde_json::json!({ "name": ":authority", "value": "a.example:8080" }));
}

#[test]
fn the_listener_is_found_by_port_or_scheme_or_asked_for() {
    let folder = site(SITE);
    let fails = |arguments: &[&str], expected: &str| {
        let output = portunus(folder.path(), &[&["explain", "portunus.yaml"], arguments].concat());
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), err.as_str(), &output.stdout[..]), (Some(1), expected, &b""[..]));
    };
    let several = "error: several listeners may serve http on port 80; say which with --listener: http, inner\n";
    fails(&["GET", "http://a.example/"], several);
    fails(&["GET", "https://a.example/"], "error: no listener serves https\n");
    fails(
        &["GET", "http://a.example/", "--listener", "web"],
        "error: there is no listener `web`; there are: http, inner, raw\n",
    );
    fails(&["GET", "a.example/"], "error: a whole URL is needed, such as https://example.com/path\n");
    fails(&["G T", "http://a.example/"], "error: `G T` is not a method\n");
    fails(&["GET", "http://a.example/", "-H", "x"], "error: `x` is not a header; write it as `Name: value`\n");
    let said = explained(folder.path(), &["GET", "http://127.0.0.1:8081/"]);
    assert_eq!((&said["listener"]["name"], &said["listener"]["chosen_by"]), (&"inner".into(), &"port".into()));
    let said = explained(folder.path(), &["GET", "http://a.example/", "--listener", "inner"]);
    assert_eq!((&said["listener"]["name"], &said["listener"]["chosen_by"]), (&"inner".into(), &"name".into()));
}

#[test]
fn problems_of_the_file_are_those_of_check() {
    let folder = site("listeners: [{ name: a, bind: ':99999' }]\n");
    let output = portunus(folder.path(), &["explain", "portunus.yaml", "GET", "http://a.example/"]);
    let checked = portunus(folder.path(), &["check", "portunus.yaml"]);
    assert_eq!((output.status.code(), output.stderr), (Some(1), checked.stderr));
}

/// A client certificate is read from a file, and counts in conditions and fields.
#[test]
fn a_client_certificate_is_shown_where_one_is_asked_for() {
    let folder = site(
        "keystores: { main: { folder: certs } }
listeners:
  - { name: tls, bind: \":8443\", tls: { keystore: main, client_certificate: { mode: required, ca: ca.pem, allow_san: [\"DNS:client.example\"] } } }
upstreams: { web: { servers: [\"10.0.0.1:80\"] } }
routes:
  - { path: \"/{*rest}\", respond: { status: 403 } }
  - { name: known, path: \"/{*rest}\", upstream: web, when: { certificate: { san: \"DNS:client.example\" } } }
",
    );
    let ca = DevCa::new("Test CA").unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("certs")).unwrap();
    write("ca.pem", &ca.certificate_pem());
    let server = ca.issue(&["a.example"], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
    write("certs/a.pem", &format!("{}{}", server.certificate_pem, server.key_pem.as_str()));
    for name in ["client", "stranger"] {
        let client = ca.issue(&[&format!("{name}.example")], tls::KeyType::Ecdsa, Purpose::Client).unwrap();
        write(&format!("{name}.pem"), &client.certificate_pem);
    }
    let url = "https://a.example:8443/";
    let said = explained(folder.path(), &["GET", url, "--client-certificate", "client.pem"]);
    assert_eq!((&said["routes"]["taken"]["name"], &said["tls"]["lacks_certificate"]), (&"known".into(), &false.into()));
    let fields = said["upstream"]["fields"].as_array().unwrap();
    assert!(fields.iter().any(|field| field["name"] == "X-Client-Cert-San" && field["value"] == "DNS:client.example"));
    let said = explained(folder.path(), &["GET", url, "--client-certificate", "stranger.pem"]);
    assert_eq!((&said["tls"]["rejected"], said.get("routes")), (&"access_denied".into(), None));
    let said = explained(folder.path(), &["GET", url]);
    assert_eq!((&said["tls"]["lacks_certificate"], &said["response"]["status"]), (&true.into(), &403.into()));
    let output = portunus(folder.path(), &["explain", "portunus.yaml", "GET", url, "--client-certificate", "gone.pem"]);
    assert_eq!(output.status.code(), Some(1));
}

/// Nobody is asked, and nothing is connected to.
#[test]
fn nothing_leaves_the_process() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = site(&format!(
        "listeners: [{{ name: web, bind: \":8080\" }}]
tokens:
  opaque: {{ introspection: {{ url: \"http://{address}/introspect\", client_id: a, client_secret: {{ file: secret }} }} }}
  remote: {{ jwt: {{ algorithms: RS256, key_url: {{ url: \"https://{address}/keys\", tls: {{ ca: ca.pem }} }} }} }}
policies:
  service: {{ forward_auth: {{ upstream: app, path: /auth }} }}
  opaque: {{ jwt: {{ verifier: opaque }} }}
  remote: {{ jwt: {{ verifier: remote }} }}
contracts: {{ api: {{ document: api.yaml, tokens: opaque }} }}
upstreams: {{ app: {{ servers: [\"{address}\"] }}, copy: {{ servers: [\"{address}\"] }} }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app, policies: [service, opaque, remote], contract: api, mirror: {{ upstream: copy, percent: 100 }} }}
"
    ));
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("secret", "a secret of thirty-two bytes or so");
    write("ca.pem", &DevCa::new("Test CA").unwrap().certificate_pem());
    write(
        "api.yaml",
        "openapi: 3.1.0
info: { title: t, version: '1' }
components: { securitySchemes: { id: { type: http, scheme: bearer } } }
paths: { /a: { get: { security: [{ id: [] }], responses: { default: { description: d } } } } }
",
    );
    let said = explained(folder.path(), &["GET", "http://a.example:8080/a", "-H", "Authorization: Bearer abc"]);
    let outcomes: Vec<&Value> = said["policies"].as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["unknown", "unknown", "unknown"]);
    assert_eq!(
        (&said["contract"]["decision"], &said["contract"]["unverified_token"]),
        (&"passed".into(), &true.into())
    );
    assert_eq!(said["upstream"]["mirror"], serde_json::json!({ "upstream": "copy", "percent": 100 }));
    let said = explained(folder.path(), &["GET", "http://a.example:8080/a"]);
    assert_eq!(said["response"]["reason"], "credentials_missing", "what needs nobody is known");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().map(|_| ()).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody connected");
}
