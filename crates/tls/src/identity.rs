//! A certificate chain with its private key, handed to the library at first use.

use std::sync::Arc;

/// The kind of key an identity signs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyType {
    /// ECDSA on P-256, P-384 or P-521.
    Ecdsa,
    /// RSA, 2048 bits or more.
    Rsa,
    /// Ed25519.
    Ed25519,
}

/// An identity. Cheap until a handshake needs it: holds DER, and parses key and chain once, on first use.
#[derive(Debug)]
pub struct Identity {
    #[allow(dead_code)]
    chain: Vec<Vec<u8>>,
    #[allow(dead_code)]
    key_pkcs8: zeroize::Zeroizing<Vec<u8>>,
    key_type: KeyType,
}

impl Identity {
    /// From a chain (leaf first, DER) and a PKCS#8 key (DER, wiped when dropped). That both belong together has been checked by whoever loaded
    /// them; the library is not asked before the first handshake.
    pub fn new(chain: Vec<Vec<u8>>, key_pkcs8: zeroize::Zeroizing<Vec<u8>>, key_type: KeyType) -> Arc<Identity> {
        Arc::new(Identity { chain, key_pkcs8, key_type })
    }

    /// The kind of key.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }
}
