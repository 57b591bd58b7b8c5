//! Version 1 (`proxy-protocol.txt` §2.1): one line of text.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Header, HeaderError, Origin, Tlvs, Transport, Version};

/// What every line begins with; the space is part of it.
pub(super) const SIGNATURE: &[u8] = b"PROXY ";

/// The longest line, bytes, CR LF included (§2.1).
const MAX_LINE_BYTES: usize = 107;

/// Reads a line that begins with the signature; none while its end is not there.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Header<'_>>, HeaderError> {
    // A control octet ends the line, and only CR LF does so rightly.
    let Some(end) = bytes.iter().take(MAX_LINE_BYTES).position(|byte| !matches!(byte, b' '..=b'~')) else {
        return if bytes.len() < MAX_LINE_BYTES { Ok(None) } else { Err(HeaderError::TooLong) };
    };
    let (line, rest) = bytes.split_at_checked(end).ok_or(HeaderError::Line)?;
    match rest {
        [b'\r', b'\n', ..] if end + 2 <= MAX_LINE_BYTES => {}
        [b'\r'] if end + 2 <= MAX_LINE_BYTES => return Ok(None),
        [b'\r', ..] if end + 2 > MAX_LINE_BYTES => return Err(HeaderError::TooLong),
        _ => return Err(HeaderError::Line),
    }
    let line = std::str::from_utf8(line).map_err(|_| HeaderError::Line)?;
    let origin = origin(line).ok_or(HeaderError::Line)?;
    Ok(Some(Header { version: Version::V1, origin, tlvs: Tlvs::default(), len: end + 2 }))
}

fn origin(line: &str) -> Option<Origin<'static>> {
    let mut words = line.split(' ').skip(1);
    let mut word = || words.next();
    let parse_source: fn(&str) -> Option<IpAddr> = match word()? {
        // Whatever stands behind it is to be ignored (§2.1).
        "UNKNOWN" => return Some(Origin::Unspecified),
        "TCP4" => |text| text.parse().map(Ipv4Addr::into).ok(),
        "TCP6" => |text| text.parse().ok(),
        _ => return None,
    };
    // nginx names the family of one address, and writes the other one as it is: it may have come from a header of its own client.
    let (source, destination) = (parse_source(word()?)?, word()?.parse().ok()?);
    let (source_port, destination_port) = (port(word()?)?, port(word()?)?);
    word().is_none().then_some(Origin::Inet {
        transport: Transport::Stream,
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

/// A port in its one canonical form: digits, no sign, no leading zero, at most 65535.
fn port(text: &str) -> Option<u16> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| canonical)
}
