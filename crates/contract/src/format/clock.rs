//! Dates, times and durations: RFC 3339 §5.6 and appendix A.

/// `full-date "T" full-time`.
#[inline]
pub(super) fn is_date_time(text: &[u8]) -> bool {
    text.len() > 11 && matches!(text[10], b'T' | b't') && is_date(&text[..10]) && is_time(&text[11..])
}

/// `YYYY-MM-DD`, a day of the calendar.
#[inline]
pub(super) fn is_date(text: &[u8]) -> bool {
    let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text else { return false };
    let (Some(century), Some(year)) = (two(y0, y1), two(y2, y3)) else { return false };
    let (Some(month), Some(day)) = (two(m0, m1), two(d0, d1)) else { return false };
    let is_leap = year % 4 == 0 && (year != 0 || century % 4 == 0);
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
    if hour > 23 || minute > 59 || second > 60 {
        return false;
    }
    let mut rest = rest;
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
