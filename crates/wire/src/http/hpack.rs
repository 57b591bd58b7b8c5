//! What a header block of HTTP/2 holds, without unpacking it (RFC 7541): what makes its message malformed, and paths that are no URIs.
//!
//! For connections whose blocks are unpacked by somebody who drops some of that without a word and takes the rest for an error of the whole
//! connection (RFC 9113 §8.1.1 asks for one of the stream). What that reader cannot take is replaced by something it can, of the same length once
//! decoded, so that its table and ours stay in step. Owns a shadow of the peer's dynamic table: of each entry only its size and what these
//! questions need. Text is decoded only where it must be looked at.

mod huffman;

use std::collections::VecDeque;

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

/// What was found in a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// A name that begins with a colon.
    pub pseudo: bool,
    /// A `:path` with a `#` in it, which no request has (RFC 9113 §8.3.1: path and query, and nothing behind them).
    pub fragment: bool,
    /// A name or value that no message has: the code of the first.
    pub malformed: Option<&'static str>,
    /// The `:path` as it came, if it has octets that RFC 3986 does not allow there. In the block it is replaced.
    pub path: Option<Vec<u8>>,
}

impl Found {
    /// Notes a field with this name and what is odd about it.
    fn note(&mut self, name: Name, odd: Option<&Odd>) {
        self.pseudo |= name.is_pseudo;
        if name.kind == Kind::Unknown {
            self.malformed.get_or_insert("bad_field_name");
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

/// What is out of the ordinary with a value. Good ones have none of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Odd {
    fragment: bool,
    malformed: Option<&'static str>,
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

impl HeaderTable {
    /// Reads a whole block. If something in it had to be replaced, appends the block as it is to be read instead to `out`, and says so.
    ///
    /// # Errors
    /// The block is broken.
    pub fn read(&mut self, block: &[u8], found: &mut Found, out: &mut Vec<u8>) -> Result<bool, BrokenBlock> {
        let (mut rest, mut copied) = (block, 0);
        while !rest.is_empty() {
            let start = block.len() - rest.len();
            let (behind, replacement) = self.representation(rest, found)?;
            rest = behind;
            if let Some(replacement) = replacement {
                out.extend_from_slice(block.get(copied..start).unwrap_or_default());
                replacement.write(out);
                copied = block.len() - rest.len();
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

    /// Reads one representation (RFC 7541 §6). Gives what is behind it, and what is to stand in its place.
    fn representation<'b>(
        &mut self,
        block: &'b [u8],
        found: &mut Found,
    ) -> Result<(&'b [u8], Option<Replacement<'b>>), BrokenBlock> {
        let prefix = match block.first().ok_or(BrokenBlock)? {
            0x80.. => 7,
            0x40.. => 6,
            0x20.. => 5,
            _ => 4,
        };
        let (number, rest) = integer(block, prefix)?;
        let (mut name, text, rest) = match (prefix, number) {
            (7, _) => {
                let (name, odd) = self.field(number)?;
                found.note(name, odd);
                return Ok((rest, None));
            }
            (5, _) => {
                if number > CAPACITY {
                    return Err(BrokenBlock);
                }
                self.capacity = number;
                self.evict(0);
                return Ok((rest, None));
            }
            (_, 0) => {
                let (text, rest) = Text::read(rest)?;
                (text.as_name()?, Some(text), rest)
            }
            _ => (self.field(number)?.0, None, rest),
        };
        let (value, rest) = Text::read(rest)?;
        let (len, odd) = name.kind.judge(value)?;
        found.note(name, odd.as_ref());
        let is_kept = prefix == 6;
        let mut replacement = None;
        if name.kind == Kind::Unknown || odd.as_ref().is_some_and(Odd::is_replaced) {
            // Nothing has the length of an entry without name and value.
            if is_kept && name.len == 0 && len == 0 {
                return Err(BrokenBlock);
            }
            let first = block.first().copied().unwrap_or_default() & if is_kept { 0xc0 } else { 0xf0 };
            let written = Replacement::of(first, prefix, (name, number, text), len);
            if matches!(written.name, NewName::Made(_)) {
                name.kind = Kind::Unknown;
            }
            replacement = Some(written);
        }
        if is_kept {
            self.insert(name, len, odd);
        }
        Ok((rest, replacement))
    }

    /// The name of an entry of either table, and what is odd about its value.
    fn field(&self, index: usize) -> Result<(Name, Option<&Odd>), BrokenBlock> {
        let index = index.checked_sub(1).ok_or(BrokenBlock)?;
        if let Some(text) = STATIC.get(index) {
            return Ok((Name::fixed(index, text), None));
        }
        let entry = self.entries.get(index - STATIC.len()).ok_or(BrokenBlock)?;
        Ok((entry.name, entry.odd.as_deref()))
    }

    /// Puts an entry in front; one that is larger than the table only empties it (RFC 7541 §4.4).
    fn insert(&mut self, name: Name, value_len: usize, odd: Option<Odd>) {
        let size = name.len as usize + value_len + ENTRY_OVERHEAD;
        self.evict(size);
        if size <= self.capacity {
            self.size += size;
            self.entries.push_front(Entry { name, size: size as u32, odd: odd.map(Box::new) });
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
    fn fixed(index: usize, text: &str) -> Name {
        let kind = match index {
            0 => Kind::Text,
            1 | 2 => Kind::Method,
            3 | 4 => Kind::Path,
            5 | 6 => Kind::Scheme,
            7..=13 => Kind::Status,
            _ => Kind::Field,
        };
        Name { len: text.len() as u32, is_pseudo: kind != Kind::Field, kind }
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
            _ if text.iter().all(|octet| octets::is(*octet, TOKEN) && !octet.is_ascii_uppercase()) => Kind::Field,
            _ => Kind::Unknown,
        };
        Name { len: text.len() as u32, is_pseudo: text.first() == Some(&b':'), kind }
    }
}

impl Kind {
    /// The length of a value once decoded, and what is odd about it.
    fn judge(self, value: Text<'_>) -> Result<(usize, Option<Odd>), BrokenBlock> {
        let decoded;
        let text = match (value.is_coded, self) {
            (false, _) => value.bytes,
            (true, Kind::Field | Kind::Text | Kind::Unknown) => {
                let (len, may_be_odd) = huffman::measure(value.bytes)?;
                if !may_be_odd || self == Kind::Unknown {
                    return Ok((len, None));
                }
                decoded = huffman::decode(value.bytes)?;
                &decoded
            }
            (true, _) => {
                decoded = huffman::decode(value.bytes)?;
                &decoded
            }
        };
        let malformed = |is_good: bool, code| if is_good { None } else { Some(code) };
        let malformed = match self {
            Kind::Field => malformed(octets::span(text, VALUE) == text.len(), "control_in_field_value"),
            Kind::Path => return Ok((text.len(), Odd::of_path(text))),
            Kind::Method => malformed(!text.is_empty() && octets::span(text, TOKEN) == text.len(), "bad_method"),
            Kind::Scheme => {
                malformed(text.eq_ignore_ascii_case(b"https") || text.eq_ignore_ascii_case(b"http"), "bad_scheme")
            }
            Kind::Status => malformed(matches!(text, [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9']), "bad_status"),
            Kind::Text => malformed(text.is_ascii(), "bad_host"),
            Kind::Unknown => None,
        };
        Ok((text.len(), malformed.map(|code| Odd { malformed: Some(code), ..Odd::default() })))
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
        let malformed = if is_replaced && text.len() < 2 { Some("bad_path_byte") } else { None };
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

impl<'b> Replacement<'b> {
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
fn write_integer(first: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
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
        if self.is_coded { Ok(Name::of(&huffman::decode(self.bytes)?)) } else { Ok(Name::of(self.bytes)) }
    }
}

/// An integer whose first octet has a prefix of so many bits (RFC 7541 §5.1), and what is behind it.
fn integer(block: &[u8], prefix: u32) -> Result<(usize, &[u8]), BrokenBlock> {
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    /// Reads blocks one after the other; after each, the table has so many entries and bytes, and what is expected was found, with nothing replaced.
    fn check(capacity: usize, blocks: &[(&str, usize, usize, Found)]) {
        let mut table = HeaderTable { capacity, ..HeaderTable::default() };
        for (hex, entries, size, expected) in blocks {
            let (mut found, mut out) = (Found::default(), Vec::new());
            assert_eq!(table.read(&bytes(hex), &mut found, &mut out), Ok(false), "{hex}");
            assert_eq!((table.extent(), &found, &out[..]), ((*entries, *size), expected, &b""[..]), "{hex}");
        }
    }

    const PLAIN: Found = Found { pseudo: false, fragment: false, malformed: None, path: None };
    const PSEUDO: Found = Found { pseudo: true, ..PLAIN };
    const BOTH: Found = Found { fragment: true, ..PSEUDO };

    #[test]
    fn the_tables_of_rfc_7541_appendix_c_have_the_sizes_told_there() {
        // C.3: requests without Huffman code. C.4: the same with it.
        let last = "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65";
        check(
            4096,
            &[
                ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", 1, 57, PSEUDO),
                ("8286 84be 5808 6e6f 2d63 6163 6865", 2, 110, PSEUDO),
                (last, 3, 164, PSEUDO),
            ],
        );
        check(
            4096,
            &[
                ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", 1, 57, PSEUDO),
                ("8286 84be 5886 a8eb 1064 9cbf", 2, 110, PSEUDO),
                ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", 3, 164, PSEUDO),
            ],
        );
        // C.6: answers with Huffman code, whose table holds 256 bytes.
        let third =
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7
                     b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
        check(256, &[
            ("4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718
              63c7 8f0b 97c8 e9ae 82ae 43d3", 4, 222, PSEUDO),
            ("4883 640e ffc1 c0bf", 4, 222, PSEUDO),
            (third, 3, 215, PSEUDO),
        ]);
    }

    #[test]
    fn pseudo_fields_and_fragments_are_found_in_every_form() {
        for (hex, entries, size, expected) in [
            ("", 0, 0, PLAIN),
            ("0001 7801 79", 0, 0, PLAIN),
            // A field with a `#` that is no path.
            ("0001 7801 23", 0, 0, PLAIN),
            ("7301 23", 1, 40, PLAIN),
            // Pseudo-fields: of the static table, whole and by name; by a name spelt out.
            ("88", 0, 0, PSEUDO),
            ("0001 7801 7982", 0, 0, PSEUDO),
            ("0103 612e 62", 0, 0, PSEUDO),
            ("000a 3a61 7574 686f 7269 7479 0179", 0, 0, PSEUDO),
            // Paths: whole, kept or not, never kept, with the name spelt out, each with and without `#` (Huffman: ffaf).
            ("0402 2f61", 0, 0, PSEUDO),
            ("0402 2f23", 0, 0, BOTH),
            ("0482 ffaf", 0, 0, BOTH),
            ("1402 2f23", 0, 0, BOTH),
            ("4402 2f23", 1, 39, BOTH),
            ("0005 3a70 6174 6802 2f23", 0, 0, BOTH),
            ("0084 b958 d33f 022f 23", 0, 0, BOTH),
            // A size, then a path.
            ("20 3fe1 1f 0402 2f23", 0, 0, BOTH),
        ] {
            check(4096, &[(hex, entries, size, expected)]);
        }
        // By a reference to what was kept before: the entry, and its name beside another value.
        check(4096, &[("4402 2f23", 1, 39, BOTH), ("be", 1, 39, BOTH), ("7e 01 2f", 2, 77, PSEUDO)]);
        check(4096, &[("4401 2f", 1, 38, PSEUDO), ("be", 1, 38, PSEUDO), ("0f2f 01 23", 1, 38, BOTH)]);
        check(4096, &[("4001 7801 79", 1, 34, PLAIN), ("be", 1, 34, PLAIN), ("0f2f 01 23", 1, 34, PLAIN)]);
        // What is too large empties the table; a smaller table loses its oldest.
        check(40, &[("4402 2f23", 1, 39, BOTH), ("4001 7809 6162 6364 6566 6768 69", 0, 0, PLAIN)]);
        check(4096, &[("4402 2f23 4001 7801 79", 2, 73, BOTH), ("3f03", 1, 34, PLAIN), ("20", 0, 0, PLAIN)]);
    }

    #[test]
    fn what_is_no_hpack_is_broken() {
        for hex in [
            "80",
            "be",
            "ffff ffff ff7f",
            "3fe2 1f",
            "0f30 01 23",
            "0081 ff01 79 81",
            "0401 23 be",
            "0484 ffff ffff",
            // Cut.
            "04",
            "0402 2f",
            "0f",
            "ff",
            "00",
            "0001 78",
            "0001 7801",
            "3f",
            // Nothing has the length of an entry without name and value.
            "4000 00",
        ] {
            let (mut table, mut found) = (HeaderTable::default(), Found::default());
            assert_eq!(table.read(&bytes(hex), &mut found, &mut Vec::new()), Err(BrokenBlock), "{hex}");
        }
    }

    /// A block of literals with these names and values, raw, the first octet of each given.
    fn literals(fields: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (first, name, value) in fields {
            out.push(*first);
            for text in [name, value] {
                write_integer(0, 7, text.len(), &mut out);
                out.extend_from_slice(text);
            }
        }
        out
    }

    /// Reads a block whose literals are replaced: gives what it became, and checks that both tables stay in step.
    fn replaced(table: &mut HeaderTable, block: &[u8]) -> (Vec<u8>, Found) {
        let mut clean = HeaderTable::default();
        let (mut found, mut out) = (Found::default(), Vec::new());
        let before = table.extent();
        assert_eq!(table.read(block, &mut found, &mut out), Ok(true), "{}", block.escape_ascii());
        if before == (0, 0) {
            let (mut again, mut none) = (Found::default(), Vec::new());
            clean.read(&out, &mut again, &mut none).unwrap();
            assert!(matches!(again.malformed, None | Some("bad_scheme")), "{}", out.escape_ascii());
            assert_eq!(clean.extent(), table.extent(), "{}", out.escape_ascii());
        }
        (out, found)
    }

    #[test]
    fn what_no_message_has_is_replaced_by_what_has_its_length() {
        for (name, value, expected, code) in [
            (&b"x"[..], &b"a\0b"[..], (&b"x"[..], &b"xxx"[..]), "control_in_field_value"),
            (b"x", b"\x7f", (b"x", b"x"), "control_in_field_value"),
            (b"cookie", b"a\r\nb", (b"cookie", b"xxxx"), "control_in_field_value"),
            (b"X-Upper", b"v", (b"xxxxxxx", b"x"), "bad_field_name"),
            (b"a b", b"v", (b"xxx", b"x"), "bad_field_name"),
            (b"a\xe9", b"", (b"xx", b""), "bad_field_name"),
            (b":unknown", b"v", (b"xxxxxxxx", b"x"), "bad_field_name"),
            (b"", b"v", (b"x", b""), "bad_field_name"),
            (b":method", b"G T", (b":method", b"xxx"), "bad_method"),
            (b":method", b"", (b"xxxxxxx", b""), "bad_method"),
            (b":scheme", b"ftp", (b":scheme", b"xxx"), "bad_scheme"),
            (b":authority", b"a\xff", (b":authority", b"xx"), "bad_host"),
            (b":status", b"abc", (b":status", b"500"), "bad_status"),
            (b":status", b"2000", (b"xxxxxxx", b"xxxx"), "bad_status"),
            (b":path", b"\xff", (b":path", b"/"), "bad_path_byte"),
        ] {
            for first in [0x40, 0, 0x10] {
                let before = literals(&[(0, b"before", b"1")]);
                let block = [&before, &literals(&[(first, name, value)])[..], &before].concat();
                let written = [&before, &literals(&[(first, expected.0, expected.1)])[..], &before].concat();
                let mut table = HeaderTable::default();
                let (out, found) = replaced(&mut table, &block);
                assert_eq!(out.escape_ascii().to_string(), written.escape_ascii().to_string());
                assert_eq!((found.malformed, found.path), (Some(code), None), "{}", block.escape_ascii());
                if first != 0x40 {
                    continue;
                }
                // The entry is as bad when it is referred to; its name only if that is what is bad.
                let mut found = Found::default();
                assert_eq!(table.read(&[0xbe], &mut found, &mut Vec::new()), Ok(false));
                let is_name_made = expected.0 != name;
                assert_eq!(found.malformed, Some(if is_name_made { "bad_field_name" } else { code }));
                let (mut found, mut out) = (Found::default(), Vec::new());
                table.read(&[0x0f, 0x2f, 3, b'2', b'0', b'4'], &mut found, &mut out).unwrap();
                let is_name = code == "bad_field_name" || is_name_made;
                assert_eq!(
                    found.malformed.is_some(),
                    is_name || matches!(code, "bad_scheme"),
                    "{}",
                    name.escape_ascii()
                );
            }
        }
        // In Huffman code: a value with NUL (ffc7), one with LF (fffffff3), a name with a capital (`A`, 87), by an index of the static table.
        for (hex, code) in [
            ("0001 7882 ffc7", "control_in_field_value"),
            ("0001 7884 ffff fff3", "control_in_field_value"),
            ("6084 ffff fff3", "control_in_field_value"),
            ("0081 8701 79", "bad_field_name"),
            ("4082 b9e7 0179", "bad_field_name"),
        ] {
            let (_, found) = replaced(&mut HeaderTable::default(), &bytes(hex));
            assert_eq!(found.malformed, Some(code), "{hex}");
        }
        // Good ones stay as they are, also those that are long or beyond ASCII.
        let good = literals(&[
            (0, b"x", "\t \u{e9}~\u{80}".as_bytes()),
            (0x40, b"a!#$%&'*+-.^_`|~0", b""),
            (0, b":method", b"M-SEARCH"),
        ]);
        assert_eq!(HeaderTable::default().read(&good, &mut Found::default(), &mut Vec::new()), Ok(false));
    }

    #[test]
    fn paths_that_are_no_uris_are_handed_over_beside() {
        for path in [&b"/a|b"[..], b"/\xff\x00", b"/a b", b"|/", b"/s?a[]=\\"] {
            let mut table = HeaderTable::default();
            let (out, found) = replaced(&mut table, &literals(&[(0x40, b":path", path)]));
            let filler = [b"/", &vec![PATH_FILLER; path.len() - 1][..]].concat();
            assert_eq!(out, literals(&[(0x40, b":path", &filler)]));
            assert_eq!((found.path.as_deref(), found.malformed), (Some(path), None));
            let mut found = Found::default();
            assert_eq!(table.read(&[0xbe], &mut found, &mut Vec::new()), Ok(false));
            assert_eq!(found.path.as_deref(), Some(path));
            // Another path under its name is another path.
            let mut found = Found::default();
            assert_eq!(table.read(&[0x0f, 0x2f, 1, b'/'], &mut found, &mut Vec::new()), Ok(false));
            assert_eq!((found.path, found.pseudo), (None, true));
        }
        // Huffman code of `/|`, by name of the static table.
        let (out, found) = replaced(&mut HeaderTable::default(), &bytes("0483 63fe 7f"));
        assert_eq!((&out[..], found.path.as_deref()), (&b"\x04\x02/|"[..], Some(&b"/|"[..])));
        let good = literals(&[(0x40, b":path", b"/a-._~!$&'()*+,;=:@%zz?/?"), (0, b":path", b"*")]);
        assert_eq!(HeaderTable::default().read(&good, &mut Found::default(), &mut Vec::new()), Ok(false));
    }
}
