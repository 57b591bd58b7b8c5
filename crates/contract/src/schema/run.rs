//! One value's way through a program, as its bytes or its parts arrive. Its room is reused, so that it does not allocate.

use super::program::{Program, SchemaId};
use super::validator::{LONG_TEXT_BYTES, Validating, Validator};
use crate::json::{Number, Scanner, Sink, Text};
use crate::reason::{Reason, Violation};

/// A part of a value that was decoded elsewhere, such as a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A number in JSON's grammar.
    Number(&'a str),
    /// A string, decoded.
    String(&'a str),
    /// An array begins.
    BeginArray,
    /// The innermost container, an array, ends.
    EndArray,
    /// An object begins.
    BeginObject,
    /// The name of the member whose value follows, decoded.
    Key(&'a str),
    /// The innermost container, an object, ends.
    EndObject,
}

/// Room for validating one value at a time; kept from value to value, so that steady traffic allocates nothing.
#[derive(Debug, Default)]
pub struct Run {
    /// Fitted to the program of that serial number.
    fitted: Option<(u64, Scanner)>,
    validator: Validator,
}

impl Run {
    /// Frees what an unusually large value has left behind: about `keep_bytes` stay in each of its buffers.
    pub fn shrink(&mut self, keep_bytes: usize) {
        if let Some((_, scanner)) = &mut self.fitted {
            scanner.shrink(keep_bytes);
        }
        self.validator.shrink(keep_bytes);
    }
}

/// A value on its way through a schema.
pub struct Check<'r> {
    program: &'r Program,
    scanner: &'r mut Scanner,
    validator: &'r mut Validator,
    has_events: bool,
}

impl Program {
    /// Begins a value of this schema, in the room of `run`; whatever was in there is forgotten.
    pub fn check<'r>(&'r self, id: SchemaId, run: &'r mut Run) -> Check<'r> {
        let fitted = run.fitted.take().filter(|(serial, _)| *serial == self.serial);
        run.validator.reset(self, self.root(id), fitted.is_some());
        let (_, scanner) = run.fitted.insert(fitted.unwrap_or_else(|| (self.serial, Scanner::new(&self.limits))));
        scanner.reset();
        Check { program: self, scanner, validator: &mut run.validator, has_events: false }
    }
}

/// What a value may leave behind once it is validated.
const KEPT_BYTES: usize = 256 << 10;

/// Bytes that are read at once where matching is charged for.
const COSTLY_PIECE_BYTES: usize = 1024;

impl Check<'_> {
    /// The value was made from text: only numbers without fraction and exponent are integers, since what reads integers from text stops at either.
    pub fn with_plain_integers(self) -> Self {
        self.validator.set_plain_integers();
        self
    }

    /// The value is validated at once, with others, and takes no more than these steps.
    pub fn with_most_steps(self, steps: u64) -> Self {
        self.validator.set_most_steps(steps);
        self
    }

    /// With turns of so many steps, for tests of what pausing may not change.
    #[doc(hidden)]
    pub fn in_turns_of(self, steps: u64) -> Self {
        self.validator.set_turn(steps);
        self
    }

    /// Validates a chunk of JSON text. After an error there is nothing more to learn.
    ///
    /// # Errors
    /// The first thing in the text that breaks the contract.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), Violation> {
        let mut rest = chunk;
        while !rest.is_empty() || self.is_pending() {
            let taken = self.feed_some(rest)?;
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Validates a chunk of JSON text for some milliseconds at most, and says how much of it was taken: call it with the rest, and while
    /// [`Check::is_pending`], when others have had their turn. A turn that is not over goes on with the next chunk; see [`Check::is_turn_over`].
    ///
    /// # Errors
    /// As [`Check::feed`].
    pub fn feed_some(&mut self, chunk: &[u8]) -> Result<usize, Violation> {
        if self.validator.is_turn_over() {
            self.validator.begin_turn();
        }
        let mut taken = 0;
        let outcome = self.feed_turn(chunk, &mut taken);
        match outcome {
            Ok(()) | Err(Reason::Paused) => Ok(taken),
            Err(reason) => Err(self.violation(reason)),
        }
    }

    fn feed_turn(&mut self, chunk: &[u8], taken: &mut usize) -> Result<(), Reason> {
        let mut validating = Validating { program: self.program, validator: self.validator };
        if validating.validator.is_paused() {
            validating.evaluate_recorded()?;
        }
        // Where matching is charged for, in pieces: a turn ends between them.
        let piece_bytes = if self.program.is_costly { COSTLY_PIECE_BYTES } else { LONG_TEXT_BYTES };
        while *taken < chunk.len() && !validating.validator.is_turn_over() {
            let rest = &chunk[*taken..];
            let piece = &rest[..rest.len().min(piece_bytes)];
            validating.validator.grant(&self.program.limits, piece.len());
            let read = self.scanner.feed_some(piece, &mut validating)?;
            validating.validator.read(read);
            *taken += read;
        }
        Ok(())
    }

    /// Whether others should have their turn before the next chunk.
    pub fn is_turn_over(&self) -> bool {
        self.validator.has_begun() && self.validator.is_turn_over()
    }

    /// Whether an evaluation has to go on, with more of the text or without.
    pub fn is_pending(&self) -> bool {
        self.validator.is_paused()
    }

    /// Steps that were taken so far.
    pub fn steps_taken(&self) -> u64 {
        self.validator.steps_taken()
    }

    /// How much memory the value takes here.
    pub fn bytes_held(&self) -> usize {
        self.validator.bytes_held() + self.scanner.bytes_held()
    }

    /// Validates a part of a value that was decoded elsewhere. Not to be mixed with [`Check::feed`] for one value.
    ///
    /// # Errors
    /// As [`Check::feed`]. Parts in an order that no value has are [`Reason::Syntax`].
    pub fn event(&mut self, event: Event<'_>) -> Result<(), Violation> {
        self.has_events = true;
        self.take(event).map_err(|reason| self.violation(reason))
    }

    /// The value must be whole now.
    ///
    /// # Errors
    /// [`Reason::Truncated`] if it is not, or what could only be said of its end.
    pub fn finish(self) -> Result<(), Violation> {
        let mut validating = Validating { program: self.program, validator: self.validator };
        // Nobody who forgets the rest of an evaluation gets a yes.
        validating.validator.end_turns();
        let rest = if validating.validator.is_paused() { validating.evaluate_recorded() } else { Ok(()) };
        let outcome = if self.has_events { rest } else { rest.and_then(|()| self.scanner.finish(&mut validating)) };
        let decision = match outcome {
            Ok(()) if self.validator.is_done() => Ok(()),
            Ok(()) => Err(self.violation(Reason::Truncated)),
            Err(reason) => Err(self.violation(reason)),
        };
        // The decision may be waited on for long by whoever holds the room.
        if self.validator.has_recorded(KEPT_BYTES) {
            self.validator.shrink(KEPT_BYTES);
        }
        decision
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), Reason> {
        let limits = &self.program.limits;
        if self.validator.is_done() {
            return Err(Reason::TrailingData);
        }
        self.validator.grant(limits, 1);
        self.validator.read(1);
        let validating = &mut Validating { program: self.program, validator: self.validator };
        match event {
            Event::Null => validating.null(),
            Event::Boolean(value) => validating.boolean(value),
            Event::Number(text) => {
                let number = Number::parse(text.as_bytes()).ok_or(Reason::Syntax)?;
                number.check_limits(limits)?;
                validating.number(number)
            }
            Event::String(text) if text.len() > limits.string_bytes as usize => Err(Reason::StringLength),
            Event::String(text) => validating.string(Text::new(text)),
            Event::BeginArray | Event::BeginObject if validating.validator.depth() >= limits.depth as usize => {
                Err(Reason::Depth)
            }
            Event::BeginArray => validating.begin_array(),
            Event::BeginObject => validating.begin_object(),
            Event::EndArray if !validating.validator.in_object() && validating.validator.depth() > 0 => {
                validating.end_array()
            }
            Event::Key(text) if text.len() > limits.key_bytes as usize => Err(Reason::KeyLength),
            Event::Key(text) if validating.validator.in_object() => validating.key(Text::new(text)),
            Event::EndObject if validating.validator.in_object() => validating.end_object(),
            Event::EndArray | Event::Key(_) | Event::EndObject => Err(Reason::Syntax),
        }
    }

    #[cold]
    fn violation(&self, reason: Reason) -> Violation {
        self.validator.violation(self.program, reason)
    }
}
