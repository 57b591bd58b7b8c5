//! WebSockets over HTTP/2 and HTTP/3 (RFC 8441, RFC 9220): an extended CONNECT becomes the upgrade of HTTP/1.1 that it stands for as soon as it is read, so that routes,
//! policies, contracts and upstreams see one kind of WebSocket.
//!
//! Owns that translation, and the proof that a server has granted the upgrade (RFC 6455 §4.2.2). Does not decide who may open a WebSocket.

use reason::Reason;
use tls::crypto::digest::sha1;
use wire::http::{HeadError, Method, RequestHead, ResponseHead};

use crate::auth::base64url::encode_base64;

/// The protocol, as `:protocol` and Upgrade name it.
const WEBSOCKET: &str = "websocket";

/// What a server puts behind the key that it was sent (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Names of the fields in which both sides show that they speak of the same handshake. HTTP/2 and HTTP/3 have none of them (RFC 8441 §5).
const KEY: &str = "sec-websocket-key";
const ACCEPT: &str = "sec-websocket-accept";

/// Whether a request with this `:protocol` asks for a WebSocket on its stream.
///
/// # Errors
/// It asks for another protocol: 501 (RFC 9220 §3).
pub fn is_asked_for(protocol: Option<&[u8]>) -> Result<bool, HeadError> {
    match protocol {
        None => Ok(false),
        Some(protocol) if protocol == WEBSOCKET.as_bytes() => Ok(true),
        Some(_) => Err(HeadError::of(Reason::ConnectProtocolUnknown)),
    }
}

/// Makes an extended CONNECT, whose target and fields are read, the upgrade that it stands for, with a key of ours.
pub fn make_upgrade(head: &mut RequestHead) {
    head.method = Method::Get;
    head.upgrade = Some(WEBSOCKET.into());
    head.fields.retain(|name, _| !name.eq_ignore_ascii_case(KEY.as_bytes()));
    head.fields.push(b"connection", b"upgrade");
    head.fields.push(b"upgrade", WEBSOCKET.as_bytes());
    // It keeps caches and servers that know no WebSockets from responding by accident, and is no secret (RFC 6455 §10.8).
    let mut key = Vec::with_capacity(24);
    encode_base64(&fastrand::u128(..).to_be_bytes(), &mut key);
    head.fields.push(KEY.as_bytes(), &key);
}

/// Whether the server that grants the upgrade of a request with a key of ours has read that key.
pub fn is_proven(request: &RequestHead, response: &ResponseHead) -> bool {
    let Some(key) = request.fields.get(KEY) else { return false };
    let mut expected = Vec::with_capacity(28);
    encode_base64(&sha1(&[key, GUID].concat()), &mut expected);
    let mut shown = response.fields.get_all(ACCEPT);
    shown.next() == Some(&expected[..]) && shown.next().is_none()
}

/// Whether a field of a response speaks of the handshake of HTTP/1.1 alone.
pub fn is_of_upgrade(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(ACCEPT.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use wire::http::Version;

    #[test]
    fn an_extended_connect_becomes_an_upgrade_with_a_key_of_ours() {
        let mut head = RequestHead { method: Method::Connect, version: Version::H2, ..RequestHead::default() };
        head.fields.push(b"sec-websocket-key", b"of the client");
        head.fields.push(b"sec-websocket-version", b"13");
        make_upgrade(&mut head);
        assert_eq!((head.method.as_str(), head.upgrade.as_deref()), ("GET", Some("websocket")));
        assert!(head.is_extended_connect());
        let keys: Vec<_> = head.fields.get_all("sec-websocket-key").collect();
        assert!(keys.len() == 1 && keys[0].len() == 24 && keys[0].ends_with(b"=="), "{keys:?}");
        assert_eq!(head.fields.get("sec-websocket-version"), Some(&b"13"[..]));
        let mut other = RequestHead::default();
        make_upgrade(&mut other);
        assert_ne!(other.fields.get("sec-websocket-key"), head.fields.get("sec-websocket-key"));
    }

    #[test]
    fn a_server_shows_that_it_has_read_the_key() {
        // The example of RFC 6455 §1.3.
        const RIGHT: &[u8] = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        let mut request = RequestHead::default();
        request.fields.push(b"Sec-WebSocket-Key", b"dGhlIHNhbXBsZSBub25jZQ==");
        for (shown, expected) in [
            (&[RIGHT][..], true),
            (&[], false),
            (&[b"s3pPLMBiTxaQ9kYGzzhZRbK+xOp="], false),
            (&[b"S3PPLMBITXAQ9KYGZZHZRBK+XOO="], false),
            (&[b""], false),
            (&[RIGHT, RIGHT], false),
        ] {
            let mut response = ResponseHead::default();
            shown.iter().for_each(|value| response.fields.push(b"Sec-WebSocket-Accept", value));
            assert_eq!(is_proven(&request, &response), expected, "{shown:?}");
        }
        assert!(!is_proven(&RequestHead::default(), &ResponseHead::default()));
    }
}
