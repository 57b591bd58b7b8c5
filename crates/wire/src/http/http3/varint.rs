//! Integers of variable length (RFC 9000 §16): the two highest bits of the first octet say how many follow.

/// The largest there is.
pub const MAX: u64 = (1 << 62) - 1;

/// Octets of the longest.
pub const LONGEST: usize = 8;

/// The integer at the beginning of these bytes, and how many of them it takes; none if it lacks some.
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let len = 1 << (first >> 6);
    let octets = bytes.get(1..len)?;
    let value = octets.iter().fold(u64::from(first & 0x3f), |value, octet| value << 8 | u64::from(*octet));
    Some((value, len))
}

/// Appends an integer, as short as it can be. One beyond [`MAX`] is a bug of the caller's.
pub fn write(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= MAX);
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn examples_of_rfc_9000_appendix_a_1_and_bounds() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x3f], 0x3f),
            (&[0x40, 0x40], 0x40),
            (&[0x7f, 0xff], 0x3fff),
            (&[0x80, 0, 0x40, 0], 0x4000),
            (&[0xbf, 0xff, 0xff, 0xff], 0x3fff_ffff),
            (&[0xc0, 0, 0, 0, 0x40, 0, 0, 0], 0x4000_0000),
            (&[0xff; 8], MAX),
        ] {
            assert_eq!(read(bytes), Some((value, bytes.len())), "{bytes:02x?}");
            let mut written = Vec::new();
            write(value, &mut written);
            assert_eq!(written, bytes);
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), None, "{bytes:02x?} of {cut} bytes");
            }
        }
        // Longer than it has to be, and followed by something.
        assert_eq!(read(&[0x40, 0x25, 0xff]), Some((37, 2)));
    }
}
