//! The client side: how upstreams are verified, and who we are to them.

use crate::{Error, Identity, ProtocolVersion};
use std::net::IpAddr;
use std::sync::Arc;

/// Whom the server's certificate must name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerName {
    /// A DNS name: sent as SNI and checked.
    Dns(String),
    /// An address: checked, and no SNI sent (RFC 6066 §3).
    Ip(IpAddr),
}

/// Client context: one per upstream group.
#[derive(Debug)]
pub struct Connector {}

impl Connector {
    /// Trusts `roots` (DER) only. `verify: false` is the explicit opt-out. `alpn` in our order, may be empty.
    ///
    /// # Errors
    /// A root or the identity does not parse.
    pub fn new(
        roots: &[Vec<u8>],
        verify: bool,
        identity: Option<Arc<Identity>>,
        alpn: &[Vec<u8>],
        min_version: ProtocolVersion,
    ) -> Result<Connector, Error> {
        let _ = (roots, verify, identity, alpn, min_version);
        todo!()
    }
}

/// Keeps `ServerName` next to its one user.
pub(crate) fn _uses(_: &ServerName) {}
