//! Command lines by the rules of Go's flag package: one or two dashes, `-x v` or `-x=v`, flags before the first other word.
//!
//! Knows no flag; whoever reads says which exist and which take a value.

use std::ffi::OsString;

/// Why arguments cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Help was asked for: exit 0.
    Help,
    /// A problem: exit 2.
    Problem(String),
}

/// A problem, told.
pub(super) fn problem<T>(text: String) -> Result<T, Rejected> {
    Err(Rejected::Problem(text))
}

/// The words of a command line, flags first.
#[derive(Debug)]
pub(super) struct GoFlags<'a> {
    words: std::slice::Iter<'a, OsString>,
    first_word: Option<&'a str>,
    flags_are_over: bool,
}

impl<'a> GoFlags<'a> {
    pub(super) fn new(words: &'a [OsString]) -> GoFlags<'a> {
        GoFlags { words: words.iter(), first_word: None, flags_are_over: false }
    }

    /// The next flag and what stands behind its `=`; none at the first word that is no flag.
    pub(super) fn next(&mut self) -> Result<Option<(&'a str, Option<&'a str>)>, Rejected> {
        let Some(text) = self.word()?.filter(|_| !self.flags_are_over) else { return Ok(None) };
        let Some(flag) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).filter(|_| text != "-") else {
            self.flags_are_over = true;
            self.first_word = Some(text);
            return Ok(None);
        };
        if flag.is_empty() {
            self.flags_are_over = true;
            self.first_word = self.words.next().and_then(|word| word.to_str());
            return Ok(None);
        }
        if flag.starts_with(['-', '=']) {
            return problem(format!("bad flag syntax: {text}"));
        }
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        if matches!(name, "h" | "help") {
            return Err(Rejected::Help);
        }
        Ok(Some((name, value)))
    }

    /// The value of a flag that needs one: what stands behind its `=`, else the next word.
    pub(super) fn value(&mut self, name: &str, given: Option<&'a str>) -> Result<&'a str, Rejected> {
        match given {
            Some(value) => Ok(value),
            None => match self.words.next().map(|word| word.to_str()) {
                Some(Some(value)) => Ok(value),
                Some(None) => problem(format!("the value of -{name} is not UTF-8")),
                None => problem(format!("flag needs an argument: -{name}")),
            },
        }
    }

    /// The first word that is no flag, once the flags are read.
    pub(super) fn first_word(&self) -> Option<&'a str> {
        self.first_word
    }

    fn word(&mut self) -> Result<Option<&'a str>, Rejected> {
        match self.words.next().map(|word| (word, word.to_str())) {
            Some((_, Some(text))) => Ok(Some(text)),
            Some((word, None)) => problem(format!("the argument {word:?} is not UTF-8")),
            None => Ok(None),
        }
    }
}

/// A number as Go reads one: decimal, or with the prefixes `0x`, `0o`, `0` and `0b`.
pub(super) fn number(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.as_str() {
        "0" => ("0", 10),
        other => [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)]
            .iter()
            .find_map(|(prefix, radix)| other.strip_prefix(prefix).map(|digits| (digits, *radix)))
            .unwrap_or((other, 10)),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| u64::from_str_radix(digits, radix).ok())?
}

/// A boolean as Go reads one.
pub(super) fn boolean(name: &str, text: &str) -> Result<bool, Rejected> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => problem(format!("invalid boolean value \"{text}\" for -{name}: expected true or false")),
    }
}
