//! A blocking TLS client for the black-box tests, over the house's own TLS.
//!
//! Owns one connection. Checks nothing but the server's certificate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use tls::{Connector, Handshake, ProtocolVersion, ServerName, Session};

use super::connect;

/// A TLS connection.
pub struct Secure {
    stream: TcpStream,
    session: Session,
    input: Vec<u8>,
    output: Vec<u8>,
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
        let session = Session::client(&connector, &ServerName::Dns(name.to_owned())).unwrap();
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
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
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
