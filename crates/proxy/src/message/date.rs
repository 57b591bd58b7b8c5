//! The time of a response in its Date field (RFC 9110 §6.6.1), written once a second on each thread.

use std::cell::Cell;
use std::io::Write as _;

use telemetry::civil;

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
type Text = [u8; 29];

thread_local! {
    /// A second since 1970, and its text.
    static LATEST: Cell<(u64, Text)> = const { Cell::new((u64::MAX, [b' '; 29])) };
}

/// Now.
pub(crate) fn now() -> Text {
    let second = net::clock::wall_seconds();
    LATEST.with(|latest| {
        let (known, text) = latest.get();
        if known == second {
            return text;
        }
        let text = write(second);
        latest.set((second, text));
        text
    })
}

fn write(second: u64) -> Text {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (day, of_day) = (second / 86_400, second % 86_400);
    let (year, month, day_of_month) = civil(day);
    let name = |names: &[&'static str], at: u64| usize::try_from(at).ok().and_then(|at| names.get(at).copied());
    let (weekday, month) = (name(&DAYS, day % 7).unwrap_or("Thu"), name(&MONTHS, month - 1).unwrap_or("Jan"));
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let mut text = [b' '; 29];
    // A year of five digits does not fit and is cut; nothing else can be too long.
    let _ = write!(
        text.as_mut_slice(),
        "{weekday}, {day_of_month:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_standard() {
        for (second, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&write(second)), Ok(expected));
        }
    }

    #[test]
    fn now_is_written_alike_twice_in_a_second() {
        let (first, second) = (now(), now());
        assert!(first.ends_with(b" GMT") && second.ends_with(b" GMT"));
    }
}
