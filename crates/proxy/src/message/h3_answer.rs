//! A response as it is written on a stream of HTTP/3 (RFC 9114 §4.1): interim heads, a head, content, trailers.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use net::pace::Pace;
use quic::{SendStream, WriteError};
use reason::Reason;
use transport::{Broken, buffer, recycle};
use wire::http::fields::{is_field_value, is_token};
use wire::http::http3::Code;
use wire::http::http3::frame::{DATA, FrameHead, HEADERS};
use wire::http::qpack::{begin_section, write_field, write_status};
use wire::http::{BodyFraming, Fields, RequestHead, ResponseHead};

use crate::delivery::{StreamTaken, marker};
use crate::message::forwarding::interim_fields;
use crate::message::h3::Shared;
use crate::message::on_stream::OnStream;
use crate::message::sides::{ResponseSink, TunnelSink};
use crate::policies::Throttles;
use crate::policies::cors::Decoration;

/// The most that is joined with the head of its frame, to be handed over at once.
const MOST_JOINED: usize = 4 * 1024;

/// A frame of content that has none (RFC 9114 §7.2.1): its kind and its length.
const EMPTY_DATA: [u8; 2] = [0, 0];

/// Where a response stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The head is not out.
    Head,
    /// Body bytes may go out.
    Body,
    /// All is said.
    Ended,
}

/// Writes a response on one stream.
pub struct H3Answer {
    stream: SendStream,
    shared: Rc<Shared>,
    stage: Stage,
    /// The field section of the head.
    section: Vec<u8>,
    /// Frames, or their beginnings, that were not handed over.
    out: Vec<u8>,
    on_stream: OnStream,
    status: u16,
    /// Something was given up in the middle of a frame, or is about to be written: nothing else may stand behind it.
    is_mid_frame: bool,
}

impl H3Answer {
    /// The answer of a stream just opened, to a request that is not read yet.
    pub fn new(stream: SendStream, shared: Rc<Shared>, pace: Pace) -> H3Answer {
        H3Answer {
            stream,
            shared,
            stage: Stage::Head,
            section: buffer(),
            out: buffer(),
            on_stream: OnStream::new(pace),
            status: 0,
            is_mid_frame: false,
        }
    }

    /// The head of the request, as far as it was read.
    pub fn responds_to(&mut self, head: &RequestHead) {
        self.on_stream.responds_to(head);
    }

    /// Ends the stream early.
    pub fn reset(&mut self, code: Code) {
        if self.stage != Stage::Ended {
            self.stage = Stage::Ended;
            self.stream.reset(code.0);
        }
    }

    /// Hands over the frames that wait, and behind them `piece`.
    async fn hand_over(&mut self, mut piece: &[u8]) -> Result<(), Broken> {
        let H3Answer { stream, on_stream, out, .. } = self;
        self.is_mid_frame = true;
        while !out.is_empty() {
            let taken = poll_fn(|context| poll_write(stream, on_stream, out, context)).await.map_err(Broken::Socket)?;
            // Whoever gives up in between goes on from there.
            out.drain(..taken);
        }
        while !piece.is_empty() {
            let taken =
                poll_fn(|context| poll_write(stream, on_stream, piece, context)).await.map_err(Broken::Socket)?;
            piece = piece.get(taken..).unwrap_or_default();
        }
        self.is_mid_frame = false;
        Ok(())
    }

    /// Puts the head in front of what is handed over next.
    fn frame_head(&mut self) {
        if self.stage == Stage::Head {
            FrameHead { kind: HEADERS, length: self.section.len() as u64 }.write(&mut self.out);
            self.out.extend_from_slice(&self.section);
            self.stage = Stage::Body;
            self.shared.floods.sent_message();
        }
    }

    fn finish(&mut self) {
        self.stage = Stage::Ended;
        self.stream.finish();
    }

    /// Both were checked when they were parsed, or when they were loaded; what HTTP/3 cannot carry is left out.
    fn put(section: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        if is_token(name) && is_field_value(value) {
            write_field(name, value, section);
        }
    }
}

impl Drop for H3Answer {
    fn drop(&mut self) {
        recycle(std::mem::take(&mut self.section));
        recycle(std::mem::take(&mut self.out));
    }
}

/// Has some bytes taken. A client that takes none for too long, or too few, is given up.
fn poll_write(
    stream: &mut SendStream,
    on_stream: &mut OnStream,
    bytes: &[u8],
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    match stream.poll_write(bytes, context) {
        Poll::Ready(Ok(taken)) => {
            on_stream.took(taken);
            Poll::Ready(Ok(taken))
        }
        Poll::Ready(Err(WriteError::Stopped(_) | WriteError::Ended | WriteError::Lost(_))) => {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }
        Poll::Pending => on_stream.watch.poll_too_slow(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
    }
}

impl TunnelSink for H3Answer {
    fn begin_tunnel(&mut self, idle: Duration) {
        self.on_stream.begin_tunnel(idle);
    }

    fn taken(&self) -> StreamTaken {
        StreamTaken { given: self.on_stream.given(), socket: None }
    }

    /// To the client, who has acknowledged it: a reset ends what was not (RFC 9000 §3.3).
    async fn delivered(&mut self) {
        if self.stage != Stage::Body || self.is_mid_frame {
            return;
        }
        // QUIC lets go of it once it was acknowledged, with all that came before it.
        let (mut frame, mut acknowledged) = marker(EMPTY_DATA);
        while !frame.is_empty() {
            let H3Answer { stream, on_stream, .. } = self;
            let written = poll_fn(|context| match stream.poll_write_bytes(&mut frame, context) {
                Poll::Pending => on_stream.watch.poll_too_slow(context).map(|()| false),
                Poll::Ready(written) => Poll::Ready(written.is_ok()),
            });
            if !written.await {
                return;
            }
        }
        drop(frame);
        poll_fn(|context| match Pin::new(&mut acknowledged).poll(context) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => self.poll_gone(context).map(drop),
        })
        .await;
    }
}

impl ResponseSink for H3Answer {
    fn pace(&mut self, pace: Pace) {
        self.on_stream.set_pace(pace);
    }

    fn throttle(&mut self, throttles: &Throttles) {
        self.on_stream.throttles = throttles.clone();
    }

    fn throttles(&self) -> Option<&Throttles> {
        Some(&self.on_stream.throttles)
    }

    fn takes_interim(&self) -> bool {
        true
    }

    fn be_last(&mut self) {}

    async fn interim(&mut self, head: &ResponseHead) -> Result<(), Broken> {
        if self.stage != Stage::Head {
            return Ok(());
        }
        let mut section = buffer();
        begin_section(&mut section);
        write_status(head.status, &mut section);
        interim_fields(head, |name, value| H3Answer::put(&mut section, name, value));
        FrameHead { kind: HEADERS, length: section.len() as u64 }.write(&mut self.out);
        self.out.extend_from_slice(&section);
        recycle(section);
        self.hand_over(&[]).await
    }

    fn decorate(&mut self, decoration: Decoration) {
        self.on_stream.decorate(decoration);
    }

    fn begin(&mut self, status: u16) {
        self.status = self.on_stream.status(status);
        self.section.clear();
        begin_section(&mut self.section);
        write_status(self.status, &mut self.section);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if !self.on_stream.drops(name) {
            H3Answer::put(&mut self.section, name, value);
        }
    }

    fn finish_head(&mut self, framing: BodyFraming, declared_length: Option<&[u8]>) {
        let H3Answer { on_stream, status, section, .. } = self;
        on_stream.finish_head(*status, framing, declared_length, |name, value| H3Answer::put(section, name, value));
    }

    fn switch(&mut self, _protocol: &[u8]) {
        self.finish_head(BodyFraming::Chunked, None);
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        if self.stage == Stage::Head {
            self.frame_head();
            self.hand_over(&[]).await?;
        }
        Ok(())
    }

    fn has_capacity(&mut self, _bytes: usize) -> bool {
        // While it waits it keeps nothing from other streams.
        self.on_stream.throttles.down().is_none()
    }

    async fn piece_now(&mut self, piece: &[u8]) -> Result<(), Broken> {
        self.frame_head();
        if self.stage == Stage::Ended || piece.is_empty() || !self.on_stream.takes_content() {
            return Ok(());
        }
        let is_last = self.on_stream.sends(piece.len());
        FrameHead { kind: DATA, length: piece.len() as u64 }.write(&mut self.out);
        if piece.len() <= MOST_JOINED {
            self.out.extend_from_slice(piece);
            self.hand_over(&[]).await?;
        } else {
            self.hand_over(piece).await?;
        }
        self.shared.floods.sent_message();
        if is_last {
            self.finish();
        }
        Ok(())
    }

    async fn end(&mut self, trailers: Option<&Fields>) -> Result<(), Broken> {
        if self.stage == Stage::Ended {
            return Ok(());
        }
        self.frame_head();
        if let Some(trailers) = trailers {
            self.section.clear();
            begin_section(&mut self.section);
            trailers.iter().for_each(|(name, value)| H3Answer::put(&mut self.section, name, value));
            FrameHead { kind: HEADERS, length: self.section.len() as u64 }.write(&mut self.out);
            self.out.extend_from_slice(&self.section);
        }
        self.hand_over(&[]).await?;
        self.finish();
        Ok(())
    }

    async fn last(&mut self, piece: &[u8], trailers: Option<&Fields>) -> Result<(), Broken> {
        if trailers.is_none() && !piece.is_empty() {
            // The end goes with the last bytes.
            self.on_stream.ends_with(piece.len());
        }
        if !piece.is_empty() {
            self.piece(piece).await?;
        }
        self.end(trailers).await
    }

    fn has_begun(&self) -> bool {
        self.stage != Stage::Head
    }

    fn reached(&self) -> Option<SocketAddr> {
        Some(self.shared.quic.local_address())
    }

    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<Reason> {
        if self.stage == Stage::Ended {
            return Poll::Pending;
        }
        self.stream.poll_stopped(context).map(|_| Reason::ClientDisconnected)
    }
}
