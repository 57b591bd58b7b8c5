//! HTTP/2 requests that name their host in a field and not in `:authority`, as balancers write them that translate HTTP/1 (RFC 9113 §8.3.1).

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::harness::frames::{Frames, Outcome};
use crate::harness::http2::http2_server;
use crate::harness::secure::Secure;
use crate::harness::trial::{Parts, secure_gate};
use crate::harness::{Upstream, read_response};

/// A request without `:authority`.
const FIELDS: [(&str, &[u8]); 5] =
    [(":method", b"GET"), (":scheme", b"https"), (":path", b"/p?q=1"), ("host", b"A.test"), ("x-sent", b"1")];

#[test]
fn a_host_field_is_as_good_as_an_authority_before_an_http_1_upstream() {
    let upstream = Upstream::ok();
    let routes = "  - { name: other, hosts: [b.test], respond: { status: 403 } }\n";
    let gate = secure_gate(upstream.address, Parts { routes, ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &FIELDS, true);
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    let seen = upstream.seen().remove(0);
    assert_eq!((seen.line(), seen.fields("host")), ("GET /p?q=1 HTTP/1.1", vec!["a.test"]));
    assert_eq!(seen.fields("x-forwarded-proto"), ["https"]);
    // The field chooses the route.
    let other = FIELDS.map(|(name, value)| (name, if name == "host" { &b"b.test"[..] } else { value }));
    client.headers(3, &other, true);
    assert!(matches!(client.outcome(3), Outcome::Response(403 | 421, _)));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_host_field_is_as_good_as_an_authority_before_an_http_2_upstream() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let address = http2_server(move |request, mut respond| {
        let hosts = request.headers().get_all("host").iter().count();
        kept.lock().unwrap().push((request.uri().to_string(), hosts));
        async move {
            let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(b"ok"), true).unwrap();
        }
    });
    let gate = secure_gate(address, Parts { upstream: ", protocol: http2", ..Parts::default() });
    let mut client = Frames::open(gate.address("web"), gate.dir.path());
    client.headers(1, &FIELDS, true);
    assert_eq!(client.outcome(1), Outcome::Response(200, b"ok".to_vec()));
    assert_eq!(*seen.lock().unwrap(), [("http://a.test/p?q=1".to_owned(), 0)]);
}

/// RFC 3986 §3.2.3 lets a port be empty, which means that of the scheme: routes and upstreams see the host alone.
#[test]
fn an_empty_port_is_that_of_the_scheme() {
    let upstream = Upstream::ok();
    let routes = "  - { name: other, path: \"/other\", hosts: [b.test], upstream: app }\n";
    let gate = secure_gate(upstream.address, Parts { routes, ..Parts::default() });
    let http_1 = |target: &str, host: &str| {
        let mut client = Secure::connect(gate.address("web"), gate.dir.path(), "a.test", "http/1.1");
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let (head, _) = read_response(&mut client);
        head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let mut frames = Frames::open(gate.address("web"), gate.dir.path());
    let mut stream = 1;
    let mut http_2 = |name: &'static str, host: &str| {
        frames.headers(
            stream,
            &[(":method", b"GET"), (":scheme", b"https"), (":path", b"/"), (name, host.as_bytes())],
            true,
        );
        let outcome = frames.outcome(stream);
        stream += 2;
        outcome
    };
    let last = || {
        upstream
            .seen()
            .last()
            .map(|seen| (seen.fields("host")[0].to_owned(), seen.fields("x-forwarded-host")[0].to_owned()))
    };
    let a = Some(("a.test".to_owned(), "a.test".to_owned()));
    for (target, host) in [("/", "a.test:"), ("/", "A.Test:"), ("https://a.test:/", "a.test:")] {
        let before = upstream.seen().len();
        assert_eq!(http_1(target, host), 200, "{target} {host}");
        assert_eq!(upstream.seen().len(), before + 1);
        assert!(last().is_some_and(|(host, _)| !host.contains(':')), "{target} {host}");
    }
    assert_eq!(http_1("/other", "b.test:"), 200);
    for name in [":authority", "host"] {
        assert_eq!(http_2(name, "a.test:"), Outcome::Response(200, b"ok".to_vec()), "{name}");
        assert_eq!(last(), a, "{name}");
    }
    let before = upstream.seen().len();
    for bad in [":", "a.test::", "a.test:x", "a.test:+1", "a.test: 1", "a.test:65536"] {
        assert_eq!(http_1("/", bad), 400, "{bad:?}");
        assert!(!matches!(http_2(":authority", bad), Outcome::Response(200, _)), "{bad:?}");
    }
    assert_eq!(upstream.seen().len(), before);
}
