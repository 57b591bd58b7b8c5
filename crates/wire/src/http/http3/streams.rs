//! Streams that only the client sends on (RFC 9114 §6.2): what each is for, and that none of those which the connection stands on comes twice.

use super::control::{Control, ControlReader};
use super::{Code, varint};
use crate::http::qpack::{DecoderStream, read_encoder_stream};

/// Types (RFC 9114 §6.2, RFC 9204 §4.2).
pub(super) const CONTROL: u64 = 0x00;
const PUSH: u64 = 0x01;
const QPACK_ENCODER: u64 = 0x02;
const QPACK_DECODER: u64 = 0x03;

/// Which of the streams that a connection stands on its client has opened.
#[derive(Debug, Default)]
pub struct Critical {
    control: bool,
    encoder: bool,
    decoder: bool,
}

/// What is read from a stream that its client opened for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Something on the control stream.
    Control(Control),
    /// The stream is for an extension that is not known here: it is to be refused (RFC 9114 §6.2).
    Unknown,
}

#[derive(Debug)]
enum Kind {
    /// Octets of its type that have come.
    Unread([u8; varint::LONGEST], usize),
    Control(Box<ControlReader>),
    Encoder,
    Decoder(DecoderStream),
    Unknown,
}

/// Reads one stream that its client opened for itself.
#[derive(Debug)]
pub struct ClientStream(Kind);

impl Default for ClientStream {
    fn default() -> ClientStream {
        ClientStream(Kind::Unread([0; varint::LONGEST], 0))
    }
}

impl ClientStream {
    /// What is said next, taken off the front of `input`; none if that has no more.
    ///
    /// # Errors
    /// The code that the connection ends with.
    pub fn next(&mut self, input: &mut &[u8], critical: &mut Critical) -> Result<Option<Said>, Code> {
        if let Kind::Unread(octets, have) = &mut self.0 {
            let Some(kind) = gather(octets, have, input) else { return Ok(None) };
            self.0 = critical.open(kind)?;
            if matches!(self.0, Kind::Unknown) {
                *input = &[];
                return Ok(Some(Said::Unknown));
            }
        }
        match &mut self.0 {
            Kind::Control(reader) => Ok(reader.next(input)?.map(Said::Control)),
            Kind::Encoder => {
                read_encoder_stream(std::mem::take(input)).map_err(|_| Code::QPACK_ENCODER_STREAM_ERROR)?;
                Ok(None)
            }
            Kind::Decoder(stream) => {
                stream.read(std::mem::take(input)).map_err(|_| Code::QPACK_DECODER_STREAM_ERROR)?;
                Ok(None)
            }
            Kind::Unread(..) | Kind::Unknown => {
                *input = &[];
                Ok(None)
            }
        }
    }

    /// The stream has ended, or was reset.
    ///
    /// # Errors
    /// The connection stands on it (RFC 9114 §6.2.1, RFC 9204 §4.2).
    pub fn finish(&self) -> Result<(), Code> {
        match self.0 {
            Kind::Unread(..) | Kind::Unknown => Ok(()),
            Kind::Control(_) | Kind::Encoder | Kind::Decoder(_) => Err(Code::CLOSED_CRITICAL_STREAM),
        }
    }
}

/// Takes octets of a stream's type until it is whole.
fn gather(octets: &mut [u8; varint::LONGEST], have: &mut usize, input: &mut &[u8]) -> Option<u64> {
    while let Some((octet, behind)) = input.split_first() {
        *input = behind;
        *octets.get_mut(*have)? = *octet;
        *have += 1;
        if let Some((kind, _)) = varint::read(octets.get(..*have)?) {
            return Some(kind);
        }
    }
    None
}

impl Critical {
    fn open(&mut self, kind: u64) -> Result<Kind, Code> {
        let (opened, kind) = match kind {
            CONTROL => (&mut self.control, Kind::Control(Box::default())),
            QPACK_ENCODER => (&mut self.encoder, Kind::Encoder),
            QPACK_DECODER => (&mut self.decoder, Kind::Decoder(DecoderStream::default())),
            // Only servers push (RFC 9114 §6.2.2).
            PUSH => return Err(Code::STREAM_CREATION_ERROR),
            _ => return Ok(Kind::Unknown),
        };
        if std::mem::replace(opened, true) { Err(Code::STREAM_CREATION_ERROR) } else { Ok(kind) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Reads whole streams, one after the other: what is said, and the error, whether in what they hold or at the end of the last.
    fn check(streams: &[&[u8]], ends: bool, said: &[Said], error: Option<Code>) {
        for step in [usize::MAX, 1] {
            let (mut critical, mut found, mut failed) = (Critical::default(), Vec::new(), None);
            for bytes in streams {
                let mut stream = ClientStream::default();
                'stream: for mut piece in bytes.chunks(step.min(bytes.len().max(1))) {
                    while !piece.is_empty() {
                        match stream.next(&mut piece, &mut critical) {
                            Ok(said) => found.extend(said),
                            Err(code) => {
                                failed.get_or_insert(code);
                                break 'stream;
                            }
                        }
                    }
                }
                if ends && let Err(code) = stream.finish() {
                    failed.get_or_insert(code);
                }
            }
            assert_eq!((&found[..], failed), (said, error), "{streams:02x?}");
        }
    }

    #[test]
    fn each_critical_stream_comes_once_and_stays() {
        const EMPTY: Said =
            Said::Control(Control::Settings(super::super::control::Settings { max_field_section_size: None }));
        let control: &[u8] = &[0, 4, 0];
        check(&[control, &[2], &[3]], false, &[EMPTY], None);
        check(&[&[0x40, 0, 4, 0]], false, &[EMPTY], None);
        for twice in [&[&[0][..], &[0]], &[&[2], &[2]], &[&[3], &[3]], &[&[2], &[0x40, 2]]] {
            check(twice, false, &[], Some(Code::STREAM_CREATION_ERROR));
        }
        for (closed, error) in [
            (&[0][..], Some(Code::CLOSED_CRITICAL_STREAM)),
            (&[2], Some(Code::CLOSED_CRITICAL_STREAM)),
            (&[3], Some(Code::CLOSED_CRITICAL_STREAM)),
            // Of a stream that is gone before it says what it is for nothing depends.
            (&[], None),
            (&[0x40], None),
            (&[0xc0, 0, 0], None),
        ] {
            check(&[closed], true, &[], error);
        }
        check(&[&[1]], false, &[], Some(Code::STREAM_CREATION_ERROR));
        check(&[&[0x21, 1, 2, 3], &[0x54]], true, &[Said::Unknown], None);
    }

    #[test]
    fn the_streams_of_qpack_say_nothing() {
        for (bytes, error) in [
            (&[2, 0x20, 0x20][..], None),
            (&[2, 0x21], Some(Code::QPACK_ENCODER_STREAM_ERROR)),
            (&[2, 0x3f, 0xe1, 0x1f], Some(Code::QPACK_ENCODER_STREAM_ERROR)),
            (&[2, 0xc0, 0], Some(Code::QPACK_ENCODER_STREAM_ERROR)),
            (&[2, 0x40, 0], Some(Code::QPACK_ENCODER_STREAM_ERROR)),
            (&[2, 0], Some(Code::QPACK_ENCODER_STREAM_ERROR)),
            (&[3, 0x44, 0x40, 0x7f, 0x80, 0x01], None),
            (&[3, 0x80], Some(Code::QPACK_DECODER_STREAM_ERROR)),
            (&[3, 0x00], Some(Code::QPACK_DECODER_STREAM_ERROR)),
            (&[3, 0x01], Some(Code::QPACK_DECODER_STREAM_ERROR)),
            (&[3, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 0x40], None),
            (
                &[3, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
                Some(Code::QPACK_DECODER_STREAM_ERROR),
            ),
        ] {
            check(&[bytes], false, &[], error);
        }
    }
}
