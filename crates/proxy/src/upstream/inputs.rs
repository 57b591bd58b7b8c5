//! What a group is made of beside its configuration: the files of its TLS settings and the key of its sessions, as one digest.
//!
//! A group whose configuration and inputs are what they were passes on to the next generation, with what is known of its servers.

use std::path::Path;

use config::UpstreamConfig;
use keystore::trust::SYSTEM_ROOTS;
use tls::crypto::digest::sha256;

/// Largest file of certificates or a key, bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A digest over everything that is read while a group is made.
///
/// # Errors
/// A file or a secret cannot be read; says which.
pub fn digest(config: &UpstreamConfig) -> Result<[u8; 32], String> {
    let mut digests = Vec::new();
    if let Some(tls) = &config.tls {
        let system = Path::new(SYSTEM_ROOTS);
        let roots = tls.verify.then(|| tls.ca.as_deref().unwrap_or(system));
        let own = [&tls.client_certificate, &tls.client_key].into_iter().flatten().map(|path| path.as_path());
        for path in roots.into_iter().chain(own) {
            let content = keystore::files::read(path, MAX_FILE_BYTES)?;
            digests.extend_from_slice(&sha256(&content));
        }
    }
    if let Some(key) = config.sticky.as_ref().and_then(|sticky| sticky.key.as_ref()) {
        digests.extend_from_slice(&sha256(key.read()?.as_str().as_bytes()));
    }
    Ok(sha256(&digests))
}
