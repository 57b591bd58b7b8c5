//! How names and values of parameters are written: percent-escapes, pairs of cookies, brackets of `deepObject`. Knows no schema.

/// Appends `bytes` with percent escapes resolved (and `+` as a space, if `plus`); false if an escape is broken.
pub(crate) fn unescape(bytes: &[u8], plus: bool, out: &mut Vec<u8>) -> bool {
    let mut rest = bytes;
    loop {
        let plain = if plus { memchr::memchr2(b'%', b'+', rest) } else { memchr::memchr(b'%', rest) };
        let (before, from) = rest.split_at(plain.unwrap_or(rest.len()));
        out.extend_from_slice(before);
        let Some((&byte, after)) = from.split_first() else { return true };
        rest = after;
        match byte {
            b'%' => {
                let Some(value) = after.get(..2).and_then(hex_pair) else { return false };
                out.push(value);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => out.push(b' '),
        }
    }
}

/// The pairs of a Cookie field (RFC 6265 §4.2.1). A part without `=` has an empty name, so that nothing takes it for a declared cookie.
pub(crate) fn cookie_pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()).map(|pair| {
        match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                (pair.get(..at).unwrap_or_default().trim_ascii(), pair.get(at + 1..).unwrap_or_default().trim_ascii())
            }
            None => (Default::default(), pair),
        }
    })
}

/// What follows the parameter's name if `name` is one of its brackets: `[a][b]`.
pub(crate) fn brackets_of<'p>(name: &'p [u8], parameter: &[u8]) -> Option<&'p [u8]> {
    name.strip_prefix(parameter).filter(|rest| rest.starts_with(b"["))
}

fn hex_pair(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_split_into_pairs() {
        let pairs: Vec<_> = cookie_pairs(b" a=1; b = 2;;c; d=x=y ").collect();
        let expected: Vec<(&[u8], &[u8])> = vec![(b"a", b"1"), (b"b", b"2"), (b"", b"c"), (b"d", b"x=y")];
        assert_eq!(pairs, expected);
    }
}
