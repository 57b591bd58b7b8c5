//! The admin side's sockets: bind, accept within bounds, serve HTTP/1.
//!
//! Whoever has not shown who it is has one of a few places, and the oldest of them gives way to whoever comes next (`net::places`): a connection always finds one, so that
//! nobody keeps health checks or an operator out by connecting and staying silent. What happens once a request is there is in `seats`.
//!
//! Holds a few descriptors in reserve, so that an operator can look at a process that has run out of them.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use axum::Router;
use config::Endpoint;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use net::inherited::Passed;
use net::trusted::{self, Owner};
use net::{Places, Room, unix_socket};
use telemetry::OncePerSecond;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::seats::{Seats, Sitting};
use super::secure::Front;

/// Connections on which nobody has shown who it is, between two requests; then the oldest is closed.
const MAX_STRANGERS: usize = 32;

/// Request head, bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// For a request head, and for the next one on an open connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// When it ends, for responses under way.
const LAST_RESPONSES: Duration = Duration::from_secs(1);

/// Connections the kernel holds for us.
const BACKLOG: i32 = 64;

/// Descriptors kept back to accept with: each may be lost once to another thread that takes it when the connection ends.
const RESERVED_DESCRIPTORS: usize = 4;

/// Who may connect to the Unix socket: the user of this process, and root.
const UNIX_MODE: u32 = 0o600;

/// The wait after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound listener, not yet served.
pub(super) struct Bound {
    address: Endpoint,
    socket: socket2::Socket,
    /// The service manager has it, too.
    is_managed: bool,
}

impl Bound {
    pub(super) fn address(&self) -> &Endpoint {
        &self.address
    }

    /// The socket, for another process, which knows it by `key`.
    pub(super) fn pass(&self, key: &str) -> io::Result<Passed> {
        let socket = Arc::new(OwnedFd::from(self.socket.try_clone()?));
        let file = match &self.address {
            Endpoint::Unix(path) if !self.is_managed => {
                let found = std::fs::symlink_metadata(path)?;
                Some((path.clone(), found.dev(), found.ino()))
            }
            _ => None,
        };
        let is_managed = self.is_managed;
        Ok(Passed { is_managed, file, ..Passed::new(self.address.kind(), key.to_owned(), socket) })
    }
}

/// Takes the socket that another process passed for an endpoint.
pub(super) fn adopt(endpoint: &Endpoint, passed: &Passed) -> io::Result<Bound> {
    let socket = socket2::Socket::from(passed.socket.try_clone()?);
    let address = match endpoint {
        Endpoint::Tcp(_) => Endpoint::Tcp(socket.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?),
        Endpoint::Unix(_) => endpoint.clone(),
    };
    Ok(Bound { address, socket, is_managed: passed.is_managed })
}

pub(super) fn bind(endpoint: &Endpoint) -> io::Result<Bound> {
    let (address, socket) = match endpoint {
        Endpoint::Tcp(address) => {
            let domain = socket2::Domain::for_address(*address);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&(*address).into())?;
            socket.listen(BACKLOG)?;
            (Endpoint::Tcp(socket.local_addr()?.as_socket().ok_or(ErrorKind::AddrNotAvailable)?), socket)
        }
        Endpoint::Unix(path) => {
            // Who could put another socket in its place would be asked by operators, and told what they send.
            let folder = path.parent().unwrap_or(Path::new(""));
            trusted::check_folder(folder, Owner::OursOrService).map_err(io::Error::other)?;
            (endpoint.clone(), unix_socket::bind(path, UNIX_MODE, BACKLOG)?)
        }
    };
    socket.set_nonblocking(true)?;
    Ok(Bound { address, socket, is_managed: false })
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

impl Listener {
    fn new(bound: Bound) -> io::Result<Listener> {
        Ok(match bound.address {
            Endpoint::Tcp(_) => Listener::Tcp(TcpListener::from_std(bound.socket.into())?),
            Endpoint::Unix(_) => Listener::Unix(UnixListener::from_std(bound.socket.into())?),
        })
    }

    async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(stream, peer)| (Stream::Tcp(stream), Some(peer.ip())))
            }
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| (Stream::Unix(stream), None)),
        }
    }
}

/// Accepts and serves until `stopped`, each connection no longer than `longest`. `accepts` is dropped once nobody is accepted any more.
pub(super) async fn serve(
    bound: Bound,
    (router, front): (Router, Option<Front>),
    longest: Duration,
    (mut stopped, accepts): (oneshot::Receiver<()>, mpsc::Sender<()>),
) {
    let (ending, ends) = watch::channel(());
    let listener = match Listener::new(bound) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the admin listener cannot be served");
            return;
        }
    };
    let complaint = OncePerSecond::new();
    let mut reserve = Reserve::default();
    let mut connections = JoinSet::new();
    let (strangers, seats) = (Room::new(Places::shared(MAX_STRANGERS)), Arc::new(Seats::new()));
    reserve.fill();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => {
                reserve.fill();
                continue;
            }
            _ = &mut stopped => break,
        };
        match accepted {
            Ok((stream, address)) => {
                let sitting = Arc::new(Sitting::new(strangers.enter(address), Arc::clone(&seats)));
                let (served, ends) = ((router.clone(), front.clone()), ends.clone());
                connections.spawn(async move {
                    tokio::select! {
                        () = converse(stream, served, (longest, Arc::clone(&sitting)), ends) => {}
                        () = sitting.gives_way() => {}
                    }
                });
            }
            // The next accept comes at once, before another thread takes what was freed.
            Err(error) if out_of_descriptors(&error) && reserve.release_one() => (),
            Err(error) => {
                if complaint.allow().is_some() {
                    tracing::warn!(%error, "the admin listener cannot accept");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                reserve.fill();
            }
        }
    }
    drop((listener, ending, accepts));
    // Those at rest end at once, those that response may finish.
    let _ = tokio::time::timeout(LAST_RESPONSES, async { while connections.join_next().await.is_some() {} }).await;
}

fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Descriptors held for the moment when there are no others.
#[derive(Default)]
struct Reserve(Vec<File>);

impl Reserve {
    fn fill(&mut self) {
        while self.0.len() < RESERVED_DESCRIPTORS {
            let Ok(file) = File::open("/dev/null") else { return };
            self.0.push(file);
        }
    }

    /// Frees one; false if there is none.
    fn release_one(&mut self) -> bool {
        self.0.pop().is_some()
    }
}

async fn converse(
    stream: Stream,
    (router, front): (Router, Option<Front>),
    (longest, sitting): (Duration, Arc<Sitting>),
    ends: watch::Receiver<()>,
) {
    match (stream, front) {
        (Stream::Tcp(stream), None) => converse_over(stream, router, (longest, sitting), ends).await,
        (Stream::Unix(stream), _) => converse_over(stream, router, (longest, sitting), ends).await,
        (Stream::Tcp(stream), Some(front)) => {
            let address = stream.peer_addr().ok();
            match tokio::time::timeout(HEAD_TIMEOUT, front.accept(stream)).await {
                Ok(Ok(stream)) => converse_over(stream, router, (longest, sitting), ends).await,
                Ok(Err(error)) => tracing::info!(?address, %error, "admin: the handshake failed"),
                Err(_) => tracing::info!(?address, "admin: the handshake took too long"),
            }
        }
    }
}

/// Serves until the client has enough, the time is over, or, between two answers, `ends` is closed.
async fn converse_over(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    (longest, sitting): (Duration, Arc<Sitting>),
    mut ends: watch::Receiver<()>,
) {
    let pages = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&sitting));
        pages.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let conversation = async {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = ends.changed() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    };
    // How a connection ends is the client's affair.
    let _ = tokio::time::timeout(longest, conversation).await;
}
