//! Where clients are: countries and autonomous systems in routes, policies, header fields and the log, and databases that change or break.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, UdpSocket};
use std::path::Path;

use crate::harness::{Gate, PATIENCE, Upstream, connect, exchange, statuses, wait_until};

/// A database of documentation ranges, as `fuzz/README.md` says.
fn database(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/mmdb").join(name)).unwrap()
}

fn yaml(upstream: &Upstream) -> String {
    format!(
        "workers: 1
listeners: [{{ name: web, bind: \"127.0.0.1:0\" }}]
geoip: {{ country: country.mmdb, asn: asn.mmdb }}
trusted_proxies: [127.0.0.0/8]
upstreams: {{ app: {{ servers: [\"{}\"] }} }}
routes:
  - {{ path: \"/{{*rest}}\", upstream: app, request_headers: {{ set: {{ x-country: \"{{client.country}}\", x-asn: \"{{client.asn}}\" }} }} }}
  - {{ name: german, path: /where, when: {{ country: [DE, AT], asn: 64500 }}, respond: {{ status: 200, body: near }} }}
  - {{ name: nowhere, path: /where, when: {{ country: unknown }}, respond: {{ status: 200, body: nowhere }} }}
  - {{ name: far, path: /where, respond: {{ status: 200, body: far }} }}
  - {{ path: /allowed, policies: [allowed], respond: {{ status: 200 }} }}
  - {{ path: /denied, policies: [denied], respond: {{ status: 200 }} }}
  - {{ path: /known, policies: [known], respond: {{ status: 200 }} }}
policies:
  allowed: {{ allow: [203.0.113.7, \"country:DE\", \"asn:4200000001\"] }}
  denied: {{ deny: [\"country:DE\", \"asn:4200000001\"] }}
  known: {{ deny: [\"country:unknown\"] }}
log: {{ access: {{ output: access.log, fields: {{ country: \"{{client.country}}\", asn: \"{{client.asn}}\" }} }} }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        upstream.address
    )
}

fn start(upstream: &Upstream) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("country.mmdb"), database("country")).unwrap();
    fs::write(dir.path().join("asn.mmdb"), database("asn")).unwrap();
    Gate::start_in(dir, &yaml(upstream))
}

/// The response to a request of a client that a trusted proxy names so.
fn ask(gate: &Gate, target: &str, client: &str) -> (u16, String) {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\nX-Country: forged\r\nConnection: close\r\n\r\n"
    );
    let bytes = exchange(gate.address("web"), request.as_bytes());
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (statuses(&bytes)[0], text.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}

#[test]
fn countries_and_systems_choose_routes_and_who_may_come() {
    let upstream = Upstream::ok();
    let gate = start(&upstream);
    // Client, the route it gets, whether the three policies let it pass.
    let clients = [
        ("192.0.2.1", "near", [true, false, true]),
        ("192.0.2.129", "near", [false, true, true]),
        ("2001:db8:1::1", "far", [true, false, true]),
        ("2001:db8:2::1", "nowhere", [true, false, false]),
        ("198.51.100.1", "nowhere", [false, true, false]),
        ("203.0.113.7", "nowhere", [true, true, false]),
        // What a trusted proxy says is no address: who it is, is not known, and the proxy's own address does not stand for it.
        ("192.0.2.1, nobody", "nowhere", [false, true, false]),
        ("", "nowhere", [false, true, false]),
    ];
    for (client, body, passes) in clients {
        assert_eq!(ask(&gate, "/where", client), (200, body.to_owned()), "{client}");
        for (target, passes) in ["/allowed", "/denied", "/known"].into_iter().zip(passes) {
            assert_eq!(ask(&gate, target, client).0, if passes { 200 } else { 403 }, "{client} {target}");
        }
    }
    for (client, country, asn) in [
        ("192.0.2.1", vec!["DE"], vec!["64500"]),
        ("192.0.2.129, 127.0.0.1", vec!["AT"], vec!["64500"]),
        ("2001:db8:2::1", vec![], vec!["4200000001"]),
        ("198.51.100.1", vec![], vec![]),
        ("192.0.2.1, nobody", vec![], vec![]),
    ] {
        assert_eq!(ask(&gate, "/", client).0, 200);
        let seen = upstream.seen().pop().unwrap();
        assert_eq!((seen.fields("x-country"), seen.fields("x-asn")), (country.clone(), asn.clone()), "{client}");
        let line = gate.log(upstream.seen().len() + clients.len() * 4).pop().unwrap();
        let logged = |name: &str| line["fields"][name].as_str().unwrap_or_default().to_owned();
        assert_eq!((logged("country"), logged("asn")), (country.concat(), asn.concat()), "{client}");
    }
    gate.stop();
}

#[test]
fn a_new_database_is_read_and_a_broken_one_is_not() {
    let upstream = Upstream::ok();
    let gate = start(&upstream);
    let replace = |name: &str, bytes: &[u8]| {
        fs::write(gate.dir.path().join("new"), bytes).unwrap();
        fs::rename(gate.dir.path().join("new"), gate.dir.path().join(name)).unwrap();
    };
    let is_near = || ask(&gate, "/where", "192.0.2.1").1 == "near";
    assert!(is_near());
    let reload = || gate.operate("POST /reload", "Content-Length: 0\r\n");
    for broken in ["cut", "pointer_loop", "asn", "no_metadata"] {
        replace("country.mmdb", &database(broken));
        let response = reload();
        assert!(!response.starts_with("HTTP/1.1 200") && response.contains("country.mmdb is not such"), "{response}");
        assert!(is_near(), "the last good one stays after {broken}");
    }
    // Nobody asks for these: the files are watched.
    replace("country.mmdb", &database("odd_codes"));
    wait_until("the new one is read", || !is_near());
    assert_eq!(ask(&gate, "/where", "2001:db8::1").1, "far");
    replace("country.mmdb", &database("country"));
    wait_until("the first one is back", is_near);
    gate.stop();
}

/// Clients of tunnels and of datagrams, as a balancer's PROXY headers name them.
#[test]
fn countries_say_who_may_have_a_tunnel_and_who_a_flow() {
    let upstream = Upstream::ok();
    let application = UdpSocket::bind("127.0.0.6:0").unwrap();
    application.set_read_timeout(Some(PATIENCE)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("country.mmdb"), database("country")).unwrap();
    let yaml = format!(
        "workers: 1
listeners: [{{ name: tcp, bind: \"127.0.0.1:0\", proxy_protocol: {{ trust: 127.0.0.0/8 }}, tunnel: {{ upstream: app, policies: [far] }} }}]
udp_listeners: [{{ name: udp, bind: \"127.0.0.5:0\", proxy_protocol: {{ mode: each, trust: 127.0.0.0/8 }}, upstream: \"{}\", policies: [far] }}]
geoip: {{ country: country.mmdb }}
upstreams: {{ app: {{ protocol: tcp, servers: [\"{}\"] }} }}
policies: {{ far: {{ deny: [\"country:DE\"] }} }}
admin: {{ bind: \"127.0.0.2:0\" }}
",
        application.local_addr().unwrap(),
        upstream.address
    );
    let gate = Gate::start_in(dir, &yaml);
    for (client, passes) in [([192, 0, 2, 1], false), ([198, 51, 100, 1], true)] {
        let mut stream = connect(gate.address("tcp"));
        let header = format!("PROXY TCP4 {} 127.0.0.1 4000 80\r\n", client.map(|byte| byte.to_string()).join("."));
        stream.write_all(header.as_bytes()).unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        // The upstream's connection ends with this one. A tunnel that may not be is closed or reset.
        let _ = stream.shutdown(Shutdown::Write);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        assert_eq!(bytes.starts_with(b"HTTP/1.1 200 "), passes, "{client:?}");
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Version 2, PROXY, IPv4 and datagrams: from the client, port 4000, to 127.0.0.5, port 53.
    let datagram = |[a, b, c, d]: [u8; 4], text: &[u8]| {
        let addresses = [a, b, c, d, 127, 0, 0, 5, 0x0f, 0xa0, 0, 53];
        [b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c", &addresses[..], text].concat()
    };
    for (client, text) in [([192, 0, 2, 1], "near"), ([198, 51, 100, 1], "far")] {
        socket.send_to(&datagram(client, text.as_bytes()), gate.address("udp")).unwrap();
    }
    let mut bytes = [0; 64];
    let count = application.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..count], b"far", "datagrams are in order: the one before it was dropped");
    gate.stop();
}
