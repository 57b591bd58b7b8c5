//! Variables of a request in fields, rewrites and redirects: what upstream and client see of them, and what cannot be made of them.

use std::io::Write as _;

use crate::harness::secure::Secure;
use crate::harness::{Gate, Upstream, exchange, read_to_end, statuses};

fn gate(upstream: &Upstream, routes: &str) -> Gate {
    Gate::start(&format!(
        "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nupstreams: {{ app: {{ servers: [\"{}\"] }} }}\nroutes:\n{routes}",
        upstream.address
    ))
}

/// The response to a request on a connection of its own.
fn ask(gate: &Gate, request: &str) -> String {
    let bytes = exchange(gate.address("web"), format!("{request}\r\nConnection: close\r\n\r\n").as_bytes());
    String::from_utf8(bytes).unwrap()
}

/// The value of a field of a response.
fn field<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = response.lines().take_while(|line| !line.is_empty());
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn values_of_the_request_go_both_ways() {
    let upstream = Upstream::ok();
    let routes = "  - path: \"/t/{tenant}/{*rest}\"
    upstream: app
    rewrite: \"/{tenant}{path}?ip={client.address}&q={query.q}\"
    request_headers:
      set: { x-client: \"{client.address}\", x-tenant: \"<{path.tenant}>\", x-all: \"{method} {scheme} {host} {path}\", x-agent: \"{header.User-Agent}\" }
      add: { x-plan: \"{cookie.plan}\", x-id: \"{request.id}\" }
    response_headers: { set: { x-request: \"{request.id}\", x-query: \"{query.q}\", x-braces: \"{{{tenant}}}\" } }
";
    let gate = gate(&upstream, routes);
    let request = "GET /t/acme/a%20b?q=%2f+%26x&q=2 HTTP/1.1\r\nHost: X.test:80\r\nUser-Agent: curl/8\r\nCookie: a=b; plan=pro\r\nX-Client: 192.0.2.1";
    let response = ask(&gate, request);
    let seen = upstream.seen().remove(0);
    let target = seen.head.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(target, "/acme/t/acme/a%20b?ip=127.0.0.1&q=%2F%20%26x&q=%2f+%26x&q=2");
    let id = seen.fields("x-request-id")[0].to_owned();
    for (name, expected) in [
        ("x-client", "127.0.0.1"),
        ("x-tenant", "<acme>"),
        ("x-all", "GET http x.test /t/acme/a%20b"),
        ("x-agent", "curl/8"),
        ("x-plan", "pro"),
        ("x-id", &id),
    ] {
        assert_eq!(seen.fields(name), [expected], "{name} in {}", seen.head);
    }
    assert_eq!(field(&response, "x-request"), Some(&*id), "{response}");
    assert_eq!((field(&response, "x-query"), field(&response, "x-braces")), (Some("%2f+%26x"), Some("{acme}")));
    assert_eq!(gate.log(1)[0]["request_id"], id);
    gate.stop();
}

#[test]
fn a_field_without_a_value_is_left_out() {
    let upstream = Upstream::ok();
    let routes = "  - { path: /, upstream: app, request_headers: { set: { x-user: \"{certificate.subject}\", x-sni: \"{tls.server_name}{tls.version}{tls.cipher}\", x-part: \"a{query.q}\" } } }\n";
    let gate = gate(&upstream, routes);
    assert_eq!(statuses(ask(&gate, "GET /?q HTTP/1.1\r\nHost: x\r\nX-User: admin\r\nX-Sni: admin").as_bytes()), [200]);
    let seen = upstream.seen().remove(0);
    assert!(seen.fields("x-user").is_empty() && seen.fields("x-sni").is_empty(), "{}", seen.head);
    assert_eq!(seen.fields("x-part"), ["a"]);
    gate.stop();
}

#[test]
fn what_is_put_in_stays_in_its_place() {
    let upstream = Upstream::ok();
    let routes = "  - { path: /path, upstream: app, rewrite: \"/x/{query.q}/y?z={header.x-v}\" }
  - { path: /start, upstream: app, rewrite: \"/{query.q}/y\" }
  - { path: /field, upstream: app, request_headers: { set: { x-q: \"{query.q}\", x-v: \"{header.x-v}\" } } }
  - { path: \"/to/{*rest}\", redirect: { to: \"https://www.{host}{path}\" } }
  - { path: /to-start, redirect: { to: \"/{query.q}/y\" } }
";
    let gate = gate(&upstream, routes);
    // The target or field that the upstream sees, or a status.
    for (target, value, expected) in [
        ("/path?q=a/b.c", "1&y=2#", "/x/a%2Fb.c/y?z=1%26y%3D2%23&q=a/b.c"),
        // Servers that decode before they split would climb.
        ("/path?q=a/../b", "", "400"),
        ("/path?q=%2e%2e", "", "400"),
        ("/path?q=..", "", "400"),
        ("/path?q=%0d%0aX:%20y", "%0d", "/x/%0D%0AX:%20y/y?z=%250d&q=%0d%0aX:%20y"),
        ("/path?q=1", "\t\u{e9}", "/x/1/y?z=%C3%A9&q=1"),
        // Servers that merge slashes would take the segment away.
        ("/path", "", "400"),
        ("/start?q=/evil.test", "", "/%2Fevil.test/y?q=/evil.test"),
        // Nothing in the first segment would leave two slashes, which begin a host.
        ("/start", "", "400"),
    ] {
        let before = upstream.seen().len();
        let response = ask(&gate, &format!("GET {target} HTTP/1.1\r\nHost: x\r\nX-V: {value}"));
        match expected.parse() {
            Ok(status) => {
                assert_eq!((statuses(response.as_bytes()), upstream.seen().len()), (vec![status], before), "{target}")
            }
            Err(_) => assert_eq!(
                upstream.seen().last().unwrap().head.split(' ').nth(1),
                Some(expected),
                "{target}: {response}"
            ),
        }
    }
    ask(&gate, "GET /field?q=%0d%0aX-Evil:%201&x HTTP/1.1\r\nHost: x\r\nX-V: a\tb");
    let seen = upstream.seen().pop().unwrap();
    assert_eq!((seen.fields("x-q"), seen.fields("x-v")), (vec!["%0d%0aX-Evil:%201"], vec!["a\tb"]), "{}", seen.head);
    for (target, host, expected) in [
        ("/to/a?q=1", "example.com:8080", Some("https://www.example.com/to/a?q=1")),
        ("/to//evil.test", "example.com", Some("https://www.example.com/to//evil.test")),
        ("/to-start?q=/evil.test", "x", Some("/%2Fevil.test/y?q=/evil.test")),
        ("/to-start", "x", None),
    ] {
        let response = ask(&gate, &format!("GET {target} HTTP/1.1\r\nHost: {host}"));
        assert_eq!(field(&response, "Location"), expected, "{target}: {response}");
    }
    gate.stop();
}

#[test]
fn the_handshake_is_told_of() {
    let upstream = Upstream::ok();
    let dir = crate::harness::certificates(&[("a.test", false)]);
    let gate = Gate::start_in(
        dir,
        &format!(
            "workers: 1\nkeystores: {{ main: {{ folder: certs, default: a.test }} }}\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\", tls: {{ keystore: main }} }}]\n\
             upstreams: {{ app: {{ servers: [\"{}\"] }} }}\nroutes:\n  - {{ upstream: app, request_headers: {{ set: {{ x-tls: \"{{tls.server_name}} {{tls.version}} {{scheme}}\" }} }} }}\n",
            upstream.address
        ),
    );
    let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
    read_to_end(&mut client);
    assert_eq!(upstream.seen()[0].fields("x-tls"), ["a.test TLSv1.3 https"]);
    gate.stop();
}

#[test]
fn a_variable_that_cannot_be_is_said_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for (route, said) in [
        ("rewrite: \"/{client.adress}\"", "did you mean `{client.address}`?"),
        ("rewrite: \"/x/{path}\"", "`{path}` begins with a slash itself; fix: write `/x{path}`"),
        ("rewrite: \"/$arg_user/x\"", "looks like a variable of another proxy"),
        ("request_headers: { set: { x: \"$remote_addr\" } }", "write `{client.address}`"),
        ("request_headers: { set: { x: \"a %[req.hdr(X-Y)]\" } }", "write `a {header.X-Y}`"),
        ("request_headers: { set: { x: \"{claim.sub}\" } }", "name a policy with `jwt` in `policies`"),
        ("request_headers: { set: { x: \"{claim.}\" } }", "no policy verifies tokens here"),
        ("host: { set: \"{header.x}\" }", "p.yaml:2:"),
    ] {
        let file = dir.path().join("p.yaml");
        let text = format!(
            "routes:\n  - {{ upstream: u, {route} }}\nlisteners: [{{ name: web, bind: \":80\" }}]\nupstreams: {{ u: {{ servers: \"192.0.2.1:80\" }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = std::process::Command::new(crate::harness::PORTUNUS).arg("check").arg(&file).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(said), "{route}: {errors}");
    }
}

/// Escapes of the client's path are no reason to reject it; what climbs is.
#[test]
fn a_redirect_with_variables_keeps_what_the_path_escapes() {
    let upstream = Upstream::ok();
    let routes = "  - { hosts: w.test, redirect: { to: \"https://www.{host}{path}\" } }
  - { hosts: q.test, path: \"/a/{*rest}\", redirect: { to: \"http://{host}:8080/b/{rest}?q={query.q}\" } }
  - { hosts: l.test, path: \"/a/{*rest}\", redirect: { to: \"/b/{rest}?from={host}\" } }
  - { hosts: h.test, redirect: { to: \"https://{host}\" } }
  - { hosts: d.test, path: \"/a{x}/{*rest}\", redirect: { to: \"https://{host}/{x}/b.c/%20{rest}\" } }
";
    let gate = gate(&upstream, routes);
    for (host, target, expected) in [
        ("w.test", "/a%20b/%C3%BC.html?x=%26", Some("https://www.w.test/a%20b/%C3%BC.html?x=%26")),
        ("q.test", "/a/a%20b.c?q=%26", Some("http://q.test:8080/b/a%20b.c?q=%26")),
        ("l.test", "/a/a%20b.c?x", Some("/b/a%20b.c?from=l.test")),
        ("h.test", "/a%20b.c", Some("https://h.test")),
        ("d.test", "/ax/a%20b", Some("https://d.test/x/b.c/%20a%20b")),
        ("d.test", "/a../a%20b", None),
    ] {
        let response = ask(&gate, &format!("GET {target} HTTP/1.1\r\nHost: {host}"));
        assert_eq!(field(&response, "Location"), expected, "{host} {target} {response}");
        assert_eq!(statuses(response.as_bytes()), [if expected.is_some() { 308 } else { 400 }], "{host} {target}");
    }
    gate.stop();
}

/// The whole of what was asked for, in a field, as a value of a query and as pairs of one; what is in it cannot leave its place.
#[test]
fn the_whole_uri_is_a_value() {
    let upstream = Upstream::ok();
    let routes = "  - path: \"/{*rest}\"
    upstream: app
    request_headers: { set: { X-Original-URI: \"{uri}\", X-URL: \"<{url}>\", X-Query: \"{query}\" } }
  - { path: /to/sign-in, redirect: { to: \"https://auth.test/?rd={url}&m={method}\", status: 302 } }
  - { path: /to/pairs, redirect: { to: \"/new?{query}&old=1\", status: 302 } }
  - { path: /to/value, redirect: { to: \"/new?all={query}\", status: 302 } }
";
    let gate = gate(&upstream, routes);
    let sent = "/a%20b/%C3%A9?q=%2f+%26x&q=2&e%0D%0AX:%20y";
    for (asked, uri, query) in
        [(sent, sent, &sent[14..]), ("/a", "/a", ""), ("/%61", "/a", ""), ("http://x.test/a?b", "/a?b", "b")]
    {
        let before = upstream.seen().len();
        ask(&gate, &format!("GET {asked} HTTP/1.1\r\nHost: X.test:8080\r\nX-Query: theirs"));
        let seen = upstream.seen().remove(before);
        let query: &[&str] = if query.is_empty() { &[] } else { &[query] };
        assert_eq!((seen.fields("x-original-uri"), seen.fields("x-query")), (vec![uri], query.to_vec()), "{asked}");
        let authority = if asked.starts_with("http") { "x.test" } else { "x.test:8080" };
        assert_eq!(seen.fields("x-url"), [format!("<http://{authority}{uri}>")], "{asked}");
    }
    for (asked, location) in [
        (
            "/to/sign-in?a=b&c%20d",
            "https://auth.test/?rd=http%3A%2F%2Fx.test%3A8080%2Fto%2Fsign-in%3Fa%3Db%26c%2520d&m=GET",
        ),
        ("/to/pairs?a=b&rd=//x", "/new?a=b&rd=//x&old=1"),
        ("/to/pairs", "/new?&old=1"),
        ("/to/value?a=b&c", "/new?all=a%3Db%26c"),
    ] {
        let response = ask(&gate, &format!("GET {asked} HTTP/1.1\r\nHost: X.test:8080"));
        assert_eq!(field(&response, "Location"), Some(location), "{response}");
    }
    gate.stop();
}
