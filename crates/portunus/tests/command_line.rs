//! What the command line says of words that it does not know.

use std::process::Command;

use crate::harness::PORTUNUS;

/// A tip is for a slip, not for any other word.
#[test]
fn tips_are_near_what_was_written() {
    for (words, tip) in [
        (&["relaod"][..], Some("'reload'")),
        (&["policies"], None),
        (&["certficates"], Some("'certificates'")),
        (&["routes"], None),
        (&["check", "--hlp"], Some("'--help'")),
        (&["check", "--policies"], None),
    ] {
        let output = Command::new(PORTUNUS).args(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        match tip {
            Some(tip) => assert!(said.contains("tip: ") && said.contains(tip), "{words:?}: {said}"),
            None => assert!(!said.contains("similar"), "{words:?}: {said}"),
        }
    }
}
