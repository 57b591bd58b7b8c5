//! The addresses of this machine, as they are now.
//!
//! Asked for once; after that the kernel tells of changes. Looking whether it has is one call that does not wait, made once in a tick of the coarse clock
//! (some milliseconds) at most, so that it costs nothing per connection.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::clock::coarse;
use crate::netlink::{Message, Netlink};

const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// Length of an `ifaddrmsg`.
const FIXED_BYTES: usize = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const BROADCAST: u16 = 4;
/// News of IPv4 and IPv6 addresses.
const GROUPS: u32 = 0x10 | 0x100;

/// The addresses of all interfaces, and the broadcast addresses of their networks.
#[derive(Debug)]
pub struct OwnAddresses {
    news: Netlink,
    looked: Duration,
    /// There were news, and what is known is older.
    is_stale: bool,
    known: HashSet<IpAddr>,
}

impl OwnAddresses {
    /// Asks for them.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn open() -> io::Result<OwnAddresses> {
        // Told of changes before it asks, so that none falls between.
        let news = Netlink::open(GROUPS)?;
        Ok(OwnAddresses { news, looked: coarse(), is_stale: false, known: ask()? })
    }

    /// Whether an address is one of them now. What cannot be known is taken for one.
    pub fn contains(&mut self, address: IpAddr) -> bool {
        let now = coarse();
        if now != self.looked {
            self.looked = now;
            self.is_stale |= self.news.has_news();
        }
        if self.is_stale {
            let Ok(known) = ask() else { return true };
            (self.known, self.is_stale) = (known, false);
        }
        self.known.contains(&address.to_canonical())
    }
}

fn ask() -> io::Result<HashSet<IpAddr>> {
    let responses = Netlink::open(0)?.dump(&Message::new(GET_ADDRESS, &[0; FIXED_BYTES]))?;
    let mut known = HashSet::new();
    for message in responses.iter().filter(|message| message.kind == NEW_ADDRESS) {
        for (kind, value) in message.attributes(FIXED_BYTES) {
            let Some(address) = address(value).filter(|_| matches!(kind, ADDRESS | LOCAL | BROADCAST)) else {
                continue;
            };
            known.insert(address);
            known.extend(bounds(address, message.byte(1)));
        }
    }
    Ok(known)
}

/// The first and last address of an IPv4 network, which are broadcasts whether that was set up or not.
fn bounds(address: IpAddr, length: u8) -> Vec<IpAddr> {
    let IpAddr::V4(address) = address else { return Vec::new() };
    if length > 30 {
        return Vec::new();
    }
    let host = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
    let bits = u32::from(address);
    [bits & !host, bits | host].map(|bits| IpAddr::from(Ipv4Addr::from(bits))).to_vec()
}

/// Four or sixteen bytes as an address.
pub(crate) fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(|octets| Ipv4Addr::from(octets).into()),
        16 => <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn loopback_is_ours_and_documentation_is_not() {
        let mut own = OwnAddresses::open().unwrap();
        assert!(own.contains(Ipv4Addr::LOCALHOST.into()));
        assert!(own.contains("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!own.contains("203.0.113.77".parse().unwrap()));
    }

    #[test]
    fn networks_begin_and_end_with_broadcasts() {
        let check = |address: &str, length: u8, expected: &str| {
            let shown: Vec<String> = bounds(address.parse().unwrap(), length).iter().map(IpAddr::to_string).collect();
            assert_eq!(shown.join(" "), expected, "{address}/{length}");
        };
        check("192.0.2.77", 24, "192.0.2.0 192.0.2.255");
        check("192.0.2.77", 30, "192.0.2.76 192.0.2.79");
        check("192.0.2.77", 31, "");
        check("192.0.2.77", 32, "");
        check("10.1.2.3", 0, "0.0.0.0 255.255.255.255");
        check("2001:db8::1", 64, "");
    }
}
