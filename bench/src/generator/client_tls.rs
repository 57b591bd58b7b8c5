//! The client side of TLS for the generator: exactly one version, X25519, AES-128-GCM (offered first); the certificate is not verified.

use std::io;

use tls::{Connector, ProtocolVersion, ServerName, Session};

/// A client context bound to one name. With resumption, each session offers what the one before it was given.
#[derive(Debug)]
pub(super) struct ClientTls {
    connector: Connector,
    name: ServerName,
}

impl ClientTls {
    /// For `version` 1.2 or 1.3.
    ///
    /// # Errors
    /// Another version, or the library could not be set up.
    pub(super) fn new(version: &str, host: &str, resume: bool) -> io::Result<ClientTls> {
        // Before TLS 1.3 the groups also say which certificates a client can verify (RFC 8422 §5.1), so P-256 must be among them there; every
        // server here prefers X25519.
        let (version, groups) = match version {
            "1.2" => (ProtocolVersion::Tls12, "X25519:P-256"),
            "1.3" => (ProtocolVersion::Tls13, "X25519"),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "--tls: 1.2 or 1.3")),
        };
        let mut connector = Connector::new(&[], false, None, &[], version).map_err(io::Error::other)?;
        connector.limit_version(version).map_err(io::Error::other)?;
        connector.limit_groups(groups).map_err(io::Error::other)?;
        if !resume {
            connector.never_resume();
        }
        Ok(ClientTls { connector, name: ServerName::Dns(host.to_owned()) })
    }

    /// A new session.
    ///
    /// # Errors
    /// The library's.
    pub(super) fn session(&self) -> io::Result<Session> {
        Session::client(&self.connector, &self.name).map_err(io::Error::other)
    }
}
