//! The servers of a group as they are at the moment: those that are configured by address, and one for each address of each name.
//!
//! Owns the list that requests read, and the names behind it. A list is never changed, only replaced as a whole. Asks no name server: `resolve.rs` does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::{ServerAddress, ServerConfig};

use super::balance::Schedule;
use super::server::{Server, ServerId, next_id};

/// The servers of a group at one moment.
#[derive(Debug)]
pub struct Members {
    /// In the order of the configuration; those of one name by address.
    pub servers: Vec<Arc<Server>>,
    pub(super) schedule: Schedule,
}

/// A name among the servers that are configured.
#[derive(Debug)]
pub struct Name {
    /// Unique for the life of the process.
    pub id: u64,
    /// Its place among the configured servers.
    pub origin: usize,
    /// The name.
    pub name: Box<str>,
    /// The port of each of its servers.
    pub port: u16,
    /// A name server was asked, and has answered or failed to.
    is_asked: AtomicBool,
}

impl Name {
    /// Whether it is known to which addresses it leads, or that it leads to none at the moment.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    pub(super) fn set_asked(&self) {
        self.is_asked.store(true, Ordering::Release);
    }
}

/// The names among configured servers.
pub(super) fn names(configs: &[ServerConfig]) -> Vec<Arc<Name>> {
    let name = |(origin, config): (usize, &ServerConfig)| {
        let ServerAddress::Name(name, port) = &config.address else { return None };
        let (name, is_asked) = (name.as_str().into(), AtomicBool::new(false));
        Some(Arc::new(Name { id: next_id(), origin, name, port: *port, is_asked }))
    };
    configs.iter().enumerate().filter_map(name).collect()
}

impl Members {
    /// Those that need no name server.
    pub(super) fn new(configs: &[ServerConfig]) -> Members {
        let server = |(origin, config): (usize, &ServerConfig)| {
            (!matches!(config.address, ServerAddress::Name(..))).then(|| Arc::new(Server::new(config, origin)))
        };
        Members::of(configs.iter().enumerate().filter_map(server).collect(), 0)
    }

    fn of(servers: Vec<Arc<Server>>, turn: usize) -> Members {
        let weights: Vec<u32> = servers.iter().map(|server| server.config.weight).collect();
        Members { servers, schedule: Schedule::new(&weights, turn) }
    }

    /// The list after the name at `origin` was found to lead to these addresses. Who was there before stays, with all that is known of it.
    pub(super) fn with_addresses(&self, configs: &[ServerConfig], origin: usize, addresses: &[SocketAddr]) -> Members {
        let Some(config) = configs.get(origin) else { return Members::of(self.servers.clone(), self.schedule.turn()) };
        let before = |server: &&Arc<Server>| server.origin < origin;
        let after = |server: &&Arc<Server>| server.origin > origin;
        let known = |address: SocketAddr| {
            let same = |server: &&Arc<Server>| server.origin == origin && server.address == ServerAddress::Ip(address);
            self.servers.iter().find(same).cloned()
        };
        let own = addresses
            .iter()
            .map(|address| known(*address).unwrap_or_else(|| Arc::new(Server::at(config, origin, *address))));
        let servers = self.servers.iter().filter(before).cloned().chain(own);
        Members::of(servers.chain(self.servers.iter().filter(after).cloned()).collect(), self.schedule.turn())
    }

    /// The addresses of the name at `origin`.
    pub(super) fn addresses_of(&self, origin: usize) -> Vec<SocketAddr> {
        let own = self.servers.iter().filter(|server| server.origin == origin);
        own.filter_map(|server| server.socket_address()).collect()
    }

    /// Whether there is a server that was not tried.
    pub(super) fn has_other(&self, tried: &[ServerId]) -> bool {
        self.servers.iter().any(|server| !tried.contains(&server.id))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn config(address: &str) -> ServerConfig {
        let address = match address.parse() {
            Ok(address) => ServerAddress::Ip(address),
            Err(_) => ServerAddress::Name(address.to_owned(), 80),
        };
        ServerConfig { address, weight: 1 }
    }

    #[test]
    fn addresses_come_and_go_and_who_stays_is_the_same_server() {
        let configs = ["192.0.2.1:80", "a.example", "192.0.2.2:80"].map(config);
        let names = names(&configs);
        assert_eq!((names.len(), names[0].origin, &*names[0].name), (1, 1, "a.example"));
        let labels =
            |members: &Members| members.servers.iter().map(|server| server.name.to_string()).collect::<Vec<_>>();
        let at = |last: u8| SocketAddr::from(([10, 0, 0, last], 80));
        let first = Members::new(&configs);
        assert_eq!(labels(&first), ["192.0.2.1:80", "192.0.2.2:80"]);
        let second = first.with_addresses(&configs, 1, &[at(1), at(2)]);
        assert_eq!(labels(&second), ["192.0.2.1:80", "10.0.0.1:80", "10.0.0.2:80", "192.0.2.2:80"]);
        let third = second.with_addresses(&configs, 1, &[at(2), at(3)]);
        assert_eq!(labels(&third), ["192.0.2.1:80", "10.0.0.2:80", "10.0.0.3:80", "192.0.2.2:80"]);
        assert!(
            Arc::ptr_eq(&second.servers[2], &third.servers[1]) && Arc::ptr_eq(&first.servers[1], &third.servers[3])
        );
        assert_eq!(third.addresses_of(1), [at(2), at(3)]);
        assert_eq!(third.servers[1].authority.as_ref(), "a.example:80");
        assert_eq!(labels(&third.with_addresses(&configs, 1, &[])), labels(&first));
    }
}
