//! Sockets that leave this machine under somebody else's address: the client's own.
//!
//! Owns binding to a foreign source, the mark, and what is done when the exact pair of addresses is taken. Whether an address may be used so
//! is not decided here, nor how answers find back: `routing.rs` sets that up. Needs CAP_NET_ADMIN.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use rustix::thread::CapabilitySet;
use socket2::{Domain, Protocol, Socket, Type};

use crate::option::set_int;
use crate::stream::Stream;

/// Under which address something is sent onward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The client's address; none for our own, as the kernel chooses it. Port 0 for any port.
    pub address: Option<SocketAddr>,
    /// SO_MARK of the socket; 0 for none.
    pub mark: u32,
}

impl Source {
    /// Our own address, unmarked.
    pub const OWN: Source = Source { address: None, mark: 0 };
}

/// Undresses IPv4 that is mapped into IPv6. The interface of a link-local address stays (RFC 4007 §6): without it nobody there can be reached.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(whole), IpAddr::V6(ip)) => SocketAddrV6::new(ip, whole.port(), 0, whole.scope_id()).into(),
        (_, ip) => SocketAddr::new(ip, address.port()),
    }
}

/// Connects a TCP stream to `target` from `source`, with small writes sent at once. If the pair of addresses is in use already,
/// or the port is below 1024 and not ours to bind, another port of the same address is taken ([`Stream::port_kept`]).
///
/// # Errors
/// As the kernel says; [`io::ErrorKind::PermissionDenied`] without CAP_NET_ADMIN, [`io::ErrorKind::InvalidInput`] if the families
/// differ.
pub async fn connect_tcp(target: SocketAddr, source: Source) -> io::Result<Stream> {
    let target = canonical(target);
    let Some(address) = source.address.map(canonical) else {
        return connect_once(target, None, source.mark).await;
    };
    match connect_once(target, Some(address), source.mark).await {
        Err(error) if needs_another_port(&error, address.port()) => {
            connect_once(target, Some(at_any_port(address)), source.mark).await.map(Stream::at_other_port)
        }
        done => done,
    }
}

async fn connect_once(target: SocketAddr, source: Option<SocketAddr>, mark: u32) -> io::Result<Stream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM.nonblocking().cloexec(), None)?;
    socket.set_tcp_nodelay(true)?;
    // Others may hold the same local pair towards other targets.
    bind_source(&socket, target, source, mark, true)?;
    Stream::finish_connect(socket, &target.into()).await
}

/// A UDP socket that only exchanges datagrams with `target`, sending as `source`. Also tells whether the source's own port was kept.
///
/// # Errors
/// As [`connect_tcp`].
pub(crate) fn connect_udp(target: SocketAddr, source: Source) -> io::Result<(Socket, bool)> {
    let target = canonical(target);
    let connect = |address: Option<SocketAddr>| {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(target), kind, Some(Protocol::UDP))?;
        // Not shared: of two sockets with one pair of addresses, answers would reach only one.
        bind_source(&socket, target, address, source.mark, false)?;
        socket.connect(&target.into())?;
        Ok(socket)
    };
    let address = source.address.map(canonical);
    match (connect(address), address) {
        (Err(error), Some(address)) if needs_another_port(&error, address.port()) => {
            Ok((connect(Some(at_any_port(address)))?, false))
        }
        (done, _) => Ok((done?, true)),
    }
}

fn at_any_port(mut address: SocketAddr) -> SocketAddr {
    address.set_port(0);
    address
}

fn bind_source(
    socket: &Socket,
    target: SocketAddr,
    source: Option<SocketAddr>,
    mark: u32,
    shared: bool,
) -> io::Result<()> {
    if mark != 0 {
        socket.set_mark(mark)?;
    }
    let Some(source) = source else { return Ok(()) };
    if source.is_ipv4() != target.is_ipv4() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the client and the target are of different families"));
    }
    match source.ip() {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        IpAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    if shared && source.port() != 0 {
        socket.set_reuse_address(true)?;
    }
    if source.port() == 0 {
        // The port is then chosen at connect, among those free towards this target.
        set_int(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    }
    socket.bind(&source.into())
}

/// Whether another port of the same address may help: the pair of addresses, or the port, is in use, or the port needs CAP_NET_BIND_SERVICE.
fn needs_another_port(error: &io::Error, port: u16) -> bool {
    match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable => port != 0,
        // Where the address itself may not be used, the other port fails alike and says so.
        io::ErrorKind::PermissionDenied => (1..1024).contains(&port),
        _ => false,
    }
}

/// Whether this thread may use foreign addresses. Marks and routes need CAP_NET_ADMIN; for addresses alone CAP_NET_RAW would do as well.
pub fn is_permitted() -> bool {
    let either = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.intersects(either))
}
