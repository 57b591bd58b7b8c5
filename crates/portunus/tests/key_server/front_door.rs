//! `portunus as gokeyless` and what `portunus import gokeyless` prints, as running programs: a file as such users have it, and the client of the tests.

use std::path::Path;

use tempfile::TempDir;

use super::server::{OwnKeyServer, PROGRAM, run, site, succeeded};
use crate::harness::{end_of, wait_until};

/// A folder with keys of all kinds, and `gokeyless.yaml` for them.
fn with_file() -> TempDir {
    let dir = site();
    let file = "loglevel: 1
auth_cert: key-server/server.pem
auth_key: key-server/server.key
cloudflare_ca_cert: ca.pem
private_key_stores:
  - dir: key-server/keys
  - dir: key-server/more
  - dir: key-server/legacy
  - file: plain.key
port: 0
metrics_port: 0
pid_file: gokeyless.pid
sign_timeout: 5s
sign_retry_count: 0
";
    std::fs::write(dir.path().join("gokeyless.yaml"), file).unwrap();
    dir
}

/// Every operation, the compatibility switch, and no more than those.
fn check(key_server: &OwnKeyServer) {
    key_server.exercise("operations");
    key_server.exercise("mixed");
    key_server.exercise("no_decryption");
    // As the load generator that the published figures come from asks for RSA keys.
    let how = [
        "--name",
        "127.0.0.1",
        "--operation",
        "ecdsa_sha256",
        "--seconds",
        "0.3",
        "--connections",
        "2",
        "--verify",
        "all",
        "--plain",
    ];
    // What a slow server had no time for at the end is no error, but for that there is time now and then.
    let is_all_good = |_| {
        let report = succeeded("bench", &key_server.bench(1, &how).output().unwrap());
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let count = |name: &str| report[name].as_u64().unwrap();
        assert!(count("good") > 0 && count("good") + count("given_up") == count("sent"), "{report}");
        count("given_up") == 0
    };
    assert!((0..5).any(is_all_good), "responses are lost");
    let metrics = key_server.page("/metrics");
    for name in [
        "keyless_requests{opcode=\"ecdsa_sha256\"}",
        "keyless_request_exec_duration_per_opcode_count",
        "keyless_request_total_duration_per_opcode_count",
        "keyless_key_load_duration",
        "keyless_failed_connection",
        "certificate_expiration_timestamp_seconds",
    ] {
        assert!(metrics.contains(name), "{name} is missing: {metrics}");
    }
}

fn start(root: &Path, arguments: &[&str]) -> OwnKeyServer {
    OwnKeyServer::start_as(root, root, arguments, false)
}

#[test]
fn it_serves_in_place_of_gokeyless() {
    let dir = with_file();
    let mut key_server = start(dir.path(), &["as", "gokeyless", "-c", "gokeyless.yaml"]);
    let pid = dir.path().join("gokeyless.pid");
    let reported = || std::fs::read_to_string(&pid).unwrap_or_default().trim().to_owned();
    wait_until("the pid file", || reported() == key_server.child.id().to_string());
    check(&key_server);
    key_server.signal("TERM");
    assert!(end_of(&mut key_server.child).success(), "{:#?}", key_server.diagnostics());
    assert!(!pid.exists(), "the pid file is removed");
}

#[test]
fn what_import_prints_serves_the_same() {
    let dir = with_file();
    let file = dir.path().join("gokeyless.yaml");
    let native = run(PROGRAM, &["import", "gokeyless", "-c", file.to_str().unwrap()]);
    std::fs::write(dir.path().join("native.yaml"), &native).unwrap();
    check(&start(dir.path(), &["key-server", "run", "native.yaml"]));
}
