//! Samples: shares in millionths, and whose turn it is.

/// One, in millionths.
pub(super) const ALL: u32 = 1_000_000;

/// Whether one of the share is taken.
pub(super) fn is_drawn(millionths: u32) -> bool {
    millionths >= ALL || fastrand::u32(..ALL) < millionths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_about_what_it_says() {
        assert!((0..1000).all(|_| is_drawn(ALL) && !is_drawn(0)));
        fastrand::seed(5);
        let drawn = (0..100_000).filter(|_| is_drawn(ALL / 4)).count();
        assert!((24_000..26_000).contains(&drawn), "{drawn}");
    }
}
