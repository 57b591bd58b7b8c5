//! Frames of WebSockets of any bytes: whatever pieces they come in, the same messages come out, and none is longer than the limit.

use wire::websocket::{ClientMessages, FrameError, ServerFrames, Whole};

const LIMIT: usize = 300;

fn messages(bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let (mut messages, mut found) = (ClientMessages::new(LIMIT), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        messages.push(piece);
        loop {
            match messages.next_whole() {
                Ok(Some(Whole::Control(frame))) => found.push(frame.to_vec()),
                Ok(Some(Whole::Message { frames, payload, .. })) => {
                    assert!(payload.len() <= LIMIT && frames.len() <= 2 * LIMIT + 14);
                    found.push(payload.to_vec());
                }
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// The places between messages of a server, as counts of bytes before them.
fn ends(bytes: &[u8], piece: usize) -> (Vec<usize>, bool) {
    let (mut frames, mut found, mut passed) = (ServerFrames::default(), Vec::new(), 0);
    for piece in bytes.chunks(piece.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let Ok(count) = frames.follow(rest) else { return (found, true) };
            assert!(count > 0 && count <= rest.len());
            passed += count;
            rest = &rest[count..];
            if frames.is_between() {
                found.push(passed);
            }
        }
    }
    (found, false)
}

/// Any bytes.
pub fn check(bytes: &[u8]) {
    let (whole, whole_ends) = (messages(bytes, bytes.len()), ends(bytes, bytes.len()));
    for piece in [1, 2, 3, 11] {
        assert_eq!(messages(bytes, piece), whole);
        assert_eq!(ends(bytes, piece), whole_ends);
    }
}
