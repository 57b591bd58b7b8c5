//! The Huffman code of HPACK (RFC 7541 §5.2, Appendix B): counting the symbols of a text, and decoding it.
//!
//! The code is canonical: codes of a length follow on one another, and symbols of a length are in ascending order.

use super::BrokenBlock;

/// How many symbols have codes of a length, in bits.
const LENGTHS: [(u32, u64); 21] = [
    (5, 10),
    (6, 26),
    (7, 32),
    (8, 6),
    (10, 5),
    (11, 3),
    (12, 2),
    (13, 6),
    (14, 2),
    (15, 3),
    (19, 3),
    (20, 8),
    (21, 13),
    (22, 26),
    (23, 29),
    (24, 12),
    (25, 4),
    (26, 15),
    (27, 19),
    (28, 29),
    (30, 4),
];

/// The symbols by the length of their codes. The last code of 30 bits stands for no octet.
#[rustfmt::skip]
const SYMBOLS: [u8; 256] = [
    48, 49, 50, 97, 99, 101, 105, 111, 115, 116, 32, 37, 45, 46, 47, 51, 52, 53, 54, 55, 56, 57, 61, 65, 95, 98, 100, 102,
    103, 104, 108, 109, 110, 112, 114, 117, 58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84,
    85, 86, 87, 89, 106, 107, 113, 118, 119, 120, 121, 122, 38, 42, 44, 59, 88, 90, 33, 34, 40, 41, 63, 39, 43, 124, 35,
    62, 0, 36, 64, 91, 93, 126, 94, 125, 60, 96, 123, 92, 195, 208, 128, 130, 131, 162, 184, 194, 224, 226, 153, 161, 167,
    172, 176, 177, 179, 209, 216, 217, 227, 229, 230, 129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173,
    178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232, 233, 1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151,
    152, 155, 157, 158, 165, 166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239, 9, 142, 144, 145, 148, 159, 171,
    206, 215, 225, 236, 237, 199, 207, 234, 235, 192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255,
    203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254, 2, 3, 4, 5, 6, 7, 8, 11,
    12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220, 249, 10, 13, 22,
];

/// The codes of one length.
#[derive(Debug, Clone, Copy)]
struct Level {
    length: u32,
    /// The first 32 bits with which the first of them begins, and those behind the last.
    first: u64,
    bound: u64,
    /// Where their symbols begin.
    symbols: usize,
}

const LEVELS: [Level; 21] = levels();

const fn levels() -> [Level; 21] {
    let mut levels = [Level { length: 0, first: 0, bound: 0, symbols: 0 }; 21];
    let (mut at, mut bound, mut symbols) = (0, 0, 0);
    while at < levels.len() {
        let (length, count) = LENGTHS[at];
        let first = bound;
        bound += count << (32 - length);
        levels[at] = Level { length, first, bound, symbols };
        symbols += count as usize;
        at += 1;
    }
    levels
}

/// What the next eight bits begin with, where that is a code of at most so many bits: its symbol and its length. Else the length is 0.
static SHORT: [(u8, u8); 256] = short();

const fn short() -> [(u8, u8); 256] {
    let mut table = [(0, 0); 256];
    let mut octet = 0;
    while octet < table.len() {
        let (top, mut at) = ((octet as u64) << 24, 0);
        while top >= LEVELS[at].bound {
            at += 1;
        }
        if LEVELS[at].length <= 8 {
            table[octet] = (symbol(&LEVELS[at], top), LEVELS[at].length as u8);
        }
        octet += 1;
    }
    table
}

/// The symbol of a level whose code these 32 bits begin with.
const fn symbol(level: &Level, top: u64) -> u8 {
    SYMBOLS[level.symbols + ((top - level.first) >> (32 - level.length)) as usize]
}

/// The code of the symbol that no text has, in thirty bits.
const END_OF_TEXT: u64 = 0x3fff_ffff;

/// Goes over the symbols of a text.
fn each(bytes: &[u8], mut take: impl FnMut(u8)) -> Result<(), BrokenBlock> {
    let mut bytes = bytes;
    // Bits not yet used, the next one on top.
    let (mut window, mut bits) = (0_u64, 0_u32);
    loop {
        if bits <= 32
            && let Some((four, behind)) = bytes.split_first_chunk()
        {
            window |= u64::from(u32::from_be_bytes(*four)) << (32 - bits);
            bits += 32;
            bytes = behind;
        }
        while bits <= 56
            && let Some((byte, behind)) = bytes.split_first()
        {
            window |= u64::from(*byte) << (56 - bits);
            bits += 8;
            bytes = behind;
        }
        // Most text is of codes that are no longer than an octet.
        while bits >= 8 {
            let (symbol, length) = SHORT[(window >> 56) as usize];
            if length == 0 {
                break;
            }
            take(symbol);
            window <<= length;
            bits -= u32::from(length);
        }
        if bits < 30 && !bytes.is_empty() {
            continue;
        }
        let top = window >> 32;
        let level = LEVELS.iter().find(|level| top < level.bound).ok_or(BrokenBlock);
        let length = level.as_ref().map_or(30, |level| level.length);
        if length > bits {
            // Padding is shorter than an octet, and the beginning of the code that no text has.
            let is_padding = bits < 8 && window | (u64::MAX >> bits) == u64::MAX;
            return if is_padding { Ok(()) } else { Err(BrokenBlock) };
        }
        if length == 30 && top >> 2 == END_OF_TEXT {
            return Err(BrokenBlock);
        }
        take(symbol(level?, top));
        window <<= length;
        bits -= length;
    }
}

/// How many octets a text has, and whether all of them are good.
pub(super) fn measure(bytes: &[u8], is_good: impl Fn(u8) -> bool) -> Result<(usize, bool), BrokenBlock> {
    let (mut count, mut all_good) = (0, true);
    each(bytes, |symbol| {
        count += 1;
        all_good &= is_good(symbol);
    })?;
    Ok((count, all_good))
}

/// Decodes a text.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<u8>, BrokenBlock> {
    let mut text = Vec::new();
    decode_into(bytes, &mut text)?;
    Ok(text)
}

/// Appends what a text says. On an error, what was appended is of no use.
pub(in crate::http) fn decode_into(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BrokenBlock> {
    // No code is shorter than five bits.
    out.reserve(bytes.len() * 8 / 5);
    each(bytes, |symbol| out.push(symbol))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// The code of each octet: bits and length.
    fn codes() -> Vec<(u8, u64, u32)> {
        let mut codes = Vec::new();
        for level in &LEVELS {
            let count = ((level.bound - level.first) >> (32 - level.length)) as usize;
            for number in 0..count {
                let code = (level.first >> (32 - level.length)) + number as u64;
                codes.extend(SYMBOLS.get(level.symbols + number).map(|symbol| (*symbol, code, level.length)));
            }
        }
        codes
    }

    fn encoded(code: u64, length: u32) -> Vec<u8> {
        let word = (code << (64 - length)) | (u64::MAX >> length);
        word.to_be_bytes()[..usize::try_from(length).unwrap().div_ceil(8)].to_vec()
    }

    #[test]
    fn every_octet_has_its_code() {
        let mut codes = codes();
        assert_eq!(codes.len(), 256);
        for (symbol, code, length) in &codes {
            let text = encoded(*code, *length);
            assert_eq!(decode(&text), Ok(vec![*symbol]));
            assert_eq!(measure(&text, |octet| octet == *symbol), Ok((1, true)), "{symbol}");
            assert_eq!(measure(&text, |octet| octet != *symbol), Ok((1, false)), "{symbol}");
        }
        codes.sort_unstable();
        assert!(codes.iter().enumerate().all(|(number, (symbol, ..))| number == usize::from(*symbol)));
        // Of RFC 7541 Appendix B.
        for (symbol, code, length) in [
            (b'0', 0x0, 5),
            (b't', 0x9, 5),
            (b' ', 0x14, 6),
            (b'u', 0x2d, 6),
            (b':', 0x5c, 7),
            (b'z', 0x7b, 7),
            (b'&', 0xf8, 8),
            (b'Z', 0xfd, 8),
            (b'!', 0x3f8, 10),
            (b'?', 0x3fc, 10),
            (b'\'', 0x7fa, 11),
            (b'#', 0xffa, 12),
            (b'>', 0xffb, 12),
            (0, 0x1ff8, 13),
            (b'~', 0x1ffd, 13),
            (b'^', 0x3ffc, 14),
            (b'{', 0x7ffe, 15),
            (b'\\', 0x7fff0, 19),
            (128, 0xfffe6, 20),
            (9, 0xff_ffea, 24),
            (2, 0xfff_ffe2, 28),
            (127, 0xfff_fffc, 28),
            (249, 0xfff_fffe, 28),
            (b'\n', 0x3fff_fffc, 30),
            (b'\r', 0x3fff_fffd, 30),
            (22, 0x3fff_fffe, 30),
        ] {
            assert_eq!(codes[usize::from(symbol)], (symbol, code, length));
        }
    }

    #[test]
    fn padding_is_short_and_no_text_ends_in_the_middle() {
        assert_eq!(decode(&[]), Ok(Vec::new()));
        // RFC 7541 §C.4.1.
        let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decode(&coded), Ok(b"www.example.com".to_vec()));
        assert_eq!(measure(&coded, |octet| octet != b'#'), Ok((15, true)));
        // Padding of zeros, and with one zero in it.
        for broken in [&[0xff][..], &[0xff, 0xff], &[0xff, 0xff, 0xff, 0xff], &[0x00], &[0x1e], &[0x1b]] {
            assert_eq!(decode(broken), Err(BrokenBlock), "{broken:?}");
            assert_eq!(measure(broken, |_| true), Err(BrokenBlock), "{broken:?}");
        }
    }
}
