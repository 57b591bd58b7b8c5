//! Clients of the edge: one of ours that says how its handshake ended, and `openssl s_client`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tls::{Connector, Error, Handshake, ProtocolVersion, ServerName, Session};

use super::SITE;
use crate::harness::{NO_SYSTEM_CAS, PATIENCE};

/// How a handshake ended, and after how long.
#[derive(Debug)]
pub struct Ended {
    pub end: End,
    pub after: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// It succeeded, and a request was answered; whether it was resumed.
    Answered { resumed: bool },
    /// The server sent this fatal alert.
    Alert(u8),
    /// The connection was closed or reset without a word.
    Cut,
}

/// A client that trusts the CA of a folder and keeps its last session.
pub fn connector(dir: &Path) -> Connector {
    let roots = keystore::trust::certificates(&dir.join("ca.pem")).unwrap();
    Connector::new(&roots, true, None, &[b"http/1.1".to_vec()], ProtocolVersion::Tls12).unwrap()
}

/// A connection whose handshake is done.
pub struct Connected {
    session: Session,
    socket: TcpStream,
    input: Vec<u8>,
}

/// A handshake, full unless the connector has a session, and one request.
pub fn visit(connector: &Connector, address: SocketAddr) -> Ended {
    let started = Instant::now();
    let end = match connect(connector, address) {
        Ok(mut connected) => {
            connected.ask();
            End::Answered { resumed: connected.session.info().resumed }
        }
        Err(end) => end,
    };
    Ended { end, after: started.elapsed() }
}

/// A handshake.
pub fn connect(connector: &Connector, address: SocketAddr) -> Result<Connected, End> {
    let session = Session::client(connector, &ServerName::Dns(SITE.to_owned())).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut connected = Connected { session, socket, input: Vec::new() };
    loop {
        let (mut left, mut output) = (connected.input.as_slice(), Vec::new());
        let step = connected.session.handshake(&mut left, &mut output);
        let taken = connected.input.len() - left.len();
        connected.input.drain(..taken);
        let _ = connected.socket.write_all(&output);
        match step {
            Ok(Handshake::Done) => return Ok(connected),
            Ok(_) => {}
            Err(Error::PeerAlert(alert)) => return Err(End::Alert(alert.0)),
            Err(error) => panic!("{error}"),
        }
        if connected.receive() == 0 {
            return Err(End::Cut);
        }
    }
}

impl Connected {
    /// A request on this connection, which goes on.
    pub fn ask(&mut self) {
        let mut output = Vec::new();
        let request = format!("GET / HTTP/1.1\r\nHost: {SITE}\r\n\r\n");
        self.session.write(request.as_bytes(), &mut output).unwrap();
        self.socket.write_all(&output).unwrap();
        let (mut response, mut plain) = (Vec::new(), [0; 4096]);
        while !response.ends_with(b"\r\n\r\nok") {
            let mut left = self.input.as_slice();
            let read = self.session.read(&mut left, &mut plain, &mut Vec::new()).unwrap();
            let taken = self.input.len() - left.len();
            self.input.drain(..taken);
            match read {
                tls::Read::Plain(count) => response.extend_from_slice(&plain[..count]),
                tls::Read::Closed => panic!("closed"),
                tls::Read::WantInput => assert!(self.receive() > 0, "cut in a response"),
            }
        }
        assert!(response.starts_with(b"HTTP/1.1 200 "));
    }

    fn receive(&mut self) -> usize {
        let mut buffer = [0; 16 * 1024];
        let count = self.socket.read(&mut buffer).unwrap_or(0);
        self.input.extend_from_slice(&buffer[..count]);
        count
    }
}

/// What `openssl s_client` tells of a connection with these arguments (separated by spaces).
pub fn openssl(dir: &Path, address: SocketAddr, arguments: &str) -> String {
    openssl_for(&dir.join("ca.pem"), address, SITE, arguments)
}

/// The same for a site that another CA vouches for.
pub fn openssl_for(ca: &Path, address: SocketAddr, site: &str, arguments: &str) -> String {
    let output = Command::new("timeout")
        .args([&PATIENCE.as_secs().to_string(), "openssl", "s_client", "-connect", &address.to_string()])
        .args(NO_SYSTEM_CAS)
        .args(["-servername", site, "-verify_return_error", "-CAfile"])
        .arg(ca)
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed (Debian package openssl)");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
