//! Limits of policies: how often, how many at once, and what is counted apart.

use std::time::Duration;

use super::super::placeholders::claim_name;
use super::super::{Build, Fault, headers, read};
use super::cookie_name;
use crate::model::{BandwidthLimit, CertificateKey, ConcurrencyLimit, LimitKey, RateLimit, RateScope};
use crate::problem::shown;
use crate::table::{Setting, setting};
use crate::yaml::Node;

/// Time that is counted in, and so the shortest one between two requests.
const MICROSECOND: Duration = Duration::from_micros(1);
/// Largest rate of requests per second: beyond it, whole microseconds between two requests would be off by more than 5 %.
const MAX_RATE: u64 = 100_000;
/// Longest time that a burst may stand for.
const MAX_BURST_TIME: Duration = Duration::from_secs(24 * 3_600);
/// Longest time that a burst of bytes may stand for.
const MAX_BURST_OF_BYTES: Duration = Duration::from_secs(3_600);
/// Least burst of bytes unless one is given: what goes in one piece.
const LEAST_BURST_BYTES: u64 = 16 * 1024;
/// Most values of a limit that nodes share: what has changed among them is looked for several times a second.
const MAX_SHARED_KEYS: usize = 1_048_576;
/// Most parts of what a limit counts apart.
const MAX_KEY_PARTS: usize = 4;
/// The limits of a policy, each with a `key`.
pub(super) const LIMITS: [&str; 3] = ["rate_limit", "concurrency_limit", "bandwidth_limit"];

impl Build<'_> {
    pub(super) fn rate_limit(&mut self, node: &Node) -> Option<RateLimit> {
        let interval = self.parsed(node, "rate", rate)?;
        let per_second = Duration::from_secs(1).as_nanos() / interval.as_nanos().max(1);
        let burst = read::int(node, "burst").unwrap_or_else(|| u32::try_from(per_second).unwrap_or(u32::MAX).max(1));
        if interval.saturating_mul(burst) > MAX_BURST_TIME {
            let at = node.get("burst").or_else(|| node.get("rate")).map_or(node.span, |node| node.span);
            let what = format!("a burst of {burst} takes more than a day to refill at this rate");
            self.problems.add(at, what, "lower `burst`, or raise `rate`");
        }
        let (max_keys, scope) = (setting(node, "max_keys"), setting(node, "scope"));
        if scope == RateScope::Fleet && max_keys > MAX_SHARED_KEYS {
            let at = node.get("max_keys").map_or(node.span, |node| node.span);
            let what = format!("more than {MAX_SHARED_KEYS} values cannot be shared by nodes");
            self.problems.add(at, what, format!("write `{MAX_SHARED_KEYS}` or less, or `scope: node`"));
        }
        Some(RateLimit { interval, burst, key: self.limit_keys(node.get("key")?)?, max_keys, scope })
    }

    pub(super) fn concurrency_limit(&mut self, node: &Node) -> Option<ConcurrencyLimit> {
        Some(ConcurrencyLimit {
            max_in_flight: read::int(node, "max_in_flight")?,
            key: self.limit_keys(node.get("key")?)?,
            max_keys: setting(node, "max_keys"),
        })
    }

    pub(super) fn bandwidth_limit(&mut self, node: &Node) -> Option<BandwidthLimit> {
        let (download, upload) = (read::size(node, "download"), read::size(node, "upload"));
        let slowest = download.into_iter().chain(upload).min();
        let Some(slowest) = slowest else {
            if node.entry("download").is_none() && node.entry("upload").is_none() {
                let fix = "add `download` or `upload`: `download: 1MiB` is that many bytes per second to the client";
                self.problems.add(node.span, "`bandwidth_limit` limits neither direction", fix);
            }
            return None;
        };
        let burst = read::size(node, "burst").unwrap_or_else(|| (slowest / 10).max(LEAST_BURST_BYTES));
        // None at all is reported as such.
        if burst / slowest.max(1) >= MAX_BURST_OF_BYTES.as_secs() {
            let at = node.get("burst").map_or(node.span, |node| node.span);
            let what = "`burst` takes more than an hour to pass at this rate, so there is hardly a limit";
            self.problems.add(at, what, "lower `burst`, or raise the rate");
        }
        let key = node.get("key")?;
        let is_connection = |item: &Node| item.text() == Some("connection");
        let key = match key.one_or_many() {
            [only] if is_connection(only) => None,
            items => {
                if let Some(item) = items.iter().find(|item| is_connection(item)) {
                    self.problems.add(item.span, "`connection` beside other parts", "keep one of them");
                    return None;
                }
                Some(self.limit_keys(key)?)
            }
        };
        Some(BandwidthLimit { download, upload, burst, key, max_keys: setting(node, "max_keys") })
    }

    /// What a limit counts apart; none if a part of it could not be read.
    fn limit_keys(&mut self, node: &Node) -> Option<Vec<LimitKey>> {
        let items = node.one_or_many();
        if items.is_empty() || items.len() > MAX_KEY_PARTS {
            let what = format!("`key` has {} parts", items.len());
            self.problems.add(node.span, what, format!("write 1 to {MAX_KEY_PARTS}, or `all`"));
            return None;
        }
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            let key = match item.text() {
                Some("all") if items.len() == 1 => return Some(keys),
                Some("all") => {
                    self.problems.add(item.span, "`all` beside other parts", "keep one of them");
                    return None;
                }
                Some("route") => LimitKey::Route,
                Some(_) => LimitKey::Client,
                None => self.limit_key(item)?,
            };
            if keys.contains(&key) {
                self.problems.add(item.span, "this is in `key` twice", "remove one of the two");
                return None;
            }
            keys.push(key);
        }
        Some(keys)
    }

    fn limit_key(&mut self, node: &Node) -> Option<LimitKey> {
        let header = self.parsed(node, "header", headers::field_name).map(LimitKey::Header);
        let cookie = self.parsed(node, "cookie", cookie_name).map(LimitKey::Cookie);
        let claim = self.parsed(node, "claim", claim_name).map(LimitKey::Claim);
        let certificate = node.get("certificate").and_then(CertificateKey::of).map(LimitKey::Certificate);
        header.or(cookie).or(claim).or(certificate)
    }
}

/// `N/s`, `N/m` or `N/h` as the time between two requests, in whole microseconds.
fn rate(text: &str) -> Result<Duration, Fault> {
    let parse = || {
        let (count, unit) = text.split_once('/')?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            _ => return None,
        };
        let count: u64 = count.parse().ok().filter(|count| *count > 0)?;
        Some((count, seconds))
    };
    let Some((count, seconds)) = parse() else {
        return Err(Fault::new(
            format!("{} is not a rate", shown(text)),
            "write requests per second, minute or hour: `100/s`, `30/m`, `500/h`",
        ));
    };
    if count / seconds > MAX_RATE {
        return Err(Fault::new(
            format!("{} is more than {MAX_RATE} requests per second", shown(text)),
            format!("write `{MAX_RATE}/s` or less"),
        ));
    }
    let micros = (seconds * 1_000_000 + count / 2) / count;
    Ok(MICROSECOND.saturating_mul(u32::try_from(micros).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rates() {
        for (text, micros) in [
            ("1/s", 1_000_000),
            ("100/s", 10_000),
            ("3/s", 333_333),
            ("30/m", 2_000_000),
            ("500/h", 7_200_000),
            ("100000/s", 10),
        ] {
            assert_eq!(rate(text).unwrap().as_micros(), micros, "{text}");
        }
        for text in ["", "100", "0/s", "-1/s", "1/d", "1.5/s", "100001/s", "1/s ", "99999999999999999999/s", "100/"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
