//! A connected TCP or Unix stream. Reading borrows a chunk only while there are bytes; writing takes slices.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, Shutdown};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::chunk::Chunk;
use crate::option::keep_alive;

/// Slices of this many bytes together are copied into one before they are sent.
const JOINED_BYTES: usize = 1024;

thread_local! {
    /// Where they are joined.
    static JOINED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A non-blocking stream socket registered with this thread's runtime.
pub struct Stream {
    socket: AsyncFd<OwnedFd>,
    /// It goes out from another port than was asked for.
    is_other_port: bool,
}

/// A wait of [`Stream::poll_gone`].
pub struct GoneWait<'s>(Pin<Box<dyn Future<Output = ()> + 's>>);

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.socket.as_raw_fd())
    }
}

impl Stream {
    /// Takes over a connected, non-blocking socket.
    ///
    /// # Errors
    /// The runtime could not register it.
    pub fn new(socket: OwnedFd) -> io::Result<Stream> {
        // SAFETY: an `OwnedFd` gives the same open descriptor until it is dropped, and the `AsyncFd` owns it.
        let socket = unsafe { AsyncFd::register(socket) }?;
        Ok(Stream { socket, is_other_port: false })
    }

    /// Connects to a TCP address, with small writes sent at once.
    ///
    /// # Errors
    /// As the kernel says; also when there are no descriptors left.
    pub async fn connect_tcp(address: SocketAddr) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
        socket.set_tcp_nodelay(true)?;
        Stream::finish_connect(socket, &address.into()).await
    }

    /// Connects to a Unix stream socket.
    ///
    /// # Errors
    /// As the kernel says. A full backlog is `WouldBlock`, which Unix sockets report at once.
    pub async fn connect_unix(path: &Path) -> io::Result<Stream> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        Stream::finish_connect(socket, &SockAddr::unix(path)?).await
    }

    pub(crate) async fn finish_connect(socket: Socket, address: &SockAddr) -> io::Result<Stream> {
        match socket.connect(address) {
            Ok(()) => Stream::new(socket.into()),
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                let stream = Stream::new(socket.into())?;
                // The news of an error come with those of being writable, so only then the kernel is asked which.
                if !stream.socket.ready(Interest::WRITABLE | Interest::ERROR).await?.ready().is_error() {
                    return Ok(stream);
                }
                match SockRef::from(&stream.socket).take_error()? {
                    None => Ok(stream),
                    Some(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that the source's own port could not be had.
    pub(crate) fn at_other_port(self) -> Stream {
        Stream { is_other_port: true, ..self }
    }

    /// Whether it goes out from the port that was asked for; true where none was.
    pub fn port_kept(&self) -> bool {
        !self.is_other_port
    }

    /// Has the kernel ask a TCP peer that has been silent for `idle` whether it is there; zero: never. Without this, one that is gone without a word (its
    /// power, a NAT that forgot it) stays connected for ever. What the kernel does not take is left out.
    pub fn keep_alive(&self, idle: Duration) {
        let _ = keep_alive(&self.socket, idle);
    }

    /// The peer's address; none for Unix sockets.
    pub fn peer(&self) -> Option<SocketAddr> {
        SockRef::from(&self.socket).peer_addr().ok()?.as_socket()
    }

    /// Our own address; none for Unix sockets.
    pub fn local(&self) -> Option<SocketAddr> {
        SockRef::from(&self.socket).local_addr().ok()?.as_socket()
    }

    /// Waits for bytes or the peer's end, then receives. An empty chunk means the peer has finished sending.
    ///
    /// No buffer is held while waiting. Safe to drop at any point: nothing is lost.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn recv(&self) -> io::Result<Chunk> {
        let mut chunk = Chunk::empty();
        poll_fn(|context| self.poll_recv_into(context, &mut chunk)).await?;
        Ok(chunk)
    }

    /// As [`Stream::recv`], but appends to `chunk` (which must have spare capacity after [`Chunk::compact`]). Returns how many bytes came; 0 at
    /// the peer's end.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn recv_more(&self, chunk: &mut Chunk) -> io::Result<usize> {
        poll_fn(|context| self.poll_recv_into(context, chunk)).await
    }

    /// Polling form of [`Stream::recv_more`].
    pub fn poll_recv_into(&self, context: &mut Context<'_>, chunk: &mut Chunk) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(context))?;
            chunk.compact();
            let spare = chunk.spare_mut();
            let wanted = spare.len();
            match rustix::net::recv(self.socket.get_ref(), spare, RecvFlags::empty()) {
                Ok((_, count)) => {
                    // A short read emptied the socket: the next wait need not ask the kernel first.
                    if count > 0 && count < wanted {
                        ready.clear_ready();
                    }
                    chunk.filled(count);
                    return Poll::Ready(Ok(count));
                }
                Err(rustix::io::Errno::AGAIN) => {
                    ready.clear_ready();
                    if chunk.is_empty() {
                        *chunk = Chunk::empty();
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Ready once the peer is gone: has reset the connection or, with `or_finished`, has ended its direction. Costs no system call and takes nothing that was
    /// received. `wait` is kept from poll to poll; it needs memory only where bytes wait unread, or where an end alone does not count.
    pub fn poll_gone<'s>(
        &'s self,
        context: &mut Context<'_>,
        or_finished: bool,
        wait: &mut Option<GoneWait<'s>>,
    ) -> Poll<()> {
        if wait.is_none() && or_finished {
            match self.socket.poll_read_ready(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(guard)) if !guard.ready().is_read_closed() => {}
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        // Bytes that nobody reads yet are no news. Of urgent bytes the kernel is not asked, but the interest in them includes that in an end.
        let interest = if or_finished { Interest::PRIORITY | Interest::ERROR } else { Interest::ERROR };
        let wait = wait.get_or_insert_with(|| {
            GoneWait(Box::pin(async move {
                while self.socket.ready(interest).await.is_ok_and(|guard| guard.ready().is_empty()) {}
            }))
        });
        wait.0.as_mut().poll(context)
    }

    /// Whether the kernel has reported bytes, an end or an error that nobody has read yet. Costs no system call; for telling
    /// whether an idle pooled connection is still usable.
    pub fn has_news(&self) -> bool {
        // Readiness may be left over from before the last read: the kernel is asked then, and only then.
        let peeked = self.socket.try_io(Interest::READABLE, |_| self.peek().map_err(io::Error::from));
        !matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether bytes, an end or an error are waiting, reported or not. Asks the kernel.
    pub fn has_unread(&self) -> bool {
        !matches!(self.peek(), Err(rustix::io::Errno::AGAIN))
    }

    fn peek(&self) -> rustix::io::Result<()> {
        rustix::net::recv(self.socket.get_ref(), &mut [0], RecvFlags::PEEK).map(|_| ())
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// The connection broke. Never raises SIGPIPE.
    pub async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = poll_fn(|context| self.poll_send(context, bytes)).await?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends what the kernel takes at once of `bytes`, waiting until it takes something.
    pub fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, |_| rustix::net::send(self.socket.get_ref(), bytes, SendFlags::NOSIGNAL))
    }

    /// Sends three slices in order (any may be empty), in one call where the kernel takes them, and takes off them what is sent. Ready when
    /// nothing is left of them.
    ///
    /// # Errors
    /// The connection broke.
    pub fn poll_send_slices(&self, context: &mut Context<'_>, slices: &mut [&[u8]; 3]) -> Poll<io::Result<()>> {
        loop {
            let total: usize = slices.iter().map(|slice| slice.len()).sum();
            let sent = match *slices {
                [[], [], []] => return Poll::Ready(Ok(())),
                [only, [], []] | [[], only, []] | [[], [], only] => self.poll_send(context, only),
                _ if total <= JOINED_BYTES => self.poll_send_joined(context, slices, total),
                _ => self.poll_send_vector(context, slices),
            };
            let mut sent = ready!(sent)?;
            for slice in &mut *slices {
                let taken = sent.min(slice.len());
                *slice = slice.get(taken..).unwrap_or_default();
                sent -= taken;
            }
        }
    }

    fn poll_send_vector(&self, context: &mut Context<'_>, slices: &[&[u8]; 3]) -> Poll<io::Result<usize>> {
        let vector = slices.map(IoSlice::new);
        // The sandbox of a key server has no messages, which may name an address. Servers ignore the signal of a closed connection, as all programs of the
        // standard library do.
        self.poll_write_with(context, |socket| rustix::io::writev(socket, &vector))
    }

    /// Copying a few hundred bytes costs less than a message header does in the kernel.
    fn poll_send_joined(
        &self,
        context: &mut Context<'_>,
        slices: &[&[u8]; 3],
        total: usize,
    ) -> Poll<io::Result<usize>> {
        JOINED.with_borrow_mut(|joined| {
            joined.clear();
            joined.reserve(total);
            slices.iter().for_each(|slice| joined.extend_from_slice(slice));
            self.poll_send(context, joined)
        })
    }

    /// Calls `read` with the socket once it is readable, and again until it does not ask to wait.
    pub(crate) fn poll_read_with(
        &self,
        context: &mut Context<'_>,
        read: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(context))?;
            match read(self.as_fd()) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Calls `write` with the socket once it is writable, and again until it does not ask to wait.
    pub(crate) fn poll_write_with(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        // Nearly always it is writable, and then nobody need be registered as waiting.
        let written = self.socket.try_io(Interest::WRITABLE, |_| write(self.as_fd()).map_err(io::Error::from));
        match written {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            written => return Poll::Ready(written),
        }
        loop {
            let mut ready = ready!(self.socket.poll_write_ready(context))?;
            match write(self.as_fd()) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Whether the peer (over TCP) or its program (on Unix sockets) has not received all that was sent.
    pub fn has_unsent(&self) -> bool {
        self.unsent_bytes() > 0
    }

    /// How much of what was sent the peer (over TCP) or its program (on Unix sockets) has not received. Still known when the connection has ended.
    pub fn unsent_bytes(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open, and TIOCOUTQ writes one int to the place that is given.
        let asked = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if asked == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    /// Acknowledges at once what was received, instead of up to 40 ms later or with the next bytes sent (RFC 9293 §3.8.6.3). For moments when the peer may
    /// hold back its next bytes until then (Nagle's algorithm) and nothing is due to it. Without effect on sockets that are not TCP.
    pub fn acknowledge(&self) {
        let _ = rustix::net::sockopt::set_tcp_quickack(self.socket.get_ref(), true);
    }

    /// Ends our direction; the peer reads an end after what was sent.
    pub fn shutdown_write(&self) {
        let _ = rustix::net::shutdown(self.socket.get_ref(), Shutdown::Write);
    }

    /// Makes the close that follows a reset instead of an orderly end, so that the peer cannot mistake a cut message for a whole one.
    pub fn reset_on_close(&self) {
        let _ = SockRef::from(&self.socket).set_linger(Some(std::time::Duration::ZERO));
    }

    /// The descriptor, for socket options.
    pub fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}
