//! Base64 with the alphabet of URLs and without padding (RFC 7515 §2), decoded strictly: one text for each value.

/// The bytes that `text` stands for; none if it holds anything else, padding, or bits that belong to no byte.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // A lone character makes no byte, and left-over bits must be zero.
    (count < 6 && bits == 0).then_some(out)
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
