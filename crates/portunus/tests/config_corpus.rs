//! Replays the fuzz corpus of configuration files, the fixtures, and many small changes of both, through the invariants of the fuzz target.

use std::fs;
use std::path::{Path, PathBuf};

use crate::invariants;

/// What tends to break readers of YAML, to be put where it does not belong.
const SNIPPETS: [&[u8]; 36] = [
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b"\0",
    b" ",
    b"  ",
    b":",
    b": ",
    b"- ",
    b"? ",
    b"#",
    b" #",
    b"'",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"&a ",
    b"*a",
    b"!!str ",
    b"<<: ",
    b"---\n",
    b"...\n",
    b"|\n",
    b">-\n",
    b"%YAML 1.2\n",
    b"~",
    "é\u{301}".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{2028}".as_bytes(),
    b"{id}",
    b"1e9999",
];

fn seeds() -> Vec<(PathBuf, Vec<u8>)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["../../fuzz/corpus/config", "tests/config/valid", "tests/config/invalid", "../../examples"] {
        let found: Vec<PathBuf> = fs::read_dir(here.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        let found: Vec<PathBuf> =
            found.into_iter().filter(|file| file.is_file() && !file.to_string_lossy().contains(".expected")).collect();
        assert!(!found.is_empty(), "{folder} is empty");
        files.extend(found);
    }
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

#[test]
fn every_seed_keeps_the_invariants() {
    for (file, bytes) in seeds() {
        println!("{}", file.display());
        invariants::config::check(&bytes);
    }
}

#[test]
fn changed_seeds_keep_the_invariants() {
    // Always the same changes: a failure can be repeated, and a pass does not depend on luck.
    let mut random = fastrand::Rng::with_seed(1);
    let seeds: Vec<Vec<u8>> = seeds().into_iter().map(|(_, bytes)| bytes).collect();
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(3_000, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..random.usize(1..=4) {
            change(&mut bytes, &seeds, &mut random);
        }
        // The last input before a failure is shown with it.
        println!("--- {round}\n{}", String::from_utf8_lossy(&bytes));
        invariants::config::check(&bytes);
    }
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut fastrand::Rng) {
    let at = random.usize(0..=bytes.len());
    match random.u8(0..6) {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => bytes[at] ^= 1 << random.u8(0..7),
        2 if at < bytes.len() => drop(bytes.drain(at..(at + random.usize(1..12)).min(bytes.len()))),
        3 => {
            let other = &seeds[random.usize(0..seeds.len())];
            let cut = random.usize(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[cut..]);
        }
        // A whole line from elsewhere is still likely to be YAML.
        4 => {
            let other = &seeds[random.usize(0..seeds.len())];
            let lines: Vec<&[u8]> = other.split_inclusive(|byte| *byte == b'\n').collect();
            let start = bytes.iter().take(at).rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if !lines.is_empty() {
                drop(bytes.splice(start..start, lines[random.usize(0..lines.len())].iter().copied()));
            }
        }
        _ => drop(bytes.splice(at..at, SNIPPETS[random.usize(0..SNIPPETS.len())].iter().copied())),
    }
}

/// Reading takes time in proportion to the size, not to its square: each shape at 64 KiB and at four times that. A reader that squares would need
/// minutes for the larger one, so no clock is read here; the test runner's patience is the check.
#[test]
fn large_odd_files_are_read_in_good_time() {
    let shapes: [fn(usize) -> String; 10] = [
        |size| "a".repeat(size),
        |size| "- ".repeat(size / 2),
        |size| "[".repeat(size),
        |size| "a: ".repeat(size / 3),
        |size| "? ".repeat(size / 2),
        |size| (0..size / 8).map(|n| format!("k{n}: 1\n")).collect(),
        |size| format!("a: \"{}\"", "\\n".repeat(size / 2)),
        |size| format!("a: |\n{}", "  x\n".repeat(size / 4)),
        |size| format!("listeners: [{}]", "{a: b},".repeat(size / 7)),
        |size| format!("upstreams: {{{}}}", (0..size / 12).map(|n| format!("u{n}: {{}},")).collect::<String>()),
    ];
    for shape in shapes {
        for size in [64 * 1024, 256 * 1024] {
            invariants::config::check(shape(size).as_bytes());
        }
    }
}
