//! Bytes as text in lower-case hexadecimal, and back. Not for the data path: both allocate.

/// Two digits for each byte.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that [`hexadecimal`] gives this text for, if there are just as many.
pub fn from_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<Vec<u8>>>()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let bytes = [0x00, 0x0f, 0xa0, 0xff];
        assert_eq!(hexadecimal(&bytes), "000fa0ff");
        assert_eq!(from_hexadecimal("000fa0ff"), Some(bytes));
        for other in ["", "000fa0f", "000fa0", "000fa0ff00", "000FA0FF", "000fa0fg", "000fa0+f", " 00fa0ff"] {
            assert_eq!(from_hexadecimal::<4>(other), None, "{other:?}");
        }
    }
}
