//! Dates for people.

use std::time::SystemTime;

const DAY: u64 = 86_400;

/// The day in UTC as `YYYY-MM-DD`.
pub fn date(time: SystemTime) -> String {
    let days = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs() / DAY).unwrap_or(i64::MAX / 4),
        Err(before) => -i64::try_from(before.duration().as_secs().div_ceil(DAY)).unwrap_or(i64::MAX / 4),
    };
    // Days are counted from 0000-03-01, so that the leap day ends the year, in eras of 400 years of 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Whole days from `now` until `time`, rounded down; negative if it has passed.
pub fn days_until(time: SystemTime, now: SystemTime) -> i64 {
    match time.duration_since(now) {
        Ok(left) => i64::try_from(left.as_secs() / DAY).unwrap_or(i64::MAX),
        Err(passed) => -i64::try_from(passed.duration().as_secs().div_ceil(DAY)).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_have_their_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_689_599, "2024-12-31"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
        ] {
            assert_eq!(date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
        assert_eq!(date(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1969-12-31");
        assert_eq!(date(SystemTime::UNIX_EPOCH - Duration::from_secs(DAY)), "1969-12-31");
    }

    #[test]
    fn days_are_counted_both_ways() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 * DAY);
        assert_eq!(days_until(now + Duration::from_secs(DAY * 3 + 1), now), 3);
        assert_eq!(days_until(now + Duration::from_secs(DAY - 1), now), 0);
        assert_eq!(days_until(now - Duration::from_secs(1), now), -1);
        assert_eq!(days_until(now - Duration::from_secs(DAY), now), -1);
    }
}
