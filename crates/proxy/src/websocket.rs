//! A WebSocket under a contract: the messages of the client are validated before they go on, frame for frame as they came; what the upstream sends
//! passes, and responses of our own stand between its messages.
//!
//! Under `log` nothing is held back, and what cannot be read ends the validation, not the connection.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use net::Chunk;
use net::clock::coarse;
use tokio::sync::Notify;
use transport::Transport;
use wire::websocket::{ClientMessages, FrameError, Opcode, ServerFrames, Whole, write_frame};

use crate::delivery::{Progress, Taken, while_taken};
use crate::guard::{Answer, Lease, Messages};
use crate::message::context::Context;
use crate::message::contract_note::ContractNote;
use crate::policies::Throttles;
use crate::pump::{self, Bounds, Carried, End, Failure, Intake, Motion, Party, Sink, Source, Watch, watching};

/// Once the connection is to close, how long the client may take nothing of the message that the upstream is sending, and the upstream nothing of what
/// waits for it.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Responses of our own that wait for a client to read them, bytes; beyond that it is not read either.
const MAX_WAITING: usize = 64 * 1024;

/// Status codes of a Close frame (RFC 6455 §7.4.1): what is said is against the rules, and there is no memory.
const PROTOCOL_ERROR: u16 = 1002;
const TOO_LONG: u16 = 1009;
const TRY_AGAIN: u16 = 1013;

/// Carries frames until both sides have finished, as [`pump::run`] does.
pub async fn run(
    (client, client_first): ((impl Source, impl Sink), Chunk),
    (upstream, upstream_first): (&Transport, Chunk),
    bounds: Bounds<'_>,
    carried: &Carried,
    messages: &Messages,
    (context, note): (Context<'_>, &mut Option<ContractNote>),
) -> End {
    let (from_client, to_client) = client;
    let moved = Cell::new(coarse());
    let taken = to_client.taken();
    let socket = Socket {
        upstream,
        client: &taken,
        carried,
        throttles: bounds.throttles,
        moved: &moved,
        messages,
        context,
        note: RefCell::new(note),
        responses: RefCell::default(),
        has_responses: Notify::new(),
        responded: Notify::new(),
        closed: Notify::new(),
        closes: Cell::new(false),
        intake: Intake::default(),
        finished_client: bounds.finished_client,
    };
    let mut progress = Progress::new((upstream, to_client.taken()));
    let directions = (pin!(socket.up(from_client, client_first)), pin!(socket.down(to_client, upstream_first)));
    pump::drive(directions, bounds, &moved, carried, &mut progress).await
}

struct Socket<'a, T> {
    upstream: &'a Transport,
    client: &'a T,
    carried: &'a Carried,
    throttles: &'a Throttles,
    moved: &'a Cell<Duration>,
    messages: &'a Messages,
    context: Context<'a>,
    note: RefCell<&'a mut Option<ContractNote>>,
    /// Frames of our own for the client.
    responses: RefCell<Vec<u8>>,
    has_responses: Notify,
    /// Those that waited are sent.
    responded: Notify,
    /// They are sent, and nothing more is.
    closed: Notify,
    closes: Cell<bool>,
    intake: Intake,
    finished_client: Option<Duration>,
}

impl<T: Taken> Socket<'_, T> {
    /// From the client.
    async fn up(&self, mut client: impl Source, first: Chunk) -> Result<(), Failure> {
        let mut frames = ClientMessages::new(self.messages.max_bytes());
        let mut lease = Lease::new(self.context);
        let mut reads = true;
        let mut chunk = first;
        loop {
            if !chunk.is_empty() && !reads {
                self.forward(&chunk).await?;
            } else if !chunk.is_empty() {
                if self.messages.only_logs() {
                    self.forward(&chunk).await?;
                }
                frames.push(&chunk);
                drop(chunk);
                while let Some(read) = frames.next_whole().transpose() {
                    match read {
                        Ok(whole) => self.decide(whole).await?,
                        Err(error) => {
                            reads = false;
                            self.broken(error).await?;
                            break;
                        }
                    }
                }
                if lease.hold(frames.bytes_held()).is_err() {
                    if !self.messages.only_logs() {
                        return self.close(TRY_AGAIN).await;
                    }
                    reads = false;
                }
                if !reads {
                    frames = ClientMessages::new(0);
                    let _ = lease.hold(0);
                }
            }
            chunk = client.recv().await.map_err(|_| Failure::Sender)?;
            if chunk.is_empty() {
                break;
            }
            self.motion_up().seen();
        }
        if !client.ended_orderly() {
            return Err(Failure::Truncated);
        }
        let mut upstream = self.upstream;
        pump::finish(&mut upstream, self.carried, Party::Client).await;
        Ok(())
    }

    /// What becomes of something whole.
    async fn decide(&self, whole: Whole<'_>) -> Result<(), Failure> {
        let (frames, payload, is_text) = match whole {
            Whole::Control(frame) => (frame, None, false),
            Whole::Message { frames, payload, is_text } => (frames, Some(payload), is_text),
        };
        let answer = payload.map(|payload| self.messages.decide(payload, is_text, &mut self.note.borrow_mut()));
        match answer {
            _ if self.messages.only_logs() => Ok(()),
            None | Some(Answer::Passes) => self.forward(frames).await,
            Some(Answer::Rejected(responses)) => {
                for response in responses {
                    write_frame(Opcode::Text, None, response.as_bytes(), &mut self.responses.borrow_mut());
                }
                self.has_responses.notify_one();
                while self.responses.borrow().len() > MAX_WAITING {
                    self.responded.notified().await;
                }
                Ok(())
            }
            Some(Answer::Closes(status)) => self.close(status).await,
        }
    }

    async fn broken(&self, error: FrameError) -> Result<(), Failure> {
        let (status, what) = match error {
            FrameError::Malformed(what) => (PROTOCOL_ERROR, what),
            FrameError::TooLong => (TOO_LONG, "the message is longer than the limit"),
        };
        self.messages.note_frame(what, &mut self.note.borrow_mut());
        if self.messages.only_logs() { Ok(()) } else { self.close(status).await }
    }

    async fn forward(&self, frames: &[u8]) -> Result<(), Failure> {
        let mut upstream = self.upstream;
        self.motion_up().send(&mut upstream, frames).await
    }

    /// Ends the connection, with a Close frame for both sides.
    async fn close(&self, status: u16) -> Result<(), Failure> {
        let code = status.to_be_bytes();
        write_frame(Opcode::Close, None, &code, &mut self.responses.borrow_mut());
        self.closes.set(true);
        self.has_responses.notify_one();
        let mut frame = Vec::new();
        // Only whole messages went there, so it may stand here. What a mask protects is a cache between browser and server.
        write_frame(Opcode::Close, Some([0; 4]), &PROTOCOL_ERROR.to_be_bytes(), &mut frame);
        let _ = while_taken(self.closed.notified(), self.client, CLOSE_WAIT).await;
        let _ = while_taken(self.upstream.send(&frame), &self.upstream, CLOSE_WAIT).await;
        Err(Failure::Rejected)
    }

    /// To the client.
    async fn down(&self, mut client: impl Sink, first: Chunk) -> Result<(), Failure> {
        let mut frames = ServerFrames::default();
        let mut chunk = first;
        loop {
            let mut rest: &[u8] = &chunk;
            while !rest.is_empty() && !self.messages.only_logs() {
                let count = frames.follow(rest).map_err(|_| Failure::Receiver)?;
                let (now, later) = rest.split_at(count.min(rest.len()));
                self.pass(&mut client, now).await?;
                rest = later;
                if frames.is_between() {
                    self.respond(&mut client).await?;
                }
            }
            self.pass(&mut client, rest).await?;
            drop(chunk);
            chunk = loop {
                if let Some(chunk) = watching(self.next(frames.is_between()), &mut client, Some(self.watch())).await? {
                    break chunk;
                }
                self.respond(&mut client).await?;
            };
            if chunk.is_empty() {
                break;
            }
            self.motion_down().seen();
        }
        if !self.upstream.ended_orderly() {
            return Err(Failure::Truncated);
        }
        pump::finish(&mut client, self.carried, Party::Upstream).await;
        Ok(())
    }

    fn watch(&self) -> Watch<'_> {
        let Socket { upstream, intake, finished_client, .. } = self;
        Watch { upstream, intake, finished_client: *finished_client }
    }

    /// What the upstream sends next; none if there are responses of ours, where they may stand.
    async fn next(&self, is_between: bool) -> Result<Option<Chunk>, Failure> {
        let mut chunk = Chunk::empty();
        let mut responses = pin!(self.has_responses.notified());
        poll_fn(|context| {
            if is_between && responses.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(None));
            }
            self.upstream.poll_recv_more(context, &mut chunk).map(|received| match received {
                Ok(_) => Ok(Some(std::mem::replace(&mut chunk, Chunk::empty()))),
                Err(_) => Err(Failure::Sender),
            })
        })
        .await
    }

    /// Sends the responses that wait; nothing behind the last one.
    async fn respond(&self, client: &mut impl Sink) -> Result<(), Failure> {
        let responses = self.responses.take();
        if !responses.is_empty() {
            self.pass(client, &responses).await?;
            self.responded.notify_one();
        }
        if self.closes.get() {
            self.closed.notify_one();
            pending::<()>().await;
        }
        Ok(())
    }

    async fn pass(&self, client: &mut impl Sink, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.motion_down().send(client, bytes).await
    }

    fn motion_up(&self) -> Motion<'_> {
        let (count, intake) = (&self.carried.from_client, Some(&self.intake));
        Motion { count, moved: self.moved, intake, throttle: self.throttles.up() }
    }

    fn motion_down(&self) -> Motion<'_> {
        Motion { count: &self.carried.to_client, moved: self.moved, intake: None, throttle: self.throttles.down() }
    }
}
