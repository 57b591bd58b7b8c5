//! Directories of servers that a generation knows: the way to each, who asks, and which of the addresses that it names may be used.
//!
//! Asks nobody: `background/discovery.rs` does.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use config::{Config, DiscoveryConfig, is_in_network};

use crate::upstream::resolve::is_inner;
use crate::upstream::{Found, Group};

/// Servers used of one service.
const MAX_INSTANCES: usize = 256;

/// A directory that is active. It passes from generation to generation as long as it would be asked in the same way.
#[derive(Debug)]
pub struct Source {
    /// As configured.
    pub config: Arc<DiscoveryConfig>,
    /// The way to it.
    pub group: Arc<Group>,
    /// What shows who asks.
    pub token: Option<keystore::Password>,
}

/// A server as a directory names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// Its address.
    pub address: SocketAddr,
    /// Its share of the load beside the others, at least 1.
    pub weight: u16,
}

/// What a directory says of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Its servers.
    pub instances: Vec<Instance>,
    /// Those that cannot be used, and why, in words for the log.
    pub left_out: Vec<String>,
}

impl Source {
    fn load(config: &Arc<DiscoveryConfig>, previous: Option<&Arc<Source>>) -> Result<Arc<Source>, String> {
        let explain = |problem| format!("discovery {}: {problem}", config.name);
        let token = config.token.as_ref().map(|token| token.read()).transpose().map_err(explain)?;
        if token.as_ref().is_some_and(|token| !token.as_str().bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(explain("the token has spaces, or characters that no header field may have".to_owned()));
        }
        let same_token =
            |one: &Source| one.token.as_ref().map(|token| token.as_str()) == token.as_ref().map(|token| token.as_str());
        let is_same =
            |one: &&Arc<Source>| one.config == *config && same_token(one) && one.group.is_current(&config.upstream);
        match previous.filter(is_same) {
            Some(previous) => Ok(Arc::clone(previous)),
            None => {
                let group = Arc::new(Group::new(&config.upstream).map_err(explain)?);
                Ok(Arc::new(Source { config: Arc::clone(config), group, token }))
            }
        }
    }

    /// The servers of a listing that may be used, in order and each once; the others are noted in it.
    pub fn usable(&self, listing: &mut Listing) -> Vec<Found> {
        let networks = &self.config.networks;
        let is_usable = |address: &SocketAddr| match networks.is_empty() {
            true => !is_inner(address.ip()),
            false => networks.iter().any(|network| is_in_network(network, address.ip())),
        };
        let mut instances = std::mem::take(&mut listing.instances);
        instances.sort();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for Instance { address, weight } in instances {
            if address.port() == 0 || !is_usable(&address) {
                listing.left_out.push(format!("{address}: not an address that servers may have (`networks`)"));
            } else if found.len() == MAX_INSTANCES {
                listing.left_out.push(format!("{address}: more than {MAX_INSTANCES} servers"));
            } else if seen.insert(address) {
                found.push(Found { weight: weight.max(1), ..Found::at(address) });
            }
        }
        found
    }
}

/// The directories of a generation, by name.
#[derive(Debug, Default)]
pub struct Sources(BTreeMap<String, Arc<Source>>);

impl Sources {
    /// Reads their tokens, and makes the ways to them.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn load(config: &Config, previous: Option<&Sources>) -> Result<Sources, Vec<String>> {
        let (mut sources, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, source) in &config.discovery {
            match Source::load(source, previous.and_then(|previous| previous.get(name))) {
                Ok(source) => _ = sources.insert(name.clone(), source),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(Sources(sources)) } else { Err(problems) }
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Source>> {
        self.0.get(name)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ways to them.
    pub fn groups(&self) -> impl Iterator<Item = Arc<Group>> {
        self.0.values().map(|source| Arc::clone(&source.group))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;

    fn source(networks: &str) -> Arc<Source> {
        let text = format!(
            "listeners: [{{ name: web, bind: \":1\" }}]\nroutes: [{{ respond: {{ status: 204 }} }}]\ndiscovery: {{ d: {{ consul: {{}}{networks} }} }}\n"
        );
        let config = config::parse("portunus.yaml", &text, Path::new("/")).unwrap();
        Arc::clone(Sources::load(&config, None).unwrap().get("d").unwrap())
    }

    #[test]
    fn addresses_that_no_other_machine_has_are_left_out() {
        let addresses = [
            "10.0.0.2:80",
            "10.0.0.1:80",
            "10.0.0.1:80",
            "127.0.0.1:80",
            "169.254.169.254:80",
            "0.0.0.0:80",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[fe80::1]:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "10.0.0.3:0",
            "[2001:db8::1]:80",
        ];
        let listing = || Listing {
            instances: addresses.iter().map(|text| Instance { address: text.parse().unwrap(), weight: 0 }).collect(),
            left_out: Vec::new(),
        };
        let used = |source: &Source| {
            let mut listing = listing();
            let found = source.usable(&mut listing);
            assert!(found.iter().all(|found| found.weight == 1));
            (found.iter().map(|found| found.address.to_string()).collect::<Vec<_>>(), listing.left_out.len())
        };
        let text = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(used(&source("")), (text(&["10.0.0.1:80", "10.0.0.2:80", "[2001:db8::1]:80"]), 9));
        assert_eq!(used(&source(", networks: [127.0.0.0/8]")), (text(&["127.0.0.1:80", "[::ffff:127.0.0.1]:80"]), 11));
    }

    #[test]
    fn of_more_servers_than_can_be_used_some_are_left_out() {
        let instances =
            (0..1_000_u16).map(|port| Instance { address: ([10, 0, 0, 1], 1_000 + port).into(), weight: 2 });
        let mut listing = Listing { instances: instances.collect(), left_out: Vec::new() };
        assert_eq!(source("").usable(&mut listing).len(), MAX_INSTANCES);
        assert_eq!(listing.left_out.len(), 1_000 - MAX_INSTANCES);
    }
}
