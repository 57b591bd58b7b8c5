//! A private key at work: signatures over digests that others made, and the decryption of TLS 1.2's RSA key exchange.
//!
//! What a key server needs, and nothing else: whoever asks is not known here. Ruled by RFC 8017 (RSA), FIPS 186-5 (ECDSA), RFC 8032 (Ed25519) and
//! RFC 5246 §7.4.7.1 (key exchange).

use super::digest::{random, sha256};
use super::handle::{clear_errors, kind_of};
use super::{Error, KeyKind, PrivateKey};
use crate::ffi::Owned;
use crate::scheme;
use aws_lc_sys as sys;
use std::os::raw::c_int;
use std::ptr;
use wire::keyless::{HashKind, Operation};
use zeroize::Zeroizing;

/// Length of the premaster secret of TLS (RFC 5246 §7.4.7.1), bytes.
pub const PREMASTER_BYTES: usize = 48;

/// Longest RSA modulus that is worked with, bytes (16,384 bits).
const MAX_MODULUS_BYTES: usize = 2048;

/// A parsed private key. Immutable, so that threads may share it; what the library caches in it, it locks. Wiped by the library when dropped.
pub struct SigningKey {
    key: Owned<sys::EVP_PKEY>,
    kind: KeyKind,
    /// Longest signature; for RSA also the length of the modulus.
    size: usize,
    /// What substitutes for bad padding are derived from: nobody outside can know it.
    substitute_secret: Zeroizing<[u8; 32]>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.kind)
    }
}

impl SigningKey {
    /// Parses and checks the key (9 us for P-256, 135 us for RSA-2048).
    ///
    /// # Errors
    /// [`Error::Malformed`] if its numbers do not belong together, [`Error::Unsupported`] if it cannot be served.
    pub fn new(key: &PrivateKey) -> Result<SigningKey, Error> {
        let der = key.to_pkcs8_der();
        clear_errors();
        let mut input = sys::CBS { data: der.as_ptr(), len: der.len() };
        // SAFETY: the reader covers a live slice and advances within it; the returned key is ours.
        let parsed = unsafe { Owned::from_raw(sys::EVP_parse_private_key(&raw mut input), "reading a private key") };
        clear_errors();
        let parsed = parsed.map_err(|_| Error::Malformed("no valid private key"))?;
        // SAFETY: the key is live.
        let (kind, size) = unsafe { (kind_of(parsed.as_ptr()), sys::EVP_PKEY_size(parsed.as_ptr())) };
        if kind.key_type().is_none() {
            return Err(Error::Unsupported("a key of this kind or size"));
        }
        let size = usize::try_from(size).ok().filter(|size| *size <= MAX_MODULUS_BYTES).ok_or(Error::Library)?;
        let secret = Zeroizing::new([&b"substitute"[..], &der].concat());
        Ok(SigningKey { key: parsed, kind, size, substitute_secret: Zeroizing::new(sha256(&secret)) })
    }

    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Longest signature it makes, bytes; for RSA the length of the modulus, and of every signature.
    pub fn signature_bytes(&self) -> usize {
        self.size
    }

    /// Does `operation` with `input` (a digest of the operation's hash, for Ed25519 the whole message, or a ciphertext) and writes the result into
    /// `out`, which is overwritten.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is not one for this kind of key, [`Error::Malformed`] if the input has another length than the operation's,
    /// [`Error::Library`] if the library failed; `out` is empty then.
    pub fn perform(&self, operation: Operation, input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        if !self.kind.suits(operation) {
            return Err(Error::Unsupported("an operation for another kind of key"));
        }
        if operation.payload_bytes().is_some_and(|length| length != input.len()) {
            return Err(Error::Malformed("digest of another length"));
        }
        if operation == Operation::RsaDecrypt {
            return self.decrypt_premaster(input, out);
        }
        out.resize(self.size, 0);
        clear_errors();
        let length = match operation {
            Operation::RsaPkcs1(hash) => self.sign_pkcs1(hash, input, out),
            Operation::RsaPss(hash) => self.sign_pss(hash, input, out),
            Operation::Ecdsa(_) => self.sign_ecdsa(input, out),
            Operation::Ed25519 => self.sign_message(input, out),
            Operation::RsaDecrypt | Operation::Ping => None,
        };
        clear_errors();
        out.truncate(length.unwrap_or(0));
        length.map(|_| ()).ok_or(Error::Library)
    }

    fn sign_pkcs1(&self, hash: HashKind, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut length = 0;
        // SAFETY: `out` has room for a modulus, which is what is written; the RSA key is borrowed from the live key.
        let done = unsafe {
            let rsa = sys::EVP_PKEY_get0_RSA(self.key.as_ptr());
            let hash = sys::EVP_MD_type(scheme::as_evp(hash));
            sys::RSA_sign(hash, input.as_ptr(), input.len(), out.as_mut_ptr(), &raw mut length, rsa)
        };
        (done == 1).then_some(length as usize)
    }

    fn sign_pss(&self, hash: HashKind, input: &[u8], out: &mut [u8]) -> Option<usize> {
        /// The library's number for a salt as long as the hash.
        const SALT_AS_LONG_AS_HASH: c_int = -1;
        let (mut length, hash) = (0, scheme::as_evp(hash));
        // SAFETY: as above; `out.len()` bounds what is written.
        let done = unsafe {
            let rsa = sys::EVP_PKEY_get0_RSA(self.key.as_ptr());
            let (into, room) = (out.as_mut_ptr(), out.len());
            let (from, count) = (input.as_ptr(), input.len());
            sys::RSA_sign_pss_mgf1(rsa, &raw mut length, into, room, from, count, hash, hash, SALT_AS_LONG_AS_HASH)
        };
        (done == 1).then_some(length)
    }

    fn sign_ecdsa(&self, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut length = 0;
        // SAFETY: `out` has room for the longest signature of this key; the EC key is borrowed from the live key. The first argument is unused.
        let done = unsafe {
            let ec = sys::EVP_PKEY_get0_EC_KEY(self.key.as_ptr());
            sys::ECDSA_sign(0, input.as_ptr(), input.len(), out.as_mut_ptr(), &raw mut length, ec)
        };
        (done == 1).then_some(length as usize)
    }

    fn sign_message(&self, message: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut length = out.len();
        // SAFETY: the context is fresh, lives for these calls and is freed once; the key outlives it; `length` bounds what is written.
        unsafe {
            let context = sys::EVP_MD_CTX_new();
            if context.is_null() {
                return None;
            }
            let (no_digest, no_engine) = (ptr::null(), ptr::null_mut());
            let done = sys::EVP_DigestSignInit(context, ptr::null_mut(), no_digest, no_engine, self.key.as_ptr()) == 1
                && sys::EVP_DigestSign(context, out.as_mut_ptr(), &raw mut length, message.as_ptr(), message.len())
                    == 1;
            sys::EVP_MD_CTX_free(context);
            done.then_some(length)
        }
    }

    /// Decrypts the key exchange in `ciphertext` and writes a well-formed block as long as the modulus into `out`: `00 02`, fresh padding, `00`, 48
    /// bytes. If the plaintext is anything but a PKCS#1 v1.5 block around 48 bytes, the 48 bytes are a substitute that depends on the key and the
    /// ciphertext only. Both cases take the same steps, so whoever asks learns nothing about the plaintext of what he did not make.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the ciphertext is not as long as the modulus or not below it, which its
    /// sender knew before.
    fn decrypt_premaster(&self, ciphertext: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if ciphertext.len() != self.size {
            return Err(Error::Malformed("ciphertext of another length than the modulus"));
        }
        let mut plain = Zeroizing::new([0; MAX_MODULUS_BYTES]);
        let plain = &mut plain[..self.size];
        let mut length = 0;
        clear_errors();
        // SAFETY: `plain` has room for a modulus; the RSA key is borrowed from the live key.
        let done = unsafe {
            let rsa = sys::EVP_PKEY_get0_RSA(self.key.as_ptr());
            let (into, room) = (plain.as_mut_ptr(), plain.len());
            let (from, count) = (ciphertext.as_ptr(), ciphertext.len());
            sys::RSA_decrypt(rsa, &raw mut length, into, room, from, count, sys::RSA_NO_PADDING)
        };
        clear_errors();
        if done != 1 || length != self.size {
            return Err(Error::Malformed("ciphertext not below the modulus"));
        }
        let substitute = self.substitute(ciphertext);
        fresh_padding(self.size, out)?;
        let (_, premaster) = plain.split_at(self.size - PREMASTER_BYTES);
        let good = std::hint::black_box(is_premaster_block(plain));
        out.extend(
            premaster.iter().zip(substitute.iter()).map(|(real, substitute)| (real & good) | (substitute & !good)),
        );
        Ok(())
    }

    /// The 48 bytes that stand in for bad padding: the same for the same ciphertext, so that asking twice tells nothing.
    fn substitute(&self, ciphertext: &[u8]) -> Zeroizing<[u8; PREMASTER_BYTES]> {
        let seed = Zeroizing::new([&self.substitute_secret[..], ciphertext].concat());
        let (first, second) = (Zeroizing::new(sha256(&seed)), Zeroizing::new(sha256(&[&seed[..], &[1]].concat())));
        let mut bytes = Zeroizing::new([0; PREMASTER_BYTES]);
        bytes.iter_mut().zip(first.iter().chain(second.iter())).for_each(|(to, from)| *to = *from);
        bytes
    }
}

/// 0xff if `plain` is `00 02`, bytes that are not zero, `00`, and 48 bytes (RFC 8017 §7.2.2); else 0. No branch depends on the bytes.
fn is_premaster_block(plain: &[u8]) -> u8 {
    let (head, _) = plain.split_at(plain.len() - PREMASTER_BYTES);
    let mut wrong = 0;
    let last = head.len() - 1;
    for (index, &byte) in head.iter().enumerate() {
        wrong |= match index {
            0 => byte,
            1 => byte ^ 2,
            _ if index == last => byte,
            // 0xff where the byte is zero.
            _ => is_zero(byte),
        };
    }
    is_zero(wrong)
}

/// 0xff for zero, 0 for anything else, without a branch.
fn is_zero(byte: u8) -> u8 {
    let wide = u16::from(std::hint::black_box(byte));
    (wide.wrapping_sub(1) >> 8) as u8
}

/// `00 02`, random bytes that are not zero, `00`: the head of a block of `size` bytes around a premaster secret.
fn fresh_padding(size: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    out.extend_from_slice(&[0, 2]);
    let end = size - PREMASTER_BYTES - 1;
    while out.len() < end {
        let more = random::<64>()?;
        out.extend(more.iter().filter(|byte| **byte != 0).take(end - out.len()));
    }
    out.push(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn premaster_blocks_are_reported_from_others() {
        let mut good = vec![7; 256];
        (good[0], good[1], good[256 - 49]) = (0, 2, 0);
        assert_eq!(is_premaster_block(&good), 0xff);
        for (index, byte) in [(0, 1), (1, 1), (1, 0), (2, 0), (100, 0), (206, 0), (207, 1)] {
            let mut bad = good.clone();
            bad[index] = byte;
            assert_eq!(is_premaster_block(&bad), 0, "byte {index}");
        }
        good[255] = 0;
        assert_eq!(is_premaster_block(&good), 0xff, "the secret itself may hold anything");
        for byte in 0..=u8::MAX {
            assert_eq!(is_zero(byte), if byte == 0 { 0xff } else { 0 });
        }
    }
}
