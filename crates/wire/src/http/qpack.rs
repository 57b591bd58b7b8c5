//! Field sections of HTTP/3 (RFC 9204) between peers without a dynamic table: its capacity is 0 both ways, so that no section depends on another, and
//! nobody waits for anything.
//!
//! Owns reading and writing sections, and what may come on the two streams that would keep tables in step. Does not know what a field means.

mod static_table;

use super::hpack::{BrokenBlock, huffman, integer, write_integer};
use static_table::STATIC;

/// What a field counts beside its text (RFC 9114 §4.2.2).
const FIELD_OVERHEAD: usize = 32;

/// Why a section cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionError {
    /// It is no QPACK, or refers to a table that does not exist: the connection cannot go on (`QPACK_DECOMPRESSION_FAILED`).
    Broken,
    /// Its fields are larger than they may be. Those that are within the bound were given out.
    TooLarge,
}

impl From<BrokenBlock> for SectionError {
    fn from(_: BrokenBlock) -> SectionError {
        SectionError::Broken
    }
}

/// Name and value.
type Field<'f> = (&'f [u8], &'f [u8]);

/// Reads sections. Keeps nothing from one to the next but the memory in which text is decoded.
#[derive(Debug, Default)]
pub struct SectionReader {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl SectionReader {
    /// Gives name and value of each field of a section to `take`, in order. `most_bytes`: how large the section may be (RFC 9114 §4.2.2).
    ///
    /// # Errors
    /// See [`SectionError`].
    pub fn read(
        &mut self,
        section: &[u8],
        most_bytes: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), SectionError> {
        let mut rest = after_prefix(section)?;
        let mut size = 0_usize;
        while let Some(&first) = rest.first() {
            let ((name, value), behind) = self.field(first, rest)?;
            rest = behind;
            size = size.saturating_add(name.len() + value.len() + FIELD_OVERHEAD);
            if size > most_bytes {
                return Err(SectionError::TooLarge);
            }
            take(name, value);
        }
        Ok(())
    }

    /// The field that a line stands for, and what is behind it (RFC 9204 §4.5.2 to §4.5.6). What refers to the dynamic table is broken.
    fn field<'f, 's: 'f>(&'f mut self, first: u8, line: &'s [u8]) -> Result<(Field<'f>, &'s [u8]), BrokenBlock> {
        let SectionReader { name, value } = self;
        match first {
            0xc0.. => {
                let (index, rest) = integer(line, 6)?;
                let (name, value) = STATIC.get(index).ok_or(BrokenBlock)?;
                Ok(((name.as_bytes(), value.as_bytes()), rest))
            }
            0x50..=0x5f | 0x70..=0x7f => {
                let (index, rest) = integer(line, 4)?;
                let (name, _) = STATIC.get(index).ok_or(BrokenBlock)?;
                let (value, rest) = text(rest, 7, value)?;
                Ok(((name.as_bytes(), value), rest))
            }
            0x20..=0x3f => {
                let (name, rest) = text(line, 3, name)?;
                let (value, rest) = text(rest, 7, value)?;
                Ok(((name, value), rest))
            }
            _ => Err(BrokenBlock),
        }
    }
}

/// What is behind the prefix of a section (RFC 9204 §4.5.1): one that needs entries of the dynamic table, or counts from below its beginning, is broken.
fn after_prefix(section: &[u8]) -> Result<&[u8], BrokenBlock> {
    let (required, rest) = integer(section, 8)?;
    let is_negative = rest.first().is_some_and(|first| first & 0x80 != 0);
    let (_, rest) = integer(rest, 7)?;
    if required > 0 || is_negative { Err(BrokenBlock) } else { Ok(rest) }
}

/// A string literal whose length has a prefix of so many bits, below the bit that says whether it is coded (RFC 9204 §4.1.2); and what is behind it.
fn text<'t, 's: 't>(bytes: &'s [u8], prefix: u32, room: &'t mut Vec<u8>) -> Result<(&'t [u8], &'s [u8]), BrokenBlock> {
    let is_coded = bytes.first().is_some_and(|first| first & (1 << prefix) != 0);
    let (len, rest) = integer(bytes, prefix)?;
    let (text, rest) = rest.split_at_checked(len).ok_or(BrokenBlock)?;
    if !is_coded {
        return Ok((text, rest));
    }
    room.clear();
    huffman::decode_into(text, room)?;
    Ok((room, rest))
}

/// Begins a section.
pub fn begin_section(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends `:status`.
pub fn write_status(status: u16, out: &mut Vec<u8>) {
    let hundreds = (status / 100 % 10) as u8;
    let digits = [b'0' + hundreds, b'0' + (status / 10 % 10) as u8, b'0' + (status % 10) as u8];
    write_field(b":status", &digits, out);
}

/// Appends a field; its name in lower case, whatever it came in.
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match static_table::find(name, value) {
        Some((index, true)) => return write_integer(0xc0, 6, index, out),
        Some((index, false)) => write_integer(0x50, 4, index, out),
        None => {
            write_integer(0x20, 3, name.len(), out);
            out.extend(name.iter().map(u8::to_ascii_lowercase));
        }
    }
    write_integer(0, 7, value.len(), out);
    out.extend_from_slice(value);
}

/// A stream of QPACK holds what cannot be true of a table without capacity (`QPACK_ENCODER_STREAM_ERROR`, `QPACK_DECODER_STREAM_ERROR`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenStream;

/// Reads more of the peer's encoder stream (RFC 9204 §4.3): all that a table without capacity can be told is that it has none.
///
/// # Errors
/// It holds anything else.
pub fn read_encoder_stream(bytes: &[u8]) -> Result<(), BrokenStream> {
    const CAPACITY_OF_0: u8 = 0x20;
    if bytes.iter().all(|byte| *byte == CAPACITY_OF_0) { Ok(()) } else { Err(BrokenStream) }
}

/// The peer's decoder stream (RFC 9204 §4.4). Our sections refer to no table, so that nothing is there to be acknowledged; a peer may still say that it
/// has given up a stream.
#[derive(Debug, Default)]
pub struct DecoderStream {
    /// Octets of an unfinished integer, with its first.
    octets: u8,
}

impl DecoderStream {
    /// Octets of the longest integer that there is: six bits, and seven for each that follows, up to 62 (RFC 9204 §4.1.1).
    const MOST_OCTETS: u8 = 9;

    /// Reads more of it.
    ///
    /// # Errors
    /// It acknowledges something, or holds an integer that is too long.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), BrokenStream> {
        for byte in bytes {
            let goes_on = match self.octets {
                0 if byte & 0xc0 == 0x40 => byte & 0x3f == 0x3f,
                0 | Self::MOST_OCTETS.. => return Err(BrokenStream),
                _ => byte & 0x80 != 0,
            };
            self.octets = if goes_on { self.octets + 1 } else { 0 };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
