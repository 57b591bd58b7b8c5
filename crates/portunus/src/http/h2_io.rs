//! A transport as the `h2` crate wants it, counting frames on the way in.
//!
//! The crate answers PING and SETTINGS, and bookkeeps PRIORITY and WINDOW_UPDATE, without asking whether it is being made to work for
//! nothing. Frames are counted by their nine-byte heads (RFC 9113 §4.1) as the bytes pass.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use net::Chunk;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::Transport;

/// Frames that bring nothing a client may send at once.
const CREDIT: i64 = 1000;

/// Credit that comes back per second.
const REFILL_PER_SECOND: i64 = 100;

/// Bytes we send that give one credit back: a client must acknowledge what it receives with WINDOW_UPDATE.
const BYTES_PER_CREDIT: u64 = 2048;

/// Length of a frame head.
const FRAME_HEAD: usize = 9;

/// The connection preface of the client (RFC 9113 §3.4).
const PREFACE: usize = 24;

/// How much a client has made us work for nothing.
#[derive(Debug)]
pub struct Floods {
    credit: Cell<i64>,
    refilled: Cell<Instant>,
    sent: Cell<u64>,
}

impl Floods {
    /// Whether the client has used up its credit.
    pub fn is_flooded(&self) -> bool {
        self.credit.get() < 0
    }

    fn give(&self, credit: i64) {
        self.credit.set((self.credit.get() + credit).min(CREDIT));
    }

    /// Counts one frame by its type, flags and length.
    fn count(&self, kind: u8, flags: u8, length: usize) {
        const END_STREAM: u8 = 1;
        let cost = match kind {
            // DATA: only empty frames that end nothing are free work.
            0 if length > 0 || flags & END_STREAM != 0 => return,
            // HEADERS pays for a few control frames of its own stream.
            1 => return self.give(2),
            // RST_STREAM: a request begun and thrown away.
            3 => 10,
            // PRIORITY, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION, empty DATA, unknown ones.
            _ => 1,
        };
        if self.credit.get() < cost {
            let seconds = i64::try_from(self.refilled.replace(Instant::now()).elapsed().as_secs()).unwrap_or(0);
            self.give(seconds.saturating_mul(REFILL_PER_SECOND).min(CREDIT));
        }
        self.credit.set(self.credit.get() - cost);
    }

    fn count_sent(&self, bytes: usize) {
        let before = self.sent.get();
        let after = before + bytes as u64;
        self.sent.set(after);
        let credits = after / BYTES_PER_CREDIT - before / BYTES_PER_CREDIT;
        if credits > 0 {
            self.give(i64::try_from(credits).unwrap_or(CREDIT));
        }
    }
}

/// Finds frame heads in a byte stream that arrives in any pieces.
#[derive(Debug)]
struct FrameHeads {
    /// Bytes until the next head.
    skip: usize,
    head: [u8; FRAME_HEAD],
    held: usize,
}

impl FrameHeads {
    fn new() -> FrameHeads {
        FrameHeads { skip: PREFACE, head: [0; FRAME_HEAD], held: 0 }
    }

    fn see(&mut self, mut bytes: &[u8], floods: &Floods) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let wanted = (FRAME_HEAD - self.held).min(bytes.len());
            let (taken, rest) = bytes.split_at(wanted);
            self.head.iter_mut().skip(self.held).zip(taken).for_each(|(held, byte)| *held = *byte);
            self.held += wanted;
            bytes = rest;
            if self.held == FRAME_HEAD {
                let [high, middle, low, kind, flags, ..] = self.head;
                let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                floods.count(kind, flags, length);
                self.skip = length;
                self.held = 0;
            }
        }
    }
}

/// A transport for the `h2` crate.
#[derive(Debug)]
pub struct H2Io {
    transport: Rc<Transport>,
    input: Chunk,
    heads: FrameHeads,
    floods: Rc<Floods>,
}

impl H2Io {
    /// Wraps a transport; the count of floods is shared with whoever judges them.
    pub fn new(transport: Rc<Transport>) -> (H2Io, Rc<Floods>) {
        let floods =
            Rc::new(Floods { credit: Cell::new(CREDIT), refilled: Cell::new(Instant::now()), sent: Cell::new(0) });
        let io = H2Io { transport, input: Chunk::empty(), heads: FrameHeads::new(), floods: Rc::clone(&floods) };
        (io, floods)
    }
}

impl AsyncRead for H2Io {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let io = &mut *self;
        if io.input.is_empty() {
            let count = ready!(io.transport.poll_recv_more(context, &mut io.input))?;
            if count == 0 {
                return Poll::Ready(Ok(()));
            }
            io.heads.see(&io.input, &io.floods);
        }
        let count = io.input.len().min(out.remaining());
        out.put_slice(io.input.get(..count).unwrap_or_default());
        io.input.advance(count);
        if io.input.is_empty() {
            io.input = Chunk::empty();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for H2Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(self.transport.poll_send(context, bytes))?;
        self.floods.count_sent(count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.transport.poll_flush(context))?;
        self.transport.stream().shutdown_write();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0, (payload >> 8) as u8, payload as u8, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD + payload, 0xaa);
        frame
    }

    fn check(frames: &[Vec<u8>], piece: usize) -> i64 {
        let floods = Floods { credit: Cell::new(CREDIT), refilled: Cell::new(Instant::now()), sent: Cell::new(0) };
        let mut heads = FrameHeads::new();
        let mut bytes = vec![b'P'; PREFACE];
        frames.iter().for_each(|frame| bytes.extend_from_slice(frame));
        bytes.chunks(piece).for_each(|piece| heads.see(piece, &floods));
        CREDIT - floods.credit.get()
    }

    #[test]
    fn frames_are_found_however_they_are_split() {
        let frames =
            [frame(4, 0, 18), frame(1, 5, 300), frame(6, 0, 8), frame(0, 0, 0), frame(0, 0, 1000), frame(8, 0, 4)];
        for piece in [1, 7, 9, 10, 4096] {
            // SETTINGS and HEADERS cancel out up to the cap; PING, empty DATA and WINDOW_UPDATE remain.
            assert_eq!(check(&frames, piece), 3, "pieces of {piece}");
        }
    }

    #[test]
    fn resets_weigh_more_than_pings() {
        assert_eq!(check(&vec![frame(6, 0, 8); 50], 4096), 50);
        assert_eq!(check(&vec![frame(3, 0, 4); 50], 4096), 500);
        assert_eq!(check(&vec![frame(0, 1, 0); 50], 4096), 0);
    }
}
