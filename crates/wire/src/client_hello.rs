//! The TLS ClientHello (RFC 8446 §4.1.2, RFC 6066 §3), as much of it as choosing an identity needs.

/// What a client offered in its first flight. Borrows from the handshake message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// `legacy_version` (0x0303 for TLS 1.2 and later).
    pub legacy_version: u16,
    /// Cipher suites in the client's order.
    pub cipher_suites: Vec<u16>,
    /// The `host_name` of the server_name extension as sent: 1 to 255 bytes, unchecked beyond that.
    pub server_name: Option<&'a [u8]>,
    /// Protocols of the ALPN extension, in the client's order.
    pub alpn: Vec<&'a [u8]>,
    /// `signature_algorithms`; empty where the extension is absent.
    pub signature_schemes: Vec<u16>,
    /// `supported_groups`; empty where the extension is absent.
    pub groups: Vec<u16>,
    /// `supported_versions`; empty where the extension is absent (then `legacy_version` rules).
    pub versions: Vec<u16>,
}

/// Why a ClientHello was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloError {
    /// A length runs past its container, or bytes are left over.
    Malformed,
    /// An extension, or a name inside one, occurs twice (RFC 8446 §4.2, RFC 6066 §3).
    Duplicate,
    /// server_name is empty or longer than 255 bytes.
    ServerName,
}

impl<'a> ClientHello<'a> {
    /// Parses the body of a ClientHello handshake message (after the four-byte handshake header).
    ///
    /// # Errors
    /// [`HelloError`] for anything a strict reader would not accept; never panics.
    pub fn parse(body: &'a [u8]) -> Result<ClientHello<'a>, HelloError> {
        let _ = body;
        todo!()
    }

    /// Whether TLS 1.3 is among the offered versions.
    pub fn offers_tls13(&self) -> bool {
        self.versions.contains(&0x0304)
    }
}
