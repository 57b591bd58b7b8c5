//! Content codings (RFC 9110 §8.4.1): a whole encoded body to pieces of its content, within bounds on size and ratio.
//!
//! Strict where decoders differ: one member, nothing behind it, checksums right. Otherwise an upstream could read another body than the one validated.

use std::io::{BufRead, ErrorKind, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes decoded before the ratio is looked at: small bodies compress as they like.
const RATIO_FREE_BYTES: u64 = 64 * 1024;
/// Largest window that a Zstandard body may ask for (RFC 9659 §3).
const MAX_ZSTD_WINDOW_BYTES: u64 = 8 * 1024 * 1024;
/// What the tables of a decoder may take, about.
const TABLE_BYTES: usize = 64 * 1024;
/// Decoded bytes handed on at once.
const PIECE_BYTES: usize = 16 * 1024;
/// Encoded bytes that are read at once, whatever comes of them: thousands of blocks may hold nothing.
const INPUT_BYTES: usize = 4 * 1024;
/// Blocks of Zstandard, of up to 128 KiB each, that are decoded at once.
const BLOCKS: usize = 8;

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
    Gzip(Box<flate2::bufread::GzDecoder<Rationed<'e>>>),
    Zlib(Box<flate2::bufread::ZlibDecoder<Rationed<'e>>>),
    Deflate(Box<flate2::bufread::DeflateDecoder<Rationed<'e>>>),
    Brotli(Box<Brotli<'e>>),
    Zstandard(Box<FrameDecoder>, &'e [u8]),
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

/// Encoded bytes of which so many are given out at once; then the reader is told to come again.
struct Rationed<'e> {
    encoded: &'e [u8],
    ration: usize,
}

impl Rationed<'_> {
    fn some(&self) -> Result<&[u8], std::io::Error> {
        match self.encoded.get(..self.ration.min(self.encoded.len())) {
            Some([]) | None if !self.encoded.is_empty() => Err(ErrorKind::WouldBlock.into()),
            some => Ok(some.unwrap_or_default()),
        }
    }
}

impl Read for Rationed<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let mut some = self.some()?;
        let len = some.read(to)?;
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Rationed<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.some()
    }

    fn consume(&mut self, len: usize) {
        self.encoded = self.encoded.get(len..).unwrap_or_default();
        self.ration = self.ration.saturating_sub(len);
    }
}

impl<'e> Decoding<'e> {
    /// Begins to decode a body.
    pub(crate) fn new(coding: Coding, encoded: &'e [u8], bounds: Bounds) -> Result<Self, Stopped> {
        let rationed = Rationed { encoded, ration: INPUT_BYTES };
        let decoder = match coding {
            Coding::Identity => return Err(Stopped::Malformed("is not encoded")),
            Coding::Gzip => Decoder::Gzip(Box::new(flate2::bufread::GzDecoder::new(rationed))),
            Coding::Deflate if is_zlib(encoded) => Decoder::Zlib(Box::new(flate2::bufread::ZlibDecoder::new(rationed))),
            Coding::Deflate => Decoder::Deflate(Box::new(flate2::bufread::DeflateDecoder::new(rationed))),
            Coding::Brotli => {
                if encoded.first().is_none_or(|first| is_large_window(*first)) {
                    return Err(Stopped::Malformed("is not Brotli as RFC 7932 has it"));
                }
                let alloc = StandardAlloc::default;
                let state = BrotliState::new(alloc(), alloc(), alloc());
                Decoder::Brotli(Box::new(Brotli { state, encoded, left: 0, at: 0, total: 0, is_done: false }))
            }
            Coding::Zstandard => {
                check_zstd_window(encoded, bounds.bytes)?;
                let (mut decoder, mut rest) = (FrameDecoder::new(), encoded);
                decoder.init(&mut rest).map_err(|_| Stopped::Malformed("is not Zstandard"))?;
                Decoder::Zstandard(Box::new(decoder), rest)
            }
        };
        let piece = vec![0; PIECE_BYTES].into_boxed_slice();
        Ok(Self { decoder, encoded: encoded.len() as u64, decoded: 0, bounds, piece })
    }

    /// The next piece, which is empty where a ration of what is encoded held nothing; none at the end, after which nothing may follow.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Stopped> {
        let len = match &mut self.decoder {
            Decoder::Gzip(decoder) => {
                decoder.get_mut().ration = INPUT_BYTES;
                read(decoder, &mut self.piece)?
            }
            Decoder::Zlib(decoder) => {
                decoder.get_mut().ration = INPUT_BYTES;
                read(decoder, &mut self.piece)?
            }
            Decoder::Deflate(decoder) => {
                decoder.get_mut().ration = INPUT_BYTES;
                read(decoder, &mut self.piece)?
            }
            Decoder::Brotli(decoder) => decoder.read(&mut self.piece)?,
            Decoder::Zstandard(decoder, rest) => read_block(decoder, rest, &mut self.piece)?,
            Decoder::Done => Some(0),
        };
        let Some(len) = len else { return Ok(Some(&[])) };
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
            Decoder::Zstandard(..) => MAX_ZSTD_WINDOW_BYTES,
            _ => 32 * 1024,
        };
        PIECE_BYTES + TABLE_BYTES + usize::try_from(self.decoded.min(window)).unwrap_or(usize::MAX)
    }
}

impl Decoder<'_> {
    fn finish(self) -> Result<(), Stopped> {
        let rest = match self {
            Self::Gzip(decoder) => decoder.into_inner().encoded,
            Self::Zlib(decoder) => decoder.into_inner().encoded,
            Self::Deflate(decoder) => decoder.into_inner().encoded,
            Self::Brotli(decoder) => decoder.encoded.get(decoder.at..).unwrap_or_default(),
            Self::Zstandard(decoder, rest) => {
                let checksum = decoder.get_checksum_from_data();
                if checksum.is_some() && checksum != decoder.get_calculated_checksum() {
                    return Err(Stopped::Malformed("has a wrong checksum"));
                }
                rest
            }
            Self::Done => &[],
        };
        match rest {
            [] => Ok(()),
            _ => Err(Stopped::Malformed("has data behind its end")),
        }
    }
}

/// Decodes into `piece` and says how much that was; none if the ration is used up.
fn read(decoder: &mut impl Read, piece: &mut [u8]) -> Result<Option<usize>, Stopped> {
    loop {
        match decoder.read(piece) {
            Ok(len) => return Ok(Some(len)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Stopped::Malformed("does not decode")),
        }
    }
}

/// As [`read`], some blocks at a time: what the window holds comes out late.
fn read_block(decoder: &mut FrameDecoder, rest: &mut &[u8], piece: &mut [u8]) -> Result<Option<usize>, Stopped> {
    let (len, mut blocks) = (rest.len(), 0);
    while decoder.can_collect() < piece.len()
        && !decoder.is_finished()
        && blocks < BLOCKS
        && len - rest.len() < INPUT_BYTES
    {
        blocks += 1;
        decoder
            .decode_blocks(&mut *rest, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|_| Stopped::Malformed("does not decode"))?;
    }
    match decoder.can_collect() {
        0 if !decoder.is_finished() => Ok(None),
        _ => read(decoder, piece),
    }
}

impl Brotli<'_> {
    fn read(&mut self, piece: &mut [u8]) -> Result<Option<usize>, Stopped> {
        let Self { state, encoded, left, at, total, is_done } = self;
        if !*is_done {
            let (mut room, mut len) = (piece.len(), 0);
            if *left == 0 {
                *left = INPUT_BYTES.min(encoded.len().saturating_sub(*at));
            }
            let is_last = *at + *left >= encoded.len();
            match BrotliDecompressStream(left, at, encoded, &mut room, &mut len, piece, total, state) {
                BrotliResult::ResultSuccess => *is_done = true,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::NeedsMoreInput if !is_last => {}
                BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                    return Err(Stopped::Malformed("does not decode"));
                }
            }
            if len > 0 || !*is_done {
                return Ok(Some(len).filter(|len| *len > 0));
            }
        }
        Ok(Some(0))
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
