//! Moving bodies both ways at once, each wait under its deadline.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use net::clock::coarse;
use net::deadline::{LastLook, Within};
use net::pace::{Allowance, Pace};
use net::{Deadline, Elapsed};
use pin_project_lite::pin_project;
use reason::Reason;
use transport::{Broken, buffer, recycle};

use crate::message::body::BodyError;
use crate::message::sides::{BodySink, MessageBody, ResponseSink, sleep_until};

/// What each direction of an exchange has to know of the other.
#[derive(Debug, Default)]
pub struct Flow {
    /// Body bytes from the client.
    pub received: Cell<u64>,
    /// The request's body is still on its way.
    uploading: Cell<bool>,
    /// The final head of the response is there.
    has_response: Cell<bool>,
    /// Something has moved since that was last asked.
    has_moved: Cell<bool>,
    /// When that was last the case, on the coarse clock.
    moved_at: Cell<Duration>,
}

impl Flow {
    /// The final head of the response is there: from now on both directions are bounded together, by [`download`].
    pub fn response_began(&self) {
        self.has_response.set(true);
        self.moved();
    }

    fn moved(&self) {
        self.has_moved.set(true);
    }

    /// Waits, and nothing needs to move before then.
    async fn rest_until(&self, moment: Option<Duration>) {
        let Some(moment) = moment else { return };
        self.has_moved.set(false);
        self.moved_at.set(self.moved_at.get().max(moment));
        sleep_until(moment).await;
    }

    /// Since when nothing has moved, for a wait that blocks. Both directions belong to one task, so the clock need not be read before that.
    fn still_since(&self) -> Duration {
        if self.has_moved.replace(false) {
            self.moved_at.set(self.moved_at.get().max(coarse()));
        }
        self.moved_at.get()
    }
}

/// What a request body is held to.
#[derive(Debug, Clone, Copy)]
pub struct UploadTerms {
    /// How slow the client may be.
    pub pace: Pace,
    /// Largest body.
    pub max_body_bytes: u64,
    /// How long the upstream may take to accept a piece.
    pub stall: Duration,
}

/// Why moving the request body ended early.
#[derive(Debug)]
pub enum UploadError {
    /// The client's body was cut or broken.
    Client(BodyError),
    /// The client was too slow.
    ClientSlow,
    /// The body grew beyond the route's limit.
    TooLarge,
    /// The upstream takes no more. It may have answered all the same.
    Upstream,
}

/// The request body on its way, beside whatever else is going on.
pub struct Upload<'f, F> {
    future: Option<Pin<&'f mut F>>,
    /// When the last byte of the request was on its way, on the coarse clock.
    finished_at: Option<Duration>,
    /// It ended because the upstream took no more.
    pub rejected: bool,
}

/// Why something beside an upload ended early.
#[derive(Debug)]
pub enum Stopped {
    /// The upload failed on the client's side.
    Upload(UploadError),
    /// The time since the end of the upload is over.
    Elapsed,
    /// The client does not wait for the response any more: why.
    Gone(Reason),
}

impl<'f, F: Future<Output = Result<(), UploadError>>> Upload<'f, F> {
    /// An upload to be driven.
    pub fn new(future: Pin<&'f mut F>) -> Upload<'f, F> {
        Upload { future: Some(future), finished_at: None, rejected: false }
    }

    /// Whether the whole request went out.
    pub fn is_complete(&self) -> bool {
        self.future.is_none() && !self.rejected
    }

    /// Waits for `main` while the upload goes on; with `patience`, at most that long after the upload's end; and only while `gone` is
    /// not ready.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn beside<'u, M: Future, G: FnMut(&mut Context<'_>) -> Poll<Reason>>(
        &'u mut self,
        main: M,
        patience: Option<(&'u mut Deadline, Duration)>,
        gone: G,
    ) -> Beside<'u, 'f, F, M, G> {
        Beside { upload: self, patience, gone, last_look: LastLook::default(), main }
    }

    /// Goes on with the upload.
    ///
    /// # Errors
    /// It failed on the client's side.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<(), UploadError> {
        let Some(future) = &mut self.future else { return Ok(()) };
        let Poll::Ready(result) = future.as_mut().poll(context) else { return Ok(()) };
        self.future = None;
        self.finished_at = Some(coarse());
        if matches!(result, Err(UploadError::Upstream)) {
            self.rejected = true;
            return Ok(());
        }
        result
    }
}

pin_project! {
    /// A wait beside an upload. A struct and not an `async fn`, which would hold the future that it is given twice.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Beside<'u, 'f, F, M, G> {
        upload: &'u mut Upload<'f, F>,
        patience: Option<(&'u mut Deadline, Duration)>,
        gone: G,
        last_look: LastLook,
        #[pin]
        main: M,
    }
}

impl<F, M, G> Future for Beside<'_, '_, F, M, G>
where
    F: Future<Output = Result<(), UploadError>>,
    M: Future,
    G: FnMut(&mut Context<'_>) -> Poll<Reason>,
{
    type Output = Result<M::Output, Stopped>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !this.last_look.has_begun() {
            this.upload.advance(context).map_err(Stopped::Upload)?;
            if let Poll::Ready(output) = this.main.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            if let Poll::Ready(why) = (this.gone)(context) {
                return Poll::Ready(Err(Stopped::Gone(why)));
            }
            let (Some((deadline, limit)), Some(at)) = (this.patience, this.upload.finished_at) else {
                return Poll::Pending;
            };
            ready!(deadline.poll_elapsed(at + *limit, context));
        }
        ready!(this.last_look.poll(context));
        match this.main.poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Poll::Ready(Err(Stopped::Elapsed)),
        }
    }
}

/// A wait of the upload, which has a limit of its own only while there is no response: afterwards a client that is quiet may be listening, and a server
/// that takes nothing may be talking.
fn before_response<'d, F: Future>(
    flow: &'d Flow,
    deadline: &'d mut Deadline,
    limit: Duration,
    future: F,
) -> Within<'d, impl FnMut() -> Option<Duration> + use<'d, F>, F> {
    let mut since = None;
    let expires = move || (!flow.has_response.get()).then(|| *since.get_or_insert_with(coarse) + limit);
    deadline.bounded(expires, future)
}

/// As [`before_response`], and notes in `since` when a wait began that blocked: where the next piece is at hand, the clock is not read.
fn before_response_since<'d, F: Future>(
    since: &'d Cell<Option<Duration>>,
    flow: &'d Flow,
    deadline: &'d mut Deadline,
    limit: Duration,
    future: F,
) -> Within<'d, impl FnMut() -> Option<Duration> + use<'d, F>, F> {
    let expires = move || {
        let began = since.get().unwrap_or_else(coarse);
        since.set(Some(began));
        (!flow.has_response.get()).then_some(began + limit)
    };
    deadline.bounded(expires, future)
}

/// Sends a request: its head, then its body as it arrives.
///
/// # Errors
/// See [`UploadError`].
pub async fn upload(
    head: &[u8],
    body: &mut impl MessageBody,
    mut writer: impl BodySink,
    terms: UploadTerms,
    flow: &Flow,
    deadline: &mut Deadline,
) -> Result<(), UploadError> {
    let UploadTerms { pace, max_body_bytes, stall } = terms;
    let mut before = head;
    if body.is_done() {
        // A body that was read beforehand and turned out to be empty still has an end, which its framing may have to tell.
        let trailers = body.trailers();
        return accepted(before_response(flow, deadline, stall, writer.finish(before, &[], trailers.as_ref())).await);
    }
    if !body.has_input() {
        accepted(before_response(flow, deadline, stall, writer.write(before, &[])).await)?;
        before = &[];
    }
    flow.uploading.set(true);
    let mut allowance = Allowance::new(pace);
    let mut joined = Joined::default();
    loop {
        let next = if joined.is_empty() {
            let since = Cell::new(None);
            let next = before_response_since(&since, flow, deadline, allowance.left(), body.next()).await;
            let next = next.map_err(|_| UploadError::ClientSlow)?.map_err(UploadError::Client)?;
            let count = next.map_or(0, <[u8]>::len);
            let waited = since.get().map_or(Duration::ZERO, |since| coarse().saturating_sub(since));
            allowance.moved(waited, count as u64);
            Some(next.map(|_| count))
        } else {
            at_hand(body.next()).await.transpose().map_err(UploadError::Client)?.map(|next| next.map(<[u8]>::len))
        };
        let count = match next {
            Some(Some(count)) => count,
            Some(None) => break,
            // Nothing more is at hand: what there is goes out before we wait.
            None => {
                accepted(before_response(flow, deadline, stall, writer.write(before, &joined.0)).await)?;
                (before, _) = (&[], joined.empty());
                flow.moved();
                continue;
            }
        };
        flow.received.set(flow.received.get() + count as u64);
        flow.moved();
        if flow.received.get() > max_body_bytes {
            return Err(UploadError::TooLarge);
        }
        flow.rest_until(body.waits_until()).await;
        // A small last piece goes out with the end: servers of HTTP/2 (Tomcat) count small frames that do not end a body as a flood.
        if joined.takes(count, false) {
            joined.0.extend_from_slice(body.last());
            continue;
        }
        if !joined.is_empty() {
            accepted(before_response(flow, deadline, stall, writer.write(before, &joined.0)).await)?;
            (before, _) = (&[], joined.empty());
        }
        accepted(before_response(flow, deadline, stall, writer.write(before, body.last())).await)?;
        before = &[];
        flow.moved();
    }
    let trailers = body.trailers();
    let ended = before_response(flow, deadline, stall, writer.finish(before, &joined.0, trailers.as_ref())).await;
    flow.uploading.set(false);
    flow.moved();
    accepted(ended)
}

/// Pieces of less than this are joined with others that are at hand.
const SMALL_BYTES: usize = 4 * 1024;

/// Most that is joined, bytes: a record of TLS, a common frame of HTTP/2.
const JOINED_BYTES: usize = 16 * 1024;

/// Small pieces of a body that go out together: a peer may put each byte into a chunk or frame of its own, and each write costs.
#[derive(Debug, Default)]
struct Joined(Vec<u8>);

impl Joined {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a piece of this length is to be joined. One that `is_last` is not copied if it is alone.
    fn takes(&mut self, count: usize, is_last: bool) -> bool {
        if count >= SMALL_BYTES || self.0.len() + count > JOINED_BYTES || (is_last && self.0.is_empty()) {
            return false;
        }
        if self.0.capacity() == 0 {
            self.0 = buffer();
        }
        true
    }

    /// Drops what it holds, and gives the memory back.
    fn empty(&mut self) {
        recycle(std::mem::take(&mut self.0));
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.empty();
    }
}

/// What a future gives without waiting, if it does.
async fn at_hand<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Whether the upstream accepted what was written. One that takes no more in time is waited for no longer: it may still answer.
fn accepted(written: Result<Result<(), Broken>, Elapsed>) -> Result<(), UploadError> {
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(UploadError::Upstream),
    }
}

/// Why a response could not be relayed to its end.
#[derive(Debug)]
pub enum DownloadError {
    /// The upstream's body was cut or broken.
    Upstream(BodyError),
    /// The upstream was silent for too long.
    UpstreamSlow,
    /// Nothing moved either way for too long, and either side could have gone on.
    Idle,
    /// The client is gone.
    Client,
    /// The client took too long to accept bytes.
    ClientSlow,
    /// The client does not wait for the response any more: why.
    Gone(Reason),
}

impl From<Broken> for DownloadError {
    fn from(broken: Broken) -> DownloadError {
        if broken.is_timeout() { DownloadError::ClientSlow } else { DownloadError::Client }
    }
}

pin_project! {
    /// Waits for a future, unless the client stops waiting for the response first.
    struct UnlessGone<'a, A, F> {
        sink: &'a mut A,
        #[pin]
        future: F,
    }
}

impl<A: ResponseSink, F: Future> Future for UnlessGone<'_, A, F> {
    type Output = Result<F::Output, Reason>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.future.poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => this.sink.poll_gone(context).map(Err),
        }
    }
}

/// Relays the body of a response whose head is finished, and its end. `idle`: longest time in which nothing moves in either direction.
///
/// # Errors
/// See [`DownloadError`]. The client must not be able to take what it got for the whole.
pub async fn download(
    body: &mut impl MessageBody,
    sink: &mut impl ResponseSink,
    idle: Duration,
    flow: &Flow,
    sent: &Cell<u64>,
    deadline: &mut Deadline,
) -> Result<(), DownloadError> {
    let mut joined = Joined::default();
    loop {
        let next = if joined.is_empty() {
            if !body.has_input() && !body.is_done() {
                // Nothing more is at hand: what there is goes out before we wait.
                sink.flush().await?;
            }
            let future = UnlessGone { sink, future: body.next() };
            // As long as something moves in either direction.
            let next = deadline.bounded(|| Some(flow.still_since() + idle), future).await;
            match next {
                Ok(next) => Some(next.map_err(DownloadError::Gone)?),
                Err(Elapsed) if flow.uploading.get() => return Err(DownloadError::Idle),
                Err(Elapsed) => return Err(DownloadError::UpstreamSlow),
            }
        } else {
            at_hand(body.next()).await
        };
        let count = match next.map(|next| next.map(|next| next.map(<[u8]>::len))) {
            Some(Ok(Some(count))) => count,
            Some(Ok(None)) => break,
            Some(Err(error)) => {
                // What came before is the client's.
                send_joined(sink, &mut joined, sent).await?;
                return Err(DownloadError::Upstream(error));
            }
            None => {
                send_joined(sink, &mut joined, sent).await?;
                flow.moved();
                continue;
            }
        };
        // Only what can go out now: a response that waits for its client has no more memory than what it was received in.
        if sink.has_capacity(joined.0.len() + count) && joined.takes(count, body.is_done()) {
            joined.0.extend_from_slice(body.last());
            continue;
        }
        send_joined(sink, &mut joined, sent).await?;
        if body.was_last() {
            sink.last(body.last(), None).await?;
            sent.set(sent.get() + count as u64);
            return Ok(());
        }
        sink.piece(body.last()).await?;
        sent.set(sent.get() + count as u64);
        flow.moved();
    }
    let trailers = body.trailers();
    if joined.is_empty() {
        return Ok(sink.end(trailers.as_ref()).await?);
    }
    sink.last(&joined.0, trailers.as_ref()).await?;
    sent.set(sent.get() + joined.0.len() as u64);
    Ok(())
}

async fn send_joined(sink: &mut impl ResponseSink, joined: &mut Joined, sent: &Cell<u64>) -> Result<(), Broken> {
    if !joined.is_empty() {
        sink.piece(&joined.0).await?;
        sent.set(sent.get() + joined.0.len() as u64);
        // The next piece may wait for the client, and not with this memory beside it.
        joined.empty();
    }
    Ok(())
}
