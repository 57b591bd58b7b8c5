//! Upstream groups: which servers there are, how they fare, and connections to them.
//!
//! A [`Group`] is shared by all workers and outlives reloads that leave its configuration alone; connections belong to one worker.
//! Owns no HTTP: that is `http`.

mod balance;
mod connect;
mod health;
mod pool;
mod resolve;
mod server;
pub mod upkeep;

pub use connect::{ConnectError, Target, connect, connect_to};
pub use pool::{Pools, SharedConnection, Traffic};
pub use server::{PoolId, Server};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crate::config::{ServerAddress, ServerConfig, UpstreamConfig, UpstreamProtocol};

/// Retries a group may make at once out of nothing, so that a quiet group can retry at all.
const RETRY_RESERVE: i64 = 10;

/// A group of servers, shared by all workers.
#[derive(Debug)]
pub struct Group {
    /// As configured.
    pub config: Arc<UpstreamConfig>,
    servers: Vec<Arc<Server>>,
    schedule: balance::Schedule,
    connector: Option<Arc<tls::Connector>>,
    /// Its address was put together from a request, so that names must not lead to ourselves.
    is_dynamic: bool,
    /// Servers on Unix sockets are spoken to without TLS.
    is_plain_on_unix: bool,
    in_flight: AtomicUsize,
    /// Retries still allowed, in hundredths.
    retry_credit: AtomicI64,
}

impl Group {
    /// A group as configured. Reads the files of its TLS settings.
    ///
    /// # Errors
    /// A file is missing or unusable; says which.
    pub fn new(config: &Arc<UpstreamConfig>) -> Result<Group, String> {
        let connector = match &config.tls {
            Some(tls) => {
                let alpn: Option<&[u8]> = match config.protocol {
                    UpstreamProtocol::Http1 => Some(b"http/1.1"),
                    UpstreamProtocol::Http2 => Some(b"h2"),
                    UpstreamProtocol::Tcp => None,
                };
                Some(Arc::new(connect::connector(tls, alpn)?))
            }
            None => None,
        };
        Ok(Group::with(config, connector, false))
    }

    /// A group of key servers, whose connections offer the keyless extension by ALPN. On Unix sockets there is no TLS.
    ///
    /// # Errors
    /// As [`Group::new`].
    pub fn of_key_servers(config: &Arc<UpstreamConfig>) -> Result<Group, String> {
        let mut connector = None;
        if let Some(tls) = &config.tls {
            let mut made = connect::connector(tls, Some(wire::keyless::EXTENSION_ALPN))?;
            // These connections are few and long; what servers make of a resumed client certificate differs.
            made.never_resume();
            connector = Some(Arc::new(made));
        }
        Ok(Group { is_plain_on_unix: true, ..Group::with(config, connector, false) })
    }

    /// A group like this one, but for a single server whose address was put together from a request. `check_addresses`: names must not
    /// lead to ourselves or to the link.
    pub fn with_server(&self, name: &str, address: ServerAddress, check_addresses: bool) -> Group {
        let mut config = UpstreamConfig::clone(&self.config);
        config.name = name.to_owned();
        config.servers = vec![ServerConfig { address, weight: 1 }];
        Group::with(&Arc::new(config), self.connector.clone(), check_addresses)
    }

    fn with(config: &Arc<UpstreamConfig>, connector: Option<Arc<tls::Connector>>, is_dynamic: bool) -> Group {
        let servers: Vec<_> = config.servers.iter().map(|server| Arc::new(Server::new(server))).collect();
        Group {
            config: Arc::clone(config),
            schedule: balance::Schedule::new(&config.servers),
            servers,
            connector,
            in_flight: AtomicUsize::new(0),
            retry_credit: AtomicI64::new(RETRY_RESERVE * 100),
            is_dynamic,
            is_plain_on_unix: false,
        }
    }

    /// Whether names of its servers must not lead to ourselves or to the link.
    pub fn refuses_inner_addresses(&self) -> bool {
        self.is_dynamic
    }

    /// Its servers.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// Whether a server is neither ejected nor fails its checks.
    pub fn is_up(&self) -> bool {
        self.servers.iter().any(|server| server.is_available())
    }

    /// TLS towards its servers, if any.
    pub fn connector(&self) -> Option<&tls::Connector> {
        self.connector.as_deref()
    }

    /// TLS towards one server, if any.
    pub fn connector_to(&self, server: &Server) -> Option<&tls::Connector> {
        let is_plain = self.is_plain_on_unix && matches!(server.config.address, ServerAddress::Unix(_));
        self.connector().filter(|_| !is_plain)
    }

    /// Admits one request or tunnel; none beyond the configured number in flight.
    pub fn admit(self: &Arc<Group>) -> Option<InFlight> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let permit = InFlight(Arc::clone(self));
        if before >= self.config.max_in_flight {
            return None;
        }
        let earned = i64::from(self.config.retry_budget_percent);
        if self.retry_credit.load(Ordering::Relaxed) < RETRY_RESERVE * 100 {
            self.retry_credit.fetch_add(earned, Ordering::Relaxed);
        }
        Some(permit)
    }

    /// Takes one retry from the budget, if there is one left.
    pub fn may_retry(&self) -> bool {
        if self.config.retry_budget_percent == 0 {
            return false;
        }
        let taken = self.retry_credit.fetch_sub(100, Ordering::Relaxed);
        if taken < 100 {
            self.retry_credit.fetch_add(100, Ordering::Relaxed);
        }
        taken >= 100
    }

    /// Servers (by index) that a client of the other family cannot be passed on to under its own address.
    pub fn of_other_family(&self, is_v4: bool) -> Vec<usize> {
        let other = |server: &Arc<Server>| matches!(server.config.address, ServerAddress::Ip(address) if address.is_ipv4() != is_v4);
        (0..self.servers.len()).filter(|index| self.servers.get(*index).is_some_and(other)).collect()
    }

    /// The server for the next request, leaving out those that `tried` holds (by index) and, while there are others, those that are
    /// ejected or unhealthy.
    pub fn choose(&self, tried: &[usize]) -> Option<(usize, &Arc<Server>)> {
        let index = self.schedule.choose(&self.servers, self.config.balance, tried)?;
        Some((index, self.servers.get(index)?))
    }
}

/// One admitted request or tunnel of a group; counts itself out when dropped.
#[derive(Debug)]
pub struct InFlight(Arc<Group>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
