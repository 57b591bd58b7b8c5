//! Named sets of versions, cipher suites and groups, pinned by our own lists.

/// A protocol version, ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// TLS 1.0 (RFC 2246).
    Tls10,
    /// TLS 1.1 (RFC 4346).
    Tls11,
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// What may be negotiated, as users know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// TLS 1.3 only, post-quantum hybrid first.
    Modern,
    /// TLS 1.2 with six ECDHE AEAD suites, and 1.3; groups `X25519MLKEM768:X25519:P-256:P-384`.
    #[default]
    Intermediate,
    /// TLS 1.0 and later with the CBC and RSA key-exchange suites old clients need; no RC4, 3DES, export or NULL.
    Legacy,
}

impl Policy {
    /// The lowest version the policy itself allows.
    pub fn min_version(self) -> ProtocolVersion {
        match self {
            Policy::Modern => ProtocolVersion::Tls13,
            Policy::Intermediate => ProtocolVersion::Tls12,
            Policy::Legacy => ProtocolVersion::Tls10,
        }
    }
}
