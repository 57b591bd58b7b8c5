//! Replays the fuzz corpora, and many small changes of them, through the invariants that the fuzz targets check.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

mod invariants;

/// What tends to break parsers, to be put where it does not belong.
const SNIPPETS: [&[u8]; 40] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"_",
    b"%",
    b"/",
    b".",
    b"..",
    b"%2e",
    b"%2F",
    b"%25",
    b"%5c",
    b"%00",
    b"%c3%a9",
    b"\\",
    b"?",
    b"#",
    b"@",
    b"[::1]",
    b"0",
    b"0\r\n\r\n",
    b"\xff",
    b"\x7f",
    b"\x00\x00",
    b"\x00\x01",
    b"Host: a\r\n",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close, upgrade\r\n",
    b"Upgrade: websocket\r\n",
    b"Expect: 100-continue\r\n",
    b"HTTP/1.0",
    b"http://a",
    b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
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
    for (target, check) in invariants::ALL {
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
    for (target, check) in invariants::ALL {
        let corpus: Vec<Vec<u8>> =
            corpus(target).into_iter().map(|(_, bytes)| bytes).filter(|bytes| bytes.len() < 600).collect();
        for round in 0..1500 {
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
    match random.u8(0..5) {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => bytes[at] ^= 1 << random.u8(0..8),
        2 if at < bytes.len() => drop(bytes.drain(at..(at + random.usize(1..8)).min(bytes.len()))),
        3 => {
            let other = &corpus[random.usize(0..corpus.len())];
            let cut = random.usize(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[cut..]);
        }
        _ => drop(bytes.splice(at..at, SNIPPETS[random.usize(0..SNIPPETS.len())].iter().copied())),
    }
}
