//! How long a connection to a server may rest: what the server announces of it (`Keep-Alive: timeout=N, max=M`, RFC 2068 §19.7.1), and what it may be used for
//! then.

use std::time::Duration;

/// How long a connection is kept for further requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// At most so long.
    pub keep: Duration,
    /// The server says that it keeps it longer than that.
    pub is_announced: bool,
}

/// What a request asks of a connection that has rested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// Nothing was received while it rested. If the server closes it in that moment, the request is sent again.
    Usual,
    /// The kernel is asked, too: an end may have arrived that the worker has not been reported yet.
    Asked,
    /// As [`Care::Asked`], and the server has no reason to close it: it was used a moment ago, or the server says how long it keeps it. For requests that
    /// are not sent again.
    Unrepeatable,
}

/// A rest after which a server may close a connection that it said nothing about.
pub const MOMENT: Duration = Duration::from_secs(1);

impl Rest {
    /// After a response with these `Keep-Alive` fields; `keep` is what the configuration allows. None if the server takes no further request.
    pub fn after<'f>(keep: Duration, fields: impl Iterator<Item = &'f [u8]>) -> Option<Rest> {
        let mut rest = Rest { keep, is_announced: false };
        for parameter in fields.flat_map(|field| field.split(|byte| *byte == b',')) {
            let mut words = parameter.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            let (Some(name), Some(value)) = (words.next(), words.next().and_then(number)) else { continue };
            if name.eq_ignore_ascii_case(b"timeout") {
                rest = Rest { keep: rest.keep.min(usable(Duration::from_secs(value))), is_announced: true };
            } else if name.eq_ignore_ascii_case(b"max") && value == 0 {
                return None;
            }
        }
        (!rest.keep.is_zero()).then_some(rest)
    }
}

/// What of a time that a server announces is used: it began to count before its response was here, and a request takes its way.
fn usable(announced: Duration) -> Duration {
    announced.saturating_sub(MOMENT).max(announced.min(MOMENT) / 2)
}

/// A whole number, as far as it is of use.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    let is_number = (1..=18).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_announces_bounds_how_long_its_connection_is_kept() {
        for (fields, expected) in [
            (&[][..], Some((30_000, false))),
            (&["timeout=5"], Some((4_000, true))),
            (&["timeout=5, max=100"], Some((4_000, true))),
            (&["max=100", "Timeout = \"7\""], Some((6_000, true))),
            (&["timeout=2"], Some((1_000, true))),
            (&["timeout=1"], Some((500, true))),
            (&["timeout=0"], None),
            (&["timeout=5, max=0"], None),
            (&["timeout=60"], Some((30_000, true))),
            (&["timeout=60, timeout=3"], Some((2_000, true))),
            (&["timeout=999999999999999999"], Some((30_000, true))),
            // What says nothing is as if it were not there.
            (&["5"], Some((30_000, false))),
            (&["timeout=-1", "timeout=x", "timeout", "max=", "x=0", ",,="], Some((30_000, false))),
            (&["timeout=99999999999999999999999"], Some((30_000, false))),
        ] {
            let rest = Rest::after(Duration::from_secs(30), fields.iter().map(|field| field.as_bytes()));
            let expected =
                expected.map(|(millis, is_announced)| Rest { keep: Duration::from_millis(millis), is_announced });
            assert_eq!(rest, expected, "{fields:?}");
        }
    }
}
