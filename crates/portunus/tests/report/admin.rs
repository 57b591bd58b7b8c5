//! The admin side over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::Reloaded;
use config::{AdminConfig, Endpoint, LogConfig};
use portunus::admin::{self, AdminHandle, AdminState};
use telemetry::Reporter;

use super::exposition::{open_metrics, prometheus_text};
use super::record;
use crate::harness::{PATIENCE, connect, connect_unix, exchange, read_to_end, wait_until};

/// The admin side with a program behind it that counts what it is asked to do.
struct Fixture {
    handle: AdminHandle,
    reloads: Arc<AtomicU64>,
}

/// The second reload fails, the third panics, the others succeed; readiness begins with the first reload.
fn start_at(bind: Endpoint) -> std::io::Result<Fixture> {
    start_with(AdminConfig { hosts: vec!["edge.example".into()], ..AdminConfig::at(bind) })
}

/// As [`start_at`], with these settings.
fn start_with(config: AdminConfig) -> std::io::Result<Fixture> {
    let reporter = Reporter::start(&LogConfig { access: None, level: "info".into() }, 1)?;
    reporter.worker(0).request(&record());
    let reloads = Arc::new(AtomicU64::new(0));
    let (reloading, counted) = (Arc::clone(&reloads), Arc::clone(&reloads));
    let clients = Arc::clone(&reporter);
    let state = AdminState {
        metrics: Box::new(move |exposition| reporter.metrics(exposition)),
        clients: Some(Box::new(move |by_rate| clients.clients_json(by_rate))),
        config_json: Box::new(|| "{\"workers\":2}".into()),
        reload: Box::new(move || match reloading.fetch_add(1, Ordering::SeqCst) + 1 {
            2 => Err(vec!["portunus.yaml:3: no such upstream \"shop\"".into(), "second".into()]),
            3 => panic!("this panic is part of the test"),
            generation => Ok(Reloaded { generation, waiting: Vec::new() }),
        }),
        upgrade: None,
        api: None,
        ready: Box::new(move || match counted.load(Ordering::SeqCst) {
            0 => Err("not listening yet".into()),
            _ => Ok(Vec::new()),
        }),
        extra: vec![("/shadow", Box::new(|| "[]".into()))],
    };
    let handle = admin::start(&config, state)?;
    Ok(Fixture { handle, reloads })
}

fn start() -> (Fixture, SocketAddr) {
    let fixture = start_at(Endpoint::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let Endpoint::Tcp(address) = *fixture.handle.address() else { panic!("TCP was asked for") };
    (fixture, address)
}

/// As [`start`], with a token, which is `0123456789abcdef` and stands in the file.
fn start_with_token() -> (Fixture, SocketAddr, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"0123456789abcdef\n").unwrap();
    let bind = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let token = Some(config::Secret::File(file.path().to_owned()));
    let hosts = vec!["edge.example".into()];
    let fixture = start_with(AdminConfig { hosts, token, ..AdminConfig::at(bind) }).unwrap();
    let Endpoint::Tcp(address) = *fixture.handle.address() else { panic!("TCP was asked for") };
    (fixture, address, file)
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

/// Sends `request` and reads to the end of the connection.
fn converse(mut stream: impl Read + Write, request: &str) -> Response {
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // A reset after the response, when not all of the request was read, is no concern of these tests.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response to {request:.60}: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

fn ask(address: SocketAddr, line: &str, fields: &str) -> Response {
    let request = format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n");
    converse(connect(address), &request)
}

#[test]
fn every_page_responds_as_it_should() {
    fn check(address: SocketAddr, line: &str, status: u16, body: &str) {
        let response = ask(address, line, "Authorization: Bearer 0123456789abcdef\r\n");
        assert_eq!(response.status, status, "{line}");
        assert!(response.body.contains(body), "{line}: {}", response.body);
        for field in ["x-content-type-options: nosniff", "cache-control: no-store", "content-security-policy: "] {
            assert!(response.head.contains(field), "{line}: {}", response.head);
        }
    }
    let (fixture, address, _token) = start_with_token();
    check(address, "GET /", 200, "POST /reload");
    check(address, "GET /", 200, "GET  /shadow");
    check(address, "GET /healthz", 200, "ok");
    check(address, "GET /readyz", 503, "not listening yet");
    check(address, "GET /config", 200, "{\"workers\":2}");
    check(address, "GET /shadow", 200, "[]");
    check(address, "GET /clients", 200, "{\"clients\":[");
    check(address, "GET /clients?by=rate", 200, "{\"clients\":[");
    check(address, "GET /metrics", 200, "portunus_requests_total{");
    check(address, "HEAD /metrics", 200, "");
    check(address, "GET /reload", 405, "");
    check(address, "POST /metrics", 405, "");
    check(address, "DELETE /config", 405, "");
    check(address, "OPTIONS /reload", 405, "");
    check(address, "GET /nothing", 404, "");
    check(address, "GET /metrics/..", 404, "");
    assert_eq!(fixture.reloads.load(Ordering::SeqCst), 0);
    check(address, "POST /reload", 200, "{\"generation\":1}");
    check(address, "GET /readyz", 200, "ready");
    check(address, "POST /reload", 422, r#"{"problems":["portunus.yaml:3: no such upstream \"shop\"","second"]}"#);
    check(address, "POST /reload", 500, "defect of the program");
    check(address, "POST /reload", 200, "{\"generation\":4}");
}

#[test]
fn metrics_come_in_the_form_that_is_asked_for() {
    let (_fixture, address) = start();
    let text = ask(address, "GET /metrics", "");
    assert!(text.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{}", text.head);
    prometheus_text(&text.body);
    let open = ask(address, "GET /metrics", "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.3\r\n");
    assert!(open.head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{}", open.head);
    open_metrics(&open.body);
}

#[test]
fn web_pages_of_others_reach_nothing() {
    fn check(address: SocketAddr, line: &str, fields: &str, status: u16) {
        let token = "Authorization: Bearer 0123456789abcdef\r\n";
        let request = format!("{line} HTTP/1.1\r\nConnection: close\r\n{token}{fields}\r\n");
        let response = converse(connect(address), &request);
        assert_eq!(response.status, status, "{fields}");
        assert!(!response.body.contains("workers"), "{fields}");
    }
    let (fixture, address, _token) = start_with_token();
    check(address, "GET /config", "Host: evil.example\r\n", 421);
    check(address, "GET /config", "", 400);
    check(address, "GET http://evil.example/config", "Host: localhost\r\n", 421);
    check(address, "POST /reload", "Host: evil.example\r\n", 421);
    check(address, "POST /reload", "Host: localhost\r\nOrigin: https://evil.example\r\n", 403);
    check(address, "POST /reload", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403);
    assert_eq!(fixture.reloads.load(Ordering::SeqCst), 0);
    check(address, "POST /reload", "Host: edge.example\r\nOrigin: http://edge.example\r\n", 200);
    assert_eq!(fixture.reloads.load(Ordering::SeqCst), 1);
}

#[test]
fn without_a_token_tcp_shows_metrics_and_health_alone_and_with_one_it_is_asked_for() {
    let (fixture, address) = start();
    for (line, status) in [("GET /metrics", 200), ("HEAD /metrics", 200), ("GET /healthz", 200), ("GET /readyz", 503)] {
        assert_eq!(ask(address, line, "").status, status, "{line}");
    }
    for line in
        ["GET /", "GET /config", "GET /shadow", "GET /clients", "POST /metrics", "POST /reload", "POST /upgrade"]
    {
        let response = ask(address, line, "Authorization: Bearer 0123456789abcdef\r\n");
        assert!(response.status == 403 && response.body.contains("admin.token"), "{line}: {}", response.body);
    }
    assert_eq!(fixture.reloads.load(Ordering::SeqCst), 0);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let bind = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let config = AdminConfig { token: Some(config::Secret::File(file.clone())), ..AdminConfig::at(bind) };
    std::fs::write(&file, "short\n").unwrap();
    let error = start_with(config.clone()).err().expect("no token").to_string();
    assert!(error.contains("16 to 512") && !error.contains("short"), "{error}");
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let fixture = start_with(config).unwrap();
    let Endpoint::Tcp(address) = *fixture.handle.address() else { panic!("TCP was asked for") };
    for (line, fields, status) in [
        ("GET /healthz", "", 200),
        ("GET /readyz", "", 503),
        ("GET /config", "", 401),
        ("GET /metrics", "Authorization: Bearer 0123456789abcdeX\r\n", 401),
        ("POST /reload", "", 401),
        ("GET /config", "Authorization: Bearer 0123456789abcdef\r\n", 200),
        ("POST /reload", "Authorization: Bearer 0123456789abcdef\r\nOrigin: https://evil.example\r\n", 403),
        ("POST /reload", "Authorization: Bearer 0123456789abcdef\r\n", 200),
    ] {
        let response = ask(address, line, fields);
        assert_eq!(response.status, status, "{line} {fields}");
        assert_eq!(status == 401, response.head.contains("www-authenticate: bearer"), "{line}: {}", response.head);
    }
    assert_eq!(fixture.reloads.load(Ordering::SeqCst), 1);
}

#[test]
fn heads_and_connections_are_bounded() {
    let (_fixture, address) = start();
    let long = format!("X-Long: {}\r\n", "a".repeat(64 * 1024));
    assert_eq!(ask(address, "GET /healthz", &long).status, 431);

    let held: Vec<TcpStream> = (0..32).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(read_to_end(&mut connect(address)).is_empty(), "closed at once");
    drop(held);
    let mut served = false;
    for _ in 0..1000 {
        let text = exchange(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        served = text.starts_with(b"HTTP/1.1 200");
        if served {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(served, "served again once the others are gone");
}

#[test]
fn it_stops_when_reported() {
    let (fixture, address) = start();
    let idle = TcpStream::connect(address).unwrap();
    fixture.handle.stop();
    wait_until("the port to close", || TcpStream::connect(address).is_err());
    drop(idle);
}

fn unix(path: &Path) -> std::io::Result<Fixture> {
    start_at(Endpoint::Unix(path.to_owned()))
}

#[test]
fn a_unix_socket_is_the_owners_alone_and_goes_with_us() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let fixture = unix(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let request = "POST /reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(converse(connect_unix(&path), request).status, 200);
    let request = "GET /config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(converse(connect_unix(&path), request).status, 421);
    fixture.handle.stop();
    assert!(!path.exists());
}

#[test]
fn only_a_dead_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    // One that never listened: what listens may be a program's that another test starts, for as long as that has our descriptors.
    let dead = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    dead.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    drop(dead);
    assert!(path.exists(), "a socket outlives its process");
    let fixture = unix(&path).unwrap();
    let error = unix(&path).err().expect("the first one responses").to_string();
    assert!(error.contains("another process answers") && error.contains("admin.sock"), "{error}");
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(converse(connect_unix(&path), request).status, 200, "and still does");
    fixture.handle.stop();

    std::fs::write(&path, "precious").unwrap();
    let error = unix(&path).err().expect("a file is no socket").to_string();
    assert!(error.contains("something else than a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let (_fixture, address) = start();
    let error = start_at(Endpoint::Tcp(address)).err().expect("in use").to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

/// Whoever asks and does not read is let go, and so is whoever stays: a connection's life is bounded.
#[test]
fn a_connection_that_takes_nothing_ends() {
    let connection_timeout = Duration::from_millis(300);
    let bind = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let fixture = start_with(AdminConfig { connection_timeout, ..AdminConfig::at(bind) }).unwrap();
    let Endpoint::Tcp(address) = *fixture.handle.address() else { panic!("TCP was asked for") };
    let mut deaf = TcpStream::connect(address).unwrap();
    deaf.set_write_timeout(Some(PATIENCE)).unwrap();
    let requests = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    // Until its end is noticed: it is not read at some time, and then it is closed.
    let error = loop {
        if let Err(error) = deaf.write_all(&requests) {
            break error;
        }
    };
    assert!(!matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut), "{error}");
    // One that is stopped for so long is let go, too.
    wait_until("others to be served", || {
        let text = exchange(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        text.starts_with(b"HTTP/1.1 200")
    });
}
