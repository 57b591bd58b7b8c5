//! Replays the fuzz corpus, and many small changes of it, through the invariant that the fuzz target checks.

use crate::invariants;
use crate::replay;

/// Pieces to put where they do not belong.
const SNIPPETS: [&[u8]; 24] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"-1",
    b"1e9",
    b"18446744073709551615",
    b"\"9223372036854775808\"",
    b"\"\"",
    b"..",
    b"/",
    b"../",
    b"\\u0000",
    b"\xff",
    b"\n",
    b"=",
    b"\"format\":2,",
    b"\"kvs\":[{}]",
    b"\"error\":{}",
];

#[test]
fn corpora_hold() {
    replay::whole(&[("fleet", invariants::fleet)]);
}

#[test]
fn changed_corpora_hold() {
    replay::changed(&[("fleet", invariants::fleet)], &SNIPPETS, 50_000, 4000);
}
