//! Opaque bytes both ways between a client and a server, with half-close, an idle limit and a longest life.
//!
//! Each direction waits for its receiver before it takes more from its sender, so what is under way is bounded by one chunk or one pipe. A
//! direction at rest holds neither. Between two plain sockets bytes that come in bulk are moved inside the kernel; few bytes are copied, which is
//! cheaper then. The client may be a stream of HTTP/2 (`http/upgraded.rs`). While the upstream takes nothing, nobody reads from the client, so that
//! the other direction watches whether it is still there.
//!
//! How one side ends never decides what the other one still gets: a receiver that is slow is waited for as long as it takes something
//! (`delivery.rs`), and a direction whose receiver is gone does not end the other one.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use net::clock::{coarse, precise};
use net::splice::Pipe;
use net::{Chunk, Deadline};
use pin_project_lite::pin_project;
use transport::{Broken, Transport};

use crate::delivery::{Progress, Taken};
use crate::message::sides::sleep_until;
use crate::policies::{Throttle, Throttles};

/// Less than this in a pipe is no bulk any more.
const BULK_BYTES: usize = 16 * 1024;

/// What is read and dropped of a side whose receiver is gone, bytes: it may read nothing itself while it cannot write.
const MOST_DROPPED: usize = 1024 * 1024;

/// How long an upstream may take nothing of what is left of a client whose connection was reset: nobody waits for that any more.
pub(crate) const BROKEN_CLIENT_WAIT: Duration = Duration::from_secs(2);

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides had finished.
    Finished,
    /// Nothing moved for too long.
    Idle,
    /// Its longest life is over.
    Expired,
    /// The client's TLS ended without close_notify: it may have been cut by somebody else (RFC 8446 §6.1).
    ClientCut,
    /// What the client sent may not pass.
    Rejected,
    /// The client's connection broke.
    ClientBroke,
    /// The upstream's TLS ended without close_notify.
    UpstreamCut,
    /// The upstream's connection broke.
    UpstreamBroke,
}

impl End {
    /// Whether one side ended badly only after the other had ended, which is how many programs close: nobody waits for a proper end any more. Who ended
    /// first decides whose end it was.
    pub fn is_answer_to(self, first: Option<Party>) -> bool {
        match self {
            End::ClientCut | End::ClientBroke => first == Some(Party::Upstream),
            End::UpstreamCut | End::UpstreamBroke => first == Some(Party::Client),
            End::Finished | End::Idle | End::Expired | End::Rejected => false,
        }
    }
}

/// One end of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// Who connected to us.
    Client,
    /// Whom we connected to.
    Upstream,
}

impl Party {
    /// What it is called in the log.
    pub fn name(self) -> &'static str {
        match self {
            Party::Client => "client",
            Party::Upstream => "upstream",
        }
    }

    fn other(self) -> Party {
        match self {
            Party::Client => Party::Upstream,
            Party::Upstream => Party::Client,
        }
    }
}

/// How long a tunnel may last, and how fast it may be.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'t> {
    /// Without a byte either way.
    pub idle: Duration,
    /// At all, on the coarse clock; none for no bound.
    pub until: Option<Duration>,
    /// Without a byte that the upstream takes, once the client has finished sending and bytes of it still wait; none for no other bound than `idle`.
    pub finished_client: Option<Duration>,
    /// Without a byte that the upstream takes, once the client's connection is broken and bytes of it still wait.
    pub broken_client: Duration,
    /// How fast its bytes may go.
    pub throttles: &'t Throttles,
}

/// Bytes a tunnel carried, and who finished first.
#[derive(Debug, Default)]
pub struct Carried {
    /// From the client.
    pub from_client: Cell<u64>,
    /// To the client.
    pub to_client: Cell<u64>,
    /// Whose end came first.
    pub ended_first: Cell<Option<Party>>,
    /// Who can be sent nothing any more, although the other side may still be.
    lost: Cell<Option<Party>>,
    /// One direction is finished.
    is_half_done: Cell<bool>,
}

impl Carried {
    /// The end of this side has come, whatever of it is still on its way.
    pub(crate) fn ends(&self, party: Party) {
        self.ended_first.set(self.ended_first.get().or(Some(party)));
    }

    fn lose(&self, party: Party) {
        self.ends(party);
        self.lost.set(self.lost.get().or(Some(party)));
    }
}

/// Where the bytes of one direction come from.
pub trait Source {
    /// The next bytes; an empty chunk is the sender's end.
    async fn recv(&mut self) -> Result<Chunk, Broken>;

    /// Whether an end that was received is beyond doubt the sender's own.
    fn ended_orderly(&self) -> bool;

    /// The connection, if its bytes go over the socket as they are.
    fn plain(&self) -> Option<&Transport>;
}

/// Where the bytes of one direction go.
pub trait Sink {
    /// See [`Sink::taken`].
    type Taken: Taken;

    /// What tells how much the receiver has taken; it outlives the sink.
    fn taken(&self) -> Self::Taken;

    /// Sends all of these bytes.
    async fn send(&mut self, bytes: &[u8]) -> Result<(), Broken>;

    /// Ends the direction. `closes_next`: the close of the whole connection follows at once.
    async fn finish(&mut self, closes_next: bool);

    /// Waits until the receiver has broken off or, with `or_finished`, sends no more, if that can be seen before all that it has sent is read.
    async fn gone(&mut self, or_finished: bool);

    /// The connection, if its bytes go over the socket as they are.
    fn plain(&self) -> Option<&Transport>;
}

impl Source for &Transport {
    async fn recv(&mut self) -> Result<Chunk, Broken> {
        Transport::recv(self).await
    }

    fn ended_orderly(&self) -> bool {
        Transport::ended_orderly(self)
    }

    fn plain(&self) -> Option<&Transport> {
        self.is_plain().then_some(*self)
    }
}

impl<'t> Sink for &'t Transport {
    type Taken = &'t Transport;

    fn taken(&self) -> &'t Transport {
        self
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        Transport::send(self, bytes).await
    }

    async fn finish(&mut self, closes_next: bool) {
        if closes_next {
            self.finish_before_close().await;
        } else {
            Transport::finish(self).await;
        }
    }

    async fn gone(&mut self, or_finished: bool) {
        let (stream, mut wait) = (self.stream(), None);
        poll_fn(|context| stream.poll_gone(context, or_finished, &mut wait)).await;
    }

    fn plain(&self) -> Option<&Transport> {
        self.is_plain().then_some(*self)
    }
}

/// Carries bytes until both sides have finished; both are to be closed then. `client` is where the client's bytes come from and where its own go. What comes
/// with each side was received already and goes ahead.
pub async fn run(
    (client, client_first): ((impl Source, impl Sink), Chunk),
    (upstream, upstream_first): (&Transport, Chunk),
    bounds: Bounds<'_>,
    carried: &Carried,
) -> End {
    let (from_client, to_client) = client;
    let moved = Cell::new(coarse());
    let intake = Intake::default();
    let watch = Watch { intake: &intake, upstream, finished_client: bounds.finished_client };
    let mut progress = Progress::new((upstream, to_client.taken()));
    let (count, throttle) = (&carried.from_client, bounds.throttles.up());
    let motion = Motion { count, moved: &moved, intake: Some(&intake), throttle };
    let up = Direction { sender: Party::Client, from: from_client, to: upstream, motion, carried, watch: None };
    let (count, throttle) = (&carried.to_client, bounds.throttles.down());
    let motion = Motion { count, moved: &moved, intake: None, throttle };
    let down =
        Direction { sender: Party::Upstream, from: upstream, to: to_client, motion, carried, watch: Some(watch) };
    let directions = (pin!(up.copy(client_first)), pin!(down.copy(upstream_first)));
    drive(directions, bounds, &moved, carried, &mut progress).await
}

/// Drives both directions of a tunnel to their ends, within its bounds.
pub(crate) async fn drive(
    (mut up, mut down): (
        Pin<&mut impl Future<Output = Result<(), Failure>>>,
        Pin<&mut impl Future<Output = Result<(), Failure>>>,
    ),
    bounds: Bounds<'_>,
    moved: &Cell<Duration>,
    carried: &Carried,
    progress: &mut Progress<impl Taken>,
) -> End {
    let (mut up_done, mut down_done) = (false, false);
    let mut deadline = Deadline::new();
    poll_fn(|context| {
        if !up_done && let Poll::Ready(result) = up.as_mut().poll(context) {
            up_done = true;
            if let Some(end) = ended(result, Party::Client, carried) {
                return Poll::Ready(end);
            }
        }
        if !down_done && let Poll::Ready(result) = down.as_mut().poll(context) {
            down_done = true;
            if let Some(end) = ended(result, Party::Upstream, carried) {
                return Poll::Ready(end);
            }
        }
        // What its sender still says to a side that is gone does not matter.
        let lost = carried.lost.get();
        let is_over = (up_done || lost == Some(Party::Upstream)) && (down_done || lost == Some(Party::Client));
        if is_over {
            return Poll::Ready(lost.map_or(End::Finished, broke));
        }
        let idle = if lost == Some(Party::Client) { bounds.idle.min(bounds.broken_client) } else { bounds.idle };
        // What moved since the timer was armed moves the deadline: ask again until it lies ahead.
        loop {
            let idle_at = (moved.get() + idle).min(progress.look_at(idle));
            let at = bounds.until.map_or(idle_at, |until| until.min(idle_at));
            ready!(deadline.poll_elapsed(at, context));
            if bounds.until.is_some_and(|until| coarse() >= until) {
                return Poll::Ready(End::Expired);
            }
            if progress.look(idle) {
                moved.set(moved.get().max(coarse()));
            }
            if moved.get() + idle <= coarse() {
                return Poll::Ready(lost.map_or(End::Idle, broke));
            }
        }
    })
    .await
}

/// How a tunnel ends of which one side's connection broke.
fn broke(party: Party) -> End {
    match party {
        Party::Client => End::ClientBroke,
        Party::Upstream => End::UpstreamBroke,
    }
}

/// How the tunnel ends with a direction that ended like this; none if the other one goes on.
fn ended(result: Result<(), Failure>, sender: Party, carried: &Carried) -> Option<End> {
    let receiver = sender.other();
    match result {
        Ok(()) => carried.ends(sender),
        Err(Failure::Receiver) => carried.lose(receiver),
        Err(Failure::Rejected) => return Some(End::Rejected),
        Err(Failure::Sender) => {
            carried.ends(sender);
            return Some(broke(sender));
        }
        Err(Failure::Truncated) => {
            carried.ends(sender);
            return Some(if sender == Party::Client { End::ClientCut } else { End::UpstreamCut });
        }
    }
    None
}

/// Why a direction broke.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failure {
    /// Its sender's connection broke.
    Sender,
    /// Its sender's end cannot be distinguished from a cut.
    Truncated,
    /// Its receiver's connection broke.
    Receiver,
    /// What its sender said may not pass.
    Rejected,
}

/// Ends our direction towards a receiver whose sender has finished. The second of both is followed by the close, which is an end as well.
pub(crate) async fn finish(to: &mut impl Sink, carried: &Carried, sender: Party) {
    carried.ends(sender);
    to.finish(carried.is_half_done.get()).await;
    carried.is_half_done.set(true);
}

/// Why the direction to the upstream does not read from the client.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    /// The upstream takes nothing now, or must not get anything yet.
    is_full: Cell<bool>,
    /// Up to when it must not, on the precise clock.
    rests_until: Cell<Duration>,
}

/// What the direction to the client watches for, while the other one cannot read from the client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch<'w> {
    pub(crate) intake: &'w Intake,
    pub(crate) upstream: &'w Transport,
    /// As in [`Bounds`].
    pub(crate) finished_client: Option<Duration>,
}

impl Watch<'_> {
    /// Waits until the client has left: broken off, or finished while the upstream takes nothing for too long.
    async fn client_has_left(self, client: &mut impl Sink) {
        let Some(wait) = self.finished_client else { return client.gone(false).await };
        client.gone(true).await;
        let mut deadline = Deadline::new();
        loop {
            let taken = self.upstream.taken();
            // What must not go on yet cannot be taken.
            let rest = self.intake.rests_until.get().saturating_sub(precise());
            // What it has sent may still be wanted by an upstream that is slow.
            let broke_off = deadline.within(rest.saturating_add(wait), client.gone(false)).await.is_ok();
            if broke_off || self.upstream.taken() == taken {
                return;
            }
        }
    }
}

pin_project! {
    /// Bytes on their way to a receiver; notes while it takes nothing. A struct and not an `async fn`, as all that wraps other futures on the way of messages.
    #[must_use = "futures do nothing unless awaited"]
    pub(crate) struct Noting<'c, F> {
        pub(crate) intake: Option<&'c Intake>,
        #[pin]
        pub(crate) sending: F,
    }
}

impl<F: Future> Future for Noting<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = this.sending.poll(context);
        if let Some(intake) = this.intake {
            intake.is_full.set(polled.is_pending());
        }
        polled
    }
}

pin_project! {
    /// A wait for the upstream, which ends when the client leaves whom nobody reads from meanwhile.
    #[must_use = "futures do nothing unless awaited"]
    pub(crate) struct Watching<'w, T, F> {
        client: Option<&'w mut T>,
        watch: Option<Watch<'w>>,
        // Takes memory only while the upstream takes nothing.
        leaving: Option<Pin<Box<dyn Future<Output = ()> + 'w>>>,
        #[pin]
        waiting: F,
    }
}

/// Waits for the upstream; `client` is where its bytes go.
pub(crate) fn watching<'w, T: Sink, F>(waiting: F, client: &'w mut T, watch: Option<Watch<'w>>) -> Watching<'w, T, F> {
    Watching { client: Some(client), watch, leaving: None, waiting }
}

impl<T: Sink, R, F: Future<Output = Result<R, Failure>>> Future for Watching<'_, T, F> {
    type Output = Result<R, Failure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.waiting.poll(context) {
            return Poll::Ready(done);
        }
        let Some(watch) = this.watch.filter(|watch| watch.intake.is_full.get()) else { return Poll::Pending };
        if let Some(client) = this.client.take() {
            *this.leaving = Some(Box::pin(watch.client_has_left(client)));
        }
        match this.leaving {
            Some(leaving) => leaving.as_mut().poll(context).map(|()| Err(Failure::Receiver)),
            None => Poll::Pending,
        }
    }
}

/// What is known of the bytes of one direction, and how fast they may go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Motion<'a> {
    /// How many have gone.
    pub(crate) count: &'a Cell<u64>,
    /// When something moved in either direction, on the coarse clock; it may lie ahead, where something must wait.
    pub(crate) moved: &'a Cell<Duration>,
    /// Notes that the receiver takes nothing, or must not get anything yet.
    pub(crate) intake: Option<&'a Intake>,
    /// How fast they may go, if that is limited.
    pub(crate) throttle: Option<&'a Throttle>,
}

impl Motion<'_> {
    /// Sends bytes as fast as they may go.
    pub(crate) async fn send(self, to: &mut impl Sink, bytes: &[u8]) -> Result<(), Failure> {
        let Some(throttle) = self.throttle else { return self.send_now(to, bytes).await };
        for slice in bytes.chunks(throttle.slice()) {
            let reserved = throttle.reserve(slice.len());
            if let Some(moment) = reserved.until() {
                // A tunnel that must wait is not idle.
                self.moved.set(self.moved.get().max(moment));
                self.intake.iter().for_each(|intake| intake.rests_until.set(moment));
                Noting { intake: self.intake, sending: sleep_until(moment) }.await;
            }
            self.send_now(to, slice).await?;
            reserved.used();
        }
        Ok(())
    }

    async fn send_now(self, to: &mut impl Sink, bytes: &[u8]) -> Result<(), Failure> {
        let sending = Noting { intake: self.intake, sending: to.send(bytes) };
        sending.await.map_err(|_| Failure::Receiver)?;
        self.note(bytes.len());
        Ok(())
    }

    fn note(self, bytes: usize) {
        self.count.set(self.count.get() + bytes as u64);
        self.seen();
    }

    /// Something has moved.
    pub(crate) fn seen(self) {
        self.moved.set(self.moved.get().max(coarse()));
    }
}

/// One direction of a tunnel.
struct Direction<'a, F, T> {
    sender: Party,
    from: F,
    to: T,
    motion: Motion<'a>,
    carried: &'a Carried,
    /// Of the direction to the client.
    watch: Option<Watch<'a>>,
}

impl<F: Source, T: Sink> Direction<'_, F, T> {
    /// Until the sender finishes; then the receiver's side is finished too. Where that is gone, what the sender says is dropped until it has said all.
    async fn copy(mut self, first: Chunk) -> Result<(), Failure> {
        let copied = self.copy_to_end(first).await;
        if matches!(copied, Err(Failure::Receiver)) {
            self.carried.lose(self.sender.other());
            self.motion.seen();
            let mut dropped = 0;
            while dropped < MOST_DROPPED {
                match self.from.recv().await {
                    Ok(chunk) if !chunk.is_empty() => dropped += chunk.len(),
                    _ => return copied,
                }
            }
            std::future::pending::<()>().await;
        }
        copied
    }

    async fn copy_to_end(&mut self, first: Chunk) -> Result<(), Failure> {
        let is_plain = self.from.plain().is_some() && self.to.plain().is_some();
        let can_splice = is_plain && self.motion.throttle.is_none();
        let mut chunk = first;
        loop {
            let is_bulk = can_splice && chunk.is_full();
            if !chunk.is_empty() {
                self.motion.send(&mut self.to, &chunk).await?;
            }
            // The buffer goes back to the pool before we wait.
            drop(chunk);
            if is_bulk && self.splice().await? {
                break;
            }
            let receiving = async { self.from.recv().await.map_err(|_| Failure::Sender) };
            chunk = watching(receiving, &mut self.to, self.watch).await?;
            if chunk.is_empty() {
                break;
            }
            self.motion.seen();
        }
        if !self.from.ended_orderly() {
            return Err(Failure::Truncated);
        }
        finish(&mut self.to, self.carried, self.sender).await;
        Ok(())
    }

    /// Moves bytes inside the kernel for as long as they come in bulk. True at the sender's end.
    async fn splice(&mut self) -> Result<bool, Failure> {
        loop {
            let Some(from) = self.from.plain() else { return Ok(false) };
            // While nothing comes, the pipe is with others.
            let filling = poll_fn(|context| {
                let Ok(mut pipe) = Pipe::take() else { return Poll::Ready(Ok(None)) };
                let count = ready!(from.poll_fill(context, &mut pipe)).map_err(|_| Failure::Sender)?;
                Poll::Ready(Ok(Some((pipe, count))))
            });
            let filled = watching(filling, &mut self.to, self.watch).await?;
            // Without pipes, copying goes on.
            let Some((mut pipe, count)) = filled else { return Ok(false) };
            if count == 0 {
                return Ok(true);
            }
            let Some(to) = self.to.plain() else { return Ok(false) };
            while pipe.held() > 0 {
                let draining = poll_fn(|context| to.poll_drain(context, &mut pipe));
                let drained = Noting { intake: self.motion.intake, sending: draining }.await;
                self.motion.note(drained.map_err(|_| Failure::Receiver)?);
            }
            if count < BULK_BYTES {
                return Ok(false);
            }
        }
    }
}
