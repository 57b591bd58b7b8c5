//! Encryption under a password: PBES2 (RFC 8018 §6.2) and the PKCS#12 forms (RFC 7292 appendices B and C).
//!
//! AWS-LC can do this for one key per file only, and a keystore holds many; hence the schemes are put together here from its primitives.
//! We write PBES2 with AES-256-CBC and HMAC-SHA256 only; the rest is read because other programs write it.

use super::digest::{self, Hash};
use super::handle::{CipherContext, clear_errors};
use super::{Error, der};
use aws_lc_sys as sys;
use std::ptr;
use zeroize::{Zeroize, Zeroizing};

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
const PKCS12_3DES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x03];
const PKCS12_RC2_40: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01, 0x06];
const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x07];
const HMAC_SHA224: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x08];
const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x09];
const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0a];
const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0b];
const AES_128_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x02];
const AES_192_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x16];
const AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a];
const DES_EDE3_CBC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07];

/// Rounds of key derivation that we write: what Java's keytool writes.
pub(super) const ITERATIONS: u32 = 10_000;

/// How many rounds of key derivation one container may cost in total, so that a hostile file cannot hold a core for hours. Ten thousand names
/// with two keys each, as keytool writes them, fit.
pub(super) struct Budget {
    left: u32,
}

impl Budget {
    const ROUNDS: u32 = 500_000_000;

    pub(super) fn new() -> Budget {
        Budget { left: Budget::ROUNDS }
    }

    /// Takes `rounds` out of the budget. At least one round must be asked for.
    pub(super) fn spend(&mut self, rounds: u32) -> Result<u32, Error> {
        if rounds == 0 {
            return Err(Error::Malformed("key derivation of no rounds"));
        }
        self.left = self.left.checked_sub(rounds).ok_or(Error::TooLarge("rounds of key derivation"))?;
        Ok(rounds)
    }
}

/// What a PKCS#12 derivation is for (RFC 7292 §B.3).
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Key = 1,
    InitialVector = 2,
    Integrity = 3,
}

/// The key derivation of RFC 7292 §B.2. `password` is UTF-16BE with its two final zero bytes, or empty. Budget has been spent by the caller.
pub(super) fn derive_pkcs12(
    hash: Hash,
    purpose: Purpose,
    password: &[u8],
    salt: &[u8],
    rounds: u32,
    length: usize,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let block = hash.block_size();
    let repeated =
        |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().cycle().take(bytes.len().div_ceil(block) * block).collect() };
    let mut state = Zeroizing::new([repeated(salt), repeated(password)].concat());
    let mut out = Zeroizing::new(Vec::with_capacity(length + Hash::MAX_SIZE));
    let mut round = Zeroizing::new([0; Hash::MAX_SIZE]);
    while out.len() < length {
        let input = Zeroizing::new([&vec![purpose as u8; block][..], &state].concat());
        hash.digest(&input, &mut round)?;
        for _ in 1..rounds {
            let previous = *round;
            hash.digest(&previous[..hash.size()], &mut round)?;
        }
        out.extend_from_slice(&round[..hash.size()]);
        // Each block of the state becomes itself plus the digest plus one, modulo 2^(8 * block).
        for chunk in state.chunks_mut(block) {
            let mut carry = 1;
            for (index, byte) in chunk.iter_mut().enumerate().rev() {
                let sum = u16::from(*byte) + u16::from(round[index % hash.size()]) + carry;
                *byte = sum as u8;
                carry = sum >> 8;
            }
        }
    }
    out[length..].zeroize();
    out.truncate(length);
    Ok(out)
}

/// A password as PKCS#12 wants it: UTF-16BE with a final zero (RFC 7292 §B.1).
pub(super) fn utf16_password(password: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect())
}

/// Opens an EncryptedPrivateKeyInfo (RFC 5958 §3): the PKCS#8 key in it.
pub(super) fn open_key(bytes: &[u8], password: &str, budget: &mut Budget) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut reader = der::Reader::new(bytes);
    let mut outer = reader.enter(der::SEQUENCE)?;
    reader.finish()?;
    let algorithm = outer.enter(der::SEQUENCE)?;
    let encrypted = outer.expect(der::OCTET_STRING)?;
    outer.finish()?;
    decrypt(algorithm, encrypted, password, budget)
}

/// EncryptedPrivateKeyInfo around a PKCS#8 key.
pub(super) fn seal_key(pkcs8: &[u8], password: &str) -> Result<Vec<u8>, Error> {
    let (algorithm, encrypted) = encrypt(pkcs8, password)?;
    Ok(der::sequence(&[&algorithm, &der::element(der::OCTET_STRING, &encrypted)]))
}

/// Decrypts under the scheme that the content of an AlgorithmIdentifier names.
pub(super) fn decrypt(
    mut algorithm: der::Reader<'_>,
    encrypted: &[u8],
    password: &str,
    budget: &mut Budget,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    match algorithm.expect(der::OBJECT_ID)? {
        PBES2 => decrypt_pbes2(algorithm.enter(der::SEQUENCE)?, encrypted, password, budget),
        PKCS12_3DES => decrypt_pkcs12(Cipher::Des3, algorithm.enter(der::SEQUENCE)?, encrypted, password, budget),
        PKCS12_RC2_40 => decrypt_pkcs12(Cipher::Rc2_40, algorithm.enter(der::SEQUENCE)?, encrypted, password, budget),
        _ => Err(Error::Unsupported("its cipher; write it again with PBES2 and AES-256")),
    }
}

/// RFC 8018 §A.4.
fn decrypt_pbes2(
    mut parameters: der::Reader<'_>,
    encrypted: &[u8],
    password: &str,
    budget: &mut Budget,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut derivation = parameters.enter(der::SEQUENCE)?;
    if derivation.expect(der::OBJECT_ID)? != PBKDF2 {
        return Err(Error::Unsupported("its key derivation; write it again with PBKDF2"));
    }
    let mut derivation = derivation.enter(der::SEQUENCE)?;
    let salt = derivation.expect(der::OCTET_STRING)?;
    let rounds = budget.spend(derivation.small_integer()?)?;
    let stated_length = derivation.optional(der::INTEGER)?;
    let hash = match derivation.optional(der::SEQUENCE)? {
        None => Hash::Sha1,
        Some(function) => match der::Reader::new(function).expect(der::OBJECT_ID)? {
            HMAC_SHA1 => Hash::Sha1,
            HMAC_SHA224 => Hash::Sha224,
            HMAC_SHA256 => Hash::Sha256,
            HMAC_SHA384 => Hash::Sha384,
            HMAC_SHA512 => Hash::Sha512,
            _ => return Err(Error::Unsupported("the hash of its key derivation")),
        },
    };
    let mut scheme = parameters.enter(der::SEQUENCE)?;
    let cipher = match scheme.expect(der::OBJECT_ID)? {
        AES_128_CBC => Cipher::Aes128,
        AES_192_CBC => Cipher::Aes192,
        AES_256_CBC => Cipher::Aes256,
        DES_EDE3_CBC => Cipher::Des3,
        _ => return Err(Error::Unsupported("its cipher; write it again with AES-256-CBC")),
    };
    if stated_length.is_some_and(|length| length != [cipher.key_size() as u8]) {
        return Err(Error::Malformed("length of the derived key"));
    }
    let vector = scheme.expect(der::OCTET_STRING)?;
    let key = derive_pbkdf2(hash, password, salt, rounds, cipher.key_size())?;
    cipher.run(Direction::Decrypt, &key, vector, encrypted)
}

/// RFC 7292 §C.
fn decrypt_pkcs12(
    cipher: Cipher,
    mut parameters: der::Reader<'_>,
    encrypted: &[u8],
    password: &str,
    budget: &mut Budget,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let salt = parameters.expect(der::OCTET_STRING)?;
    let rounds = budget.spend(parameters.small_integer()?)?;
    budget.spend(rounds)?;
    let password = utf16_password(password);
    let key = derive_pkcs12(Hash::Sha1, Purpose::Key, &password, salt, rounds, cipher.key_size())?;
    let vector = derive_pkcs12(Hash::Sha1, Purpose::InitialVector, &password, salt, rounds, cipher.block_size())?;
    cipher.run(Direction::Decrypt, &key, &vector, encrypted)
}

/// Encrypts with PBES2, AES-256-CBC and PBKDF2 over HMAC-SHA256: the AlgorithmIdentifier, and the octets.
pub(super) fn encrypt(plain: &[u8], password: &str) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), Error> {
    let (salt, vector) = (digest::random::<16>()?, digest::random::<16>()?);
    let key = derive_pbkdf2(Hash::Sha256, password, &salt, ITERATIONS, Cipher::Aes256.key_size())?;
    let encrypted = Cipher::Aes256.run(Direction::Encrypt, &key, &vector, plain)?;
    let identifier = |oid: &[u8], parameters: &[u8]| der::sequence(&[&der::element(der::OBJECT_ID, oid), parameters]);
    let salt = der::element(der::OCTET_STRING, &salt);
    let hash = identifier(HMAC_SHA256, &[der::NULL, 0]);
    let derivation = identifier(PBKDF2, &der::sequence(&[&salt, &der::integer(ITERATIONS), &hash]));
    let cipher = identifier(AES_256_CBC, &der::element(der::OCTET_STRING, &vector));
    Ok((identifier(PBES2, &der::sequence(&[&derivation, &cipher])), encrypted))
}

fn derive_pbkdf2(
    hash: Hash,
    password: &str,
    salt: &[u8],
    rounds: u32,
    length: usize,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut key = Zeroizing::new(vec![0; length]);
    // SAFETY: password and salt are readable for their lengths, `key` takes `length` bytes.
    let ok = unsafe {
        sys::PKCS5_PBKDF2_HMAC(
            password.as_ptr().cast(),
            password.len(),
            salt.as_ptr(),
            salt.len(),
            rounds,
            hash.as_evp(),
            length,
            key.as_mut_ptr(),
        )
    };
    if ok == 1 { Ok(key) } else { Err(Error::Library) }
}

#[derive(Clone, Copy)]
enum Direction {
    Decrypt = 0,
    Encrypt = 1,
}

/// A block cipher in CBC mode with the padding of RFC 8018 §6.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
    Des3,
    Rc2_40,
}

impl Cipher {
    fn key_size(self) -> usize {
        match self {
            Cipher::Aes128 => 16,
            Cipher::Aes192 | Cipher::Des3 => 24,
            Cipher::Aes256 => 32,
            Cipher::Rc2_40 => 5,
        }
    }

    fn block_size(self) -> usize {
        match self {
            Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256 => 16,
            Cipher::Des3 | Cipher::Rc2_40 => 8,
        }
    }

    fn as_evp(self) -> *const sys::EVP_CIPHER {
        // SAFETY: these return pointers to static tables.
        unsafe {
            match self {
                Cipher::Aes128 => sys::EVP_aes_128_cbc(),
                Cipher::Aes192 => sys::EVP_aes_192_cbc(),
                Cipher::Aes256 => sys::EVP_aes_256_cbc(),
                Cipher::Des3 => sys::EVP_des_ede3_cbc(),
                Cipher::Rc2_40 => sys::EVP_rc2_40_cbc(),
            }
        }
    }

    /// Runs it over `input`. Wrong padding after decryption means a wrong password.
    fn run(self, direction: Direction, key: &[u8], vector: &[u8], input: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        if key.len() != self.key_size() || vector.len() != self.block_size() {
            return Err(Error::Malformed("initial vector of the cipher"));
        }
        let length = std::os::raw::c_int::try_from(input.len()).map_err(|_| Error::TooLarge("encrypted content"))?;
        let mut out = Zeroizing::new(vec![0; input.len() + self.block_size()]);
        let (mut first, mut last) = (0, 0);
        clear_errors();
        // SAFETY: key and vector have the sizes that the cipher reads (checked above); the update writes at most the input's length plus one
        // block, of which the final call writes what the update left over, so both stay within `out`.
        let status = unsafe {
            let context = CipherContext::own(sys::EVP_CIPHER_CTX_new(), Error::Library)?;
            let ready = sys::EVP_CipherInit_ex(
                context.as_ptr(),
                self.as_evp(),
                ptr::null_mut(),
                key.as_ptr(),
                vector.as_ptr(),
                direction as std::os::raw::c_int,
            ) == 1
                && sys::EVP_CipherUpdate(context.as_ptr(), out.as_mut_ptr(), &mut first, input.as_ptr(), length) == 1;
            if !ready {
                return Err(Error::Library);
            }
            let at = out.as_mut_ptr().add(usize::try_from(first).map_err(|_| Error::Library)?);
            sys::EVP_CipherFinal_ex(context.as_ptr(), at, &mut last)
        };
        clear_errors();
        if status != 1 {
            return Err(Error::WrongPassword);
        }
        out.truncate(usize::try_from(first + last).map_err(|_| Error::Library)?);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn every_cipher_has_the_sizes_it_says_and_undoes_itself() {
        for cipher in [Cipher::Aes128, Cipher::Aes192, Cipher::Aes256, Cipher::Des3, Cipher::Rc2_40] {
            // SAFETY: static tables.
            let sizes = unsafe {
                (
                    sys::EVP_CIPHER_key_length(cipher.as_evp()) as usize,
                    sys::EVP_CIPHER_iv_length(cipher.as_evp()) as usize,
                )
            };
            assert_eq!((cipher.key_size(), cipher.block_size()), sizes, "{cipher:?}");
            let (key, vector) = (vec![3; cipher.key_size()], vec![4; cipher.block_size()]);
            for length in [0, 1, 7, 8, 15, 16, 17, 1000] {
                let plain = vec![9; length];
                let sealed = cipher.run(Direction::Encrypt, &key, &vector, &plain).unwrap();
                assert_ne!(sealed.len(), plain.len());
                assert_eq!(*cipher.run(Direction::Decrypt, &key, &vector, &sealed).unwrap(), plain, "{cipher:?}");
            }
        }
    }

    #[test]
    fn a_sealed_key_opens_with_its_password_only() {
        let sealed = seal_key(b"key", "one").unwrap();
        assert_eq!(**open_key(&sealed, "one", &mut Budget::new()).unwrap(), *b"key");
        // A wrong password may hit valid padding (1 in 256), but never the plaintext.
        assert!(!open_key(&sealed, "two", &mut Budget::new()).is_ok_and(|plain| **plain == *b"key"));
    }

    #[test]
    fn key_derivation_is_bounded() {
        let mut budget = Budget::new();
        assert_eq!(budget.spend(0), Err(Error::Malformed("key derivation of no rounds")));
        assert_eq!(budget.spend(Budget::ROUNDS), Ok(Budget::ROUNDS));
        assert_eq!(budget.spend(1), Err(Error::TooLarge("rounds of key derivation")));
    }
}
