//! The PROXY header that goes before a tunnel's bytes, read by our own reader and by other people's programs.

use std::io::{Read, Write};
use std::net::SocketAddr;

use wire::proxy_protocol::{Extras, Found, Header, MAX_HEADER_BYTES, Origin, Transport, Version, kind, read, write_v2};

use super::site::{Duplex, Peer, folder, listens, next, read_exactly, tcp_upstream, yaml};
use crate::harness::secure::Secure;
use crate::harness::{Gate, connect, read_response, vacant};

/// Reads a header from a stream and checks it; what is behind it must be `hello`.
fn check(stream: &mut dyn Read, check: impl Fn(&Header<'_>)) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "no header in {}", bytes.escape_ascii());
        bytes.extend_from_slice(&piece[..count]);
        match read(&bytes, MAX_HEADER_BYTES).unwrap() {
            Found::Partial => {}
            Found::Absent => panic!("no header: {}", bytes.escape_ascii()),
            Found::Whole(header) => {
                check(&header);
                let behind = bytes[header.len..].to_vec();
                let rest = read_exactly(stream, 5 - behind.len());
                assert_eq!([behind, rest].concat(), b"hello");
                return;
            }
        }
    }
}

fn gate(upstream: SocketAddr) -> Gate {
    let listeners = "  - { name: off, bind: \"127.0.0.1:0\", tunnel: { upstream: off } }
  - { name: v1, bind: \"127.0.0.2:0\", tunnel: { upstream: v1 } }
  - { name: v2, bind: \"127.0.0.3:0\", tls: { keystore: main }, tunnel: { upstream: v2 } }
  - { name: tlvs, bind: \"127.0.0.4:0\", tls: { keystore: main, alpn: [imap, http/1.1] }, tunnel: { upstream: tlvs } }
  - { name: chain, bind: \"127.0.0.5:0\", proxy_protocol: { trust: 127.0.0.1, header_timeout: 1m }, tunnel: { upstream: tlvs } }";
    let upstreams = format!(
        "  off: {{ servers: [\"{upstream}\"] }}
  v1: {{ servers: [\"{upstream}\"], send_proxy: v1 }}
  v2: {{ servers: [\"{upstream}\"], send_proxy: v2 }}
  tlvs: {{ servers: [\"{upstream}\"], send_proxy: v2_tlvs }}"
    );
    Gate::start_in(folder(), &yaml(listeners, &upstreams, ""))
}

#[test]
fn each_form_says_who_the_client_is() {
    let (upstream, connections) = tcp_upstream();
    let gate = gate(upstream);
    let mut near = connect(gate.address("off"));
    near.write_all(b"hello").unwrap();
    assert_eq!(read_exactly(&mut next(&connections), 5), b"hello");

    let is_ours = |header: &Header<'_>, source: SocketAddr, destination: SocketAddr| {
        assert_eq!(header.origin, Origin::Inet { transport: Transport::Stream, source, destination });
    };
    let mut near = connect(gate.address("v1"));
    near.write_all(b"hello").unwrap();
    check(&mut next(&connections), |header| {
        assert_eq!(header.version, Version::V1);
        is_ours(header, near.local_addr().unwrap(), gate.address("v1"));
    });

    let mut near = Secure::connect(gate.address("v2"), gate.dir.path(), "a.test", "any");
    near.write_all(b"hello").unwrap();
    check(&mut next(&connections), |header| {
        assert_eq!((header.version, header.tlvs.is_empty()), (Version::V2, true));
        is_ours(header, near.socket().local_addr().unwrap(), gate.address("v2"));
    });

    let mut near = Secure::connect(gate.address("tlvs"), gate.dir.path(), "b.test", "imap");
    near.write_all(b"hello").unwrap();
    let mut far = next(&connections);
    let id = std::cell::RefCell::new(Vec::new());
    check(&mut far, |header| {
        is_ours(header, near.socket().local_addr().unwrap(), gate.address("tlvs"));
        assert_eq!(header.tlvs.get(kind::ALPN), Some(&b"imap"[..]));
        assert_eq!(header.tlvs.get(kind::AUTHORITY), Some(&b"b.test"[..]));
        assert!(header.tlvs.get(kind::CRC32C).is_some());
        *id.borrow_mut() = header.tlvs.get(kind::UNIQUE_ID).unwrap().to_vec();
        let ssl = header.tlvs.ssl().unwrap();
        assert!(ssl.is_tls && !ssl.is_verified && !ssl.certificate_in_session);
        assert_eq!(ssl.tlvs.get(kind::SSL_VERSION), Some(&b"TLSv1.3"[..]));
        assert!(ssl.tlvs.get(kind::SSL_CIPHER).unwrap().starts_with(b"TLS_"));
        assert_eq!(ssl.tlvs.get(kind::SSL_KEY_ALGORITHM), Some(&b"EC256"[..]));
        assert_eq!(ssl.tlvs.get(kind::SSL_SIGNATURE_ALGORITHM), Some(&b"SHA256"[..]));
    });
    near.end();
    far.end();
    drop((near, far));
    let line = gate.log(1).into_iter().find(|line| line["listener"] == "tlvs");
    let line = line.unwrap_or_else(|| gate.log(4).into_iter().find(|line| line["listener"] == "tlvs").unwrap());
    assert_eq!(line["connection_id"].as_str().unwrap().as_bytes(), *id.borrow());
    assert_eq!((&line["tls"]["alpn"], &line["tls"]["server_name"]), (&"imap".into(), &"b.test".into()), "{line}");
}

#[test]
fn what_a_believed_header_said_is_passed_on() {
    let (upstream, connections) = tcp_upstream();
    let gate = gate(upstream);
    let source: SocketAddr = "203.0.113.9:4711".parse().unwrap();
    let destination: SocketAddr = "198.51.100.1:443".parse().unwrap();
    let origin = Origin::Inet { transport: Transport::Stream, source, destination };
    let mut header = Vec::new();
    let extras =
        Extras { authority: Some(b"outer.test"), unique_id: Some(b"outer-id"), crc32c: true, ..Extras::default() };
    write_v2(&mut header, &origin, &extras);
    // A TLV of a kind that we do not know, such as clouds send, put in before the checksum is made anew.
    let mut near = connect(gate.address("chain"));
    near.write_all(&[&header[..], b"hello"].concat()).unwrap();
    check(&mut next(&connections), |header| {
        assert_eq!(header.origin, origin);
        assert_eq!(header.tlvs.get(kind::AUTHORITY), Some(&b"outer.test"[..]));
        assert_eq!(header.tlvs.get(kind::UNIQUE_ID), Some(&b"outer-id"[..]));
        assert!(header.tlvs.ssl().is_none());
    });

    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11".to_vec();
    header.extend_from_slice(&[203, 0, 113, 9, 198, 51, 100, 1, 0, 1, 0, 2]);
    header.extend_from_slice(b"\xea\0\x02vp");
    let mut near = connect(gate.address("chain"));
    near.write_all(&[&header[..], b"hello"].concat()).unwrap();
    check(&mut next(&connections), |header| assert_eq!(header.tlvs.get(0xea), Some(&b"vp"[..])));
}

/// Sends a request through a listener and gives the response's body.
fn ask(near: &mut dyn Duplex) -> String {
    near.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    let _ = near.read_to_string(&mut response);
    response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {response:?}")).1.to_owned()
}

#[test]
fn haproxy_and_nginx_read_what_we_send() {
    let dir = folder();
    let config = format!(
        "frontend f\n  mode http\n  bind unix@{0}/haproxy.sock accept-proxy\n  http-request return status 200 content-type text/plain \
         lf-string \"%[src] %[src_port] %[fc_pp_authority]\"\n",
        dir.path().display()
    );
    let _haproxy = Peer::haproxy(dir.path(), &config, || listens(&dir.path().join("haproxy.sock")));
    let http = format!(
        "server {{ listen unix:{}/nginx.sock proxy_protocol; location / {{ return 200 \"$proxy_protocol_addr $proxy_protocol_port \"; }} }}",
        dir.path().display()
    );
    let _nginx = Peer::nginx(dir.path(), &http, || listens(&dir.path().join("nginx.sock")));
    let mut listeners = String::new();
    let mut upstreams = String::new();
    for (index, (peer, form)) in [
        ("haproxy", "v1"),
        ("haproxy", "v2"),
        ("haproxy", "v2_tlvs"),
        ("nginx", "v1"),
        ("nginx", "v2"),
        ("nginx", "v2_tlvs"),
    ]
    .iter()
    .enumerate()
    {
        let tls = if *form == "v2_tlvs" { ", tls: { keystore: main }" } else { "" };
        listeners.push_str(&format!(
            "  - {{ name: l{index}, bind: \"127.0.1.{}:0\"{tls}, tunnel: {{ upstream: u{index} }} }}\n",
            index + 1
        ));
        upstreams.push_str(&format!("  u{index}: {{ servers: [\"unix:{peer}.sock\"], send_proxy: {form} }}\n"));
    }
    let gate = Gate::start_in(dir, &yaml(&listeners, &upstreams, ""));
    for index in 0..6 {
        let listener = format!("l{index}");
        let (reported, local) = if index % 3 == 2 {
            let mut near = Secure::connect(gate.address(&listener), gate.dir.path(), "b.test", "any");
            let local = near.socket().local_addr().unwrap();
            (ask(&mut near), local)
        } else {
            let mut near = connect(gate.address(&listener));
            let local = near.local_addr().unwrap();
            (ask(&mut near), local)
        };
        let authority = if index == 2 { "b.test" } else { "" };
        assert_eq!(
            reported.trim_end(),
            format!("{} {} {authority}", local.ip(), local.port()).trim_end(),
            "{listener}"
        );
    }
}

/// The same before requests, also where TLS follows the header: one header, and then requests of that client.
#[test]
fn haproxy_and_nginx_read_it_before_requests() {
    let dir = folder();
    let path = dir.path().display();
    let config = format!(
        "frontend f\n  mode http\n  bind unix@{path}/haproxy.sock accept-proxy\n  http-request return status 200 content-type text/plain \
         lf-string \"%[src] %[src_port]\"\n"
    );
    let _haproxy = Peer::haproxy(dir.path(), &config, || listens(&dir.path().join("haproxy.sock")));
    let pair = std::fs::read_dir(dir.path().join("certs")).unwrap().next().unwrap().unwrap().path();
    let pair = pair.display();
    let said = "location / { return 200 \"$proxy_protocol_addr $proxy_protocol_port\"; }";
    let http = format!(
        "server {{ listen unix:{path}/nginx.sock proxy_protocol; {said} }} server {{ listen unix:{path}/secure.sock ssl proxy_protocol; \
         ssl_certificate {pair}; ssl_certificate_key {pair}; {said} }}"
    );
    let _nginx = Peer::nginx(dir.path(), &http, || listens(&dir.path().join("secure.sock")));
    let mut upstreams = String::new();
    let mut routes = String::from("routes:\n");
    let mut paths = Vec::new();
    for peer in ["haproxy", "nginx", "secure"] {
        for form in ["v1", "v2", "v2_tlvs"] {
            let tls = match peer {
                "secure" => ", connect_timeout: 1m, tls: { insecure_skip_verify: true, server_name: a.test }",
                _ => "",
            };
            let name = format!("{peer}-{form}");
            upstreams.push_str(&format!("  {name}: {{ servers: [\"unix:{peer}.sock\"], send_proxy: {form}{tls} }}\n"));
            routes.push_str(&format!("  - {{ path: /{name}, upstream: {name} }}\n"));
            paths.push(format!("/{name}"));
        }
    }
    let gate = Gate::start_in(dir, &yaml("  - { name: web, bind: \"127.0.0.1:0\" }", &upstreams, &routes));
    let mut near = connect(gate.address("web"));
    let local = near.local_addr().unwrap();
    for path in paths.iter().chain(&paths) {
        write!(near, "GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
        let (head, body) = read_response(&mut near);
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        assert_eq!(String::from_utf8(body).unwrap(), format!("{} {}", local.ip(), local.port()), "{path}");
    }
}

#[test]
fn health_checks_say_that_they_are_our_own() {
    let dir = folder();
    let config = format!(
        "frontend f\n  mode http\n  bind unix@{0}/haproxy.sock accept-proxy\n  http-request return status 200 content-type text/plain \
         lf-string \"%[src]\"\n",
        dir.path().display()
    );
    let _haproxy = Peer::haproxy(dir.path(), &config, || listens(&dir.path().join("haproxy.sock")));
    let listeners = "  - { name: web, bind: \"127.0.0.1:0\", tunnel: { upstream: app } }";
    let check = "health: { path: /, interval: 1h, timeout: 1h, fall: 1, rise: 1 }";
    let upstreams = format!("  app: {{ servers: [\"unix:haproxy.sock\"], send_proxy: v2, {check} }}");
    let gate = Gate::start_in(dir, &yaml(listeners, &upstreams, "admin: { bind: \"127.0.0.5:0\" }"));
    std::thread::sleep(4 * super::site::MOMENT);
    assert!(!gate.diagnostics().iter().any(|line| line.contains("health changed")), "{:?}", gate.diagnostics());
}

#[test]
fn haproxy_in_front_reports_us_who_the_client_is() {
    let (upstream, connections) = tcp_upstream();
    let dir = folder();
    let path = dir.path().to_owned();
    let listeners = "  - { name: web, bind: \"127.0.0.1:0\", proxy_protocol: { trust: 127.0.0.0/8 }, tls: { keystore: main }, tunnel: { upstream: app } }";
    let upstreams = format!("  app: {{ servers: [\"{upstream}\"], send_proxy: v1 }}");
    let gate = Gate::start_in(dir, &yaml(listeners, &upstreams, ""));
    for option in ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options unique-id,crc32c"] {
        let front = vacant();
        let config = format!(
            "listen l\n  mode tcp\n  unique-id-format %[uuid()]\n  bind {front}\n  bind unix@{}/front.sock\n  server s {} {option}\n",
            path.display(),
            gate.address("web")
        );
        let _haproxy = Peer::haproxy(&path, &config, || listens(&path.join("front.sock")));
        let mut near = Secure::connect(front, &path, "a.test", "any");
        near.write_all(b"hello").unwrap();
        let local = near.socket().local_addr().unwrap();
        // HAProxy was looked at by connecting to its Unix socket: that connection came to us as well, and ended.
        check(&mut next(&connections), |header| {
            assert!(
                matches!(header.origin, Origin::Inet { source, .. } if source == local),
                "{option}: {:?} instead of {local}",
                header.origin
            );
        });
    }
}
