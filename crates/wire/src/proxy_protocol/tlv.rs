//! The TLVs of version 2 (`proxy-protocol.txt` §2.2.1 to §2.2.8): type, length in two bytes, value.

use super::HeaderError;
use super::crc32c::Crc32c;

/// TLV types.
pub mod kind {
    /// Protocol chosen by ALPN (§2.2.1).
    pub const ALPN: u8 = 0x01;
    /// Host name the client asked for, its SNI (§2.2.2).
    pub const AUTHORITY: u8 = 0x02;
    /// CRC32c of the whole header (§2.2.3).
    pub const CRC32C: u8 = 0x03;
    /// Padding (§2.2.4).
    pub const NOOP: u8 = 0x04;
    /// An opaque id of the connection, at most 128 bytes (§2.2.5).
    pub const UNIQUE_ID: u8 = 0x05;
    /// What is known of the client's TLS (§2.2.6).
    pub const SSL: u8 = 0x20;
    /// Name of a network namespace (§2.2.8).
    pub const NETWORK_NAMESPACE: u8 = 0x30;

    /// Inside [`SSL`]: version, such as `TLSv1.3`.
    pub const SSL_VERSION: u8 = 0x21;
    /// Inside [`SSL`]: common name of the client certificate's subject.
    pub const SSL_COMMON_NAME: u8 = 0x22;
    /// Inside [`SSL`]: cipher, such as `ECDHE-RSA-AES128-GCM-SHA256`.
    pub const SSL_CIPHER: u8 = 0x23;
    /// Inside [`SSL`]: algorithm the server's certificate was signed with, such as `SHA256`.
    pub const SSL_SIGNATURE_ALGORITHM: u8 = 0x24;
    /// Inside [`SSL`]: algorithm of the server's key, such as `RSA2048`.
    pub const SSL_KEY_ALGORITHM: u8 = 0x25;
}

/// Longest [`kind::UNIQUE_ID`], bytes (§2.2.5).
pub(super) const MAX_UNIQUE_ID_BYTES: usize = 128;

/// One TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Its type; see [`kind`].
    pub kind: u8,
    /// Its value.
    pub value: &'a [u8],
}

/// Well-formed TLVs, in the order sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

/// The value of [`kind::SSL`] (§2.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ssl<'a> {
    /// Whether the client came by TLS (`PP2_CLIENT_SSL`).
    pub is_tls: bool,
    /// Whether it showed a certificate on this connection (`PP2_CLIENT_CERT_CONN`).
    pub certificate_on_connection: bool,
    /// Whether it showed one at least once in this session (`PP2_CLIENT_CERT_SESS`).
    pub certificate_in_session: bool,
    /// Whether a certificate was shown and verified.
    pub is_verified: bool,
    /// The TLVs inside.
    pub tlvs: Tlvs<'a>,
}

impl<'a> Tlvs<'a> {
    /// The TLVs of a whole header from `start` on.
    ///
    /// # Errors
    /// One runs past the end, breaks the rule of its type, or is a checksum that does not match.
    pub(super) fn checked(header: &'a [u8], start: usize) -> Result<Tlvs<'a>, HeaderError> {
        let tlvs = Tlvs(header.get(start..).ok_or(HeaderError::Tlv)?);
        tlvs.is_whole()?;
        let mut has_checksum = false;
        let mut at = start;
        for Tlv { kind, value } in tlvs.iter() {
            at += 3;
            match kind {
                kind::CRC32C if has_checksum => return Err(HeaderError::Tlv),
                kind::CRC32C => {
                    check_crc32c(header, at, value)?;
                    has_checksum = true;
                }
                kind::UNIQUE_ID if value.len() > MAX_UNIQUE_ID_BYTES => return Err(HeaderError::Tlv),
                kind::SSL => Ssl::read(value).map(drop)?,
                _ => {}
            }
            at += value.len();
        }
        Ok(tlvs)
    }

    /// TLVs that stand alone, such as those kept from a header. Rules of single types are not checked again.
    ///
    /// # Errors
    /// One runs past the end.
    pub fn parse(bytes: &'a [u8]) -> Result<Tlvs<'a>, HeaderError> {
        Tlvs(bytes).is_whole().map(|()| Tlvs(bytes))
    }

    /// Steps over them all.
    fn is_whole(self) -> Result<(), HeaderError> {
        let mut rest = self.0;
        while !rest.is_empty() {
            rest = split(rest).ok_or(HeaderError::Tlv)?.1;
        }
        Ok(())
    }

    /// Each in turn.
    pub fn iter(self) -> impl Iterator<Item = Tlv<'a>> + Clone {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (tlv, behind) = split(rest)?;
            rest = behind;
            Some(tlv)
        })
    }

    /// The value of the first of type `kind`.
    pub fn get(self, kind: u8) -> Option<&'a [u8]> {
        self.iter().find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }

    /// What is said of the client's TLS.
    pub fn ssl(self) -> Option<Ssl<'a>> {
        Ssl::read(self.get(kind::SSL)?).ok()
    }

    /// As sent.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Ssl<'a> {
    fn read(value: &'a [u8]) -> Result<Ssl<'a>, HeaderError> {
        let (&[flags, v0, v1, v2, v3], rest) = value.split_first_chunk().ok_or(HeaderError::Tlv)?;
        let tlvs = Tlvs(rest);
        tlvs.is_whole()?;
        let certificate_on_connection = flags & 2 != 0;
        let certificate_in_session = flags & 4 != 0;
        Ok(Ssl {
            is_tls: flags & 1 != 0,
            certificate_on_connection,
            certificate_in_session,
            // Zero is "verified" only where there was something to verify.
            is_verified: [v0, v1, v2, v3] == [0; 4] && (certificate_on_connection || certificate_in_session),
            tlvs,
        })
    }
}

/// The first TLV, and what is behind it.
fn split(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let (&[kind, high, low], rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
    Some((Tlv { kind, value }, rest))
}

/// Compares the checksum that stands at `at` with that of the header in which it is zero.
fn check_crc32c(header: &[u8], at: usize, value: &[u8]) -> Result<(), HeaderError> {
    let sent = u32::from_be_bytes(*value.first_chunk().filter(|_| value.len() == 4).ok_or(HeaderError::Tlv)?);
    let (before, from) = header.split_at_checked(at).ok_or(HeaderError::Tlv)?;
    let behind = from.get(4..).ok_or(HeaderError::Tlv)?;
    if Crc32c::new().update(before).update(&[0; 4]).update(behind).value() == sent {
        Ok(())
    } else {
        Err(HeaderError::Checksum)
    }
}
