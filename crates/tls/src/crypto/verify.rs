//! Public keys and shared secrets that check signatures, as JSON Web Signatures need it (RFC 7518 §3).
//!
//! Owns the choice of padding, digest and form of the signature; makes no signature and knows no token. Keys are read strictly, and too
//! weak ones are rejected when they are read, not when they are used.

use super::digest::{Hash, constant_time_eq};
use super::handle::{clear_errors, public_key};
use super::{Curve, Error, KeyKind, der};
use crate::ffi::Owned;
use aws_lc_sys as sys;
use std::fmt;
use std::ptr;
use zeroize::Zeroizing;

/// Longest RSA modulus that is used, bits. Checking costs by its square, and a longer one protects nothing that 8192 bits do not.
pub const MAX_RSA_BITS: u32 = 8192;

/// Longest public key that is read, bytes.
pub const MAX_PUBLIC_KEY_BYTES: usize = 4 * 1024;

/// `AlgorithmIdentifier`s of the keys that are written here, DER contents.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A digest of the SHA-2 family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sha2 {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Sha2 {
    fn hash(self) -> Hash {
        match self {
            Sha2::Sha256 => Hash::Sha256,
            Sha2::Sha384 => Hash::Sha384,
            Sha2::Sha512 => Hash::Sha512,
        }
    }

    /// Size of the digest, bytes.
    pub fn size(self) -> usize {
        self.hash().size()
    }
}

/// How a signature by a public key was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// RSASSA-PKCS1-v1_5 (RFC 8017 §8.2).
    RsaPkcs1(Sha2),
    /// RSASSA-PSS with a salt as long as the digest and the same digest in MGF1 (RFC 8017 §8.1).
    RsaPss(Sha2),
    /// ECDSA with the two numbers side by side, each as long as the curve's order (RFC 7518 §3.4).
    Ecdsa(Curve, Sha2),
    /// Ed25519 (RFC 8032).
    Ed25519,
}

/// A public key. Cloning shares it; threads may use it at once.
#[derive(Clone)]
pub struct PublicKey {
    key: Owned<sys::EVP_PKEY>,
    kind: KeyKind,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.kind)
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo (RFC 5280 §4.1) that fills `der` exactly.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::TooLarge`], or [`Error::Unsupported`] for kinds that sign nothing here and for RSA below 2048 bits.
    pub fn from_spki(der: &[u8]) -> Result<PublicKey, Error> {
        if der.len() > MAX_PUBLIC_KEY_BYTES {
            return Err(Error::TooLarge("public key of more than 4 KiB"));
        }
        let (key, kind) = public_key(der)?;
        match kind {
            KeyKind::Rsa { bits } if bits < KeyKind::MIN_RSA_BITS => {
                Err(Error::Unsupported("RSA key of less than 2048 bits"))
            }
            KeyKind::Rsa { bits } if bits > MAX_RSA_BITS => Err(Error::TooLarge("RSA key of more than 8192 bits")),
            KeyKind::Other => Err(Error::Unsupported("public key of this kind")),
            _ => Ok(PublicKey { key, kind }),
        }
    }

    /// An RSA key of its modulus and exponent, both big-endian (RFC 7518 §6.3.1).
    ///
    /// # Errors
    /// As [`from_spki`](PublicKey::from_spki).
    pub fn from_rsa(modulus: &[u8], exponent: &[u8]) -> Result<PublicKey, Error> {
        let numbers = der::sequence(&[&unsigned(modulus), &unsigned(exponent)]);
        let algorithm = der::sequence(&[&der::element(der::OBJECT_ID, der::RSA_ENCRYPTION), &[der::NULL, 0]]);
        PublicKey::from_spki(&spki(&algorithm, &numbers))
    }

    /// A point on a curve, both coordinates big-endian and as long as the curve's field (RFC 7518 §6.2.1).
    ///
    /// # Errors
    /// As [`from_spki`](PublicKey::from_spki); also if the point is not on the curve.
    pub fn from_ec(curve: Curve, x: &[u8], y: &[u8]) -> Result<PublicKey, Error> {
        let size = coordinate_bytes(curve);
        let name = match curve {
            Curve::P256 => P256,
            Curve::P384 => P384,
            Curve::P521 => P521,
        };
        if x.len() != size || y.len() != size {
            return Err(Error::Malformed("coordinate of the wrong length"));
        }
        let algorithm = [der::element(der::OBJECT_ID, der::EC_PUBLIC_KEY), der::element(der::OBJECT_ID, name)].concat();
        PublicKey::from_spki(&spki(&der::sequence(&[&algorithm]), &[&[4], x, y].concat()))
    }

    /// An Ed25519 key (RFC 8037 §2).
    ///
    /// # Errors
    /// As [`from_spki`](PublicKey::from_spki).
    pub fn from_ed25519(key: &[u8]) -> Result<PublicKey, Error> {
        if key.len() != 32 {
            return Err(Error::Malformed("Ed25519 key of the wrong length"));
        }
        PublicKey::from_spki(&spki(&der::sequence(&[&der::element(der::OBJECT_ID, ED25519)]), key))
    }

    /// What kind of key it is.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Whether signatures of this scheme can be by this key.
    pub fn fits(&self, scheme: Scheme) -> bool {
        match (scheme, self.kind) {
            (Scheme::RsaPkcs1(_) | Scheme::RsaPss(_), KeyKind::Rsa { .. }) => true,
            (Scheme::Ecdsa(wanted, _), KeyKind::Ec(curve)) => wanted == curve,
            (Scheme::Ed25519, KeyKind::Ed25519) => true,
            _ => false,
        }
    }

    /// Whether `signature` is by this key over `message`. Anything that is not exactly right is false.
    pub fn verify(&self, scheme: Scheme, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(scheme) {
            return false;
        }
        let (digest, form) = match scheme {
            Scheme::RsaPkcs1(digest) | Scheme::RsaPss(digest) => (Some(digest), None),
            Scheme::Ecdsa(curve, digest) => match ecdsa_form(curve, signature) {
                Some(form) => (Some(digest), Some(form)),
                None => return false,
            },
            Scheme::Ed25519 => (None, None),
        };
        let pss = match scheme {
            Scheme::RsaPss(digest) => Some(digest),
            _ => None,
        };
        let verified = self.digest_verify(digest, pss, message, form.as_deref().unwrap_or(signature));
        clear_errors();
        verified
    }

    fn digest_verify(&self, digest: Option<Sha2>, pss: Option<Sha2>, message: &[u8], signature: &[u8]) -> bool {
        let mut context = std::mem::MaybeUninit::<sys::EVP_MD_CTX>::uninit();
        let digest = digest.map_or(ptr::null(), |digest| digest.hash().as_evp());
        // SAFETY: `EVP_MD_CTX_init` fills the context in before any other use, and the cleanup ends it on every path; the inner key context
        // belongs to it. The key is live and only read. Both slices are readable for their lengths.
        unsafe {
            sys::EVP_MD_CTX_init(context.as_mut_ptr());
            let mut inner = ptr::null_mut();
            let key = self.key.as_ptr();
            let ready = sys::EVP_DigestVerifyInit(context.as_mut_ptr(), &mut inner, digest, ptr::null_mut(), key) == 1
                && pss.is_none_or(|digest| {
                    // -1: the salt is as long as the digest, and nothing else is taken.
                    sys::EVP_PKEY_CTX_set_rsa_padding(inner, sys::RSA_PKCS1_PSS_PADDING) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_pss_saltlen(inner, -1) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_mgf1_md(inner, digest.hash().as_evp()) == 1
                });
            let verified = ready
                && sys::EVP_DigestVerify(
                    context.as_mut_ptr(),
                    signature.as_ptr(),
                    signature.len(),
                    message.as_ptr(),
                    message.len(),
                ) == 1;
            sys::EVP_MD_CTX_cleanup(context.as_mut_ptr());
            verified
        }
    }
}

/// A secret shared with whoever signs (RFC 2104). Wiped when dropped.
pub struct MacKey(Zeroizing<Vec<u8>>);

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey")
    }
}

impl MacKey {
    /// A secret of these bytes.
    pub fn new(secret: Vec<u8>) -> MacKey {
        MacKey(Zeroizing::new(secret))
    }

    /// Whether it is as long as the digest at least (RFC 7518 §3.2).
    pub fn fits(&self, digest: Sha2) -> bool {
        self.0.len() >= digest.size()
    }

    /// HMAC of `message`.
    ///
    /// # Errors
    /// [`Error::Library`].
    pub fn mac(&self, digest: Sha2, message: &[u8]) -> Result<Vec<u8>, Error> {
        digest.hash().hmac(&self.0, message)
    }

    /// Whether `mac` is the HMAC of `message`, in a time that does not depend on how much of it is right.
    pub fn verify(&self, digest: Sha2, message: &[u8], mac: &[u8]) -> bool {
        self.fits(digest) && self.mac(digest, message).is_ok_and(|own| constant_time_eq(&own, mac))
    }
}

/// HMAC-SHA-256 as a keyed hash: whoever does not know the key cannot make two inputs collide.
pub fn keyed_hash(key: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let (mut out, mut hash) = ([0; Hash::MAX_SIZE], [0; 32]);
    // It fails only for want of memory, and then the zeros stay, which no set holds.
    if Hash::Sha256.hmac_into(key, data, &mut out).is_ok() {
        hash.copy_from_slice(&out[..32]);
    }
    hash
}

fn spki(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    der::sequence(&[algorithm, &der::element(der::BIT_STRING, &[&[0], key].concat())])
}

/// An unsigned big-endian number as an INTEGER.
fn unsigned(digits: &[u8]) -> Vec<u8> {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let digits = digits.get(zeros..).unwrap_or_default();
    match digits.first() {
        Some(first) if first & 0x80 == 0 => der::element(der::INTEGER, digits),
        _ => der::element(der::INTEGER, &[&[0], digits].concat()),
    }
}

/// Two numbers side by side as the sequence that the library reads; none if the length is not the curve's.
fn ecdsa_form(curve: Curve, signature: &[u8]) -> Option<Vec<u8>> {
    let size = coordinate_bytes(curve);
    if signature.len() != 2 * size {
        return None;
    }
    let (r, s) = signature.split_at(size);
    Some(der::sequence(&[&unsigned(r), &unsigned(s)]))
}

/// Bytes of a coordinate, and of each number of a signature: the curves' fields and orders are as long as each other.
fn coordinate_bytes(curve: Curve) -> usize {
    match curve {
        Curve::P256 => 32,
        Curve::P384 => 48,
        Curve::P521 => 66,
    }
}
