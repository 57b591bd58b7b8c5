//! Text of parameters: percent decoding, cookie pairs, and JSON text made of decoded values. Owns no styles and no schemas.

use crate::json::{Number, push_string};
use crate::schema::Types;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_json_calls_a_number_is_one() {
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
}
