//! Dates, times and durations: RFC 3339 §5.6 and appendix A.

/// `full-date "T" full-time`.
#[inline]
pub(super) fn is_date_time(text: &[u8]) -> bool {
    let Some((date_and_hour, rest)) = text.split_first_chunk::<16>() else { return false };
    let Some((&[b':', s0, s1], rest)) = rest.split_first_chunk::<3>() else { return false };
    let (date, hour) = date_and_hour.split_at(8);
    // Both cases of the letter differ in one bit.
    let (date, hour) = (figures(date, *b"0000-00-", 0), figures(hour, *b"00t00:00", 0x20_0000));
    let (Some([y0, y1, y2, y3, _, m0, m1, _]), Some([d0, d1, _, h0, h1, _, n0, n1])) = (date, hour) else {
        return false;
    };
    let ten = |tens: u8, ones: u8| tens * 10 + ones;
    let Some(second) = two(s0, s1) else { return false };
    is_day(ten(y0, y1), ten(y2, y3), ten(m0, m1), ten(d0, d1)) && is_moment(ten(h0, h1), ten(n0, n1), second, rest)
}

/// The digits of eight bytes that follow a form: `0` for a digit, and other characters for themselves, in whose places 0 is given. The bits of `set`
/// are set before they are compared; the first byte is the lowest.
#[inline]
fn figures(text: &[u8], form: [u8; 8], set: u64) -> Option<[u8; 8]> {
    const DIGITS: u64 = 0x3030_3030_3030_3030;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(*text.first_chunk::<8>()?) | set;
    let form = u64::from_le_bytes(form);
    let found = word ^ form;
    // Each byte of it is 0 where the form has a digit, so that 9 may be found there, else 9.
    let fixed = form ^ DIGITS;
    let is_fixed = ((fixed & !HIGH).wrapping_add(!HIGH) | fixed) & HIGH;
    let beyond = found.wrapping_add(0x7676_7676_7676_7676) | found;
    let different = (found & !HIGH).wrapping_add(!HIGH) | found;
    let is_wrong = (beyond & HIGH) | (different & is_fixed);
    (is_wrong == 0).then_some(found.to_le_bytes())
}

/// `YYYY-MM-DD`, a day of the calendar.
#[inline]
pub(super) fn is_date(text: &[u8]) -> bool {
    let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text else { return false };
    let (Some(century), Some(year)) = (two(y0, y1), two(y2, y3)) else { return false };
    let (Some(month), Some(day)) = (two(m0, m1), two(d0, d1)) else { return false };
    is_day(century, year, month, day)
}

#[inline]
fn is_day(century: u8, year: u8, month: u8, day: u8) -> bool {
    let is_leap = year.is_multiple_of(4) && (year != 0 || century.is_multiple_of(4));
    let days = match month {
        2 => 28 + u8::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// `HH:MM:SS`, a fraction, and an offset. Second 60 is a leap second: only at 23:59 in UTC.
#[inline]
pub(super) fn is_time(text: &[u8]) -> bool {
    let Some((&[h0, h1, b':', m0, m1, b':', s0, s1], rest)) = text.split_first_chunk::<8>() else { return false };
    let (Some(hour), Some(minute), Some(second)) = (two(h0, h1), two(m0, m1), two(s0, s1)) else { return false };
    is_moment(hour, minute, second, rest)
}

#[inline]
fn is_moment(hour: u8, minute: u8, second: u8, mut rest: &[u8]) -> bool {
    if hour > 23 || minute > 59 || second > 60 {
        return false;
    }
    if let Some((b'.', fraction)) = rest.split_first() {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        rest = &fraction[digits..];
    }
    let Some(offset_minutes) = offset(rest) else { return false };
    let minutes_in_utc = i32::from(hour) * 60 + i32::from(minute) - offset_minutes;
    second < 60 || minutes_in_utc.rem_euclid(24 * 60) == 24 * 60 - 1
}

/// `Z` or `+HH:MM`, in minutes.
#[inline]
fn offset(text: &[u8]) -> Option<i32> {
    match *text {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h0, h1, b':', m0, m1] => {
            let (hour, minute) = (two(h0, h1)?, two(m0, m1)?);
            let minutes = i32::from(hour) * 60 + i32::from(minute);
            (hour < 24 && minute < 60).then_some(if sign == b'-' { -minutes } else { minutes })
        }
        _ => None,
    }
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<u8> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| tens * 10 + ones)
}

/// `P` with weeks, or with neighbouring units of a date and behind `T` of a time, at least one in all.
pub(super) fn is_duration(text: &[u8]) -> bool {
    let Some((b'P', rest)) = text.split_first() else { return false };
    let mut parts = rest.splitn(2, |&byte| byte == b'T');
    let date = parts.next().unwrap_or_default();
    match parts.next() {
        Some(time) => (date.is_empty() || is_units(date, b"YMD")) && is_units(time, b"HMS"),
        None => is_units(date, b"YMD") || is_units(date, b"W"),
    }
}

/// Whether a moment without offset would be one in UTC.
pub(super) fn with_offset(text: &[u8], is_moment: impl Fn(&[u8]) -> bool) -> bool {
    // More digits of a fraction than anybody writes.
    let mut room = [b'Z'; 64];
    let is_short = text.len() < room.len() && text.last().is_some_and(u8::is_ascii_digit);
    is_short && {
        room[..text.len()].copy_from_slice(text);
        is_moment(&room[..=text.len()])
    }
}

/// `PT1.5S`: a duration whose seconds have a fraction.
pub(super) fn is_fractional_duration(text: &[u8]) -> bool {
    let Some(rest) = text.strip_suffix(b"S") else { return false };
    let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(whole) = rest[..rest.len() - digits].strip_suffix(b".") else { return false };
    let mut room = [b'S'; 64];
    digits > 0 && whole.len() < room.len() && {
        room[..whole.len()].copy_from_slice(whole);
        is_duration(&room[..=whole.len()])
    }
}

/// Digits and a unit, once or more; the units are neighbours in `units`.
fn is_units(mut text: &[u8], units: &[u8]) -> bool {
    let mut allowed: Option<usize> = None;
    if text.is_empty() {
        return false;
    }
    while !text.is_empty() {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let place = text.get(digits).and_then(|unit| units.iter().position(|known| known == unit));
        let Some(place) = place.filter(|&place| digits > 0 && allowed.is_none_or(|allowed| place == allowed)) else {
            return false;
        };
        allowed = Some(place + 1);
        text = &text[digits + 1..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_time_is_a_date_and_a_time_whatever_byte_stands_where() {
        let parts = |text: &[u8]| is_date(&text[..10]) && matches!(text[10], b'T' | b't') && is_time(&text[11..]);
        let mut found = 0;
        for right in ["2024-02-29T23:59:60Z", "1999-12-31t00:00:00.5+01:00", "2000-10-09T19:30:41-00:30"] {
            for (at, byte) in (0..right.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut text = right.as_bytes().to_vec();
                text[at] = byte;
                assert_eq!(is_date_time(&text), parts(&text), "{}", String::from_utf8_lossy(&text));
                found += u32::from(is_date_time(&text));
            }
            assert!((0..right.len()).all(|end| !is_date_time(&right.as_bytes()[..end])));
        }
        assert!(found > 100, "{found}");
    }
}
