//! Violations as this crate makes them: in the body or the query string, with one line for people.

use contract::validate::{Part, Violation, Where, shown};

/// Bytes of a library's message that a violation repeats.
const MAX_MESSAGE_BYTES: usize = 300;

/// A violation of the request as a whole. The guard says which part of the message it came in.
pub(crate) fn violation(code: &'static str, what: impl AsRef<str>) -> Violation {
    let what = what.as_ref();
    let end = (0..=what.len().min(MAX_MESSAGE_BYTES)).rev().find(|at| what.is_char_boundary(*at)).unwrap_or(0);
    let what = what.get(..end).unwrap_or_default();
    let line: String = what.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Violation::new(code, Where::of(Part::Body), line)
}

/// The same of something with a name that the client chose.
pub(crate) fn named(code: &'static str, name: &str, what: impl AsRef<str>) -> Violation {
    let about = violation(code, what);
    Violation { place: Where::named(Part::Body, shown(name.as_bytes()).as_bytes()), ..about }
}

/// More than a limit allows.
pub(crate) fn over(code: &'static str, what: &str, limit: impl std::fmt::Display) -> Violation {
    violation(code, format!("{what} than the limit of {limit}"))
}
