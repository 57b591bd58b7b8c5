//! PADDING taken out of the payload of an Initial packet, which is a kilobyte of it: the library takes it apart byte by byte.
//!
//! Frames stay as they are and in order. What is not understood is left to the library from there on. Ruled by RFC 9000 §12.4 and §19.

use bytes::BytesMut;

/// Takes the PADDING frames out of `payload`. One that held nothing else keeps one of them, since a packet must hold a frame.
pub fn take_out(payload: &mut BytesMut) {
    let (mut read, mut written) = (0, 0);
    while read < payload.len() {
        let rest = &payload[read..];
        let run = rest.iter().take_while(|byte| **byte == PADDING).count();
        if run > 0 {
            read += run;
            continue;
        }
        // An unknown frame may be followed by anything.
        let length = frame(rest).unwrap_or(rest.len());
        payload.copy_within(read..read + length, written);
        read += length;
        written += length;
    }
    payload.truncate(written.max(1));
}

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const ACK_ECN: u8 = 0x03;
const CRYPTO: u8 = 0x06;

/// The length of the frame that `bytes` begin with, if it is one of those that Initial packets usually hold and is whole.
fn frame(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader { bytes, at: 1 };
    match *bytes.first()? {
        PING => {}
        kind @ (ACK | ACK_ECN) => {
            // Largest acknowledged, delay.
            reader.skip_numbers(2)?;
            let ranges = reader.number()?;
            // First range, then a gap and a length each, then three counts.
            reader.skip_numbers(ranges.checked_mul(2)?.checked_add(if kind == ACK_ECN { 4 } else { 1 })?)?;
        }
        CRYPTO => {
            reader.number()?;
            let length = reader.number()?;
            reader.at = reader.at.checked_add(usize::try_from(length).ok()?)?;
        }
        _ => return None,
    }
    Some(reader.at).filter(|at| *at <= bytes.len())
}

/// Variable-length integers (RFC 9000 §16).
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let first = *self.bytes.get(self.at)?;
        let length = 1 << (first >> 6);
        let bytes = self.bytes.get(self.at..self.at + length)?;
        self.at += length;
        let value = bytes.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
        Some(value & (u64::MAX >> (66 - 8 * length as u32).min(63)))
    }

    fn skip_numbers(&mut self, count: u64) -> Option<()> {
        // Each takes a byte at least: a count that lies ends with the bytes.
        for _ in 0..count {
            self.number()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(payload: &[u8], expected: &[u8]) {
        let mut bytes = BytesMut::from(payload);
        take_out(&mut bytes);
        assert_eq!(&bytes[..], expected, "{payload:?}");
    }

    #[test]
    fn frames_stay_and_padding_goes() {
        check(&[0; 1000], &[0]);
        check(&[1, 0, 0, 0], &[1]);
        check(&[0, 0, 1, 0, 1, 0], &[1, 1]);
        // CRYPTO whose own bytes are zeros, of no bytes, with longer integers.
        check(&[6, 0, 3, 0, 0, 0, 0, 0], &[6, 0, 3, 0, 0, 0]);
        check(&[6, 0, 0, 0, 0, 1], &[6, 0, 0, 1]);
        check(&[0, 6, 0x40, 0, 0x40, 2, 0, 9, 0, 0], &[6, 0x40, 0, 0x40, 2, 0, 9]);
        check(&[6, 0x80, 0, 0, 5, 1, 0, 0], &[6, 0x80, 0, 0, 5, 1, 0]);
        // ACK of packet 0 is all zeros but for its type; one with ranges; one with counts.
        check(&[2, 0, 0, 0, 0, 0, 0], &[2, 0, 0, 0, 0]);
        check(&[2, 9, 0, 1, 0, 1, 0, 0], &[2, 9, 0, 1, 0, 1, 0]);
        check(&[3, 9, 0, 0, 0, 0, 0, 0, 0, 0], &[3, 9, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_not_understood_stays_to_its_end() {
        check(&[0, 0x1c, 0, 0, 0, 0], &[0x1c, 0, 0, 0, 0]);
        check(&[1, 0, 0x08, 0, 0], &[1, 0x08, 0, 0]);
        // Cut off in the middle of a frame.
        check(&[6, 0, 9, 0, 0], &[6, 0, 9, 0, 0]);
        check(&[6, 0xc0, 0, 0], &[6, 0xc0, 0, 0]);
        check(
            &[2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            &[2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
        );
        check(
            &[6, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            &[6, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
        );
        check(&[6], &[6]);
        check(&[2], &[2]);
    }
}
