//! Header fields: an ordered multimap over one byte buffer, reused from message to message.
//!
//! Owns storage and the syntax of names, values and lists (RFC 9110 §5). Does not know what any field means.

use std::fmt;

use super::octets;

/// Ordered header or trailer fields. Names keep the case they came in and compare without it.
///
/// All names and values live in one buffer, so a message costs no allocation once the buffer is warm. Removing a field
/// leaves its bytes in the buffer until [`Fields::clear`].
#[derive(Clone, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    index: Vec<Field>,
}

/// Where one field lies in the buffer.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: u32,
    name_len: u16,
    value: u32,
    value_len: u32,
}

impl Field {
    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        slice(bytes, self.name, u32::from(self.name_len))
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        slice(bytes, self.value, self.value_len)
    }
}

fn slice(bytes: &[u8], start: u32, len: u32) -> &[u8] {
    let start = start as usize;
    bytes.get(start..start + len as usize).unwrap_or_default()
}

impl Fields {
    /// No fields, no memory.
    pub const fn new() -> Fields {
        Fields { bytes: Vec::new(), index: Vec::new() }
    }

    /// Forgets all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.index.clear();
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Appends a field. The caller has checked name and value; a name over 65,535 bytes is a bug of the caller's.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        debug_assert!(name.len() <= usize::from(u16::MAX));
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.index.push(Field {
            name: start,
            name_len: name.len() as u16,
            value: start + name.len() as u32,
            value_len: value.len() as u32,
        });
    }

    /// The first value of `name` (given in lower case).
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// All values of `name` (given in lower case), in order.
    pub fn get_all<'a, 'n>(&'a self, name: &'n str) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a, 'n> {
        let bytes = &self.bytes[..];
        self.index
            .iter()
            .filter(move |field| field.name(bytes).eq_ignore_ascii_case(name.as_bytes()))
            .map(move |field| field.value(bytes))
    }

    /// The value of the first cookie of this name (RFC 6265 §4.2).
    pub fn cookie(&self, name: &[u8]) -> Option<&[u8]> {
        self.cookies(name).next()
    }

    /// The values of all cookies of this name, in order.
    pub fn cookies<'a, 'n>(&'a self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let pairs = self.get_all("cookie").flat_map(|field| field.split(|byte| *byte == b';'));
        pairs.map(<[u8]>::trim_ascii).filter_map(move |pair| pair.strip_prefix(name)?.strip_prefix(b"="))
    }

    /// Whether `name` (given in lower case) occurs.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Removes every field called `name` (given in lower case); says how many went.
    pub fn remove(&mut self, name: &str) -> usize {
        let before = self.index.len();
        self.retain(|present, _| !present.eq_ignore_ascii_case(name.as_bytes()));
        before - self.index.len()
    }

    /// Keeps the fields for which `keep(name, value)` holds, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let bytes = &self.bytes[..];
        self.index.retain(|field| keep(field.name(bytes), field.value(bytes)));
    }

    /// Replaces every field called `name` (in any case) by one with this value, at the end.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.push(name.as_bytes(), value);
    }

    /// Name and value of each field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.index.iter().map(|field| (field.name(&self.bytes), field.value(&self.bytes)))
    }

    /// The value of the field at `position`; nothing if there is none.
    pub(super) fn value_at(&self, position: usize) -> &[u8] {
        self.index.get(position).map(|field| field.value(&self.bytes)).unwrap_or_default()
    }

    /// Notes a field whose bytes [`Fields::adopt`] brings in later, as offsets into them.
    pub(super) fn push_span(&mut self, name: usize, name_len: u16, value: usize, value_len: usize) {
        self.index.push(Field { name: name as u32, name_len, value: value as u32, value_len: value_len as u32 });
    }

    /// Takes the bytes that the spans noted so far point into: one copy for a whole head.
    pub(super) fn adopt(&mut self, section: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(section);
    }
}

/// Same names (in the same case) and values in the same order; where they lie in the buffer does not matter.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable = |bytes: &[u8]| bytes.escape_ascii().to_string();
        out.debug_list().entries(self.iter().map(|(name, value)| (printable(name), printable(value)))).finish()
    }
}

/// Whether `bytes` is a `token` (RFC 9110 §5.6.2): not empty, and `tchar` only. `_` is one of them.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && octets::span(bytes, octets::TOKEN) == bytes.len()
}

/// Whether `bytes` is a field value as it is stored (RFC 9110 §5.5): visible characters, obs-text, and spaces and tabs
/// between them but not around them. May be empty.
pub fn is_field_value(bytes: &[u8]) -> bool {
    let blank = |octet: Option<&u8>| matches!(octet, Some(b' ' | b'\t'));
    octets::span(bytes, octets::VALUE) == bytes.len() && !blank(bytes.first()) && !blank(bytes.last())
}

/// The elements of a comma-separated list without the blanks around them; empty ones are left out (RFC 9110 §5.6.1).
///
/// For lists of tokens: a comma inside a quoted string is taken for a separator.
pub fn list_items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&octet| octet == b',').map(trim_blanks).filter(|item| !item.is_empty())
}

/// `bytes` without spaces and tabs at both ends (RFC 9110 §5.6.3, OWS).
pub fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in pairs {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    #[test]
    fn the_first_cookie_of_a_name_counts() {
        for (values, expected) in [
            (&["sid=a; sid=b"][..], Some("a")),
            (&["x=1;sid=\"q\"", "sid=b"], Some("\"q\"")),
            (&["xsid=1; sid2=2; sid"], None),
            (&["a=sid=1", "  sid=2 "], Some("2")),
            (&["sid="], Some("")),
            (&[], None),
        ] {
            let pairs: Vec<(&str, &str)> = values.iter().map(|value| ("cookie", *value)).collect();
            assert_eq!(fields(&pairs).cookie(b"sid"), expected.map(str::as_bytes), "{values:?}");
        }
    }

    fn check(fields: &Fields, expected: &[(&str, &str)]) {
        let found: Vec<(String, String)> = fields
            .iter()
            .map(|(name, value)| {
                (String::from_utf8(name.to_vec()).unwrap(), String::from_utf8(value.to_vec()).unwrap())
            })
            .collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(found, expected);
        assert_eq!(fields.len(), expected.len());
        assert_eq!(fields.is_empty(), expected.is_empty());
    }

    #[test]
    fn keeps_order_case_and_repeats() {
        let fields = fields(&[("Host", "a"), ("Via", "1"), ("X", ""), ("vIA", "2")]);
        check(&fields, &[("Host", "a"), ("Via", "1"), ("X", ""), ("vIA", "2")]);
        assert_eq!(fields.get("via"), Some(&b"1"[..]));
        assert_eq!(fields.get_all("via").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(fields.get("x"), Some(&b""[..]));
        assert!(fields.contains("host"));
        assert!(!fields.contains("hos"));
        assert!(!fields.contains("hostx"));
    }

    #[test]
    fn edits() {
        let mut edited = fields(&[("A", "1"), ("B", "2"), ("a", "3"), ("C", "4")]);
        assert_eq!(edited.remove("a"), 2);
        assert_eq!(edited.remove("a"), 0);
        check(&edited, &[("B", "2"), ("C", "4")]);
        edited.set("b", b"5");
        check(&edited, &[("C", "4"), ("b", "5")]);
        edited.retain(|_, value| value != b"4");
        check(&edited, &[("b", "5")]);
        assert_eq!(edited, fields(&[("b", "5")]));
        assert_ne!(edited, fields(&[("b", "6")]));
        edited.clear();
        check(&edited, &[]);
    }

    #[test]
    fn names_and_values() {
        for (bytes, token) in [
            (&b""[..], false),
            (b"Accept", true),
            (b"x_y", true),
            (b"x y", false),
            (b"x:", false),
            (b"caf\xe9", false),
            (b"!#$%&'*+-.^`|~09azAZ", true),
        ] {
            assert_eq!(is_token(bytes), token, "{}", bytes.escape_ascii());
        }
        for (bytes, expected) in [
            (&b""[..], true),
            (b"a b\tc", true),
            (b"caf\xe9\x80", true),
            (b" a", false),
            (b"a\t", false),
            (b"a\rb", false),
            (b"a\nb", false),
            (b"a\0b", false),
            (b"a\x7fb", false),
            (b"a\x1bb", false),
        ] {
            assert_eq!(is_field_value(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn lists() {
        let items: Vec<&[u8]> = list_items(b" a,\tb c ,, d\t,").collect();
        assert_eq!(items, [&b"a"[..], b"b c", b"d"]);
        assert_eq!(list_items(b"").count(), 0);
    }
}
