//! An X.509 certificate (RFC 5280), read for what loading one needs to know.
//!
//! Does not verify it: neither its signature, nor its chain, nor its dates.

use super::handle::{Bio, GeneralNames, X509, clear_errors, kind_of};
use super::{Error, KeyKind};
use aws_lc_sys as sys;
use std::net::IpAddr;
use std::ptr;
use std::time::{Duration, SystemTime};

/// Longest certificate that is read, bytes. The largest seen in the wild, with hundreds of names, stay below 64 KiB.
pub const MAX_CERTIFICATE_BYTES: usize = 256 * 1024;

/// What a certificate says. Holds no object of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    spki: Vec<u8>,
    kind: KeyKind,
    not_before: SystemTime,
    not_after: SystemTime,
    dns_names: Vec<String>,
    addresses: Vec<IpAddr>,
    subject: String,
    subject_der: Vec<u8>,
    issuer_der: Vec<u8>,
    is_authority: bool,
    has_names: bool,
    is_for_servers: bool,
    is_for_clients: bool,
    serial: Vec<u8>,
    authority_key_id: Vec<u8>,
}

impl Certificate {
    /// Reads a certificate that fills `der` exactly.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`MAX_CERTIFICATE_BYTES`]; [`Error::Malformed`] for anything that is not a certificate, also when its public
    /// key or its alternative names cannot be read.
    pub fn from_der(der: &[u8]) -> Result<Certificate, Error> {
        if der.len() > MAX_CERTIFICATE_BYTES {
            return Err(Error::TooLarge("certificate of more than 256 KiB"));
        }
        clear_errors();
        let parsed = parse(der).and_then(|x509| read(&x509));
        clear_errors();
        parsed
    }

    /// The SubjectPublicKeyInfo, DER: what a private key's [`public_spki_der`](super::PrivateKey::public_spki_der) is compared with.
    pub fn public_spki_der(&self) -> &[u8] {
        &self.spki
    }

    /// The kind of its public key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Start of its validity.
    pub fn not_before(&self) -> SystemTime {
        self.not_before
    }

    /// End of its validity, inclusive (RFC 5280 §4.1.2.5).
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// The dNSName entries of its subject alternative names, as they stand there. The common name is not looked at, as RFC 9525 §2 demands.
    pub fn dns_names(&self) -> &[String] {
        &self.dns_names
    }

    /// The iPAddress entries of its alternative names.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Its subject for people, in the form of RFC 2253.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Whether its basic constraints make it a certificate authority.
    pub fn is_authority(&self) -> bool {
        self.is_authority
    }

    /// Whether it has no subject alternative names at all.
    pub fn alternative_names_are_empty(&self) -> bool {
        !self.has_names
    }

    /// Whether its extended key usage, if it has any, lets it prove a TLS server (RFC 5280 §4.2.1.12).
    pub fn is_for_servers(&self) -> bool {
        self.is_for_servers
    }

    /// The same for a TLS client.
    pub fn is_for_clients(&self) -> bool {
        self.is_for_clients
    }

    /// Its subject, the Name as DER: equal to [`issuer_der`](Certificate::issuer_der) of what it issued (RFC 5280 §7.1).
    pub fn subject_der(&self) -> &[u8] {
        &self.subject_der
    }

    /// Its issuer, the Name as DER.
    pub fn issuer_der(&self) -> &[u8] {
        &self.issuer_der
    }

    /// The content of its serial number: big-endian, with the sign that DER gives it.
    pub fn serial(&self) -> &[u8] {
        &self.serial
    }

    /// The identifier of its issuer's key; empty if it has none (RFC 5280 §4.2.1.1).
    pub fn authority_key_id(&self) -> &[u8] {
        &self.authority_key_id
    }
}

fn parse(der: &[u8]) -> Result<X509, Error> {
    let mut at = der.as_ptr();
    let length = std::os::raw::c_long::try_from(der.len()).map_err(|_| Error::TooLarge("certificate"))?;
    // SAFETY: `at` points to `length` readable bytes; the call moves it within them and returns a new object or null.
    let x509 =
        unsafe { X509::own(sys::d2i_X509(ptr::null_mut(), &mut at, length), Error::Malformed("not a certificate"))? };
    if at != der.as_ptr_range().end {
        return Err(Error::Malformed("bytes after the certificate"));
    }
    Ok(x509)
}

fn read(x509: &X509) -> Result<Certificate, Error> {
    let raw = x509.as_ptr();
    // SAFETY: `raw` is live throughout; names, times and the public key are borrowed from it for the length of each call.
    unsafe {
        let key = sys::X509_get0_pubkey(raw);
        let kind = if key.is_null() { KeyKind::Other } else { kind_of(key) };
        let (subject, issuer) = (sys::X509_get_subject_name(raw), sys::X509_get_issuer_name(raw));
        let (dns_names, addresses) = alternative_names(x509)?;
        Ok(Certificate {
            spki: encoded(|out| sys::i2d_X509_PUBKEY(sys::X509_get_X509_PUBKEY(raw), out))?,
            kind,
            not_before: time(sys::X509_get0_notBefore(raw))?,
            not_after: time(sys::X509_get0_notAfter(raw))?,
            dns_names,
            addresses,
            subject: text(subject)?,
            subject_der: encoded(|out| sys::i2d_X509_NAME(subject, out))?,
            issuer_der: encoded(|out| sys::i2d_X509_NAME(issuer, out))?,
            is_authority: sys::X509_get_extension_flags(raw) & sys::EXFLAG_CA as u32 != 0,
            has_names: sys::X509_get_ext_by_NID(raw, sys::NID_subject_alt_name, -1) >= 0,
            // All bits are set where there is no such extension.
            is_for_servers: sys::X509_get_extended_key_usage(raw) & sys::XKU_SSL_SERVER as u32 != 0,
            is_for_clients: sys::X509_get_extended_key_usage(raw) & sys::XKU_SSL_CLIENT as u32 != 0,
            serial: content(&encoded(|out| sys::i2d_ASN1_INTEGER(sys::X509_get0_serialNumber(raw), out))?),
            authority_key_id: octets(sys::X509_get0_authority_key_id(raw)),
        })
    }
}

/// Runs one of the library's `i2d` functions: first for the length, then for the bytes.
fn encoded(mut i2d: impl FnMut(*mut *mut u8) -> std::os::raw::c_int) -> Result<Vec<u8>, Error> {
    let length = usize::try_from(i2d(ptr::null_mut())).map_err(|_| Error::Library)?;
    let mut out = vec![0; length];
    let mut at = out.as_mut_ptr();
    if usize::try_from(i2d(&mut at)) == Ok(length) { Ok(out) } else { Err(Error::Library) }
}

/// What an INTEGER of less than 128 bytes holds, behind its tag and length; longer serial numbers are nobody's (RFC 5280 §4.1.2.2).
fn content(der: &[u8]) -> Vec<u8> {
    match der {
        [2, length, content @ ..] if usize::from(*length) == content.len() => content.to_vec(),
        _ => Vec::new(),
    }
}

/// # Safety
/// `string` is null or a live ASN1_OCTET_STRING.
unsafe fn octets(string: *const sys::ASN1_OCTET_STRING) -> Vec<u8> {
    if string.is_null() {
        return Vec::new();
    }
    // SAFETY: by the caller's promise; the data is as long as the string says.
    unsafe {
        let length = usize::try_from(sys::ASN1_STRING_length(string)).unwrap_or(0);
        let data = sys::ASN1_STRING_get0_data(string);
        if length == 0 || data.is_null() { Vec::new() } else { std::slice::from_raw_parts(data, length).to_vec() }
    }
}

/// # Safety
/// `time` is null or a live ASN1_TIME.
unsafe fn time(time: *const sys::ASN1_TIME) -> Result<SystemTime, Error> {
    let mut seconds = 0;
    // SAFETY: by the caller's promise.
    if time.is_null() || unsafe { sys::ASN1_TIME_to_posix(time, &mut seconds) } != 1 {
        return Err(Error::Malformed("a date of the certificate"));
    }
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    time.ok_or(Error::Malformed("a date of the certificate"))
}

/// # Safety
/// `name` is a live X509_NAME.
unsafe fn text(name: *const sys::X509_NAME) -> Result<String, Error> {
    // SAFETY: a fresh memory BIO, printed into and read while it lives; `data` points into it.
    unsafe {
        let bio = Bio::own(sys::BIO_new(sys::BIO_s_mem()), Error::Library)?;
        if sys::X509_NAME_print_ex(bio.as_ptr(), name, 0, sys::XN_FLAG_RFC2253 as std::os::raw::c_ulong) < 0 {
            return Err(Error::Malformed("the subject of the certificate"));
        }
        let (mut data, mut length) = (ptr::null(), 0);
        if sys::BIO_mem_contents(bio.as_ptr(), &mut data, &mut length) != 1 {
            return Err(Error::Library);
        }
        if length == 0 {
            return Ok(String::new());
        }
        Ok(String::from_utf8_lossy(std::slice::from_raw_parts(data, length)).into_owned())
    }
}

/// The address of an iPAddress entry (RFC 5280 §4.2.1.6).
pub(crate) fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

/// The dNSName and iPAddress entries. A name that is not ASCII, or holds a NUL, cannot be a host name and is kept in an escaped form that no client asks for.
fn alternative_names(x509: &X509) -> Result<(Vec<String>, Vec<IpAddr>), Error> {
    let mut critical = 0;
    // SAFETY: the certificate is live; a returned object is a GENERAL_NAMES for this NID and ours to free. The stack and its entries stay
    // unchanged while `names` lives, and `d` is read as the string that `type_` says it is.
    unsafe {
        let raw =
            sys::X509_get_ext_d2i(x509.as_ptr(), sys::NID_subject_alt_name, &mut critical, ptr::null_mut()).cast();
        if critical == -1 {
            return Ok((Vec::new(), Vec::new()));
        }
        let names = GeneralNames::own(raw, Error::Malformed("the alternative names of the certificate"))?;
        let stack: *const sys::OPENSSL_STACK = names.as_ptr().cast();
        let (mut dns_names, mut addresses) = (Vec::new(), Vec::new());
        for index in 0..sys::OPENSSL_sk_num(stack) {
            let name: *const sys::GENERAL_NAME = sys::OPENSSL_sk_value(stack, index).cast();
            if name.is_null() || !matches!((*name).type_, sys::GEN_DNS | sys::GEN_IPADD) {
                continue;
            }
            // Both kinds are strings of ASN.1.
            let string = (*name).d.dNSName;
            let length = usize::try_from(sys::ASN1_STRING_length(string)).unwrap_or(0);
            if length == 0 {
                continue;
            }
            let bytes = std::slice::from_raw_parts(sys::ASN1_STRING_get0_data(string), length);
            if (*name).type_ == sys::GEN_DNS {
                dns_names.push(bytes.escape_ascii().to_string());
            } else {
                addresses.extend(address(bytes));
            }
        }
        Ok((dns_names, addresses))
    }
}
