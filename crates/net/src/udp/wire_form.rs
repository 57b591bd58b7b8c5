//! Socket addresses and control messages as the kernel lays them out, written and read as bytes.
//!
//! Does no call; ruled by `ip(7)`, `ipv6(7)`, `cmsg(3)` and `udp(7)`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for a `sockaddr_in6`, the larger of the two.
pub(super) const NAME_BYTES: usize = 28;

/// A socket address as the kernel has it.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(super) struct Name(pub(super) [u8; NAME_BYTES]);

impl Name {
    pub(super) const EMPTY: Name = Name([0; NAME_BYTES]);

    /// Writes an address; gives its length.
    pub(super) fn set(&mut self, address: SocketAddr) -> u32 {
        let Name(bytes) = self;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(address) => {
                bytes[..2].copy_from_slice(&family(libc::AF_INET));
                bytes[4..8].copy_from_slice(&address.ip().octets());
                bytes[8..16].fill(0);
                16
            }
            SocketAddr::V6(address) => {
                bytes[..2].copy_from_slice(&family(libc::AF_INET6));
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..].copy_from_slice(&address.scope_id().to_ne_bytes());
                28
            }
        }
    }

    /// Reads an address; none if the kernel wrote none.
    pub(super) fn get(&self) -> Option<SocketAddr> {
        let Name(bytes) = self;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let found = [bytes[0], bytes[1]];
        if found == family(libc::AF_INET) {
            let octets: [u8; 4] = bytes[4..8].try_into().ok()?;
            return Some(SocketAddr::new(Ipv4Addr::from(octets).into(), port));
        }
        if found == family(libc::AF_INET6) {
            let octets: [u8; 16] = bytes[8..24].try_into().ok()?;
            let scope = u32::from_ne_bytes(bytes[24..].try_into().ok()?);
            return Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope)));
        }
        None
    }
}

fn family(family: libc::c_int) -> [u8; 2] {
    u16::try_from(family).unwrap_or(0).to_ne_bytes()
}

/// The bits of a traffic class that are for congestion notification (RFC 3168 §5).
const ECN_BITS: u8 = 0x03;

/// Length of a control message's head: its length, level and type.
const HEAD_BYTES: usize = size_of::<usize>() + 8;

/// Control messages beside a datagram.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(super) struct Control(pub(super) [u8; Control::BYTES]);

/// An address of ours that a datagram came to, or is to leave from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// The address.
    pub ip: IpAddr,
    /// The interface, for addresses that mean nothing without it (RFC 4007 §6): link-local ones, and groups. 0 for others, which leave by any.
    interface: u32,
}

impl LocalAddress {
    /// An address, and the interface (its index; 0 for any) that it was reached by.
    pub fn new(ip: IpAddr, interface: u32) -> LocalAddress {
        let needs_interface = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local() || ip.is_multicast());
        LocalAddress { ip, interface: if needs_interface { interface } else { 0 } }
    }
}

/// What control messages tell of an arrival.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The address of ours it came to.
    pub(super) to: Option<LocalAddress>,
    /// Length of each of the joined datagrams but the last; 0 for a single one.
    pub(super) segment: usize,
    /// Explicit congestion notification.
    pub(super) ecn: u8,
}

impl Control {
    /// Room for an `in6_pktinfo`, a segment length and a traffic class.
    pub(super) const BYTES: usize = 96;
    pub(super) const EMPTY: Control = Control([0; Control::BYTES]);

    /// Appends a message behind `used` bytes; gives the bytes used then.
    fn push(&mut self, used: usize, level: libc::c_int, kind: libc::c_int, data: &[u8]) -> usize {
        let length = HEAD_BYTES + data.len();
        let end = used + length.next_multiple_of(size_of::<usize>());
        let Some(place) = self.0.get_mut(used..end) else { return used };
        place.fill(0);
        place[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
        place[size_of::<usize>()..][..4].copy_from_slice(&level.to_ne_bytes());
        place[size_of::<usize>() + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
        place[HEAD_BYTES..][..data.len()].copy_from_slice(data);
        end
    }

    /// Lets the datagram leave from `source`.
    pub(super) fn push_source(&mut self, used: usize, source: LocalAddress) -> usize {
        match source.ip {
            IpAddr::V4(ip) => {
                // Interface by route, then the source, then a field that means nothing here.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                self.push(used, libc::SOL_IP, libc::IP_PKTINFO, &info)
            }
            IpAddr::V6(ip) => {
                let mut info = [0; 20];
                // Nothing leaves from a group: then the kernel chooses an address of the interface.
                if !ip.is_multicast() {
                    info[..16].copy_from_slice(&ip.octets());
                }
                info[16..].copy_from_slice(&source.interface.to_ne_bytes());
                self.push(used, libc::SOL_IPV6, libc::IPV6_PKTINFO, &info)
            }
        }
    }

    /// Marks the datagram for congestion notification.
    pub(super) fn push_ecn(&mut self, used: usize, is_v6: bool, ecn: u8) -> usize {
        let class = libc::c_int::from(ecn & ECN_BITS).to_ne_bytes();
        match is_v6 {
            true => self.push(used, libc::SOL_IPV6, libc::IPV6_TCLASS, &class),
            false => self.push(used, libc::SOL_IP, libc::IP_TOS, &class),
        }
    }

    /// Lets the kernel cut what is sent into datagrams of this length.
    pub(super) fn push_segment(&mut self, used: usize, bytes: u16) -> usize {
        self.push(used, libc::SOL_UDP, libc::UDP_SEGMENT, &bytes.to_ne_bytes())
    }

    /// Reads the first `used` bytes.
    pub(super) fn arrival(&self, used: usize) -> Arrival {
        let mut arrival = Arrival::default();
        let mut rest = self.0.get(..used).unwrap_or_default();
        while let Some((length, level, kind, data)) = first_message(rest) {
            match (level, kind) {
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    // The second field is the address that responses leave from; the third one, where the header said it goes, may be a group or broadcast.
                    let address = |at: std::ops::Range<usize>| data.get(at)?.first_chunk().copied().map(Ipv4Addr::from);
                    let own = address(4..8).filter(|own| !own.is_unspecified()).or_else(|| address(8..12));
                    arrival.to = own.map(|ip| LocalAddress::new(ip.into(), 0));
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    let interface = data
                        .get(16..)
                        .and_then(|index| index.first_chunk())
                        .map_or(0, |index| u32::from_ne_bytes(*index));
                    let address = data.first_chunk::<16>().copied().map(Ipv6Addr::from);
                    arrival.to = address.map(|ip| LocalAddress::new(ip.into(), interface));
                }
                // The class is one byte of IPv4's header; of IPv6's the kernel makes an int.
                (libc::SOL_IP, libc::IP_TOS) => arrival.ecn = data.first().map_or(0, |class| class & ECN_BITS),
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    let class = data.first_chunk().map_or(0, |class| libc::c_int::from_ne_bytes(*class));
                    arrival.ecn = class as u8 & ECN_BITS;
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let bytes = data.get(..4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
                    arrival.segment = bytes.map_or(0, |bytes| usize::try_from(i32::from_ne_bytes(bytes)).unwrap_or(0));
                }
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        }
        arrival
    }
}

/// Length, level, type and data of the message that `bytes` begin with.
fn first_message(bytes: &[u8]) -> Option<(usize, libc::c_int, libc::c_int, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (level, rest) = rest.split_first_chunk()?;
    let (kind, _) = rest.split_first_chunk()?;
    let length = usize::from_ne_bytes(*length);
    let data = bytes.get(HEAD_BYTES..length)?;
    Some((length, i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn addresses_survive_the_way_there_and_back() {
        for text in ["203.0.113.7:65535", "0.0.0.0:0", "[2001:db8::1]:53", "[fe80::1%7]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut name = Name([0xff; NAME_BYTES]);
            name.set(address);
            assert_eq!(name.get(), Some(address), "{text}");
        }
        assert_eq!(Name::EMPTY.get(), None);
    }

    #[test]
    fn control_messages_are_read_as_the_kernel_writes_them() {
        let mut control = Control::EMPTY;
        let mut info = [0; 20];
        info[..16].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        let used = control.push(0, libc::SOL_IPV6, libc::IPV6_PKTINFO, &info);
        let used = control.push(used, libc::SOL_UDP, libc::UDP_GRO, &1200_i32.to_ne_bytes());
        let used = control.push_ecn(used, true, 2);
        let expected = Arrival { to: Some(LocalAddress::new(Ipv6Addr::LOCALHOST.into(), 0)), segment: 1200, ecn: 2 };
        assert_eq!(control.arrival(used), expected);
        assert_eq!(control.arrival(0), Arrival::default());
        let used = control.push(0, libc::SOL_SOCKET, 29, &[0; 16]);
        let used = control.push_ecn(used, false, 1);
        assert_eq!(control.arrival(used), Arrival { ecn: 1, ..Arrival::default() }, "behind what is not known");
        // A message that claims to be longer than the buffer, or shorter than its own head, ends the reading.
        for length in [usize::MAX, 4096, 3, 0] {
            control.0[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(control.arrival(used), Arrival::default(), "{length}");
        }
    }
}
