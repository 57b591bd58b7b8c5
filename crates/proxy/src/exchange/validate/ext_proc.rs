//! Envoy's external processor: a stream of messages that tell of one request, piece by piece, each of which waits for a word.
//!
//! The word to a piece of the body is kept back until the decision, so that Envoy sends none of it on before, and the word to the head, too, unless Envoy
//! holds the head until it has the whole body (`BUFFERED`): an Envoy that streams sends the head on with the word to it. After the decision the stream ends,
//! which for Envoy means that responses pass without being shown.

use std::task::{Context as TaskContext, Poll};

use config::Validate;
use net::Chunk;
use net::pace::Pace;
use reason::Reason;
use transport::Broken;
use wire::envoy::{BodyMode, Processed, Processing, read_processing, write_continue, write_immediate};
use wire::http::{BodyFraming, Fields, HeadError, ResponseHead};

use super::messages::{self, Messages};
use super::{Asked, decide, denied, original};
use crate::exchange::Exchange;
use crate::guard::ExchangeParts;
use crate::message::body::BodyError;
use crate::message::context::{Failure, client_failed};
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, ResponseSink};
use crate::policies::cors::Decoration;
use config::Bodies;

/// Validates the request that a stream tells of.
pub(super) async fn serve<B: MessageBody, A: ResponseSink>(
    asked: Asked<'_>,
    service: &Validate,
    exchange: &mut Exchange<'_, B, A>,
) -> Result<(), Failure> {
    let context = exchange.context;
    let limits = context.limits();
    let idle = asked.route.config.pace(limits).idle;
    let Exchange { body, sink, response, ledger, timers, .. } = exchange;
    let mut messages = Messages::new(*body, asked.route.config.max_body(context.limits()), context);
    let first = timers.upload.within(idle, messages.next()).await;
    let first = first.map_err(|_| Rejection::of(Reason::RequestBodyTimeout))??;
    let first = first.ok_or(Rejection::of(Reason::OriginalRequestMissing))?;
    let (head, is_whole, body_mode) = match read_processing(&first, limits.max_headers) {
        Ok(Processing::RequestHead { fields, is_whole, body_mode }) => {
            (original::of_list(None, None, None, &fields, limits)?, is_whole, body_mode)
        }
        // A filter that shows no heads of requests has nothing to validate.
        Ok(_) => return Err(Rejection::of(Reason::OriginalRequestMissing).into()),
        Err(_) => return Err(Rejection::of(Reason::OriginalRequestMalformed).into()),
    };
    let shows_body = match body_mode {
        _ if is_whole => true,
        Some(BodyMode::Other) => return Err(Rejection::of(Reason::OriginalBodyPartial).into()),
        Some(BodyMode::None) if service.bodies == Bodies::Whole => {
            return Err(Rejection::of(Reason::OriginalBodyPartial).into());
        }
        Some(BodyMode::None) => false,
        Some(BodyMode::Streamed | BodyMode::Buffered) => true,
        // An Envoy that does not say how it is configured.
        None => service.bodies == Bodies::Whole,
    };
    let mut head = head;
    head.framing = if is_whole { BodyFraming::None } else { BodyFraming::Chunked };
    messages::begin(*sink);
    let mut told = Told {
        messages,
        sink: *sink,
        max_fields: limits.max_headers,
        lent: Vec::new(),
        is_over: is_whole || !shows_body,
        owed: Owed { head: true, pieces: 0, trailers: false },
        is_streamed: body_mode == Some(BodyMode::Streamed),
    };
    let mut parts = ExchangeParts { sink: &mut Nobody, interim: response, ledger, timers };
    let decision = decide(asked, &head, shows_body, &mut told, context, &mut parts).await;
    let Told { sink, owed, .. } = told;
    let mut out = Vec::new();
    match decision {
        Ok(()) => {
            ledger.status = 200;
            owed.write(&mut out);
        }
        Err(Failure::Rejected(rejection)) => {
            ledger.rejected(&rejection);
            let mut message = Vec::new();
            denied(&rejection, &head, |denial| write_immediate(denial, &mut message));
            messages::put(&message, &mut out);
        }
        Err(Failure::Aborted) => return Err(Failure::Aborted),
    }
    if !out.is_empty() {
        sink.piece(&out).await.map_err(|broken| Failure::from(client_failed(&broken, ledger)))?;
        ledger.sent.set(out.len() as u64);
    }
    messages::end(sink, ledger).await
}

/// Words that Envoy waits for.
struct Owed {
    head: bool,
    pieces: u32,
    trailers: bool,
}

impl Owed {
    fn write(&self, out: &mut Vec<u8>) {
        let words = std::iter::repeat_n(Processed::Head, usize::from(self.head))
            .chain(std::iter::repeat_n(Processed::Body, self.pieces as usize))
            .chain(std::iter::repeat_n(Processed::Trailers, usize::from(self.trailers)));
        for word in words {
            let mut message = Vec::new();
            write_continue(word, &mut message);
            messages::put(&message, out);
        }
    }
}

/// The body of the request as the stream tells it.
struct Told<'x, B, A> {
    messages: Messages<'x, B>,
    sink: &'x mut A,
    max_fields: usize,
    lent: Vec<u8>,
    is_over: bool,
    owed: Owed,
    /// Pieces come without a word to the head.
    is_streamed: bool,
}

impl<B: MessageBody, A: ResponseSink> Told<'_, B, A> {
    /// Sends the word to the head, without which an Envoy that buffers shows no body. It sends the head on with the body.
    async fn pass_head(&mut self) -> Result<(), BodyError> {
        if self.is_streamed || !std::mem::take(&mut self.owed.head) {
            return Ok(());
        }
        let (mut message, mut out) = (Vec::new(), Vec::new());
        write_continue(Processed::Head, &mut message);
        messages::put(&message, &mut out);
        self.sink.piece(&out).await.map_err(|_| BodyError::Broken)
    }
}

impl<B: MessageBody, A: ResponseSink> MessageBody for Told<'_, B, A> {
    fn is_done(&self) -> bool {
        self.is_over
    }

    fn has_input(&self) -> bool {
        false
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        const MALFORMED: BodyError = BodyError::Malformed(HeadError::of(Reason::OriginalRequestMalformed));
        while !self.is_over {
            self.pass_head().await?;
            let message = match self.messages.next().await {
                Ok(Some(message)) => message,
                Ok(None) | Err(Failure::Aborted) => return Err(BodyError::Truncated),
                Err(Failure::Rejected(rejection)) => return Err(BodyError::Validated(rejection)),
            };
            match read_processing(&message, self.max_fields) {
                // An Envoy that says nothing of its mode, and streams: the head is on its way, and nothing more goes there.
                Ok(Processing::RequestBody { .. }) if !self.is_streamed && self.owed.pieces > 0 => {
                    return Err(BodyError::Validated(Rejection::of(Reason::OriginalBodyPartial).into()));
                }
                Ok(Processing::RequestBody { piece, is_last }) => {
                    self.owed.pieces = self.owed.pieces.saturating_add(1);
                    self.is_over = is_last;
                    if !piece.is_empty() {
                        self.lent = piece.to_vec();
                        return Ok(Some(&self.lent));
                    }
                }
                Ok(Processing::RequestTrailers) => {
                    self.owed.trailers = true;
                    self.is_over = true;
                }
                Ok(_) | Err(_) => return Err(MALFORMED),
            }
        }
        self.lent.clear();
        Ok(None)
    }

    fn trailers(&mut self) -> Option<Fields> {
        None
    }

    fn last(&self) -> &[u8] {
        &self.lent
    }

    fn take_last(&mut self, _least_bytes: usize) -> Option<Chunk> {
        None
    }
}

/// Who gets interim responses of a request that another proxy holds.
struct Nobody;

impl ResponseSink for Nobody {
    fn pace(&mut self, _pace: Pace) {}

    fn takes_interim(&self) -> bool {
        false
    }

    async fn interim(&mut self, _head: &ResponseHead) -> Result<(), Broken> {
        Ok(())
    }

    fn be_last(&mut self) {}

    fn decorate(&mut self, _decoration: Decoration) {}

    fn begin(&mut self, _status: u16) {}

    fn field(&mut self, _name: &[u8], _value: &[u8]) {}

    fn finish_head(&mut self, _framing: BodyFraming, _declared_length: Option<&[u8]>) {}

    fn switch(&mut self, _protocol: &[u8]) {}

    async fn flush(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    async fn piece_now(&mut self, _piece: &[u8]) -> Result<(), Broken> {
        Ok(())
    }

    async fn end(&mut self, _trailers: Option<&Fields>) -> Result<(), Broken> {
        Ok(())
    }

    async fn last(&mut self, _piece: &[u8], _trailers: Option<&Fields>) -> Result<(), Broken> {
        Ok(())
    }

    fn has_begun(&self) -> bool {
        false
    }

    fn reached(&self) -> Option<std::net::SocketAddr> {
        None
    }

    fn poll_gone(&mut self, _context: &mut TaskContext<'_>) -> Poll<Reason> {
        Poll::Pending
    }
}
