//! Version 2 (`proxy-protocol.txt` §2.2): sixteen bytes, two addresses, TLVs.

use std::net::{IpAddr, SocketAddr};

use super::{Header, HeaderError, Origin, Tlvs, Transport, UNIX_ADDRESS_BYTES, Version};

/// What every header begins with: no text of any protocol, and rejected early by those that speak text.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length of the rest.
pub(super) const FIXED_BYTES: usize = 16;

/// Version nibble and command nibble.
pub(super) const LOCAL: u8 = 0x20;
/// See [`LOCAL`].
pub(super) const PROXY: u8 = 0x21;

/// Reads a header that begins with the signature; none while it is not whole.
pub(super) fn read(bytes: &[u8], max_bytes: usize) -> Result<Option<Header<'_>>, HeaderError> {
    let Some(&command) = bytes.get(12) else { return Ok(None) };
    match command {
        LOCAL | PROXY => {}
        0x22..=0x2f => return Err(HeaderError::Command),
        _ => return Err(HeaderError::Version),
    }
    let Some(&family) = bytes.get(13) else { return Ok(None) };
    // The block of a LOCAL header is to be thrown away, its family included (§2.2).
    let address_bytes = if command == LOCAL { 0 } else { address_bytes(family).ok_or(HeaderError::Family)? };
    let Some(&[high, low]) = bytes.get(14..16).and_then(|length| length.first_chunk()) else { return Ok(None) };
    let block_bytes = usize::from(u16::from_be_bytes([high, low]));
    let len = FIXED_BYTES + block_bytes;
    if len > max_bytes {
        return Err(HeaderError::TooLong);
    }
    if block_bytes < address_bytes {
        return Err(HeaderError::Addresses);
    }
    let Some(header) = bytes.get(..len) else { return Ok(None) };
    if command == LOCAL {
        return Ok(Some(Header { version: Version::V2, origin: Origin::Local, tlvs: Tlvs::default(), len }));
    }
    let block = header.get(FIXED_BYTES..).unwrap_or_default();
    let (addresses, tlvs) = block.split_at_checked(address_bytes).ok_or(HeaderError::Addresses)?;
    let origin = origin(family, addresses).ok_or(HeaderError::Addresses)?;
    let tlvs = Tlvs::checked(header, len - tlvs.len())?;
    Ok(Some(Header { version: Version::V2, origin, tlvs, len }))
}

/// Bytes that the addresses of a family and transport take; none for what is not defined.
fn address_bytes(family: u8) -> Option<usize> {
    match family {
        0x00 => Some(0),
        0x11 | 0x12 => Some(2 * (4 + 2)),
        0x21 | 0x22 => Some(2 * (16 + 2)),
        0x31 | 0x32 => Some(2 * UNIX_ADDRESS_BYTES),
        _ => None,
    }
}

fn origin(family: u8, addresses: &[u8]) -> Option<Origin<'_>> {
    let transport = if family & 0xf == 1 { Transport::Stream } else { Transport::Datagram };
    match family >> 4 {
        1 => inet::<4>(transport, addresses),
        2 => inet::<16>(transport, addresses),
        3 => {
            let (source, destination) = addresses.split_first_chunk()?;
            Some(Origin::Unix { transport, source, destination: destination.first_chunk()? })
        }
        _ => Some(Origin::Unspecified),
    }
}

fn inet<const N: usize>(transport: Transport, addresses: &[u8]) -> Option<Origin<'_>>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = addresses.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let destination_port = rest.first_chunk::<2>()?;
    Some(Origin::Inet {
        transport,
        source: SocketAddr::new(IpAddr::from(*source), u16::from_be_bytes(*source_port)),
        destination: SocketAddr::new(IpAddr::from(*destination), u16::from_be_bytes(*destination_port)),
    })
}
