//! Who may come in: tokens on listeners, hosts and routes, what they say to the upstream, and the switch for maintenance.

use std::fs;
use std::io::Write as _;

use crate::harness::frames::{Frames, Outcome};
use crate::harness::signing::{SECRET, token};
use crate::harness::{Gate, Reply, Seen, Upstream, ask_on, connect, read_response, vacant, wait_until};

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

    /// Checks how often somebody was asked who sends a request, by outcome.
    fn took<const N: usize>(&self, (method, asked): (&str, &str), outcomes: [(&str, u64); N]) {
        let metrics = self.gate.metrics();
        let name = "portunus_authentication_duration_seconds_count";
        let counts = outcomes.map(|(outcome, _)| {
            let sample = format!("{name}{{method=\"{method}\",asked=\"{asked}\",outcome=\"{outcome}\"}} ");
            let count = metrics.lines().find_map(|line| line.strip_prefix(&sample)?.parse().ok());
            (outcome, count.unwrap_or_default())
        });
        assert_eq!(counts, outcomes, "{metrics}");
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
    assert_eq!(site.get("/open", "X_User: root\r\n").0, 200);
    assert!(!site.upstream.seen().pop().unwrap().head.contains("root"), "some servers read it as X-User");
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
        ("/open", format!("Authorization: Basic dTpw\r\nAuthorization: Bearer {good}\r\n"), 400),
        ("/open", "Authorization: Bearer x.y.z\r\n".to_owned(), 401),
        ("/open", format!("Authorization: Basic dTpw, Bearer {good}\r\n"), 401),
        ("/open", format!("Authorization: Bearer {good},Basic\r\n"), 401),
        ("/open?access_token=x", String::new(), 401),
        ("/open?a=b&access%5Ftoken=x", format!("Authorization: Bearer {good}\r\n"), 401),
        ("/a", in_cookie.clone(), 200),
        ("/a", format!("Authorization: Bearer {good}\r\n"), 401),
        ("/a", format!("{in_cookie}Cookie: session={good}\r\n"), 401),
        ("/a", "Cookie: session=\r\n".to_owned(), 401),
        // Some readers take a name with blanks around it, some the field beside the cookie.
        ("/a", format!("Cookie: session =x.y.z; session={good}\r\n"), 401),
        ("/a", format!("{in_cookie}Authorization: Bearer x.y.z\r\n"), 401),
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
            "  ask: {{ introspection: {{ url: \"http://{}/\", client_secret: {{ file: token }}, timeout: 60s, negative_cache_ttl: 10m }} }}\npolicies:\n",
            server.address
        ),
    );
    fs::write(folder.path().join("token"), "s3cret").unwrap();
    let site = Site { gate: Gate::start_in(folder, &text), upstream };
    for (token, expected) in [("good", 200), ("bad", 401), ("good", 200), ("bad", 401)] {
        assert_eq!(site.get("/a", &format!("Authorization: Bearer {token}\r\n")).0, expected, "{token}");
    }
    assert_eq!((server.seen().len(), site.upstream.seen()[0].fields("x-user")), (2, vec!["ada"]));
    site.took(("introspection", &server.address.to_string()), [("accepted", 1), ("token_inactive", 1)]);
}

#[test]
fn a_policy_that_only_logs_lets_bad_tokens_pass_without_a_name() {
    let site = Site::start("  p: { mode: log, jwt: { verifier: id, set: { X-User: sub } } }", ["", ", policies: p"]);
    assert_eq!(site.get("/a", "X-User: root\r\nAuthorization: Bearer x\r\n").0, 200);
    assert!(site.upstream.seen()[0].fields("x-user").is_empty());
    assert!(site.gate.metrics().contains("{policy=\"p\",decision=\"logged\",reason=\"jwt_malformed\"} 1"));
    assert_eq!(site.gate.log(1)[0]["would_reject"]["p"], "jwt_malformed");
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

/// `htpasswd -nbBC 5 ada secret`, and of `eve` with `hunter2`; made by the test from what the program of Apache writes.
fn users(names: &[(&str, &str)]) -> String {
    let line = |(user, password): &(&str, &str)| {
        format!("{user}:{}\n", bcrypt::hash(password, 5).unwrap().replace("$2b$", "$2y$"))
    };
    names.iter().map(line).collect()
}

fn basic(user: &str, password: &str) -> String {
    let mut out = b"Authorization: Basic ".to_vec();
    proxy::auth::base64url::encode_base64(format!("{user}:{password}").as_bytes(), &mut out);
    format!("{}\r\n", String::from_utf8(out).unwrap())
}

fn with_users(policy: &str, text: &str) -> Site {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    fs::write(folder.path().join("users"), text).unwrap();
    let upstream = Upstream::ok();
    let text = yaml(&upstream, policy, ["", ", policies: people"], "");
    Site { gate: Gate::start_in(folder, &text), upstream }
}

#[test]
fn a_password_lets_in_and_nothing_else_does() {
    let site = with_users(
        "  people: { basic: { file: users, realm: Staff, user_header: X-User } }",
        &users(&[("ada", "secret"), ("eve", "p:w")]),
    );
    for _ in 0..3 {
        assert_eq!(site.get("/a", &format!("X-User: root\r\n{}", basic("ada", "secret"))).0, 200);
    }
    assert_eq!(site.get("/a", &basic("eve", "p:w")).0, 200);
    let seen: Vec<_> = site.upstream.seen().iter().map(|seen| seen.fields("x-user").join("|")).collect();
    assert_eq!(seen, ["ada", "ada", "ada", "eve"]);
    let (status, head) = site.get("/a", "");
    assert_eq!((status, field(&head, "WWW-Authenticate")), (401, Some("Basic realm=\"Staff\", charset=\"UTF-8\"")));
    for (fields, reason) in [
        (basic("ada", "Secret"), "password_wrong"),
        (basic("ada", "Secret"), "password_wrong"),
        (basic("ada", ""), "password_wrong"),
        (basic("bob", "secret"), "password_wrong"),
        (basic("", ""), "password_wrong"),
        (format!("{}{}", basic("ada", "secret"), basic("eve", "p:w")), "duplicate_authorization"),
        ("Authorization: Bearer x\r\n".to_owned(), "credentials_malformed"),
        ("Authorization: Basic YWRhOnNlY3JldA\r\n".to_owned(), "credentials_malformed"),
        (basic("ada", "secret\0x"), "credentials_malformed"),
    ] {
        let before = site.gate.log(5).len();
        let status = if reason == "duplicate_authorization" { 400 } else { 401 };
        assert_eq!(site.get("/a", &fields).0, status, "{fields}");
        assert_eq!(site.gate.log(before + 1)[before]["reason"], reason, "{fields}");
    }
    assert_eq!(site.upstream.seen().len(), 4, "what is rejected does not reach the upstream");
    // What is known already is compared with nothing.
    site.took(("basic", "Staff"), [("accepted", 2), ("password_wrong", 4)]);
    assert_eq!(site.gate.log(1)[0]["user"], "ada");
}

#[test]
fn users_are_read_again_and_a_changed_password_counts_at_once() {
    let site = with_users("  people: { basic: { file: users } }", &users(&[("ada", "old"), ("eve", "p")]));
    assert_eq!((site.get("/a", &basic("ada", "old")).0, site.get("/a", &basic("eve", "p")).0), (200, 200));
    fs::write(site.gate.dir.path().join("users"), users(&[("ada", "new")])).unwrap();
    site.gate.signal("HUP");
    site.gate.wait_for("reloaded");
    let ask = |user: &str, password: &str| site.get("/a", &basic(user, password)).0;
    assert_eq!((ask("ada", "old"), ask("ada", "new"), ask("eve", "p")), (401, 200, 401));
    // What is weak keeps what was there.
    fs::write(site.gate.dir.path().join("users"), "ada:secret\n").unwrap();
    site.gate.signal("HUP");
    site.gate.wait_for("is in plain text, or hashed with DES; write it anew with `htpasswd -B`");
    assert_eq!((ask("ada", "new"), ask("ada", "secret")), (200, 401));
}

#[test]
fn a_user_who_was_renamed_is_nobody_under_the_old_name() {
    let text = users(&[("ada", "secret")]);
    let site = with_users("  people: { basic: { file: users } }", &text);
    assert_eq!(site.get("/a", &basic("ada", "secret")).0, 200);
    fs::write(site.gate.dir.path().join("users"), text.replace("ada:", "bob:")).unwrap();
    site.gate.signal("HUP");
    site.gate.wait_for("reloaded");
    assert_eq!((site.get("/a", &basic("ada", "secret")).0, site.get("/a", &basic("bob", "secret")).0), (401, 200));
}

/// A host with settings of its own is still under the policies of the wildcard above it.
#[test]
fn a_host_without_policies_is_under_those_of_its_wildcard() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let upstream = Upstream::ok();
    let hosts = "error_pages: { plain: { pages: { 5xx: oops.html } } }
hosts: { \"*.example\": { policies: staff }, h.example: { error_pages: none } }";
    fs::write(folder.path().join("oops.html"), "oops").unwrap();
    let gate = Gate::start_in(folder, &yaml(&upstream, STAFF, ["", ""], hosts));
    let site = Site { gate, upstream };
    assert_eq!(site.get("/a", "").0, 401);
    assert!(site.upstream.seen().is_empty());
}

/// Wrong passwords without end: who is known is served all the while, others get a word instead of a wait, and what waits is bounded.
#[test]
fn a_flood_of_wrong_passwords_stalls_nobody_who_is_known() {
    let costly = bcrypt::hash("secret", 8).unwrap();
    let site = with_users("  people: { basic: { file: users } }", &format!("ada:{costly}\n"));
    assert_eq!(site.get("/a", &basic("ada", "secret")).0, 200);
    let address = site.gate.address("web");
    let start = std::sync::Barrier::new(32);
    std::thread::scope(|scope| {
        let start = &start;
        let flood = move |number: usize| {
            start.wait();
            let statuses: Vec<u16> = (0..4)
                .map(|round| {
                    let wrong = basic("ada", &format!("guess-{number}-{round}"));
                    let request = format!("GET /a HTTP/1.1\r\nHost: h.example\r\n{wrong}Connection: close\r\n\r\n");
                    ask_on(address, &request).0[9..12].parse().unwrap()
                })
                .collect();
            statuses
        };
        let threads: Vec<_> = (0..32).map(|number| scope.spawn(move || flood(number))).collect();
        for _ in 0..20 {
            assert_eq!(site.get("/a", &basic("ada", "secret")).0, 200);
            assert_eq!(site.get("/open", "").0, 200);
        }
        let statuses: Vec<u16> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(statuses.iter().all(|status| matches!(status, 401 | 503)), "{statuses:?}");
        assert!(
            statuses.contains(&401) && statuses.contains(&503),
            "some are compared, and no more than may wait: {statuses:?}"
        );
    });
    assert!(site.gate.metrics().contains("decision=\"rejected\",reason=\"password_check_busy\""));
}

/// A gate that asks a service, which responds as `reply` says.
fn with_service(rule: &str, reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Site, Upstream) {
    with_service_at("/verify", rule, reply)
}

fn with_service_at(path: &str, rule: &str, reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Site, Upstream) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let (upstream, service) = (Upstream::ok(), Upstream::start(reply));
    // A service that must respond in time has more of it than usual.
    let patience = if rule.contains("timeout") { "" } else { ", timeout: 60s" };
    let policies = format!("  people: {{ forward_auth: {{ upstream: auth, path: \"{path}\"{rule}{patience} }} }}");
    let text = yaml(&upstream, &policies, ["", ", policies: people"], "")
        .replace("upstreams:\n", &format!("upstreams:\n  auth: {{ servers: [\"{}\"] }}\n", service.address));
    let text = text.replace("path: /a,", "path: \"/{*rest}\",");
    (Site { gate: Gate::start_in(folder, &text), upstream }, service)
}

#[test]
fn a_service_is_asked_and_its_word_copied() {
    let (site, service) = with_service(", copy: [Remote-User, Remote-Groups]", |_| {
        Reply::Keep(b"HTTP/1.1 202 Accepted\r\nRemote-User: ada\r\nX-Other: 1\r\nContent-Length: 2\r\n\r\nok".to_vec())
    });
    let fields = "Cookie: s=1\r\nX-Secret: no\r\nRemote-User: root\r\nRemote-Groups: admins\r\nX-Forwarded-Uri: /open\r\nX-Original-URL: http://x/\r\n";
    for _ in 0..3 {
        assert_eq!(site.get("/a?q=1", fields).0, 200);
    }
    let asked = service.seen();
    assert_eq!((asked.len(), asked[2].connection), (3, 0), "one connection serves them all");
    assert_eq!(asked[0].line(), "GET /verify HTTP/1.1");
    for (name, value) in [
        ("host", service.address.to_string()),
        ("cookie", "s=1".to_owned()),
        ("x-forwarded-method", "GET".to_owned()),
        ("x-forwarded-uri", "/a?q=1".to_owned()),
        ("x-forwarded-host", "h.example".to_owned()),
        ("x-forwarded-proto", "http".to_owned()),
        ("x-forwarded-for", "127.0.0.1".to_owned()),
        ("x-original-url", "http://h.example/a?q=1".to_owned()),
    ] {
        assert_eq!(asked[0].fields(name), [value], "{name}");
    }
    assert!(asked[0].fields("x-secret").is_empty() && asked[0].fields("remote-user").is_empty());
    let seen = &site.upstream.seen()[0];
    assert_eq!(seen.fields("remote-user"), ["ada"]);
    assert!(seen.fields("remote-groups").is_empty(), "what the service does not say nobody says");
    site.took(("forward_auth", "auth"), [("accepted", 3), ("auth_service_denied", 0)]);
    assert_eq!(site.gate.log(1)[0]["user"], "ada");
}

/// As nginx's `auth_request` shows a service a request, but for what Portunus says of it, which a client says in no spelling.
#[test]
fn a_service_gets_all_that_a_client_sent() {
    let (site, service) =
        with_service(", send: \"*\", host: \"{host}\"", |_| Reply::Keep(b"HTTP/1.1 204 No\r\n\r\n".to_vec()));
    let theirs = "X-Own: 1|X-Own: 2|My_Own: 1|X-Forwarded-For: 9.9.9.9|X-Original-URI: /open|X_Original_URI: /open|X-Original-Method: PUT|x.original.method: PUT|X-HTTP-Method: PUT|";
    assert_eq!(site.get("/a?q=1", &theirs.replace('|', "\r\n")).0, 200);
    let names = "host x-own my_own x-original-uri x_original_uri x-original-method x.original.method x-forwarded-for x-http-method";
    let found: Vec<_> = names.split(' ').map(|name| service.seen()[0].fields(name).join(" ")).collect();
    assert_eq!(found, ["h.example", "1 2", "1", "/a?q=1", "", "GET", "", "127.0.0.1", ""]);
}

/// A session that the service renews reaches the client whatever becomes of the request, and only where that is wanted.
#[test]
fn cookies_that_a_service_sets_go_to_the_client_where_they_are_to() {
    let renewing = |_: &Seen| {
        Reply::Keep(
            b"HTTP/1.1 200 OK\r\nSet-Cookie: s=2; HttpOnly\r\nSet-Cookie: t=3\r\nContent-Length: 0\r\n\r\n".to_vec(),
        )
    };
    let cookies = |head: &str| head.matches("Set-Cookie: ").count();
    let (site, _service) = with_service("", renewing);
    assert_eq!(cookies(&site.get("/a", "").1), 0);
    let (site, _service) = with_service(", set_cookies: true", renewing);
    for (path, expected) in [("/a", 2), ("/fixed", 2), ("/open", 0)] {
        let (_, head) = site.get(path, "Access-Control-Allow-Origin: x\r\n");
        assert_eq!(cookies(&head), expected, "{path} {head}");
    }
    let mut client = Frames::open_plain(site.gate.address("web"));
    let head: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":authority", b"h.example"), (":path", b"/a")];
    client.headers(1, &head, true);
    assert!(matches!(client.outcome(1), Outcome::Response(200, _)));
    // Another policy, asked behind it, does not let the request pass.
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let (upstream, service) = (Upstream::ok(), Upstream::start(renewing));
    let policies = "  people: { forward_auth: { upstream: auth, path: /verify, set_cookies: true, timeout: 60s } }\n  pages: { cors: { origins: \"https://app.example\" } }\n  nobody: { allow: 192.0.2.1 }";
    let text = yaml(&upstream, policies, ["", ", policies: [people, pages, nobody]"], "")
        .replace("upstreams:\n", &format!("upstreams:\n  auth: {{ servers: [\"{}\"] }}\n", service.address));
    let site = Site { gate: Gate::start_in(folder, &text), upstream };
    let (status, head) = site.get("/a", "Origin: https://app.example\r\n");
    assert_eq!(
        (status, cookies(&head), head.contains("Access-Control-Allow-Origin: https://app.example")),
        (403, 2, true)
    );
}

/// One server of the service is away: the others are asked, by the name that they are configured under.
#[test]
fn a_service_is_there_while_one_of_its_servers_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let (upstream, service) = (Upstream::ok(), Upstream::ok());
    let text = yaml(
        &upstream,
        "  people: { forward_auth: { upstream: auth, path: /verify, timeout: 60s } }",
        ["", ", policies: people"],
        "",
    );
    let named = format!("localhost:{}", service.address.port());
    let text = text.replace(
        "upstreams:\n",
        &format!("upstreams:\n  auth: {{ servers: [\"{named}\", \"{}\"], ejection: {{ failures: 0 }} }}\n", vacant()),
    );
    let site = Site { gate: Gate::start_in(folder, &text), upstream };
    site.gate.wait_for("addresses of a name have changed");
    for _ in 0..6 {
        assert_eq!(site.get("/a", "").0, 200);
    }
    assert!(service.seen().iter().all(|seen| seen.fields("host") == [&named]));
}

#[test]
fn envoys_form_asks_for_the_request_itself() {
    let (site, service) = with_service(", append_path: true, host: auth.example", |_| {
        Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
    });
    let request = "POST /a?q=1 HTTP/1.1\r\nHost: h.example\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
    assert!(ask_on(site.gate.address("web"), request).0.starts_with("HTTP/1.1 200"));
    let asked = &service.seen()[0];
    assert_eq!(
        (asked.line(), asked.fields("host"), asked.body.len()),
        ("POST /verify/a?q=1 HTTP/1.1", vec!["auth.example"], 0)
    );
    assert_eq!(site.upstream.seen()[0].body, b"body");
}

/// `//admin/users` is the path `/users` of a host to some services; and a query belongs behind the path.
#[test]
fn the_path_that_a_service_is_asked_for_is_joined_as_a_path() {
    for (rule, target, asked) in [
        ("/", "/admin/users?q=1", Some("/admin/users?q=1")),
        ("/auth/?x=1", "/fap/a?q=1", Some("/auth/fap/a?x=1&q=1")),
        ("/auth?x=1", "/fap/a", Some("/auth/fap/a?x=1")),
        ("/", "//admin/users", None),
    ] {
        let (site, service) = with_service_at(rule, ", append_path: true", |_| {
            Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
        });
        let (status, _) = site.get(target, "");
        let lines: Vec<String> = service.seen().iter().map(|seen| seen.line().to_owned()).collect();
        let expected: Vec<String> = asked.iter().map(|asked| format!("GET {asked} HTTP/1.1")).collect();
        assert_eq!(
            (status, lines, site.upstream.seen().len()),
            (if asked.is_some() { 200 } else { 400 }, expected, usize::from(asked.is_some()))
        );
    }
}

#[test]
fn what_the_service_denies_goes_to_the_client_as_it_says() {
    let (site, _service) = with_service("", |seen| {
        let response = match seen.fields("cookie").first() {
            Some(&"s=redirect") => {
                "HTTP/1.1 302 Found\r\nLocation: https://login.example/?rd=x\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 0\r\n\r\n"
            }
            Some(&"s=forbidden") => {
                "HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<no/>\r\n0\r\n\r\n"
            }
            _ => "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Custom x\r\nContent-Length: 0\r\n\r\n",
        };
        Reply::Keep(response.as_bytes().to_vec())
    });
    let (status, head) = site.get("/a", "Cookie: s=redirect\r\n");
    assert_eq!((status, field(&head, "Location")), (302, Some("https://login.example/?rd=x")));
    assert_eq!((head.matches("Set-Cookie: ").count(), head.contains("X-Hop")), (2, false), "{head}");
    let request = "GET /a HTTP/1.1\r\nHost: h.example\r\nCookie: s=forbidden\r\nConnection: close\r\n\r\n";
    let (head, body) = ask_on(site.gate.address("web"), request);
    assert!(head.starts_with("HTTP/1.1 403") && head.contains("Content-Type: text/html"), "{head}");
    assert_eq!(body, b"<no/>");
    let (status, head) = site.get("/a", "");
    assert_eq!((status, field(&head, "WWW-Authenticate")), (401, Some("Custom x")));
    assert!(site.upstream.seen().is_empty());
    assert!(site.gate.log(3).iter().all(|line| line["reason"] == "auth_service_denied" && line["fault"] == "client"));
}

/// Whatever is not clearly a yes lets nobody in.
#[test]
fn a_service_that_is_broken_lets_nobody_in() {
    let (site, _service) = with_service(", copy: X-User, timeout: 20s", |seen| {
        let ok = |fields: &str| Reply::Close(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes());
        match *seen.fields("cookie").first().unwrap_or(&"") {
            "s=half" => Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx".to_vec()),
            "s=reset" => Reply::Reset(Vec::new()),
            "s=500" => Reply::Close(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec()),
            "s=404" => Reply::Close(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()),
            "s=101" => {
                Reply::Close(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_vec())
            }
            "s=304" => Reply::Close(b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec()),
            "s=huge" => ok(&format!("Content-Length: {}\r\n\r\n{}", 100_000, "x".repeat(100_000))),
            "s=twice" => ok("X-User: a\r\nX-User: b\r\nContent-Length: 0\r\n"),
            "s=nonsense" => Reply::Close(b"yes\r\n\r\n".to_vec()),
            _ => ok("X-User: a\r\nContent-Length: 0\r\n"),
        }
    });
    let rows = [
        ("half", 502, "auth_service_invalid"),
        ("reset", 503, "auth_service_unavailable"),
        ("500", 502, "auth_service_invalid"),
        ("404", 502, "auth_service_invalid"),
        ("101", 502, "auth_service_invalid"),
        ("304", 502, "auth_service_invalid"),
        ("huge", 502, "auth_service_invalid"),
        ("twice", 502, "auth_service_invalid"),
        ("nonsense", 502, "auth_service_invalid"),
        ("good", 200, ""),
    ];
    for (cookie, status, _) in rows {
        assert_eq!(site.get("/a", &format!("Cookie: s={cookie}\r\n")).0, status, "{cookie}");
    }
    assert_eq!(site.upstream.seen().len(), 1);
    for (line, (cookie, _, reason)) in site.gate.log(rows.len()).iter().zip(rows) {
        assert_eq!(line["reason"].as_str().unwrap_or_default(), reason, "{cookie}");
        assert_eq!(
            line["fault"].as_str().unwrap_or_default(),
            if reason.is_empty() { "" } else { "upstream" },
            "{cookie}"
        );
    }
}

const BROWSER: &str = "  pages: { cors: { origins: [\"https://app.example\", \"https://*.tenants.example\"], credentials: true, methods: [GET, PUT], headers: [Content-Type, X-Token], expose_headers: X-Total, max_age: 90s } }
  staff: { jwt: { verifier: id } }
  slow: { rate_limit: { rate: 1/h, burst: 2 } }
  public: { cors: { origins: \"*\" } }";

fn preflight(site: &Site, path: &str, origin: &str, method: &str, more: &str) -> (u16, String) {
    let request = format!(
        "OPTIONS {path} HTTP/1.1\r\nHost: h.example\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n{more}Connection: close\r\n\r\n"
    );
    let (head, _) = ask_on(site.gate.address("web"), &request);
    (head[9..12].parse().unwrap(), head)
}

#[test]
fn preflights_are_answered_before_credentials_and_routes_of_other_methods() {
    let site = Site::start(BROWSER, ["", ", policies: [staff, pages], methods: [GET, PUT]"]);
    let (status, head) = preflight(
        &site,
        "/a",
        "https://app.example",
        "PUT",
        "Access-Control-Request-Headers: content-type,x-token\r\n",
    );
    assert_eq!(status, 204, "{head}");
    for (name, value) in [
        ("Access-Control-Allow-Origin", "https://app.example"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Allow-Methods", "GET, PUT"),
        ("Access-Control-Allow-Headers", "content-type, x-token"),
        ("Access-Control-Max-Age", "90"),
        ("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"),
    ] {
        assert_eq!(field(&head, name), Some(value), "{name}: {head}");
    }
    assert_eq!(preflight(&site, "/a", "https://a.b.tenants.example", "GET", "").0, 204);
    for (origin, method, more) in [
        ("https://evil.example", "PUT", ""),
        ("https://app.example.evil.example", "PUT", ""),
        ("https://evil.example/.tenants.example", "PUT", ""),
        ("null", "PUT", ""),
        ("https://app.example", "PUT", "Access-Control-Request-Headers: x-other\r\n"),
        ("https://app.example", "PUT", "Origin: https://evil.example\r\n"),
    ] {
        let (status, head) = preflight(&site, "/a", origin, method, more);
        assert!(
            status != 204 && field(&head, "Access-Control-Allow-Methods").is_none(),
            "{origin} {method} {more}: {head}"
        );
    }
    assert!(site.upstream.seen().is_empty(), "none of it is the upstream's");
    assert_eq!(site.gate.log(1)[0]["status"], 204);
    assert!(site.gate.metrics().contains("{policy=\"pages\",decision=\"rejected\",reason=\"cors_not_allowed\"} 5"));
}

#[test]
fn responses_say_who_may_read_them_and_rejections_do_too() {
    let upstream = |_: &Seen| {
        Reply::Keep(b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\nVary: Accept\r\nX-Total: 1\r\nContent-Length: 0\r\n\r\n".to_vec())
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    let upstream = Upstream::start(upstream);
    let text = yaml(&upstream, BROWSER, ["", ", policies: [pages, staff]"], "")
        .replace("path: /open, upstream: app", "path: /open, upstream: app, policies: public");
    let site = Site { gate: Gate::start_in(folder, &text), upstream };
    let bearer = format!("Authorization: Bearer {}\r\n", token(r#""sub":"u""#));
    let (status, head) = site.get("/a", &format!("Origin: https://app.example\r\n{bearer}"));
    assert_eq!(status, 200);
    let all = |head: &str, name: &str| {
        head.lines().filter(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:"))).count()
    };
    assert_eq!(all(&head, "access-control-allow-origin"), 1, "the upstream's own is replaced: {head}");
    assert_eq!(field(&head, "Access-Control-Allow-Origin"), Some("https://app.example"));
    assert_eq!(field(&head, "Access-Control-Expose-Headers"), Some("x-total"));
    assert_eq!(all(&head, "vary"), 2, "{head}");
    // A page learns that it has to sign in.
    let (status, head) = site.get("/a", "Origin: https://app.example\r\n");
    assert_eq!((status, field(&head, "Access-Control-Allow-Origin")), (401, Some("https://app.example")));
    for fields in
        ["Origin: https://evil.example\r\n", "", "Origin: https://app.example\r\nOrigin: https://evil.example\r\n"]
    {
        let (_, head) = site.get("/a", &format!("{fields}{bearer}"));
        assert_eq!(
            (all(&head, "access-control-allow-origin"), all(&head, "access-control-allow-credentials")),
            (0, 0),
            "{head}"
        );
        assert_eq!(head.matches("Vary: Origin").count(), 1, "a cache keeps origins apart: {head}");
    }
    let (_, head) = site.get("/open", "Origin: https://any.example\r\n");
    assert_eq!((field(&head, "Access-Control-Allow-Origin"), head.contains("Vary: Origin")), (Some("*"), false));
    assert_eq!(all(&head, "access-control-allow-credentials"), 0, "{head}");
    // Over HTTP/2.
    let mut client = Frames::open_plain(site.gate.address("web"));
    let head: Vec<(&str, &[u8])> = vec![
        (":method", b"OPTIONS"),
        (":scheme", b"http"),
        (":authority", b"h.example"),
        (":path", b"/a"),
        ("origin", b"https://app.example"),
        ("access-control-request-method", b"PUT"),
    ];
    client.headers(1, &head, true);
    assert_eq!(client.outcome(1), Outcome::Response(204, Vec::new()));
}

/// What needs no credentials holds for preflights, too.
#[test]
fn preflights_are_limited_as_other_requests_are() {
    let site = Site::start(BROWSER, [", policies: slow", ", policies: pages"]);
    let statuses: Vec<u16> = (0..3).map(|_| preflight(&site, "/a", "https://app.example", "GET", "").0).collect();
    assert_eq!(statuses, [204, 204, 429]);
    // Without a policy for it, OPTIONS is a request like any other.
    let site = Site::start(BROWSER, ["", ", policies: staff"]);
    assert_eq!(preflight(&site, "/open", "https://app.example", "GET", "").0, 200);
    assert_eq!(site.upstream.seen().len(), 1);
}

#[test]
fn a_service_that_hangs_is_waited_for_no_longer_than_its_time() {
    let (site, service) = with_service(", timeout: 100ms", |_| Reply::Silence);
    assert_eq!(site.get("/a", "").0, 503);
    assert_eq!(site.get("/open", "").0, 200, "others do not wait");
    let line = &site.gate.log(1)[0];
    assert_eq!((&line["reason"], &line["fault"]), (&"auth_service_timeout".into(), &"upstream".into()));
    wait_until("the question", || (service.seen().len(), site.upstream.seen().len()) == (1, 1));
}
