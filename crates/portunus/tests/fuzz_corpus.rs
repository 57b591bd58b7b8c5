//! Replays the fuzz corpora of the program's own parsers and matchers, and many small changes of them, through their invariants.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod invariants;
#[path = "../../../tests/replay.rs"]
mod replay;

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

#[test]
fn every_corpus_file_keeps_the_invariants() {
    replay::whole(&invariants::ALL);
}

#[test]
fn changed_corpus_files_keep_the_invariants() {
    replay::changed(&invariants::ALL, &SNIPPETS, 1_500, usize::MAX);
}
