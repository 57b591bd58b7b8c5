//! One connection of the generator: plain, or TLS over memory. One write per flight, nothing held while waiting.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};

use tls::{Handshake, Read, Session};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::client_tls::ClientTls;
use super::response::ResponseReader;
use crate::shared_read::read_shared;

/// What is encrypted at once: the working set stays in cache.
const ENCRYPT_BYTES: usize = 64 * 1024;
/// The plaintext of one record.
const RECORD_BYTES: usize = 16 * 1024;

thread_local! {
    static PLAIN: RefCell<Box<[u8]>> = RefCell::new(vec![0; RECORD_BYTES].into_boxed_slice());
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
}

#[derive(Debug)]
struct Tls {
    session: Session,
    /// Ciphertext that does not make a whole record yet.
    pending: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    /// Connects, and shakes hands if there is `tls`.
    ///
    /// # Errors
    /// Those of the socket, and a failed handshake.
    pub(super) async fn open(address: SocketAddr, tls: Option<&ClientTls>) -> io::Result<Connection> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut connection = Connection { socket, tls: None };
        if let Some(tls) = tls {
            let session = tls.session()?;
            connection.tls = Some(Box::new(Tls { session, pending: Vec::new(), output: Vec::new() }));
            connection.shake_hands().await?;
        }
        Ok(connection)
    }

    async fn shake_hands(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let mut state = tls.handshake(&[])?;
        loop {
            self.socket.write_all(&tls.output).await?;
            tls.output.clear();
            if state == Handshake::Done {
                return Ok(());
            }
            state = read_shared(&mut self.socket, |bytes| match bytes {
                [] => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => tls.handshake(bytes),
            })
            .await??;
        }
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// Those of the socket or session.
    pub(super) async fn send(&mut self, plain: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.socket.write_all(plain).await };
        for part in plain.chunks(ENCRYPT_BYTES) {
            tls.session.write(part, &mut tls.output).map_err(io::Error::other)?;
            self.socket.write_all(&tls.output).await?;
            tls.output.clear();
        }
        Ok(())
    }

    /// Reads one whole response.
    ///
    /// # Errors
    /// Those of socket, session and response.
    pub(super) async fn receive(&mut self, reader: &mut ResponseReader) -> io::Result<()> {
        loop {
            let complete = match &mut self.tls {
                None => read_shared(&mut self.socket, |bytes| reader.feed(bytes)).await??,
                Some(tls) => read_shared(&mut self.socket, |bytes| tls.decrypt(bytes, reader)).await??,
            };
            if complete {
                return Ok(());
            }
        }
    }

    /// Reads until the server has closed: what it does then belongs to the exchange.
    ///
    /// # Errors
    /// Those of the socket. A reset is an end, too.
    pub(super) async fn wait_for_end(&mut self) -> io::Result<()> {
        loop {
            match read_shared(&mut self.socket, <[u8]>::is_empty).await {
                Ok(false) => {}
                Ok(true) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the server has neither closed nor sent anything since the last response.
    pub(super) fn is_idle(&mut self) -> bool {
        let mut byte = [0];
        let read = std::pin::Pin::new(&mut self.socket)
            .poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte));
        matches!(read, Poll::Pending)
    }

    /// Whether the handshake resumed a session.
    pub(super) fn resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.info().resumed)
    }
}

impl Tls {
    fn handshake(&mut self, bytes: &[u8]) -> io::Result<Handshake> {
        let Tls { session, pending, output } = self;
        with_pending(pending, bytes, |input| session.handshake(input, output).map_err(io::Error::other))
    }

    fn decrypt(&mut self, bytes: &[u8], reader: &mut ResponseReader) -> io::Result<bool> {
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Tls { session, pending, output } = self;
        PLAIN.with_borrow_mut(|plain| {
            with_pending(pending, bytes, |input| {
                let mut complete = false;
                loop {
                    match session.read(input, plain, output).map_err(io::Error::other)? {
                        Read::Plain(length) => complete = reader.feed(&plain[..length])?,
                        Read::WantInput => return Ok(complete),
                        Read::Closed if complete => return Ok(true),
                        Read::Closed => return Err(io::ErrorKind::UnexpectedEof.into()),
                    }
                }
            })
        })
    }
}

/// Hands `take` what was left over before and `bytes` after it, and keeps what it leaves.
fn with_pending<T>(pending: &mut Vec<u8>, bytes: &[u8], take: impl FnOnce(&mut &[u8]) -> T) -> T {
    if pending.is_empty() {
        let mut input = bytes;
        let result = take(&mut input);
        pending.extend_from_slice(input);
        return result;
    }
    let mut joined = std::mem::take(pending);
    joined.extend_from_slice(bytes);
    let mut input = joined.as_slice();
    let result = take(&mut input);
    let taken = joined.len() - input.len();
    joined.drain(..taken);
    *pending = joined;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_comes_first_next_time() {
        let mut pending = Vec::new();
        let mut seen = Vec::new();
        for (bytes, taken) in [(&b"abc"[..], 1), (b"de", 3), (b"", 1), (b"fg", 2)] {
            with_pending(&mut pending, bytes, |input| {
                seen.extend_from_slice(&input[..taken]);
                *input = &input[taken..];
            });
        }
        assert_eq!((seen.as_slice(), pending.as_slice()), (&b"abcdefg"[..], &b""[..]));
    }
}
