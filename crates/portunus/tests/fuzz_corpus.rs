//! Replays the fuzz corpora of the program's own parsers and matchers, and many small changes of them, through their invariants.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod invariants;

use std::path::{Path, PathBuf};

/// Pieces to put where they do not belong.
const SNIPPETS: [&[u8]; 28] = [
    b"\n",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"*",
    b"/",
    b"//",
    b"/..",
    b".",
    b"%2F",
    b"%2e",
    b"?",
    b"#",
    b"@",
    b" ",
    b"{x}",
    b"{*y}",
    b"-1",
    b"1e9",
    b"\\u00e9",
    b"\xff",
    b"~",
    b">GET a /",
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{target} has only {} inputs", files.len());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn every_corpus_file_keeps_the_invariants() {
    for (target, check) in invariants::ALL {
        corpus(target).iter().for_each(|bytes| check(bytes));
    }
}

#[test]
fn changed_corpus_files_keep_the_invariants() {
    let mut random = fastrand::Rng::with_seed(1);
    for (target, check) in invariants::ALL {
        let corpus = corpus(target);
        for round in 0..1_500 {
            let mut bytes = corpus[round % corpus.len()].clone();
            for _ in 0..random.usize(1..=4) {
                let at = random.usize(..=bytes.len());
                let end = (at + random.usize(..8)).min(bytes.len());
                match random.u8(..4) {
                    0 => drop(bytes.splice(at..end, [])),
                    1 => drop(bytes.splice(at..at, SNIPPETS[random.usize(..SNIPPETS.len())].iter().copied())),
                    2 => drop(bytes.splice(at..end, SNIPPETS[random.usize(..SNIPPETS.len())].iter().copied())),
                    _ => {
                        let piece = bytes[at..end].to_vec();
                        drop(bytes.splice(at..at, piece));
                    }
                }
            }
            check(&bytes);
        }
    }
}
