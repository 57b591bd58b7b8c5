//! One request on a connection of its own, from an address of loopback, and the head of the response.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use compat::proof::{Listener, Request};
use socket2::{Domain, Socket, Type};
use tls::{Connector, ProtocolVersion, ServerName, Session};
use transport::blocking::Sealed;

/// How long a response may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of a response that are read.
const MOST_BYTES: usize = 1 << 20;

/// A response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Response {
    /// 0 if there was none.
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) fields: Vec<(String, String)>,
}

impl Response {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Sends a request. A connection that ends without a response is one with status 0.
///
/// # Errors
/// This machine does not let the client connect from its address, or nothing comes in time.
pub(super) fn ask(
    address: SocketAddr,
    listener: Listener,
    request: &Request,
    client: Ipv4Addr,
) -> io::Result<Response> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(client, 0).into())?;
    if socket.connect_timeout(&address.into(), PATIENCE).is_err() {
        return Ok(Response::default());
    }
    let mut stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut received = Vec::new();
    let ended = exchange(&mut stream, listener, request, client, &mut received);
    match ended {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(io::Error::other(format!("no end of a response after {} s", PATIENCE.as_secs())))
        }
        // What has come counts, however it ended.
        _ => Ok(response(&received)),
    }
}

fn exchange(
    stream: &mut TcpStream,
    listener: Listener,
    request: &Request,
    client: Ipv4Addr,
    received: &mut Vec<u8>,
) -> io::Result<()> {
    if listener.takes_proxy_header {
        let (own, peer) = (stream.local_addr()?.port(), stream.peer_addr()?);
        stream.write_all(format!("PROXY TCP4 {client} {} {own} {}\r\n", peer.ip(), peer.port()).as_bytes())?;
    }
    let bytes = bytes(request);
    let mut piece = [0; 16 * 1024];
    if listener.is_tls {
        let connector = Connector::new(&[], false, None, &[b"http/1.1".to_vec()], ProtocolVersion::Tls12);
        let host = request.host.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
        let name = if host.is_empty() { "default.test".to_owned() } else { host };
        let session = connector.and_then(|connector| Session::client(&connector, &ServerName::Dns(name)));
        let mut sealed = Sealed::open(session.map_err(io::Error::other)?, stream)?;
        sealed.write(stream, &bytes)?;
        while received.len() < MOST_BYTES {
            match sealed.read(stream, &mut piece)? {
                0 => break,
                length => received.extend(piece.iter().take(length)),
            }
        }
        return Ok(());
    }
    stream.write_all(&bytes)?;
    while received.len() < MOST_BYTES {
        match stream.read(&mut piece)? {
            0 => break,
            length => received.extend(piece.iter().take(length)),
        }
    }
    Ok(())
}

/// A request as it is sent.
fn bytes(request: &Request) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, request.host);
    for (name, value) in &request.fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
        text.push_str("Content-Length: 0\r\n");
    }
    text.push_str("Connection: close\r\n\r\n");
    text.into_bytes()
}

/// The head of a response, those with status 1xx passed.
fn response(received: &[u8]) -> Response {
    let text = String::from_utf8_lossy(received);
    let mut rest: &str = &text;
    loop {
        let (head, behind) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|line| line.get(2..5))
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        if (100..200).contains(&status) {
            rest = behind;
            continue;
        }
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        return Response { status, fields };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        for (text, status, location) in [
            ("", 0, None),
            ("HTTP/1.1 200 OK\r\n\r\nok", 200, None),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n", 301, Some("/x")),
            ("HTTP/1.0 403 Forbidden\r\nLocation:y\r\n\r\n", 403, Some("y")),
            ("nonsense", 0, None),
        ] {
            let found = response(text.as_bytes());
            assert_eq!((found.status, found.field("location")), (status, location), "{text}");
        }
    }
}
