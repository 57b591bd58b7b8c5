//! Bytes of clients as printable ASCII, numbers and addresses as text.

use std::net::IpAddr;

use wire::short_text::ShortText;

use crate::redact::Redacted;

/// The start of `value`, at most `bound` bytes, not ending within a UTF-8 sequence.
pub(super) fn cut(value: &[u8], bound: usize) -> &[u8] {
    if value.len() <= bound {
        return value;
    }
    let continuation = |byte: u8| byte & 0xc0 == 0x80;
    let end = (bound.saturating_sub(3)..=bound).rev().find(|&at| !continuation(value[at])).unwrap_or(bound);
    &value[..end]
}

/// Bytes that stand for themselves: printable ASCII but for the quote and the backslash.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

/// Appends `value` as the inside of a JSON string, in printable ASCII.
pub(super) fn escape(out: &mut Vec<u8>, value: &[u8]) {
    let mut rest = value;
    while !rest.is_empty() {
        let run = plain_length(rest);
        out.extend_from_slice(&rest[..run]);
        rest = &rest[run..];
        if let Some(&byte) = rest.first() {
            rest = &rest[escape_one(out, byte, rest)..];
        }
    }
}

/// How many bytes at the start stand for themselves. Nearly always it is all of them, so eight are looked at in one step.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Sets the high bit of the bytes that are zero; bits above the first such byte may be wrong, which only costs a closer look.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let (words, _) = bytes.as_chunks::<8>();
    let special = |bytes: &[u8; 8]| {
        let word = u64::from_ne_bytes(*bytes);
        let control = word.wrapping_sub(ONES * 0x20);
        let delete_and_beyond = word.wrapping_add(ONES) | word;
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let backslash = zero(word ^ (ONES * u64::from(b'\\')));
        (control | delete_and_beyond | quote | backslash) & HIGH != 0
    };
    let whole = 8 * words.iter().take_while(|word| !special(word)).count();
    let rest = &bytes[whole..];
    whole + rest.iter().position(|&byte| !PLAIN[usize::from(byte)]).unwrap_or(rest.len())
}

/// Escapes what `rest`, beginning with `byte`, begins with. Returns its length.
fn escape_one(out: &mut Vec<u8>, byte: u8, rest: &[u8]) -> usize {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0..0x80 => unicode(out, u16::from(byte)),
        _ => match first_char(rest) {
            Some(char) => {
                char.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| unicode(out, unit));
                return char.len_utf8();
            }
            None => {
                out.extend_from_slice(b"\\\\x");
                hexadecimal(out, byte);
            }
        },
    }
    1
}

/// Appends `value` as printable ASCII for people, without what is redacted and cut at `bound` bytes: what is not printable becomes `\u{NN}`, and `\xNN` where it is no UTF-8.
pub(crate) fn printable(out: &mut String, value: &[u8], bound: usize, redacted: &Redacted) {
    redacted.pieces(cut(value, bound), &mut |piece| {
        for chunk in piece.utf8_chunks() {
            for char in chunk.valid().chars() {
                match char {
                    ' '..='~' => out.push(char),
                    other => out.extend(other.escape_unicode()),
                }
            }
            chunk.invalid().iter().for_each(|byte| out.extend(std::ascii::escape_default(*byte).map(char::from)));
        }
    });
    if value.len() > bound {
        out.push_str("...");
    }
}

fn unicode(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(b"\\u");
    unit.to_be_bytes().iter().for_each(|&byte| hexadecimal(out, byte));
}

fn first_char(bytes: &[u8]) -> Option<char> {
    bytes[..bytes.len().min(4)].utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next())
}

pub(super) fn hexadecimal(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// Appends a number.
pub(super) fn decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(ShortText::of_number(value).as_bytes());
}

/// Appends the last `width` digits of a number, zeros in front.
pub(super) fn fixed(out: &mut Vec<u8>, mut value: u32, width: usize) {
    let start = out.len();
    out.resize(start + width, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Appends an address; an IPv4 address mapped into IPv6 as what it is.
pub(super) fn address(out: &mut Vec<u8>, address: IpAddr) {
    out.extend_from_slice(ShortText::of_address(Some(address)).as_bytes());
}
