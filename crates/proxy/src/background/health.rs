//! Active health checks: a question to each server of a group that asks for them, on its own connection, over the
//! group's own protocol and TLS, or by a datagram.
//!
//! Owns when a server is asked and what follows of the answers. What is asked, and which answer is that of a healthy server: `probe.rs`.

mod probe;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{HealthCheck, Probe, ServerAddress, UpstreamProtocol};
use net::Deadline;

use crate::upstream::{Group, Server, Target, connect, speaks_http2};

/// How one server did lately.
#[derive(Debug, Clone, Copy, Default)]
struct History {
    /// Checks in a row with the same result.
    streak: u32,
    healthy: bool,
}

/// What one check found.
#[derive(Debug)]
pub struct Finding {
    server: Arc<Server>,
    group: Arc<Group>,
    healthy: bool,
}

/// Keeps count of checks. One per process.
#[derive(Debug, Default)]
pub struct Checks {
    due: HashMap<u64, Instant>,
    history: HashMap<u64, History>,
}

impl Checks {
    /// Starts every check that is due, each in a task of its own.
    pub fn start_due(&mut self, groups: &[Arc<Group>], findings: &tokio::sync::mpsc::UnboundedSender<Finding>) {
        let now = Instant::now();
        let mut live = HashMap::new();
        for group in groups {
            let Some(check) = &group.config.health else { continue };
            for server in &group.members().servers {
                let due = self.due.get(&server.id).copied().unwrap_or(now);
                if due > now {
                    live.insert(server.id, due);
                    continue;
                }
                live.insert(server.id, now + pause(check));
                let (group, server, findings) = (Arc::clone(group), Arc::clone(server), findings.clone());
                let check = check.clone();
                tokio::task::spawn_local(async move {
                    let healthy = is_healthy(&group, &server, &check).await;
                    let _ = findings.send(Finding { server, group, healthy });
                });
            }
        }
        self.history.retain(|server, _| live.contains_key(server));
        self.due = live;
    }

    /// Checks by what a check found; gives group, server and decision if the decision is new.
    pub fn note(&mut self, finding: &Finding) -> Option<(Arc<Group>, Arc<Server>, bool)> {
        let check = finding.group.config.health.as_ref()?;
        let history = self.history.entry(finding.server.id).or_default();
        if history.healthy == finding.healthy && history.streak > 0 {
            history.streak += 1;
        } else {
            *history = History { streak: 1, healthy: finding.healthy };
        }
        let wanted = if finding.healthy { check.rise } else { check.fall };
        let is_new = history.streak >= wanted && finding.server.set_healthy(finding.healthy);
        is_new.then(|| (Arc::clone(&finding.group), Arc::clone(&finding.server), finding.healthy))
    }
}

/// The time until the next check of a server.
fn pause(check: &HealthCheck) -> Duration {
    check.interval + check.jitter.mul_f64(fastrand::f64())
}

/// One check, which must be over in time.
async fn is_healthy(group: &Group, server: &Server, check: &HealthCheck) -> bool {
    Deadline::new().within(check.timeout, probe(group, server, check)).await.ok().flatten().is_some()
}

/// Asks a server what its check asks for; nothing unless that is the answer of a healthy one.
async fn probe(group: &Group, server: &Server, check: &HealthCheck) -> Option<()> {
    if let Probe::Datagram { send, expect } = &check.probe {
        return probe::datagram((group, server), check.port, (send, expect.as_ref())).await;
    }
    let target = Target { port: check.port, negotiates: true, ..Target::own(group, server) };
    let transport = connect(target).await.ok()?;
    let own = match server.address {
        // A socket's path is no authority (RFC 3986 §3.2), and strict servers reject it.
        ServerAddress::Unix(_) => "localhost",
        ServerAddress::Ip(_) | ServerAddress::Name(..) | ServerAddress::Service(_) | ServerAddress::Listed(_) => {
            &server.authority
        }
    };
    let scheme = if group.connector_to(server).is_some() { "https" } else { "http" };
    match (&check.probe, group.config.protocol) {
        (Probe::Connect | Probe::Datagram { .. }, _) => Some(()),
        (Probe::Exchange(steps), _) => probe::exchange(&transport, steps).await,
        (Probe::Grpc { service, host }, _) => {
            probe::grpc(transport, (scheme, host.as_deref().unwrap_or(own)), service).await
        }
        (Probe::Http(http), protocol) if protocol == UpstreamProtocol::Http2 || speaks_http2(&transport) => {
            probe::http2(transport, (scheme, http.host.as_deref().unwrap_or(own)), http).await
        }
        (Probe::Http(http), _) => probe::http1(&transport, http.host.as_deref().unwrap_or(own), http).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_added_to_the_interval_and_spreads_checks() {
        fastrand::seed(1);
        let check = |jitter| HealthCheck {
            probe: Probe::Connect,
            port: None,
            interval: Duration::from_secs(5),
            jitter,
            timeout: Duration::from_secs(1),
            fall: 1,
            rise: 1,
        };
        let pauses: Vec<_> = (0..100).map(|_| pause(&check(Duration::from_secs(2)))).collect();
        assert!(pauses.iter().all(|pause| (5.0..=7.0).contains(&pause.as_secs_f64())), "{pauses:?}");
        let early = pauses.iter().filter(|pause| pause.as_secs_f64() < 6.0).count();
        assert!((30..70).contains(&early), "{early} of 100 in the first half");
        assert_eq!(pause(&check(Duration::ZERO)), Duration::from_secs(5));
    }
}
