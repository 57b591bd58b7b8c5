//! Text as JSON has it: whether it is a number, and as a string.

use super::Number;

/// Whether the text is a number as JSON writes it (RFC 8259 §6): no `+`, no leading zeros, no hexadecimal.
pub(crate) fn is_number(text: &[u8]) -> bool {
    Number::parse(text).is_some()
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
    }
}
