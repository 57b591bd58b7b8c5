//! Percent-encoding (RFC 3986 §2.1), octet by octet.

use super::octets;

/// Whether an octet means the same escaped or not (RFC 3986 §2.3).
pub fn is_unreserved(octet: u8) -> bool {
    octets::is(octet, octets::UNRESERVED)
}

/// The octet of an escape, given its two digits; none if they are not hexadecimal.
pub fn decode(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Appends `%XX`, with capital digits.
pub fn push(octet: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or(b'0');
    out.extend_from_slice(&[b'%', digit(octet >> 4), digit(octet & 15)]);
}
