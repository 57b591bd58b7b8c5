//! A body as it arrives: counted, decoded, read by what its media type asks for, validated by its schema.

use super::code;
use super::content_type::{Chosen, Reading};
use super::findings::{Enough, Findings, Violation, Where};
use super::scratch::Scratch;
use crate::body::{Bounds, Coding, Decoding, Stopped};
use crate::contract::Contract;
use crate::message::Framing;
use crate::message::Part;
use crate::options::Undeclared;
use crate::turn::Work;
use crate::validate::readers::Reader;

/// How much of a body may go on before it is validated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// Nothing: the body is held until [`BodyValidator::finish`] says yes.
    UntilDecision,
    /// Nothing of it is held, and nothing is validated: it is a stream of events, which is for its client as each comes.
    Nothing,
    /// Everything but its last byte: the body holds files or is not looked into, and is cut short if it is rejected.
    AllButTheEnd,
}

/// What is to become of a body.
pub struct BodyPlan<'s> {
    /// Give it every byte as sent, then finish it. Also where no body is expected: it rejects one that comes all the same.
    pub validator: BodyValidator<'s>,
    /// How much may go on meanwhile.
    pub hold: Hold,
    /// Most bytes of the body as sent; the validator rejects more.
    pub limit_bytes: u64,
}

/// Validates one body.
pub struct BodyValidator<'s> {
    contract: &'s Contract,
    state: State<'s>,
    required: bool,
    received: u64,
    /// What the head says of the length; 0 where it says nothing.
    declared: u64,
    limit: u64,
    /// The bytes that are given now were given before: the turn ended within them.
    goes_on: bool,
    /// The decoded text, where the caller wants it.
    kept: Option<Vec<u8>>,
}

enum State<'s> {
    /// Goes on unread.
    Pass,
    /// Goes on unread, however long it becomes.
    Stream,
    /// There is to be none.
    Nothing,
    /// The first byte is this violation.
    Reject(Box<Violation>),
    /// Rejected, or validated as far as it is wanted; the rest is only counted.
    Done,
    Plain(Reader<'s>),
    /// Held until it is complete, then decoded.
    Encoded {
        coding: Coding,
        encoded: &'s mut Vec<u8>,
        reader: Reader<'s>,
    },
    /// Complete, and decoded piece by piece.
    Decoding(Box<Undoing<'s>>),
    /// Complete and decoded.
    Read(Reader<'s>),
    /// Complete, and validated as a whole.
    Finishing(Work<'s, Findings>),
}

/// A complete body that is decoded.
struct Undoing<'s> {
    decoding: Decoding<'s>,
    /// A copy of the last piece, while the reader is not done with it.
    piece: Vec<u8>,
    has_piece: bool,
    reader: Reader<'s>,
}

/// Decoded bytes after which others have their turn.
const BYTES_PER_TURN: usize = 128 * 1024;

/// What a piece counts for at least.
const LEAST_BYTES: usize = 16 * 1024;

impl<'s> BodyValidator<'s> {
    /// No body is there.
    pub(super) fn empty(contract: &'s Contract) -> BodyPlan<'s> {
        Self::plan(contract, State::Nothing, false, Hold::UntilDecision)
    }

    /// The document declares no body.
    pub(super) fn undeclared(
        contract: &'s Contract,
        mode: Undeclared,
        framing: Framing,
        findings: &mut Findings,
    ) -> Result<BodyPlan<'s>, Enough> {
        match (mode, framing) {
            (Undeclared::Reject, Framing::Length(_)) => {
                findings.add(undeclared())?;
                return Ok(Self::plan(contract, State::Done, false, Hold::UntilDecision));
            }
            (Undeclared::Reject, _) => return Ok(Self::plan(contract, State::Nothing, false, Hold::UntilDecision)),
            (Undeclared::Report, Framing::Length(_)) => findings.add_shadow(Part::Body, b""),
            _ => {}
        }
        Ok(Self::plan(contract, State::Pass, false, Hold::AllButTheEnd))
    }

    /// The document declares bodies, and one was chosen or none fits.
    pub(super) fn chosen(
        contract: &'s Contract,
        chosen: Result<Chosen<'s>, Violation>,
        required: bool,
        framing: Framing,
        scratch: &'s mut Scratch,
        findings: &mut Findings,
    ) -> Result<BodyPlan<'s>, Enough> {
        let chosen = match (chosen, framing) {
            (Ok(chosen), _) => chosen,
            (Err(violation), Framing::Length(_)) => {
                findings.add(violation)?;
                return Ok(Self::plan(contract, State::Done, required, Hold::UntilDecision));
            }
            (Err(violation), _) => {
                return Ok(Self::plan(contract, State::Reject(Box::new(violation)), required, Hold::UntilDecision));
            }
        };
        let Reading::Content { content, boundary } = chosen.content else {
            return Ok(Self::plan(contract, State::Pass, required, Hold::AllButTheEnd));
        };
        let Scratch { body, encoded, rooms, .. } = scratch;
        encoded.clear();
        let boundary = boundary.as_deref().unwrap_or_default();
        let reader = Reader::new(contract, content, boundary, findings.collects(), body, rooms);
        let hold = if reader.holds_files() && chosen.coding == Coding::Identity {
            Hold::AllButTheEnd
        } else {
            Hold::UntilDecision
        };
        let state = match chosen.coding {
            Coding::Identity => State::Plain(reader),
            coding => State::Encoded { coding, encoded, reader },
        };
        let mut plan = Self::plan(contract, state, required, hold);
        if let Framing::Length(declared) = framing {
            plan.validator.declared = declared;
        }
        Ok(plan)
    }

    /// A stream of events.
    pub(super) fn stream(contract: &'s Contract) -> BodyPlan<'s> {
        Self::plan(contract, State::Stream, false, Hold::Nothing)
    }

    /// There is no body, and the media type that was chosen takes none for an empty one: it is validated here.
    pub(super) fn of_nothing(
        contract: &'s Contract,
        chosen: Chosen<'_>,
        scratch: &mut Scratch,
        findings: &mut Findings,
    ) -> Result<BodyPlan<'s>, Enough> {
        let plan = BodyValidator::chosen(contract, Ok(chosen), true, Framing::Empty, scratch, findings)?;
        plan.validator.finish(findings)?;
        Ok(Self::empty(contract))
    }

    fn plan(contract: &'s Contract, state: State<'s>, required: bool, hold: Hold) -> BodyPlan<'s> {
        let limit = contract.options.limits.body_bytes;
        BodyPlan {
            validator: BodyValidator {
                contract,
                state,
                required,
                received: 0,
                declared: 0,
                limit,
                goes_on: false,
                kept: None,
            },
            hold,
            limit_bytes: limit,
        }
    }

    /// Validates under another limit than the contract's, in bytes as sent. Call it before the first byte.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Keeps the decoded text for [`BodyValidator::take_text`]. Call it before the first byte.
    pub fn keep_text(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// The decoded text, once [`BodyValidator::finish_some`] has said that nothing is left to do.
    pub fn take_text(&mut self) -> Option<Vec<u8>> {
        self.kept.take()
    }

    /// Takes the next bytes of the body as sent.
    ///
    /// # Errors
    /// [`Enough`] once as many violations are found as are wanted.
    pub fn feed(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<(), Enough> {
        while !self.feed_some(bytes, findings)? {}
        Ok(())
    }

    /// As [`BodyValidator::feed`], for some milliseconds at most. Says whether it is done with these bytes: if not, call it again with the same ones
    /// when others have had their turn.
    ///
    /// # Errors
    /// As [`BodyValidator::feed`].
    pub fn feed_some(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<bool, Enough> {
        if bytes.is_empty() || matches!(self.state, State::Stream) {
            return Ok(true);
        }
        let before = self.received;
        let is_new = !self.goes_on;
        if is_new {
            self.received = self.received.saturating_add(bytes.len() as u64);
        }
        // What is announced too large is not read that far.
        let is_too_large = self.received > self.limit || (before == 0 && self.declared > self.limit);
        if is_too_large && before <= self.limit {
            self.state = State::Done;
            return findings.add(too_large(self.limit)).map(|()| true);
        }
        let validated = match &mut self.state {
            State::Pass | State::Stream | State::Done | State::Decoding(_) | State::Read(_) | State::Finishing(_) => {
                return Ok(true);
            }
            State::Nothing => Err(undeclared()),
            State::Reject(violation) => Err((**violation).clone()),
            State::Plain(reader) => {
                if let Some(kept) = self.kept.as_mut().filter(|_| is_new) {
                    kept.extend_from_slice(bytes);
                }
                reader.feed_some(bytes, findings)
            }
            State::Encoded { encoded, .. } => {
                encoded.extend_from_slice(bytes);
                return Ok(true);
            }
        };
        match validated {
            Ok(is_done) => {
                self.goes_on = !is_done;
                Ok(is_done)
            }
            Err(violation) => {
                self.state = State::Done;
                findings.add(violation).map(|()| true)
            }
        }
    }

    /// Whether others should have their turn before the next bytes, although it is done with those before.
    pub fn is_turn_over(&self) -> bool {
        match &self.state {
            State::Plain(reader) => reader.is_turn_over(),
            _ => false,
        }
    }

    /// How much memory the body takes here; what the caller holds of it is the caller's to count.
    pub fn bytes_held(&self) -> usize {
        let kept = self.kept.as_ref().map_or(0, Vec::capacity);
        kept.saturating_add(match &self.state {
            State::Pass | State::Stream | State::Nothing | State::Reject(_) | State::Done => 0,
            State::Plain(reader) | State::Read(reader) => reader.bytes_held(),
            State::Finishing(work) => work.bytes_held(),
            State::Encoded { encoded, .. } => encoded.capacity(),
            State::Decoding(undoing) => {
                // What was encoded lies behind the decoder.
                let encoded = usize::try_from(self.received).unwrap_or(usize::MAX);
                encoded.saturating_add(undoing.decoding.bytes_held()).saturating_add(undoing.reader.bytes_held())
            }
        })
    }

    /// Decodes and validates what is complete, for some milliseconds at most, and says whether [`BodyValidator::finish`] has nothing left to do that takes long: if not,
    /// call it again when others have had their turn. Call it when the body is over.
    ///
    /// # Errors
    /// As [`BodyValidator::feed`].
    pub fn finish_some(&mut self, findings: &mut Findings) -> Result<bool, Enough> {
        let validated = match &mut self.state {
            State::Encoded { .. } if self.received > 0 => {
                let State::Encoded { coding, encoded, reader } = std::mem::replace(&mut self.state, State::Done) else {
                    return Ok(true);
                };
                let limits = &self.contract.options.limits;
                let bounds = Bounds { bytes: limits.decoded_body_bytes, ratio: limits.decoded_ratio };
                let begun = Decoding::new(coding, encoded, bounds).map_err(|stopped| undecoded(&stopped, bounds));
                begun.map(|decoding| {
                    let undoing = Undoing { decoding, piece: Vec::new(), has_piece: false, reader };
                    self.state = State::Decoding(Box::new(undoing));
                    false
                })
            }
            State::Decoding(undoing) => {
                let limits = &self.contract.options.limits;
                let bounds = Bounds { bytes: limits.decoded_body_bytes, ratio: limits.decoded_ratio };
                undoing.turn(bounds, self.kept.as_mut(), findings)
            }
            _ => return self.finish_read(findings),
        };
        match validated {
            Ok(true) => {
                if let State::Decoding(undoing) = std::mem::replace(&mut self.state, State::Done) {
                    self.state = State::Read(undoing.reader);
                }
                Ok(false)
            }
            Ok(false) => Ok(false),
            Err(violation) => {
                self.state = State::Done;
                findings.add(violation).map(|()| true)
            }
        }
    }

    /// Validates what is complete and decoded, as [`BodyValidator::finish_some`] does.
    fn finish_read(&mut self, findings: &mut Findings) -> Result<bool, Enough> {
        let is_validated = match &self.state {
            State::Plain(reader) => self.required && reader.may_be_empty(),
            State::Finishing(_) => true,
            _ => false,
        };
        if self.received == 0 && !is_validated {
            return Ok(true);
        }
        let mut work = match std::mem::replace(&mut self.state, State::Done) {
            State::Plain(reader) | State::Read(reader) => match reader.finish(findings) {
                Ok(Some(work)) => work,
                Ok(None) => return Ok(true),
                Err(violation) => return findings.add(violation).map(|()| true),
            },
            State::Finishing(work) => work,
            state => {
                self.state = state;
                return Ok(true);
            }
        };
        match work.go_on() {
            Some(found) => findings.take(found).map(|()| true),
            None => {
                self.state = State::Finishing(work);
                Ok(false)
            }
        }
    }

    /// Says that the body is over. Without an error and with nothing in `findings`, the message keeps the contract.
    ///
    /// # Errors
    /// [`Enough`] once as many violations are found as are wanted.
    pub fn finish(mut self, findings: &mut Findings) -> Result<(), Enough> {
        while !self.finish_some(findings)? {}
        if self.received == 0 {
            return match self.required {
                // What nobody reads, and what was validated, may be empty.
                true if !matches!(self.state, State::Done | State::Pass) => {
                    findings.add(Violation::new(code::BODY_MISSING, Where::of(Part::Body), "is required"))
                }
                _ => Ok(()),
            };
        }
        Ok(())
    }
}

impl Undoing<'_> {
    /// Decodes and reads for a turn; says whether that was all.
    fn turn(
        &mut self,
        bounds: Bounds,
        mut kept: Option<&mut Vec<u8>>,
        findings: &mut Findings,
    ) -> Result<bool, Violation> {
        let mut bytes = 0;
        while bytes < BYTES_PER_TURN {
            if !self.has_piece {
                let Some(piece) = self.decoding.next().map_err(|stopped| undecoded(&stopped, bounds))? else {
                    return Ok(true);
                };
                // What is decoded to little takes its time, too.
                bytes += piece.len().max(LEAST_BYTES);
                if let Some(kept) = kept.as_mut() {
                    kept.extend_from_slice(piece);
                }
                if self.reader.feed_some(piece, findings)? {
                    if self.reader.is_turn_over() {
                        return Ok(false);
                    }
                    continue;
                }
                self.piece.clear();
                self.piece.extend_from_slice(piece);
                self.has_piece = true;
                return Ok(false);
            }
            if !self.reader.feed_some(&self.piece, findings)? {
                return Ok(false);
            }
            self.has_piece = false;
        }
        Ok(false)
    }
}

fn undecoded(stopped: &Stopped, bounds: Bounds) -> Violation {
    let reject = |code, what: String| Violation::new(code, Where::of(Part::Body), what);
    match stopped {
        Stopped::Malformed(what) => reject(code::CONTENT_ENCODING_MALFORMED, (*what).to_owned()),
        Stopped::TooLarge => {
            reject(code::BODY_DECODED_TOO_LARGE, format!("decodes to more than {} bytes", bounds.bytes))
        }
        Stopped::Ratio => reject(code::BODY_RATIO, format!("expands more than {} times", bounds.ratio)),
    }
}

fn undeclared() -> Violation {
    Violation::new(code::BODY_UNDECLARED, Where::of(Part::Body), "is there and none is declared")
}

fn too_large(limit: u64) -> Violation {
    Violation::new(code::BODY_TOO_LARGE, Where::of(Part::Body), format!("is larger than {limit} bytes"))
}
