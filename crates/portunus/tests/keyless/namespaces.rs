//! An edge and two key servers, each in a network namespace of its own.

use std::path::Path;
use std::process::Command;

use super::client::{End, connect, connector, openssl, visit};
use super::key_server::KeyServer;
use super::set_up::OwnKeyServer;
use super::{SITE, folder, metric, outcomes, sample, start, yaml_at};
use crate::harness::{Gate, PORTUNUS, wait_until};

/// Namespaces that are gone, with their links, when dropped.
struct Networks(Vec<String>);

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split_whitespace()).output().is_ok_and(|output| output.status.success())
}

/// An address of a link. The process has a network of its own, so that another run on this machine is not in the way.
pub fn address(link: usize, end: usize) -> String {
    format!("10.{}.{link}.{end}", 64 + std::process::id() % 128)
}

impl Networks {
    /// So many fresh ones, called by a letter of the test's own; none where that is not allowed.
    fn make(letter: char, count: usize) -> Option<Networks> {
        let tag = std::process::id() % 10_000;
        let mut networks = Networks(Vec::new());
        for index in 1..=count {
            let name = format!("keyless{tag}{letter}{index}");
            if !ip(&format!("netns add {name}")) {
                eprintln!("skipped: network namespaces need root");
                return None;
            }
            networks.0.push(name);
        }
        Some(networks)
    }

    /// A link from a namespace (ours if none is given) to another one, with the addresses 1 and 2 of its number at its ends.
    fn link(&self, from: Option<usize>, to: usize, number: usize) {
        let to = &self.0[to];
        let (near, far) = (format!("{}x{number}", short(to)), format!("{}y{number}", short(to)));
        let here = from.map_or(String::new(), |from| format!("-n {} ", self.0[from]));
        for command in [
            format!("{here}link add {near} type veth peer name {far} netns {to}"),
            format!("{here}addr add {}/24 dev {near}", address(number, 1)),
            format!("{here}link set {near} up"),
            format!("-n {to} addr add {}/24 dev {far}", address(number, 2)),
            format!("-n {to} link set {far} up"),
        ] {
            assert!(ip(&command), "ip {command}");
        }
    }

    /// Takes a namespace's end of that link down, or up again. No reset, no end: just silence.
    fn set(&self, network: usize, number: usize, state: &str) {
        let name = &self.0[network];
        assert!(ip(&format!("-n {name} link set {}y{number} {state}", short(name))));
    }

    /// What runs a command in a namespace.
    fn enter(&self, network: usize) -> [&str; 4] {
        ["ip", "netns", "exec", &self.0[network]]
    }
}

/// The name of a namespace as the names of links can hold it (15 bytes).
fn short(network: &str) -> String {
    network.replace("keyless", "kl")
}

impl Drop for Networks {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| _ = ip(&format!("netns del {name}")));
    }
}

const ANSWERED: End = End::Answered { resumed: false };

#[test]
fn an_edge_and_two_key_servers_in_networks_of_their_own() {
    let Some(networks) = Networks::make('n', 2) else { return };
    let dir = folder();
    let server = |index: usize, behave: &str| {
        networks.link(None, index, index + 1);
        let host = address(index + 1, 2);
        KeyServer::start_with(dir.path(), &networks.enter(index), &["--host", &host, "--behave", behave])
    };
    let (first, second) = (server(0, "alpn"), server(1, "tls12"));
    let gate = start(dir, &[&first, &second], ", timeout: 10s, total_timeout: 40s");
    let full = || visit(&connector(gate.dir.path()), gate.address("edge")).end;
    while outcomes(&gate, &first, "success") == 0.0 || outcomes(&gate, &second, "success") == 0.0 {
        assert_eq!(full(), ANSWERED);
    }
    networks.set(0, 1, "down");
    for _ in 0..20 {
        assert_eq!(full(), ANSWERED);
    }
    networks.set(0, 1, "up");
    let up = format!("portunus_keyless_server_up{{group=\"keys\",server=\"{}\"}}", first.address);
    wait_until("the first to be back", || metric(&gate, &up) == Some(1.0));
    assert_eq!(full(), ANSWERED);
}

/// A key server of ours in a namespace, with the keys of a folder; gives where it listens.
fn key_server(networks: &Networks, index: usize, dir: &Path) -> (OwnKeyServer, String) {
    let text = format!(
        "listeners:
  - {{ name: edges, bind: \"{}:0\", tls: {{ certificate: server.pem, private_key: server.key, client_ca: ca.pem }} }}
keys: {{ sites: {{ folders: keys, operations: [sign, sign_legacy, rsa_decrypt] }} }}
access: [{{ clients: edge.example, keys: sites }}]
audit: none
",
        address(index * 10 + 1, 2)
    );
    OwnKeyServer::start_by(&networks.enter(index), &dir.join(format!("key server{index}.yaml")), &text)
}

/// An edge in a namespace of its own (the first), with two key servers of ours in theirs, and a link from here to the edge.
struct Apart {
    networks: Networks,
    servers: [(OwnKeyServer, String); 2],
    gate: Gate,
}

impl Apart {
    fn start(networks: Networks) -> Apart {
        let dir = folder();
        networks.link(None, 0, 10);
        networks.link(Some(0), 1, 11);
        networks.link(Some(0), 2, 21);
        assert!(ip(&format!("-n {} link set lo up", networks.0[0])));
        let servers = [1, 2].map(|index| key_server(&networks, index, dir.path()));
        let addresses = format!("\"{}\", \"{}\"", servers[0].1, servers[1].1);
        let yaml = yaml_at(&addresses, ", timeout: 10s, total_timeout: 40s")
            .replace("127.0.0.3:0", &format!("{}:0", address(10, 2)));
        let enter = networks.enter(0);
        let mut command = Command::new(enter[0]);
        command.args(&enter[1..]).arg(PORTUNUS);
        let gate = Gate::start_by(dir, &yaml, command);
        Apart { networks, servers, gate }
    }

    /// A full handshake and a request. It must end as it should, and not hang: the aim is two seconds, which is for the bench to show.
    fn full(&self) -> End {
        let ended = visit(&connector(self.gate.dir.path()), self.gate.address("edge"));
        assert!(ended.after < crate::harness::PATIENCE, "{ended:?}");
        println!("{ended:?}");
        ended.end
    }

    /// A sample of the metrics page, which is on a loopback address of the edge's namespace.
    fn metric(&self, name: &str, server: Option<usize>, more: &str) -> Option<f64> {
        let enter = self.networks.enter(0);
        let output = Command::new(enter[0])
            .args(&enter[1..])
            .args(["curl", "-sS", &format!("http://{}/metrics", self.gate.address("admin"))])
            .output()
            .expect("curl is installed (Debian package curl)");
        let server = server.map_or(String::new(), |index| format!(",server=\"{}\"", self.servers[index].1));
        sample(
            &String::from_utf8_lossy(&output.stdout),
            &format!("portunus_keyless_{name}{{group=\"keys\"{server}{more}}}"),
        )
    }

    fn successes(&self, server: usize) -> f64 {
        self.metric("operations_total", Some(server), ",outcome=\"success\"").unwrap_or(0.0)
    }
}

#[test]
fn an_edge_and_two_key_servers_of_ours_each_in_a_network_of_its_own() {
    let Some(networks) = Networks::make('o', 3) else { return };
    let apart = Apart::start(networks);
    let (address, dir) = (apart.gate.address("edge"), apart.gate.dir.path());
    for server in [0, 1] {
        wait_until("connections", || apart.metric("connections", Some(server), "") >= Some(1.0));
    }
    // The kernel may need a moment for the way there.
    wait_until("the way to the edge", || std::net::TcpStream::connect(address).is_ok());
    for arguments in ["-tls1_3", "-tls1_3 -sigalgs RSA-PSS+SHA256", "-tls1_2 -cipher AES128-GCM-SHA256"] {
        let reported = openssl(dir, address, arguments);
        assert!(reported.contains("Verify return code: 0 (ok)"), "{arguments}: {reported}");
    }
    let site = format!("https://{SITE}:{}/", address.port());
    let curl = Command::new("curl")
        .args(["-sS", "--cacert", dir.join("ca.pem").to_str().unwrap(), &site])
        .args(["--resolve", &format!("{SITE}:{}:{}", address.port(), address.ip())])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&curl.stdout), "ok", "{}", String::from_utf8_lossy(&curl.stderr));
    while [0, 1].iter().any(|server| apart.successes(*server) == 0.0) {
        assert_eq!(apart.full(), ANSWERED);
    }
    let known = connector(dir);
    let mut open = connect(&known, address).unwrap();
    open.ask();

    // One link goes: the other server serves on.
    apart.networks.set(1, 11, "down");
    (0..20).for_each(|_| assert_eq!(apart.full(), ANSWERED));
    wait_until("the metrics to say so", || apart.metric("server_up", Some(0), "") == Some(0.0));
    assert_eq!(apart.metric("unavailable", None, ""), Some(0.0));

    // Both: new handshakes end with one alert; what was established or is resumed goes on.
    apart.networks.set(2, 21, "down");
    std::thread::scope(|scope| {
        (0..4).for_each(|_| _ = scope.spawn(|| assert_eq!(apart.full(), End::Alert(80))));
        open.ask();
        assert_eq!(visit(&known, address).end, End::Answered { resumed: true });
    });
    wait_until("the metrics to say so", || apart.metric("unavailable", None, "") == Some(1.0));
    assert_eq!(apart.full(), End::Alert(80));
    open.ask();
    assert_eq!(visit(&known, address).end, End::Answered { resumed: true });

    // Back: all is as it was.
    apart.networks.set(1, 11, "up");
    apart.networks.set(2, 21, "up");
    for server in [0, 1] {
        wait_until("a server to be back", || apart.metric("server_up", Some(server), "") == Some(1.0));
    }
    assert_eq!(apart.metric("unavailable", None, ""), Some(0.0));
    let before = [0, 1].map(|server| apart.successes(server));
    while [0, 1].iter().any(|server| apart.successes(*server) == before[*server]) {
        assert_eq!(apart.full(), ANSWERED);
    }
    open.ask();
}
