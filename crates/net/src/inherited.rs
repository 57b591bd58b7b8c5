//! Listening sockets that another process made: the service manager (`LISTEN_FDS`, sd_listen_fds(3)), or the process that this one takes over from.
//!
//! Owns what is known of each and who takes it. A socket is matched to a listener by its kind and its key: the address it is bound to, or, from our own
//! predecessor, what it was configured as. What the service manager passed and nobody takes is an error, as is a descriptor that can be no listener.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{AddressFamily, SocketType, sockopt};
use socket2::SockRef;

/// The first descriptor that a service manager passes.
const FIRST_DESCRIPTOR: RawFd = 3;

/// Descriptors that a service manager may pass.
const MAX_DESCRIPTORS: RawFd = 1024;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Connections over IPv4 or IPv6.
    Tcp,
    /// Datagrams over IPv4 or IPv6.
    Udp,
    /// Connections over a Unix socket.
    Unix,
    /// One end of a [`Link`](crate::Link) to the hub of QUIC on the same UDP socket in the process before.
    Link,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Tcp, Kind::Udp, Kind::Unix, Kind::Link];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tcp => "tcp",
            Kind::Udp => "udp",
            Kind::Unix => "unix",
            Kind::Link => "link",
        }
    }
}

/// The file of a Unix socket that we bound.
#[derive(Debug, Clone)]
pub struct SocketFile {
    pub(crate) path: PathBuf,
    /// Device and number. As long as the socket is open no other file can have them.
    pub(crate) identity: (u64, u64),
}

impl SocketFile {
    /// Removes it, unless somebody else has put another in its place.
    pub fn unlink(&self) {
        if identify(&self.path) == Some(self.identity) {
            // Gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and number of the file at `path`, if there is one.
pub(crate) fn identify(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// A bound socket on its way from one process to another.
#[derive(Debug, Clone)]
pub struct Passed {
    /// What it is for.
    pub kind: Kind,
    /// What it is matched by.
    pub key: String,
    /// The service manager has it as well, so that what is done to it outlives us.
    pub is_managed: bool,
    /// The file of a Unix socket that is ours to remove: its path, device and number.
    pub file: Option<(PathBuf, u64, u64)>,
    /// The socket.
    pub socket: Arc<OwnedFd>,
    /// Which descriptor it was, and what the service manager calls it; empty for one of our own.
    pub label: String,
}

impl Passed {
    /// One of our own.
    pub fn new(kind: Kind, key: String, socket: Arc<OwnedFd>) -> Passed {
        Passed { kind, key, is_managed: false, file: None, socket, label: String::new() }
    }

    /// Removes the file of a Unix socket that is ours to remove, unless somebody else has put another in its place.
    pub fn unlink(&self) {
        if let Some((path, device, number)) = &self.file {
            SocketFile { path: path.clone(), identity: (*device, *number) }.unlink();
        }
    }
}

/// Sockets that were passed to this process and that no listener has taken yet.
#[derive(Debug, Default)]
pub struct Inherited(Vec<Passed>);

impl Inherited {
    /// Those of a predecessor.
    pub fn of(sockets: Vec<Passed>) -> Inherited {
        Inherited(sockets)
    }

    /// Those that the service manager passed to this process (`LISTEN_PID`, `LISTEN_FDS`, `LISTEN_FDNAMES`). To be called once, before anything else
    /// is opened; afterwards there are none.
    ///
    /// # Errors
    /// Everything that is wrong with them, and what to change.
    pub fn from_manager() -> Result<Inherited, Vec<String>> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let is_ours = variable("LISTEN_PID") == std::process::id().to_string();
        if !is_ours || TAKEN.swap(true, Ordering::Relaxed) {
            return Ok(Inherited::default());
        }
        let count = number_of_descriptors(&variable("LISTEN_FDS")).map_err(|problem| vec![problem])?;
        let names = variable("LISTEN_FDNAMES");
        let mut names = names.split(':');
        let (mut sockets, mut problems) = (Vec::new(), Vec::new());
        for descriptor in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + count {
            let label = match names.next() {
                None | Some("") => format!("descriptor {descriptor}"),
                Some(name) => format!("descriptor {descriptor} (`{name}`)"),
            };
            match adopt(descriptor, &label) {
                Ok(passed) => sockets.push(passed),
                Err(problem) => problems.push(format!("LISTEN_FDS: {label} {problem}")),
            }
        }
        if problems.is_empty() { Ok(Inherited(sockets)) } else { Err(problems) }
    }

    /// Takes those of this kind and key; there may be several, one per worker.
    pub fn take(&mut self, kind: Kind, key: &str) -> Vec<Passed> {
        let (taken, rest) =
            std::mem::take(&mut self.0).into_iter().partition(|passed| passed.kind == kind && passed.key == key);
        self.0 = rest;
        taken
    }

    /// What is wrong with those that nobody took, if the service manager passed them.
    ///
    /// # Errors
    /// Each, and what to change.
    pub fn all_taken(&self) -> Result<(), Vec<String>> {
        let problem = |passed: &Passed| {
            let (section, directive) = match passed.kind {
                Kind::Tcp | Kind::Unix => ("listener", "ListenStream"),
                // A service manager passes no link.
                Kind::Udp | Kind::Link => ("udp_listener", "ListenDatagram"),
            };
            format!(
                "LISTEN_FDS: {} is bound to {}, and no {section} has that address; write it into `bind` as it stands here, or remove {directive}= from the .socket unit",
                passed.label, passed.key
            )
        };
        let problems: Vec<_> =
            self.0.iter().filter(|passed| passed.is_managed && !passed.label.is_empty()).map(problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Removes the files of Unix sockets that a predecessor had and that are not configured any more.
    pub fn discard(self) {
        self.0.iter().for_each(Passed::unlink);
    }
}

fn number_of_descriptors(text: &str) -> Result<RawFd, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = text.parse().ok().filter(|count| is_number && *count <= MAX_DESCRIPTORS);
    count.ok_or_else(|| {
        format!("LISTEN_FDS is `{text}`; it must be the number of sockets that are passed, 0 to {MAX_DESCRIPTORS}")
    })
}

/// Takes a descriptor that is what a listener needs.
fn adopt(descriptor: RawFd, label: &str) -> Result<Passed, String> {
    // SAFETY: it is only looked at, and if it is not open the kernel says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let (kind, key) = describe(borrowed)?;
    // SAFETY: it is an open listening or UDP socket, passed to this process for it to own (LISTEN_PID is its number), and `from_manager` takes each once,
    // before the process has opened any such socket itself.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let prepared = rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)
        .and_then(|()| rustix::io::ioctl_fionbio(&socket, true));
    prepared.map_err(|error| format!("cannot be used: {error}"))?;
    let socket = Arc::new(socket);
    Ok(Passed { kind, key, is_managed: true, file: None, socket, label: label.to_owned() })
}

/// What a descriptor is, as a listener: its kind, and the address it is bound to as the configuration writes it.
fn describe(descriptor: BorrowedFd<'_>) -> Result<(Kind, String), String> {
    let kind = match sockopt::socket_type(descriptor) {
        Ok(kind) => kind,
        Err(rustix::io::Errno::BADF) => return Err("is not open".to_owned()),
        Err(_) => {
            return Err("is no socket; the .socket unit may have ListenStream= and ListenDatagram= only".to_owned());
        }
    };
    let domain = sockopt::socket_domain(descriptor).map_err(|error| error.to_string())?;
    let socket = SockRef::from(&descriptor);
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    let is_ip = domain == AddressFamily::INET || domain == AddressFamily::INET6;
    let is_stream = kind == SocketType::STREAM;
    if is_stream && !sockopt::socket_acceptconn(descriptor).unwrap_or(false) {
        return Err("is a connection, not a listening socket; write Accept=no in the .socket unit".to_owned());
    }
    if let Some(address) = address.as_socket().filter(|_| is_ip && (is_stream || kind == SocketType::DGRAM)) {
        rejects_ipv4(&socket, address).map_err(|()| {
            format!(
                "is bound to {address} for IPv4, too; write BindIPv6Only=ipv6-only in the .socket unit, and a Listen…= of its own for 0.0.0.0:{}",
                address.port()
            )
        })?;
        return Ok((if is_stream { Kind::Tcp } else { Kind::Udp }, address.to_string()));
    }
    if domain == AddressFamily::UNIX && is_stream {
        let path = address.as_pathname().ok_or("is an abstract Unix socket; listeners have paths")?;
        return Ok((Kind::Unix, format!("unix:{}", path.display())));
    }
    Err("is neither a TCP, UDP nor Unix stream socket; write ListenStream= or ListenDatagram= in the .socket unit"
        .to_owned())
}

/// `bind` of both families on one port are two addresses, so one socket must not serve both.
fn rejects_ipv4(socket: &SockRef<'_>, address: SocketAddr) -> Result<(), ()> {
    let is_both = address.is_ipv6() && address.ip().is_unspecified() && !socket.only_v6().unwrap_or(true);
    if is_both { Err(()) } else { Ok(()) }
}

/// The address of a passed socket.
pub(crate) fn address_of(socket: &impl AsFd) -> io::Result<SocketAddr> {
    SockRef::from(socket).local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_descriptor_is_described_or_the_fix_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let connection = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let datagrams = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let both = std::net::TcpListener::bind("[::]:0");
        type Expected<'e> = Result<(Kind, String), &'e str>;
        let rows: [(BorrowedFd<'_>, Expected<'_>); 6] = [
            (tcp.as_fd(), Ok((Kind::Tcp, tcp.local_addr().unwrap().to_string()))),
            (udp.as_fd(), Ok((Kind::Udp, udp.local_addr().unwrap().to_string()))),
            (unix.as_fd(), Ok((Kind::Unix, format!("unix:{}", path.display())))),
            (connection.as_fd(), Err("Accept=no")),
            (datagrams.as_fd(), Err("ListenStream=")),
            (file.as_fd(), Err("no socket")),
        ];
        for (descriptor, expected) in rows {
            match (describe(descriptor), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{problem}"),
                (found, expected) => unreachable!("{found:?} instead of {expected:?}"),
            }
        }
        if let Ok(both) = both
            && !SockRef::from(&both).only_v6().unwrap()
        {
            assert!(describe(both.as_fd()).unwrap_err().contains("BindIPv6Only=ipv6-only"));
        }
    }

    #[test]
    fn the_number_of_descriptors_is_read_strictly() {
        for (text, expected) in [("0", Some(0)), ("3", Some(3)), ("1024", Some(1024))] {
            assert_eq!(number_of_descriptors(text).ok(), expected, "{text}");
        }
        for text in ["", "+1", "-1", " 1", "1025", "99999999999999999999", "x"] {
            assert!(number_of_descriptors(text).unwrap_err().contains("LISTEN_FDS"), "{text}");
        }
    }

    #[test]
    fn each_is_taken_once_and_the_manager_must_not_pass_others() {
        let socket = Arc::new(OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap()));
        let own = |key: &str| Passed::new(Kind::Tcp, key.to_owned(), Arc::clone(&socket));
        let managed = |key: &str| Passed { is_managed: true, label: "descriptor 3 (`web`)".to_owned(), ..own(key) };
        let mut inherited = Inherited::of(vec![own("a"), managed("b"), own("a")]);
        assert!(inherited.take(Kind::Udp, "a").is_empty());
        assert_eq!(inherited.take(Kind::Tcp, "a").len(), 2);
        assert!(inherited.take(Kind::Tcp, "a").is_empty());
        let problems = inherited.all_taken().unwrap_err();
        assert!(problems[0].contains("descriptor 3 (`web`) is bound to b"), "{problems:?}");
        inherited.take(Kind::Tcp, "b");
        assert_eq!(inherited.all_taken(), Ok(()));
        assert_eq!(Inherited::of(vec![own("c")]).all_taken(), Ok(()), "what a predecessor had may go");
    }
}
