//! Certificates, private keys and their containers as values, on AWS-LC's libcrypto: what loading and checking key material needs.
//!
//! Everything here is bytes in, values out. No object of the library is kept in a returned value, so a loaded store costs its DER and no more.
//! Reads no file, knows no store format but PKCS#12, and verifies no chain: that is the business of a TLS session.

use std::fmt;

use wire::keyless::{KeyFamily, Operation};

pub mod certificate;
mod der;
pub mod digest;
mod handle;
mod password_cipher;
pub mod pkcs12;
mod pkcs12_safe;
pub mod private_key;
pub mod public_key;
pub mod verify;
pub mod sealing;
pub mod signing_key;

pub use certificate::Certificate;
pub use private_key::PrivateKey;
pub use public_key::PublicKey;
pub use signing_key::SigningKey;

/// Why key material could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The bytes are damaged or not what they should be; what was expected.
    Malformed(&'static str),
    /// Well formed, but of a kind that is not served; which.
    Unsupported(&'static str),
    /// The password does not open it.
    WrongPassword,
    /// It is encrypted and no password was given.
    NeedsPassword,
    /// Larger or costlier than the bound; which bound.
    TooLarge(&'static str),
    /// The library failed at something that cannot fail but for want of memory.
    Library,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed(what) => write!(f, "damaged: {what}"),
            Error::Unsupported(what) => write!(f, "not supported: {what}"),
            Error::WrongPassword => f.write_str("wrong password"),
            Error::NeedsPassword => f.write_str("encrypted, and no password was given"),
            Error::TooLarge(what) => write!(f, "too large: {what}"),
            Error::Library => f.write_str("the cryptographic library failed (out of memory?)"),
        }
    }
}

impl std::error::Error for Error {}

/// An elliptic curve that TLS certificates are served on (RFC 8422 §5.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Curve {
    /// NIST P-256 (secp256r1).
    P256,
    /// NIST P-384 (secp384r1).
    P384,
    /// NIST P-521 (secp521r1).
    P521,
}

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

/// The kind of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// RSA (rsaEncryption) with a modulus of this many bits.
    Rsa {
        /// Bits of the modulus.
        bits: u32,
    },
    /// ECDSA on a curve.
    Ec(Curve),
    /// Ed25519 (RFC 8410).
    Ed25519,
    /// Anything else: RSA-PSS keys, DSA, other curves. Not served.
    Other,
}

impl KeyKind {
    /// Shortest RSA modulus that is served, bits. Public authorities issue nothing shorter since 2014.
    pub const MIN_RSA_BITS: u32 = 2048;

    /// Whether keys of this kind can do it.
    pub(crate) fn suits(self, operation: Operation) -> bool {
        matches!(
            (operation.family(), self),
            (Some(KeyFamily::Rsa), KeyKind::Rsa { .. })
                | (Some(KeyFamily::Ecdsa), KeyKind::Ec(_))
                | (Some(KeyFamily::Ed25519), KeyKind::Ed25519)
        )
    }

    /// The type an identity with such a key has; none if it cannot be served.
    pub fn key_type(self) -> Option<KeyType> {
        match self {
            KeyKind::Rsa { bits } if bits >= KeyKind::MIN_RSA_BITS => Some(KeyType::Rsa),
            KeyKind::Ec(_) => Some(KeyType::Ecdsa),
            KeyKind::Ed25519 => Some(KeyType::Ed25519),
            KeyKind::Rsa { .. } | KeyKind::Other => None,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Rsa { bits } => write!(f, "RSA {bits}"),
            KeyKind::Ec(Curve::P256) => f.write_str("ECDSA P-256"),
            KeyKind::Ec(Curve::P384) => f.write_str("ECDSA P-384"),
            KeyKind::Ec(Curve::P521) => f.write_str("ECDSA P-521"),
            KeyKind::Ed25519 => f.write_str("Ed25519"),
            KeyKind::Other => f.write_str("unsupported"),
        }
    }
}
