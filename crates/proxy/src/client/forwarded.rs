//! The client of a request: the connection's peer, or whom the trusted proxies in front of it name in a field they set.
//!
//! This is the only place that decides it: identity fields, the access log, metrics, limits and address lists all use its result. Addresses are
//! read from the right, because each proxy appends the address it saw; everything left of the first address that is no trusted proxy is
//! that client's own claim. Nothing is allocated, and nothing is read unless the peer is trusted.

use std::net::{IpAddr, SocketAddr};

use wire::http::Fields;
use wire::http::fields::trim_blanks;

/// Addresses of trusted proxies that are passed on the way to the client; who has more in front of it is not known.
const MAX_HOPS: usize = 32;

/// What a trusted peer says in a field (lower case) that has one value. What comes more than once, or is malformed, is not believed: part of it
/// may be the client's. Whether the peer is believed in it is the caller's to know.
pub fn reported<'h>(fields: &'h Fields, name: &str) -> Option<&'h [u8]> {
    let mut values = fields.get_all(name);
    let (value, None) = (values.next()?, values.next()) else { return None };
    let is_sane = match name {
        "x-forwarded-proto" => value.len() <= 16 && value.iter().all(u8::is_ascii_alphanumeric),
        "x-forwarded-port" => value.len() <= 5 && value.iter().all(u8::is_ascii_digit),
        "x-request-id" => value.len() <= MAX_REQUEST_ID_BYTES && value.iter().all(u8::is_ascii_graphic),
        _ => true,
    };
    (is_sane && !value.is_empty()).then_some(value)
}

/// Longest request id that is taken from a trusted peer, bytes.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestClient {
    /// The connection's peer, or whom its PROXY header names; none on Unix sockets.
    pub peer: Option<IpAddr>,
    /// Its address; none on Unix sockets.
    pub address: Option<IpAddr>,
    /// The connection's peer is a trusted proxy, so that the fields it sets are believed.
    pub via_trusted: bool,
    /// A trusted proxy sent something that is no address. `address` is that proxy's own, and no allow-list may let it pass.
    pub is_doubtful: bool,
}

impl RequestClient {
    /// The client of a connection whose peer speaks for itself.
    pub fn itself(peer: Option<IpAddr>) -> RequestClient {
        let peer = peer.map(|peer| peer.to_canonical());
        RequestClient { peer, address: peer, via_trusted: false, is_doubtful: false }
    }

    /// Whose share of an upstream a request is counted to: the client's. A trusted proxy that names nobody speaks for many, and has no share of its own.
    pub fn of_share(&self) -> Option<IpAddr> {
        self.address.filter(|address| !self.via_trusted || Some(*address) != self.peer)
    }

    /// The client of a request that came from `peer` with these fields. `named_by` (lower case) is the field in which trusted proxies name it:
    /// `x-forwarded-for` and `forwarded` are read from the right, any other must be there once and hold one address.
    pub fn of(
        peer: Option<IpAddr>,
        fields: &Fields,
        named_by: Option<&str>,
        trusts: impl Fn(IpAddr) -> bool,
    ) -> RequestClient {
        let itself = RequestClient::itself(peer);
        let Some(peer) = itself.address.filter(|peer| trusts(*peer)) else { return itself };
        let trusted = RequestClient { via_trusted: true, ..itself };
        match named_by {
            None => trusted,
            Some("x-forwarded-for") => {
                let entries =
                    fields.get_all("x-forwarded-for").rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
                trusted.walk(peer, entries.map(address), trusts)
            }
            Some("forwarded") => {
                let elements = fields
                    .get_all("forwarded")
                    .rev()
                    .flat_map(|value| PartsFromRight { rest: Some(value), separator: b',' });
                trusted.walk(peer, elements.map(|element| address(for_node(element?)?)), trusts)
            }
            Some(name) => {
                let mut values = fields.get_all(name);
                match (values.next(), values.next()) {
                    (None, _) => trusted,
                    (Some(value), None) => trusted.walk(peer, std::iter::once(address(value)), trusts),
                    _ => RequestClient { is_doubtful: true, ..trusted },
                }
            }
        }
    }

    /// The address, unless a trusted proxy sent something that is none.
    pub fn certain(&self) -> Option<IpAddr> {
        self.address.filter(|_| !self.is_doubtful)
    }

    /// Follows the addresses from the nearest one, as long as they are those of trusted proxies.
    fn walk(
        self,
        peer: IpAddr,
        entries: impl Iterator<Item = Option<IpAddr>>,
        trusts: impl Fn(IpAddr) -> bool,
    ) -> RequestClient {
        let mut client = peer;
        for (hop, entry) in entries.enumerate() {
            let Some(next) = entry.filter(|_| hop < MAX_HOPS) else {
                return RequestClient { address: Some(client), is_doubtful: true, ..self };
            };
            client = next;
            if !trusts(client) {
                break;
            }
        }
        RequestClient { address: Some(client), ..self }
    }
}

/// `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:4711`, and nothing else.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(trim_blanks(text)).ok().filter(|text| !text.contains('%'))?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address = text.parse::<IpAddr>().ok().or_else(bracketed).or_else(with_port)?.to_canonical();
    (!address.is_unspecified() && !address.is_multicast()).then_some(address)
}

/// The parts of a text between separators outside quotes, from the right. A part that a quote does not end in, or that escapes something (which no
/// address needs), is none, and the last that is given.
struct PartsFromRight<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Iterator for PartsFromRight<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let rest = self.rest.take()?;
        let mut is_quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            match byte {
                b'\\' => return Some(None),
                b'"' => is_quoted = !is_quoted,
                byte if *byte == self.separator && !is_quoted => {
                    self.rest = rest.get(..at);
                    return Some(rest.get(at + 1..));
                }
                _ => {}
            }
        }
        Some((!is_quoted).then_some(rest))
    }
}

/// The node that one element of `Forwarded` (RFC 7239 §4) says the request came from, without its quotes.
fn for_node(element: &[u8]) -> Option<&[u8]> {
    let mut node = None;
    for pair in (PartsFromRight { rest: Some(element), separator: b';' }) {
        let pair = trim_blanks(pair?);
        let equals = memchr::memchr(b'=', pair)?;
        let (name, value) = (pair.get(..equals)?, pair.get(equals + 1..)?);
        if name.eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
            return None;
        }
    }
    let node = node?;
    let quoted = node.strip_prefix(b"\"").and_then(|node| node.strip_suffix(b"\""));
    Some(quoted.unwrap_or(node))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// `expected`: the client; with a `?` behind it where it is doubtful.
    fn check(peer: &str, named_by: &str, fields: &[(&str, &str)], expected: &str) {
        let mut all = Fields::new();
        fields.iter().for_each(|(name, value)| all.push(name.as_bytes(), value.as_bytes()));
        let trusts = |address: IpAddr| "10.0.0.0/8".parse::<ipnet::IpNet>().unwrap().contains(&address);
        let found = RequestClient::of(Some(peer.parse().unwrap()), &all, Some(named_by), trusts);
        let shown = format!("{}{}", found.address.unwrap(), if found.is_doubtful { "?" } else { "" });
        assert_eq!(shown, expected, "{peer} {named_by} {fields:?}");
        assert_eq!(found.via_trusted, trusts(peer.parse::<IpAddr>().unwrap().to_canonical()));
        assert_eq!(found.certain().is_none(), found.is_doubtful);
    }

    #[test]
    fn only_trusted_proxies_are_believed_and_only_about_who_spoke_to_them() {
        let xff = "X-Forwarded-For";
        for (value, client) in [
            ("203.0.113.9", "203.0.113.9"),
            ("198.51.100.7, 203.0.113.9", "203.0.113.9"),
            ("203.0.113.9, 10.1.1.1,10.2.2.2", "203.0.113.9"),
            ("10.3.3.3", "10.3.3.3"),
            ("x, 203.0.113.9", "203.0.113.9"),
            ("\t203.0.113.9 ", "203.0.113.9"),
            ("203.0.113.9:4711", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711,10.1.1.1", "2001:db8::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            // What is no address ends the walk: whoever sent it is the client.
            ("203.0.113.9, x", "10.0.0.1?"),
            ("203.0.113.9, x, 10.1.1.1", "10.1.1.1?"),
            ("", "10.0.0.1?"),
            ("203.0.113.9,", "10.0.0.1?"),
            ("unknown", "10.0.0.1?"),
            ("203.0.113.9:65536", "10.0.0.1?"),
            ("203.0.113.9:x", "10.0.0.1?"),
            ("[203.0.113.9]", "10.0.0.1?"),
            ("[2001:db8::1", "10.0.0.1?"),
            ("fe80::1%eth0", "10.0.0.1?"),
            ("203.0.113.09", "10.0.0.1?"),
            ("203.0.113", "10.0.0.1?"),
            ("\"203.0.113.9\"", "10.0.0.1?"),
            ("203.0.113.9 198.51.100.7", "10.0.0.1?"),
            ("0.0.0.0", "10.0.0.1?"),
            ("ff02::1", "10.0.0.1?"),
            ("203.0.113.9\u{e9}", "10.0.0.1?"),
        ] {
            check("10.0.0.1", "x-forwarded-for", &[(xff, value)], client);
            check("192.0.2.1", "x-forwarded-for", &[(xff, value)], "192.0.2.1");
        }
        check("10.0.0.1", "x-forwarded-for", &[(xff, "198.51.100.7"), (xff, "203.0.113.9")], "203.0.113.9");
        check("10.0.0.1", "x-forwarded-for", &[(xff, "203.0.113.9"), (xff, "10.1.1.1")], "203.0.113.9");
        check("10.0.0.1", "x-forwarded-for", &[], "10.0.0.1");
        check("10.0.0.1", "x-forwarded-for", &[("X-Real-IP", "203.0.113.9")], "10.0.0.1");
        check("::ffff:10.0.0.1", "x-forwarded-for", &[(xff, "203.0.113.9")], "203.0.113.9");
    }

    #[test]
    fn a_field_with_one_address_must_hold_one() {
        let of = |value| ("X-Real-IP", value);
        check("10.0.0.1", "x-real-ip", &[of("2001:db8::1")], "2001:db8::1");
        check("10.0.0.1", "x-real-ip", &[], "10.0.0.1");
        check("10.0.0.1", "x-real-ip", &[of("203.0.113.9, 198.51.100.7")], "10.0.0.1?");
        check("10.0.0.1", "x-real-ip", &[of("203.0.113.9"), of("198.51.100.7")], "10.0.0.1?");
        check("::ffff:10.0.0.1", "x-real-ip", &[of("::ffff:203.0.113.9")], "203.0.113.9");
        check("192.0.2.1", "x-real-ip", &[of("203.0.113.9")], "192.0.2.1");
    }

    #[test]
    fn forwarded_is_read_from_the_right() {
        for (value, client) in [
            ("for=203.0.113.9", "203.0.113.9"),
            ("For=\"203.0.113.9:47\";proto=https", "203.0.113.9"),
            ("for=198.51.100.7, proto=http; FOR=\"[2001:db8::1]:8\";by=10.0.0.1", "2001:db8::1"),
            ("for=203.0.113.9, for=10.1.1.1", "203.0.113.9"),
            ("for=203.0.113.9;host=\"a;for=1.1.1.1, for=2.2.2.2\"", "203.0.113.9"),
            ("for=\"x, for=203.0.113.9", "203.0.113.9"),
            ("for=1.1.1.1, host=\"a\\\", for=203.0.113.9", "203.0.113.9"),
            ("for=unknown", "10.0.0.1?"),
            ("for=_hidden", "10.0.0.1?"),
            ("proto=https", "10.0.0.1?"),
            ("for=203.0.113.9;for=1.1.1.1", "10.0.0.1?"),
            ("for=203.0.113.9;host=\"\\\"\"", "10.0.0.1?"),
            ("for=203.0.113.9;host=\"a", "10.0.0.1?"),
            ("203.0.113.9", "10.0.0.1?"),
        ] {
            check("10.0.0.1", "forwarded", &[("Forwarded", value)], client);
        }
        check(
            "10.0.0.1",
            "forwarded",
            &[("Forwarded", "for=1.1.1.1"), ("Forwarded", "for=203.0.113.9")],
            "203.0.113.9",
        );
    }

    #[test]
    fn a_chain_of_proxies_ends_somewhere() {
        let chain = |proxies: usize| format!("203.0.113.9{}", ", 10.1.1.1".repeat(proxies));
        check("10.0.0.1", "x-forwarded-for", &[("X-Forwarded-For", &chain(MAX_HOPS - 1))], "203.0.113.9");
        check("10.0.0.1", "x-forwarded-for", &[("X-Forwarded-For", &chain(MAX_HOPS))], "10.1.1.1?");
    }
}
