//! Names of upstreams, before a name server of ours: silent, wrong, denying, and one that turns a name inwards (row 30).
//!
//! The program runs in a mount namespace of its own, in which `/etc/resolv.conf` names that server. This needs root; without it the tests say so
//! and end.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use keystore::dev_ca::{DevCa, Purpose};

use super::client::openssl;
use super::{get, yaml};
use crate::harness::{Gate, PORTUNUS, Reply, Upstream, connect, exchange, read_response, statuses, wait_until};

/// What the server says to a question for addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Says {
    /// These addresses, for one second.
    Addresses(Vec<IpAddr>),
    /// No such name.
    Denies,
    /// Bytes that are no response.
    Nonsense,
    Nothing,
    /// Each time the next ones, for one second.
    Turns(Vec<Vec<IpAddr>>),
    /// SRV records, for one second.
    Services(Vec<Service>),
}

/// An SRV record, and the address of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Service {
    priority: u16,
    weight: u16,
    host: &'static str,
    address: SocketAddr,
}

struct NameServer {
    address: Ipv4Addr,
    says: Arc<Mutex<Says>>,
    /// Questions for IPv4 addresses so far.
    asked: Arc<AtomicUsize>,
}

impl NameServer {
    /// On port 53 of a loopback address that nobody else has; none without the right to do so.
    fn start(says: Says) -> Option<NameServer> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let address = Ipv4Addr::new(127, 53 + NEXT.fetch_add(1, Ordering::Relaxed) as u8, high, low | 1);
        let socket = match UdpSocket::bind((address, 53)) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                eprintln!("skipped: a name server on port 53 needs root");
                return None;
            }
            bound => bound.unwrap(),
        };
        let server = NameServer { address, says: Arc::new(Mutex::new(says)), asked: Arc::default() };
        let (says, asked) = (Arc::clone(&server.says), Arc::clone(&server.asked));
        std::thread::spawn(move || {
            let mut bytes = [0; 1500];
            while let Ok((count, from)) = socket.recv_from(&mut bytes) {
                let says = says.lock().unwrap().clone();
                if let Some(response) = respond(&bytes[..count], &says, &asked) {
                    let _ = socket.send_to(&response, from);
                }
            }
        });
        Some(server)
    }

    fn say(&self, says: Says) {
        *self.says.lock().unwrap() = says;
    }

    /// Waits until it was asked again so many times.
    fn wait_for_questions(&self, more: usize) {
        let before = self.asked.load(Ordering::Relaxed);
        wait_until("the name to be asked for again", || self.asked.load(Ordering::Relaxed) >= before + more);
    }

    /// The program, in a mount namespace in which this is the name server.
    fn command(&self, dir: &Path) -> Command {
        // However slow the test is: what comes late would be no response.
        self.command_within(dir, 30)
    }

    /// The same, where a response is waited for so many seconds.
    fn command_within(&self, dir: &Path, seconds: u32) -> Command {
        let file = dir.join("resolv.conf");
        let text = format!("nameserver {}\noptions timeout:{seconds} attempts:1\n", self.address);
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        command.args(["--mount", "--", "sh", "-c", script, "sh"]).arg(file).arg(PORTUNUS);
        command
    }
}

fn at(addresses: &[Ipv4Addr]) -> Says {
    Says::Addresses(addresses.iter().map(|address| IpAddr::from(*address)).collect())
}

/// The answer to a question (RFC 1035 §4).
fn respond(question: &[u8], says: &Says, asked: &AtomicUsize) -> Option<Vec<u8>> {
    const SRV: [u8; 2] = [0, 33];
    let name_end = 12 + question.get(12..)?.iter().position(|octet| *octet == 0)? + 1;
    let kind = question.get(name_end..name_end + 2)?;
    let is_ipv4 = kind == [0, 1];
    let before = asked.fetch_add(usize::from(is_ipv4), Ordering::Relaxed);
    let is_asked_for = |address: &&IpAddr| (is_ipv4 && address.is_ipv4()) || (kind == [0, 28] && address.is_ipv6());
    let octets = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let all = |addresses: &[IpAddr]| addresses.iter().filter(is_asked_for).map(octets).collect();
    let (code, records): (u8, Vec<Vec<u8>>) = match says {
        Says::Nothing => return None,
        Says::Nonsense => return Some(b"\xff\xffthis is no response".to_vec()),
        Says::Denies => (3, Vec::new()),
        Says::Addresses(addresses) => (0, all(addresses)),
        Says::Turns(turns) => (0, all(&turns[before % turns.len()])),
        Says::Services(services) if kind == SRV => (0, services.iter().map(Service::record).collect()),
        Says::Services(services) => {
            let asks_for = |service: &&Service| question[12..name_end] == labels(service.host);
            let own: Vec<_> = services.iter().filter(asks_for).map(|service| service.address.ip()).collect();
            (0, all(&own[..own.len().min(1)]))
        }
    };
    let mut bytes = question[..2].to_vec();
    bytes.extend([0x81, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    bytes.extend(&question[12..name_end + 4]);
    for record in records {
        bytes.extend([&[0xc0, 12], kind, &[0, 1, 0, 0, 0, 1, 0, record.len() as u8]].concat());
        bytes.extend(record);
    }
    Some(bytes)
}

/// A name as it is written in messages.
fn labels(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

impl Service {
    fn record(&self) -> Vec<u8> {
        let numbers = [self.priority, self.weight, self.address.port()].map(u16::to_be_bytes);
        [numbers.concat(), labels(self.host)].concat()
    }
}

#[test]
fn the_last_good_addresses_are_used_whatever_the_name_server_says() {
    let Some(server) = NameServer::start(Says::Nothing) else { return };
    let upstream = Upstream::ok();
    let app = format!("app.test:{}", upstream.address.port());
    let config = yaml(&upstream, "", "").replace(&upstream.address.to_string(), &app);
    let config = config.replace("upstreams:\n  app: { ", "upstreams:\n  app: { connect_timeout: 1s, ");
    let dir = tempfile::tempdir().unwrap();
    // Some questions get no response.
    let command = server.command_within(dir.path(), 1);
    let gate = Gate::start_by(dir, &config, command);
    assert!(get(gate.address("web")).starts_with("HTTP/1.1 503 "), "nobody has said where it is");
    assert_eq!(gate.log(1)[0]["reason"], "upstream_unresolved");
    server.say(at(&[Ipv4Addr::LOCALHOST]));
    wait_until("the address", || get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    for says in [Says::Nothing, Says::Denies, Says::Nonsense, Says::Denies] {
        server.say(says.clone());
        server.wait_for_questions(1);
        assert!(get(gate.address("web")).starts_with("HTTP/1.1 200 "), "{says:?}");
    }
    // One that moves is followed. Nobody listens there.
    server.say(at(&[Ipv4Addr::new(127, 0, 0, 99)]));
    wait_until("the new address", || get(gate.address("web")).starts_with("HTTP/1.1 502 "));
    server.say(at(&[Ipv4Addr::LOCALHOST]));
    wait_until("the old one", || get(gate.address("web")).starts_with("HTTP/1.1 200 "));
    assert_eq!(gate.stop(), Some(0));
}

/// Servers on one port of several addresses.
fn on_one_port<const N: usize>(addresses: [&str; N], reply: fn(&crate::harness::Seen) -> Reply) -> [Upstream; N] {
    loop {
        let first = TcpListener::bind((addresses[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let rest = addresses[1..].iter().map(|address| TcpListener::bind((*address, port)));
        // Another test may have taken the port on one of them.
        let Ok(rest) = rest.collect::<Result<Vec<_>, _>>() else { continue };
        let mut listeners = std::iter::once(first).chain(rest);
        return std::array::from_fn(|_| Upstream::on(listeners.next().unwrap(), reply));
    }
}

/// A gate whose one group is the name `app.test`. Requests wait for its addresses, longer than the test does.
fn gate_before(server: &NameServer, port: u16, group: &str) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    let command = server.command(dir.path());
    let text = format!(
        "workers: 1
listeners:
  - {{ name: web, bind: \"127.0.0.1:0\" }}
upstreams:
  app: {{ servers: [\"app.test:{port}\"], connect_timeout: 10m{group} }}
routes:
  - {{ upstream: app }}
admin: {{ bind: \"127.0.0.2:0\" }}
"
    );
    Gate::start_by(dir, &text, command)
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn ok(_: &crate::harness::Seen) -> Reply {
    Reply::Keep(OK.to_vec())
}

fn ask(gate: &Gate, method: &str) -> u16 {
    let request = format!("{method} /r HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    statuses(&exchange(gate.address("web"), request.as_bytes()))[0]
}

fn counts<const N: usize>(servers: &[Upstream; N]) -> [usize; N] {
    std::array::from_fn(|index| servers[index].seen().iter().filter(|seen| seen.line().contains("/r ")).count())
}

#[test]
fn every_address_of_a_name_is_a_server_and_may_come_and_go() {
    static GO_ON: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    let addresses = [1, 2, 3].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let Some(server) = NameServer::start(at(&addresses[..2])) else { return };
    let servers = on_one_port(["127.0.0.1", "127.0.0.2", "127.0.0.3"], |seen| {
        // A response that goes on once the test says so.
        let take = |mut stream: std::net::TcpStream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegin").unwrap();
            drop(GO_ON.1.wait_while(GO_ON.0.lock().unwrap(), |go_on| !*go_on));
            stream.write_all(b"..end").unwrap();
        };
        if seen.line().contains("/hold") { Reply::Take(Box::new(take)) } else { Reply::Keep(OK.to_vec()) }
    });
    let gate = gate_before(&server, servers[0].address.port(), ", idle_timeout: 60s");
    for _ in 0..20 {
        assert_eq!(ask(&gate, "GET"), 200);
    }
    assert_eq!(counts(&servers), [10, 10, 0]);
    let labels: std::collections::BTreeSet<String> =
        gate.log(20).iter().map(|line| line["upstream"]["server"].as_str().unwrap().to_owned()).collect();
    let expected: std::collections::BTreeSet<String> =
        servers[..2].iter().map(|server| server.address.to_string()).collect();
    assert_eq!(labels, expected);
    let metric = format!(
        "portunus_upstream_responses_total{{upstream=\"app\",server=\"{}\",code=\"200\"}} 10",
        servers[1].address
    );
    assert!(gate.metrics().contains(&metric), "{}", gate.metrics());
    // Hosts are asked by their name, not by the address that it led to.
    assert_eq!(servers[0].seen()[0].fields("host"), ["x"]);

    // One of the two leaves while it has a request under way, and another one comes.
    let mut held: Vec<_> = (0..2).map(|_| connect(gate.address("web"))).collect();
    for client in &mut held {
        client.write_all(b"GET /hold HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    }
    wait_until("requests at both", || {
        servers[..2].iter().all(|server| server.raw().windows(5).any(|raw| raw == b"/hold"))
    });
    server.say(at(&addresses[1..]));
    wait_until("the third server", || {
        assert_eq!(ask(&gate, "POST"), 200);
        counts(&servers)[2] > 0
    });
    let before = counts(&servers);
    for _ in 0..20 {
        assert_eq!(ask(&gate, "POST"), 200);
    }
    let after = counts(&servers);
    assert_eq!([0, 1, 2].map(|index| after[index] - before[index]), [0, 10, 10]);
    *GO_ON.0.lock().unwrap() = true;
    GO_ON.1.notify_all();
    for client in &mut held {
        assert_eq!(read_response(client).1, b"begin..end");
    }
    assert!(!gate.diagnostics().iter().any(|line| line.contains("reload")), "{:#?}", gate.diagnostics());
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn an_address_that_rejects_fails_no_request_and_is_ejected() {
    let Some(server) = NameServer::start(at(&[1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last)))) else { return };
    // Nobody listens on the lower address, the one that alone was used before, and no other test can.
    let (up, _held) = loop {
        let [up] = on_one_port(["127.0.0.2"], ok);
        let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let lower = std::net::SocketAddr::from(([127, 0, 0, 1], up.address.port()));
        if held.bind(&lower.into()).is_ok() {
            break (up, held);
        }
    };
    let group = ", retries: { budget: 0 }, ejection: { failures: 3, duration: 1h }";
    let gate = gate_before(&server, up.address.port(), group);
    for _ in 0..20 {
        assert_eq!(ask(&gate, "POST"), 200);
    }
    assert_eq!(up.seen().len(), 20);
    let retries: u64 = gate.log(20).iter().map(|line| line["upstream"]["retries"].as_u64().unwrap()).sum();
    assert_eq!(retries, 3, "ejected after three");
}

#[test]
fn addresses_of_both_families_are_servers() {
    let addresses = vec![IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)];
    let Some(server) = NameServer::start(Says::Addresses(addresses)) else { return };
    let servers = on_one_port(["127.0.0.1", "::1"], ok);
    let gate = gate_before(&server, servers[0].address.port(), "");
    for _ in 0..10 {
        assert_eq!(ask(&gate, "GET"), 200);
    }
    assert_eq!(counts(&servers), [5, 5]);
}

#[test]
fn a_name_that_is_denied_is_503_at_once_and_logged_once() {
    let Some(server) = NameServer::start(Says::Denies) else { return };
    let gate = gate_before(&server, 1, "");
    let response =
        String::from_utf8(exchange(gate.address("web"), b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
            .unwrap();
    assert!(
        response.starts_with("HTTP/1.1 503 ") && response.to_lowercase().contains("\r\nretry-after:"),
        "{response}"
    );
    let line = &gate.log(1)[0];
    assert_eq!((line["reason"].as_str(), line["fault"].as_str()), (Some("upstream_unresolved"), Some("upstream")));
    server.wait_for_questions(2);
    let reported = |text: &str| gate.diagnostics().iter().filter(|line| line.contains(text)).count();
    assert_eq!(reported("cannot resolve a name; no address known yet"), 1, "{:#?}", gate.diagnostics());
    let metric = "portunus_upstream_resolution_failures_total{upstream=\"app\",name=\"app.test\",reason=\"nxdomain\"}";
    let count = || {
        let metrics = gate.metrics();
        metrics.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    wait_until("the counter", || count() >= 2);
    // Another reason is news.
    server.say(Says::Addresses(Vec::new()));
    wait_until("the other reason", || reported("no_address") == 1);
    server.say(at(&[Ipv4Addr::LOCALHOST]));
    wait_until("the address", || reported("addresses of a name have changed") == 1);
}

/// A group of servers behind an SRV name.
fn gate_of_services(server: &NameServer) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    let command = server.command(dir.path());
    let text = "workers: 1
listeners:
  - { name: web, bind: \"127.0.0.1:0\" }
upstreams:
  app: { servers: { srv: _http._tcp.app.test }, connect_timeout: 10m, retries: { budget: 0 } }
routes:
  - { upstream: app, host: upstream }
admin: { bind: \"127.0.0.2:0\" }
";
    Gate::start_by(dir, text, command)
}

#[test]
fn srv_records_say_hosts_ports_weights_and_priorities() {
    let servers = [Upstream::ok(), Upstream::ok(), Upstream::ok()];
    let records = |ranks: [(u16, u16); 3]| {
        let hosts = ["one.test", "two.test", "three.test"];
        let record = |index: usize| Service {
            priority: ranks[index].0,
            weight: ranks[index].1,
            host: hosts[index],
            address: servers[index].address,
        };
        Says::Services([0, 1, 2].map(record).to_vec())
    };
    let Some(server) = NameServer::start(records([(10, 1), (10, 3), (20, 1)])) else { return };
    let gate = gate_of_services(&server);
    for _ in 0..40 {
        assert_eq!(ask(&gate, "GET"), 200);
    }
    assert_eq!(counts(&servers), [10, 30, 0]);
    assert_eq!(servers[1].seen()[0].fields("host"), [format!("two.test:{}", servers[1].address.port())]);
    // The same servers in other ranks.
    let before = gate.diagnostics().iter().filter(|line| line.contains("addresses of a name have changed")).count();
    server.say(records([(10, 1), (10, 1), (5, 1)]));
    wait_until("the new ranks", || {
        gate.diagnostics().iter().filter(|line| line.contains("addresses of a name have changed")).count() > before
    });
    for _ in 0..10 {
        assert_eq!(ask(&gate, "GET"), 200);
    }
    assert_eq!(counts(&servers), [10, 30, 10]);
    // Nobody knows the names any more; the last good servers stay.
    for says in [Says::Nothing, Says::Denies, Says::Services(Vec::new())] {
        server.say(says.clone());
        assert_eq!(ask(&gate, "GET"), 200, "{says:?}");
    }
    assert_eq!(gate.stop(), Some(0));
}

#[test]
fn addresses_that_change_each_second_fail_no_request() {
    let turns = [[1, 2], [2, 3], [3, 4], [4, 1]];
    let turns = turns.map(|turn| turn.map(|last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last))).to_vec());
    let Some(server) = NameServer::start(Says::Turns(turns.to_vec())) else { return };
    let servers = on_one_port(["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"], ok);
    let gate = gate_before(&server, servers[0].address.port(), ", retries: { budget: 0 }, ejection: { failures: 0 }");
    let is_over = || server.asked.load(Ordering::Relaxed) > 6 && counts(&servers).iter().all(|count| *count > 0);
    let until = std::time::Instant::now() + crate::harness::PATIENCE;
    std::thread::scope(|scope| {
        for method in ["GET", "POST", "PUT"] {
            let (gate, is_over) = (&gate, &is_over);
            scope.spawn(move || {
                let mut client = connect(gate.address("web"));
                while !is_over() {
                    assert!(std::time::Instant::now() < until, "not each address was used");
                    write!(client, "{method} /r HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
                    let (head, body) = read_response(&mut client);
                    assert!(head.starts_with("HTTP/1.1 200 ") && body == b"ok", "{head}");
                }
            });
        }
    });
    assert!(gate.log(1).iter().all(|line| line["status"] == 200));
    assert_eq!(gate.stop(), Some(0));
}

/// A server that counts its open connections.
fn counting(listener: TcpListener) -> Arc<AtomicUsize> {
    let open = Arc::new(AtomicUsize::new(0));
    let kept = Arc::clone(&open);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, open) = (stream.unwrap(), Arc::clone(&kept));
            open.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while matches!(std::io::Read::read(&mut stream, &mut bytes), Ok(1..)) {
                    if stream.write_all(OK).is_err() {
                        break;
                    }
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    open
}

#[test]
fn connections_to_an_address_that_leaves_are_closed_once_they_are_free() {
    let addresses = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last));
    let Some(server) = NameServer::start(at(&addresses[..1])) else { return };
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = first.local_addr().unwrap().port();
    let Ok(second) = TcpListener::bind(("127.0.0.2", port)) else { return };
    let (first, second) = (counting(first), counting(second));
    let gate = gate_before(&server, port, ", pool_idle_timeout: 1h");
    assert_eq!((ask(&gate, "GET"), first.load(Ordering::SeqCst)), (200, 1));
    server.say(at(&addresses[1..]));
    wait_until("the other address", || {
        assert_eq!(ask(&gate, "GET"), 200);
        second.load(Ordering::SeqCst) > 0
    });
    wait_until("the end of the first connection", || first.load(Ordering::SeqCst) == 0);
    assert!(second.load(Ordering::SeqCst) > 0);
}

/// A UDP server on this address that responds with its name and what it got; says when it was asked.
fn udp_server(socket: std::net::UdpSocket, name: &'static str) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut bytes) {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = socket.send_to(&[name.as_bytes(), &bytes[..count]].concat(), from);
        }
    });
    asked
}

/// Servers behind a name and behind SRV records, changing each second, while flows of a UDP listener go there: nothing is lost.
#[test]
fn udp_flows_follow_a_name_whose_addresses_change_each_second() {
    let [one, two, three] = [1, 2, 3].map(|last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last)));
    let Some(server) = NameServer::start(Says::Turns(vec![vec![one, two], vec![two, three], vec![three, one]])) else {
        return;
    };
    let (sockets, port) = loop {
        let first = UdpSocket::bind((one, 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let rest = [two, three].map(|address| UdpSocket::bind((address, port)));
        // Another test may have taken the port on one of them.
        if let [Ok(second), Ok(third)] = rest {
            break ([first, second, third], port);
        }
    };
    let mut names = ["one ", "two ", "three "].into_iter();
    let asked = sockets.map(|socket| udp_server(socket, names.next().unwrap()));
    let dir = tempfile::tempdir().unwrap();
    let command = server.command(dir.path());
    let text = format!(
        "workers: 1\nudp_listeners:\n  - {{ name: dns, bind: \"127.0.0.1:0\", upstream: app }}\nupstreams:\n  \
         app: {{ protocol: udp, servers: [\"app.test:{port}\"] }}\nadmin: {{ bind: \"127.0.0.2:0\" }}\n"
    );
    let gate = Gate::start_by(dir, &text, command);
    let client = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(gate.address("dns")).unwrap();
        socket.set_read_timeout(Some(crate::harness::PATIENCE)).unwrap();
        socket
    };
    let ask = |client: &UdpSocket, question: &[u8]| {
        client.send(question).unwrap();
        let mut bytes = [0; 2048];
        let count = client.recv(&mut bytes).expect("a response");
        assert!(bytes[..count].ends_with(question));
    };
    // Nobody waits for a name server, so what comes before its first word is not forwarded.
    let up = format!("portunus_upstream_server_up{{upstream=\"app\",server=\"{two}:{port}\"}} 1");
    wait_until("the addresses", || gate.metrics().contains(&up));
    let lasting = client();
    let until = std::time::Instant::now() + crate::harness::PATIENCE;
    let mut rounds = 0_u32;
    while asked.iter().any(|asked| asked.load(Ordering::SeqCst) == 0) || server.asked.load(Ordering::Relaxed) < 6 {
        assert!(std::time::Instant::now() < until, "not each address was used: {asked:?}");
        ask(&lasting, &rounds.to_be_bytes());
        ask(&client(), &rounds.to_be_bytes());
        rounds += 1;
        // The name changes no faster, and each round leaves a flow.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let total: usize = asked.iter().map(|asked| asked.load(Ordering::SeqCst)).sum();
    assert_eq!(total as u32, 2 * rounds, "each question came to one server once");
    let (status, dir) = gate.stop_and_keep();
    assert_eq!(status, Some(0));
    let text = std::fs::read_to_string(dir.path().join("access.log")).unwrap();
    let log: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(log.iter().all(|line| line["datagrams_received"] == line["datagrams_sent"]));
    let moved = log.iter().filter(|line| line["upstream"]["moves"].as_u64() > Some(0)).count();
    assert!(moved >= 1, "the flow that lasts never moved");
}

/// A folder with a keystore and routes as SillyProxy has them, made with its own arguments.
fn sillyproxy_folder(routes: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let pair = DevCa::new("Test CA").unwrap().issue(&["a.example"], tls::KeyType::Ecdsa, Purpose::Server).unwrap();
    std::fs::write(dir.path().join("c.pem"), pair.certificate_pem).unwrap();
    std::fs::write(dir.path().join("k.pem"), pair.key_pem.as_bytes()).unwrap();
    std::fs::write(dir.path().join("routes.json"), routes).unwrap();
    let arguments =
        "as sillyproxy -keystore ks.jks -keypass geheim1 -hostname default -pemCert c.pem -pemKey k.pem KeyStore";
    let made = Command::new(PORTUNUS).args(arguments.split(' ')).current_dir(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    dir
}

const SILLYPROXY: &str =
    "as sillyproxy -minTLSVer=3 -keystore ks.jks -keypass geheim1 -bind 127.0.0.1:0 -routes routes.json";

#[test]
fn a_name_made_by_a_request_cannot_be_turned_inwards() {
    let Some(server) = NameServer::start(at(&[Ipv4Addr::new(192, 0, 2, 1)])) else { return };
    let inner = Upstream::ok();
    let port = inner.address.port();
    let routes = format!(
        r#"{{"Routes": [{{"Host": "a.example", "MethodPathMaps": [
            {{"Method": "GET", "Path": "/to/:d", "Route": ["http://", 0, ".rebind.test:{port}/inner"]}},
            {{"Method": "GET", "Path": "/ok", "Route": ["http://127.0.0.1:{port}/named"]}},
        ]}}]}}"#
    );
    let dir = sillyproxy_folder(&routes);
    let mut command = server.command(dir.path());
    command.args(SILLYPROXY.split(' '));
    let gate = Gate::start_command(dir, command, 1);
    let address: SocketAddr = gate.address("sillyproxy");
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        openssl(address, "-servername a.example -quiet", &request).status()
    };
    assert_eq!(get("/ok"), Some(200), "what the configuration names may be anywhere");
    let first = get("/to/a");
    assert!(matches!(first, Some(502..=504)), "{first:?}");
    for inwards in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::UNSPECIFIED] {
        server.say(at(&[inwards]));
        server.wait_for_questions(1);
        for tenant in ["a", "b"] {
            let response = get(&format!("/to/{tenant}"));
            assert!(matches!(response, Some(502..=504)), "{inwards} {tenant}: {response:?}");
        }
    }
    let seen: Vec<_> = inner.seen().iter().map(|request| request.line().to_owned()).collect();
    assert_eq!(seen, ["GET /named HTTP/1.1"]);
    assert_eq!(gate.stop(), Some(0));
}
