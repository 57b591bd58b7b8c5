//! Which addresses datagrams come from and go to: several of one machine, link-local ones, those that a PROXY header names.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;

use crate::harness::{Gate, PATIENCE};

/// A UDP socket on loopback that waits as long as any test does.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut bytes = [0; 2048];
    let (count, from) = socket.recv_from(&mut bytes).expect("a datagram");
    (bytes[..count].to_vec(), from)
}

/// What `portunus check` says of a file.
fn problems(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portunus.yaml");
    std::fs::write(&path, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_portunus")).arg("check").arg(path).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

fn gate(bind: &str, server: &UdpSocket, listener: &str, upstream: &str) -> Gate {
    let server = server.local_addr().unwrap();
    Gate::start(&format!(
        "workers: 1
udp_listeners:
  - {{ name: d, bind: \"{bind}\", upstream: u{listener} }}
upstreams:
  u: {{ protocol: udp, servers: [\"{server}\"]{upstream} }}
"
    ))
}

#[test]
fn each_address_that_was_asked_responds_itself() {
    let server = socket();
    let gate = gate("0.0.0.0:0", &server, "", "");
    let port = gate.address("d").port();
    let client = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let asked = ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port));
    for address in asked {
        client.send_to(address.to_string().as_bytes(), address).unwrap();
    }
    let questions = asked.map(|_| receive(&server));
    // The responses come in the other order.
    for (question, flow) in questions.iter().rev() {
        server.send_to(question, flow).unwrap();
    }
    for address in asked.iter().rev() {
        assert_eq!(receive(&client), (address.to_string().into_bytes(), *address));
    }
    // A flow stays one for each address.
    client.send_to(b"again", asked[1]).unwrap();
    assert_eq!(receive(&server).1, questions[1].1);
}

#[test]
fn a_broadcast_is_answered_from_an_address() {
    let server = socket();
    let gate = gate("0.0.0.0:0", &server, "", "");
    let client = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    client.set_broadcast(true).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"who", ("127.255.255.255", gate.address("d").port())).unwrap();
    let (_, flow) = receive(&server);
    server.send_to(b"I", flow).unwrap();
    let (said, from) = receive(&client);
    assert_eq!((&said[..], from.ip()), (&b"I"[..], Ipv4Addr::LOCALHOST.into()));
}

#[test]
fn the_line_that_nginx_puts_on_the_first_datagram_names_the_client() {
    for mode in ["first", "auto"] {
        let server = socket();
        let listener = format!(", proxy_protocol: {{ mode: {mode}, trust: [127.0.0.1] }}");
        let gate = gate("127.0.0.1:0", &server, &listener, ", send_proxy: v2");
        let nginx = socket();
        nginx.connect(gate.address("d")).unwrap();
        nginx.send(b"PROXY TCP4 203.0.113.7 198.51.100.1 39160 53\r\nq1").unwrap();
        let (first, flow) = receive(&server);
        // Onward the header is of version 2, on each datagram.
        let head = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c"[..], &[203, 0, 113, 7, 198, 51, 100, 1, 0x98, 0xf8, 0, 53]];
        assert_eq!(first, [&head.concat()[..], b"q1"].concat(), "{mode}");
        nginx.send(b"q2").unwrap();
        assert_eq!(receive(&server), ([&head.concat()[..], b"q2"].concat(), flow), "{mode}");
        server.send_to(b"a", flow).unwrap();
        assert_eq!(receive(&nginx).0, b"a", "{mode}");
        // A line in a later datagram names nobody else: it is what the client sent.
        nginx.send(b"PROXY TCP4 203.0.113.8 198.51.100.1 39160 53\r\nq3").unwrap();
        let (third, _) = receive(&server);
        let expected = &b"PROXY TCP4 203.0.113.8 198.51.100.1 39160 53\r\nq3"[..];
        assert_eq!(third, [&head.concat()[..], expected].concat(), "{mode}");
    }
}

#[test]
fn a_server_is_shown_the_client_and_checks_are_nobodys() {
    let server = socket();
    let health = ", send_proxy: v2, health: { interval: 1m, timeout: 1m, send: ping, expect: pong }";
    let gate = gate("127.0.0.1:0", &server, "", health);
    let (check, from) = receive(&server);
    assert_eq!(check, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0ping");
    server.send_to(b"pong", from).unwrap();
    let client = socket();
    client.connect(gate.address("d")).unwrap();
    client.send(b"").unwrap();
    let port = |address: SocketAddr| address.port().to_be_bytes();
    let ports = [port(client.local_addr().unwrap()), port(gate.address("d"))].concat();
    let expected = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c\x7f\0\0\x01\x7f\0\0\x01"[..], &ports].concat();
    let arrived = std::iter::repeat_with(|| receive(&server).0).take(20).find(|datagram| !datagram.ends_with(b"ping"));
    assert_eq!(arrived, Some(expected));
}

#[test]
fn addresses_that_need_an_interface_name_one_that_is_there() {
    let check = |address: &str, problem: &str| {
        let listener = format!("udp_listeners: [ {{ name: d, bind: \"{address}\", upstream: \"127.0.0.1:9\" }} ]\n");
        assert!(problems(&listener).contains(problem), "{address}: {}", problems(&listener));
        let server = format!(
            "listeners: [ {{ name: d, bind: \":9\", tunnel: {{ upstream: u }} }} ]
upstreams: {{ u: {{ protocol: tcp, servers: [\"{address}\"] }} }}\n"
        );
        assert!(problems(&server).contains(problem), "{address}: {}", problems(&server));
    };
    check("[fe80::1]:53", "is a link-local address without its interface");
    check("[fe80::1%nowhere9]:53", "names an interface that this machine has not");
    check("[2001:db8::1%lo]:53", "names an interface, and is not a link-local address");
    check("[2001:db8::1%1]:53", "names an interface, and is not a link-local address");
}
