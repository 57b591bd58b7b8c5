//! A body as it arrives: counted, decoded, read by what its media type asks for, judged by its schema.

use super::code;
use super::content_type::{Chosen, Reading};
use super::findings::{Enough, Findings, Part, Violation, Where};
use super::message::Framing;
use super::scratch::Scratch;
use crate::body::{Bounds, Coding, Stopped, decode};
use crate::contract::Contract;
use crate::judge::readers::Reader;
use crate::options::Undeclared;

/// How much of a body may go on before it is judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// Nothing: the body is held until [`BodyJudge::finish`] says yes.
    UntilVerdict,
    /// Everything but its last byte: the body holds files or is not looked into, and is cut short if it is refused.
    AllButTheEnd,
}

/// What is to become of a body.
pub struct BodyPlan<'s> {
    /// Give it every byte as sent, then finish it. Also where no body is expected: it refuses one that comes all the same.
    pub judge: BodyJudge<'s>,
    /// How much may go on meanwhile.
    pub hold: Hold,
    /// Most bytes of the body as sent; the judge refuses more.
    pub limit_bytes: u64,
}

/// Judges one body.
pub struct BodyJudge<'s> {
    contract: &'s Contract,
    state: State<'s>,
    required: bool,
    received: u64,
    /// What the head says of the length; 0 where it says nothing.
    declared: u64,
    limit: u64,
}

enum State<'s> {
    /// Goes on unread.
    Pass,
    /// There is to be none.
    Nothing,
    /// The first byte is this violation.
    Refuse(Box<Violation>),
    /// Refused, or judged as far as it is wanted; the rest is only counted.
    Done,
    Plain(Reader<'s>),
    /// Held until it is complete, then decoded.
    Encoded {
        coding: Coding,
        encoded: &'s mut Vec<u8>,
        reader: Reader<'s>,
    },
}

impl<'s> BodyJudge<'s> {
    /// No body is there.
    pub(super) fn empty(contract: &'s Contract) -> BodyPlan<'s> {
        Self::plan(contract, State::Nothing, false, Hold::UntilVerdict)
    }

    /// The document declares no body.
    pub(super) fn undeclared(
        contract: &'s Contract,
        mode: Undeclared,
        framing: Framing,
        findings: &mut Findings,
    ) -> Result<BodyPlan<'s>, Enough> {
        match (mode, framing) {
            (Undeclared::Refuse, Framing::Length(_)) => {
                findings.add(undeclared())?;
                return Ok(Self::plan(contract, State::Done, false, Hold::UntilVerdict));
            }
            (Undeclared::Refuse, _) => return Ok(Self::plan(contract, State::Nothing, false, Hold::UntilVerdict)),
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
                return Ok(Self::plan(contract, State::Done, required, Hold::UntilVerdict));
            }
            (Err(violation), _) => {
                return Ok(Self::plan(contract, State::Refuse(Box::new(violation)), required, Hold::UntilVerdict));
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
            Hold::UntilVerdict
        };
        let state = match chosen.coding {
            Coding::Identity => State::Plain(reader),
            coding => State::Encoded { coding, encoded, reader },
        };
        let mut plan = Self::plan(contract, state, required, hold);
        if let Framing::Length(declared) = framing {
            plan.judge.declared = declared;
        }
        Ok(plan)
    }

    fn plan(contract: &'s Contract, state: State<'s>, required: bool, hold: Hold) -> BodyPlan<'s> {
        let limit = contract.options.limits.body_bytes;
        BodyPlan {
            judge: BodyJudge { contract, state, required, received: 0, declared: 0, limit },
            hold,
            limit_bytes: limit,
        }
    }

    /// Judges under another limit than the contract's, in bytes as sent. Call it before the first byte.
    pub fn set_limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Takes the next bytes of the body as sent.
    ///
    /// # Errors
    /// [`Enough`] once as many violations are found as are wanted.
    pub fn feed(&mut self, bytes: &[u8], findings: &mut Findings) -> Result<(), Enough> {
        if bytes.is_empty() {
            return Ok(());
        }
        let before = self.received;
        self.received = self.received.saturating_add(bytes.len() as u64);
        // What is announced too large is not read that far.
        let is_too_large = self.received > self.limit || (before == 0 && self.declared > self.limit);
        if is_too_large && before <= self.limit {
            self.state = State::Done;
            return findings.add(too_large(self.limit));
        }
        let judged = match &mut self.state {
            State::Pass | State::Done => return Ok(()),
            State::Nothing => Err(undeclared()),
            State::Refuse(violation) => Err((**violation).clone()),
            State::Plain(reader) => reader.feed(bytes, findings),
            State::Encoded { encoded, .. } => {
                encoded.extend_from_slice(bytes);
                return Ok(());
            }
        };
        match judged {
            Ok(()) => Ok(()),
            Err(violation) => {
                self.state = State::Done;
                findings.add(violation)
            }
        }
    }

    /// Says that the body is over. Without an error and with nothing in `findings`, the message keeps the contract.
    ///
    /// # Errors
    /// [`Enough`] once as many violations are found as are wanted.
    pub fn finish(self, findings: &mut Findings) -> Result<(), Enough> {
        if self.received == 0 {
            return match self.required {
                true if !matches!(self.state, State::Done) => {
                    findings.add(Violation::new(code::BODY_MISSING, Where::of(Part::Body), "is required"))
                }
                _ => Ok(()),
            };
        }
        let judged = match self.state {
            State::Pass | State::Nothing | State::Done | State::Refuse(_) => Ok(()),
            State::Plain(reader) => reader.finish(findings),
            State::Encoded { coding, encoded, reader } => {
                judge_encoded(self.contract, coding, encoded, reader, findings)
            }
        };
        judged.or_else(|violation| findings.add(violation))
    }
}

fn judge_encoded(
    contract: &Contract,
    coding: Coding,
    encoded: &[u8],
    mut reader: Reader<'_>,
    findings: &mut Findings,
) -> Result<(), Violation> {
    let limits = &contract.options.limits;
    let bounds = Bounds { bytes: limits.decoded_body_bytes, ratio: limits.decoded_ratio };
    let refuse = |code, what: String| Violation::new(code, Where::of(Part::Body), what);
    decode(coding, encoded, bounds, &mut |piece| reader.feed(piece, findings)).map_err(|stopped| match stopped {
        Stopped::Malformed(what) => refuse(code::CONTENT_ENCODING_MALFORMED, what.to_owned()),
        Stopped::TooLarge => {
            refuse(code::BODY_DECODED_TOO_LARGE, format!("decodes to more than {} bytes", bounds.bytes))
        }
        Stopped::Ratio => refuse(code::BODY_RATIO, format!("expands more than {} times", bounds.ratio)),
        Stopped::Receiver(violation) => violation,
    })?;
    reader.finish(findings)
}

fn undeclared() -> Violation {
    Violation::new(code::BODY_UNDECLARED, Where::of(Part::Body), "is there and none is declared")
}

fn too_large(limit: u64) -> Violation {
    Violation::new(code::BODY_TOO_LARGE, Where::of(Part::Body), format!("is larger than {limit} bytes"))
}
