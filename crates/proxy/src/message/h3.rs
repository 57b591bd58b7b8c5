//! HTTP/3 messages to ours and back (RFC 9114 §4): a request's head and body as a stream brings them, and the response written on it.
//!
//! Owns one stream's share of a connection. Frames and field sections are `wire`'s, what is rejected is `received`'s, once for HTTP/2 and HTTP/3.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use config::limits::Limits;
use net::Chunk;
use quic::{ReadError, RecvStream};
use reason::Reason;
use wire::http::http3::Code;
use wire::http::http3::request::{Event, RequestReader};
use wire::http::http3::section::Section;
use wire::http::{BodyFraming, Fields, HeadError, RequestHead, Version};

use crate::http2::floods::Floods;
use crate::message::body::BodyError;
use crate::message::received::{Received, cut_trailers};
use crate::message::sides::{MessageBody, TunnelBody};

/// The most that is taken from a stream at once. A tunnel has room for that much.
const MOST_AT_ONCE: usize = 16 * 1024;

thread_local! {
    /// The section that is being read. Nothing of it outlasts the head that is made of it.
    static SECTION: RefCell<Section> = RefCell::default();
}

/// What all streams of one connection share.
pub struct Shared {
    /// The connection under all streams.
    pub quic: quic::Connection,
    /// What its client may have it do for nothing.
    pub floods: Floods,
    /// Why we have ended it, if we have.
    ended: Cell<Option<Code>>,
}

impl Shared {
    /// That of a connection just made.
    pub fn new(quic: quic::Connection, floods: Floods) -> Shared {
        Shared { quic, floods, ended: Cell::new(None) }
    }

    /// Ends the connection.
    pub fn end(&self, code: Code) {
        if self.ended.get().is_none() {
            self.ended.set(Some(code));
            self.quic.close(code.0, code.name().unwrap_or_default().as_bytes());
        }
    }

    /// Why we have ended it, if we have.
    pub fn ended(&self) -> Option<Code> {
        self.ended.get()
    }

    /// A frame has come that carries nothing. Too many of them end the connection.
    pub fn carried_nothing(&self) {
        self.floods.carried_nothing();
        self.check_floods();
    }

    /// Ends the connection if its client has gone too far.
    pub fn check_floods(&self) {
        if self.floods.is_flooded() {
            self.end(Code::EXCESSIVE_LOAD);
        }
    }
}

/// Why a stream has no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHead {
    /// Its client has given it up, or the connection has ended.
    Cancelled,
    /// Its message is malformed or incomplete, and the stream ends with this code.
    Malformed(Reason, Code),
    /// It is rejected for what it asks for.
    Rejected(HeadError),
}

/// What a head is read under.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'l> {
    /// Bounds.
    pub limits: &'l Limits,
    /// We have said that a WebSocket may be opened (RFC 9220 §3).
    pub takes_websocket: bool,
}

/// The request on one stream: its head, then its body.
pub struct H3Body {
    stream: RecvStream,
    shared: Rc<Shared>,
    frames: RequestReader,
    /// What has come and was not taken apart, behind what is lent.
    input: Bytes,
    /// Where in `input` lies what is lent to the caller.
    lent: Range<usize>,
    /// Bytes that trailers may have.
    most_section_bytes: usize,
    /// What is left of the declared length.
    rest: Option<u64>,
    /// What came last of the declared length, while the end of the stream has not: more may come, and then no message was whole.
    held: Bytes,
    done: bool,
    /// What the client sends belongs to the tunnel that its request may open, and stays where it is until then.
    awaits_tunnel: bool,
    trailers: Option<Fields>,
    malformed: Option<Reason>,
}

impl H3Body {
    /// A stream just opened.
    pub fn new(stream: RecvStream, shared: Rc<Shared>, limits: &Limits) -> H3Body {
        H3Body {
            stream,
            shared,
            frames: RequestReader::new(limits.max_head_bytes),
            input: Bytes::new(),
            lent: 0..0,
            most_section_bytes: limits.max_head_bytes,
            rest: None,
            held: Bytes::new(),
            done: false,
            awaits_tunnel: false,
            trailers: None,
            malformed: None,
        }
    }

    /// Reads the head.
    ///
    /// # Errors
    /// See [`NoHead`].
    pub fn poll_head(
        &mut self,
        terms: Terms<'_>,
        head: &mut RequestHead,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), NoHead>> {
        loop {
            while !self.input.is_empty() {
                let input = self.input.clone();
                let mut rest = &input[..];
                let event = self.frames.next(&mut rest);
                self.input.advance(input.len() - rest.len());
                let read = match event {
                    Ok(Some(Event::Section(section))) => self.read_head(&section, false, terms, head, context),
                    Ok(Some(Event::TooLarge(section))) => self.read_head(&section, true, terms, head, context),
                    Ok(Some(Event::Nothing)) => {
                        self.shared.carried_nothing();
                        continue;
                    }
                    Ok(Some(Event::Data(_)) | None) => continue,
                    Err(code) => self.ended(code),
                };
                return Poll::Ready(read);
            }
            match ready!(self.stream.poll_read(MOST_AT_ONCE, context)) {
                Ok(Some(bytes)) => self.input = bytes,
                Ok(None) => {
                    let incomplete = NoHead::Malformed(Reason::RequestHeaderTruncated, Code::REQUEST_INCOMPLETE);
                    let end = self.frames.finish();
                    return Poll::Ready(end.map_or_else(|code| self.ended(code), |_| Err(incomplete)));
                }
                Err(_) => return Poll::Ready(Err(NoHead::Cancelled)),
            }
        }
    }

    /// The connection ends with this code.
    fn ended<T>(&self, code: Code) -> Result<T, NoHead> {
        self.shared.end(code);
        Err(NoHead::Cancelled)
    }

    fn read_head(
        &mut self,
        section: &[u8],
        is_cut: bool,
        Terms { limits, takes_websocket }: Terms<'_>,
        head: &mut RequestHead,
        context: &mut Context<'_>,
    ) -> Result<(), NoHead> {
        SECTION.with_borrow_mut(|read| {
            if read.read_head(section, limits.max_head_bytes, is_cut).is_err() {
                return self.ended(Code::QPACK_DECOMPRESSION_FAILED);
            }
            let malformed =
                read.malformed().or(read.protocol().filter(|_| !takes_websocket).map(|_| Reason::BadFieldName));
            let received = Received {
                version: Version::H3,
                method: read.method().unwrap_or_default(),
                scheme: read.scheme(),
                authority: read.authority(),
                path: read.path().unwrap_or_default(),
                protocol: read.protocol(),
                fields: (|| read.fields().iter(), read.fields().len()),
                is_too_large: read.is_too_large(),
                is_bodiless: !is_cut && self.is_at_end(context),
            };
            self.done = received.is_bodiless;
            let translated = received.read(limits, head);
            if let Some(reason) = malformed {
                return Err(NoHead::Malformed(reason, Code::MESSAGE_ERROR));
            }
            if read.is_too_large() {
                return Err(NoHead::Rejected(HeadError::of(Reason::HeadTooLarge)));
            }
            translated.map_err(NoHead::Rejected)
        })?;
        if let BodyFraming::Length(length) = head.framing {
            self.rest = Some(length);
        }
        self.awaits_tunnel = head.is_extended_connect() && !self.done;
        if self.awaits_tunnel {
            self.frames.begin_tunnel();
            self.done = true;
        }
        Ok(())
    }

    /// Whether the stream is known to have ended where the input ends.
    fn is_at_end(&mut self, context: &mut Context<'_>) -> bool {
        if self.input.is_empty() {
            match self.stream.poll_read(MOST_AT_ONCE, context) {
                Poll::Ready(Ok(None)) => return self.frames.finish().is_ok(),
                Poll::Ready(Ok(Some(bytes))) => self.input = bytes,
                // What has become of the stream is found when more of it is read.
                Poll::Ready(Err(_)) | Poll::Pending => {}
            }
        }
        false
    }

    /// Takes in more until something can be lent, or the end is there.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        loop {
            while !self.input.is_empty() {
                let mut rest = &self.input[..];
                let event = self.frames.next(&mut rest);
                let taken = self.input.len() - rest.len();
                match event {
                    Ok(Some(Event::Data(data))) => {
                        let piece = taken - data.len()..taken;
                        if self.take_data(piece, taken)? {
                            return Poll::Ready(Ok(()));
                        }
                    }
                    Ok(Some(Event::Section(section))) => {
                        let read = read_trailers(&section, self.most_section_bytes);
                        drop(section);
                        self.input.advance(taken);
                        self.take_trailers(read)?;
                    }
                    Ok(Some(Event::TooLarge(_))) => return Poll::Ready(Err(self.void(Reason::TrailersTooLarge))),
                    Ok(Some(Event::Nothing)) => {
                        self.input.advance(taken);
                        self.shared.carried_nothing();
                    }
                    Ok(None) => self.input.advance(taken),
                    Err(code) => {
                        self.shared.end(code);
                        return Poll::Ready(Err(BodyError::Truncated));
                    }
                }
            }
            match ready!(self.stream.poll_read(MOST_AT_ONCE, context)) {
                Ok(Some(bytes)) => self.input = bytes,
                Ok(None) => return Poll::Ready(self.take_end()),
                Err(ReadError::Reset(_) | ReadError::Stopped | ReadError::Lost(_)) => {
                    return Poll::Ready(Err(BodyError::Truncated));
                }
            }
        }
    }

    /// Takes a piece of the content, behind which `taken` bytes of the input are done with. True if it is lent now.
    fn take_data(&mut self, piece: Range<usize>, taken: usize) -> Result<bool, BodyError> {
        if let Some(rest) = self.rest {
            // More than was declared (RFC 9114 §4.1.2).
            let left = rest.checked_sub(piece.len() as u64).ok_or_else(|| self.void(Reason::RequestTruncated))?;
            self.rest = Some(left);
            if left == 0 {
                self.held = self.input.slice(piece);
                self.input.advance(taken);
                return Ok(false);
            }
        }
        self.lent = piece;
        Ok(true)
    }

    fn take_trailers(&mut self, read: Result<Result<Fields, Reason>, Code>) -> Result<(), BodyError> {
        match read {
            Ok(Ok(fields)) => self.trailers = Some(fields),
            Ok(Err(reason)) => return Err(self.void(reason)),
            Err(code) => {
                self.shared.end(code);
                return Err(BodyError::Truncated);
            }
        }
        Ok(())
    }

    fn take_end(&mut self) -> Result<(), BodyError> {
        if let Err(code) = self.frames.finish() {
            self.shared.end(code);
            return Err(BodyError::Truncated);
        }
        if self.rest.is_some_and(|rest| rest > 0) {
            return Err(self.void(Reason::RequestTruncated));
        }
        self.done = true;
        Ok(())
    }

    /// The message is malformed, for this reason.
    fn void(&mut self, reason: Reason) -> BodyError {
        self.malformed = Some(reason);
        BodyError::Void(reason)
    }

    /// Why the message is malformed, if it is.
    pub fn malformed(&self) -> Option<Reason> {
        self.malformed
    }

    /// Whether the client has sent all of it and we have taken it.
    pub fn is_finished(&self) -> bool {
        self.done && !self.awaits_tunnel
    }

    /// Wants no more of it.
    pub fn stop(&mut self, code: Code) {
        self.stream.stop(code.0);
    }
}

/// Reads trailers: the fields that may go on, or why the message is malformed, or the code that its connection ends with.
fn read_trailers(section: &[u8], most_bytes: usize) -> Result<Result<Fields, Reason>, Code> {
    SECTION.with_borrow_mut(|read| {
        read.read_trailers(section, most_bytes).map_err(|_| Code::QPACK_DECOMPRESSION_FAILED)?;
        let reason = read.malformed().or(read.is_too_large().then_some(Reason::TrailersTooLarge));
        Ok(reason.map_or_else(|| Ok(cut_trailers(read.fields().iter())), Err))
    })
}

impl MessageBody for H3Body {
    fn is_done(&self) -> bool {
        self.done && self.held.is_empty()
    }

    fn has_input(&self) -> bool {
        false
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        let lent = std::mem::take(&mut self.lent);
        self.input.advance(lent.end);
        if !self.done {
            poll_fn(|context| self.poll_piece(context)).await?;
        }
        if self.done && !self.held.is_empty() {
            self.input = std::mem::take(&mut self.held);
            self.lent = 0..self.input.len();
        }
        Ok(Some(self.last()).filter(|piece| !piece.is_empty()))
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take().filter(|trailers| !trailers.is_empty())
    }

    fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    fn last(&self) -> &[u8] {
        self.input.get(self.lent.clone()).unwrap_or_default()
    }

    fn take_last(&mut self, _least_bytes: usize) -> Option<Chunk> {
        None
    }
}

impl TunnelBody for H3Body {
    fn begin_tunnel(&mut self) {
        self.done &= !std::mem::take(&mut self.awaits_tunnel);
    }
}
