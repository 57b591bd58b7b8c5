//! Small secrets handed to strangers for safekeeping: sealed so that nobody can read, change or make one without the key.
//!
//! AES-256-GCM-SIV (RFC 8452): a nonce drawn twice by chance shows that two plaintexts are equal, and nothing else.

use std::fmt;
use std::ptr::NonNull;

use super::Error;
use super::digest::random;
use aws_lc_sys as sys;

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// What is added to what is sealed, bytes.
pub const OVERHEAD_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// A key to seal under.
pub struct SealingKey(NonNull<sys::EVP_AEAD_CTX>);

// SAFETY: the context is not changed after it was made; sealing and opening take it as const and keep nothing in it (`openssl/aead.h`: a context may be used
// by several threads at once).
unsafe impl Send for SealingKey {}
// SAFETY: as above.
unsafe impl Sync for SealingKey {}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

impl Drop for SealingKey {
    fn drop(&mut self) {
        // SAFETY: made by `EVP_AEAD_CTX_new`, owned by this value alone, freed once.
        unsafe { sys::EVP_AEAD_CTX_free(self.0.as_ptr()) };
    }
}

impl SealingKey {
    /// A key of these bytes.
    ///
    /// # Errors
    /// [`Error::Library`].
    pub fn new(key: &[u8; 32]) -> Result<SealingKey, Error> {
        // SAFETY: the algorithm is a static table; the key is readable for its length and copied. What comes back is ours.
        let context =
            unsafe { sys::EVP_AEAD_CTX_new(sys::EVP_aead_aes_256_gcm_siv(), key.as_ptr(), key.len(), TAG_BYTES) };
        NonNull::new(context).map(SealingKey).ok_or(Error::Library)
    }

    /// Seals `secret`, which opens only where `about` is the same.
    ///
    /// # Errors
    /// [`Error::Library`].
    pub fn seal(&self, about: &[u8], secret: &[u8]) -> Result<Vec<u8>, Error> {
        let nonce = random::<NONCE_BYTES>()?;
        let mut sealed = nonce.to_vec();
        sealed.resize(secret.len() + OVERHEAD_BYTES, 0);
        let (mut written, Some(out)) = (0, sealed.get_mut(NONCE_BYTES..)) else { return Err(Error::Library) };
        // SAFETY: the context is live; `out` takes up to its length, nonce, secret and `about` are readable for theirs, and none overlaps `out`.
        let done = unsafe {
            sys::EVP_AEAD_CTX_seal(
                self.0.as_ptr(),
                out.as_mut_ptr(),
                &raw mut written,
                out.len(),
                nonce.as_ptr(),
                nonce.len(),
                secret.as_ptr(),
                secret.len(),
                about.as_ptr(),
                about.len(),
            )
        };
        if done == 1 && written == out.len() { Ok(sealed) } else { Err(Error::Library) }
    }

    /// Opens what was sealed under this key about the same; none if it is anything else.
    pub fn open(&self, about: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, closed) = sealed.split_at_checked(NONCE_BYTES)?;
        let mut secret = vec![0; closed.len().checked_sub(TAG_BYTES)?];
        let mut written = 0;
        // SAFETY: as in `seal`; `secret` takes up to its length.
        let done = unsafe {
            sys::EVP_AEAD_CTX_open(
                self.0.as_ptr(),
                secret.as_mut_ptr(),
                &raw mut written,
                secret.len(),
                nonce.as_ptr(),
                nonce.len(),
                closed.as_ptr(),
                closed.len(),
                about.as_ptr(),
                about.len(),
            )
        };
        if done != 1 {
            // What a stranger sent must not look like an error of the next call.
            // SAFETY: touches the queue of this thread alone.
            unsafe { sys::ERR_clear_error() };
            return None;
        }
        (written == secret.len()).then_some(secret)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn what_was_sealed_opens_under_the_same_key_about_the_same_only() {
        let (key, other) = (SealingKey::new(&[7; 32]).unwrap(), SealingKey::new(&[8; 32]).unwrap());
        for secret in [&b""[..], b"x", b"12345678", &[0; 300]] {
            let sealed = key.seal(b"shop", secret).unwrap();
            assert_eq!(sealed.len(), secret.len() + OVERHEAD_BYTES);
            assert_eq!(key.open(b"shop", &sealed).as_deref(), Some(secret));
            assert_eq!((key.open(b"blog", &sealed), other.open(b"shop", &sealed)), (None, None));
            assert_ne!(key.seal(b"shop", secret).unwrap(), sealed, "no two are alike");
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(key.open(b"shop", &changed), None, "{at}");
            }
            for length in 0..sealed.len() {
                assert_eq!(key.open(b"shop", &sealed[..length]), None, "{length}");
            }
        }
    }

    #[test]
    fn it_is_the_algorithm_of_rfc_8452() {
        // Appendix C.2: the first vectors of AEAD_AES_256_GCM_SIV with a plaintext of 0 and 8 bytes.
        let mut key = [0; 32];
        key[0] = 1;
        let key = SealingKey::new(&key).unwrap();
        let nonce = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let bytes = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        for (secret, closed) in [
            ("", "07f5f4169bbf55a8400cd47ea6fd400f"),
            ("0100000000000000", "c2ef328e5c71c83b843122130f7364b761e0b97427e3df28"),
        ] {
            let sealed = [&nonce[..], &bytes(closed)].concat();
            assert_eq!(key.open(b"", &sealed), Some(bytes(secret)));
        }
    }
}
