//! An application under a subpath: its URLs and cookies as clients see them, over the versions of HTTP on both sides.

use crate::harness::frames::{Frames, Outcome};
use crate::harness::{Gate, Reply, Upstream, ask_on};

const SAID: &str = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://app.internal/x?y\r\nRefresh: 5; url=/later\r\n\
    Set-Cookie: session=1; Path=/; Domain=app.internal\r\nSet-Cookie: other=2; Path=/x; Secure\r\nContent-Location: /x\r\n\r\n";

const EDITS: &str = ", rewrite: \"/{rest}\", response_headers: {
      rewrite_location: [{ from: \"http://app.internal/\", to: \"https://{host}/app/\" }, { from: /, to: /app/ }],
      cookies: [{ name: session, path: { from: /, to: /app/ }, domain: { from: app.internal, to: \"{host}\" }, secure: true, http_only: true, same_site: lax },
        { path: { from: /, to: /app/ }, secure: false }] }";

fn gate(upstream: &Upstream, route: &str) -> Gate {
    Gate::start(&format!(
        "workers: 1\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\nupstreams: {{ app: {{ servers: [\"{}\"] }} }}\nroutes:\n  - {{ {route} }}\n",
        upstream.address
    ))
}

fn fields<'h>(head: &'h str, name: &str) -> Vec<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

const EXPECTED: [(&str, &[&str]); 4] = [
    ("location", &["https://a.test/app/x?y"]),
    ("refresh", &["5; url=/app/later"]),
    ("set-cookie", &["session=1; Path=/app/; Domain=a.test; Secure; HttpOnly; SameSite=Lax", "other=2; Path=/app/x"]),
    ("content-location", &["/x"]),
];

#[test]
fn urls_and_cookies_of_an_application_are_those_of_its_subpath() {
    let upstream = Upstream::start(|_| Reply::Keep(SAID.into()));
    let gate = gate(&upstream, &format!("path: \"/app/{{*rest}}\", upstream: app{EDITS}"));
    let address = gate.address("web");
    let (head, _) = ask_on(address, "GET /app/a HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    for (name, expected) in EXPECTED {
        assert_eq!(fields(&head, name), expected, "{head}");
    }
    let mut client = Frames::open_plain(address);
    let head: [(&str, &[u8]); 4] =
        [(":method", b"GET"), (":scheme", b"http"), (":authority", b"a.test"), (":path", b"/app/a")];
    client.headers(1, &head, true);
    assert!(matches!(client.outcome(1), Outcome::Response(302, _)));
    assert!(upstream.seen().iter().all(|seen| seen.line() == "GET /a HTTP/1.1"));
}

/// `/app` beside `/app/{*rest}`: what the catch-all takes is empty there.
#[test]
fn the_subpath_itself_may_be_served_with_what_is_below_it() {
    let upstream = Upstream::ok();
    let gate = gate(
        &upstream,
        "path: [/app, \"/app/{*rest}\"], upstream: app, rewrite: \"/{rest}\", request_headers: { set: { X-Rest: \"{rest}\" } }",
    );
    for (path, target, rest) in [("/app", "/", &[][..]), ("/app/", "/", &[]), ("/app/x?y", "/x?y", &["x"])] {
        let before = upstream.seen().len();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        assert!(ask_on(gate.address("web"), &request).0.starts_with("HTTP/1.1 200"), "{path}");
        let seen = upstream.seen().remove(before);
        assert_eq!((seen.line(), seen.fields("x-rest")), (&*format!("GET {target} HTTP/1.1"), rest.to_vec()));
    }
}
