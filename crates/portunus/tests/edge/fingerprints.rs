//! JA4 fingerprints: what log, upstream, routes and policies see of a client, and that nobody else writes them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use tls::crypto::digest::sha256;
use tls::{Connector, ProtocolVersion, ServerName, Session};
use wire::client_hello::ClientHello;
use wire::ja4::{Ja4, Over};

use super::client::{TlsClient, openssl_get};
use crate::harness::{Gate, Upstream, certificates, connect, exchange, read_response, statuses};

/// The fingerprint of the tests' own client, from what it sends.
fn own_fingerprint() -> String {
    let connector = Connector::new(&[], false, None, &[b"http/1.1".to_vec()], ProtocolVersion::Tls12).unwrap();
    let mut session = Session::client(&connector, &ServerName::Dns("a.example".to_owned())).unwrap();
    let mut sent = Vec::new();
    session.handshake(&mut &[][..], &mut sent).unwrap();
    // One record, one message: five bytes and four before the body.
    let hello = ClientHello::parse(&sent[9..]).unwrap();
    Ja4::of(&hello, Over::Tcp, sha256).as_str().to_owned()
}

/// A relay that sends the first message of a client on in small records, each byte by itself.
fn in_pieces(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = connect(to);
        server.set_nodelay(true).unwrap();
        let mut head = [0; 5];
        (&client).read_exact(&mut head).unwrap();
        let mut message = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        (&client).read_exact(&mut message).unwrap();
        for piece in message.chunks(100) {
            let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
            for byte in [&head[..3], &length, piece].concat() {
                (&server).write_all(&[byte]).unwrap();
            }
        }
        let copy = |mut from: TcpStream, mut to: TcpStream| {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        };
        let (back, out) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || copy(back, out));
        copy(client, server);
    });
    address
}

fn ask(mut connection: impl Read + Write, target: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nX-Ja4: forged\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let (head, body) = read_response(&mut connection);
    format!("{}{}", head.lines().next().unwrap_or_default(), String::from_utf8_lossy(&body))
}

#[test]
fn a_fingerprint_is_logged_forwarded_and_chooses_routes_and_policies() {
    let upstream = Upstream::ok();
    let dir = certificates(&[("a.example", false)]);
    let own = own_fingerprint();
    let (first, rest) = own.split_once('_').unwrap();
    let last = rest.split_once('_').unwrap().1;
    let yaml = format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
  - {{ name: tls, bind: \"127.0.0.3:0\", tls: {{ keystore: main }} }}
keystores: {{ main: {{ folder: certs, default: a.example }} }}
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app, request_headers: {{ set: {{ x-ja4: \"{{tls.ja4}}\" }} }} }}
  - {{ name: known, path: /who, when: {{ ja4: \"{first}_*_{last}\" }}, respond: {{ status: 200, body: known }} }}
  - {{ name: others, path: /who, respond: {{ status: 200, body: others }} }}
  - {{ path: /bots, policies: [bots], respond: {{ status: 200, body: fine }} }}
policies:
  bots: {{ when: {{ ja4: [\"{own}\"] }}, deny: [0.0.0.0/0, \"::/0\"] }}
log: {{ access: {{ output: access.log, fields: {{ ja4: \"{{tls.ja4}}\" }} }} }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        upstream.address
    );
    let gate = Gate::start_in(dir, &yaml);
    let tls = gate.address("tls");
    let own_client = |address| TlsClient::connect(address, "a.example", "http/1.1");
    assert!(ask(own_client(tls), "/").contains("200"));
    // However its first message comes.
    assert!(ask(own_client(in_pieces(tls)), "/").contains("200"));
    let seen = upstream.seen();
    assert_eq!(seen.iter().map(|seen| seen.fields("x-ja4")).collect::<Vec<_>>(), [[own.as_str()], [own.as_str()]]);
    assert!(ask(own_client(tls), "/who").ends_with("known"));
    assert!(ask(own_client(tls), "/bots").contains("403"));
    // Another client, over TLS and in the clear.
    assert_eq!(openssl_get(tls, "a.example", "").status(), Some(200));
    let theirs = upstream.seen().pop().unwrap().fields("x-ja4").concat();
    assert!(theirs.starts_with("t13d") && theirs.len() == 36 && theirs != own, "{theirs}");
    for (target, body) in [("/who", "others"), ("/bots", "fine")] {
        assert!(ask(connect(gate.address("web")), target).ends_with(body), "{target}");
    }
    let clear =
        exchange(gate.address("web"), b"GET / HTTP/1.1\r\nHost: a\r\nX-Ja4: forged\r\nConnection: close\r\n\r\n");
    assert_eq!(statuses(&clear), [200]);
    assert_eq!(upstream.seen().pop().unwrap().fields("x-ja4"), [""; 0], "what a client says of itself");
    let logged: Vec<String> =
        gate.log(8).iter().map(|line| line["fields"]["ja4"].as_str().unwrap_or_default().to_owned()).collect();
    let mut expected = vec![own.as_str(); 4];
    expected.extend([theirs.as_str(), "", "", ""]);
    assert_eq!(logged, expected);
    gate.stop();
}
