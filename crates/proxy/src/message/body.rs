//! Message bodies of HTTP/1 connections, read and written piece by piece (RFC 9112 §6, §7).
//!
//! A piece is lent until the next call, so that bytes go from the receiving chunk to the other side without a copy. Whatever the
//! framing was on one side, it is made anew on the other.

use net::Chunk;
use reason::Reason;
use transport::{Broken, Transport, buffer, recycle};
use wire::http::chunked::{write_chunk_head, write_last_chunk};
use wire::http::{BodyFraming, ChunkEvent, ChunkedDecoder, Fields, HeadError};

use crate::message::rejection::Rejection;

/// Why a body could not be read to its end.
#[derive(Debug)]
pub enum BodyError {
    /// The connection broke.
    Broken,
    /// The peer ended before the body did.
    Truncated,
    /// The chunked coding was violated.
    Malformed(HeadError),
    /// It is no message of HTTP/2, for this reason: its stream ends and nothing is answered (RFC 9113 §8.1.1).
    Void(Reason),
    /// It breaks the contract it is under.
    Validated(Box<Rejection>),
}

/// Where reading stands.
#[derive(Debug)]
enum State {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Done,
}

/// Reads one body from a connection whose first unread bytes are in a chunk.
#[derive(Debug)]
pub struct BodyReader<'c> {
    transport: &'c Transport,
    input: &'c mut Chunk,
    state: State,
    /// Bytes of `input` that were lent by the last call and are dropped by the next.
    lent: usize,
    /// The body bytes among them.
    piece: std::ops::Range<usize>,
    trailers: Option<Fields>,
}

impl<'c> BodyReader<'c> {
    /// A reader at the start of a body framed like this. `input` holds what was received behind the head.
    pub fn new(transport: &'c Transport, input: &'c mut Chunk, framing: BodyFraming) -> BodyReader<'c> {
        let state = match framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Chunked(Box::new(ChunkedDecoder::new())),
            BodyFraming::UntilClose => State::UntilClose,
        };
        BodyReader { transport, input, state, lent: 0, piece: 0..0, trailers: None }
    }

    /// As [`BodyReader::new`], for what an upstream sends: names of its trailers may hold `_`.
    pub fn for_response(transport: &'c Transport, input: &'c mut Chunk, framing: BodyFraming) -> BodyReader<'c> {
        let mut reader = BodyReader::new(transport, input, framing);
        if let State::Chunked(decoder) = &mut reader.state {
            **decoder = ChunkedDecoder::for_response();
        }
        reader
    }

    /// Whether the body has been read to its end.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Bytes still to come, where the framing tells.
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Done => Some(0),
            State::Length(rest) => Some(rest),
            State::Chunked(_) | State::UntilClose => None,
        }
    }

    /// Whether at most so many bytes are still to come. Where the framing does not tell: whether the end is at hand, behind at most so many, which are
    /// dropped.
    pub fn ends_within(&mut self, most: u64) -> bool {
        if let Some(rest) = self.remaining() {
            return rest <= most;
        }
        let mut dropped = 0;
        self.piece = 0..0;
        self.input.advance(std::mem::take(&mut self.lent));
        while !self.is_done() && !self.input.is_empty() && dropped <= most {
            match self.step() {
                Ok(piece) => dropped += piece.map_or(0, |piece| piece.len() as u64),
                Err(_) => return false,
            }
            self.input.advance(std::mem::take(&mut self.lent));
        }
        self.is_done() && dropped <= most
    }

    /// The trailers, once the body is done, if it had any.
    pub fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }

    /// Whether it had some that nobody has taken.
    pub fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    /// Whether the next piece is there already, so that [`BodyReader::next`] will not wait.
    pub fn has_input(&self) -> bool {
        self.input.len() > self.lent
    }

    /// The next piece, never empty; none at the end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// See [`BodyError`]. The connection must not be used for another message.
    pub async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        self.input.advance(std::mem::take(&mut self.lent));
        self.piece = 0..0;
        loop {
            if !self.input.is_empty()
                && let Some(range) = self.step()?
            {
                self.piece = range.clone();
                return Ok(self.input.get(range));
            }
            if self.is_done() {
                return Ok(None);
            }
            if self.input.is_empty() {
                // Memory goes back to the pool while we wait.
                *self.input = Chunk::empty();
            }
            if self.transport.recv_more(self.input).await.map_err(|_| BodyError::Broken)? == 0 {
                if !matches!(self.state, State::UntilClose) || !self.transport.ended_orderly() {
                    return Err(BodyError::Truncated);
                }
                self.state = State::Done;
            }
        }
    }

    /// Lends all of the body, if nothing was read of it yet, its length is known and all of it was received.
    pub fn whole(&mut self) -> Option<&[u8]> {
        let rest = self.remaining().filter(|_| self.lent == 0 && self.trailers.is_none())?;
        if rest > 0 {
            if (self.input.len() as u64) < rest {
                return None;
            }
            self.piece = self.step().ok()??;
        }
        Some(self.last())
    }

    /// The piece that was lent last; nothing at the end.
    pub fn last(&self) -> &[u8] {
        self.input.get(self.piece.clone()).unwrap_or_default()
    }

    /// The memory in which the piece lies that was lent last, if there is nothing else in it and the piece has at least that many bytes.
    pub fn take_last(&mut self, least_bytes: usize) -> Option<Chunk> {
        let whole = self.piece.start == 0 && self.piece.end == self.input.len() && self.lent == self.input.len();
        if !whole || self.piece.is_empty() || self.piece.len() < least_bytes {
            return None;
        }
        self.lent = 0;
        self.piece = 0..0;
        Some(std::mem::replace(self.input, Chunk::empty()))
    }

    /// Takes one step over the received bytes; gives the range of body bytes, if there are any yet.
    fn step(&mut self) -> Result<Option<std::ops::Range<usize>>, BodyError> {
        match &mut self.state {
            State::Done => Ok(None),
            State::UntilClose => {
                self.lent = self.input.len();
                Ok(Some(0..self.lent))
            }
            State::Length(rest) => {
                let count = self.input.len().min(usize::try_from(*rest).unwrap_or(usize::MAX));
                *rest -= count as u64;
                if *rest == 0 {
                    self.state = State::Done;
                }
                self.lent = count;
                Ok(Some(0..count))
            }
            State::Chunked(decoder) => match decoder.step(self.input).map_err(BodyError::Malformed)? {
                ChunkEvent::NeedMore => {
                    self.input.advance(usize::MAX);
                    Ok(None)
                }
                ChunkEvent::Data { offset, len, consumed } => {
                    self.lent = consumed;
                    Ok(Some(offset..offset + len))
                }
                ChunkEvent::End { consumed } => {
                    self.input.advance(consumed);
                    if !decoder.trailers().is_empty() {
                        self.trailers = Some(decoder.trailers().clone());
                    }
                    self.state = State::Done;
                    Ok(None)
                }
            },
        }
    }
}

impl Drop for BodyReader<'_> {
    fn drop(&mut self) {
        self.input.advance(self.lent);
    }
}

/// Writes one body with its framing.
#[derive(Debug)]
pub struct BodyWriter<'c> {
    transport: &'c Transport,
    framing: BodyFraming,
}

impl<'c> BodyWriter<'c> {
    /// A writer at the start of a body framed like this.
    pub fn new(transport: &'c Transport, framing: BodyFraming) -> BodyWriter<'c> {
        BodyWriter { transport, framing }
    }

    /// Whether the next piece of this length is the last one, where the framing tells.
    pub fn is_last(&self, piece: usize) -> bool {
        matches!(self.framing, BodyFraming::Length(rest) if rest == piece as u64)
    }

    /// Whether nothing is left to write but what ends the body.
    pub fn is_at_end(&self) -> bool {
        matches!(self.framing, BodyFraming::None | BodyFraming::Length(0))
    }

    /// Writes `before` (a head, or nothing) and one piece of the body, together.
    ///
    /// # Errors
    /// The connection broke, or the body is longer than its declared length, which is a bug of the side it came from.
    pub async fn write(&mut self, before: &[u8], piece: &[u8]) -> Result<(), Broken> {
        if piece.is_empty() {
            return self.transport.send(before).await;
        }
        match &mut self.framing {
            BodyFraming::None => self.transport.send(before).await,
            BodyFraming::UntilClose => self.transport.send_slices([before, piece, &[]]).await,
            BodyFraming::Length(rest) => {
                let Some(left) = rest.checked_sub(piece.len() as u64) else {
                    return Err(Broken::Socket(std::io::ErrorKind::InvalidData.into()));
                };
                *rest = left;
                self.transport.send_slices([before, piece, &[]]).await
            }
            BodyFraming::Chunked => {
                let mut head = buffer();
                head.extend_from_slice(before);
                write_chunk_head(piece.len(), &mut head);
                let sent = self.transport.send_slices([&head, piece, b"\r\n"]).await;
                recycle(head);
                sent
            }
        }
    }

    /// Writes `before` (a head, or nothing), the last piece of the body (or nothing) and its end, together.
    ///
    /// # Errors
    /// As [`BodyWriter::write`] and [`BodyWriter::end`].
    pub async fn finish(&mut self, before: &[u8], piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken> {
        if self.framing != BodyFraming::Chunked {
            self.write(before, piece).await?;
            return self.end(trailers).await;
        }
        let (mut head, mut last) = (buffer(), buffer());
        head.extend_from_slice(before);
        if !piece.is_empty() {
            write_chunk_head(piece.len(), &mut head);
            last.extend_from_slice(b"\r\n");
        }
        write_last_chunk(trailers, &mut last);
        let sent = self.transport.send_slices([&head, piece, &last]).await;
        recycle(head);
        recycle(last);
        sent
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The connection broke, or fewer bytes were written than declared.
    pub async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Broken> {
        match self.framing {
            BodyFraming::Length(rest) if rest > 0 => Err(Broken::Socket(std::io::ErrorKind::UnexpectedEof.into())),
            BodyFraming::Chunked => {
                let mut last = buffer();
                write_last_chunk(trailers, &mut last);
                let sent = self.transport.send(&last).await;
                recycle(last);
                sent
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::net::UnixStream;

    use net::Stream;

    use super::*;

    /// Hands a reader of a body framed like this, of which that much was received, to `check`; gives what is left unread.
    fn reading(framing: BodyFraming, received: &[u8], check: impl AsyncFnOnce(&mut BodyReader<'_>)) -> Vec<u8> {
        let mut input = Chunk::take();
        input.spare_mut().get_mut(..received.len()).unwrap().copy_from_slice(received);
        input.filled(received.len());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let (ours, _theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let transport = Transport::plain(Stream::new(ours.into()).unwrap());
            check(&mut BodyReader::new(&transport, &mut input, framing)).await;
        });
        input.to_vec()
    }

    #[test]
    fn a_body_that_was_received_is_lent_whole_and_what_follows_stays() {
        let left = reading(BodyFraming::Length(4), b"bodyGET /next", async |body| {
            assert_eq!(body.whole(), Some(&b"body"[..]));
            assert!(body.is_done());
            assert_eq!(body.whole(), None, "it was lent already");
        });
        assert_eq!(left, b"GET /next");
        let left = reading(BodyFraming::None, b"GET /next", async |body| assert_eq!(body.whole(), Some(&b""[..])));
        assert_eq!(left, b"GET /next");
    }

    #[test]
    fn a_body_is_not_lent_whole_before_its_end_is_known() {
        let short = reading(BodyFraming::Length(5), b"body", async |body| {
            assert_eq!(body.whole(), None);
            assert_eq!(body.remaining(), Some(5), "and nothing was read of it");
        });
        assert_eq!(short, b"body");
        for framing in [BodyFraming::UntilClose, BodyFraming::Chunked] {
            let left = reading(framing, b"0\r\n\r\n", async |body| assert_eq!(body.whole(), None));
            assert_eq!(left, b"0\r\n\r\n");
        }
    }

    #[test]
    fn trailers_are_not_passed_over() {
        reading(BodyFraming::Chunked, b"0\r\nChecksum: 1\r\n\r\n", async |body| {
            assert!(body.next().await.unwrap().is_none());
            assert_eq!(body.whole(), None);
            assert_eq!(body.trailers().unwrap().len(), 1);
        });
    }
}
