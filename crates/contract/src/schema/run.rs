//! One value's way through a program, as its bytes or its parts arrive. Its room is reused, so that it does not allocate.

use super::judge::{Judge, Judging};
use super::program::{Program, SchemaId};
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

/// Room for judging one value at a time; kept from value to value, so that steady traffic allocates nothing.
#[derive(Debug, Default)]
pub struct Run {
    /// Fitted to the program of that serial number.
    fitted: Option<(u64, Scanner)>,
    judge: Judge,
}

impl Run {
    /// Frees what an unusually large value has left behind: about `keep_bytes` stay in each of its buffers.
    pub fn shrink(&mut self, keep_bytes: usize) {
        if let Some((_, scanner)) = &mut self.fitted {
            scanner.shrink(keep_bytes);
        }
        self.judge.shrink(keep_bytes);
    }
}

/// A value on its way through a schema.
pub struct Check<'r> {
    program: &'r Program,
    scanner: &'r mut Scanner,
    judge: &'r mut Judge,
    has_events: bool,
}

impl Program {
    /// Begins a value of this schema, in the room of `run`; whatever was in there is forgotten.
    pub fn check<'r>(&'r self, id: SchemaId, run: &'r mut Run) -> Check<'r> {
        let fitted = run.fitted.take().filter(|(serial, _)| *serial == self.serial);
        run.judge.reset(self, self.root(id), fitted.is_some());
        let (_, scanner) = run.fitted.insert(fitted.unwrap_or_else(|| (self.serial, Scanner::new(&self.limits))));
        scanner.reset();
        Check { program: self, scanner, judge: &mut run.judge, has_events: false }
    }
}

impl Check<'_> {
    /// The value was made from text: only numbers without fraction and exponent are integers, since what reads integers from text stops at either.
    pub fn with_plain_integers(self) -> Self {
        self.judge.set_plain_integers();
        self
    }

    /// Judges a chunk of JSON text. After an error there is nothing more to learn.
    ///
    /// # Errors
    /// The first thing in the text that breaks the contract.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), Violation> {
        let mut judging = Judging { program: self.program, judge: self.judge };
        match self.scanner.feed(chunk, &mut judging) {
            Ok(()) => Ok(()),
            Err(reason) => Err(self.violation(reason)),
        }
    }

    /// Judges a part of a value that was decoded elsewhere. Not to be mixed with [`Check::feed`] for one value.
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
        let mut judging = Judging { program: self.program, judge: self.judge };
        let outcome = if self.has_events { Ok(()) } else { self.scanner.finish(&mut judging) };
        match outcome {
            Ok(()) if self.judge.is_done() => Ok(()),
            Ok(()) => Err(self.violation(Reason::Truncated)),
            Err(reason) => Err(self.violation(reason)),
        }
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), Reason> {
        let limits = &self.program.limits;
        if self.judge.is_done() {
            return Err(Reason::TrailingData);
        }
        let judging = &mut Judging { program: self.program, judge: self.judge };
        match event {
            Event::Null => judging.null(),
            Event::Boolean(value) => judging.boolean(value),
            Event::Number(text) => {
                let number = Number::parse(text.as_bytes()).ok_or(Reason::Syntax)?;
                number.check_limits(limits)?;
                judging.number(number)
            }
            Event::String(text) if text.len() > limits.string_bytes as usize => Err(Reason::StringLength),
            Event::String(text) => judging.string(Text::new(text)),
            Event::BeginArray | Event::BeginObject if judging.judge.depth() >= limits.depth as usize => {
                Err(Reason::Depth)
            }
            Event::BeginArray => judging.begin_array(),
            Event::BeginObject => judging.begin_object(),
            Event::EndArray if !judging.judge.in_object() && judging.judge.depth() > 0 => judging.end_array(),
            Event::Key(text) if text.len() > limits.key_bytes as usize => Err(Reason::KeyLength),
            Event::Key(text) if judging.judge.in_object() => judging.key(Text::new(text)),
            Event::EndObject if judging.judge.in_object() => judging.end_object(),
            Event::EndArray | Event::Key(_) | Event::EndObject => Err(Reason::Syntax),
        }
    }

    #[cold]
    fn violation(&self, reason: Reason) -> Violation {
        self.judge.violation(self.program, reason)
    }
}
