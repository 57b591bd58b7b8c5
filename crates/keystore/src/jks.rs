//! The Java keystore format (JKS), as bytes and values: no file is touched here, and no key or certificate is understood.
//!
//! All integers are big-endian. A file is: magic, version 1 or 2, entry count, the entries, and SHA-1 over password, a phrase and all of that.
//! A key is hidden by a stream of SHA-1 blocks, without any cost to whoever tries passwords: treat such a file as if it were not encrypted.
//! Aliases, certificate types and dates are kept as they are, so that what is read and written again loses nothing.

use std::fmt;

use tls::crypto::{Error as CryptoError, digest};
use zeroize::Zeroizing;

/// Longest file that is read, bytes. Ten thousand names with two keys and chains each take 80 MB.
pub const MAX_FILE_BYTES: usize = 256 * 1024 * 1024;
/// Most certificates in one chain.
pub const MAX_CHAIN: usize = 64;

const MAGIC: u32 = 0xfeed_feed;
const TRAILER: usize = 20;
const SALT: usize = 20;
/// Hashed with the password into the trailer.
const PHRASE: &[u8] = b"Mighty Aphrodite";
/// EncryptedPrivateKeyInfo up to the length of its octets is always this but for two lengths: the algorithm, OID 1.3.6.1.4.1.42.2.17.1.1.
const KEY_PROTECTOR: &[u8] =
    &[0x30, 0x0e, 0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01, 0x05, 0x00];

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keystore {
    /// The entries, in file order.
    pub entries: Vec<Entry>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is called. Java writes modified UTF-8, which differs from UTF-8 for characters that no host name has.
    pub alias: Vec<u8>,
    /// When it was made, milliseconds since 1970.
    pub created_ms: u64,
    /// What it holds.
    pub content: Content,
}

impl Entry {
    /// The alias as text.
    pub fn alias(&self) -> String {
        String::from_utf8_lossy(&self.alias).into_owned()
    }
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A private key and its chain, leaf first.
    Key {
        /// The key, hidden; see [`PasswordBytes::open_key`].
        protected: Vec<u8>,
        /// The chain.
        chain: Vec<Certificate>,
    },
    /// A certificate to verify others with.
    Trusted(Certificate),
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// `X.509` where Java wrote it; anything at all where SillyProxy did.
    pub kind: Vec<u8>,
    /// The certificate, DER.
    pub der: Vec<u8>,
}

/// The certificate type that Java knows.
pub const X509: &[u8] = b"X.509";

/// Why a file or a key could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JksError {
    /// It does not begin as a Java keystore does.
    NotJks,
    /// It is damaged at this byte; what is wrong there.
    Damaged(usize, &'static str),
    /// Larger than the bound; which.
    TooLarge(&'static str),
    /// The trailer does not fit: a wrong password, or somebody changed the content.
    WrongPassword,
    /// Keys open with the password, but the trailer does not fit: the content was changed or damaged.
    Altered,
    /// The key is hidden in another way than JKS has.
    UnknownProtection,
}

impl fmt::Display for JksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JksError::NotJks => f.write_str("not a Java keystore (JKS)"),
            JksError::Damaged(at, what) => write!(f, "damaged at byte {at}: {what}; restore it from a backup"),
            JksError::TooLarge(what) => write!(f, "too large: {what}"),
            JksError::WrongPassword => f.write_str("wrong password"),
            JksError::Altered => {
                f.write_str("the password is right, but the content was changed or damaged; restore it from a backup")
            }
            JksError::UnknownProtection => f.write_str("its key is protected in a way that JKS does not have"),
        }
    }
}

impl std::error::Error for JksError {}

/// Reads a file's structure. Checks no password: do that with [`PasswordBytes::find`].
///
/// # Errors
/// The first fault. Costs no more memory than twice the file.
pub fn parse(bytes: &[u8]) -> Result<Keystore, JksError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(JksError::TooLarge("keystore of more than 256 MiB"));
    }
    if !bytes.starts_with(&MAGIC.to_be_bytes()) {
        return Err(JksError::NotJks);
    }
    let body = &bytes[..bytes.len().saturating_sub(TRAILER)];
    let mut reader = Reader { bytes: body, at: 0 };
    reader.u32()?;
    let version = reader.u32()?;
    if version != 1 && version != 2 {
        return Err(JksError::Damaged(4, "version is neither 1 nor 2"));
    }
    let count = reader.u32()?;
    // The count is a claim: what is kept grows with what was really there.
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(reader.entry(version)?);
    }
    if reader.at != reader.bytes.len() {
        return Err(JksError::Damaged(reader.at, "bytes after the last entry"));
    }
    Ok(Keystore { entries })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], JksError> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let taken = rest.get(..length).ok_or(JksError::Damaged(self.at, "ends in the middle of an entry"))?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], JksError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, JksError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Bytes after their length in four bytes.
    fn long_bytes(&mut self) -> Result<Vec<u8>, JksError> {
        let length = self.u32()? as usize;
        self.take(length).map(<[u8]>::to_vec)
    }

    /// Bytes after their length in two bytes.
    fn short_bytes(&mut self) -> Result<Vec<u8>, JksError> {
        let length = u16::from_be_bytes(self.array()?);
        self.take(usize::from(length)).map(<[u8]>::to_vec)
    }

    fn certificate(&mut self, version: u32) -> Result<Certificate, JksError> {
        // Version 1 knew X.509 only and did not say so.
        let kind = if version == 1 { X509.to_vec() } else { self.short_bytes()? };
        Ok(Certificate { kind, der: self.long_bytes()? })
    }

    fn entry(&mut self, version: u32) -> Result<Entry, JksError> {
        let start = self.at;
        let tag = self.u32()?;
        let alias = self.short_bytes()?;
        let created_ms = u64::from_be_bytes(self.array()?);
        let content = match tag {
            1 => {
                let protected = self.long_bytes()?;
                let length = self.u32()? as usize;
                if length > MAX_CHAIN {
                    return Err(JksError::TooLarge("chain of more than 64 certificates"));
                }
                let chain = (0..length).map(|_| self.certificate(version)).collect::<Result<_, _>>()?;
                Content::Key { protected, chain }
            }
            2 => Content::Trusted(self.certificate(version)?),
            _ => return Err(JksError::Damaged(start, "neither a key nor a certificate begins here")),
        };
        Ok(Entry { alias, created_ms, content })
    }
}

/// A password as a file's hashes take it. Java hashes UTF-16 units; SillyProxy hashes each byte of UTF-8 as if it were a unit. Both are the same
/// for ASCII.
pub struct PasswordBytes(Zeroizing<Vec<u8>>);

impl fmt::Debug for PasswordBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordBytes")
    }
}

impl PasswordBytes {
    /// As Java hashes it.
    pub fn java(password: &str) -> PasswordBytes {
        PasswordBytes(Zeroizing::new(password.encode_utf16().flat_map(u16::to_be_bytes).collect()))
    }

    /// As SillyProxy hashes it.
    pub fn sillyproxy(password: &str) -> PasswordBytes {
        PasswordBytes(Zeroizing::new(password.bytes().flat_map(|byte| [0, byte]).collect()))
    }

    /// The form of the password that a parsed file's trailer was made with.
    ///
    /// # Errors
    /// [`JksError::WrongPassword`] or [`JksError::Altered`].
    pub fn find(password: &str, bytes: &[u8], keystore: &Keystore) -> Result<PasswordBytes, JksError> {
        let Some((body, trailer)) = bytes.split_last_chunk::<TRAILER>() else { return Err(JksError::NotJks) };
        let forms = [PasswordBytes::java(password), PasswordBytes::sillyproxy(password)];
        let opens_a_key = |form: &PasswordBytes| {
            keystore.entries.iter().any(|entry| match &entry.content {
                Content::Key { protected, .. } => form.open_key(protected).is_ok(),
                Content::Trusted(_) => false,
            })
        };
        let opened = forms.iter().any(opens_a_key);
        for form in forms {
            if digest::constant_time_eq(&form.trailer(body), trailer) {
                return Ok(form);
            }
        }
        Err(if opened { JksError::Altered } else { JksError::WrongPassword })
    }

    fn trailer(&self, body: &[u8]) -> [u8; TRAILER] {
        digest::sha1(&Zeroizing::new([&self.0, PHRASE, body].concat()))
    }

    /// XORs with the stream that the salt begins: each block is SHA-1 of password and block before.
    fn apply_stream(&self, salt: &[u8], data: &mut [u8]) {
        let mut input = Zeroizing::new([&self.0, salt].concat());
        for part in data.chunks_mut(TRAILER) {
            let block = Zeroizing::new(digest::sha1(&input));
            part.iter_mut().zip(block.iter()).for_each(|(byte, mask)| *byte ^= mask);
            input.truncate(self.0.len());
            input.extend_from_slice(&*block);
        }
    }

    fn check(&self, plain: &[u8]) -> [u8; TRAILER] {
        digest::sha1(&Zeroizing::new([&self.0, plain].concat()))
    }

    /// The key that an entry hides: PKCS#8 as Java writes it, PEM text as SillyProxy does.
    ///
    /// # Errors
    /// [`JksError::WrongPassword`] (or damage, which looks the same), [`JksError::UnknownProtection`].
    pub fn open_key(&self, protected: &[u8]) -> Result<Zeroizing<Vec<u8>>, JksError> {
        let octets = protected_octets(protected).ok_or(JksError::UnknownProtection)?;
        let Some((salt, rest)) = octets.split_at_checked(SALT) else { return Err(JksError::UnknownProtection) };
        let Some((hidden, check)) = rest.split_last_chunk::<TRAILER>() else { return Err(JksError::UnknownProtection) };
        let mut plain = Zeroizing::new(hidden.to_vec());
        self.apply_stream(salt, &mut plain);
        if digest::constant_time_eq(&self.check(&plain), check) { Ok(plain) } else { Err(JksError::WrongPassword) }
    }

    /// Hides a key.
    ///
    /// # Errors
    /// No random bytes for the salt.
    pub fn protect_key(&self, plain: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let salt = digest::random::<SALT>()?;
        let mut octets = salt.to_vec();
        octets.extend_from_slice(plain);
        self.apply_stream(&salt, &mut octets[SALT..]);
        octets.extend_from_slice(&self.check(plain));
        Ok(der(0x30, &[KEY_PROTECTOR, &der(0x04, &octets)].concat()))
    }

    /// The file for a keystore.
    ///
    /// # Errors
    /// [`JksError::TooLarge`] if it could not be read again.
    pub fn encode(&self, keystore: &Keystore) -> Result<Vec<u8>, JksError> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&2_u32.to_be_bytes());
        put_length(&mut out, keystore.entries.len())?;
        for entry in &keystore.entries {
            let tag: u32 = if matches!(entry.content, Content::Key { .. }) { 1 } else { 2 };
            out.extend_from_slice(&tag.to_be_bytes());
            put_short(&mut out, &entry.alias)?;
            out.extend_from_slice(&entry.created_ms.to_be_bytes());
            match &entry.content {
                Content::Key { protected, chain } => {
                    put_long(&mut out, protected)?;
                    if chain.len() > MAX_CHAIN {
                        return Err(JksError::TooLarge("chain of more than 64 certificates"));
                    }
                    put_length(&mut out, chain.len())?;
                    chain.iter().try_for_each(|certificate| put_certificate(&mut out, certificate))?;
                }
                Content::Trusted(certificate) => put_certificate(&mut out, certificate)?,
            }
        }
        out.extend_from_slice(&self.trailer(&out));
        if out.len() > MAX_FILE_BYTES { Err(JksError::TooLarge("keystore of more than 256 MiB")) } else { Ok(out) }
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) -> Result<(), JksError> {
    let length = u32::try_from(length).map_err(|_| JksError::TooLarge("part of more than 4 GiB"))?;
    out.extend_from_slice(&length.to_be_bytes());
    Ok(())
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), JksError> {
    put_length(out, bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), JksError> {
    let length = u16::try_from(bytes.len()).map_err(|_| JksError::TooLarge("alias or type of more than 64 KiB"))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_certificate(out: &mut Vec<u8>, certificate: &Certificate) -> Result<(), JksError> {
    put_short(out, &certificate.kind)?;
    put_long(out, &certificate.der)
}

/// The octets inside an EncryptedPrivateKeyInfo of JKS's own algorithm that fills `protected`.
fn protected_octets(protected: &[u8]) -> Option<&[u8]> {
    let outer = der_content(0x30, protected)?;
    der_content(0x04, outer.strip_prefix(KEY_PROTECTOR)?)
}

/// The content of a DER element that fills `bytes`.
fn der_content(tag: u8, bytes: &[u8]) -> Option<&[u8]> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, content) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, content) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), content)
        }
        _ => return None,
    };
    (found == tag && content.len() == length).then_some(content)
}

/// A DER element.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let digits = content.len().to_be_bytes();
    let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
    let mut out = vec![tag];
    if content.len() < 0x80 {
        out.push(content.len() as u8);
    } else {
        out.push(0x80 | digits.len() as u8);
        out.extend_from_slice(digits);
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn sample(password: &PasswordBytes) -> Keystore {
        let certificate = |kind: &[u8], der: &[u8]| Certificate { kind: kind.to_vec(), der: der.to_vec() };
        let key = Content::Key {
            protected: password.protect_key(&[7; 100]).unwrap(),
            chain: vec![certificate(X509, b"leaf"), certificate(b"2nd Certificate in x", b"issuer")],
        };
        Keystore {
            entries: vec![
                Entry { alias: b"a.example:ECDSA".to_vec(), created_ms: 1_700_000_000_000, content: key },
                Entry { alias: b"root".to_vec(), created_ms: 0, content: Content::Trusted(certificate(X509, b"root")) },
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (password, form) in [
            ("changeit", PasswordBytes::java("changeit")),
            ("", PasswordBytes::java("")),
            ("päss€", PasswordBytes::java("päss€")),
            ("päss€", PasswordBytes::sillyproxy("päss€")),
        ] {
            let keystore = sample(&form);
            let file = form.encode(&keystore).unwrap();
            assert_eq!(parse(&file).unwrap(), keystore);
            let found = PasswordBytes::find(password, &file, &keystore).unwrap();
            assert_eq!(found.0, form.0);
            let Content::Key { protected, .. } = &keystore.entries[0].content else { panic!("a key was written") };
            assert_eq!(**found.open_key(protected).unwrap(), [7; 100]);
            assert_eq!(PasswordBytes::java("other").open_key(protected), Err(JksError::WrongPassword));
        }
    }

    #[test]
    fn a_wrong_password_is_reported_from_damage() {
        let form = PasswordBytes::java("changeit");
        let keystore = sample(&form);
        let file = form.encode(&keystore).unwrap();
        assert_eq!(PasswordBytes::find("other", &file, &keystore).unwrap_err(), JksError::WrongPassword);
        // A changed alias: the structure holds, the key still opens, the trailer does not fit.
        let mut changed = file.clone();
        changed[20] ^= 1;
        let parsed = parse(&changed).unwrap();
        assert_eq!(PasswordBytes::find("changeit", &changed, &parsed).unwrap_err(), JksError::Altered);
    }

    #[test]
    fn a_file_cut_short_is_rejected_at_every_byte() {
        let form = PasswordBytes::java("changeit");
        let keystore = sample(&form);
        let file = form.encode(&keystore).unwrap();
        for length in 0..file.len() {
            let cut = &file[..length];
            let usable = parse(cut).and_then(|keystore| PasswordBytes::find("changeit", cut, &keystore).map(|_| ()));
            assert!(usable.is_err(), "cut to {length}");
        }
    }

    #[test]
    fn claims_of_size_cost_nothing() {
        let header = |version: u32, count: u32, rest: &[u8]| {
            [&MAGIC.to_be_bytes()[..], &version.to_be_bytes(), &count.to_be_bytes(), rest, &[0; TRAILER]].concat()
        };
        let ends = "ends in the middle of an entry";
        let huge = [0xff; 4];
        let key = [&[0, 0, 0, 1, 0, 0][..], &[0; 8]].concat();
        for (bytes, expected) in [
            (header(2, u32::MAX, &[]), JksError::Damaged(12, ends)),
            (header(3, 0, &[]), JksError::Damaged(4, "version is neither 1 nor 2")),
            (header(2, 0, b"x"), JksError::Damaged(12, "bytes after the last entry")),
            (header(2, 1, &[0, 0, 0, 9, 0, 0]), JksError::Damaged(18, ends)),
            (
                header(2, 1, &[&[0, 0, 0, 9, 0, 0][..], &[0; 8]].concat()),
                JksError::Damaged(12, "neither a key nor a certificate begins here"),
            ),
            (header(2, 1, &[0, 0, 0, 1, 0xff, 0xff]), JksError::Damaged(18, ends)),
            (header(2, 1, &[&key[..], &huge].concat()), JksError::Damaged(30, ends)),
            (
                header(2, 1, &[&key[..], &[0; 4], &huge].concat()),
                JksError::TooLarge("chain of more than 64 certificates"),
            ),
            (vec![], JksError::NotJks),
            (b"PK\x03\x04 this is no keystore at all".to_vec(), JksError::NotJks),
        ] {
            assert_eq!(parse(&bytes), Err(expected), "{bytes:?}");
        }
    }

    #[test]
    fn version_1_has_no_certificate_types() {
        let mut file = [&MAGIC.to_be_bytes()[..], &1_u32.to_be_bytes(), &1_u32.to_be_bytes()].concat();
        file.extend_from_slice(&[0, 0, 0, 2, 0, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3]);
        file.extend_from_slice(b"der");
        let form = PasswordBytes::java("x");
        let trailer = form.trailer(&file);
        file.extend_from_slice(&trailer);
        let content = Content::Trusted(Certificate { kind: X509.to_vec(), der: b"der".to_vec() });
        let expected = Keystore { entries: vec![Entry { alias: b"a".to_vec(), created_ms: 5, content }] };
        assert_eq!(parse(&file), Ok(expected));
    }

    #[test]
    fn odd_protections_are_rejected() {
        let form = PasswordBytes::java("x");
        let sealed = form.protect_key(b"key").unwrap();
        for length in 0..sealed.len() {
            assert!(form.open_key(&sealed[..length]).is_err());
        }
        let too_short = der(0x30, &[KEY_PROTECTOR, &der(0x04, &[0; 39])].concat());
        assert_eq!(form.open_key(&too_short), Err(JksError::UnknownProtection));
        let mut other = sealed;
        other[10] ^= 1;
        assert_eq!(form.open_key(&other), Err(JksError::UnknownProtection));
    }
}
