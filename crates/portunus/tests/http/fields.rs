//! Fields that a route sets, adds and removes; fields that tell of the gate itself.

use std::io::Write;

use crate::harness::exchange;
use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, Trial, secure_gate, yaml};
use crate::harness::{Gate, Reply, Upstream, read_to_end};

const EDITS: &str = ", request_headers: { remove: [X-Gone, Cookie], set: { X-Set: ours }, add: { X-Added: two } }, \
    response_headers: { remove: [Server, X-Powered-By], set: { Cache-Control: no-store }, add: { X-Added: more } }, hsts: true";

const SAID: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: secret/1.0\r\nx-powered-by: php\r\nCache-Control: public\r\nX-Added: some\r\n\
    Set-Cookie: a=b; Path=/; Secure\r\nSet-Cookie: c=d, e=f; Expires=Wed, 21 Oct 2026 07:28:00 GMT\r\nset-cookie: g=\"h; i\"\r\n\
    Strict-Transport-Security: max-age=1\r\n\r\nok";

fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let lines = head.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
}

#[test]
fn a_routes_edits_apply_to_both_sides() {
    let upstream = Upstream::start(|_| Reply::Keep(SAID.into()));
    let trial = Trial::before(upstream, Parts { route: EDITS, ..Parts::default() });
    let sent = "GET /f HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-gone: 1\r\nCookie: a=b\r\nX-Set: theirs\r\nx-set: again\r\nX-Added: one\r\n\r\n";
    let response = String::from_utf8(exchange(trial.gate.address("web"), sent.as_bytes())).unwrap();
    let seen = trial.upstream.seen().remove(0);
    for (name, expected) in [("x-gone", &[][..]), ("cookie", &[]), ("x-set", &["ours"]), ("x-added", &["one", "two"])] {
        assert_eq!(seen.fields(name), expected, "{name} in {}", seen.head);
    }
    let cookies = ["a=b; Path=/; Secure", "c=d, e=f; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "g=\"h; i\""];
    for (name, expected) in [
        ("server", &[][..]),
        ("x-powered-by", &[]),
        ("cache-control", &["no-store"]),
        ("x-added", &["some", "more"]),
        ("set-cookie", &cookies),
        // Over plain HTTP the promise of the route is not given (RFC 6797 §7.2); what the upstream says is its own business.
        ("strict-transport-security", &["max-age=1"]),
    ] {
        assert_eq!(values(&response, name), expected, "{name} in {response}");
    }
}

#[test]
fn responses_over_tls_carry_the_routes_hsts_once() {
    let upstream = Upstream::start(|_| Reply::Keep(SAID.into()));
    let gate = secure_gate(upstream.address, Parts { route: EDITS, ..Parts::default() });
    let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
    client.write_all(b"GET /f HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
    let response = String::from_utf8(read_to_end(&mut client)).unwrap();
    assert_eq!(values(&response, "strict-transport-security"), ["max-age=31536000"]);
    assert_eq!(values(&response, "set-cookie").len(), 3);
    assert_eq!(upstream.seen()[0].fields("x-forwarded-proto"), ["https"]);
}

#[test]
fn the_gate_names_itself_and_the_request() {
    let trial = Trial::start(Parts::default());
    let sent = "GET /v HTTP/1.1\r\nHost: x\r\nConnection: close\r\nVia: 1.0 other\r\n\r\n";
    let response = String::from_utf8(exchange(trial.gate.address("web"), sent.as_bytes())).unwrap();
    assert_eq!(values(&response, "via"), ["1.1 portunus"]);
    let seen = trial.upstream.seen().remove(0);
    assert_eq!(seen.fields("via"), ["1.0 other", "1.1 portunus"]);
    assert_eq!(seen.fields("x-request-id"), [trial.gate.log(1)[0]["request_id"].as_str().unwrap()]);
}

#[test]
fn forwarding_fields_can_be_left_out() {
    let file = "forwarding: { x_forwarded: false, x_real_ip: false, via: false, request_id: false }";
    let mut trial = Trial::start(Parts { file, ..Parts::default() });
    let seen = trial.pass(
        "GET /v HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: 1.1.1.1\r\nX-Real-IP: 1.1.1.1\r\n\r\n",
    );
    assert_eq!(seen.head, "GET /v HTTP/1.1\r\nHost: x");
    trial.finish();
    for (left_out, rest) in [("x-forwarded-host", "x-forwarded-port"), ("x-forwarded-port", "x-forwarded-host")] {
        let file = format!("forwarding: {{ {}: false }}", left_out.replace('-', "_"));
        let mut trial = Trial::start(Parts { file: &file, ..Parts::default() });
        let seen = trial.pass(
            "GET /v HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Host: y\r\n\r\n",
        );
        assert_eq!((seen.fields(left_out).len(), seen.fields(rest).len()), (0, 1), "{}", seen.head);
        assert_eq!((seen.fields("x-forwarded-for").len(), seen.fields("x-forwarded-proto")), (1, vec!["http"]));
        trial.finish();
    }
}

/// Behind a balancer that terminates TLS both fields name the scheme that the client used; of a peer that is not trusted both name that of the connection.
#[test]
fn all_fields_that_say_the_scheme_say_the_same() {
    for (trusted, more, scheme) in [
        ("trusted_proxies: 127.0.0.1, ", "", "https"),
        ("trusted_proxies: 127.0.0.1, ", "X-Forwarded-Proto: http\r\n", "http"),
        ("", "", "http"),
    ] {
        let file = format!("{}forwarding: {{ forwarded: true }}", trusted.replace(", ", "\n"));
        let mut trial = Trial::start(Parts { file: &file, ..Parts::default() });
        let sent = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n";
        let seen = trial.pass(format!("{sent}{more}\r\n"));
        assert_eq!(seen.fields("x-forwarded-proto"), [scheme], "{trusted}{more}");
        let forwarded = seen.fields("forwarded");
        assert!(forwarded.len() == 1 && forwarded[0].ends_with(&format!(";proto={scheme}")), "{forwarded:?}");
        trial.finish();
    }
}

/// What the client connected to, not what is bound behind a balancer or a port mapping.
#[test]
fn the_port_is_that_which_clients_connect_to() {
    let trust = "trusted_proxies: 127.0.0.1";
    let https = "X-Forwarded-Proto: https\r\n";
    let host = "a.test";
    for (file, listener, host, sent, expected) in [
        ("", "", host, "", None),
        ("", ", public_port: 443", host, "", Some("443")),
        ("", ", public_port: 443", host, "X-Forwarded-Port: 1\r\n", Some("443")),
        ("", "", host, https, None),
        ("", "", "a.test:99", https, None),
        (trust, "", host, "", None),
        (trust, "", host, https, Some("443")),
        (trust, "", host, "X-Forwarded-Proto: http\r\n", Some("80")),
        (trust, "", "a.test:8443", https, Some("8443")),
        (trust, "", "[::1]", https, Some("443")),
        (trust, "", host, "X-Forwarded-Proto: https\r\nX-Forwarded-Port: 7\r\n", Some("7")),
        (trust, ", public_port: 9443", host, https, Some("9443")),
        (trust, ", public_port: 9443", host, "X-Forwarded-Port: 7\r\n", Some("7")),
    ] {
        let upstream = Upstream::ok();
        let text = yaml(&[upstream.address], Parts { file, ..Parts::default() });
        let gate = Gate::start(&text.replace("127.0.0.1:0\"", &format!("127.0.0.1:0\"{listener}")));
        let bound = gate.address("web").port().to_string();
        let sent = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{sent}Connection: close\r\n\r\n");
        exchange(gate.address("web"), sent.as_bytes());
        assert_eq!(
            upstream.seen()[0].fields("x-forwarded-port"),
            [expected.unwrap_or(&bound)],
            "{file}{listener} {sent}"
        );
    }
}

#[test]
fn host_is_kept_or_rewritten() {
    let routes = "  - { name: own, path: \"/own\", upstream: app, host: upstream }\n  - { name: fixed, path: \"/fixed\", upstream: app, host: { set: \"app.internal:81\" } }\n";
    let mut trial = Trial::start(Parts { routes, ..Parts::default() });
    let own = trial.upstream.address.to_string();
    for (path, host) in [("/kept", "Client.example:8080"), ("/own", &own), ("/fixed", "app.internal:81")] {
        let seen = trial.pass(format!("GET {path} HTTP/1.1\r\nHost: Client.example:8080\r\nConnection: close\r\n\r\n"));
        assert_eq!(seen.fields("host"), [host.to_lowercase()], "{path}");
        assert_eq!(seen.fields("x-forwarded-host"), ["client.example:8080"], "{path}");
    }
    trial.finish();
}
