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
fn the_schema_is_printed() {
    let output = portunus(&["schema"]);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/portunus.schema.json");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), fs::read_to_string(committed).unwrap());
    assert!(output.status.success());
}
