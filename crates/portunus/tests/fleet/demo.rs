//! The demo of a fleet (`./x fleet-demo`): all that it tells its readers to do is done, and does what it says.

#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::path::Path;
use std::process::Command;

use crate::harness::PORTUNUS;

#[test]
#[ignore = "takes minutes: ./x verify ignored"]
fn what_the_demo_says_to_do_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet-demo.sh");
    let output = Command::new(script).args([PORTUNUS, "--try"]).env("TMPDIR", folder.path()).output().unwrap();
    let [said, problems] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{said}\n{problems}");
    assert_eq!(said.matches("ok: ").count(), 14, "{said}");
    assert!(said.ends_with("all of it did what it should\n"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its folder is gone");
}
