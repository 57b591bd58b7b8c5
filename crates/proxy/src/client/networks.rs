//! Sets of addresses, exact however large each network is: who is trusted, who may pass, and who may not.
//!
//! Reads lists, in one form for whatever they are for, merges them into ranges, and looks an address up by bisection: a /8 costs what one address costs.

use std::net::IpAddr;
use std::path::Path;

use config::{canonical_network, network};
use ipnet::IpNet;

/// Largest list, bytes.
const MAX_LIST_BYTES: u64 = 64 * 1024 * 1024;

/// Problems of one list that are reported.
const MAX_PROBLEMS: usize = 10;

/// Addresses, as ranges without overlap in order. IPv4 stands where it does in IPv6 (`::ffff:0:0/96`), and a network of IPv6 leaves that out: what is in
/// a network, `config::is_in_network` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressSet {
    ranges: Vec<(u128, u128)>,
}

impl AddressSet {
    /// Reads a list from a file, as [`load_networks`] does.
    ///
    /// # Errors
    /// As there.
    pub fn load(path: &Path) -> Result<AddressSet, Vec<String>> {
        load_networks(path).map(|networks| AddressSet::of_ranges(networks.into_iter().flat_map(ranges).collect()))
    }

    /// As [`load`](AddressSet::load), of a text.
    ///
    /// # Errors
    /// `LINE: what is wrong`, for each.
    pub fn parse(text: &str) -> Result<AddressSet, Vec<String>> {
        parse_networks(text).map(|networks| AddressSet::of_ranges(networks.into_iter().flat_map(ranges).collect()))
    }

    /// Whether it holds nobody.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// These networks, and those that a file lists.
    ///
    /// # Errors
    /// As [`load`](AddressSet::load).
    pub fn of(networks: &[IpNet], file: Option<&Path>) -> Result<AddressSet, Vec<String>> {
        let mut ranges: Vec<_> = networks.iter().copied().flat_map(ranges).collect();
        if let Some(file) = file {
            ranges.extend(AddressSet::load(file)?.ranges);
        }
        Ok(AddressSet::of_ranges(ranges))
    }

    /// These networks.
    pub fn of_networks(networks: &[IpNet]) -> AddressSet {
        AddressSet::of_ranges(networks.iter().copied().flat_map(ranges).collect())
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
        self.last(|start| start <= number).is_some_and(|(_, end)| number <= end)
    }

    /// The last range whose start passes, where those that pass stand before those that do not: bisection, however long the list.
    fn last(&self, mut passes: impl FnMut(u128) -> bool) -> Option<(u128, u128)> {
        let after = self.ranges.partition_point(|(start, _)| passes(*start));
        after.checked_sub(1).and_then(|at| self.ranges.get(at)).copied()
    }
}

/// Reads a list from a file: one address or network in each line; blank lines, and what follows `#` or `;`, are comments.
///
/// # Errors
/// The file cannot be read, or what is wrong in which line.
pub fn load_networks(path: &Path) -> Result<Vec<IpNet>, Vec<String>> {
    let text = read_list(path).map_err(|problem| vec![problem])?;
    let place = |problem: String| format!("{}:{problem}", path.display());
    parse_networks(&text).map_err(|problems| problems.into_iter().map(place).collect())
}

fn parse_networks(text: &str) -> Result<Vec<IpNet>, Vec<String>> {
    let (mut networks, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let word = line.split(['#', ';']).next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        match network(word) {
            Ok(network) => networks.push(network),
            Err(problem) if problems.len() < MAX_PROBLEMS => problems.push(format!("{number}: {problem}")),
            Err(_) => {}
        }
    }
    if problems.is_empty() { Ok(networks) } else { Err(problems) }
}

/// The text of a list of bounded size.
pub fn read_list(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    keystore::files::text(path, MAX_LIST_BYTES).map_err(cannot)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// First and last address of IPv4 in IPv6.
const MAPPED: (u128, u128) = (0xffff << 32, 0xffff_ffff_ffff);

/// First and last address of each part, both of them in.
fn ranges(network: IpNet) -> impl Iterator<Item = (u128, u128)> {
    let network = canonical_network(network);
    let bits = u32::from(network.max_prefix_len() - network.prefix_len());
    let host = if bits >= 128 { u128::MAX } else { (1_u128 << bits) - 1 };
    let start = number(network.addr()) & !host;
    let end = start | host;
    // Of two networks one holds the other, or they are apart.
    let holds_mapped = matches!(network, IpNet::V6(_)) && start <= MAPPED.0 && MAPPED.1 <= end;
    let whole = (!holds_mapped).then_some((start, end));
    let before = (holds_mapped && start < MAPPED.0).then(|| (start, MAPPED.0 - 1));
    let after = (holds_mapped && MAPPED.1 < end).then(|| (MAPPED.1 + 1, end));
    [whole, before, after].into_iter().flatten()
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
        // As lists of others have them.
        let list =
            "\u{feff}# balancers\r\n10.0.0.0/8 ; SBL1\r\n\r\n  192.0.2.1  # one\n2001:db8::/32;two\n; none\n\t# none";
        for (address, expected) in
            [("10.1.2.3", true), ("192.0.2.1", true), ("2001:db8::7", true), ("192.0.2.2", false)]
        {
            check(list, address, expected);
        }
        check("", "10.0.0.1", false);
        check("::/0", "10.0.0.1", false);
        check("::/0", "::fffe:ffff:ffff", true);
        check("::/0", "0:0:0:0:1::", true);
        check("::ffff:0:0/96", "10.0.0.1", true);
        check("0.0.0.0/0", "255.255.255.255", true);
        check("0.0.0.0/0", "::1", false);
    }

    #[test]
    fn every_bad_line_is_named() {
        let problems = AddressSet::parse("10.0.0.1\nten\n10.0.0.0/33\n1.2.3\n10.1.2.3/8").unwrap_err();
        assert_eq!(problems.len(), 4);
        assert!(problems[0].starts_with("2: ") && problems[3].starts_with("5: "), "{problems:?}");
    }

    /// A set holds what one of its networks does, whatever the networks and the address.
    #[test]
    fn a_set_holds_what_its_networks_hold() {
        let mut random = fastrand::Rng::with_seed(36);
        let address = |random: &mut fastrand::Rng| match random.u8(..4) {
            0 => IpAddr::from(u32::to_be_bytes(random.choice([0, 0x0a00_0001, 0x7fff_ffff, u32::MAX]).unwrap())),
            1 => IpAddr::from(
                random.choice([0, 1, MAPPED.0 - 1, MAPPED.0, MAPPED.1, MAPPED.1 + 1]).unwrap().to_be_bytes(),
            ),
            2 => IpAddr::from((MAPPED.0 | u128::from(random.u32(..))).to_be_bytes()),
            _ => IpAddr::from(random.u128(..).to_be_bytes()),
        };
        for _ in 0..20_000 {
            let networks: Vec<IpNet> = (0..random.usize(1..4))
                .map(|_| {
                    let address = address(&mut random);
                    let most = if address.is_ipv4() { 32 } else { 128 };
                    IpNet::new(address, random.u8(..=most)).unwrap().trunc()
                })
                .collect();
            let set = AddressSet::of_networks(&networks);
            for _ in 0..4 {
                let address = address(&mut random);
                let expected = networks.iter().any(|network| config::is_in_network(network, address));
                assert_eq!(set.contains(address), expected, "{address} in {networks:?}");
            }
        }
    }

    /// Number `at` of a hundred thousand networks that do not touch: every second /24 from 1.0.0.0 on, and every second /48 from 2001:: on.
    fn network_of(at: u128) -> (u128, u128) {
        let first = match at < 50_000 {
            true => 0xffff_0100_0000 + at * 512,
            false => 0x2001 << 112 | (at - 50_000) << 81,
        };
        (first, first | if at < 50_000 { 0xff } else { (1 << 80) - 1 })
    }

    fn address_of(number: u128) -> IpAddr {
        std::net::Ipv6Addr::from(number).to_canonical()
    }

    /// A list as long as those of the internet's address registries, in no order.
    fn hundred_thousand() -> AddressSet {
        use std::fmt::Write as _;
        let mut text = String::new();
        for number in 0..100_000_u128 {
            // Coprime with the number of networks, so that each comes once.
            let at = number * 61_803 % 100_000;
            let bits = if at < 50_000 { 24 } else { 48 };
            writeln!(text, "{}/{bits} ; AS{number}", address_of(network_of(at).0)).unwrap();
        }
        AddressSet::parse(&text).unwrap()
    }

    #[test]
    fn a_hundred_thousand_networks_are_all_there() {
        let set = hundred_thousand();
        assert_eq!(set.ranges.len(), 100_000);
        for at in (0..100_000).step_by(97).chain([49_999, 50_000, 99_999]) {
            let (first, last) = network_of(at);
            for (number, expected) in [(first - 1, false), (first, true), (last, true), (last + 1, false)] {
                assert_eq!(set.contains(address_of(number)), expected, "{at}: {}", address_of(number));
            }
        }
    }

    /// What a lookup costs is counted, not timed: no more comparisons than a number below 2^17 has binary digits, and one.
    #[test]
    fn a_lookup_does_not_walk_the_list() {
        let set = hundred_thousand();
        let everywhere = (0..100_000).step_by(331).flat_map(|at| {
            let (first, last) = network_of(at);
            [first, last, last + 1]
        });
        for number in everywhere.chain([0, 1, u128::MAX, network_of(49_999).0, network_of(99_999).1]) {
            let mut compared = 0;
            let found = set.last(|start| {
                compared += 1;
                start <= number
            });
            assert!(compared <= 18, "{compared} comparisons for {}", address_of(number));
            let is_in = found.is_some_and(|(_, end)| number <= end);
            assert_eq!(is_in, set.contains(address_of(number)), "{}", address_of(number));
        }
    }
}
