//! Certificates, the edge's own certificate and the group change while handshakes go on: none may fail.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

use super::client::{End, connector, visit};
use super::key_server::KeyServer;
use super::{PATIENT, SITE, folder, metric, start, yaml};
use crate::harness::{Gate, wait_until};

#[test]
fn rotation_under_load_fails_no_handshake() {
    let dir = folder();
    // Both servers have every key that will be in use: first the keys are laid out, then the chains change.
    let ca = DevCa::new("Test CA").unwrap();
    let roots = std::fs::read_to_string(dir.path().join("ca.pem")).unwrap() + &ca.certificate_pem();
    std::fs::write(dir.path().join("ca.pem"), roots).unwrap();
    let rounds: Vec<_> = (0..6).map(|_| ca.issue(&[SITE], KeyType::Ecdsa, Purpose::Server).unwrap()).collect();
    for (round, pair) in rounds.iter().enumerate() {
        std::fs::write(dir.path().join(format!("keys/round{round}.key")), pair.key_pem.as_bytes()).unwrap();
    }
    let (first, second) = (KeyServer::start(dir.path(), "alpn"), KeyServer::start(dir.path(), "tls12"));
    let gate = start(dir, &[&first, &second], PATIENT);
    let address = gate.address("edge");
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let ended = visit(&connector(gate.dir.path()), address);
                    if ended.end != (End::Answered { resumed: false }) {
                        stop.store(true, Ordering::Relaxed);
                        panic!("{ended:?}");
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for (round, pair) in rounds.iter().enumerate() {
            let fresh = gate.dir.path().join("fresh");
            std::fs::write(&fresh, &pair.certificate_pem).unwrap();
            std::fs::rename(fresh, gate.dir.path().join("chains/Ecdsa.pem")).unwrap();
            if round % 2 == 1 {
                renew_edge(&gate);
            }
            // Every other time, the group loses or gains a server.
            let group = if round % 2 == 0 { vec![&first] } else { vec![&first, &second] };
            gate.rewrite(&yaml(&group, PATIENT));
            gate.signal("HUP");
            wait_until("the reload", || metric(&gate, "portunus_config_generation") >= Some(2.0 + round as f64));
            let before = done.load(Ordering::Relaxed);
            wait_until("handshakes", || done.load(Ordering::Relaxed) >= before + 20 || stop.load(Ordering::Relaxed));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(done.load(Ordering::Relaxed) >= 100);
}

/// The edge proves itself by another copy of its certificate: the same bytes with a comment before them, so that the group is made anew.
fn renew_edge(gate: &Gate) {
    let path = gate.dir.path().join("edge.pem");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("renewed\n{text}")).unwrap();
}

#[test]
fn a_chain_without_key_servers_is_rejected_with_the_fix() {
    let dir = folder();
    let text = "listeners: [{ name: edge, bind: '127.0.0.1:0', tls: { keystore: main } }]
keystores: { main: { folder: chains, default: a.example } }
";
    std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_portunus"))
        .args(["run", "portunus.yaml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success()
            && reported.contains("has no key in this folder")
            && reported.contains("`key_servers`"),
        "{reported}"
    );
}
