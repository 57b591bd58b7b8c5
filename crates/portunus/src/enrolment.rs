//! The node's side of enrolment: makes a key, has it certified by a key server, and keeps both.
//!
//! One connection per request, on a thread that may wait; never of the data path. The first time the key server is known by the token alone, later by its
//! authorities. The key never leaves this machine.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{ENROLLED_IDENTITY, ENROLLED_SERVER_CA};
use keystore::pem::{self, Label};
use keystore::{files, keys, trust};
use tls::crypto::{Certificate, PrivateKey, SigningKey, digest};
use tls::{Connector, Identity, KeyType, ProtocolVersion, ServerName, Session};
use transport::blocking::Sealed;
use wire::enrolment::{ENROLMENT_ALPN, MAX_RESPONSE_BYTES, PUBLIC_KEY_BYTES, Proof, Request, Response, Token};
use wire::keyless::{Dialect, EXTENSION_ALPN, ErrorCode, Frame, HashKind, Operation, opcode};
use zeroize::Zeroizing;

/// To connect to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For all of one request.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A key server.
#[derive(Debug, Clone)]
pub struct Server {
    /// Host and port, to connect to.
    pub address: (String, u16),
    /// The name that its certificate is to hold; none for the host.
    pub name: Option<String>,
}

impl Server {
    fn server_name(&self) -> ServerName {
        let text = self.name.as_deref().unwrap_or(&self.address.0);
        text.parse::<IpAddr>().map_or_else(|_| ServerName::Dns(text.to_owned()), ServerName::Ip)
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (host, port) = &self.address;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// What an enrolment or a renewal came to.
pub struct Enrolled {
    /// The key and its certificate, PEM.
    identity: Zeroizing<String>,
    /// The authorities of the key server, PEM.
    server_ca: String,
}

impl std::fmt::Debug for Enrolled {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enrolled").finish_non_exhaustive()
    }
}

impl Enrolled {
    /// Puts it into a folder, which is made if it is missing. Whoever reads meanwhile, or after a crash, has what was there before, or this.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn keep(&self, folder: &Path) -> Result<(), String> {
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| failed(folder, error))?;
        // The authorities first: those of before may not vouch for the key server any more, and these do.
        let files = [(ENROLLED_SERVER_CA, self.server_ca.as_bytes()), (ENROLLED_IDENTITY, self.identity.as_bytes())];
        for (name, content) in files {
            let path = folder.join(name);
            files::replace(&path, content).map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }
}

/// Enrols a node at the server that a token names.
///
/// # Errors
/// Why not, with what to do.
pub fn enrol(server: &Server, token: &Token, node: &str) -> Result<Enrolled, String> {
    // Whoever has the key of the token's pin is the key server: no authority is needed for that.
    let connector = connector(&[], None, ENROLMENT_ALPN)?;
    let mut link = Link::open(server, &connector)?;
    let shown = link.tls.session().shown_certificate().and_then(|der| Certificate::from_der(&der).ok());
    if shown.is_none_or(|shown| digest::sha256(shown.public_spki_der()) != token.pin) {
        return Err(format!(
            "{server} is not the key server that this token was made at: somebody may be between, or its certificate was changed since; nothing was sent"
        ));
    }
    let (key, request) = Key::make()?;
    let proof = Proof::Token { secret: &token.secret, name: node };
    let response = link.ask(&request.signed(&key, proof)?)?;
    read(&key, node, &response)
}

/// Renews what `folder` has, at this server.
///
/// # Errors
/// Why not, with what to do.
pub fn renew(server: &Server, folder: &Path) -> Result<Enrolled, String> {
    let Kept { roots, identity, node } = Kept::read(folder)?;
    let connector = connector(&roots, Some(identity), ENROLMENT_ALPN)?;
    let mut link = Link::open(server, &connector)?;
    let (key, request) = Key::make()?;
    let response = link.ask(&request.signed(&key, Proof::Certificate)?)?;
    read(&key, &node, &response)
}

/// Whether the key server takes the certificate of a folder, and is certified by the authorities there: a ping.
///
/// # Errors
/// What is wrong.
pub fn prove(server: &Server, folder: &Path) -> Result<(), String> {
    let Kept { roots, identity, .. } = Kept::read(folder)?;
    let connector = connector(&roots, Some(identity), EXTENSION_ALPN)?;
    let mut link = Link::open(server, &connector)?;
    let mut bytes = Vec::new();
    let ping = Frame { opcode: opcode::PING, ..Frame::default() };
    ping.write_to(&mut bytes).map_err(|_| "a ping is too long".to_owned())?;
    link.send(&bytes)?;
    let is_pong = |bytes: &[u8]| match Frame::parse(bytes, Dialect::Extended) {
        Ok(parsed) => parsed.map(|(frame, _)| frame.opcode == opcode::PONG),
        Err(_) => Some(false),
    };
    if link.receive(MAX_RESPONSE_BYTES, is_pong)? { Ok(()) } else { Err(format!("{server} is no key server")) }
}

/// What a folder has: the authorities of key servers, the certificate with its key, and the name of the node.
struct Kept {
    roots: Vec<Vec<u8>>,
    identity: Arc<Identity>,
    node: String,
}

impl Kept {
    fn read(folder: &Path) -> Result<Kept, String> {
        let path = folder.join(ENROLLED_IDENTITY);
        let roots = trust::certificates(&folder.join(ENROLLED_SERVER_CA))?;
        let identity = trust::pair(&path, &path)?;
        match read_certificate(&path)?.dns_names() {
            [name] => Ok(Kept { roots, identity, node: name.clone() }),
            names => Err(format!("{}: names {names:?}, and not one node; enrol anew", path.display())),
        }
    }
}

/// The certificate that a folder has.
///
/// # Errors
/// It cannot be read.
pub fn certificate(folder: &Path) -> Result<Certificate, String> {
    read_certificate(&folder.join(ENROLLED_IDENTITY))
}

fn read_certificate(path: &Path) -> Result<Certificate, String> {
    let chain = trust::certificates(path)?;
    let leaf = chain.first().ok_or_else(|| format!("{}: no certificate", path.display()))?;
    Certificate::from_der(leaf).map_err(|error| format!("{}: {error}", path.display()))
}

fn connector(roots: &[Vec<u8>], identity: Option<Arc<Identity>>, alpn: &[u8]) -> Result<Connector, String> {
    let verify = !roots.is_empty();
    Connector::new(roots, verify, identity, &[alpn.to_vec()], ProtocolVersion::Tls13).map_err(|error| error.to_string())
}

/// A key that is to be certified.
struct Key {
    pem: Zeroizing<String>,
    private: PrivateKey,
}

/// Its public half.
struct Asking {
    public_key: [u8; PUBLIC_KEY_BYTES],
}

impl Key {
    fn make() -> Result<(Key, Asking), String> {
        let pem = keys::generate(KeyType::Ecdsa)?;
        let blocks = pem::read(pem.as_bytes()).map_err(|error| error.to_string())?;
        let block = blocks.first().ok_or("the library made no key")?;
        let private = PrivateKey::from_der(&block.der).map_err(|error| error.to_string())?;
        // The bits of a key on P-256 are the end of its SubjectPublicKeyInfo.
        let public_key = private.public_spki_der().last_chunk().copied().ok_or("the library made another key")?;
        Ok((Key { pem, private }, Asking { public_key }))
    }
}

impl Asking {
    fn signed(&self, key: &Key, proof: Proof<'_>) -> Result<Zeroizing<Vec<u8>>, String> {
        let request = Request { proof, public_key: &self.public_key, signature: &[] };
        let (mut signature, mut bytes) = (Vec::new(), Zeroizing::new(Vec::new()));
        let signing = SigningKey::new(&key.private).map_err(|error| error.to_string())?;
        let digest = digest::sha256(&Zeroizing::new(request.signed()));
        let signed = signing.perform(Operation::Ecdsa(HashKind::Sha256), &digest, &mut signature);
        signed.map_err(|error| error.to_string())?;
        let written = Request { signature: &signature, ..request }.write_to(&mut bytes);
        written.map_err(|_| {
            "no node can be called so: write a host name in lower case, such as edge-1.example".to_owned()
        })?;
        Ok(bytes)
    }
}

/// What a response has brought, if it is what was asked for.
fn read(key: &Key, node: &str, bytes: &[u8]) -> Result<Enrolled, String> {
    let (der, authorities) = match Response::parse(bytes) {
        Ok(Some((Response::Issued { certificate, authorities }, length))) if length == bytes.len() => {
            (certificate, authorities)
        }
        Ok(Some((Response::Rejected(code), _))) => return Err(explain(code)),
        _ => return Err("what came is no response of a key server".to_owned()),
    };
    let other = |what: &str| format!("the key server sent {what}; nothing was kept");
    let certificate = Certificate::from_der(der).map_err(|_| other("what is no certificate"))?;
    if certificate.public_spki_der() != key.private.public_spki_der() {
        return Err(other("a certificate for another key"));
    }
    if certificate.dns_names() != [node] || !certificate.is_for_clients() {
        return Err(other("a certificate for something else"));
    }
    for authority in &authorities {
        Certificate::from_der(authority).map_err(|_| other("an authority that is no certificate"))?;
    }
    let leaf = pem::write(&Label::Certificate, der);
    let server_ca = authorities.iter().map(|der| pem::write(&Label::Certificate, der).to_string()).collect();
    let identity = Zeroizing::new(format!("{}{}", *key.pem, *leaf));
    Ok(Enrolled { identity, server_ca })
}

fn explain(code: ErrorCode) -> String {
    match code {
        ErrorCode::NOT_ENTITLED => {
            "rejected: the token was used, has ended or is for another name, or the node was revoked; the log of the key server says which".to_owned()
        }
        ErrorCode::BUSY => "the key server is asked by too many at once; come again in a moment".to_owned(),
        ErrorCode::NOT_KEPT | ErrorCode::INTERNAL => {
            "the key server could not issue a certificate, and its log says why; if this was a token, have another one made".to_owned()
        }
        code => format!("the key server answered with error {} ({})", code.0, code.name()),
    }
}

/// A connection with an end in time.
struct Link<'a> {
    server: &'a Server,
    socket: TcpStream,
    tls: Sealed,
    until: Instant,
}

impl<'a> Link<'a> {
    fn open(server: &'a Server, connector: &Connector) -> Result<Link<'a>, String> {
        let failed = |error: io::Error| format!("{server}: {error}");
        let until = Instant::now() + TIMEOUT;
        let (host, port) = &server.address;
        let mut problem = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for address in (host.as_str(), *port).to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Err(error) => problem = error,
                Ok(socket) => {
                    let session = Session::client(connector, &server.server_name());
                    let session = session.map_err(|error| format!("{server}: {error}"))?;
                    let tls = Sealed::open(session, &mut Timed { socket: &socket, until }).map_err(failed)?;
                    return Ok(Link { server, socket, tls, until });
                }
            }
        }
        Err(failed(problem))
    }

    /// Sends a request; the whole response, and nothing else, is to come.
    fn ask(&mut self, request: &[u8]) -> Result<Vec<u8>, String> {
        self.send(request)?;
        self.receive(MAX_RESPONSE_BYTES, |bytes| match Response::parse(bytes) {
            Ok(None) => None,
            _ => Some(bytes.to_vec()),
        })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sent = self.tls.write(&mut Timed { socket: &self.socket, until: self.until }, bytes);
        sent.map_err(|error| format!("{}: {error}", self.server))
    }

    /// Receives until `take` has what it needs.
    fn receive<T>(&mut self, most: usize, take: impl Fn(&[u8]) -> Option<T>) -> Result<T, String> {
        let (mut received, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = self.tls.read(&mut Timed { socket: &self.socket, until: self.until }, &mut piece);
            let count = count.map_err(|error| format!("{}: {error}", self.server))?;
            received.extend_from_slice(piece.get(..count).unwrap_or_default());
            if let Some(taken) = take(&received) {
                return Ok(taken);
            }
            if count == 0 || received.len() > most {
                return Err(format!("{}: the connection ended without a response", self.server));
            }
        }
    }
}

/// A socket whose calls end in time.
struct Timed<'a> {
    socket: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(into)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
