//! Rows of `./x faults` about a fleet, in their short form: no fault of a store fails a request, and all that was pushed is served. `fleet-long`, which is
//! these again and again, is not among them.
//!
//! They need root, for network namespaces of their own; where that is not to be had, this says so and ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// A program of the workspace that was built with the tests.
fn portunus() -> Option<std::path::PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_bench")).with_file_name("portunus");
    program.is_file().then_some(program)
}

fn may_have_namespaces() -> bool {
    Command::new("unshare").args(["--net", "--mount", "true"]).output().is_ok_and(|output| output.status.success())
}

#[test]
#[ignore = "minutes of faults under load: ./x verify faults"]
fn no_fault_of_a_store_fails_a_request() {
    let Some(portunus) = portunus().filter(|_| may_have_namespaces()) else {
        eprintln!("skipped: this needs root, and `portunus` built beside it");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        "fleet-member",
        "fleet-etcd",
        "fleet-partition",
        "fleet-minority",
        "fleet-disk",
        "fleet-quota",
        "fleet-names",
        "fleet-slow",
        "fleet-redis",
        "fleet-rollout",
        "fleet-pushes",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(["faults", "--seconds", "4", "--only", &rows.join(","), "--out"]).arg(folder.path());
    let output = command.arg("--portunus").arg(portunus).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<&str> = text.lines().filter(|line| line.starts_with("| fleet")).collect();
    assert_eq!(found.len(), rows.len(), "{text}");
    for row in found {
        assert!(row.contains("; p50, p99: quiet") && !row.contains("NOT CLEAN"), "{row}");
        assert!(row.contains("| 0 requests not OK") && row.contains("served everywhere: yes"), "{row}");
    }
}
