//! Claims of verified tokens: in fields and rewrites, in the choice of an upstream, and as what a rate counts apart. What nobody verified is none.

use std::fs;
use std::process::Command;

use crate::harness::signing::{SECRET, token};
use crate::harness::{Gate, PORTUNUS, Reply, Upstream, ask_on};

struct Site {
    gate: Gate,
    upstream: Upstream,
    beta: Upstream,
}

fn yaml(upstream: &Upstream, beta: &Upstream, more: &str) -> String {
    format!(
        "workers: 1
trusted_proxies: [127.0.0.1]
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
tokens: {{ id: {{ jwt: {{ algorithms: HS256, secret: {{ file: secret }} }} }} }}
upstreams: {{ app: {{ servers: [\"{}\"] }}, beta: {{ servers: [\"{}\"] }} }}
{more}",
        upstream.address, beta.address
    )
}

impl Site {
    fn start(more: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        let (upstream, beta) = (Upstream::ok(), Upstream::ok());
        Site { gate: Gate::start_in(folder, &yaml(&upstream, &beta, more)), upstream, beta }
    }

    /// Status and head of the response to a GET.
    fn get(&self, target: &str, fields: &str) -> (u16, String) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h.example\r\n{fields}Connection: close\r\n\r\n");
        let (head, _) = ask_on(self.gate.address("web"), &request);
        (head[9..12].parse().unwrap(), head)
    }

    /// The status for whoever has these claims.
    fn show(&self, target: &str, claims: &str, fields: &str) -> u16 {
        self.get(target, &format!("Authorization: Bearer {}\r\n{fields}", token(claims))).0
    }
}

const MAYBE: &str = "policies: { maybe: { jwt: { verifier: id, allow_missing: true, set: { X-User: sub } } } }\n";

#[test]
fn claims_stand_in_fields_and_paths_and_nothing_else_does_for_them() {
    let site = Site::start(&format!(
        "{MAYBE}routes:
  - path: /a
    upstream: app
    policies: maybe
    request_headers: {{ set: {{ x-who: \"{{claim.sub}}\", x-roles: \"<{{claim.realm.roles}}>\", x-same: \"{{header.X-User}}\" }} }}
    response_headers: {{ set: {{ x-hello: \"{{claim.https://x.test/name}}\" }} }}
  - {{ path: /path, upstream: app, policies: maybe, rewrite: \"/u/{{claim.sub}}/x?by={{claim.sub}}\" }}
"
    ));
    let claims = r#""sub":"u1","realm":{"roles":["a","b"]},"https://x.test/name":"Ada""#;
    let bearer = format!("Authorization: Bearer {}\r\nX-Who: root\r\nX-Roles: root\r\n", token(claims));
    let (status, head) = site.get("/a", &bearer);
    assert_eq!(status, 200);
    assert!(head.to_ascii_lowercase().contains("\r\nx-hello: ada\r\n"), "{head}");
    // Nobody verified this one, and it is no token of ours.
    assert_eq!(site.get("/a", "X-Who: root\r\nX-Roles: root\r\nX-User: root\r\n").0, 200);
    // What readers could take for different things is as if missing; what cannot stand in a field is replaced.
    assert_eq!(site.show("/a", r#""realm":{"roles":["a,root"]}"#, "X-Who: root\r\n"), 200);
    assert_eq!(site.show("/a", r#""realm":{"roles":"x\r\nX-Evil: 1"}"#, ""), 200);
    let seen: Vec<_> = site.upstream.seen();
    let fields = |at: usize| ["x-who", "x-roles", "x-same"].map(|name| seen[at].fields(name).join("|"));
    assert_eq!(fields(0), ["u1", "<a,b>", "u1"]);
    assert_eq!(fields(1), ["", "<>", ""]);
    assert_eq!(fields(2), ["", "<>", ""]);
    assert_eq!(fields(3), ["", "<x??X-Evil: 1>", ""]);
    assert!(!String::from_utf8_lossy(&site.upstream.raw()).contains("root"));
    for (claims, expected) in [
        (r#""sub":"u1""#, Some("/u/u1/x?by=u1")),
        (r#""sub":"a/b?c""#, Some("/u/a%2Fb%3Fc/x?by=a%2Fb%3Fc")),
        (r#""sub":"..""#, None),
        (r#""other":1"#, None),
    ] {
        let before = site.upstream.seen().len();
        let status = site.show("/path", claims, "");
        let target = site.upstream.seen().get(before).map(|seen| seen.head.split(' ').nth(1).unwrap().to_owned());
        assert_eq!((status, target.as_deref()), (if expected.is_some() { 200 } else { 400 }, expected), "{claims}");
    }
}

#[test]
fn a_share_is_chosen_by_a_claim() {
    let site = Site::start(&format!(
        "{MAYBE}routes:
  - path: /a
    policies: maybe
    split:
      - {{ upstream: beta, when: {{ claim: {{ groups: [testers, {{ prefix: beta- }}] }} }} }}
      - {{ upstream: app, weight: 1 }}
"
    ));
    for (claims, is_beta) in [
        (r#""groups":["staff","testers"]"#, true),
        (r#""groups":"beta-7""#, true),
        (r#""groups":["staff"]"#, false),
        (r#""groups":["staff,testers"]"#, false),
        (r#""groups":{"testers":1}"#, false),
        (r#""sub":"testers""#, false),
    ] {
        let before = (site.beta.seen().len(), site.upstream.seen().len());
        assert_eq!(site.show("/a", claims, ""), 200);
        let came = (site.beta.seen().len() - before.0, site.upstream.seen().len() - before.1);
        assert_eq!(came, if is_beta { (1, 0) } else { (0, 1) }, "{claims}");
    }
    // Without a token there is no claim, whatever a client says.
    assert_eq!(site.get("/a", "groups: testers\r\nX-Groups: testers\r\n").0, 200);
    assert_eq!(site.upstream.seen().len(), 5);
}

#[test]
fn a_rate_by_a_claim_counts_who_has_shown_it() {
    let site = Site::start(
        "policies:
  per-user: { jwt: { verifier: id, allow_missing: true }, rate_limit: { rate: 1/h, burst: 2, key: { claim: sub } } }
routes: [{ path: /a, upstream: app, policies: per-user }]
",
    );
    let from = |client: &str| format!("X-Forwarded-For: {client}\r\n");
    // Whoever forges a token of somebody else is turned away, and uses nothing of that one's rate.
    let genuine = token(r#""sub":"u1""#);
    let (signed, _) = genuine.rsplit_once('.').unwrap();
    for _ in 0..4 {
        let forged = format!("Authorization: Bearer {signed}.AAAA\r\n{}", from("192.0.2.66"));
        assert_eq!(site.get("/a", &forged).0, 401);
    }
    let ask = |claims: &str, client: &str| site.show("/a", claims, &from(client));
    assert_eq!(ask(r#""sub":"u1""#, "192.0.2.1"), 200);
    assert_eq!(ask(r#""sub":"u1","iat":1"#, "192.0.2.2"), 200, "another token of the same user, from elsewhere");
    assert_eq!(ask(r#""sub":"u1""#, "192.0.2.3"), 429);
    assert_eq!(ask(r#""sub":"u2""#, "192.0.2.1"), 200);
    // Without the claim, by client.
    let of_nobody = [r#""n":1"#, r#""sub":{"a":1}"#, r#""sub":"""#].map(|claims| ask(claims, "192.0.2.9"));
    assert_eq!(of_nobody, [200, 200, 429]);
    assert_eq!([site.get("/a", &from("192.0.2.9")).0, site.get("/a", &from("192.0.2.10")).0], [429, 200]);
    let line = site.gate.log(7).remove(6);
    assert_eq!((&line["reason"], &line["user"]), (&"rate_limited".into(), &"u1".into()));
}

/// Policies for who has a claim, behind the one that verifies the token: on the same route, or before it at the listener.
#[test]
fn a_policy_is_asked_about_who_has_a_claim() {
    let policies = "policies:
  maybe: { jwt: { verifier: id, allow_missing: true } }
  free: { when: { claim: { plan: [free, { prefix: trial- }] } }, rate_limit: { rate: 1/h, burst: 1, key: { claim: sub } } }
  nobody: { when: { claim: { sub: { present: false } } }, deny: [0.0.0.0/0, \"::/0\"] }
";
    let route = "routes: [{ path: /a, upstream: app, policies: [maybe, free, nobody] }]\n";
    let at_host =
        "hosts: { h.example: { policies: maybe } }\nroutes: [{ path: /a, upstream: app, policies: [free, nobody] }]\n";
    for places in [route, at_host] {
        let site = Site::start(&format!("{policies}{places}"));
        let ask = |claims: &str| site.show("/a", claims, "");
        assert_eq!([(); 2].map(|()| ask(r#""sub":"u1","plan":"paid""#)), [200, 200]);
        assert_eq!([(); 2].map(|()| ask(r#""sub":"u1","plan":"free""#)), [200, 429]);
        assert_eq!([ask(r#""sub":"u2","plan":["x","trial-7"]"#), ask(r#""sub":"u2","plan":["trial-7"]"#)], [200, 429]);
        // Forged, and without a token: whatever the client says, nobody verified it.
        let (signed, _) =
            token(r#""sub":"u3","plan":"paid""#).rsplit_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!(site.get("/a", &format!("Authorization: Bearer {signed}.AAAA\r\n")).0, 401);
        assert_eq!(site.get("/a", "plan: paid\r\nsub: u1\r\n").0, 403);
        assert_eq!(site.upstream.seen().len(), 4);
    }
}

/// The policy that verifies may be another one, if it is asked before.
#[test]
fn a_rate_may_count_by_what_an_earlier_policy_has_verified() {
    let site = Site::start(
        "policies:
  staff: { jwt: { verifier: id } }
  per-user: { rate_limit: { rate: 1/h, burst: 1, key: [{ claim: sub }, route] } }
hosts: { h.example: { policies: staff } }
routes:
  - { path: /a, upstream: app, policies: per-user }
  - { path: /b, upstream: app, policies: per-user }
",
    );
    let ask = |path: &str, user: &str| site.show(path, &format!(r#""sub":"{user}""#), "");
    assert_eq!([ask("/a", "u1"), ask("/a", "u1"), ask("/b", "u1"), ask("/b", "u1")], [200, 429, 200, 429]);
    assert_eq!(ask("/a", "u2"), 200);
}

/// Of a token that is looked up, claims are kept that only a route or a rate reads.
#[test]
fn claims_of_opaque_tokens_are_kept_where_they_are_read() {
    let server = Upstream::start(|_| {
        let body = r#"{"active":true,"username":"ada","plan":{"name":"pro"},"huge":[1]}"#;
        Reply::Close(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
    });
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    fs::write(folder.path().join("client"), "s3cret").unwrap();
    let (upstream, beta) = (Upstream::ok(), Upstream::ok());
    let more = "policies:
  p: { jwt: { verifier: ask }, rate_limit: { rate: 1/h, burst: 2, key: { claim: username } } }
routes: [{ path: /a, upstream: app, policies: p, request_headers: { set: { x-plan: \"{claim.plan.name}\" } } }]
";
    let ask = format!(
        "tokens: {{ ask: {{ introspection: {{ url: \"http://{}/\", client_secret: {{ file: client }}, timeout: 60s }} }}, ",
        server.address
    );
    let text = yaml(&upstream, &beta, more).replace("tokens: { ", &ask);
    let site = Site { gate: Gate::start_in(folder, &text), upstream, beta };
    let statuses = ["a", "b", "c"].map(|token| site.get("/a", &format!("Authorization: Bearer {token}\r\n")).0);
    assert_eq!(statuses, [200, 200, 429], "three tokens of one user");
    assert_eq!(site.upstream.seen()[0].fields("x-plan"), ["pro"]);
}

#[test]
fn claims_that_cannot_be_known_are_said_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("secret"), SECRET).unwrap();
    for (more, said) in [
        (
            "routes:\n  - { upstream: app, policies: p, when: { claim: { role: admin } } }",
            "a route is chosen before a token is verified; fix: demand it with a policy",
        ),
        (
            "routes:\n  - { split: [{ upstream: app, when: { claim: { a: b } } }, { upstream: beta }] }",
            "this demands a claim, and no policy verifies tokens here; fix: name a policy with `jwt`",
        ),
        (
            "routes:\n  - { upstream: app, request_headers: { set: { x: \"{claim.sub}\" } } }",
            "`claim.sub` is a claim, and no policy verifies tokens here",
        ),
        (
            "hosts: { a.test: { policies: p } }\nroutes:\n  - { hosts: b.test, upstream: app, rewrite: \"/{claim.sub}\" }",
            "no policy verifies tokens here",
        ),
        (
            "routes:\n  - { upstream: app, policies: [n, p] }",
            "`n` counts by a claim, and no token is verified before its turn comes; fix: name a policy with `jwt` before it",
        ),
        ("hosts: { a.test: { policies: n } }\nroutes:\n  - { upstream: app, policies: [p] }", "`n` counts by a claim"),
    ] {
        let upstream = Upstream::ok();
        let policies =
            "policies: { p: { jwt: { verifier: id } }, n: { rate_limit: { rate: 1/s, key: { claim: sub } } } }\n";
        let file = dir.path().join("p.yaml");
        fs::write(&file, yaml(&upstream, &upstream, &format!("{policies}{more}\n"))).unwrap();
        let output = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(said), "{more}: {errors}");
    }
    // Where a host or listener verifies, it may be known.
    for around in
        ["hosts: { \"*.test\": { policies: p } }\nroutes:\n  - { hosts: b.test, ", "routes:\n  - { policies: [p, n], "]
    {
        let upstream = Upstream::ok();
        let policies =
            "policies: { p: { jwt: { verifier: id } }, n: { rate_limit: { rate: 1/s, key: { claim: sub } } } }\n";
        let file = dir.path().join("p.yaml");
        let more = format!("{policies}{around}upstream: app, rewrite: \"/{{claim.sub}}\" }}\n");
        fs::write(&file, yaml(&upstream, &upstream, &more)).unwrap();
        let output = Command::new(PORTUNUS).arg("check").arg(&file).output().unwrap();
        assert!(output.status.success(), "{more}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
