//! Paths that mean one thing to the gate and another to the upstream, and requests that try to choose the upstream (rows 24, 30).

use crate::harness::trial::{Parts, Trial};
use crate::harness::{Upstream, exchange, statuses};

const ROUTES: &str = "  - { name: private, path: \"/private/{*rest}\", respond: { status: 403 } }\n";

/// Dot segments, however they are spelled.
const DOT_SEGMENTS: &[&str] = &[
    "/../private/",
    "/a/../private/",
    "/./private/",
    "/a/..",
    "/a/.",
    "/%2e%2e/private/",
    "/a/%2E%2e/private/",
    "/.%2e/",
    "/a/..;/private/",
    "/a/..;x=y/private/",
    "/a/.;/",
    "/a/%2e%2e%3bx/",
    "/a/..%2fprivate/",
    "/a%2f..%2fprivate/",
    "/a/..%252fprivate/",
    "/%2e;/private/",
    "/a/%2e%2e;x/private/",
    "/a/.%2E;a=b/private/",
    "/a/%2e%3Bx/",
    "/..;",
    "/a/%2e%2e;",
];

#[test]
fn a_path_is_matched_and_forwarded_alike_or_rejected() {
    let mut trial = Trial::start(Parts { routes: ROUTES, ..Parts::default() });
    for path in DOT_SEGMENTS {
        trial.reject(request(path), 400, "dot_segment");
    }
    for (path, reason) in [
        ("/a\\private", "backslash_in_path"),
        ("/a%5cprivate", "backslash_in_path"),
        ("/%5C..%5Cprivate", "backslash_in_path"),
        ("/private%00", "encoded_control_in_path"),
        ("/a%0d%0aX:y", "encoded_control_in_path"),
        ("/a%7f", "encoded_control_in_path"),
        ("/%2570rivate/", "double_encoding"),
        ("/a/%252e%252e/private/", "double_encoding"),
        ("/a/%25252e%25252e/private/", "double_encoding"),
        ("/a%255c", "double_encoding"),
        ("/%c0%ae%c0%ae/private/", "path_not_utf8"),
        ("/%c0%afprivate", "path_not_utf8"),
        ("/%e0%80%ae/", "path_not_utf8"),
        ("/%ed%a0%80", "path_not_utf8"),
        ("/%ff", "path_not_utf8"),
        ("/%u002e", "bad_percent_encoding"),
        ("/%", "bad_percent_encoding"),
        ("/%4", "bad_percent_encoding"),
        ("/%zz", "bad_percent_encoding"),
        ("/a#b", "bad_path_byte"),
        ("/a?b#c", "bad_query_byte"),
        ("/a|\\b", "backslash_in_path"),
        ("/a|/../b", "dot_segment"),
    ] {
        trial.reject(request(path), 400, reason);
    }
    for (path, forwarded) in [
        ("/%61%2d%7Eb", "/a-~b"),
        ("/a//b/", "/a//b/"),
        ("/a;p=1/b;q", "/a;p=1/b;q"),
        ("/a//private/", "/a//private/"),
        ("/;/a//", "/;/a//"),
        ("/PRIVATE/", "/PRIVATE/"),
        ("/a%20b%3f%23", "/a%20b%3F%23"),
        ("/%e2%82%ac", "/%E2%82%AC"),
        ("/.well-known/...", "/.well-known/..."),
        ("/a?x=/../private/%2e%2e&y=%00", "/a?x=/../private/%2e%2e&y=%00"),
        // A query is opaque: overlong UTF-8 in it goes on as it came, as it does in nginx and HAProxy.
        ("/a?x=%c0%af&%e0%80%af=%ff", "/a?x=%c0%af&%e0%80%af=%ff"),
    ] {
        assert_eq!(trial.pass(request(path)).line(), format!("GET {forwarded} HTTP/1.1"), "{path}");
    }
    // What is private stays so in every spelling of the same path.
    for path in ["/private/x", "/%70rivate/x", "/%70%72%69%76%61%74%65/", "/private/%78"] {
        let response = exchange(trial.gate.address("web"), request(path).as_bytes());
        assert_eq!(statuses(&response), [403], "{path}");
        trial.next_line();
    }
    trial.finish();
}

/// What clients send raw although RFC 3986 has it encoded, as it goes on; none where it is no text.
pub const RAW: [(&[u8], Option<&str>); 17] = [
    // What the percent-encode sets of the WHATWG URL Standard leave raw, and what older browsers and tools do.
    (b"/a|b", Some("/a%7Cb")),
    (b"/a[0]/b]", Some("/a%5B0%5D/b%5D")),
    (b"/a^b", Some("/a%5Eb")),
    (b"/{id}/`x`", Some("/%7Bid%7D/%60x%60")),
    (b"/\"a\"/<b>", Some("/%22a%22/%3Cb%3E")),
    (b"/'a'", Some("/'a'")),
    (b"/s?a[]=1&b={c|d}", Some("/s?a%5B%5D=1&b=%7Bc%7Cd%7D")),
    (b"/s?a\\b=^`'", Some("/s?a%5Cb=%5E%60'")),
    (b"/s?q=\"<a>\"", Some("/s?q=%22%3Ca%3E%22")),
    // Octets beyond ASCII: text in paths, anything in queries.
    (b"/\xc3\xa9\xe2\x82\xac", Some("/%C3%A9%E2%82%AC")),
    (b"/s?q=\xc3\xa9&r=\xe9", Some("/s?q=%C3%A9&r=%E9")),
    // Encoded once: what comes encoded stays so.
    (b"/|%7c?|%7c", Some("/%7C%7C?%7C%7c")),
    (b"/s?%zz=100%", Some("/s?%zz=100%")),
    (b"/\xe9", None),
    (b"/\xc0\xaf", None),
    (b"/%c0%af", None),
    (b"/a\xff/../b", None),
];

#[test]
fn what_clients_send_raw_is_encoded_once() {
    let routes = "  - { name: private, path: \"/%7Bprivate%7D/{*rest}\", respond: { status: 403 } }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    for (path, expected) in RAW {
        let sent = [b"GET ", path, b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"].concat();
        match expected {
            Some(forwarded) => {
                assert_eq!(trial.pass(sent).line(), format!("GET {forwarded} HTTP/1.1"), "{}", path.escape_ascii());
            }
            None => trial.reject(sent, 400, "path_not_utf8"),
        }
    }
    // The form that goes on is the form that is matched.
    for path in ["/{private}/x", "/%7bprivate}/x", "/%7B%70rivate%7D/x"] {
        let response = exchange(trial.gate.address("web"), request(path).as_bytes());
        assert_eq!(statuses(&response), [403], "{path}");
        trial.next_line();
    }
    // Nor is what it becomes longer than what may come.
    trial.reject(request(&format!("/{}", "|".repeat(4000))), 414, "request_line_too_long");
    trial.finish();
}

/// A server behind the gate may make slashes one and drop `;` parameters: what it would serve must not be what a more specific route guards.
#[test]
fn a_catch_all_is_no_way_around_a_more_specific_route() {
    let routes = "  - { name: private, path: \"/private/{*rest}\", respond: { status: 403 } }
  - { name: door, path: \"/door\", respond: { status: 403 } }
  - { name: user, path: \"/users/{id}/keys\", methods: [GET], respond: { status: 403 } }
  - { name: packages, path: \"/packages/{name}\", upstream: app, allow_encoded_slash: true }
  - { name: secret, path: \"/packages/a/secret\", respond: { status: 403 } }
  - { name: old, path: \"/old/{*rest}\", upstream: app, allow_ambiguous_path: true }
  - { name: older, path: \"/old/er\", respond: { status: 403 } }
";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    for path in [
        "//private/x",
        "///private//x",
        "/private;a/x",
        "/private;/x",
        "/;/private/x",
        "/;a=b;c/private;d=e/;f",
        "/%70rivate;a/x",
        "/private%3Ba/x",
        "/private%3ba/x",
        "//private/?q",
        "/door;a",
        "/door;a=b?c",
        "//door",
        "/;x/door",
        "/users//5/keys",
        "/users/5;a/keys",
        "/users/5/;x/keys",
        "/users/5/keys;a",
        "/packages/a%2Fsecret",
        "/packages/a;b%2Fsecret",
        "//old/er",
    ] {
        let response = exchange(trial.gate.address("web"), request(path).as_bytes());
        // What the more specific route matches by itself it answers.
        let status = statuses(&response)[0];
        assert!(status == 400 || status == 403, "{path}: {status}");
        let line = trial.next_line();
        assert!(status == 403 || line["reason"] == "ambiguous_path", "{path}: {line}");
        assert_eq!(trial.upstream.seen().len(), 0, "{path}");
    }
    for path in [
        "/a//b",
        "/a;b/c",
        "/private-not;a/x",
        "/xdoor;a",
        "/door/;a",
        "/packages/a%2Fb",
        "/packages/a;b",
        "/old//er",
        "/old/er;a",
        "/old/;/er",
    ] {
        assert_eq!(trial.pass(request(path)).line(), format!("GET {path} HTTP/1.1"), "{path}");
    }
    // As for the route itself, its methods count.
    let post = "POST /users/5;a/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(trial.pass(post).line(), "POST /users/5;a/keys HTTP/1.1");
    trial.finish();
}

/// Frameworks decode a path before they match it: what they would serve must not be what another route guards. An escape of which no pattern cares passes.
#[test]
fn an_escaped_character_is_no_way_around_a_route() {
    let routes = "  - { name: delete, path: \"/v1/items:delete\", respond: { status: 403 } }
  - { name: admin, path: \"/@admin\", respond: { status: 403 } }
  - { name: sum, path: \"/a+b/{*rest}\", respond: { status: 403 } }
  - { name: purge, path: { regex: \"/r/[a-z]+:purge\" }, respond: { status: 403 } }
  - { name: marks, path: \"/m!$&'()*,;=\", respond: { status: 403 } }
  - { name: escaped, path: \"/e%3Ae\", respond: { status: 403 } }
  - { name: old, path: \"/old/{id}\", upstream: app, allow_ambiguous_path: true }
  - { name: older, path: \"/old/er:all\", respond: { status: 403 } }
";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    for path in [
        "/v1/items%3Adelete",
        "/v1/items%3adelete",
        "/v1/items%253Adelete",
        "/v1/items%253adelete",
        "/v1//items%3Adelete",
        "/v1;x/items%3Adelete",
        "/%40admin",
        "/%2540admin",
        "/a%2Bb/x",
        "/a%2bb/x/y",
        "/r/x%3Apurge",
        "/r/x%253apurge",
        "/m%21$&'()*,;=",
        "/m!%24%26%27%28%29%2A%2C%3B%3D",
        "/e:e",
        "/%40admin%3Fx",
        "/@admin%23",
    ] {
        trial.reject(request(path), 400, "ambiguous_path");
    }
    for path in [
        "/files/a%20b",
        "/files/a%2Bb",
        "/v1/items%2Cdelete",
        "/v1/%C3%B6%3A",
        "/tags/%23rust%3F",
        "/100%25/%2525",
        "/r/x%3Aother",
        "/old/er%3Aall",
    ] {
        assert_eq!(trial.pass(request(path)).line(), format!("GET {path} HTTP/1.1"), "{path}");
    }
    trial.finish();
}

/// The path as a server reads it that makes slashes one (nginx), drops `;` parameters (Jetty, Undertow), or does both, before it decodes escapes (Tomcat)
/// or after (what decodes in front of them).
fn as_servers_read(path: &str) -> Vec<String> {
    let merged = |path: &str| {
        let mut out = String::new();
        path.chars().for_each(|c| {
            if c != '/' || !out.ends_with('/') {
                out.push(c)
            }
        });
        out
    };
    let bare = |path: &str| {
        let names: Vec<&str> = path.split('/').map(|segment| segment.split(';').next().unwrap()).collect();
        names.join("/")
    };
    let decoded = path.replace("%3B", ";").replace("%3b", ";").replace("%2F", "/").replace("%2f", "/");
    [path, &decoded].iter().flat_map(|path| [merged(path), bare(path), merged(&bare(path))]).collect()
}

/// A parameter of a path that is empty for the server behind: what the server would serve is what another route guards, less specific or not.
#[test]
fn a_parameter_that_other_servers_read_as_empty_is_no_way_around_a_route() {
    let keys = |host: &str| {
        format!(
            "  - {{ name: tenant.{host}, hosts: {host}, path: \"/{{tenant}}/public\", upstream: app }}
  - {{ name: item.{host}, hosts: {host}, path: \"/items/{{id}}\", upstream: app }}
  - {{ name: version.{host}, hosts: {host}, path: \"/api/v{{number}}/{{*rest}}\", upstream: app }}
  - {{ name: file.{host}, hosts: {host}, path: \"/files/{{name}}\", upstream: app, allow_encoded_slash: true }}
  - {{ name: matrix.{host}, hosts: {host}, path: \"/matrix/{{id}}\", upstream: app, allow_ambiguous_path: true }}
"
        )
    };
    // What is behind the parameters is guarded by a less specific route, or nobody may come there at all.
    let guard = "  - { name: guard, hosts: guarded.test, path: \"/{*rest}\", respond: { status: 403 } }\n";
    let routes = [&keys("guarded.test"), guard, &keys("bare.test")].concat();
    let mut trial = Trial::start(Parts { routes: &routes, ..Parts::default() });
    for host in ["guarded.test", "bare.test"] {
        let request = |path: &str| request(path).replace("Host: x", &format!("Host: {host}"));
        for path in [
            "/;/public",
            "/;a=b/public",
            "/%3B/public",
            "/%3bx/public",
            "/;x;y/public",
            "/items/;",
            "/items/;id=5",
            "/items/%3B",
            "/api/v;1/x",
            "/api/v;/x",
            "/api/v%3B/x",
            "/files/;",
            "/files/%2F",
            "/files/%2F;x",
            "/files/;a%2F",
            "/files/%2F%3B",
        ] {
            trial.reject(request(path), 400, "ambiguous_path");
        }
        for path in
            ["/a/public", "/a;x/public", "/items/5", "/items/5;a", "/items/a;", "/api/v1/x", "/api/v1;a/x", "/api/v1/;"]
        {
            assert_eq!(trial.pass(request(path)).line(), format!("GET {path} HTTP/1.1"), "{path}");
            // What servers make of it the gate would have let pass, too.
            for reading in as_servers_read(path).iter().filter(|reading| *reading != path) {
                assert_eq!(
                    trial.pass(request(reading)).line(),
                    format!("GET {reading} HTTP/1.1"),
                    "{path} as {reading}"
                );
            }
        }
        for path in ["/files/a%2Fb", "/files/a", "/matrix/;id=5"] {
            assert_eq!(trial.pass(request(path)).line(), format!("GET {path} HTTP/1.1"), "{path}");
        }
    }
    trial.finish();
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

#[test]
fn an_encoded_slash_passes_only_where_a_route_opts_in() {
    let routes = "  - { name: packages, path: \"/packages/{name}\", upstream: app, allow_encoded_slash: true }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    for path in ["/a%2fb", "/a%2Fb", "/a%252fb", "/other/@s%2fp"] {
        let response = exchange(trial.gate.address("web"), request(path).as_bytes());
        assert_eq!(statuses(&response), [400], "{path}");
        assert_eq!(trial.next_line()["reason"], "encoded_slash");
    }
    trial.reject(request("/packages/..%2fx"), 400, "dot_segment");
    assert_eq!(trial.pass(request("/packages/@s%2fp")).line(), "GET /packages/@s%2Fp HTTP/1.1");
    trial.finish();
}

#[test]
fn no_request_chooses_its_upstream() {
    let mut trial = Trial::start(Parts::default());
    let other = Upstream::ok();
    for sent in [
        format!("GET http://{}/x HTTP/1.1\r\nHost: x\r\n", other.address),
        format!("GET /x HTTP/1.1\r\nHost: {}\r\n", other.address),
        "GET /latest/meta-data HTTP/1.1\r\nHost: 169.254.169.254\r\n".to_owned(),
        "GET http://[::1]:80/x HTTP/1.1\r\nHost: localhost\r\n".to_owned(),
        format!(
            "GET /x HTTP/1.1\r\nHost: x\r\nX-Forwarded-Host: {0}\r\nX-Original-URL: http://{0}/\r\n",
            other.address
        ),
        format!("GET /http://{}/x HTTP/1.1\r\nHost: x\r\n", other.address),
        format!("GET /@{}/x HTTP/1.1\r\nHost: x\r\n", other.address),
    ] {
        trial.pass(format!("{sent}Connection: close\r\n\r\n"));
    }
    assert_eq!(other.raw(), b"");
    trial.finish();
}

#[test]
fn a_parameter_reaches_a_host_only_through_its_list_and_a_path_only_encoded() {
    let other = Upstream::ok();
    let port = other.address.port();
    let routes = format!(
        "  - {{ name: made, path: \"/made/{{tenant}}/{{*rest}}\", upstream_url: {{ url: \"http://{{tenant}}.test:{port}/{{rest}}\", allow: [\"good.test:{port}\"] }} }}
  - {{ name: query, path: \"/query/{{name}}\", upstream: app, rewrite: \"/find?name={{name}}&end=1\" }}
  - {{ name: away, path: \"/away/{{tenant}}\", redirect: {{ to: \"https://{{tenant}}.test/\", allow: [\"good.test\"] }} }}
"
    );
    let mut trial = Trial::start(Parts { routes: &routes, ..Parts::default() });
    for tenant in
        ["127.0.0.1%23", "evil", "good.test%3a80%2f", "169.254.169.254", "good%40evil", "%e2%82%ac", "good%20", "-"]
    {
        for route in ["made", "away"] {
            let sent = request(&format!("/{route}/{tenant}{}", if route == "made" { "/x" } else { "" }));
            let response = exchange(trial.gate.address("web"), sent.as_bytes());
            assert_eq!(statuses(&response), [400], "{route} {tenant}");
            let line = trial.next_line();
            assert!(["bad_parameter", "encoded_slash"].contains(&line["reason"].as_str().unwrap()), "{line}");
        }
    }
    assert_eq!(other.raw(), b"");
    let seen = trial.pass(request("/query/a%26admin%3D1%23%20+b"));
    assert_eq!(seen.line(), "GET /find?name=a%26admin%3D1%23%20%2Bb&end=1 HTTP/1.1");
    trial.finish();
}
