//! The straight way through ordinary objects: members that come as expected, one after the other, each a scalar that its schema allows at first
//! glance. Takes only what is certainly right and leaves the rest untouched to the grammar and the judge, which decide alike.
//!
//! Most of what a member costs is not its bytes but the way between grammar and judge; here both stand in registers.

use super::{Frame, Judging};
use crate::json::{Stand, Taken, skip_space};
use crate::schema::program::kind;

impl Judging<'_> {
    /// See [`crate::json::Sink::expected_members`].
    #[inline(never)]
    pub(super) fn take_members(&mut self, window: &[u8], from: usize, values: u32) -> Taken {
        let program = self.program;
        // What changes with every member, and nothing else of the frame.
        let Frame { mut seen, mut count, mut member, mut expected, .. } = self.judge.top;
        let (mut end, mut left, mut stand) = (from, values, Stand::Name);
        while left > 0 {
            let Some(slot) = program.slots.get(expected as usize) else { break };
            let Some(rest) = window.get(end..) else { break };
            if slot.glance.bit & !seen == 0 || !slot.stands_in(rest) || rest.get(slot.quoted.len()) != Some(&b':') {
                break;
            }
            let Some((at, byte)) = next_byte(window, end + slot.quoted.len() + 1) else { break };
            let Some(behind) = slot.glance.value_end(program, window, at, byte) else { break };
            seen |= slot.glance.bit;
            count += 1;
            member = expected;
            expected = self.judge.successors[expected as usize];
            (end, stand) = (behind, Stand::BehindValue);
            left -= 1;
            let Some((at, byte)) = next_byte(window, end) else { break };
            if byte == b',' {
                stand = Stand::Name;
                let Some((at, _)) = next_byte(window, at + 1) else {
                    end = window.len();
                    break;
                };
                end = at;
                continue;
            }
            if byte != b'}' || left == 0 {
                break;
            }
            let Some(at) = self.next_sibling(seen, count, window, at) else { break };
            (seen, count, member, end, stand) = (0, 0, 0, at, Stand::Name);
            expected = self.judge.successors[program.slots.len() + self.judge.top.block as usize];
            left -= 1;
        }
        let top = &mut self.judge.top;
        (top.seen, top.count, top.member, top.expected) = (seen, count, member, expected);
        Taken { end, values: values - left, stand }
    }

    /// If the object that ends at `at` is right, and another one of the same block follows in the same array: where its first name is.
    #[inline(always)]
    fn next_sibling(&mut self, seen: u64, count: u32, window: &[u8], at: usize) -> Option<usize> {
        let top = &self.judge.top;
        let object = &self.program.objects[top.block as usize];
        let required = object.required.first().copied().unwrap_or(0);
        let is_right = object.keys.len() <= 64
            && seen & required == required
            && (object.min..=object.max).contains(&count)
            && self.judge.unknown.len() == top.first_unknown as usize;
        if !is_right {
            return None;
        }
        let (at, comma) = next_byte(window, at + 1)?;
        let (at, brace) = next_byte(window, at + 1)?;
        let (at, quote) = next_byte(window, at + 1)?;
        // The outermost frame is no array: it holds one value only.
        let array = self.judge.frames.get_mut(1..)?.last_mut()?;
        if (comma, brace, quote) != (b',', b'{', b'"') || array.is_object {
            return None;
        }
        let plan = &self.program.arrays[array.block as usize];
        let is_same = self.program.plans[plan.rest as usize].blocks[kind::OBJECT] == top.block;
        if !is_same || (array.count as usize) < plan.prefix.len() {
            return None;
        }
        array.count += 1;
        array.next = plan.rest;
        Some(at)
    }
}

/// The byte at `at` or behind the white space there, and its place.
#[inline(always)]
fn next_byte(window: &[u8], mut at: usize) -> Option<(usize, u8)> {
    let mut byte = *window.get(at)?;
    if byte <= b' ' {
        at = skip_space(window, at);
        byte = *window.get(at)?;
    }
    Some((at, byte))
}
