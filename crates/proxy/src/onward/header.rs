//! The PROXY header that goes before a client's bytes.

use std::net::SocketAddr;

use config::SendProxy;
use telemetry::version_name;
use wire::proxy_protocol::{
    CertificateExtras, Extras, Origin, SslExtras, Transport, UNIX_ADDRESS_BYTES, write_v1, write_v2,
};

use crate::connection::{Conn, ConnTls, ConnectionId};

/// Whose header it is, and what is known of its connection.
pub struct Speaker<'a> {
    /// The connection.
    pub conn: &'a Conn,
    /// Who the client is.
    pub client: Option<SocketAddr>,
    /// The address that the connection has reached.
    pub reached: Option<SocketAddr>,
    /// The host that the client asked for by SNI.
    pub server_name: Option<&'a str>,
    /// What the connection is called.
    pub id: &'a ConnectionId,
}

/// The header for a connection; empty where none is to be sent.
pub fn render(version: SendProxy, speaker: &Speaker<'_>) -> Vec<u8> {
    let conn = speaker.conn;
    let mut out = Vec::new();
    let mut unix = ([0; UNIX_ADDRESS_BYTES], [0; UNIX_ADDRESS_BYTES]);
    match version {
        SendProxy::Off => {}
        SendProxy::V1 => write_v1(&mut out, &origin(speaker, &mut unix)),
        SendProxy::V2 => write_v2(&mut out, &origin(speaker, &mut unix), &Extras::default()),
        SendProxy::V2Tlvs => {
            let certificate_name = conn.tls.as_ref().and_then(common_name);
            let info = conn.tls.as_ref().map(|tls| &tls.info);
            let extras = Extras {
                alpn: info.and_then(|info| info.alpn.as_deref()),
                authority: speaker.server_name.map(str::as_bytes),
                unique_id: Some(speaker.id.as_bytes()),
                ssl: info.map(|info| ssl(info, certificate_name.as_deref())),
                received: conn.reported.as_ref().map(|reported| reported.tlvs()).unwrap_or_default(),
                crc32c: true,
            };
            write_v2(&mut out, &origin(speaker, &mut unix), &extras);
        }
    }
    out
}

/// Between whom the connection is. A client on a Unix socket has no address, but its listener has a path.
fn origin<'a>(speaker: &Speaker<'_>, unix: &'a mut ([u8; UNIX_ADDRESS_BYTES], [u8; UNIX_ADDRESS_BYTES])) -> Origin<'a> {
    let conn = speaker.conn;
    let reported = conn.reported.as_ref().and_then(|reported| reported.destination);
    if let (Some(source), Some(destination)) = (speaker.client, reported.or(speaker.reached)) {
        return Origin::Inet { transport: Transport::Stream, source, destination };
    }
    if conn.reported.is_some() || conn.client.is_some() {
        return Origin::Unspecified;
    }
    let path = conn.listener.bind.iter().find_map(|endpoint| match endpoint {
        net::Endpoint::Unix(path) => Some(path.as_os_str().as_encoded_bytes()),
        net::Endpoint::Tcp(_) => None,
    });
    let path = path.unwrap_or_default();
    if let Some(place) = unix.1.get_mut(..path.len()) {
        place.copy_from_slice(path);
    }
    Origin::Unix { transport: Transport::Stream, source: &unix.0, destination: &unix.1 }
}

fn ssl<'a>(info: &'a tls::Info, common_name: Option<&'a str>) -> SslExtras<'a> {
    SslExtras {
        version: version_name(info.version),
        cipher: info.cipher,
        signature_algorithm: info.signature_algorithm,
        key_algorithm: info.key_algorithm,
        certificate: info.peer.as_ref().map(|_| CertificateExtras { common_name, on_connection: !info.resumed }),
    }
}

/// The common name in the subject of a client's certificate (RFC 4514), unescaped.
fn common_name(tls: &ConnTls) -> Option<String> {
    attribute(&tls.info.peer.as_ref()?.subject, "CN")
}

/// The first value of an attribute in a distinguished name written by RFC 4514.
fn attribute(subject: &str, name: &str) -> Option<String> {
    let mut rest = subject;
    loop {
        let end = unescaped_end(rest);
        let part = rest.get(..end)?;
        if let Some((kind, value)) = part.split_once('=')
            && kind.trim() == name
        {
            return String::from_utf8(unescape(value)).ok();
        }
        rest = rest.get(end + 1..).filter(|rest| !rest.is_empty())?;
    }
}

/// Where the first attribute ends: at a comma or plus sign that is not escaped.
fn unescaped_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' | b'+' => return at,
            _ => {}
        }
    }
    text.len()
}

fn unescape(value: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        (rest, _) = match (byte, hex, behind.split_first()) {
            (b'\\', Some(octet), _) => (behind.get(2..).unwrap_or_default(), out.push(octet)),
            (b'\\', None, Some((&octet, behind))) => (behind, out.push(octet)),
            _ => (behind, out.push(byte)),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn common_names() {
        let check = |subject: &str, expected: Option<&str>| {
            assert_eq!(attribute(subject, "CN").as_deref(), expected, "{subject}");
        };
        check("CN=alice", Some("alice"));
        check("CN=alice,O=Example", Some("alice"));
        check("O=Example\\, Inc.,CN=a b", Some("a b"));
        check("O=CN\\=no,CN=a\\,b\\2C\\C3\\A9", Some("a,b,é"));
        check("OU=x+CN=bob", Some("bob"));
        check("O=Example", None);
        check("", None);
    }
}
