//! A connection of a thread that may wait: to whoever takes logs or traces from us, in the clear or under TLS. Never of the data path.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::ServerAddress;
use keystore::trust;
use tls::{Connector, ProtocolVersion, ServerName, Session};
use transport::blocking::Sealed;

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
        let roots = trust::certificates(ca.unwrap_or(Path::new(trust::SYSTEM_ROOTS))).map_err(io::Error::other)?;
        let connector = Connector::new(&roots, true, None, &[], ProtocolVersion::Tls12).map_err(io::Error::other)?;
        let name = match (name, &address) {
            (Some(name), _) => name.to_owned(),
            (None, ServerAddress::Ip(address)) => address.ip().to_string(),
            (None, ServerAddress::Name(name, _) | ServerAddress::Service(name)) => name.clone(),
            (None, ServerAddress::Unix(_) | ServerAddress::Listed(_)) => "localhost".to_owned(),
        };
        let name = name.parse().map_or_else(|_| ServerName::Dns(name), ServerName::Ip);
        Ok(Dial { address, tls: Some((Arc::new(connector), name)) })
    }

    /// The addresses at the moment.
    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.address {
            ServerAddress::Ip(address) => Ok(vec![*address]),
            ServerAddress::Name(name, port) => Ok((name.as_str(), *port).to_socket_addrs()?.collect()),
            ServerAddress::Service(_) | ServerAddress::Listed(_) | ServerAddress::Unix(_) => {
                Err(ErrorKind::Unsupported.into())
            }
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
        let Some((connector, name)) = &self.tls else { return Ok(Dialed { socket, tls: None }) };
        let session = Session::client(connector, name).map_err(io::Error::other)?;
        let tls = Sealed::open(session, &mut Patient { socket: &socket, go_on: &mut || Instant::now() < until })?;
        Ok(Dialed { socket, tls: Some(Box::new(tls)) })
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Dialed {
    socket: TcpStream,
    tls: Option<Box<Sealed>>,
}

impl Dialed {
    /// Sends all of `plain`, for as long as `go_on` says so whenever nothing moves.
    ///
    /// # Errors
    /// The connection is broken, or it was not to go on.
    pub(super) fn send(&mut self, plain: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let mut socket = Patient { socket: &self.socket, go_on };
        match &mut self.tls {
            Some(sealed) => sealed.write(&mut socket, plain),
            None => socket.write_all(plain),
        }
    }

    /// Appends what comes next; 0 at the end.
    ///
    /// # Errors
    /// The connection is broken, or it was not to go on.
    pub(super) fn receive(&mut self, into: &mut Vec<u8>, go_on: &mut dyn FnMut() -> bool) -> io::Result<usize> {
        let mut socket = Patient { socket: &self.socket, go_on };
        let mut bytes = [0; READ_BYTES];
        let read = match &mut self.tls {
            Some(sealed) => sealed.read(&mut socket, &mut bytes),
            None => socket.read(&mut bytes),
        };
        let length = match read {
            // What comes are responses, whose own end says whether they are whole.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => 0,
            read => read?,
        };
        into.extend_from_slice(&bytes[..length]);
        Ok(length)
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

/// A socket on which a call goes on for as long as `go_on` says so whenever nothing moves; then it is `TimedOut`.
struct Patient<'a> {
    socket: &'a TcpStream,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Patient<'_> {
    fn wait(&mut self, mut act: impl FnMut(&TcpStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match act(self.socket) {
                Err(error) if is_pause(&error) && (self.go_on)() => {}
                Err(error) if is_pause(&error) => return Err(ErrorKind::TimedOut.into()),
                done => return done,
            }
        }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait(|mut socket| socket.read(into))
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|mut socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
