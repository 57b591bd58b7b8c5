//! The compiled form: what is known before the first byte arrives, laid out for the validator. Immutable and shared; each value's state is in `judge`.
//!
//! A *plan* is the conjunction of all schemas that apply at one place of a value, split by the kind of the value. Where a kind can be validated in
//! passing it has a block of its own; where not, the value is recorded and evaluated at its end.

use super::evaluate::Anchors;
use super::fast_path::FastPath;
use super::ir::{Id, NumberRules, Schemas, StringRules};
use super::keys::KeyTable;
use crate::limits::Limits;
use crate::pattern::Pattern;
use crate::reason::Reason;

/// A schema that was added to the builder.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct SchemaId(pub(super) u32);

/// Schemas ready to validate values.
#[derive(Debug)]
pub struct Program {
    /// No other program of this process has it.
    pub(super) serial: u64,
    pub(super) schemas: Schemas,
    pub(super) anchors: Anchors,
    /// Of each schema: whether several others lead to it and it leads further, so that what it says of a value is worth keeping.
    pub(super) shared: Box<[bool]>,
    /// Some scalar is charged for, so that values are read in small pieces.
    pub(super) is_costly: bool,
    pub(super) reject_unknown: bool,
    pub(super) limits: Limits,
    pub(super) plans: Vec<Plan>,
    pub(super) strings: Vec<StringPlan>,
    pub(super) numbers: Vec<NumberPlan>,
    pub(super) arrays: Vec<ArrayPlan>,
    pub(super) objects: Vec<ObjectPlan>,
    pub(super) slots: Vec<Slot>,
    /// The plan of each [`SchemaId`].
    pub(super) roots: Vec<u32>,
}

/// The kinds of values, as indices into a plan.
pub(super) mod kind {
    pub const NULL: usize = 0;
    pub const BOOLEAN: usize = 1;
    pub const INTEGER: usize = 2;
    pub const FRACTION: usize = 3;
    pub const STRING: usize = 4;
    pub const ARRAY: usize = 5;
    pub const OBJECT: usize = 6;
    pub const COUNT: usize = 7;
}

/// Instead of the number of a block: every value of the kind is right.
pub(super) const ACCEPT: u32 = u32::MAX;
/// None is.
pub(super) const REJECT: u32 = u32::MAX - 1;
/// It has to be recorded.
pub(super) const RECORD: u32 = u32::MAX - 2;

/// The plan, the array block and the object block that allow everything.
pub(super) const ANYTHING: u32 = 0;

/// What may stand at one place.
#[derive(Debug)]
pub(super) struct Plan {
    /// By kind: the number of a block, or one of the constants above. For booleans the block is the set of allowed values: 1 false, 2 true.
    pub blocks: [u32; kind::COUNT],
    /// Why a kind is rejected.
    pub reasons: [Reason; kind::COUNT],
    /// The schemas themselves, for what is recorded.
    pub ids: Box<[Id]>,
}

#[derive(Debug)]
pub(super) struct StringPlan {
    pub rules: StringRules,
    /// Up to this many bytes and from this many bytes of ASCII on, length and nothing else decides.
    pub max_bytes: usize,
    pub min_bytes: usize,
    /// Whether there is nothing but lengths.
    pub is_length: bool,
    /// The only strings allowed.
    pub values: Option<(KeyTable, Reason)>,
    /// Steps that a string takes here; see [`steps_of`].
    pub steps: u64,
}

#[derive(Debug)]
pub(super) struct NumberPlan {
    /// What integers of up to 18 digits have to lie within, if that is all.
    pub small: Option<(i64, i64)>,
    pub rules: Vec<NumberRules>,
    /// The only numbers allowed; and again as integers, if all of them are small and there are no rules.
    pub values: Vec<(Vec<Box<str>>, Reason)>,
    pub small_values: Box<[i64]>,
    /// Steps that a number takes here; see [`steps_of`].
    pub steps: u64,
}

/// Rules of a scalar that are charged for by its bytes alone.
const FREE_RULES: usize = 4;

/// Steps that a scalar takes that is checked against so many rules: none for the few that most have, else one for each.
pub(super) fn steps_of(rules: usize) -> u64 {
    if rules > FREE_RULES { rules as u64 } else { 0 }
}

#[derive(Debug)]
pub(super) struct ArrayPlan {
    pub prefix: Box<[u32]>,
    pub rest: u32,
    pub min: u32,
    pub max: u32,
}

#[derive(Debug)]
pub(super) struct ObjectPlan {
    pub keys: KeyTable,
    /// Number of the first of its slots.
    pub first_slot: u32,
    /// A bit for each required slot.
    pub required: Box<[u64]>,
    pub patterns: Box<[Pattern]>,
    /// What a name that is in no slot leads to, by the set of patterns it matches.
    pub unknown: Box<[u32]>,
    /// What every name has to be, as a string.
    pub names: u32,
    pub min: u32,
    pub max: u32,
}

impl ObjectPlan {
    /// Whether an object of at most 64 slots may end that has these, and so many members in none.
    #[inline(always)]
    pub fn is_complete(&self, seen: u64, in_no_slot: u32) -> bool {
        let required = self.required.first().copied().unwrap_or(0);
        let is_any_count = self.min == 0 && self.max == u32::MAX;
        self.keys.len() <= 64
            && seen & required == required
            && (is_any_count || (self.min..=self.max).contains(&(in_no_slot + seen.count_ones())))
    }
}

/// A known member. As large as two lines of the cache.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    /// The plan of its value.
    pub child: u32,
    /// Its place among the slots of the object.
    pub number: u32,
    /// The name as it stands in JSON text, with its quotes and the colon behind them.
    pub written: Box<[u8]>,
    /// Its first 16 bytes, and which of their bits count; its last 16 bytes, if it has so many.
    pub head: u128,
    pub mask: u128,
    pub tail: u128,
    /// What its plan says at first glance; worked out when all plans are.
    pub fast_path: FastPath,
}

impl Slot {
    pub fn new(name: &str, number: usize, child: u32) -> Self {
        let has_escapes = name.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\'));
        let written: Box<[u8]> = [b"\"", name.as_bytes(), b"\":"].concat().into();
        let mut head = [0; 16];
        let length = written.len().min(16);
        head[..length].copy_from_slice(&written[..length]);
        if has_escapes {
            // Such a name is spelt with escapes, in more than one way: nothing to compare with.
            head[0] = 0;
        }
        let mask = u128::MAX >> (128 - 8 * length);
        let tail = written.last_chunk().map_or(0, |tail| u128::from_le_bytes(*tail));
        Self {
            child,
            number: number as u32,
            written,
            head: u128::from_le_bytes(head),
            mask,
            tail,
            fast_path: FastPath::default(),
        }
    }

    /// Whether the name and its colon stand at `at`. Says no near the end of the window.
    #[inline(always)]
    pub fn stands_at(&self, window: &[u8], at: usize) -> bool {
        let Some(rest) = window.get(at..) else { return false };
        let Some(head) = rest.first_chunk::<16>() else { return false };
        if (u128::from_le_bytes(*head) ^ self.head) & self.mask != 0 {
            return false;
        }
        let length = self.written.len();
        if length <= 16 {
            return true;
        }
        let tail = rest.get(length - 16..length).and_then(|tail| tail.first_chunk::<16>());
        let is_tail = tail.is_some_and(|tail| u128::from_le_bytes(*tail) == self.tail);
        is_tail && (length <= 32 || rest.get(16..length - 16) == self.written.get(16..length - 16))
    }
}

impl Program {
    /// The most bytes of a string whose bytes are all percent-encoded.
    pub(crate) fn longest_escaped(&self) -> usize {
        (self.limits.string_bytes as usize).saturating_mul(3)
    }

    /// How many places of values the program distinguishes; a measure of its size.
    pub fn plan_count(&self) -> usize {
        self.plans.len()
    }
}
