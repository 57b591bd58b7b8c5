//! Chunked bodies: cutting changes nothing, and what was decoded can be encoded and decoded again.

use wire::http::chunked::{write_chunk_head, write_last_chunk};
use wire::http::fields::{is_field_value, is_token};
use wire::http::{ChunkEvent, ChunkedDecoder, Fields, HeadError};

/// All that a body shows of itself.
#[derive(Debug, Default, PartialEq)]
struct Decoded {
    data: Vec<u8>,
    trailers: Fields,
    /// Bytes used up, if the body ended.
    ended_at: Option<usize>,
    error: Option<HeadError>,
}

fn decode<'a>(mut decoder: ChunkedDecoder, parts: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoded = Decoded::default();
    let mut position = 0;
    'parts: for part in parts {
        let mut at = 0;
        loop {
            match decoder.step(&part[at..]) {
                Ok(ChunkEvent::NeedMore) => break,
                Ok(ChunkEvent::Data { offset, len, consumed }) => {
                    assert!(len > 0 && offset + len <= consumed && consumed <= part.len() - at);
                    decoded.data.extend_from_slice(&part[at + offset..at + offset + len]);
                    at += consumed;
                }
                Ok(ChunkEvent::End { consumed }) => {
                    decoded.ended_at = Some(position + at + consumed);
                    break 'parts;
                }
                Err(error) => {
                    assert_eq!(decoder.step(b"0\r\n\r\n"), Err(error));
                    decoded.error = Some(error);
                    break 'parts;
                }
            }
        }
        position += part.len();
    }
    decoded.trailers = decoder.trailers().clone();
    decoded
}

/// Any bytes as a chunked body.
pub fn chunked(data: &[u8]) {
    for new in [ChunkedDecoder::new, ChunkedDecoder::for_response] {
        let whole = decode(new(), std::iter::once(data));
        assert_eq!(decode(new(), data.chunks(1)), whole, "{}", data.escape_ascii());
        assert_eq!(decode(new(), data.chunks(3)), whole, "{}", data.escape_ascii());
        for cut in super::cuts(data.len()) {
            let (first, second) = data.split_at(cut);
            assert_eq!(decode(new(), [first, second].into_iter()), whole, "cut at {cut}: {}", data.escape_ascii());
        }
        assert!(whole.trailers.iter().all(|(name, value)| is_token(name) && is_field_value(value)));
        if whole.ended_at.is_some() {
            check_round_trip(new(), whole);
        } else if let Some(error) = whole.error {
            assert!(matches!(error.status, 400 | 431), "{error}");
        }
    }
}

fn check_round_trip(decoder: ChunkedDecoder, decoded: Decoded) {
    let mut written = Vec::new();
    for chunk in decoded.data.chunks(7) {
        write_chunk_head(chunk.len(), &mut written);
        written.extend_from_slice(chunk);
        written.extend_from_slice(b"\r\n");
    }
    write_last_chunk(Some(&decoded.trailers), &mut written);
    let again = decode(decoder, std::iter::once(&written[..]));
    assert_eq!(again, Decoded { ended_at: Some(written.len()), ..decoded });
}
