//! Log services: the journal of systemd, and syslog over UDP, TCP, TLS and Unix sockets.
//!
//! A message is one entry of the journal's own protocol, or one of RFC 5424: a datagram (RFC 5426, Unix), or counted in a stream (RFC 6587 §3.4.1, RFC 5425). What a stream
//! has taken may still be lost if the connection breaks then, since nobody says what has arrived; the messages of the write that failed are sent again.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use config::{LogOutput, ServerAddress, Syslog, SyslogTransport};
use memchr::memmem;

use super::dial::{Dial, Dialed};

/// Where the journal listens.
pub const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";

/// How long a datagram may wait for a receiver on this machine.
const SLICE: Duration = Duration::from_millis(200);

/// Bytes of messages that a stream gets at once.
const BATCH_BYTES: usize = 16 * 1024;

/// A log service, connected when it is needed.
#[derive(Debug)]
pub(super) struct Remote {
    to: Destination,
    /// What ends a message in a chunk.
    separator: &'static [u8],
    connection: Option<Connection>,
}

#[derive(Debug)]
enum Destination {
    Unix(PathBuf),
    Udp(Dial),
    Stream(Dial),
}

#[derive(Debug)]
enum Connection {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Stream(Dialed),
}

/// What was done with the messages at the start of some.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// So many bytes of the chunk and messages went out.
    Out(usize, u64),
    /// One of so many bytes is larger than the service takes.
    TooLarge(usize),
}

impl Remote {
    /// That of a configuration; none if it is no service.
    ///
    /// # Errors
    /// The authorities to trust cannot be read.
    pub(super) fn of(output: &LogOutput) -> io::Result<Option<Remote>> {
        let (to, separator): (_, &[u8]) = match output {
            LogOutput::Stdout | LogOutput::File(_) => return Ok(None),
            LogOutput::Journald => (Destination::Unix(JOURNAL_SOCKET.into()), b"\n\n"),
            LogOutput::Syslog(syslog) => (destination(syslog)?, b"\n"),
        };
        Ok(Some(Remote { to, separator, connection: None }))
    }

    /// Ends the connection, so that the next message makes a new one.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Sends what `bytes` begins with: one message, or several if the service takes them so. `go_on` is asked now and then while nothing moves.
    ///
    /// # Errors
    /// It cannot be reached; nothing of it counts as sent.
    pub(super) fn send(&mut self, bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<Sent> {
        if let Some(Connection::Stream(stream)) = &mut self.connection
            && stream.has_ended()
        {
            self.connection = None;
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.to.connect()?,
        };
        let connection = self.connection.insert(connection);
        let sent = match connection {
            Connection::Stream(stream) => {
                let (batch, length, count) = counted(bytes, self.separator);
                stream.send(&batch, go_on).map(|()| Sent::Out(length, count))
            }
            Connection::Unix(socket) => {
                let (message, length) = first(bytes, self.separator);
                datagram(socket.send(message), length)
            }
            Connection::Udp(socket) => {
                let (message, length) = first(bytes, self.separator);
                datagram(socket.send(message), length)
            }
        };
        // One that waits for room is the same afterwards.
        if sent.as_ref().is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
            self.connection = None;
        }
        sent
    }
}

fn datagram(sent: io::Result<usize>, length: usize) -> io::Result<Sent> {
    match sent {
        Ok(_) => Ok(Sent::Out(length, 1)),
        Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(Sent::TooLarge(length)),
        Err(error) => Err(error),
    }
}

/// The first message, and the bytes that it takes with what ends it. Of the journal's, the last newline belongs to it.
fn first<'a>(bytes: &'a [u8], separator: &[u8]) -> (&'a [u8], usize) {
    let end = memmem::find(bytes, separator).unwrap_or(bytes.len());
    (&bytes[..(end + separator.len() - 1).min(bytes.len())], (end + separator.len()).min(bytes.len()))
}

/// Messages with their lengths before them, about as many as go out at once, at least one; the bytes they take, and their number.
fn counted(bytes: &[u8], separator: &[u8]) -> (Vec<u8>, usize, u64) {
    let (mut batch, mut at, mut count) = (Vec::with_capacity(BATCH_BYTES), 0, 0);
    while at < bytes.len() && (count == 0 || batch.len() < BATCH_BYTES) {
        let (message, length) = first(&bytes[at..], separator);
        batch.extend_from_slice(message.len().to_string().as_bytes());
        batch.push(b' ');
        batch.extend_from_slice(message);
        (at, count) = (at + length, count + 1);
    }
    (batch, at, count)
}

fn destination(syslog: &Syslog) -> io::Result<Destination> {
    let address = syslog.address.clone();
    Ok(match (syslog.transport, address) {
        (_, ServerAddress::Unix(path)) => Destination::Unix(path),
        (SyslogTransport::Udp, address) => Destination::Udp(Dial::new(address, None)?),
        (SyslogTransport::Tls, address) => {
            let tls = (syslog.ca.as_deref(), syslog.server_name.as_deref());
            Destination::Stream(Dial::new(address, Some(tls))?)
        }
        (SyslogTransport::Tcp | SyslogTransport::Unix, address) => Destination::Stream(Dial::new(address, None)?),
    })
}

impl Destination {
    fn connect(&self) -> io::Result<Connection> {
        match self {
            Destination::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(SLICE))?;
                Ok(Connection::Unix(socket))
            }
            Destination::Udp(dial) => {
                let address = dial.addresses()?.into_iter().next();
                let address = address.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the name has no address"))?;
                let from: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(from)?;
                socket.connect(address)?;
                Ok(Connection::Udp(socket))
            }
            Destination::Stream(dial) => Ok(Connection::Stream(dial.connect()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn messages_are_told_apart_and_counted() {
        assert_eq!(first(b"<1>a\n<1>b\n", b"\n"), (&b"<1>a"[..], 5));
        assert_eq!(first(b"A=1\nB=2\n\nA=3\n\n", b"\n\n"), (&b"A=1\nB=2\n"[..], 9));
        assert_eq!(counted(b"<1>a\n<1>bc\n", b"\n"), (b"4 <1>a5 <1>bc".to_vec(), 11, 2));
        let many = [vec![b'x'; 10_000], b"\n".to_vec()].concat().repeat(5);
        let (batch, length, count) = counted(&many, b"\n");
        assert_eq!((batch.len(), length, count), (2 * 10_006, 2 * 10_001, 2));
    }
}
