//! A blocking TLS client and server for the black-box tests, over the house's own TLS.
//!
//! Owns one connection. Checks nothing but the server's certificate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keystore::{Location, Store};
use tls::{
    Acceptor, Alert, Choice, Chooser, Connector, Handshake, Policy, ProtocolVersion, ServerName, Session, TicketKeys,
};

use wire::client_hello::ClientHello;

use super::connect;

/// A TLS connection.
pub struct Secure {
    stream: TcpStream,
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Always the same certificate.
struct Fixed(Arc<tls::Identity>);

impl Chooser for Fixed {
    fn choose(&self, _hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        Ok(Choice {
            identity: Arc::clone(&self.0),
            policy: Policy::Intermediate,
            min_version: ProtocolVersion::Tls12,
            alpn: Arc::new([]),
            client_auth: None,
            context: [7; 32],
        })
    }

    fn asks_for_certificates(&self) -> bool {
        false
    }
}

impl Secure {
    /// Connects to `name` at `address`, trusting `ca.pem` in `dir` alone.
    pub fn connect(address: SocketAddr, dir: &Path, name: &str, alpn: &str) -> Secure {
        Secure::over(connect(address), dir, name, alpn)
    }

    /// As [`Secure::connect`], over a connection that is there already.
    pub fn over(stream: TcpStream, dir: &Path, name: &str, alpn: &str) -> Secure {
        let roots = keystore::trust::certificates(&dir.join("ca.pem")).unwrap();
        let alpn = [alpn.as_bytes().to_vec()];
        let connector = Connector::new(&roots, true, None, &alpn, ProtocolVersion::Tls12).unwrap();
        Secure::begin(stream, Session::client(&connector, &ServerName::Dns(name.to_owned())).unwrap())
    }

    /// The server of a connection that was accepted, with a certificate of `certs` in `dir`.
    pub fn accept(stream: TcpStream, dir: &Path) -> Secure {
        let certificates = Store::load(&Location::PemFolder(dir.join("certs")), None, None).unwrap();
        let acceptor = Acceptor::new(Arc::new(TicketKeys::new(Duration::from_secs(3600)))).unwrap();
        let chooser = Fixed(Arc::clone(&certificates.entries[0].identity));
        Secure::begin(stream, Session::server(&acceptor, Arc::new(chooser)).unwrap())
    }

    fn begin(stream: TcpStream, session: Session) -> Secure {
        let mut secure = Secure { stream, session, input: Vec::new(), output: Vec::new() };
        loop {
            let mut input = &secure.input[..];
            let state = secure.session.handshake(&mut input, &mut secure.output).unwrap();
            secure.input = input.to_vec();
            secure.send_sealed().unwrap();
            if state == Handshake::Done {
                return secure;
            }
            assert!(secure.receive().unwrap() > 0, "the handshake was cut");
        }
    }

    /// Ends our direction: close_notify, then the socket's write side.
    pub fn finish(&mut self) {
        self.session.close(&mut self.output);
        self.send_sealed().unwrap();
        // The other side may have closed behind it already.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Sends `plain` in records of that many bytes, all at once.
    pub fn write_in_records(&mut self, plain: &[u8], bytes: usize) {
        for record in plain.chunks(bytes) {
            self.session.write(record, &mut self.output).unwrap();
        }
        self.send_sealed().unwrap();
    }

    /// The socket under it.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    fn send_sealed(&mut self) -> io::Result<()> {
        self.stream.write_all(&std::mem::take(&mut self.output))
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 32768];
        let count = self.stream.read(&mut buffer)?;
        self.input.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

impl Read for Secure {
    /// An end without close_notify is an error: a cut must not look like an end.
    fn read(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut input = &self.input[..];
            let read = self.session.read(&mut input, plain, &mut self.output).map_err(io::Error::other);
            self.input = input.to_vec();
            match read? {
                tls::Read::Plain(count) => return Ok(count),
                tls::Read::Closed => return Ok(0),
                tls::Read::WantInput => {
                    if self.receive()? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }
}

impl Write for Secure {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.session.write(plain, &mut self.output).map_err(io::Error::other)?;
        self.send_sealed()?;
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
