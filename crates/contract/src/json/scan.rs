//! The grammar of JSON over chunks: where values, names and containers begin and end. Tokens are read in `text`, cut ones collected in `token`.
//!
//! ```text
//!            ┌── , ──┐
//! Value ─→ AfterValue ─→ ] } ─→ AfterValue … ─→ End
//!   ↑ [ FirstElement     { FirstKey ─→ Colon ─→ Value
//! ```

use super::simd::plain_end;
use super::text::{self, Number, Text};
use super::token::CutToken;
use crate::limits::Limits;
use crate::reason::Reason;

/// Who receives the parts of a value, in the order of the text. An error ends the scan.
pub trait Sink {
    /// `null`
    fn null(&mut self) -> Result<(), Reason>;
    /// `true` or `false`
    fn boolean(&mut self, value: bool) -> Result<(), Reason>;
    /// A number, within the limits for its length.
    fn number(&mut self, number: Number<'_>) -> Result<(), Reason>;
    /// A string that is a value.
    fn string(&mut self, text: Text<'_>) -> Result<(), Reason>;
    /// An array begins.
    fn begin_array(&mut self) -> Result<(), Reason>;
    /// The innermost container, an array, ends.
    fn end_array(&mut self) -> Result<(), Reason>;
    /// An object begins.
    fn begin_object(&mut self) -> Result<(), Reason>;
    /// The name of the member whose value follows. Duplicates are the sink's to reject.
    fn key(&mut self, text: Text<'_>) -> Result<(), Reason>;
    /// The innermost container, an object, ends.
    fn end_object(&mut self) -> Result<(), Reason>;

    /// A sink that can tell which name comes next may compare: `window` begins at the quote of a name and may end anywhere. If the name that it
    /// expects stands there as a whole, it takes it as by [`Sink::key`], with the colon behind it, and says how many bytes that was; else 0.
    #[inline(always)]
    fn expected_key(&mut self, _window: &[u8]) -> Result<usize, Reason> {
        Ok(0)
    }

    /// A sink that can tell which members come next may take them as a whole: from the name that begins at `from` on, as many as it likes, and
    /// of their objects' siblings too. It must take nothing that is not JSON or beyond a limit, and at most `values` values.
    #[inline(always)]
    fn expected_members(&mut self, _window: &[u8], from: usize, _values: u32) -> Taken {
        Taken { end: from, values: 0, stand: Stand::Name }
    }
}

/// What a sink has taken of a window by itself.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Where it stands now.
    pub end: usize,
    /// How many values it took.
    pub values: u32,
    /// What comes there; of no meaning if no values were taken.
    pub stand: Stand,
}

/// What comes next in an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stand {
    /// A name has to.
    Name,
    /// What follows a value.
    BehindValue,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    AfterValue,
    End,
}

/// Reads one JSON value from chunks of any size and tells a [`Sink`]. Keeps nothing of what it read but a token cut by the end of a chunk.
#[derive(Debug)]
pub struct Scanner {
    phase: Phase,
    /// For each open container, innermost last: whether it is an object.
    open: Vec<bool>,
    values_left: u32,
    cut: CutToken,
    /// Strings with escapes are resolved here.
    scratch: Vec<u8>,
    limits: Limits,
    /// Where a container ended whose end the sink has rejected, or a string at which it has paused.
    rejected_at: usize,
    /// How long the last window was.
    window_len: usize,
}

/// What one step over a window comes to.
enum Step {
    /// Go on here.
    On(usize),
    /// The token that begins here is not whole.
    Cut(usize),
}

impl Scanner {
    /// A scanner for values within these limits.
    pub fn new(limits: &Limits) -> Self {
        Self {
            phase: Phase::Value,
            open: Vec::with_capacity(limits.depth.min(1024) as usize),
            values_left: limits.values,
            cut: CutToken::new(),
            scratch: Vec::new(),
            limits: limits.clone(),
            rejected_at: 0,
            window_len: 0,
        }
    }

    /// Frees what an unusually large token has left behind.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.cut.bytes.clear();
        self.cut.bytes.shrink_to(keep_bytes);
        self.scratch.clear();
        self.scratch.shrink_to(keep_bytes);
    }

    /// Makes it ready for another value; buffers stay.
    pub fn reset(&mut self) {
        self.phase = Phase::Value;
        self.open.clear();
        self.values_left = self.limits.values;
        self.cut.clear();
    }

    /// Reads a chunk.
    ///
    /// # Errors
    /// The first thing that is not JSON, is beyond a limit, or that the sink rejects. The scanner is of no more use then until it is reset.
    #[inline]
    pub fn feed(&mut self, chunk: &[u8], sink: &mut impl Sink) -> Result<(), Reason> {
        let mut rest = chunk;
        if !self.cut.is_empty() {
            let Some(taken) = self.cut.extend(rest)? else { return Ok(()) };
            rest = &rest[taken..];
            self.window_len = rest.len();
            self.whole_token(sink)?;
        }
        self.window_len = rest.len();
        let used = self.window(rest, false, sink)?;
        if used < rest.len() {
            let (bound, excess) = self.bound(rest[used]);
            self.cut.begin(&rest[used..], bound, excess)?;
        }
        Ok(())
    }

    /// As [`Scanner::feed`], for a sink that may pause ([`Reason::Paused`]) at the end of a container, or of a string that is longer than a chunk:
    /// says how much of the chunk was read.
    pub(crate) fn feed_some(&mut self, chunk: &[u8], sink: &mut impl Sink) -> Result<usize, Reason> {
        match self.feed(chunk, sink) {
            Ok(()) => Ok(chunk.len()),
            Err(Reason::Paused) => Ok(chunk.len() - (self.window_len - self.rejected_at)),
            Err(reason) => Err(reason),
        }
    }

    /// How much memory it holds.
    pub fn bytes_held(&self) -> usize {
        self.cut.bytes.capacity() + self.scratch.capacity()
    }

    /// There is no more: the value must be whole.
    ///
    /// # Errors
    /// [`Reason::Truncated`] if it is not, or what [`Scanner::feed`] could say of a number at the end.
    pub fn finish(&mut self, sink: &mut impl Sink) -> Result<(), Reason> {
        if self.cut.is_number() {
            self.whole_token(sink)?;
        }
        if self.cut.is_wrong_word() {
            return Err(Reason::Syntax);
        }
        if self.phase == Phase::End && self.cut.is_empty() { Ok(()) } else { Err(Reason::Truncated) }
    }

    /// Reads the cut token, which is whole now.
    #[inline(never)]
    fn whole_token(&mut self, sink: &mut impl Sink) -> Result<(), Reason> {
        let bytes = std::mem::take(&mut self.cut.bytes);
        let used = self.window(&bytes, true, sink);
        let length = bytes.len();
        self.cut.bytes = bytes;
        self.cut.clear();
        if matches!(used, Err(Reason::Paused)) {
            self.count_value()?;
            // Where the window of the chunk begins.
            return Err(self.rejected(0, Reason::Paused));
        }
        if used? == length { Ok(()) } else { Err(Reason::Syntax) }
    }

    /// How long a token that begins like this may get, and what it is beyond that.
    fn bound(&self, first: u8) -> (usize, Reason) {
        match (first, self.phase) {
            (b'"', Phase::Key | Phase::FirstKey) => (self.limits.key_bytes as usize + 2, Reason::KeyLength),
            (b'"', _) => (self.limits.string_bytes as usize + 2, Reason::StringLength),
            _ => (self.limits.number_chars.max(5) as usize, Reason::NumberLength),
        }
    }

    /// Reads what it can of a window and says how much that was; what is left is the beginning of a token. `is_whole`: the window's end is
    /// known to end a token.
    #[inline(always)]
    fn window<S: Sink>(&mut self, window: &[u8], is_whole: bool, sink: &mut S) -> Result<usize, Reason> {
        let mut at = 0;
        loop {
            at = skip_space(window, at);
            let Some(&byte) = window.get(at) else { return Ok(at) };
            let step = match self.phase {
                Phase::AfterValue => {
                    at = self.after_value(byte, at, sink)?;
                    continue;
                }
                Phase::Key => self.members(window, at, is_whole, sink)?,
                Phase::Colon if byte == b':' => {
                    self.phase = Phase::Value;
                    Step::On(at + 1)
                }
                Phase::FirstKey if byte != b'}' => self.members(window, at, is_whole, sink)?,
                Phase::FirstElement if byte == b']' => Step::On(self.after_value_end(at, sink)?),
                Phase::FirstKey => Step::On(self.after_value_end(at, sink)?),
                Phase::Value | Phase::FirstElement => self.value(window, at, byte, is_whole, sink)?,
                Phase::Colon => return Err(Reason::Syntax),
                Phase::End => return Err(Reason::TrailingData),
            };
            match step {
                Step::On(next) => at = next,
                Step::Cut(start) => return Ok(start),
            }
        }
    }

    #[inline(always)]
    fn after_value<S: Sink>(&mut self, byte: u8, at: usize, sink: &mut S) -> Result<usize, Reason> {
        if byte == b',' {
            self.phase = if self.in_object() { Phase::Key } else { Phase::Value };
            return Ok(at + 1);
        }
        if byte != if self.in_object() { b'}' } else { b']' } {
            return Err(Reason::Syntax);
        }
        self.after_value_end(at, sink)
    }

    /// The innermost container ends at `at`.
    #[inline(always)]
    fn after_value_end<S: Sink>(&mut self, at: usize, sink: &mut S) -> Result<usize, Reason> {
        let ended = if self.open.pop() == Some(true) { sink.end_object() } else { sink.end_array() };
        match ended {
            Ok(()) => {
                self.phase = self.phase_behind_value();
                Ok(at + 1)
            }
            Err(reason) => Err(self.rejected(at + 1, reason)),
        }
    }

    /// The sink has rejected the value that ends at `end`, or paused there.
    #[cold]
    fn rejected(&mut self, end: usize, reason: Reason) -> Reason {
        self.phase = self.phase_behind_value();
        self.rejected_at = end;
        reason
    }

    #[inline(always)]
    fn in_object(&self) -> bool {
        self.open.last() == Some(&true)
    }

    #[inline(always)]
    fn phase_behind_value(&self) -> Phase {
        if self.open.is_empty() { Phase::End } else { Phase::AfterValue }
    }

    /// Members from the name at `at` on, for as long as scalars and names follow each other without white space; what is different goes back to the
    /// phases. Saves three decisions per member, which is most of what an ordinary object costs.
    #[inline(always)]
    fn members<S: Sink>(&mut self, window: &[u8], mut at: usize, is_whole: bool, sink: &mut S) -> Result<Step, Reason> {
        loop {
            let taken = sink.expected_members(window, at, self.values_left);
            if taken.values > 0 {
                at = taken.end;
                self.values_left -= taken.values;
                self.phase = if taken.stand == Stand::Name { Phase::Key } else { Phase::AfterValue };
                if taken.stand == Stand::BehindValue || at == window.len() {
                    return Ok(Step::On(at));
                }
            }
            match self.key(window, at, sink)? {
                Step::On(next) => at = next,
                cut => return Ok(cut),
            }
            let Some(&byte) = window.get(at) else { return Ok(Step::On(at)) };
            if self.phase != Phase::Value || byte <= b' ' {
                return Ok(Step::On(at));
            }
            match self.value(window, at, byte, is_whole, sink)? {
                Step::On(next) => at = next,
                cut => return Ok(cut),
            }
            let is_next = window.get(at) == Some(&b',') && window.get(at + 1) == Some(&b'"');
            if self.phase != Phase::AfterValue || !is_next {
                return Ok(Step::On(at));
            }
            self.phase = Phase::Key;
            at += 1;
        }
    }

    #[inline(always)]
    fn key<S: Sink>(&mut self, window: &[u8], at: usize, sink: &mut S) -> Result<Step, Reason> {
        let taken = sink.expected_key(&window[at..])?;
        if taken > 0 {
            self.phase = Phase::Value;
            return Ok(Step::On(at + taken));
        }
        if window[at] != b'"' {
            return Err(Reason::Syntax);
        }
        let end = plain_end(window, at + 1);
        let next = if window.get(end) == Some(&b'"') {
            if end - at - 1 > self.limits.key_bytes as usize {
                return Err(Reason::KeyLength);
            }
            sink.key(Text { bytes: &window[at + 1..end], is_ascii: true })?;
            end + 1
        } else {
            match self.quoted::<S, true>(window, at, end, sink)? {
                Step::On(next) => next,
                cut => return Ok(cut),
            }
        };
        let has_colon = window.get(next) == Some(&b':');
        self.phase = if has_colon { Phase::Value } else { Phase::Colon };
        Ok(Step::On(next + usize::from(has_colon)))
    }

    #[inline(always)]
    fn value<S: Sink>(
        &mut self,
        window: &[u8],
        at: usize,
        byte: u8,
        is_whole: bool,
        sink: &mut S,
    ) -> Result<Step, Reason> {
        let next = match byte {
            b'"' => {
                let end = plain_end(window, at + 1);
                if window.get(end) == Some(&b'"') {
                    if end - at - 1 > self.limits.string_bytes as usize {
                        return Err(Reason::StringLength);
                    }
                    sink.string(Text { bytes: &window[at + 1..end], is_ascii: true })?;
                    end + 1
                } else {
                    match self.quoted::<S, false>(window, at, end, sink)? {
                        Step::On(next) => next,
                        cut => return Ok(cut),
                    }
                }
            }
            b'0'..=b'9' | b'-' => match self.number(window, at, is_whole, sink)? {
                Step::On(next) => next,
                cut => return Ok(cut),
            },
            b'{' => return self.begin(true, at, sink),
            b'[' => return self.begin(false, at, sink),
            _ => match word(window, at, self.open.is_empty())? {
                None => return Ok(Step::Cut(at)),
                Some(length) => {
                    if byte == b'n' {
                        sink.null()?
                    } else {
                        sink.boolean(byte == b't')?
                    }
                    at + length
                }
            },
        };
        self.count_value()?;
        self.phase = self.phase_behind_value();
        Ok(Step::On(next))
    }

    #[inline(always)]
    fn count_value(&mut self) -> Result<(), Reason> {
        self.values_left = self.values_left.checked_sub(1).ok_or(Reason::Values)?;
        Ok(())
    }

    #[inline(always)]
    fn begin<S: Sink>(&mut self, is_object: bool, at: usize, sink: &mut S) -> Result<Step, Reason> {
        if self.open.len() >= self.limits.depth as usize {
            return Err(Reason::Depth);
        }
        self.count_value()?;
        if is_object {
            sink.begin_object()?
        } else {
            sink.begin_array()?
        }
        self.open.push(is_object);
        self.phase = if is_object { Phase::FirstKey } else { Phase::FirstElement };
        Ok(Step::On(at + 1))
    }

    #[inline(always)]
    fn number<S: Sink>(&mut self, window: &[u8], at: usize, is_whole: bool, sink: &mut S) -> Result<Step, Reason> {
        let (end, small) = match text::number_end(window, at) {
            Ok((end, _)) if end == window.len() && !is_whole => return Ok(Step::Cut(at)),
            Ok(found) => found,
            Err(_) if !is_whole && may_go_on(&window[at..]) => return Ok(Step::Cut(at)),
            Err(reason) => return Err(reason),
        };
        let number = Number { text: &window[at..end], small };
        number.check_limits(&self.limits)?;
        sink.number(number)?;
        Ok(Step::On(end))
    }

    /// A string that is not plain ASCII up to a quote at `stop`.
    #[inline(never)]
    fn quoted<S: Sink, const KEY: bool>(
        &mut self,
        window: &[u8],
        at: usize,
        stop: usize,
        sink: &mut S,
    ) -> Result<Step, Reason> {
        let Some(quoted) = text::closing_quote(window, stop)? else { return Ok(Step::Cut(at)) };
        let raw = &window[at + 1..quoted.end];
        let (bound, excess) = if KEY {
            (self.limits.key_bytes, Reason::KeyLength)
        } else {
            (self.limits.string_bytes, Reason::StringLength)
        };
        if raw.len() > bound as usize {
            return Err(excess);
        }
        let text = text::read(raw, quoted.has_escapes, &mut self.scratch)?;
        if KEY {
            sink.key(text)?
        } else {
            sink.string(text)?
        }
        Ok(Step::On(quoted.end + 1))
    }
}

/// White space is space, tab, line feed and carriage return (RFC 8259 §2).
#[inline(always)]
pub(crate) fn skip_space(window: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = window.get(at) {
        at += 1;
    }
    at
}

/// Whether what cannot be a number yet may become one.
#[inline(never)]
fn may_go_on(rest: &[u8]) -> bool {
    // At most the end is missing: a digit behind `-`, `.`, `e`, `e+`; so the whole rest has to look like part of a number.
    rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
}

/// The length of `true`, `false` or `null` at `at`; `None` if the window ends in it.
#[inline(always)]
fn word(window: &[u8], at: usize, is_outermost: bool) -> Result<Option<usize>, Reason> {
    let rest = &window[at..];
    match rest[0] {
        b't' => whole_word(rest, b"true"),
        b'f' => whole_word(rest, b"false"),
        b'n' => whole_word(rest, b"null"),
        first => Err(if first == 0xef && is_outermost { Reason::ByteOrderMark } else { Reason::Syntax }),
    }
}

#[inline(always)]
fn whole_word<const LENGTH: usize>(rest: &[u8], word: &[u8; LENGTH]) -> Result<Option<usize>, Reason> {
    match rest.first_chunk::<LENGTH>() {
        Some(found) if found == word => Ok(Some(LENGTH)),
        None if word.starts_with(rest) => Ok(None),
        _ => Err(Reason::Syntax),
    }
}
