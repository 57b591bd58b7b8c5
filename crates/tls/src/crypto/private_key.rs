//! A private key in any of its DER forms (RFC 5208, RFC 5915, RFC 8017), as one form: PKCS#8.
//!
//! Signs nothing: sessions and the key server do that with the PKCS#8 bytes they are given.

use super::handle::Pkey;
use super::{Error, KeyKind, der, password_cipher};
use std::fmt;
use zeroize::Zeroizing;

/// Longest key that is read, bytes. RSA-16384 takes 9.4 KiB.
pub const MAX_KEY_BYTES: usize = 64 * 1024;

/// Contents of the OBJECT IDENTIFIERs, DER.
/// SEC1 keeps the curve under [0] (RFC 5915 §3).
const SEC1_PARAMETERS: u8 = der::CONTEXT_0;

/// A private key with its public half. Wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey {
    pkcs8: Zeroizing<Vec<u8>>,
    spki: Vec<u8>,
    kind: KeyKind,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.kind)
    }
}

impl PrivateKey {
    /// Reads a PKCS#8, PKCS#1 or SEC1 key that fills `bytes` exactly, and has the library check it in full (an RSA key takes 100 us and more).
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is none of these or its numbers do not belong together, [`Error::TooLarge`] beyond [`MAX_KEY_BYTES`],
    /// [`Error::NeedsPassword`] for an encrypted PKCS#8 key.
    pub fn from_der(bytes: &[u8]) -> Result<PrivateKey, Error> {
        let wrapped = to_pkcs8(bytes)?;
        let read = || {
            let key = Pkey::from_pkcs8(&wrapped)?;
            Ok(PrivateKey { pkcs8: key.to_pkcs8()?, spki: key.to_spki()?, kind: key.kind() })
        };
        // The library calls a key damaged that it knows nothing of.
        read().map_err(|error| unserved(&wrapped).unwrap_or(error))
    }

    /// Like [`from_der`](PrivateKey::from_der), but reads an RSA key only as far as its public half, which takes 1 us: enough to tell to which
    /// certificate it belongs. The private numbers are then checked when the key is first used.
    ///
    /// # Errors
    /// Those of [`from_der`](PrivateKey::from_der), but for wrong private numbers of an RSA key.
    pub fn outline_der(bytes: &[u8]) -> Result<PrivateKey, Error> {
        let wrapped = to_pkcs8(bytes)?;
        match rsa_public_half(&wrapped)? {
            Some((spki, bits)) => Ok(PrivateKey { pkcs8: wrapped, spki, kind: KeyKind::Rsa { bits } }),
            None => PrivateKey::from_der(&wrapped),
        }
    }

    /// Opens an encrypted PKCS#8 key (RFC 5958 §3; PBES2 with AES or 3DES in CBC mode, or the PKCS#12 forms with 3DES or RC2-40).
    ///
    /// # Errors
    /// [`Error::WrongPassword`], [`Error::Unsupported`] for another cipher, and those of [`from_der`](PrivateKey::from_der).
    pub fn from_encrypted_der(bytes: &[u8], password: &str) -> Result<PrivateKey, Error> {
        if bytes.len() > MAX_KEY_BYTES {
            return Err(TOO_LARGE);
        }
        let plain = password_cipher::open_key(bytes, password, &mut password_cipher::Budget::new())?;
        PrivateKey::from_der(&plain).map_err(|error| match error {
            // Padding that fits by chance: one in 256 wrong passwords gets here.
            Error::Malformed(_) => Error::WrongPassword,
            other => other,
        })
    }

    /// The key as PKCS#8, DER. Wiped when dropped.
    pub fn to_pkcs8_der(&self) -> Zeroizing<Vec<u8>> {
        self.pkcs8.clone()
    }

    /// The public half as SubjectPublicKeyInfo, DER.
    pub fn public_spki_der(&self) -> &[u8] {
        &self.spki
    }

    /// The kind of key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }
}

const TOO_LARGE: Error = Error::TooLarge("private key of more than 64 KiB");
const NO_KEY: Error = Error::Malformed("not a PKCS#8, PKCS#1 or SEC1 private key");

/// The key in PKCS#8 form. The three forms differ in their second element, so that each is distinguished from the others without trying.
fn to_pkcs8(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    if bytes.len() > MAX_KEY_BYTES {
        return Err(TOO_LARGE);
    }
    let outer = |mut reader: der::Reader<'_>| {
        let inner = reader.expect(der::SEQUENCE).map_err(|_| NO_KEY)?.to_vec();
        reader.finish().map_err(|_| Error::Malformed("bytes after the private key"))?;
        Ok(Zeroizing::new(inner))
    };
    let content = outer(der::Reader::new(bytes))?;
    let mut reader = der::Reader::new(&content);
    if reader.peek() == Some(der::SEQUENCE) {
        // EncryptedPrivateKeyInfo begins with an algorithm, which is no version number.
        return Err(Error::NeedsPassword);
    }
    reader.small_integer().map_err(|_| NO_KEY)?;
    match reader.peek() {
        Some(der::SEQUENCE) => Ok(Zeroizing::new(bytes.to_vec())),
        Some(der::INTEGER) => Ok(wrap(der::RSA_ENCRYPTION, &[der::NULL, 0], bytes)),
        Some(der::OCTET_STRING) => {
            reader.expect(der::OCTET_STRING).map_err(|_| NO_KEY)?;
            let curve = reader.optional(SEC1_PARAMETERS).map_err(|_| NO_KEY)?;
            Ok(wrap(der::EC_PUBLIC_KEY, curve.ok_or(Error::Unsupported("EC key without its curve"))?, bytes))
        }
        _ => Err(NO_KEY),
    }
}

/// Why a key in PKCS#8 form is not served, if that is for what it is rather than for its numbers.
fn unserved(pkcs8: &[u8]) -> Option<Error> {
    let mut info = der::Reader::new(pkcs8).enter(der::SEQUENCE).ok()?;
    info.small_integer().ok()?;
    let mut algorithm = info.enter(der::SEQUENCE).ok()?;
    let what = match algorithm.expect(der::OBJECT_ID).ok()? {
        der::RSA_ENCRYPTION | der::ED25519 => return None,
        der::EC_PUBLIC_KEY => match algorithm.expect(der::OBJECT_ID) {
            Ok(curve) if der::SERVED_CURVES.contains(&curve) => return None,
            _ => "an EC key on another curve than P-256, P-384 and P-521",
        },
        der::RSASSA_PSS => {
            "an RSA key for RSASSA-PSS alone; one of the usual kind (rsaEncryption) signs by PSS as well"
        }
        der::ED448 => "an Ed448 key; use Ed25519",
        der::DSA => "a DSA key",
        _ => "a key of an algorithm that is not known here",
    };
    Some(Error::Unsupported(what))
}

/// PrivateKeyInfo (RFC 5208 §5) around a key in its algorithm's own form.
fn wrap(algorithm: &[u8], parameters: &[u8], key: &[u8]) -> Zeroizing<Vec<u8>> {
    let inner = Zeroizing::new(der::element(der::OCTET_STRING, key));
    let algorithm = der::sequence(&[&der::element(der::OBJECT_ID, algorithm), parameters]);
    let parts = Zeroizing::new([&der::integer(0)[..], &algorithm, &inner].concat());
    Zeroizing::new(der::element(der::SEQUENCE, &parts))
}

/// SubjectPublicKeyInfo and bits of the modulus, if the PKCS#8 key is an RSA key.
fn rsa_public_half(pkcs8: &[u8]) -> Result<Option<(Vec<u8>, u32)>, Error> {
    let mut info = der::Reader::new(pkcs8).enter(der::SEQUENCE)?;
    info.small_integer()?;
    let algorithm = info.enter(der::SEQUENCE)?.expect(der::OBJECT_ID)?;
    if algorithm != der::RSA_ENCRYPTION {
        return Ok(None);
    }
    // RFC 8017 §A.1.2: version, n, e, d, p, q, dP, dQ, qInv, and nothing else for two primes.
    let mut key = info.enter(der::OCTET_STRING)?.enter(der::SEQUENCE)?;
    if key.small_integer()? != 0 {
        return Err(Error::Unsupported("RSA key of more than two primes"));
    }
    let (modulus, exponent) = (key.expect(der::INTEGER)?, key.expect(der::INTEGER)?);
    for _ in 0..6 {
        key.expect(der::INTEGER)?;
    }
    key.finish()?;
    let digits = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    let Some(first) = digits.first().filter(|first| **first != 0) else { return Err(NO_KEY) };
    let bits = u32::try_from(digits.len() * 8).map_err(|_| NO_KEY)? - first.leading_zeros();
    let public = der::sequence(&[&der::element(der::INTEGER, modulus), &der::element(der::INTEGER, exponent)]);
    let algorithm = der::sequence(&[&der::element(der::OBJECT_ID, der::RSA_ENCRYPTION), &[der::NULL, 0]]);
    let spki = der::sequence(&[&algorithm, &der::element(der::BIT_STRING, &[&[0], &public[..]].concat())]);
    Ok(Some((spki, bits)))
}
