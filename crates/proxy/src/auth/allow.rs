//! Sets of client addresses, exact however large each network is: who may speak, and who may not.
//!
//! Reads the list, merges it into ranges, and looks an address up by bisection: a /8 costs what one address costs. Does not know how the
//! true client is found; that is `client.rs`.

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;

/// Largest list, bytes.
const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;

/// Addresses, as ranges without overlap in order. IPv4 stands where it does in IPv6 (`::ffff:0:0/96`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressSet {
    ranges: Vec<(u128, u128)>,
}

impl AddressSet {
    /// Reads a list: one address or network in each line; empty lines and lines that begin with `#` do not count.
    ///
    /// # Errors
    /// The file cannot be read, or what is wrong in which line, all of them.
    pub fn load(path: &Path) -> Result<AddressSet, Vec<String>> {
        let text = read_list(path).map_err(|problem| vec![problem])?;
        AddressSet::parse(&text)
            .map_err(|problems| problems.into_iter().map(|problem| format!("{}:{problem}", path.display())).collect())
    }

    /// As [`load`](AddressSet::load), of a text.
    ///
    /// # Errors
    /// `LINE: what is wrong`, for each.
    pub fn parse(text: &str) -> Result<AddressSet, Vec<String>> {
        let (mut ranges, mut problems) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match network(line) {
                Some(network) => ranges.push(range(network)),
                None => problems.push(format!("{}: this is no address and no network", index + 1)),
            }
        }
        if !problems.is_empty() {
            problems.truncate(100);
            return Err(problems);
        }
        Ok(AddressSet::of_ranges(ranges))
    }

    /// These networks, and those that a file lists.
    ///
    /// # Errors
    /// As [`load`](AddressSet::load).
    pub fn of(networks: &[IpNet], file: Option<&Path>) -> Result<AddressSet, Vec<String>> {
        let mut ranges: Vec<_> = networks.iter().copied().map(range).collect();
        if let Some(file) = file {
            ranges.extend(AddressSet::load(file)?.ranges);
        }
        Ok(AddressSet::of_ranges(ranges))
    }

    fn of_ranges(mut ranges: Vec<(u128, u128)>) -> AddressSet {
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match merged.last_mut() {
                Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        AddressSet { ranges: merged }
    }

    /// Whether this address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let number = number(address);
        let after = self.ranges.partition_point(|(start, _)| *start <= number);
        after.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|(_, end)| number <= *end)
    }
}

/// The text of a list of bounded size.
pub(super) fn read_list(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    keystore::files::text(path, MAX_LIST_BYTES).map_err(cannot)
}

fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// First and last address, both of them in.
fn range(network: IpNet) -> (u128, u128) {
    let bits = u32::from(network.max_prefix_len() - network.prefix_len());
    let host = if bits >= 128 { u128::MAX } else { (1_u128 << bits) - 1 };
    let start = number(network.addr()) & !host;
    (start, start | host)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn check(list: &str, address: &str, expected: bool) {
        let allowed = AddressSet::parse(list).unwrap();
        assert_eq!(allowed.contains(address.parse().unwrap()), expected, "{address} in {list:?}");
    }

    #[test]
    fn both_ends_of_a_network_are_in_it_and_nothing_beyond() {
        let list = "10.0.0.0/8\n # the office\n192.0.2.7\n2001:db8::/64\n192.0.2.8/31\n\n10.1.0.0/16";
        for address in
            ["10.0.0.0", "10.255.255.255", "192.0.2.7", "192.0.2.8", "192.0.2.9", "2001:db8::", "::ffff:10.0.0.1"]
        {
            check(list, address, true);
        }
        check(list, "2001:db8:0:0:ffff:ffff:ffff:ffff", true);
        for address in
            ["9.255.255.255", "11.0.0.0", "192.0.2.6", "192.0.2.10", "2001:db8:0:1::", "2001:db7:ffff::", "::"]
        {
            check(list, address, false);
        }
        check("", "10.0.0.1", false);
        check("::/0", "10.0.0.1", true);
        check("0.0.0.0/0", "255.255.255.255", true);
        check("0.0.0.0/0", "::1", false);
    }

    #[test]
    fn every_bad_line_is_named() {
        let problems = AddressSet::parse("10.0.0.1\nten\n10.0.0.0/33\n1.2.3").unwrap_err();
        assert_eq!(problems.len(), 3);
        assert!(problems[0].starts_with("2: ") && problems[2].starts_with("4: "), "{problems:?}");
    }
}
