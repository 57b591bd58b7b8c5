//! The opening of a WebSocket (RFC 6455 §4.2.2). What comes after it is sent back as it is: the proxies between pass frames on unread.

use tls::crypto::digest::sha1;

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The 101 for a client that sent this key.
pub(super) fn opening(key: &[u8]) -> Vec<u8> {
    let head =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ";
    [&head[..], &base64(&sha1(&[key, GUID].concat())), b"\r\n\r\n"].concat()
}

/// With padding (RFC 4648 §4).
fn base64(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place) & 0x3f) as usize;
            text.push(if place as usize <= group.len() { ALPHABET[index] } else { b'=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_rfc_6455_is_proven() {
        let response = String::from_utf8_lossy(&opening(b"dGhlIHNhbXBsZSBub25jZQ==")).into_owned();
        assert!(response.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{response}");
    }
}
