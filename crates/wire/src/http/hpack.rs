//! What a header block of HTTP/2 holds, without unpacking it (RFC 7541): whether pseudo-fields stand in it, and whether a `:path` has a `#`.
//!
//! For connections whose blocks are unpacked by somebody who drops both without a word. Owns a shadow of the peer's dynamic table: of each entry
//! only its size and what these two questions need. Of Huffman codes it counts the symbols; no text is made.

use std::collections::VecDeque;

/// Bytes of the dynamic table that we let peers fill: the protocol's default, which is never changed (RFC 9113 §6.5.2).
const CAPACITY: usize = 4096;

/// What an entry counts beside its text (RFC 7541 §4.1).
const ENTRY_OVERHEAD: usize = 32;

/// The most bytes of one representation that may be held back while its end is missing.
pub const MAX_REPRESENTATION: usize = 64 * 1024;

/// Names of the static table (RFC 7541 Appendix A), from index 1 on.
const STATIC: [&str; 61] = [
    ":authority",
    ":method",
    ":method",
    PATH,
    PATH,
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

const PATH: &str = ":path";

/// [`PATH`] in Huffman code, padding included.
const PATH_CODED: [u8; 4] = [0xb9, 0x58, 0xd3, 0x3f];

/// The block is no HPACK, so that the connection cannot go on (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenBlock;

/// What was found in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// A name that begins with a colon.
    pub pseudo: bool,
    /// A `:path` with a `#` in it, which no request has (RFC 9113 §8.3.1: path and query, and nothing behind them).
    pub fragment: bool,
}

#[derive(Debug, Clone, Copy)]
struct Name {
    len: usize,
    is_pseudo: bool,
    is_path: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    name: Name,
    size: usize,
    has_fragment: bool,
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
    /// Reads the representations that are whole, and says how many bytes these were; what is left must come again with more behind it.
    ///
    /// # Errors
    /// The block is broken.
    pub fn read(&mut self, block: &[u8], found: &mut Found) -> Result<usize, BrokenBlock> {
        let mut rest = block;
        while let Some(next) = self.representation(rest, found)? {
            rest = next;
        }
        if rest.len() > MAX_REPRESENTATION { Err(BrokenBlock) } else { Ok(block.len() - rest.len()) }
    }

    /// Reads one representation (RFC 7541 §6) and gives what is behind it; none where its end is missing.
    fn representation<'b>(&mut self, block: &'b [u8], found: &mut Found) -> Result<Option<&'b [u8]>, BrokenBlock> {
        let Some(&first) = block.first() else { return Ok(None) };
        let prefix = match first {
            0x80.. => 7,
            0x40.. => 6,
            0x20.. => 5,
            _ => 4,
        };
        let Some((number, rest)) = integer(block, prefix)? else { return Ok(None) };
        let (name, rest) = match (prefix, number) {
            (7, _) => {
                let (name, has_fragment) = self.field(number)?;
                found.pseudo |= name.is_pseudo;
                found.fragment |= has_fragment;
                return Ok(Some(rest));
            }
            (5, _) => {
                if number > CAPACITY {
                    return Err(BrokenBlock);
                }
                self.capacity = number;
                self.evict(0);
                return Ok(Some(rest));
            }
            (_, 0) => match Text::read(rest)? {
                Some((text, rest)) => (Err(text), rest),
                None => return Ok(None),
            },
            _ => (Ok(self.field(number)?.0), rest),
        };
        let Some((value, rest)) = Text::read(rest)? else { return Ok(None) };
        let name = name.or_else(|text| text.as_name())?;
        let is_kept = prefix == 6;
        found.pseudo |= name.is_pseudo;
        if is_kept || name.is_path {
            let (len, has_hash) = value.measure()?;
            let has_fragment = name.is_path && has_hash;
            found.fragment |= has_fragment;
            if is_kept {
                self.insert(Entry { name, size: name.len + len + ENTRY_OVERHEAD, has_fragment });
            }
        }
        Ok(Some(rest))
    }

    /// An entry of either table, and whether it is a path with a fragment.
    fn field(&self, index: usize) -> Result<(Name, bool), BrokenBlock> {
        let index = index.checked_sub(1).ok_or(BrokenBlock)?;
        if let Some(name) = STATIC.get(index) {
            return Ok((Name::of(name.as_bytes()), false));
        }
        let entry = self.entries.get(index - STATIC.len()).ok_or(BrokenBlock)?;
        Ok((entry.name, entry.has_fragment))
    }

    /// Puts an entry in front; one that is larger than the table only empties it (RFC 7541 §4.4).
    fn insert(&mut self, entry: Entry) {
        self.evict(entry.size);
        if entry.size <= self.capacity {
            self.size += entry.size;
            self.entries.push_front(entry);
        }
    }

    /// Makes room for so many bytes.
    fn evict(&mut self, room: usize) {
        while self.size + room > self.capacity {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.size -= oldest.size;
        }
    }
}

impl Name {
    fn of(text: &[u8]) -> Name {
        Name { len: text.len(), is_pseudo: text.first() == Some(&b':'), is_path: text == PATH.as_bytes() }
    }
}

/// A string literal as it came (RFC 7541 §5.2).
#[derive(Debug, Clone, Copy)]
struct Text<'b> {
    bytes: &'b [u8],
    is_coded: bool,
}

impl<'b> Text<'b> {
    /// The literal in front and what is behind it; none where its end is missing.
    fn read(block: &'b [u8]) -> Result<Option<(Text<'b>, &'b [u8])>, BrokenBlock> {
        let is_coded = block.first().is_some_and(|first| first & 0x80 != 0);
        let Some((len, rest)) = integer(block, 7)? else { return Ok(None) };
        Ok(rest.split_at_checked(len).map(|(bytes, rest)| (Text { bytes, is_coded }, rest)))
    }

    fn as_name(self) -> Result<Name, BrokenBlock> {
        if !self.is_coded {
            return Ok(Name::of(self.bytes));
        }
        let (len, _) = self.measure()?;
        // A colon is seven bits of the first octet.
        let is_pseudo = len > 0 && self.bytes.first().is_some_and(|first| first >> 1 == 0x5c);
        Ok(Name { len, is_pseudo, is_path: len == PATH.len() && self.bytes.starts_with(&PATH_CODED) })
    }

    /// Its length once decoded, and whether there is a `#` in it.
    fn measure(self) -> Result<(usize, bool), BrokenBlock> {
        if self.is_coded { measure_coded(self.bytes) } else { Ok((self.bytes.len(), self.bytes.contains(&b'#'))) }
    }
}

/// An integer whose first octet has a prefix of so many bits (RFC 7541 §5.1), and what is behind it; none where its end is missing.
fn integer(block: &[u8], prefix: u32) -> Result<Option<(usize, &[u8])>, BrokenBlock> {
    let Some((&first, mut rest)) = block.split_first() else { return Ok(None) };
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(first) & most;
    if value < most {
        return Ok(Some((value, rest)));
    }
    for shift in [0, 7, 14, 21] {
        let Some((&octet, behind)) = rest.split_first() else { return Ok(None) };
        rest = behind;
        value += usize::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Ok(Some((value, rest)));
        }
    }
    Err(BrokenBlock)
}

/// How many symbols have codes of a length, in bits (RFC 7541 Appendix B). The code is canonical: codes of a length follow on one another.
const SYMBOLS: [(u32, u64); 21] = [
    (5, 10),
    (6, 26),
    (7, 32),
    (8, 6),
    (10, 5),
    (11, 3),
    (12, 2),
    (13, 6),
    (14, 2),
    (15, 3),
    (19, 3),
    (20, 8),
    (21, 13),
    (22, 26),
    (23, 29),
    (24, 12),
    (25, 4),
    (26, 15),
    (27, 19),
    (28, 29),
    (30, 4),
];

/// For each length, the first 32 bits that stand behind its codes.
const BOUNDS: [(u32, u64); 21] = bounds();

const fn bounds() -> [(u32, u64); 21] {
    let mut bounds = SYMBOLS;
    let (mut at, mut bound) = (0, 0);
    while at < bounds.len() {
        bound += bounds[at].1 << (32 - bounds[at].0);
        bounds[at].1 = bound;
        at += 1;
    }
    bounds
}

/// The code of `#`, in twelve bits.
const HASH: u64 = 0xffa;

/// The code of the symbol that no text has, in thirty bits.
const END_OF_TEXT: u64 = 0x3fff_ffff;

/// How many symbols a text in Huffman code has, and whether there is a `#` among them.
fn measure_coded(bytes: &[u8]) -> Result<(usize, bool), BrokenBlock> {
    let mut bytes = bytes.iter();
    // Bits not yet used, the next one on top.
    let (mut window, mut bits) = (0_u64, 0_u32);
    let (mut count, mut has_hash) = (0, false);
    loop {
        while bits <= 56
            && let Some(byte) = bytes.next()
        {
            window |= u64::from(*byte) << (56 - bits);
            bits += 8;
        }
        let top = window >> 32;
        let length = BOUNDS.iter().find(|(_, bound)| top < *bound).map_or(30, |(length, _)| *length);
        if length > bits {
            // Padding is shorter than an octet.
            return if bits < 8 { Ok((count, has_hash)) } else { Err(BrokenBlock) };
        }
        if length == 30 && top >> 2 == END_OF_TEXT {
            return Err(BrokenBlock);
        }
        has_hash |= length == 12 && top >> 20 == HASH;
        window <<= length;
        bits -= length;
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    /// Reads blocks one after the other; after each, the table has so many entries and bytes, and what is expected was found.
    fn check(capacity: usize, blocks: &[(&str, usize, usize, Found)]) {
        let mut table = HeaderTable { capacity, ..HeaderTable::default() };
        for (hex, entries, size, expected) in blocks {
            let (block, mut found) = (bytes(hex), Found::default());
            assert_eq!(table.read(&block, &mut found), Ok(block.len()), "{hex}");
            assert_eq!((table.entries.len(), table.size, found), (*entries, *size, *expected), "{hex}");
        }
    }

    const PLAIN: Found = Found { pseudo: false, fragment: false };
    const PSEUDO: Found = Found { pseudo: true, fragment: false };
    const BOTH: Found = Found { pseudo: true, fragment: true };

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
            // Pseudo-fields: of the static table, whole and by name; by a name of their own, also in Huffman code (`:x`).
            ("88", 0, 0, PSEUDO),
            ("0001 7801 7982", 0, 0, PSEUDO),
            ("0103 612e 62", 0, 0, PSEUDO),
            ("0002 3a78 0179", 0, 0, PSEUDO),
            ("0082 b9e7 0179", 0, 0, PSEUDO),
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
        for hex in
            ["80", "be", "ffff ffff ff7f", "3fe2 1f", "0f30 01 23", "0081 ff01 79 81", "0401 23 be", "0484 ffff ffff"]
        {
            let (mut table, mut found) = (HeaderTable::default(), Found::default());
            assert_eq!(table.read(&bytes(hex), &mut found), Err(BrokenBlock), "{hex}");
        }
    }

    #[test]
    fn every_code_of_appendix_b_has_its_length() {
        // The first code of each length, filled up with ones.
        for (code, length) in [
            (0x0_u64, 5),
            (0x14, 6),
            (0x5c, 7),
            (0xf8, 8),
            (0x3f8, 10),
            (0x7fa, 11),
            (0xffa, 12),
            (0x1ff8, 13),
            (0x3ffc, 14),
            (0x7ffc, 15),
            (0x7fff0, 19),
            (0xfffe6, 20),
            (0x1f_ffdc, 21),
            (0x3f_ffd2, 22),
            (0x7f_ffd8, 23),
            (0xff_ffea, 24),
            (0x1ff_ffec, 25),
            (0x3ff_ffe0, 26),
            (0x7ff_ffde, 27),
            (0xfff_ffe2, 28),
            (0x3fff_fffc, 30),
        ] {
            let word = (code << (64 - length)) | (u64::MAX >> length);
            let octets = usize::try_from(length).unwrap().div_ceil(8);
            let expected = Ok((1, code == HASH));
            assert_eq!(measure_coded(&word.to_be_bytes()[..octets]), expected, "{code:x}");
        }
    }
}
