//! Base64 with the alphabet of URLs and without padding (RFC 7515 §2), decoded strictly: one text for each value. And leniently, where every text
//! that some reader takes for a value must count as that value.

/// The bytes that `text` stands for; none if it holds anything else, padding, or bits that belong to no byte.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let decoded = digits(text.iter().map_while(|byte| digit(*byte)));
    // A lone character makes no byte, and left-over bits must be zero.
    (decoded.count == text.len() && decoded.left_over < 6 && decoded.bits == 0).then_some(decoded.bytes)
}

/// The bytes that the most lenient readers make of `text`: either alphabet, whatever is in neither dropped, and bits that belong to no byte.
pub fn decode_leniently(text: &[u8]) -> Vec<u8> {
    let values = text.iter().filter_map(|byte| match byte {
        b'+' => Some(62),
        b'/' => Some(63),
        byte => digit(*byte),
    });
    digits(values).bytes
}

struct Decoded {
    bytes: Vec<u8>,
    /// Characters that were decoded.
    count: usize,
    /// Bits behind the last byte, and how many.
    bits: u32,
    left_over: u32,
}

fn digits(values: impl Iterator<Item = u8>) -> Decoded {
    let bytes = Vec::with_capacity(values.size_hint().1.unwrap_or_default() / 4 * 3 + 2);
    let mut decoded = Decoded { bytes, count: 0, bits: 0, left_over: 0 };
    for value in values {
        decoded.count += 1;
        decoded.bits = decoded.bits << 6 | u32::from(value);
        decoded.left_over += 6;
        if decoded.left_over >= 8 {
            decoded.left_over -= 8;
            decoded.bytes.push((decoded.bits >> decoded.left_over) as u8);
            decoded.bits &= (1 << decoded.left_over) - 1;
        }
    }
    decoded
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

/// Appends base64 with padding and the standard alphabet (RFC 4648 §4).
pub fn encode_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let joined = group.iter().fold(0_u32, |joined, &byte| joined << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = (joined >> (18 - 6 * place) & 63) as usize;
            out.push(if place <= group.len() { ALPHABET.get(digit).copied().unwrap_or(b'=') } else { b'=' });
        }
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
