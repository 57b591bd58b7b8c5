//! Two TLS clients: `openssl s_client` for what a stranger sees of a handshake, and one of ours that stays connected while a test does other things.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use tls::{Connector, Handshake, ProtocolVersion, ServerName, Session};

use crate::harness::{NO_SYSTEM_CAS, PATIENCE, connect};

/// What `openssl s_client` told of a connection, standard output and error together.
pub struct Reported(pub String);

impl Reported {
    /// The common name of the certificate that was shown.
    pub fn name(&self) -> Option<&str> {
        let subject = self.0.lines().find(|line| line.starts_with("subject="))?;
        subject.split("CN = ").nth(1)
    }

    /// The fatal alert that ended the handshake.
    pub fn alert(&self) -> Option<u8> {
        self.0.split("SSL alert number ").nth(1)?.lines().next()?.trim().parse().ok()
    }

    /// Status of the HTTP response.
    pub fn status(&self) -> Option<u16> {
        self.0.split("HTTP/1.1 ").nth(1)?.get(..3)?.parse().ok()
    }

    /// Whether the session was resumed; none without a handshake.
    pub fn resumed(&self) -> Option<bool> {
        let line = self.0.lines().find(|line| line.starts_with("Reused, ") || line.starts_with("New, T"))?;
        Some(line.starts_with("Reused, "))
    }

    pub fn contains(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}

/// Connects with `openssl s_client` and these arguments (separated by spaces), sends `input`, and waits for the other side to close.
pub fn openssl(address: SocketAddr, arguments: &str, input: &str) -> Reported {
    let mut child = s_client(address, &format!("-ign_eof {arguments}"));
    // A client that was turned away has closed its input already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    reported(child)
}

/// As [`openssl`], but with `command` typed at it (`R` renegotiates) when it is connected, and nothing sent.
pub fn openssl_command(address: SocketAddr, arguments: &str, command: &str) -> Reported {
    let mut child = s_client(address, arguments);
    let mut input = child.stdin.take().unwrap();
    input.write_all(command.as_bytes()).unwrap();
    // The end of its input would end it.
    let reported = reported(child);
    drop(input);
    reported
}

fn s_client(address: SocketAddr, arguments: &str) -> Child {
    Command::new("timeout")
        .args([&PATIENCE.as_secs().to_string(), "openssl", "s_client", "-connect", &address.to_string()])
        .args(NO_SYSTEM_CAS)
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed (Debian package openssl)")
}

fn reported(child: Child) -> Reported {
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Reported(String::from_utf8_lossy(&text).into_owned())
}

/// A last request for `host`.
pub fn request(host: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

/// A handshake for `name` and one request for it.
pub fn openssl_get(address: SocketAddr, name: &str, arguments: &str) -> Reported {
    openssl(address, &format!("-servername {name} {arguments}"), &request(name))
}

/// A TLS connection that trusts any certificate.
pub struct TlsClient {
    session: Session,
    socket: TcpStream,
    input: Vec<u8>,
}

impl TlsClient {
    /// Connects as `name`, offering this ALPN protocol; fails the test if the handshake does.
    pub fn connect(address: SocketAddr, name: &str, alpn: &str) -> TlsClient {
        let connector = Connector::new(&[], false, None, &[alpn.as_bytes().to_vec()], ProtocolVersion::Tls12).unwrap();
        let session = Session::client(&connector, &ServerName::Dns(name.to_owned())).unwrap();
        let mut client = TlsClient { session, socket: connect(address), input: Vec::new() };
        loop {
            let (mut left, mut output) = (client.input.as_slice(), Vec::new());
            let step = client.session.handshake(&mut left, &mut output).unwrap();
            let taken = client.input.len() - left.len();
            client.input.drain(..taken);
            client.socket.write_all(&output).unwrap();
            if step == Handshake::Done {
                return client;
            }
            assert!(client.receive().unwrap() > 0, "closed during the handshake");
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let count = self.socket.read(&mut buffer)?;
        self.input.extend_from_slice(&buffer[..count]);
        Ok(count)
    }
}

impl Read for TlsClient {
    fn read(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        loop {
            let (mut left, mut output) = (self.input.as_slice(), Vec::new());
            let read = self.session.read(&mut left, plain, &mut output).map_err(io::Error::other)?;
            let taken = self.input.len() - left.len();
            self.input.drain(..taken);
            let _ = self.socket.write_all(&output);
            match read {
                tls::Read::Plain(count) => return Ok(count),
                tls::Read::Closed => return Ok(0),
                tls::Read::WantInput if self.receive()? == 0 => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionReset, "cut without close_notify"));
                }
                tls::Read::WantInput => {}
            }
        }
    }
}

impl Write for TlsClient {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let mut output = Vec::new();
        self.session.write(plain, &mut output).map_err(io::Error::other)?;
        self.socket.write_all(&output)?;
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
