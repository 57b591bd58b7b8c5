//! Listening sockets: TCP over IPv4 and IPv6 with one socket per worker, and Unix sockets. Made here, or adopted from another process.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::SocketFlags;
use socket2::{Domain, SockFilter, SockRef, Socket, Type};
use tokio::io::unix::AsyncFd;

use crate::clock::coarse;
use crate::inherited::{self, Kind, Passed, SocketFile, identify};
use crate::option::keep_alive;
use crate::stream::Stream;
use crate::unix_socket;

/// Connections the kernel may queue for us before it drops new ones (bounded by net.core.somaxconn).
const BACKLOG: i32 = 65_535;

/// When a listener closes, how long handshakes (TCP) that have begun may take: a round trip of most clients.
const LAST_HANDSHAKES: Duration = Duration::from_millis(200);

/// Between two looks at the queue of a listener that closes.
const CLOSING_PAUSE: Duration = Duration::from_millis(10);

/// An address to listen on or connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Endpoint {
    /// How it is named where sockets are listed: `tcp` or `unix`.
    pub fn transport(&self) -> &'static str {
        match self {
            Endpoint::Tcp(_) => "tcp",
            Endpoint::Unix(_) => "unix",
        }
    }

    /// What a socket for it is.
    pub fn kind(&self) -> Kind {
        match self {
            Endpoint::Tcp(_) => Kind::Tcp,
            Endpoint::Unix(_) => Kind::Unix,
        }
    }
}

/// Bound sockets of one endpoint, not yet tied to a runtime: one per worker for TCP, one shared by all for Unix.
#[derive(Debug, Clone)]
pub struct Bound {
    sockets: Vec<Arc<OwnedFd>>,
    workers: usize,
    endpoint: Endpoint,
    file: Option<SocketFile>,
    /// Another process has the sockets, too.
    kept: Arc<AtomicBool>,
}

/// Which of so many sockets a worker serves: they are dealt out in turn. A worker that is left without one shares another's.
fn dealt(worker: usize, workers: usize, sockets: usize) -> impl Iterator<Item = usize> {
    let shared = (worker >= sockets && sockets > 0).then(|| worker % sockets);
    (worker..sockets).step_by(workers.max(1)).chain(shared)
}

/// The index of an interface of this machine, by its name or as digits.
pub fn interface(name: &str) -> Option<u32> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET6, rustix::net::SocketType::DGRAM, None).ok()?;
    let named = rustix::net::netdevice::name_to_index(&socket, name).ok();
    named.or_else(|| name.parse().ok()).filter(|index| *index != 0)
}

impl Bound {
    /// Binds `endpoint` for `workers` workers and starts listening. With port 0 all of them share the port the kernel chose. `mode`: who may connect to a Unix
    /// socket.
    ///
    /// # Errors
    /// The address is taken, not ours, or needs a privilege; a Unix path is taken by a live server or is not a socket.
    pub fn bind(endpoint: &Endpoint, mode: u32, workers: usize) -> io::Result<Bound> {
        match endpoint {
            Endpoint::Tcp(address) => Bound::bind_tcp(*address, workers),
            Endpoint::Unix(path) => {
                let socket = unix_socket::bind(path, mode, BACKLOG)?;
                socket.set_nonblocking(true)?;
                let socket = Arc::new(socket.into());
                let file = identify(path).map(|identity| SocketFile { path: path.clone(), identity });
                Ok(Bound { sockets: vec![socket], workers, endpoint: endpoint.clone(), file, kept: Arc::default() })
            }
        }
    }

    /// Makes the sockets that were passed for `endpoint` those of `workers` workers. Where there are more sockets than workers, some serve several, since
    /// connections wait in each; where there are fewer, see [`Bound::spread`].
    ///
    /// # Errors
    /// There is none, or the kernel rejects.
    pub fn adopt(endpoint: &Endpoint, passed: Vec<Passed>, workers: usize) -> io::Result<Bound> {
        let is_managed = passed.iter().any(|one| one.is_managed);
        let file = passed.iter().find_map(|one| one.file.clone());
        let file = file.map(|(path, device, number)| SocketFile { path, identity: (device, number) });
        let sockets: Vec<Arc<OwnedFd>> = passed.into_iter().map(|one| one.socket).collect();
        let mut endpoint = endpoint.clone();
        let first = sockets.first().ok_or(io::ErrorKind::NotFound)?;
        if let Endpoint::Tcp(_) = endpoint {
            let address = inherited::address_of(first)?;
            endpoint = Endpoint::Tcp(address);
            for socket in &sockets {
                // Accepted sockets inherit it.
                SockRef::from(socket).set_tcp_nodelay(true)?;
            }
        }
        Ok(Bound { sockets, workers, endpoint, file, kept: Arc::new(AtomicBool::new(is_managed)) })
    }

    /// As [`Stream::keep_alive`], for the connections that will be accepted.
    pub fn keep_alive(&self, idle: Duration) {
        if matches!(self.endpoint, Endpoint::Tcp(_)) {
            self.sockets.iter().for_each(|socket| _ = keep_alive(socket, idle));
        }
    }

    /// Has sockets of its own join the adopted ones for workers that are left without one. From then on connections wait in them, so not before they are
    /// served: a process that comes to nothing would take those along.
    pub fn spread(&mut self) {
        let Endpoint::Tcp(address) = self.endpoint else { return };
        while self.sockets.len() < self.workers && !self.is_kept() {
            // Those that came first may be without SO_REUSEPORT; then they are shared.
            let Ok(socket) = join_tcp(address) else { return };
            if socket.listen(BACKLOG).is_err() {
                return;
            }
            self.sockets.push(Arc::new(socket.into()));
        }
    }

    /// The sockets, for another process, which knows them by `key`.
    pub fn pass(&self, key: &str) -> Vec<Passed> {
        let is_managed = self.is_kept();
        let file = self.file.as_ref().map(|file| (file.path.clone(), file.identity.0, file.identity.1));
        let pass = |socket: &Arc<OwnedFd>| Passed {
            is_managed,
            file: file.clone(),
            ..Passed::new(self.endpoint.kind(), key.to_owned(), Arc::clone(socket))
        };
        self.sockets.iter().map(pass).collect()
    }

    /// From now on another process has the sockets, too: closing ours leaves alone what is queued and the file.
    pub fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    fn bind_tcp(address: SocketAddr, workers: usize) -> io::Result<Bound> {
        // Another process may have the port with SO_REUSEPORT set as well, and would silently take half of the connections. A first
        // bind without the flag finds out.
        if address.port() != 0 {
            let probe = tcp_socket(address)?;
            probe.bind(&address.into())?;
        }
        let mut address = address;
        let mut sockets = Vec::with_capacity(workers);
        for _ in 0..workers.max(1) {
            let socket = join_tcp(address)?;
            // Later workers join the port that the first one got.
            address = socket.local_addr()?.as_socket().unwrap_or(address);
            sockets.push(socket);
        }
        for socket in &sockets {
            socket.listen(BACKLOG)?;
        }
        let sockets = sockets.into_iter().map(|socket| Arc::new(OwnedFd::from(socket))).collect();
        Ok(Bound { sockets, workers, endpoint: Endpoint::Tcp(address), file: None, kept: Arc::default() })
    }

    /// Removes the file of a Unix socket, unless somebody else has put another in its place. TCP has none.
    pub fn unlink(&self) {
        if !self.is_kept() {
            self.file.iter().for_each(SocketFile::unlink);
        }
    }

    /// The file of a Unix socket.
    pub fn file(&self) -> Option<&SocketFile> {
        self.file.as_ref()
    }

    /// Where it listens, with the port the kernel chose.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The listeners of worker `index`, tied to the runtime of the calling thread.
    ///
    /// # Errors
    /// The runtime could not register a socket.
    pub fn listeners(&self, index: usize) -> io::Result<Vec<Listener>> {
        let local = match self.endpoint {
            Endpoint::Tcp(address) => Some(address),
            Endpoint::Unix(_) => None,
        };
        let own = dealt(index, self.workers, self.sockets.len()).filter_map(|at| self.sockets.get(at));
        let listener = |socket: &Arc<OwnedFd>| {
            // SAFETY: `as_raw_fd` of a shared `OwnedFd` gives the same open descriptor for as long as the `AsyncFd` holds it, and nothing
            // else can close it.
            let socket = unsafe { AsyncFd::register(Arc::clone(socket)) }?;
            Ok(Listener { socket, local, kept: Arc::clone(&self.kept) })
        };
        own.map(listener).collect()
    }
}

/// A socket that shares its port with others of ours.
fn join_tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = tcp_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Both families on one port are two endpoints; the kernel must not mix them.
        socket.set_only_v6(true)?;
    }
    // Accepted sockets inherit it.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

/// A listening socket registered with this thread's runtime.
#[derive(Debug)]
pub struct Listener {
    socket: AsyncFd<Arc<OwnedFd>>,
    local: Option<SocketAddr>,
    kept: Arc<AtomicBool>,
}

impl Listener {
    /// Accepts one connection; also tells the peer's address (none for Unix sockets).
    ///
    /// # Errors
    /// No descriptors (`EMFILE`, `ENFILE`), no memory, or a connection that broke before it was accepted. The listener stays usable.
    pub async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        loop {
            let mut ready = self.socket.readable().await?;
            match self.try_accept()? {
                Some(accepted) => return Ok(accepted),
                None => ready.clear_ready(),
            }
        }
    }

    /// Accepts a connection that is there already; none if none waits.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn try_accept(&self) -> io::Result<Option<(Stream, Option<SocketAddr>)>> {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let accepted = if self.local.is_some() {
                rustix::net::acceptfrom_with(self.socket.get_ref(), flags)
                    .map(|(socket, peer)| (socket, peer.and_then(|address| SocketAddr::try_from(address).ok())))
            } else {
                rustix::net::accept_with(self.socket.get_ref(), flags).map(|socket| (socket, None))
            };
            match accepted {
                Ok((socket, peer)) => return Ok(Some((Stream::new(socket)?, peer))),
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Closes it without losing a connection, see [`Closing`]. At once where another process has it, too: what is queued is for that one.
    pub fn close(self) -> Option<Closing> {
        if self.kept.load(Ordering::Relaxed) {
            return None;
        }
        // Where the kernel takes no filter, what begins in the last moment may be lost.
        let _ = self.reject_new();
        Some(Closing { listener: self, until: coarse() + LAST_HANDSHAKES })
    }

    /// From now on the kernel drops requests for new connections (SYN), which clients send again after a second; handshakes that have begun
    /// go on. No effect on Unix sockets, which nobody reaches once their file is gone.
    fn reject_new(&self) -> io::Result<()> {
        if self.local.is_none() {
            return Ok(());
        }
        // The 14th octet of a TCP header holds its flags; the filter sees packets from there on (socket(7), SO_ATTACH_FILTER).
        const FLAGS: u32 = 13;
        const SYN: u32 = 0x02;
        const SYN_AND_ACK: u32 = 0x12;
        let code = |code: u32| u16::try_from(code).unwrap_or(0);
        let program = [
            SockFilter::new(code(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS), 0, 0, FLAGS),
            SockFilter::new(code(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K), 0, 0, SYN_AND_ACK),
            SockFilter::new(code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K), 0, 1, SYN),
            SockFilter::new(code(libc::BPF_RET | libc::BPF_K), 0, 0, 0),
            SockFilter::new(code(libc::BPF_RET | libc::BPF_K), 0, 0, u32::MAX),
        ];
        SockRef::from(self.socket.get_ref()).attach_filter(&program)
    }

    /// Where it listens; none for Unix sockets.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Its port; 0 for Unix sockets.
    pub fn port(&self) -> u16 {
        self.local.map_or(0, |address| address.port())
    }
}

/// A listener that closes: the kernel takes no new connection for it, handshakes that have begun may end, and what is queued is accepted.
/// Closed at once, it would have all of these reset. A client that comes meanwhile tries again within a second, and finds the next process or a
/// closed port. Closed when dropped.
#[derive(Debug)]
pub struct Closing {
    listener: Listener,
    until: Duration,
}

impl Closing {
    /// The next connection that the kernel had taken; none when there will be no more.
    pub async fn next(&self) -> Option<(Stream, Option<SocketAddr>)> {
        loop {
            // Looked at first: what comes after the last look at the queue would be lost.
            let is_over = coarse() >= self.until;
            match self.listener.try_accept() {
                Ok(Some(accepted)) => return Some(accepted),
                Err(error) if is_about_one_connection(&error) => {}
                Ok(None) | Err(_) if is_over => return None,
                Ok(None) | Err(_) => tokio::time::sleep(CLOSING_PAUSE).await,
            }
        }
    }

    /// The listener's port; 0 for Unix sockets.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }
}

/// Errors of accept(2) that concern the connection that was to be accepted, not the listener.
pub fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | NetworkDown | NetworkUnreachable | TimedOut)
}

#[cfg(test)]
mod tests {
    use super::dealt;

    #[test]
    fn each_socket_is_served_and_each_worker_serves() {
        let deal = |workers: usize, sockets: usize| {
            (0..workers).map(|worker| dealt(worker, workers, sockets).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(deal(2, 2), [[0], [1]]);
        assert_eq!(deal(2, 5), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(deal(3, 1), [[0], [0], [0]]);
        assert_eq!(deal(4, 3), [[0], [1], [2], [0]]);
        assert_eq!(deal(2, 0), [Vec::<usize>::new(), Vec::new()]);
        assert_eq!(dealt(0, 0, 2).collect::<Vec<_>>(), [0, 1], "no division by none");
    }
}
