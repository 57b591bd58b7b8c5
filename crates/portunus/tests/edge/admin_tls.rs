//! The admin listener over TLS: who gets through, what he may do, and the commands that ask it from elsewhere.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

use super::yaml;
use crate::harness::{Gate, PORTUNUS, Upstream, connect, read_to_end, wait_until};

/// The address of the admin listener, which its certificate names.
const ADDRESS: &str = "127.0.0.2";

/// Authorities and certificates in a folder: the server's, an operator's, and one of a stranger's authority.
fn material(dir: &Path) -> DevCa {
    let (ours, theirs) = (DevCa::new("Our CA").unwrap(), DevCa::new("Another CA").unwrap());
    std::fs::write(dir.join("ca.pem"), ours.certificate_pem()).unwrap();
    let keep = |stem: &str, ca: &DevCa, names: &[&str], purpose| {
        let pair = ca.issue(names, KeyType::Ecdsa, purpose).unwrap();
        std::fs::write(dir.join(format!("{stem}.pem")), &pair.certificate_pem).unwrap();
        std::fs::write(dir.join(format!("{stem}.key")), pair.key_pem.as_bytes()).unwrap();
    };
    keep("server", &ours, &[ADDRESS], Purpose::Server);
    keep("operator", &ours, &["operator.example"], Purpose::Client);
    keep("guest", &ours, &["guest.example"], Purpose::Client);
    keep("stranger", &theirs, &["operator.example"], Purpose::Client);
    ours
}

/// A gate whose admin listener has these settings beside its address.
fn gate(upstream: &Upstream, settings: &str) -> Gate {
    let dir = tempfile::tempdir().unwrap();
    material(dir.path());
    std::fs::write(dir.path().join("token"), "0123456789abcdef0123").unwrap();
    Gate::start_in(dir, &with(upstream, settings))
}

fn with(upstream: &Upstream, settings: &str) -> String {
    let tls = "tls: { certificate: server.pem, private_key: server.key";
    let admin = format!("admin: {{ bind: \"{ADDRESS}:0\", {tls}, {settings} }}");
    yaml(upstream, "", "").replace("admin: { bind: \"127.0.0.2:0\" }", &admin)
}

/// Runs a command of ours against the gate's admin listener, with these options.
fn run(gate: &Gate, words: &str, options: &str) -> Output {
    let port = gate.address("admin").port();
    let mut command = Command::new(PORTUNUS);
    command.args(words.split(' ')).args(["--admin", &format!("https://{ADDRESS}:{port}")]);
    command.args(options.split_whitespace()).current_dir(gate.dir.path()).env_remove("PORTUNUS_CONTROL");
    command.output().unwrap()
}

fn succeeds(gate: &Gate, words: &str, options: &str) -> String {
    let output = run(gate, words, options);
    assert!(output.status.success(), "{words} {options}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn fails(gate: &Gate, words: &str, options: &str) -> String {
    let output = run(gate, words, options);
    assert_eq!(output.status.code(), Some(1), "{words} {options}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

fn certificate(name: &str) -> String {
    format!("--ca ca.pem --client-certificate {name}.pem --client-key {name}.key")
}

#[test]
fn only_a_certificate_gets_through_and_it_may_do_everything() {
    let upstream = Upstream::ok();
    let rule = "client_certificate: { mode: required, ca: ca.pem, allow_san: [\"DNS:operator.example\"] } }";
    let gate = gate(&upstream, rule);
    let operator = certificate("operator");
    succeeds(&gate, "status", &operator);
    succeeds(&gate, "log-level debug --for 5m", &operator);
    succeeds(&gate, "reload", &operator);
    assert!(fails(&gate, "upgrade", &operator).contains("Unix socket"), "the file of a program is not for the network");
    for options in ["--ca ca.pem", &certificate("stranger"), &certificate("guest")] {
        fails(&gate, "status", options);
    }
    // Nor does anybody get an answer in the clear.
    let mut plain = connect(gate.address("admin"));
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(!String::from_utf8_lossy(&read_to_end(&mut plain)).contains("200"));
    gate.wait_for("admin: the handshake failed");
    assert!(fails(&gate, "status", "").contains("--ca"), "the system's authorities have not signed it");
    succeeds(&gate, "status", &operator);
}

#[test]
fn a_token_is_asked_for_under_tls_too() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream, "}, token: { file: token }");
    assert!(fails(&gate, "status", "--ca ca.pem").contains("--token-file"));
    std::fs::write(gate.dir.path().join("wrong"), "another-0123456789abcdef").unwrap();
    assert!(fails(&gate, "status", "--ca ca.pem --token-file wrong").contains("401"));
    let right = "--ca ca.pem --token-file token";
    succeeds(&gate, "status", right);
    succeeds(&gate, "log-level debug", right);
    assert!(succeeds(&gate, "top --json --count 2", right).lines().count() == 2);
    let running = gate.dir.path().join("portunus.yaml").display().to_string();
    // Nothing differs.
    succeeds(&gate, &format!("diff --running {running}"), right);
}

/// One that is renewed is served after the next reload; one that is half there leaves the other one in its place.
#[test]
fn its_certificate_is_that_of_its_files_at_the_last_reload() {
    let upstream = Upstream::ok();
    let gate = gate(&upstream, "}, token: { file: token }");
    let options = "--ca ca.pem --token-file token";
    succeeds(&gate, "status", options);
    let at = |name: &str| gate.dir.path().join(name);
    std::fs::write(at("server.pem"), "no certificate").unwrap();
    gate.signal("HUP");
    gate.wait_for("the admin side stays as it was");
    succeeds(&gate, "status", options);
    let renewed = material(gate.dir.path());
    drop(renewed);
    gate.signal("HUP");
    // It is signed by the authority that is in the file now.
    wait_until("the new certificate", || run(&gate, "status", options).status.success());
}

#[test]
fn what_would_let_anybody_in_does_not_load() {
    let dir = tempfile::tempdir().unwrap();
    material(dir.path());
    std::fs::write(dir.path().join("token"), "0123456789abcdef0123").unwrap();
    let files = "certificate: server.pem, private_key: server.key";
    let rule = |mode: &str| format!("client_certificate: {{ mode: {mode}, ca: ca.pem }}");
    let remote = "bind: \"0.0.0.0:9901\", allow_remote: true";
    for (admin, problem) in [
        (format!("{remote}, tls: {{ {files} }}"), "everybody could use it"),
        (format!("{remote}, tls: {{ {files}, {} }}", rule("optional")), "cannot be optional"),
        (format!("{remote}, tls: {{ {files}, {} }}", rule("required")), ""),
        (format!("{remote}, tls: {{ {files} }}, token: {{ file: token }}"), ""),
        (format!("bind: \"unix:a.sock\", tls: {{ {files} }}"), "a Unix socket has no TLS"),
        ("bind: \"127.0.0.1:9901\", tls: { certificate: server.pem }".to_owned(), "private_key"),
    ] {
        let text = format!(
            "listeners: [{{ name: web, bind: \"127.0.0.1:8080\" }}]\nroutes: [{{ path: /, respond: {{ status: 204 }} }}]\nadmin: {{ {admin} }}\n"
        );
        std::fs::write(dir.path().join("portunus.yaml"), text).unwrap();
        let output = Command::new(PORTUNUS).arg("check").arg(dir.path().join("portunus.yaml")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.success(), problem.is_empty(), "{admin}: {said}");
        assert!(said.contains(problem), "{admin}: {said}");
    }
}
