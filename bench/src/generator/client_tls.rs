//! The client side of TLS for the generator: exactly one version, X25519, AES-128-GCM (offered first); the certificate is not verified.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use keystore::pem::{self, Label};
use tls::{Connector, Identity, KeyType, ProtocolVersion, ServerName, Session};

/// A client context bound to one name. With resumption, each session offers what the one before it was given.
#[derive(Debug)]
pub(super) struct ClientTls {
    connector: Connector,
    name: ServerName,
}

impl ClientTls {
    /// For `version` 1.2 or 1.3. `identity`: a PEM file with the client's certificate and its ECDSA key.
    ///
    /// # Errors
    /// Another version, the identity cannot be read, or the library could not be set up.
    pub(super) fn new(version: &str, host: &str, resume: bool, identity: Option<&Path>) -> io::Result<ClientTls> {
        // Before TLS 1.3 the groups also say which certificates a client can verify (RFC 8422 §5.1), so P-256 must be among them there; every
        // server here prefers X25519.
        let (version, groups) = match version {
            "1.2" => (ProtocolVersion::Tls12, "X25519:P-256"),
            "1.3" => (ProtocolVersion::Tls13, "X25519"),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "--tls: 1.2 or 1.3")),
        };
        let identity = identity.map(read_identity).transpose()?;
        let mut connector = Connector::new(&[], false, identity, &[], version).map_err(io::Error::other)?;
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

fn read_identity(file: &Path) -> io::Result<Arc<Identity>> {
    let blocks = pem::read(&fs::read(file)?).map_err(|error| io::Error::other(error.to_string()))?;
    let (keys, certificates): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|block| block.label.is_private_key());
    let key = keys.into_iter().find(|key| key.label == Label::PrivateKey);
    let key = key.ok_or_else(|| io::Error::other("--identity: no PKCS#8 key"))?;
    let chain = certificates.iter().map(|certificate| certificate.der.to_vec()).collect();
    Ok(Identity::new(chain, key.der, KeyType::Ecdsa))
}
