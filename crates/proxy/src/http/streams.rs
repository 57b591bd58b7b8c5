//! What HTTP/2 and HTTP/3 have in common where a request begins on a stream of its own.

use config::limits::Limits;
use reason::Reason;
use wire::http::{BodyFraming, RequestHead};

use crate::message::rejection::Rejection;
use crate::message::scratch::Timers;
use crate::message::sides::MessageBody;

/// Why a request is not served.
pub enum Rejected {
    /// Its client has reset the stream.
    Cancelled,
    /// It is malformed, and its stream ends.
    Stream(Reason),
    /// It gets this response.
    Request(Rejection),
}

/// Waits for the end of a request that says its body is empty: data that comes all the same makes it malformed (RFC 9113 §8.1.1), and an upstream
/// would have done by then what it asks for.
///
/// # Errors
/// It is not empty, or does not end.
pub async fn end_of_nothing(
    body: &mut impl MessageBody,
    head: &RequestHead,
    timers: &mut Timers,
    limits: &Limits,
) -> Result<(), Rejected> {
    if head.framing != BodyFraming::Length(0) || body.is_done() {
        return Ok(());
    }
    match timers.upload.within(limits.client_idle_timeout, body.next()).await {
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(_)) | Err(_)) => Err(Rejected::Stream(Reason::RequestTruncated)),
        Err(_) => Err(Rejected::Request(Rejection::of(Reason::RequestBodyTimeout))),
    }
}
