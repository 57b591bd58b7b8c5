//! The signature algorithms of JSON Web Tokens by their registered names.

use tls::crypto::Curve;
use tls::crypto::verify::{Scheme, Sha2};

/// A signature algorithm by its registered name (RFC 7518 §3.1, RFC 8037 §3.1). There is no `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "these are the registered names")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
    Hs256,
    Hs384,
    Hs512,
}

/// The keys that an algorithm is used with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A public key, with this signature scheme.
    Public(Scheme),
    /// A shared secret, with HMAC over this digest.
    Secret(Sha2),
}

impl Algorithm {
    /// All there are, with their registered names.
    pub const ALL: [(&'static str, Algorithm); 13] = [
        ("RS256", Algorithm::Rs256),
        ("RS384", Algorithm::Rs384),
        ("RS512", Algorithm::Rs512),
        ("PS256", Algorithm::Ps256),
        ("PS384", Algorithm::Ps384),
        ("PS512", Algorithm::Ps512),
        ("ES256", Algorithm::Es256),
        ("ES384", Algorithm::Es384),
        ("ES512", Algorithm::Es512),
        ("EdDSA", Algorithm::EdDsa),
        ("HS256", Algorithm::Hs256),
        ("HS384", Algorithm::Hs384),
        ("HS512", Algorithm::Hs512),
    ];

    /// The algorithm of this name, in exactly this case.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    /// Its registered name.
    pub fn name(self) -> &'static str {
        Algorithm::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Whether it takes a shared secret.
    pub fn is_symmetric(self) -> bool {
        matches!(self.key_kind(), KeyKind::Secret(_))
    }

    /// What keys it is used with.
    pub fn key_kind(self) -> KeyKind {
        use Sha2::{Sha256, Sha384, Sha512};
        match self {
            Algorithm::Rs256 => KeyKind::Public(Scheme::RsaPkcs1(Sha256)),
            Algorithm::Rs384 => KeyKind::Public(Scheme::RsaPkcs1(Sha384)),
            Algorithm::Rs512 => KeyKind::Public(Scheme::RsaPkcs1(Sha512)),
            Algorithm::Ps256 => KeyKind::Public(Scheme::RsaPss(Sha256)),
            Algorithm::Ps384 => KeyKind::Public(Scheme::RsaPss(Sha384)),
            Algorithm::Ps512 => KeyKind::Public(Scheme::RsaPss(Sha512)),
            Algorithm::Es256 => KeyKind::Public(Scheme::Ecdsa(Curve::P256, Sha256)),
            Algorithm::Es384 => KeyKind::Public(Scheme::Ecdsa(Curve::P384, Sha384)),
            Algorithm::Es512 => KeyKind::Public(Scheme::Ecdsa(Curve::P521, Sha512)),
            Algorithm::EdDsa => KeyKind::Public(Scheme::Ed25519),
            Algorithm::Hs256 => KeyKind::Secret(Sha256),
            Algorithm::Hs384 => KeyKind::Secret(Sha384),
            Algorithm::Hs512 => KeyKind::Secret(Sha512),
        }
    }
}
