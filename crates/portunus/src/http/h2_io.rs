//! A transport as the `h2` crate wants it, with a look at the frames that come in (`h2_frames`).

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use net::Chunk;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::h2_frames::{Frames, Noticed, Sender};
use crate::transport::Transport;

/// A transport for the `h2` crate.
#[derive(Debug)]
pub struct H2Io {
    transport: Rc<Transport>,
    input: Chunk,
    frames: Frames,
    noticed: Rc<Noticed>,
}

impl H2Io {
    /// Wraps a transport whose peer is `sender`. What is noticed of its frames is shared with those who work on the messages.
    pub fn new(transport: Rc<Transport>, sender: Sender) -> (H2Io, Rc<Noticed>) {
        let (frames, noticed) = Frames::new(sender);
        let noticed = Rc::new(noticed);
        (H2Io { transport, input: Chunk::empty(), frames, noticed: Rc::clone(&noticed) }, noticed)
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
            io.frames.see(&io.input, &io.noticed);
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
        self.noticed.count_sent(count);
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
