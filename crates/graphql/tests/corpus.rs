//! Replays the fuzz corpus of requests, and many small changes of it, through the invariants that the fuzz target checks.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod invariants;
#[path = "../../../tests/replay.rs"]
mod replay;

/// Pieces to put where they do not belong.
const SNIPPETS: [&[u8]; 34] = [
    b"{",
    b"}",
    b"(",
    b")",
    b"[",
    b"]",
    b"...",
    b"... on Pet",
    b"...F",
    b"fragment F on Pet {id}",
    b"$",
    b"$v",
    b"@",
    b"@skip(if:true)",
    b":",
    b"=",
    b"!",
    b"|",
    b"&",
    b"\"",
    b"\"\"\"",
    b"\\u0041",
    b"#",
    b"\r",
    b"\n",
    b",",
    b"-1",
    b"1e9",
    b"null",
    b"__typename",
    b"__schema",
    b"query",
    b"%7B",
    b"\xef\xbb\xbf",
];

#[test]
fn every_corpus_file_keeps_the_invariants() {
    replay::whole(&invariants::ALL);
}

#[test]
fn changed_corpus_files_keep_the_invariants() {
    replay::changed(&invariants::ALL, &SNIPPETS, 3_000, usize::MAX);
}
