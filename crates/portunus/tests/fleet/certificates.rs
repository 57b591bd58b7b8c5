//! Certificates of a fleet: one node orders at a real authority (Pebble), all have what it orders and respond for it.

#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fleet::seal::Seal;
use fleet::store::certificates::{Item, Place};

use super::site::{Node, Site, wait_until};
use crate::acme::pebble::{Pebble, Planned};

const PREFIX: &str = "/test/fleet/certificates/";

/// What stands before the nodes and leads the authority to one of them.
struct Balancer {
    ports: [u16; 2],
    targets: Arc<Mutex<[Option<SocketAddr>; 2]>>,
    connections: Arc<AtomicUsize>,
}

impl Balancer {
    fn start(address: IpAddr) -> Balancer {
        let targets = Arc::<Mutex<[Option<SocketAddr>; 2]>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let ports = [0, 1].map(|at| {
            let listener = TcpListener::bind((address, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            let (targets, connections) = (Arc::clone(&targets), Arc::clone(&connections));
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let (targets, connections) = (Arc::clone(&targets), Arc::clone(&connections));
                    std::thread::spawn(move || {
                        // Who comes before it is known where to waits for that.
                        let mut target = None;
                        wait_until("a node to lead to", || {
                            target = targets.lock().unwrap()[at];
                            target.is_some()
                        });
                        connections.fetch_add(1, Ordering::Relaxed);
                        forward(stream, target.unwrap());
                    });
                }
            });
            port
        });
        Balancer { ports, targets, connections }
    }

    /// Leads to this node from now on.
    fn lead_to(&self, node: &Node) {
        *self.targets.lock().unwrap() = [Some(node.web), Some(node.tls)];
    }
}

fn forward(client: TcpStream, target: SocketAddr) {
    let Ok(server) = TcpStream::connect(target) else { return };
    let copy = |mut from: TcpStream, mut to: TcpStream| {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    };
    let (client_too, server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let other = std::thread::spawn(move || copy(client_too, server_too));
    copy(server, client);
    let _ = other.join();
}

/// A fleet whose certificates are ordered.
struct Ordered {
    site: Site,
    pebble: Pebble,
    balancer: Balancer,
    nodes: Vec<Node>,
}

/// Starts three nodes, which order for a host once Pebble is there; none without Pebble.
fn start(planned: Planned, acme: &str) -> Ordered {
    let (site, balancer) = (Site::new(), Balancer::start(planned.gate));
    site.pushed(&[]);
    let nodes = site.nodes(&["a", "b", "c"]);
    site.wait_for_nodes(3);
    Planned::write_ca(&site.path("site"));
    let directory = planned.directory();
    let [http, tls] = balancer.ports;
    let pebble = planned.start(http, tls);
    pebble.write_root(site.dir.path());
    let yaml = format!(
        "listeners:
  - {{ name: web, bind: \"${{WEB:-127.0.0.1:1}}\" }}
  - {{ name: tls, bind: \"${{TLS:-127.0.0.1:3}}\", tls: {{ keystore: main }} }}
keystores:
  main: {{ acme: {{ folder: \"${{STORE:-/nowhere}}\", directory: [{directory}], accept_terms: true, retry_interval: 200ms{acme} }} }}
admin: {{ bind: \"${{ADMIN:-127.0.0.1:2}}\" }}
routes: [{{ path: /, respond: {{ status: 200, body: ordered }} }}]
"
    );
    std::fs::write(site.path("site/portunus.yaml"), yaml).unwrap();
    Ordered { site, pebble, balancer, nodes }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in &self.nodes {
                eprintln!("{} said: {}", node.name, node.running.diagnostics().join("\n"));
            }
        }
    }
}

impl Ordered {
    fn push(&self) {
        let text = self.site.pushed(&["--all"]);
        assert!(text.contains("everywhere"), "{text}");
    }

    /// Who orders, if anybody does.
    fn leader(&self) -> Option<String> {
        let entry = self.site.client().get(&format!("{PREFIX}leader")).unwrap()?;
        let seal = Seal::read(&self.site.path("fleet.key")).unwrap();
        Some(String::from_utf8(seal.open(&entry.key, &entry.value)?.to_vec()).unwrap())
    }

    fn wait_for_leader(&self) -> String {
        let mut found = None;
        wait_until("a node that orders", || {
            found = self.leader();
            found.is_some()
        });
        found.unwrap()
    }

    /// Leads the authority to a node that does not order.
    fn lead_away_from(&self, leader: &str) {
        self.balancer.lead_to(self.nodes.iter().find(|node| node.name != leader).unwrap());
    }

    /// How often Pebble was asked this.
    fn asked(&self, path: &str) -> usize {
        self.pebble.log().matches(&format!("POST {path}")).count()
    }

    /// The certificate, as PEM, that a node presents for a host to a client that trusts the authority alone; none if it is not trusted.
    fn presented(&self, node: &Node, host: &str) -> Option<String> {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &node.tls.to_string(), "-servername", host, "-verify_return_error"]);
        command.args(["-verify_hostname", host, "-CAfile"]).arg(self.site.path("ca.pem"));
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_good = output.status.success() && text.contains("-----BEGIN CERTIFICATE-----");
        is_good.then(|| {
            text.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap().split("-----END").next().unwrap().to_owned()
        })
    }

    /// Waits until all nodes present the same certificate.
    fn wait_for_all(&self, host: &str) -> String {
        let mut found = Vec::new();
        wait_until(&format!("all nodes to present one certificate for {host}"), || {
            found = self.nodes.iter().map(|node| self.presented(node, host)).collect();
            found.iter().all(|one| one.is_some() && *one == found[0])
        });
        found[0].clone().unwrap()
    }

    /// Operators see who orders: by the commands, and by a metric of each node.
    fn assert_shown_as_leader(&self, leader: &str) {
        let (is_done, text) = self.site.portunus(&["fleet", "status"]);
        assert!(is_done && text.contains(&format!("{leader} orders certificates for all")), "{text}");
        let (is_done, text) = self.site.portunus(&["fleet", "nodes", "--json"]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let orders = |node: &&serde_json::Value| node["orders_certificates"] == true;
        let names: Vec<_> =
            value["nodes"].as_array().unwrap().iter().filter(orders).map(|node| &node["node"]).collect();
        assert!(is_done && names == [leader], "{text}");
        for node in &self.nodes {
            let line = format!("portunus_fleet_orders_certificates {}", u8::from(node.name == leader));
            node.wait_for("/metrics", &line);
        }
    }

    fn keys(&self, rest: &str) -> usize {
        self.site.client().list(&format!("{PREFIX}{rest}"), true).unwrap().len()
    }
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn one_node_orders_and_all_present_what_it_gets() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let Some(planned) = Planned::new() else { return };
        let fleet = start(planned, &format!(", challenges: [{challenge}], names: [www.shop.test, api.shop.test]"));
        let site = &fleet.site;
        // Whoever orders, the authority is led to another one: until that is known, to nobody.
        let pushed = std::thread::scope(|scope| {
            scope.spawn(|| {
                let leader = fleet.wait_for_leader();
                fleet.lead_away_from(&leader);
            });
            fleet.push();
            fleet.wait_for_leader()
        });
        for host in ["www.shop.test", "api.shop.test"] {
            fleet.wait_for_all(host);
        }
        assert_eq!(fleet.leader(), Some(pushed), "it is the same all the time");
        assert_eq!(fleet.asked("/order-plz"), 2, "{challenge}: one order for each name");
        assert_eq!(fleet.asked("/sign-me-up"), 1, "{challenge}: one account");
        assert!(
            fleet.balancer.connections.load(Ordering::Relaxed) >= 2,
            "{challenge}: a node that does not order responded"
        );
        wait_until("proofs to be removed", || fleet.keys("proofs/") == 0);
        // In etcd nothing of it can be read, not the names of hosts either, and on the nodes the files are for them alone.
        let everything = site.everything();
        assert!(everything.iter().filter(|entry| entry.key.contains("/certificates/files/")).count() >= 5);
        for entry in everything {
            assert!(!entry.key.contains("shop") && !entry.key.contains("main"), "{}", entry.key);
            for needle in [&b"PRIVATE KEY"[..], b"BEGIN CERTIFICATE", b"credentials", b"shop"] {
                assert!(!entry.value.windows(needle.len()).any(|window| window == needle), "{}", entry.key);
            }
        }
        fleet.assert_shown_as_leader(&fleet.wait_for_leader());
        for node in &fleet.nodes {
            let file = site.path(&format!("state-{}/store/certificates/www.shop.test.ecdsa.pem", node.name));
            assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_node_that_orders_and_is_killed_is_replaced_and_its_order_goes_on() {
    let Some(planned) = Planned::new() else { return };
    let mut fleet = start(planned, ", challenges: [http-01], names: www.shop.test");
    // A node that never says that it shows a proof: who orders waits for it, for some seconds.
    let mut store = fleet.site.store();
    let slow = store.grant(600).unwrap();
    store.write_shown("slow", 0, slow).unwrap();
    fleet.push();
    wait_until("a proof to be shown", || fleet.keys("proofs/") > 0);
    let leader = fleet.wait_for_leader();
    // The order is made, and the authority was not asked to look yet.
    let at = fleet.nodes.iter().position(|node| node.name == leader).unwrap();
    let mut killed = fleet.nodes.remove(at);
    killed.running.child.kill().unwrap();
    killed.running.child.wait().unwrap();
    assert_eq!((fleet.asked("/order-plz"), fleet.asked("/finalize-order")), (1, 0));
    store.revoke(slow).unwrap();
    wait_until("another node to order", || fleet.leader().is_some_and(|other| other != leader));
    let next = fleet.wait_for_leader();
    fleet.lead_away_from(&next);
    fleet.wait_for_all("www.shop.test");
    assert_eq!((fleet.asked("/order-plz"), fleet.asked("/finalize-order")), (1, 1), "the same order");
    // The one that was killed comes back with nothing on its disk, and takes up what there is.
    std::fs::remove_dir_all(fleet.site.path(&format!("state-{leader}/store"))).unwrap();
    fleet.nodes.push(fleet.site.node(&leader, &[]));
    fleet.wait_for_all("www.shop.test");
    assert_eq!(fleet.asked("/order-plz"), 1);
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_name_that_a_client_of_any_node_asks_for_is_ordered_once_and_there_for_all() {
    let Some(planned) = Planned::new() else { return };
    let fleet = start(
        planned,
        ", challenges: [http-01], on_demand: { allow: \"*.shop.test\", wait: 60s, max_orders_per_hour: 3 }",
    );
    fleet.push();
    let leader = fleet.wait_for_leader();
    fleet.lead_away_from(&leader);
    let others: Vec<&Node> = fleet.nodes.iter().filter(|node| node.name != leader).collect();
    assert!(fleet.presented(others[0], "one.shop.test").is_some(), "the client waits for it");
    fleet.wait_for_all("one.shop.test");
    std::thread::scope(|scope| {
        for node in &fleet.nodes {
            scope.spawn(|| assert!(fleet.presented(node, "two.shop.test").is_some(), "{}", node.name));
        }
    });
    assert_eq!(fleet.asked("/order-plz"), 2, "three clients of three nodes, one order");
    assert!(fleet.presented(others[1], "three.shop.test").is_some());
    // The rate is that of the fleet, and whoever asked first hears of it.
    for node in &fleet.nodes {
        assert_eq!(fleet.presented(node, "four.shop.test"), None, "{}", node.name);
    }
    assert_eq!(fleet.asked("/order-plz"), 3);
    assert_eq!(fleet.presented(others[0], "a.other.test"), None, "not allowed anywhere");
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn files_that_somebody_removes_or_puts_back_change_nothing() {
    let Some(planned) = Planned::new() else { return };
    let fleet = start(planned, ", challenges: [http-01], names: www.shop.test");
    std::thread::scope(|scope| {
        scope.spawn(|| fleet.lead_away_from(&fleet.wait_for_leader()));
        fleet.push();
    });
    let first = fleet.wait_for_all("www.shop.test");
    let mut client = fleet.site.client();
    let place = Place { keystore: "main".to_owned(), path: "certificates/www.shop.test.ecdsa.pem".to_owned() };
    let seal = Seal::read(&fleet.site.path("fleet.key")).unwrap();
    let key = format!("{PREFIX}{}", Item::File(place).key(&seal));
    let old = client.get(&key).unwrap().unwrap().value;
    // Whoever orders renews it at once.
    let pem = std::fs::read_to_string(fleet.site.path("state-a/store/certificates/www.shop.test.ecdsa.pem")).unwrap();
    fleet.pebble.suggest(&pem, crate::acme::pebble::LONG_AGO);
    let leader = fleet.wait_for_leader();
    let at = fleet.nodes.iter().position(|node| node.name == leader).unwrap();
    let mut fleet = fleet;
    fleet.nodes.remove(at).end();
    let mut second = String::new();
    wait_until("another certificate", || {
        if let Some(leader) = fleet.leader() {
            fleet.lead_away_from(&leader);
        }
        second = fleet.presented(&fleet.nodes[0], "www.shop.test").unwrap_or_default();
        !second.is_empty() && second != first
    });
    assert_eq!(fleet.wait_for_all("www.shop.test"), second);
    for poison in [Some(&old[..]), Some(b"garbage"), None] {
        match poison {
            Some(value) => client.put(&key, value, 0).unwrap(),
            None => client.delete(&key).unwrap(),
        }
        wait_until("it to be put back", || {
            let entry = client.get(&key).unwrap();
            entry.is_some_and(|entry| Some(&entry.value[..]) != poison)
        });
        assert_eq!(fleet.wait_for_all("www.shop.test"), second);
    }
}
