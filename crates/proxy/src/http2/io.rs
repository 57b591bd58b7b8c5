//! A transport as the `h2` crate wants it, with a look at the frames that come in (`h2_frames`, `h2_blocks`).

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use net::Chunk;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use transport::Transport;

use crate::http2::floods::{Floods, Written};
use crate::http2::frames::{Frames, Noticed, Seen, Sender};
use crate::http2::outbox::Outbox;

/// A transport for the `h2` crate.
#[derive(Debug)]
pub struct H2Io {
    transport: Rc<Transport>,
    sender: Sender,
    input: Chunk,
    /// How much of the input goes on, and how much behind it was taken.
    seen: Seen,
    /// What goes on in the place of what was taken, and how much of it has gone.
    instead: (Vec<u8>, usize),
    frames: Frames,
    written: Written,
    noticed: Rc<Noticed>,
    /// What waits to be sent to a client; upstreams are bounded per stream.
    outbox: Option<Rc<Outbox>>,
}

impl H2Io {
    /// Wraps a transport whose peer is `sender` and has sent `input` already. What is noticed of its frames is shared with those who work on the
    /// messages.
    pub fn new(transport: Rc<Transport>, input: Chunk, sender: Sender, floods: Floods) -> (H2Io, Rc<Noticed>) {
        let noticed = Rc::new(Noticed::new(floods));
        noticed.count_heard(input.len());
        let (seen, instead, written) = (Seen { passed: 0, taken: 0 }, (Vec::new(), 0), Written::default());
        let frames = Frames::new(sender);
        let io = H2Io {
            transport,
            sender,
            input,
            seen,
            instead,
            frames,
            written,
            noticed: Rc::clone(&noticed),
            outbox: None,
        };
        (io, noticed)
    }

    /// Bounds what waits to be sent. Shared with those who send.
    pub fn with_outbox(mut self, outbox: &Rc<Outbox>) -> H2Io {
        self.outbox = Some(Rc::clone(outbox));
        self
    }

    /// Notes how a write went.
    fn note<T>(&self, polled: &Poll<io::Result<T>>) {
        self.noticed.floods.set_blocked(polled.is_pending());
        let Some(outbox) = &self.outbox else { return };
        outbox.set_blocked(polled.is_pending());
        if matches!(polled, Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::TimedOut) {
            outbox.time_out();
        }
    }

    /// Gives what goes on of the bytes that were looked at, in their order. False if there is none.
    fn give(&mut self, out: &mut ReadBuf<'_>) -> bool {
        if self.seen.passed > 0 {
            let count = self.seen.passed.min(out.remaining());
            out.put_slice(self.input.get(..count).unwrap_or_default());
            self.input.advance(count);
            self.seen.passed -= count;
        } else {
            self.input.advance(std::mem::take(&mut self.seen.taken));
            let (bytes, gone) = &mut self.instead;
            let rest = bytes.get(*gone..).unwrap_or_default();
            if rest.is_empty() {
                self.instead = (Vec::new(), 0);
                return false;
            }
            let (now, _) = rest.split_at(rest.len().min(out.remaining()));
            out.put_slice(now);
            *gone += now.len();
        }
        if self.seen == (Seen { passed: 0, taken: 0 }) && self.input.is_empty() {
            self.input = Chunk::empty();
        }
        true
    }
}

impl Drop for H2Io {
    fn drop(&mut self) {
        if let Some(outbox) = &self.outbox {
            outbox.close();
        }
    }
}

impl AsyncRead for H2Io {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let io = &mut *self;
        io.noticed.floods.set_drained(true);
        while !io.give(out) {
            if io.noticed.floods.is_flooded() {
                // Whoever drives the connection looks for this, and ends it.
                return Poll::Pending;
            }
            if io.noticed.floods.is_turn_over() {
                // To be polled again once the worker has looked for what has arrived on others, and not before.
                let _ = pin!(tokio::task::yield_now()).poll(context);
                return Poll::Pending;
            }
            if io.input.is_empty() {
                io.input = Chunk::empty();
                let count = ready!(io.transport.poll_recv_more(context, &mut io.input))?;
                if count == 0 {
                    return Poll::Ready(Ok(()));
                }
                io.noticed.count_heard(count);
            }
            io.seen = io.frames.see(&io.input, &io.noticed, &mut io.instead.0);
        }
        io.noticed.floods.set_drained(false);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for H2Io {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let io = &mut *self;
        let sent = io.transport.poll_send(context, bytes).map_err(io::Error::from);
        io.note(&sent);
        let count = ready!(sent)?;
        io.noticed.count_sent(count);
        let data = io.written.see(bytes.get(..count).unwrap_or_default(), &io.noticed.floods);
        if let Some(outbox) = &io.outbox {
            outbox.wrote(data);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.transport.poll_flush(context);
        self.note(&flushed);
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.transport.poll_flush(context))?;
        // A client gets close_notify first, and what it still sends is read: else the connection would be reset and the farewell lost.
        if self.sender == Sender::Upstream {
            self.transport.stream().shutdown_write();
        }
        Poll::Ready(Ok(()))
    }
}
