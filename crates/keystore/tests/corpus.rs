//! Replays the fuzz corpora, and many small changes of them, through the invariants that the fuzz targets check.

use std::fs;
use std::path::{Path, PathBuf};

use crate::invariants;

/// At most about as many places of a file are changed.
const MOST_PLACES: usize = 200;

/// Bytes that tend to break length and tag readers.
const REPORTING: [u8; 8] = [0x00, 0x01, 0x7f, 0x80, 0x84, 0xff, b'-', b'\n'];

fn replay(target: &str, invariant: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{target} has only {} inputs", files.len());
    for file in files {
        let seed = fs::read(&file).unwrap();
        invariant(&seed);
        // Of long files not each place: each is read whole, each time.
        for at in (0..seed.len()).step_by(1 + seed.len() / MOST_PLACES) {
            invariant(&seed[..at]);
            let mut changed = seed.clone();
            changed[at] = REPORTING[at % REPORTING.len()];
            invariant(&changed);
            changed.remove(at);
            invariant(&changed);
        }
    }
}

#[test]
fn java_keystores() {
    replay("jks", invariants::jks);
}

#[test]
fn files_of_ech_keys() {
    replay("ech", invariants::ech);
}

#[test]
fn pem_texts() {
    replay("pem", invariants::pem);
}
