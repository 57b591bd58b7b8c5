//! One frame: strict reading without copies, and writing with padding.
//!
//! Both ends use the same type. Which items stand in a frame is the caller's business; that a frame makes sense is not checked here.

use super::{ErrorCode, HEADER_BYTES, MAX_BODY_BYTES, PADDED_BYTES, opcode, tag};
use std::net::IpAddr;

/// Size of an item's tag and length, bytes.
const ITEM_HEADER_BYTES: usize = 3;

/// The only major version there is.
const MAJOR: u8 = 1;

/// What was agreed on for a connection, and so what may stand in its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The protocol as every peer speaks it. Items of the extension are unknown, and so ignored.
    #[default]
    Plain,
    /// With our extension, agreed on by ALPN.
    Extended,
}

/// One message in either direction. Empty, zero or absent items are not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frame<'a> {
    /// What matches a response to its request; chosen by the client.
    pub id: u32,
    /// Opcode of a request or status of a response; 0 where the item is missing.
    pub opcode: u8,
    /// Input or result.
    pub payload: &'a [u8],
    /// Meaning private to the two ends.
    pub extra: &'a [u8],
    /// Subject key identifier. One of another length than 20 bytes is ignored.
    pub ski: Option<&'a [u8; 20]>,
    /// Digest of the public key. One of another length than 32 bytes is ignored.
    pub digest: Option<&'a [u8; 32]>,
    /// The client's address. An IPv4-mapped one is written as IPv4.
    pub client_ip: Option<IpAddr>,
    /// The address that the client connected to.
    pub server_ip: Option<IpAddr>,
    /// The name that the client asked for; unchecked.
    pub server_name: &'a [u8],
    /// An opaque certificate name.
    pub certificate_id: &'a [u8],
    /// Name of a custom function.
    pub function: &'a [u8],
    /// Tracing context.
    pub span: &'a [u8],
    /// JSON about the request; unchecked.
    pub context: &'a [u8],
    /// Compliance region.
    pub region: u8,
    /// Extension: microseconds the response is still of use, as of sending.
    pub deadline_us: Option<u32>,
    /// Extension: above zero is dropped first.
    pub priority: u8,
    /// Extension: microseconds after which to try again.
    pub retry_after_us: Option<u32>,
}

/// Why bytes are not a frame. Nothing behind them can be read either: the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Another major version. To be answered, under this request id, with [`ErrorCode::VERSION`].
    Version {
        /// The request id at the place where version 1 has it.
        id: u32,
    },
    /// An item runs past the body.
    Overrun,
    /// A known tag occurs twice.
    Duplicate {
        /// Which.
        tag: u8,
    },
    /// An item of fixed length has another.
    Length {
        /// Which.
        tag: u8,
    },
}

/// What was to be written does not fit into a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl<'a> Frame<'a> {
    /// A successful answer.
    pub fn response(id: u32, result: &'a [u8]) -> Frame<'a> {
        Frame { id, opcode: opcode::RESPONSE, payload: result, ..Frame::default() }
    }

    /// Reads the first frame of `bytes` and says how long it was; none while it is incomplete.
    ///
    /// Items may stand in any order. Unknown ones are ignored, and so are one or two bytes that are left over behind the last.
    ///
    /// # Errors
    /// [`FrameError`]. A wrong version is noticed with the first byte, everything else when the frame is complete.
    pub fn parse(bytes: &'a [u8], dialect: Dialect) -> Result<Option<(Frame<'a>, usize)>, FrameError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let &[major, _minor, high, low, id @ ..] = header;
        let id = u32::from_be_bytes(id);
        if major != MAJOR {
            return Err(FrameError::Version { id });
        }
        let body_bytes = usize::from(u16::from_be_bytes([high, low]));
        let Some(body) = rest.get(..body_bytes) else { return Ok(None) };
        let mut frame = Frame { id, ..Frame::default() };
        frame.read_items(body, dialect)?;
        Ok(Some((frame, HEADER_BYTES + body_bytes)))
    }

    /// The code of an error response; none for anything else. One without its byte reads as [`ErrorCode::INTERNAL`].
    pub fn error(&self) -> Option<ErrorCode> {
        (self.opcode == opcode::ERROR)
            .then(|| self.payload.first().map_or(ErrorCode::INTERNAL, |code| ErrorCode(*code)))
    }

    fn read_items(&mut self, mut rest: &'a [u8], dialect: Dialect) -> Result<(), FrameError> {
        let mut seen = Seen::default();
        while let Some((&[tag, high, low], after)) = rest.split_first_chunk::<ITEM_HEADER_BYTES>() {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let (value, next) = after.split_at_checked(length).ok_or(FrameError::Overrun)?;
            if is_known(tag, dialect) {
                seen.once(tag)?;
                self.set(tag, value)?;
            }
            rest = next;
        }
        Ok(())
    }

    fn set(&mut self, tag: u8, value: &'a [u8]) -> Result<(), FrameError> {
        let wrong = |_| FrameError::Length { tag };
        match tag {
            tag::DIGEST => self.digest = value.try_into().ok(),
            tag::SERVER_NAME => self.server_name = value,
            tag::CLIENT_IP => self.client_ip = Some(address(value).ok_or(FrameError::Length { tag })?),
            tag::SKI => self.ski = value.try_into().ok(),
            tag::SERVER_IP => self.server_ip = Some(address(value).ok_or(FrameError::Length { tag })?),
            tag::CERTIFICATE_ID => self.certificate_id = value,
            tag::OPCODE => [self.opcode] = *<&[u8; 1]>::try_from(value).map_err(wrong)?,
            tag::PAYLOAD => self.payload = value,
            tag::FUNCTION => self.function = value,
            tag::EXTRA => self.extra = value,
            tag::SPAN => self.span = value,
            tag::CONTEXT => self.context = value,
            tag::REGION => [self.region] = *<&[u8; 1]>::try_from(value).map_err(wrong)?,
            tag::DEADLINE_US => {
                self.deadline_us = Some(u32::from_be_bytes(*<&[u8; 4]>::try_from(value).map_err(wrong)?))
            }
            tag::PRIORITY => [self.priority] = *<&[u8; 1]>::try_from(value).map_err(wrong)?,
            tag::RETRY_AFTER_US => {
                self.retry_after_us = Some(u32::from_be_bytes(*<&[u8; 4]>::try_from(value).map_err(wrong)?));
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends the frame, padded to [`PADDED_BYTES`] if it is shorter. Items of the extension are written if set: only set them where they were
    /// agreed on.
    ///
    /// # Errors
    /// [`TooLong`]; then nothing was appended.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let start = out.len();
        let written = self.try_write_to(out, start);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn try_write_to(&self, out: &mut Vec<u8>, start: usize) -> Result<(), TooLong> {
        out.reserve(PADDED_BYTES);
        out.extend_from_slice(&[MAJOR, 0, 0, 0]);
        out.extend_from_slice(&self.id.to_be_bytes());
        item(out, tag::OPCODE, &[self.opcode])?;
        item(out, tag::PAYLOAD, self.payload)?;
        item(out, tag::EXTRA, self.extra)?;
        item(out, tag::SKI, self.ski.map_or(&[], |ski| ski))?;
        item(out, tag::DIGEST, self.digest.map_or(&[], |digest| digest))?;
        address_item(out, tag::CLIENT_IP, self.client_ip)?;
        address_item(out, tag::SERVER_IP, self.server_ip)?;
        item(out, tag::SERVER_NAME, self.server_name)?;
        item(out, tag::CERTIFICATE_ID, self.certificate_id)?;
        item(out, tag::FUNCTION, self.function)?;
        item(out, tag::SPAN, self.span)?;
        item(out, tag::CONTEXT, self.context)?;
        if self.region != 0 {
            item(out, tag::REGION, &[self.region])?;
        }
        if let Some(deadline_us) = self.deadline_us {
            item(out, tag::DEADLINE_US, &deadline_us.to_be_bytes())?;
        }
        if self.priority != 0 {
            item(out, tag::PRIORITY, &[self.priority])?;
        }
        if let Some(retry_after_us) = self.retry_after_us {
            item(out, tag::RETRY_AFTER_US, &retry_after_us.to_be_bytes())?;
        }
        pad(out, start);
        let body_bytes = out.len() - start - HEADER_BYTES;
        let length = u16::try_from(body_bytes).map_err(|_| TooLong)?.to_be_bytes();
        if let Some(place) = out.get_mut(start + 2..start + 4) {
            place.copy_from_slice(&length);
        }
        Ok(())
    }
}

/// Appends an error response. `retry_after_us` belongs to [`ErrorCode::BUSY`].
pub fn write_error(out: &mut Vec<u8>, id: u32, code: ErrorCode, retry_after_us: Option<u32>) {
    let frame = Frame { id, opcode: opcode::ERROR, payload: &[code.0], retry_after_us, ..Frame::default() };
    // A dozen bytes always fit.
    let _ = frame.write_to(out);
}

/// Which tags have occurred: one bit each.
#[derive(Default)]
struct Seen([u64; 4]);

impl Seen {
    fn once(&mut self, tag: u8) -> Result<(), FrameError> {
        let (word, bit) = (&mut self.0[usize::from(tag >> 6)], 1 << (tag & 63));
        if *word & bit != 0 {
            return Err(FrameError::Duplicate { tag });
        }
        *word |= bit;
        Ok(())
    }
}

fn is_known(tag: u8, dialect: Dialect) -> bool {
    match tag {
        0x01..=0x06 | 0x11..=0x17 | tag::PADDING => true,
        tag::DEADLINE_US | tag::PRIORITY | tag::RETRY_AFTER_US => dialect == Dialect::Extended,
        _ => false,
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

fn address_item(out: &mut Vec<u8>, tag: u8, address: Option<IpAddr>) -> Result<(), TooLong> {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(address)) => item(out, tag, &address.octets()),
        Some(IpAddr::V6(address)) => item(out, tag, &address.octets()),
        None => Ok(()),
    }
}

/// Appends an item, unless it is empty.
fn item(out: &mut Vec<u8>, tag: u8, value: &[u8]) -> Result<(), TooLong> {
    if value.is_empty() {
        return Ok(());
    }
    let length = u16::try_from(value.len()).map_err(|_| TooLong)?;
    if value.len() > MAX_BODY_BYTES - ITEM_HEADER_BYTES {
        return Err(TooLong);
    }
    out.push(tag);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// Fills the frame that begins at `start` up to [`PADDED_BYTES`]. One that is short by less than an item gets an empty item.
fn pad(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    if length >= PADDED_BYTES {
        return;
    }
    let zeros = PADDED_BYTES.saturating_sub(length + ITEM_HEADER_BYTES);
    out.push(tag::PADDING);
    // At most 1,013, so it fits.
    out.extend_from_slice(&(zeros as u16).to_be_bytes());
    out.resize(out.len() + zeros, 0);
}

#[cfg(test)]
mod tests;
