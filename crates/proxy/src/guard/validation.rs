//! One body before its validator: counted, fed as it arrives, and safe from a panic of the validator.
//!
//! Turns what the validator says into rejections. Reads no bytes itself.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use config::Detail;
use contract::validate::{BodyValidator, Findings, Part, Scratch, Violation, Where, code};
use net::{Pool, pool};
use reason::{Reason, Side as Fault};

use crate::contracts::ActiveContract;
use crate::guard::graphql;
use crate::message::rejection::{Rejection, Reported};

/// Which message is validated.
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

/// A body is rejected.
#[derive(Debug)]
pub struct Stop {
    /// The answer.
    pub rejection: Rejection,
}

/// A body and its validator.
pub struct Validation<'j> {
    active: &'j ActiveContract,
    side: Side,
    validator: Option<BodyValidator<'j>>,
    /// What was found so far, in the head too.
    pub findings: Findings,
}

impl<'j> Validation<'j> {
    /// A body that is about to arrive. `validator`: none if nothing more of it is validated.
    pub fn new(
        active: &'j ActiveContract,
        side: Side,
        validator: Option<BodyValidator<'j>>,
        findings: Findings,
    ) -> Validation<'j> {
        Validation { active, side, validator, findings }
    }

    /// Validates the next bytes for some milliseconds at most. Says whether it is done with them: if not, call it again with the same ones when others
    /// have had their turn.
    ///
    /// # Errors
    /// No more needs to be seen: as many violations are found as are wanted.
    pub fn feed(&mut self, piece: &[u8]) -> Result<bool, Stop> {
        let (Some(validator), findings) = (&mut self.validator, &mut self.findings) else { return Ok(true) };
        let fed = caught(|| {
            #[cfg(test)]
            assert!(!piece.starts_with(b"\"panic"), "a fault that a test asked for");
            validator.feed_some(piece, findings)
        });
        self.went(fed)
    }

    /// Validates that nothing more comes. Says whether that was all, as [`feed`](Validation::feed) does.
    ///
    /// # Errors
    /// As [`feed`](Validation::feed).
    pub fn finish(&mut self) -> Result<bool, Stop> {
        let (Some(validator), findings) = (&mut self.validator, &mut self.findings) else { return Ok(true) };
        let is_ready = caught(|| validator.finish_some(findings));
        if !self.went(is_ready)? {
            return Ok(false);
        }
        let Some(mut validator) = self.validator.take() else { return Ok(true) };
        let text = validator.take_text();
        let findings = &mut self.findings;
        let finished = caught(|| validator.finish(findings).map(|()| true));
        let is_done = self.went(finished)?;
        match text.filter(|_| self.findings.violations().is_empty()) {
            Some(text) => self.finish_graphql(&text),
            None => Ok(is_done),
        }
    }

    /// Validates what a body asks for, whose shape is right.
    fn finish_graphql(&mut self, body: &[u8]) -> Result<bool, Stop> {
        let added = match graphql::check_body(self.active, body) {
            Ok(()) => Ok(()),
            Err(violation) => self.findings.add(violation),
        };
        self.went(Some(added.map(|()| true)))
    }

    /// Whether others should have their turn before the next bytes.
    pub fn is_turn_over(&self) -> bool {
        self.validator.as_ref().is_some_and(BodyValidator::is_turn_over)
    }

    /// How much memory the body takes here.
    pub fn bytes_held(&self) -> usize {
        self.validator.as_ref().map_or(0, BodyValidator::bytes_held)
    }

    /// There is no memory to validate it to its end; nothing waits for the decision.
    pub fn give_up(&mut self) {
        self.validator = None;
        let what = "could not be validated to its end: bodies under validation take too much memory";
        let _ = self.findings.add(Violation::new(Reason::ValidationMemory.code(), Where::of(Part::Body), what));
    }

    fn went(&mut self, outcome: Option<Result<bool, contract::validate::Enough>>) -> Result<bool, Stop> {
        match outcome {
            Some(Ok(is_done)) => Ok(is_done),
            Some(Err(_)) => {
                self.validator = None;
                match self.findings.violations().first() {
                    Some(first) => Err(Stop { rejection: rejection(self.active, self.side, first) }),
                    None => Ok(true),
                }
            }
            None => self.stop_with(panicked(Part::Body)).map(|()| true),
        }
    }

    /// Notes a violation of our own finding.
    fn stop_with(&mut self, violation: Violation) -> Result<(), Stop> {
        self.validator = None;
        let stop = Stop { rejection: rejection(self.active, self.side, &violation) };
        let _ = self.findings.add(violation);
        Err(stop)
    }
}

/// Runs the validator; none if it panicked, which is logged by the hook.
pub fn caught<T>(validator: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(validator)).ok()
}

/// The validator panicked over this part.
pub fn panicked(part: Part) -> Violation {
    Violation::new(Reason::ValidatorPanic.code(), Where::of(part), "could not be validated")
}

/// The rejection that a violation deserves.
pub fn rejection(active: &ActiveContract, side: Side, violation: &Violation) -> Rejection {
    let config = &active.config;
    let reason = Reason::of_code(violation.code);
    let (fault, fitting) = match (reason, side) {
        (Reason::ValidatorPanic, _) => (reason.side(), reason.status()),
        // The document asks for what nobody can check, whatever the message holds.
        (Reason::Violation(code::OPERATION_UNSUPPORTED), _) => (Fault::Proxy, 501),
        // Tokens are validated here, under codes of our own.
        (_, Side::Request) if violation.place.part == Part::Security => (Fault::Client, 401),
        (_, Side::Request) => (Fault::Client, violation.status()),
        (_, Side::Response) => (Fault::Upstream, 502),
    };
    let status = graphql::status_of(active, reason).or(config.block_status).unwrap_or(fitting);
    let mut rejection = Rejection::with_status(reason, status);
    rejection.fault = fault;
    rejection.telling(|details| details.reported = Some(reported(active, side, violation)))
}

fn reported(active: &ActiveContract, side: Side, violation: &Violation) -> Reported {
    let config = &active.config;
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
    Reported {
        detail,
        part,
        name: violation.place.name.clone(),
        pointer: violation.place.pointer.clone(),
        what: violation.what.clone(),
        header,
        challenge: None,
        is_graphql: config.graphql.is_some(),
    }
}

/// Bytes of working memory that a validator may keep for the next message.
const KEPT_BYTES: usize = 256 * 1024;

/// Sets of working memory kept per thread.
const POOLED: usize = 256;

thread_local! {
    static POOL: RefCell<Pool<Box<Scratch>>> = const { RefCell::new(Pool::new(POOLED)) };
}

/// Working memory of one validation, from a pool of this thread; goes back when dropped.
pub struct ScratchSpace(Option<Box<Scratch>>);

impl ScratchSpace {
    /// No memory: nobody judges.
    pub const fn empty() -> ScratchSpace {
        ScratchSpace(None)
    }

    /// Warm memory if there is some.
    pub fn take() -> ScratchSpace {
        ScratchSpace(Some(pool::take(&POOL).unwrap_or_default()))
    }
}

impl Deref for ScratchSpace {
    type Target = Option<Box<Scratch>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for ScratchSpace {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for ScratchSpace {
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
    fn a_validate_that_panics_has_not_said_yes() {
        assert_eq!(caught(|| -> Result<(), ()> { panic!("a defect") }), None);
        assert_eq!(caught(|| Ok::<(), ()>(())), Some(Ok(())));
    }
}
