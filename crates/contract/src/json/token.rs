//! A token that was cut by the end of a chunk: collects its bytes until it is whole. Validates nothing but lengths.

use super::simd::quoted_end;
use crate::reason::Reason;

/// The bytes of a cut token so far. Empty when no token is cut.
#[derive(Debug)]
pub(super) struct CutToken {
    pub bytes: Vec<u8>,
    /// In a string: the next byte belongs to an escape.
    is_escaped: bool,
    /// The most bytes it may come to, quotes included, and what to say beyond.
    bound: usize,
    excess: Reason,
}

impl CutToken {
    pub fn new() -> Self {
        Self { bytes: Vec::new(), is_escaped: false, bound: 0, excess: Reason::Syntax }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn is_number(&self) -> bool {
        matches!(self.bytes.first(), Some(b'-' | b'0'..=b'9'))
    }

    /// Whether it cannot become a literal any more.
    pub fn is_wrong_word(&self) -> bool {
        let is_word = self.bytes.first().is_some_and(u8::is_ascii_lowercase);
        is_word && ![&b"true"[..], b"false", b"null"].iter().any(|word| word.starts_with(&self.bytes))
    }

    /// Forgets the token, and keeps a buffer of ordinary size.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Begins with what is left of a chunk, which must not be empty and not hold the whole token.
    pub fn begin(&mut self, rest: &[u8], bound: usize, excess: Reason) -> Result<(), Reason> {
        self.bytes.clear();
        self.bytes.push(rest[0]);
        self.is_escaped = false;
        self.bound = bound;
        self.excess = excess;
        self.extend(&rest[1..]).map(|_| ())
    }

    /// Takes bytes up to the end of the token. `Some` with their number once it is whole, `None` if it took all and needs more.
    pub fn extend(&mut self, chunk: &[u8]) -> Result<Option<usize>, Reason> {
        let end = match self.bytes[0] {
            b'"' => self.string_end(chunk),
            b'-' | b'0'..=b'9' => number_end(chunk),
            b'f' => word_end(chunk, 5 - self.bytes.len().min(5)),
            _ => word_end(chunk, 4 - self.bytes.len().min(4)),
        };
        let taken = end.unwrap_or(chunk.len());
        if self.bytes.len() + taken > self.bound {
            return Err(self.excess);
        }
        self.bytes.extend_from_slice(&chunk[..taken]);
        Ok(end)
    }

    fn string_end(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut at = 0;
        if self.is_escaped && !chunk.is_empty() {
            self.is_escaped = false;
            at = 1;
        }
        loop {
            at = quoted_end(chunk, at);
            match chunk.get(at) {
                None => return None,
                Some(b'\\') if at + 1 == chunk.len() => {
                    self.is_escaped = true;
                    return None;
                }
                Some(b'\\') => at += 2,
                // A control character ends it too: reading the token will reject it.
                Some(_) => return Some(at + 1),
            }
        }
    }
}

fn number_end(chunk: &[u8]) -> Option<usize> {
    chunk.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
}

fn word_end(chunk: &[u8], missing: usize) -> Option<usize> {
    (chunk.len() >= missing).then_some(missing)
}
