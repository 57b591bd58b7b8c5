//! Single sign-on as docs/single-sign-on.md has it, before stubs of the services' interfaces: who has not signed in is sent there and back, who has is known.

use crate::harness::{Gate, Reply, Seen, Upstream, ask_on};

/// A configuration of the page, with these addresses in place of its own.
fn configuration(name: &str, service: (&str, &Upstream), app: &Upstream) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/single-sign-on.md");
    let page = std::fs::read_to_string(path).unwrap();
    let block = page.split("```").find(|block| block.starts_with(&format!("yaml\n# {name}\n"))).unwrap();
    let (its_name, its_server) = service;
    let lines = block.lines().skip(1).map(|line| match line.trim_start() {
        rest if rest.starts_with("app: { servers") => format!("  app: {{ servers: [\"{}\"] }}", app.address),
        rest if rest.starts_with(&format!("{its_name}: {{ servers")) => {
            format!("  {its_name}: {{ servers: [\"{}\"] }}", its_server.address)
        }
        _ => line.replace(":8080", "127.0.0.1:0"),
    });
    // The stubs have more time than services: they stand still with the test.
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.replace("forward_auth:\n", "forward_auth:\n      timeout: 60s\n");
    format!("workers: 1\n{}\n", text.replace("forward_auth: { ", "forward_auth: { timeout: 60s, "))
}

fn get(gate: &Gate, method: &str, path: &str, fields: &str) -> String {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: app.example.com:8443\r\n{fields}Connection: close\r\n\r\n");
    ask_on(gate.address("http"), &request).0
}

fn field<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

const FORGED: &str = "Remote-User: root\r\nX-WEBAUTH-USER: root\r\nX-User: root\r\nX-Auth-Request-User: root\r\nX-authentik-username: root\r\n";

fn signed_in(seen: &Seen) -> bool {
    seen.fields("cookie").contains(&"session=1")
}

#[test]
fn authelia_sends_to_its_portal_and_names_the_user() {
    let service = Upstream::start(|seen| {
        if !seen.line().starts_with("GET /api/authz/forward-auth ") {
            return Reply::Keep(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec());
        }
        let asked =
            ["x-forwarded-proto", "x-forwarded-host", "x-forwarded-uri"].map(|name| seen.fields(name).join(","));
        let [scheme, host, uri] = asked;
        Reply::Keep(match signed_in(seen) {
            true => b"HTTP/1.1 200 OK\r\nRemote-User: ada\r\nRemote-Groups: admins\r\nContent-Length: 0\r\n\r\n".to_vec(),
            false => format!("HTTP/1.1 302 Found\r\nLocation: https://auth.example.com/?rd={scheme}://{host}{uri}&rm=GET\r\nSet-Cookie: authelia=2\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        })
    });
    let app = Upstream::ok();
    let gate = Gate::start(&configuration("authelia.yaml", ("authelia", &service), &app));
    let head = get(&gate, "GET", "/a?b=c", FORGED);
    assert!(head.starts_with("HTTP/1.1 302"), "{head}");
    assert_eq!(field(&head, "location"), ["https://auth.example.com/?rd=http://app.example.com:8443/a?b=c&rm=GET"]);
    assert_eq!(field(&head, "set-cookie"), ["authelia=2"]);
    assert!(app.seen().is_empty());
    assert!(get(&gate, "GET", "/a?b=c", &format!("{FORGED}Cookie: session=1\r\n")).starts_with("HTTP/1.1 200"));
    let seen = app.seen().remove(0);
    assert_eq!((seen.fields("remote-user"), seen.fields("x-webauth-user")), (vec!["ada"], vec!["ada"]));
}

#[test]
fn authentik_is_asked_as_by_nginx_and_gets_who_must_sign_in() {
    let service = Upstream::start(|seen| {
        let is_asked = seen.line().starts_with("GET /outpost.goauthentik.io/auth/nginx ")
            && seen.fields("host") == ["app.example.com:8443"]
            && seen.fields("x-original-url") == ["http://app.example.com:8443/a%20b?c=d&e"];
        Reply::Keep(match (is_asked, signed_in(seen)) {
            (false, _) => b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(),
            (true, true) => b"HTTP/1.1 200 OK\r\nX-authentik-username: ada\r\nSet-Cookie: proxy=2\r\nContent-Length: 0\r\n\r\n".to_vec(),
            (true, false) => b"HTTP/1.1 401 Unauthorized\r\nSet-Cookie: proxy=1\r\nWWW-Authenticate: x\r\nContent-Length: 2\r\n\r\nno".to_vec(),
        })
    });
    let app = Upstream::ok();
    let gate = Gate::start(&configuration("authentik.yaml", ("outpost", &service), &app));
    for (method, status) in [("GET", 302), ("HEAD", 302), ("DELETE", 303)] {
        let head = get(&gate, method, "/a%20b?c=d&e", FORGED);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{method}: {head}");
        let page = "/outpost.goauthentik.io/start?rd=http%3A%2F%2Fapp.example.com%3A8443%2Fa%2520b%3Fc%3Dd%26e";
        assert_eq!((field(&head, "location"), field(&head, "set-cookie")), (vec![page], vec!["proxy=1"]));
        assert!(field(&head, "www-authenticate").is_empty(), "{head}");
    }
    assert!(app.seen().is_empty());
    let head = get(&gate, "GET", "/a%20b?c=d&e", &format!("{FORGED}Cookie: session=1\r\n"));
    assert_eq!((head.starts_with("HTTP/1.1 200"), field(&head, "set-cookie")), (true, vec!["proxy=2"]));
    let seen = app.seen().remove(0);
    assert_eq!((seen.fields("x-authentik-username"), seen.fields("remote-user")), (vec!["ada"], vec!["ada"]));
    // What the service does not say, or that it is broken, sends nobody anywhere.
    assert!(get(&gate, "GET", "/other", "").starts_with("HTTP/1.1 502"));
}

#[test]
fn oauth2_proxy_gets_who_must_sign_in_and_programs_get_401() {
    let service = Upstream::start(|seen| {
        Reply::Keep(match signed_in(seen) && seen.line().starts_with("GET /oauth2/auth ") {
            true => b"HTTP/1.1 202 Accepted\r\nX-Auth-Request-User: ada\r\nX-Auth-Request-Email: a@example.com\r\nContent-Length: 0\r\n\r\n".to_vec(),
            false => b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 13\r\n\r\nUnauthorized\n".to_vec(),
        })
    });
    let app = Upstream::ok();
    let gate = Gate::start(&configuration("oauth2-proxy.yaml", ("oauth2-proxy", &service), &app));
    let head = get(&gate, "GET", "/a?b=c&d", FORGED);
    assert!(head.starts_with("HTTP/1.1 302"), "{head}");
    assert_eq!(field(&head, "location"), ["/oauth2/start?rd=%2Fa%3Fb%3Dc%26d"]);
    let head = get(&gate, "GET", "/api/a", FORGED);
    assert!(head.starts_with("HTTP/1.1 401") && field(&head, "location").is_empty(), "{head}");
    assert!(app.seen().is_empty());
    assert!(get(&gate, "GET", "/a?b=c&d", &format!("{FORGED}Cookie: session=1\r\n")).starts_with("HTTP/1.1 200"));
    let seen = app.seen().remove(0);
    assert_eq!((seen.fields("x-user"), seen.fields("x-original-uri")), (vec!["ada"], vec!["/a?b=c&d"]));
    assert_eq!(seen.fields("x-auth-request-email"), ["a@example.com"]);
    // Who is signed in is not somebody else on another route either.
    assert!(get(&gate, "GET", "/api/a", &format!("{FORGED}Cookie: session=1\r\n")).starts_with("HTTP/1.1 200"));
    assert_eq!(app.seen().last().unwrap().fields("x-user"), ["ada"]);
}

/// What the service says is for Portunus alone, also where this request cannot be sent to sign in.
#[test]
fn a_service_that_is_not_relayed_stays_hidden_where_there_is_no_page_to_sign_in() {
    let service = Upstream::start(|_| {
        Reply::Keep(b"HTTP/1.1 401 Unauthorized\r\nSet-Cookie: inner=1\r\nX-Inner: 1\r\nWWW-Authenticate: x\r\nContent-Length: 6\r\n\r\nsecret".to_vec())
    });
    let app = Upstream::ok();
    let gate = Gate::start(&format!(
        "workers: 1
listeners: [{{ name: http, bind: \"127.0.0.1:0\" }}]
policies: {{ sso: {{ forward_auth: {{ upstream: sso, path: /, sign_in: \"/in/{{header.X-To}}\", relay: false, timeout: 60s }} }} }}
routes: [{{ path: \"/{{*rest}}\", policies: sso, upstream: app }}]
upstreams: {{ app: {{ servers: [\"{}\"] }}, sso: {{ servers: [\"{}\"] }} }}
",
        app.address, service.address
    ));
    let ask = |to: &str| {
        let request = format!("GET /a HTTP/1.1\r\nHost: a\r\nX-To: {to}\r\nConnection: close\r\n\r\n");
        ask_on(gate.address("http"), &request)
    };
    let (head, _) = ask("there");
    assert_eq!((&head[..12], field(&head, "location")), ("HTTP/1.1 302", vec!["/in/there"]), "{head}");
    let (head, body) = ask("..");
    assert!(head.starts_with("HTTP/1.1 401") && body.is_empty(), "{head}{body:?}");
    assert_eq!(field(&head, "www-authenticate"), ["x"]);
    assert!(field(&head, "set-cookie").is_empty() && field(&head, "x-inner").is_empty(), "{head}");
    assert!(app.seen().is_empty());
}
