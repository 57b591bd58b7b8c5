//! What names and addresses mean on this machine, as far as that is certain without asking anybody: `localhost`, the hosts file, its own addresses.
//!
//! Resolves nothing over the network.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use net::OwnAddresses;

const HOSTS: &str = "/etc/hosts";

/// Largest hosts file that is read, bytes. Some hold lists of unwanted names.
const MAX_HOSTS_BYTES: u64 = 16 << 20;

/// This machine, or one of which nothing is known but `localhost`.
#[derive(Debug, Default)]
pub(super) struct Machine {
    looks: bool,
    hosts: OnceCell<HashMap<String, Vec<IpAddr>>>,
    own: OnceCell<Option<RefCell<OwnAddresses>>>,
}

impl Machine {
    /// The machine we are on; nothing is looked at before it is asked for.
    pub(super) fn here() -> Machine {
        Machine { looks: true, ..Machine::default() }
    }

    /// The addresses of a name; none where only a name server could tell.
    pub(super) fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if name == "localhost" || name.ends_with(".localhost") {
            return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        }
        if !self.looks {
            return Vec::new();
        }
        let hosts = self.hosts.get_or_init(|| {
            keystore::files::text(Path::new(HOSTS), MAX_HOSTS_BYTES).map(|text| read_hosts(&text)).unwrap_or_default()
        });
        hosts.get(&name).cloned().unwrap_or_default()
    }

    /// Whether this is certainly an address of this machine.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        let own = || OwnAddresses::open().ok().map(RefCell::new);
        address.is_loopback()
            || self.looks && self.own.get_or_init(own).as_ref().is_some_and(|own| own.borrow_mut().contains(address))
    }
}

/// Names, in lower case, by the lines of a hosts file: an address and the names it has.
fn read_hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        for name in words {
            hosts.entry(name.to_ascii_lowercase()).or_default().push(address);
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_gives_each_name_all_its_addresses() {
        let hosts =
            read_hosts("127.0.0.1 localhost\n::1 localhost # again\n\n# 10.0.0.1 gone\n10.0.0.2\tA.test a\nx y\n");
        let check = |name: &str, addresses: &[&str]| {
            let expected: Vec<IpAddr> = addresses.iter().filter_map(|text| text.parse().ok()).collect();
            assert_eq!(hosts.get(name).cloned().unwrap_or_default(), expected, "{name}");
        };
        check("localhost", &["127.0.0.1", "::1"]);
        check("a.test", &["10.0.0.2"]);
        check("a", &["10.0.0.2"]);
        check("gone", &[]);
        check("y", &[]);
    }

    #[test]
    fn localhost_is_known_without_looking() {
        let machine = Machine::default();
        assert_eq!(machine.addresses("App.LocalHost.").len(), 2);
        assert!(machine.addresses("localhost.example").is_empty());
        assert!(machine.is_own(Ipv4Addr::LOCALHOST.into()) && !machine.is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
        // This machine has no documentation address, and knows it.
        assert!(!Machine::here().is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
