//! The ClientHello at the start of a TLS stream, found without opening it (RFC 8446 §5.1).
//!
//! Owns the record layer as far as the first message needs it: one handshake message, cut into any number of records. What is in it is
//! `client_hello`'s business.

use std::borrow::Cow;

/// Longest ClientHello that is looked at, bytes; with post-quantum key shares they have about 1,800.
pub const MAX_HELLO_BYTES: usize = 16 * 1024;

/// Longest record, bytes without its header (RFC 8446 §5.1).
const MAX_RECORD_BYTES: usize = 16 * 1024;

const RECORD_HEADER_BYTES: usize = 5;
const MESSAGE_HEADER_BYTES: usize = 4;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// Why a stream does not begin with a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotHello {
    /// It is not TLS, or begins with something else than a handshake.
    NotTls,
    /// A record or message of a length that cannot be.
    Malformed,
    /// The message is longer than [`MAX_HELLO_BYTES`].
    TooLong,
}

/// The body of the ClientHello that `bytes` begin with (without its four-byte header); none while it is not whole. What follows in later
/// records is not looked at.
///
/// # Errors
/// As soon as the bytes can not be the beginning of a ClientHello; never panics.
pub fn client_hello(bytes: &[u8]) -> Result<Option<Cow<'_, [u8]>>, NotHello> {
    let mut rest = bytes;
    let mut message: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    loop {
        let Some((content, behind)) = record(rest)? else { return Ok(None) };
        // Nearly always the first record holds it all, and nothing is copied.
        if message.is_empty() {
            message = Cow::Borrowed(content.bytes);
        } else {
            message.to_mut().extend_from_slice(content.bytes);
        }
        if let Some(&kind) = message.first()
            && kind != CLIENT_HELLO
        {
            return Err(NotHello::NotTls);
        }
        if let Some(&[_, high, middle, low]) = message.first_chunk::<MESSAGE_HEADER_BYTES>() {
            let body_bytes = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if body_bytes > MAX_HELLO_BYTES {
                return Err(NotHello::TooLong);
            }
            match message.len().cmp(&(MESSAGE_HEADER_BYTES + body_bytes)) {
                std::cmp::Ordering::Less => {}
                // Nothing may stand behind a ClientHello in its record: keys change there (RFC 8446 §5.1).
                std::cmp::Ordering::Greater => return Err(NotHello::Malformed),
                std::cmp::Ordering::Equal if content.is_whole => return Ok(Some(body(message))),
                std::cmp::Ordering::Equal => return Err(NotHello::Malformed),
            }
        }
        if !content.is_whole {
            return Ok(None);
        }
        rest = behind;
    }
}

fn body(message: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match message {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(MESSAGE_HEADER_BYTES..).unwrap_or_default()),
        Cow::Owned(mut bytes) => {
            bytes.drain(..MESSAGE_HEADER_BYTES);
            Cow::Owned(bytes)
        }
    }
}

/// What is there of a record's content.
struct Content<'a> {
    bytes: &'a [u8],
    is_whole: bool,
}

/// The first record, as far as it is there, and what is behind it; none while its header is not whole.
fn record(bytes: &[u8]) -> Result<Option<(Content<'_>, &[u8])>, NotHello> {
    // Checked byte by byte, so that what is not TLS is known by its first one.
    if bytes.first().is_some_and(|kind| *kind != HANDSHAKE) || bytes.get(1).is_some_and(|major| *major != 3) {
        return Err(NotHello::NotTls);
    }
    let Some((&[_, _, _, high, low], rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([high, low]));
    // Handshake records without content are not allowed (RFC 8446 §5.1).
    if len == 0 || len > MAX_RECORD_BYTES {
        return Err(NotHello::Malformed);
    }
    Ok(Some(match rest.split_at_checked(len) {
        Some((content, behind)) => (Content { bytes: content, is_whole: true }, behind),
        None => (Content { bytes: rest, is_whole: false }, &[]),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO][..], &length[1..], body].concat()
    }

    /// A message in records of at most `size` bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |content: &[u8]| {
            [&[HANDSHAKE, 3, 1][..], &u16::try_from(content.len()).unwrap().to_be_bytes(), content].concat()
        };
        message.chunks(size).flat_map(record).collect()
    }

    #[test]
    fn a_message_is_found_however_it_is_cut() {
        let body: Vec<u8> = (0..=255).cycle().take(700).collect();
        for size in [1, 3, 4, 5, 100, 703, 704, 16_384] {
            let bytes = records(&message(&body), size);
            assert_eq!(client_hello(&bytes).unwrap().unwrap(), &body[..], "records of {size}");
            for len in 0..bytes.len() {
                assert_eq!(client_hello(&bytes[..len]), Ok(None), "records of {size}, the first {len} bytes");
            }
            let longer = [&bytes[..], b"\x14\x03\x03\0\x01\x01"].concat();
            assert_eq!(client_hello(&longer).unwrap().unwrap(), &body[..]);
        }
    }

    #[test]
    fn what_is_no_hello() {
        let table: [(&[u8], NotHello); 9] = [
            (b"GET / HTTP/1.1\r\n", NotHello::NotTls),
            (b"\x80\x2e\x01\x03\x01", NotHello::NotTls),
            (b"\x15\x03\x01\0\x02\x02\x28", NotHello::NotTls),
            (b"\x16\x02\0", NotHello::NotTls),
            (b"\x16\x03\x01\0\x04\x02\0\0\0", NotHello::NotTls),
            (b"\x16\x03\x01\0\0", NotHello::Malformed),
            (b"\x16\x03\x01\x40\x01", NotHello::Malformed),
            (b"\x16\x03\x01\0\x06\x01\0\0\x01ab", NotHello::Malformed),
            (b"\x16\x03\x01\0\x04\x01\0\x40\x01", NotHello::TooLong),
        ];
        for (bytes, error) in table {
            assert_eq!(client_hello(bytes), Err(error), "{bytes:02x?}");
        }
    }
}
