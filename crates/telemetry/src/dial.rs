//! A connection of a thread that may wait: to whoever takes logs or traces from us, in the clear or under TLS. Never of the data path.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::ServerAddress;
use tls::{Connector, Handshake, ProtocolVersion, Read, ServerName, Session};

/// Roots that Debian and its kin keep, trusted where no other file is named.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// To connect, the handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a call may wait before it is asked whether to go on.
const SLICE: Duration = Duration::from_millis(200);

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Where to connect, and how.
#[derive(Debug, Clone)]
pub(super) struct Dial {
    address: ServerAddress,
    tls: Option<(Arc<Connector>, ServerName)>,
}

impl Dial {
    /// Connects in the clear, or, with `tls`, trusts the authorities of a file, or those of the system, and expects the server to have this name or else that of the address.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(super) fn new(address: ServerAddress, tls: Option<(Option<&Path>, Option<&str>)>) -> io::Result<Dial> {
        let Some((ca, name)) = tls else { return Ok(Dial { address, tls: None }) };
        let roots = keystore::trust::certificates(ca.unwrap_or(Path::new(SYSTEM_ROOTS))).map_err(io::Error::other)?;
        let connector = Connector::new(&roots, true, None, &[], ProtocolVersion::Tls12).map_err(io::Error::other)?;
        let name = match (name, &address) {
            (Some(name), _) => name.to_owned(),
            (None, ServerAddress::Ip(address)) => address.ip().to_string(),
            (None, ServerAddress::Name(name, _) | ServerAddress::Service(name)) => name.clone(),
            (None, ServerAddress::Unix(_)) => "localhost".to_owned(),
        };
        let name = name.parse().map_or_else(|_| ServerName::Dns(name), ServerName::Ip);
        Ok(Dial { address, tls: Some((Arc::new(connector), name)) })
    }

    /// The addresses at the moment.
    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.address {
            ServerAddress::Ip(address) => Ok(vec![*address]),
            ServerAddress::Name(name, port) => Ok((name.as_str(), *port).to_socket_addrs()?.collect()),
            ServerAddress::Service(_) | ServerAddress::Unix(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Connects to the first address that can be connected to.
    ///
    /// # Errors
    /// None can.
    pub(super) fn connect(&self) -> io::Result<Dialed> {
        let mut failed = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in self.addresses()? {
            match self.connect_to(address) {
                Ok(dialed) => return Ok(dialed),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn connect_to(&self, address: SocketAddr) -> io::Result<Dialed> {
        let until = Instant::now() + CONNECT_TIMEOUT;
        let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SLICE))?;
        socket.set_write_timeout(Some(SLICE))?;
        let mut dialed = Dialed { socket, tls: None };
        if let Some((connector, name)) = &self.tls {
            let session = Session::client(connector, name).map_err(io::Error::other)?;
            dialed.tls = Some(Box::new(Sealed { session, received: Vec::new() }));
            dialed.handshake(until)?;
        }
        Ok(dialed)
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Dialed {
    socket: TcpStream,
    tls: Option<Box<Sealed>>,
}

#[derive(Debug)]
struct Sealed {
    session: Session,
    /// Ciphertext that the session has not taken yet.
    received: Vec<u8>,
}

impl Dialed {
    fn handshake(&mut self, until: Instant) -> io::Result<()> {
        let go_on = &mut || Instant::now() < until;
        loop {
            let Some(sealed) = &mut self.tls else { return Ok(()) };
            let (mut input, mut output) = (sealed.received.as_slice(), Vec::new());
            let step = sealed.session.handshake(&mut input, &mut output);
            let taken = sealed.received.len() - input.len();
            sealed.received.drain(..taken);
            write_all(&mut self.socket, &output, go_on)?;
            match step.map_err(io::Error::other)? {
                Handshake::Done => return Ok(()),
                Handshake::WantKey => return Err(ErrorKind::Unsupported.into()),
                Handshake::WantInput => {
                    let Some(sealed) = &mut self.tls else { return Ok(()) };
                    if read_more(&mut self.socket, &mut sealed.received, go_on)? == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }

    /// Sends all of `plain`, for as long as `go_on` says so whenever nothing moves.
    ///
    /// # Errors
    /// The connection is broken, or it was not to go on.
    pub(super) fn send(&mut self, plain: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let Some(sealed) = &mut self.tls else { return write_all(&mut self.socket, plain, go_on) };
        let mut output = Vec::new();
        sealed.session.write(plain, &mut output).map_err(io::Error::other)?;
        write_all(&mut self.socket, &output, go_on)
    }

    /// Appends what comes next; 0 at the end.
    ///
    /// # Errors
    /// The connection is broken, or it was not to go on.
    pub(super) fn receive(&mut self, into: &mut Vec<u8>, go_on: &mut dyn FnMut() -> bool) -> io::Result<usize> {
        let Some(sealed) = &mut self.tls else { return read_more(&mut self.socket, into, go_on) };
        loop {
            let (mut plain, mut output) = ([0; READ_BYTES], Vec::new());
            let mut input = sealed.received.as_slice();
            let read = sealed.session.read(&mut input, &mut plain, &mut output);
            let taken = sealed.received.len() - input.len();
            sealed.received.drain(..taken);
            write_all(&mut self.socket, &output, go_on)?;
            match read.map_err(io::Error::other)? {
                Read::Plain(length) => {
                    into.extend_from_slice(&plain[..length]);
                    return Ok(length);
                }
                Read::Closed => return Ok(0),
                Read::WantInput if read_more(&mut self.socket, &mut sealed.received, go_on)? == 0 => return Ok(0),
                Read::WantInput => {}
            }
        }
    }

    /// Whether the peer has ended the connection, as far as is known without waiting. What it sends to somebody who expects nothing is dropped.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.socket.set_nonblocking(true).is_err() {
            return true;
        }
        let received = self.receive(&mut Vec::new(), &mut || false);
        self.socket.set_nonblocking(false).is_err()
            || match received {
                Ok(length) => length == 0,
                Err(error) => error.kind() != ErrorKind::TimedOut,
            }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn write_all(socket: &mut TcpStream, mut bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if is_pause(&error) && go_on() => {}
            Err(error) if is_pause(&error) => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_more(socket: &mut TcpStream, into: &mut Vec<u8>, go_on: &mut dyn FnMut() -> bool) -> io::Result<usize> {
    let mut bytes = [0; READ_BYTES];
    loop {
        match socket.read(&mut bytes) {
            Ok(length) => {
                into.extend_from_slice(&bytes[..length]);
                return Ok(length);
            }
            Err(error) if is_pause(&error) && go_on() => {}
            Err(error) if is_pause(&error) => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
}
