//! Replays the fuzz corpora of documents and messages, and many small changes of them, through the invariants that the fuzz targets check.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

#[path = "invariants/messages.rs"]
mod messages;

/// What tends to break readers, to be put where it does not belong.
const SNIPPETS: [&[u8]; 36] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"|",
    b"%",
    b"%20",
    b"%2C",
    b"%5B",
    b"[",
    b"]",
    b"[]",
    b"[0]",
    b"[999999999]",
    b"=",
    b"&",
    b"+",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"--b",
    b"--b--",
    b"\r\n--b\r\n",
    b"null",
    b"true",
    b"-1e9",
    b"\xff",
    b"&a ",
    b"*a",
    b"$ref",
];

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{target} has only {} inputs", files.len());
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

#[test]
fn every_corpus_file_keeps_the_invariants() {
    for (target, check) in messages::ALL {
        for (file, bytes) in corpus(target) {
            println!("{}", file.display());
            check(&bytes);
        }
    }
}

#[test]
fn changed_corpus_files_keep_the_invariants() {
    // Always the same changes: a failure can be repeated, and a pass does not depend on luck.
    let mut random = fastrand::Rng::with_seed(1);
    for (target, check) in messages::ALL {
        let corpus: Vec<Vec<u8>> = corpus(target).into_iter().map(|(_, bytes)| bytes).collect();
        for round in 0..500 {
            let mut bytes = corpus[round % corpus.len()].clone();
            for _ in 0..random.usize(1..=4) {
                change(&mut bytes, &corpus, &mut random);
            }
            check(&bytes);
        }
    }
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut fastrand::Rng) {
    let at = random.usize(0..=bytes.len());
    match random.u8(0..4) {
        0 => drop(bytes.splice(at..at, random.choice(SNIPPETS).unwrap().iter().copied())),
        1 => drop(bytes.drain(at..(at + random.usize(0..20)).min(bytes.len()))),
        2 if at < bytes.len() => bytes[at] = random.u8(..),
        _ => {
            let other = random.choice(corpus).unwrap();
            let start = random.usize(0..=other.len());
            let piece = other[start..(start + random.usize(0..40)).min(other.len())].to_vec();
            drop(bytes.splice(at..at, piece));
        }
    }
}
