//! PKCS#12 containers (RFC 7292): the file as a whole, its integrity check and its encrypted parts.
//!
//! Holds any number of keys, which AWS-LC's own PKCS#12 functions do not; what the containers hold inside is in `pkcs12_safe`. Only password
//! integrity and password privacy, which is all that anyone writes. Which certificate belongs to which key is the caller's to decide.

use super::digest::{self, Hash};
use super::password_cipher::{self, Budget, ITERATIONS, Purpose};
use super::{Error, der, pkcs12_safe};
use zeroize::Zeroizing;

/// Longest file that is read, bytes.
pub const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;

const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const SHA224: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x04];
const SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
const SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
const SHA512: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03];

/// What a container names an item by, and what ties a certificate to its key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Label {
    /// The friendlyName: an alias for people and for Java.
    pub friendly_name: Option<String>,
    /// The localKeyId, equal for a key and its leaf.
    pub local_key_id: Option<Vec<u8>>,
}

/// A private key in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// PKCS#8, DER.
    pub pkcs8: Zeroizing<Vec<u8>>,
    /// Its label.
    pub label: Label,
}

/// A certificate in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledCertificate {
    /// The certificate, DER.
    pub der: Vec<u8>,
    /// Its label.
    pub label: Label,
    /// Java marks it as trusted: it is there to verify others, not to be served.
    pub trusted: bool,
}

/// What a container holds, in file order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Private keys.
    pub keys: Vec<Key>,
    /// Certificates.
    pub certificates: Vec<LabelledCertificate>,
    /// Items of kinds that are not read (revocation lists, secrets). A container with such items must not be rewritten: they would be lost.
    pub skipped: usize,
}

/// Opens a container.
///
/// # Errors
/// [`Error::WrongPassword`] if its integrity check fails, which a damaged content looks like too; [`Error::Malformed`] if its structure is
/// damaged; [`Error::Unsupported`] for containers without a check, for public-key modes and for unusual ciphers; [`Error::TooLarge`].
pub fn open(bytes: &[u8], password: &str) -> Result<Contents, Error> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Error::TooLarge("PKCS#12 file of more than 64 MiB"));
    }
    let mut budget = Budget::new();
    let bytes = der::definite(bytes)?;
    let mut reader = der::Reader::new(&bytes);
    let mut file = reader.enter(der::SEQUENCE)?;
    reader.finish()?;
    if file.small_integer()? != 3 {
        return Err(Error::Unsupported("PKCS#12 version other than 3"));
    }
    let mut info = file.enter(der::SEQUENCE)?;
    if info.expect(der::OBJECT_ID)? != DATA {
        return Err(Error::Unsupported("PKCS#12 file with a signature instead of a password"));
    }
    let safe = info.enter(der::CONTEXT_0)?.expect(der::OCTET_STRING)?;
    let Some(check) = file.optional(der::SEQUENCE)? else {
        return Err(Error::Unsupported("PKCS#12 file without an integrity check"));
    };
    file.finish()?;
    verify(check, safe, password, &mut budget)?;

    let mut contents = Contents::default();
    let safe = der::definite(safe)?;
    let mut parts = der::Reader::new(&safe).enter(der::SEQUENCE)?;
    while !parts.is_empty() {
        let mut part = parts.enter(der::SEQUENCE)?;
        let plain = match part.expect(der::OBJECT_ID)? {
            DATA => Zeroizing::new(part.enter(der::CONTEXT_0)?.expect(der::OCTET_STRING)?.to_vec()),
            ENCRYPTED_DATA => decrypt_part(part.enter(der::CONTEXT_0)?, password, &mut budget)?,
            _ => return Err(Error::Unsupported("PKCS#12 part encrypted to a public key")),
        };
        pkcs12_safe::read(&plain, password, &mut budget, &mut contents)?;
    }
    Ok(contents)
}

/// EncryptedData (RFC 5652 §8) to its plaintext.
fn decrypt_part(mut reader: der::Reader<'_>, password: &str, budget: &mut Budget) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut data = reader.enter(der::SEQUENCE)?;
    data.small_integer()?;
    let mut info = data.enter(der::SEQUENCE)?;
    info.expect(der::OBJECT_ID)?;
    let algorithm = info.enter(der::SEQUENCE)?;
    let joined;
    let encrypted = match info.any()? {
        (der::CONTEXT_0_PRIMITIVE, octets) => octets,
        (der::CONTEXT_0, segments) => {
            joined = der::joined(segments)?;
            &joined
        }
        _ => return Err(Error::Malformed("encrypted part of the PKCS#12 file")),
    };
    password_cipher::decrypt(algorithm, encrypted, password, budget)
}

/// Checks MacData (RFC 7292 §4) over the authenticated safe.
fn verify(check: &[u8], safe: &[u8], password: &str, budget: &mut Budget) -> Result<(), Error> {
    let mut check = der::Reader::new(check);
    let mut digest_info = check.enter(der::SEQUENCE)?;
    let hash = match digest_info.enter(der::SEQUENCE)?.expect(der::OBJECT_ID)? {
        SHA1 => Hash::Sha1,
        SHA224 => Hash::Sha224,
        SHA256 => Hash::Sha256,
        SHA384 => Hash::Sha384,
        SHA512 => Hash::Sha512,
        _ => return Err(Error::Unsupported("the integrity check of the PKCS#12 file")),
    };
    let stated = digest_info.expect(der::OCTET_STRING)?;
    let salt = check.expect(der::OCTET_STRING)?;
    let rounds = budget.spend(if check.is_empty() { 1 } else { check.small_integer()? })?;
    let mac = |password: &[u8]| -> Result<Vec<u8>, Error> {
        let key = password_cipher::derive_pkcs12(hash, Purpose::Integrity, password, salt, rounds, hash.size())?;
        hash.hmac(&key, safe)
    };
    if digest::constant_time_eq(&mac(&password_cipher::utf16_password(password))?, stated) {
        return Ok(());
    }
    // An empty password is written as two zero bytes by some and as nothing by others.
    if password.is_empty() && digest::constant_time_eq(&mac(&[])?, stated) {
        return Ok(());
    }
    Err(Error::WrongPassword)
}

/// Writes a container: keys and certificates encrypted with PBES2, AES-256-CBC and PBKDF2 over HMAC-SHA256, the whole under HMAC-SHA256.
///
/// # Errors
/// [`Error::Library`]; [`Error::TooLarge`] if the result could not be read again.
pub fn seal(contents: &Contents, password: &str) -> Result<Vec<u8>, Error> {
    let mut parts = Vec::new();
    if !contents.certificates.is_empty() {
        let plain = pkcs12_safe::write_certificates(&contents.certificates);
        let (algorithm, encrypted) = password_cipher::encrypt(&plain, password)?;
        let encrypted = der::element(der::CONTEXT_0_PRIMITIVE, &encrypted);
        let info = der::sequence(&[&der::element(der::OBJECT_ID, DATA), &algorithm, &encrypted]);
        parts.extend_from_slice(&content_info(ENCRYPTED_DATA, &der::sequence(&[&der::integer(0), &info])));
    }
    let keys = pkcs12_safe::write_keys(&contents.keys, password)?;
    parts.extend_from_slice(&content_info(DATA, &der::element(der::OCTET_STRING, &keys)));
    let safe = der::element(der::SEQUENCE, &parts);

    let salt = digest::random::<16>()?;
    let utf16 = password_cipher::utf16_password(password);
    let hash = Hash::Sha256;
    let key = password_cipher::derive_pkcs12(hash, Purpose::Integrity, &utf16, &salt, ITERATIONS, hash.size())?;
    let mac = hash.hmac(&key, &safe)?;
    let algorithm = der::sequence(&[&der::element(der::OBJECT_ID, SHA256), &[der::NULL, 0]]);
    let check = der::sequence(&[
        &der::sequence(&[&algorithm, &der::element(der::OCTET_STRING, &mac)]),
        &der::element(der::OCTET_STRING, &salt),
        &der::integer(ITERATIONS),
    ]);
    let safe = content_info(DATA, &der::element(der::OCTET_STRING, &safe));
    let file = der::sequence(&[&der::integer(3), &safe, &check]);
    if file.len() > MAX_FILE_BYTES { Err(Error::TooLarge("PKCS#12 file of more than 64 MiB")) } else { Ok(file) }
}

/// ContentInfo (RFC 5652 §3).
fn content_info(kind: &[u8], content: &[u8]) -> Vec<u8> {
    der::sequence(&[&der::element(der::OBJECT_ID, kind), &der::element(der::CONTEXT_0, content)])
}
