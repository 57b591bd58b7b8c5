//! What of a believed header is kept for as long as its connection lives.

use std::net::SocketAddr;

use super::{Header, Tlvs, Version};

/// What a believed PROXY header said about its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyInfo {
    /// Version of the header.
    pub version: Version,
    /// Who sent it: the socket's peer; none on Unix sockets.
    pub balancer: Option<SocketAddr>,
    /// What the client connected to; none where the header does not say.
    pub destination: Option<SocketAddr>,
    /// The header's TLVs, well-formed; see [`ProxyInfo::tlvs`].
    tlvs: Box<[u8]>,
}

impl ProxyInfo {
    /// What `header` says; `peer` sent it, and `destination` is what it names, in canonical form.
    pub fn new(header: &Header<'_>, peer: Option<SocketAddr>, destination: Option<SocketAddr>) -> ProxyInfo {
        ProxyInfo { version: header.version, balancer: peer, destination, tlvs: header.tlvs.as_bytes().into() }
    }

    /// What else the header said.
    pub fn tlvs(&self) -> Tlvs<'_> {
        Tlvs::parse(&self.tlvs).unwrap_or_default()
    }
}
