//! A process without a free file descriptor still answers its operator. Alone in its file, because it spoils the process for other tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;

use portunus::admin::{self, AdminState};
use portunus::config::{AdminConfig, Endpoint, LogConfig};
use portunus::report::Reporter;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn metrics_are_served_without_a_free_descriptor() {
    let reporter = Reporter::start(&LogConfig { access: None, level: "info".into() }, 1).unwrap();
    let state = AdminState {
        reporter,
        config_json: Box::new(String::new),
        reload: Box::new(|| Ok(1)),
        ready: Box::new(|| Ok(())),
        extra: Vec::new(),
    };
    let bind = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let handle = admin::start(&AdminConfig { bind, hosts: Vec::new() }, state).unwrap();
    let Endpoint::Tcp(address) = *handle.address() else { panic!("TCP was asked for") };
    let clients: Vec<socket2::Socket> =
        (0..3).map(|_| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap()).collect();
    // Answered once, so that the admin side is past its start and holds its reserve.
    assert!(
        get(socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap(), address)
            .contains("200 OK")
    );

    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: limit.maximum }).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    for client in clients {
        let answer = get(client, address);
        assert!(answer.contains("200 OK") && answer.contains("\nprocess_max_fds 100\n"), "{answer}");
        // What the closed connection freed belongs to whoever is first. Even if it is always us, the reserve lasts for these three.
        while let Ok(file) = File::open("/dev/null") {
            taken.push(file);
        }
    }
}

fn get(socket: socket2::Socket, address: std::net::SocketAddr) -> String {
    socket.connect(&address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
