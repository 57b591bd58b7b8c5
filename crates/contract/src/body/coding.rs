//! Content codings (RFC 9110 §8.4.1): a whole encoded body to pieces of its content, within bounds on size and ratio.
//!
//! Strict where decoders differ: one member, nothing behind it, checksums right. Otherwise an upstream could read another body than the one judged.

use std::io::{ErrorKind, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Bytes decoded before the ratio is looked at: small bodies compress as they like.
const RATIO_FREE_BYTES: u64 = 64 * 1024;
/// Largest window that a Zstandard body may ask for (RFC 9659 §3).
const MAX_ZSTD_WINDOW_BYTES: u64 = 8 * 1024 * 1024;
/// What the tables of a decoder may take, about.
const TABLE_BYTES: usize = 64 * 1024;
/// Decoded bytes handed on at once.
const PIECE_BYTES: usize = 16 * 1024;

/// A content coding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstandard,
}

/// Why decoding ended early.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Stopped {
    /// The body is not what the coding says.
    Malformed(&'static str),
    /// More bytes than allowed.
    TooLarge,
    /// More decoded bytes per encoded byte than allowed.
    Ratio,
}

/// Bounds on what comes out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: u64,
    pub(crate) ratio: u64,
}

/// A whole body on its way out of its coding, piece by piece, so that others have their turn between them.
pub(crate) struct Decoding<'e> {
    decoder: Decoder<'e>,
    encoded: u64,
    decoded: u64,
    bounds: Bounds,
    piece: Box<[u8]>,
}

enum Decoder<'e> {
    Gzip(Box<flate2::bufread::GzDecoder<&'e [u8]>>),
    Zlib(Box<flate2::bufread::ZlibDecoder<&'e [u8]>>),
    Deflate(Box<flate2::bufread::DeflateDecoder<&'e [u8]>>),
    Brotli(Box<Brotli<'e>>),
    Zstandard(Box<StreamingDecoder<&'e [u8], FrameDecoder>>),
    Done,
}

struct Brotli<'e> {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    encoded: &'e [u8],
    left: usize,
    at: usize,
    total: usize,
    is_done: bool,
}

impl<'e> Decoding<'e> {
    /// Begins to decode a body.
    pub(crate) fn new(coding: Coding, encoded: &'e [u8], bounds: Bounds) -> Result<Self, Stopped> {
        let decoder = match coding {
            Coding::Identity => return Err(Stopped::Malformed("is not encoded")),
            Coding::Gzip => Decoder::Gzip(Box::new(flate2::bufread::GzDecoder::new(encoded))),
            Coding::Deflate if is_zlib(encoded) => Decoder::Zlib(Box::new(flate2::bufread::ZlibDecoder::new(encoded))),
            Coding::Deflate => Decoder::Deflate(Box::new(flate2::bufread::DeflateDecoder::new(encoded))),
            Coding::Brotli => {
                if encoded.first().is_none_or(|first| is_large_window(*first)) {
                    return Err(Stopped::Malformed("is not Brotli as RFC 7932 has it"));
                }
                let alloc = StandardAlloc::default;
                let state = BrotliState::new(alloc(), alloc(), alloc());
                let left = encoded.len();
                Decoder::Brotli(Box::new(Brotli { state, encoded, left, at: 0, total: 0, is_done: false }))
            }
            Coding::Zstandard => {
                check_zstd_window(encoded, bounds.bytes)?;
                let decoder = StreamingDecoder::new(encoded).map_err(|_| Stopped::Malformed("is not Zstandard"))?;
                Decoder::Zstandard(Box::new(decoder))
            }
        };
        let piece = vec![0; PIECE_BYTES].into_boxed_slice();
        Ok(Self { decoder, encoded: encoded.len() as u64, decoded: 0, bounds, piece })
    }

    /// The next piece; none at the end, after which nothing may follow.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Stopped> {
        let len = match &mut self.decoder {
            Decoder::Gzip(decoder) => read(decoder, &mut self.piece)?,
            Decoder::Zlib(decoder) => read(decoder, &mut self.piece)?,
            Decoder::Deflate(decoder) => read(decoder, &mut self.piece)?,
            Decoder::Brotli(decoder) => decoder.read(&mut self.piece)?,
            Decoder::Zstandard(decoder) => read(decoder, &mut self.piece)?,
            Decoder::Done => 0,
        };
        if len == 0 {
            return std::mem::replace(&mut self.decoder, Decoder::Done).finish().map(|()| None);
        }
        self.decoded += len as u64;
        if self.decoded > self.bounds.bytes {
            return Err(Stopped::TooLarge);
        }
        if self.decoded > RATIO_FREE_BYTES && self.decoded / self.bounds.ratio.max(1) > self.encoded {
            return Err(Stopped::Ratio);
        }
        Ok(Some(self.piece.get(..len).unwrap_or_default()))
    }

    /// How much memory it holds: what was decoded as far as the window goes, and tables.
    pub(crate) fn bytes_held(&self) -> usize {
        let window = match self.decoder {
            Decoder::Brotli(_) => 2 * MAX_ZSTD_WINDOW_BYTES,
            Decoder::Zstandard(_) => MAX_ZSTD_WINDOW_BYTES,
            _ => 32 * 1024,
        };
        PIECE_BYTES + TABLE_BYTES + usize::try_from(self.decoded.min(window)).unwrap_or(usize::MAX)
    }
}

impl Decoder<'_> {
    fn finish(self) -> Result<(), Stopped> {
        let rest = match self {
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zlib(decoder) => decoder.into_inner(),
            Self::Deflate(decoder) => decoder.into_inner(),
            Self::Brotli(decoder) => decoder.encoded.get(decoder.at..).unwrap_or_default(),
            Self::Zstandard(decoder) => {
                let checksum = decoder.decoder.get_checksum_from_data();
                if checksum.is_some() && checksum != decoder.decoder.get_calculated_checksum() {
                    return Err(Stopped::Malformed("has a wrong checksum"));
                }
                decoder.into_inner()
            }
            Self::Done => &[],
        };
        match rest {
            [] => Ok(()),
            _ => Err(Stopped::Malformed("has data behind its end")),
        }
    }
}

fn read(decoder: &mut impl Read, piece: &mut [u8]) -> Result<usize, Stopped> {
    loop {
        match decoder.read(piece) {
            Ok(len) => return Ok(len),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Stopped::Malformed("does not decode")),
        }
    }
}

impl Brotli<'_> {
    fn read(&mut self, piece: &mut [u8]) -> Result<usize, Stopped> {
        let Self { state, encoded, left, at, total, is_done } = self;
        while !*is_done {
            let (mut room, mut len) = (piece.len(), 0);
            match BrotliDecompressStream(left, at, encoded, &mut room, &mut len, piece, total, state) {
                BrotliResult::ResultSuccess => *is_done = true,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                    return Err(Stopped::Malformed("does not decode"));
                }
            }
            if len > 0 {
                return Ok(len);
            }
        }
        Ok(0)
    }
}

/// Whether this starts like zlib (RFC 1950 §2.2): some senders mean a bare deflate stream by `deflate`.
fn is_zlib(encoded: &[u8]) -> bool {
    match encoded {
        [first, second, ..] => first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0,
        _ => false,
    }
}

/// The window code that RFC 7932 §9.1 reserves, which an extension uses for windows of up to a gigabyte.
fn is_large_window(first: u8) -> bool {
    first & 0x7f == 0x11
}

/// Reads the window out of the frame header (RFC 8878 §3.1.1.1).
fn check_zstd_window(encoded: &[u8], max_bytes: u64) -> Result<(), Stopped> {
    const NOT: &str = "is not Zstandard";
    let rest = encoded.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd]).ok_or(Stopped::Malformed(NOT))?;
    let (descriptor, rest) = rest.split_first().ok_or(Stopped::Malformed(NOT))?;
    let is_single_segment = descriptor & 0x20 != 0;
    let dictionary_len = [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied().unwrap_or_default();
    if dictionary_len > 0 {
        return Err(Stopped::Malformed("needs a dictionary"));
    }
    let window = if is_single_segment {
        let len = [1, 2, 4, 8].get(usize::from(descriptor >> 6)).copied().unwrap_or_default();
        let size = rest.get(..len).ok_or(Stopped::Malformed(NOT))?;
        let value = size.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        if len == 2 { value + 256 } else { value }
    } else {
        let window = rest.first().ok_or(Stopped::Malformed(NOT))?;
        let base = 1u64 << (10 + (window >> 3));
        base + (base / 8) * u64::from(window & 7)
    };
    // A single segment is its own window: the decoder makes room for all that it announces.
    match is_single_segment {
        true if window > max_bytes => Err(Stopped::TooLarge),
        false if window > MAX_ZSTD_WINDOW_BYTES => Err(Stopped::Malformed("asks for a window beyond 8 MiB")),
        _ => Ok(()),
    }
}
