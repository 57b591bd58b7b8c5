//! UDP listeners before several servers: which one a flow goes to, that it stays there, and where it goes on when its server is gone.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::site::{MOMENT, Peer};
use crate::harness::{Gate, PATIENCE, accept, vacant, wait_until};

/// A server that responds to each datagram with its own address and the datagram.
struct Echo {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    /// It takes datagrams and holds its responses back.
    is_deaf: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start() -> Echo {
        Echo::at((Ipv4Addr::LOCALHOST, 0).into())
    }

    fn at(address: SocketAddr) -> Echo {
        let socket = UdpSocket::bind(address).unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut echo =
            Echo { address, seen: Arc::default(), is_deaf: Arc::default(), ends: Arc::default(), thread: None };
        let (seen, is_deaf, ends) = (Arc::clone(&echo.seen), Arc::clone(&echo.is_deaf), Arc::clone(&echo.ends));
        echo.thread = Some(std::thread::spawn(move || {
            let (mut bytes, mut held) = ([0; 2048], Vec::new());
            while !ends.load(Ordering::SeqCst) {
                if let Ok((count, from)) = socket.recv_from(&mut bytes) {
                    seen.lock().unwrap().push(bytes[..count].to_vec());
                    held.push(([address.to_string().as_bytes(), b" ", &bytes[..count]].concat(), from));
                }
                if !is_deaf.load(Ordering::SeqCst) {
                    held.drain(..).for_each(|(response, to)| _ = socket.send_to(&response, to));
                }
            }
            // A process that was just forked holds a copy of it, and the port must be closed all the same.
            let _ = rustix::net::connect_unspec(&socket);
        }));
        echo
    }

    /// Datagrams of clients.
    fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().iter().filter(|datagram| *datagram != b"PING").cloned().collect()
    }
}

impl Drop for Echo {
    /// From then on its host says that nobody is there.
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A client whose socket is one flow.
struct Client(UdpSocket);

impl Client {
    fn of(to: SocketAddr) -> Client {
        Client::from(Ipv4Addr::LOCALHOST, to)
    }

    fn from(source: Ipv4Addr, to: SocketAddr) -> Client {
        let socket = UdpSocket::bind((source, 0)).unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(socket)
    }

    fn send(&self, payload: &[u8]) {
        self.0.send(payload).unwrap();
    }

    /// The response: who gives it, and what it says.
    fn response(&self) -> (SocketAddr, Vec<u8>) {
        let mut bytes = [0; 2048];
        let count = self.0.recv(&mut bytes).expect("a response");
        let space = bytes.iter().position(|byte| *byte == b' ').unwrap();
        (std::str::from_utf8(&bytes[..space]).unwrap().parse().unwrap(), bytes[space + 1..count].to_vec())
    }

    /// Who responds.
    fn ask(&self, payload: &[u8]) -> SocketAddr {
        self.send(payload);
        let (server, said) = self.response();
        assert_eq!(said, payload);
        server
    }

    /// Asks again until somebody responds; says who, and how often that took.
    fn insist(&self, payload: &[u8]) -> (SocketAddr, usize) {
        self.0.set_read_timeout(Some(MOMENT)).unwrap();
        for tries in 1..100 {
            self.send(payload);
            let mut bytes = [0; 2048];
            match self.0.recv(&mut bytes) {
                Ok(count) => {
                    // nginx says nothing, in a datagram, when its server is gone.
                    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                    let Some((server, _)) = text.split_once(' ') else { continue };
                    self.0.set_read_timeout(Some(PATIENCE)).unwrap();
                    return (server.parse().unwrap(), tries);
                }
                Err(error) => assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}"),
            }
        }
        panic!("nobody responds");
    }
}

/// A gate with a UDP listener `dns` before a group; `group` has its servers and what else is said of it.
fn gate(group: &str, listener: &str) -> Gate {
    Gate::start(&format!(
        "workers: 1
udp_listeners:
  - {{ name: dns, bind: \"127.0.0.1:0\", upstream: resolvers{listener} }}
upstreams:
  resolvers: {{ protocol: udp, {group} }}
admin: {{ bind: \"127.0.0.2:0\" }}
"
    ))
}

fn metric(gate: &Gate, name: &str, server: SocketAddr) -> u64 {
    let metric = format!("portunus_upstream_{name}{{upstream=\"resolvers\",server=\"{server}\"}} ");
    let page = gate.metrics();
    page.lines().find_map(|line| line.strip_prefix(&metric)?.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn flows_are_shared_by_weight_and_each_stays_with_its_server() {
    let (heavy, light) = (Echo::start(), Echo::start());
    let servers = format!("servers: [{{ address: \"{}\", weight: 3 }}, \"{}\"]", heavy.address, light.address);
    let gate = gate(&servers, "");
    let clients: Vec<_> = (0..8).map(|_| Client::of(gate.address("dns"))).collect();
    let first: Vec<_> = clients.iter().map(|client| client.ask(b"first")).collect();
    let of = |server: &Echo| first.iter().filter(|asked| **asked == server.address).count();
    assert_eq!((of(&heavy), of(&light)), (6, 2));
    for _ in 0..3 {
        assert_eq!(clients.iter().map(|client| client.ask(b"again")).collect::<Vec<_>>(), first);
    }
    for (server, flows) in [(&heavy, 6), (&light, 2)] {
        assert_eq!(metric(&gate, "flows_total", server.address), flows);
        assert_eq!(metric(&gate, "server_in_flight", server.address), flows);
        assert_eq!(metric(&gate, "server_up", server.address), 1);
    }
    assert!(gate.metrics().contains("portunus_upstream_in_flight{upstream=\"resolvers\"} 8\n"));
    gate.signal("TERM");
    for line in gate.log(8) {
        let upstream = &line["upstream"];
        assert_eq!(
            (&line["kind"], &upstream["name"], &upstream["moves"]),
            (&"flow".into(), &"resolvers".into(), &0.into())
        );
        assert_eq!(upstream["server"], line["target"], "{line}");
    }
}

#[test]
fn clients_keep_a_server_where_the_hash_of_their_address_decides() {
    let servers = [Echo::start(), Echo::start(), Echo::start()];
    let list = servers.each_ref().map(|server| format!("\"{}\"", server.address)).join(", ");
    let gate = gate(&format!("servers: [{list}], balance: {{ hash: client }}"), "");
    let mut used = BTreeSet::new();
    // So many that chance leaves no server without one.
    for last in 1..80 {
        let of_client = || Client::from(Ipv4Addr::new(127, 0, 0, last), gate.address("dns")).ask(b"x");
        let server = of_client();
        assert!((0..3).all(|_| of_client() == server), "127.0.0.{last}");
        used.insert(server);
    }
    assert_eq!(used.len(), 3);
}

/// What went out before the network said that nobody is there is lost, and nothing else.
#[test]
fn a_flow_goes_on_at_another_server_when_its_own_is_gone() {
    let (main, backup) = (Echo::at((vacant().ip(), 0).into()), Echo::start());
    let servers = format!("servers: [\"{}\", {{ address: \"{}\", backup: true }}]", main.address, backup.address);
    let gate = gate(&servers, "");
    let client = Client::of(gate.address("dns"));
    assert_eq!(client.ask(b"one"), main.address);
    let gone = main.address;
    drop(main);
    client.send(b"lost");
    wait_until("the word of the network", || metric(&gate, "undelivered_total", gone) == 1);
    // Of several lengths, so that they are several datagrams to the kernel, too.
    let burst: Vec<Vec<u8>> = (1..20).map(|length| vec![b'x'; length]).collect();
    burst.iter().for_each(|payload| client.send(payload));
    for payload in &burst {
        assert_eq!(client.response(), (backup.address, payload.clone()));
    }
    assert_eq!(backup.seen(), burst);
    // It is no flow of the other one any more, and stays where it is when that is back.
    assert_eq!((metric(&gate, "server_in_flight", gone), metric(&gate, "server_in_flight", backup.address)), (0, 1));
    let main = Echo::at(gone);
    assert_eq!(client.ask(b"stays"), backup.address);
    assert_eq!(Client::of(gate.address("dns")).ask(b"new"), main.address);
    gate.signal("TERM");
    let log = gate.log(2);
    let line = log.iter().find(|line| line["upstream"]["moves"] == 1).unwrap_or_else(|| panic!("{log:#?}"));
    assert_eq!((&line["target"], &line["unreachable"]), (&backup.address.to_string().into(), &1.into()), "{line}");
    assert_eq!(line["datagrams_sent"], 21, "{line}");
}

#[test]
fn a_server_that_is_gone_is_ejected_and_new_flows_lose_nothing() {
    let (gone, there) = (vacant(), Echo::start());
    let group = format!("servers: [\"{gone}\", \"{}\"], ejection: {{ failures: 3, duration: 1h }}", there.address);
    let gate = gate(&group, "");
    let mut flows = 0;
    while metric(&gate, "server_ejected", gone) == 0 {
        assert_eq!(Client::of(gate.address("dns")).insist(b"x").0, there.address);
        flows += 1;
        assert!(flows <= 20, "it is not ejected");
    }
    for _ in 0..10 {
        assert_eq!(Client::of(gate.address("dns")).ask(b"x"), there.address);
    }
    assert_eq!(metric(&gate, "undelivered_total", gone), 3);
    gate.wait_for("server ejected");
}

#[test]
fn when_nobody_is_there_a_flow_finds_who_comes_back() {
    let dead = [vacant(), vacant()];
    let gate = gate(&format!("servers: [\"{}\", \"{}\"], ejection: {{ failures: 2 }}", dead[0], dead[1]), "");
    let client = Client::of(gate.address("dns"));
    wait_until("both to be ejected", || {
        client.send(b"nobody");
        dead.iter().all(|server| metric(&gate, "server_ejected", *server) == 1)
    });
    let back = Echo::at(dead[1]);
    assert_eq!(client.insist(b"somebody").0, back.address);
}

/// A flow whose server fails its checks goes on elsewhere, though the server is silent and its host says nothing.
#[test]
fn a_server_that_does_not_respond_to_checks_loses_its_flows() {
    let (there, deaf) = (Echo::start(), Echo::start());
    // The one that is there may be late for several checks.
    let healths = ["send: PING, expect: PING", "send: { hex: \"50 49 4e 47\" }, expect: { hex: 4e47 }", "send: PING"];
    let gates = healths.map(|health| {
        let group = format!(
            "servers: [\"{}\", \"{}\"], health: {{ {health}, interval: 1s, timeout: 1s, fall: 10, rise: 1 }}",
            there.address, deaf.address
        );
        gate(&group, "")
    });
    let two = |gate: &Gate| [Client::of(gate.address("dns")), Client::of(gate.address("dns"))];
    let clients = gates.each_ref().map(two);
    for clients in &clients {
        assert_eq!(BTreeSet::from(clients.each_ref().map(|client| client.ask(b"before"))).len(), 2);
    }
    deaf.is_deaf.store(true, Ordering::SeqCst);
    for ((gate, clients), health) in gates.iter().zip(&clients).zip(healths) {
        wait_until("the checks", || metric(gate, "server_up", deaf.address) == 0);
        clients.iter().for_each(|client| assert_eq!(client.ask(b"after"), there.address, "{health}"));
        assert_eq!(metric(gate, "server_up", there.address), 1);
    }
    deaf.is_deaf.store(false, Ordering::SeqCst);
    for (gate, health) in gates.iter().zip(healths) {
        wait_until("the checks to find it back", || metric(gate, "server_up", deaf.address) == 1);
        let asked = BTreeSet::from(two(gate).each_ref().map(|client| client.ask(b"x")));
        assert_eq!(asked, [there.address, deaf.address].into(), "{health}");
    }
}

/// dnsmasq at this address, which says of `name.test` that it is at that one, and asks nobody.
fn dnsmasq(dir: &std::path::Path, at: SocketAddr, says: &str) -> Peer {
    let (listen, port) = (format!("--listen-address={}", at.ip()), format!("--port={}", at.port()));
    let address = format!("--address=/name.test/{says}");
    let arguments = [
        "--no-daemon",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--bind-interfaces",
        "--user=root",
        "--pid-file=",
        &listen,
        &port,
        &address,
    ];
    Peer::start("dnsmasq", &arguments, dir, || std::net::TcpStream::connect(at).is_ok())
}

/// Asks for the address of `name.test` until there is a response, as resolvers do; gives its last octet.
fn resolve(client: &Client, id: u8) -> u8 {
    let question = [&[0, id][..], b"\x01\0\0\x01\0\0\0\0\0\0\x04name\x04test\0\0\x01\0\x01"].concat();
    client.0.set_read_timeout(Some(MOMENT)).unwrap();
    for _ in 0..100 {
        client.send(&question);
        let mut bytes = [0; 512];
        while let Ok(count) = client.0.recv(&mut bytes) {
            // A late response to a question before is none to this one.
            if bytes[..2] == question[..2] {
                // One record, whose data comes last.
                assert_eq!(bytes[6..8], [0, 1], "{:?}", &bytes[..count]);
                return bytes[count - 1];
            }
        }
    }
    panic!("nobody responds");
}

/// The check of the documentation, asked of servers that others have written.
#[test]
fn name_servers_are_checked_by_a_question() {
    let (folders, deaf) = ([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], Echo::start());
    deaf.is_deaf.store(true, Ordering::SeqCst);
    let addresses = [vacant(), vacant()];
    let first = dnsmasq(folders[0].path(), addresses[0], "192.0.2.1");
    let _second = dnsmasq(folders[1].path(), addresses[1], "192.0.2.2");
    let gate = gate(
        &format!(
            "servers: [\"{}\", \"{}\", \"{}\"], ejection: {{ failures: 0 }}, health: {{ \
             send: {{ hex: \"abcd 0100 0001 0000 0000 0000 00 0002 0001\" }}, expect: {{ hex: \"abcd 81\" }}, interval: 1s, timeout: 1s, fall: 10 }}",
            addresses[0], addresses[1], deaf.address
        ),
        "",
    );
    wait_until("the checks", || metric(&gate, "server_up", deaf.address) == 0);
    assert_eq!(addresses.map(|address| metric(&gate, "server_up", address)), [1, 1]);
    let clients: Vec<_> = (0..4).map(|_| Client::of(gate.address("dns"))).collect();
    let mut said: Vec<_> = clients.iter().map(|client| resolve(client, 1)).collect();
    said.sort_unstable();
    assert_eq!(said, [1, 1, 2, 2]);
    drop(first);
    wait_until("the checks", || metric(&gate, "server_up", addresses[0]) == 0);
    assert!(clients.iter().all(|client| resolve(client, 2) == 2));
}

/// What says something else than it should is not healthy; neither is one whose host takes no connection where that is asked.
#[test]
fn checks_expect_what_they_are_told() {
    // No other test listens at its address.
    let server = Echo::at(vacant());
    let is_down = |health: &str| {
        let gate =
            gate(&format!("servers: \"{}\", health: {{ {health}, interval: 1s, timeout: 1s }}", server.address), "");
        wait_until("the checks", || metric(&gate, "server_up", server.address) == 0);
        // New flows are not taken in, and that is counted.
        Client::of(gate.address("dns")).send(b"x");
        let rejected = "portunus_datagrams_rejected_total{listener=\"dns\",reason=\"no_healthy_upstream\"} 1\n";
        wait_until(rejected, || gate.metrics().contains(rejected));
    };
    is_down("send: PING, expect: PONG");
    is_down("path: none");
    let open = TcpListener::bind((server.address.ip(), 0)).unwrap();
    let port = open.local_addr().unwrap().port();
    let gate = gate(&format!("servers: \"{}\", health: {{ path: none, port: {port} }}", server.address), "");
    accept(&open);
    assert_eq!(Client::of(gate.address("dns")).ask(b"x"), server.address);
}

/// Flows of made-up clients push each other out, and give their places back: the group is never full.
#[test]
fn a_flood_of_flows_does_not_fill_a_group() {
    let server = Echo::start();
    server.is_deaf.store(true, Ordering::SeqCst);
    let gate = gate(&format!("servers: \"{}\"", server.address), ", max_flows: 8, max_flows_per_client: 4");
    for last in 1..100 {
        (0..3).for_each(|_| Client::from(Ipv4Addr::new(127, 0, 1, last), gate.address("dns")).send(b"x"));
    }
    let all = "portunus_datagrams_received_total{listener=\"dns\"} 297\n";
    wait_until(all, || gate.metrics().contains(all));
    assert_eq!(metric(&gate, "server_in_flight", server.address), 8);
    server.is_deaf.store(false, Ordering::SeqCst);
    let client = Client::of(gate.address("dns"));
    client.send(b"me");
    // What the server has not read yet it echoes now, perhaps to a port that this flow has got from one before.
    let own = std::iter::repeat_with(|| client.response()).take(300).find(|(_, said)| said == b"me");
    assert_eq!(own.map(|(from, _)| from), Some(server.address));
}

/// IPv6 carries datagrams that IPv4 cannot: they are lost, and count against nobody.
#[test]
fn what_a_client_sends_is_no_failure_of_a_server() {
    let server = Echo::start();
    let gate = Gate::start(&format!(
        "workers: 1\nudp_listeners:\n  - {{ name: dns, bind: \"[::1]:0\", upstream: resolvers }}\nupstreams:\n  \
         resolvers: {{ protocol: udp, servers: \"{}\", ejection: {{ failures: 1, duration: 1h }} }}\nadmin: {{ bind: \"127.0.0.2:0\" }}\n",
        server.address
    ));
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    socket.connect(gate.address("dns")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let client = Client(socket);
    let longest = vec![0; 65_520];
    for _ in 0..10 {
        client.send(b"short");
        client.send(&longest);
        assert_eq!(client.response().0, server.address);
    }
    assert_eq!(client.ask(b"still there"), server.address);
    let lost = "portunus_datagrams_lost_total{listener=\"dns\"} 10\n";
    wait_until(lost, || gate.metrics().contains(lost));
    assert_eq!(metric(&gate, "undelivered_total", server.address), 0);
}

/// A server may have a number of flows of its own; those beyond it go to others, or nowhere.
#[test]
fn a_server_gets_no_more_flows_than_it_may() {
    let (small, large) = (Echo::start(), Echo::start());
    let group = format!(
        "servers: [{{ address: \"{}\", max_in_flight: 1 }}, {{ address: \"{}\", max_in_flight: 3 }}]",
        small.address, large.address
    );
    let gate = gate(&group, "");
    let clients: Vec<_> = (0..4).map(|_| Client::of(gate.address("dns"))).collect();
    let asked: Vec<_> = clients.iter().map(|client| client.ask(b"x")).collect();
    assert_eq!(asked.iter().filter(|server| **server == small.address).count(), 1, "{asked:?}");
    Client::of(gate.address("dns")).send(b"x");
    let rejected = "portunus_datagrams_rejected_total{listener=\"dns\",reason=\"upstream_overflow\"} 1\n";
    wait_until(rejected, || gate.metrics().contains(rejected));
    assert_eq!(clients.iter().map(|client| client.ask(b"x")).collect::<Vec<_>>(), asked);
}

/// A reload that changes the group keeps flows at servers that are still in it, and moves those whose server is not.
#[test]
fn a_reload_moves_only_flows_whose_server_is_gone_from_the_group() {
    let (leaves, stays, comes) = (Echo::start(), Echo::start(), Echo::start());
    let yaml = |servers: [&Echo; 2], more: &str| {
        format!(
            "workers: 1\nudp_listeners:\n  - {{ name: dns, bind: \"127.0.0.1:0\", upstream: resolvers }}\nupstreams:\n  \
             resolvers: {{ protocol: udp, servers: [\"{}\", \"{}\"]{more} }}\nadmin: {{ bind: \"127.0.0.2:0\" }}\n",
            servers[0].address, servers[1].address
        )
    };
    let gate = Gate::start(&yaml([&leaves, &stays], ""));
    let clients = [Client::of(gate.address("dns")), Client::of(gate.address("dns"))];
    let before = clients.each_ref().map(|client| client.ask(b"before"));
    assert_eq!(BTreeSet::from(before), [leaves.address, stays.address].into());
    let moving = &clients[usize::from(before[1] == leaves.address)];
    leaves.is_deaf.store(true, Ordering::SeqCst);
    moving.send(b"slow");
    wait_until("the question", || leaves.seen().contains(&b"slow".to_vec()));
    gate.rewrite(&yaml([&stays, &comes], ", balance: least_loaded"));
    gate.signal("HUP");
    gate.wait_for("\"reloaded\"");
    for (client, before) in clients.iter().zip(before) {
        let after = client.ask(b"after");
        assert_eq!(after == before, before == stays.address, "{before} {after}");
        assert_ne!(after, leaves.address);
    }
    // A response that was under way when its flow moved arrives all the same.
    leaves.is_deaf.store(false, Ordering::SeqCst);
    assert_eq!(moving.response(), (leaves.address, b"slow".to_vec()));
    assert_eq!(metric(&gate, "server_in_flight", stays.address) + metric(&gate, "server_in_flight", comes.address), 2);
}

/// The same group in nginx's `stream` gets the same flows, and neither sends any to a server that is gone for long.
#[test]
fn nginx_shares_flows_the_same_way() {
    let (heavy, light) = (Echo::start(), Echo::start());
    let gone = vacant();
    let beside = vacant();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    let text = format!(
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\ndaemon off; master_process off; worker_processes 1;\n\
         pid {path}/nginx.pid; error_log {path}/nginx.log info;\nevents {{}}\nstream {{\n  upstream even {{ server {} weight=3; server {}; }}\n  \
         upstream failing {{ server {gone} max_fails=1 fail_timeout=1h; server {}; }}\n  \
         server {{ listen {beside} udp; proxy_pass even; proxy_timeout 1h; }}\n  \
         server {{ listen {}:{} udp; proxy_pass failing; proxy_timeout 1h; }}\n}}\n",
        heavy.address,
        light.address,
        light.address,
        vacant().ip(),
        beside.port(),
    );
    let failing: SocketAddr = {
        let at = text.rfind("listen ").unwrap() + "listen ".len();
        text[at..].split(' ').next().unwrap().parse().unwrap()
    };
    std::fs::write(dir.path().join("nginx.conf"), text).unwrap();
    let config = dir.path().join("nginx.conf");
    let _nginx = Peer::start("nginx", &["-p", &path.to_string(), "-c", config.to_str().unwrap()], dir.path(), || {
        dir.path().join("nginx.pid").exists()
    });
    let ours = gate(&format!("servers: [{{ address: \"{}\", weight: 3 }}, \"{}\"]", heavy.address, light.address), "");
    let ours_failing =
        gate(&format!("servers: [\"{gone}\", \"{}\"], ejection: {{ failures: 1, duration: 1h }}", light.address), "");
    // Its first socket may not be read yet.
    let ready = Client::of(beside);
    ready.insist(b"ready");
    for (name, address, rounds) in [("portunus", ours.address("dns"), 16), ("nginx", beside, 16)] {
        // All of them stay open: a port that is used again would be the same flow.
        let clients: Vec<_> = (0..rounds).map(|_| Client::of(address)).collect();
        let asked: Vec<_> = clients.iter().map(|client| client.ask(b"x")).collect();
        let of_heavy = asked.iter().filter(|server| **server == heavy.address).count();
        assert_eq!(of_heavy, rounds / 4 * 3, "{name}: {asked:?}");
    }
    for (name, address) in [("portunus", ours_failing.address("dns")), ("nginx", failing)] {
        let tries: Vec<_> = (0..20).map(|_| Client::of(address).insist(b"x")).collect();
        assert!(tries.iter().all(|(server, _)| *server == light.address), "{name}: {tries:?}");
        let lost: usize = tries.iter().map(|(_, tries)| tries - 1).sum();
        println!("{name}: {lost} datagrams had to be sent again");
    }
    assert_eq!(metric(&ours_failing, "undelivered_total", gone), 1, "one datagram says enough");
}
