//! Who a peer is, and which access rule is its own.
//!
//! A peer is what its verified certificate says under the subject alternative names; the subject is not looked at (RFC 9525 §2).

use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use config::ClientPattern;
use tls::PeerCertificate;

use super::register::EnrolmentId;

/// A peer as access rules see it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Names of its certificate by their kinds, DNS names in lower case; none on a Unix socket.
    names: Vec<(Kind, String)>,
    is_unix: bool,
    /// How it is called in logs and metrics.
    pub label: String,
    /// Where it connected from.
    pub address: Option<SocketAddr>,
    /// The enrolment that its certificate comes from, if it comes from one.
    pub enrolment: Option<Enrolment>,
}

/// Where a certificate comes from that this key server has issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enrolment {
    /// The enrolment.
    pub id: EnrolmentId,
    /// When the certificate ends; no connection outlasts it.
    pub ends: SystemTime,
}

/// Kinds of subject alternative names (RFC 5280 §4.2.1.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dns,
    Uri,
    Email,
    Address,
}

/// The kind of name that a rule is about, and the name: `DNS:`, `URI:`, `EMAIL:` or `IP:` before it says so, else its form does.
fn kind_of(text: &str) -> (Kind, &str) {
    let named = [("DNS:", Kind::Dns), ("URI:", Kind::Uri), ("EMAIL:", Kind::Email), ("IP:", Kind::Address)];
    if let Some((kind, name)) = named.into_iter().find_map(|(prefix, kind)| Some((kind, text.strip_prefix(prefix)?))) {
        return (kind, name);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let kind = match text {
        _ if is_number || text.parse::<IpAddr>().is_ok() => Kind::Address,
        _ if text.contains(':') => Kind::Uri,
        _ if text.contains('@') => Kind::Email,
        _ => Kind::Dns,
    };
    (kind, text)
}

impl Peer {
    /// A peer on a Unix socket.
    pub fn unix() -> Peer {
        Peer { names: Vec::new(), is_unix: true, label: "unix".to_owned(), address: None, enrolment: None }
    }

    /// The owner of a verified certificate.
    pub fn of_certificate(certificate: &PeerCertificate, address: Option<SocketAddr>) -> Peer {
        let dns = certificate.dns_names.iter().map(|name| (Kind::Dns, name.to_ascii_lowercase()));
        let uris = certificate.uris.iter().map(|uri| (Kind::Uri, uri.clone()));
        let emails = certificate.emails.iter().map(|email| (Kind::Email, email.clone()));
        let addresses = certificate.addresses.iter().map(|address| (Kind::Address, address.to_string()));
        let names: Vec<(Kind, String)> = dns.chain(uris).chain(emails).chain(addresses).collect();
        let label = names.first().map_or_else(|| certificate.fingerprint.clone(), |(_, name)| name.clone());
        Peer { names, is_unix: false, label, address, enrolment: None }
    }

    /// A node that would be called so.
    pub fn named(name: &str) -> Peer {
        let names = vec![(Kind::Dns, name.to_ascii_lowercase())];
        Peer { names, is_unix: false, label: name.to_owned(), address: None, enrolment: None }
    }

    /// Whether the pattern names it.
    pub fn matches(&self, pattern: &ClientPattern) -> bool {
        match pattern {
            ClientPattern::Any => true,
            ClientPattern::Unix => self.is_unix,
            ClientPattern::Exact(text) => self.has_name(text, |own, name| own.eq_ignore_ascii_case(name)),
            ClientPattern::HostsUnder(suffix) => self.names.iter().any(|(kind, own)| {
                let label = own.strip_suffix(suffix.as_str()).filter(|_| *kind == Kind::Dns);
                label.is_some_and(|label| {
                    !label.is_empty()
                        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
                })
            }),
            ClientPattern::Prefix(text) => self.has_name(text, |own, start| own.starts_with(start)),
        }
    }

    /// Whether it has a name of the kind that a rule is about, and which `suits`. Of another kind the same text is another name.
    fn has_name(&self, text: &str, suits: impl Fn(&str, &str) -> bool) -> bool {
        let (kind, wanted) = kind_of(text);
        self.names.iter().any(|(own_kind, own)| *own_kind == kind && suits(own, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(kind: Kind, name: &str) -> Peer {
        let names = vec![(kind, name.to_owned())];
        Peer { names, is_unix: false, label: String::new(), address: None, enrolment: None }
    }

    #[test]
    fn patterns() {
        let exact = |name: &str| ClientPattern::Exact(name.to_owned());
        let under = |name: &str| ClientPattern::HostsUnder(name.to_owned());
        let prefix = |name: &str| ClientPattern::Prefix(name.to_owned());
        let cases = [
            (exact("Edge.example"), Kind::Dns, "edge.example", true),
            (exact("edge.example"), Kind::Dns, "edge.example.org", false),
            (exact("edge.example"), Kind::Uri, "edge.example", false),
            (exact("edge.example"), Kind::Email, "edge.example", false),
            (exact("DNS:edge.example"), Kind::Dns, "edge.example", true),
            (exact("DNS:edge.example"), Kind::Uri, "edge.example", false),
            (exact("URI:edge.example"), Kind::Uri, "edge.example", true),
            (exact("spiffe://example/a"), Kind::Uri, "spiffe://example/a", true),
            (exact("spiffe://example/a"), Kind::Dns, "spiffe://example/a", false),
            (exact("ops@example.com"), Kind::Email, "ops@example.com", true),
            (exact("ops@example.com"), Kind::Uri, "ops@example.com", false),
            (exact("192.0.2.1"), Kind::Address, "192.0.2.1", true),
            (exact("192.0.2.1"), Kind::Dns, "192.0.2.1", false),
            (exact("IP:2001:db8::1"), Kind::Address, "2001:db8::1", true),
            (exact("2001:db8::1"), Kind::Uri, "2001:db8::1", false),
            (under(".edges.example"), Kind::Dns, "a.edges.example", true),
            (under(".edges.example"), Kind::Uri, "a.edges.example", false),
            (under(".edges.example"), Kind::Dns, "edges.example", false),
            (under(".edges.example"), Kind::Uri, "https://x/.edges.example", false),
            (prefix("spiffe://example/edge/"), Kind::Uri, "spiffe://example/edge/1", true),
            (prefix("spiffe://example/edge/"), Kind::Dns, "spiffe://example/edge/1", false),
            (prefix("spiffe://example/edge/"), Kind::Uri, "spiffe://example/edges", false),
            (prefix("edge-"), Kind::Dns, "edge-1.example", true),
            (prefix("edge-"), Kind::Uri, "edge-1.example", false),
            (prefix("192.0.2."), Kind::Address, "192.0.2.7", true),
            (prefix("192.0.2."), Kind::Dns, "192.0.2.evil.example", false),
            (ClientPattern::Unix, Kind::Dns, "unix", false),
            (ClientPattern::Any, Kind::Dns, "anything", true),
        ];
        for (pattern, kind, name, expected) in cases {
            assert_eq!(peer(kind, name).matches(&pattern), expected, "{pattern} for {name} as {kind:?}");
        }
        assert!(Peer::unix().matches(&ClientPattern::Unix) && !Peer::unix().matches(&exact("unix")));
    }
}
