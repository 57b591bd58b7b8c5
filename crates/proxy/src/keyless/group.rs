//! A group of key servers as all workers share it: its settings, its TLS, and which servers are left out.

use std::sync::Arc;

use config::{ENROLLED_IDENTITY, KeyServersConfig};
use tls::crypto::Certificate;

use crate::upstream::{Group, inputs};

/// A group of key servers.
#[derive(Debug)]
pub struct KeyGroup {
    /// As configured.
    pub config: Arc<KeyServersConfig>,
    /// Its servers, and how to connect to them.
    pub servers: Arc<Group>,
    /// Over the contents of its CA, certificate and key files.
    files: [u8; 32],
}

impl KeyGroup {
    /// A group as configured; `previous` passes on, with its connections and what is known of its servers, if nothing changed, also not in the files.
    ///
    /// # Errors
    /// A file is missing or unusable; says which.
    pub fn new(config: &Arc<KeyServersConfig>, previous: Option<&Arc<KeyGroup>>) -> Result<Arc<KeyGroup>, String> {
        check_enrolled(config)?;
        let files = inputs::digest(&config.upstream)?;
        if let Some(previous) = previous.filter(|previous| previous.files == files && previous.config == *config) {
            return Ok(Arc::clone(previous));
        }
        let servers = Arc::new(Group::of_key_servers(&config.upstream)?);
        check_client_certificate(config)?;
        Ok(Arc::new(KeyGroup { config: Arc::clone(config), servers, files }))
    }
}

/// An edge that is to enrol by itself cannot: that takes a token.
fn check_enrolled(config: &KeyServersConfig) -> Result<(), String> {
    let Some(folder) = &config.enrolment else { return Ok(()) };
    if folder.join(ENROLLED_IDENTITY).exists() {
        return Ok(());
    }
    let place = folder.display();
    Err(format!(
        "{place}: this node is not enrolled; have a token made at the key server (`portunus key-server token`), and run `portunus enrol --folder {place}` here"
    ))
}

/// Every key server demands a certificate whose usage lets it prove a client.
fn check_client_certificate(config: &KeyServersConfig) -> Result<(), String> {
    let path = config.upstream.tls.as_ref().and_then(|tls| tls.client_certificate.as_ref());
    let Some(path) = path else { return Ok(()) };
    let place = path.display();
    let chain = keystore::trust::certificates(path)?;
    let Some(leaf) = chain.first() else { return Ok(()) };
    match Certificate::from_der(leaf) {
        Ok(leaf) if leaf.is_for_clients() => Ok(()),
        Ok(_) => {
            Err(format!("{place}: is not for clients (extended key usage lacks clientAuth); key servers reject it"))
        }
        Err(error) => Err(format!("{place}: {error}")),
    }
}
