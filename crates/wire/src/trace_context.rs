//! `traceparent` and `tracestate` (W3C Trace Context): which trace a request belongs to, and the span that sent it.

/// Longest `tracestate` that goes on, bytes (§3.3.1.5).
const MAX_STATE_BYTES: usize = 512;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// What `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The trace; not zero.
    pub trace_id: u128,
    /// The span that sent the request; not zero.
    pub span_id: u64,
    /// Whoever sent it records the trace.
    pub is_sampled: bool,
}

impl Parent {
    /// Reads the value of a `traceparent`; none if it is not one (§3.2.2). Of versions to come the known beginning is read.
    pub fn read(value: &[u8]) -> Option<Parent> {
        let (fields, rest) = value.split_at_checked(55)?;
        let [version, trace_id, span_id, flags] = [&fields[..2], &fields[3..35], &fields[36..52], &fields[53..]];
        if [2, 35, 52].iter().any(|at| fields[*at] != b'-') {
            return None;
        }
        let version = hexadecimal(version)?;
        let fits = if version == 0 { rest.is_empty() } else { matches!(rest.first(), None | Some(b'-')) };
        let (trace_id, flags) = (hexadecimal(trace_id)?, hexadecimal(flags)?);
        let span_id = u64::try_from(hexadecimal(span_id)?).ok()?;
        (fits && version != 0xff && trace_id != 0 && span_id != 0).then_some(Parent {
            trace_id,
            span_id,
            is_sampled: flags as u8 & SAMPLED != 0,
        })
    }

    /// The value of a `traceparent`.
    pub fn value(&self) -> [u8; 55] {
        let mut value = *b"00-00000000000000000000000000000000-0000000000000000-00";
        digits(&mut value[3..35], self.trace_id);
        digits(&mut value[36..52], u128::from(self.span_id));
        digits(&mut value[53..], u128::from(if self.is_sampled { SAMPLED } else { 0 }));
        value
    }
}

/// The values of `tracestate` as one; none if it may not go on (§3.3.1).
pub fn state<'v>(values: impl Iterator<Item = &'v [u8]>) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    for value in values.filter(|value| !value.is_empty()) {
        if !whole.is_empty() {
            whole.push(b',');
        }
        whole.extend_from_slice(value);
        if whole.len() > MAX_STATE_BYTES {
            return None;
        }
    }
    let is_clean = whole.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    (is_clean && !whole.is_empty()).then_some(whole)
}

/// A number as the hexadecimal digits that `out` has room for.
pub fn digits(out: &mut [u8], mut number: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for digit in out.iter_mut().rev() {
        *digit = DIGITS[(number & 15) as usize];
        number >>= 4;
    }
}

/// Digits in lower case alone.
fn hexadecimal(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0, |number: u128, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn parents_are_read_strictly() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = Parent::read(good.as_bytes()).unwrap();
        assert_eq!(
            (parent.trace_id, parent.span_id),
            (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331)
        );
        assert!(parent.is_sampled);
        assert_eq!(parent.value(), good.as_bytes());
        for (value, is_sampled) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", Some(false)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", Some(true)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what.comes", Some(true)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some(true)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.", None),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-", None),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g", None),
            ("00-0af7651916cd43dd8448eb211c80319c+b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", None),
            ("", None),
        ] {
            assert_eq!(Parent::read(value.as_bytes()).map(|parent| parent.is_sampled), is_sampled, "{value}");
        }
    }

    #[test]
    fn states_are_put_together_and_bounded() {
        let of = |values: &[&str]| state(values.iter().map(|value| value.as_bytes()));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["", ""]), None);
        assert_eq!(of(&["a=1", "", "b=2,c=3"]).unwrap(), b"a=1,b=2,c=3");
        assert_eq!(of(&["a=\u{7f}"]), None);
        assert!(of(&[&"a".repeat(512)]).is_some() && of(&[&"a".repeat(256), &"b".repeat(256)]).is_none());
    }
}
