//! Just enough of HTTP/3 responses to know that one is whole and has the status it must have.

use std::io;

use wire::http::http3::frame::{DATA, FrameReader, HEADERS, Piece};
use wire::http::qpack::SectionReader;

use super::broken;

/// Fields of a response, bytes.
const MOST_SECTION_BYTES: usize = 64 * 1024;

/// Reads the response on one stream.
#[derive(Debug)]
pub(super) struct ResponseReader {
    /// The status that it must have.
    status: u16,
    frames: FrameReader,
    kind: u64,
    section: Vec<u8>,
    has_head: bool,
    body_bytes: u64,
}

impl ResponseReader {
    pub(super) fn of_status(status: u16) -> ResponseReader {
        ResponseReader {
            status,
            frames: FrameReader::default(),
            kind: DATA,
            section: Vec::new(),
            has_head: false,
            body_bytes: 0,
        }
    }

    /// Takes bytes of the stream, in order.
    ///
    /// # Errors
    /// Another status, or no HTTP/3.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut input = bytes;
        while let Some(piece) = self.frames.next(&mut input) {
            match piece {
                Piece::Head(head) => self.kind = head.kind,
                Piece::Payload(payload) if self.kind == DATA => self.body_bytes += payload.len() as u64,
                Piece::Payload(payload) if self.kind == HEADERS => {
                    self.section.extend_from_slice(payload);
                    if self.frames.rest() == 0 {
                        self.section()?;
                    }
                }
                Piece::Payload(_) => {}
            }
        }
        Ok(())
    }

    /// The stream has ended; gives the bytes of the body.
    ///
    /// # Errors
    /// In the middle of a frame, or before the head.
    pub(super) fn finish(&self) -> io::Result<u64> {
        let whole = self.frames.finish().is_ok() && self.has_head;
        if whole { Ok(self.body_bytes) } else { Err(broken("a response that is not whole")) }
    }

    /// The status of a head; interim responses and trailers pass.
    fn section(&mut self) -> io::Result<()> {
        let mut status: Option<u16> = None;
        let section = std::mem::take(&mut self.section);
        let note = |name: &[u8], value: &[u8]| {
            if name == b":status" {
                status = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            }
        };
        SectionReader::default()
            .read(&section, MOST_SECTION_BYTES, note)
            .map_err(|error| broken(&format!("fields: {error:?}")))?;
        match status {
            Some(100..=199) => {}
            Some(status) if status == self.status => self.has_head = true,
            None if self.has_head => {}
            _ => return Err(broken(&format!("status {}", status.unwrap_or_default()))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use wire::http::http3::frame;
    use wire::http::qpack;

    fn head(status: u16) -> Vec<u8> {
        let (mut section, mut bytes) = (Vec::new(), Vec::new());
        qpack::begin_section(&mut section);
        qpack::write_status(status, &mut section);
        qpack::write_field(b"server", b"something", &mut section);
        frame::write(HEADERS, &section, &mut bytes);
        bytes
    }

    #[test]
    fn a_response_is_whole_however_it_is_cut() {
        let mut bytes = [head(103), head(200)].concat();
        frame::write(DATA, b"abcde", &mut bytes);
        frame::write(0x21, b"reserved", &mut bytes);
        frame::write(DATA, b"fgh", &mut bytes);
        for step in [1, 7, bytes.len()] {
            let mut reader = ResponseReader::of_status(200);
            bytes.chunks(step).for_each(|part| reader.feed(part).unwrap());
            assert_eq!(reader.finish().unwrap(), 8);
        }
        let mut cut = ResponseReader::of_status(200);
        cut.feed(&bytes[..bytes.len() - 1]).unwrap();
        assert!(cut.finish().is_err());
    }

    #[test]
    fn what_is_not_a_good_response_is_an_error() {
        assert!(ResponseReader::of_status(200).feed(&head(502)).is_err());
        let mut empty = ResponseReader::of_status(200);
        empty.feed(&head(103)).unwrap();
        assert!(empty.finish().is_err());
    }
}
