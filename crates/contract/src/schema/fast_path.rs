//! What the schema of a member says, as far as it can be said in a few comparisons. Takes only what is certainly right; everything else is left to
//! the grammar and the validator, and so are all reasons.

use super::program::{ACCEPT, Program, RECORD, Slot, StringPlan, kind};
use super::validator::check_text_fully;
use crate::format::Format;
use crate::json::{Text, digit_count, plain_end, small_integer};
use crate::pattern::Pattern;

/// Which scalars are right at first glance; the default knows of none.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastPath {
    /// The bit of the slot among the first 64 of its object; 0 for those behind.
    pub bit: u64,
    /// Integers that are allowed; none if `min > max`.
    min: i64,
    max: i64,
    /// A bit for each integer of one digit that is allowed, and from [`MORE_DIGITS`] on for each number of digits that are allowed whatever they are.
    digits: u32,
    /// 1 false, 2 true, 4 null.
    constants: u8,
    /// Lengths in bytes of strings in ASCII that are allowed: the least, and how many more.
    shortest: u32,
    span: u32,
    /// What else is asked of such strings, and the block that says it.
    look: Look,
    string: u32,
}

impl Default for FastPath {
    fn default() -> Self {
        let look = Look::Length;
        Self { bit: 0, min: 1, max: 0, digits: 0, constants: 0, shortest: u32::MAX, span: 0, look, string: 0 }
    }
}

/// What is asked of a string beside its length.
#[derive(Clone, Copy, Debug)]
enum Look {
    Length,
    /// This format only.
    Format(Format),
    /// The block's one pattern only.
    Pattern,
    /// Everything the block says.
    Block,
}

impl Look {
    fn new(plan: &StringPlan) -> Self {
        match (&plan.values, plan.rules.formats.as_slice(), plan.rules.patterns.as_slice()) {
            (None, [], []) => Self::Length,
            (None, [format], []) => Self::Format(*format),
            (None, [], [_]) => Self::Pattern,
            _ => Self::Block,
        }
    }

    fn allows(self, plan: &StringPlan, text: Text<'_>) -> bool {
        match self {
            Self::Length => true,
            Self::Format(format) => format.is_match(text),
            Self::Pattern => plan.rules.patterns.first().is_some_and(|pattern| pattern.is_match(text.bytes)),
            Self::Block => check_text_fully(plan, text, &mut 0).is_ok(),
        }
    }
}

/// The most characters that [`small_integer`] reads.
const INTEGER_CHARS: u32 = 19;

/// In the bits of [`FastPath::digits`], where those for numbers of more than one digit begin.
const MORE_DIGITS: u32 = 16;

impl FastPath {
    /// What can be said of a slot when its plan is complete.
    pub fn new(program: &Program, slot: &Slot) -> Self {
        let blocks = &program.plans[slot.child as usize].blocks;
        let mut fast_path = Self { bit: 1u64.checked_shl(slot.number).unwrap_or(0), ..Self::default() };
        if program.limits.number_chars >= INTEGER_CHARS {
            fast_path.see_integers(program, blocks[kind::INTEGER]);
        }
        fast_path.see_strings(program, blocks[kind::STRING]);
        fast_path.constants = match blocks[kind::BOOLEAN] {
            ACCEPT => 3,
            allowed if allowed < RECORD.min(4) => allowed as u8,
            _ => 0,
        };
        fast_path.constants |= if blocks[kind::NULL] == ACCEPT { 4 } else { 0 };
        fast_path
    }

    fn see_integers(&mut self, program: &Program, block: u32) {
        let plan = program.numbers.get(block as usize);
        let range = if block == ACCEPT { Some((i64::MIN, i64::MAX)) } else { plan.and_then(|plan| plan.small) };
        (self.min, self.max) = range.unwrap_or((1, 0));
        let few = plan.map_or(&[][..], |plan| &plan.small_values);
        let is_allowed = |value: &i64| (self.min..=self.max).contains(value) || few.contains(value);
        let one = (0..10).filter(is_allowed).map(|digit| 1 << digit);
        let are_allowed = |digits: &u32| self.min <= 10 && 10i64.pow(*digits) - 1 <= self.max;
        let more = (2..8).filter(are_allowed).map(|digits| 1 << (MORE_DIGITS + digits));
        self.digits = one.chain(more).sum();
    }

    fn see_strings(&mut self, program: &Program, block: u32) {
        let longest = program.limits.string_bytes;
        if block == ACCEPT {
            (self.shortest, self.span) = (0, longest);
            return;
        }
        let Some(plan) = program.strings.get(block as usize) else { return };
        if !plan.rules.patterns.iter().all(Pattern::is_cheap) {
            // What is charged for is the validator's.
            return;
        }
        let longest = u32::try_from(plan.max_bytes).unwrap_or(u32::MAX).min(longest);
        if let Ok(shortest) = u32::try_from(plan.min_bytes)
            && shortest <= longest
        {
            (self.shortest, self.span) = (shortest, longest - shortest);
            (self.look, self.string) = (Look::new(plan), block);
        }
    }

    /// Where the scalar at `at`, that begins with `byte`, ends, if it is allowed. Of a number, a fraction or an exponent may follow there.
    #[inline(always)]
    pub fn value_end(&self, program: &Program, window: &[u8], at: usize, byte: u8) -> Option<usize> {
        if byte == b'"' {
            let end = plain_end(window, at + 1);
            let length = end - at - 1;
            if window.get(end) != Some(&b'"') || length.wrapping_sub(self.shortest as usize) > self.span as usize {
                return None;
            }
            let is_right = matches!(self.look, Look::Length) || self.is_right(program, &window[at + 1..end]);
            return is_right.then_some(end + 1);
        }
        let digit = u32::from(byte).wrapping_sub(u32::from(b'0'));
        if digit < 10
            && let Some(count) = digit_count(window, at)
        {
            let which = if count == 1 { digit } else { MORE_DIGITS + count };
            // More digits never begin with 0.
            let is_number = count == 1 || digit != 0;
            if is_number && self.digits >> which & 1 == 1 {
                return Some(at + count as usize);
            }
        }
        match byte {
            b'0'..=b'9' | b'-' => {
                let (end, value) = small_integer(window, at)?;
                (self.min <= value && value <= self.max).then_some(end)
            }
            b't' => self.word(2, window, at, b"true"),
            b'f' => self.word(1, window, at + 1, b"alse"),
            b'n' => self.word(4, window, at, b"null"),
            _ => None,
        }
    }

    /// Whether a string in ASCII of an allowed length is right.
    #[inline(never)]
    fn is_right(&self, program: &Program, bytes: &[u8]) -> bool {
        let plan = program.strings.get(self.string as usize);
        plan.is_some_and(|plan| self.look.allows(plan, Text { bytes, is_ascii: true }))
    }

    #[inline(always)]
    fn word(&self, bit: u8, window: &[u8], at: usize, word: &[u8; 4]) -> Option<usize> {
        let stands = window.get(at..).and_then(|rest| rest.first_chunk::<4>()) == Some(word);
        (stands && self.constants & bit != 0).then_some(at + 4)
    }
}
