//! A public key: verifies what was signed elsewhere, and names the key to whoever keeps its private half.
//!
//! Signs nothing and never sees a private key.

use super::digest::{sha1, sha256};
use super::{Error, KeyKind, der, handle};
use crate::ffi::Owned;
use crate::scheme;
use aws_lc_sys as sys;
use std::os::raw::c_int;
use std::ptr;
use wire::keyless::{HashKind, Operation};

/// A parsed public key. Immutable, so that threads may share it.
#[derive(Debug, Clone)]
pub struct PublicKey {
    key: Owned<sys::EVP_PKEY>,
    kind: KeyKind,
    identifier: [u8; 20],
    /// Longest signature, bytes; for RSA also the length of the modulus.
    size: usize,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo that fills `spki` exactly (RFC 5280 §4.1.2.7).
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is none.
    pub fn from_spki_der(spki: &[u8]) -> Result<PublicKey, Error> {
        let (key, kind) = handle::public_key(spki)?;
        // SAFETY: the key is live.
        let size = usize::try_from(unsafe { sys::EVP_PKEY_size(key.as_ptr()) });
        let size = size.map_err(|_| Error::Malformed("not a public key"))?;
        Ok(PublicKey { key, kind, identifier: key_identifier(spki)?, size })
    }

    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The subject key identifier: SHA-1 over the bits of the public key (RFC 5280 §4.2.1.2, first method).
    pub fn identifier(&self) -> &[u8; 20] {
        &self.identifier
    }

    /// Longest signature it verifies, bytes; for RSA the length of the modulus, and of every signature.
    pub fn signature_bytes(&self) -> usize {
        self.size
    }

    /// Whether `signature` is what `operation` makes of `input` with the private half: `input` is a digest, or for Ed25519 the whole message.
    /// False for what signs nothing. P-256 takes 49 us, RSA-2048 16 us.
    pub fn verifies(&self, operation: Operation, input: &[u8], signature: &[u8]) -> bool {
        if !self.kind.suits(operation) {
            return false;
        }
        let verified = match (operation, scheme::hash(operation)) {
            (Operation::Ed25519, _) => self.verifies_message(input, signature),
            (_, Some(hash)) if input.len() == hash.digest_bytes() => {
                let is_pss = matches!(operation, Operation::RsaPss(_));
                self.verifies_digest(is_pss, hash, input, signature)
            }
            _ => 0,
        };
        handle::clear_errors();
        verified == 1
    }

    fn verifies_digest(&self, is_pss: bool, hash: HashKind, input: &[u8], signature: &[u8]) -> c_int {
        // SAFETY: the context is fresh, lives for these calls and is freed once; the key outlives it; slices are read for their lengths.
        unsafe {
            let context = sys::EVP_PKEY_CTX_new(self.key.as_ptr(), ptr::null_mut());
            if context.is_null() {
                return 0;
            }
            let ready = sys::EVP_PKEY_verify_init(context) == 1
                && (!is_pss
                    || sys::EVP_PKEY_CTX_set_rsa_padding(context, sys::RSA_PKCS1_PSS_PADDING) == 1
                        && sys::EVP_PKEY_CTX_set_rsa_pss_saltlen(context, sys::RSA_PSS_SALTLEN_DIGEST) == 1)
                && sys::EVP_PKEY_CTX_set_signature_md(context, scheme::as_evp(hash)) == 1;
            let verified = if ready {
                sys::EVP_PKEY_verify(context, signature.as_ptr(), signature.len(), input.as_ptr(), input.len())
            } else {
                0
            };
            sys::EVP_PKEY_CTX_free(context);
            verified
        }
    }

    fn verifies_message(&self, message: &[u8], signature: &[u8]) -> c_int {
        // SAFETY: as above; the key's own context is freed with the digest's.
        unsafe {
            let context = sys::EVP_MD_CTX_new();
            if context.is_null() {
                return 0;
            }
            let (no_digest, no_engine) = (ptr::null(), ptr::null_mut());
            let ready =
                sys::EVP_DigestVerifyInit(context, ptr::null_mut(), no_digest, no_engine, self.key.as_ptr()) == 1;
            let verified = if ready {
                sys::EVP_DigestVerify(context, signature.as_ptr(), signature.len(), message.as_ptr(), message.len())
            } else {
                0
            };
            sys::EVP_MD_CTX_free(context);
            verified
        }
    }
}

/// SHA-1 over the subjectPublicKey bits of a SubjectPublicKeyInfo, without tag, length and the count of unused bits.
///
/// # Errors
/// [`Error::Malformed`] if it is no such structure.
pub fn key_identifier(spki: &[u8]) -> Result<[u8; 20], Error> {
    Ok(sha1(key_of(spki)?.1))
}

/// The name that peers who know no key identifier have for a key: SHA-256 over upper-case hexadecimal digits, of the modulus of an RSA key (no
/// leading zero) or of the compressed point of an EC key. None for other keys.
///
/// # Errors
/// [`Error::Malformed`] if it is no SubjectPublicKeyInfo.
pub fn key_digest(spki: &[u8]) -> Result<Option<[u8; 32]>, Error> {
    let (algorithm, bits) = key_of(spki)?;
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let text = match (algorithm, bits.first()) {
        (der::RSA_ENCRYPTION, _) => {
            let modulus = der::Reader::new(bits).enter(der::SEQUENCE)?.expect(der::INTEGER)?;
            digits(modulus).trim_start_matches('0').to_owned()
        }
        // RFC 5480 §2.2: an uncompressed point; its y is odd or even.
        (der::EC_PUBLIC_KEY, Some(0x04)) if bits.len() >= 65 && bits.len() % 2 == 1 => {
            let (x, y) = bits[1..].split_at(bits.len() / 2);
            let sign = 2 + (y.last().copied().unwrap_or(0) & 1);
            format!("{sign:02X}{}", digits(x))
        }
        _ => return Ok(None),
    };
    Ok(Some(sha256(text.as_bytes())))
}

/// The subjectPublicKey bits of a SubjectPublicKeyInfo, without tag, length and the count of unused bits.
///
/// # Errors
/// [`Error::Malformed`] if it is no such structure.
pub fn key_bits(spki: &[u8]) -> Result<&[u8], Error> {
    Ok(key_of(spki)?.1)
}

/// The identifier of the algorithm and the subjectPublicKey bits.
fn key_of(spki: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut outer = der::Reader::new(spki);
    let mut info = outer.enter(der::SEQUENCE)?;
    outer.finish()?;
    let algorithm = info.enter(der::SEQUENCE)?.expect(der::OBJECT_ID)?;
    let bits = info.expect(der::BIT_STRING)?;
    info.finish()?;
    Ok((algorithm, bits.strip_prefix(&[0]).ok_or(Error::Malformed("not a public key"))?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// One Ed25519 key in 256 begins like a SEQUENCE, and one like an uncompressed point: neither is one.
    #[test]
    fn the_algorithm_tells_what_the_bits_are() {
        for first in [der::SEQUENCE, 0x04] {
            let key = [&[first][..], &[0x55; 31]].concat();
            let algorithm = der::sequence(&[&der::element(der::OBJECT_ID, &[0x2b, 0x65, 0x70])]);
            let bits = der::element(der::BIT_STRING, &[&[0][..], &key].concat());
            let spki = der::sequence(&[&algorithm, &bits]);
            assert_eq!(key_digest(&spki).unwrap(), None);
            assert_eq!(key_identifier(&spki).unwrap(), sha1(&key));
        }
    }
}
