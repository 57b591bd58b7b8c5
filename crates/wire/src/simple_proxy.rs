//! The Simple Proxy Protocol: 38 bytes in front of each datagram that say who it is really from.
//!
//! Owns reading and writing them. Does not decide whom to believe. The layout, all numbers in network byte order: magic `56EC`, the client's
//! address and the proxy's (16 bytes each, IPv4 mapped into IPv6), the client's port and the proxy's.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Length of a header, bytes.
pub const HEADER_BYTES: usize = 38;

const MAGIC: [u8; 2] = [0x56, 0xec];

/// Between whom a datagram is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Who sent it. IPv4 is reported as such.
    pub client: SocketAddr,
    /// What the client sent it to.
    pub proxy: SocketAddr,
}

/// Reads the header that a datagram begins with; none if it has none. What follows it is the datagram's own.
pub fn read(datagram: &[u8]) -> Option<Header> {
    let rest = datagram.strip_prefix(&MAGIC)?;
    let (client, rest) = rest.split_first_chunk::<16>()?;
    let (proxy, rest) = rest.split_first_chunk::<16>()?;
    let (client_port, rest) = rest.split_first_chunk::<2>()?;
    let proxy_port = rest.first_chunk::<2>()?;
    let address = |octets: &[u8; 16], port: &[u8; 2]| {
        SocketAddr::new(IpAddr::V6(Ipv6Addr::from(*octets)).to_canonical(), u16::from_be_bytes(*port))
    };
    Some(Header { client: address(client, client_port), proxy: address(proxy, proxy_port) })
}

/// Writes a header.
pub fn write(header: &Header) -> [u8; HEADER_BYTES] {
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let mut bytes = [0; HEADER_BYTES];
    bytes[..2].copy_from_slice(&MAGIC);
    bytes[2..18].copy_from_slice(&octets(header.client));
    bytes[18..34].copy_from_slice(&octets(header.proxy));
    bytes[34..36].copy_from_slice(&header.client.port().to_be_bytes());
    bytes[36..].copy_from_slice(&header.proxy.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn headers_survive_the_way_there_and_back() {
        for (client, proxy) in [("203.0.113.7:4711", "192.0.2.1:53"), ("[2001:db8::7]:1", "[2001:db8::1]:65535")] {
            let header = Header { client: client.parse().unwrap(), proxy: proxy.parse().unwrap() };
            let mut datagram = write(&header).to_vec();
            assert_eq!(read(&datagram), Some(header));
            datagram.extend_from_slice(b"payload");
            assert_eq!(read(&datagram), Some(header));
            for length in 0..HEADER_BYTES {
                assert_eq!(read(&datagram[..length]), None, "{length}");
            }
            datagram[1] ^= 1;
            assert_eq!(read(&datagram), None);
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let header = Header { client: "203.0.113.7:258".parse().unwrap(), proxy: "[2001:db8::1]:53".parse().unwrap() };
        let bytes = write(&header);
        assert_eq!(bytes[..2], [0x56, 0xec]);
        assert_eq!(bytes[2..18], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 203, 0, 113, 7]);
        assert_eq!(bytes[18..22], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(bytes[34..], [1, 2, 0, 53]);
    }
}
