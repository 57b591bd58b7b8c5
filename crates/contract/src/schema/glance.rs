//! What the schema of a member says, as far as it can be said in a few comparisons. Takes only what is certainly right; everything else is left to
//! the grammar and the judge, and so are all reasons.

use super::judge::check_text_fully;
use super::program::{ACCEPT, Program, RECORD, Slot, StringPlan, kind};
use crate::format::Format;
use crate::json::{Text, digit_count, plain_end, small_integer};

/// Which scalars are right at first glance; the default knows of none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance {
    /// The bit of the slot among the first 64 of its object; 0 for those behind.
    pub bit: u64,
    /// Integers that are allowed; none if `min > max`.
    min: i64,
    max: i64,
    /// Up to this many digits are allowed whatever they are, 0 alone apart.
    digits: u32,
    /// Lengths in bytes of strings in ASCII that are allowed; none if `shortest > longest`.
    shortest: u32,
    longest: u32,
    /// What else is asked of such strings, and the block that says it.
    look: Look,
    string: u32,
    /// 1 false, 2 true, 4 null.
    constants: u32,
}

impl Default for Glance {
    fn default() -> Self {
        Self { bit: 0, min: 1, max: 0, digits: 0, shortest: 1, longest: 0, look: Look::Length, string: 0, constants: 0 }
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
            Self::Block => check_text_fully(plan, text).is_ok(),
        }
    }
}

/// The most characters that [`small_integer`] reads.
const INTEGER_CHARS: u32 = 19;

impl Glance {
    /// What can be said of a slot when its plan is complete.
    pub fn new(program: &Program, slot: &Slot) -> Self {
        let limits = &program.limits;
        let blocks = &program.plans[slot.child as usize].blocks;
        let mut glance = Self { bit: 1u64.checked_shl(slot.number).unwrap_or(0), ..Self::default() };
        if limits.number_chars >= INTEGER_CHARS {
            let allowed = match blocks[kind::INTEGER] {
                ACCEPT => Some((i64::MIN, i64::MAX)),
                block => program.numbers.get(block as usize).and_then(|plan| plan.small),
            };
            (glance.min, glance.max) = allowed.unwrap_or((1, 0));
        }
        let most = |digits: &u32| glance.min <= 1 && 10i64.pow(*digits) - 1 <= glance.max;
        glance.digits = (1..8).rev().find(most).unwrap_or(0);
        let bytes = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).min(limits.string_bytes);
        match (blocks[kind::STRING], program.strings.get(blocks[kind::STRING] as usize)) {
            (ACCEPT, _) => (glance.shortest, glance.longest) = (0, limits.string_bytes),
            (block, Some(plan)) => {
                let shortest = u32::try_from(plan.min_bytes);
                (glance.shortest, glance.longest) = shortest.map_or((1, 0), |least| (least, bytes(plan.max_bytes)));
                (glance.look, glance.string) = (Look::new(plan), block);
            }
            _ => {}
        }
        glance.constants = match blocks[kind::BOOLEAN] {
            ACCEPT => 3,
            allowed if allowed < RECORD.min(4) => allowed,
            _ => 0,
        };
        glance.constants |= if blocks[kind::NULL] == ACCEPT { 4 } else { 0 };
        glance
    }

    /// Where the scalar at `at`, that begins with `byte`, ends, if it is allowed.
    #[inline(always)]
    pub fn value_end(&self, program: &Program, window: &[u8], at: usize, byte: u8) -> Option<usize> {
        match byte {
            b'"' => {
                let rest = window.get(at + 1..)?;
                let length = plain_end(rest, 0);
                let is_allowed = self.shortest as usize <= length && length <= self.longest as usize;
                if rest.get(length) != Some(&b'"') || !is_allowed {
                    return None;
                }
                let bytes = &rest[..length];
                let text = Text { bytes, is_ascii: true };
                let is_right = matches!(self.look, Look::Length)
                    || program.strings.get(self.string as usize).is_some_and(|plan| self.look.allows(plan, text));
                if !is_right {
                    return None;
                }
                Some(at + length + 2)
            }
            b'0'..=b'9' | b'-' => {
                let count = digit_count(window, at).filter(|&count| count <= self.digits as usize);
                if let Some(count) = count
                    && (byte != b'0' || (count == 1 && self.min <= 0))
                {
                    return Some(at + count);
                }
                let (end, value) = small_integer(window, at)?;
                (self.min <= value && value <= self.max).then_some(end)
            }
            b't' => self.word(2, window, at, b"true"),
            b'f' => self.word(1, window, at + 1, b"alse"),
            b'n' => self.word(4, window, at, b"null"),
            _ => None,
        }
    }

    #[inline(always)]
    fn word(&self, bit: u32, window: &[u8], at: usize, word: &[u8; 4]) -> Option<usize> {
        let stands = window.get(at..).and_then(|rest| rest.first_chunk::<4>()) == Some(word);
        (stands && self.constants & bit != 0).then_some(at + 4)
    }
}
