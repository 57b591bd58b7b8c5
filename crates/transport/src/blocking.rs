//! TLS of a client whose thread may wait, over any stream. Never of the data path.

use std::io::{self, ErrorKind, Read, Write};

use tls::{Handshake, Session};

/// Ciphertext that is read at once, bytes.
const PIECE_BYTES: usize = 16 * 1024;

/// A TLS session beside the stream that carries it, which each call is given.
#[derive(Debug)]
pub struct Sealed {
    session: Session,
    /// Ciphertext that the session has not taken yet.
    received: Vec<u8>,
}

impl Sealed {
    /// Does the handshake.
    ///
    /// # Errors
    /// The stream failed or ended, or the peers do not agree.
    pub fn open(session: Session, stream: &mut (impl Read + Write)) -> io::Result<Sealed> {
        let mut sealed = Sealed { session, received: Vec::new() };
        loop {
            match sealed.step(stream, |session, input, output| session.handshake(input, output))? {
                Handshake::Done => return Ok(sealed),
                Handshake::WantInput => sealed.receive(stream)?,
                Handshake::WantKey | Handshake::WantCertificate => return Err(ErrorKind::Unsupported.into()),
            }
        }
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Reads what comes next, at least one byte unless `into` is empty; 0 once the peer has said that this is the end (close_notify, RFC 8446 section 6.1).
    ///
    /// # Errors
    /// The stream failed, what it carries is no TLS, or it ended without a close_notify (`UnexpectedEof`): something may be missing.
    pub fn read(&mut self, stream: &mut (impl Read + Write), into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.step(stream, |session, input, output| session.read(input, into, output))? {
                tls::Read::Plain(length) => return Ok(length),
                tls::Read::Closed => return Ok(0),
                tls::Read::WantInput => self.receive(stream)?,
            }
        }
    }

    /// Sends all of `plain`.
    ///
    /// # Errors
    /// The stream failed.
    pub fn write(&mut self, stream: &mut (impl Read + Write), plain: &[u8]) -> io::Result<()> {
        self.step(stream, |session, _, output| session.write(plain, output))
    }

    /// Has the session do something with what came, and sends what it says of it, an alert included.
    fn step<T, E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        stream: &mut impl Write,
        act: impl FnOnce(&mut Session, &mut &[u8], &mut Vec<u8>) -> Result<T, E>,
    ) -> io::Result<T> {
        let (mut rest, mut output) = (self.received.as_slice(), Vec::new());
        let outcome = act(&mut self.session, &mut rest, &mut output);
        let taken = self.received.len() - rest.len();
        self.received.drain(..taken);
        stream.write_all(&output)?;
        outcome.map_err(io::Error::other)
    }

    fn receive(&mut self, stream: &mut impl Read) -> io::Result<()> {
        let mut piece = [0; PIECE_BYTES];
        match stream.read(&mut piece)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            length => {
                self.received.extend_from_slice(&piece[..length]);
                Ok(())
            }
        }
    }
}
