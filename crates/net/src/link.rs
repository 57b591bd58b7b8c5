//! Datagrams of one UDP socket that two processes read, on their way from the one to the other: a connected pair of Unix sockets that keep messages whole
//! (unix(7), SOCK_SEQPACKET). Nothing waits: what the other process does not read in time is lost, as on any hop.
//!
//! A message is a header of fixed length, then the datagram.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use socket2::SockRef;
use tokio::io::unix::AsyncFd;

/// Flags, ECN, port, scope, two addresses of 16 bytes.
const HEADER_BYTES: usize = 40;

/// The longest datagram there can be.
const MAX_DATAGRAM_BYTES: usize = 65_535;

/// What the kernel may hold for the other process until that reads it, bytes; less where the system's bound is lower.
const BUFFER_BYTES: usize = 1024 * 1024;

/// The address the datagram came from is of IPv6.
const FROM_IPV6: u8 = 1;

/// It is known which address it came to.
const HAS_TO: u8 = 2;

/// That one is of IPv6.
const TO_IPV6: u8 = 4;

/// A datagram that another process received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linked<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The address of ours it came to, if the kernel said so.
    pub to: Option<IpAddr>,
    /// Its mark of congestion (RFC 3168 §5): two bits.
    pub ecn: u8,
    /// What it holds.
    pub bytes: &'a [u8],
}

impl Linked<'_> {
    fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let flags = if self.from.is_ipv6() { FROM_IPV6 } else { 0 }
            | if self.to.is_some() { HAS_TO } else { 0 }
            | if self.to.is_some_and(|to| to.is_ipv6()) { TO_IPV6 } else { 0 };
        let scope = if let SocketAddr::V6(from) = self.from { from.scope_id() } else { 0 };
        header[0] = flags;
        header[1] = self.ecn & 3;
        header[2..4].copy_from_slice(&self.from.port().to_be_bytes());
        header[4..8].copy_from_slice(&scope.to_be_bytes());
        header[8..24].copy_from_slice(&octets(self.from.ip()));
        header[24..].copy_from_slice(&self.to.map_or([0; 16], octets));
        header
    }

    /// What a message says; none if it is no such message.
    fn parse(message: &[u8]) -> Option<Linked<'_>> {
        let (&[flags, ecn, high, low], rest) = message.split_first_chunk()?;
        let (scope, rest) = rest.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (to, bytes) = rest.split_first_chunk()?;
        let is_known = matches!(flags, 0..=3 | 6..=7) && ecn <= 3 && !bytes.is_empty();
        let port = u16::from_be_bytes([high, low]);
        let from = match address(from, flags & FROM_IPV6 != 0) {
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, u32::from_be_bytes(*scope)).into(),
            ip => SocketAddr::new(ip, port),
        };
        let to = (flags & HAS_TO != 0).then(|| address(to, flags & TO_IPV6 != 0));
        is_known.then_some(Linked { from, to, ecn, bytes })
    }
}

/// An address in 16 bytes; one of IPv4 stands in the first four.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V6(ip) => ip.octets(),
        IpAddr::V4(ip) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&ip.octets());
            octets
        }
    }
}

fn address(octets: &[u8; 16], is_ipv6: bool) -> IpAddr {
    let [a, b, c, d, ..] = *octets;
    if is_ipv6 { Ipv6Addr::from(*octets).into() } else { Ipv4Addr::new(a, b, c, d).into() }
}

/// One end, registered with the runtime of a thread.
#[derive(Debug)]
pub struct Link {
    socket: AsyncFd<OwnedFd>,
    room: Box<[u8]>,
}

impl Link {
    /// Two ends that are connected.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&one, &other] {
            // With less room more is lost.
            let _ = SockRef::from(end).set_send_buffer_size(BUFFER_BYTES);
        }
        Ok((one, other))
    }

    /// An end, in the runtime of the calling thread.
    ///
    /// # Errors
    /// It cannot be registered.
    pub fn of(end: OwnedFd) -> io::Result<Link> {
        let room = vec![0; HEADER_BYTES + MAX_DATAGRAM_BYTES].into_boxed_slice();
        // SAFETY: an `OwnedFd` gives the same open descriptor for as long as the `AsyncFd` holds it, and nothing else can close it.
        let socket = unsafe { AsyncFd::register(end) }?;
        Ok(Link { socket, room })
    }

    /// Passes a datagram on, or loses it. False if the other end is closed.
    pub fn pass(&self, datagram: Linked<'_>) -> bool {
        let header = datagram.header();
        let parts = [IoSlice::new(&header), IoSlice::new(datagram.bytes)];
        let (flags, mut nothing) =
            (SendFlags::NOSIGNAL | SendFlags::DONTWAIT, rustix::net::SendAncillaryBuffer::default());
        match rustix::net::sendmsg(self.socket.get_ref(), &parts, &mut nothing, flags) {
            Ok(_) => true,
            Err(error) => !matches!(error, rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET),
        }
    }

    /// Takes the next datagram; none if the other end is closed.
    ///
    /// # Errors
    /// The other end says what is no datagram, or the socket cannot be read.
    pub fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Linked<'_>>>> {
        let count = loop {
            let mut ready = ready!(self.socket.poll_read_ready(context))?;
            match rustix::net::recv(ready.get_inner(), &mut *self.room, RecvFlags::DONTWAIT) {
                Ok((_, count)) => break count,
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(rustix::io::Errno::CONNRESET) => break 0,
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        };
        let message = self.room.get(..count).filter(|message| !message.is_empty());
        let told = message.map(|message| Linked::parse(message).ok_or(io::ErrorKind::InvalidData.into()));
        Poll::Ready(told.transpose())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::poll_fn;

    use super::*;

    fn datagrams() -> Vec<Linked<'static>> {
        let addresses = ["192.0.2.1:443", "[2001:db8::1]:65535", "[fe80::1%7]:1"].map(|text| text.parse().unwrap());
        let to = [None, Some("198.51.100.7".parse().unwrap()), Some("2001:db8::2".parse().unwrap())];
        let all = addresses.into_iter().flat_map(|from| to.map(|to| (from, to)));
        all.flat_map(|(from, to)| [0, 3].map(|ecn| Linked { from, to, ecn, bytes: b"quic" })).collect()
    }

    #[test]
    fn a_message_says_what_was_put_in_and_anything_else_is_none() {
        for datagram in datagrams() {
            let message = [&datagram.header()[..], datagram.bytes].concat();
            assert_eq!(Linked::parse(&message), Some(datagram));
            for length in 0..=HEADER_BYTES {
                assert_eq!(Linked::parse(&message[..length]), None, "{length} bytes");
            }
        }
        let mut message = [&datagrams()[0].header()[..], b"x"].concat();
        for (place, value) in [(0, 4), (0, 5), (0, 8), (0, 255), (1, 4), (1, 255)] {
            let before = std::mem::replace(&mut message[place], value);
            assert_eq!(Linked::parse(&message), None, "byte {place} is {value}");
            message[place] = before;
        }
        assert!(Linked::parse(&message).is_some());
    }

    #[tokio::test]
    async fn datagrams_pass_either_way_until_one_end_is_closed() {
        let (one, other) = Link::pair().unwrap();
        let (mut one, mut other) = (Link::of(one).unwrap(), Link::of(other).unwrap());
        for datagram in datagrams() {
            assert!(one.pass(datagram) && other.pass(datagram));
            for end in [&mut one, &mut other] {
                let taken =
                    poll_fn(|context| end.poll_take(context).map(|taken| taken.unwrap() == Some(datagram))).await;
                assert!(taken, "{datagram:?}");
            }
        }
        let longest = Linked { bytes: &[7; MAX_DATAGRAM_BYTES], ..datagrams()[0] };
        assert!(one.pass(longest));
        assert!(poll_fn(|context| other.poll_take(context).map(|taken| taken.unwrap() == Some(longest))).await);
        drop(one);
        assert!(poll_fn(|context| other.poll_take(context).map(|taken| taken.unwrap().is_none())).await);
        assert!(!other.pass(longest));
    }

    #[tokio::test]
    async fn one_that_nobody_reads_loses_datagrams_and_blocks_nobody() {
        let (one, _other) = Link::pair().unwrap();
        let one = Link::of(one).unwrap();
        let datagram = Linked { bytes: &[0; 1200], ..datagrams()[0] };
        assert!((0..10_000).all(|_| one.pass(datagram)));
    }
}
