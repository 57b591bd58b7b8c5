//! Names of servers to addresses, again whenever the answer's time to live is over.
//!
//! The last good addresses stay in use while a name server is silent, wrong, or denies the name: an upstream does not vanish because its
//! directory does. Nothing on the data path waits for a name server.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;

use super::{Group, Server};
use crate::config::ServerAddress;

/// Never asked more often than this, whatever the time to live.
const SHORTEST: Duration = Duration::from_secs(1);

/// Asked again at least this often.
const LONGEST: Duration = Duration::from_secs(300);

/// After a failure.
const RETRY: Duration = Duration::from_secs(2);

/// Addresses used of one answer.
const MOST_ADDRESSES: usize = 16;

/// When each server's name is due again.
#[derive(Default)]
pub struct Names {
    resolver: Option<TokioResolver>,
    due: HashMap<u64, Instant>,
}

impl Names {
    /// With the system's name servers (`/etc/resolv.conf`, `/etc/hosts`).
    pub fn new() -> Names {
        let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
        let resolver = resolver.inspect_err(|error| tracing::error!(%error, "no name server can be asked")).ok();
        Names { resolver, due: HashMap::new() }
    }

    /// Asks for every name that is due, each in a task of its own.
    pub fn refresh(&mut self, groups: &[Arc<Group>], answers: &tokio::sync::mpsc::UnboundedSender<(u64, Instant)>) {
        let Some(resolver) = &self.resolver else { return };
        let now = Instant::now();
        let mut live = HashMap::new();
        for group in groups {
            for server in group.servers() {
                let ServerAddress::Name(name, port) = &server.config.address else { continue };
                let due = self.due.get(&server.id).copied().unwrap_or(now);
                if due > now {
                    live.insert(server.id, due);
                    continue;
                }
                // Not again before this question has an answer.
                live.insert(server.id, now + LONGEST);
                let ask =
                    ask(resolver.clone(), name.clone(), *port, Arc::clone(server), group.refuses_inner_addresses());
                let answers = answers.clone();
                tokio::task::spawn_local(async move {
                    let _ = answers.send(ask.await);
                });
            }
        }
        self.due = live;
    }

    /// Notes when a server's name is due again.
    pub fn note(&mut self, server: u64, due: Instant) {
        self.due.insert(server, due);
    }
}

/// Asks once and puts the answer in force; says when to ask again.
async fn ask(
    resolver: TokioResolver,
    name: String,
    port: u16,
    server: Arc<Server>,
    outer_only: bool,
) -> (u64, Instant) {
    match resolver.lookup_ip(name.as_str()).await {
        Ok(answer) => {
            let mut addresses: Vec<SocketAddr> = answer
                .iter()
                .filter(|address| !outer_only || !is_inner(*address))
                .map(|address| SocketAddr::new(address, port))
                .take(MOST_ADDRESSES)
                .collect();
            addresses.sort();
            addresses.dedup();
            if addresses.is_empty() {
                tracing::warn!(name, "the name has no usable address; the last good ones stay in use");
                return (server.id, Instant::now() + RETRY);
            }
            if *server.resolved() != addresses {
                tracing::debug!(name, ?addresses, "resolved");
                server.set_resolved(addresses);
            }
            let ttl = answer.valid_until().saturating_duration_since(Instant::now());
            (server.id, Instant::now() + ttl.clamp(SHORTEST, LONGEST))
        }
        Err(error) => {
            tracing::warn!(name, %error, "cannot resolve; the last good addresses stay in use");
            (server.id, Instant::now() + RETRY)
        }
    }
}

/// Addresses that a name chosen by a request must not lead to: ourselves, the link, metadata services, and what is no host at all.
pub fn is_inner(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || address.is_broadcast()
                || address.is_multicast()
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_addresses_are_known() {
        for inner in ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "::ffff:127.0.0.1", "224.0.0.1"] {
            assert!(is_inner(inner.parse().unwrap()), "{inner}");
        }
        for outer in ["10.0.0.1", "203.0.113.5", "2001:db8::1"] {
            assert!(!is_inner(outer.parse().unwrap()), "{outer}");
        }
    }
}
