//! What peers see: an independent client against our server, and our client against an independent server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::server::{CONFIG, Keyholder, PROGRAM, run, site, succeeded};

fn check(group: &str) -> String {
    let dir = site();
    Keyholder::start(dir.path(), CONFIG).exercise(group)
}

#[test]
fn every_operation_gives_a_right_answer() {
    check("operations");
}

#[test]
fn keys_are_found_by_identifier_else_by_digest() {
    check("selection");
}

#[test]
fn errors_have_their_codes_and_the_audit_log_has_no_payload() {
    let dir = site();
    let keyholder = Keyholder::start(dir.path(), CONFIG);
    keyholder.exercise("errors");
    let lines = keyholder.audit(27);
    for line in &lines {
        assert_eq!(line["peer"], "edge.portunus.test", "{line}");
        assert_eq!(line["outcome"], "refused");
        let known = ["time", "peer", "address", "ski", "operation", "outcome", "error", "queued_us", "service_us"];
        assert!(line.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{line}");
    }
}

#[test]
fn answers_come_in_any_order_and_every_request_has_one() {
    check("pipelining");
}

#[test]
fn malformed_input_ends_its_own_connection_only() {
    check("framing");
}

#[test]
fn foreign_clients_come_without_alpn_and_strangers_not_at_all() {
    check("tls");
}

#[test]
fn deadlines_cancellation_and_busy_are_for_those_who_agreed() {
    check("extension");
}

#[test]
fn decryption_is_no_oracle() {
    check("decryption");
}

#[test]
fn a_deaf_peer_stalls_only_itself() {
    check("deaf");
}

#[test]
fn unknown_and_forbidden_keys_look_the_same() {
    println!("{}", check("probing"));
}

#[test]
fn the_compatibility_switch_maps_ecdsa_opcodes_on_rsa_keys() {
    let dir = site();
    let keyholder = Keyholder::start(dir.path(), &format!("{CONFIG}ecdsa_opcodes_on_rsa_keys: true\n"));
    keyholder.exercise("mixed");
}

#[test]
fn our_client_understands_a_foreign_server() {
    let dir = site();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keyless/server.py");
    let files = [path("ca.pem"), path("keyholder/server.pem"), path("keyholder/server.key")];
    let keys = [path("keyholder/keys/www.1.com.key"), path("keyholder/keys/www.2.com.key")];
    let mut server = Running(
        Command::new("python3")
            .args(["-B", script])
            .args(files.iter().chain(&keys))
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed (Debian package python3)"),
    );
    let mut port = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let address = format!("localhost:{}", port.trim());
    for (site, operation) in
        [(1, "rsa_pss_sha256"), (1, "rsa_pkcs1_md5sha1"), (1, "rsa_pkcs1_sha512"), (2, "ecdsa_sha256")]
    {
        let chain = path(&format!("edge/chains/www.{site}.com.pem"));
        let (ca, certificate, key) = (path("ca.pem"), path("edge/client.pem"), path("edge/client.key"));
        let tls = ["--ca", &ca, "--certificate", &certificate, "--key", &key, "--for", &chain];
        let how = ["--operation", operation, "--verify", "all", "--seconds", "0.3", "--connections", "2"];
        let report = run(PROGRAM, &[&["keyholder", "bench", "--server", &address][..], &tls, &how].concat());
        assert!(report.contains("wrong 0"), "{report}");
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn unix_sockets_serve_without_tls() {
    let dir = site();
    let _keyholder = Keyholder::start(dir.path(), CONFIG);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let server = format!("unix:{}", path("keyholder/keys.sock"));
    let chain = path("edge/chains/www.2.com.pem");
    let how = ["--for", &chain, "--seconds", "0.3", "--verify", "all", "--in-flight", "20"];
    let output = Command::new(PROGRAM).args(["keyholder", "bench", "--server", &server]).args(how).output().unwrap();
    succeeded("bench", &output);
}
