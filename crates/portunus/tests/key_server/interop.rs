//! What peers see: an independent client against our server, and our client against an independent server.

use std::process::Command;

use super::server::{CONFIG, OwnKeyServer, PROGRAM, run, site, succeeded};
use crate::keyless::key_server::KeyServer;

fn check(group: &str) -> String {
    let dir = site();
    OwnKeyServer::start(dir.path(), CONFIG).exercise(group)
}

#[test]
fn every_operation_gives_a_right_response() {
    check("operations");
}

#[test]
fn keys_are_found_by_identifier_else_by_digest() {
    check("selection");
}

#[test]
fn errors_have_their_codes_and_the_audit_log_has_no_payload() {
    let dir = site();
    let key_server = OwnKeyServer::start(dir.path(), CONFIG);
    key_server.exercise("errors");
    let lines = key_server.audit(27);
    for line in &lines {
        assert_eq!(line["peer"], "edge.portunus.test", "{line}");
        assert_eq!(line["outcome"], "rejected");
        let known = ["time", "peer", "address", "ski", "operation", "outcome", "error", "queued_us", "service_us"];
        assert!(line.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{line}");
    }
}

#[test]
fn responses_come_in_any_order_and_every_request_has_one() {
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
    let dir = site();
    OwnKeyServer::start(dir.path(), &format!("{CONFIG}limits: {{ target_wait: 100ms }}\n")).exercise("busy");
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
fn a_deaf_peer_is_let_go() {
    let dir = site();
    let key_server = OwnKeyServer::start(dir.path(), &format!("{CONFIG}limits: {{ write_timeout: 1s }}\n"));
    key_server.exercise("let_go");
    key_server.wait_for("write_timeout", 1);
}

#[test]
fn unknown_and_forbidden_keys_look_the_same() {
    println!("{}", check("probing"));
}

#[test]
fn the_compatibility_switch_maps_ecdsa_opcodes_on_rsa_keys() {
    let dir = site();
    let key_server = OwnKeyServer::start(dir.path(), &format!("{CONFIG}ecdsa_opcodes_on_rsa_keys: true\n"));
    key_server.exercise("mixed");
}

#[test]
fn our_client_understands_a_foreign_server() {
    let dir = site();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // As foreign ones are: TLS 1.2, no ALPN.
    let server = KeyServer::start(&dir.path().join("key-server"), "tls12");
    let address = server.address.replace("127.0.0.1", "localhost");
    for (site, operation) in
        [(1, "rsa_pss_sha256"), (1, "rsa_pkcs1_md5sha1"), (1, "rsa_pkcs1_sha512"), (2, "ecdsa_sha256")]
    {
        let chain = path(&format!("edge/chains/site-{site}.example.pem"));
        let (ca, certificate, key) = (path("ca.pem"), path("edge/client.pem"), path("edge/client.key"));
        let tls = ["--ca", &ca, "--certificate", &certificate, "--key", &key, "--certificate-file", &chain];
        let how = ["--operation", operation, "--verify", "all", "--seconds", "0.3", "--connections", "2"];
        let report = run(PROGRAM, &[&["key-server", "bench", "--server", &address][..], &tls, &how].concat());
        assert!(report.contains("wrong 0"), "{report}");
    }
}

#[test]
fn a_rate_is_that_of_one_rule() {
    let dir = site();
    let config = CONFIG.replace("decrypt, locked] }", "decrypt, locked], rate_per_second: 5 }");
    assert_ne!(config, CONFIG);
    OwnKeyServer::start(dir.path(), &config).exercise("rate");
}

#[test]
fn a_slow_frame_ends_its_own_connection_only() {
    let dir = site();
    let key_server = OwnKeyServer::start(dir.path(), &format!("{CONFIG}limits: {{ frame_timeout: 1s }}\n"));
    key_server.exercise("slow_frames");
    key_server.wait_for("frame_timeout", 2);
    let metrics = key_server.page("/metrics");
    assert!(metrics.contains("portunus_key_server_connections_failed_total{reason=\"frame_timeout\"} 2"), "{metrics}");
}

#[test]
fn unix_sockets_serve_without_tls() {
    let dir = site();
    let _key_server = OwnKeyServer::start(dir.path(), CONFIG);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let server = format!("unix:{}", path("key-server/keys.sock"));
    let chain = path("edge/chains/site-2.example.pem");
    let how = ["--certificate-file", &chain, "--seconds", "0.3", "--verify", "all", "--in-flight", "20"];
    let output = Command::new(PROGRAM).args(["key-server", "bench", "--server", &server]).args(how).output().unwrap();
    succeeded("bench", &output);
}
