//! Reading into one buffer per thread, so that a connection that waits holds none.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Enough for four TLS records, or one socket buffer's worth at a time.
const BUFFER_BYTES: usize = 64 * 1024;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_BYTES].into_boxed_slice());
}

/// Waits until there is something to read and hands it to `take` while it lies in the shared buffer. An empty slice is the end of the stream.
///
/// # Errors
/// Those of the socket.
pub(crate) async fn read_shared<S, T>(stream: &mut S, mut take: impl FnMut(&[u8]) -> T) -> io::Result<T>
where
    S: AsyncRead + Unpin,
{
    poll_fn(|context| {
        BUFFER.with_borrow_mut(|buffer| {
            let mut filled = ReadBuf::new(buffer);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut filled))?;
            Poll::Ready(Ok(take(filled.filled())))
        })
    })
    .await
}
