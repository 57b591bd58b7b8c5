//! Whether an address is in a network: one meaning, for whatever the network stands for.
//!
//! Owns nothing but that. Sets of networks that are too long to walk are in `proxy::client`, and are tried against this.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// First bit of the IPv4 part of an IPv4-mapped address (RFC 4291 §2.5.5.2).
const MAPPED_BITS: u8 = 96;

/// Whether an address is in a network. IPv4 is IPv4 also where it is written as `::ffff:192.0.2.1`, of the address as of the network; any other IPv6
/// network holds IPv6 addresses alone, so that `::/0` is not everybody.
pub fn is_in_network(network: &IpNet, address: IpAddr) -> bool {
    canonical_network(*network).contains(&address.to_canonical())
}

/// A network inside of `::ffff:0:0/96` as the IPv4 network that it is; any other as it stands.
pub fn canonical_network(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let mapped = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(MAPPED_BITS));
    let v4 = mapped.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok());
    v4.map_or(network, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_in_networks_of_ipv4_alone() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:0:0/96", "10.1.2.3", true),
            ("::ffff:10.1.2.3/128", "::ffff:10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::/0", "10.1.2.3", false),
            ("::/0", "::ffff:10.1.2.3", false),
            ("::/1", "10.1.2.3", false),
            ("::/80", "10.1.2.3", false),
            ("::fffe:0:0/95", "10.1.2.3", false),
            ("::/0", "2001:db8::1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/96", "::10.1.2.3", true),
            ("10.0.0.0/8", "::10.1.2.3", false),
        ] {
            let is_in = is_in_network(&network.parse().unwrap(), address.parse().unwrap());
            assert_eq!(is_in, expected, "{address} in {network}");
        }
    }
}
