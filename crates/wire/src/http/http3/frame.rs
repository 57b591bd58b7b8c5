//! Frames (RFC 9114 §7.1): a type, a length, and so many bytes.

use super::Code;
use super::varint;

/// Types of frames (RFC 9114 §7.2): some content.
pub const DATA: u64 = 0x00;
/// A field section.
pub const HEADERS: u64 = 0x01;
/// A push is given up.
pub const CANCEL_PUSH: u64 = 0x03;
/// What its sender takes.
pub const SETTINGS: u64 = 0x04;
/// The request that a push answers.
pub const PUSH_PROMISE: u64 = 0x05;
/// Its sender is about to leave.
pub const GOAWAY: u64 = 0x07;
/// How many pushes may be promised.
pub const MAX_PUSH_ID: u64 = 0x0d;

/// Octets of the longest head of a frame.
const LONGEST_HEAD: usize = 2 * varint::LONGEST;

/// Whether a type is one of HTTP/2 that has no place in HTTP/3 (RFC 9114 §7.2.8).
pub fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x02 | 0x06 | 0x08 | 0x09)
}

/// Whether a type is defined (RFC 9114 §7.2) or forbidden. All others are for extensions: they mean nothing here, and are skipped (§9).
pub fn is_known(kind: u64) -> bool {
    matches!(kind, DATA | HEADERS | CANCEL_PUSH | SETTINGS | PUSH_PROMISE | GOAWAY | MAX_PUSH_ID) || is_of_http2(kind)
}

/// The beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Its type.
    pub kind: u64,
    /// Bytes behind it.
    pub length: u64,
}

impl FrameHead {
    /// Appends it.
    pub fn write(self, out: &mut Vec<u8>) {
        varint::write(self.kind, out);
        varint::write(self.length, out);
    }

    /// The head at the beginning of these bytes, and how many of them it takes; none if it lacks some.
    fn read(bytes: &[u8]) -> Option<(FrameHead, usize)> {
        let (kind, first) = varint::read(bytes)?;
        let (length, second) = varint::read(bytes.get(first..)?)?;
        Some((FrameHead { kind, length }, first + second))
    }
}

/// Appends a frame.
pub fn write(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    FrameHead { kind, length: payload.len() as u64 }.write(out);
    out.extend_from_slice(payload);
}

/// A part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'i> {
    /// It begins. Without a payload it has ended, too.
    Head(FrameHead),
    /// Some of its payload, never empty.
    Payload(&'i [u8]),
}

/// Takes a stream apart into frames. Holds nothing of them but a head that is not whole.
#[derive(Debug, Default)]
pub struct FrameReader {
    head: [u8; LONGEST_HEAD],
    have: usize,
    rest: u64,
}

impl FrameReader {
    /// The next piece, taken off the front of `input`; none if that has no more, of which nothing is then left.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Option<Piece<'i>> {
        if input.is_empty() {
            return None;
        }
        if self.rest > 0 {
            let most = usize::try_from(self.rest).unwrap_or(usize::MAX).min(input.len());
            let (piece, behind) = input.split_at(most);
            *input = behind;
            self.rest -= piece.len() as u64;
            return Some(Piece::Payload(piece));
        }
        let head = if self.have == 0
            && let Some((head, taken)) = FrameHead::read(input)
        {
            *input = input.get(taken..).unwrap_or_default();
            head
        } else {
            self.gather(input)?
        };
        self.rest = head.length;
        Some(Piece::Head(head))
    }

    /// Takes octets until the head is whole.
    fn gather(&mut self, input: &mut &[u8]) -> Option<FrameHead> {
        while let Some((octet, behind)) = input.split_first() {
            *input = behind;
            // A head that fills its room is whole.
            *self.head.get_mut(self.have)? = *octet;
            self.have += 1;
            if let Some((head, _)) = FrameHead::read(self.head.get(..self.have)?) {
                self.have = 0;
                return Some(head);
            }
        }
        None
    }

    /// Bytes that the frame still lacks.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// In the middle of a frame (RFC 9114 §7.1).
    pub fn finish(&self) -> Result<(), Code> {
        if self.rest == 0 && self.have == 0 { Ok(()) } else { Err(Code::FRAME_ERROR) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    type Frames = Vec<(u64, Vec<u8>)>;

    /// Frames as they are, for any cut.
    fn read(bytes: &[u8], step: usize) -> (Frames, Result<(), Code>) {
        let (mut reader, mut frames) = (FrameReader::default(), Frames::new());
        for mut piece in bytes.chunks(step) {
            while let Some(piece) = reader.next(&mut piece) {
                match piece {
                    Piece::Head(head) => frames.push((head.kind, Vec::new())),
                    Piece::Payload(bytes) => frames.last_mut().unwrap().1.extend_from_slice(bytes),
                }
            }
            assert!(piece.is_empty());
        }
        (frames, reader.finish())
    }

    #[test]
    fn every_cut_gives_the_same_frames() {
        let mut bytes = Vec::new();
        write(HEADERS, b"section", &mut bytes);
        write(DATA, b"", &mut bytes);
        write(0x1f * 1_000_000_000 + 0x21, &[7; 300], &mut bytes);
        // A type and a length that are longer than they have to be.
        bytes.extend_from_slice(&[0x40, 0x00, 0xc0, 0, 0, 0, 0, 0, 0, 2, b'o', b'k']);
        let expected = vec![
            (HEADERS, b"section".to_vec()),
            (DATA, vec![]),
            (0x1f * 1_000_000_000 + 0x21, vec![7; 300]),
            (DATA, b"ok".to_vec()),
        ];
        for step in 1..=bytes.len() {
            assert_eq!(read(&bytes, step), (expected.clone(), Ok(())), "{step}");
        }
    }

    #[test]
    fn a_frame_that_is_cut_is_found_at_the_end() {
        let mut bytes = Vec::new();
        write(HEADERS, b"abc", &mut bytes);
        for cut in 1..bytes.len() {
            assert_eq!(read(&bytes[..cut], 1).1, Err(Code::FRAME_ERROR), "{cut}");
        }
        assert_eq!(read(&bytes, 1).1, Ok(()));
        assert_eq!(read(&[], 1).1, Ok(()));
    }
}
