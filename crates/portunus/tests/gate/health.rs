//! Active checks of HTTP/2 groups, in the clear and under TLS, by servers that speak nothing else.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::Response;

use super::upstreams::secure_upstream;
use crate::harness::{Gate, Upstream, exchange, statuses, wait_until};

/// A gate whose one group is checked often. `fall`: after so many failed checks in a row, one each second, a server is ill.
fn gate(servers: &str, fall: u32, more: &str) -> Gate {
    Gate::start(&format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
upstreams:
  app:
    servers: [{servers}]
    protocol: http2
    health: {{ path: /healthz, host: health.example, interval: 1s, timeout: 1s, fall: {fall}, rise: 1 }}
    {more}
routes:
  - {{ upstream: app }}
"
    ))
}

fn get(gate: &Gate) -> u16 {
    statuses(&exchange(gate.address("web"), b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))[0]
}

/// An HTTP/2 server in the clear.
struct Http2 {
    address: SocketAddr,
    /// What it says to checks.
    is_well: Arc<AtomicBool>,
    checks: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Http2 {
    fn start() -> Http2 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Http2 {
            address: listener.local_addr().unwrap(),
            is_well: Arc::new(AtomicBool::new(true)),
            checks: Arc::default(),
            requests: Arc::default(),
        };
        listener.set_nonblocking(true).unwrap();
        let (is_well, checks, requests) =
            (Arc::clone(&server.is_well), Arc::clone(&server.checks), Arc::clone(&server.requests));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let (is_well, checks, requests) =
                        (Arc::clone(&is_well), Arc::clone(&checks), Arc::clone(&requests));
                    #[expect(clippy::disallowed_methods, reason = "a server of a test")]
                    tokio::spawn(async move {
                        // Whoever speaks another protocol ends here.
                        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                        while let Some(Ok((request, stream))) = connection.accept().await {
                            let status = check(&request, &is_well, &checks, &requests);
                            respond(stream, status);
                        }
                    });
                }
            });
        });
        server
    }
}

fn check(
    request: &http::Request<h2::RecvStream>,
    is_well: &AtomicBool,
    checks: &AtomicUsize,
    requests: &AtomicUsize,
) -> u16 {
    if request.uri().path() != "/healthz" {
        requests.fetch_add(1, Ordering::SeqCst);
        return 200;
    }
    assert_eq!(request.uri().to_string(), "http://health.example/healthz");
    assert_eq!(request.headers()["user-agent"], "portunus-health");
    checks.fetch_add(1, Ordering::SeqCst);
    if is_well.load(Ordering::SeqCst) { 204 } else { 503 }
}

fn respond(mut respond: h2::server::SendResponse<Bytes>, status: u16) {
    let response = Response::builder().status(status).body(()).unwrap();
    let _ = respond.send_response(response, true);
}

#[test]
fn servers_of_http2_groups_are_checked_over_http2() {
    let (sick, well) = (Http2::start(), Http2::start());
    sick.is_well.store(false, Ordering::SeqCst);
    // One who is well may be late for several of them.
    let gate = gate(&format!("\"{}\", \"{}\"", sick.address, well.address), 10, "");
    gate.wait_for("\"healthy\":false");
    // Long enough for one who is well to have fallen, had its checks failed.
    let before = well.checks.load(Ordering::SeqCst);
    wait_until("further checks", || well.checks.load(Ordering::SeqCst) > before + 3);
    for _ in 0..10 {
        assert_eq!(get(&gate), 200);
    }
    assert_eq!((sick.requests.load(Ordering::SeqCst), well.requests.load(Ordering::SeqCst)), (0, 10));
    sick.is_well.store(true, Ordering::SeqCst);
    gate.wait_for("\"healthy\":true");
    for _ in 0..10 {
        assert_eq!(get(&gate), 200);
    }
    assert_eq!(sick.requests.load(Ordering::SeqCst), 5);
    let reported: Vec<_> = gate.diagnostics().into_iter().filter(|line| line.contains("health changed")).collect();
    assert_eq!(reported.len(), 2, "{reported:#?}");
}

#[test]
fn a_server_that_speaks_only_http_1_is_ill_in_an_http2_group() {
    let old = Upstream::ok();
    let gate = gate(&format!("\"{}\"", old.address), 3, "");
    gate.wait_for("\"healthy\":false");
}

#[test]
fn checks_of_http2_groups_go_over_tls() {
    let ill = "  - { hosts: [health.example], path: /healthz, respond: { status: 503, body: ill } }\n";
    let inner = secure_upstream(ill);
    let tls = format!("tls: {{ ca: {}, server_name: inner.example }}", inner.dir.path().join("ca.pem").display());
    let gate = gate(&format!("\"{}\"", inner.address("tls")), 3, &tls);
    gate.wait_for("\"healthy\":false");
    // One for which it was too late has no status.
    let is_check = |line: &serde_json::Value| line["status"] == 503 && line["version"] == "HTTP/2";
    wait_until("a check", || inner.log(1).iter().any(is_check));
    // No other server, but this one is known to be ill.
    assert_eq!(get(&gate), 503);
}
