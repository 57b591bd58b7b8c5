//! Messages of a gRPC stream (gRPC over HTTP/2: an octet of flags, four of length, the message), read one at a time within a bound, and written.

use wire::http::{BodyFraming, Fields};

use reason::Reason;

use crate::exchange::begin_own;
use crate::guard::Lease;
use crate::message::body::BodyError;
use crate::message::context::{Aborted, Context, Failure, client_failed};
use crate::message::ledger::Ledger;
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink};

/// What stands before each message.
const PREFIX_BYTES: usize = 5;

/// What a message has beside the body that it shows: fields, attributes, metadata.
const BESIDE_BODY_BYTES: u64 = 256 * 1024;

/// Reads messages from a body.
pub(super) struct Messages<'x, B> {
    body: &'x mut B,
    buffer: Vec<u8>,
    max_bytes: u64,
    lease: Lease<'x>,
}

impl<'x, B: MessageBody> Messages<'x, B> {
    /// Messages that show bodies of at most so many bytes. What is held of them counts as memory under validation.
    pub(super) fn new(body: &'x mut B, max_body_bytes: u64, context: Context<'x>) -> Messages<'x, B> {
        let max_bytes = max_body_bytes.saturating_add(BESIDE_BODY_BYTES);
        Messages { body, buffer: Vec::new(), max_bytes, lease: Lease::new(context) }
    }

    /// The next message; none at the end of the stream.
    ///
    /// # Errors
    /// What comes is no message, or is too large; or the stream broke.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            match self.body.next().await {
                Ok(Some(piece)) => self.buffer.extend_from_slice(piece),
                Ok(None) if self.buffer.is_empty() => return Ok(None),
                Ok(None) => return Err(Rejection::of(Reason::OriginalRequestMalformed).into()),
                Err(BodyError::Malformed(error)) => return Err(Rejection::from(error).into()),
                Err(_) => return Err(Failure::Aborted),
            }
            if self.lease.hold(self.buffer.len()).is_err() {
                return Err(Rejection::of(Reason::ValidationMemory).into());
            }
        }
    }

    fn take(&mut self) -> Result<Option<Vec<u8>>, Rejection> {
        let Some(([flags, length @ ..], rest)) = self.buffer.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        // Nobody was told that a compressed message can be read.
        if *flags != 0 {
            return Err(Rejection::of(Reason::OriginalRequestMalformed));
        }
        let length = u32::from_be_bytes(*length);
        if u64::from(length) > self.max_bytes {
            return Err(Rejection::of(Reason::BodyTooLarge));
        }
        let Some(message) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else { return Ok(None) };
        let message = message.to_vec();
        self.buffer.drain(..PREFIX_BYTES + message.len());
        Ok(Some(message))
    }
}

/// Begins a stream of messages to the client.
pub(super) fn begin(sink: &mut impl ResponseSink) {
    begin_own(sink, 200);
    sink.field(b"Content-Type", b"application/grpc");
    sink.finish_head(BodyFraming::Chunked, None);
}

/// Appends a message with what stands before it.
pub(super) fn put(message: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out.push(0);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
}

/// Ends a stream of messages well.
pub(super) async fn end(sink: &mut impl ResponseSink, ledger: &mut Ledger) -> Result<(), Failure> {
    let mut trailers = Fields::new();
    trailers.push(b"grpc-status", b"0");
    sink.end(Some(&trailers)).await.map_err(|broken| client_failed(&broken, ledger)).map_err(|Aborted| Failure::Aborted)
}

/// Answers with one message.
pub(super) async fn answer_one(
    sink: &mut impl ResponseSink,
    message: &[u8],
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    begin(sink);
    let mut out = Vec::with_capacity(PREFIX_BYTES + message.len());
    put(message, &mut out);
    sink.piece(&out).await.map_err(|broken| Failure::from(client_failed(&broken, ledger)))?;
    ledger.sent.set(out.len() as u64);
    end(sink, ledger).await
}
