//! Policies of tunnels and UDP listeners: who may have a connection or a flow, how often and how many, and what an operator sees of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::site::{folder, next, read_exactly, tcp_upstream, yaml};
use crate::harness::secure::Secure;
use crate::harness::{Gate, connect, read_to_end, wait_until};

/// A connection of this client, whom a balancer names.
fn of_client(gate: &Gate, listener: &str, client: &str) -> TcpStream {
    let mut stream = connect(gate.address(listener));
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let to = if client.contains(':') { "::1" } else { "192.0.2.200" };
    write!(stream, "PROXY {family} {client} {to} 4711 443\r\n").unwrap();
    stream
}

/// Whether bytes pass, by an echo from the other end.
fn passes(stream: &mut (impl std::io::Read + std::io::Write), far: &mut TcpStream) -> bool {
    stream.write_all(b"ping").unwrap();
    assert_eq!(read_exactly(far, 4), b"ping");
    far.write_all(b"pong").unwrap();
    read_exactly(stream, 4) == b"pong"
}

fn decisions(gate: &Gate, policy: &str, decision: &str, reason: &str, count: usize) {
    let line = format!(
        "portunus_policy_decisions_total{{policy=\"{policy}\",decision=\"{decision}\",reason=\"{reason}\"}} {count}"
    );
    assert!(gate.metrics().contains(&line), "{line}\n{}", gate.metrics());
}

const TRUST: &str = "proxy_protocol: { trust: 127.0.0.1, header_timeout: 1m }";
const ADMIN: &str = "admin: { bind: \"127.0.0.9:0\" }";

#[test]
fn a_client_that_may_not_come_reaches_no_upstream() {
    let (address, connections) = tcp_upstream();
    let listeners = format!(
        "  - {{ name: plain, bind: \"127.0.0.1:0\", {TRUST}, policies: [office, not-him], tunnel: {{ upstream: app }} }}
  - {{ name: tls, bind: \"127.0.0.2:0\", {TRUST}, tls: {{ keystore: main }}, tunnel: {{ upstream: app, policies: not-him, rules: [{{ server_name: b.test, upstream: app, policies: office }}] }} }}"
    );
    let policies = format!(
        "policies: {{ office: {{ allow: [192.0.2.0/24, \"2001:db8::/32\"] }}, not-him: {{ deny: 192.0.2.66 }} }}\n{ADMIN}"
    );
    let gate =
        Gate::start_in(folder(), &yaml(&listeners, &format!("  app: {{ servers: [\"{address}\"] }}"), &policies));
    for client in ["192.0.2.1", "2001:db8::1"] {
        let mut near = of_client(&gate, "plain", client);
        assert!(passes(&mut near, &mut next(&connections)), "{client}");
    }
    for client in ["192.0.2.66", "198.51.100.1", "2001:db9::1"] {
        assert_eq!(read_to_end(&mut of_client(&gate, "plain", client)), b"", "{client}");
    }
    // Of connections under TLS by server name: those to `b.test` are for the office, all others are not for him.
    let secure = |client: &str, name: &str| Secure::over(of_client(&gate, "tls", client), gate.dir.path(), name, "any");
    for (client, name) in [("192.0.2.1", "b.test"), ("192.0.2.66", "b.test"), ("198.51.100.1", "a.test")] {
        assert!(passes(&mut secure(client, name), &mut next(&connections)), "{client} {name}");
    }
    for (client, name) in [("198.51.100.1", "b.test"), ("192.0.2.66", "a.test")] {
        assert!(secure(client, name).read(&mut [0]).is_err(), "{client} {name}: cut");
    }
    assert!(connections.try_recv().is_err(), "the upstream saw nobody else");
    let log = gate.log(10);
    let lines: Vec<_> = log.iter().filter(|line| line["policy"].is_string()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!((of("connection"), of("tunnel")), (3, 2), "{lines:#?}");
    for line in &lines {
        assert_eq!(
            (line["reason"].as_str(), line["fault"].as_str()),
            (Some("address_not_allowed"), Some("client")),
            "{line}"
        );
    }
    let first =
        lines.iter().find(|line| line["client_address"] == "192.0.2.66" && line["kind"] == "connection").unwrap();
    assert_eq!((first["policy"].as_str(), first["phase"].as_str()), (Some("not-him"), Some("accept")));
    decisions(&gate, "office", "rejected", "address_not_allowed", 3);
    decisions(&gate, "not-him", "rejected", "address_not_allowed", 2);
    let line = "portunus_connections_rejected_total{listener=\"plain\",reason=\"address_not_allowed\"} 3";
    assert!(gate.metrics().contains(line), "{}", gate.metrics());
}

#[test]
fn connections_have_a_rate_and_a_number_and_give_their_places_back() {
    let (address, connections) = tcp_upstream();
    let listeners = format!(
        "  - {{ name: often, bind: \"127.0.0.1:0\", {TRUST}, policies: slow, tunnel: {{ upstream: app }} }}
  - {{ name: many, bind: \"127.0.0.2:0\", {TRUST}, tunnel: {{ upstream: app, policies: few }} }}
  - {{ name: all, bind: \"127.0.0.3:0\", {TRUST}, policies: together, tunnel: {{ upstream: nowhere }} }}"
    );
    let policies = format!(
        "policies:
  slow: {{ rate_limit: {{ rate: 1/h, burst: 2 }} }}
  few: {{ concurrency_limit: {{ max_in_flight: 2 }} }}
  together: {{ concurrency_limit: {{ max_in_flight: 1, key: all }} }}
{ADMIN}"
    );
    let upstreams =
        format!("  app: {{ servers: [\"{address}\"] }}\n  nowhere: {{ servers: [\"{}\"] }}", crate::harness::vacant());
    let gate = Gate::start_in(folder(), &yaml(&listeners, &upstreams, &policies));
    for client in ["192.0.2.1", "192.0.2.1", "192.0.2.2"] {
        assert!(passes(&mut of_client(&gate, "often", client), &mut next(&connections)), "{client}");
    }
    assert_eq!(read_to_end(&mut of_client(&gate, "often", "192.0.2.1")), b"");
    decisions(&gate, "slow", "rejected", "rate_limited", 1);

    let open = |client: &str| {
        let near = of_client(&gate, "many", client);
        (near, next(&connections))
    };
    let (mut first, mut second) = (open("2001:db8::1"), open("2001:db8::2"));
    assert!(passes(&mut first.0, &mut first.1) && passes(&mut second.0, &mut second.1));
    let rejected = || read_to_end(&mut of_client(&gate, "many", "2001:db8::3")).is_empty();
    assert!(rejected(), "one subscriber has a /64");
    assert!(connections.try_recv().is_err());
    // The upstream resets one, the client of the other leaves.
    rustix::net::sockopt::set_socket_linger(&first.1, Some(Duration::ZERO)).unwrap();
    drop(first.1);
    assert_eq!(read_to_end(&mut first.0), b"");
    gate.log(6);
    let mut third = open("2001:db8::4");
    assert!(passes(&mut third.0, &mut third.1) && rejected());
    drop(second);
    gate.log(8);
    let mut fourth = open("2001:db8::5");
    assert!(passes(&mut fourth.0, &mut fourth.1) && rejected());
    // What finds no server has its place no longer than that takes.
    for _ in 0..3 {
        assert_eq!(read_to_end(&mut of_client(&gate, "all", "192.0.2.1")), b"");
    }
    let log = gate.log(12);
    let reasons = |listener: &str| -> Vec<_> {
        log.iter().filter(|line| line["listener"] == listener).filter_map(|line| line["reason"].as_str()).collect()
    };
    assert_eq!(reasons("all"), ["upstream_refused"; 3]);
    assert_eq!(
        reasons("many"),
        ["concurrency_limited", "tunnel_upstream_reset", "concurrency_limited", "concurrency_limited"]
    );
    decisions(&gate, "few", "rejected", "concurrency_limited", 3);
}

#[test]
fn a_policy_may_only_log_and_what_is_open_stays_over_a_reload() {
    let (address, connections) = tcp_upstream();
    let text = |policy: &str| {
        let listeners = format!(
            "  - {{ name: plain, bind: \"127.0.0.1:0\", {TRUST}, policies: try, tunnel: {{ upstream: app }} }}"
        );
        yaml(
            &listeners,
            &format!("  app: {{ servers: [\"{address}\"] }}"),
            &format!("policies: {{ try: {{ {policy} }} }}\n{ADMIN}"),
        )
    };
    let gate = Gate::start_in(folder(), &text("mode: log, deny: 192.0.2.1, concurrency_limit: { max_in_flight: 1 }"));
    let (mut near, mut far) = (of_client(&gate, "plain", "192.0.2.1"), next(&connections));
    assert!(passes(&mut near, &mut far));
    decisions(&gate, "try", "logged", "address_not_allowed", 1);
    gate.rewrite(&text("deny: 192.0.2.1"));
    gate.signal("HUP");
    gate.wait_for("reloaded");
    assert!(passes(&mut near, &mut far), "a tunnel keeps the rules that it began under");
    assert_eq!(read_to_end(&mut of_client(&gate, "plain", "192.0.2.1")), b"");
    drop((near, far));
    let log = gate.log(2);
    let told = |kind: &str| log.iter().find(|line| line["kind"] == kind).unwrap();
    assert_eq!(told("tunnel")["would_reject"], serde_json::json!({ "try": "address_not_allowed" }));
    assert_eq!(
        (&told("connection")["policy"], &told("connection")["would_reject"]),
        (&"try".into(), &serde_json::Value::Null)
    );
}

/// A switch for maintenance closes tunnels to all but a few.
#[test]
fn connections_end_while_there_is_maintenance() {
    let (address, connections) = tcp_upstream();
    let listeners =
        format!("  - {{ name: plain, bind: \"127.0.0.1:0\", {TRUST}, policies: closed, tunnel: {{ upstream: app }} }}");
    let policies = format!("policies: {{ closed: {{ maintenance: {{ file: closed, except: 192.0.2.9 }} }} }}\n{ADMIN}");
    let gate =
        Gate::start_in(folder(), &yaml(&listeners, &format!("  app: {{ servers: [\"{address}\"] }}"), &policies));
    assert!(passes(&mut of_client(&gate, "plain", "192.0.2.1"), &mut next(&connections)));
    std::fs::write(gate.dir.path().join("closed"), "").unwrap();
    wait_until("the switch", || {
        let mut near = of_client(&gate, "plain", "192.0.2.1");
        near.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        matches!(near.read(&mut [0]), Ok(0))
    });
    let mut near = of_client(&gate, "plain", "192.0.2.9");
    near.write_all(b"ping").unwrap();
    // Those that came before the switch was seen have ended, and sent nothing.
    let mut received = [0; 4];
    while next(&connections).read_exact(&mut received).is_err() {}
    assert_eq!(&received, b"ping");
    wait_until("its log line", || {
        gate.log(0).iter().any(|line| line["reason"] == "maintenance" && line["policy"] == "closed")
    });
}

// --- UDP ---

/// An application that sends back what it gets.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    address
}

/// A datagram of this client, with a header of a balancer (PROXY protocol, version 2).
fn datagram(client: &str, payload: &[u8]) -> Vec<u8> {
    let client: SocketAddr = client.parse().unwrap();
    let SocketAddr::V4(client) = client else { panic!("{client}") };
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x12\0\x0c".to_vec();
    bytes.extend(client.ip().octets());
    bytes.extend([192, 0, 2, 200]);
    bytes.extend(client.port().to_be_bytes());
    bytes.extend([0, 53]);
    bytes.extend(payload);
    bytes
}

struct Balancer {
    socket: UdpSocket,
    gate: Gate,
}

impl Balancer {
    fn start(settings: &str, policies: &str) -> Balancer {
        let text = format!(
            "workers: 2
udp_listeners:
  - {{ name: dns, bind: \"127.0.0.1:0\", upstream: \"{}\", proxy_protocol: {{ mode: each, trust: 127.0.0.1 }}, {settings} }}
policies: {{ {policies} }}
{ADMIN}
",
            echo()
        );
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Balancer { gate: Gate::start(&text), socket }
    }

    /// Whether a datagram of this client comes back. One that is dropped is counted, and that is waited for.
    fn passes(&self, client: &str, reason: &str) -> bool {
        let before = self.rejected(reason);
        self.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut came = false;
        let mut buffer = [0; 2048];
        let mut turn = 0;
        wait_until("a response or a rejection", || {
            // Again after a while: its flow may have ended for idleness before the response, where a machine is slow.
            if turn % 100 == 0 {
                self.socket.send_to(&datagram(client, client.as_bytes()), self.gate.address("dns")).unwrap();
            }
            turn += 1;
            came = matches!(self.socket.recv(&mut buffer), Ok(length) if buffer[..length] == *client.as_bytes());
            came || self.rejected(reason) > before
        });
        came
    }

    fn rejected(&self, reason: &str) -> u64 {
        let line = format!("portunus_datagrams_rejected_total{{listener=\"dns\",reason=\"{reason}\"}} ");
        self.gate.metrics().lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
    }
}

#[test]
fn a_client_that_may_not_come_has_no_flow() {
    let site = Balancer::start(
        "policies: [office, not-him]",
        "office: { allow: 192.0.2.0/24 }, not-him: { deny: 192.0.2.66 }",
    );
    let passes = |client: &str| site.passes(client, "address_not_allowed");
    assert!(passes("192.0.2.1:1") && passes("192.0.2.1:2"));
    assert!(!passes("192.0.2.66:1") && !passes("198.51.100.1:1") && !passes("198.51.100.1:1"));
    decisions(&site.gate, "office", "rejected", "address_not_allowed", 2);
    decisions(&site.gate, "not-him", "rejected", "address_not_allowed", 1);
    site.gate.wait_for("address_not_allowed");
}

#[test]
fn a_policy_that_only_logs_lets_flows_in_and_their_lines_name_it() {
    let site = Balancer::start("policies: try, idle_timeout: 100ms", "try: { mode: log, deny: 192.0.2.66 }");
    assert!(["192.0.2.1:1", "192.0.2.66:1"].iter().all(|client| site.passes(client, "address_not_allowed")));
    decisions(&site.gate, "try", "logged", "address_not_allowed", 1);
    let log = site.gate.log(2);
    let of = |client: &str| log.iter().find(|line| line["client_address"] == client).unwrap();
    assert_eq!(of("192.0.2.66")["would_reject"]["try"], "address_not_allowed");
    assert!(of("192.0.2.1").get("would_reject").is_none());
}

#[test]
fn flows_have_a_rate_and_a_number_and_give_their_places_back() {
    let site = Balancer::start("policies: slow", "slow: { rate_limit: { rate: 1/h, burst: 2 } }");
    let passes = |client: &str| site.passes(client, "rate_limited");
    assert!(passes("192.0.2.1:1") && passes("192.0.2.1:2") && !passes("192.0.2.1:3") && passes("192.0.2.2:1"));
    assert!(passes("192.0.2.1:1"), "a flow that is there goes on");

    let site = Balancer::start("policies: few, idle_timeout: 1h", "few: { concurrency_limit: { max_in_flight: 2 } }");
    let passes = |client: &str| site.passes(client, "concurrency_limited");
    assert!(passes("192.0.2.1:1") && passes("192.0.2.1:2") && passes("192.0.2.2:1"));
    assert!(!passes("192.0.2.1:3"));
    // Once its flows have been idle for their time, it may have others.
    let text = std::fs::read_to_string(site.gate.dir.path().join("portunus.yaml")).unwrap();
    site.gate.rewrite(&text.replace("idle_timeout: 1h", "idle_timeout: 100ms"));
    site.gate.signal("HUP");
    site.gate.wait_for("reloaded");
    assert!(passes("192.0.2.2:1"));
    site.gate.log(3);
    assert!(passes("192.0.2.1:3") && passes("192.0.2.1:4"));
}

/// Bytes up and down, in parts that one client shares between two tunnels, faster than their rate.
#[test]
fn tunnels_are_as_slow_as_their_bandwidth_and_not_idle_for_that() {
    let (address, connections) = tcp_upstream();
    let listeners = format!(
        "  - {{ name: plain, bind: \"127.0.0.1:0\", {TRUST}, tunnel: {{ upstream: app, policies: thin, idle_timeout: 1s }} }}"
    );
    let policies = format!(
        "policies: {{ thin: {{ bandwidth_limit: {{ download: 1KiB, upload: 1KiB, burst: 0, key: client }} }} }}\n{ADMIN}"
    );
    let gate =
        Gate::start_in(folder(), &yaml(&listeners, &format!("  app: {{ servers: [\"{address}\"] }}"), &policies));
    let bytes: Vec<_> = (0..3 * 1024).map(|at| (at % 251) as u8).collect();
    let before = Instant::now();
    let pairs = [(); 2].map(|()| {
        let mut near = connect(gate.address("plain"));
        // All at once: the tunnel has something to carry when it begins.
        near.write_all(&[&b"PROXY TCP4 192.0.2.1 192.0.2.200 4711 443\r\n"[..], &bytes].concat()).unwrap();
        let mut far = next(&connections);
        far.write_all(&bytes).unwrap();
        (near, far)
    });
    for (mut near, mut far) in pairs {
        for stream in [&mut near, &mut far] {
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            assert!(read_exactly(stream, bytes.len()) == bytes);
        }
    }
    // A hundredth of a second's worth is the least burst.
    assert!(before.elapsed() >= Duration::from_millis(4_990), "{:?}", before.elapsed());
    let log = gate.log(2);
    // A tunnel that has carried all may rest until the other one has, so what ended it does not matter.
    assert!(log.iter().any(|line| line["throttled_seconds"].as_f64() > Some(0.0)), "{log:#?}");
    decisions(&gate, "thin", "throttled", "bandwidth_limited", 4);
}

#[test]
fn datagrams_beyond_a_bandwidth_are_dropped() {
    let site =
        Balancer::start("policies: thin", "thin: { bandwidth_limit: { upload: 1KiB, burst: 3000, key: client } }");
    let before = Instant::now();
    let payload = [b'x'; 1000];
    site.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut passed, mut buffer) = (0, [0; 2048]);
    // In rounds, so that no socket's memory overflows.
    for round in 1..=10 {
        for flow in [1, 2] {
            let bytes = datagram(&format!("192.0.2.1:{flow}"), &payload);
            for _ in 0..10 {
                site.socket.send_to(&bytes, site.gate.address("dns")).unwrap();
            }
        }
        wait_until("all datagrams", || {
            passed += u64::from(site.socket.recv(&mut buffer).is_ok());
            passed + site.rejected("bandwidth_limited") == round * 20
        });
    }
    let most = 3 + before.elapsed().as_secs() * 1024 / 1000 + 2;
    assert!((3..=most).contains(&passed), "{passed} passed, not 3 to {most}");
    decisions(&site.gate, "thin", "rejected", "bandwidth_limited", 200 - passed as usize);
    // Others have their own.
    assert!(site.passes("192.0.2.2:1", "bandwidth_limited"));
    site.gate.wait_for("bandwidth_limited");
}
