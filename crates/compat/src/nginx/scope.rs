//! What holds at a place of a configuration: the directives around it, level by level, by nginx's two rules of inheritance.

use super::syntax::Directive;

/// Levels around a place, the outermost first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope<'d> {
    levels: Vec<&'d [Directive]>,
}

impl<'d> Scope<'d> {
    pub(crate) fn new(level: &'d [Directive]) -> Scope<'d> {
        Scope { levels: vec![level] }
    }

    /// One level further in.
    pub(crate) fn within(&self, level: &'d [Directive]) -> Scope<'d> {
        let mut levels = self.levels.clone();
        levels.push(level);
        Scope { levels }
    }

    /// The innermost level.
    pub(crate) fn own(&self) -> &'d [Directive] {
        self.levels.last().copied().unwrap_or_default()
    }

    /// All levels, the outermost first.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &'d [Directive]> + '_ {
        self.levels.iter().copied()
    }

    /// A directive that is there once at each level: the innermost counts.
    pub(crate) fn one(&self, name: &str) -> Option<&'d Directive> {
        let mut levels = self.levels.iter().rev();
        levels.find_map(|level| level.iter().rev().find(|directive| directive.name == name))
    }

    /// Directives that add up: those of the innermost level that has any of them; none of further out.
    pub(crate) fn all(&self, names: &[&str]) -> Vec<&'d Directive> {
        let is_one = |directive: &&'d Directive| names.contains(&directive.name.as_str());
        let mut levels = self.levels.iter().rev().map(|level| level.iter().filter(is_one).collect::<Vec<_>>());
        levels.find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The first argument of a directive.
    pub(crate) fn word(&self, name: &str) -> Option<&'d str> {
        self.one(name).map(|directive| directive.arg(0))
    }

    /// A switch.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.word(name).is_some_and(|word| word.eq_ignore_ascii_case("on"))
    }
}

/// A size: `8k`, `10m`, `1g`, or bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (text.get(..at)?, 1 << 10),
        (at, 'm' | 'M') => (text.get(..at)?, 1 << 20),
        (at, 'g' | 'G') => (text.get(..at)?, 1 << 30),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(factor)
}

/// A number of digits alone.
pub(crate) fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// A time in milliseconds: `30s`, `1h 30m`, `500ms`, or seconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let value = number(rest.get(..digits)?)?;
        let behind = rest.get(digits..)?;
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let factor = match behind.get(..letters)? {
            "ms" => 1,
            "s" | "" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            "M" => 2_592_000_000,
            "y" => 31_536_000_000,
            _ => return None,
        };
        total = total.checked_add(value.checked_mul(factor)?)?;
        rest = behind.get(letters..)?.trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{bytes, duration};

    #[test]
    fn times_and_sizes() {
        for (text, expected) in [
            ("30", Some("30s")),
            ("1m", Some("1m")),
            ("1h 30m", Some("90m")),
            ("500ms", Some("500ms")),
            ("1d", Some("1d")),
            ("1h30s", Some("3630s")),
            ("", None),
            ("x", None),
            ("1x", None),
            ("-1", None),
        ] {
            assert_eq!(milliseconds(text).map(duration).as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("8k", Some("8KiB")),
            ("10m", Some("10MiB")),
            ("1G", Some("1GiB")),
            ("100", Some("100B")),
            ("0", Some("0B")),
            ("m", None),
            ("99999999999999g", None),
        ] {
            assert_eq!(size(text).map(bytes).as_deref(), expected, "{text}");
        }
    }
}
