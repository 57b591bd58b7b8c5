//! What a header block of HTTP/2 holds, without unpacking it (RFC 7541): what makes its message malformed, and paths that are no URIs.
//!
//! For connections whose blocks are unpacked by somebody who drops some of that without a word and takes the rest for an error of the whole
//! connection (RFC 9113 §8.1.1 asks for one of the stream). What that reader cannot take is replaced by something it can, of the same length once
//! decoded, so that its table and ours stay in step. Owns a shadow of the peer's dynamic table: of each entry only its size and what these
//! questions need. Text is decoded only where it must be looked at.

pub(super) mod huffman;

use std::collections::VecDeque;

use reason::Reason;

use super::octets::{self, QUERY, TOKEN, VALUE};

/// Bytes of the dynamic table that we let peers fill: the protocol's default, which is never changed (RFC 9113 §6.5.2).
const CAPACITY: usize = 4096;

/// What an entry counts beside its text (RFC 7541 §4.1).
const ENTRY_OVERHEAD: usize = 32;

/// What the rest of a replaced `:path` consists of, behind its slash. No path that was left as it came holds this octet.
pub const PATH_FILLER: u8 = b'|';

/// Names of the static table (RFC 7541 Appendix A), from index 1 on.
const STATIC: [&str; 61] = [
    ":authority",
    ":method",
    ":method",
    ":path",
    ":path",
    ":scheme",
    ":scheme",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    ":status",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "accept",
    "access-control-allow-origin",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "link",
    "location",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "refresh",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
];

/// The block is no HPACK, so that the connection cannot go on (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenBlock;

/// How much of a block goes on to whoever unpacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Fields beside pseudo-fields.
    pub fields: usize,
    /// Bytes of the field section (RFC 9113 §6.5.2), beyond which it is too large.
    pub bytes: usize,
    /// Bytes of a field section that is too large, but still read so that its request alone is rejected.
    pub read_bytes: usize,
}

impl Most {
    /// All of it.
    pub const UNBOUNDED: Most = Most { fields: usize::MAX, bytes: usize::MAX, read_bytes: usize::MAX };

    /// So many fields, of any size.
    pub const fn fields(fields: usize) -> Most {
        Most { fields, ..Most::UNBOUNDED }
    }
}

/// What was found in a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// A name that begins with a colon.
    pub pseudo: bool,
    /// A `:path` with a `#` in it, which no request has (RFC 9113 §8.3.1: path and query, and nothing behind them).
    pub fragment: bool,
    /// A name or value that no message has: the code of the first.
    pub malformed: Option<Reason>,
    /// The `:path` as it came, if it has octets that RFC 3986 does not allow there. In the block it is replaced.
    pub path: Option<Vec<u8>>,
    /// The field section is larger than [`Most::bytes`]; fields beyond that have been left out.
    pub too_large: bool,
    /// It is larger than [`Most::read_bytes`], and was not read to its end.
    pub too_large_to_read: bool,
}

impl Found {
    /// Notes a field with this name and what is odd about it.
    fn note(&mut self, name: Name, odd: Option<&Odd>) {
        self.pseudo |= name.is_pseudo;
        if name.kind == Kind::Unknown {
            self.malformed.get_or_insert(Reason::BadFieldName);
        }
        if let Some(odd) = odd {
            self.fragment |= odd.fragment;
            self.malformed = self.malformed.or(odd.malformed);
            if odd.path.is_some() {
                self.path.clone_from(&odd.path);
            }
        }
    }
}

/// The Huffman code of a colon, in seven bits.
const COLON: u8 = 0x5c;

/// Whether an octet may stand in a name that has no colon (RFC 9113 §8.2.1).
pub(super) fn is_in_names(octet: u8) -> bool {
    octets::is(octet, TOKEN) && !octet.is_ascii_uppercase()
}

/// What the value of a field must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Field,
    Path,
    Method,
    Scheme,
    Status,
    /// Another pseudo-field of requests.
    Text,
    /// No name, so that any value is wrong.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Name {
    len: u32,
    is_pseudo: bool,
    kind: Kind,
}

/// The names of [`STATIC`].
static FIXED: [Name; STATIC.len()] = {
    let mut names = [Name::fixed(0); STATIC.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Name::fixed(index);
        index += 1;
    }
    names
};

/// What is out of the ordinary with a value. Good ones have none of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Odd {
    fragment: bool,
    malformed: Option<Reason>,
    path: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Entry {
    name: Name,
    size: u32,
    odd: Option<Box<Odd>>,
}

/// The shadow of one direction's dynamic table.
#[derive(Debug)]
pub struct HeaderTable {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    capacity: usize,
}

impl Default for HeaderTable {
    fn default() -> HeaderTable {
        HeaderTable { entries: VecDeque::new(), size: 0, capacity: CAPACITY }
    }
}

/// One representation that was read.
struct Representation<'b> {
    /// What is behind it.
    rest: &'b [u8],
    /// The field's; none if it only sets the size of the table.
    name: Option<Name>,
    /// Bytes that it counts for in the field section (RFC 9113 §6.5.2).
    size: usize,
    /// What is to stand in its place.
    replacement: Option<Box<Replacement<'b>>>,
}

/// Whether a representation that begins so puts an entry into the table.
fn is_kept(first: u8) -> bool {
    first & 0xc0 == 0x40
}

/// Whether a representation that begins so puts an entry into the table, or sets its size.
fn changes_table(first: u8) -> bool {
    is_kept(first) || first & 0xe0 == 0x20
}

impl HeaderTable {
    /// Reads a whole block. If something in it had to be replaced, appends the block as it is to be read instead to `out`, and says so. Of the fields
    /// beyond `most` only those that change the table go on: whoever counts to one more field has seen that there are too many.
    ///
    /// # Errors
    /// The block is broken, or stands for more than is ever read.
    pub fn read(
        &mut self,
        block: &[u8],
        most: Most,
        found: &mut Found,
        out: &mut Vec<u8>,
    ) -> Result<bool, BrokenBlock> {
        let (mut rest, mut copied, mut fields, mut size) = (block, 0, 0, 0_usize);
        while let Some(&first) = rest.first() {
            let start = block.len() - rest.len();
            if (fields >= most.fields || (found.too_large && fields > 0)) && !changes_table(first) {
                out.extend_from_slice(block.get(copied..start).unwrap_or_default());
                rest = self.skip(rest)?;
                copied = block.len() - rest.len();
                continue;
            }
            let read = if first > 0x80 && first < 0xff {
                // What most blocks consist of: a reference to a field, in one octet.
                let (name, odd, size) = self.field(usize::from(first & 0x7f))?;
                found.note(name, odd);
                Representation { rest: rest.get(1..).unwrap_or_default(), name: Some(name), size, replacement: None }
            } else {
                self.representation(rest, found)?
            };
            rest = read.rest;
            let is_field = read.name.is_some_and(|name| !name.is_pseudo);
            fields += usize::from(is_field);
            size += read.size;
            let mut replacement = read.replacement;
            if size > most.bytes {
                found.too_large = true;
                if is_field && !is_kept(first) {
                    size -= read.size;
                    out.extend_from_slice(block.get(copied..start).unwrap_or_default());
                    copied = block.len() - rest.len();
                    continue;
                }
                if is_field && read.size > EMPTYING.size() {
                    size -= read.size - EMPTYING.size();
                    replacement = Some(Box::new(EMPTYING));
                }
            }
            if size > most.read_bytes {
                found.too_large_to_read = true;
                return Err(BrokenBlock);
            }
            if let Some(replacement) = replacement {
                out.extend_from_slice(block.get(copied..start).unwrap_or_default());
                copied = block.len() - rest.len();
                replacement.write(out);
            }
        }
        if copied > 0 {
            out.extend_from_slice(block.get(copied..).unwrap_or_default());
        }
        Ok(copied > 0)
    }

    /// How many entries the table has, and how many bytes they count for.
    pub fn extent(&self) -> (usize, usize) {
        (self.entries.len(), self.size)
    }

    /// Goes over a field that changes nothing in the table; what it is does not matter any more.
    fn skip<'b>(&self, block: &'b [u8]) -> Result<&'b [u8], BrokenBlock> {
        let is_literal = block.first().is_some_and(|first| *first < 0x80);
        let (number, mut rest) = integer(block, if is_literal { 4 } else { 7 })?;
        if number > 0 || !is_literal {
            self.field(number)?;
        }
        for _ in 0..if !is_literal {
            0
        } else if number == 0 {
            2
        } else {
            1
        } {
            let (text, behind) = Text::read(rest)?;
            if text.is_coded {
                huffman::measure(text.bytes, |_| true)?;
            }
            rest = behind;
        }
        Ok(rest)
    }

    /// Reads one representation (RFC 7541 §6).
    fn representation<'b>(&mut self, block: &'b [u8], found: &mut Found) -> Result<Representation<'b>, BrokenBlock> {
        let first = *block.first().ok_or(BrokenBlock)?;
        let prefix = match first {
            0x80.. => 7,
            0x40.. => 6,
            0x20.. => 5,
            _ => 4,
        };
        let (number, rest) = integer(block, prefix)?;
        let (mut name, text, rest) = match (prefix, number) {
            (7, _) => {
                let (name, odd, size) = self.field(number)?;
                found.note(name, odd);
                return Ok(Representation { rest, name: Some(name), size, replacement: None });
            }
            (5, _) => {
                if number > CAPACITY {
                    return Err(BrokenBlock);
                }
                self.capacity = number;
                self.evict(0);
                return Ok(Representation { rest, name: None, size: 0, replacement: None });
            }
            (_, 0) => {
                let (text, rest) = Text::read(rest)?;
                (text.as_name()?, Some(text), rest)
            }
            _ => (self.field(number)?.0, None, rest),
        };
        let (value, rest) = Text::read(rest)?;
        let (len, odd) = name.kind.check(value)?;
        found.note(name, odd.as_deref());
        let mut replacement = None;
        if name.kind == Kind::Unknown || odd.as_deref().is_some_and(Odd::is_replaced) {
            // Nothing has the length of an entry without name and value.
            if is_kept(first) && name.len == 0 && len == 0 {
                return Err(BrokenBlock);
            }
            let first = first & if is_kept(first) { 0xc0 } else { 0xf0 };
            let written = Replacement::of(first, prefix, (name, number, text), len);
            if matches!(written.name, NewName::Made(_)) {
                name.kind = Kind::Unknown;
            }
            replacement = Some(Box::new(written));
        }
        if is_kept(first) {
            self.insert(name, len, odd);
        }
        let size = name.len as usize + len + ENTRY_OVERHEAD;
        Ok(Representation { rest, name: Some(name), size, replacement })
    }

    /// The name of an entry of either table, what is odd about its value, and its size, but for the few bytes of a value in the static table.
    fn field(&self, index: usize) -> Result<(Name, Option<&Odd>, usize), BrokenBlock> {
        let index = index.checked_sub(1).ok_or(BrokenBlock)?;
        if let Some(name) = FIXED.get(index) {
            return Ok((*name, None, name.len as usize + ENTRY_OVERHEAD));
        }
        let entry = self.entries.get(index - STATIC.len()).ok_or(BrokenBlock)?;
        Ok((entry.name, entry.odd.as_deref(), entry.size as usize))
    }

    /// Puts an entry in front; one that is larger than the table only empties it (RFC 7541 §4.4).
    fn insert(&mut self, name: Name, value_len: usize, odd: Option<Box<Odd>>) {
        let size = name.len as usize + value_len + ENTRY_OVERHEAD;
        self.evict(size);
        if size <= self.capacity {
            self.size += size;
            self.entries.push_front(Entry { name, size: size as u32, odd });
        }
    }

    /// Makes room for so many bytes.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.capacity {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.size -= oldest.size as usize;
        }
    }
}

impl Name {
    /// That of an entry of the static table.
    const fn fixed(index: usize) -> Name {
        let kind = match index {
            0 => Kind::Text,
            1 | 2 => Kind::Method,
            3 | 4 => Kind::Path,
            5 | 6 => Kind::Scheme,
            7..=13 => Kind::Status,
            _ => Kind::Field,
        };
        Name { len: STATIC[index].len() as u32, is_pseudo: !matches!(kind, Kind::Field), kind }
    }

    /// Names are tokens without capitals (RFC 9113 §8.2.1), and no pseudo-field is unknown (§8.3).
    fn of(text: &[u8]) -> Name {
        let kind = match text {
            [b':', rest @ ..] => match rest {
                b"path" => Kind::Path,
                b"method" => Kind::Method,
                b"scheme" => Kind::Scheme,
                b"status" => Kind::Status,
                b"authority" | b"protocol" => Kind::Text,
                _ => Kind::Unknown,
            },
            [] => Kind::Unknown,
            _ if text.iter().all(|octet| is_in_names(*octet)) => Kind::Field,
            _ => Kind::Unknown,
        };
        Name { len: text.len() as u32, is_pseudo: text.first() == Some(&b':'), kind }
    }
}

impl Kind {
    /// The length of a value once decoded, and what is odd about it.
    fn check(self, value: Text<'_>) -> Result<(usize, Option<Box<Odd>>), BrokenBlock> {
        if value.is_coded {
            let (len, is_good) = match self {
                Kind::Field | Kind::Unknown => huffman::measure(value.bytes, |octet| octets::is(octet, VALUE))?,
                Kind::Path => huffman::measure(value.bytes, |octet| octets::is(octet, QUERY))?,
                Kind::Method => huffman::measure(value.bytes, |octet| octets::is(octet, TOKEN))?,
                Kind::Text => huffman::measure(value.bytes, |octet| octet.is_ascii())?,
                Kind::Scheme | Kind::Status => (0, false),
            };
            if self == Kind::Unknown || (is_good && len > 0) {
                return Ok((len, None));
            }
            let text = huffman::decode(value.bytes)?;
            return Ok((text.len(), self.odd(&text)));
        }
        Ok((value.bytes.len(), self.odd(value.bytes)))
    }

    /// What is odd about a value, if anything is.
    fn odd(self, text: &[u8]) -> Option<Box<Odd>> {
        let (is_good, code) = match self {
            Kind::Field => (octets::span(text, VALUE) == text.len(), Reason::ControlInFieldValue),
            Kind::Path => return Odd::of_path(text).map(Box::new),
            Kind::Method => (!text.is_empty() && octets::span(text, TOKEN) == text.len(), Reason::BadMethod),
            Kind::Scheme => {
                (text.eq_ignore_ascii_case(b"https") || text.eq_ignore_ascii_case(b"http"), Reason::BadScheme)
            }
            Kind::Status => (matches!(text, [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9']), Reason::BadStatus),
            Kind::Text => (text.is_ascii(), Reason::BadHost),
            Kind::Unknown => return None,
        };
        (!is_good).then(|| Box::new(Odd { malformed: Some(code), ..Odd::default() }))
    }
}

impl Odd {
    /// What is odd about a `:path`, if anything is.
    fn of_path(text: &[u8]) -> Option<Odd> {
        let plain = octets::span(text, QUERY);
        let rest = text.get(plain..).unwrap_or_default();
        if rest.is_empty() {
            return None;
        }
        // The one thing that its reader takes, and drops.
        let fragment = rest.contains(&b'#');
        let is_replaced = rest.iter().any(|octet| *octet != b'#' && !octets::is(*octet, QUERY));
        // One octet is no path with a slash in front.
        let malformed = if is_replaced && text.len() < 2 { Some(Reason::BadPathByte) } else { None };
        let path = if is_replaced && malformed.is_none() { Some(text.to_vec()) } else { None };
        Some(Odd { fragment, malformed, path })
    }

    /// Whether the value must not go on.
    fn is_replaced(&self) -> bool {
        self.malformed.is_some() || self.path.is_some()
    }
}

/// A literal that stands in for another.
#[derive(Debug)]
struct Replacement<'b> {
    /// The first octet without its integer.
    first: u8,
    prefix: u32,
    name: NewName<'b>,
    value: NewValue,
}

#[derive(Debug)]
enum NewName<'b> {
    Index(usize),
    AsItCame(Text<'b>),
    /// So many letters.
    Made(usize),
}

#[derive(Debug)]
enum NewValue {
    Letters(usize),
    Path(usize),
    Status,
}

/// In place of a field that is larger than the table and so only empties it: the smallest that does the same.
const EMPTYING: Replacement<'static> =
    Replacement { first: 0x40, prefix: 6, name: NewName::Made(1), value: NewValue::Letters(CAPACITY) };

impl<'b> Replacement<'b> {
    /// Bytes that the field counts for, where name and value were made.
    const fn size(&self) -> usize {
        match (&self.name, &self.value) {
            (NewName::Made(name), NewValue::Letters(value)) => *name + *value + ENTRY_OVERHEAD,
            _ => 0,
        }
    }

    /// In place of a field with this name (its place in the tables, or its text) and a value of this length.
    fn of(first: u8, prefix: u32, (name, index, text): (Name, usize, Option<Text<'b>>), len: usize) -> Self {
        let as_it_came = text.map_or(NewName::Index(index), NewName::AsItCame);
        let made = NewName::Made(name.len as usize);
        let (name, value) = match name.kind {
            // No name is empty.
            Kind::Unknown if name.len == 0 => (NewName::Made(1), NewValue::Letters(len.saturating_sub(1))),
            Kind::Unknown => (made, NewValue::Letters(len)),
            Kind::Path => (as_it_came, NewValue::Path(len)),
            Kind::Status if len == 3 => (as_it_came, NewValue::Status),
            Kind::Status => (made, NewValue::Letters(len)),
            Kind::Method | Kind::Scheme if len == 0 => (made, NewValue::Letters(len)),
            _ => (as_it_came, NewValue::Letters(len)),
        };
        Replacement { first, prefix, name, value }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match &self.name {
            NewName::Index(index) => write_integer(self.first, self.prefix, *index, out),
            NewName::AsItCame(text) => {
                out.push(self.first);
                write_integer(if text.is_coded { 0x80 } else { 0 }, 7, text.bytes.len(), out);
                out.extend_from_slice(text.bytes);
            }
            NewName::Made(len) => {
                out.push(self.first);
                write_letters(*len, out);
            }
        }
        match self.value {
            NewValue::Letters(len) => write_letters(len, out),
            NewValue::Path(len) => {
                write_integer(0, 7, len, out);
                out.extend(std::iter::once(b'/').chain(std::iter::repeat(PATH_FILLER)).take(len));
            }
            NewValue::Status => out.extend_from_slice(b"\x03500"),
        }
    }
}

/// A text of so many letters.
fn write_letters(len: usize, out: &mut Vec<u8>) {
    write_integer(0, 7, len, out);
    out.extend(std::iter::repeat_n(b'x', len));
}

/// An integer whose first octet has a prefix of so many bits, and what stands before that.
pub(super) fn write_integer(first: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A string literal as it came (RFC 7541 §5.2).
#[derive(Debug, Clone, Copy)]
struct Text<'b> {
    bytes: &'b [u8],
    is_coded: bool,
}

impl<'b> Text<'b> {
    /// The literal in front and what is behind it.
    fn read(block: &'b [u8]) -> Result<(Text<'b>, &'b [u8]), BrokenBlock> {
        let is_coded = block.first().is_some_and(|first| first & 0x80 != 0);
        let (len, rest) = integer(block, 7)?;
        let (bytes, rest) = rest.split_at_checked(len).ok_or(BrokenBlock)?;
        Ok((Text { bytes, is_coded }, rest))
    }

    fn as_name(self) -> Result<Name, BrokenBlock> {
        if !self.is_coded {
            return Ok(Name::of(self.bytes));
        }
        // No name of a common field needs to be decoded: only its length counts. A colon is seven bits of the first octet.
        if self.bytes.first().is_some_and(|first| first >> 1 != COLON) {
            let (len, is_good) = huffman::measure(self.bytes, is_in_names)?;
            let kind = if is_good && len > 0 { Kind::Field } else { Kind::Unknown };
            return Ok(Name { len: len as u32, is_pseudo: false, kind });
        }
        Ok(Name::of(&huffman::decode(self.bytes)?))
    }
}

/// An integer whose first octet has a prefix of so many bits (RFC 7541 §5.1), and what is behind it.
pub(super) fn integer(block: &[u8], prefix: u32) -> Result<(usize, &[u8]), BrokenBlock> {
    let (&first, mut rest) = block.split_first().ok_or(BrokenBlock)?;
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(first) & most;
    if value < most {
        return Ok((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (&octet, behind) = rest.split_first().ok_or(BrokenBlock)?;
        rest = behind;
        value += usize::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(BrokenBlock)
}

#[cfg(test)]
mod tests;
