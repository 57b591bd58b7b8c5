//! A process without a free file descriptor still serves its operator. Tried in a child, because it spoils the process for other tests.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use config::{AdminConfig, Endpoint, LogConfig};
use portunus::admin::{self, AdminState};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use telemetry::Reporter;

/// Set for the child.
const ALONE: &str = "TEST_DESCRIPTORS_ALONE";

#[test]
fn metrics_are_served_without_a_free_descriptor() {
    if std::env::var_os(ALONE).is_none() {
        let test = concat!(module_path!(), "::metrics_are_served_without_a_free_descriptor");
        let (_crate, test) = test.split_once("::").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let reported = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && reported.contains("1 passed"), "{reported}");
        return;
    }
    let reporter = Reporter::start(&LogConfig { access: None, level: "info".into() }, 1).unwrap();
    let state = AdminState {
        metrics: Box::new(move |exposition| reporter.metrics(exposition)),
        clients: None,
        config_json: Box::new(String::new),
        reload: Box::new(|| Err(Vec::new())),
        upgrade: None,
        api: None,
        ready: Box::new(|| Ok(Vec::new())),
        extra: Vec::new(),
    };
    let bind = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let handle = admin::start(&AdminConfig::at(bind), state).unwrap();
    let Endpoint::Tcp(address) = *handle.address() else { panic!("TCP was asked for") };
    let mut clients: Vec<socket2::Socket> =
        (0..4).map(|_| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap()).collect();
    // One is answered first, so that the admin side is past its start and holds its reserve.
    let mut open = vec![get(clients.remove(0), address).0];

    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: limit.maximum }).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    // The connections stay open, so that none of them frees a descriptor for the next.
    for client in clients {
        let (stream, body) = get(client, address);
        assert!(body.contains("\nprocess_max_fds 100\n"), "{body}");
        open.push(stream);
    }
}

/// Asks for the metrics and leaves the connection open.
fn get(socket: socket2::Socket, address: std::net::SocketAddr) -> (TcpStream, String) {
    socket.connect(&address.into()).unwrap();
    // Reached only by a defect. Shorter than the time after which idle connections give their descriptors back.
    socket.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let length = stream.read(&mut buffer).expect("a response");
        assert_ne!(length, 0, "the connection was closed");
        response.extend_from_slice(&buffer[..length]);
        let text = std::str::from_utf8(&response).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let announced = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        if body.len() == announced.parse::<usize>().unwrap() {
            assert!(head.starts_with("http/1.1 200"), "{head}");
            return (stream, body.to_owned());
        }
    }
}
