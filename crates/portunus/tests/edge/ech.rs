//! Encrypted Client Hello as clients meet it: those of Go (1.23 or later), whose library is another one than ours.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::{keystore, metric, tls_listener, yaml};
use crate::harness::{Gate, PORTUNUS, Upstream, certificates, wait_until};

const COVER: &str = "cover.example";
const SECRET: &str = "secret.example";

/// The client, built into a folder; none where there is no Go that has one.
fn client(folder: &Path) -> Option<PathBuf> {
    let version = Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output();
    let version = version.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let minor = version.and_then(|version| version.strip_prefix("go1.")?.split('.').next()?.parse::<u32>().ok());
    if minor.is_none_or(|minor| minor < 23) {
        eprintln!("skipped: no Go of version 1.23 or later (Debian package golang-go)");
        return None;
    }
    let program = folder.join("go-ech");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients/go-ech/main.go");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(source).env("GOTOOLCHAIN", "local").env("GO111MODULE", "off");
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

struct Site {
    gate: Gate,
    client: PathBuf,
    upstream: Upstream,
}

/// What `portunus ech` prints for a file: the value of `ech`.
fn ech(dir: &TempDir, words: &str) -> String {
    let output = Command::new(PORTUNUS).arg("ech").args(words.split(' ')).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let start = format!("{SECRET}. 300 IN HTTPS 1 . alpn=\"h2,http/1.1\" ech=\"");
    said.strip_prefix(&start).and_then(|rest| rest.strip_suffix("\"\n")).unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn rotate(dir: &TempDir, file: &str) -> String {
    ech(dir, &format!("rotate {file} --public-name {COVER} --name {SECRET}"))
}

fn config(upstream: &Upstream, more: &str) -> String {
    // Only clients that asked for this name in their handshake may ask for it in a request.
    let names = format!(", names: [{{ host: {SECRET}, policy: modern }}]");
    let listener = tls_listener("tls", "127.0.0.3", &names);
    yaml(upstream, &listener, &format!("{}\n{more}", keystore(COVER)))
}

const KEYS: &str = "ech_keys: ech.pem";

impl Site {
    /// A gate that has one key, and what clients know of it.
    fn start() -> Option<(Site, String)> {
        let dir = certificates(&[(COVER, false), (SECRET, false)]);
        let client = client(dir.path())?;
        let first = rotate(&dir, "ech.pem");
        let upstream = Upstream::ok();
        let gate = Gate::start_in(dir, &config(&upstream, KEYS));
        Some((Site { gate, client, upstream }, first))
    }

    /// What came of two connections one after the other of a client that asks for a name with this list, and then for a host.
    fn tried(&self, address: SocketAddr, name: &str, list: &str, host: &str) -> [Value; 2] {
        let mut command = Command::new(&self.client);
        command.arg(address.to_string()).arg(self.gate.dir.path().join("ca.pem")).args([name, list, host]);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.try_into().unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
    }

    fn get(&self, list: &str) -> [Value; 2] {
        self.tried(self.gate.address("tls"), SECRET, list, SECRET)
    }
}

fn is_served(outcome: &Value, accepted: bool) {
    assert_eq!((&outcome["accepted"], &outcome["error"]), (&accepted.into(), &"".into()), "{outcome}");
    assert_eq!(outcome["certificate"], serde_json::json!([SECRET]), "{outcome}");
    assert!(outcome["response"].as_str().unwrap().starts_with("HTTP/1.1 200 "), "{outcome}");
}

/// Somebody on the way: forwards to an address, and keeps what the client sends.
fn on_the_way(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, kept) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&kept);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(to).unwrap());
            let (mut back, mut answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || drop(std::io::copy(&mut answers, &mut back)));
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                let mut buffer = [0; 16384];
                while let Ok(count @ 1..) = client.read(&mut buffer) {
                    seen.lock().unwrap().extend_from_slice(&buffer[..count]);
                    let _ = server.write_all(&buffer[..count]);
                }
            });
        }
    });
    (address, kept)
}

#[test]
#[ignore = "needs Go 1.23: ./x verify ignored"]
fn the_name_is_hidden_on_the_way_and_decides_at_the_end() {
    let Some((site, list)) = Site::start() else { return };
    let (way, seen) = on_the_way(site.gate.address("tls"));
    let [first, second] = site.tried(way, SECRET, &list, SECRET);
    is_served(&first, true);
    is_served(&second, true);
    assert_eq!((&first["resumed"], &second["resumed"]), (&false.into(), &true.into()), "a ticket is of the inner name");
    let holds = |name: &str| memchr::memmem::find(&seen.lock().unwrap(), name.as_bytes()).is_some();
    assert!(holds(COVER) && !holds(SECRET));
    let log = site.gate.log(2);
    assert!(log.iter().all(|line| line["tls"]["ech"] == true && line["tls"]["server_name"] == SECRET), "{log:?}");
    let counted = || metric(&site.gate, "portunus_tls_ech_handshakes_total{listener=\"tls\"}");
    wait_until("the metric", || counted() == Some(2.0));

    // In the clear all is as it was.
    seen.lock().unwrap().clear();
    let [plain, _] = site.tried(way, SECRET, "", SECRET);
    is_served(&plain, false);
    assert!(holds(SECRET));
    let line = site.gate.log(4).pop().unwrap();
    assert!(line["tls"].get("ech").is_none(), "{line}");
    // Whoever asked for the cover alone may not ask for the other.
    let [covered, _] = site.tried(site.gate.address("tls"), COVER, "", SECRET);
    assert!(covered["response"].as_str().unwrap().starts_with("HTTP/1.1 421 "), "{covered}");
    assert_eq!(site.upstream.seen().len(), 4);
    assert_eq!(counted(), Some(2.0));
}

#[test]
#[ignore = "needs Go 1.23: ./x verify ignored"]
fn keys_change_while_it_serves_and_outdated_clients_learn_the_new_one() {
    let Some((site, first)) = Site::start() else { return };
    let dir = &site.gate.dir;
    // Nobody asks for it: the file is watched.
    let second = rotate(dir, "ech.pem");
    site.gate.signal("HUP");
    site.gate.wait_for("\"generation\":2");
    for list in [&first, &second] {
        is_served(&site.get(list)[0], true);
    }
    // A key that this server never had. What the client gets for it is what it would have learned from DNS.
    let strange = rotate(dir, "strange.pem");
    let [outdated, _] = site.get(&strange);
    assert_eq!(
        (&outdated["error"], &outdated["retry"]),
        (&"rejected".into(), &Value::from(second.as_str())),
        "{outdated}"
    );
    assert_eq!(second, ech(dir, &format!("show ech.pem --name {SECRET}")));
    is_served(&site.get(outdated["retry"].as_str().unwrap())[0], true);
    assert!(site.gate.log(1).iter().all(|line| line["host"] != COVER), "no request came of it");
    // Of three keys the first one goes with the third that follows.
    rotate(dir, "ech.pem");
    rotate(dir, "ech.pem");
    assert_eq!(site.gate.operate("POST /reload", "Content-Length: 0\r\n").split(' ').nth(1), Some("200"));
    assert_eq!(site.get(&first)[0]["error"], "rejected");
    is_served(&site.get(&second)[0], true);

    // What is broken changes nothing, and says where.
    let file = dir.path().join("ech.pem");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("BEGIN ECHCONFIG", "BEGIN CERTIFICATE", 1)).unwrap();
    let response = site.gate.operate("POST /reload", "Content-Length: 0\r\n");
    assert!(response.starts_with("HTTP/1.1 422 ") && response.contains("ech.pem: line"), "{response}");
    is_served(&site.get(&second)[0], true);
    // Without the setting they stay until the next start, which is said.
    site.gate.rewrite(&config(&site.upstream, ""));
    let response = site.gate.operate("POST /reload", "Content-Length: 0\r\n");
    assert!(response.starts_with("HTTP/1.1 200 ") && response.contains("ech_keys: what was loaded"), "{response}");
    is_served(&site.get(&second)[0], true);
}

#[test]
fn a_cover_without_a_certificate_is_warned_of() {
    let dir = certificates(&[(SECRET, false)]);
    rotate(&dir, "ech.pem");
    let upstream = Upstream::ok();
    let text = config(&upstream, KEYS).replace(&format!("default: {COVER}"), &format!("default: {SECRET}"));
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    let check = || Command::new(PORTUNUS).args(["check", "portunus.yaml"]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8(check().stderr).unwrap();
    assert!(said.contains("covers `cover.example`, the public name of `ech_keys`"), "{said}");
    std::fs::write(dir.path().join("ech.pem"), "nothing").unwrap();
    let output = check();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("no keys for ECH in it"), "{said}");
}
