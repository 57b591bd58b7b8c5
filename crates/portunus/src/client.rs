//! Who the client really is: the socket's peer, and what its certificate says of it.

use std::net::{IpAddr, SocketAddr};

use tls::PeerCertificate;

use crate::identity::TlsRule;

/// The client of a connection whose listener takes the socket's word for it. IPv4 in IPv6 clothes is undressed.
pub fn identify(peer: Option<SocketAddr>) -> Option<SocketAddr> {
    peer.map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()))
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
