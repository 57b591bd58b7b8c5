//! What a datagram says of where it comes from. Pure: whom to believe was decided before.

use std::net::SocketAddr;

use config::DatagramHeader;
use reason::Reason;
use wire::proxy_protocol::{self, Found, Origin, Transport, Version};
use wire::simple_proxy;

/// Length of the signature of version 2, which no datagram with a header is shorter than.
const SIGNATURE_BYTES: usize = 12;

/// How a line of version 1 begins.
const LINE_START: &[u8] = b"PROXY ";

/// What the beginning of a datagram turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// No header.
    Nothing,
    /// It comes from a client; the payload begins at `payload`.
    Client {
        /// Who sent it.
        client: SocketAddr,
        /// What the client sent it to.
        destination: SocketAddr,
        /// Length of the header, bytes.
        payload: usize,
    },
    /// It is the balancer's own, such as a health check.
    Balancer {
        /// Length of the header, bytes.
        payload: usize,
    },
    /// A header that must not be believed; a stable code says why.
    Wrong(Reason),
}

/// Reads the header that `mode` speaks of.
pub(super) fn read(mode: DatagramHeader, datagram: &[u8]) -> Said {
    match mode {
        DatagramHeader::Off => Said::Nothing,
        DatagramHeader::Simple => match simple_proxy::read(datagram) {
            Some(header) => {
                Said::Client { client: header.client, destination: header.proxy, payload: simple_proxy::HEADER_BYTES }
            }
            None => Said::Nothing,
        },
        DatagramHeader::Each | DatagramHeader::First | DatagramHeader::Auto => proxy(datagram),
    }
}

/// Version 2, or version 1, which is made for streams and which nginx puts on the first datagram of a session nevertheless.
fn proxy(datagram: &[u8]) -> Said {
    // What is too short for a signature has none.
    let is_line = datagram.starts_with(LINE_START);
    if !is_line && (datagram.len() < SIGNATURE_BYTES || datagram.first() != Some(&b'\r')) {
        return Said::Nothing;
    }
    let header = match proxy_protocol::read(datagram, proxy_protocol::MAX_HEADER_BYTES) {
        Ok(Found::Whole(header)) => header,
        Ok(Found::Absent) => return Said::Nothing,
        Ok(Found::Partial) => return Said::Wrong(Reason::ProxyHeaderTruncated),
        Err(_) => return Said::Wrong(Reason::ProxyHeaderInvalid),
    };
    let payload = header.len;
    match header.origin {
        // A line of version 1 has no word for datagrams.
        Origin::Inet { transport: Transport::Stream, .. } if header.version == Version::V2 => {
            Said::Wrong(Reason::ProxyHeaderNotUdp)
        }
        Origin::Inet { source, destination, .. } => {
            Said::Client { client: net::transparent::canonical(source), destination, payload }
        }
        Origin::Local | Origin::Unspecified | Origin::Unix { .. } => Said::Balancer { payload },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    fn v2(rest: &[u8]) -> Vec<u8> {
        [SIGNATURE, rest].concat()
    }

    const ADDRESSES: [u8; 12] = [203, 0, 113, 7, 192, 0, 2, 1, 0x12, 0x34, 0, 53];

    #[test]
    fn headers_are_reported_from_payload() {
        let check = |datagram: &[u8], expected: Said| {
            for mode in [DatagramHeader::Each, DatagramHeader::First, DatagramHeader::Auto] {
                assert_eq!(read(mode, datagram), expected, "{datagram:?}");
            }
            assert_eq!(read(DatagramHeader::Off, datagram), Said::Nothing);
        };
        let client = Said::Client {
            client: "203.0.113.7:4660".parse().unwrap(),
            destination: "192.0.2.1:53".parse().unwrap(),
            payload: 28,
        };
        check(&v2(&[&[0x21, 0x12, 0, 12], &ADDRESSES[..], b"payload"].concat()), client);
        check(&v2(&[&[0x21, 0x12, 0, 12], &ADDRESSES[..]].concat()), client);
        check(&v2(&[0x20, 0x00, 0, 0]), Said::Balancer { payload: 16 });
        check(&v2(&[0x21, 0x00, 0, 0]), Said::Balancer { payload: 16 });
        check(&v2(&[&[0x21, 0x11, 0, 12], &ADDRESSES[..]].concat()), Said::Wrong(Reason::ProxyHeaderNotUdp));
        check(&v2(&[&[0x21, 0x12, 0, 12], &ADDRESSES[..11]].concat()), Said::Wrong(Reason::ProxyHeaderTruncated));
        check(&v2(&[&[0x21, 0x12, 0, 11], &ADDRESSES[..]].concat()), Said::Wrong(Reason::ProxyHeaderInvalid));
        check(&v2(&[&[0x31, 0x12, 0, 12], &ADDRESSES[..]].concat()), Said::Wrong(Reason::ProxyHeaderInvalid));
        check(b"", Said::Nothing);
        check(b"\r\n", Said::Nothing);
        check(b"\r\n\r\n\0\r\nQUIX\n", Said::Nothing);
        let line = b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 53\r\n";
        let client_of_line = match client {
            Said::Client { client, destination, .. } => Said::Client { client, destination, payload: line.len() },
            other => other,
        };
        check(&[&line[..], b"payload"].concat(), client_of_line);
        check(line, client_of_line);
        check(&line[..20], Said::Wrong(Reason::ProxyHeaderTruncated));
        check(b"PROXY UNKNOWN\r\nq", Said::Balancer { payload: 15 });
        check(b"PROXY TCP4 203.0.113.7 192.0.2.1 4660 053\r\nq", Said::Wrong(Reason::ProxyHeaderInvalid));
        check(b"PROXY", Said::Nothing);
        check(b"PROXYING", Said::Nothing);
        check(SIGNATURE, Said::Wrong(Reason::ProxyHeaderTruncated));
    }

    #[test]
    fn the_simple_header_is_read_only_where_it_is_expected() {
        let header =
            simple_proxy::Header { client: "203.0.113.7:9".parse().unwrap(), proxy: "192.0.2.1:53".parse().unwrap() };
        let datagram = simple_proxy::write(&header);
        let expected = Said::Client { client: header.client, destination: header.proxy, payload: 38 };
        assert_eq!(read(DatagramHeader::Simple, &datagram), expected);
        assert_eq!(read(DatagramHeader::Simple, &datagram[..37]), Said::Nothing);
        assert_eq!(read(DatagramHeader::Each, &datagram), Said::Nothing);
    }
}
