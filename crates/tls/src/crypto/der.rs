//! A bounded walk over DER (X.690), and the few forms we write. Borrows from its input, allocates for output only, never panics.
//!
//! Knows single-byte tags and lengths below 2^32, which is all that keys and PKCS#12 need. `definite` turns the indefinite lengths that some
//! PKCS#12 writers use (BER) into definite ones; everything else is strict DER.

use super::Error;
use std::borrow::Cow;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_ID: u8 = 0x06;
pub(super) const BMP_STRING: u8 = 0x1e;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
/// Context-specific, constructed, number 0.
pub(super) const CONTEXT_0: u8 = 0xa0;
/// Context-specific, primitive, number 0.
pub(super) const CONTEXT_0_PRIMITIVE: u8 = 0x80;

/// Content of the OBJECT IDENTIFIER of an RSA key (RFC 8017 appendix C).
pub(super) const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// Content of the OBJECT IDENTIFIER of an EC key (RFC 5480 §2.1.1).
pub(super) const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// Content of the OBJECT IDENTIFIER of an RSA key that is for RSASSA-PSS alone (RFC 8017 appendix C).
pub(super) const RSASSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
/// Content of the OBJECT IDENTIFIERs of Ed25519 and Ed448 keys (RFC 8410 §3).
pub(super) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
pub(super) const ED448: &[u8] = &[0x2b, 0x65, 0x71];
/// Content of the OBJECT IDENTIFIER of a DSA key (RFC 3279 §2.3.2).
pub(super) const DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01];
/// Content of the OBJECT IDENTIFIERs of P-256, P-384 and P-521 (RFC 5480 §2.1.1.1).
pub(super) const SERVED_CURVES: [&[u8]; 3] = [
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
    &[0x2b, 0x81, 0x04, 0x00, 0x22],
    &[0x2b, 0x81, 0x04, 0x00, 0x23],
];

/// Nesting that `definite` follows. PKCS#12 needs about ten.
const MAX_DEPTH: usize = 32;

const BROKEN: Error = Error::Malformed("not valid DER");

/// Reads one element after the other.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The tag of the next element, if there is one.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next element: its tag and its content.
    pub(super) fn any(&mut self) -> Result<(u8, &'a [u8]), Error> {
        let (tag, header, length) = header(self.rest)?;
        let length = length.ok_or(BROKEN)?;
        let body = self.rest.get(header..).ok_or(BROKEN)?;
        if body.len() < length {
            return Err(BROKEN);
        }
        let (content, rest) = body.split_at(length);
        self.rest = rest;
        Ok((tag, content))
    }

    /// The content of the next element, which must have this tag.
    pub(super) fn expect(&mut self, tag: u8) -> Result<&'a [u8], Error> {
        match self.any()? {
            (found, content) if found == tag => Ok(content),
            _ => Err(BROKEN),
        }
    }

    /// A reader over the content of the next element, which must have this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Result<Reader<'a>, Error> {
        self.expect(tag).map(Reader::new)
    }

    /// The content of the next element if it has this tag; else nothing is taken.
    pub(super) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, Error> {
        if self.peek() == Some(tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    /// A small unsigned INTEGER.
    pub(super) fn small_integer(&mut self) -> Result<u32, Error> {
        let content = self.expect(INTEGER)?;
        let digits = content.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(content);
        if content.first().is_none_or(|first| first & 0x80 != 0) || digits.len() > 4 {
            return Err(BROKEN);
        }
        Ok(digits.iter().fold(0, |value, digit| value << 8 | u32::from(*digit)))
    }

    /// Nothing may be left.
    pub(super) fn finish(self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(BROKEN) }
    }
}

/// Tag, length of the header, and the length of the content; none if that is indefinite.
fn header(bytes: &[u8]) -> Result<(u8, usize, Option<usize>), Error> {
    let (&tag, &first) = (bytes.first().ok_or(BROKEN)?, bytes.get(1).ok_or(BROKEN)?);
    if tag & 0x1f == 0x1f {
        return Err(BROKEN);
    }
    match first {
        0..=0x7f => Ok((tag, 2, Some(usize::from(first)))),
        0x80 => Ok((tag, 2, None)),
        0x81..=0x84 => {
            let count = usize::from(first - 0x80);
            let digits = bytes.get(2..2 + count).ok_or(BROKEN)?;
            let length = digits.iter().fold(0, |value: usize, digit| value << 8 | usize::from(*digit));
            Ok((tag, 2 + count, Some(length)))
        }
        _ => Err(BROKEN),
    }
}

/// The same elements with definite lengths throughout. Borrows where the outermost length is definite already, as it is in DER.
pub(super) fn definite(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    match header(bytes)? {
        (_, _, Some(_)) => Ok(Cow::Borrowed(bytes)),
        (_, _, None) => {
            let mut out = Vec::with_capacity(bytes.len());
            let rest = convert(bytes, &mut out, MAX_DEPTH)?;
            if rest.is_empty() { Ok(Cow::Owned(out)) } else { Err(BROKEN) }
        }
    }
}

/// Converts one element from the front of `bytes` onto `out`; returns what follows it.
fn convert<'a>(bytes: &'a [u8], out: &mut Vec<u8>, depth: usize) -> Result<&'a [u8], Error> {
    let (tag, head, length) = header(bytes)?;
    let body = bytes.get(head..).ok_or(BROKEN)?;
    let constructed = tag & 0x20 != 0;
    let Some(depth) = depth.checked_sub(1) else { return Err(Error::TooLarge("nesting of the container")) };
    let mut content = Vec::new();
    let rest = match length {
        Some(length) if body.len() < length => return Err(BROKEN),
        Some(length) if !constructed => {
            let (own, rest) = body.split_at(length);
            content.extend_from_slice(own);
            rest
        }
        Some(length) => {
            let (mut own, rest) = body.split_at(length);
            while !own.is_empty() {
                own = convert(own, &mut content, depth)?;
            }
            rest
        }
        None if !constructed => return Err(BROKEN),
        None => {
            let mut rest = body;
            while !rest.starts_with(&[0, 0]) {
                rest = convert(rest, &mut content, depth)?;
            }
            rest.get(2..).ok_or(BROKEN)?
        }
    };
    if tag == OCTET_STRING | 0x20 {
        out.extend_from_slice(&element(OCTET_STRING, &joined(&content)?));
    } else {
        out.extend_from_slice(&element(tag, &content));
    }
    Ok(rest)
}

/// The octets of a series of OCTET STRING segments.
pub(super) fn joined(segments: &[u8]) -> Result<Vec<u8>, Error> {
    let mut reader = Reader::new(segments);
    let mut octets = Vec::new();
    while !reader.is_empty() {
        octets.extend_from_slice(reader.expect(OCTET_STRING)?);
    }
    Ok(octets)
}

/// One element with this content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let digits = length.to_be_bytes();
        let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
        out.push(0x80 | digits.len() as u8);
        out.extend_from_slice(digits);
    }
    out.extend_from_slice(content);
    out
}

/// A SEQUENCE of these elements.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// An unsigned INTEGER.
pub(super) fn integer(value: u32) -> Vec<u8> {
    let mut digits = vec![0];
    digits.extend_from_slice(&value.to_be_bytes());
    let needed = digits.windows(2).take_while(|pair| pair[0] == 0 && pair[1] & 0x80 == 0).count();
    element(INTEGER, &digits[needed..])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn integers_round_trip() {
        for (value, encoded) in [
            (0, &[2, 1, 0][..]),
            (1, &[2, 1, 1]),
            (127, &[2, 1, 127]),
            (128, &[2, 2, 0, 128]),
            (10_000, &[2, 2, 0x27, 0x10]),
            (u32::MAX, &[2, 5, 0, 255, 255, 255, 255]),
        ] {
            assert_eq!(integer(value), encoded, "{value}");
            assert_eq!(Reader::new(encoded).small_integer(), Ok(value));
        }
    }

    #[test]
    fn elements_round_trip_at_every_length_form() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let encoded = element(OCTET_STRING, &vec![7; length]);
            let mut reader = Reader::new(&encoded);
            assert_eq!(reader.expect(OCTET_STRING).unwrap().len(), length);
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn damaged_elements_are_rejected() {
        for bytes in [
            &[][..],
            &[4],
            &[4, 1],
            &[4, 0x81],
            &[4, 0x84, 255, 255, 255, 255],
            &[4, 0x85, 0, 0, 0, 0, 0],
            &[0x1f, 0x20, 0],
        ] {
            assert_eq!(Reader::new(bytes).any(), Err(BROKEN), "{bytes:?}");
        }
        assert_eq!(Reader::new(&[0x30, 0x80, 0, 0]).any(), Err(BROKEN), "an indefinite length is not DER");
    }

    #[test]
    fn indefinite_lengths_become_definite_and_segments_join() {
        let ber = [0x30, 0x80, 0x24, 0x80, 4, 1, b'a', 4, 2, b'b', b'c', 0, 0, 2, 1, 5, 0, 0];
        assert_eq!(&*definite(&ber).unwrap(), [0x30, 8, 4, 3, b'a', b'b', b'c', 2, 1, 5]);
        for cut in 0..ber.len() {
            let cut_short = definite(&ber[..cut]);
            assert!(cut_short.is_err(), "{cut}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = [0x30, 0x80].repeat(10_000);
        assert_eq!(definite(&deep), Err(Error::TooLarge("nesting of the container")));
    }
}
