//! Exact decimal numbers: comparison, multiples, equality. No floats, no rounding; work is linear in the digits.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The value of a number in JSON's grammar: `0.d₁d₂d₃… × 10^point`, with neither leading nor trailing zeros among the digits.
#[derive(Clone, Copy, Debug)]
pub struct Decimal<'a> {
    is_negative: bool,
    /// Digits before the point, then behind it; only the outer zeros of both together are gone.
    whole: &'a [u8],
    fraction: &'a [u8],
    point: i64,
}

impl<'a> Decimal<'a> {
    /// Reads text that is a number by JSON's grammar; what it makes of other text is of no use, but it does not panic.
    pub fn new(text: &'a [u8]) -> Self {
        let is_negative = text.first() == Some(&b'-');
        let text = &text[usize::from(is_negative)..];
        let mantissa_end = memchr::memchr2(b'e', b'E', text).unwrap_or(text.len());
        let exponent = text.get(mantissa_end + 1..).map_or(0, exponent);
        let mantissa = &text[..mantissa_end];
        let (whole, fraction) = match memchr::memchr(b'.', mantissa) {
            Some(point) => (&mantissa[..point], &mantissa[point + 1..]),
            None => (mantissa, &mantissa[..0]),
        };
        Self::trimmed(is_negative, whole, fraction, exponent)
    }

    fn trimmed(is_negative: bool, whole: &'a [u8], fraction: &'a [u8], exponent: i64) -> Self {
        let fraction = &fraction[..fraction.len() - trailing_zeros(fraction)];
        let whole = &whole[leading_zeros(whole)..];
        let mut point = exponent.saturating_add(whole.len() as i64);
        let mut decimal = Self { is_negative, whole, fraction, point };
        if fraction.is_empty() {
            decimal.whole = &whole[..whole.len() - trailing_zeros(whole)];
        }
        if whole.is_empty() {
            let zeros = leading_zeros(fraction);
            decimal.fraction = &fraction[zeros..];
            point = point.saturating_sub(zeros as i64);
        }
        decimal.point = point;
        if decimal.is_zero() {
            decimal = Self { is_negative: false, whole: b"", fraction: b"", point: 0 };
        }
        decimal
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    /// Whether it has no fractional part, however it was written: `1.0` and `10e-1` have none.
    pub fn is_integer(&self) -> bool {
        self.digit_count() <= self.point
    }

    /// Its value, if it is an integer that fits.
    pub fn to_i128(self) -> Option<i128> {
        if !self.is_integer() || self.point > 39 {
            return None;
        }
        let zeros = usize::try_from(self.point - self.digit_count()).ok()?;
        let digits = self.digits().chain(std::iter::repeat_n(b'0', zeros));
        // Negative all along, because that range is the larger one.
        let value = digits
            .into_iter()
            .try_fold(0i128, |value, digit| value.checked_mul(10)?.checked_sub(i128::from(digit - b'0')))?;
        if self.is_negative { Some(value) } else { value.checked_neg() }
    }

    /// Whether it is `divisor` times an integer. `divisor` must not be 0.
    pub fn is_multiple_of(&self, divisor: &Divisor) -> bool {
        if self.is_zero() {
            return true;
        }
        // self = n × 10^scale and divisor = d × 10^divisor.scale, n not ending in 0.
        let scale = self.point - self.digit_count();
        let zeros = scale - divisor.scale;
        if zeros < 0 {
            // Then d × 10^-zeros would have to divide n, which 10 does not.
            return false;
        }
        // n × 10^zeros is a multiple of d if n is one of what is left of d without as many twos and fives.
        let rest = divisor.without(zeros);
        self.digits().fold(0u128, |sum, digit| (sum * 10 + u128::from(digit - b'0')) % rest) == 0
    }

    fn digits(&self) -> impl Iterator<Item = u8> + 'a {
        self.whole.iter().chain(self.fraction).copied()
    }

    fn digit_count(&self) -> i64 {
        (self.whole.len() + self.fraction.len()) as i64
    }

    fn compare_magnitude(&self, other: &Decimal<'_>) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        self.point.cmp(&other.point).then_with(|| self.digits().cmp(other.digits()))
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal<'_> {}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
        }
    }
}

impl Hash for Decimal<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_negative.hash(state);
        self.point.hash(state);
        self.digits().for_each(|digit| state.write_u8(digit));
    }
}

/// Zeros, and digits behind the point, with which a divisor is written out.
const MAX_PLACES: usize = 36;

/// What `multipleOf` asks for: `digits × 10^scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divisor {
    digits: u128,
    scale: i64,
}

impl Divisor {
    /// Its digits without that many factors of two and of five, or all there are.
    fn without(&self, count: i64) -> u128 {
        let twos = count.min(i64::from(self.digits.trailing_zeros()));
        let mut rest = self.digits >> twos;
        for _ in 0..count {
            if !rest.is_multiple_of(5) {
                break;
            }
            rest /= 5;
        }
        rest
    }

    /// `None` unless the number is greater than 0 and has at most 36 digits.
    pub fn new(text: &str) -> Option<Self> {
        let decimal = Decimal::new(text.as_bytes());
        if decimal.is_zero() || decimal.is_negative || decimal.digit_count() > 36 {
            return None;
        }
        let digits = decimal.digits().fold(0, |value, digit| value * 10 + u128::from(digit - b'0'));
        Some(Self { digits, scale: decimal.point - decimal.digit_count() })
    }
}

impl fmt::Display for Divisor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(places) = usize::try_from(self.scale.unsigned_abs()).ok().filter(|places| *places <= MAX_PLACES)
        else {
            return write!(out, "{}e{}", self.digits, self.scale);
        };
        if self.scale >= 0 {
            return write!(out, "{}{:0<places$}", self.digits, "");
        }
        let digits = format!("{:0>width$}", self.digits, width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        write!(out, "{whole}.{fraction}")
    }
}

fn exponent(text: &[u8]) -> i64 {
    let is_negative = text.first() == Some(&b'-');
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    // Far beyond any limit, and far from where sums with lengths would overflow.
    let value = digits.fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(i64::MAX / 100));
    if is_negative { -value } else { value }
}

fn leading_zeros(digits: &[u8]) -> usize {
    digits.iter().take_while(|&&digit| digit == b'0').count()
}

fn trailing_zeros(digits: &[u8]) -> usize {
    digits.iter().rev().take_while(|&&digit| digit == b'0').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal<'_> {
        Decimal::new(text.as_bytes())
    }

    #[test]
    fn numbers_compare_by_value() {
        let ascending = [
            "-1e400",
            "-10",
            "-9.99",
            "-1.5",
            "-1",
            "-0.1",
            "-1e-400",
            "0",
            "1e-400",
            "0.09",
            "0.1",
            "0.11",
            "1",
            "1.5",
            "2",
            "9.99",
            "10",
            "99",
            "100",
            "9007199254740992",
            "9007199254740993",
            "9007199254740993.0000001",
            "1e400",
        ];
        for (left, a) in ascending.iter().enumerate() {
            for (right, b) in ascending.iter().enumerate() {
                assert_eq!(decimal(a).cmp(&decimal(b)), left.cmp(&right), "{a} {b}");
            }
        }
    }

    #[test]
    fn one_value_has_many_spellings() {
        let groups = [
            vec!["0", "-0", "0.0", "0e5", "-0.000e-10"],
            vec!["1", "1.0", "10e-1", "0.1e1", "0.01E+2", "100e-2"],
            vec!["120", "1.2e2", "12e1", "120.000"],
            vec!["-0.05", "-5e-2", "-0.5e-1"],
        ];
        for group in &groups {
            assert!(group.iter().all(|text| decimal(text) == decimal(group[0])), "{group:?}");
        }
        let is_integer = |text: &&str| decimal(text).is_integer();
        assert!(groups[..3].iter().flatten().all(is_integer));
        assert!(!groups[3].iter().any(is_integer));
    }

    #[test]
    fn integers_are_exact() {
        let rows = [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("1e3", Some(1000)),
            ("12.50e1", Some(125)),
            ("170141183460469231731687303715884105727", Some(i128::MAX)),
            ("-170141183460469231731687303715884105728", Some(i128::MIN)),
            ("170141183460469231731687303715884105728", None),
            ("0.5", None),
            ("1e40", None),
        ];
        for (text, expected) in rows {
            assert_eq!(decimal(text).to_i128(), expected, "{text}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        let rows = [
            ("0", "3", true),
            ("9", "3", true),
            ("10", "3", false),
            ("0.0075", "0.0001", true),
            ("0.00751", "0.0001", false),
            ("1e308", "0.5", true),
            ("1e400", "7", false),
            ("4.35", "0.01", true),
            ("1.1", "0.1", true),
            ("-4.5", "1.5", true),
            ("12391239123", "1e-8", true),
            ("3", "2e1", false),
            ("40", "2e1", true),
        ];
        for (value, divisor, expected) in rows {
            assert_eq!(decimal(value).is_multiple_of(&Divisor::new(divisor).unwrap()), expected, "{value} / {divisor}");
        }
        let texts = [
            ("3", "3"),
            ("2.50e3", "2500"),
            ("0.25", "0.25"),
            ("1e-8", "0.00000001"),
            ("12.5", "12.5"),
            ("1e40", "1e40"),
        ];
        for (written, shown) in texts {
            assert_eq!(Divisor::new(written).unwrap().to_string(), shown);
        }
        assert_eq!(Divisor::new("0"), None);
        assert_eq!(Divisor::new("-1"), None);
    }

    #[test]
    fn a_million_digits_are_read_once() {
        let text = format!("1{}.5e-3", "0".repeat(1_000_000));
        assert!(decimal(&text) > decimal("1e999990"));
        assert!(!decimal(&text).is_multiple_of(&Divisor::new("0.01").unwrap()));
        assert!(decimal(&text).is_multiple_of(&Divisor::new("0.0005").unwrap()));
    }
}
