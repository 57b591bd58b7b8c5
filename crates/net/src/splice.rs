//! Moving bytes from one socket to another inside the kernel (splice(2)), through pipes from a pool per thread.
//!
//! Owns pipes and how they are filled and drained. Does not decide when that is worth it: for a few bytes a copy is cheaper.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::pool::{self, Pool};
use crate::stream::Stream;

/// Bytes a pipe holds, if the kernel allows it; it falls back to its own 64 KiB.
pub const PIPE_BYTES: usize = 256 * 1024;

/// Empty pipes kept per thread for reuse: two descriptors each.
const POOLED_PIPES: usize = 32;

thread_local! {
    static POOL: RefCell<Pool<(OwnedFd, OwnedFd)>> = const { RefCell::new(Pool::new(POOLED_PIPES)) };
}

/// A pipe between two sockets. It goes back to its pool when it is dropped empty.
#[derive(Debug)]
pub struct Pipe {
    /// Reading and writing end; none only while it is dropped.
    ends: Option<(OwnedFd, OwnedFd)>,
    held: usize,
}

impl Pipe {
    /// An empty pipe from this thread's pool.
    ///
    /// # Errors
    /// No descriptors, or no memory for pipes.
    pub fn take() -> io::Result<Pipe> {
        if let Some(ends) = pool::take(&POOL) {
            return Ok(Pipe { ends: Some(ends), held: 0 });
        }
        let ends = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Rejected beyond the user's share of pipe memory: then it stays as small as it is.
        let _ = fcntl_setpipe_size(&ends.1, PIPE_BYTES);
        Ok(Pipe { ends: Some(ends), held: 0 })
    }

    /// Bytes in it.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes what `from` has, into an empty pipe; 0 at the peer's end.
    pub fn poll_fill(&mut self, context: &mut Context<'_>, from: &Stream) -> Poll<io::Result<usize>> {
        let Some((_, writer)) = &self.ends else { return Poll::Ready(Ok(0)) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let filled = from.poll_read_with(context, |socket| splice(socket, None, writer, None, PIPE_BYTES, flags));
        if let Poll::Ready(Ok(count)) = filled {
            self.held += count;
        }
        filled
    }

    /// Gives `to` what it takes at once, waiting until it takes something.
    pub fn poll_drain(&mut self, context: &mut Context<'_>, to: &Stream) -> Poll<io::Result<usize>> {
        let Some((reader, _)) = &self.ends else { return Poll::Ready(Ok(0)) };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let held = self.held;
        let drained = to.poll_write_with(context, |socket| splice(reader, None, socket, None, held, flags));
        if let Poll::Ready(Ok(count)) = drained {
            self.held -= count.min(held);
        }
        drained
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let Some(ends) = self.ends.take() else { return };
        if self.held == 0 {
            pool::give(&POOL, ends);
        }
    }
}
