//! One connection whose handshake is done.

use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use quinn_proto::Dir;
use tls::Info;

use crate::lost::Lost;
use crate::shared::Shared;
use crate::stream::{BiStream, RecvStream, SendStream};

/// Figures of a connection.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// UDP payload bytes received.
    pub received: u64,
    /// UDP payload bytes sent.
    pub sent: u64,
    /// Packets that were lost.
    pub lost_packets: u64,
    /// Round trip time.
    pub round_trip: Duration,
}

/// A connection whose handshake is done. Clones are the same connection; when the last is dropped while it is open, it is closed with the code
/// [`Settings::abandoned`](crate::Settings::abandoned), and its streams with it.
pub struct Connection {
    shared: Rc<Shared>,
    tls: Rc<Info>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.remote_address())
    }
}

impl Clone for Connection {
    fn clone(&self) -> Connection {
        self.shared.handles.set(self.shared.handles.get() + 1);
        Connection { shared: Rc::clone(&self.shared), tls: Rc::clone(&self.tls) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let left = self.shared.handles.get() - 1;
        self.shared.handles.set(left);
        if left == 0 {
            self.shared.close(self.shared.settings.abandoned, b"");
        }
    }
}

impl Connection {
    /// The first handle of a connection on which TLS has agreed on `tls`.
    pub(crate) fn first(shared: Rc<Shared>, tls: Info) -> Connection {
        shared.handles.set(1);
        Connection { shared, tls: Rc::new(tls) }
    }

    /// What TLS agreed on: server name, client certificate, ALPN, cipher, version.
    pub fn tls(&self) -> &Info {
        &self.tls
    }

    /// The address that the peer shook hands from. It may go on from another one; who it is does not change with that, since one datagram with a source
    /// that nobody has proved yet would be enough to be somebody else.
    pub fn remote_address(&self) -> SocketAddr {
        self.shared.remote
    }

    /// Our address that the connection came to.
    pub fn local_address(&self) -> SocketAddr {
        self.shared.local
    }

    /// The next stream in both directions that the peer opened.
    pub fn poll_accept_bi(&self, context: &mut Context<'_>) -> Poll<Result<BiStream, Lost>> {
        if let Some(lost) = self.shared.lost() {
            return Poll::Ready(Err(lost));
        }
        let accepted = self.shared.protocol.borrow_mut().streams().accept(Dir::Bi);
        match accepted {
            Some(id) => {
                let (recv, send) = (RecvStream::new(&self.shared, id), SendStream::new(&self.shared, id));
                Poll::Ready(Ok(BiStream { recv, send }))
            }
            None => {
                self.shared.accept_bi.note(context);
                Poll::Pending
            }
        }
    }

    /// The next stream in one direction that the peer opened.
    pub fn poll_accept_uni(&self, context: &mut Context<'_>) -> Poll<Result<RecvStream, Lost>> {
        if let Some(lost) = self.shared.lost() {
            return Poll::Ready(Err(lost));
        }
        let accepted = self.shared.protocol.borrow_mut().streams().accept(Dir::Uni);
        match accepted {
            Some(id) => Poll::Ready(Ok(RecvStream::new(&self.shared, id))),
            None => {
                self.shared.accept_uni.note(context);
                Poll::Pending
            }
        }
    }

    /// Opens a stream in one direction; none while the peer allows no more, or when the connection is lost.
    pub fn open_uni(&self) -> Option<SendStream> {
        let id = self.shared.protocol.borrow_mut().streams().open(Dir::Uni)?;
        Some(SendStream::new(&self.shared, id))
    }

    /// Asks the peer whether it is there (PING). Its acknowledgment puts off the idle timeout; one that is gone is lost as without it (RFC 9000 §10.1.2).
    pub fn ping(&self) {
        if !self.shared.is_lost() {
            self.shared.protocol.borrow_mut().ping();
            self.shared.mark();
        }
    }

    /// Whether its client is to be told to go elsewhere. Who waits for a stream in both directions is woken when that changes.
    pub fn is_asked_to_leave(&self) -> bool {
        self.shared.is_asked_to_leave.get()
    }

    /// How long we keep it without a packet. The peer may have asked for less.
    pub fn idle_timeout(&self) -> Duration {
        self.shared.settings.idle_timeout
    }

    /// Closes at once: CONNECTION_CLOSE with an error code of the application. What was not yet sent is lost. Only the first call counts.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.shared.close(code, reason);
    }

    /// Ready when the connection is lost, also by [`Connection::close`].
    pub fn poll_lost(&self, context: &mut Context<'_>) -> Poll<Lost> {
        match self.shared.lost() {
            Some(lost) => Poll::Ready(lost),
            None => {
                self.shared.wait_for_loss(context);
                Poll::Pending
            }
        }
    }

    /// Why it is lost, if it is.
    pub fn lost(&self) -> Option<Lost> {
        self.shared.lost()
    }

    /// Streams of which something may not have arrived yet.
    pub fn sending(&self) -> usize {
        self.shared.protocol.borrow_mut().streams().send_streams()
    }

    /// Figures up to now.
    pub fn stats(&self) -> Stats {
        let stats = self.shared.protocol.borrow().stats();
        Stats {
            received: stats.udp_rx.bytes,
            sent: stats.udp_tx.bytes,
            lost_packets: stats.path.lost_packets,
            round_trip: stats.path.rtt,
        }
    }
}
