//! SHA-1 and SHA-256, HMAC, constant-time comparison, random bytes.
//!
//! SHA-1 is here because Java keystores and old PKCS#12 files are built on it, not for anything new.

use super::Error;
use aws_lc_sys as sys;

/// SHA-1 (FIPS 180-4). For file formats that demand it; it resists nothing any more.
pub fn sha1(data: &[u8]) -> [u8; 20] {
    let mut out = [0; 20];
    // SAFETY: `data` is readable for its length, `out` takes the 20 bytes that SHA1 writes.
    unsafe { sys::SHA1(data.as_ptr(), data.len(), out.as_mut_ptr()) };
    out
}

/// SHA-256 (FIPS 180-4).
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    // SAFETY: `data` is readable for its length, `out` takes the 32 bytes that SHA256 writes.
    unsafe { sys::SHA256(data.as_ptr(), data.len(), out.as_mut_ptr()) };
    out
}

/// Whether both are equal, in a time that depends on their lengths only.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    // SAFETY: both are readable for the common length.
    a.len() == b.len() && unsafe { sys::CRYPTO_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) } == 0
}

/// Random bytes from the library's generator, fit for keys and salts.
///
/// # Errors
/// [`Error::Library`]: the system has no entropy to give. Nothing may be made from the bytes then, so there are none.
pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut out = [0; N];
    // SAFETY: `out` takes the N bytes.
    if unsafe { sys::RAND_bytes(out.as_mut_ptr(), N) } == 1 { Ok(out) } else { Err(Error::Library) }
}

/// A hash function of the SHA family, chosen at run time by what a file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// Longest output of all of them, bytes.
    pub(super) const MAX_SIZE: usize = 64;

    /// Size of the output, bytes.
    pub(super) fn size(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha224 => 28,
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// Size of the block it works on, bytes.
    pub(super) fn block_size(self) -> usize {
        match self {
            Hash::Sha1 | Hash::Sha224 | Hash::Sha256 => 64,
            Hash::Sha384 | Hash::Sha512 => 128,
        }
    }

    /// The library's description of it, static.
    pub(super) fn as_evp(self) -> *const sys::EVP_MD {
        // SAFETY: these return pointers to static tables.
        unsafe {
            match self {
                Hash::Sha1 => sys::EVP_sha1(),
                Hash::Sha224 => sys::EVP_sha224(),
                Hash::Sha256 => sys::EVP_sha256(),
                Hash::Sha384 => sys::EVP_sha384(),
                Hash::Sha512 => sys::EVP_sha512(),
            }
        }
    }

    /// Hashes `data` into the first `size()` bytes of `out`.
    pub(super) fn digest(self, data: &[u8], out: &mut [u8; Hash::MAX_SIZE]) -> Result<(), Error> {
        let mut written = 0;
        // SAFETY: `data` is readable for its length; `out` holds the longest digest.
        let ok = unsafe {
            sys::EVP_Digest(
                data.as_ptr().cast(),
                data.len(),
                out.as_mut_ptr(),
                &mut written,
                self.as_evp(),
                std::ptr::null_mut(),
            )
        };
        if ok == 1 { Ok(()) } else { Err(Error::Library) }
    }

    /// HMAC (RFC 2104) of `data` under `key`.
    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = [0; Hash::MAX_SIZE];
        self.hmac_into(key, data, &mut out)?;
        Ok(out[..self.size()].to_vec())
    }

    /// As [`Hash::hmac`], into the first `size()` bytes of `out`.
    pub(super) fn hmac_into(self, key: &[u8], data: &[u8], out: &mut [u8; Hash::MAX_SIZE]) -> Result<(), Error> {
        let mut written = 0;
        // SAFETY: key and data are readable for their lengths; `out` holds the longest digest.
        let done = unsafe {
            sys::HMAC(
                self.as_evp(),
                key.as_ptr().cast(),
                key.len(),
                data.as_ptr(),
                data.len(),
                out.as_mut_ptr(),
                &mut written,
            )
        };
        if done.is_null() { Err(Error::Library) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn digests_match_fips_180_examples() {
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(&sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex(&sha256(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn every_hash_has_the_size_it_says() {
        for hash in [Hash::Sha1, Hash::Sha224, Hash::Sha256, Hash::Sha384, Hash::Sha512] {
            // SAFETY: static tables.
            let (size, block) = unsafe { (sys::EVP_MD_size(hash.as_evp()), sys::EVP_MD_block_size(hash.as_evp())) };
            assert_eq!((hash.size(), hash.block_size()), (size, block), "{hash:?}");
        }
    }

    #[test]
    fn hmac_matches_rfc_4231_case_2() {
        let mac = Hash::Sha256.hmac(b"Jefe", b"what do ya want for nothing?").unwrap();
        assert_eq!(hex(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn comparison_sees_content_and_length() {
        assert!(constant_time_eq(b"", b""));
        assert!(constant_time_eq(b"ab", b"ab"));
        assert!(!constant_time_eq(b"ab", b"ac"));
        assert!(!constant_time_eq(b"ab", b"abc"));
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random::<32>().unwrap(), random::<32>().unwrap());
    }
}
