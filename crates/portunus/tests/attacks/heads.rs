//! What a head may look like: bytes, Host, sizes, methods (rows 6, 7, 11, 25).

use crate::harness::trial::{Parts, Trial};
use crate::harness::{Seen, Upstream, exchange, statuses};

#[test]
fn odd_bytes_in_heads_close() {
    let mut trial = Trial::start(Parts::default());
    let get = |fields: &str| format!("GET /h HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
    for (fields, reason) in [
        ("A: b\nC: d", "bare_lf"),
        ("A: b\rC: d", "bare_cr"),
        ("A: b\r\r\nC: d", "bare_cr"),
        ("A: b\r\n c", "folded_field"),
        ("A: b\r\n\tc", "folded_field"),
        ("A : b", "space_before_colon"),
        ("A\t: b", "space_before_colon"),
        (": b", "empty_field_name"),
        ("A", "field_without_colon"),
        ("A\u{1}: b", "bad_field_name"),
        ("\u{e9}: b", "bad_field_name"),
        ("A(B): c", "bad_field_name"),
        ("Keep_Alive: c", "underscore_in_field_name"),
        ("A: \0", "control_in_field_value"),
        ("A: b\u{1b}[2J", "control_in_field_value"),
        ("A: \u{7f}", "control_in_field_value"),
        ("Connection: a b", "bad_connection_option"),
    ] {
        trial.reject(get(fields), 400, reason);
    }
    for (line, status, reason) in [
        ("GET /h HTTP/1.1\n", 400, "bare_lf"),
        ("GET /h\r\n", 400, "missing_version"),
        ("GET  /h HTTP/1.1\r\n", 400, "empty_target"),
        ("GET /h  HTTP/1.1\r\n", 400, "bad_version"),
        ("GET\t/h\tHTTP/1.1\r\n", 400, "bad_method"),
        (" GET /h HTTP/1.1\r\n", 400, "bad_method"),
        ("\r\n\r\nGET /h HTTP/1.1\r\n", 400, "bad_method"),
        ("GET /h http/1.1\r\n", 400, "bad_version"),
        ("GET /h HTTP/1.1 \r\n", 400, "bad_line_end"),
        ("GET /\x7f HTTP/1.1\r\n", 400, "bad_target_byte"),
        ("GET http://\u{e9}/ HTTP/1.1\r\n", 400, "bad_host"),
        ("GET /\0 HTTP/1.1\r\n", 400, "bad_target_byte"),
        ("GET h HTTP/1.1\r\n", 400, "bad_target"),
        ("GET * HTTP/1.1\r\n", 400, "asterisk_target"),
        ("GET ftp://x/ HTTP/1.1\r\n", 400, "bad_target"),
        ("GET /h HTTP/1.2\r\n", 505, "unsupported_version"),
        ("PRI * HTTP/2.0\r\n", 505, "unsupported_version"),
    ] {
        trial.reject(format!("{line}Host: x\r\n\r\n"), status, reason);
    }
    trial.reject("GET /h HTTP/1.1\r\n X: y\r\nHost: x\r\n\r\n", 400, "folded_field");
    // One empty line before a request is tolerated (RFC 9112 §2.2); text beyond ASCII in values is data.
    let seen = trial.pass("\r\nGET /h HTTP/1.1\r\nHost: x\r\nA: \u{e9}\t\u{fc}\r\nConnection: close\r\n\r\n");
    assert_eq!(seen.fields("a"), ["\u{e9}\t\u{fc}"]);
    trial.finish();
}

#[test]
fn the_authority_is_one_and_valid() {
    let mut trial = Trial::start(Parts::default());
    for (host, reason) in [
        ("", "missing_host"),
        ("Host: x\r\nHost: x\r\n", "duplicate_host"),
        ("Host: x\r\nhost: y\r\n", "duplicate_host"),
        ("Host: user@x\r\n", "bad_host"),
        ("Host: user:pass@x\r\n", "bad_port"),
        ("Host:\r\n", "bad_host"),
        ("Host: a b\r\n", "bad_host"),
        ("Host: a,b\r\n", "bad_host"),
        ("Host: a/b\r\n", "bad_host"),
        ("Host: a?b\r\n", "bad_host"),
        ("Host: a\\b\r\n", "bad_host"),
        ("Host: a..b\r\n", "bad_host"),
        ("Host: .\r\n", "bad_host"),
        ("Host: %61\r\n", "bad_host"),
        ("Host: \u{e9}\r\n", "bad_host"),
        ("Host: [::1\r\n", "bad_host"),
        ("Host: ::1\r\n", "bad_host"),
        ("Host: [::1]x\r\n", "bad_host"),
        ("Host: x::\r\n", "bad_port"),
        ("Host: x:0\r\n", "bad_port"),
        ("Host: x:080\r\n", "bad_port"),
        ("Host: x:65536\r\n", "bad_port"),
        ("Host: x:+80\r\n", "bad_port"),
        ("Host: x:80:80\r\n", "bad_port"),
    ] {
        trial.reject(format!("GET /h HTTP/1.1\r\n{host}\r\n"), 400, reason);
    }
    for (target, reason) in [("http://user@x/", "bad_host"), ("http:///h", "bad_host"), ("http://x:0/", "bad_port")] {
        trial.reject(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"), 400, reason);
    }
    // Even where the target wins, the field must be one a server could take.
    trial.reject("GET http://x/ HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "bad_host");
    trial.reject("GET http://x/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "duplicate_host");
    trial.reject("GET http://x/ HTTP/1.1\r\n\r\n", 400, "missing_host");
    let seen = trial.pass("GET http://Good.example:81/h?q HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!((seen.line(), seen.fields("host")), ("GET /h?q HTTP/1.1", vec!["good.example:81"]));
    assert_eq!(seen.fields("x-forwarded-host"), ["good.example:81"]);
    assert!(!seen.head.contains("evil.example"));
    trial.finish();
}

#[test]
fn a_disagreeing_host_does_not_choose_the_route() {
    let routes = "  - { name: named, hosts: [inner.example], respond: { status: 204 } }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    for (target, host, status) in [
        ("http://inner.example/", "outer.example", 204),
        ("http://outer.example/", "inner.example", 200),
        ("/", "inner.example", 204),
        ("/", "INNER.example.", 204),
        ("/", "inner.example:8080", 204),
    ] {
        let sent = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let response = exchange(trial.gate.address("web"), sent.as_bytes());
        assert_eq!(statuses(&response), [status], "{target} {host}");
        trial.next_line();
    }
    assert_eq!(trial.whole().len(), 1);
}

#[test]
fn an_https_url_is_not_served_without_tls() {
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut trial = Trial::start(Parts::default());
    for target in ["https://x/a", "HTTPS://x:443/a"] {
        let response = exchange(trial.gate.address("web"), get(target).as_bytes());
        assert_eq!(statuses(&response), [421], "{target}");
        assert_eq!(trial.next_line()["reason"], "https_without_tls");
    }
    assert_eq!(trial.pass(get("http://x/a")).line(), "GET /a HTTP/1.1");
    trial.finish();
    // A proxy that opens TLS for us may say so.
    let mut trial = Trial::start(Parts { file: "trusted_proxies: 127.0.0.1\n", ..Parts::default() });
    assert_eq!(trial.pass(get("https://x/a")).line(), "GET /a HTTP/1.1");
    trial.finish();
}

#[test]
fn sizes_and_counts_have_bounds() {
    let file = "limits: { max_header_bytes: 8KiB, max_request_line: 1KiB, max_headers: 20 }";
    let mut trial = Trial::start(Parts { file, ..Parts::default() });
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    trial.reject(get(&format!("/{}", "a".repeat(1024)), ""), 414, "request_line_too_long");
    trial.reject(get(&format!("/?{}", "a".repeat(70_000)), ""), 414, "request_line_too_long");
    trial.reject(get("/", &format!("A: {}\r\n", "b".repeat(8192))), 431, "head_too_large");
    trial.reject(get("/", &format!("Cookie: {}\r\n", "b=c; ".repeat(3000))), 431, "head_too_large");
    trial.reject(get("/", &"A: b\r\n".repeat(20)), 431, "too_many_fields");
    trial.reject(get("/", &"A: b\r\n".repeat(10_000)), 431, "too_many_fields");
    trial.reject(format!("{} / HTTP/1.1\r\nHost: x\r\n\r\n", "M".repeat(40)), 400, "method_too_long");
    trial.reject("M".repeat(100_000), 400, "method_too_long");
    let seen = trial.pass(get("/", &format!("{}Connection: close\r\n", "A: b\r\n".repeat(18))));
    assert_eq!(seen.fields("a").len(), 18);
    trial.finish();
}

#[test]
fn methods_are_what_they_are() {
    let routes = "  - { name: kept, path: /kept, upstream: app, keep_method_override: true }\n";
    let parts = Parts { route: ", methods: [GET, POST]", routes, ..Parts::default() };
    let trial = Trial::start(parts);
    let mut lines = 0;
    let mut check = |method: &str, fields: &str, status: u16, reason: Option<&str>| {
        let target = if method == "CONNECT" { "x:80" } else { "/m" };
        let sent = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        let response = exchange(trial.gate.address("web"), sent.as_bytes());
        assert_eq!(statuses(&response), [status], "{method}");
        if status == 405 {
            assert!(String::from_utf8_lossy(&response).contains("\r\nAllow: "), "{method}");
        }
        lines += 1;
        let line = trial.gate.log(lines).pop().unwrap();
        assert_eq!((line["reason"].as_str(), line["method"].as_str()), (reason, Some(method)), "{method}");
    };
    for method in ["DELETE", "FOO", "foo", "M-SEARCH"] {
        check(method, "", 405, Some("method_not_allowed"));
    }
    check("TRACE", "", 405, Some("method_never_allowed"));
    // The fields and parameters with which frameworks let a method be overridden do not make another method of it.
    for field in ["X-HTTP-Method-Override: DELETE\r\n", "X-HTTP-Method: DELETE\r\n", "X-Method-Override: DELETE\r\n"] {
        check("POST", &format!("{field}Content-Length: 0\r\n"), 200, None);
        check("DELETE", &field.replace("DELETE", "GET"), 405, Some("method_not_allowed"));
    }
    let seen = trial.whole();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|request| request.line() == "POST /m HTTP/1.1"));
    let overrides = |seen: &Seen| seen.head.to_ascii_lowercase().matches("method").count();
    assert!(seen.iter().all(|request| overrides(request) == 0), "an upstream that obeys such fields must not get them");
    let kept = "POST /kept HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-HTTP-Method-Override: DELETE\r\n\
                X-Method-Override: PUT\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(statuses(&exchange(trial.gate.address("web"), kept.as_bytes())), [200]);
    assert_eq!(overrides(trial.whole().last().unwrap()), 2, "unless the route says so");
}

/// Methods are case-sensitive, but Flask runs POST for `post`: a known method in another case, and one that a route names, is nobody's.
#[test]
fn a_known_method_in_another_case_is_rejected() {
    let routes = "  - { name: write, path: /w, methods: [POST, DELETE, SPELL], respond: { status: 403 } }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    let request = |method: &str| format!("{method} /w HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut lines = 0;
    for method in ["post", "Post", "pOST", "delete", "trace", "connect", "get", "propfind", "purge", "spell", "Spell"] {
        let request = request(method).replace("connect /w", "connect x:80");
        trial.reject(request, 400, "method_in_other_case");
        lines += 1;
        assert_eq!(trial.gate.log(lines).pop().unwrap()["method"], method);
    }
    for method in ["FOO", "foo", "PROPFIND", "GET"] {
        assert_eq!(trial.pass(request(method)).line(), format!("{method} /w HTTP/1.1"));
    }
    trial.finish();
}

/// What an authentication service is asked about is what the upstream gets: one server takes the first of two fields, another one the last.
#[test]
fn credentials_are_there_once() {
    let mut trial = Trial::start(Parts::default());
    let request = |fields: &str| format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    for fields in [
        "Authorization: Basic YQ==\r\nAuthorization: Basic YQ==\r\n",
        "authorization: a\r\nX: y\r\nAUTHORIZATION: b\r\n",
    ] {
        trial.reject(request(fields), 400, "duplicate_authorization");
    }
    let seen =
        trial.pass(request("Cookie: a=1\r\nX: y\r\ncookie: b=2; c=3\r\nAuthorization: Basic YQ==\r\nCOOKIE: a=4\r\n"));
    assert_eq!(seen.fields("cookie"), ["a=1; b=2; c=3; a=4"]);
    assert_eq!((seen.fields("authorization").len(), seen.fields("x").len()), (1, 1));
    trial.finish();
}

#[test]
fn options_for_the_server_as_a_whole_is_answered_here() {
    let routes = "  - { name: some, path: /some, methods: [GET, PURGE], upstream: app }\n";
    let mut trial = Trial::start(Parts { route: ", methods: [POST]", routes, ..Parts::default() });
    for target in ["*", "http://x"] {
        let sent = format!("OPTIONS {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let response = exchange(trial.gate.address("web"), sent.as_bytes());
        assert_eq!(statuses(&response), [200], "{target}");
        let response = String::from_utf8(response).unwrap();
        assert!(response.contains("\r\nAllow: GET, HEAD, OPTIONS, POST, PURGE\r\n"), "{response}");
        assert_eq!(trial.next_line()["status"], 200);
    }
    trial.reject("GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400, "asterisk_target");
    assert_eq!(trial.upstream.raw(), b"");
    // A route for any method.
    let trial = Trial::start(Parts::default());
    let response = exchange(trial.gate.address("web"), b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let response = String::from_utf8(response).unwrap();
    assert!(response.contains("\r\nAllow: DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT\r\n"), "{response}");
}

#[test]
fn trace_and_connect_never_pass() {
    let mut trial = Trial::before(Upstream::ok(), Parts::default());
    for sent in [
        "TRACE / HTTP/1.1\r\nHost: x\r\nCookie: secret\r\nConnection: close\r\n\r\n",
        "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\nConnection: close\r\n\r\n",
        "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ] {
        let response =
            exchange(trial.gate.address("web"), [sent.as_bytes(), b"\x16\x03\x01opaque"].concat().as_slice());
        assert_eq!(statuses(&response), [405], "{sent}");
        assert!(!String::from_utf8_lossy(&response).contains("secret"));
        assert_eq!(trial.next_line()["status"], 405);
    }
    trial.reject("CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "connect_without_port");
    trial.finish();
}
