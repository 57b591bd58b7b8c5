//! Base64 with the alphabet of URLs and without padding (RFC 7515 §2), decoded strictly: one text for each value. And leniently, where every text
//! that some reader takes for a value must count as that value.

/// The bytes that `text` stands for; none if it holds anything else, padding, or bits that belong to no byte.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let decoded = digits(text.iter().map(|byte| digit(*byte)))?;
    // A lone character makes no byte, and left-over bits must be zero.
    (decoded.left_over < 6 && decoded.bits == 0).then_some(decoded.bytes)
}

/// The bytes that the most lenient readers make of `text`: either alphabet, whatever is in neither dropped, and bits that belong to no byte.
pub(super) fn decode_leniently(text: &[u8]) -> Option<Vec<u8>> {
    let values = text.iter().filter_map(|byte| match byte {
        b'+' => Some(62),
        b'/' => Some(63),
        byte => digit(*byte),
    });
    digits(values.map(Some)).map(|decoded| decoded.bytes)
}

struct Decoded {
    bytes: Vec<u8>,
    /// Bits behind the last byte, and how many.
    bits: u32,
    left_over: u32,
}

fn digits(values: impl Iterator<Item = Option<u8>>) -> Option<Decoded> {
    let mut out = Vec::with_capacity(values.size_hint().1.unwrap_or_default() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for value in values {
        bits = bits << 6 | u32::from(value?);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(Decoded { bytes: out, bits, left_over: count })
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_text_of_a_value_is_taken() {
        for (text, expected) in [
            ("", Some(&b""[..])),
            ("Zg", Some(b"f")),
            ("Zm8", Some(b"fo")),
            ("Zm9v", Some(b"foo")),
            ("Zm9vYg", Some(b"foob")),
            ("-_-_", Some(b"\xfb\xff\xbf")),
            ("Zg==", None),
            ("Zh", None),
            ("Zm9", None),
            ("Z", None),
            ("Zm9vY", None),
            ("Zm 9v", None),
            ("+/+/", None),
            ("Zg\n", None),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), expected, "{text:?}");
        }
    }
}
