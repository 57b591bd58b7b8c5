//! Moving bodies both ways at once, each wait under its deadline.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use net::Deadline;
use net::clock::coarse;
use net::deadline::last_look;

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
    pub async fn beside<T>(
        &mut self,
        main: impl Future<Output = T>,
        mut patience: Option<(&mut Deadline, Duration)>,
        mut gone: impl FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> Result<T, Stopped> {
        let mut main = pin!(main);
        let waited = poll_fn(|context| {
            if let Some(future) = &mut self.future
                && let Poll::Ready(result) = future.as_mut().poll(context)
            {
                self.future = None;
                self.finished_at = Some(coarse());
                match result {
                    Ok(()) => {}
                    Err(UploadError::Upstream) => self.refused = true,
                    Err(error) => return Poll::Ready(Err(Stopped::Upload(error))),
                }
            }
            if let Poll::Ready(output) = main.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            if gone(context).is_ready() {
                return Poll::Ready(Err(Stopped::Gone));
            }
            match (&mut patience, self.finished_at) {
                (Some((deadline, limit)), Some(at)) => {
                    deadline.poll_elapsed(at + *limit, context).map(|_| Err(Stopped::Elapsed))
                }
                _ => Poll::Pending,
            }
        })
        .await;
        match waited {
            Err(Stopped::Elapsed) => last_look(main).await.ok_or(Stopped::Elapsed),
            other => other,
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
        accepted(writer.write(before, &[]), idle, deadline).await?;
        before = &[];
    }
    if body.is_done() {
        return Ok(());
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
        accepted(writer.write(before, piece), idle, deadline).await?;
        before = &[];
        if is_too_slow(since, received.get(), limits) {
            return Err(UploadError::ClientSlow);
        }
    }
    if !before.is_empty() {
        accepted(writer.write(before, &[]), idle, deadline).await?;
    }
    let trailers = body.trailers();
    accepted(writer.end(trailers.as_ref()), idle, deadline).await
}

/// Waits until the upstream accepts what is written. One that takes no more for `idle` is waited for no longer: it may still answer.
async fn accepted(
    write: impl Future<Output = Result<(), Broken>>,
    idle: Duration,
    deadline: &mut Deadline,
) -> Result<(), UploadError> {
    match deadline.within(idle, write).await {
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

/// Waits for `future`; none if the client loses interest first.
async fn unless_gone<T>(future: impl Future<Output = T>, answer: &mut impl Answer) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => answer.poll_gone(context).map(|()| None),
    })
    .await
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
        let next = deadline.within(idle, unless_gone(body.next(), answer)).await;
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
