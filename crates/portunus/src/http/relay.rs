//! Moving bodies both ways at once, each wait under its deadline.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use net::clock::coarse;
use net::deadline::LastLook;
use net::{Deadline, Elapsed};
use pin_project_lite::pin_project;

use super::body::BodyError;
use super::sides::{Answer, BodySink, MessageBody};
use crate::limits::Limits;
use crate::transport::Broken;

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
    pub refused: bool,
}

/// Why something beside an upload ended early.
#[derive(Debug)]
pub enum Stopped {
    /// The upload failed on the client's side.
    Upload(UploadError),
    /// The time since the end of the upload is over.
    Elapsed,
    /// The client has thrown the request away.
    Gone,
}

impl<'f, F: Future<Output = Result<(), UploadError>>> Upload<'f, F> {
    /// An upload to be driven.
    pub fn new(future: Pin<&'f mut F>) -> Upload<'f, F> {
        Upload { future: Some(future), finished_at: None, refused: false }
    }

    /// Whether the whole request went out.
    pub fn is_complete(&self) -> bool {
        self.future.is_none() && !self.refused
    }

    /// Waits for `main` while the upload goes on; with `patience`, at most that long after the upload's end; and only while `gone` is
    /// not ready.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn beside<'u, M: Future, G: FnMut(&mut Context<'_>) -> Poll<()>>(
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
            self.refused = true;
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
    G: FnMut(&mut Context<'_>) -> Poll<()>,
{
    type Output = Result<M::Output, Stopped>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !this.last_look.has_begun() {
            this.upload.advance(context).map_err(Stopped::Upload)?;
            if let Poll::Ready(output) = this.main.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            if (this.gone)(context).is_ready() {
                return Poll::Ready(Err(Stopped::Gone));
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

/// A body that has been going on for a while and is slower than allowed.
fn is_too_slow(since: Duration, bytes: u64, limits: &Limits) -> bool {
    let elapsed = coarse().saturating_sub(since);
    elapsed > limits.client_idle_timeout && (bytes as f64) < limits.min_body_rate as f64 * elapsed.as_secs_f64()
}

/// How long a peer may take to accept `bytes`.
fn patience(bytes: usize, limits: &Limits) -> Duration {
    limits.client_idle_timeout + Duration::from_secs(bytes as u64 / limits.min_body_rate.max(1))
}

/// Sends a request: its head, then its body as it arrives. The upstream may take `idle` to accept a piece.
///
/// # Errors
/// See [`UploadError`].
#[expect(clippy::too_many_arguments, reason = "the parts of one exchange, each borrowed from its owner")]
pub async fn upload(
    head: &[u8],
    body: &mut impl MessageBody,
    mut writer: impl BodySink,
    limits: &Limits,
    max_body_bytes: u64,
    idle: Duration,
    received: &Cell<u64>,
    deadline: &mut Deadline,
) -> Result<(), UploadError> {
    let mut before = head;
    if body.is_done() || !body.has_input() {
        accepted(deadline.within(idle, writer.write(before, &[])).await)?;
        before = &[];
    }
    if body.is_done() {
        // A body that was read beforehand and turned out to be empty still has an end, which its framing may have to tell.
        return accepted(deadline.within(idle, writer.end(None)).await);
    }
    let since = coarse();
    loop {
        let next = deadline.within(limits.client_idle_timeout, body.next()).await;
        let piece = match next.map_err(|_| UploadError::ClientSlow)?.map_err(UploadError::Client)? {
            Some(piece) => piece,
            None => break,
        };
        received.set(received.get() + piece.len() as u64);
        if received.get() > max_body_bytes {
            return Err(UploadError::TooLarge);
        }
        accepted(deadline.within(idle, writer.write(before, piece)).await)?;
        before = &[];
        if is_too_slow(since, received.get(), limits) {
            return Err(UploadError::ClientSlow);
        }
    }
    if !before.is_empty() {
        accepted(deadline.within(idle, writer.write(before, &[])).await)?;
    }
    let trailers = body.trailers();
    accepted(deadline.within(idle, writer.end(trailers.as_ref())).await)
}

/// Whether the upstream accepted what was written. One that takes no more in time is waited for no longer: it may still answer.
fn accepted(written: Result<Result<(), Broken>, Elapsed>) -> Result<(), UploadError> {
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(UploadError::Upstream),
    }
}

/// Why an answer could not be relayed to its end.
#[derive(Debug)]
pub enum DownloadError {
    /// The upstream's body was cut or broken.
    Upstream(BodyError),
    /// The upstream was silent for too long.
    UpstreamSlow,
    /// The client is gone.
    Client,
    /// The client took too long to accept bytes.
    ClientSlow,
    /// The client has thrown the request away.
    Gone,
}

pin_project! {
    /// Waits for a future; gives none if the client loses interest first.
    struct UnlessGone<'a, A, F> {
        answer: &'a mut A,
        #[pin]
        future: F,
    }
}

impl<A: Answer, F: Future> Future for UnlessGone<'_, A, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.future.poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => this.answer.poll_gone(context).map(|()| None),
        }
    }
}

/// Relays the body of an answer whose head is finished, and its end.
///
/// # Errors
/// See [`DownloadError`]. The client must not be able to take what it got for the whole.
pub async fn download(
    body: &mut impl MessageBody,
    answer: &mut impl Answer,
    limits: &Limits,
    idle: Duration,
    sent: &Cell<u64>,
    deadline: &mut Deadline,
) -> Result<(), DownloadError> {
    loop {
        if !body.has_input() && !body.is_done() {
            // Nothing more is at hand: what there is goes out before we wait.
            let flushed = deadline.within(patience(0, limits), answer.flush()).await;
            flushed.map_err(|_| DownloadError::ClientSlow)?.map_err(|_| DownloadError::Client)?;
        }
        let next = deadline.within(idle, UnlessGone { answer, future: body.next() }).await;
        let next = next.map_err(|_| DownloadError::UpstreamSlow)?.ok_or(DownloadError::Gone)?;
        let Some(piece) = next.map_err(DownloadError::Upstream)? else { break };
        let count = piece.len();
        let written = deadline.within(patience(count, limits), answer.piece(piece)).await;
        written.map_err(|_| DownloadError::ClientSlow)?.map_err(|_| DownloadError::Client)?;
        sent.set(sent.get() + count as u64);
    }
    let trailers = body.trailers();
    let ended = deadline.within(patience(0, limits), answer.end(trailers.as_ref())).await;
    ended.map_err(|_| DownloadError::ClientSlow)?.map_err(|_| DownloadError::Client)
}
