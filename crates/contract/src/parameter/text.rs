//! Text of parameters: percent decoding, cookie pairs, and JSON text made of decoded values. Owns no styles and no schemas.

use crate::json::Number;
use crate::schema::Types;

/// Appends `bytes` with percent escapes resolved (and `+` as a space, if `plus`); false if an escape is broken.
pub(crate) fn unescape(bytes: &[u8], plus: bool, out: &mut Vec<u8>) -> bool {
    let mut rest = bytes;
    loop {
        let plain = if plus { memchr::memchr2(b'%', b'+', rest) } else { memchr::memchr(b'%', rest) };
        let (before, from) = rest.split_at(plain.unwrap_or(rest.len()));
        out.extend_from_slice(before);
        let Some((&byte, after)) = from.split_first() else { return true };
        rest = after;
        match byte {
            b'%' => {
                let Some(value) = after.get(..2).and_then(hex_pair) else { return false };
                out.push(value);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => out.push(b' '),
        }
    }
}

fn hex_pair(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// The pairs of a Cookie field (RFC 6265 §4.2.1). A part without `=` has an empty name, so that nothing takes it for a declared cookie.
pub(crate) fn cookie_pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()).map(|pair| {
        match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                (pair.get(..at).unwrap_or_default().trim_ascii(), pair.get(at + 1..).unwrap_or_default().trim_ascii())
            }
            None => (Default::default(), pair),
        }
    })
}

/// Whether the text is a number as JSON writes it (RFC 8259 §6): no `+`, no leading zeros, no hexadecimal.
pub(crate) fn is_number(text: &[u8]) -> bool {
    Number::parse(text).is_some()
}

/// Whether the text is a number that these types allow. Where only integers are allowed, fraction and exponent are not: `1e3` is an integer of
/// JSON Schema, but 1 to parsers of integers.
fn is_number_of(text: &[u8], types: Types) -> bool {
    Number::parse(text)
        .is_some_and(|number| types.has(Types::FRACTION) || (types.has(Types::INTEGER) && number.is_plain_integer()))
}

/// How text is taken where several types are allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reading {
    /// A number, boolean or null where the text is one and the type is allowed.
    Typed,
    /// A string wherever that is allowed.
    Strings,
}

/// Appends the decoded text of a scalar as JSON; says whether another reading would give something else. The text is UTF-8.
pub(crate) fn push_scalar(text: &[u8], types: Types, reading: Reading, out: &mut Vec<u8>) -> bool {
    let is_other = is_number_of(text, types)
        || (types.has(Types::BOOLEAN) && matches!(text, b"true" | b"false"))
        || (types.has(Types::NULL) && text == b"null");
    let has_choice = is_other && types.has(Types::STRING);
    if is_other && (reading == Reading::Typed || !has_choice) {
        out.extend_from_slice(text);
    } else {
        push_string(text, out);
    }
    has_choice
}

/// Appends UTF-8 text as a JSON string.
pub(crate) fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    loop {
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
        let (before, from) = rest.split_at(rest.iter().position(is_special).unwrap_or(rest.len()));
        out.extend_from_slice(before);
        let Some((byte, after)) = from.split_first() else { break };
        rest = after;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0..=0x1f => {
                let digit = |nibble: u8| b"0123456789abcdef".get(usize::from(nibble)).copied().unwrap_or_default();
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_json_calls_a_number_is_one() {
        for good in ["0", "-0", "12", "1.5", "1e3", "-1.5E-3"] {
            assert!(is_number(good.as_bytes()), "{good}");
        }
        for bad in [
            "", "-", "+1", "01", "0x10", "0b1", "0o7", "1_000", "1.", ".5", "1e", " 1", "1 ", "NaN", "Infinity",
            "1.0.1",
        ] {
            assert!(!is_number(bad.as_bytes()), "{bad}");
        }
        for (text, expected) in
            [("0", true), ("-0", true), ("-12", true), ("1.0", false), ("1e3", false), ("10E-1", false)]
        {
            assert_eq!(is_number_of(text.as_bytes(), Types::INTEGER), expected, "{text}");
        }
    }

    #[test]
    fn scalars_become_what_their_type_allows() {
        let any = Types::ALL;
        let rows = [
            ("12", Types::NUMBER, Reading::Typed, "12"),
            ("12", Types::STRING, Reading::Typed, "\"12\""),
            ("12", any, Reading::Typed, "12"),
            ("12", any, Reading::Strings, "\"12\""),
            ("12", Types::NUMBER, Reading::Strings, "12"),
            ("true", Types::BOOLEAN, Reading::Typed, "true"),
            ("TRUE", Types::BOOLEAN, Reading::Typed, "\"TRUE\""),
            ("1", Types::BOOLEAN, Reading::Typed, "\"1\""),
            ("a\"\\\n", Types::STRING, Reading::Typed, "\"a\\\"\\\\\\u000a\""),
        ];
        for (text, types, reading, expected) in rows {
            let mut out = Vec::new();
            push_scalar(text.as_bytes(), types, reading, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text} {reading:?}");
        }
    }

    #[test]
    fn cookies_split_into_pairs() {
        let pairs: Vec<_> = cookie_pairs(b" a=1; b = 2;;c; d=x=y ").collect();
        let expected: Vec<(&[u8], &[u8])> = vec![(b"a", b"1"), (b"b", b"2"), (b"", b"c"), (b"d", b"x=y")];
        assert_eq!(pairs, expected);
    }
}
