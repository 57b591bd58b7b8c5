//! What a handshake agreed on, and who the peer is.
//!
//! Reads a session; changes nothing. Ruled by RFC 5280 (certificates) and RFC 4514 (names as text).

use crate::crypto::certificate;
use crate::ffi::{self, Owned};
use crate::{Error, KeyType, ProtocolVersion, trust};
use aws_lc_sys as sys;
use std::ffi::CStr;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::raw::{c_int, c_ulong};
use std::ptr;
use std::slice;
use wire::ja4::Ja4;

/// What a handshake agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The version.
    pub version: ProtocolVersion,
    /// The suite's IANA name, e.g. `TLS_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The key-exchange group's name, e.g. `X25519MLKEM768`; none for RSA key exchange.
    pub group: Option<&'static str>,
    /// SNI as sent, lower case, if it was a valid name.
    pub server_name: Option<Box<str>>,
    /// The protocol agreed by ALPN.
    pub alpn: Option<Box<[u8]>>,
    /// Key type of our identity; none on the client side.
    pub key_type: Option<KeyType>,
    /// Algorithm and size of our identity's key as others name them, such as `EC256` or `RSA2048`, if it is a usual one.
    pub key_algorithm: Option<&'static str>,
    /// Digest that our identity's leaf was signed with, such as `SHA256`, if it is a usual one.
    pub signature_algorithm: Option<&'static str>,
    /// A session was resumed.
    pub resumed: bool,
    /// The ClientHello was encrypted (RFC 9849), and what is said here is of the inner one.
    pub ech: bool,
    /// The peer's verified certificate.
    pub peer: Option<Box<PeerCertificate>>,
    /// The client's JA4 fingerprint; none on the client side, and where the [`Chooser`](crate::Chooser) does not want it.
    pub fingerprint: Option<Box<Ja4>>,
}

/// A peer's certificate after verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The leaf, DER.
    pub der: Vec<u8>,
    /// Subject, RFC 4514 string; what is not ASCII is escaped.
    pub subject: String,
    /// Issuer, RFC 4514 string; what is not ASCII is escaped.
    pub issuer: String,
    /// Serial number, upper-case hexadecimal.
    pub serial: String,
    /// SHA-256 of the leaf, lower-case hexadecimal.
    pub fingerprint: String,
    /// DNS names among the subject alternative names.
    pub dns_names: Vec<String>,
    /// URIs among them.
    pub uris: Vec<String>,
    /// E-mail addresses among them.
    pub emails: Vec<String>,
    /// IP addresses among them.
    pub addresses: Vec<IpAddr>,
}

impl PeerCertificate {
    /// Its first alternative name: a DNS name, else a URI, else an e-mail address.
    pub fn first_name(&self) -> Option<&String> {
        self.dns_names.iter().chain(&self.uris).chain(&self.emails).next()
    }

    /// What a certificate (DER) says. Nobody has verified it: only for saying what would be if somebody had.
    ///
    /// # Errors
    /// It is no certificate.
    pub fn read(der: &[u8]) -> Result<PeerCertificate, Error> {
        describe(&trust::certificate(der)?).ok_or_else(|| Error::Ours("its names cannot be read".into()))
    }
}

/// Reads all facts of a session whose handshake is done.
pub(crate) fn of_session(
    ssl: &Owned<sys::SSL>,
    key_type: Option<KeyType>,
    algorithms: crate::identity::Algorithms,
    fingerprint: Option<Box<Ja4>>,
) -> Info {
    let pointer = ssl.as_ptr();
    // SAFETY: the session is live; cipher and group names come from static tables.
    let (cipher, group, resumed, ech) = unsafe {
        let cipher = sys::SSL_get_current_cipher(pointer);
        let cipher = if cipher.is_null() { None } else { ffi::static_text(sys::SSL_CIPHER_standard_name(cipher)) };
        let group = ffi::static_text(sys::SSL_get_group_name(sys::SSL_get_group_id(pointer)));
        let resumed = sys::SSL_session_reused(pointer) == 1;
        (cipher.unwrap_or("unknown"), group, resumed, sys::SSL_ech_accepted(pointer) == 1)
    };
    Info {
        version: version(ssl),
        cipher,
        group,
        server_name: server_name(ssl),
        alpn: alpn(ssl),
        key_type,
        key_algorithm: algorithms.key,
        signature_algorithm: algorithms.signature,
        resumed,
        ech,
        peer: verified_peer(ssl).map(Box::new),
        fingerprint,
    }
}

/// The negotiated version.
pub(crate) fn version(ssl: &Owned<sys::SSL>) -> ProtocolVersion {
    // SAFETY: the session is live.
    let number = unsafe { sys::SSL_version(ssl.as_ptr()) };
    ProtocolVersion::from_number(u16::try_from(number).unwrap_or(0))
}

/// Whether the session holds a certificate of the peer.
pub(crate) fn holds_certificate(ssl: &Owned<sys::SSL>) -> bool {
    peer_certificate(ssl).is_some()
}

/// SNI as sent, lower case, if it is a valid name.
pub(crate) fn server_name(ssl: &Owned<sys::SSL>) -> Option<Box<str>> {
    // SAFETY: the session is live and keeps the NUL-terminated name.
    let name = unsafe {
        let name = sys::SSL_get_servername(ssl.as_ptr(), sys::TLSEXT_NAMETYPE_host_name);
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name).to_str().ok()?
    };
    is_host_name(name).then(|| name.to_ascii_lowercase().into())
}

/// Letters, digits, hyphens and underscores between dots, at most 253 bytes, and not an IPv4 address (RFC 1123 §2.1, RFC 6066 §3).
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.len() <= 253 && name.split('.').all(is_label) && name.parse::<Ipv4Addr>().is_err()
}

fn alpn(ssl: &Owned<sys::SSL>) -> Option<Box<[u8]>> {
    let (mut data, mut len) = (ptr::null(), 0);
    // SAFETY: the session is live; what it answers with lives as long and is copied here.
    unsafe {
        sys::SSL_get0_alpn_selected(ssl.as_ptr(), &raw mut data, &raw mut len);
        if data.is_null() { None } else { Some(slice::from_raw_parts(data, len as usize).into()) }
    }
}

fn peer_certificate(ssl: &Owned<sys::SSL>) -> Option<Owned<sys::X509>> {
    // SAFETY: the session is live; the certificate comes with a reference of its own.
    unsafe { Owned::from_raw(sys::SSL_get_peer_certificate(ssl.as_ptr()), "reading the peer's certificate") }.ok()
}

/// The certificate that the peer has sent, DER, verified or not. That it has the key is proven by the handshake.
pub(crate) fn shown_certificate(ssl: &Owned<sys::SSL>) -> Option<Vec<u8>> {
    let certificate = peer_certificate(ssl)?;
    // SAFETY: the certificate is live; `i2d_X509` belongs to its type.
    unsafe { trust::der(certificate.as_ptr(), sys::i2d_X509) }
}

/// The peer's certificate, if it sent one and it was verified.
fn verified_peer(ssl: &Owned<sys::SSL>) -> Option<PeerCertificate> {
    // SAFETY: the session is live.
    if unsafe { sys::SSL_get_verify_result(ssl.as_ptr()) } != sys::X509_V_OK.into() {
        return None;
    }
    describe(&peer_certificate(ssl)?)
}

fn describe(certificate: &Owned<sys::X509>) -> Option<PeerCertificate> {
    let pointer = certificate.as_ptr();
    // SAFETY: the certificate is live; `i2d_X509` belongs to its type.
    let der = unsafe { trust::der(pointer, sys::i2d_X509)? };
    let names = AlternativeNames::of(certificate);
    Some(PeerCertificate {
        // SAFETY: the certificate is live and owns its names and serial number.
        subject: unsafe { name_text(sys::X509_get_subject_name(pointer))? },
        // SAFETY: as above.
        issuer: unsafe { name_text(sys::X509_get_issuer_name(pointer))? },
        // SAFETY: as above.
        serial: unsafe { string_bytes(sys::X509_get0_serialNumber(pointer)) }
            .map_or_else(String::new, |bytes| hexadecimal(bytes, true)),
        fingerprint: hexadecimal(&ffi::sha256(&[&der]), false),
        der,
        dns_names: names.texts(sys::GEN_DNS),
        uris: names.texts(sys::GEN_URI),
        emails: names.texts(sys::GEN_EMAIL),
        addresses: names.addresses(),
    })
}

fn hexadecimal(bytes: &[u8], upper: bool) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = if upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
        text
    })
}

/// A distinguished name as text.
///
/// # Safety
/// `name` is live.
unsafe fn name_text(name: *const sys::X509_NAME) -> Option<String> {
    // SAFETY: a fresh memory BIO is ours; `name` is live; the contents live as long as the BIO and are copied.
    unsafe {
        let bio = Owned::from_raw(sys::BIO_new(sys::BIO_s_mem()), "making a BIO").ok()?;
        if sys::X509_NAME_print_ex(bio.as_ptr(), name, 0, sys::XN_FLAG_RFC2253 as c_ulong) < 0 {
            ffi::clear_errors();
            return None;
        }
        let (mut data, mut len) = (ptr::null(), 0);
        if sys::BIO_mem_contents(bio.as_ptr(), &raw mut data, &raw mut len) != 1 || data.is_null() {
            return Some(String::new());
        }
        String::from_utf8(slice::from_raw_parts(data, len).to_vec()).ok()
    }
}

/// The bytes of an ASN.1 string.
///
/// # Safety
/// `string` is null or live for as long as the result is used.
unsafe fn string_bytes<'a>(string: *const sys::ASN1_STRING) -> Option<&'a [u8]> {
    if string.is_null() {
        return None;
    }
    // SAFETY: the string is live and has that many bytes.
    unsafe {
        let (data, len) = (sys::ASN1_STRING_get0_data(string), sys::ASN1_STRING_length(string));
        if data.is_null() { Some(&[]) } else { Some(slice::from_raw_parts(data, usize::try_from(len).ok()?)) }
    }
}

/// The subject alternative names of a certificate (RFC 5280 §4.2.1.6), if it has any that parse.
struct AlternativeNames(Option<Owned<sys::GENERAL_NAMES>>);

impl AlternativeNames {
    fn of(certificate: &Owned<sys::X509>) -> AlternativeNames {
        // SAFETY: the certificate is live; for this extension the response is null or a list of names that is ours.
        let names = unsafe {
            let names = sys::X509_get_ext_d2i(
                certificate.as_ptr(),
                sys::NID_subject_alt_name,
                ptr::null_mut(),
                ptr::null_mut(),
            );
            Owned::from_raw(names.cast(), "reading alternative names").ok()
        };
        AlternativeNames(names)
    }

    /// The contents of all names of one kind whose value is a string.
    fn values(&self, kind: c_int) -> impl Iterator<Item = &[u8]> {
        let stack = self.0.as_ref().map(|names| names.as_ptr().cast_const().cast::<sys::OPENSSL_STACK>());
        // SAFETY: the list is live while `self` is.
        let count = stack.map_or(0, |stack| unsafe { sys::OPENSSL_sk_num(stack) });
        (0..count).filter_map(move |index| {
            // SAFETY: the index is within the live list, whose items are general names. For the kinds asked for (DNS, URI, e-mail, address)
            // the value is an ASN.1 string, which lives as long as the list.
            unsafe {
                let name = &*sys::OPENSSL_sk_value(stack?, index).cast::<sys::GENERAL_NAME>();
                if name.type_ == kind { string_bytes(name.d.ia5.cast_const().cast()) } else { None }
            }
        })
    }

    /// Names of one kind as text. One that is not printable ASCII is left out: whoever put a NUL or a newline there meant to deceive.
    fn texts(&self, kind: c_int) -> Vec<String> {
        self.values(kind)
            .filter(|value| !value.is_empty() && value.iter().all(u8::is_ascii_graphic))
            .filter_map(|value| String::from_utf8(value.to_vec()).ok())
            .collect()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.values(sys::GEN_IPADD).filter_map(certificate::address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        let long = "a".repeat(64);
        let cases = [
            ("a.example", true),
            ("_acme.A-b.example", true),
            ("localhost", true),
            ("", false),
            (".", false),
            ("a..b", false),
            ("a.example.", false),
            ("127.0.0.1", false),
            ("::1", false),
            ("a b", false),
            ("a\n.b", false),
            (long.as_str(), false),
        ];
        for (name, valid) in cases {
            assert_eq!(is_host_name(name), valid, "{name:?}");
        }
    }
}
