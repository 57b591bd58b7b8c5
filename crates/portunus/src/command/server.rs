//! The running server that a command asks: its admin socket, or its admin listener over TCP, under TLS or not, with a token or a certificate.
//!
//! Owns the connection and the HTTP around a request. What the request says, and what becomes of it, is the commands'.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use keystore::trust;
use serde_json::Value;
use tls::{Connector, ProtocolVersion, ServerName, Session};
use transport::blocking::Sealed;

use crate::admin::place;

/// How long the server may take; its own bound on an admin connection is the same.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Most of a response that is read, bytes.
const MAX_RESPONSE_BYTES: u64 = 16 * 1024 * 1024;

/// Largest file of a token, bytes.
const MAX_TOKEN_BYTES: u64 = 4096;

/// How a server is reached that is not asked over its usual socket.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Reach {
    /// The server's `admin` listener instead of its socket: `127.0.0.1:9901`, `https://edge-1.example:9901`, or a path
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// File with the token of `admin.token`
    #[arg(long, value_name = "FILE", env = "PORTUNUS_ADMIN_TOKEN_FILE", hide_env_values = true)]
    pub token_file: Option<PathBuf>,
    /// PEM file of the authorities that the server's certificate is verified with [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// PEM file of the certificate to show
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub client_certificate: Option<PathBuf>,
    /// PEM file of its private key
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub client_key: Option<PathBuf>,
}

/// A server that can be asked.
#[derive(Debug, Clone)]
pub struct Server {
    place: Place,
    reach: Reach,
}

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A Unix socket.
    Socket(PathBuf),
    /// Host and port, in the clear.
    Plain(String),
    /// The same under TLS.
    Tls(String),
}

/// A connection, in the clear or not.
pub trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

impl Place {
    fn of(text: &str) -> Result<Place, String> {
        let with_port = |rest: &str, port: u16| {
            let authority = rest.strip_suffix('/').unwrap_or(rest);
            if authority.is_empty() || authority.contains(['/', '@', '?', '#']) {
                return Err(format!("{text:?} is no address of a server; write `https://HOST:PORT`"));
            }
            let has_port = authority.rsplit_once(':').is_some_and(|(host, port)| {
                port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
            });
            Ok(if has_port { authority.to_owned() } else { format!("{authority}:{port}") })
        };
        if let Some(rest) = text.strip_prefix("https://") {
            return with_port(rest, 443).map(Place::Tls);
        }
        if let Some(rest) = text.strip_prefix("http://") {
            return with_port(rest, 80).map(Place::Plain);
        }
        let is_address = text.parse::<SocketAddr>().is_ok()
            || text.rsplit_once(':').is_some_and(|(host, port)| {
                !host.contains(['/', ':']) && !host.is_empty() && host != "unix" && port.parse::<u16>().is_ok()
            });
        Ok(if is_address {
            Place::Plain(text.to_owned())
        } else {
            Place::Socket(PathBuf::from(text.strip_prefix("unix:").unwrap_or(text)))
        })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Place::Socket(path) => path.display().fmt(f),
            Place::Plain(authority) => f.write_str(authority),
            Place::Tls(authority) => write!(f, "https://{authority}"),
        }
    }
}

impl Server {
    /// That of `--admin`, else the one at this socket, else where servers usually are.
    ///
    /// # Errors
    /// Nobody can be where the options say; says what to write.
    pub fn of(socket: Option<&Path>, reach: &Reach) -> Result<Server, String> {
        let place = match (&reach.admin, socket) {
            (Some(text), _) => Place::of(text)?,
            (None, Some(socket)) => Place::Socket(socket.to_owned()),
            (None, None) => Place::Socket(place::to_ask()),
        };
        let is_clear = !matches!(place, Place::Tls(_));
        if is_clear && (reach.ca.is_some() || reach.client_certificate.is_some()) {
            return Err("--ca and --client-certificate are for TLS: write `--admin https://HOST:PORT`".to_owned());
        }
        Ok(Server { place, reach: reach.clone() })
    }

    /// What to do about a server that cannot be asked.
    pub fn unreachable(&self, error: &io::Error) -> String {
        let hint = match (&self.place, error.kind()) {
            (Place::Socket(_), io::ErrorKind::PermissionDenied) => {
                "only the server's user and root may connect to its admin socket"
            }
            (Place::Socket(_), _) => {
                "name the socket of a running server with `--control PATH`; `run --control PATH` puts it there"
            }
            (Place::Plain(_), io::ErrorKind::InvalidData) => "if it speaks TLS, write `https://` before the address",
            (Place::Plain(_) | Place::Tls(_), _) => {
                "`--admin` names the address of its `admin` listener, `--ca` who signed its certificate"
            }
        };
        format!("cannot ask the server at {self}: {error}; {hint}")
    }

    /// A request for what follows its head as a stream, in the form of HTTP that needs no chunks.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn stream(&self, path: &str) -> io::Result<impl Read + use<>> {
        let mut stream = self.connect()?;
        let fields = self.fields()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n{fields}\r\n")?;
        stream.flush()?;
        Ok(stream)
    }

    /// Sends a request; status and body of the response.
    ///
    /// # Errors
    /// It cannot be asked, or is no server of ours.
    pub fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, String)> {
        let mut stream = self.connect()?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let (fields, length) = (self.fields()?, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        let mut response = Vec::new();
        stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut response)?;
        let response = String::from_utf8(response).map_err(|_| malformed())?;
        let (head, body) = response.split_once("\r\n\r\n").ok_or_else(malformed)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(malformed)?;
        Ok((status, body.to_owned()))
    }

    /// Fields that say who asks. Host is one that each admin listener has.
    fn fields(&self) -> io::Result<String> {
        let Some(file) = &self.reach.token_file else { return Ok(String::new()) };
        let named = |what: &dyn std::fmt::Display| io::Error::other(format!("{}: {what}", file.display()));
        let token = keystore::files::text(file, MAX_TOKEN_BYTES).map_err(|error| named(&error))?;
        let token = token.trim_end_matches(['\r', '\n']);
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(named(&"not a token: visible ASCII characters in one line"));
        }
        Ok(format!("Authorization: Bearer {token}\r\n"))
    }

    fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let open = |authority: &str| -> io::Result<TcpStream> {
            let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in authority.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, TIMEOUT) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(TIMEOUT))?;
                        return Ok(stream);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        match &self.place {
            Place::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                Ok(Box::new(stream))
            }
            Place::Plain(authority) => Ok(Box::new(open(authority)?)),
            Place::Tls(authority) => {
                let (session, mut stream) = (self.session(authority)?, open(authority)?);
                let sealed = Sealed::open(session, &mut stream)?;
                Ok(Box::new(Secure { stream, sealed }))
            }
        }
    }

    fn session(&self, authority: &str) -> io::Result<Session> {
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = match host.parse() {
            Ok(address) => ServerName::Ip(address),
            Err(_) => ServerName::Dns(host.to_ascii_lowercase()),
        };
        let roots = self.reach.ca.as_deref().unwrap_or(Path::new(trust::SYSTEM_ROOTS));
        let roots = trust::certificates(roots).map_err(io::Error::other)?;
        let identity = match (&self.reach.client_certificate, &self.reach.client_key) {
            (Some(chain), Some(key)) => Some(trust::pair(chain, key).map_err(io::Error::other)?),
            _ => None,
        };
        let connector = Connector::new(&roots, true, identity, &[b"http/1.1".to_vec()], ProtocolVersion::Tls12);
        connector.and_then(|connector| Session::client(&connector, &name)).map_err(io::Error::other)
    }
}

/// It does not speak as a server of ours does.
pub fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not speak as a server of ours does")
}

/// A connection under TLS that blocks.
struct Secure {
    stream: TcpStream,
    sealed: Sealed,
}

impl Read for Secure {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.sealed.read(&mut self.stream, into)
    }
}

impl Write for Secure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sealed.write(&mut self.stream, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_server_is_found_by_what_people_write() {
        let socket = |path: &str| Ok(Place::Socket(path.into()));
        let plain = |authority: &str| Ok(Place::Plain(authority.to_owned()));
        let sealed = |authority: &str| Ok(Place::Tls(authority.to_owned()));
        for (text, expected) in [
            ("/run/portunus/admin.sock", socket("/run/portunus/admin.sock")),
            ("unix:/run/a.sock", socket("/run/a.sock")),
            ("admin.sock", socket("admin.sock")),
            ("127.0.0.1:9901", plain("127.0.0.1:9901")),
            ("[::1]:9901", plain("[::1]:9901")),
            ("edge-1:9901", plain("edge-1:9901")),
            ("http://edge-1", plain("edge-1:80")),
            ("https://edge-1/", sealed("edge-1:443")),
            ("https://edge-1:9901", sealed("edge-1:9901")),
            ("https://[::1]", sealed("[::1]:443")),
            ("https://[::1]:9901", sealed("[::1]:9901")),
        ] {
            assert_eq!(Place::of(text), expected, "{text}");
        }
        for text in ["https://", "https://edge-1/api", "https://user@edge-1"] {
            assert!(Place::of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn authorities_are_for_tls() {
        let reach = Reach { admin: Some("127.0.0.1:9901".to_owned()), ca: Some("ca.pem".into()), ..Reach::default() };
        assert!(Server::of(None, &reach).unwrap_err().contains("https://"));
    }
}
