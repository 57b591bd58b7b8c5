//! Durations in the files of programs that are written in Go: `1h10m`, `1.5s`. Pure text.

/// A duration as Go writes it, in whole milliseconds; what is shorter than one and not zero is one.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let factor = match unit {
            "ns" => 1e-6,
            "us" | "µs" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 60e3,
            "h" => 3_600e3,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    if text.is_empty() || total > 1e12 {
        return None;
    }
    Some(if total > 0.0 { (total as u64).max(1) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("5s", Some(5_000)),
            ("1h10m", Some(4_200_000)),
            ("1.5s", Some(1_500)),
            ("200ms", Some(200)),
            ("10us", Some(1)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("5", None),
            ("", None),
            ("5x", None),
            ("-5s", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text:?}");
        }
    }
}
