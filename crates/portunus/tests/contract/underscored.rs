//! Header names with an underscore: what the document declares passes as it is, and nothing that could be taken for it, or that it could be taken for.

use std::io::Write as _;
use std::process::Command;

use super::site::{Site, folder};
use crate::harness::frames::{Frames, Outcome};
use crate::harness::{Gate, Reply, Seen, Upstream, connect, exchange, read_response, statuses};

const DOCUMENT: &str = "openapi: 3.0.3
info: { title: t, version: '1' }
paths:
  /a:
    get: { parameters: [{ name: trace_id, in: header, schema: { type: string, maxLength: 3 } }], security: [{ key: [] }, {}], responses: { default: { description: any } } }
    post: { security: [{ key: [] }], requestBody: { content: { application/json: {} } }, responses: { default: { description: any } } }
  /b:
    get: { responses: { default: { description: any } } }
  /both:
    get: { parameters: [{ name: x_y, in: header, schema: { type: string } }, { name: x-y, in: header, schema: { type: string } }], responses: { default: { description: any } } }
  /ours:
    get:
      parameters:
        - { name: X_Forwarded_For, in: header, schema: { type: string } }
        - { name: X_Request_Id, in: header, schema: { type: string } }
        - { name: X_Client_Cert_Subject, in: header, schema: { type: string } }
        - { name: content_type, in: header, schema: { type: string } }
        - { name: X_Role, in: header, schema: { type: string } }
        - { name: X_Tenant, in: header, schema: { type: string } }
        - { name: X_Account, in: header, schema: { type: string } }
        - { name: X_Listener_Token, in: header, schema: { type: string } }
        - { name: X_Host_Address, in: header, schema: { type: string } }
        - { name: X_Elsewhere, in: header, schema: { type: string } }
      responses: { default: { description: any } }
components:
  securitySchemes: { key: { type: apiKey, in: header, name: api_key } }
";

const LISTS: &[(&str, &str)] = &[("denied.txt", "denied\n"), ("allowed.txt", "127.0.0.1\n")];

fn yaml(upstream: &Upstream, contract: &str) -> String {
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
  - {{ name: other, bind: \"127.0.0.1:0\", contract: around }}
hosts: {{ b.test: {{ contract: host }} }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
policies: {{ accounts: {{ rate_limit: {{ rate: 1000/s, key: {{ header: X-Account }} }} }} }}
contracts:
  api: {{ document: openapi.yaml{contract} }}
  around: {{ document: openapi.yaml{contract}, deny_tokens: {{ file: denied.txt, header: X-Listener-Token }} }}
  host: {{ document: openapi.yaml{contract}, allow_addresses: {{ file: allowed.txt, header: X-Host-Address }} }}
  elsewhere: {{ document: openapi.yaml{contract}, deny_tokens: {{ file: denied.txt, header: X-Elsewhere }} }}
routes:
  - {{ name: free, path: \"/free/{{*rest}}\", upstream: app }}
  - {{ name: tenant, path: \"/tenant\", headers: {{ X-Tenant: a }}, upstream: app }}
  - {{ name: all, path: \"/{{*rest}}\", upstream: app, contract: api, request_headers: {{ set: {{ X-Role: guest }} }} }}
",
        upstream.address
    )
}

fn site(contract: &str) -> Site {
    site_with(contract, "")
}

fn site_with(contract: &str, top: &str) -> Site {
    let ok = |_: &Seen| Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec());
    let upstream = Upstream::start(ok);
    let gate = Gate::start_in(folder(DOCUMENT, LISTS), &format!("{top}{}", yaml(&upstream, contract)));
    Site { gate, upstream }
}

/// What becomes of a request.
enum Then {
    /// The upstream sees this field.
    Has(&'static str),
    /// The upstream sees the request, and no field of this name.
    Lacks(&'static str),
    /// It is rejected with 400.
    Rejected,
}

use Then::{Has, Lacks, Rejected};

const ROWS: &[(&str, &str, Then)] = &[
    ("GET /a", "api_key: k", Has("api_key: k")),
    ("GET /a", "Api_Key: k", Has("Api_Key: k")),
    ("HEAD /a", "api_key: k", Has("api_key: k")),
    ("GET /a", "trace_id: abc\r\napi_key: k", Has("trace_id: abc")),
    // Who is not declared is a field as any other.
    ("GET /a", "api-key: k", Has("api-key: k")),
    ("GET /a", "api_key: k\r\nother_one: 1", Has("other_one: 1")),
    ("GET /a", "_api_key: k", Has("_api_key: k")),
    ("GET /a", "api__key: k", Has("api__key: k")),
    ("GET /b", "api_key: k", Has("api_key: k")),
    ("GET /free/a", "api_key: k", Has("api_key: k")),
    ("GET /free/a", "api.key: k", Lacks("api.key")),
    // Two spellings of one that is.
    ("GET /a", "api_key: k\r\napi-key: j", Rejected),
    ("GET /a", "API-KEY: j\r\napi_key: k", Rejected),
    ("GET /a", "trace_id: abc\r\ntrace-id: abc", Rejected),
    ("GET /a", "api_key: k\r\napi.key: j", Lacks("api.key")),
    ("GET /a", "api_key: k\r\nX_Forwarded_For: 1.1.1.1", Lacks("X_Forwarded_For")),
    ("GET /a", "api_key: k\r\nContent_Length: 1", Rejected),
    ("GET /both", "x-y: 1", Has("x-y: 1")),
    ("GET /both", "x_y: 1", Rejected),
    ("GET /free/a", "x_y: 1", Has("x_y: 1")),
    ("GET /ours", "X_Forwarded_For: 1.1.1.1", Lacks("X_Forwarded_For")),
    ("GET /ours", "X_Request_Id: 1", Lacks("X_Request_Id")),
    ("GET /ours", "X_Client_Cert_Subject: CN=a", Lacks("X_Client_Cert_Subject")),
    ("GET /ours", "content_type: a", Lacks("content_type")),
    ("GET /ours", "X_Role: admin", Lacks("X_Role")),
    ("GET /ours", "X_Tenant: a", Lacks("X_Tenant")),
    ("GET /ours", "X_Account: a", Lacks("X_Account")),
    ("GET /ours", "X_Listener_Token: a", Lacks("X_Listener_Token")),
    ("GET /ours", "X_Host_Address: 127.0.0.1", Lacks("X_Host_Address")),
    ("GET /ours", "X_Elsewhere: a", Lacks("X_Elsewhere")),
];

impl Then {
    fn check(&self, site: &Site, got: u16, seen_before: usize, what: &str) {
        let is_rejected = matches!(self, Rejected);
        assert_eq!(got, if is_rejected { 400 } else { 200 }, "{what}");
        assert_eq!(site.seen() - seen_before, usize::from(!is_rejected), "{what}");
        let fields = |name: &str| site.upstream.seen().pop().unwrap().fields(name).join("|");
        match self {
            Has(field) => {
                let (name, value) = field.split_once(": ").unwrap();
                assert_eq!(fields(name), value, "{what}");
            }
            Lacks(name) => assert_eq!(fields(name), "", "{what}"),
            Rejected => {}
        }
    }
}

#[test]
fn declared_names_pass_as_they_are_and_nothing_else() {
    for mode in ["", ", request: log", ", request: \"off\""] {
        let site = site(mode);
        for (line, fields, then) in ROWS {
            let before = site.seen();
            let request = format!("{line} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n\r\n");
            let statuses = statuses(&exchange(site.gate.address("web"), request.as_bytes()));
            assert_eq!(statuses.len(), 1);
            then.check(&site, statuses[0], before, &format!("{mode} {line} {fields}"));
        }
    }
}

/// With `reject`, only what the operation declares goes on.
#[test]
fn others_are_rejected_where_that_is_set() {
    let site = site_with("", "headers: { unusual_names: reject }\n");
    for (line, fields, then) in [
        ("GET /a", "api_key: k", Has("api_key: k")),
        ("GET /a", "api_key: k\r\nother_one: 1", Rejected),
        ("GET /a", "api.key: k", Rejected),
        ("GET /b", "api_key: k", Rejected),
        ("PUT /a", "api_key: k", Rejected),
        ("GET /none", "api_key: k", Rejected),
        ("GET /free/a", "api_key: k", Rejected),
        ("GET /ours", "X_Role: admin", Rejected),
    ] {
        let before = site.seen();
        let request = format!("{line} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}\r\n\r\n");
        let got = statuses(&exchange(site.gate.address("web"), request.as_bytes()))[0];
        then.check(&site, got, before, &format!("{line} {fields}"));
    }
}

/// The value is validated as any other's, and the key that the scheme asks for is found.
#[test]
fn declared_names_are_validated() {
    let site = site("");
    assert_eq!(site.get("GET /a", "trace_id: abcd\r\n").status, 400);
    assert_eq!(site.post("POST /a", "application/json", "1").status, 401);
    let with_key = site.post_with("POST /a", "Content-Type: application/json\r\napi_key: k\r\n", "1");
    assert_eq!((with_key.status, site.seen()), (200, 1));
    assert_eq!(site.upstream.seen()[0].fields("api_key"), ["k"]);
}

/// To a server that takes `_` for `-`, a body would follow: nothing behind the head is read as a request.
#[test]
fn what_is_rejected_ends_its_connection() {
    let site = site("");
    for odd in ["Content_Length: 36", "Transfer_Encoding: chunked"] {
        let request =
            format!("GET /a HTTP/1.1\r\nHost: a.test\r\n{odd}\r\n\r\nGET /a HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(statuses(&exchange(site.gate.address("web"), request.as_bytes())), [400], "{odd}");
    }
    assert_eq!(site.seen(), 0);
    // What passes keeps its connection.
    let mut client = connect(site.gate.address("web"));
    for _ in 0..2 {
        client.write_all(b"GET /a HTTP/1.1\r\nHost: a.test\r\napi_key: k\r\n\r\n").unwrap();
        assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn http2_is_no_other() {
    let site = site("");
    for (line, fields, then) in ROWS.iter().filter(|(line, ..)| line.starts_with("GET")) {
        let before = site.seen();
        let names: Vec<(String, &str)> = fields
            .split("\r\n")
            .filter_map(|field| field.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let path = line.trim_start_matches("GET ");
        let mut all: Vec<(&str, &[u8])> =
            vec![(":method", b"GET"), (":scheme", b"http"), (":authority", b"a.test"), (":path", path.as_bytes())];
        all.extend(names.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
        let mut frames = Frames::open_plain(site.gate.address("web"));
        frames.headers(1, &all, true);
        match frames.outcome(1) {
            Outcome::Response(got, _) => then.check(&site, got, before, &format!("{line} {fields}")),
            other => panic!("{line} {fields}: {other:?}"),
        }
    }
}

/// What never goes on is said when the document is loaded.
#[test]
fn names_that_cannot_be_told_apart_are_warned_of() {
    let check = |document: &str, contract: &str| {
        let upstream = Upstream::ok();
        let folder = folder(document, LISTS);
        std::fs::write(folder.path().join("portunus.yaml"), yaml(&upstream, contract)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portunus"));
        let output = command.args(["check", "portunus.yaml"]).current_dir(folder.path()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_good, said) = check(DOCUMENT, "");
    assert!(is_good, "{said}");
    for part in [
        "GET /both: the header x_y is `x-y` to servers that make no difference",
        "GET /ours: the header x_forwarded_for is `x-forwarded-for`",
        "GET /ours: the header x_role is `x-role`",
        "GET /ours: the header x_tenant is `x-tenant`",
        "GET /ours: the header x_account is `x-account`",
        "GET /ours: the header x_listener_token is `x-listener-token`",
        "GET /ours: the header x_host_address is `x-host-address`",
        "GET /ours: the header content_type is `content-type`",
    ] {
        assert!(said.to_lowercase().contains(&part.to_lowercase()), "{part}: {said}");
    }
    assert!(!said.contains("api_key") && !said.contains("trace_id"), "{said}");
    let required = DOCUMENT.replacen("name: x_y, in: header,", "name: x_y, in: header, required: true,", 1);
    assert!(required != DOCUMENT);
    let (is_good, said) = check(&required, "");
    assert!(!is_good && said.contains("rename it, or do not require it"), "{said}");
    assert!(check(&required, ", request: log").0);
}
