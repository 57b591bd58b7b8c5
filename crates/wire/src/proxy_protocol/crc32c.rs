//! CRC32c (Castagnoli, RFC 3309 appendix), by table. Headers are short and few; hardware would save nothing that can be measured.

/// The polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// A checksum in the making.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crc32c(u32);

impl Crc32c {
    /// Of no bytes.
    pub(super) fn new() -> Crc32c {
        Crc32c(u32::MAX)
    }

    /// Of these bytes behind those before.
    pub(super) fn update(self, bytes: &[u8]) -> Crc32c {
        Crc32c(bytes.iter().fold(self.0, |crc, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)]))
    }

    /// The checksum.
    pub(super) fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let table: [(&[u8], u32); 4] =
            [(b"", 0), (b"123456789", 0xe306_9283), (&[0; 32], 0x8a91_36aa), (&[0xff; 32], 0x62a8_ab43)];
        for (bytes, crc) in table {
            assert_eq!(Crc32c::new().update(bytes).value(), crc);
            let (left, right) = bytes.split_at(bytes.len() / 3);
            assert_eq!(Crc32c::new().update(left).update(right).value(), crc);
        }
    }
}
