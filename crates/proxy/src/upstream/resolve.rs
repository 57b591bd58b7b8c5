//! Names of servers to addresses, and SRV names to hosts and theirs, again whenever the time to live of the records is over.
//!
//! The last addresses stay in use while a name server is silent, wrong, or denies the name: an upstream does not vanish because its
//! directory does. Nothing on the data path waits for a name server, but for the first response to the first question.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::SRV;
use reason::Reason;
use telemetry::Reporter;
use tokio::task::JoinSet;

use super::{Found, Group, Name, Records};

/// Never asked more often than this, whatever the time to live.
const SHORTEST: Duration = Duration::from_secs(1);

/// Asked again at least this often.
const LONGEST: Duration = Duration::from_secs(300);

/// After a first failure; each one in a row doubles it.
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// Between two questions while they fail.
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// Addresses used of one name.
const MOST_ADDRESSES: usize = 64;

/// Hosts of SRV records whose addresses are asked for.
const MOST_HOSTS: usize = 64;

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
    found: Result<(Vec<Found>, Duration), Unresolved>,
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
        let names = groups.iter().flat_map(|group| group.names().iter().map(move |name| (group, name)));
        for (group, name) in names.filter(|(_, name)| name.source().is_none()) {
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
            Ok((found, ttl)) => {
                asking.due = Instant::now() + (*ttl).clamp(SHORTEST, LONGEST);
                if group.note_resolved(name, Some(found)) {
                    let addresses = list(&group.addresses_of(name));
                    tracing::info!(upstream, name = %name.name, addresses, before = %list(&before), "addresses of a name have changed");
                } else if asking.failing.is_some() {
                    tracing::info!(upstream, name = %name.name, "name resolved again");
                }
                (asking.failures, asking.failing) = (0, None);
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

/// Asks once. What is found is in order, and never nothing.
async fn ask(resolver: &TokioResolver, name: &Name, outer_only: bool) -> Result<(Vec<Found>, Duration), Unresolved> {
    let (mut found, until) = match &name.records {
        Records::Addresses(port) => {
            let (addresses, until) = addresses(resolver, &name.name, outer_only).await?;
            let found = addresses.into_iter().map(|address| Found::at(SocketAddr::new(address, *port)));
            (found.collect::<Vec<_>>(), until)
        }
        Records::Services => services(resolver, name, outer_only).await?,
        // Somebody else is asked.
        Records::Listed(_) => return Err(Unresolved::NoAddress),
    };
    found.sort();
    // Of two records for one address the one of lower priority counts.
    let mut seen = HashSet::new();
    found.retain(|found| seen.insert(found.address));
    found.truncate(MOST_ADDRESSES);
    if found.is_empty() {
        return Err(Unresolved::NoAddress);
    }
    Ok((found, until.saturating_duration_since(Instant::now())))
}

fn unresolved(name: &str, error: &NetError) -> Unresolved {
    match error {
        NetError::Timeout => Unresolved::Timeout,
        error if error.is_nx_domain() => Unresolved::NxDomain,
        error if error.is_no_records_found() => Unresolved::NoAddress,
        error => {
            tracing::debug!(name, %error, "a name server failed");
            Unresolved::ServerFailure
        }
    }
}

/// The addresses of a host, and until when they hold.
async fn addresses(
    resolver: &TokioResolver,
    host: &str,
    outer_only: bool,
) -> Result<(Vec<IpAddr>, Instant), Unresolved> {
    let found = resolver.lookup_ip(host).await.map_err(|error| unresolved(host, &error))?;
    let usable: Vec<_> = found.iter().filter(|address| !outer_only || !is_inner(*address)).collect();
    match usable.is_empty() {
        true if found.iter().next().is_some() => Err(Unresolved::InnerAddress),
        true => Err(Unresolved::NoAddress),
        false => Ok((usable, found.valid_until())),
    }
}

/// What the SRV records of a name lead to. A host that does not exist is left out; one of which nobody could say anything fails the whole question, since
/// its servers may be well.
async fn services(
    resolver: &TokioResolver,
    name: &Name,
    outer_only: bool,
) -> Result<(Vec<Found>, Instant), Unresolved> {
    let records = resolver.srv_lookup(&*name.name).await.map_err(|error| unresolved(&name.name, &error))?;
    let services = records.answers().iter().filter_map(|record| match &record.data {
        // A single dot says that there is no such service (RFC 2782).
        RData::SRV(service) if !service.target.is_root() && service.port != 0 => Some(service.clone()),
        _ => None,
    });
    let mut services: Vec<SRV> = services.collect();
    services.sort_by_key(|service| (service.priority, service.target.clone(), service.port));
    services.truncate(MOST_HOSTS);
    let mut asking = JoinSet::new();
    for service in services {
        let resolver = resolver.clone();
        asking.spawn_local(async move {
            let host = service.target.to_ascii();
            let found = addresses(&resolver, &host, outer_only).await;
            (service, host, found)
        });
    }
    let (mut all, mut until, mut without) = (Vec::new(), records.valid_until(), Unresolved::NoAddress);
    while let Some(asked) = asking.join_next().await {
        // A task of ours is never cancelled here.
        let Ok((service, host, found)) = asked else { return Err(Unresolved::ServerFailure) };
        match found {
            Ok((addresses, hold_until)) => {
                until = until.min(hold_until);
                let authority = format!("{}:{}", host.trim_end_matches('.'), service.port);
                all.extend(addresses.into_iter().map(|address| Found {
                    priority: service.priority,
                    address: SocketAddr::new(address, service.port),
                    weight: service.weight.max(1),
                    authority: Some(authority.clone()),
                }));
            }
            Err(Unresolved::Timeout | Unresolved::ServerFailure) => return Err(Unresolved::Timeout),
            Err(reason) => without = reason,
        }
    }
    if all.is_empty() { Err(without) } else { Ok((all, until)) }
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
