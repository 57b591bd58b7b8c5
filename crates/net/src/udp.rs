//! UDP sockets: listening ones, one per worker, and connected ones, one per flow. Datagrams come and go in batches.
//!
//! Owns binding, receiving ([`Batch`]) and sending ([`Mailer`]). Knows nothing of flows, headers or whom to believe. A full send buffer loses the
//! datagram, as any hop may; an ICMP error that waits on a socket is taken off it and ends nothing.

mod receive;
mod send;
mod steering;
mod wire_form;

pub use receive::{Batch, Received};
pub use send::{Mailer, Outgoing, Sent};
pub use steering::{ID_BYTES, LONG_HEADER, position_of};
pub use wire_form::LocalAddress;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::unix::AsyncFd;

use crate::inherited::{self, Kind, Passed};
use crate::option::set_int;
use crate::transparent::{self, Source};

/// What the kernel may hold for a listening socket until it is read, bytes. A burst of some thousand datagrams.
const LISTENER_BUFFER_BYTES: libc::c_int = 8 * 1024 * 1024;

/// The same for the socket of a flow.
const FLOW_BUFFER_BYTES: libc::c_int = 512 * 1024;

/// Bound sockets of one address, one per worker, not yet tied to a runtime.
#[derive(Debug, Clone)]
pub struct UdpBound {
    sockets: Vec<Arc<OwnedFd>>,
    workers: usize,
    address: SocketAddr,
    is_managed: bool,
}

impl UdpBound {
    /// Binds `address` for `workers` workers. With port 0 all of them share the port the kernel chose. The kernel spreads senders over the
    /// workers by their address and port, so that one sender stays with one worker.
    ///
    /// # Errors
    /// The address is taken, not ours, or needs a privilege.
    pub fn bind(address: SocketAddr, workers: usize) -> io::Result<UdpBound> {
        // Another process that has the port with SO_REUSEPORT would silently take a share. A first bind without the flag finds out.
        if address.port() != 0 {
            udp_socket(address)?.bind(&address.into())?;
        }
        let mut address = address;
        let mut sockets = Vec::with_capacity(workers);
        for _ in 0..workers.max(1) {
            let socket = join(address)?;
            address = socket.local_addr()?.as_socket().unwrap_or(address);
            sockets.push(Arc::new(OwnedFd::from(socket)));
        }
        Ok(UdpBound { sockets, workers, address, is_managed: false })
    }

    /// Makes the sockets that were passed those of `workers` workers. A socket has one reader, or the datagrams of one sender would come to several: the
    /// workers that are left over have none, but see [`UdpBound::spread`].
    ///
    /// # Errors
    /// There is none, or the kernel rejects.
    pub fn adopt(passed: Vec<Passed>, workers: usize) -> io::Result<UdpBound> {
        let is_managed = passed.iter().any(|one| one.is_managed);
        let sockets: Vec<Arc<OwnedFd>> = passed.into_iter().map(|one| one.socket).collect();
        let address = inherited::address_of(sockets.first().ok_or(io::ErrorKind::NotFound)?)?;
        for socket in &sockets {
            let socket = SockRef::from(socket);
            receive_destination(&socket, address)?;
            join_arrivals(&socket);
            enlarge(&socket, LISTENER_BUFFER_BYTES);
        }
        Ok(UdpBound { sockets, workers, address, is_managed })
    }

    /// Has sockets of its own join the adopted ones for workers that are left without one. From then on datagrams come to them, so not before they are read.
    pub fn spread(&mut self) {
        while self.sockets.len() < self.workers && !self.is_managed {
            let Ok(socket) = join(self.address) else { return };
            self.sockets.push(Arc::new(socket.into()));
        }
    }

    /// Makes the sockets ready for QUIC: they tell and take marks of congestion, send nothing that would be cut into fragments, and get the datagrams of the
    /// connections whose ids name them (see [`UdpListener::lane`]). False if the kernel does not steer: then a connection whose client changes its address may
    /// come to another socket.
    pub fn prepare_for_quic(&self) -> bool {
        for socket in &self.sockets {
            // Without any of these QUIC goes on with less.
            let (level, class, discover, probe) = match self.address {
                SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_RECVTOS, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
                SocketAddr::V6(_) => {
                    (libc::SOL_IPV6, libc::IPV6_RECVTCLASS, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
                }
            };
            let _ = set_int(socket, level, class, 1);
            let _ = set_int(socket, level, discover, probe);
        }
        self.sockets.first().is_some_and(|socket| steering::attach(socket, self.sockets.len()).is_ok())
    }

    /// The sockets, for another process, which knows them by `key`.
    pub fn pass(&self, key: &str) -> Vec<Passed> {
        let pass = |socket: &Arc<OwnedFd>| Passed {
            is_managed: self.is_managed,
            ..Passed::new(Kind::Udp, key.to_owned(), Arc::clone(socket))
        };
        self.sockets.iter().map(pass).collect()
    }

    /// How many sockets there are.
    #[allow(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Where it listens, with the port the kernel chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The sockets of worker `index`, tied to the runtime of the calling thread.
    ///
    /// # Errors
    /// The runtime could not register a socket.
    pub fn listeners(&self, index: usize) -> io::Result<Vec<UdpListener>> {
        self.positions(index).map(|position| self.listener(position)).collect()
    }

    /// Which sockets are those of worker `index`.
    pub fn positions(&self, index: usize) -> impl Iterator<Item = usize> {
        (index..self.sockets.len()).step_by(self.workers.max(1))
    }

    /// The socket at a position, tied to the runtime of the calling thread.
    ///
    /// # Errors
    /// There is none, or the runtime could not register it: it can be tied once at a time.
    pub fn listener(&self, position: usize) -> io::Result<UdpListener> {
        let socket = self.sockets.get(position).ok_or(io::ErrorKind::NotFound)?;
        // SAFETY: `as_raw_fd` of a shared `OwnedFd` gives the same open descriptor for as long as the `AsyncFd` holds it, and nothing
        // else can close it.
        let socket = unsafe { AsyncFd::register(Arc::clone(socket)) }?;
        Ok(UdpListener { socket, local: self.address, lane: (position, self.sockets.len()) })
    }
}

/// A socket that shares its port with others of ours.
fn join(address: SocketAddr) -> io::Result<Socket> {
    let socket = udp_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    enlarge(&socket, LISTENER_BUFFER_BYTES);
    Ok(socket)
}

fn udp_socket(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    receive_destination(&socket, address)?;
    join_arrivals(&socket);
    Ok(socket)
}

/// Has the kernel say which address a datagram came to, where that may be any: responses are to leave from that very one.
fn receive_destination(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match address.ip() {
        ip if !ip.is_unspecified() => Ok(()),
        IpAddr::V4(_) => set_int(socket, libc::SOL_IP, libc::IP_PKTINFO, 1),
        IpAddr::V6(_) => set_int(socket, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Lets the kernel hand over datagrams of equal length in one piece. Kernels before 5.0 cannot; then each comes alone.
fn join_arrivals(socket: &Socket) {
    let _ = set_int(socket, libc::SOL_UDP, libc::UDP_GRO, 1);
}

/// Asks for a larger receive buffer: beyond the system's bound where that is permitted, else up to it.
fn enlarge(socket: &Socket, bytes: libc::c_int) {
    if set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
        let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes);
    }
}

/// A listening UDP socket registered with this thread's runtime.
pub struct UdpListener {
    socket: AsyncFd<Arc<OwnedFd>>,
    local: SocketAddr,
    lane: (usize, usize),
}

impl fmt::Debug for UdpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UdpListener({})", self.local)
    }
}

impl UdpListener {
    /// Waits for datagrams and receives what there is, up to the room in `batch` (emptied first).
    ///
    /// # Errors
    /// The kernel ran out of something. The listener stays usable.
    pub async fn receive(&self, batch: &mut Batch) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_receive(batch, context)).await
    }

    /// The same, polled.
    ///
    /// # Errors
    /// As [`UdpListener::receive`].
    pub fn poll_receive(&self, batch: &mut Batch, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        batch.clear();
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(context))?;
            match batch.receive(self.as_fd(), Batch::SLOTS) {
                Ok(count) => {
                    // Room was left: the socket is empty, and the next wait need not ask the kernel first.
                    if count < Batch::SLOTS {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Its position among the sockets of its address, and how many there are. With [`UdpBound::prepare_for_quic`], datagrams to a connection id whose first
    /// byte is congruent to the position modulo their number come to it.
    pub fn lane(&self) -> (usize, usize) {
        self.lane
    }
}

impl AsFd for UdpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

/// A UDP socket that exchanges datagrams with one target only.
#[derive(Debug)]
pub struct UdpFlow {
    socket: OwnedFd,
    port_kept: bool,
}

impl UdpFlow {
    /// Opens a socket towards `target` that sends as `source`.
    ///
    /// # Errors
    /// As [`transparent::connect_tcp`].
    pub fn connect(target: SocketAddr, source: Source) -> io::Result<UdpFlow> {
        let (socket, port_kept) = transparent::connect_udp(target, source)?;
        join_arrivals(&socket);
        enlarge(&socket, FLOW_BUFFER_BYTES);
        Ok(UdpFlow { socket: socket.into(), port_kept })
    }

    /// Exchanges datagrams with another target from now on, of the same family, from the same address and port. What the network has said of the old one is
    /// forgotten.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn turn_to(&self, target: SocketAddr) -> io::Result<()> {
        let socket = SockRef::from(&self.socket);
        let _ = socket.take_error()?;
        socket.connect(&transparent::canonical(target).into())
    }

    /// Whether the source's own port could be had.
    pub fn port_kept(&self) -> bool {
        self.port_kept
    }

    /// Our end of it, as the target sees it.
    pub fn local(&self) -> Option<SocketAddr> {
        SockRef::from(&self.socket).local_addr().ok()?.as_socket()
    }

    /// Receives what there is, up to `most` pieces and the room in `batch`, behind what `batch` holds. None is reported as 0.
    ///
    /// # Errors
    /// What the network told of an earlier datagram, such as [`io::ErrorKind::ConnectionRefused`]; it is off the socket then.
    pub fn receive(&self, batch: &mut Batch, most: usize) -> io::Result<usize> {
        match batch.receive(self.socket.as_fd(), most) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            done => done,
        }
    }
}

impl AsFd for UdpFlow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The errno of a failed call, as an error.
fn last_error(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn raw(socket: BorrowedFd<'_>) -> libc::c_int {
    socket.as_raw_fd()
}
