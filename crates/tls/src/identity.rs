//! A certificate chain with its private key, or with the promise of one, handed to the library at first use.
//!
//! Does not check that both belong together or that the chain is valid; whoever loads key material does.

use crate::crypto::{Certificate, KeyType, PublicKey};
use crate::ffi::{self, Owned};
use crate::{Error, remote};
use aws_lc_sys as sys;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use zeroize::Zeroizing;

/// secp256r1, secp384r1 and secp521r1 as supported groups name them (RFC 8422 §5.1.1).
pub const CURVE_P256: u16 = 23;
/// See [`CURVE_P256`].
pub const CURVE_P384: u16 = 24;
/// See [`CURVE_P256`].
pub const CURVE_P521: u16 = 25;

/// An identity. Cheap until a handshake needs it: a key stays DER until its first use, when it is parsed once (9 us for P-256, 135 us for
/// RSA-2048).
pub struct Identity {
    /// Leaf first, as the library keeps certificates.
    chain: Result<Vec<Owned<sys::CRYPTO_BUFFER>>, Error>,
    key: Key,
    key_type: KeyType,
    curve: u16,
    algorithms: Algorithms,
}

/// What the algorithms of a leaf are called by others; none where they are unusual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Algorithms {
    /// Such as `EC256`.
    pub(crate) key: Option<&'static str>,
    /// Such as `SHA256`.
    pub(crate) signature: Option<&'static str>,
}

/// Where the private key of an identity is.
enum Key {
    /// Here.
    Local {
        /// Taken, and so wiped, when parsed.
        pkcs8: Mutex<Zeroizing<Vec<u8>>>,
        parsed: OnceLock<Result<Owned<sys::EVP_PKEY>, Error>>,
    },
    /// Elsewhere; the public half verifies what is signed there.
    Remote {
        /// Read from the leaf at its first use.
        parsed: OnceLock<Result<Arc<PublicKey>, Error>>,
    },
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("key_type", &self.key_type)
            .field("is_remote", &self.is_remote())
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// From a chain (leaf first, DER) and a PKCS#8 key (DER, wiped when dropped). That both belong together has been checked by whoever loaded
    /// them; the library is not asked before the first handshake.
    pub fn new(chain: Vec<Vec<u8>>, key_pkcs8: Zeroizing<Vec<u8>>, key_type: KeyType) -> Arc<Identity> {
        Identity::with(&chain, Key::Local { pkcs8: Mutex::new(key_pkcs8), parsed: OnceLock::new() }, key_type)
    }

    /// From a chain (leaf first, DER) alone: its key is elsewhere, and handshakes ask for it ([`Handshake::WantKey`](crate::Handshake)).
    pub fn remote(chain: &[Vec<u8>], key_type: KeyType) -> Arc<Identity> {
        Identity::with(chain, Key::Remote { parsed: OnceLock::new() }, key_type)
    }

    fn with(chain: &[Vec<u8>], key: Key, key_type: KeyType) -> Arc<Identity> {
        Arc::new(Identity {
            chain: chain.iter().map(|certificate| ffi::buffer(certificate)).collect(),
            key,
            key_type,
            algorithms: chain.first().map_or(Algorithms::default(), |leaf| algorithms_of(leaf, key_type)),
            curve: chain.first().map_or(CURVE_P256, |leaf| curve_of(leaf)),
        })
    }

    /// The curve of an ECDSA key, as a supported group; without meaning for other keys.
    pub fn curve(&self) -> u16 {
        self.curve
    }

    /// The kind of key.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// What its algorithms are called.
    pub(crate) fn algorithms(&self) -> Algorithms {
        self.algorithms
    }

    /// Whether the private key is elsewhere.
    pub fn is_remote(&self) -> bool {
        matches!(self.key, Key::Remote { .. })
    }

    /// The public half of a key that is elsewhere; none for one that is here.
    ///
    /// # Errors
    /// The leaf's public key does not parse.
    pub(crate) fn remote_key(&self) -> Result<Option<Arc<PublicKey>>, Error> {
        let Key::Remote { parsed } = &self.key else { return Ok(None) };
        let parse = || {
            let leaf = self.chain()?.first().map(ffi::buffer_bytes).unwrap_or_default();
            let key = Certificate::from_der(leaf).and_then(|leaf| PublicKey::from_spki_der(leaf.public_spki_der()));
            key.map(Arc::new).map_err(|error| Error::Ours(format!("reading a public key: {error}").into()))
        };
        parsed.get_or_init(parse).clone().map(Some)
    }

    /// Puts chain and key into a session; a key that is elsewhere is asked by `method`.
    ///
    /// # Errors
    /// The key or the leaf does not parse, or they do not belong together: our fault.
    ///
    /// # Safety
    /// `ssl` is live and its handshake's choices are still open; `method` fits a session of ours.
    pub(crate) unsafe fn apply(
        &self,
        ssl: *mut sys::SSL,
        method: &'static sys::SSL_PRIVATE_KEY_METHOD,
    ) -> Result<(), Error> {
        let chain = self.chain()?;
        let (key, method) = match self.local_key()? {
            Some(key) => (key.as_ptr(), ptr::null()),
            None => (ptr::null_mut(), ptr::from_ref(method)),
        };
        // SAFETY: `ssl` is live. `Owned` is transparent, so the chain is an array of that many pointers; the call takes references of its own,
        // and the method is static.
        let set = unsafe { sys::SSL_set_chain_and_key(ssl, chain.as_ptr().cast(), chain.len(), key, method) };
        ffi::check(set, "using a certificate and its key")
    }

    /// Puts chain and key into a context, for all its sessions.
    ///
    /// # Errors
    /// As [`Identity::apply`]; and for a key that is elsewhere.
    pub(crate) fn apply_to_context(&self, context: &Owned<sys::SSL_CTX>) -> Result<(), Error> {
        let (chain, key) = (self.chain()?, self.local_key()?.ok_or_else(remote::no_key)?);
        let chain: (*const *mut sys::CRYPTO_BUFFER, usize) = (chain.as_ptr().cast(), chain.len());
        // SAFETY: as in `apply`, on a live context.
        let set =
            unsafe { sys::SSL_CTX_set_chain_and_key(context.as_ptr(), chain.0, chain.1, key.as_ptr(), ptr::null()) };
        ffi::check(set, "using a certificate and its key")
    }

    fn chain(&self) -> Result<&[Owned<sys::CRYPTO_BUFFER>], Error> {
        self.chain.as_deref().map_err(Clone::clone)
    }

    fn local_key(&self) -> Result<Option<&Owned<sys::EVP_PKEY>>, Error> {
        let Key::Local { pkcs8, parsed } = &self.key else { return Ok(None) };
        let parse = || {
            let mut der = pkcs8.lock().unwrap_or_else(PoisonError::into_inner);
            parse_key(&std::mem::take(&mut *der))
        };
        parsed.get_or_init(parse).as_ref().map(Some).map_err(Clone::clone)
    }
}

/// The curve in a certificate's subjectPublicKeyInfo, found by its algorithm identifier (RFC 5480 §2.1.1): id-ecPublicKey, then the curve.
fn curve_of(leaf: &[u8]) -> u16 {
    const EC_PUBLIC_KEY: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
    let found = leaf.windows(EC_PUBLIC_KEY.len()).position(|window| window == EC_PUBLIC_KEY);
    let curve = found.and_then(|at| leaf.get(at + EC_PUBLIC_KEY.len()..)).unwrap_or_default();
    if curve.starts_with(&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22]) {
        CURVE_P384
    } else if curve.starts_with(&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23]) {
        CURVE_P521
    } else {
        CURVE_P256
    }
}

/// What the algorithms of a leaf are called, found by their identifiers as [`curve_of`] does.
fn algorithms_of(leaf: &[u8], key_type: KeyType) -> Algorithms {
    /// Identifiers that end in the digest: ecdsa-with-SHA2 (RFC 5758 §3.2) and SHA2 with RSA (RFC 4055 §5).
    const SIGNATURES: [(&[u8], &str); 6] = [
        (&[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], "SHA256"),
        (&[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], "SHA384"),
        (&[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04], "SHA512"),
        (&[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], "SHA256"),
        (&[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], "SHA384"),
        (&[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], "SHA512"),
    ];
    let holds = |identifier: &[u8]| leaf.windows(identifier.len()).any(|window| window == identifier);
    let signature = SIGNATURES.iter().find(|(identifier, _)| holds(identifier)).map(|(_, name)| *name);
    let key = match (key_type, curve_of(leaf)) {
        (KeyType::Ecdsa, CURVE_P384) => Some("EC384"),
        (KeyType::Ecdsa, CURVE_P521) => Some("EC521"),
        (KeyType::Ecdsa, _) => Some("EC256"),
        (KeyType::Rsa, _) => rsa_name(leaf),
        (KeyType::Ed25519, _) => Some("ED25519"),
    };
    Algorithms { key, signature }
}

/// An RSA key's name by the length of its modulus (RFC 8017 §A.1.1): the first INTEGER after rsaEncryption's BIT STRING and SEQUENCE.
fn rsa_name(leaf: &[u8]) -> Option<&'static str> {
    const RSA_ENCRYPTION: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
    let at = leaf.windows(RSA_ENCRYPTION.len()).position(|window| window == RSA_ENCRYPTION)?;
    match leaf.get(at + RSA_ENCRYPTION.len()..)? {
        [0x03, 0x82, _, _, 0x00, 0x30, 0x82, _, _, 0x02, 0x82, high, low, 0x00, ..] => {
            match u16::from_be_bytes([*high, *low]) {
                257 => Some("RSA2048"),
                385 => Some("RSA3072"),
                513 => Some("RSA4096"),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Parses a PKCS#8 `PrivateKeyInfo` (RFC 5208), which must fill `der`.
fn parse_key(der: &[u8]) -> Result<Owned<sys::EVP_PKEY>, Error> {
    let mut reader = sys::CBS { data: der.as_ptr(), len: der.len() };
    // SAFETY: the reader covers a live slice and advances within it; the returned key is ours.
    let key = unsafe { Owned::from_raw(sys::EVP_parse_private_key(&raw mut reader), "reading a private key")? };
    if reader.len == 0 { Ok(key) } else { Err(Error::Ours("reading a private key: bytes after its end".into())) }
}
