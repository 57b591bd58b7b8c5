//! The servers of a group as they are at the moment: those that are configured by address, and one for each address of each name.
//!
//! Owns the list that requests read, and the names behind it. A list is never changed, only replaced as a whole. Asks no name server: `resolve.rs` does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use config::{ListedService, ServerAddress, ServerConfig, UpstreamConfig};

use super::balance::{Rank, Schedule};
use super::server::{Server, ServerId, next_id};

/// The servers of a group at one moment.
#[derive(Debug)]
pub struct Members {
    /// In the order of the configuration; those of one name by priority and address.
    pub servers: Vec<Arc<Server>>,
    /// What each of them gets, in the same order.
    ranks: Vec<Rank>,
    pub(super) schedule: Schedule,
}

/// What is asked of name servers, or of whom else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// A and AAAA; each address has this port.
    Addresses(u16),
    /// SRV, and the addresses of the hosts in them.
    Services,
    /// None: a directory says which servers there are.
    Listed(ListedService),
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
    /// What is asked for.
    pub records: Records,
    /// A name server was asked, and has answered or failed to.
    is_asked: AtomicBool,
    /// The directory that it is listed in says nothing at the moment.
    is_stale: AtomicBool,
}

/// An address that a name leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// That of its SRV record; lower ones come first.
    pub priority: u16,
    /// The address.
    pub address: SocketAddr,
    /// That of its SRV record, at least 1.
    pub weight: u16,
    /// Host and port of its SRV record; none if the name itself has the address.
    pub authority: Option<String>,
}

impl Found {
    /// An address of the name itself.
    pub fn at(address: SocketAddr) -> Found {
        Found { priority: 0, address, weight: 1, authority: None }
    }
}

impl Name {
    /// Whether it is known to which addresses it leads, or that it leads to none at the moment.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    /// The directory that it is listed in, if it is in one.
    pub fn source(&self) -> Option<&str> {
        if let Records::Listed(listed) = &self.records { Some(&listed.source) } else { None }
    }

    /// Whether the directory that it is listed in says nothing at the moment.
    pub fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Notes whether the directory that it is listed in says nothing.
    pub fn set_stale(&self, is_stale: bool) {
        self.is_stale.store(is_stale, Ordering::Relaxed);
    }

    pub(super) fn set_asked(&self) {
        self.is_asked.store(true, Ordering::Release);
    }
}

/// The names among configured servers.
pub(super) fn names(configs: &[ServerConfig]) -> Vec<Arc<Name>> {
    let name = |(origin, config): (usize, &ServerConfig)| {
        let (name, records) = match &config.address {
            ServerAddress::Name(name, port) => (name, Records::Addresses(*port)),
            ServerAddress::Service(name) => (name, Records::Services),
            ServerAddress::Listed(listed) => (&listed.service, Records::Listed(listed.clone())),
            ServerAddress::Ip(_) | ServerAddress::Unix(_) => return None,
        };
        let (is_asked, is_stale) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(Arc::new(Name { id: next_id(), origin, name: name.as_str().into(), records, is_asked, is_stale }))
    };
    configs.iter().enumerate().filter_map(name).collect()
}

impl Members {
    /// Those that need no name server.
    pub(super) fn new(config: &UpstreamConfig) -> Members {
        let own = config.servers.iter().enumerate().filter_map(|(origin, config)| {
            let is_literal = matches!(config.address, ServerAddress::Ip(_) | ServerAddress::Unix(_));
            is_literal.then(|| (Arc::new(Server::new(config, origin)), Rank::of(config)))
        });
        let (servers, ranks): (Vec<_>, Vec<_>) = own.unzip();
        Members { schedule: Schedule::new(&servers, &ranks, config, &[]), servers, ranks }
    }

    /// The list after the name at `origin` was found to lead to these addresses; none if that is the list there is. Who was there before stays, with all
    /// that is known of it; who comes beside others begins slowly, if servers do.
    pub(super) fn with_found(&self, group: &UpstreamConfig, origin: usize, found: &[Found]) -> Option<Members> {
        let config = group.servers.get(origin)?;
        let is_first = !self.servers.iter().any(|server| server.origin == origin);
        let own = found.iter().map(|found| {
            let known = self
                .servers
                .iter()
                .find(|server| server.origin == origin && server.address == ServerAddress::Ip(found.address));
            let server = known.cloned().unwrap_or_else(|| {
                let server = Server::at(config, origin, found.address, found.authority.as_deref());
                if !is_first {
                    server.is_back();
                }
                Arc::new(server)
            });
            (server, Rank::of(config).within(found.weight, found.priority))
        });
        let others = |keeps: fn(&usize, &usize) -> bool| {
            let all = self.servers.iter().cloned().zip(self.ranks.iter().copied());
            all.filter(move |(server, _)| keeps(&server.origin, &origin))
        };
        let all = others(usize::lt).chain(own).chain(others(usize::gt));
        let (servers, ranks): (Vec<_>, Vec<_>) = all.unzip();
        let is_same = servers.len() == self.servers.len()
            && servers.iter().zip(&self.servers).all(|(one, other)| Arc::ptr_eq(one, other))
            && ranks == self.ranks;
        if is_same {
            return None;
        }
        let schedule = Schedule::new(&servers, &ranks, group, &self.schedule.turns());
        Some(Members { servers, ranks, schedule })
    }

    /// The same servers, with the weights that operators give them now.
    pub(super) fn weighed_anew(&self, config: &UpstreamConfig) -> Members {
        let (servers, ranks) = (self.servers.clone(), self.ranks.clone());
        Members { schedule: Schedule::new(&servers, &ranks, config, &self.schedule.turns()), servers, ranks }
    }

    /// What the server of this index gets of the load, relative to the others.
    pub fn weight(&self, index: usize) -> u64 {
        self.schedule.weight(index)
    }

    /// Marks the servers that `next` has not: their connections end with what is under way on them.
    pub(super) fn leave_behind(&self, next: &Members) {
        let has_left = |server: &&Arc<Server>| !next.servers.iter().any(|other| Arc::ptr_eq(server, other));
        self.servers.iter().filter(has_left).for_each(|server| server.leave());
    }

    /// The addresses of the name at `origin`.
    pub(super) fn addresses_of(&self, origin: usize) -> Vec<SocketAddr> {
        let own = self.servers.iter().filter(|server| server.origin == origin);
        own.filter_map(|server| server.socket_address()).collect()
    }

    /// Whether a server has this label.
    pub(super) fn has(&self, label: &str) -> bool {
        self.servers.iter().any(|server| *server.name == *label)
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
        ServerConfig::at(match address.parse() {
            Ok(address) => ServerAddress::Ip(address),
            Err(_) if address.starts_with('_') => ServerAddress::Service(address.to_owned()),
            Err(_) => ServerAddress::Name(address.to_owned(), 80),
        })
    }

    fn group(configs: &[ServerConfig]) -> UpstreamConfig {
        UpstreamConfig { servers: configs.to_vec(), ..UpstreamConfig::new("app") }
    }

    fn labels(members: &Members) -> Vec<String> {
        members.servers.iter().map(|server| server.name.to_string()).collect()
    }

    fn at(last: u8) -> Found {
        Found::at(SocketAddr::from(([10, 0, 0, last], 80)))
    }

    #[test]
    fn addresses_come_and_go_and_who_stays_is_the_same_server() {
        let configs = ["192.0.2.1:80", "a.example", "192.0.2.2:80"].map(config);
        let names = names(&configs);
        assert_eq!((names.len(), names[0].origin, &*names[0].name), (1, 1, "a.example"));
        let group = group(&configs);
        let next = |members: &Members, found: &[Found]| members.with_found(&group, 1, found);
        let first = Members::new(&group);
        assert_eq!(labels(&first), ["192.0.2.1:80", "192.0.2.2:80"]);
        let second = next(&first, &[at(1), at(2)]).unwrap();
        assert_eq!(labels(&second), ["192.0.2.1:80", "10.0.0.1:80", "10.0.0.2:80", "192.0.2.2:80"]);
        assert!(next(&second, &[at(1), at(2)]).is_none(), "nothing new");
        let third = next(&second, &[at(2), at(3)]).unwrap();
        assert_eq!(labels(&third), ["192.0.2.1:80", "10.0.0.2:80", "10.0.0.3:80", "192.0.2.2:80"]);
        assert!(
            Arc::ptr_eq(&second.servers[2], &third.servers[1]) && Arc::ptr_eq(&first.servers[1], &third.servers[3])
        );
        assert_eq!(third.addresses_of(1), [at(2).address, at(3).address]);
        assert_eq!(third.servers[1].authority.as_ref(), "a.example:80");
        assert_eq!(labels(&next(&third, &[]).unwrap()), labels(&first));
        second.leave_behind(&third);
        assert_eq!(
            second.servers.iter().map(|server| server.has_left()).collect::<Vec<_>>(),
            [false, true, false, false]
        );
    }

    #[test]
    fn what_srv_records_say_of_a_server_may_change_without_it() {
        let configs = ["_http._tcp.a.example"].map(config);
        assert_eq!(names(&configs)[0].records, Records::Services);
        let record = |last: u8, weight: u16, priority: u16| Found {
            authority: Some(format!("h{last}.example:80")),
            weight,
            priority,
            ..at(last)
        };
        let group = group(&configs);
        let first = Members::new(&group);
        let next = |members: &Members, found: &[Found]| members.with_found(&group, 0, found);
        let second = next(&first, &[record(1, 10, 0), record(2, 30, 0)]).unwrap();
        assert_eq!(second.servers[0].authority.as_ref(), "h1.example:80");
        let third = next(&second, &[record(1, 10, 0), record(2, 10, 1)]).unwrap();
        assert!(Arc::ptr_eq(&second.servers[1], &third.servers[1]), "the server is the same");
        assert_ne!(second.ranks, third.ranks);
    }
}
