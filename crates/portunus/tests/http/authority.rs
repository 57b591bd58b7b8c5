//! HTTP/2 requests that name their host in a field and not in `:authority`, as balancers write them that translate HTTP/1 (RFC 9113 §8.3.1).

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::harness::Upstream;
use crate::harness::frames::{Frames, Outcome};
use crate::harness::http2::http2_server;
use crate::harness::trial::{Parts, secure_gate};

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
