//! A response on its way to a client that gets it compressed: its fields, its place in the memory for encoders, its body.
//!
//! Which responses are compressed is decided in `responses/compression.rs`. Where there is no room for another encoder, a response goes on as it is: to be
//! compressed is never owed to anybody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use config::Encoding;
use net::clock::coarse;
use net::{Chunk, Deadline};
use wire::http::{Fields, Method, ResponseHead};

use crate::message::body::BodyError;
use crate::message::context::Context;
use crate::message::encoder::{self, Encoder};
use crate::message::sides::{MessageBody, ResponseSink};
use crate::responses::{Compressible, Compression, Verdict, varies, weakened};

/// Output that goes on without waiting for more, bytes.
const ENOUGH_BYTES: usize = 8 * 1024;

/// How long a piece may wait in an encoder for the next one. Events do not wait.
const HELD_FOR: Duration = Duration::from_millis(20);

/// What becomes of a response, and what that takes.
pub(super) struct Compressing<'a> {
    verdict: Verdict,
    encoder: Option<(Encoder, Place<'a>)>,
    is_of_events: bool,
}

impl<'a> Compressing<'a> {
    /// The response goes on as it is.
    pub(super) fn none() -> Compressing<'a> {
        Compressing { verdict: Verdict::Untouched, encoder: None, is_of_events: false }
    }

    /// Decides on a response, and makes its encoder.
    pub(super) fn of(
        context: Context<'a>,
        compression: &Compression,
        subject: &Compressible<'_>,
        is_of_events: bool,
    ) -> Compressing<'a> {
        let verdict = compression.decide(subject);
        let Verdict::Compressed(encoding) = verdict else {
            return Compressing { verdict, encoder: None, is_of_events };
        };
        // Nothing is encoded for HEAD, but what its fields say is what GET would get.
        if subject.request.method == Method::Head {
            return Compressing { verdict, encoder: None, is_of_events };
        }
        let limit = context.generation.config.limits.max_compression_memory_bytes;
        let options = &compression.config.options;
        let bytes = encoder::memory(encoding, options, is_of_events);
        let place = Place::take(&context.worker.shared.encoder_memory, bytes, limit);
        let made = place.and_then(|place| Some((Encoder::new(encoding, options, is_of_events).ok()?, place)));
        match made {
            Some(made) => Compressing { verdict, encoder: Some(made), is_of_events },
            None => Compressing { verdict: Verdict::Varies, encoder: None, is_of_events },
        }
    }

    /// The coding, if there is one.
    pub(super) fn encoding(&self) -> Option<Encoding> {
        match self.verdict {
            Verdict::Compressed(encoding) => Some(encoding),
            Verdict::Varies | Verdict::Untouched => None,
        }
    }

    /// Passes a field on as it is true of what the client gets.
    pub(super) fn field(&self, sink: &mut impl ResponseSink, name: &[u8], value: &[u8]) {
        if self.encoding().is_none() {
            return sink.field(name, value);
        }
        match name {
            // A part of it would be one of the body that is not sent.
            _ if name.eq_ignore_ascii_case(b"accept-ranges") => {}
            _ if name.eq_ignore_ascii_case(b"etag") => sink.field(name, &weakened(value)),
            _ => sink.field(name, value),
        }
    }

    /// Adds the fields that say what was done, or might have been done for another client.
    pub(super) fn own_fields<'s>(&self, sink: &mut impl ResponseSink, vary: impl Iterator<Item = &'s [u8]>) {
        if self.verdict != Verdict::Untouched && !varies(vary) {
            sink.field(b"Vary", b"Accept-Encoding");
        }
        if let Some(encoding) = self.encoding() {
            sink.field(b"Content-Encoding", encoder::name(encoding).as_bytes());
        }
    }

    /// Whether a body is encoded.
    pub(super) fn encodes(&self) -> bool {
        self.encoder.is_some()
    }

    /// Whether each piece means something by itself, so that none may wait for the next.
    pub(super) fn is_of_events(&self) -> bool {
        self.is_of_events
    }

    /// The encoder, with its place.
    pub(super) fn take(&mut self) -> Option<(Encoder, Place<'a>)> {
        self.encoder.take()
    }
}

/// A place in the memory for encoders; given back when dropped.
pub(super) struct Place<'a> {
    taken: &'a AtomicUsize,
    bytes: usize,
}

impl<'a> Place<'a> {
    fn take(taken: &'a AtomicUsize, bytes: usize, limit: usize) -> Option<Place<'a>> {
        let more = |now: usize| now.checked_add(bytes).filter(|then| *then <= limit);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place { taken, bytes })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Whether the pieces of a response mean something each by itself, so that none may wait for the next.
pub(super) fn is_of_events(response: &ResponseHead) -> bool {
    let kind = response.fields.get("content-type").unwrap_or_default();
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"text/event-stream"[..], b"application/x-ndjson", b"application/jsonl"]
        .into_iter()
        .any(|events| essence.eq_ignore_ascii_case(events))
}

/// A body that is compressed as it passes.
pub(super) struct Compressed<'b, B> {
    body: &'b mut B,
    /// None once the end is out.
    encoder: Option<Encoder>,
    /// What was put out last.
    lent: Vec<u8>,
    /// Since when the encoder holds something that the client does not have.
    held_since: Option<Duration>,
    held_for: Duration,
    deadline: Deadline,
    taken: u64,
}

impl<'b, B: MessageBody> Compressed<'b, B> {
    /// A body at its start.
    pub(super) fn new(body: &'b mut B, encoder: Encoder, is_of_events: bool) -> Compressed<'b, B> {
        let held_for = if is_of_events { Duration::ZERO } else { HELD_FOR };
        let (lent, deadline) = (Vec::new(), Deadline::new());
        Compressed { body, encoder: Some(encoder), lent, held_since: None, held_for, deadline, taken: 0 }
    }

    /// Bytes of the body so far, before compression.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }
}

/// No input makes the libraries fail; what they might fail for leaves a body that is not whole.
fn failed(_: std::io::Error) -> BodyError {
    BodyError::Truncated
}

impl<B: MessageBody> MessageBody for Compressed<'_, B> {
    fn is_done(&self) -> bool {
        self.encoder.is_none()
    }

    fn has_input(&self) -> bool {
        self.body.has_input()
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        let Compressed { body, encoder: slot, lent, held_since, held_for, deadline, taken } = self;
        lent.clear();
        loop {
            let Some(encoder) = slot.as_mut() else { return Ok(None) };
            let next = match *held_since {
                None => Some(body.next().await),
                Some(since) => deadline.until(since + *held_for, body.next()).await.ok(),
            };
            let is_due = match next.transpose()? {
                Some(Some(piece)) => {
                    *taken += piece.len() as u64;
                    encoder.feed(piece).map_err(failed)?;
                    let is_due = encoder.output().len() >= ENOUGH_BYTES;
                    if is_due || held_since.is_none() {
                        *held_since = Some(coarse());
                    }
                    is_due
                }
                Some(None) => {
                    if let Some(encoder) = slot.take() {
                        *lent = encoder.finish().map_err(failed)?;
                    }
                    return Ok(Some(&**lent).filter(|piece| !piece.is_empty()));
                }
                // Nothing more for a while: what was taken goes out.
                None => {
                    encoder.flush().map_err(failed)?;
                    *held_since = None;
                    true
                }
            };
            if is_due && !encoder.output().is_empty() {
                std::mem::swap(lent, encoder.output());
                return Ok(Some(lent));
            }
        }
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.body.trailers()
    }

    fn has_trailers(&self) -> bool {
        self.body.has_trailers()
    }

    fn last(&self) -> &[u8] {
        &self.lent
    }

    fn take_last(&mut self, _least_bytes: usize) -> Option<Chunk> {
        None
    }
}

/// Compresses a body that is there as a whole.
pub(super) fn whole(encoder: Encoder, body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = encoder;
    encoder.feed(body).ok()?;
    encoder.finish().ok()
}
