//! Certificates that name no host, as Let's Encrypt issues them for addresses and administrators make them by hand: alone in their store, everybody gets them.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::site::yaml;
use crate::harness::{Gate, PORTUNUS, vacant};

fn portunus(arguments: &[&str]) -> Output {
    Command::new(PORTUNUS).args(arguments).output().unwrap()
}

/// Runs a shell command in a folder.
fn shell(dir: &Path, command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).current_dir(dir).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command}: {text}");
    text
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout made.key -days 90";

/// Makes `FILE.pem` of this kind, with its key.
fn make(dir: &Path, kind: &str, file: &str) {
    let made = match kind {
        "address" => format!("openssl req -x509 {KEY} -out made.crt -subj / -addext subjectAltName=IP:192.0.2.7"),
        "common name" => format!("openssl req -x509 {KEY} -out made.crt -subj /CN=db.internal"),
        "leaf" => format!("openssl req -x509 {KEY} -out made.crt -subj /CN=leaf -addext basicConstraints=CA:FALSE"),
        "mail" => format!("openssl req -x509 {KEY} -out made.crt -subj /CN=m -addext subjectAltName=email:a@b.example"),
        "host" => format!("openssl req -x509 {KEY} -out made.crt -subj / -addext subjectAltName=DNS:{file}.example"),
        "version 1" => format!(
            "openssl req -new {KEY} -out made.csr -subj /CN=old && openssl x509 -req -in made.csr -signkey made.key -out made.crt -days 90"
        ),
        _ => panic!("{kind}"),
    };
    shell(dir, &format!("{made} && cat made.crt made.key > {file}.pem && rm -f made.*"));
}

const NAMELESS: [&str; 5] = ["address", "common name", "leaf", "mail", "version 1"];

fn store(kinds: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let certs = dir.path().join("certs");
    std::fs::create_dir(&certs).unwrap();
    kinds.iter().for_each(|(kind, file)| make(&certs, kind, file));
    dir
}

fn configuration() -> String {
    let listeners = "  - { name: t, bind: \"127.0.0.1:0\", tls: { keystore: main }, tunnel: { upstream: u } }";
    yaml(listeners, &format!("  u: {{ servers: [\"{}\"], protocol: tcp }}", vacant()), "")
}

/// The certificate that a client gets, as `openssl` prints it.
fn served(gate: &Gate, name: &str) -> String {
    let command = format!("timeout 60 openssl s_client -connect {} {name} </dev/null 2>/dev/null", gate.address("t"));
    let text = Command::new("sh").args(["-c", &command]).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let start = text.find("-----BEGIN CERTIFICATE-----").unwrap_or_else(|| panic!("{text}"));
    let end = text.find("-----END CERTIFICATE-----").unwrap();
    text[start..end].to_owned()
}

#[test]
fn the_only_certificate_of_a_store_is_for_everybody() {
    for kind in NAMELESS {
        let dir = store(&[(kind, "c")]);
        let own = std::fs::read_to_string(dir.path().join("certs/c.pem")).unwrap();
        let gate = Gate::start_in(dir, &configuration().replace(", default: a.test", ""));
        for name in ["-noservername", "-servername anything.example"] {
            assert!(own.starts_with(&served(&gate, name)), "{kind} {name}");
        }
    }
}

#[test]
fn the_only_certificate_of_a_pkcs12_file_is_for_everybody() {
    let dir = store(&[("address", "c")]);
    let own = std::fs::read_to_string(dir.path().join("certs/c.pem")).unwrap();
    shell(
        dir.path(),
        "openssl pkcs12 -export -in certs/c.pem -name own -passout pass:secret -out s.p12 && echo secret > pw",
    );
    let store = "{ pkcs12: s.p12, password: { file: pw } }";
    let gate = Gate::start_in(dir, &configuration().replace("{ folder: certs, default: a.test }", store));
    assert!(own.starts_with(&served(&gate, "-noservername")));
}

#[test]
fn where_there_are_several_the_message_says_what_to_do() {
    let check = |kinds: &[(&str, &str)], more: &str, expected: &str| {
        let dir = store(kinds);
        let file = dir.path().join("portunus.yaml");
        std::fs::write(&file, configuration().replace(", default: a.test", more)).unwrap();
        let output = portunus(&["check", file.to_str().unwrap()]);
        let said = String::from_utf8(output.stderr).unwrap();
        match expected {
            "" => assert_eq!(output.status.code(), Some(0), "{said}"),
            _ => assert!(said.contains(expected) && !output.status.success(), "{kinds:?}: {said}"),
        }
    };
    check(&[("address", "a"), ("common name", "b"), ("leaf", "c")], "", "");
    check(
        &[("address", "a"), ("leaf", "c"), ("leaf", "d")],
        "",
        "call the file of one of the certificates `default.pem`",
    );
    check(&[("address", "default"), ("leaf", "c"), ("leaf", "d")], "", "");
    check(&[("leaf", "c"), ("host", "a")], "", "");
    check(
        &[("leaf", "c"), ("host", "a"), ("host", "b")],
        "",
        "add `default: HOST`; there are certificates for a.example, b.example",
    );
    check(&[("leaf", "c")], ", default: a.example", "remove `default`: no certificate here names a host");
}

#[test]
fn what_is_imported_from_hitch_passes_the_check() {
    for kind in NAMELESS {
        let check = |files: &[(&str, &str)], keys: &str| {
            let dir = store(files);
            let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
            let lines =
                files.iter().map(|(_, file)| format!("pem-file = \"{}\"\n", path(&format!("certs/{file}.pem"))));
            let lines = format!(
                "frontend = \"[127.0.0.1]:8443\"\nbackend = \"[127.0.0.1]:6086\"\n{}",
                lines.collect::<String>()
            );
            std::fs::write(path("hitch.conf"), lines).unwrap();
            let (conf, keys_at) = (path("hitch.conf"), path("keys"));
            let mut words = vec!["import", "hitch", &conf];
            if !keys.is_empty() {
                words.extend(["--keys", &keys_at]);
            }
            let made = portunus(&words);
            std::fs::write(path("portunus.yaml"), &made.stdout).unwrap();
            let checked = portunus(&["check", &path("portunus.yaml")]);
            let said = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{kind} {files:?}: {said}\n{}", String::from_utf8_lossy(&made.stdout));
        };
        check(&[(kind, "c")], "");
        check(&[(kind, "c")], "--keys");
        // The last one is for all others.
        check(&[("host", "a"), ("host", "b"), (kind, "c")], "--keys");
        check(&[(kind, "c"), ("host", "a"), ("host", "b")], "");
    }
}
