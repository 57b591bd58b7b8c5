//! Names of servers to addresses, again whenever the time to live of the records is over.
//!
//! The last addresses stay in use while a name server is silent, wrong, or denies the name: an upstream does not vanish because its
//! directory does. Nothing on the data path waits for a name server, but for the first response to the first question.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::net::NetError;
use reason::Reason;
use telemetry::Reporter;

use super::{Group, Name};

/// Never asked more often than this, whatever the time to live.
const SHORTEST: Duration = Duration::from_secs(1);

/// Asked again at least this often.
const LONGEST: Duration = Duration::from_secs(300);

/// After a first failure; each one in a row doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// Between two questions while they fail.
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// Addresses used of one response.
const MOST_ADDRESSES: usize = 64;

/// Why a name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unresolved {
    /// There is no such name.
    NxDomain,
    /// The name has no address.
    NoAddress,
    /// Its addresses are our own or of the link, where a request chose the name.
    InnerAddress,
    /// No name server responded in time.
    Timeout,
    /// A name server could not tell.
    ServerFailure,
}

impl Unresolved {
    /// The reason for logs and metrics.
    pub fn reason(self) -> Reason {
        match self {
            Unresolved::NxDomain => Reason::Nxdomain,
            Unresolved::NoAddress => Reason::NoAddress,
            Unresolved::InnerAddress => Reason::InnerAddress,
            Unresolved::Timeout => Reason::ResolverTimeout,
            Unresolved::ServerFailure => Reason::ServerFailure,
        }
    }
}

/// What came of a question.
pub struct Reply {
    group: Arc<Group>,
    name: Arc<Name>,
    /// Addresses and for how long they hold.
    found: Result<(Vec<SocketAddr>, Duration), Unresolved>,
}

/// How asking for one name goes.
#[derive(Debug, Clone, Copy)]
struct Asking {
    due: Instant,
    failures: u32,
    /// What the last failure was, as long as they go on.
    failing: Option<Unresolved>,
}

/// When each name is due again.
#[derive(Default)]
pub struct Names {
    resolver: Option<TokioResolver>,
    asking: HashMap<u64, Asking>,
}

impl Names {
    /// With the system's name servers (`/etc/resolv.conf`, `/etc/hosts`).
    pub fn new() -> Names {
        let resolver = TokioResolver::builder_tokio().and_then(|mut builder| {
            // Both families, whatever the other has.
            builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
            builder.build()
        });
        let resolver = resolver.inspect_err(|error| tracing::error!(%error, "no name server can be asked")).ok();
        Names { resolver, asking: HashMap::new() }
    }

    /// Asks for every name that is due, each in a task of its own.
    pub fn refresh(&mut self, groups: &[Arc<Group>], replies: &tokio::sync::mpsc::UnboundedSender<Reply>) {
        let now = Instant::now();
        let mut live = HashMap::new();
        for (group, name) in groups.iter().flat_map(|group| group.names().iter().map(move |name| (group, name))) {
            let fresh = Asking { due: now, failures: 0, failing: None };
            let asking = self.asking.get(&name.id).copied().unwrap_or(fresh);
            if asking.due > now {
                live.insert(name.id, asking);
                continue;
            }
            // Not again before this question has a response.
            live.insert(name.id, Asking { due: now + LONGEST, ..asking });
            let (resolver, replies) = (self.resolver.clone(), replies.clone());
            let (group, name) = (Arc::clone(group), Arc::clone(name));
            tokio::task::spawn_local(async move {
                let found = match resolver {
                    Some(resolver) => ask(&resolver, &name, group.rejects_inner_addresses()).await,
                    None => Err(Unresolved::ServerFailure),
                };
                let _ = replies.send(Reply { group, name, found });
            });
        }
        self.asking = live;
    }

    /// Makes the addresses that were found the servers of their name, logs what is new, and notes when to ask again.
    pub fn note(&mut self, reply: &Reply, reporter: &Reporter) {
        let Reply { group, name, found } = reply;
        let (upstream, before) = (&group.config.name, group.addresses_of(name));
        let asking = self.asking.entry(name.id).or_insert(Asking { due: Instant::now(), failures: 0, failing: None });
        match found {
            Ok((addresses, ttl)) => {
                asking.due = Instant::now() + (*ttl).clamp(SHORTEST, LONGEST);
                if *addresses != before {
                    tracing::info!(upstream, name = %name.name, addresses = %list(addresses), before = %list(&before), "addresses of a name have changed");
                } else if asking.failing.is_some() {
                    tracing::info!(upstream, name = %name.name, "name resolved again");
                }
                (asking.failures, asking.failing) = (0, None);
                group.note_resolved(name, (*addresses != before).then_some(addresses));
            }
            Err(reason) => {
                asking.due = Instant::now() + retry_after(asking.failures);
                asking.failures = asking.failures.saturating_add(1);
                // Told once for each reason, counted always.
                if asking.failing.replace(*reason) != Some(*reason) {
                    let used = if before.is_empty() {
                        "no address known yet".to_owned()
                    } else {
                        format!("still using {}", list(&before))
                    };
                    tracing::warn!(upstream, name = %name.name, reason = reason.reason().code(), "cannot resolve a name; {used}");
                }
                if !group.rejects_inner_addresses() {
                    reporter.resolution_failed(upstream, &name.name, reason.reason());
                }
                group.note_resolved(name, None);
            }
        }
    }
}

/// How long to wait after so many failures before the last.
fn retry_after(failures: u32) -> Duration {
    (FIRST_RETRY * (1 << failures.min(8))).min(LONGEST_RETRY)
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Asks once. Addresses are sorted, and never none.
async fn ask(
    resolver: &TokioResolver,
    name: &Name,
    outer_only: bool,
) -> Result<(Vec<SocketAddr>, Duration), Unresolved> {
    let found = resolver.lookup_ip(&*name.name).await.map_err(|error| match &error {
        NetError::Timeout => Unresolved::Timeout,
        error if error.is_nx_domain() => Unresolved::NxDomain,
        error if error.is_no_records_found() => Unresolved::NoAddress,
        error => {
            tracing::debug!(name = %name.name, %error, "a name server failed");
            Unresolved::ServerFailure
        }
    })?;
    let usable = found.iter().filter(|address| !outer_only || !is_inner(*address));
    let mut addresses: Vec<_> = usable.map(|address| SocketAddr::new(address, name.port)).collect();
    if addresses.is_empty() {
        return Err(if found.iter().next().is_some() { Unresolved::InnerAddress } else { Unresolved::NoAddress });
    }
    addresses.sort();
    addresses.dedup();
    addresses.truncate(MOST_ADDRESSES);
    Ok((addresses, found.valid_until().saturating_duration_since(Instant::now())))
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

    #[test]
    fn questions_that_fail_are_asked_less_and_less() {
        let seconds: Vec<_> = (0..7).map(|failures| retry_after(failures).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 10, 10, 10, 10]);
        assert_eq!(retry_after(u32::MAX), LONGEST_RETRY);
    }
}
