//! The edge with our own key server, laid out by `portunus keyholder init`: what a user has after two commands.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::client::openssl_for;
use crate::harness::{Gate, wait_until};
use crate::metric;

/// A running `portunus keyholder run`.
struct Keyholder(Child);

impl Keyholder {
    /// Starts the one laid out under a folder; gives where it listens.
    fn start(folder: &Path) -> (Keyholder, String) {
        let file = folder.join("keyholder/keyholder.yaml");
        let text = std::fs::read_to_string(&file).unwrap().replace("127.0.0.1:2407", "127.0.0.1:0");
        // What a test machine allows of locked memory is another matter.
        std::fs::write(&file, format!("{text}lock_memory: false\n")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_portunus"))
            .args(["keyholder", "run"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the key server starts").unwrap();
            let told: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(address) = told["address"].as_str() {
                break address.to_owned();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        (Keyholder(child), address)
    }
}

impl Drop for Keyholder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_init_lays_out_works_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_portunus"))
        .args(["keyholder", "init", "--sites", "2"])
        .arg(dir.path().join("made"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = dir.path().join("made");
    let (keyholder, address) = Keyholder::start(&made);
    let edge = std::fs::read_to_string(made.join("edge/portunus.yaml")).unwrap();
    let edge = edge.replace("127.0.0.1:2407", &address).replace("127.0.0.1:8443", "127.0.0.1:0");
    for entry in std::fs::read_dir(made.join("edge")).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let gate = Gate::start_in(dir, &format!("{edge}admin: {{ bind: \"127.0.0.2:0\" }}\n"));
    let ca = made.join("ca.pem");
    for (site, kind) in [("www.1.com", "RSA"), ("www.2.com", "ECDSA")] {
        let told = openssl_for(&ca, gate.address("edge"), site, "-tls1_3");
        assert!(told.contains("Verify return code: 0 (ok)") && told.contains(kind), "{site}: {told}");
    }
    let done =
        format!("portunus_keyless_operations_total{{group=\"keyholder\",server=\"{address}\",outcome=\"success\"}}");
    assert_eq!(metric(&gate, &done), Some(2.0));
    gate.wait_for("\"extension\":true");
    drop(keyholder);
    wait_until("the gauge", || metric(&gate, "portunus_keyless_unavailable{group=\"keyholder\"}") == Some(1.0));
    let told = openssl_for(&ca, gate.address("edge"), "www.2.com", "-tls1_3");
    assert!(told.contains("SSL alert number 80"), "{told}");
}
