//! The keys that ClientHellos may be encrypted for, as their file has them.

use std::fmt;
use std::path::Path;

use tls::EchKeys;

/// What is read from a file.
pub struct HelloKeys {
    /// The keys.
    pub keys: EchKeys,
    /// The names that clients show in place of those they ask for: for these there must be certificates, too.
    pub public_names: Vec<Box<str>>,
}

impl fmt::Debug for HelloKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelloKeys").field("public_names", &self.public_names).finish_non_exhaustive()
    }
}

impl HelloKeys {
    /// Reads a file.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn load(path: &Path) -> Result<HelloKeys, String> {
        let pairs = keystore::ech::read(path).map_err(|problem| format!("ech_keys: {problem}"))?;
        let keys = EchKeys::new(&pairs).map_err(|error| format!("ech_keys: {}: {error}", path.display()))?;
        let mut public_names: Vec<Box<str>> = pairs.iter().map(|pair| pair.public_name().into()).collect();
        public_names.dedup();
        Ok(HelloKeys { keys, public_names })
    }
}
