//! Signature schemes of handshakes as operations on private keys, and their hashes.
//!
//! Computes digests; signs and verifies nothing. Ruled by RFC 8446 §4.2.3 and, below TLS 1.2, RFC 4346 §7.4.3.

use aws_lc_sys as sys;
use std::ptr;
use wire::keyless::{HashKind, Operation};

/// Longest digest of any hash, bytes.
const MAX_DIGEST_BYTES: usize = 64;

/// The operation of the scheme with this number in a handshake; 0xff01 is the library's own for what TLS 1.0 and 1.1 do with RSA.
pub(crate) fn operation(number: u16) -> Option<Operation> {
    Some(match i32::from(number) {
        sys::SSL_SIGN_RSA_PKCS1_MD5_SHA1 => Operation::RsaPkcs1(HashKind::Md5Sha1),
        sys::SSL_SIGN_RSA_PKCS1_SHA1 => Operation::RsaPkcs1(HashKind::Sha1),
        sys::SSL_SIGN_RSA_PKCS1_SHA256 => Operation::RsaPkcs1(HashKind::Sha256),
        sys::SSL_SIGN_RSA_PKCS1_SHA384 => Operation::RsaPkcs1(HashKind::Sha384),
        sys::SSL_SIGN_RSA_PKCS1_SHA512 => Operation::RsaPkcs1(HashKind::Sha512),
        sys::SSL_SIGN_RSA_PSS_RSAE_SHA256 => Operation::RsaPss(HashKind::Sha256),
        sys::SSL_SIGN_RSA_PSS_RSAE_SHA384 => Operation::RsaPss(HashKind::Sha384),
        sys::SSL_SIGN_RSA_PSS_RSAE_SHA512 => Operation::RsaPss(HashKind::Sha512),
        sys::SSL_SIGN_ECDSA_SHA1 => Operation::Ecdsa(HashKind::Sha1),
        sys::SSL_SIGN_ECDSA_SECP256R1_SHA256 => Operation::Ecdsa(HashKind::Sha256),
        sys::SSL_SIGN_ECDSA_SECP384R1_SHA384 => Operation::Ecdsa(HashKind::Sha384),
        sys::SSL_SIGN_ECDSA_SECP521R1_SHA512 => Operation::Ecdsa(HashKind::Sha512),
        sys::SSL_SIGN_ED25519 => Operation::Ed25519,
        _ => return None,
    })
}

/// What a signature hashes before it is made; none for what signs nothing, or the message itself.
pub(crate) fn hash(operation: Operation) -> Option<HashKind> {
    match operation {
        Operation::RsaPkcs1(hash) | Operation::RsaPss(hash) | Operation::Ecdsa(hash) => Some(hash),
        Operation::Ed25519 | Operation::RsaDecrypt | Operation::Ping => None,
    }
}

/// What a key is given to sign `message`: its digest, or for Ed25519 all of it. None if the library is out of memory.
pub(crate) fn input(operation: Operation, message: &[u8]) -> Option<Vec<u8>> {
    let Some(hash) = hash(operation) else { return Some(message.to_vec()) };
    let mut out = vec![0; MAX_DIGEST_BYTES];
    let mut written = 0;
    // SAFETY: `message` is readable for its length; `out` holds the longest digest.
    let done = unsafe {
        let (into, engine) = (out.as_mut_ptr(), ptr::null_mut());
        sys::EVP_Digest(message.as_ptr().cast(), message.len(), into, &raw mut written, as_evp(hash), engine)
    };
    out.truncate(hash.digest_bytes());
    (done == 1).then_some(out)
}

/// The library's description of a hash, static.
pub(crate) fn as_evp(hash: HashKind) -> *const sys::EVP_MD {
    // SAFETY: these return pointers to static tables.
    unsafe {
        match hash {
            HashKind::Md5Sha1 => sys::EVP_md5_sha1(),
            HashKind::Sha1 => sys::EVP_sha1(),
            HashKind::Sha224 => sys::EVP_sha224(),
            HashKind::Sha256 => sys::EVP_sha256(),
            HashKind::Sha384 => sys::EVP_sha384(),
            HashKind::Sha512 => sys::EVP_sha512(),
        }
    }
}
