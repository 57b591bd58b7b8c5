//! TLS of the admin listener: what its files hold, as a value that tells whether they have changed, and a connection under it.
//!
//! Runs on the admin side's own runtime, so it is made of tokio's traits and not of the data path's transport; the library's session is the same.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use config::AdminTls;
use tls::crypto::digest;
use tls::{
    Acceptor, Alert, Choice, Chooser, ClientAuth, Handshake, Policy, ProtocolVersion, Read, Session, TicketKeys,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use wire::client_hello::ClientHello;

/// How long the key of tickets is used.
const TICKET_ROTATION: Duration = Duration::from_secs(12 * 3600);

/// Bytes that are read from the socket, and plaintext that is sealed, at once.
const PIECE_BYTES: usize = 16 * 1024;

/// Largest file of a certificate, a key or authorities, bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What handshakes are done under, with a digest of the files that it came from.
#[derive(Clone)]
pub(super) struct Front {
    choice: Choice,
    acceptor: Arc<Acceptor>,
    /// Alternative names of which a client's certificate must have one; empty for any.
    allowed: Arc<[String]>,
    files: [u8; 32],
}

impl PartialEq for Front {
    fn eq(&self, other: &Front) -> bool {
        self.files == other.files && self.allowed == other.allowed
    }
}

impl Eq for Front {}

impl Front {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be used; a text for the operator.
    pub(super) fn read(config: &AdminTls) -> Result<Front, String> {
        let identity = keystore::trust::pair(&config.certificate, &config.private_key)?;
        let rule = config.client_certificate.as_ref();
        let client_auth = rule.map(|rule| {
            let roots = keystore::trust::certificates(&rule.ca)?;
            let lists = rule.crl.as_ref().map(|path| keystore::trust::revocation_lists(path)).transpose()?;
            let made = ClientAuth::new(&roots, &lists.unwrap_or_default(), true);
            made.map(Arc::new).map_err(|error| format!("{}: {error}", rule.ca.display()))
        });
        let client_auth = client_auth.transpose()?;
        let named = [Some(&config.certificate), Some(&config.private_key)];
        let named = named.into_iter().chain([rule.map(|rule| &rule.ca), rule.and_then(|rule| rule.crl.as_ref())]);
        let mut digests = Vec::new();
        for path in named.flatten() {
            digests.extend(digest::sha256(&keystore::files::read(path, MAX_FILE_BYTES)?));
        }
        let choice = Choice {
            identity,
            policy: Policy::Intermediate,
            min_version: ProtocolVersion::Tls12,
            alpn: Arc::new([b"http/1.1".to_vec()]),
            client_auth,
            context: digest::sha256(b"admin"),
        };
        let acceptor = Acceptor::new(Arc::new(TicketKeys::new(TICKET_ROTATION))).map_err(|error| error.to_string())?;
        let allowed = rule.map(|rule| Arc::from(rule.allow_san.clone())).unwrap_or_default();
        Ok(Front { choice, acceptor: Arc::new(acceptor), allowed, files: digest::sha256(&digests) })
    }

    /// Whether whoever gets through the handshake has shown a certificate.
    pub(super) fn demands_certificate(&self) -> bool {
        self.choice.client_auth.is_some()
    }

    /// The handshake.
    ///
    /// # Errors
    /// It failed; the client has been told by an alert, as far as it listens.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, mut stream: S) -> io::Result<Sealed<S>> {
        let chooser: Arc<dyn Chooser + Send + Sync> = Arc::new(Fixed(self.choice.clone()));
        let mut session = Session::server(&self.acceptor, chooser).map_err(broken)?;
        let (mut input, mut output) = (Vec::new(), Vec::new());
        loop {
            let mut rest = &input[..];
            let outcome = session.handshake(&mut rest, &mut output);
            let taken = input.len() - rest.len();
            input.drain(..taken);
            stream.write_all(&output).await?;
            output.clear();
            match outcome.map_err(broken)? {
                Handshake::Done => break,
                Handshake::WantKey | Handshake::WantCertificate => {
                    return Err(io::Error::other("the key is elsewhere"));
                }
                Handshake::WantInput => {
                    if stream.read_buf(&mut input).await? == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
        let peer = session.info().peer;
        let is_allowed = |san: &String| peer.as_ref().is_some_and(|peer| proxy::client::holds(peer, san));
        if !self.allowed.is_empty() && !self.allowed.iter().any(is_allowed) {
            session.fail(Alert::ACCESS_DENIED, &mut output);
            stream.write_all(&output).await?;
            return Err(io::Error::new(ErrorKind::PermissionDenied, "the certificate is not among those in allow_san"));
        }
        Ok(Sealed { stream, session, input, output, sent: 0 })
    }
}

fn broken(error: tls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// The same for every client.
struct Fixed(Choice);

impl Chooser for Fixed {
    fn choose(&self, _hello: &ClientHello<'_>) -> Result<Choice, Alert> {
        Ok(self.0.clone())
    }

    fn asks_for_certificates(&self) -> bool {
        self.0.client_auth.is_some()
    }
}

/// A connection whose handshake is done.
pub(super) struct Sealed<S> {
    stream: S,
    session: Session,
    /// Ciphertext that was received and not yet taken by the session.
    input: Vec<u8>,
    /// Ciphertext to send, and how much of it is sent.
    output: Vec<u8>,
    sent: usize,
}

impl<S: AsyncWrite + Unpin> Sealed<S> {
    /// Sends what is sealed.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.output.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.output[self.sent..]))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Sealed<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let mut rest = &this.input[..];
            let outcome = this.session.read(&mut rest, into.initialize_unfilled(), &mut this.output);
            let taken = this.input.len() - rest.len();
            this.input.drain(..taken);
            // What the library wants to say meanwhile; a client that does not take it is none that reads what follows.
            if let Poll::Ready(Err(error)) = this.poll_sent(context) {
                return Poll::Ready(Err(error));
            }
            match outcome.map_err(broken)? {
                Read::Plain(count) => {
                    into.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Read::Closed => return Poll::Ready(Ok(())),
                Read::WantInput => {}
            }
            let mut piece = [0; PIECE_BYTES];
            let mut received = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut received))?;
            if received.filled().is_empty() {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
            this.input.extend_from_slice(received.filled());
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Sealed<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_sent(context))?;
        let piece = bytes.get(..PIECE_BYTES).unwrap_or(bytes);
        this.session.write(piece, &mut this.output).map_err(broken)?;
        // What is not taken now is sent by the next call; it counts as written.
        match this.poll_sent(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(piece.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_sent(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.session.close(&mut this.output);
        ready!(this.poll_sent(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}
