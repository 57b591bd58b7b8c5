//! The chunked transfer coding (RFC 9112 §7.1): strict decoder, and the framing for writing.

use super::fields::Fields;
use super::head::HeadError;

/// What the decoder found next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkEvent {
    /// Feed more bytes; everything given was consumed.
    NeedMore,
    /// Body bytes: this many, starting at `offset` in the input given.
    Data {
        /// Where the data starts.
        offset: usize,
        /// How many bytes.
        len: usize,
        /// How many bytes of the input are used up, the data included.
        consumed: usize,
    },
    /// The last chunk and the trailer section ended after `consumed` bytes.
    End {
        /// How many bytes of the input are used up.
        consumed: usize,
    },
}

/// Decodes one chunked body. Any split of the input gives the same result.
///
/// Refuses bare LF, chunk sizes over 16 hexadecimal digits or with signs, spaces or underscores, control bytes in extensions, more than
/// 4 KiB of extensions in one body and trailers over the given limits. Extensions are dropped.
#[derive(Debug, Default)]
pub struct ChunkedDecoder {
    // The helper replaces this by the real state.
    _state: (),
}

impl ChunkedDecoder {
    /// A decoder at the first chunk.
    pub fn new() -> ChunkedDecoder {
        ChunkedDecoder::default()
    }

    /// Takes the next step over `input`.
    ///
    /// # Errors
    /// 400 with a code; the connection must close.
    pub fn step(&mut self, input: &[u8]) -> Result<ChunkEvent, HeadError> {
        let _ = input;
        todo!()
    }

    /// Trailer fields, complete after [`ChunkEvent::End`]. Framing, routing and authentication fields are refused there
    /// (RFC 9110 §6.5.1).
    pub fn trailers(&self) -> &Fields {
        todo!()
    }
}

/// The line that opens a chunk of `len` bytes (`1F4\r\n`), appended to `out`.
pub fn write_chunk_head(len: usize, out: &mut Vec<u8>) {
    let _ = (len, out);
    todo!()
}
