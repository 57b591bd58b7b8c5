//! `portunus check` and `portunus schema` as an operator runs them: exit status, and what goes where.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn portunus(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portunus")).args(arguments).output().unwrap()
}

/// Checks `text` as a file; gives status, stdout and stderr with the file called `FILE`.
fn check(text: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portunus.yaml");
    fs::write(&path, text).unwrap();
    let output = portunus(&["check", path.to_str().unwrap()]);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(path.to_str().unwrap(), "FILE");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_good_file_is_summed_up() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gate-minimal.yaml");
    let (status, out, err) = check(&fs::read_to_string(example).unwrap());
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_eq!(out, "FILE: ok (1 listener, 0 keystores, 1 upstream, 1 route)\n");
}

#[test]
fn every_mistake_of_a_bad_file_is_told_on_stderr() {
    let (status, out, err) = check("listeners:\n  - { name: edge, bind: ':99999' }\nroutes:\n  - { upstream: app }\n");
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert_eq!(
        err,
        "FILE:2:25: `:99999` is not an address to listen on; fix: use a port from 0 to 65535\n\
         FILE:4:17: there is no upstream `app`; fix: define it: the file has no upstreams yet\n"
    );
}

#[test]
fn routes_that_conflict_are_told_with_both_places() {
    let (status, _, err) = check(
        "listeners: [{ name: edge, bind: '127.0.0.1:0' }]\nroutes:\n  - { path: '/{a}', respond: { status: 200 } }\n  - { path: '/{b}', respond: { status: 200 } }\n",
    );
    assert_eq!(status, Some(1));
    assert!(err.contains("FILE:3") && err.contains("FILE:4"), "{err}");
}

#[test]
fn routes_that_conflict_are_told_beside_other_mistakes() {
    let (status, _, err) = check(
        "listeners: [{ name: edge, bind: ':99999' }]\nroutes:\n  - { path: '/{a}', respond: { status: 200 } }\n  - { path: '/{b}', respond: { status: 200 } }\n  - { path: /c, upstream: app }\n",
    );
    assert_eq!(status, Some(1));
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 3, "{err}");
    assert!(lines[0].starts_with("FILE:1:") && lines[1].starts_with("FILE:5:"), "{err}");
    assert!(lines[2].starts_with("FILE:4") && lines[2].contains("FILE:3"), "{err}");
}

#[test]
fn what_a_bad_file_names_is_looked_into_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("certs")).unwrap();
    fs::write(at("certs/a.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    fs::write(at("api.yaml"), "openapi: 9.9\n").unwrap();
    fs::write(at("trust"), "10.0.0.0/8\nnobody\n").unwrap();
    fs::write(
        at("portunus.yaml"),
        "keystores: { main: { folder: certs }, gone: { folder: nowhere } }
contracts: { api: { document: api.yaml } }
listeners:
  - { name: edge, bind: ':99999', tls: { keystore: main } }
  - { name: mail, bind: '127.0.0.1:0', proxy_protocol: { trust_file: trust } }
",
    )
    .unwrap();
    let output = portunus(&["check", at("portunus.yaml").to_str().unwrap()]);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    for (told, what) in
        [(1, ":99999"), (1, "nowhere"), (1, "keystore main: "), (1, "listener mail: trust list "), (1, "api.yaml")]
    {
        assert_eq!(err.lines().filter(|line| line.contains(what)).count(), told, "{what} in {err}");
    }
}

#[test]
fn pipes_and_devices_are_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // The time only ends a program that waits for ever.
    let check = |file: &str| {
        let output = Command::new("timeout").args(["60", env!("CARGO_BIN_EXE_portunus"), "check", file]).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    for file in [at("pipe"), "/dev/zero".to_owned()] {
        let (status, err) = check(&file);
        assert_eq!(status, Some(1), "{err}");
        assert!(err.contains("not a regular file"), "{err}");
    }
    fs::write(at("empty"), "").unwrap();
    for named in [
        "keystores: { main: { pkcs12: pipe } }",
        "keystores: { main: { jks: pipe } }",
        "keystores: { main: { pkcs12: empty, password: { file: pipe } } }",
        "contracts: { api: { document: pipe } }",
        "listeners: [{ name: mail, bind: '127.0.0.1:0', proxy_protocol: { trust_file: pipe } }]",
        "upstreams: { app: { servers: ['a.test:1'], tls: { ca: pipe } } }",
    ] {
        fs::write(at("portunus.yaml"), named).unwrap();
        let (status, err) = check(&at("portunus.yaml"));
        assert_eq!(status, Some(1), "{named}: {err}");
        assert_eq!(err.matches("not a regular file").count(), 1, "{named}: {err}");
        assert!(err.contains("pipe` is not a regular file"), "{named}: {err}");
    }
}

#[test]
fn the_schema_is_printed() {
    let output = portunus(&["schema"]);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/portunus.schema.json");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), fs::read_to_string(committed).unwrap());
    assert!(output.status.success());
}
