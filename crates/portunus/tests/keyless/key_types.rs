//! Keys of the less common types that are elsewhere: real handshakes through the edge, with the key server of the tests and with our own.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::client::openssl_for;
use super::key_server::KeyServer;
use super::set_up::OwnKeyServer;
use super::{PATIENT, folder, metric, start, yaml_at};
use crate::harness::{Gate, wait_until};

/// The site, how its key is made, and the opcodes by which it signs for each of [`CLIENTS`]: in TLS 1.2 a curve is not bound to a hash.
const TYPES: [(&str, &str, [u64; 2]); 3] = [
    ("p384.example", "-algorithm EC -pkeyopt ec_paramgen_curve:P-384", [0x16, 0x15]),
    ("p521.example", "-algorithm EC -pkeyopt ec_paramgen_curve:P-521", [0x17, 0x15]),
    ("ed25519.example", "-algorithm ED25519", [0x18, 0x18]),
];

const CLIENTS: [&str; 2] = ["-tls1_3", "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256"];

/// [`folder`] with a pair of each type: a certificate that vouches for itself among the chains, its key among the keys.
fn with_types() -> TempDir {
    let dir = folder();
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for (site, how, _) in TYPES {
        let (key, chain) = (format!("keys/{site}.key"), format!("chains/{site}.pem"));
        let how: Vec<&str> = how.split(' ').collect();
        openssl(&[&["genpkey", "-out", &key][..], &how].concat());
        let name = format!("subjectAltName=DNS:{site}");
        let certificate = ["-subj", "/CN=site", "-addext", &name, "-days", "30", "-out", &chain];
        openssl(&[&["req", "-x509", "-key", &key][..], &certificate].concat());
    }
    dir
}

/// A handshake of each version with each type; gives the opcodes that they take.
fn every_handshake(gate: &Gate) -> Vec<u64> {
    let mut opcodes = Vec::new();
    for (site, _, by_client) in TYPES {
        let chain = gate.dir.path().join(format!("chains/{site}.pem"));
        for (client, opcode) in CLIENTS.into_iter().zip(by_client) {
            let reported = openssl_for(&chain, gate.address("edge"), site, client);
            assert!(
                reported.contains("Verify return code: 0 (ok)") && reported.contains("Cipher is "),
                "{site}, {client}: {reported}"
            );
            assert!(!reported.contains("Cipher is (NONE)"), "{site}, {client}: {reported}");
            opcodes.push(opcode);
        }
    }
    opcodes
}

#[test]
fn keys_of_every_type_sign_at_a_foreign_key_server() {
    for behave in ["tls12", "alpn"] {
        let dir = with_types();
        let server = KeyServer::start(dir.path(), behave);
        // What is asked again would be counted twice.
        let gate = start(dir, &[&server], PATIENT);
        let opcodes = every_handshake(&gate);
        assert_eq!(server.opcodes(), opcodes);
    }
}

#[test]
fn keys_of_every_type_sign_at_our_key_server() {
    let dir = with_types();
    let (_key_server, address) = OwnKeyServer::start(&dir.path().join("key-server.yaml"), KEY_SERVER);
    let gate = Gate::start_in(dir, &yaml_at(&format!("{address:?}"), PATIENT));
    let labels = format!("{{group=\"keys\",server=\"{address}\"");
    let connections = format!("portunus_keyless_connections{labels}}}");
    wait_until("the key server to be connected", || metric(&gate, &connections) >= Some(1.0));
    let opcodes = every_handshake(&gate);
    let done = format!("portunus_keyless_operations_total{labels},outcome=\"success\"}}");
    assert_eq!(metric(&gate, &done), Some(opcodes.len() as f64));
    assert!(!has_keys(&gate.dir.path().join("chains")), "the edge has chains only");
}

const KEY_SERVER: &str = "
listeners:
  - { name: edges, bind: \"127.0.0.1:0\", tls: { certificate: server.pem, private_key: server.key, client_ca: ca.pem } }
keys: { site: { folders: keys } }
access: [{ clients: edge.example, keys: site }]
";

fn has_keys(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    files.into_iter().any(|text| text.contains("PRIVATE KEY"))
}
