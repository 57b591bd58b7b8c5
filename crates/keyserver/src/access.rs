//! Who a peer is, and which access rule is its own.
//!
//! A peer is what its verified certificate says under the subject alternative names; the subject is not looked at (RFC 9525 §2).

use std::net::SocketAddr;
use std::time::SystemTime;

use config::ClientPattern;
use tls::PeerCertificate;

use super::register::EnrolmentId;

/// A peer as access rules see it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Names of its certificate, DNS names in lower case; none on a Unix socket.
    names: Vec<String>,
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

impl Peer {
    /// A peer on a Unix socket.
    pub fn unix() -> Peer {
        Peer { names: Vec::new(), is_unix: true, label: "unix".to_owned(), address: None, enrolment: None }
    }

    /// The owner of a verified certificate.
    pub fn of_certificate(certificate: &PeerCertificate, address: Option<SocketAddr>) -> Peer {
        let dns = certificate.dns_names.iter().map(|name| name.to_ascii_lowercase());
        let others = certificate.uris.iter().chain(&certificate.emails).cloned();
        let addresses = certificate.addresses.iter().map(ToString::to_string);
        let names: Vec<String> = dns.chain(others).chain(addresses).collect();
        let label = names.first().cloned().unwrap_or_else(|| certificate.fingerprint.clone());
        Peer { names, is_unix: false, label, address, enrolment: None }
    }

    /// A node that would be called so.
    pub fn named(name: &str) -> Peer {
        Peer { names: vec![name.to_owned()], is_unix: false, label: name.to_owned(), address: None, enrolment: None }
    }

    /// Whether the pattern names it.
    pub fn matches(&self, pattern: &ClientPattern) -> bool {
        match pattern {
            ClientPattern::Any => true,
            ClientPattern::Unix => self.is_unix,
            ClientPattern::Exact(name) => self.names.iter().any(|own| own.eq_ignore_ascii_case(name)),
            ClientPattern::HostsUnder(suffix) => self.names.iter().any(|own| {
                // A label before the dot, and no URI or address that happens to end so.
                own.strip_suffix(suffix.as_str()).is_some_and(|label| {
                    !label.is_empty()
                        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
                })
            }),
            ClientPattern::Prefix(prefix) => self.names.iter().any(|own| own.starts_with(prefix.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(names: &[&str]) -> Peer {
        Peer {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            is_unix: false,
            label: String::new(),
            address: None,
            enrolment: None,
        }
    }

    #[test]
    fn patterns() {
        let exact = |name: &str| ClientPattern::Exact(name.to_owned());
        let under = |name: &str| ClientPattern::HostsUnder(name.to_owned());
        let prefix = |name: &str| ClientPattern::Prefix(name.to_owned());
        let cases = [
            (exact("Edge.example"), "edge.example", true),
            (exact("edge.example"), "edge.example.org", false),
            (under(".edges.example"), "a.edges.example", true),
            (under(".edges.example"), "edges.example", false),
            (under(".edges.example"), "https://x/.edges.example", false),
            (prefix("spiffe://example/edge/"), "spiffe://example/edge/1", true),
            (prefix("spiffe://example/edge/"), "spiffe://example/edges", false),
            (ClientPattern::Unix, "unix", false),
            (ClientPattern::Any, "anything", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(peer(&[name]).matches(&pattern), expected, "{pattern} for {name}");
        }
        assert!(Peer::unix().matches(&ClientPattern::Unix) && !Peer::unix().matches(&exact("unix")));
    }
}
