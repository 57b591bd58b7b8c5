//! `portunus keystore` as an operator uses it, on every kind of store.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::Parser;
use portunus::command::keystore::{KeystoreCommand, Response, respond};
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    command: KeystoreCommand,
}

/// Runs with arguments that are separated by spaces; `@` begins a path in the folder.
fn try_run(folder: &Path, arguments: &str) -> Result<Response, clap::Error> {
    let paths = arguments.replace('@', &format!("{}/", folder.display()));
    Program::try_parse_from(["keystore"].into_iter().chain(paths.split(' ')))
        .map(|program| respond(program.command, None))
}

/// As `try_run`, but must succeed; its output.
fn run(folder: &Path, arguments: &str) -> String {
    let response = try_run(folder, arguments).unwrap_or_else(|error| panic!("{arguments}: {error}"));
    assert!(!response.failed, "{arguments}: {}", response.remarks);
    response.output
}

/// As `try_run`, but must fail with this among its remarks.
fn fails(folder: &Path, arguments: &str, expected: &str) {
    let response = try_run(folder, arguments).unwrap_or_else(|error| panic!("{arguments}: {error}"));
    assert!(response.failed && response.remarks.contains(expected), "{arguments}: {response:?}");
}

/// A folder with `a.pem` (certificate and key for `a.example`), `rsa.crt` and `rsa.key` for it, and `password`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    for (algorithm, certificate_file, key_file) in
        [(&rcgen::PKCS_ECDSA_P256_SHA256, "ec.crt", "ec.key"), (&rcgen::PKCS_RSA_SHA256, "rsa.crt", "rsa.key")]
    {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        write(certificate_file, certificate.pem());
        write(key_file, key.serialize_pem());
        write(&format!("{certificate_file}.both"), certificate.pem() + &key.serialize_pem());
    }
    write("password", "changeit\n".to_owned());
    folder
}

#[test]
fn every_command_works_on_every_kind_of_store() {
    for store in [
        "--store @keys --type folder",
        "--store @keys.p12 --password-file @password",
        "--store @keys.jks --password-file @password",
    ] {
        let folder = folder();
        let at = folder.path();
        let done = run(at, &format!("add {store} --name a.example --cert @ec.crt --key @ec.key"));
        assert!(done.starts_with("added a.example (ecdsa) to "), "{done}");
        run(at, &format!("add {store} --name a.example --cert @rsa.crt.both"));
        fails(at, &format!("add {store} --name A.example --cert @rsa.crt.both"), "--overwrite");
        run(at, &format!("add {store} --name a.example --cert @rsa.crt.both --overwrite"));

        let listed = run(at, &format!("list {store}"));
        let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["NAME", "KEY", "EXPIRES", "DAYS", "SHA-256"]);
        assert_eq!(lines[1][..4], ["a.example", "ECDSA", "P-256", "4096-01-01"]);
        assert_eq!(lines[2][..4], ["a.example", "RSA", "2048", "4096-01-01"]);
        assert_eq!(lines[1][5].len(), 64);
        let json: serde_json::Value = serde_json::from_str(&run(at, &format!("list {store} --json"))).unwrap();
        assert_eq!(json[0]["names"], serde_json::json!(["a.example"]));
        assert_eq!(json[1]["key"], "RSA 2048");

        let checked = run(at, &format!("check {store}"));
        assert!(checked.ends_with("2 certificates with their keys, 1 names, no problems\n"), "{checked}");
        fails(at, &format!("export {store} --name a.example"), "choose with --key-type: ");
        let chain = std::fs::read_to_string(at.join("ec.crt")).unwrap().replace('\r', "");
        assert_eq!(run(at, &format!("export {store} --name a.example --key-type ecdsa")), chain);
        run(at, &format!("export {store} --name a.example --key-type rsa --out @out.pem --with-key"));
        let out = at.join("out.pem");
        assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(&out).unwrap().contains("BEGIN PRIVATE KEY"));
        fails(at, &format!("export {store} --name a.example --key-type rsa --out @out.pem"), "--overwrite");
        assert!(try_run(at, &format!("export {store} --name a.example --with-key")).is_err(), "a key needs a file");

        run(at, &format!("remove {store} --name a.example --key-type rsa"));
        fails(at, &format!("remove {store} --name b.example"), "nothing serves b.example");
        run(at, &format!("remove {store} --name a.example"));
        fails(at, &format!("check {store}"), "holds no certificate with its key");
    }
}

#[test]
fn passwords_and_kinds_are_asked_for_by_name() {
    let folder = folder();
    let at = folder.path();
    run(at, "add --store @s.jks --password-file @password --name default --cert @ec.crt.both");
    let before = std::fs::read(at.join("s.jks")).unwrap();
    fails(at, "list --store @s.jks", "needs its password");
    std::fs::write(at.join("wrong"), "changed").unwrap();
    fails(at, "list --store @s.jks --password-file @wrong", "wrong password");
    fails(at, "remove --store @s.jks --password-file @wrong --name default", "wrong password");
    fails(at, "list --store @s.jks --password-file @none", "password file");
    fails(at, "list --store @s.jks --password-env PORTUNUS_NO_SUCH_VARIABLE", "PORTUNUS_NO_SUCH_VARIABLE");
    assert!(try_run(at, "list --store @s.jks --password-file @password --password-env X").is_err());
    fails(at, "list --store @nothing", "no such store");
    fails(at, "add --store @new --name default --cert @ec.crt.both", "--type folder, pkcs12 or jks");
    fails(at, "add --store @new.jks --name default --cert @ec.crt.both", "at least 6 characters");
    assert_eq!(std::fs::read(at.join("s.jks")).unwrap(), before);
    assert!(!at.join("new.jks").exists());
}

#[test]
fn a_person_is_asked_for_the_password() {
    let folder = folder();
    let store = folder.path().join("s.p12");
    let ask_with = |arguments: &[&str], responses: &[&str]| {
        let asked = std::cell::Cell::new(0);
        let ask = |text: &str| {
            assert!(text.starts_with("Password of ") && text.ends_with(": "), "{text}");
            Ok(responses[asked.replace(asked.get() + 1)].to_owned())
        };
        let file = folder.path().join("ec.crt.both");
        let fixed = ["keystore", arguments[0], "--store", store.to_str().unwrap()];
        let mut all: Vec<&str> = fixed.into_iter().chain(arguments[1..].iter().copied()).collect();
        if arguments[0] == "add" {
            all.extend(["--cert", file.to_str().unwrap()]);
        }
        let answered = respond(Program::try_parse_from(all).unwrap().command, Some(&ask));
        assert_eq!(asked.get(), responses.len());
        answered
    };
    assert!(ask_with(&["add", "--name", "default"], &["one", "two"]).remarks.contains("the passwords differ"));
    assert!(!store.exists());
    assert!(!ask_with(&["add", "--name", "default"], &["one", "one"]).failed);
    assert!(!ask_with(&["list"], &["one"]).failed);
    assert!(ask_with(&["list"], &["two"]).failed);
}

#[test]
fn what_is_given_is_checked_before_the_store_is_touched() {
    let folder = folder();
    let at = folder.path();
    let store = "--store @keys --type folder";
    fails(
        at,
        &format!("add {store} --name a.example --cert @ec.crt --key @rsa.key"),
        "does not belong to the certificate",
    );
    fails(at, &format!("add {store} --name a.example --cert @none --key @rsa.key"), "none");
    fails(at, &format!("add {store} --name b.example --cert @ec.crt.both"), "only a.example");
    fails(at, &format!("add {store} --name a.example --cert @ec.crt.both --sillyproxy-format"), "Java keystores only");
    assert!(!at.join("keys").exists());
    std::fs::create_dir(at.join("keys")).unwrap();
    std::fs::copy(at.join("ec.crt"), at.join("keys/ec.crt")).unwrap();
    std::fs::copy(at.join("rsa.key"), at.join("keys/rsa.key")).unwrap();
    let response = try_run(at, "check --store @keys").unwrap();
    assert_eq!(response.remarks.lines().filter(|line| line.starts_with("error: ")).count(), 2, "{}", response.remarks);
    // A pair with a key of its own goes in beside what is broken.
    run(at, "add --store @keys --name default --cert @rsa.crt.both");
}
