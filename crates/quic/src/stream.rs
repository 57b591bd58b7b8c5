//! Streams of a connection. Each is dropped like a file: what is not ended is given up with [`Settings::abandoned`](crate::Settings::abandoned).

use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto::{ReadableError, StreamId};

use crate::lost::Lost;
use crate::settings::code;
use crate::shared::{Shared, Watch};

/// A stream in both directions.
#[derive(Debug)]
pub struct BiStream {
    /// What the peer sends.
    pub recv: RecvStream,
    /// What we send.
    pub send: SendStream,
}

/// Why nothing more is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The peer reset the stream with this code (RESET_STREAM).
    Reset(u64),
    /// We had stopped it.
    Stopped,
    /// The connection is lost.
    Lost(Lost),
}

/// Why nothing more can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// The peer wants no more, with this code (STOP_SENDING).
    Stopped(u64),
    /// We had finished or reset it.
    Ended,
    /// The connection is lost.
    Lost(Lost),
}

/// How far the reading of a stream is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    AtEnd,
    Reset(u64),
    Stopped,
}

/// The receiving side of a stream. Dropped before its end, the peer is told to stop.
pub struct RecvStream {
    shared: Rc<Shared>,
    watch: Rc<Watch>,
    id: StreamId,
    reading: Reading,
}

impl fmt::Debug for RecvStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecvStream({})", u64::from(self.id))
    }
}

impl RecvStream {
    pub(crate) fn new(shared: &Rc<Shared>, id: StreamId) -> RecvStream {
        RecvStream { shared: Rc::clone(shared), watch: shared.watch(id), id, reading: Reading::Open }
    }

    /// The stream's number (RFC 9000 §2.1).
    pub fn id(&self) -> u64 {
        self.id.into()
    }

    /// The next bytes in order, at most `most` and never empty; none at the end. Credit for them goes back to the peer.
    pub fn poll_read(&mut self, most: usize, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ReadError>> {
        match self.reading {
            Reading::Open => {}
            Reading::AtEnd => return Poll::Ready(Ok(None)),
            Reading::Reset(code) => return Poll::Ready(Err(ReadError::Reset(code))),
            Reading::Stopped => return Poll::Ready(Err(ReadError::Stopped)),
        }
        if let Some(lost) = self.shared.lost() {
            return Poll::Ready(Err(ReadError::Lost(lost)));
        }
        let (outcome, gives_credit) = self.read(most);
        if gives_credit {
            self.shared.mark();
        }
        match outcome {
            Ok(Some(bytes)) => Poll::Ready(Ok(Some(bytes))),
            Ok(None) => {
                self.reading = Reading::AtEnd;
                Poll::Ready(Ok(None))
            }
            Err(quinn_proto::ReadError::Blocked) => {
                self.watch.readable.note(context);
                Poll::Pending
            }
            Err(quinn_proto::ReadError::Reset(code)) => {
                self.reading = Reading::Reset(code.into_inner());
                Poll::Ready(Err(ReadError::Reset(code.into_inner())))
            }
        }
    }

    /// Reads once; also says whether the peer is to be told of new credit.
    fn read(&mut self, most: usize) -> (Result<Option<Bytes>, quinn_proto::ReadError>, bool) {
        let mut protocol = self.shared.protocol.borrow_mut();
        let mut stream = protocol.recv_stream(self.id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            // Neither can be: we read in order only, and know what we have ended.
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return (Ok(None), false),
        };
        let outcome = chunks.next(most).map(|chunk| chunk.map(|chunk| chunk.bytes));
        (outcome, chunks.finalize().should_transmit())
    }

    /// Ready when the peer has reset the stream or the connection is lost, also while bytes wait that nobody reads. Pending for ever behind the end.
    pub fn poll_reset(&mut self, context: &mut Context<'_>) -> Poll<ReadError> {
        match self.reading {
            Reading::Open => {}
            Reading::Reset(code) => return Poll::Ready(ReadError::Reset(code)),
            Reading::AtEnd | Reading::Stopped => return Poll::Pending,
        }
        if let Some(lost) = self.shared.lost() {
            return Poll::Ready(ReadError::Lost(lost));
        }
        let reset = self.shared.protocol.borrow_mut().recv_stream(self.id).received_reset();
        if let Ok(Some(code)) = reset {
            self.shared.mark();
            self.reading = Reading::Reset(code.into_inner());
            return Poll::Ready(ReadError::Reset(code.into_inner()));
        }
        self.watch.reset.note(context);
        Poll::Pending
    }

    /// Tells the peer to stop (STOP_SENDING), and drops what has come. Only the first call counts.
    pub fn stop(&mut self, error: u64) {
        if self.reading == Reading::Open && !self.shared.is_lost() {
            self.reading = Reading::Stopped;
            let mut protocol = self.shared.protocol.borrow_mut();
            let _ = protocol.recv_stream(self.id).stop(code(error));
            // It may have been the last of the stream, whose place the library gives back in a packet only once it has received another one. A peer that has
            // used up all places has none to send.
            self.shared.give_places(&mut protocol);
            drop(protocol);
            self.shared.mark();
        }
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.stop(self.shared.settings.abandoned);
        self.shared.forget(self.id, &self.watch);
    }
}

/// The sending side of a stream. Dropped before it is finished, it is reset.
pub struct SendStream {
    shared: Rc<Shared>,
    watch: Rc<Watch>,
    id: StreamId,
    /// It was finished or reset.
    is_ended: bool,
}

impl fmt::Debug for SendStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendStream({})", u64::from(self.id))
    }
}

impl SendStream {
    pub(crate) fn new(shared: &Rc<Shared>, id: StreamId) -> SendStream {
        let watch = shared.watch(id);
        // It may have been stopped before anybody watched it.
        if let Ok(Some(code)) = shared.protocol.borrow_mut().send_stream(id).stopped() {
            watch.stop_code.set(Some(code.into_inner()));
        }
        SendStream { shared: Rc::clone(shared), watch, id, is_ended: false }
    }

    /// The stream's number (RFC 9000 §2.1).
    pub fn id(&self) -> u64 {
        self.id.into()
    }

    /// Takes bytes, at least one (none of an empty slice), as many as flow control and the bound of the send buffer allow. What is taken leaves at the
    /// end of the turn, together with what other writes of the turn gave.
    pub fn poll_write(&mut self, bytes: &[u8], context: &mut Context<'_>) -> Poll<Result<usize, WriteError>> {
        if bytes.is_empty() {
            return Poll::Ready(self.check().map(|()| 0));
        }
        self.write(context, |stream| stream.write(bytes))
    }

    /// The same for bytes that need not be copied: takes from the front of `bytes`.
    pub fn poll_write_bytes(
        &mut self,
        bytes: &mut Bytes,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, WriteError>> {
        if bytes.is_empty() {
            return Poll::Ready(self.check().map(|()| 0));
        }
        self.write(context, |stream| stream.write_chunks(std::slice::from_mut(bytes)).map(|written| written.bytes))
    }

    fn write(
        &mut self,
        context: &Context<'_>,
        write: impl FnOnce(&mut quinn_proto::SendStream<'_>) -> Result<usize, quinn_proto::WriteError>,
    ) -> Poll<Result<usize, WriteError>> {
        self.check()?;
        let written = write(&mut self.shared.protocol.borrow_mut().send_stream(self.id));
        match written {
            Ok(count) => {
                self.shared.mark();
                Poll::Ready(Ok(count))
            }
            Err(quinn_proto::WriteError::Blocked) => {
                // That we would send more is said, too.
                self.shared.mark();
                self.watch.writable.note(context);
                Poll::Pending
            }
            Err(quinn_proto::WriteError::Stopped(code)) => Poll::Ready(Err(WriteError::Stopped(code.into_inner()))),
            Err(quinn_proto::WriteError::ClosedStream) => Poll::Ready(Err(WriteError::Ended)),
        }
    }

    /// Whether anything may be written.
    fn check(&self) -> Result<(), WriteError> {
        match self.over() {
            Some(error) => Err(error),
            None if self.is_ended => Err(WriteError::Ended),
            None => Ok(()),
        }
    }

    /// Why nobody wants the stream any more.
    fn over(&self) -> Option<WriteError> {
        let stopped = self.watch.stop_code.get().map(WriteError::Stopped);
        stopped.or_else(|| self.shared.lost().map(WriteError::Lost))
    }

    /// Nothing more comes (FIN). What was taken is sent until the peer has it, also when the stream is dropped.
    pub fn finish(&mut self) {
        if !self.is_ended && !self.shared.is_lost() {
            self.is_ended = true;
            let mut protocol = self.shared.protocol.borrow_mut();
            let mut stream = protocol.send_stream(self.id);
            // What the peer has stopped cannot be finished, and would keep its place for ever.
            if let Err(quinn_proto::FinishError::Stopped(code)) = stream.finish() {
                let _ = stream.reset(code);
            }
            drop(protocol);
            self.shared.mark();
        }
    }

    /// Gives the stream up (RESET_STREAM), also behind `finish` while not all has been delivered. Only the first call counts.
    pub fn reset(&mut self, error: u64) {
        if !self.shared.is_lost() && !self.watch.is_delivered.replace(true) {
            self.is_ended = true;
            let _ = self.shared.protocol.borrow_mut().send_stream(self.id).reset(code(error));
            self.shared.mark();
        }
    }

    /// Ready when the peer wants no more (STOP_SENDING) or the connection is lost, also behind `finish`.
    pub fn poll_stopped(&mut self, context: &mut Context<'_>) -> Poll<WriteError> {
        if let Some(error) = self.over() {
            return Poll::Ready(error);
        }
        self.watch.stopped.note(context);
        Poll::Pending
    }

    /// Ready when the peer has acknowledged all that was sent, FIN included; only behind `finish`.
    pub fn poll_delivered(&mut self, context: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        if self.watch.is_delivered.get() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.over() {
            return Poll::Ready(Err(error));
        }
        self.watch.delivered.note(context);
        Poll::Pending
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if !self.is_ended {
            self.reset(self.shared.settings.abandoned);
        }
        self.shared.forget(self.id, &self.watch);
    }
}
