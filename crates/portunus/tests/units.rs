//! The systemd units of `packaging/`, checked by systemd: nothing in them is unknown, misspelt or missing, and little is left open.
//!
//! Where there is no `systemd-analyze` (containers, other systems) there is nothing to check by: the test says so and ends.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The most that `systemd-analyze security` may give, in tenths: "OK" ends at 2.0 of 10.
const MAX_EXPOSURE: &str = "20";

/// Runs `systemd-analyze`; none where there is none, or it is too old to know what is asked.
fn analyze(words: &[&str]) -> Option<(bool, String)> {
    let output = Command::new("systemd-analyze").args(words).env("SYSTEMD_COLORS", "0").output().ok()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let is_unknown = text.contains("unrecognized option") || text.contains("Unknown command");
    (!is_unknown).then_some((output.status.success(), text))
}

#[test]
fn systemd_takes_every_unit_and_finds_little_exposed() {
    if analyze(&["--version"]).is_none() {
        println!("skipped: there is no systemd-analyze here");
        return;
    }
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(&packaging).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "service") {
            continue;
        }
        count += 1;
        // The program is not installed here; the one that is tested stands in for it.
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("/usr/bin/portunus "), "{}", path.display());
        let unit = folder.path().join(path.file_name().unwrap());
        fs::write(&unit, text.replace("/usr/bin/portunus", env!("CARGO_BIN_EXE_portunus"))).unwrap();
        let unit = unit.to_str().unwrap();
        let (is_good, reported) = analyze(&["verify", "--man=no", unit]).expect("`verify` is older than all we run on");
        // What is unknown is only told, and ignored.
        assert!(is_good && !reported.contains(unit), "{reported}");
        match analyze(&["security", "--offline=true", "--no-pager", "--threshold", MAX_EXPOSURE, unit]) {
            Some((is_closed, reported)) => assert!(is_closed, "{reported}"),
            None => println!("skipped: this systemd-analyze checks no units that are not loaded"),
        }
    }
    assert_eq!(count, 3, "the units of packaging/");
    // The service that its sockets are for lies beside it.
    let socket = folder.path().join("portunus.socket");
    fs::copy(packaging.join("portunus.socket"), &socket).unwrap();
    let socket = socket.to_str().unwrap();
    let (is_good, reported) = analyze(&["verify", "--man=no", socket]).expect("`verify` is older than all we run on");
    assert!(is_good && !reported.contains(socket), "{reported}");
}
