//! Tokens that are looked up at an introspection server (RFC 7662): what passes, what a server cannot do to us, and what strangers cannot.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use super::site::{Response, Site, checked, folder, write, yaml};
use crate::harness::{Gate, Reply, Seen, Upstream, certificates, path, wait_until};

const BANK: &str = r#"
openapi: 3.0.3
info: { title: Bank, version: "1" }
components:
  securitySchemes:
    login: { type: oauth2, flows: { clientCredentials: { tokenUrl: "https://id.test/token", scopes: { read: r, write: w } } } }
    opaque: { type: http, scheme: bearer }
paths:
  /accounts:
    get:
      security: [{ login: [read] }]
      responses: { default: { description: any } }
    post:
      security: [{ login: [read, write] }]
      responses: { default: { description: any } }
  /me:
    get:
      security: [{ opaque: [] }]
      responses: { default: { description: any } }
  /open:
    get:
      responses: { default: { description: any } }
"#;

fn ok(_: &Seen) -> Reply {
    Reply::Keep(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec())
}

/// A response of the server.
fn json(body: &str) -> Reply {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    Reply::Close([head.as_bytes(), body.as_bytes()].concat())
}

/// The token that a lookup asks for.
fn token(seen: &Seen) -> String {
    let body = String::from_utf8(seen.body.clone()).unwrap();
    body.strip_prefix("token=").unwrap().strip_suffix("&token_type_hint=access_token").unwrap().to_owned()
}

/// The bank before a server, with further keys of `introspection`.
fn bank(server: &Upstream, more: &str) -> Site {
    Site::with(
        BANK,
        &section(&format!("http://{}/introspect?x=1", server.address), more),
        &[("secret", "s3cret\n")],
        ok,
    )
}

fn section(url: &str, more: &str) -> String {
    // Servers of a test may be late.
    let timeout = if more.contains(" timeout:") { "" } else { ", timeout: 60s" };
    format!(
        ", tokens: id, detail: pointer | introspection: {{ url: \"{url}\", client_id: edge, client_secret: {{ file: secret }}{timeout}{more} }}"
    )
}

fn ask(site: &Site, request: &str, token: &str) -> Response {
    site.get(request, &format!("Authorization: Bearer {token}\r\n"))
}

fn code(response: &Response) -> String {
    response.json()["code"].as_str().unwrap_or_default().to_owned()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn an_active_token_passes_and_is_asked_about_once() {
    let server = Upstream::start(|_| json(r#"{"active":true,"scope":"read","client_id":"c"}"#));
    let site = bank(&server, "");
    for _ in 0..3 {
        assert_eq!(ask(&site, "GET /accounts", "a+b/c=").status, 200);
        assert_eq!(ask(&site, "GET /me", "a+b/c=").status, 200);
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].line(), "POST /introspect?x=1 HTTP/1.1");
    assert_eq!(String::from_utf8_lossy(&seen[0].body), "token=a%2Bb%2Fc%3D&token_type_hint=access_token");
    assert_eq!(seen[0].fields("content-type"), ["application/x-www-form-urlencoded"]);
    // `edge:s3cret`
    assert_eq!(seen[0].fields("authorization"), ["Basic ZWRnZTpzM2NyZXQ="]);
    assert_eq!(site.seen(), 6);
    // Its scopes are those of the first answer; without a token nobody is asked.
    let lacking = ask(&site, "POST /accounts", "a+b/c=");
    assert_eq!((lacking.status, code(&lacking).as_str()), (403, "jwt_scope"));
    assert_eq!((site.get("GET /accounts", "").status, site.get("GET /open", "").status), (401, 200));
    assert_eq!((server.seen().len(), site.seen()), (1, 7));
}

#[test]
fn each_response_of_the_server_is_one_decision() {
    let rows: Vec<(String, u16, &str)> = vec![
        (r#"{"active":false}"#.into(), 401, "token_inactive"),
        (format!(r#"{{"active":true,"scope":"read","exp":{}}}"#, now() - 600), 401, "jwt_expired"),
        (format!(r#"{{"active":true,"scope":"read","nbf":{}}}"#, now() + 600), 401, "jwt_not_yet_valid"),
        (r#"{"active":true,"scope":"READ","aud":"bank"}"#.into(), 403, "jwt_scope"),
        (r#"{"active":true,"scope":"read","aud":"other"}"#.into(), 401, "jwt_audience"),
        (r#"{"active":"true","scope":"read"}"#.into(), 503, "introspection_failed"),
        (r#"{"active":1,"scope":"read"}"#.into(), 503, "introspection_failed"),
        (r#"{"scope":"read"}"#.into(), 503, "introspection_failed"),
        (r#"{"active":false,"active":true,"scope":"read","aud":"bank"}"#.into(), 503, "introspection_failed"),
        ("<html>login</html>".into(), 503, "introspection_failed"),
        (String::new(), 503, "introspection_failed"),
        (
            format!(r#"{{"active":true,"scope":"read","aud":"bank","x":"{}"}}"#, "x".repeat(40_000)),
            503,
            "introspection_failed",
        ),
        (
            format!(r#"{{"active":true,"aud":"bank","scope":"read {}"}}"#, "a ".repeat(4_000)),
            503,
            "introspection_failed",
        ),
        (r#"{"active":true,"scope":"write read","aud":["bank","x"]}"#.into(), 200, ""),
    ];
    let responses: Vec<String> = rows.iter().map(|(response, ..)| response.clone()).collect();
    let server = Upstream::start(move |seen| json(&responses[token(seen).parse::<usize>().unwrap()]));
    let site = bank(&server, ", audiences: bank");
    for (number, (response, status, expected)) in rows.iter().enumerate() {
        let got = ask(&site, "GET /accounts", &number.to_string());
        let code = if *status == 200 { String::new() } else { code(&got) };
        assert_eq!((got.status, code.as_str()), (*status, *expected), "{response}: {got:?}");
        let said = if *status == 503 { "the token cannot be verified now" } else { "the token is not accepted" };
        assert!(*status == 200 || got.json()["detail"] == said, "{response}: {got:?}");
    }
    assert_eq!(site.seen(), 1);
    site.gate.wait_for("token not looked up");
    let line = &site.gate.log(rows.len())[5];
    assert_eq!((&line["fault"], &line["reason"]), (&"upstream".into(), &"introspection_failed".into()), "{line}");
}

#[test]
fn a_server_that_fails_in_other_ways_lets_nobody_in() {
    let replies: [fn() -> Reply; 5] = [
        || Reply::Close(b"HTTP/1.1 401 No\r\nContent-Length: 15\r\n\r\n{\"active\":true}".to_vec()),
        || Reply::Close(b"HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n".to_vec()),
        || Reply::Reset(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"active\":true,".to_vec()),
        || Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"active\":true}".to_vec()),
        || Reply::Close(b"SSH-2.0-x\r\n".to_vec()),
    ];
    let server = Upstream::start(move |seen| replies[token(seen).parse::<usize>().unwrap()]());
    let site = bank(&server, "");
    for number in 0..replies.len() {
        let got = ask(&site, "GET /me", &number.to_string());
        assert_eq!((got.status, code(&got).as_str()), (503, "introspection_failed"), "{number}");
    }
    // What failed is not remembered.
    let before = server.seen().len();
    assert_eq!((ask(&site, "GET /me", "0").status, server.seen().len()), (503, before + 1));
    assert_eq!(site.seen(), 0);
    // Nobody listens there any more; and in `log` mode requests pass all the same.
    let gone = Upstream::start(|_| Reply::Close(Vec::new()));
    let site = Site::with(
        BANK,
        &section(&format!("http://{}/", gone.address), "").replace(" |", ", request: log |"),
        &[("secret", "s")],
        ok,
    );
    assert_eq!(ask(&site, "GET /me", "x").status, 200);
    site.gate.wait_for("token not looked up");
}

/// A server that takes its time delays nobody where nothing is blocked; what it says counts for those who come later.
#[test]
fn under_log_no_request_waits_for_the_server() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let held = Arc::clone(&gate);
    let server = Upstream::start(move |_| {
        let (open, changed) = &*held;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        json(r#"{"active":false}"#)
    });
    let more = ", timeout: 2s, negative_cache_ttl: 1h";
    let contract = section(&format!("http://{}/", server.address), more).replace(" |", ", request: log |");
    let site = Site::with(BANK, &contract, &[("secret", "s")], ok);
    assert_eq!(ask(&site, "GET /me", "x").status, 200);
    assert_eq!(site.gate.log(1)[0]["contract"]["decision"], "passed", "nobody waited to learn more");
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let mut asked = 1;
    wait_until("what the server said", || {
        assert_eq!(ask(&site, "GET /me", "x").status, 200);
        asked += 1;
        site.gate.log(asked)[asked - 1]["contract"]["reason"] == "token_inactive"
    });
}

#[test]
fn a_server_that_hangs_costs_its_deadline_and_nobody_elses_tokens() {
    let server = Upstream::start(|seen| match token(seen).as_str() {
        "good" => json(r#"{"active":true,"scope":"read"}"#),
        _ => Reply::Silence,
    });
    let site = bank(&server, ", timeout: 10s, max_concurrent_lookups: 2");
    assert_eq!(ask(&site, "GET /accounts", "good").status, 200);
    // More than can be asked about at once: those without a turn are told so, and none waits for longer than its own deadline.
    let said: Vec<(u16, String)> = std::thread::scope(|scope| {
        let asking = |number: usize| {
            let site = &site;
            scope.spawn(move || {
                let got = ask(site, "GET /accounts", &format!("hang{number}"));
                (got.status, code(&got))
            })
        };
        let clients: Vec<_> = (0..6).map(asking).collect();
        wait_until("lookups hang", || server.seen().len() >= 3);
        assert_eq!(ask(&site, "GET /accounts", "good").status, 200, "what is known needs no server");
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(said.iter().all(|(status, _)| *status == 503), "{said:?}");
    let known = ["introspection_timeout", "introspection_busy"];
    assert!(said.iter().all(|(_, code)| known.contains(&code.as_str())), "{said:?}");
    assert_eq!(site.seen(), 2);
}

#[test]
fn lookups_of_one_token_are_one() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let held = Arc::clone(&gate);
    let server = Upstream::start(move |_| {
        let (open, changed) = &*held;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        json(r#"{"active":true,"scope":"read"}"#)
    });
    let site = bank(&server, ", timeout: 60s");
    let together = Barrier::new(12);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    ask(&site, "GET /accounts", "same").status
                })
            })
            .collect();
        wait_until("a lookup", || server.seen().len() == 1);
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        for client in clients {
            assert_eq!(client.join().unwrap(), 200);
        }
    });
    assert_eq!((server.seen().len(), site.seen()), (1, 12));
}

#[test]
fn a_flood_of_tokens_is_bounded_and_forgets_no_good_one() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, highest) = (Arc::clone(&running), Arc::clone(&most));
    let server = Upstream::start(move |seen| {
        let now = counting.fetch_add(1, Ordering::SeqCst) + 1;
        highest.fetch_max(now, Ordering::SeqCst);
        // So that others arrive meanwhile.
        std::thread::yield_now();
        counting.fetch_sub(1, Ordering::SeqCst);
        match token(seen).as_str() {
            "good" => json(r#"{"active":true,"scope":"read"}"#),
            _ => json(r#"{"active":false}"#),
        }
    });
    let site = bank(
        &server,
        ", timeout: 60s, max_concurrent_lookups: 3, max_cached_tokens: 10, negative_cache_ttl: 1h, cache_ttl: 1h",
    );
    assert_eq!(ask(&site, "GET /accounts", "good").status, 200);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let site = &site;
            scope.spawn(move || {
                for number in 0..40 {
                    assert_eq!(ask(site, "GET /accounts", &format!("t{client}x{number}")).status, 401);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
    assert_eq!(server.seen().len(), 321);
    assert_eq!(ask(&site, "GET /accounts", "good").status, 200);
    assert_eq!(server.seen().len(), 321, "the good token is known still");
    assert_eq!(ask(&site, "GET /accounts", "t0x0").status, 401);
    assert_eq!(server.seen().len(), 322, "the first bad one is forgotten");
    // The newest bad one is known: nobody is asked.
    assert_eq!(ask(&site, "GET /accounts", "t0x0").status, 401);
    assert_eq!(server.seen().len(), 322);
    let long = ask(&site, "GET /accounts", &"x".repeat(20_000));
    assert_eq!((code(&long).as_str(), server.seen().len()), ("jwt_too_long", 322));
}

#[test]
fn what_is_known_outlives_a_reload_but_not_a_new_secret() {
    let server = Upstream::start(|_| json(r#"{"active":true,"scope":"read"}"#));
    let site = bank(&server, "");
    assert_eq!(ask(&site, "GET /accounts", "t").status, 200);
    write(site.gate.dir.path(), "openapi.yaml", &format!("{BANK}# changed\n"));
    site.gate.wait_for("reloaded");
    assert_eq!((ask(&site, "GET /accounts", "t").status, server.seen().len()), (200, 1));
    write(site.gate.dir.path(), "secret", "other");
    // `edge:other`
    wait_until("the new secret", || {
        assert_eq!(ask(&site, "GET /accounts", "t").status, 200);
        server.seen().last().is_some_and(|seen| seen.fields("authorization") == ["Basic ZWRnZTpvdGhlcg=="])
    });
}

/// What the server said of a token is kept once, and looked at by each API for itself.
#[test]
fn a_token_that_one_api_knows_opens_no_other() {
    let upstream = Upstream::start(ok);
    let server = Upstream::start(|_| json(r#"{"active":true,"scope":"read","aud":"bank","team":"a"}"#));
    let verifier = |audience: &str| {
        format!(
            "{{ introspection: {{ url: \"http://{}/introspect\", client_id: edge, client_secret: {{ file: secret }}, \
             timeout: 60s, cache_ttl: 1h, negative_cache_ttl: 1h, audiences: [{audience}] }} }}",
            server.address
        )
    };
    let document = |scope: &str| {
        format!(
            "openapi: 3.0.3\ninfo: {{ title: t, version: '1' }}\ncomponents:\n  securitySchemes:\n    login: {{ type: oauth2, flows: {{ clientCredentials: \
             {{ tokenUrl: 'https://id.test/token', scopes: {{ {scope}: s }} }} }} }}\npaths:\n  /{scope}:\n    get:\n      security: [{{ login: [{scope}] }}]\n      \
             responses: {{ default: {{ description: d }} }}\n"
        )
    };
    let text = format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
tokens: {{ bank: {}, shop: {} }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
contracts: {{ reads: {{ document: openapi.yaml, tokens: bank, response: off }}, writes: {{ document: writes.yaml, tokens: bank, response: off }} }}
policies:
  write: {{ jwt: {{ verifier: bank, scopes: [write] }} }}
  team: {{ jwt: {{ verifier: bank, claims: {{ team: [b] }} }} }}
  shop: {{ jwt: {{ verifier: shop, scopes: [read] }} }}
routes:
  - {{ path: /read, contract: reads, upstream: app }}
  - {{ path: /write, contract: writes, upstream: app }}
  - {{ path: /policy, policies: [write], respond: {{ status: 200 }} }}
  - {{ path: /team, policies: [team], respond: {{ status: 200 }} }}
  - {{ path: /shop, policies: [shop], respond: {{ status: 200 }} }}
",
        verifier("bank"),
        verifier("shop"),
        upstream.address
    );
    let files = [("secret", "s3cret\n"), ("writes.yaml", &document("write"))];
    let site = Site { gate: Gate::start_in(folder(&document("read"), &files), &text), upstream };
    let apis = [("/read", 200), ("/write", 403), ("/policy", 403), ("/team", 403), ("/shop", 401)];
    // Each of them first, then the others, by what is known.
    for first in 0..apis.len() {
        for step in 0..2 * apis.len() {
            let (path, expected) = apis[(first + step) % apis.len()];
            let response = ask(&site, &format!("GET {path}"), &format!("token-{first}"));
            assert_eq!(response.status, expected, "{path}, {first}: {response:?}");
        }
    }
    assert_eq!(server.seen().len(), 2 * apis.len(), "each verifier asks once");
}

#[test]
fn without_a_cache_each_request_asks() {
    let server = Upstream::start(|_| json(r#"{"active":true,"scope":"read"}"#));
    let site = bank(&server, ", cache_ttl: 0s");
    for count in 1..4 {
        assert_eq!((ask(&site, "GET /accounts", "t").status, server.seen().len()), (200, count));
    }
}

#[test]
fn the_server_is_verified_over_tls() {
    let server = Upstream::start(|_| json(r#"{"active":true,"scope":"read"}"#));
    let (known, stranger) = (certificates(&[("id.test", false)]), certificates(&[("id.test", false)]));
    let cas = [path(&known, "ca.pem"), path(&stranger, "ca.pem")];
    let text = format!(
        "workers: 1\nlisteners: [{{ name: tls, bind: \"127.0.0.1:0\", tls: {{ keystore: own }} }}]\nkeystores: {{ own: {{ folder: certs, default: id.test }} }}\n\
         upstreams: {{ id: {{ servers: [\"{}\"] }} }}\nroutes: [{{ upstream: id }}]\n",
        server.address
    );
    let front = Gate::start_in(known, &text);
    for (ca, expected) in cas.iter().zip([200, 503]) {
        let url = format!("https://{}/introspect", front.address("tls"));
        let more = format!(", connect_timeout: 1m, tls: {{ ca: \"{ca}\", server_name: id.test }}");
        let upstream = Upstream::start(ok);
        let config = yaml(&upstream, &section(&url, &more), "");
        let site = Site { gate: Gate::start_in(folder(BANK, &[("secret", "s")]), &config), upstream };
        assert_eq!(ask(&site, "GET /accounts", "t").status, expected, "{ca}: {:?}", site.gate.diagnostics());
    }
    assert_eq!(server.seen().len(), 1, "who is not verified is told nothing");
}

#[test]
fn what_makes_no_sense_is_reported() {
    let files: &[(&str, &str)] = &[("secret", "s"), ("empty", ""), ("odd", "a b")];
    let url = "https://id.test/introspect";
    for (contract, fine, said) in [
        (section(url, ""), true, ""),
        (section("http://127.0.0.1:9/", ""), true, "sends tokens and its secret in the clear"),
        (
            format!("{}, jwt: {{ algorithms: [HS256], secret: {{ file: secret }} }}", section(url, "")),
            false,
            "introspection",
        ),
        (section(url, "").replace(" |", ", bearer_schemes: nothing |"), false, "`bearer_schemes` names nothing"),
        (section(url, ", protocol: http2"), false, "over HTTP/1.1"),
        (section("/introspect", ""), false, "names no server"),
        (section(url, "").replace("file: secret", "file: empty"), false, "the client secret is empty"),
        (section(url, "").replace("file: secret", "file: none"), false, "none"),
        (section(url, "").replace("client_id: edge, ", ""), true, ""),
        (
            section(url, "").replace("client_id: edge, ", "").replace("file: secret", "file: odd"),
            false,
            "is no bearer token",
        ),
        (section(url, "").replace("{ file: secret }", "s3cret"), false, "client_secret"),
    ] {
        let (is_fine, printed) = checked(BANK, files, &contract);
        assert!(is_fine == fine && printed.contains(said), "{contract}\n{printed}");
        assert!(!printed.contains("s3cret") || contract.contains("s3cret"), "{printed}");
    }
    let (fine, said) = checked(
        &BANK
            .replace("[{ login: [read] }]", "[]")
            .replace("[{ login: [read, write] }]", "[]")
            .replace("[{ opaque: [] }]", "[]"),
        files,
        &section(url, ""),
    );
    assert!(!fine && said.contains("`tokens` verifies nothing"), "{said}");
}
