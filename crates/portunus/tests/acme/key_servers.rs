//! Certificates whose keys are made at a key server and never leave it: the real program at both ends.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use keystore::dev_ca::{DevCa, Purpose};
use tempfile::TempDir;
use tls::KeyType;
use tls::crypto::public_key::key_identifier;

use super::edge::{Wanted, folder, is_served, kept, metric, ports, wait_for_kept, yaml};
use super::pebble::{LONG_AGO, Pebble, Planned};
use crate::harness::{Gate, PORTUNUS, Running, Upstream, member, vacant, wait_until};

const HOST: &str = "www.portunus.test";
const STEM: &str = "www.portunus.test.ecdsa";

/// What a rule says of clients that may have keys made.
const MAY: &str = ", make_keys: made";

/// A key server that is configured, and its folder.
struct KeyServer {
    dir: TempDir,
    address: SocketAddr,
    running: Option<Running>,
}

impl KeyServer {
    /// Writes what it needs, and what the gate needs of it.
    fn plan(gate: &Path) -> KeyServer {
        let (dir, address) = (tempfile::tempdir().unwrap(), vacant());
        let ca = DevCa::new("Key server CA").unwrap();
        let host = address.ip().to_string();
        let server = ca.issue(&[&host], KeyType::Ecdsa, Purpose::Server).unwrap();
        let client = ca.issue(&["edge.example"], KeyType::Ecdsa, Purpose::Client).unwrap();
        let write = |path: PathBuf, text: &str| std::fs::write(path, text).unwrap();
        for folder in [dir.path(), gate] {
            write(folder.join("keys-ca.pem"), &ca.certificate_pem());
        }
        write(dir.path().join("server.pem"), &server.certificate_pem);
        write(dir.path().join("server.key"), &server.key_pem);
        write(gate.join("edge.pem"), &client.certificate_pem);
        write(gate.join("edge.key"), &client.key_pem);
        std::fs::create_dir(dir.path().join("made")).unwrap();
        KeyServer { dir, address, running: None }
    }

    /// Writes its configuration: what the rule of the gate says beside, and limits.
    fn configure(&self, rule: &str, limits: &str) {
        let text = format!(
            "listeners: [{{ name: edges, bind: \"{}\", tls: {{ certificate: server.pem, private_key: server.key, client_ca: keys-ca.pem }} }}]
keys: {{ made: {{ folders: made }} }}
access:
  - {{ clients: edge.example, keys: made{rule} }}
  - {{ clients: unix, keys: made, make_keys: made }}
audit: {{ output: audit.log }}
lock_memory: false
limits: {{ {limits} }}
",
            self.address
        );
        std::fs::write(self.dir.path().join("key-server.yaml"), text).unwrap();
    }

    fn start(&mut self) {
        let mut command = Command::new(PORTUNUS);
        command.args(["key-server", "run", "key-server.yaml"]).current_dir(self.dir.path());
        self.running = Some(Running::start(&mut command, |event| member(event, "message") == Some("listening")));
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    /// The files of keys that were made.
    fn made(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.dir.path().join("made")).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "key"))
            .collect()
    }

    fn audit(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("audit.log")).unwrap_or_default()
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        if let (true, Some(running)) = (std::thread::panicking(), &self.running) {
            eprintln!("the key server said: {:#?}", running.diagnostics());
        }
    }
}

/// The configuration of a gate whose keys are at this key server.
fn remote(upstream: &Upstream, server: &KeyServer, wanted: &Wanted<'_>) -> String {
    let group = format!(
        "key_servers: {{ keys: {{ servers: [\"{}\"], ca: keys-ca.pem, client_certificate: edge.pem, client_key: edge.key }} }}",
        server.address
    );
    let text = yaml(upstream, &Wanted { more: &group, ..wanted.clone() });
    text.replace("main: { acme:", "main: { key_servers: keys, acme:")
}

/// A gate whose certificate was ordered, its authority and its key server, which may make keys.
fn ordered(upstream: &Upstream, planned: Planned) -> (Gate, Pebble, KeyServer) {
    let dir = folder();
    let mut server = KeyServer::plan(dir.path());
    server.configure(MAY, "");
    server.start();
    let wanted = Wanted { acme: ", renewal_info_interval: 1s", ..Wanted::from(&planned, &[HOST]) };
    let gate = Gate::start_in(dir, &remote(upstream, &server, &wanted));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    wait_for_kept(&gate, STEM);
    (gate, pebble, server)
}

/// Files below a folder that hold a private key.
fn private_keys(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(private_keys(&path));
        } else if std::fs::read_to_string(&path).unwrap().contains("PRIVATE KEY") {
            found.push(path);
        }
    }
    found
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_key_is_made_at_the_key_server_and_stays_there() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let (gate, pebble, server) = ordered(&upstream, planned);
    wait_until("the name to be served", || is_served(&gate, HOST));
    assert_eq!(private_keys(&gate.dir.path().join("store")), Vec::<PathBuf>::new(), "no key is here");
    let made = server.made();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(std::fs::metadata(&made[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let leaf = kept(gate.dir.path(), STEM).unwrap();
    let ski: String =
        key_identifier(leaf.public_spki_der()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(made[0].ends_with(format!("made-{ski}.key")), "{made:?}");
    wait_until("the audit line", || {
        server
            .audit()
            .lines()
            .any(|line| line.contains("\"make_key\"") && line.contains(&ski) && line.contains("edge.example"))
    });
    let operations = format!(
        "portunus_keyless_operations_total{{group=\"keys\",server=\"{}\",outcome=\"success\"}}",
        server.address
    );
    assert!(metric(&gate, &operations) >= Some(3.0), "a key, a request and a handshake: {}", gate.metrics());
    // Renewed with the same key, which is at no other place.
    let text = std::fs::read_to_string(gate.dir.path().join(format!("store/certificates/{STEM}.pem"))).unwrap();
    pebble.suggest(&text, LONG_AGO);
    wait_until("another certificate", || kept(gate.dir.path(), STEM).is_some_and(|new| new.serial() != leaf.serial()));
    assert_eq!(kept(gate.dir.path(), STEM).unwrap().public_spki_der(), leaf.public_spki_der());
    assert_eq!(server.made().len(), 1);
    wait_until("the name to be served", || is_served(&gate, HOST));
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_key_that_the_key_server_has_lost_is_replaced_by_a_new_one() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let (gate, pebble, server) = ordered(&upstream, planned);
    let leaf = kept(gate.dir.path(), STEM).unwrap();
    std::fs::remove_file(&server.made()[0]).unwrap();
    server.running().signal("HUP");
    server.running().wait_for("reloaded", 1);
    wait_until("nobody to be served", || !is_served(&gate, HOST));
    let text = std::fs::read_to_string(gate.dir.path().join(format!("store/certificates/{STEM}.pem"))).unwrap();
    pebble.suggest(&text, LONG_AGO);
    gate.wait_for("do not have the key of this certificate");
    wait_until("another certificate", || kept(gate.dir.path(), STEM).is_some_and(|new| new.serial() != leaf.serial()));
    assert_ne!(kept(gate.dir.path(), STEM).unwrap().public_spki_der(), leaf.public_spki_der());
    wait_until("the name to be served", || is_served(&gate, HOST));
    assert_eq!(server.made().len(), 1);
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn a_key_server_that_is_away_or_refuses_is_waited_for_and_nothing_is_ordered() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let dir = folder();
    let mut server = KeyServer::plan(dir.path());
    server.configure("", "");
    let gate = Gate::start_in(dir, &remote(&upstream, &server, &Wanted::from(&planned, &[HOST])));
    let (http, tls) = ports(&gate);
    let pebble = planned.start(http, tls);
    pebble.write_root(gate.dir.path());
    gate.wait_for("no key was made at `keys`: no key server is connected");
    server.start();
    gate.wait_for("give its access rule there `make_keys`");
    assert!(server.made().is_empty());
    assert!(!pebble.log().contains("POST /order-plz"), "nothing is ordered without a key: {}", pebble.log());
    wait_until("the audit line", || server.audit().contains("\"make_key\"") && server.audit().contains("bad_opcode"));
    // Once it may, it does.
    server.configure(MAY, "");
    server.running().signal("HUP");
    wait_for_kept(&gate, STEM);
    wait_until("the name to be served", || is_served(&gate, HOST));
}

#[test]
#[ignore = "needs Pebble: ./x verify ignored"]
fn orders_that_fail_leave_one_key_behind_and_no_more_are_made_than_the_key_server_keeps() {
    let Some(planned) = Planned::new() else { return };
    let upstream = Upstream::ok();
    let dir = folder();
    let mut server = KeyServer::plan(dir.path());
    server.configure(MAY, "max_made_keys: 1");
    server.start();
    let wanted = Wanted { acme: ", key_types: [ecdsa, rsa]", ..Wanted::from(&planned, &[HOST]) };
    let gate = Gate::start_in(dir, &remote(&upstream, &server, &wanted));
    // It looks for proofs where nothing listens, so that orders fail.
    let _pebble = planned.start(1, 1);
    let failures = || gate.diagnostics().iter().filter(|line| line.contains("\"key_type\":\"ecdsa\"")).count();
    wait_until("orders that fail", || failures() >= 2);
    wait_until("the limit", || gate.diagnostics().iter().any(|line| line.contains("cannot keep another key")));
    server.running().wait_for("and `limits.max_made_keys` is 1", 1);
    assert_eq!(server.made().len(), 1);
}
