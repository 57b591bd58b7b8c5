//! Content codings (RFC 9110 §8.4.1): a whole encoded body to pieces of its content, within bounds on size and ratio.
//!
//! Strict where decoders differ: one member, nothing behind it, checksums right. Otherwise an upstream could read another body than the one judged.

use std::io::{ErrorKind, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

/// Bytes decoded before the ratio is looked at: small bodies compress as they like.
const RATIO_FREE_BYTES: u64 = 64 * 1024;
/// Largest window that a Zstandard body may ask for (RFC 9659 §3).
const MAX_ZSTD_WINDOW_BYTES: u64 = 8 * 1024 * 1024;
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
pub(crate) enum Stopped<E> {
    /// The body is not what the coding says.
    Malformed(&'static str),
    /// More bytes than allowed.
    TooLarge,
    /// More decoded bytes per encoded byte than allowed.
    Ratio,
    /// The receiver wants no more.
    Receiver(E),
}

/// Bounds on what comes out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes: u64,
    pub(crate) ratio: u64,
}

/// Decodes a whole body and hands its content to `receive`, piece by piece.
pub(crate) fn decode<E>(
    coding: Coding,
    encoded: &[u8],
    bounds: Bounds,
    receive: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Stopped<E>> {
    let mut pump = Pump { encoded: encoded.len() as u64, decoded: 0, bounds, receive };
    match coding {
        Coding::Identity => pump.piece(encoded),
        Coding::Gzip => {
            let mut decoder = flate2::bufread::GzDecoder::new(encoded);
            pump.all(&mut decoder)?;
            at_end(decoder.into_inner())
        }
        Coding::Deflate if is_zlib(encoded) => {
            let mut decoder = flate2::bufread::ZlibDecoder::new(encoded);
            pump.all(&mut decoder)?;
            at_end(decoder.into_inner())
        }
        Coding::Deflate => {
            let mut decoder = flate2::bufread::DeflateDecoder::new(encoded);
            pump.all(&mut decoder)?;
            at_end(decoder.into_inner())
        }
        Coding::Brotli => {
            if encoded.first().is_none_or(|first| is_large_window(*first)) {
                return Err(Stopped::Malformed("is not Brotli as RFC 7932 has it"));
            }
            at_end(brotli(encoded, &mut pump)?)
        }
        Coding::Zstandard => {
            check_zstd_window(encoded, bounds.bytes)?;
            let mut rest = encoded;
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest)
                .map_err(|_| Stopped::Malformed("is not Zstandard"))?;
            pump.all(&mut decoder)?;
            let checksum = decoder.decoder.get_checksum_from_data();
            if checksum.is_some() && checksum != decoder.decoder.get_calculated_checksum() {
                return Err(Stopped::Malformed("has a wrong checksum"));
            }
            at_end(rest)
        }
    }
}

/// What goes to the receiver, counted.
struct Pump<'p, E> {
    encoded: u64,
    decoded: u64,
    bounds: Bounds,
    receive: &'p mut dyn FnMut(&[u8]) -> Result<(), E>,
}

impl<E> Pump<'_, E> {
    fn all(&mut self, decoder: &mut dyn Read) -> Result<(), Stopped<E>> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            match decoder.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(len) => self.piece(piece.get(..len).unwrap_or_default())?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Stopped::Malformed("does not decode")),
            }
        }
    }

    fn piece(&mut self, piece: &[u8]) -> Result<(), Stopped<E>> {
        self.decoded += piece.len() as u64;
        if self.decoded > self.bounds.bytes {
            return Err(Stopped::TooLarge);
        }
        if self.decoded > RATIO_FREE_BYTES && self.decoded / self.bounds.ratio.max(1) > self.encoded {
            return Err(Stopped::Ratio);
        }
        (self.receive)(piece).map_err(Stopped::Receiver)
    }
}

/// Decodes a Brotli stream; gives what follows it.
fn brotli<'e, E>(encoded: &'e [u8], pump: &mut Pump<'_, E>) -> Result<&'e [u8], Stopped<E>> {
    let alloc = StandardAlloc::default;
    let mut state = BrotliState::new(alloc(), alloc(), alloc());
    let (mut left, mut at, mut total) = (encoded.len(), 0, 0);
    let mut piece = [0; PIECE_BYTES];
    loop {
        let (mut room, mut len) = (piece.len(), 0);
        let result = BrotliDecompressStream(
            &mut left, &mut at, encoded, &mut room, &mut len, &mut piece, &mut total, &mut state,
        );
        pump.piece(piece.get(..len).unwrap_or_default())?;
        match result {
            BrotliResult::ResultSuccess => return Ok(encoded.get(at..).unwrap_or_default()),
            BrotliResult::NeedsMoreOutput => {}
            BrotliResult::NeedsMoreInput | BrotliResult::ResultFailure => {
                return Err(Stopped::Malformed("does not decode"));
            }
        }
    }
}

fn at_end<E>(rest: &[u8]) -> Result<(), Stopped<E>> {
    match rest {
        [] => Ok(()),
        _ => Err(Stopped::Malformed("has data behind its end")),
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
fn check_zstd_window<E>(encoded: &[u8], max_bytes: u64) -> Result<(), Stopped<E>> {
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
