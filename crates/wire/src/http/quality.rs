//! Lists with weights: Accept, Accept-Encoding (RFC 9110 §12.4.2, §12.5).
//!
//! Reads one field value, element by element, without a copy. An element that breaks the grammar is left out: nobody is given what they may not have
//! meant to ask for. What names mean is the caller's affair.

use super::octets::{TOKEN, span};

/// A weight of 1, in thousandths.
pub const FULL_WEIGHT: u16 = 1000;

/// The elements of a list: each name (a token, or two with a slash between them) with its weight in thousandths.
#[derive(Debug, Clone, Copy)]
pub struct Weighted<'a> {
    rest: Option<&'a [u8]>,
}

/// The elements of a field value.
pub fn weighted(value: &[u8]) -> Weighted<'_> {
    Weighted { rest: Some(value) }
}

impl<'a> Iterator for Weighted<'a> {
    type Item = (&'a [u8], u16);

    fn next(&mut self) -> Option<(&'a [u8], u16)> {
        loop {
            let rest = self.rest?;
            let (element, after) = cut(rest, b',');
            self.rest = after;
            if let Some(found) = read_element(element) {
                return Some(found);
            }
        }
    }
}

/// Cuts at the first separator outside of quoted strings (RFC 9110 §5.6.4).
fn cut(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == separator && !is_quoted => {
                let (before, after) = text.split_at(at);
                return (before, after.get(1..));
            }
            _ => {}
        }
    }
    (text, None)
}

/// A name, its parameters, and the weight among them.
fn read_element(element: &[u8]) -> Option<(&[u8], u16)> {
    let (name, mut rest) = cut(element, b';');
    let name = trim(name);
    if !is_name(name) {
        return None;
    }
    let mut weight = FULL_WEIGHT;
    while let Some(parameters) = rest {
        let (parameter, after) = cut(parameters, b';');
        rest = after;
        if let Some(value) = weight_of(trim(parameter)) {
            weight = read_weight(value)?;
        }
    }
    Some((name, weight))
}

/// A token, or a media range: two tokens with a slash between them.
fn is_name(name: &[u8]) -> bool {
    let token = |text: &[u8]| !text.is_empty() && span(text, TOKEN) == text.len();
    match memchr::memchr(b'/', name) {
        None => token(name),
        Some(at) => {
            let (kind, subtype) = name.split_at(at);
            token(kind) && subtype.get(1..).is_some_and(token)
        }
    }
}

/// What stands behind `q=`.
fn weight_of(parameter: &[u8]) -> Option<&[u8]> {
    parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))
}

/// `qvalue`: from 0 to 1 with at most three decimals.
fn read_weight(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (*whole, decimals),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0') * FULL_WEIGHT;
    let mut place = 100;
    for digit in decimals {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        weight += u16::from(digit) * place;
        place /= 10;
    }
    (weight <= FULL_WEIGHT).then_some(weight)
}

fn trim(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |at| at + 1);
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_weights() {
        for (value, expected) in [
            ("gzip, deflate, br, zstd", &[("gzip", 1000), ("deflate", 1000), ("br", 1000), ("zstd", 1000)][..]),
            ("gzip;q=1.0, *;q=0", &[("gzip", 1000), ("*", 0)]),
            (" br ; q=0.5 ,\tgzip;Q=0.123", &[("br", 500), ("gzip", 123)]),
            (
                "text/html,application/xml;q=0.9,*/*;q=0.8",
                &[("text/html", 1000), ("application/xml", 900), ("*/*", 800)],
            ),
            ("text/html;level=1;q=0.4", &[("text/html", 400)]),
            ("text/html;x=\"a,b;q=0\";q=0.7, text/plain", &[("text/html", 700), ("text/plain", 1000)]),
            ("a;x=\"\\\",\", b", &[("a", 1000), ("b", 1000)]),
            (",, ,gzip,", &[("gzip", 1000)]),
            ("", &[]),
            // What breaks the grammar is left out, and nothing else.
            ("gzip;q=1.001, br;q=2, x;q=0.1234, y;q=, z;q=-1, a b, ü, ok;q=1.000", &[("ok", 1000)]),
            ("/html, text/, text/html/x, text/html", &[("text/html", 1000)]),
            ("a;x=\"open, b", &[("a", 1000)]),
        ] {
            let got: Vec<_> = weighted(value.as_bytes())
                .map(|(name, weight)| (std::str::from_utf8(name).unwrap_or_default(), weight))
                .collect();
            assert_eq!(got, expected, "{value}");
        }
    }
}
