//! Content codings of responses: bytes in, compressed bytes out, piece by piece, with an end to each piece where the client is to see it at once.
//!
//! Owns the libraries' settings, so that the memory of each encoder is known: windows are fixed, whatever a body's length. Decides nothing about who gets what.

use std::io::{self, Write};

use brotli::CompressorWriter;
use config::{CompressionOptions, Encoding};
use flate2::write::GzEncoder;

/// Window of `zstd` and `br`, as a power of two: what comes again within 256 KiB is found.
const WINDOW_LOG: u32 = 18;

/// The same for streams of events, which stay open for hours: 32 KiB, at the lowest level.
const EVENTS_WINDOW_LOG: u32 = 15;

/// What `br` takes before it works on it, bytes.
const BROTLI_INPUT_BYTES: usize = 4 * 1024;

/// An encoder of one body.
pub struct Encoder {
    coding: Coding,
}

enum Coding {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

/// The name of a coding in fields.
pub fn name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Gzip => "gzip",
        Encoding::Br => "br",
        Encoding::Zstd => "zstd",
    }
}

/// Memory that an encoder takes at most, bytes, as measured.
pub fn memory(encoding: Encoding, options: &CompressionOptions, is_of_events: bool) -> usize {
    const KIB: usize = 1024;
    match encoding {
        Encoding::Gzip => 512 * KIB,
        _ if is_of_events => 512 * KIB,
        Encoding::Br => match options.brotli_level {
            ..=1 => 512 * KIB,
            2..=3 => 1536 * KIB,
            _ => 5 * 1024 * KIB,
        },
        Encoding::Zstd if options.zstd_level <= 3 => 2 * 1024 * KIB,
        Encoding::Zstd => 4 * 1024 * KIB,
    }
}

impl Encoder {
    /// An encoder at the start of a body.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(encoding: Encoding, options: &CompressionOptions, is_of_events: bool) -> io::Result<Encoder> {
        let out = Vec::new();
        let window = if is_of_events { EVENTS_WINDOW_LOG } else { WINDOW_LOG };
        let bounded = |level: u32| if is_of_events { 1 } else { level };
        let coding = match encoding {
            Encoding::Gzip => Coding::Gzip(GzEncoder::new(out, flate2::Compression::new(options.gzip_level))),
            Encoding::Br => {
                let writer = CompressorWriter::new(out, BROTLI_INPUT_BYTES, bounded(options.brotli_level), window);
                Coding::Brotli(Box::new(writer))
            }
            Encoding::Zstd => {
                let level = i32::try_from(bounded(options.zstd_level)).unwrap_or_default();
                let mut encoder = zstd::stream::write::Encoder::new(out, level)?;
                encoder.window_log(window)?;
                Coding::Zstd(encoder)
            }
        };
        Ok(Encoder { coding })
    }

    /// Takes a piece of the body.
    ///
    /// # Errors
    /// The library failed, which no input can make it do.
    pub fn feed(&mut self, piece: &[u8]) -> io::Result<()> {
        self.writer().write_all(piece)
    }

    /// Puts out all that was taken, so that a client that has it can read it.
    ///
    /// # Errors
    /// As [`Encoder::feed`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }

    /// What was put out so far and not taken.
    pub fn output(&mut self) -> &mut Vec<u8> {
        match &mut self.coding {
            Coding::Gzip(encoder) => encoder.get_mut(),
            Coding::Brotli(encoder) => encoder.get_mut(),
            Coding::Zstd(encoder) => encoder.get_mut(),
        }
    }

    /// Ends the body; gives the rest of what is put out.
    ///
    /// # Errors
    /// As [`Encoder::feed`].
    pub fn finish(self) -> io::Result<Vec<u8>> {
        match self.coding {
            Coding::Gzip(encoder) => encoder.finish(),
            Coding::Brotli(encoder) => Ok(encoder.into_inner()),
            Coding::Zstd(encoder) => encoder.finish(),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.coding {
            Coding::Gzip(encoder) => encoder,
            Coding::Brotli(encoder) => &mut **encoder,
            Coding::Zstd(encoder) => encoder,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read as _;

    use super::*;

    /// What a client reads of it, at its end or before.
    fn decode(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        let (mut out, mut piece) = (Vec::new(), [0; 4096]);
        let mut reader: Box<dyn io::Read + '_> = match encoding {
            Encoding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
            Encoding::Br => Box::new(brotli::Decompressor::new(bytes, 4096)),
            Encoding::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
        };
        while let Ok(count @ 1..) = reader.read(&mut piece) {
            out.extend_from_slice(&piece[..count]);
        }
        out
    }

    #[test]
    fn what_was_flushed_can_be_read_and_the_whole_is_the_body() {
        let body: Vec<u8> =
            (0..40_000_u32).flat_map(|number| format!("line {}\n", number % 977).into_bytes()).collect();
        for encoding in [Encoding::Gzip, Encoding::Br, Encoding::Zstd] {
            for (level, is_of_events) in [(1, false), (3, true), (5, false)] {
                let options = CompressionOptions {
                    gzip_level: level,
                    brotli_level: level,
                    zstd_level: level,
                    ..CompressionOptions::default()
                };
                let mut encoder = Encoder::new(encoding, &options, is_of_events).unwrap();
                let mut sent = Vec::new();
                for (at, piece) in body.chunks(30_011).enumerate() {
                    encoder.feed(piece).unwrap();
                    if at % 3 == 1 {
                        encoder.flush().unwrap();
                        sent.append(encoder.output());
                        let fed = (at + 1) * 30_011;
                        assert_eq!(decode(encoding, &sent), body[..fed.min(body.len())], "{encoding:?} {level}");
                    }
                }
                sent.append(&mut encoder.finish().unwrap());
                assert_eq!(decode(encoding, &sent), body, "{encoding:?} {level}");
                assert!(sent.len() * 4 < body.len(), "{encoding:?} {level}: {}", sent.len());
            }
        }
    }
}
