//! What a validator says about a message: violations with reason code and place, and names the document does not declare.
//!
//! Owns the values, their order and their bound. Does not validate, and does not know what becomes of a violation: that is for the caller.

use std::fmt::{self, Display};

use super::code;
use crate::message::{Part, clean, shown};

/// Most violations kept of one message in collect mode.
pub const MAX_VIOLATIONS: usize = 100;

/// Most undeclared names kept of one message.
pub const MAX_SHADOWS: usize = 100;

/// Characters of a JSON pointer that a violation repeats.
const MAX_POINTER_CHARS: usize = 480;

/// Where a violation is: the part, the name within it, and a JSON pointer into the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Where {
    /// The part of the message.
    pub part: Part,
    /// Name of the parameter, field, form field or scheme; empty where the part as a whole is meant. At most 120 characters.
    pub name: String,
    /// JSON pointer (RFC 6901) into the decoded value; empty for the whole of it.
    pub pointer: String,
}

impl Where {
    /// A part as a whole.
    pub fn of(part: Part) -> Where {
        Where { part, name: String::new(), pointer: String::new() }
    }

    /// A named thing in a part. The name is shortened to 120 characters.
    pub fn named(part: Part, name: &[u8]) -> Where {
        Where { part, name: shown(name), pointer: String::new() }
    }

    /// The same place, deeper. The pointer may hold names that a client chose: it is cleaned and shortened to 480 characters.
    #[must_use]
    pub fn at(self, pointer: &str) -> Where {
        Where { pointer: clean(pointer, MAX_POINTER_CHARS), ..self }
    }
}

impl Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.part.as_str())?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        if !self.pointer.is_empty() {
            write!(f, " {}", self.pointer)?;
        }
        Ok(())
    }
}

/// One breach of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Stable reason code: one of [`code`], or `schema_` and the keyword.
    pub code: &'static str,
    /// Where.
    pub place: Where,
    /// What is wrong and what is expected. One line, at most a few hundred characters.
    pub what: String,
}

impl Violation {
    /// A violation.
    pub fn new(code: &'static str, place: Where, what: impl Into<String>) -> Violation {
        Violation { code, place, what: what.into() }
    }

    /// The status that says best what is wrong with a *request*: 400, 401, 413, 415 or 501.
    pub fn status(&self) -> u16 {
        code::status(self.code)
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.code, self.place, self.what)
    }
}

/// A name that the document does not declare, where the mode is to report such names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    /// The part of the message.
    pub part: Part,
    /// The name, at most 120 characters.
    pub name: String,
}

/// No more findings are wanted: stop validating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enough;

/// What was found in one message, in document order: path, query, header fields, cookies, body.
#[derive(Debug, Default)]
pub struct Findings {
    wanted: usize,
    violations: Vec<Violation>,
    shadows: Vec<Shadow>,
}

impl Findings {
    /// Validating stops at the first violation. For `block`.
    pub fn first() -> Findings {
        Findings { wanted: 1, ..Findings::default() }
    }

    /// Validating goes on until 100 violations are found. For `log` and for people.
    pub fn all() -> Findings {
        Findings { wanted: MAX_VIOLATIONS, ..Findings::default() }
    }

    /// Empty ones of the same mode.
    pub(crate) fn fresh(&self) -> Findings {
        Findings { wanted: self.wanted, ..Findings::default() }
    }

    /// Takes what was found elsewhere.
    ///
    /// # Errors
    /// As [`Findings::add`].
    pub(crate) fn take(&mut self, found: Findings) -> Result<(), Enough> {
        let room = MAX_SHADOWS.saturating_sub(self.shadows.len());
        self.shadows.extend(found.shadows.into_iter().take(room));
        found.violations.into_iter().try_for_each(|violation| self.add(violation))
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.violations.is_empty()
    }

    /// The violations, in document order.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The violations, in document order.
    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Undeclared names that are to be reported and do not reject the message.
    pub fn shadows(&self) -> &[Shadow] {
        &self.shadows
    }

    /// Whether more than one violation is wanted.
    pub fn collects(&self) -> bool {
        self.wanted > 1
    }

    /// Whether as many violations are here as are wanted.
    pub fn is_full(&self) -> bool {
        self.violations.len() >= self.wanted
    }

    /// Takes a violation.
    ///
    /// # Errors
    /// [`Enough`] if no more are wanted.
    pub fn add(&mut self, violation: Violation) -> Result<(), Enough> {
        if self.violations.len() < self.wanted {
            self.violations.push(violation);
        }
        if self.is_full() { Err(Enough) } else { Ok(()) }
    }

    /// Takes an undeclared name.
    pub fn add_shadow(&mut self, part: Part, name: &[u8]) {
        if self.shadows.len() < MAX_SHADOWS {
            self.shadows.push(Shadow { part, name: shown(name) });
        }
    }

    /// Forgets everything found; keeps the mode.
    pub fn clear(&mut self) {
        self.violations.clear();
        self.shadows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_first_or_at_the_hundredth() {
        let violation = || Violation::new(code::PARAMETER_MISSING, Where::named(Part::Query, b"page"), "is required");
        let mut first = Findings::first();
        assert_eq!(first.add(violation()), Err(Enough));
        let mut all = Findings::all();
        for _ in 1..MAX_VIOLATIONS {
            assert_eq!(all.add(violation()), Ok(()));
        }
        assert_eq!(all.add(violation()), Err(Enough));
        assert_eq!(all.add(violation()), Err(Enough));
        assert_eq!(all.violations().len(), MAX_VIOLATIONS);
        assert_eq!(violation().to_string(), "parameter_missing: query page: is required");
    }

    #[test]
    fn hostile_names_are_shortened_and_cleaned() {
        assert_eq!(shown(b"a\r\n\x1bb"), "a\u{fffd}\u{fffd}\u{fffd}b");
        assert_eq!(shown(&[b'x'; 100_000]).chars().count(), 121);
        assert_eq!(shown(b"\xff"), "\u{fffd}");
    }
}
