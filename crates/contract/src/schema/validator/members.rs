//! The straight way through ordinary objects: members that come as expected, one after the other, each a scalar that its schema allows at first
//! glance. Takes only what is certainly right and leaves the rest untouched to the grammar and the validator, which decide alike.
//!
//! Most of what a member costs is not its bytes but the way between grammar and validate; here both stand in registers.

use super::{Frame, Validating, Validator};
use crate::json::{Stand, Taken, skip_space};
use crate::schema::program::{Program, kind};

impl Validating<'_> {
    /// See [`crate::json::Sink::expected_members`].
    #[inline(never)]
    pub(super) fn take_members(&mut self, window: &[u8], from: usize, values: u32) -> Taken {
        let program = self.program;
        let slots = program.slots.as_slice();
        let Validator { top, frames, successors, unknown, .. } = &mut *self.validator;
        let successors = successors.as_slice();
        // What changes with every member, and nothing else of the frame.
        let Frame { mut seen, count, mut member, mut expected, .. } = *top;
        let mut in_no_slot = count - seen.count_ones();
        let (mut at, mut left, mut stand) = (from, values, Stand::Name);
        while left > 0 {
            let Some(slot) = slots.get(expected as usize) else { break };
            if slot.fast_path.bit & !seen == 0 || !slot.stands_at(window, at) {
                break;
            }
            let Some((start, byte)) = next_byte(window, at + slot.written.len()) else { break };
            let Some(end) = slot.fast_path.value_end(program, window, start, byte) else { break };
            let Some(&successor) = successors.get(expected as usize) else { break };
            // Most often another name follows at once.
            if window.get(end..).and_then(|rest| rest.first_chunk()) == Some(b",\"") {
                (seen, member, expected, at, left) =
                    (seen | slot.fast_path.bit, expected, successor, end + 1, left - 1);
                continue;
            }
            if matches!(window.get(end), Some(b'.' | b'e' | b'E')) {
                break;
            }
            (seen, member, expected, at, left) = (seen | slot.fast_path.bit, expected, successor, end, left - 1);
            stand = Stand::BehindValue;
            let Some((next, byte)) = next_byte(window, end) else { break };
            if byte == b',' {
                (at, stand) = (next_byte(window, next + 1).map_or(window.len(), |(next, _)| next), Stand::Name);
                continue;
            }
            let object = &program.objects[top.block as usize];
            let is_right = byte == b'}'
                && left > 0
                && unknown.len() == top.first_unknown as usize
                && object.is_complete(seen, in_no_slot);
            let Some(next) = is_right.then(|| next_sibling(program, frames, top.block, window, next)).flatten() else {
                break;
            };
            (seen, in_no_slot, member, at, left, stand) = (0, 0, 0, next, left - 1, Stand::Name);
            expected = successors[slots.len() + top.block as usize];
        }
        (top.seen, top.count) = (seen, in_no_slot + seen.count_ones());
        (top.member, top.expected) = (member, expected);
        Taken { end: at, values: values - left, stand }
    }
}

/// If behind the object of this block that ends at `at` another one follows in the same array: where its first name is.
#[inline(always)]
fn next_sibling(program: &Program, frames: &mut [Frame], block: u32, window: &[u8], at: usize) -> Option<usize> {
    let (at, comma) = next_byte(window, at + 1)?;
    let (at, brace) = next_byte(window, at + 1)?;
    let (at, quote) = next_byte(window, at + 1)?;
    // The outermost frame is no array: it holds one value only.
    let array = frames.get_mut(1..)?.last_mut()?;
    if (comma, brace, quote) != (b',', b'{', b'"') || array.is_object {
        return None;
    }
    let plan = &program.arrays[array.block as usize];
    let is_same = program.plans[plan.rest as usize].blocks[kind::OBJECT] == block;
    if !is_same || (array.count as usize) < plan.prefix.len() {
        return None;
    }
    array.count += 1;
    array.next = plan.rest;
    Some(at)
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
