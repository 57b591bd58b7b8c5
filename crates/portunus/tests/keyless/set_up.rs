//! The edge with our own key server, laid out by `portunus key-server init`: what a user has after two commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::openssl_for;
use super::metric;
use crate::harness::{Gate, Running, member, wait_until};

/// A running `portunus key-server run`.
pub struct OwnKeyServer {
    _running: Running,
}

impl OwnKeyServer {
    /// Starts one with this configuration, in a file of this name; gives where it listens.
    pub fn start(file: &Path, text: &str) -> (OwnKeyServer, String) {
        OwnKeyServer::start_by(&[], file, text)
    }

    /// Starts it behind a command (such as one that enters a network namespace).
    pub fn start_by(before: &[&str], file: &Path, text: &str) -> (OwnKeyServer, String) {
        // What a test machine allows of locked memory is another matter.
        std::fs::write(file, format!("{text}lock_memory: false\n")).unwrap();
        let words: Vec<&str> = before.iter().copied().chain([env!("CARGO_BIN_EXE_portunus")]).collect();
        let mut address = None;
        let mut command = Command::new(words[0]);
        let running = Running::start(command.args(&words[1..]).args(["key-server", "run"]).arg(file), |event| {
            address =
                member(event, "address").filter(|_| member(event, "message") == Some("listening")).map(str::to_owned);
            address.is_some()
        });
        (OwnKeyServer { _running: running }, address.unwrap())
    }
}

/// What `portunus key-server init` makes for two sites, in a folder of this one.
fn init(dir: &Path, more: &[&str]) -> PathBuf {
    let made = dir.join("made");
    let output = Command::new(env!("CARGO_BIN_EXE_portunus"))
        .args(["key-server", "init", "--sites", "2"])
        .args(more)
        .arg(&made)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    made
}

/// Whether both sites are served, each with its kind of key.
fn both_sites_respond(ca: &Path, address: SocketAddr) {
    for (site, kind) in [("site-1.example", "RSA"), ("site-2.example", "ECDSA")] {
        // A key server that has little of a processor may be too busy for one of them.
        wait_until(&format!("{site} with its {kind} key"), || {
            let reported = openssl_for(ca, address, site, "-tls1_3");
            reported.contains("Verify return code: 0 (ok)") && reported.contains(kind)
        });
    }
}

/// The text of an example of the repository.
fn example(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)).unwrap()
}

/// A text with each of these replaced, all of which must occur.
fn adapted(text: String, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from} is missing: {text}");
        text.replace(from, to)
    })
}

#[test]
fn the_examples_serve_with_the_files_that_init_makes() {
    let dir = tempfile::tempdir().unwrap();
    let made = init(dir.path(), &["--server-name", "keys.internal"]);
    // The example has sets for old sites and for keys that are made, too.
    ["old-keys", "ordered"].iter().for_each(|set| std::fs::create_dir(made.join("key-server").join(set)).unwrap());
    std::fs::copy(made.join("edge/client.key"), made.join("key-server/old-keys/old.key")).unwrap();
    let free = [("\":2407\"", "\"127.0.0.1:0\""), ("127.0.0.1:9902", "127.0.0.2:0")];
    let text = adapted(example("key-server.yaml"), &free);
    let servers = ["one.yaml", "two.yaml"].map(|name| OwnKeyServer::start(&made.join(name), &text));
    for (from, to) in
        [("chains", "chains"), ("ca.pem", "keyless-ca.pem"), ("client.pem", "edge.pem"), ("client.key", "edge.key")]
    {
        std::fs::rename(made.join("edge").join(from), dir.path().join(to)).unwrap();
    }
    let edge = [
        ("\":8443\"", "\"127.0.0.1:0\""),
        ("127.0.0.1:2407", &servers[0].1),
        ("127.0.0.1:2408", &servers[1].1),
        ("default: www.example.com", "default: site-1.example"),
    ];
    let edge = adapted(example("keyless-edge.yaml"), &edge);
    let gate = Gate::start_in(dir, &format!("{edge}admin: {{ bind: \"127.0.0.2:0\" }}\n"));
    both_sites_respond(&made.join("ca.pem"), gate.address("https"));
    for (_, address) in &servers {
        let connections = format!("portunus_keyless_connections{{group=\"vault\",server=\"{address}\"}}");
        wait_until("both to be connected", || metric(&gate, &connections) >= Some(1.0));
    }
}

#[test]
fn a_certificate_that_proves_no_client_is_rejected_before_a_key_server_does() {
    let dir = tempfile::tempdir().unwrap();
    let made = init(dir.path(), &[]);
    for kind in ["pem", "key"] {
        std::fs::copy(made.join(format!("key-server/server.{kind}")), made.join(format!("edge/client.{kind}")))
            .unwrap();
    }
    let file = made.join("edge/portunus.yaml");
    let output = Command::new(env!("CARGO_BIN_EXE_portunus")).arg("check").arg(file).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && reported.contains("client.pem: is not for clients"), "{reported}");
}

#[test]
fn what_init_lays_out_works_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let made = init(dir.path(), &[]);
    let file = made.join("key-server/key-server.yaml");
    let text = adapted(std::fs::read_to_string(&file).unwrap(), &[("127.0.0.1:2407", "127.0.0.1:0")]);
    let (key_server, address) = OwnKeyServer::start(&file, &text);
    let edge = std::fs::read_to_string(made.join("edge/portunus.yaml")).unwrap();
    // What was given up and asked again would be counted twice.
    let patient = "client_key: client.key\n    connect_timeout: 1m\n    timeout: 1m\n    total_timeout: 1m\n";
    let free =
        [("127.0.0.1:2407", &*address), ("127.0.0.1:8443", "127.0.0.1:0"), ("client_key: client.key\n", patient)];
    let edge = adapted(edge, &free);
    for entry in std::fs::read_dir(made.join("edge")).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let gate = Gate::start_in(dir, &format!("{edge}admin: {{ bind: \"127.0.0.2:0\" }}\n"));
    let ca = made.join("ca.pem");
    both_sites_respond(&ca, gate.address("edge"));
    let place = format!("::{}", gate.address("edge"));
    let curl = ["-sSf", "--max-time", "60", "--connect-to", &place, "https://site-1.example/", "--cacert"];
    let curl = Command::new("curl").args(curl).arg(&ca).output().expect("curl is installed (Debian package curl)");
    assert!(curl.status.success(), "{}", String::from_utf8_lossy(&curl.stderr));
    let done =
        format!("portunus_keyless_operations_total{{group=\"key-server\",server=\"{address}\",outcome=\"success\"}}");
    assert_eq!(metric(&gate, &done), Some(3.0));
    gate.wait_for("\"extension\":true");
    drop(key_server);
    wait_until("the gauge", || metric(&gate, "portunus_keyless_unavailable{group=\"key-server\"}") == Some(1.0));
    let reported = openssl_for(&ca, gate.address("edge"), "site-2.example", "-tls1_3");
    assert!(reported.contains("SSL alert number 80"), "{reported}");
}
