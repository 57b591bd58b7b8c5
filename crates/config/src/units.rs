//! Durations and sizes as people write them: `30s`, `100ms`, `64KiB`.
//!
//! Texts to numbers and back, nothing else.

use std::time::Duration;

/// Units of a duration, in milliseconds.
const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Units of a size, in bytes. `kB` and `KB` are both in use for 1000.
const SIZES: [(&str, u64); 10] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A regular expression for [`duration`], for the JSON Schema.
pub(crate) const DURATION_PATTERN: &str = "^[0-9]{1,15}(ms|s|m|h|d)$";
/// A regular expression for [`size`] as text, for the JSON Schema.
pub(crate) const SIZE_PATTERN: &str = "^[0-9]{1,15}(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$";

/// Reads `30s`: a whole number and one of `ms`, `s`, `m`, `h`, `d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    scaled(text, &DURATIONS).map(Duration::from_millis)
}

/// Reads `64KiB`, `10MB` or plain bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    whole(text).or_else(|| scaled(text, &SIZES))
}

/// Reads a whole number: digits only, no sign, no superfluous zero.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let superfluous = text.len() > 1 && text.starts_with('0');
    (text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit()) && !superfluous).then(|| text.parse().ok())?
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(split)?;
    if number.is_empty() || number.len() > 15 {
        return None;
    }
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// What a duration that could not be read was probably meant to be.
pub(crate) fn duration_guess(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase().replace(' ', "");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split)?;
    let unit = match unit {
        "" | "sec" | "secs" | "second" | "seconds" => "s",
        "msec" | "millis" | "milliseconds" => "ms",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        other => other,
    };
    let guess = format!("{number}{unit}");
    duration(&guess).map(|_| guess)
}

/// What a size that could not be read was probably meant to be.
pub(crate) fn size_guess(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase().replace([' ', '_'], "");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split)?;
    let unit = match unit {
        "" | "b" | "byte" | "bytes" => "",
        "k" | "kib" => "KiB",
        "m" | "mib" => "MiB",
        "g" | "gib" => "GiB",
        "kb" => "KB",
        "mb" => "MB",
        "gb" => "GB",
        other => other,
    };
    let guess = format!("{number}{unit}");
    size(&guess).map(|_| guess)
}

/// A duration as a person would write it.
pub(crate) fn duration_text(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (unit, factor) =
        DURATIONS.iter().rev().find(|(_, factor)| millis > 0 && millis % factor == 0).unwrap_or(&DURATIONS[1]);
    format!("{}{unit}", millis / factor)
}

/// A size as a person would write it.
pub(crate) fn size_text(bytes: u64) -> String {
    let binary = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match binary.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check =
            |text: &str, millis: Option<u64>| assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        check("30s", Some(30_000));
        check("5m", Some(300_000));
        check("100ms", Some(100));
        check("2h", Some(7_200_000));
        check("1d", Some(86_400_000));
        check("0s", Some(0));
        for wrong in
            ["", "s", "30", "30 s", "-1s", "+1s", "1.5s", "1h30m", "30S", "9999999999999999s", "999999999999999d", "٣s"]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn sizes() {
        let check = |text: &str, bytes: Option<u64>| assert_eq!(size(text), bytes, "{text}");
        check("0", Some(0));
        check("1024", Some(1024));
        check("64KiB", Some(65_536));
        check("10MB", Some(10_000_000));
        check("1kB", Some(1_000));
        check("1GiB", Some(1 << 30));
        for wrong in [
            "",
            "KiB",
            "1k",
            "1M",
            "1 MiB",
            "1mb",
            "-1",
            "007",
            "1.5MiB",
            "999999999999999TiB",
            "99999999999999999999999",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn guesses_are_valid() {
        for (text, guess) in [("30", "30s"), ("5 min", "5m"), ("10 seconds", "10s"), ("1H", "1h")] {
            assert_eq!(duration_guess(text).as_deref(), Some(guess));
        }
        for (text, guess) in [("10m", "10MiB"), ("64 kib", "64KiB"), ("5mb", "5MB"), ("1_000", "1000")] {
            assert_eq!(size_guess(text).as_deref(), Some(guess));
        }
        assert_eq!(duration_guess("soon"), None);
        assert_eq!(size_guess("huge"), None);
    }

    #[test]
    fn texts_read_back() {
        for millis in [1, 100, 1_000, 90_000, 3_600_000, 86_400_000, 86_401_000] {
            let written = duration_text(Duration::from_millis(millis));
            assert_eq!(duration(&written), Some(Duration::from_millis(millis)), "{written}");
        }
        assert_eq!(duration_text(Duration::ZERO), "0s");
        assert_eq!((size_text(65_536).as_str(), size_text(100).as_str()), ("64KiB", "100 bytes"));
    }
}
