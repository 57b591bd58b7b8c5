//! Ordered rules about addresses, of which the first that fits counts, as the two lists of a policy: who may, and who may not even then.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Most networks of a list that is computed.
const MAX_NETWORKS: usize = 4_096;

/// The first and the last of the addresses of IPv6 that stand for those of IPv4 (RFC 4291 §2.5.5.2).
const MAPPED: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

/// The same as a network.
pub(crate) const MAPPED_NETWORK: &str = "::ffff:0:0/96";

/// A rule: whether these may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) allows: bool,
    /// None for everybody.
    pub(crate) network: Option<IpNet>,
}

/// The lists of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    /// None for everybody.
    pub(crate) allow: Option<Vec<IpNet>>,
    pub(crate) deny: Vec<IpNet>,
}

/// An address that no client has: who only lets it pass lets nobody pass.
pub(crate) const NOBODY: &str = "0.0.0.0";

/// Reads an address or a network, whose bits beyond the prefix do not matter.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    let parsed = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    parsed.map(|network| network.trunc())
}

/// Whether a network is one of IPv4 addresses mapped to IPv6 ones (RFC 4291 §2.5.5.2), and of no others.
pub(crate) fn is_mapped(network: &IpNet) -> bool {
    match network {
        IpNet::V4(_) => false,
        IpNet::V6(own) => own.prefix_len() >= 96 && own.network().to_ipv4_mapped().is_some(),
    }
}

/// Whether the reader of configurations takes this for a host.
pub(crate) fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Whether a text is a host with an optional port.
pub(crate) fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    (is_host(host) || literal.is_some_and(|literal| literal.parse::<Ipv6Addr>().is_ok()))
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// The lists that let pass whom the rules let pass; who fits none of them passes if `otherwise`.
///
/// # Errors
/// The lists would be too long.
pub(crate) fn lists(rules: &[Rule], otherwise: bool) -> Result<Lists, ()> {
    let wanted = [Set::of(rules, otherwise, true), Set::of(rules, otherwise, false)];
    if wanted.iter().all(Set::is_all) {
        return Ok(Lists::default());
    }
    // As they are written, if that means the same.
    let named = |allows: bool| -> Vec<IpNet> {
        let mut networks: Vec<IpNet> = Vec::new();
        let of = rules.iter().filter(|rule| rule.allows == allows).filter_map(|rule| rule.network);
        of.for_each(|network| {
            if !networks.contains(&network) {
                networks.push(network)
            }
        });
        networks
    };
    let decides = rules.iter().find(|rule| rule.network.is_none()).map_or(otherwise, |rule| rule.allows);
    let candidate = match decides {
        true => Lists { allow: None, deny: named(false) },
        false => Lists { allow: Some(named(true)), deny: named(false) },
    };
    for candidate in [Lists { deny: Vec::new(), ..candidate.clone() }, candidate] {
        if candidate.sets() == wanted {
            return Ok(candidate);
        }
    }
    let mut allow = Vec::new();
    wanted.iter().zip([true, false]).try_for_each(|(set, v4)| set.networks(v4, &mut allow))?;
    Ok(Lists { allow: Some(allow), deny: Vec::new() })
}

/// The networks of those whom the rules let pass; who fits none of them passes if `otherwise`.
///
/// # Errors
/// They would be too many.
pub(crate) fn networks(rules: &[Rule], otherwise: bool) -> Result<Vec<IpNet>, ()> {
    let mut out = Vec::new();
    [true, false].into_iter().try_for_each(|v4| Set::of(rules, otherwise, v4).networks(v4, &mut out))?;
    Ok(out)
}

impl Lists {
    /// Whether everybody passes.
    pub(crate) fn is_open(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    fn sets(&self) -> [Set; 2] {
        let deny = self.deny.iter().map(|network| Rule { allows: false, network: Some(*network) });
        let allow = self.allow.iter().flatten().map(|network| Rule { allows: true, network: Some(*network) });
        let rules: Vec<Rule> = deny.chain(allow).collect();
        [Set::of(&rules, self.allow.is_none(), true), Set::of(&rules, self.allow.is_none(), false)]
    }
}

/// Addresses of one family: ranges in order that do not meet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Set {
    ranges: Vec<(u128, u128)>,
    last: u128,
}

impl Set {
    fn of(rules: &[Rule], otherwise: bool, v4: bool) -> Set {
        let last = if v4 { u128::from(u32::MAX) } else { u128::MAX };
        let mut left = vec![(0, last)];
        let mut allowed: Vec<(u128, u128)> = Vec::new();
        for rule in rules {
            let range = match rule.network {
                None => (0, last),
                Some(network) if network.addr().is_ipv4() == v4 => ends(&network),
                Some(_) => continue,
            };
            let mut rest = Vec::new();
            for (low, high) in left {
                let (from, to) = (low.max(range.0), high.min(range.1));
                if from > to {
                    rest.push((low, high));
                    continue;
                }
                if rule.allows {
                    allowed.push((from, to));
                }
                rest.extend((low < from).then(|| (low, from - 1)));
                rest.extend((to < high).then(|| (to + 1, high)));
            }
            left = rest;
        }
        if otherwise {
            allowed.extend(left);
        }
        allowed.sort_unstable();
        let mut ranges: Vec<(u128, u128)> = Vec::new();
        for (low, high) in allowed {
            match ranges.last_mut() {
                Some(before) if before.1.checked_add(1) == Some(low) => before.1 = high,
                _ => ranges.push((low, high)),
            }
        }
        Set { ranges, last }
    }

    fn is_all(&self) -> bool {
        self.ranges == [(0, self.last)]
    }

    /// The ranges without parts of `::ffff:0:0/96`: an IPv4 client would be in networks of those, but is in none around them all.
    fn without_mapped(&self, v4: bool) -> Vec<(u128, u128)> {
        let mut out = Vec::new();
        for &(low, high) in &self.ranges {
            let is_whole = low <= MAPPED.0 && MAPPED.1 <= high;
            if v4 || is_whole || high < MAPPED.0 || MAPPED.1 < low {
                out.push((low, high));
                continue;
            }
            out.extend((low < MAPPED.0).then_some((low, MAPPED.0 - 1)));
            out.extend((MAPPED.1 < high).then_some((MAPPED.1 + 1, high)));
        }
        out
    }

    fn networks(&self, v4: bool, out: &mut Vec<IpNet>) -> Result<(), ()> {
        let width: u32 = if v4 { 32 } else { 128 };
        for (mut low, high) in self.without_mapped(v4) {
            loop {
                // The largest network that begins here and does not reach beyond the end.
                let mut free = low.trailing_zeros().min(width);
                while free > 0 && (free >= 128 || low.checked_add((1 << free) - 1).is_none_or(|end| end > high)) {
                    if free >= 128 && low == 0 && high == u128::MAX {
                        break;
                    }
                    free -= 1;
                }
                let prefix = u8::try_from(width - free).unwrap_or(u8::MAX);
                let address: IpAddr = match v4 {
                    true => Ipv4Addr::from(u32::try_from(low).unwrap_or(u32::MAX)).into(),
                    false => Ipv6Addr::from(low).into(),
                };
                out.push(IpNet::new(address, prefix).map_err(|_| ())?);
                if out.len() > MAX_NETWORKS {
                    return Err(());
                }
                let size = if free >= 128 { u128::MAX } else { (1 << free) - 1 };
                match low.checked_add(size).and_then(|end| end.checked_add(1)) {
                    Some(next) if next <= high => low = next,
                    _ => break,
                }
            }
        }
        Ok(())
    }
}

fn ends(network: &IpNet) -> (u128, u128) {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    (number(network.network()), number(network.broadcast()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// `+10.0.0.0/8 -all`.
    fn rules(text: &str) -> Vec<Rule> {
        let rule = |word: &str| Rule { allows: word.starts_with('+'), network: network(&word[1..]) };
        text.split_whitespace().map(rule).collect()
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        for (text, allow, deny) in [
            ("+10.0.0.0/8 -all", Some("10.0.0.0/8"), ""),
            ("+10.0.0.0/8 +192.0.2.1 +fd00::/8 -all", Some("10.0.0.0/8 192.0.2.1/32 fd00::/8"), ""),
            ("-192.0.2.1 +192.0.2.0/24 -all", Some("192.0.2.0/24"), "192.0.2.1/32"),
            ("-192.0.2.1 -2001:db8::/32", None, "192.0.2.1/32 2001:db8::/32"),
            ("-192.0.2.1 +all", None, "192.0.2.1/32"),
            ("-all", Some(""), ""),
            ("-all +10.0.0.0/8", Some(""), ""),
            ("+10.0.0.0/8", None, ""),
            ("+all -10.0.0.0/8", None, ""),
            ("+10.0.0.0/8 -10.0.0.0/9 -all", Some("10.0.0.0/8"), ""),
            ("+192.0.2.0/25 -192.0.2.0/24 -0.0.0.0/1 -128.0.0.0/2 -::/0", Some("192.0.0.0/23 192.0.2.0/25"), "x"),
        ] {
            let lists = lists(&rules(text), true).unwrap();
            let show = |networks: &[IpNet]| networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            if deny == "x" {
                // Computed: what is left of 192.0.0.0/2.
                let first = lists.allow.as_deref().unwrap();
                assert!(first.contains(&network("192.0.2.0/25").unwrap()) && lists.deny.is_empty(), "{lists:?}");
                assert!(!first.iter().any(|net| net.contains(&"192.0.2.200".parse::<IpAddr>().unwrap())));
                continue;
            }
            assert_eq!(lists.allow.as_deref().map(show).as_deref(), allow, "{text}");
            assert_eq!(show(&lists.deny), deny, "{text}");
        }
    }

    #[test]
    fn lists_mean_what_the_rules_mean() {
        let random = &mut Random(7);
        let addresses: Vec<IpAddr> = (0..64u32).map(|low| Ipv4Addr::from(0x0a00_0000 | (low << 1)).into()).collect();
        for _ in 0..400 {
            let rules: Vec<Rule> = (0..random.below(6))
                .map(|_| {
                    let network = (random.below(8) > 0).then(|| {
                        let address = Ipv4Addr::from(0x0a00_0000 | random.below(128));
                        IpNet::new(address.into(), 24 + u8::try_from(random.below(9)).unwrap()).unwrap().trunc()
                    });
                    Rule { allows: random.below(2) > 0, network }
                })
                .collect();
            let otherwise = random.below(2) > 0;
            let lists = lists(&rules, otherwise).unwrap();
            for address in &addresses {
                let fits = |rule: &&Rule| rule.network.is_none_or(|network| network.contains(address));
                let expected = rules.iter().find(fits).map_or(otherwise, |rule| rule.allows);
                let listed = |networks: &[IpNet]| networks.iter().any(|network| network.contains(address));
                let found = lists.allow.as_deref().is_none_or(listed) && !listed(&lists.deny);
                assert_eq!(found, expected, "{address} {rules:?} {lists:?}");
            }
        }
    }

    /// Clients of one family pass by the rules of that family alone, as the server matches them.
    #[test]
    fn rules_of_one_family_say_nothing_of_the_other() {
        let random = &mut Random(11);
        let v6 =
            ["::/0", "2001:db8::/32", "2001:db8::1", "::/96", "::ffff:10.0.0.0/104", "::ffff:0:0/96", "::fffe:0:0/95"];
        let v4 = ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.1", "192.0.2.0/24"];
        let clients =
            ["10.0.0.1", "10.9.9.9", "192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db8::2", "fd00::1", "::1"];
        for _ in 0..2_000 {
            let rules: Vec<Rule> = (0..random.below(6))
                .map(|_| {
                    let of =
                        |list: &[&str], random: &mut Random| list[random.below(list.len() as u32) as usize].to_owned();
                    let text = if random.below(2) > 0 { of(&v6, random) } else { of(&v4, random) };
                    let network = (random.below(8) > 0).then(|| network(&text).unwrap());
                    Rule { allows: random.below(2) > 0, network }
                })
                .collect();
            let otherwise = random.below(2) > 0;
            let lists = lists(&rules, otherwise).unwrap();
            let is_mapped = |network: &IpNet| MAPPED.0 <= ends(network).0 && ends(network).1 <= MAPPED.1;
            for client in clients.iter().map(|client| client.parse::<IpAddr>().unwrap()) {
                // Networks within the mapped ones are those that a list may name as it was written.
                if client.is_ipv4() && rules.iter().filter_map(|rule| rule.network).any(|net| is_mapped(&net)) {
                    continue;
                }
                let fits = |rule: &&Rule| rule.network.is_none_or(|network| network.contains(&client));
                let expected = rules.iter().find(fits).map_or(otherwise, |rule| rule.allows);
                let listed = |networks: &[IpNet]| networks.iter().any(|network| config::is_in_network(network, client));
                let found = lists.allow.as_deref().is_none_or(listed) && !listed(&lists.deny);
                assert_eq!(found, expected, "{client} {rules:?} {lists:?}");
            }
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(self.0 >> 33).unwrap() % bound
        }
    }
}
