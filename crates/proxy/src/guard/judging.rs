//! One body before its judge: counted, fed as it arrives, and safe from a panic of the judge.
//!
//! Turns what the judge says into refusals. Reads no bytes itself.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use config::Detail;
use contract::judge::{BodyJudge, Findings, Part, Scratch, Violation, Where};
use net::{Pool, pool};
use telemetry::Fault;

use crate::contracts::InForce;
use crate::message::refusal::{Refusal, Told};

/// The judge itself failed; nothing is known of the message.
pub const JUDGE_PANIC: &str = "judge_panic";

/// Which message is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What the client sent.
    Request,
    /// What the upstream answered.
    Response,
}

impl Side {
    /// The word for it in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Side::Request => "request",
            Side::Response => "response",
        }
    }
}

/// A body is refused.
#[derive(Debug)]
pub struct Stop {
    /// The answer.
    pub refusal: Refusal,
}

/// A body and its judge.
pub struct Judging<'j> {
    in_force: &'j InForce,
    side: Side,
    judge: Option<BodyJudge<'j>>,
    /// What was found so far, in the head too.
    pub findings: Findings,
}

impl<'j> Judging<'j> {
    /// A body that is about to arrive. `judge`: none if nothing more of it is judged.
    pub fn new(in_force: &'j InForce, side: Side, judge: Option<BodyJudge<'j>>, findings: Findings) -> Judging<'j> {
        Judging { in_force, side, judge, findings }
    }

    /// Judges the next bytes for some milliseconds at most. Says whether it is done with them: if not, call it again with the same ones when others
    /// have had their turn.
    ///
    /// # Errors
    /// No more needs to be seen: as many violations are found as are wanted.
    pub fn feed(&mut self, piece: &[u8]) -> Result<bool, Stop> {
        let (Some(judge), findings) = (&mut self.judge, &mut self.findings) else { return Ok(true) };
        let fed = caught(|| {
            #[cfg(test)]
            assert!(!piece.starts_with(b"\"panic"), "a fault that a test asked for");
            judge.feed_some(piece, findings)
        });
        self.went(fed)
    }

    /// Judges that nothing more comes. Says whether that was all, as [`feed`](Judging::feed) does.
    ///
    /// # Errors
    /// As [`feed`](Judging::feed).
    pub fn finish(&mut self) -> Result<bool, Stop> {
        let (Some(judge), findings) = (&mut self.judge, &mut self.findings) else { return Ok(true) };
        let is_ready = caught(|| judge.finish_some(findings));
        if !self.went(is_ready)? {
            return Ok(false);
        }
        let Some(judge) = self.judge.take() else { return Ok(true) };
        let findings = &mut self.findings;
        let finished = caught(|| judge.finish(findings).map(|()| true));
        self.went(finished)
    }

    /// Whether others should have their turn before the next bytes.
    pub fn is_turn_over(&self) -> bool {
        self.judge.as_ref().is_some_and(BodyJudge::is_turn_over)
    }

    /// How much memory the body takes here.
    pub fn bytes_held(&self) -> usize {
        self.judge.as_ref().map_or(0, BodyJudge::bytes_held)
    }

    /// There is no memory to validate it to its end; nothing waits for the verdict.
    pub fn give_up(&mut self) {
        self.judge = None;
        let what = "could not be validated to its end: bodies under validation take too much memory";
        let _ = self.findings.add(Violation::new("validation_memory", Where::of(Part::Body), what));
    }

    fn went(&mut self, outcome: Option<Result<bool, contract::judge::Enough>>) -> Result<bool, Stop> {
        match outcome {
            Some(Ok(is_done)) => Ok(is_done),
            Some(Err(_)) => {
                self.judge = None;
                match self.findings.violations().first() {
                    Some(first) => Err(Stop { refusal: refusal(self.in_force, self.side, first) }),
                    None => Ok(true),
                }
            }
            None => self.stop_with(panicked(Part::Body)).map(|()| true),
        }
    }

    /// Notes a violation of our own finding.
    fn stop_with(&mut self, violation: Violation) -> Result<(), Stop> {
        self.judge = None;
        let stop = Stop { refusal: refusal(self.in_force, self.side, &violation) };
        let _ = self.findings.add(violation);
        Err(stop)
    }
}

/// Runs the judge; none if it panicked, which is logged by the hook.
pub fn caught<T>(judge: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(judge)).ok()
}

/// The judge panicked over this part.
pub fn panicked(part: Part) -> Violation {
    Violation::new(JUDGE_PANIC, Where::of(part), "could not be judged")
}

/// The refusal that a violation deserves.
pub fn refusal(in_force: &InForce, side: Side, violation: &Violation) -> Refusal {
    let config = &in_force.config;
    let (fault, fitting) = match (violation.code, side) {
        (JUDGE_PANIC, _) => (Fault::Ours, 500),
        // Tokens are judged here, under codes of our own.
        (_, Side::Request) if violation.place.part == Part::Security => (Fault::Client, 401),
        (_, Side::Request) => (Fault::Client, violation.status()),
        (_, Side::Response) => (Fault::Upstream, 502),
    };
    Refusal {
        status: config.block_status.unwrap_or(fitting),
        fault,
        code: violation.code,
        allow: None,
        told: Some(Box::new(told(in_force, side, violation))),
    }
}

fn told(in_force: &InForce, side: Side, violation: &Violation) -> Told {
    let config = &in_force.config;
    let part = violation.place.part.as_str();
    // What the upstream did wrong is nothing for clients to read; the log has it.
    let detail = match (config.detail, side) {
        (Detail::Pointer, Side::Response) => Detail::Code,
        (detail, _) => detail,
    };
    let header = config.status_header.as_ref().map(|name| {
        let about = if violation.place.name.is_empty() { part } else { &violation.place.name };
        let about: String = about.chars().map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect();
        (name.clone(), format!("{}-{part}:{}:{about}", side.as_str(), violation.code))
    });
    Told {
        detail,
        part,
        name: violation.place.name.clone(),
        pointer: violation.place.pointer.clone(),
        what: violation.what.clone(),
        header,
        challenge: None,
    }
}

/// Bytes of working memory that a judge may keep for the next message.
const KEPT_BYTES: usize = 256 * 1024;

/// Sets of working memory kept per thread.
const POOLED: usize = 256;

thread_local! {
    static POOL: RefCell<Pool<Box<Scratch>>> = const { RefCell::new(Pool::new(POOLED)) };
}

/// Working memory of one judge, from a pool of this thread; goes back when dropped.
pub struct ScratchRoom(Option<Box<Scratch>>);

impl ScratchRoom {
    /// No memory: nobody judges.
    pub const fn empty() -> ScratchRoom {
        ScratchRoom(None)
    }

    /// Warm memory if there is some.
    pub fn take() -> ScratchRoom {
        ScratchRoom(Some(pool::take(&POOL).unwrap_or_default()))
    }
}

impl Deref for ScratchRoom {
    type Target = Option<Box<Scratch>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for ScratchRoom {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for ScratchRoom {
    fn drop(&mut self) {
        let Some(mut scratch) = self.0.take() else { return };
        scratch.shrink(KEPT_BYTES);
        pool::give(&POOL, scratch);
    }
}

/// Frees working memory of this thread that nobody needed lately; to be called about once a second.
pub fn trim() {
    pool::trim(&POOL);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_judge_that_panics_has_not_said_yes() {
        assert_eq!(caught(|| -> Result<(), ()> { panic!("a defect") }), None);
        assert_eq!(caught(|| Ok::<(), ()>(())), Some(Ok(())));
    }
}
