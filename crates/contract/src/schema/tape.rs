//! A recorded value: what a part of a schema needs that cannot be validated in passing. One cell per value and per name, in the order of the text.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

use super::constant::Constant;
use super::types::Types;
use crate::json::{Number, Text};
use crate::node::escape_pointer_token;
use crate::number::Decimal;

/// What a cell holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Tag {
    Null,
    False,
    True,
    Number,
    String,
    /// The name of the member that follows.
    Key,
    Array,
    Object,
}

/// A value or a name, in eight bytes. Children follow their container.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The tag in the lowest three bits, then whether text is ASCII, then how many bytes text has or how many children a container.
    head: u32,
    /// Of text: where it starts. Of containers: the cell behind them.
    place: u32,
}

const TAGS: [Tag; 8] = [Tag::Null, Tag::False, Tag::True, Tag::Number, Tag::String, Tag::Key, Tag::Array, Tag::Object];
const ASCII: u32 = 8;
const ONE: u32 = 16;

impl Cell {
    fn new(tag: Tag, is_ascii: bool, count: usize, place: usize) -> Self {
        Self { head: tag as u32 | if is_ascii { ASCII } else { 0 } | (count as u32) << 4, place: place as u32 }
    }

    fn tag(self) -> Tag {
        TAGS[(self.head & 7) as usize]
    }

    fn count(self) -> usize {
        (self.head >> 4) as usize
    }
}

/// Cells and the text they refer to. Reused: clearing keeps the memory.
#[derive(Debug, Default)]
pub(super) struct Tape {
    cells: Vec<Cell>,
    text: Vec<u8>,
    /// Containers that have not ended.
    open: Vec<u32>,
    /// See [`super::run::Check::with_plain_integers`].
    pub plain_integers: bool,
}

impl Tape {
    pub fn clear(&mut self) {
        self.cells.clear();
        self.text.clear();
        self.open.clear();
    }

    /// How many containers are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Forgets the value, and memory beyond this.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.clear();
        self.cells.shrink_to(keep_bytes / size_of::<Cell>());
        self.text.shrink_to(keep_bytes);
    }

    /// How much memory it holds.
    pub fn bytes_held(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.text.capacity()
    }

    pub fn len(&self) -> usize {
        self.cells.len()
    }

    // --- recording ---

    pub fn constant(&mut self, tag: Tag) {
        self.count();
        self.push(Cell::new(tag, true, 0, 0));
    }

    pub fn number(&mut self, number: Number<'_>) {
        self.count();
        self.push_text(Tag::Number, number.text, true);
    }

    pub fn string(&mut self, text: Text<'_>) {
        self.count();
        self.push_text(Tag::String, text.bytes, text.is_ascii);
    }

    pub fn key(&mut self, text: Text<'_>) {
        self.push_text(Tag::Key, text.bytes, text.is_ascii);
    }

    pub fn begin(&mut self, tag: Tag) {
        self.count();
        self.open.push(self.cells.len() as u32);
        self.push(Cell::new(tag, true, 0, 0));
    }

    /// Ends the innermost container; says whether it was the outermost.
    pub fn end(&mut self) -> bool {
        let behind = self.cells.len() as u32;
        if let Some(container) = self.open.pop() {
            self.cells[container as usize].place = behind;
        }
        self.open.is_empty()
    }

    fn count(&mut self) {
        if let Some(&container) = self.open.last() {
            self.cells[container as usize].head += ONE;
        }
    }

    fn push_text(&mut self, tag: Tag, bytes: &[u8], is_ascii: bool) {
        let start = self.text.len();
        make_room(&mut self.text, bytes.len());
        self.text.extend_from_slice(bytes);
        self.push(Cell::new(tag, is_ascii, bytes.len(), start));
    }

    fn push(&mut self, cell: Cell) {
        make_room(&mut self.cells, 1);
        self.cells.push(cell);
    }

    // --- reading ---

    pub fn tag(&self, at: usize) -> Tag {
        self.cells[at].tag()
    }

    pub fn bytes(&self, at: usize) -> &[u8] {
        let cell = self.cells[at];
        &self.text[cell.place as usize..][..cell.count()]
    }

    /// How many bytes a text has.
    pub fn byte_count(&self, at: usize) -> usize {
        self.cells[at].count()
    }

    pub fn text(&self, at: usize) -> Text<'_> {
        Text { bytes: self.bytes(at), is_ascii: self.cells[at].head & ASCII != 0 }
    }

    pub fn decimal(&self, at: usize) -> Decimal<'_> {
        Decimal::new(self.bytes(at))
    }

    fn is_integer(&self, at: usize) -> bool {
        let text = self.bytes(at);
        match self.plain_integers {
            true => Number { text, small: None }.is_plain_integer(),
            false => Decimal::new(text).is_integer(),
        }
    }

    /// How many children a container has.
    pub fn child_count(&self, at: usize) -> usize {
        self.cells[at].count()
    }

    /// The cell behind a value.
    pub fn behind(&self, at: usize) -> usize {
        match self.tag(at) {
            Tag::Array | Tag::Object => self.cells[at].place as usize,
            _ => at + 1,
        }
    }

    /// The first child of a container, if it has one; of an object that is a name.
    pub fn first_child(&self, at: usize) -> Option<usize> {
        (self.child_count(at) > 0).then_some(at + 1)
    }

    /// The value cells of an array's elements.
    pub fn elements(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.behind(at);
        std::iter::successors(self.first_child(at), move |&child| Some(self.behind(child)).filter(|&next| next < end))
    }

    /// The name cells of an object's members; each value stands in the cell behind.
    pub fn members(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.behind(at);
        std::iter::successors(self.first_child(at), move |&key| Some(self.behind(key + 1)).filter(|&next| next < end))
    }

    /// The value of a member.
    pub fn member(&self, at: usize, name: &[u8]) -> Option<usize> {
        self.members(at).find(|&key| self.bytes(key) == name).map(|key| key + 1)
    }

    pub fn kind(&self, at: usize) -> Types {
        match self.tag(at) {
            Tag::Null => Types::NULL,
            Tag::False | Tag::True => Types::BOOLEAN,
            Tag::Number if self.is_integer(at) => Types::INTEGER,
            Tag::Number => Types::FRACTION,
            Tag::String | Tag::Key => Types::STRING,
            Tag::Array => Types::ARRAY,
            Tag::Object => Types::OBJECT,
        }
    }

    /// Whether two values are equal: numbers by value, objects whatever the order. Takes time linear in them, but for sorting the names of objects
    /// written in different orders. Bounded by the depth of the value.
    pub fn is_equal(&self, left: usize, right: usize) -> bool {
        if self.tag(left) != self.tag(right) {
            return false;
        }
        match self.tag(left) {
            Tag::Null | Tag::False | Tag::True => true,
            Tag::Number => self.decimal(left) == self.decimal(right),
            Tag::String | Tag::Key => self.bytes(left) == self.bytes(right),
            Tag::Array => {
                self.child_count(left) == self.child_count(right)
                    && self.elements(left).zip(self.elements(right)).all(|(a, b)| self.is_equal(a, b))
            }
            Tag::Object if self.child_count(left) != self.child_count(right) => false,
            Tag::Object => {
                let is_same = |(a, b): (usize, usize)| self.bytes(a) == self.bytes(b) && self.is_equal(a + 1, b + 1);
                let is_one_order =
                    self.members(left).zip(self.members(right)).all(|(a, b)| self.bytes(a) == self.bytes(b));
                // Equal objects are mostly written in one order; only others need sorting.
                if is_one_order {
                    return self.members(left).zip(self.members(right)).all(is_same);
                }
                let [left, right] = [left, right].map(|at| {
                    let mut keys: Vec<usize> = self.members(at).collect();
                    keys.sort_unstable_by(|a, b| self.bytes(*a).cmp(self.bytes(*b)));
                    keys
                });
                left.into_iter().zip(right).all(is_same)
            }
        }
    }

    /// Whether a value is the one the schema names.
    pub fn is_constant(&self, at: usize, constant: &Constant) -> bool {
        match (constant, self.tag(at)) {
            (Constant::Null, Tag::Null) => true,
            (Constant::Boolean(value), Tag::True) => *value,
            (Constant::Boolean(value), Tag::False) => !*value,
            (Constant::Number(text), Tag::Number) => Decimal::new(text.as_bytes()) == self.decimal(at),
            (Constant::String(text), Tag::String | Tag::Key) => text.as_bytes() == self.bytes(at),
            (Constant::Array(elements), Tag::Array) => {
                elements.len() == self.child_count(at)
                    && self.elements(at).zip(elements).all(|(element, constant)| self.is_constant(element, constant))
            }
            (Constant::Object(members), Tag::Object) => {
                members.len() == self.child_count(at)
                    && members.iter().all(|(name, constant)| {
                        self.member(at, name.as_bytes()).is_some_and(|value| self.is_constant(value, constant))
                    })
            }
            _ => false,
        }
    }

    /// Whether hashing a value takes long.
    pub fn is_large(&self, at: usize) -> bool {
        self.behind(at) - at > LARGE_CELLS || self.text.len() > LARGE_BYTES
    }

    /// Equal values have equal hashes. `work` counts the cells, and the bytes of long ones.
    pub fn hash(&self, at: usize, secret: &impl BuildHasher, work: &mut usize) -> u64 {
        *work += 1;
        let mut hasher = secret.build_hasher();
        hasher.write_u8(self.tag(at) as u8);
        match self.tag(at) {
            Tag::Null | Tag::False | Tag::True => {}
            Tag::Number => std::hash::Hash::hash(&self.decimal(at), &mut hasher),
            Tag::String | Tag::Key => {
                *work += self.bytes(at).len() / 32;
                hasher.write(self.bytes(at));
            }
            Tag::Array => self.elements(at).for_each(|element| hasher.write_u64(self.hash(element, secret, work))),
            Tag::Object => {
                // A sum, because the order of members does not count.
                let mut member = |key| {
                    let mut hasher = secret.build_hasher();
                    hasher.write_u64(self.hash(key, secret, work));
                    hasher.write_u64(self.hash(key + 1, secret, work));
                    hasher.finish()
                };
                hasher.write_u64(self.members(at).map(&mut member).fold(0, u64::wrapping_add));
            }
        }
        hasher.finish()
    }

    /// Appends the pointer from the outermost value to a cell.
    pub fn pointer(&self, to: usize, pointer: &mut String) {
        let mut at = 0;
        while at < to && matches!(self.tag(at), Tag::Array | Tag::Object) {
            let next = if self.tag(at) == Tag::Array {
                let found = self.elements(at).enumerate().find(|&(_, element)| to < self.behind(element));
                found.map(|(index, element)| (index.to_string(), element))
            } else {
                let found = self.members(at).find(|&key| to < self.behind(key + 1));
                found.map(|key| (String::from_utf8_lossy(self.bytes(key)).into_owned(), key + 1))
            };
            let Some((token, child)) = next else { return };
            escape_pointer_token(pointer, &token);
            at = child;
        }
    }
}

/// What is hashed at once: cells, and bytes of text.
const LARGE_CELLS: usize = 4_096;
const LARGE_BYTES: usize = 256 << 10;

/// [`Tape::hash`] of one value, some cells at a time.
#[derive(Debug, Default)]
pub(super) struct HashWalk {
    /// Cells that are done.
    done: usize,
    open: Vec<OpenHash>,
}

/// A container that is being hashed.
#[derive(Debug)]
struct OpenHash {
    end: usize,
    hasher: DefaultHasher,
    /// Of objects: the sum so far, and the hash of the name whose value follows.
    members: Option<(u64, Option<u64>)>,
}

impl HashWalk {
    /// Goes on with the value at `from`; gives its hash once it has seen all of it.
    pub fn go_on(&mut self, tape: &Tape, from: usize, secret: &RandomState, work: &mut usize) -> Option<u64> {
        let most = *work + LARGE_CELLS / 2;
        while *work < most {
            let at = from + self.done;
            let hash = match self.open.pop_if(|open| open.end == at) {
                Some(mut ended) => {
                    if let Some((sum, _)) = ended.members {
                        ended.hasher.write_u64(sum);
                    }
                    ended.hasher.finish()
                }
                None if matches!(tape.tag(at), Tag::Array | Tag::Object) => {
                    *work += 1;
                    let mut hasher = secret.build_hasher();
                    hasher.write_u8(tape.tag(at) as u8);
                    let members = (tape.tag(at) == Tag::Object).then_some((0, None));
                    self.open.push(OpenHash { end: tape.behind(at), hasher, members });
                    self.done += 1;
                    continue;
                }
                None => {
                    self.done += 1;
                    tape.hash(at, secret, work)
                }
            };
            let Some(outer) = self.open.last_mut() else { return Some(hash) };
            match &mut outer.members {
                None => outer.hasher.write_u64(hash),
                Some((_, name @ None)) => *name = Some(hash),
                Some((sum, name)) => {
                    let mut hasher = secret.build_hasher();
                    hasher.write_u64(name.take().unwrap_or_default());
                    hasher.write_u64(hash);
                    *sum = sum.wrapping_add(hasher.finish());
                }
            }
        }
        None
    }
}

/// By a quarter, since much may be recorded: doubling would hold up to twice of what is needed.
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / 4).max(64));
    }
}
