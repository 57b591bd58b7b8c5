//! Upstream groups: turns, retries, health, names, TLS and HTTP/2 towards them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};

use crate::harness::http2::http2_server;
use crate::harness::{
    Gate, Reply, Seen, Upstream, certificates, connect, exchange, read_response, statuses, vacant, wait_until,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A gate whose one group is described by `group` (YAML flow mapping members).
pub fn gate(group: &str) -> Gate {
    Gate::start(&format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
upstreams:
  app: {{ {group} }}
routes:
  - {{ upstream: app }}
admin: {{ bind: \"127.0.0.2:0\" }}
"
    ))
}

fn get(gate: &Gate, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
}

#[test]
fn servers_take_turns_by_weight() {
    let (light, heavy) = (Upstream::ok(), Upstream::ok());
    let gate = gate(&format!("servers: [\"{}\", {{ address: \"{}\", weight: 3 }}]", light.address, heavy.address));
    for _ in 0..40 {
        assert_eq!(get(&gate, "/"), 200);
    }
    assert_eq!((light.seen().len(), heavy.seen().len()), (10, 30));
}

#[test]
fn what_was_not_sent_is_tried_elsewhere_whatever_its_method() {
    let up = Upstream::ok();
    let gate = gate(&format!("servers: [\"{}\", \"{}\"], ejection: {{ failures: 0 }}", vacant(), up.address));
    for number in 0..8 {
        let mut client = connect(gate.address("web"));
        write!(client, "POST /{number} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").unwrap();
        assert!(read_response(&mut client).0.starts_with("HTTP/1.1 200"));
    }
    let seen = up.seen();
    assert_eq!(seen.len(), 8, "each exactly once");
    assert!(seen.iter().all(|request| request.body == b"abc"));
}

#[test]
fn what_may_have_run_is_sent_again_only_if_it_is_idempotent() {
    let dying = Upstream::start(|_| Reply::Reset(Vec::new()));
    let up = Upstream::ok();
    let gate = gate(&format!("servers: [\"{}\", \"{}\"], ejection: {{ failures: 0 }}", dying.address, up.address));
    for _ in 0..6 {
        assert_eq!(get(&gate, "/get"), 200);
    }
    let mut failed = 0;
    for _ in 0..6 {
        let mut client = connect(gate.address("web"));
        write!(client, "POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
        failed += usize::from(read_response(&mut client).0.starts_with("HTTP/1.1 502"));
    }
    let posts = |upstream: &Upstream| upstream.seen().iter().filter(|seen| seen.line().starts_with("POST")).count();
    assert_eq!(posts(&dying) + posts(&up), 6, "never twice");
    assert_eq!(posts(&dying), failed);
    assert!(failed > 0);
}

#[test]
fn a_server_that_fails_its_checks_is_left_out_and_comes_back() {
    let well = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&well);
    let sick = Upstream::start(move |request| {
        let is_check = request.line().starts_with("GET /healthz");
        if is_check && !state.load(Ordering::SeqCst) {
            return Reply::Keep(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec());
        }
        Reply::Keep(OK.to_vec())
    });
    let up = Upstream::ok();
    // One who is well may be late for several checks.
    let gate = gate(&format!(
        "servers: [\"{}\", \"{}\"], health: {{ path: /healthz, interval: 1s, timeout: 1s, fall: 10, rise: 1 }}",
        sick.address, up.address
    ));
    let requests =
        |upstream: &Upstream| upstream.seen().iter().filter(|seen| seen.line().starts_with("GET /r")).count();
    gate.wait_for("\"healthy\":false");
    for _ in 0..10 {
        assert_eq!(get(&gate, "/r"), 200);
    }
    assert_eq!(requests(&sick), 0);
    well.store(true, Ordering::SeqCst);
    gate.wait_for("\"healthy\":true");
    for _ in 0..10 {
        assert_eq!(get(&gate, "/r"), 200);
    }
    assert_eq!(requests(&sick), 5);
}

#[test]
fn an_exchange_that_takes_too_long_in_all_is_ended() {
    let silent = Upstream::start(|_| Reply::Silence);
    let gate = gate(&format!("servers: [\"{}\"], total_timeout: 200ms", silent.address));
    assert_eq!(get(&gate, "/"), 504);
    assert_eq!(gate.log(1)[0]["reason"], "upstream_total_timeout");
}

#[test]
fn names_are_resolved() {
    let up = Upstream::ok();
    let gate = gate(&format!("servers: [\"localhost:{}\"]", up.address.port()));
    assert_eq!(get(&gate, "/"), 200);
}

#[test]
fn a_name_without_address_is_503_and_says_why_in_the_log() {
    let gate = gate("servers: [\"no-such-host.invalid:80\"], connect_timeout: 300ms");
    assert_eq!(get(&gate, "/"), 503);
    assert_eq!(gate.log(1)[0]["reason"], "upstream_unresolved");
}

/// A gate over TLS that answers by itself, after what `routes` says, in a folder with its CA.
pub fn secure_upstream(routes: &str) -> Gate {
    let dir = certificates(&[("inner.example", false)]);
    let configuration = "workers: 1
listeners:
  - { name: tls, bind: \"127.0.0.1:0\", tls: { keystore: main } }
keystores:
  main: { folder: certs, default: inner.example }
routes:
ROUTES  - { respond: { status: 200, body: inner } }
";
    Gate::start_in(dir, &configuration.replace("ROUTES", routes))
}

#[test]
fn upstream_certificates_are_verified_unless_reported_otherwise() {
    let inner = secure_upstream("");
    let stranger = certificates(&[("inner.example", false)]);
    let (address, ca) = (inner.address("tls"), inner.dir.path().join("ca.pem"));
    let check = |tls: &str, status: u16, reason: &str| {
        let gate = gate(&format!("servers: [\"{address}\"], connect_timeout: 1m, tls: {{ {tls} }}"));
        assert_eq!(get(&gate, "/"), status, "{tls}");
        let log = gate.log(1);
        assert_eq!(log[0]["reason"].as_str().unwrap_or_default(), reason, "{tls}");
    };
    check(&format!("ca: {}, server_name: inner.example", ca.display()), 200, "");
    check(&format!("ca: {}, server_name: other.example", ca.display()), 502, "upstream_certificate");
    check(&format!("ca: {}", ca.display()), 502, "upstream_certificate");
    let other_ca = stranger.path().join("ca.pem");
    check(&format!("ca: {}, server_name: inner.example", other_ca.display()), 502, "upstream_certificate");
    check("insecure_skip_verify: true", 200, "");
}

/// An HTTP/2 server without TLS that sends every body back, with a trailer, as gRPC does.
fn http2_echo() -> SocketAddr {
    http2_server(echo)
}

async fn echo(request: http::Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    let (head, mut body) = request.into_parts();
    let mut response = Response::new(());
    response.headers_mut().insert("x-path", HeaderValue::from_str(head.uri.path()).unwrap());
    response.headers_mut().insert("x-te", head.headers.get("te").cloned().unwrap_or(HeaderValue::from_static("none")));
    let mut stream = respond.send_response(response, false).unwrap();
    while let Some(Ok(piece)) = body.data().await {
        let _ = body.flow_control().release_capacity(piece.len());
        stream.send_data(piece, false).unwrap();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers).unwrap();
}

#[test]
fn http2_upstreams_get_bodies_and_give_trailers() {
    let gate = gate(&format!("servers: [\"{}\"], protocol: http2", http2_echo()));
    let body = vec![b'x'; 200_000];
    for _ in 0..3 {
        let mut client = connect(gate.address("web"));
        write!(
            client,
            "POST /pkg.Service/Call HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: close, TE\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        client.write_all(&body).unwrap();
        let response = crate::harness::read_to_end(&mut client);
        let text = String::from_utf8_lossy(&response);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &text[..text.len().min(300)]);
        assert!(text.contains("x-path: /pkg.Service/Call\r\n") && text.contains("x-te: trailers\r\n"));
        let received = response.iter().filter(|byte| **byte == b'x').count();
        assert!(received >= body.len(), "{received}");
        assert!(text.ends_with("0\r\ngrpc-status: 0\r\n\r\n"), "{}", &text[text.len() - 60..]);
    }
}

#[test]
fn a_connection_that_died_at_rest_is_replaced() {
    let up = Upstream::start(|request: &Seen| {
        // Closed behind every second answer, as an upstream with a short keep-alive does.
        if request.connection.is_multiple_of(2) { Reply::Close(OK.to_vec()) } else { Reply::Keep(OK.to_vec()) }
    });
    let gate = gate(&format!("servers: [\"{}\"]", up.address));
    for _ in 0..20 {
        assert_eq!(get(&gate, "/"), 200);
    }
    wait_until("all requests", || up.seen().len() == 20);
}

#[test]
fn a_group_outlives_reloads_until_what_it_reads_changes() {
    let dir = certificates(&[("a.test", false)]);
    std::fs::write(dir.path().join("key"), "0123456789abcdef").unwrap();
    let up = Upstream::ok();
    // Whoever is hung up on in the handshake ejects the server, for the whole test.
    let cutting = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = cutting.local_addr().unwrap();
    std::thread::spawn(move || cutting.incoming().for_each(drop));
    let text = format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
upstreams:
  tls: {{ servers: [\"{}\"], connect_timeout: 1m, tls: {{ ca: ca.pem }}, ejection: {{ failures: 1, duration: 1h }} }}
  sticky: {{ servers: [\"{}\"], sticky: {{ cookie: sid, key: {{ file: key }} }} }}
routes:
  - {{ path: \"/tls\", upstream: tls }}
  - {{ path: \"/sticky\", upstream: sticky }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        address, up.address
    );
    let gate = Gate::start_in(dir, &text);
    assert_eq!((get(&gate, "/tls"), get(&gate, "/sticky")), (502, 200));
    let is_ejected = || {
        gate.metrics()
            .lines()
            .any(|line| line.starts_with("portunus_upstream_server_ejected{upstream=\"tls\"") && line.ends_with(" 1"))
    };
    assert!(is_ejected(), "{}", gate.metrics());
    let mut reloads = 0;
    let mut reload = || {
        reloads += 1;
        gate.rewrite(&format!("{text}# {reloads}\n"));
        gate.signal("HUP");
        wait_until("a reload", || {
            gate.diagnostics().iter().filter(|line| line.contains("reloaded")).count() == reloads
        });
    };
    reload();
    assert!(is_ejected());
    assert_eq!(get(&gate, "/sticky"), 200);
    assert_eq!(up.seen()[1].connection, 0, "the connection at rest is used again");
    // Its authorities are others now, and its key.
    let other = certificates(&[("b.test", false)]);
    std::fs::copy(other.path().join("ca.pem"), gate.dir.path().join("ca.pem")).unwrap();
    std::fs::write(gate.dir.path().join("key"), "another key that is long").unwrap();
    reload();
    assert!(!is_ejected());
    assert_eq!(get(&gate, "/sticky"), 200);
    assert_eq!(up.seen()[2].connection, 1, "a group of its own has connections of its own");
}

/// A server over TLS that offers these protocols by ALPN, and what a group needs to connect to it.
fn negotiating(alpn: &str) -> Gate {
    let configuration = "workers: 1
listeners:
  - { name: tls, bind: \"127.0.0.1:0\", tls: { keystore: main, alpn: ALPN } }
keystores:
  main: { folder: certs, default: inner.example }
routes:
  - { respond: { status: 200, body: inner } }
";
    Gate::start_in(certificates(&[("inner.example", false)]), &configuration.replace("ALPN", alpn))
}

#[test]
fn each_server_is_spoken_to_in_the_version_that_it_agrees_on() {
    let (both, old) = (negotiating("[h2, http/1.1]"), negotiating("[http/1.1]"));
    let new = negotiating("[h2]");
    let servers = [&both, &old, &new].map(|inner| format!("\"{}\"", inner.address("tls"))).join(", ");
    for (number, more) in (1..).zip(["", ", retries: { hedge: { after: 1h } }"]) {
        let gate = gate(&format!(
            "servers: [{servers}], protocol: auto, connect_timeout: 1m, tls: {{ insecure_skip_verify: true }}, \
             health: {{ path: /check, interval: 1h, timeout: 1h }}{more}"
        ));
        let mut client = connect(gate.address("web"));
        for _ in 0..12 {
            client.write_all(b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            assert_eq!(read_response(&mut client).1, b"inner");
        }
        // Four requests and a check: what is under way when the gate ends would be cut.
        [&both, &old, &new].iter().for_each(|inner| _ = inner.log(5 * number));
    }
    for (inner, version) in [(&both, "HTTP/2"), (&old, "HTTP/1.1"), (&new, "HTTP/2")] {
        let log = inner.log(10);
        let of = |target: &str| log.iter().filter(|line| line["target"] == target).collect::<Vec<_>>();
        assert!(of("/r").len() == 8 && !of("/check").is_empty(), "{log:?}");
        assert!(log.iter().all(|line| line["version"] == version && line["status"] == 200), "{log:?}");
        // A connection is kept, whatever its version.
        let mut ports: Vec<_> = of("/r").iter().map(|line| line["client_port"].as_u64()).collect();
        ports.dedup();
        assert!(ports.len() <= 2, "{ports:?}");
    }
}

#[test]
fn an_upgrade_takes_http_1_where_versions_are_negotiated() {
    let both = negotiating("[h2, http/1.1]");
    let gate = gate(&format!(
        "servers: \"{}\", protocol: auto, connect_timeout: 1m, tls: {{ insecure_skip_verify: true }}",
        both.address("tls")
    ));
    assert_eq!(get(&gate, "/first"), 200);
    let request = "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    assert_eq!(statuses(&exchange(gate.address("web"), request.as_bytes())), [200]);
    let log = both.log(2);
    let version = |target: &str| log.iter().find(|line| line["target"] == target).map(|line| line["version"].clone());
    assert_eq!((version("/first"), version("/upgrade")), (Some("HTTP/2".into()), Some("HTTP/1.1".into())));
}
