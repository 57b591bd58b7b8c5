//! Who the client really is: the socket's peer or whom a PROXY header names, whom trusted proxies name in a request (`forwarded`), and what the
//! client's certificate says of it.

mod forwarded;
mod header;
mod networks;
mod trust;

use std::net::{IpAddr, SocketAddr};

use net::transparent::canonical;
use net::{Chunk, Stream};
use tls::PeerCertificate;
use wire::proxy_protocol::ProxyInfo;

use crate::certificates::TlsRule;

pub use forwarded::{RequestClient, reported};
pub use header::{NotIdentified, read_header};
pub use networks::{AddressSet, load_networks, read_list};
pub use trust::TrustList;

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
    pub reported: Option<Box<ProxyInfo>>,
}

/// The client of a connection whose listener takes the socket's word for it.
pub fn itself(stream: Stream, peer: Option<SocketAddr>) -> Identified {
    Identified { stream, first: Chunk::empty(), client: peer.map(canonical), reported: None }
}

/// Whether a certificate passes the rule's SAN allow-list. Without a list every verified certificate does, and so does none where none is
/// required; with a list, a certificate that is there must be on it.
pub fn is_allowed(rule: &TlsRule, certificate: Option<&PeerCertificate>) -> bool {
    let allowed = rule.allowed_sans();
    let Some(certificate) = certificate else { return true };
    allowed.is_empty() || allowed.iter().any(|san| holds(certificate, san))
}

/// Whether a certificate holds a SAN written as `DNS:`, `URI:`, `EMAIL:` or `IP:` and its value.
pub fn holds(certificate: &PeerCertificate, san: &str) -> bool {
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
