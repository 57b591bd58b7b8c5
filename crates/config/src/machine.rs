//! What names and addresses mean on this machine, as far as that is certain: `localhost` and its own addresses.
//!
//! Resolves nothing: other names may mean something else when the proxy runs, whose loop guard decides then.

use std::cell::{OnceCell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::OwnAddresses;

/// This machine, or one of which nothing is known but `localhost`.
#[derive(Debug, Default)]
pub(super) struct Machine {
    looks: bool,
    own: OnceCell<Option<RefCell<OwnAddresses>>>,
}

impl Machine {
    /// The machine we are on; nothing is looked at before it is asked for.
    pub(super) fn here() -> Machine {
        Machine { looks: true, ..Machine::default() }
    }

    /// The addresses of a name; none where only a resolver could tell.
    pub(super) fn addresses(name: &str) -> &'static [IpAddr] {
        const LOCALHOST: &[IpAddr] = &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if name == "localhost" || name.ends_with(".localhost") { LOCALHOST } else { &[] }
    }

    /// Whether this is certainly an address of this machine.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        let own = || OwnAddresses::open().ok().map(RefCell::new);
        address.is_loopback()
            || self.looks && self.own.get_or_init(own).as_ref().is_some_and(|own| own.borrow_mut().contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_known_without_looking() {
        let machine = Machine::default();
        assert_eq!(Machine::addresses("App.LocalHost.").len(), 2);
        assert!(Machine::addresses("localhost.example").is_empty());
        assert!(machine.is_own(Ipv4Addr::LOCALHOST.into()) && !machine.is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
        // This machine has no documentation address, and knows it.
        assert!(!Machine::here().is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
