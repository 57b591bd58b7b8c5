//! Replays the fuzz corpus, and many small changes of it, through the invariant that the fuzz target checks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod invariants;
#[path = "../../../tests/replay.rs"]
mod replay;

/// Frames, beginnings of frames, lengths that lie.
const SNIPPETS: [&[u8]; 9] = [
    b"\0",
    b"\0\0\0\0\0\0\0\0",
    b"\x01",
    b"\x02\0\0\0\0",
    b"\x03",
    b"\x06\0\x02\0\0",
    b"\x40\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x1c\0\0\0",
];

#[test]
fn corpora_hold() {
    replay::whole(&[("quic_padding", invariants::quic_padding)]);
}

#[test]
fn changed_corpora_hold() {
    replay::changed(&[("quic_padding", invariants::quic_padding)], &SNIPPETS, 20_000, 2000);
}
