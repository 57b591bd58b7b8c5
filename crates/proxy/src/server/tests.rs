//! Forced panics: one ends its connection, or its worker, and nothing else. In here, because the program has no way to be made to panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests poll, and measure nothing")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use config;
use telemetry::Exposition;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

struct Site {
    server: Server,
    reporter: Arc<Reporter>,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

/// A server of two workers that responds everything by itself.
fn start() -> Site {
    start_on(tempfile::tempdir().unwrap(), "routes: [{ respond: { status: 200, body: ok } }]\n")
}

/// A server of two workers with these routes, in a folder with what they need.
fn start_on(folder: tempfile::TempDir, routes: &str) -> Site {
    start_from(folder, routes, Box::new(|| Err(Vec::new())))
}

/// The same, with what its reloads read.
fn start_from(folder: tempfile::TempDir, routes: &str, source: Source) -> Site {
    let file = folder.path().join("portunus.yaml");
    let listeners = "workers: 2\nlisteners: [{ name: web, bind: \"127.0.0.1:0\" }]\n";
    let log = "log: { access: { format: json, output: access.log } }\n";
    std::fs::write(&file, [listeners, routes, log].concat()).unwrap();
    let config = config::load(&file).unwrap();
    let reporter = Reporter::start(&config.log, config.workers).unwrap();
    let server = Server::start(config, source, Arc::clone(&reporter), 1024).unwrap();
    let (_, "tcp", Endpoint::Tcp(address)) = server.endpoints().remove(0) else { panic!("TCP was asked for") };
    Site { server, reporter, address, folder }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Whether a request on this connection is answered; if not, the connection has ended.
fn ask(mut stream: &TcpStream, path: &str) -> bool {
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut response = Vec::new();
    let mut byte = [0];
    while !response.ends_with(b"\r\n\r\nok") {
        match stream.read(&mut byte) {
            Ok(0) => return false,
            Ok(_) => response.push(byte[0]),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{}", String::from_utf8_lossy(&response));
                return false;
            }
        }
    }
    true
}

/// The gauge of open connections.
fn open_connections(site: &Site) -> usize {
    let metrics = site.reporter.metrics(Exposition::Text);
    let gauge = "portunus_connections_open{listener=\"web\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(gauge));
    line.unwrap_or_else(|| panic!("no gauge in {metrics}")).parse().unwrap()
}

fn end(site: Site) -> Vec<serde_json::Value> {
    site.server.stop_accepting();
    let until = Instant::now() + PATIENCE;
    while site.server.open() > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(site.server.stop(), 0, "every connection was counted out");
    assert_eq!(site.reporter.shutdown(PATIENCE), 0);
    let text = std::fs::read_to_string(site.folder.path().join("access.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_panic_in_a_request_ends_its_connection_and_leaves_a_line() {
    let site = start();
    let others: Vec<_> = (0..8).map(|_| connect(site.address)).collect();
    assert!(others.iter().all(|stream| ask(stream, "/")));
    assert!(!ask(&connect(site.address), "/panic"));
    assert!(others.iter().all(|stream| ask(stream, "/")), "nobody else noticed");
    assert_eq!(open_connections(&site), 8, "who panicked is not open any more");
    drop(others);
    let lines = end(site);
    let reported: Vec<_> = lines.iter().filter(|line| line["reason"] == "panicked").collect();
    assert_eq!(reported.len(), 1, "{lines:#?}");
    assert_eq!((&reported[0]["target"], &reported[0]["fault"]), (&"/panic".into(), &"proxy".into()));
    assert_eq!(lines.len(), 17);
}

#[test]
fn a_panic_of_the_check_rejects_the_message_and_nothing_else() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let document = "openapi: 3.0.3\ninfo: { title: t, version: '1' }\npaths:\n  /say:\n    post:\n      requestBody: { required: true, \
                    content: { application/json: { schema: { type: string } } } }\n      responses: { default: { description: any } }\n";
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    let address = upstream.local_addr().unwrap();
    let routes = format!(
        "contracts: {{ api: {{ document: api.yaml }} }}\nupstreams: {{ app: {{ servers: [\"{address}\"] }} }}\n\
         routes: [{{ upstream: app, contract: api }}]\n"
    );
    let site = start_on(folder, &routes);
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = upstream.accept().unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\"fine\"") {
            let mut piece = [0; 4096];
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "cut");
            seen.extend_from_slice(&piece[..count]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        String::from_utf8(seen).unwrap()
    });
    let mut client = connect(site.address);
    let mut say = |body: &str| {
        let length = body.len();
        write!(
            client,
            "POST /say HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut response = [0; 4096];
        let count = client.read(&mut response).unwrap();
        String::from_utf8_lossy(&response[..count]).into_owned()
    };
    let rejected = say("\"panic\"");
    assert!(rejected.starts_with("HTTP/1.1 500 "), "{rejected}");
    // The connection goes on, and so does the check.
    let passed = say("\"fine\"");
    assert!(passed.starts_with("HTTP/1.1 204 "), "{passed}");
    let seen = answering.join().unwrap();
    assert!(seen.starts_with("POST /say ") && !seen.contains("panic"), "{seen}");
    let metrics = site.reporter.metrics(Exposition::Text);
    assert!(metrics.contains("portunus_faults_total{side=\"proxy\",reason=\"validator_panic\"} 1\n"), "{metrics}");
    let reported: Vec<_> = metrics.lines().filter(|line| line.contains("reason=\"validator_panic\"")).collect();
    assert_eq!(reported.len(), 2, "{reported:#?}");
    drop(client);
    let lines = end(site);
    assert_eq!(lines.len(), 2);
    let fault = (&lines[0]["status"], &lines[0]["fault"], &lines[0]["reason"]);
    assert_eq!(fault, (&500.into(), &"proxy".into(), &"validator_panic".into()), "{lines:#?}");
}

#[test]
fn a_worker_that_dies_is_replaced() {
    let site = start();
    let old: Vec<_> = (0..16).map(|_| connect(site.address)).collect();
    assert!(old.iter().all(|stream| ask(stream, "/")));
    let is_dead = |index: usize| site.server.inner.lock().unwrap().workers[index].thread.is_finished();
    site.server.inner.lock().unwrap().workers[0].commands.send(Command::Panic).unwrap();
    let until = Instant::now() + PATIENCE;
    while !is_dead(0) {
        assert!(Instant::now() < until, "the worker lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Connections that come meanwhile wait in the kernel for whoever takes over.
    let meanwhile: Vec<_> = (0..16).map(|_| connect(site.address)).collect();
    site.server.replace_dead_workers();
    assert!(!is_dead(0) && meanwhile.iter().all(|stream| ask(stream, "/")));
    let kept = old.iter().filter(|stream| ask(stream, "/")).count();
    let fresh: Vec<_> = (0..16).map(|_| connect(site.address)).collect();
    assert!(fresh.iter().all(|stream| ask(stream, "/")));
    drop((old, meanwhile, fresh));
    let lines = end(site);
    assert_eq!(lines.iter().filter(|line| line["status"] == 200).count(), 48 + kept, "the other worker's went on");
}

#[test]
fn a_reload_that_read_the_file_earlier_does_not_undo_a_later_one() {
    let (has_read, read) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel();
    let may_go_on = Mutex::new(may_go_on);
    let reads = AtomicUsize::new(0);
    // The first reads a file with no route, and the file has changed before it goes on.
    let source: Source = Box::new(move || {
        let is_first = reads.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first {
            has_read.send(()).unwrap();
            let _ = may_go_on.lock().unwrap().recv_timeout(PATIENCE);
        }
        let routes = if is_first { "" } else { "routes: [{ respond: { status: 200, body: ok } }]\n" };
        let text = format!("workers: 2\nlisteners: [{{ name: web, bind: \"127.0.0.1:0\" }}]\n{routes}");
        config::parse("portunus.yaml", &text, std::path::Path::new("/")).map_err(|_| Vec::new())
    });
    let site = start_from(tempfile::tempdir().unwrap(), "", source);
    std::thread::scope(|scope| {
        let earlier = scope.spawn(|| site.server.reload().unwrap());
        read.recv_timeout(PATIENCE).unwrap();
        let (has_ended, ended) = std::sync::mpsc::channel();
        let server = &site.server;
        scope.spawn(move || {
            server.reload().unwrap();
            // Nobody may wait for it any more.
            let _ = has_ended.send(());
        });
        // The later one either waits for the earlier, or has ended long before this time is over.
        let _ = ended.recv_timeout(Duration::from_millis(500));
        go_on.send(()).unwrap();
        earlier.join().unwrap();
    });
    assert_eq!(site.server.shared().generation.load().config.routes.len(), 1, "the file as it is now");
    end(site);
}
