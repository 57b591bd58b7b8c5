//! Private keys that are elsewhere: what a handshake asks of one, and how the response comes back.
//!
//! The library calls for an operation and is told to wait. The session's owner takes the request from the session, has it answered wherever
//! the key is, and hands back a [`KeyResponse`], which only [`KeyRequest::check`] makes: no signature is used that was not verified.
//!
//! ```text
//! handshake() → WantKey ── key_request() → KeyRequest ── check(bytes) → KeyResponse ── respond() ── handshake() → …
//! ```

use crate::Error;
use crate::crypto::PublicKey;
use std::fmt;
use std::sync::Arc;
use wire::keyless::Operation;
use zeroize::Zeroizing;

/// The premaster secret of RSA key exchange, bytes (RFC 5246 §7.4.7.1).
pub const PREMASTER_BYTES: usize = 48;

/// One operation that a handshake waits for.
pub struct KeyRequest {
    pub(crate) operation: Operation,
    pub(crate) input: Vec<u8>,
    pub(crate) key: Arc<PublicKey>,
}

impl fmt::Debug for KeyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRequest").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl KeyRequest {
    /// A signature that no handshake asks for: over a digest, for Ed25519 over the message.
    pub fn signature(operation: Operation, input: Vec<u8>, key: Arc<PublicKey>) -> KeyRequest {
        KeyRequest { operation, input, key }
    }

    /// What is asked for: a signature, or under the legacy policy the secret of an RSA key exchange.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The digest to sign, for Ed25519 the message, or the ciphertext.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// The public half of the key that is asked.
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Takes what a key server gave: a signature only if it verifies. A decryption may be the premaster secret alone or the whole padded block;
    /// anything else counts as a ciphertext that was no valid one, which the handshake must not tell from a valid one (RFC 5246 §7.4.7.1).
    ///
    /// # Errors
    /// [`WrongSignature`]: whoever made it does not have the key.
    pub fn check(&self, result: &[u8]) -> Result<KeyResponse, WrongSignature> {
        match self.operation {
            Operation::RsaDecrypt => Ok(self.padded(result)),
            signature if self.key.verifies(signature, &self.input, result) => {
                Ok(KeyResponse(Zeroizing::new(result.to_vec())))
            }
            _ => Err(WrongSignature),
        }
    }

    /// The answer for a ciphertext that the key server would not decrypt: a block without valid padding, for which the library puts a random
    /// secret of its own, so that the client learns no more than that its Finished was wrong. None for signatures.
    pub fn substitute(&self) -> Option<KeyResponse> {
        (self.operation == Operation::RsaDecrypt).then(|| self.padded(&[]))
    }

    /// The block that the library takes apart in constant time: as it came, or rebuilt around the secret (RFC 8017 §7.2.1).
    fn padded(&self, result: &[u8]) -> KeyResponse {
        let size = self.key.signature_bytes();
        let mut block = Zeroizing::new(vec![0; size]);
        if result.len() == size {
            block.copy_from_slice(result);
        } else if let Some(padding) = size.checked_sub(PREMASTER_BYTES + 3)
            && result.len() == PREMASTER_BYTES
        {
            block[1] = 2;
            // Padding must not hold zeros; that it is random matters only where it is encrypted.
            block[2..2 + padding].fill(0xff);
            block[3 + padding..].copy_from_slice(result);
        }
        KeyResponse(block)
    }
}

/// A signature that does not verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongSignature;

impl fmt::Display for WrongSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the signature does not verify with the certificate's key")
    }
}

impl std::error::Error for WrongSignature {}

/// A checked answer, for the session that asked.
pub struct KeyResponse(pub(crate) Zeroizing<Vec<u8>>);

impl fmt::Debug for KeyResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyResponse")
    }
}

impl KeyResponse {
    /// The signature; of a decryption the padded block.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a session with a remote key keeps until its handshake is over.
pub(crate) struct Remote {
    pub(crate) key: Arc<PublicKey>,
    /// The request that is not yet taken.
    pub(crate) request: Option<KeyRequest>,
    /// The answer, for when the library asks again.
    pub(crate) response: Option<KeyResponse>,
}

impl Remote {
    pub(crate) fn new(key: Arc<PublicKey>) -> Remote {
        Remote { key, request: None, response: None }
    }
}

/// The error of an identity that cannot be used where its key must be at hand.
pub(crate) fn no_key() -> Error {
    Error::Ours("the private key of this certificate is not here".into())
}
