//! Who may come in: tokens on listeners, hosts and routes, what they say to the upstream, and the switch for maintenance.

use std::fs;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use tls::crypto::verify::{MacKey, Sha2};

use crate::frames::{Frames, Outcome};
use crate::harness::{Gate, Reply, Upstream, ask_on, connect, read_response, wait_until};

const SECRET: &str = "a secret of thirty-two bytes or so";

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        (0..=three.len()).for_each(|at| out.push(DIGITS[(word >> (18 - 6 * at)) as usize & 63] as char));
    }
    out
}

/// A genuine token with these claims beside `exp`.
pub fn token(claims: &str) -> String {
    let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 600;
    let text = format!(
        "{}.{}",
        base64url(br#"{"alg":"HS256"}"#),
        base64url(format!(r#"{{"exp":{exp},{claims}}}"#).as_bytes())
    );
    let mac = MacKey::new(SECRET.as_bytes().to_vec()).mac(Sha2::Sha256, text.as_bytes()).unwrap();
    format!("{text}.{}", base64url(&mac))
}

struct Site {
    gate: Gate,
    upstream: Upstream,
}

/// `parts`: further keys of the listener and of the route `/a`.
fn yaml(upstream: &Upstream, policies: &str, [listener, route]: [&str; 2], more: &str) -> String {
    format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\"{listener} }}
tokens:
  id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }}
policies:
{policies}
upstreams:
  app: {{ servers: [\"{}\"] }}
routes:
  - {{ path: /a, upstream: app{route} }}
  - {{ path: /open, upstream: app }}
  - {{ path: /fixed, respond: {{ status: 204 }}{route} }}
admin: {{ bind: \"127.0.0.2:0\" }}
{more}
",
        upstream.address
    )
}

impl Site {
    fn start(policies: &str, parts: [&str; 2]) -> Site {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        let upstream = Upstream::ok();
        Site { gate: Gate::start_in(folder, &yaml(&upstream, policies, parts, "")), upstream }
    }

    /// Status and head of the response to a GET.
    fn get(&self, path: &str, fields: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h.example\r\n{fields}Connection: close\r\n\r\n");
        let (head, _) = ask_on(self.gate.address("web"), &request);
        (head[9..12].parse().unwrap(), head)
    }

    fn show(&self, path: &str, claims: &str, fields: &str) -> u16 {
        self.get(path, &format!("Authorization: Bearer {}\r\n{fields}", token(claims))).0
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

const STAFF: &str = "  staff: { jwt: { verifier: id, scopes: [read], claims: { role: [admin, ops] }, set: { X-User: sub, X-Roles: role, X-Forwarded-Email: contact.mail } } }";

#[test]
fn a_token_lets_in_and_says_to_the_upstream_who_comes() {
    let site = Site::start(STAFF, ["", ", policies: staff"]);
    let good = r#""sub":"u1","scope":"read write","role":["dev","ops"],"contact":{"mail":"a@b.test"}"#;
    assert_eq!(site.show("/a", good, ""), 200);
    let seen = &site.upstream.seen()[0];
    assert_eq!((seen.fields("x-user"), seen.fields("x-roles")), (vec!["u1"], vec!["dev,ops"]));
    assert_eq!(seen.fields("x-forwarded-email"), ["a@b.test"]);
    let log = &site.gate.log(1)[0];
    assert_eq!((&log["user"], &log["status"]), (&"u1".into(), &200.into()));

    let (status, head) = site.get("/a", "");
    assert_eq!((status, field(&head, "WWW-Authenticate")), (401, Some("Bearer")));
    let (status, head) = site.get("/a", "Authorization: Bearer nonsense\r\n");
    assert_eq!((status, field(&head, "WWW-Authenticate")), (401, Some("Bearer error=\"invalid_token\"")));
    let lacking = token(r#""sub":"u1","scope":"write","role":"ops""#);
    let (status, head) = site.get("/a", &format!("Authorization: Bearer {lacking}\r\n"));
    let scope = Some("Bearer error=\"insufficient_scope\", scope=\"read\"");
    assert_eq!((status, field(&head, "WWW-Authenticate")), (403, scope));
    for claims in [
        r#""sub":"u1","scope":"read""#,
        r#""sub":"u1","scope":"read","role":"dev""#,
        r#""sub":"u1","scope":"read","role":["OPS"]"#,
    ] {
        assert_eq!(site.show("/a", claims, ""), 403, "{claims}");
    }
    // Fixed responses are behind it, too; other routes are not.
    assert_eq!((site.get("/fixed", "").0, site.get("/open", "").0), (401, 200));
    let reasons: Vec<_> =
        site.gate.log(9).iter().map(|line| line["reason"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(
        reasons,
        [
            "",
            "credentials_missing",
            "jwt_malformed",
            "jwt_scope",
            "jwt_claim",
            "jwt_claim",
            "jwt_claim",
            "credentials_missing",
            ""
        ]
    );
    let line = "portunus_policy_decisions_total{policy=\"staff\",decision=\"rejected\",reason=\"jwt_claim\"} 3";
    assert!(site.gate.metrics().contains(line));
    assert_eq!(site.upstream.seen().len(), 2, "what is rejected does not reach the upstream");
}

/// Whoever the upstream believes, it is not the client: the fields that a policy sets end here whatever the route, spelling, version and place.
#[test]
fn nobody_says_who_they_are_by_themselves() {
    let site = Site::start(STAFF, ["", ", policies: staff"]);
    let spoofed = "X-User: root\r\nx-user: admin\r\nX-Roles: admin\r\nX-Forwarded-Email: root@b.test\r\n";
    assert_eq!(site.show("/a", r#""sub":"u1","scope":"read","role":"ops""#, spoofed), 200);
    assert_eq!(site.get("/open", spoofed).0, 200);
    let seen = site.upstream.seen();
    assert_eq!((seen[0].fields("x-user"), seen[0].fields("x-roles")), (vec!["u1"], vec!["ops"]));
    assert!(seen[0].fields("x-forwarded-email").is_empty(), "a claim that is missing leaves nothing of the client's");
    for name in ["x-user", "x-roles", "x-forwarded-email"] {
        assert!(seen[1].fields(name).is_empty(), "{name}");
    }
    assert_eq!(site.get("/open", "X_User: root\r\n").0, 400, "some servers read it as X-User");
    // Behind a body.
    let mut client = connect(site.gate.address("web"));
    let request = format!(
        "POST /a HTTP/1.1\r\nHost: h.example\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\nTrailer: X-User\r\n\r\n1\r\na\r\n0\r\nX-User: root\r\nX-Other: 1\r\n\r\n",
        token(r#""sub":"u2","scope":"read","role":"ops""#)
    );
    client.write_all(request.as_bytes()).unwrap();
    assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"));
    let raw = String::from_utf8_lossy(&site.upstream.raw()).into_owned();
    assert!(!raw.contains("root"), "{raw}");
    // What `Connection` nominates is gone before ours is written.
    let nominated = "Connection: X-User\r\n";
    assert_eq!(site.show("/a", r#""sub":"u3","scope":"read","role":"ops""#, nominated), 200);
    assert_eq!(site.upstream.seen().last().unwrap().fields("x-user"), ["u3"]);
}

#[test]
fn http2_is_no_way_around() {
    let site = Site::start(STAFF, ["", ", policies: staff"]);
    let mut client = Frames::open_plain(site.gate.address("web"));
    let bearer = format!("Bearer {}", token(r#""sub":"u1","scope":"read","role":"ops""#));
    let head: Vec<(&str, &[u8])> = vec![
        (":method", b"GET"),
        (":scheme", b"http"),
        (":authority", b"h.example"),
        (":path", b"/a"),
        ("x-user", b"root"),
    ];
    client.headers(1, &head, true);
    assert!(matches!(client.outcome(1), Outcome::Response(401, _)));
    client.headers(3, &[&head[..], &[("authorization", bearer.as_bytes())]].concat(), true);
    assert!(matches!(client.outcome(3), Outcome::Response(200, _)));
    assert_eq!(site.upstream.seen()[0].fields("x-user"), ["u1"]);
}

#[test]
fn a_token_may_be_in_a_cookie_or_missing() {
    let policies = "  maybe: { jwt: { verifier: id, allow_missing: true, set: { X-User: sub } } }\n  cookie: { jwt: { verifier: id, cookie: session } }";
    let site = Site::start(policies, [", policies: maybe", ", policies: cookie"]);
    let good = token(r#""sub":"u1""#);
    let in_cookie = format!("Cookie: a=b; session={good}\r\n");
    let statuses = [
        ("/open", String::new(), 200),
        ("/open", "Authorization: Basic dTpw\r\n".to_owned(), 200),
        ("/open", format!("Authorization: Bearer {good}\r\n"), 200),
        // What some readers would take for a token is no missing one.
        ("/open", "Authorization: Bearer\r\n".to_owned(), 401),
        ("/open", format!("Authorization: Bearer\t{good}\r\n"), 401),
        ("/open", format!("Authorization: Basic dTpw\r\nAuthorization: Bearer {good}\r\n"), 401),
        ("/open", "Authorization: Bearer x.y.z\r\n".to_owned(), 401),
        ("/open", format!("Authorization: Basic dTpw, Bearer {good}\r\n"), 401),
        ("/open", format!("Authorization: Bearer {good},Basic\r\n"), 401),
        ("/open?access_token=x", String::new(), 401),
        ("/open?a=b&access%5Ftoken=x", format!("Authorization: Bearer {good}\r\n"), 401),
        ("/a", in_cookie.clone(), 200),
        ("/a", format!("Authorization: Bearer {good}\r\n"), 401),
        ("/a", format!("{in_cookie}Cookie: session={good}\r\n"), 401),
        ("/a", "Cookie: session=\r\n".to_owned(), 401),
    ];
    for (path, fields, expected) in statuses {
        assert_eq!(site.get(path, &fields).0, expected, "{path} {fields}");
    }
    let users: Vec<_> = site.upstream.seen().iter().map(|seen| seen.fields("x-user").join("|")).collect();
    assert_eq!(users, ["", "", "u1", ""]);
}

/// A number that readers round, a list whose items hold commas: what cannot be told in one way is not told.
#[test]
fn claims_that_could_be_taken_for_others_are_rejected() {
    let site =
        Site::start("  p: { jwt: { verifier: id, set: { X-User: sub, X-Groups: groups } } }", ["", ", policies: p"]);
    for (claims, expected) in [
        (r#""sub":"u\r\nX-Admin: 1""#, 403),
        (r#""sub":" u""#, 403),
        (r#""sub":12345678901234567890"#, 403),
        (r#""sub":{"a":1}"#, 403),
        (r#""sub":"u","groups":["a,root"]"#, 403),
        (r#""sub":"u","groups":["a","b"]"#, 200),
        (r#""sub":42,"groups":[]"#, 200),
    ] {
        assert_eq!(site.show("/a", claims, ""), expected, "{claims}");
    }
    let seen = site.upstream.seen();
    assert_eq!((seen[1].fields("x-user"), seen[1].fields("x-groups").len()), (vec!["42"], 0));
    assert!(!String::from_utf8_lossy(&site.upstream.raw()).contains("X-Admin"));
}

#[test]
fn opaque_tokens_are_looked_up_and_their_claims_told() {
    let server = Upstream::start(|seen| {
        let good = String::from_utf8_lossy(&seen.body).contains("token=good&");
        let body = if good {
            r#"{"active":true,"scope":"read","username":"ada","realm":{"roles":["a"]},"huge":[1]}"#
        } else {
            r#"{"active":false}"#
        };
        Reply::Close(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
    });
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let upstream = Upstream::ok();
    let policies = "  p: { jwt: { verifier: ask, scopes: read, claims: { realm.roles: a }, set: { X-User: username } } }\n  q: { mode: log, jwt: { verifier: ask } }";
    let text = yaml(&upstream, policies, ["", ", policies: [p]"], "").replace(
        "policies:\n",
        &format!(
            "  ask: {{ introspection: {{ url: \"http://{}/\", client_secret: {{ file: token }} }} }}\npolicies:\n",
            server.address
        ),
    );
    fs::write(folder.path().join("token"), "s3cret").unwrap();
    let site = Site { gate: Gate::start_in(folder, &text), upstream };
    for (token, expected) in [("good", 200), ("bad", 401), ("good", 200), ("bad", 401)] {
        assert_eq!(site.get("/a", &format!("Authorization: Bearer {token}\r\n")).0, expected, "{token}");
    }
    assert_eq!((server.seen().len(), site.upstream.seen()[0].fields("x-user")), (2, vec!["ada"]));
}

#[test]
fn a_policy_that_only_logs_lets_bad_tokens_pass_without_a_name() {
    let site = Site::start("  p: { mode: log, jwt: { verifier: id, set: { X-User: sub } } }", ["", ", policies: p"]);
    assert_eq!(site.get("/a", "X-User: root\r\nAuthorization: Bearer x\r\n").0, 200);
    assert!(site.upstream.seen()[0].fields("x-user").is_empty());
    assert!(site.gate.metrics().contains("{policy=\"p\",decision=\"logged\",reason=\"jwt_malformed\"} 1"));
}

#[test]
fn a_file_switches_maintenance_on_and_off() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("maintenance");
    let policies = format!(
        "  m: {{ maintenance: {{ file: {}, retry_after: 90s }} }}\n  most: {{ maintenance: {{ file: {}, except: 127.0.0.0/8 }} }}",
        file.display(),
        file.display()
    );
    let site = Site::start(&policies, [", policies: most", ", policies: m"]);
    assert_eq!((site.get("/a", "").0, site.get("/open", "").0), (200, 200));
    fs::write(&file, "").unwrap();
    wait_until("maintenance", || site.get("/a", "").0 == 503);
    let (_, head) = site.get("/a", "");
    assert_eq!(field(&head, "Retry-After"), Some("90"));
    assert_eq!(site.get("/open", "").0, 200, "who is excepted passes");
    site.gate.wait_for("maintenance begins");
    let seen = site.upstream.seen().len();
    assert_eq!(site.get("/a", "").0, 503);
    assert_eq!(site.upstream.seen().len(), seen);
    fs::remove_file(&file).unwrap();
    wait_until("its end", || site.get("/a", "").0 == 200);
    let reasons: Vec<_> =
        site.gate.log(6).iter().filter(|line| line["status"] == 503).map(|line| line["reason"].clone()).collect();
    assert!(reasons.iter().all(|reason| reason == "maintenance"), "{reasons:?}");
}
