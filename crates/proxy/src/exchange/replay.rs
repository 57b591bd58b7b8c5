//! The beginning of a request body, kept while its request may have to be sent once more.
//!
//! A server that says it has not looked at a request (RFC 9113 §8.7) may have been sent some of its body already. Owns what was sent, as long as
//! that is little. Does not decide whether anything is sent again.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use net::Chunk;
use wire::http::Fields;

use crate::message::body::BodyError;
use crate::message::sides::MessageBody;

/// Most that is kept of one body, bytes; of a longer one nothing is kept.
const MOST_BYTES: usize = 32 * 1024;

/// What keeping a piece costs besides its bytes.
const PIECE_BYTES: usize = 64;

/// What was sent of one body.
#[derive(Debug, Default)]
pub struct Replay {
    kept: RefCell<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    pieces: Vec<Bytes>,
    /// Their bytes.
    bytes: usize,
    trailers: Option<Fields>,
    /// It grew too long, or is not needed any more.
    is_given_up: bool,
}

impl Replay {
    /// Whether all that was taken of the body is here, so that the request can be sent again.
    pub fn is_whole(&self) -> bool {
        !self.kept.borrow().is_given_up
    }

    /// Keeps a piece that is being sent, which begins at byte `at` of the body. What is here already is not kept twice.
    pub fn keep(&self, at: usize, piece: &Bytes) {
        let mut kept = self.kept.borrow_mut();
        if kept.is_given_up || at < kept.bytes {
            return;
        }
        if kept.bytes + piece.len() + (kept.pieces.len() + 1) * PIECE_BYTES > MOST_BYTES {
            drop(kept);
            return self.give_up();
        }
        kept.bytes += piece.len();
        kept.pieces.push(piece.clone());
    }

    /// Keeps the trailers that are being sent.
    pub fn keep_trailers(&self, trailers: &Fields) {
        let mut kept = self.kept.borrow_mut();
        if !kept.is_given_up {
            kept.trailers = Some(trailers.clone());
        }
    }

    /// The request will not be sent again.
    pub fn give_up(&self) {
        *self.kept.borrow_mut() = Kept { is_given_up: true, ..Kept::default() };
    }

    /// The body from its start: what is kept, then the rest.
    pub fn whole<'r, B: MessageBody>(&'r self, body: &'r mut B) -> Replayed<'r, B> {
        Replayed { replay: self, next: Some(0), piece: Bytes::new(), body }
    }
}

/// A body that begins with what was sent of it before.
#[derive(Debug)]
pub struct Replayed<'r, B> {
    replay: &'r Replay,
    /// The kept piece to be lent next; none once the rest has begun.
    next: Option<usize>,
    /// The kept piece that was lent last, if it was one.
    piece: Bytes,
    body: &'r mut B,
}

impl<B> Replayed<'_, B> {
    fn has_kept(&self) -> bool {
        self.next.is_some_and(|next| next < self.replay.kept.borrow().pieces.len())
    }
}

impl<B: MessageBody> MessageBody for Replayed<'_, B> {
    fn is_done(&self) -> bool {
        self.body.is_done() && !self.has_kept() && self.replay.kept.borrow().trailers.is_none()
    }

    fn has_input(&self) -> bool {
        self.has_kept() || self.body.has_input()
    }

    fn waits_until(&self) -> Option<Duration> {
        if self.piece.is_empty() { self.body.waits_until() } else { None }
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        let kept = self.next.and_then(|next| self.replay.kept.borrow().pieces.get(next).cloned());
        self.next = self.next.filter(|_| kept.is_some()).map(|next| next + 1);
        self.piece = kept.unwrap_or_default();
        if self.piece.is_empty() { self.body.next().await } else { Ok(Some(&self.piece)) }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.body.trailers().or_else(|| self.replay.kept.borrow().trailers.clone())
    }

    fn has_trailers(&self) -> bool {
        self.body.has_trailers() || self.replay.kept.borrow().trailers.is_some()
    }

    fn last(&self) -> &[u8] {
        if self.piece.is_empty() { self.body.last() } else { &self.piece }
    }

    fn take_last(&mut self, least_bytes: usize) -> Option<Chunk> {
        if self.piece.is_empty() { self.body.take_last(least_bytes) } else { None }
    }
}
