//! What an exchange needs of both sides, whichever version each of them speaks.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use net::Chunk;
use net::clock::precise;
use net::pace::Pace;
use reason::Reason;
use transport::Broken;
use wire::http::{BodyFraming, Fields, ResponseHead};

use crate::delivery::StreamTaken;
use crate::message::body::{BodyError, BodyReader, BodyWriter};
use crate::policies::Throttles;
use crate::policies::cors::Decoration;

/// A body as it arrives: a request's from the client, a response's from the upstream.
pub trait MessageBody {
    /// Whether it has been read to its end.
    fn is_done(&self) -> bool;

    /// Whether at most so many bytes of it are still to come; without a known length, whether its end is at hand, behind at most so many, which are
    /// dropped. Where the next message does not wait for it, it does not matter.
    fn ends_within(&mut self, _most: u64) -> bool {
        true
    }

    /// Whether the next piece is there already.
    fn has_input(&self) -> bool;

    /// Lends all of it at once, if it is at hand and the framing tells that it is all: nothing of it is left then.
    fn whole(&mut self) -> Option<&[u8]> {
        None
    }

    /// When the piece that was lent last may go on (on the precise clock), if not yet, because bandwidth is limited.
    fn waits_until(&self) -> Option<Duration> {
        None
    }

    /// The next piece, lent until the next call; none at the end.
    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError>;

    /// Trailers, after the end.
    fn trailers(&mut self) -> Option<Fields>;

    /// Whether trailers are here that nobody has taken: then a body that is done is not all that there is to send.
    fn has_trailers(&self) -> bool {
        false
    }

    /// The piece that was lent last.
    fn last(&self) -> &[u8];

    /// Whether that piece is known to be the rest of the message, so that nobody has to ask for its end.
    fn was_last(&self) -> bool {
        false
    }

    /// The memory in which that piece lies, where it can be had without a copy and has at least that many bytes of it.
    fn take_last(&mut self, least_bytes: usize) -> Option<Chunk>;
}

/// Where a request's body goes.
pub trait BodySink {
    /// Writes `before` (a head, or nothing) and one piece of the body, together.
    async fn write(&mut self, before: &[u8], piece: &[u8]) -> Result<(), Broken>;

    /// Writes `before`, the last piece of the body (or nothing) and its end, together.
    async fn finish(&mut self, before: &[u8], piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken>;
}

/// A body whose stream may become a tunnel.
pub trait TunnelBody: MessageBody {
    /// The tunnel is open: what comes next is for it.
    fn begin_tunnel(&mut self);
}

/// A response whose stream may become a tunnel.
pub trait TunnelSink: ResponseSink {
    /// The client may rest for as long as its tunnel may.
    fn begin_tunnel(&mut self, idle: Duration);

    /// What tells how much the client has taken on this stream.
    fn taken(&self) -> StreamTaken;

    /// Waits until all that was handed over is with the client, or on a socket that keeps its order: a reset would drop it. Bounds are the caller's, but
    /// for those that hold for every write to the client.
    async fn delivered(&mut self);
}

/// The answer to a request as it is written: begin, fields, finish the head, pieces, end.
///
/// Whatever is sent is bounded by how slowly the client may take it: that fails with `TimedOut`.
pub trait ResponseSink: Sized {
    /// Sets how slowly the client may take what is sent from now on.
    fn pace(&mut self, pace: Pace);

    /// Sets how fast the body may go to the client.
    fn throttle(&mut self, _throttles: &Throttles) {}

    /// How fast that is, where it was set.
    fn throttles(&self) -> Option<&Throttles> {
        None
    }

    /// Whether the client understands interim responses.
    fn takes_interim(&self) -> bool;

    /// Sends an interim (1xx) answer.
    async fn interim(&mut self, head: &ResponseHead) -> Result<(), Broken>;

    /// Notes that no further message may follow on this connection, where a connection carries one at a time.
    fn be_last(&mut self);

    /// Has the final response bear these fields, too, whoever makes it, in place of others of their kind.
    fn decorate(&mut self, decoration: Decoration);

    /// Begins the head.
    fn begin(&mut self, status: u16);

    /// Adds a field.
    fn field(&mut self, name: &[u8], value: &[u8]);

    /// Ends the head. `framing` tells what body follows; `declared_length` is the Content-Length of a response that has no body but says how long
    /// it would be (HEAD, 304). Nothing is sent yet.
    fn finish_head(&mut self, framing: BodyFraming, declared_length: Option<&[u8]>);

    /// Ends a head that has begun with 101: the client's bytes are another protocol's from here on. Nothing is sent yet.
    fn switch(&mut self, protocol: &[u8]);

    /// Sends what is written so far.
    async fn flush(&mut self) -> Result<(), Broken>;

    /// Whether so many bytes of the body would be taken now. Pieces that would not are not joined.
    fn has_capacity(&mut self, _bytes: usize) -> bool {
        true
    }

    /// Sends a piece of the body as fast as that may go, together with the head if that is still unsent.
    async fn piece(&mut self, piece: &[u8]) -> Result<(), Broken> {
        if self.throttles().is_some_and(|throttles| throttles.down().is_some()) {
            return Box::pin(trickle(self, piece)).await;
        }
        self.piece_now(piece).await
    }

    /// The same, however fast.
    async fn piece_now(&mut self, piece: &[u8]) -> Result<(), Broken>;

    /// Ends the body.
    async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Broken>;

    /// Sends the last piece of the body (or nothing) and its end, together.
    async fn last(&mut self, piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken>;

    /// Whether the head is out, so that nothing else can be answered.
    fn has_begun(&self) -> bool;

    /// The address that the client's connection has reached; none of a Unix socket.
    fn reached(&self) -> Option<SocketAddr>;

    /// Ready when the client does not wait for the response any more, with the word for it.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<Reason>;
}

/// Waits for `output` only while the client waits for its response; else gives the word for how it went.
pub async fn while_wanted<T>(
    mut output: Pin<Box<impl Future<Output = T>>>,
    sink: &mut impl ResponseSink,
) -> Result<T, Reason> {
    poll_fn(|context| match output.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => sink.poll_gone(context).map(Err),
    })
    .await
}

/// The body of a message without one.
#[derive(Debug)]
pub struct NoBody;

impl MessageBody for NoBody {
    fn is_done(&self) -> bool {
        true
    }

    fn has_input(&self) -> bool {
        false
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        Ok(None)
    }

    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    fn last(&self) -> &[u8] {
        &[]
    }

    fn take_last(&mut self, _least_bytes: usize) -> Option<Chunk> {
        None
    }
}

/// A body that is here.
pub struct Piece<'p> {
    piece: Option<&'p [u8]>,
    lent: &'p [u8],
}

impl<'p> Piece<'p> {
    /// A body of these bytes.
    pub fn new(bytes: &'p [u8]) -> Piece<'p> {
        Piece { piece: Some(bytes).filter(|bytes| !bytes.is_empty()), lent: &[] }
    }
}

impl MessageBody for Piece<'_> {
    fn is_done(&self) -> bool {
        self.piece.is_none()
    }

    fn has_input(&self) -> bool {
        self.piece.is_some()
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        self.lent = self.piece.take().unwrap_or_default();
        Ok(Some(self.lent).filter(|piece| !piece.is_empty()))
    }

    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    fn last(&self) -> &[u8] {
        self.lent
    }

    fn take_last(&mut self, _least_bytes: usize) -> Option<Chunk> {
        None
    }
}

/// Waits until a moment on the precise clock.
pub async fn sleep_until(moment: Duration) {
    tokio::time::sleep(moment.saturating_sub(precise())).await;
}

/// Sends a piece of a body as fast as its throttle lets it.
async fn trickle(sink: &mut impl ResponseSink, piece: &[u8]) -> Result<(), Broken> {
    let throttles = sink.throttles().cloned().unwrap_or_default();
    let Some(throttle) = throttles.down() else { return sink.piece_now(piece).await };
    for slice in piece.chunks(throttle.slice()) {
        let reserved = throttle.reserve(slice.len());
        if let Some(moment) = reserved.until() {
            // The client has all that was sent before, the head among it, while this waits.
            sink.flush().await?;
            let waited = while_wanted(Box::pin(sleep_until(moment)), sink).await;
            waited.map_err(|_| Broken::Socket(io::ErrorKind::ConnectionReset.into()))?;
        }
        sink.piece_now(slice).await?;
        reserved.used();
    }
    Ok(())
}

impl MessageBody for BodyReader<'_> {
    fn is_done(&self) -> bool {
        BodyReader::is_done(self)
    }

    fn was_last(&self) -> bool {
        BodyReader::is_done(self)
    }

    fn ends_within(&mut self, most: u64) -> bool {
        BodyReader::ends_within(self, most)
    }

    fn has_input(&self) -> bool {
        BodyReader::has_input(self)
    }

    fn whole(&mut self) -> Option<&[u8]> {
        BodyReader::whole(self)
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        BodyReader::next(self).await
    }

    fn trailers(&mut self) -> Option<Fields> {
        BodyReader::trailers(self)
    }

    fn has_trailers(&self) -> bool {
        BodyReader::has_trailers(self)
    }

    fn last(&self) -> &[u8] {
        BodyReader::last(self)
    }

    fn take_last(&mut self, least_bytes: usize) -> Option<Chunk> {
        BodyReader::take_last(self, least_bytes)
    }
}

impl BodySink for BodyWriter<'_> {
    async fn write(&mut self, before: &[u8], piece: &[u8]) -> Result<(), Broken> {
        BodyWriter::write(self, before, piece).await
    }

    async fn finish(&mut self, before: &[u8], piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken> {
        BodyWriter::finish(self, before, piece, trailers).await
    }
}
