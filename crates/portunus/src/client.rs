//! Who the client really is: the socket's peer or whom a PROXY header names, and what the client's certificate says of it.

mod header;
mod trust;

use std::net::{IpAddr, SocketAddr};

use net::{Chunk, Stream};
use tls::PeerCertificate;
use wire::proxy_protocol::{Tlvs, Version};

use crate::identity::TlsRule;

pub use header::{NotIdentified, read_header};
pub use trust::{TrustList, parse_list};

/// A connection whose client is known.
#[derive(Debug)]
pub struct Identified {
    /// Its socket.
    pub stream: Stream,
    /// Bytes that came behind a header, or instead of one: they are the client's own.
    pub first: Chunk,
    /// Who it is; none on Unix sockets.
    pub client: Option<SocketAddr>,
    /// What a header said, if a believed one came.
    pub told: Option<Box<Told>>,
}

/// What a believed PROXY header said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Version of the header.
    pub version: Version,
    /// Who sent it: the socket's peer; none on Unix sockets.
    pub balancer: Option<SocketAddr>,
    /// What the client connected to; none where the header does not say.
    pub destination: Option<SocketAddr>,
    /// The header's TLVs, well-formed; see [`Told::tlvs`].
    tlvs: Box<[u8]>,
}

impl Told {
    /// What else the header said.
    pub fn tlvs(&self) -> Tlvs<'_> {
        Tlvs::parse(&self.tlvs).unwrap_or_default()
    }
}

/// The client of a connection whose listener takes the socket's word for it.
pub fn itself(stream: Stream, peer: Option<SocketAddr>) -> Identified {
    Identified { stream, first: Chunk::empty(), client: peer.map(canonical), told: None }
}

/// IPv4 in IPv6 clothes is undressed.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a certificate passes the rule's SAN allow-list. Without a list every verified certificate does, and so does none where none is
/// required; with a list, a certificate that is there must be on it.
pub fn is_allowed(rule: &TlsRule, certificate: Option<&PeerCertificate>) -> bool {
    let allowed = rule.allowed_sans();
    let Some(certificate) = certificate else { return true };
    allowed.is_empty() || allowed.iter().any(|san| holds(certificate, san))
}

/// Whether a certificate holds a SAN written as `DNS:`, `URI:`, `EMAIL:` or `IP:` and its value.
fn holds(certificate: &PeerCertificate, san: &str) -> bool {
    match san.split_once(':') {
        Some(("DNS", name)) => certificate.dns_names.iter().any(|dns| dns.eq_ignore_ascii_case(name)),
        Some(("URI", uri)) => certificate.uris.iter().any(|other| other == uri),
        Some(("EMAIL", email)) => certificate.emails.iter().any(|other| other == email),
        Some(("IP", address)) => {
            address.parse::<IpAddr>().is_ok_and(|address| certificate.addresses.contains(&address))
        }
        _ => false,
    }
}

/// The address that a request really comes from: the peer's, or what trusted proxies say in the field `header` (lower case).
///
/// `x-forwarded-for` is read from the right: each address was added by the one after it, and the first that is no trusted proxy is the client,
/// whatever it has written before itself. Any other field must be there once and hold one address. None if there is no peer, or a trusted one says
/// what is no address: nothing may be decided on that.
pub fn true_client(
    peer: Option<IpAddr>,
    head: &wire::http::RequestHead,
    header: &str,
    trusts: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let peer = peer?.to_canonical();
    if !trusts(peer) {
        return Some(peer);
    }
    let address = |text: &[u8]| Some(std::str::from_utf8(text).ok()?.trim().parse::<IpAddr>().ok()?.to_canonical());
    if header != "x-forwarded-for" {
        let mut values = head.fields.get_all(header);
        return match (values.next(), values.next()) {
            (None, _) => Some(peer),
            (Some(value), None) => address(value),
            _ => None,
        };
    }
    let chain: Vec<&[u8]> = head.fields.get_all(header).flat_map(|value| value.split(|byte| *byte == b',')).collect();
    let mut client = peer;
    for hop in chain.into_iter().rev() {
        client = address(hop)?;
        if !trusts(client) {
            break;
        }
    }
    Some(client)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(peer: &str, header: &str, fields: &[(&str, &str)], expected: Option<&str>) {
        let mut head = wire::http::RequestHead::default();
        fields.iter().for_each(|(name, value)| head.fields.push(name.as_bytes(), value.as_bytes()));
        let trusts = |address: IpAddr| "10.0.0.0/8".parse::<ipnet::IpNet>().unwrap().contains(&address);
        let found = true_client(Some(peer.parse().unwrap()), &head, header, trusts);
        assert_eq!(found, expected.map(|address| address.parse().unwrap()), "{peer} {fields:?}");
    }

    #[test]
    fn only_trusted_proxies_are_believed_and_only_about_who_spoke_to_them() {
        let xff = "X-Forwarded-For";
        let of = |value| vec![(xff, value)];
        check("192.0.2.1", "x-forwarded-for", &of("203.0.113.9"), Some("192.0.2.1"));
        check("10.0.0.1", "x-forwarded-for", &of("203.0.113.9"), Some("203.0.113.9"));
        check("10.0.0.1", "x-forwarded-for", &of("198.51.100.7, 203.0.113.9"), Some("203.0.113.9"));
        check("10.0.0.1", "x-forwarded-for", &of("203.0.113.9, 10.1.1.1,10.2.2.2"), Some("203.0.113.9"));
        check("10.0.0.1", "x-forwarded-for", &[(xff, "198.51.100.7"), (xff, "203.0.113.9")], Some("203.0.113.9"));
        check("10.0.0.1", "x-forwarded-for", &of("10.3.3.3"), Some("10.3.3.3"));
        check("10.0.0.1", "x-forwarded-for", &of("203.0.113.9, x"), None);
        check("10.0.0.1", "x-forwarded-for", &of("x, 203.0.113.9"), Some("203.0.113.9"));
        check("10.0.0.1", "x-forwarded-for", &[], Some("10.0.0.1"));
        check("10.0.0.1", "x-real-ip", &[("X-Real-IP", "2001:db8::1")], Some("2001:db8::1"));
        check("10.0.0.1", "x-real-ip", &[("X-Real-IP", "203.0.113.9, 198.51.100.7")], None);
        check("10.0.0.1", "x-real-ip", &[("X-Real-IP", "203.0.113.9"), ("X-Real-IP", "198.51.100.7")], None);
        check("::ffff:10.0.0.1", "x-real-ip", &[("X-Real-IP", "::ffff:203.0.113.9")], Some("203.0.113.9"));
    }
}
