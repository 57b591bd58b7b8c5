//! Replays fuzz corpora, and many small changes of their inputs, through the invariants of the fuzz targets.
//!
//! Shared by the tests of all crates that have fuzz targets. Which snippets break which reader is theirs to know.

use std::fs;
use std::path::{Path, PathBuf};

/// A fuzz target's name, which is its corpus's too, and what must hold for any bytes.
type Invariant = (&'static str, fn(&[u8]));

/// The inputs of a target's corpus.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{target} has only {} inputs", files.len());
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// Every input as it is.
pub fn whole(all: &[Invariant]) {
    for (target, check) in all {
        for (file, bytes) in corpus(target) {
            println!("{}", file.display());
            check(&bytes);
        }
    }
}

/// Inputs shorter than `most` bytes with one to four changes each, so many rounds for each target.
///
/// Always the same changes, whatever other targets there are: a failure can be repeated, and a pass does not depend on luck. `REPLAY_SEED` asks for others.
pub fn changed(all: &[Invariant], snippets: &[&[u8]], rounds: usize, most: usize) {
    let seed = std::env::var("REPLAY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for (target, check) in all {
        let mut random = fastrand::Rng::with_seed(seed);
        let seeds: Vec<Vec<u8>> =
            corpus(target).into_iter().map(|(_, bytes)| bytes).filter(|bytes| bytes.len() < most).collect();
        for round in 0..rounds {
            let mut bytes = seeds[round % seeds.len()].clone();
            for _ in 0..random.usize(1..=4) {
                change(&mut bytes, &seeds, snippets, &mut random);
            }
            check(&bytes);
        }
    }
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], snippets: &[&[u8]], random: &mut fastrand::Rng) {
    let at = random.usize(..=bytes.len());
    let end = (at + random.usize(..20)).min(bytes.len());
    let snippet = snippets[random.usize(..snippets.len())];
    let other = &seeds[random.usize(..seeds.len())];
    let cut = random.usize(..=other.len());
    match random.u8(..8) {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
        2 if at < bytes.len() => bytes[at] = random.u8(..),
        3 => drop(bytes.drain(at..end)),
        4 => {
            bytes.truncate(at);
            bytes.extend_from_slice(&other[cut..]);
        }
        5 => drop(bytes.splice(at..at, other[cut..(cut + 40).min(other.len())].iter().copied())),
        6 => drop(bytes.splice(at..end, snippet.iter().copied())),
        _ => drop(bytes.splice(at..at, snippet.iter().copied())),
    }
}
