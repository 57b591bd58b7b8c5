//! What a string or a number token means: escapes resolved, UTF-8 checked, grammar checked. Never looks outside the token.

use super::simd::quoted_end;
use crate::limits::Limits;
use crate::reason::Reason;

/// A string with its escapes resolved.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Valid UTF-8.
    pub bytes: &'a [u8],
    /// Whether every byte is ASCII, so that bytes are characters.
    pub is_ascii: bool,
}

impl<'a> Text<'a> {
    /// The text of a string that is known to be one.
    pub fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), is_ascii: text.is_ascii() }
    }

    /// How many characters (Unicode code points) it has.
    pub fn chars(&self) -> usize {
        if self.is_ascii {
            return self.bytes.len();
        }
        self.bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
    }
}

/// A number in JSON's grammar (RFC 8259 §6).
#[derive(Clone, Copy, Debug)]
pub struct Number<'a> {
    /// As it was written.
    pub text: &'a [u8],
    /// Its value, if it was written without fraction and exponent in at most 18 digits.
    pub small: Option<i64>,
}

impl<'a> Number<'a> {
    /// Reads a whole number; `None` unless all of `text` is one.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (length, small) = number_end(text, 0).ok()?;
        (length == text.len()).then_some(Self { text, small })
    }

    /// Whether it is written without fraction and exponent: `-?(0|[1-9][0-9]*)`.
    pub fn is_plain_integer(&self) -> bool {
        self.small.is_some() || memchr::memchr3(b'.', b'e', b'E', self.text).is_none()
    }

    /// Rejects what is too long, or too far from 1.
    #[inline(always)]
    pub fn check_limits(&self, limits: &Limits) -> Result<(), Reason> {
        if self.text.len() > limits.number_chars as usize {
            return Err(Reason::NumberLength);
        }
        if self.small.is_some() { Ok(()) } else { self.check_exponent(limits.exponent) }
    }

    fn check_exponent(&self, limit: u32) -> Result<(), Reason> {
        let Some(at) = memchr::memchr2(b'e', b'E', self.text) else { return Ok(()) };
        let digits = self.text[at + 1..].iter().filter(|byte| byte.is_ascii_digit());
        let exponent =
            digits.fold(0u32, |value, digit| value.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
        if exponent > limit { Err(Reason::Exponent) } else { Ok(()) }
    }
}

/// Where the number at `from` ends, and its value if it is a small integer. The number must end within `bytes`, or at their end.
#[inline(always)]
pub(super) fn number_end(bytes: &[u8], from: usize) -> Result<(usize, Option<i64>), Reason> {
    let negative = bytes.get(from) == Some(&b'-');
    let first = from + usize::from(negative);
    if let Some((digits, value, behind)) = few_digits(bytes, first)
        && !matches!(behind, b'.' | b'e' | b'E')
        && (digits == 1 || bytes[first] != b'0')
    {
        return Ok((first + digits, Some(if negative { -value } else { value })));
    }
    let mut at = first;
    let mut value: i64 = 0;
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
        at += 1;
    }
    let digits = at - first;
    if digits == 0 || (digits > 1 && bytes[first] == b'0') {
        return Err(Reason::Syntax);
    }
    if !matches!(bytes.get(at), Some(b'.' | b'e' | b'E')) {
        let small = if digits <= 18 { Some(if negative { -value } else { value }) } else { None };
        return Ok((at, small));
    }
    fraction_end(bytes, at).map(|end| (end, None))
}

/// The integer at `at`, of at most 18 digits, and where it ends. `None` for other numbers, and where the end of the bytes may have cut it.
#[inline(never)]
pub(crate) fn small_integer(bytes: &[u8], at: usize) -> Option<(usize, i64)> {
    let (end, value) = number_end(bytes, at).ok()?;
    (end < bytes.len()).then_some((end, value?))
}

/// How many digits begin at `at`, up to eight, whatever follows. `None` near the end of the bytes.
#[inline(always)]
pub(crate) fn digit_count(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<8>().map(|word| leading_digits(u64::from_le_bytes(*word)))
}

/// One to seven digits at once: how many, their value, and the byte behind them. `None` for other counts, and near the end of the bytes.
///
/// A loop would guess wrong at the end of most numbers.
#[inline(always)]
fn few_digits(bytes: &[u8], from: usize) -> Option<(usize, i64, u8)> {
    let word = u64::from_le_bytes(*bytes.get(from..)?.first_chunk::<8>()?);
    let count = leading_digits(word);
    if count == 0 || count == 8 {
        return None;
    }
    let behind = (word >> (8 * count)) as u8;
    // The missing digits in front become zeros; then neighbours are added up in pairs, fours and eights.
    let digits = (word ^ DIGITS) << (64 - 8 * count);
    let pairs = (digits & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(2561) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    let value = (fours & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32;
    Some((count as usize, value as i64, behind))
}

/// Eight times `0`.
const DIGITS: u64 = 0x3030_3030_3030_3030;

/// How many of the eight bytes of a word are digits, from the first and lowest one on: adding 0x76 carries into the highest bit of those that are
/// none, and what that spills into lies behind the first of them.
#[inline(always)]
fn leading_digits(word: u64) -> u32 {
    let values = word ^ DIGITS;
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    others.trailing_zeros() / 8
}

/// The end of a fraction and an exponent that begin at `at`.
#[inline(never)]
fn fraction_end(bytes: &[u8], mut at: usize) -> Result<usize, Reason> {
    let digits_end = |from: usize| {
        let count = bytes.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 { Err(Reason::Syntax) } else { Ok(from + count) }
    };
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits_end(at)?;
    }
    Ok(at)
}

/// Where a string ends that is not plain ASCII up to its quote, and what it takes to read it.
pub(super) struct Quoted {
    /// The closing quote.
    pub end: usize,
    pub has_escapes: bool,
}

/// Looks for the closing quote from `at` on, which is not within an escape. `None` if it is not there yet.
#[inline(never)]
pub(super) fn closing_quote(bytes: &[u8], mut at: usize) -> Result<Option<Quoted>, Reason> {
    let mut has_escapes = false;
    loop {
        at = quoted_end(bytes, at);
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'"') => return Ok(Some(Quoted { end: at, has_escapes })),
            Some(b'\\') => {
                has_escapes = true;
                at += 2;
            }
            Some(_) => return Err(Reason::Syntax),
        }
    }
}

/// What stands between two quotes; `scratch` holds it if it had escapes.
#[inline(never)]
pub(super) fn read<'a>(raw: &'a [u8], has_escapes: bool, scratch: &'a mut Vec<u8>) -> Result<Text<'a>, Reason> {
    let bytes = if has_escapes {
        unescape(raw, scratch)?;
        scratch.as_slice()
    } else {
        raw
    };
    let text = simdutf8::basic::from_utf8(bytes).map_err(|_| Reason::Utf8)?;
    Ok(Text { bytes, is_ascii: text.is_ascii() })
}

fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
    out.clear();
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let plain = match rest.get(at + 1).ok_or(Reason::Syntax)? {
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (letter, length) = unicode_escape(&rest[at..])?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[at + length..];
                continue;
            }
            _ => return Err(Reason::Syntax),
        };
        out.push(plain);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// The character of a `\uXXXX`, or of two of them that are a surrogate pair, and how many bytes it took.
fn unicode_escape(text: &[u8]) -> Result<(char, usize), Reason> {
    let first = hex4(text)?;
    if let Some(letter) = char::from_u32(first) {
        return Ok((letter, 6));
    }
    let rest = &text[6..];
    let is_high = (0xd800..0xdc00).contains(&first);
    if !is_high || !rest.starts_with(b"\\u") {
        return Err(Reason::LoneSurrogate);
    }
    let second = hex4(rest)?;
    if !(0xdc00..0xe000).contains(&second) {
        return Err(Reason::LoneSurrogate);
    }
    let scalar = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(scalar).map(|letter| (letter, 12)).ok_or(Reason::LoneSurrogate)
}

fn hex4(text: &[u8]) -> Result<u32, Reason> {
    let digits = text.get(2..6).ok_or(Reason::Syntax)?;
    digits.iter().try_fold(0, |value, &byte| {
        let digit = char::from(byte).to_digit(16).ok_or(Reason::Syntax)?;
        Ok(value << 4 | digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_integers_have_their_value_whatever_follows() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200_000 {
            let digits = random.u32(1..=18);
            let value = random.i64(-10i64.pow(digits) + 1..10i64.pow(digits));
            let text = format!(
                "{value}{}",
                [",", "]", " 123456789", "}\u{ff}\u{ff}\u{ff}", "", "/00000000", ":00000000"][random.usize(0..7)]
            );
            let found = number_end(text.as_bytes(), 0);
            assert_eq!(found, Ok((value.to_string().len(), Some(value))), "{text}");
        }
        for (text, expected) in
            [("00 00000000", Err(Reason::Syntax)), ("-0, 0000000", Ok((2, Some(0)))), ("1.5, 000000", Ok((3, None)))]
        {
            assert_eq!(number_end(text.as_bytes(), 0), expected, "{text}");
        }
    }
}
