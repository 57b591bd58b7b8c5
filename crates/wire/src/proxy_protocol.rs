//! The PROXY protocol, versions 1 and 2, as HAProxy's `proxy-protocol.txt` (2020/03/05) defines it: who a connection is really from.
//!
//! Owns the strict reading of a header from the start of a stream or datagram, however it was cut, and the writing of one. Does not
//! decide whom to believe, nor what to do with a connection that has none. A datagram must hold its header whole: there, [`Found::Partial`] is
//! an error of the sender.

use std::net::SocketAddr;

mod crc32c;
mod info;
mod tlv;
mod v1;
mod v2;
mod write;

pub use info::ProxyInfo;
pub use tlv::{Ssl, Tlv, Tlvs, kind};
pub use write::{CertificateExtras, Extras, SslExtras, write_v1, write_v2};

/// Longest header that is read, bytes. Version 2 could announce 65,551; what is really sent with a client certificate is a few thousand.
pub const MAX_HEADER_BYTES: usize = 16 * 1024;

/// What the first bytes of a stream turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// They may be the beginning of a header; more are needed to tell.
    Partial,
    /// They are the beginning of something else.
    Absent,
    /// A whole header. The stream's own bytes begin at [`Header::len`].
    Whole(Header<'a>),
}

/// A whole header. Borrows from the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Which version it was written in.
    pub version: Version,
    /// Between whom the connection is.
    pub origin: Origin<'a>,
    /// What else was said, whole and well-formed; empty in version 1 and for [`Origin::Local`].
    pub tlvs: Tlvs<'a>,
    /// Length of the header, bytes.
    pub len: usize,
}

/// Versions of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A stream: TCP, or a Unix stream socket.
    Stream,
    /// Datagrams: UDP, or a Unix datagram socket.
    Datagram,
}

/// Length of a Unix address, bytes, padded with zeros.
pub const UNIX_ADDRESS_BYTES: usize = 108;

/// Between whom the connection is, as the sender of the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The sender's own connection, such as a health check (command LOCAL): the socket's peer is the client.
    Local,
    /// The sender does not know or cannot say (UNKNOWN, UNSPEC): the socket's peer is the client.
    Unspecified,
    /// Two internet addresses of one family.
    Inet {
        /// What it carries.
        transport: Transport,
        /// The client.
        source: SocketAddr,
        /// What the client connected to.
        destination: SocketAddr,
    },
    /// Two Unix socket addresses.
    Unix {
        /// What it carries.
        transport: Transport,
        /// The client.
        source: &'a [u8; UNIX_ADDRESS_BYTES],
        /// What the client connected to.
        destination: &'a [u8; UNIX_ADDRESS_BYTES],
    },
}

/// Why a header was rejected. Nothing of it may be believed, and what follows it cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// Longer than allowed: 107 bytes in version 1, the caller's bound in version 2.
    TooLong,
    /// A version 1 line that is not `PROXY`, a family, two addresses of it and two ports, with one space between.
    Line,
    /// A version 2 signature, but another version behind it.
    Version,
    /// Neither LOCAL nor PROXY.
    Command,
    /// A family or transport that version 2 does not define.
    Family,
    /// Shorter than the addresses of its family.
    Addresses,
    /// A TLV that runs past the end, or whose content breaks its own rule.
    Tlv,
    /// The CRC32c does not match.
    Checksum,
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HeaderError::TooLong => "PROXY header is too long",
            HeaderError::Line => "PROXY line is malformed",
            HeaderError::Version => "PROXY header has an unknown version",
            HeaderError::Command => "PROXY header has an unknown command",
            HeaderError::Family => "PROXY header has an unknown address family or transport",
            HeaderError::Addresses => "PROXY header is shorter than its addresses",
            HeaderError::Tlv => "PROXY header has a malformed TLV",
            HeaderError::Checksum => "PROXY header has a wrong checksum",
        })
    }
}

impl std::error::Error for HeaderError {}

/// Reads the header at the start of `bytes`, which may hold less or more than it. `max_bytes` bounds a version 2 header, its
/// first 16 bytes included.
///
/// For any bytes the response is the same however they arrive: of the prefixes of what is found whole or absent, each is partial up to some
/// length, and of what is rejected, each is partial or rejected. An error comes as soon as the bytes that prove it are there.
///
/// # Errors
/// [`HeaderError`] for a beginning that can only be a header and is no valid one; never panics.
pub fn read(bytes: &[u8], max_bytes: usize) -> Result<Found<'_>, HeaderError> {
    for (signature, version) in [(v2::SIGNATURE, Version::V2), (v1::SIGNATURE, Version::V1)] {
        if bytes.starts_with(signature) {
            let whole = match version {
                Version::V1 => v1::read(bytes)?,
                Version::V2 => v2::read(bytes, max_bytes)?,
            };
            return Ok(whole.map_or(Found::Partial, Found::Whole));
        }
        if signature.starts_with(bytes) {
            return Ok(Found::Partial);
        }
    }
    Ok(Found::Absent)
}

#[cfg(test)]
mod tests;
