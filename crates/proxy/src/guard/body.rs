//! A body under a contract: held until its decision, or validated as it passes, or just passed on.
//!
//! Memory is chunks of the pool: one that came full or holds the whole body is kept as it is, what trickles in is copied together, so that a body
//! never takes more than twice its size and a chunk. Knows nothing of operations; what validates is given to it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use net::chunk::CHUNK_BYTES;
use net::clock::{coarse, precise};
use net::pace::{Allowance, Pace};
use net::{Chunk, Deadline};
use reason::Reason;
use tokio::task::yield_now;
use wire::http::Fields;

use crate::guard::memory::{Lease, NoMemory};
use crate::guard::validation::{Stop, Validation};
use crate::message::body::BodyError;
use crate::message::forwarding::TrailerRule;
use crate::message::rejection::Rejection;
use crate::message::sides::{MessageBody, sleep_until};
use crate::policies::Throttles;

/// A body, as the guard lets it go on.
pub struct GuardedBody<'b, B> {
    inner: &'b mut B,
    /// Pieces that were held and are not yet passed on.
    held: VecDeque<Chunk>,
    /// Lent by the last call.
    lent: Chunk,
    /// Validates what passes.
    watching: Option<Watching<'b>>,
    /// The memory that all this takes.
    lease: Lease<'b>,
    /// Bytes that were validated since others had their turn.
    since_turn: usize,
    /// Trailers are nothing a contract speaks of, so they do not pass one.
    drops_trailers: bool,
    /// Which other trailers may go on.
    trailer_rule: Option<TrailerRule<'b>>,
    /// Where a copy of what passes is put.
    copying: Option<Copying>,
    metered: Metered,
}

/// How fast a body may be read.
#[derive(Debug, Default)]
struct Metered {
    throttles: Throttles,
    /// Up to when what was read last is booked.
    until: Option<Duration>,
    /// How much that is, which nobody has taken before its time.
    booked: Option<usize>,
}

impl Metered {
    /// The next piece of a body, booked.
    async fn next<'i, B: MessageBody>(&mut self, inner: &'i mut B) -> Result<Option<&'i [u8]>, BodyError> {
        let piece = inner.next().await?;
        if let Some(throttle) = self.throttles.up() {
            let reserved = throttle.reserve(piece.map_or(0, <[u8]>::len));
            self.until = reserved.until();
            self.booked = reserved.later();
        }
        Ok(piece)
    }

    /// When what was read last may go on, if not yet.
    fn waits_until(&self) -> Option<Duration> {
        self.until.filter(|until| *until > precise())
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        // Its client has left, or its request ends, while that waited: others need not wait for it.
        if self.waits_until().is_some()
            && let (Some(throttle), Some(bytes)) = (self.throttles.up(), self.booked)
        {
            throttle.give_back(bytes);
        }
    }
}

/// A copy of a body as far as it has passed, within a bound.
#[derive(Debug, Clone)]
pub struct Copying {
    bytes: Rc<RefCell<Option<Vec<u8>>>>,
    max_bytes: usize,
}

impl Copying {
    /// Of at most so many bytes.
    pub fn new(max_bytes: usize) -> Copying {
        Copying { bytes: Rc::new(RefCell::new(Some(Vec::new()))), max_bytes }
    }

    fn add(&self, piece: &[u8]) {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.as_ref().is_some_and(|bytes| bytes.len() + piece.len() > self.max_bytes) {
            *bytes = None;
        }
        if let Some(bytes) = &mut *bytes {
            bytes.extend_from_slice(piece);
        }
    }

    /// Gives the copy up: the body broke.
    fn give_up(&self) {
        *self.bytes.borrow_mut() = None;
    }

    /// What was copied; none if it would have been too much, or the body broke.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.bytes.borrow_mut().take()
    }
}

/// The validation of a body that is not held.
struct Watching<'b> {
    validation: Validation<'b>,
    /// A violation ends the body.
    blocks: bool,
}

/// Why a body could not be held to its end.
#[derive(Debug)]
pub enum HoldError {
    /// It was cut or broken.
    Body(BodyError),
    /// It came too slowly.
    Slow,
    /// It breaks the contract.
    Validated(Stop),
    /// It would take more memory than there is for bodies under validation.
    NoMemory,
}

/// Bytes that are validated before others have their turn, where they are there without waiting.
const BYTES_PER_TURN: usize = 256 * 1024;

impl<'b, B: MessageBody> GuardedBody<'b, B> {
    /// A body that nobody judges.
    pub fn through(inner: &'b mut B, lease: Lease<'b>) -> GuardedBody<'b, B> {
        let (held, lent) = (VecDeque::new(), Chunk::empty());
        GuardedBody {
            inner,
            held,
            lent,
            watching: None,
            lease,
            since_turn: 0,
            drops_trailers: false,
            trailer_rule: None,
            copying: None,
            metered: Metered::default(),
        }
    }

    /// Reads it no faster than this allows.
    pub fn throttle(&mut self, throttles: &Throttles) {
        self.metered.throttles = throttles.clone();
    }

    /// Whether it may have to wait for its bandwidth.
    pub fn is_throttled(&self) -> bool {
        self.metered.throttles.up().is_some()
    }

    /// Puts a copy of what passes there.
    pub fn copy_to(&mut self, copying: Option<Copying>) {
        self.copying = copying;
    }

    /// Lets only the trailers go on that this rule allows.
    pub fn rule_trailers(&mut self, rule: TrailerRule<'b>) {
        self.trailer_rule = Some(rule);
    }

    /// Validates what passes from now on; `blocks`: a violation cuts it.
    pub fn watch(&mut self, validation: Validation<'b>, blocks: bool) {
        self.drops_trailers = blocks;
        self.watching = Some(Watching { validation, blocks });
    }

    /// What the validator of a passing body has found, once the body is over or given up.
    pub fn watched(&mut self) -> Option<Validation<'b>> {
        self.watching.take().map(|watching| watching.validation)
    }

    /// Reads the whole body into memory while `validation` validates it.
    ///
    /// # Errors
    /// See [`HoldError`]. What was held is dropped.
    pub async fn hold(
        &mut self,
        validation: &mut Validation<'_>,
        pace: Pace,
        received: &Cell<u64>,
        deadline: &mut Deadline,
    ) -> Result<(), HoldError> {
        self.drops_trailers = true;
        let mut allowance = Allowance::new(pace);
        let mut total = 0_u64;
        loop {
            let waited_since = coarse();
            let next = deadline.within(allowance.left(), self.metered.next(self.inner)).await;
            let Some(piece) = next.map_err(|_| HoldError::Slow)?.map_err(HoldError::Body)? else { break };
            allowance.moved(coarse().saturating_sub(waited_since), piece.len() as u64);
            total += piece.len() as u64;
            received.set(total);
            if let Some(moment) = self.metered.waits_until() {
                sleep_until(moment).await;
            }
            feed(validation, piece, &mut self.since_turn).await.map_err(HoldError::Validated)?;
            self.keep_last();
            self.count(validation.bytes_held()).map_err(|_| HoldError::NoMemory)?;
        }
        while !validation.finish().map_err(HoldError::Validated)? {
            self.count(validation.bytes_held()).map_err(|_| HoldError::NoMemory)?;
            yield_now().await;
        }
        Ok(())
    }

    /// Counts the memory that the body takes, `validated` of it with the validator. One that came in one piece is not counted.
    fn count(&mut self, validated: usize) -> Result<(), NoMemory> {
        let is_small = self.held.len() <= 1 && validated <= CHUNK_BYTES;
        if is_small && self.inner.is_done() && !self.lease.is_counted() {
            return Ok(());
        }
        self.lease.hold(self.held.len() * CHUNK_BYTES + validated)
    }

    /// Whether the body is validated while it passes and may not pass whole before its decision.
    fn holds_back_the_end(&self) -> bool {
        self.watching.as_ref().is_some_and(|watching| watching.blocks)
    }

    /// The next piece of a body whose end waits for the decision: what was read last is kept back.
    async fn next_but_the_end(&mut self) -> Result<Option<&[u8]>, BodyError> {
        loop {
            let piece = self.metered.next(self.inner).await?;
            let Some(watching) = &mut self.watching else { return Ok(None) };
            let is_over = piece.is_none();
            let validated = match piece {
                Some(piece) => feed(&mut watching.validation, piece, &mut self.since_turn).await.map(|()| true),
                None => finish(&mut watching.validation, &mut self.lease, self.held.len() * CHUNK_BYTES).await,
            };
            if !validated.map_err(|stop| BodyError::Validated(Box::new(stop.rejection)))? {
                return Err(BodyError::Validated(Box::new(NoMemory::rejection())));
            }
            let bytes = watching.validation.bytes_held();
            if is_over {
                // The decision is there: what is held may go now.
                watching.blocks = false;
            } else {
                self.keep_last();
                self.count(bytes).map_err(|_| BodyError::Validated(Box::new(NoMemory::rejection())))?;
            }
            if is_over || self.held.len() > 1 {
                let Some(chunk) = self.held.pop_front() else { return Ok(None) };
                self.lent = chunk;
                return Ok(Some(&self.lent));
            }
        }
    }

    /// Keeps the piece that was read last.
    fn keep_last(&mut self) {
        // A body that came in one piece is kept as it is, however small.
        let is_all = self.held.is_empty() && self.inner.is_done();
        if let Some(chunk) = self.inner.take_last(if is_all { 0 } else { CHUNK_BYTES / 2 }) {
            self.held.push_back(chunk);
            return;
        }
        let mut rest = self.inner.last();
        while !rest.is_empty() {
            let needs_room = self.held.back_mut().is_none_or(|chunk| chunk.spare_mut().is_empty());
            if needs_room {
                self.held.push_back(Chunk::take());
            }
            let Some(chunk) = self.held.back_mut() else { return };
            let spare = chunk.spare_mut();
            let count = spare.len().min(rest.len());
            let (now, later) = rest.split_at(count);
            if let Some(spare) = spare.get_mut(..count) {
                spare.copy_from_slice(now);
            }
            chunk.filled(count);
            rest = later;
        }
    }

    /// Whether nobody looks at what passes, and nothing is held or lent.
    fn only_passes(&self) -> bool {
        let is_noted = self.watching.is_some() || self.copying.is_some() || self.metered.throttles.up().is_some();
        !is_noted && self.held.is_empty() && self.lent.is_empty()
    }

    /// The next piece, of what is held or as it comes.
    async fn next_piece(&mut self) -> Result<Option<&[u8]>, BodyError> {
        if !self.holds_back_the_end()
            && let Some(chunk) = self.held.pop_front()
        {
            self.lent = chunk;
            if self.lease.is_counted() {
                // The validator is done; what is left is lent or waits here.
                let _ = self.lease.hold((1 + self.held.len()) * CHUNK_BYTES);
            }
            return Ok(Some(&self.lent));
        }
        self.lent = Chunk::empty();
        match &mut self.watching {
            None => self.metered.next(self.inner).await,
            Some(watching) if watching.blocks => self.next_but_the_end().await,
            Some(watching) => match self.metered.next(self.inner).await? {
                Some(piece) => {
                    let _ = feed(&mut watching.validation, piece, &mut self.since_turn).await;
                    let bytes = watching.validation.bytes_held();
                    if (bytes > CHUNK_BYTES || self.lease.is_counted()) && self.lease.hold(bytes).is_err() {
                        watching.validation.give_up();
                    }
                    Ok(Some(piece))
                }
                None => {
                    if let Ok(false) = finish(&mut watching.validation, &mut self.lease, 0).await {
                        watching.validation.give_up();
                    }
                    Ok(None)
                }
            },
        }
    }
}

/// Gives a validator one piece, in turns.
async fn feed(validation: &mut Validation<'_>, piece: &[u8], since_turn: &mut usize) -> Result<(), Stop> {
    *since_turn += piece.len();
    loop {
        let is_done = validation.feed(piece)?;
        if is_done && *since_turn <= BYTES_PER_TURN && !validation.is_turn_over() {
            return Ok(());
        }
        *since_turn = 0;
        yield_now().await;
        if is_done {
            return Ok(());
        }
    }
}

/// Has a validator finish, in turns; says whether there was memory for that, beside what the body takes itself.
async fn finish(validation: &mut Validation<'_>, lease: &mut Lease<'_>, beside: usize) -> Result<bool, Stop> {
    while !validation.finish()? {
        if lease.hold(beside + validation.bytes_held()).is_err() {
            return Ok(false);
        }
        yield_now().await;
    }
    Ok(true)
}

impl<B: MessageBody> MessageBody for GuardedBody<'_, B> {
    fn is_done(&self) -> bool {
        self.held.is_empty() && self.inner.is_done()
    }

    fn has_input(&self) -> bool {
        !self.held.is_empty() || self.inner.has_input()
    }

    fn waits_until(&self) -> Option<Duration> {
        self.metered.waits_until()
    }

    async fn next(&mut self) -> Result<Option<&[u8]>, BodyError> {
        if self.only_passes() {
            return self.inner.next().await;
        }
        // Taken first, since what is lent borrows the rest.
        let copying = self.copying.clone();
        let next = self.next_piece().await;
        if let Some(copying) = copying {
            match &next {
                Ok(Some(piece)) => copying.add(piece),
                Ok(None) => {}
                Err(_) => copying.give_up(),
            }
        }
        next
    }

    fn trailers(&mut self) -> Option<Fields> {
        let mut trailers = self.inner.trailers().filter(|_| !self.drops_trailers)?;
        if let Some(rule) = &self.trailer_rule {
            trailers.retain(|name, _| rule.allows(name));
        }
        (!trailers.is_empty()).then_some(trailers)
    }

    fn has_trailers(&self) -> bool {
        !self.drops_trailers && self.inner.has_trailers()
    }

    fn last(&self) -> &[u8] {
        if self.lent.is_empty() { self.inner.last() } else { &self.lent }
    }

    fn was_last(&self) -> bool {
        // What is validated has its last word at the end.
        self.only_passes() && self.inner.was_last()
    }

    fn take_last(&mut self, _least_bytes: usize) -> Option<Chunk> {
        None
    }
}

impl HoldError {
    /// The answer to a request whose body could not be held; none if there is nobody to answer.
    pub fn into_rejection(self) -> Option<Rejection> {
        match self {
            HoldError::Body(BodyError::Malformed(error)) => Some(error.into()),
            HoldError::Body(BodyError::Validated(rejection)) => Some(*rejection),
            HoldError::Body(BodyError::Truncated | BodyError::Broken | BodyError::Void(_)) => None,
            HoldError::Slow => Some(Rejection::of(Reason::RequestBodyTimeout)),
            HoldError::NoMemory => Some(NoMemory::rejection()),
            HoldError::Validated(stop) => Some(stop.rejection),
        }
    }
}
