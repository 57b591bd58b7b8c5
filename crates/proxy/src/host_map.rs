//! What a host pattern means, for everything that is chosen by host: routes, contracts, TLS settings of names, rules of tunnels.
//!
//! `example.com` is that name. `*.example.com` is every name below it, with one or more labels before `.example.com`, and not `example.com` itself.
//! The exact name goes first, then the longest wildcard. There is one meaning, so that what is demanded of a name cannot be left out by a name that
//! another part of the program takes for the same. Certificates are no patterns: their wildcards stand for one label (RFC 9525 §6.3), and
//! `identity.rs` looks them up.

use config::HostPattern;

use crate::configured_map::ConfiguredMap;

/// Longest name a host can have (RFC 1035 §2.3.4), bytes. Longer ones are no host of ours, and not worth a walk over their labels.
const MAX_HOST_BYTES: usize = 253;

/// Values by host pattern. Hosts are given in lower case, as A-labels, without port; one final dot is ignored.
#[derive(Debug)]
pub struct HostMap<T> {
    exact: ConfiguredMap<Box<[u8]>, T>,
    /// Keyed by what follows `*.`.
    wildcard: ConfiguredMap<Box<[u8]>, T>,
}

impl<T> Default for HostMap<T> {
    fn default() -> HostMap<T> {
        HostMap { exact: ConfiguredMap::default(), wildcard: ConfiguredMap::default() }
    }
}

impl<T> HostMap<T> {
    /// The value of a pattern, made if there is none.
    pub fn entry(&mut self, pattern: &HostPattern, make: impl FnOnce() -> T) -> &mut T {
        let (map, key) = match pattern {
            HostPattern::Exact(name) => (&mut self.exact, name),
            HostPattern::Wildcard(parent) => (&mut self.wildcard, parent),
        };
        map.entry(key.as_bytes().into()).or_insert_with(make)
    }

    /// The value of the most specific pattern that `host` falls under.
    pub fn find(&self, host: &[u8]) -> Option<&T> {
        if self.is_empty() { None } else { self.matches(host).next() }
    }

    /// The values of all patterns that `host` falls under, the most specific first.
    pub fn matches(&self, host: &[u8]) -> impl Iterator<Item = &T> {
        let host = host.strip_suffix(b".").unwrap_or(host);
        let host = if host.len() > MAX_HOST_BYTES { &[] } else { host };
        let exact = self.exact.get(host);
        let walked = if self.wildcard.is_empty() { &[] } else { host };
        let dots = memchr::memchr_iter(b'.', walked).filter(|dot| *dot > 0);
        exact.into_iter().chain(dots.filter_map(|dot| self.wildcard.get(walked.get(dot + 1..)?)))
    }

    /// The value of exactly this pattern.
    pub fn get(&self, pattern: &HostPattern) -> Option<&T> {
        match pattern {
            HostPattern::Exact(name) => self.exact.get(name.as_bytes()),
            HostPattern::Wildcard(parent) => self.wildcard.get(parent.as_bytes()),
        }
    }

    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.exact.values().chain(self.wildcard.values())
    }

    /// All values, with their patterns as text, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (String, &mut T)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let exact = self.exact.iter_mut().map(move |(name, value)| (text(name), value));
        exact.chain(self.wildcard.iter_mut().map(move |(parent, value)| (format!("*.{}", text(parent)), value)))
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcard.is_empty()
    }
}

impl<T> FromIterator<(HostPattern, T)> for HostMap<T> {
    /// Of a pattern that comes twice the first value stays.
    fn from_iter<I: IntoIterator<Item = (HostPattern, T)>>(values: I) -> HostMap<T> {
        let mut map = HostMap::default();
        for (pattern, value) in values {
            map.entry(&pattern, || value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_name_then_the_longest_wildcard() {
        let patterns = ["example.com", "*.example.com", "*.b.example.com", "a.b.example.com", "*.com", "[::1]"];
        let map: HostMap<&str> = patterns.into_iter().map(|text| (HostPattern::of_text(text), text)).collect();
        for (host, expected) in [
            ("example.com", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("example.com..", None),
            ("a.example.com", Some("*.example.com")),
            ("x.y.z.example.com", Some("*.example.com")),
            ("b.example.com", Some("*.example.com")),
            ("a.b.example.com", Some("a.b.example.com")),
            ("x.b.example.com.", Some("*.b.example.com")),
            ("x.a.b.example.com", Some("*.b.example.com")),
            (".example.com", Some("*.com")),
            ("notexample.com", Some("*.com")),
            ("com", None),
            (".com", None),
            ("", None),
            (".", None),
            ("*.example.com", Some("*.example.com")),
            ("[::1]", Some("[::1]")),
            ("1.2.3.4", None),
        ] {
            assert_eq!(map.find(host.as_bytes()).copied(), expected, "{host}");
        }
        let long = format!("{}.example.com", "a.".repeat(130));
        assert_eq!(map.find(long.as_bytes()), None);
        let all: Vec<&str> = map.matches(b"x.b.example.com").copied().collect();
        assert_eq!(all, ["*.b.example.com", "*.example.com", "*.com"]);
    }
}
