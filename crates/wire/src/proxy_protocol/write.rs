//! Writing a header, in either version.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use super::crc32c::Crc32c;
use super::tlv::{MAX_UNIQUE_ID_BYTES, Tlvs, kind};
use super::{Origin, Transport, v2};

/// What a version 2 header may say beside the addresses. A value longer than its TLV can hold is left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Protocol chosen by ALPN.
    pub alpn: Option<&'a [u8]>,
    /// Host name the client asked for.
    pub authority: Option<&'a [u8]>,
    /// An opaque id of the connection, at most 128 bytes.
    pub unique_id: Option<&'a [u8]>,
    /// The client's TLS.
    pub ssl: Option<SslExtras<'a>>,
    /// TLVs of a header that came in, to be passed on. Those of types written from the other fields, checksums and padding are left out.
    pub received: Tlvs<'a>,
    /// Whether to add a CRC32c of the whole.
    pub crc32c: bool,
}

/// What is passed on of the client's TLS; fields as [`kind`] names them.
#[derive(Debug, Clone, Copy, Default)]
pub struct SslExtras<'a> {
    /// Such as `TLSv1.3`.
    pub version: &'a str,
    /// Such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: &'a str,
    /// Such as `SHA256`.
    pub signature_algorithm: Option<&'a str>,
    /// Such as `EC256` or `RSA2048`.
    pub key_algorithm: Option<&'a str>,
    /// The client's verified certificate, if it has shown one.
    pub certificate: Option<CertificateExtras<'a>>,
}

/// What is passed on of a client's verified certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct CertificateExtras<'a> {
    /// Common name of its subject.
    pub common_name: Option<&'a str>,
    /// Whether it was shown on this connection; if not, in the one this session began on.
    pub on_connection: bool,
}

/// Appends a version 1 line. What it cannot say (Unix sockets, datagrams) is `UNKNOWN`.
pub fn write_v1(out: &mut Vec<u8>, origin: &Origin<'_>) {
    let Origin::Inet { transport: Transport::Stream, source, destination } = origin else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let (source, destination) = one_family(*source, *destination);
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let ports = (source.port(), destination.port());
    // Writing to a Vec cannot fail.
    let _ = write!(out, "PROXY {family} {} {} {} {}\r\n", source.ip(), destination.ip(), ports.0, ports.1);
}

/// Appends a version 2 header.
pub fn write_v2(out: &mut Vec<u8>, origin: &Origin<'_>, extras: &Extras<'_>) {
    let start = out.len();
    // The length of the block has two bytes, and the checksum wants its seven.
    let limit = start + v2::FIXED_BYTES + usize::from(u16::MAX) - 7;
    out.extend_from_slice(v2::SIGNATURE);
    match origin {
        Origin::Local => out.extend_from_slice(&[v2::LOCAL, 0, 0, 0]),
        Origin::Unspecified => out.extend_from_slice(&[v2::PROXY, 0, 0, 0]),
        Origin::Inet { transport, source, destination } => write_inet(out, *transport, *source, *destination),
        Origin::Unix { transport, source, destination } => {
            out.extend_from_slice(&[v2::PROXY, 0x30 | transport_bits(*transport), 0, 0]);
            out.extend_from_slice(*source);
            out.extend_from_slice(*destination);
        }
    }
    // A receiver throws the block of a LOCAL header away.
    if !matches!(origin, Origin::Local) {
        write_extras(out, extras, limit);
    }
    let crc_at = (extras.crc32c && !matches!(origin, Origin::Local)).then(|| {
        write_tlv(out, kind::CRC32C, &[0; 4], usize::MAX);
        out.len() - 4
    });
    let block_bytes = u16::try_from(out.len() - start - v2::FIXED_BYTES).unwrap_or(u16::MAX);
    put(out, start + 14, &block_bytes.to_be_bytes());
    if let Some(at) = crc_at {
        let crc = Crc32c::new().update(out.get(start..).unwrap_or_default()).value();
        put(out, at, &crc.to_be_bytes());
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn transport_bits(transport: Transport) -> u8 {
    match transport {
        Transport::Stream => 1,
        Transport::Datagram => 2,
    }
}

fn write_inet(out: &mut Vec<u8>, transport: Transport, source: SocketAddr, destination: SocketAddr) {
    let (source, destination) = one_family(source, destination);
    let family = if source.is_ipv4() { 0x10 } else { 0x20 };
    out.extend_from_slice(&[v2::PROXY, family | transport_bits(transport), 0, 0]);
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

/// Both as IPv4 where both are, mapped or not; else both as IPv6. A header has room for one family only.
fn one_family(source: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr) {
    let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
    let as_v6 = |address: IpAddr| match address {
        IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
        v6 => v6,
    };
    let (from, to) = if from.is_ipv4() == to.is_ipv4() { (from, to) } else { (as_v6(from), as_v6(to)) };
    (SocketAddr::new(from, source.port()), SocketAddr::new(to, destination.port()))
}

fn write_extras(out: &mut Vec<u8>, extras: &Extras<'_>, limit: usize) {
    let unique_id = extras.unique_id.filter(|id| id.len() <= MAX_UNIQUE_ID_BYTES);
    let own = [(kind::ALPN, extras.alpn), (kind::AUTHORITY, extras.authority), (kind::UNIQUE_ID, unique_id)];
    for (kind, value) in own {
        if let Some(value) = value {
            write_tlv(out, kind, value, limit);
        }
    }
    if let Some(ssl) = &extras.ssl {
        write_ssl(out, ssl, limit);
    }
    for tlv in extras.received.iter() {
        let is_ours = own.iter().any(|(kind, value)| *kind == tlv.kind && value.is_some())
            || (tlv.kind == kind::SSL && extras.ssl.is_some());
        if !is_ours && !matches!(tlv.kind, kind::CRC32C | kind::NOOP) {
            write_tlv(out, tlv.kind, tlv.value, limit);
        }
    }
}

fn write_ssl(out: &mut Vec<u8>, ssl: &SslExtras<'_>, limit: usize) {
    let mut value = Vec::with_capacity(96);
    let (flags, verify) = match &ssl.certificate {
        Some(certificate) if certificate.on_connection => (7, 0_u32),
        Some(_) => (5, 0),
        None => (1, 1),
    };
    value.push(flags);
    value.extend_from_slice(&verify.to_be_bytes());
    let fields = [
        (kind::SSL_VERSION, Some(ssl.version)),
        (kind::SSL_COMMON_NAME, ssl.certificate.as_ref().and_then(|certificate| certificate.common_name)),
        (kind::SSL_CIPHER, Some(ssl.cipher)),
        (kind::SSL_SIGNATURE_ALGORITHM, ssl.signature_algorithm),
        (kind::SSL_KEY_ALGORITHM, ssl.key_algorithm),
    ];
    for (kind, text) in fields {
        if let Some(text) = text {
            write_tlv(&mut value, kind, text.as_bytes(), usize::from(u16::MAX));
        }
    }
    write_tlv(out, kind::SSL, &value, limit);
}

/// Appends a TLV, unless its value is too long for one or `out` would grow over `limit` bytes.
fn write_tlv(out: &mut Vec<u8>, kind: u8, value: &[u8], limit: usize) {
    let Ok(length) = u16::try_from(value.len()) else { return };
    if out.len() + 3 + value.len() > limit {
        return;
    }
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}
