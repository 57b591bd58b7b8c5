//! Numbers and addresses as text, on the stack and without the machinery of formatting, which costs more than the rest of a short field.

use std::io::Write as _;
use std::net::IpAddr;

/// Longest text: an IPv6 address with an IPv4 address at its end.
const LONGEST: usize = 45;

/// A number or an address as text.
#[derive(Debug, Clone, Copy)]
pub struct ShortText {
    bytes: [u8; LONGEST],
    len: u8,
}

impl ShortText {
    const EMPTY: ShortText = ShortText { bytes: [0; LONGEST], len: 0 };

    /// A number in decimal.
    pub fn of_number(value: u64) -> ShortText {
        let mut text = ShortText::EMPTY;
        text.push_number(value);
        text
    }

    /// An address, empty for none; an IPv4 address mapped into IPv6 as what it is.
    pub fn of_address(address: Option<IpAddr>) -> ShortText {
        let mut text = ShortText::EMPTY;
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(v4)) => {
                for (at, octet) in v4.octets().into_iter().enumerate() {
                    if at > 0 {
                        text.push(b'.');
                    }
                    text.push_number(u64::from(octet));
                }
            }
            Some(IpAddr::V6(v6)) => {
                let mut room = text.bytes.as_mut_slice();
                // It cannot fail: there is room for the longest.
                let _ = write!(room, "{v6}");
                let left = room.len();
                text.len = (LONGEST - left) as u8;
            }
            None => {}
        }
        text
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
            *place = byte;
            self.len += 1;
        }
    }

    fn push_number(&mut self, mut value: u64) {
        // Most are short: an octet of an address, a port, the length of a page.
        if value < 10 {
            return self.push(b'0' + value as u8);
        }
        let mut digits = [0; 20];
        let mut at = digits.len();
        while value > 0 {
            at -= 1;
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + (value % 10) as u8;
            }
            value /= 10;
        }
        let (digits, start) = (digits.get(at..).unwrap_or_default(), usize::from(self.len));
        if let Some(place) = self.bytes.get_mut(start..start + digits.len()) {
            place.copy_from_slice(digits);
            self.len += digits.len() as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_library() {
        for value in [0, 1, 9, 10, 99, 100, 65_535, 1_000_000, u64::MAX - 1, u64::MAX] {
            assert_eq!(ShortText::of_number(value).as_bytes(), value.to_string().as_bytes());
        }
        for address in ["0.0.0.0", "255.255.255.255", "1.20.103.9", "::", "2001:db8::1", "64:ff9b::192.0.2.1"] {
            let parsed: Option<IpAddr> = address.parse().ok();
            let expected = parsed.map(|address| address.to_string()).unwrap_or_default();
            assert_eq!(ShortText::of_address(parsed).as_bytes(), expected.as_bytes(), "{address}");
        }
        let longest: Option<IpAddr> = "1111:2222:3333:4444:5555:6666:7777:8888".parse().ok();
        assert_eq!(ShortText::of_address(longest).as_bytes(), b"1111:2222:3333:4444:5555:6666:7777:8888");
        assert_eq!(ShortText::of_address("::ffff:192.0.2.1".parse().ok()).as_bytes(), b"192.0.2.1");
        assert_eq!(ShortText::of_address(None).as_bytes(), b"");
    }
}
