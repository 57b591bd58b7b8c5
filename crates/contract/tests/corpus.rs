//! Replays the seeds of the fuzz targets, and changed copies of them, against their invariants.

use crate::invariants;

use std::fs;
use std::path::Path;

const CHANGED_COPIES: usize = 100;

fn replay(target: &str, holds: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds for {target}");
    let mut random = fastrand::Rng::with_seed(1);
    for path in paths {
        let seed = fs::read(path).unwrap();
        holds(&seed);
        for _ in 0..CHANGED_COPIES {
            let mut copy = seed.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..copy.len());
                match random.u8(0..3) {
                    0 => copy[at] = random.u8(..),
                    1 => copy.insert(at, copy[random.usize(0..copy.len())]),
                    _ if copy.len() > 1 => drop(copy.remove(at)),
                    _ => {}
                }
            }
            holds(&copy);
        }
    }
}

#[test]
fn json() {
    replay("json", invariants::json);
}

#[test]
fn pattern() {
    replay("pattern", invariants::pattern);
}
