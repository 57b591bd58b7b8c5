//! What must hold for any input of the JSON scanner and of the pattern translator. Shared by the fuzz targets and by `cargo test`.
#![allow(dead_code)]

use contract::json::{Number, Scanner, Sink, Text};
use contract::json::{plain_end, plain_end_scalar, quoted_end, quoted_end_scalar};
use contract::limits::Limits;
use contract::pattern::Pattern;
use contract::reason::Reason;

/// Writes down what it is reported; names may occur twice.
#[derive(Default)]
struct Transcript(Vec<u8>);

impl Transcript {
    fn note(&mut self, tag: u8, bytes: &[u8]) -> Result<(), Reason> {
        self.0.push(tag);
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl Sink for Transcript {
    fn null(&mut self) -> Result<(), Reason> {
        self.note(b'n', b"")
    }
    fn boolean(&mut self, value: bool) -> Result<(), Reason> {
        self.note(b'b', &[u8::from(value)])
    }
    fn number(&mut self, number: Number<'_>) -> Result<(), Reason> {
        assert!(Number::parse(number.text).is_some());
        self.note(b'#', number.text)
    }
    fn string(&mut self, text: Text<'_>) -> Result<(), Reason> {
        assert_eq!(std::str::from_utf8(text.bytes).map(str::is_ascii), Ok(text.is_ascii));
        self.note(b's', text.bytes)
    }
    fn begin_array(&mut self) -> Result<(), Reason> {
        self.note(b'[', b"")
    }
    fn end_array(&mut self) -> Result<(), Reason> {
        self.note(b']', b"")
    }
    fn begin_object(&mut self) -> Result<(), Reason> {
        self.note(b'{', b"")
    }
    fn key(&mut self, text: Text<'_>) -> Result<(), Reason> {
        self.note(b'k', text.bytes)
    }
    fn end_object(&mut self) -> Result<(), Reason> {
        self.note(b'}', b"")
    }
}

/// Cutting changes no decision; what we accept `serde_json` accepts, and what it accepts we refuse only for a reason of our own.
pub fn json(data: &[u8]) {
    let limits = Limits::default();
    let scan = |size: usize| {
        let (mut scanner, mut transcript) = (Scanner::new(&limits), Transcript::default());
        let fed = data.chunks(size).try_for_each(|piece| scanner.feed(piece, &mut transcript));
        (fed.and_then(|()| scanner.finish(&mut transcript)), transcript.0)
    };
    let whole = scan(usize::MAX);
    for piece in [1, 2, 7, 19] {
        let cut = scan(piece);
        // Of what is no number and too long for one, either may be reported: it is rejected before it is known to its end.
        let number = |reason: &Result<(), Reason>| matches!(reason, Err(Reason::Syntax | Reason::NumberLength));
        assert!(
            cut.0 == whole.0 || (number(&cut.0) && number(&whole.0)),
            "pieces of {piece}: {:?}, {:?}",
            cut.0,
            whole.0
        );
        assert!(whole.0.is_err() || cut.1 == whole.1, "pieces of {piece}");
    }
    let other = serde_json::from_slice::<serde::de::IgnoredAny>(data);
    match whole.0 {
        Ok(()) => assert!(other.is_ok(), "{other:?}"),
        Err(Reason::Syntax | Reason::Utf8 | Reason::Truncated | Reason::TrailingData) => {
            assert!(other.is_err() || std::str::from_utf8(data).is_err(), "rejected: {:?}", whole.0);
        }
        Err(_) => {}
    }
    for from in 0..data.len().min(70) {
        assert_eq!(plain_end(data, from), plain_end_scalar(data, from));
        assert_eq!(quoted_end(data, from), quoted_end_scalar(data, from));
    }
}

/// The first line is a pattern, the rest a text: a plain one matches itself, a loop says what the automaton says, and both what passes for lookaround say.
pub fn pattern(data: &[u8]) {
    let Ok(input) = std::str::from_utf8(data) else { return };
    let (pattern, text) = input.split_once('\n').unwrap_or((input, ""));
    let Ok(compiled) = Pattern::new(pattern) else { return };
    let found = compiled.is_match(text.as_bytes());
    // In an empty group more the meaning is the same, and the shape is not that of a loop.
    if let Ok(other) = Pattern::new(&format!("(?:{pattern})|[]")) {
        assert_eq!(other.is_match(text.as_bytes()), found, "{pattern:?} {text:?}");
    }
    // Unless it takes too many steps.
    let decided = compiled.matches(text.as_bytes(), &mut u64::MAX.clone());
    if let (Ok(passes), Some(found)) = (Pattern::new(&format!("(?!(?!{pattern}))")), decided)
        && let Some(other) = passes.matches(text.as_bytes(), &mut u64::MAX.clone())
    {
        assert_eq!(other, found, "{pattern:?} {text:?}");
    }
    if !pattern.is_empty() && pattern.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        assert_eq!(found, text.contains(pattern), "{pattern:?} {text:?}");
    }
}
