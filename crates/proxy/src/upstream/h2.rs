//! HTTP/2 towards a server, begun on a connection that is open.

use std::rc::Rc;

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use net::Chunk;
use transport::Transport;

use super::STREAMS_PER_CONNECTION;
use crate::http2::floods::Floods;
use crate::http2::frames::{Noticed, Sender};
use crate::http2::io::H2Io;
use crate::http2::windows::{Growth, Size, Windows};

/// Bytes an upstream may send on one stream ahead of the client, at first.
const STREAM_WINDOW: u32 = 64 * 1024;
/// That of all its streams: a client that does not read its responses takes nothing from the streams of others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_PER_CONNECTION as u32;

/// Windows of a stream that `limits.max_receive_window` is: as there are so many streams, theirs grow less than those of clients.
pub const STREAMS_PER_WINDOW: u32 = 16;

/// What small DATA frames that wait to be read may take beyond the window, in the library's units: 256 for each. Enough for a full window of small
/// messages on several streams; beyond it the library ends the connection.
const SMALL_FRAMES: usize = 256 * 256 * 1024;

type Opened = (SendRequest<Bytes>, Connection<H2Io, Bytes>, Rc<Noticed>);

/// Opens HTTP/2 on a transport.
///
/// # Errors
/// The transport broke.
pub async fn open(transport: Rc<Transport>) -> Result<Opened, h2::Error> {
    let (io, noticed) = H2Io::new(transport, Chunk::empty(), Sender::Upstream, Floods::unbounded());
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        // Streams that were reset are remembered for a while, so that a response that was under way is no news; one that comes later is reset again. Neither is
        // an error of a server's, so that there is no number of them that ends the connection and all that is on it.
        .max_concurrent_reset_streams(STREAMS_PER_CONNECTION)
        .max_local_error_reset_streams(None)
        .data_frame_budget(SMALL_FRAMES);
    let (sender, connection) = builder.handshake(io).await?;
    Ok((sender, connection, noticed))
}

/// The windows of a connection just opened.
pub fn windows(connection: &mut Connection<H2Io, Bytes>, growth: Growth) -> Windows {
    let first = Size { stream: STREAM_WINDOW, connection: CONNECTION_WINDOW };
    Windows::new(first, growth, connection.ping_pong())
}
