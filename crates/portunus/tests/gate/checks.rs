//! What active checks ask of a server, and which answers are those of a healthy one.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};

use super::upstreams::gate;
use crate::harness::http2::http2_server;
use crate::harness::{Gate, Reply, Seen, Upstream, exchange, rejecting, statuses, wait_until};

/// A group of one server that is checked often. One that is to stay healthy is checked once, and may be late.
fn checked(address: impl std::fmt::Display, is_well: bool, health: &str, more: &str) -> Gate {
    let times = if is_well { "timeout: 1h, interval: 1h, jitter: 1ms" } else { "timeout: 100ms, interval: 100ms" };
    gate(&format!("servers: [\"{address}\"], health: {{ {times}, fall: 1, rise: 1, {health} }}{more}"))
}

fn get(gate: &Gate) -> u16 {
    statuses(&exchange(gate.address("web"), b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))[0]
}

fn checks(upstream: &Upstream) -> Vec<Seen> {
    upstream.seen().into_iter().filter(|seen| seen.fields("user-agent") == ["portunus-health"]).collect()
}

/// Whether a server that responds to its checks like this is healthy.
#[track_caller]
fn check(response: &'static str, health: &str, expected: bool) {
    let server = Upstream::start(move |_| Reply::Close(response.as_bytes().to_vec()));
    let gate = checked(server.address, expected, health, "");
    if expected {
        wait_until("a check", || !checks(&server).is_empty());
        assert_eq!(get(&gate), statuses(response.as_bytes())[0], "{health}");
    } else {
        gate.wait_for("\"healthy\":false");
        assert_eq!(get(&gate), 503, "{health}");
    }
}

#[test]
fn a_check_sends_what_it_is_given_and_looks_at_status_and_body() {
    let well = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nall is well";
    check(well, "path: /h", true);
    check(well, "path: /h, body: is well", true);
    check(well, "path: /h, body: ill", false);
    check(well, "path: /h, statuses: 204", false);
    let moved = "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n";
    check(moved, "path: /h", true);
    check(moved, "path: /h, statuses: [200-299, 401]", false);
    let unauthorized = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
    check(unauthorized, "path: /h, statuses: [200-299, 401]", true);
    check(unauthorized, "path: /h", false);
    // A body that is cut short says nothing; one without end is read to a bound.
    check("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nall is well", "path: /h, body: is well", false);
}

#[test]
fn method_and_fields_of_a_check_can_be_chosen() {
    let server = Upstream::start(|seen| {
        let head = seen.line().starts_with("HEAD");
        Reply::Close(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", if head { 7 } else { 0 }).into_bytes())
    });
    let health =
        "path: /h?deep=1, method: HEAD, host: health.example, headers: { X-Check: \"1\", authorization: \"Bearer t\" }";
    let gate = checked(server.address, true, health, "");
    wait_until("a check", || !checks(&server).is_empty());
    let seen = &checks(&server)[0];
    assert_eq!(seen.line(), "HEAD /h?deep=1 HTTP/1.1");
    assert_eq!(seen.fields("host"), ["health.example"]);
    assert_eq!((seen.fields("x-check"), seen.fields("authorization")), (vec!["1"], vec!["Bearer t"]));
    assert_eq!(get(&gate), 200);
    assert!(!gate.diagnostics().iter().any(|line| line.contains("\"healthy\":false")));
}

#[test]
fn a_check_may_go_to_another_port() {
    let (server, admin) =
        (Upstream::ok(), Upstream::start(|_| Reply::Close(b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n".to_vec())));
    let gate = checked(server.address, false, &format!("path: /h, port: {}", admin.address.port()), "");
    gate.wait_for("\"healthy\":false");
    assert_eq!(get(&gate), 503);
    assert!(checks(&server).is_empty() && checks(&admin)[0].line() == "GET /h HTTP/1.1");
    // Nobody listens there: that is no silence of the server's own port.
    let (closed, _held) = rejecting(Ipv4Addr::LOCALHOST);
    let other =
        checked(server.address, false, &format!("path: none, port: {}", closed.port()), ", when_all_down: try_anyway");
    other.wait_for("\"healthy\":false");
    assert_eq!(get(&other), 200);
}

/// What a server of gRPC says of its health.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grpc {
    Serving,
    NotServing,
    /// An error, and no message.
    Unknown,
    /// A message, and an error behind it.
    Failed,
}

async fn respond(
    says: Grpc,
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    calls: Arc<AtomicUsize>,
) {
    let (head, mut body) = request.into_parts();
    if head.uri.path() != "/grpc.health.v1.Health/Check" {
        let _ = respond.send_response(Response::new(()), true);
        return;
    }
    let mut message = Vec::new();
    while let Some(Ok(piece)) = body.data().await {
        message.extend_from_slice(&piece);
    }
    assert_eq!(message, [&[0, 0, 0, 0, 8, 0x0a, 6][..], b"a.Shop"].concat());
    assert_eq!(
        (&head.headers["content-type"], &head.headers["te"]),
        (&HeaderValue::from_static("application/grpc"), &HeaderValue::from_static("trailers"))
    );
    calls.fetch_add(1, Ordering::SeqCst);
    let mut response = Response::new(());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    if says == Grpc::Unknown {
        response.headers_mut().insert("grpc-status", HeaderValue::from_static("5"));
        let _ = respond.send_response(response, true);
        return;
    }
    let mut stream = respond.send_response(response, false).unwrap();
    let status = if says == Grpc::NotServing { 2 } else { 1 };
    stream.send_data(Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, status]), false).unwrap();
    let mut trailers = HeaderMap::new();
    let code = if says == Grpc::Failed { "13" } else { "0" };
    trailers.insert("grpc-status", HeaderValue::from_static(code));
    let _ = stream.send_trailers(trailers);
}

#[test]
fn servers_of_grpc_are_asked_by_their_own_protocol() {
    for (says, expected) in [(Grpc::Serving, 200), (Grpc::NotServing, 503), (Grpc::Unknown, 503), (Grpc::Failed, 503)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let address = http2_server(move |request, sender| respond(says, request, sender, Arc::clone(&counted)));
        let gate = checked(address, expected == 200, "grpc: a.Shop", ", protocol: http2");
        wait_until("a check", || calls.load(Ordering::SeqCst) > 0);
        if expected == 503 {
            gate.wait_for("\"healthy\":false");
        }
        assert_eq!(get(&gate), expected);
    }
}
